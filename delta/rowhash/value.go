package rowhash

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
)

// Marks of values. They are never given another meaning: tables keep sums.
const (
	markNull    byte = 0
	markBool    byte = 1
	markNumber  byte = 2 // scale, then 8 bytes
	markLarge   byte = 3 // scale, then 16 bytes: a number beyond 64 bits
	markDouble  byte = 4
	markText    byte = 5
	markBinary  byte = 6
	markInstant byte = 7
	markCivil   byte = 8 // a date, or a timestamp without zone: day, then microsecond of the day
	markVariant byte = 9
	markStruct  byte = 10
	markArray   byte = 11
	markMap     byte = 12
	markOther   byte = 255 // no value of its column's type; as it is
)

const microsOfDay = 24 * 60 * 60 * 1_000_000

// exact is below which every double that is an integer is the only one with its digits.
const exact = 1 << 53

// AppendValue appends the form of one value of a type. Forms that are put together can be
// told apart: none is the beginning of another one.
func AppendValue(dst []byte, t schema.Type, v schema.Value) []byte {
	if v.IsNull() {
		return append(dst, markNull)
	}
	if v.Kind != schema.KindOf(t) {
		return v.AppendEncoded(append(dst, markOther))
	}
	switch t.Primitive {
	case schema.Boolean:
		return append(dst, markBool, byte(v.I))
	case schema.Byte, schema.Short, schema.Integer, schema.Long:
		return appendNumber(dst, v.I, 0)
	case schema.FloatType:
		return appendDouble(dst, float64(v.Float32()))
	case schema.DoubleType:
		return appendDouble(dst, v.Float64())
	case schema.DecimalType:
		return appendDecimal(dst, v, t.Scale)
	case schema.StringType:
		return appendText(append(dst, markText), v.S)
	case schema.BinaryType:
		return appendText(append(dst, markBinary), v.S)
	case schema.Variant:
		return appendText(append(dst, markVariant), v.S)
	case schema.Date:
		return appendCivil(dst, v.I, 0)
	case schema.TimestampNTZ:
		day, rest := v.I/microsOfDay, v.I%microsOfDay
		if rest < 0 {
			day, rest = day-1, rest+microsOfDay
		}
		return appendCivil(dst, day, rest)
	case schema.Timestamp:
		return binary.BigEndian.AppendUint64(append(dst, markInstant), uint64(v.I))
	}
	return appendCompound(dst, t, v)
}

// AppendOrdered is AppendValue of another form, by whose bytes integers, decimals of one
// scale, dates and times sort as their values do. It is for sorting, and is never kept.
func AppendOrdered(dst []byte, t schema.Type, v schema.Value) []byte {
	at := len(dst)
	dst = AppendValue(dst, t, v)
	switch dst[at] {
	case markNumber, markLarge:
		dst[at+2] ^= 0x80 // behind the scale
	case markInstant, markCivil:
		dst[at+1] ^= 0x80
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendCivil(dst []byte, day, micros int64) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, markCivil), uint64(day))
	return binary.BigEndian.AppendUint64(dst, uint64(micros))
}

// appendNumber appends unscaled / 10^scale; where scale is not 0, the last digit is not.
func appendNumber(dst []byte, unscaled int64, scale uint8) []byte {
	return binary.BigEndian.AppendUint64(append(dst, markNumber, scale), uint64(unscaled))
}

func appendDouble(dst []byte, f float64) []byte {
	switch {
	case f != f:
		f = math.NaN()
	case f == math.Trunc(f) && math.Abs(f) < exact && (f != 0 || !math.Signbit(f)):
		return appendNumber(dst, int64(f), 0)
	}
	return binary.BigEndian.AppendUint64(append(dst, markDouble), math.Float64bits(f))
}

func appendDecimal(dst []byte, v schema.Value, scale uint8) []byte {
	if v.S == "" {
		n := v.I
		for ; scale > 0 && n%10 == 0; scale-- {
			n /= 10
		}
		return appendNumber(dst, n, scale)
	}
	n, rest, ten := v.Unscaled(), new(big.Int), big.NewInt(10)
	for ; scale > 0; scale-- {
		quotient := new(big.Int)
		if quotient.QuoRem(n, ten, rest); rest.Sign() != 0 {
			break
		}
		n = quotient
	}
	if n.IsInt64() {
		return appendNumber(dst, n.Int64(), scale)
	}
	large, ok := schema.DecimalValue(n)
	if !ok {
		return v.AppendEncoded(append(dst, markOther))
	}
	hi, lo := large.Unscaled128()
	dst = binary.BigEndian.AppendUint64(append(dst, markLarge, scale), uint64(hi))
	return binary.BigEndian.AppendUint64(dst, lo)
}

func appendCompound(dst []byte, t schema.Type, v schema.Value) []byte {
	parts := slices.Collect(v.Parts())
	switch {
	case t.Nested == nil:
		return v.AppendEncoded(append(dst, markOther))
	case t.Primitive == schema.Struct:
		return New(t.Nested.Fields, nil).Append(append(dst, markStruct), parts)
	case t.Primitive == schema.Array:
		dst = binary.AppendUvarint(append(dst, markArray), uint64(len(parts)))
		for _, p := range parts {
			dst = AppendValue(dst, t.Nested.Element, p)
		}
		return dst
	}
	entries := make([][]byte, 0, len(parts)/2)
	for i := 0; i+1 < len(parts); i += 2 {
		entry := AppendValue(nil, t.Nested.Key, parts[i])
		entries = append(entries, AppendValue(entry, t.Nested.Element, parts[i+1]))
	}
	slices.SortFunc(entries, bytes.Compare)
	dst = binary.AppendUvarint(append(dst, markMap), uint64(len(entries)))
	return append(dst, bytes.Join(entries, nil)...)
}
