package scan

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gscd-io/gscd/delta/spill"
)

// A row of a run is its length, its place (two uvarints) and its cells.

func appendRow(dst []byte, row sortRow) []byte {
	dst = binary.AppendUvarint(dst, uint64(row.place.file))
	dst = binary.AppendUvarint(dst, uint64(row.place.row))
	return spill.AppendCells(dst, row.cells)
}

// readRow fills a row, with buf as its room; io.EOF only where there is no further one.
func readRow(in *bufio.Reader, buf []byte, row *sortRow) ([]byte, error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return buf, err
	}
	if size > 1<<31 {
		return buf, fmt.Errorf("a row of %d bytes: the file was changed", size)
	}
	buf = slices.Grow(buf[:0], int(size))[:size]
	if _, err := io.ReadFull(in, buf); err != nil {
		return buf, cutOff(err)
	}
	file, n := binary.Uvarint(buf)
	number, m := binary.Uvarint(buf[max(n, 0):])
	if n <= 0 || m <= 0 {
		return buf, io.ErrUnexpectedEOF
	}
	row.place = place{int(file), int64(number)}
	return buf, spill.ReadCells(buf[n+m:], row.cells)
}

// cutOff makes the end of the file an error where a row has begun.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
