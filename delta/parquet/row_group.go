package parquet

import (
	"math"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/parquet-go/parquet-go/format"
)

// RowGroupBounds gives the bounds of a column in one row group, for
// ScanOptions.SkipRowGroup, or of a field inside of structs, which are named before it.
// What is not known, or known to be written wrongly by others, is left out. A column that
// the file does not have is NULL in every row.
func (f *File) RowGroupBounds(i int, path ...Column) stats.Bounds {
	n := f.root
	for at := range path {
		c := &path[at]
		if at > 0 && (n.leaf || n.repetition == format.Repeated || n.isCollection()) {
			return stats.Unknown
		}
		if n = n.find(c.Name, c.FieldID); n == nil || c.Type.Primitive == schema.Void {
			return stats.Bounds{NullCount: f.meta.RowGroups[i].NumRows}
		}
	}
	return f.leafBounds(i, n, path[len(path)-1].Type)
}

// leafBounds gives the bounds of a node read as a type.
func (f *File) leafBounds(i int, n *node, t schema.Type) stats.Bounds {
	g := &f.meta.RowGroups[i]
	b := stats.Unknown
	conv, err := converterOf(n, t)
	if err != nil {
		return b
	}
	s := &g.Columns[n.index].MetaData.Statistics
	// The metadata struct has no "absent" for counts: 0 is believed only where
	// there are bounds beside it, or the writer is us.
	if s.NullCount > 0 && s.NullCount <= g.NumRows || s.MinValue != nil || f.meta.CreatedBy == createdBy {
		b.NullCount = s.NullCount
	}
	if s.MinValue == nil || s.MaxValue == nil || f.distrusts(n) {
		return b
	}
	if low, high, ok := f.boundsOf(n, conv, s.MinValue, s.MaxValue); ok {
		b.Min, b.Max = low, high
	}
	return b
}

// boundsOf decodes bounds of the metadata. ok is false where they are none.
func (f *File) boundsOf(n *node, conv converter, rawLow, rawHigh []byte) (low, high schema.Value, ok bool) {
	low, ok1 := f.bound(n, conv, rawLow)
	high, ok2 := f.bound(n, conv, rawHigh)
	if !ok1 || !ok2 || schema.Compare(low, high) > 0 {
		return low, high, false
	}
	switch low.Kind { // writers disagree on the sign of a zero
	case schema.Float:
		if low.Float32() == 0 {
			low = schema.FloatValue(float32(math.Copysign(0, -1)))
		}
		if high.Float32() == 0 {
			high = schema.FloatValue(0)
		}
	case schema.Double:
		if low.Float64() == 0 {
			low = schema.DoubleValue(math.Copysign(0, -1))
		}
		if high.Float64() == 0 {
			high = schema.DoubleValue(0)
		}
	}
	return low, high, true
}

// distrusts tells of bounds in an order that is not the type's: the time stamp
// of INT96 has none, and parquet-go compared decimals in bytes as unsigned.
func (f *File) distrusts(n *node) bool {
	_, _, isDecimal := n.decimal()
	return n.physical == format.Int96 || n.isUnsigned() ||
		isDecimal && n.physical >= format.ByteArray && strings.Contains(f.meta.CreatedBy, "parquet-go")
}

// bound decodes one PLAIN value of the metadata. NaN is no bound.
func (f *File) bound(n *node, conv converter, raw []byte) (v schema.Value, ok bool) {
	one := values{}
	if n.physical >= format.ByteArray {
		if n.physical == format.FixedLenByteArray && len(raw) != n.width {
			return v, false
		}
		one.strs = []string{string(raw)}
	} else {
		c := chunkReader{leaf: n}
		if c.decodePlain(&one, raw, 1) != nil {
			return v, false
		}
	}
	dst := []schema.Value{{}}
	if conv.cells(dst, &one) != nil {
		return v, false
	}
	v = dst[0]
	if v.Kind == schema.Float && v.Float32() != v.Float32() || v.Kind == schema.Double && v.Float64() != v.Float64() {
		return v, false
	}
	return v, true
}
