package dv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/RoaringBitmap/roaring/v2"
)

// ErrCorrupt is wrapped by every error about bytes that are no deletion vector.
var ErrCorrupt = errors.New("deletion vector is corrupt")

// magic begins a serialized vector, little-endian.
const magic = 1681511377

// Bitmap is the dead rows of one data file. The zero value is not usable; make
// one with New. Not safe for concurrent use while it changes.
type Bitmap struct{ rows *roaring.Bitmap }

// New makes an empty bitmap.
func New() *Bitmap { return &Bitmap{roaring.New()} }

// Add marks a row dead.
func (b *Bitmap) Add(row uint32) { b.rows.Add(row) }

// AddMany marks rows dead; sorted rows are fastest.
func (b *Bitmap) AddMany(rows []uint32) { b.rows.AddMany(rows) }

// Or marks every row of other dead too.
func (b *Bitmap) Or(other *Bitmap) { b.rows.Or(other.rows) }

// Contains reports whether a row is dead.
func (b *Bitmap) Contains(row uint32) bool { return b.rows.Contains(row) }

// Cardinality is the number of dead rows.
func (b *Bitmap) Cardinality() int64 { return int64(b.rows.GetCardinality()) }

// Max gives the largest dead row; ok is false where there is none.
func (b *Bitmap) Max() (row uint32, ok bool) {
	if b.rows.IsEmpty() {
		return 0, false
	}
	return b.rows.Maximum(), true
}

// Clone copies the bitmap.
func (b *Bitmap) Clone() *Bitmap { return &Bitmap{b.rows.Clone()} }

// Rows gives the dead rows, ascending.
func (b *Bitmap) Rows() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		b.rows.Iterate(yield)
	}
}

// Marshal gives the serialized form: magic, then the portable 64-bit roaring
// format with at most one bucket.
func (b *Bitmap) Marshal() ([]byte, error) {
	b.rows.RunOptimize()
	buckets := uint64(1)
	if b.rows.IsEmpty() {
		buckets = 0
	}
	out := make([]byte, 0, 16+b.rows.GetSerializedSizeInBytes())
	out = binary.LittleEndian.AppendUint32(out, magic)
	out = binary.LittleEndian.AppendUint64(out, buckets)
	if buckets == 0 {
		return out, nil
	}
	out = binary.LittleEndian.AppendUint32(out, 0)
	body, err := b.rows.ToBytes()
	if err != nil {
		return nil, fmt.Errorf("serialize deletion vector: %w", err)
	}
	return append(out, body...), nil
}

// Unmarshal reads the serialized form. data is not kept. A vector with rows at
// or above 2^32 is refused: no data file has so many.
func Unmarshal(data []byte) (b *Bitmap, err error) {
	defer func() {
		if p := recover(); p != nil {
			b, err = nil, fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	if len(data) < 12 || binary.LittleEndian.Uint32(data) != magic {
		return nil, fmt.Errorf("%w: it does not begin with the magic number", ErrCorrupt)
	}
	buckets := binary.LittleEndian.Uint64(data[4:])
	rest := data[12:]
	out := New()
	for i := range buckets {
		if len(rest) < 4 {
			return nil, fmt.Errorf("%w: %d buckets announced, cut off in bucket %d", ErrCorrupt, buckets, i)
		}
		key := binary.LittleEndian.Uint32(rest)
		bitmap := roaring.New()
		n, err := bitmap.ReadFrom(bytes.NewReader(rest[4:]))
		if err != nil {
			return nil, fmt.Errorf("%w: bucket %d: %w", ErrCorrupt, i, err)
		}
		if err := bitmap.Validate(); err != nil && !bitmap.IsEmpty() {
			return nil, fmt.Errorf("%w: bucket %d: %w", ErrCorrupt, i, err)
		}
		if key != 0 && !bitmap.IsEmpty() {
			return nil, fmt.Errorf("%w: rows from 2^32 on", ErrCorrupt)
		}
		if key == 0 {
			out.rows.Or(bitmap)
		}
		rest = rest[4+n:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the last bucket", ErrCorrupt, len(rest))
	}
	return out, nil
}
