package expr

import (
	"math"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// Bounds is what is known of a column in one file, before any deletion vector.
// The zero Bounds knows nothing.
type Bounds struct {
	// Min and Max enclose every value that is not NULL, NaN aside; NULL where
	// they are not known. A Max of text may be cut (see mayBeAbove).
	Min, Max schema.Value
	// NoNulls and AllNulls say that no row, or every row, is NULL.
	NoNulls, AllNulls bool
	// Exact says that every row holds Min, as a partition value does.
	Exact bool
}

// Value gives the Bounds of a column that holds one value, or NULL, in every row.
func Value(v schema.Value) Bounds {
	if v.IsNull() {
		return Bounds{AllNulls: true}
	}
	return Bounds{Min: v, Max: v, NoNulls: true, Exact: true}
}

// usable drops bounds of another kind than the values compared, and NaN.
func (b Bounds) usable(kind schema.Kind) Bounds {
	if b.Min.Kind != kind || isNaN(b.Min) {
		b.Min = schema.Value{}
	}
	if b.Max.Kind != kind || isNaN(b.Max) {
		b.Max = schema.Value{}
	}
	return b
}

func isNaN(v schema.Value) bool {
	switch v.Kind {
	case schema.Float:
		return math.IsNaN(float64(v.Float32()))
	case schema.Double:
		return math.IsNaN(v.Float64())
	}
	return false
}

func isFloat(v schema.Value) bool { return v.Kind == schema.Float || v.Kind == schema.Double }

// mayBeBelow reports whether a value below v is possible.
func (b Bounds) mayBeBelow(v schema.Value) bool {
	return b.Min.IsNull() || Compare(b.Min, v) < 0
}

// mayBeAbove reports whether a value above v is possible. Statistics of floats
// say nothing of NaN, which is above every number.
func (b Bounds) mayBeAbove(v schema.Value) bool {
	return b.Max.IsNull() || isFloat(v) || Compare(b.Max, v) > 0 || b.maxMayBeginLike(v)
}

// mayBe reports whether the value v is possible.
func (b Bounds) mayBe(v schema.Value) bool {
	if isNaN(v) {
		return true
	}
	aboveMin := b.Min.IsNull() || Compare(b.Min, v) <= 0
	belowMax := b.Max.IsNull() || Compare(b.Max, v) >= 0 || b.maxMayBeginLike(v)
	return aboveMin && belowMax
}

// allAre reports whether every value is v.
func (b Bounds) allAre(v schema.Value) bool {
	return !b.Min.IsNull() && !b.Max.IsNull() && !isFloat(v) &&
		Compare(b.Min, v) == 0 && Compare(b.Max, v) == 0 && !b.maxMayBeginLike(v)
}

// cutAt is the length in bytes from which a text Max may have been cut by a
// writer that did not raise it afterwards. No writer known cuts below 32 characters.
const cutAt = 32

// maxMayBeginLike reports whether Max may be the cut beginning of a longer text
// that is v, or above it.
func (b Bounds) maxMayBeginLike(v schema.Value) bool {
	if b.Max.Kind != schema.String && b.Max.Kind != schema.Binary {
		return false
	}
	return len(b.Max.S) >= cutAt && strings.HasPrefix(v.S, b.Max.S)
}
