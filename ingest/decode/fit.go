package decode

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// ErrFit is wrapped by the errors of Fit.
var ErrFit = errors.New("the value does not fit the column")

// TypeOf gives the type that a new column gets from its first cell, when the
// records carry no types: integers long, past 64 bits decimal(20,0), of 21 to
// 38 digits decimal(38,0) and beyond that string; other numbers double; strings
// string; booleans boolean. NULL, Unavailable and decimals (whose scale is the
// column's) give schema.Unknown.
func TypeOf(v schema.Value) schema.Type {
	switch v.Kind {
	case schema.Int:
		return schema.Of(schema.Long)
	case schema.Number:
		digits := strings.TrimPrefix(v.S, "-")
		switch {
		case !allDigits(digits):
			return schema.Of(schema.DoubleType)
		case len(digits) <= 20:
			return schema.Decimal(20, 0)
		case len(digits) <= maxDigits:
			return schema.Decimal(maxDigits, 0)
		}
		return schema.Of(schema.StringType)
	case schema.String:
		return schema.Of(schema.StringType)
	case schema.Bool:
		return schema.Of(schema.Boolean)
	case schema.Float:
		return schema.Of(schema.FloatType)
	case schema.Double:
		return schema.Of(schema.DoubleType)
	case schema.Binary:
		return schema.Of(schema.BinaryType)
	}
	return schema.Type{}
}

// Fit makes a decoded cell of type from (schema.Unknown for a cell of a record
// without types) a cell of a column of type to. NULL and Unavailable fit
// everything. What can't be carried over with every digit and its meaning is
// an error that wraps ErrFit:
//
//   - integers fit integers that are wide enough, decimals, and floats that
//     hold them exactly; 0 and 1 fit booleans, booleans fit integers;
//   - decimals and JSON numbers fit decimals and integers if no digit is lost;
//     a JSON number with a fraction or exponent fits floats as the nearest one;
//   - float fits double, and double float where it is the same number;
//   - strings fit decimals, dates, timestamps (with zone) and timestamp_ntz
//     (without) as MySQL and ISO 8601 write them; a zero date is NULL;
//   - numbers and untyped booleans fit strings as their exact text.
//
// Dates, timestamps and binary fit their own type only.
func Fit(v schema.Value, from, to schema.Type) (schema.Value, error) {
	if v.Kind == schema.Null || v.Kind == schema.Unavailable {
		return v, nil
	}
	if v.Kind == AsIs(from, to) {
		return v, nil // what most cells of records without types are
	}
	if from == to && from.Primitive != schema.Unknown && from.IsLeaf() {
		return v, nil
	}
	out, err := fit(v, from, to)
	if err != nil {
		return schema.Value{}, fmt.Errorf("%w of type %s: %w", ErrFit, to, err)
	}
	return out, nil
}

// AsIs gives the kind whose cells of type from fit a column of type to as they are, whatever
// their value; NULL where Fit must look at each.
func AsIs(from, to schema.Type) schema.Kind {
	switch {
	case to.Primitive == schema.StringType:
		return schema.String
	case to.Primitive == schema.Long && isInteger(from):
		return schema.Int
	}
	return schema.Null
}

var errKind = errors.New("another kind of value")

// isInteger reports whether an Int cell of the type is a number, not a time.
func isInteger(from schema.Type) bool {
	switch from.Primitive {
	case schema.Unknown, schema.Byte, schema.Short, schema.Integer, schema.Long:
		return true
	}
	return false
}

func fit(v schema.Value, from, to schema.Type) (schema.Value, error) {
	if v.Kind == schema.Int && !isInteger(from) {
		return v, fmt.Errorf("%w: a %s", errKind, from)
	}
	switch to.Primitive {
	case schema.Boolean:
		if v.Kind == schema.Bool {
			return v, nil
		}
		if v.Kind == schema.Int && uint64(v.I) <= 1 {
			return schema.BoolValue(v.I == 1), nil
		}
	case schema.Byte:
		return fitInteger(v, from, math.MinInt8, math.MaxInt8)
	case schema.Short:
		return fitInteger(v, from, math.MinInt16, math.MaxInt16)
	case schema.Integer:
		return fitInteger(v, from, math.MinInt32, math.MaxInt32)
	case schema.Long:
		return fitInteger(v, from, math.MinInt64, math.MaxInt64)
	case schema.FloatType, schema.DoubleType:
		return fitFloat(v, from, to)
	case schema.DecimalType:
		return fitDecimal(v, from, to)
	case schema.StringType:
		return fitString(v, from)
	case schema.BinaryType:
		if v.Kind == schema.Binary {
			return v, nil
		}
	case schema.Date:
		if v.Kind == schema.String {
			days, zero, err := parseDate(v.S)
			if zero || err != nil {
				return schema.Value{}, err
			}
			return schema.IntValue(days), nil
		}
	case schema.Timestamp, schema.TimestampNTZ:
		if v.Kind == schema.String {
			return timeText(v.S, to)
		}
	}
	return v, errKind
}

