package scan

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gscd-io/gscd/delta/schema"
)

// A row of a run is its place (two uvarints) and its cells; a cell its kind (a
// byte) and, by kind, a varint of I, or a length and the bytes of S.

func appendRow(dst []byte, row sortRow) []byte {
	dst = binary.AppendUvarint(dst, uint64(row.place.file))
	dst = binary.AppendUvarint(dst, uint64(row.place.row))
	for i := range row.cells {
		v := &row.cells[i]
		kind := byte(v.Kind)
		if hasText(v.Kind) && v.S != "" {
			kind |= textBit
		}
		dst = append(dst, kind)
		switch {
		case kind&textBit != 0:
			dst = binary.AppendUvarint(dst, uint64(len(v.S)))
			dst = append(dst, v.S...)
		case v.Kind != schema.Null:
			dst = binary.AppendVarint(dst, v.I)
		}
	}
	return dst
}

// textBit marks a kind whose cell is held by S, not by I.
const textBit = 0x80

func hasText(k schema.Kind) bool {
	return k == schema.String || k == schema.Binary || k == schema.Dec || k == schema.Compound
}

// readRow fills a row; io.EOF only where there is no further one.
func readRow(in *bufio.Reader, row *sortRow) error {
	file, err := binary.ReadUvarint(in)
	if err != nil {
		return err
	}
	number, err := binary.ReadUvarint(in)
	if err != nil {
		return cutOff(err)
	}
	row.place = place{int(file), int64(number)}
	for i := range row.cells {
		kind, err := in.ReadByte()
		if err != nil {
			return cutOff(err)
		}
		v := schema.Value{Kind: schema.Kind(kind &^ textBit)}
		switch {
		case kind&textBit != 0:
			n, err := binary.ReadUvarint(in)
			if err != nil {
				return cutOff(err)
			}
			if n > 1<<31 {
				return fmt.Errorf("a text of %d bytes: the file was changed", n)
			}
			text := make([]byte, n)
			if _, err := io.ReadFull(in, text); err != nil {
				return cutOff(err)
			}
			v.S = string(text)
		case v.Kind != schema.Null:
			if v.I, err = binary.ReadVarint(in); err != nil {
				return cutOff(err)
			}
		}
		row.cells[i] = v
	}
	return nil
}

// cutOff makes the end of the file an error where a row has begun.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
