package rowhash

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
)

// Sum is SHA-256 of a row's form.
type Sum [sha256.Size]byte

// String gives 64 hexadecimal digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// Hasher makes forms and sums of rows that have the same columns. It is not safe for
// concurrent use: each goroutine makes its own.
type Hasher struct {
	columns []column // sorted by name
	buf     []byte
}

type column struct {
	place int
	name  []byte // with its length in front
	t     schema.Type
}

// New makes a Hasher of rows that have a cell for each of fields, in their order. Fields
// that do not count are left out by places: nil takes all.
func New(fields []schema.Field, places []int) *Hasher {
	h := &Hasher{}
	take := func(i int) {
		name := binary.AppendUvarint(nil, uint64(len(fields[i].Name)))
		h.columns = append(h.columns, column{place: i, name: append(name, fields[i].Name...), t: fields[i].Type})
	}
	if places == nil {
		for i := range fields {
			take(i)
		}
	}
	for _, i := range places {
		take(i)
	}
	slices.SortFunc(h.columns, func(a, b column) int {
		return cmp.Compare(fields[a.place].Name, fields[b.place].Name)
	})
	return h
}

// Sum gives the hash of a row. Cells that the row lacks at its end count as NULL.
func (h *Hasher) Sum(row []schema.Value) Sum {
	h.buf = h.Append(h.buf[:0], row)
	return sha256.Sum256(h.buf)
}

// Append appends the form of a row.
func (h *Hasher) Append(dst []byte, row []schema.Value) []byte {
	count := uint64(0)
	for i := range h.columns {
		if p := h.columns[i].place; p < len(row) && !row[p].IsNull() {
			count++
		}
	}
	dst = binary.AppendUvarint(dst, count)
	for i := range h.columns {
		c := &h.columns[i]
		if c.place < len(row) && !row[c.place].IsNull() {
			dst = append(dst, c.name...)
			dst = AppendValue(dst, c.t, row[c.place])
		}
	}
	return dst
}
