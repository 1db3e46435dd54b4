package parquet

import (
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/format"
)

var (
	// ErrColumnType is wrapped where a column of a file can't be read as the type asked for.
	ErrColumnType = errors.New("column of another type")
	// ErrNestedColumn is wrapped where a column asked for as a leaf is a struct,
	// list or map in the file, or one is asked for where only leaves are read.
	ErrNestedColumn = errors.New("nested column")
)

// converter turns what a leaf's pages hold into cells of a type. Where a
// function is nil the number or string is the cell's own.
type converter struct {
	kind schema.Kind
	ints func(int64) (schema.Value, error)
	strs func(string) (schema.Value, error)
}

// converterOf reads a leaf as a type: itself, or one it widens to (Delta
// protocol, "Type Widening"), in every physical form writers have used.
func converterOf(n *node, t schema.Type) (converter, error) {
	if !t.IsLeaf() {
		return converter{}, fmt.Errorf("%w: %q is read as a %s", ErrNestedColumn, n.name, t)
	}
	if !n.leaf || n.repetition == format.Repeated {
		return converter{}, fmt.Errorf("%w: %q", ErrNestedColumn, n.name)
	}
	return leafConverter(n, t)
}

// leafConverter is converterOf for a leaf at any depth.
func leafConverter(n *node, t schema.Type) (converter, error) {
	c := converter{kind: schema.KindOf(t)}
	ok := false
	integer := n.physical == format.Int32 || n.physical == format.Int64
	_, _, isDecimal := n.decimal()
	perSecond, _, isTimestamp := n.timestampUnit()
	plain := integer && !isDecimal && !isTimestamp && !n.isDate()
	switch t.Primitive {
	case schema.Boolean:
		ok = n.physical == format.Boolean
	case schema.Byte, schema.Short, schema.Integer, schema.Long:
		ok = plain && (n.physical == format.Int32 || t.Primitive == schema.Long)
		c.integers(n, t)
	case schema.Date:
		ok = n.physical == format.Int32 && !isDecimal
	case schema.Timestamp, schema.TimestampNTZ:
		switch {
		case n.physical == format.Int96:
			ok = true
		case n.physical == format.Int64 && (isTimestamp || plain):
			ok = true
			if isTimestamp && perSecond != 1e6 {
				c.ints = func(v int64) (schema.Value, error) { return schema.IntValue(toMicros(v, perSecond)), nil }
			}
		case n.isDate() && t.Primitive == schema.TimestampNTZ:
			ok = true
			c.ints = func(days int64) (schema.Value, error) { return schema.IntValue(days * 86_400_000_000), nil }
		}
	case schema.FloatType:
		ok = n.physical == format.Float
		c.ints = func(b int64) (schema.Value, error) {
			return schema.Value{Kind: schema.Float, I: b & math.MaxUint32}, nil
		}
	case schema.DoubleType:
		switch {
		case n.physical == format.Double:
			ok = true
		case n.physical == format.Float:
			ok = true
			c.ints = func(b int64) (schema.Value, error) { return schema.DoubleValue(floatOf(format.Float, b)), nil }
		case plain && n.physical == format.Int32:
			ok = true
			c.ints = func(v int64) (schema.Value, error) { return schema.DoubleValue(float64(v)), nil }
		}
	case schema.DecimalType:
		ok = c.decimals(n, t)
	case schema.StringType:
		ok = n.physical == format.ByteArray && !isDecimal
	case schema.BinaryType:
		ok = n.physical >= format.ByteArray && !isDecimal
	}
	if !ok {
		return c, fmt.Errorf("%w: %q is %s, it can't be read as %s", ErrColumnType, n.name, n, t)
	}
	return c, nil
}

// integers checks values that a file could hold beyond the type asked for.
func (c *converter) integers(n *node, t schema.Type) {
	low, high := intRange(t)
	unsigned := n.isUnsigned()
	if !unsigned && (t.Primitive == schema.Long || t.Primitive == schema.Integer) {
		return
	}
	c.ints = func(v int64) (schema.Value, error) {
		if unsigned && n.physical == format.Int32 {
			v = int64(uint32(v))
		}
		if v < low || v > high || unsigned && v < 0 {
			return schema.Value{}, fmt.Errorf("%w: %q holds %d, it can't be read as %s", ErrColumnType, n.name, v, t)
		}
		return schema.IntValue(v), nil
	}
}

