package spill

import (
	"encoding/binary"
	"errors"

	"github.com/gscd-io/gscd/delta/schema"
)

// textBit marks a kind whose cell is held by S, not by I.
const textBit = 0x80

// AppendCells appends the cells of a row: of each its kind (a byte) and, by kind, a
// varint of I, or a length and the bytes of S.
func AppendCells(dst []byte, cells []schema.Value) []byte {
	for i := range cells {
		v := &cells[i]
		switch {
		case v.S != "":
			dst = append(dst, byte(v.Kind)|textBit)
			dst = binary.AppendUvarint(dst, uint64(len(v.S)))
			dst = append(dst, v.S...)
		case v.Kind == schema.Null:
			dst = append(dst, byte(v.Kind))
		default:
			dst = append(dst, byte(v.Kind))
			dst = binary.AppendVarint(dst, v.I)
		}
	}
	return dst
}

var errCutOff = errors.New("a row is cut off: the file was changed")

// ReadCells reads what AppendCells wrote of as many cells. Their texts are copies.
func ReadCells(raw []byte, cells []schema.Value) error {
	for i := range cells {
		if len(raw) == 0 {
			return errCutOff
		}
		kind := raw[0]
		raw = raw[1:]
		v := schema.Value{Kind: schema.Kind(kind &^ textBit)}
		switch {
		case kind&textBit != 0:
			size, n := binary.Uvarint(raw)
			if n <= 0 || size > uint64(len(raw)-n) {
				return errCutOff
			}
			v.S = string(raw[n : n+int(size)])
			raw = raw[n+int(size):]
		case v.Kind != schema.Null:
			number, n := binary.Varint(raw)
			if n <= 0 {
				return errCutOff
			}
			v.I, raw = number, raw[n:]
		}
		cells[i] = v
	}
	return nil
}