// wholeText reads a number's text, however written, as an integer of 64 bits.
func wholeText(s string) (int64, error) {
	v, err := parseDecimal(s, 19, 0, nil)
	if err != nil {
		return 0, err
	}
	if v.S != "" {
		return 0, errLarge
	}
	return v.I, nil
}

func fitInteger(v schema.Value, from schema.Type, lo, hi int64) (schema.Value, error) {
	var n int64
	var err error
	switch v.Kind {
	case schema.Int, schema.Bool:
		n = v.I
	case schema.Number:
		n, err = wholeText(v.S)
	case schema.Dec:
		n, err = wholeText(v.DecimalText(from.Scale))
	default:
		return v, errKind
	}
	switch {
	case err != nil:
		return v, err
	case n < lo:
		return v, errSmall
	case n > hi:
		return v, errLarge
	}
	return schema.IntValue(n), nil
}

var errInexact = errors.New("digits would be lost")

// fitFloat gives the float that the value is; the nearest one only for the
// text of a number with fraction or exponent, which is how floats are written.
func fitFloat(v schema.Value, from, to schema.Type) (schema.Value, error) {
	width := 64
	if to.Primitive == schema.FloatType {
		width = 32
	}
	s := ""
	switch v.Kind {
	case schema.Int:
		s = strconv.FormatInt(v.I, 10)
	case schema.Number:
		s = v.S
	case schema.Dec:
		s = v.DecimalText(from.Scale)
	case schema.Float:
		return floatValue(float64(v.Float32()), width), nil
	case schema.Double:
		if f := v.Float64(); width == 64 || float64(float32(f)) == f || math.IsNaN(f) {
			return floatValue(f, width), nil
		}
		return v, errInexact
	default:
		return v, errKind
	}
	f, err := strconv.ParseFloat(s, width)
	if err != nil {
		return v, errLarge
	}
	if v.Kind != schema.Number || allDigits(strings.TrimPrefix(s, "-")) {
		exact, ok := new(big.Rat).SetString(s)
		if !ok || new(big.Rat).SetFloat64(f).Cmp(exact) != 0 {
			return v, errInexact
		}
	}
	return floatValue(f, width), nil
}

func floatValue(f float64, width int) schema.Value {
	if width == 32 {
		return schema.FloatValue(float32(f))
	}
	return schema.DoubleValue(f)
}

func fitDecimal(v schema.Value, from, to schema.Type) (schema.Value, error) {
	precision, scale := int(to.Precision), int(to.Scale)
	switch v.Kind {
	case schema.Int:
		if scale == 0 && precision >= 19 {
			return schema.Value{Kind: schema.Dec, I: v.I}, nil
		}
		var room [20]byte
		return parseDecimal(view(strconv.AppendInt(room[:0], v.I, 10)), precision, scale, nil)
	case schema.Number, schema.String:
		return parseDecimal(v.S, precision, scale, nil)
	case schema.Dec:
		if from.Scale == to.Scale && from.Precision <= to.Precision {
			return v, nil
		}
		return parseDecimal(v.DecimalText(from.Scale), precision, scale, nil)
	}
	return v, errKind
}

func fitString(v schema.Value, from schema.Type) (schema.Value, error) {
	switch v.Kind {
	case schema.String:
		return v, nil
	case schema.Number:
		return schema.StringValue(v.S), nil
	case schema.Int:
		return schema.StringValue(strconv.FormatInt(v.I, 10)), nil
	case schema.Dec:
		return schema.StringValue(v.DecimalText(from.Scale)), nil
	case schema.Bool:
		if from.Primitive == schema.Unknown {
			return schema.StringValue(strconv.FormatBool(v.I == 1)), nil
		}
	}
	return v, errKind
}
