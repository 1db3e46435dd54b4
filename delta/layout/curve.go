package layout

import (
	"math/bits"
	"sort"

	"github.com/gscd-io/gscd/delta/schema"
)

// Curve puts points of several dimensions into one order in which near points are
// mostly near each other.
type Curve string

// The curves. Both need the same time; the Hilbert curve makes no jumps, so the
// files of a range are fewer with it where several columns are asked for at once.
const (
	ZOrder  Curve = "zorder"
	Hilbert Curve = "hilbert"
)

// maxRankBits bounds the bits of a rank: finer than the sample it would tell nothing.
const maxRankBits = 16

// rankBits is how many bits each of n columns has in a key.
func rankBits(n int) int { return min(maxRankBits, 64/n) }

// key gives the place of a point on the curve. Each coordinate has so many bits, and
// all of them together 64 at most. point is used up.
func (c Curve) key(point []uint32, bitsEach int) uint64 {
	if len(point) == 1 {
		return uint64(point[0])
	}
	if c == Hilbert {
		transposeHilbert(point, bitsEach)
	}
	return interleave(point, bitsEach)
}

// interleave takes the bits of the coordinates in turn, the highest first.
func interleave(point []uint32, bitsEach int) (key uint64) {
	for b := bitsEach - 1; b >= 0; b-- {
		for _, x := range point {
			key = key<<1 | uint64(x>>b&1)
		}
	}
	return key
}

// transposeHilbert turns coordinates into the place on the Hilbert curve, its bits
// dealt to the dimensions in turn (J. Skilling, "Programming the Hilbert curve", 2004).
func transposeHilbert(x []uint32, bitsEach int) {
	n := len(x)
	top := uint32(1) << (bitsEach - 1)
	for q := top; q > 1; q >>= 1 {
		p := q - 1
		for i := range n {
			if x[i]&q != 0 {
				x[0] ^= p
			} else {
				t := (x[0] ^ x[i]) & p
				x[0] ^= t
				x[i] ^= t
			}
		}
	}
	for i := 1; i < n; i++ {
		x[i] ^= x[i-1]
	}
	t := uint32(0)
	for q := top; q > 1; q >>= 1 {
		if x[n-1]&q != 0 {
			t ^= q - 1
		}
	}
	for i := range n {
		x[i] ^= t
	}
}

// ranks turns values of a column into numbers of some bits, by the share of a sample
// that is below them. NULL is 0, below all.
type ranks struct {
	sorted []schema.Value
	bits   int
}

// newRanks makes ranks by a sample of values that are not NULL, which it sorts.
func newRanks(sample []schema.Value, bitsEach int) *ranks {
	sort.Slice(sample, func(i, j int) bool { return schema.Compare(sample[i], sample[j]) < 0 })
	return &ranks{sorted: sample, bits: bitsEach}
}

func (r *ranks) of(v schema.Value) uint32 {
	if v.IsNull() || len(r.sorted) == 0 {
		return 0
	}
	below := sort.Search(len(r.sorted), func(i int) bool { return schema.Compare(r.sorted[i], v) >= 0 })
	top := uint64(1)<<r.bits - 2 // beside 0
	hi, lo := bits.Mul64(uint64(below), top)
	q, _ := bits.Div64(hi, lo, uint64(len(r.sorted)))
	return 1 + uint32(q)
}
