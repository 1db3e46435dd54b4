package dv

import (
	"fmt"
	"iter"

	"github.com/RoaringBitmap/roaring/v2"
)

// Bitmap is a set of row positions of one file. The zero Bitmap is not usable;
// see New. It is not safe for concurrent use with a call that changes it.
type Bitmap struct{ set *roaring.Bitmap }

// New makes an empty bitmap.
func New() *Bitmap { return &Bitmap{roaring.New()} }

// Of makes a bitmap of rows.
func Of(rows ...uint32) *Bitmap { return &Bitmap{roaring.BitmapOf(rows...)} }

// Add adds a row.
func (b *Bitmap) Add(row uint32) { b.set.Add(row) }

// AddMany adds rows; it is fast where they are sorted.
func (b *Bitmap) AddMany(rows []uint32) { b.set.AddMany(rows) }

// AddRange adds the rows from (included) to (excluded).
func (b *Bitmap) AddRange(from, to uint32) { b.set.AddRange(uint64(from), uint64(to)) }

// Contains reports whether a row is deleted.
func (b *Bitmap) Contains(row uint32) bool { return b.set.Contains(row) }

// Cardinality gives the number of rows.
func (b *Bitmap) Cardinality() int64 { return int64(b.set.GetCardinality()) }

// IsEmpty reports whether there is no row.
func (b *Bitmap) IsEmpty() bool { return b.set.IsEmpty() }

// Max gives the greatest row; ok is false where there is none.
func (b *Bitmap) Max() (row uint32, ok bool) {
	if b.set.IsEmpty() {
		return 0, false
	}
	return b.set.Maximum(), true
}

// Or adds the rows of another bitmap.
func (b *Bitmap) Or(o *Bitmap) { b.set.Or(o.set) }

// AndNot removes the rows of another bitmap.
func (b *Bitmap) AndNot(o *Bitmap) { b.set.AndNot(o.set) }

// OrShifted adds the rows of another bitmap, each moved up by offset: what a
// file's vector becomes where its rows are copied behind others. Rows that
// would pass 2^32 give an error and b stays as it was.
func (b *Bitmap) OrShifted(o *Bitmap, offset int64) error {
	largest, ok := o.Max()
	if !ok {
		return nil
	}
	if offset < 0 || offset+int64(largest) >= 1<<32 {
		return fmt.Errorf("move rows up to %d by %d: a file has fewer than 2^32 rows", largest, offset)
	}
	b.set.Or(roaring.AddOffset64(o.set, offset))
	return nil
}

// Clone gives a copy.
func (b *Bitmap) Clone() *Bitmap { return &Bitmap{b.set.Clone()} }

// Equal reports whether two bitmaps hold the same rows.
func (b *Bitmap) Equal(o *Bitmap) bool { return b.set.Equals(o.set) }

// Rows gives the rows in ascending order. The bitmap must not change meanwhile.
func (b *Bitmap) Rows() iter.Seq[uint32] { return roaring.Values(b.set) }

// CountRange gives the number of rows from (included) to (excluded).
func (b *Bitmap) CountRange(from, to int64) int64 {
	from, to = max(from, 0), min(to, 1<<32)
	if from >= to {
		return 0
	}
	return int64(b.set.CardinalityInRange(uint64(from), uint64(to)))
}