// decimals reads decimals of any form, and integers as decimals. The scale may
// grow, never shrink.
func (c *converter) decimals(n *node, t schema.Type) bool {
	_, scale, isDecimal := n.decimal()
	if n.physical == format.Boolean || n.physical == format.Int96 || n.physical == format.Float || n.physical == format.Double {
		return false
	}
	if !isDecimal {
		_, _, isTimestamp := n.timestampUnit()
		if n.physical >= format.ByteArray || isTimestamp || n.isDate() || n.isUnsigned() {
			return false
		}
	}
	if scale < 0 || scale > int32(t.Scale) {
		return false
	}
	precision, factor := t.Precision, int(int32(t.Scale)-scale)
	widen := func(v schema.Value) (schema.Value, error) {
		if factor > 0 {
			scaled := new(big.Int).Mul(v.Unscaled(), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(factor)), nil))
			var fits bool
			if v, fits = schema.DecimalValue(scaled); !fits {
				return v, corrupt("%q holds a decimal of more than 38 digits", n.name)
			}
		}
		if !fitsDecimal(v, precision) {
			return v, fmt.Errorf("%w: %q holds %s, it can't be read as %s", ErrColumnType, n.name, v.DecimalText(t.Scale), t)
		}
		return v, nil
	}
	c.ints = func(i int64) (schema.Value, error) { return widen(schema.Value{Kind: schema.Dec, I: i}) }
	c.strs = func(s string) (schema.Value, error) {
		v, ok := decimalOfBytes(s)
		if !ok {
			return v, corrupt("%q holds a decimal of %d bytes", n.name, len(s))
		}
		return widen(v)
	}
	return true
}

// cells converts values into dst, which has their number.
func (c *converter) cells(dst []schema.Value, v *values) error {
	switch {
	case len(dst) == 0:
	case v.strs != nil && c.strs == nil:
		for i, s := range v.strs[:len(dst)] {
			dst[i] = schema.Value{Kind: c.kind, S: s}
		}
	case v.strs != nil:
		for i, s := range v.strs[:len(dst)] {
			cell, err := c.strs(s)
			if err != nil {
				return err
			}
			dst[i] = cell
		}
	case c.ints == nil:
		for i, n := range v.ints[:len(dst)] {
			dst[i] = schema.Value{Kind: c.kind, I: n}
		}
	default:
		for i, n := range v.ints[:len(dst)] {
			cell, err := c.ints(n)
			if err != nil {
				return err
			}
			dst[i] = cell
		}
	}
	return nil
}

// floatOf gives the number of the bits of a FLOAT or DOUBLE.
func floatOf(physical format.Type, bits int64) float64 {
	if physical == format.Float {
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(uint64(bits))
}

// toMicros converts a time of so many units a second, rounding down; what does
// not fit saturates.
func toMicros(v, perSecond int64) int64 {
	switch perSecond {
	case 1e3:
		if v > math.MaxInt64/1000 {
			return math.MaxInt64
		} else if v < math.MinInt64/1000 {
			return math.MinInt64
		}
		return v * 1000
	case 1e9:
		q := v / 1000
		if v%1000 < 0 {
			q--
		}
		return q
	}
	return v
}

// decimalOfBytes reads big-endian two's complement of any length; ok is false
// where the number needs more than 128 bits.
func decimalOfBytes(s string) (v schema.Value, ok bool) {
	if s == "" {
		return schema.Value{Kind: schema.Dec}, true
	}
	fill := byte(int8(s[0]) >> 7)
	for len(s) > 16 {
		if s[0] != fill || s[1]&0x80 != fill&0x80 {
			return schema.Value{}, false
		}
		s = s[1:]
	}
	var hi, lo uint64
	if fill != 0 {
		hi, lo = math.MaxUint64, math.MaxUint64
	}
	for i := range len(s) {
		hi = hi<<8 | lo>>56
		lo = lo<<8 | uint64(s[i])
	}
	return decimal128(int64(hi), lo), true
}
