package schema

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"
)

// Kind says how a Value holds its cell.
type Kind uint8

// The kinds. Number and Unavailable occur in decoded records only, never in a table.
const (
	Null Kind = iota
	// Bool: I is 0 or 1.
	Bool
	// Int: I holds a byte, short, integer, long, a date (days since 1970-01-01)
	// or a timestamp (microseconds since 1970-01-01T00:00:00, UTC or without zone).
	Int
	// Float: the low 32 bits of I are math.Float32bits.
	Float
	// Double: I is math.Float64bits.
	Double
	// Dec: the unscaled integer; in I where it fits and S is empty, else in S as
	// 16 bytes of big-endian two's complement.
	Dec
	// String: S, UTF-8.
	String
	// Binary: S, any bytes.
	Binary
	// Number: S is the text of a JSON number that is no int64; its column's type is not known yet.
	Number
	// Unavailable: the source did not send the value and the row keeps what it has.
	Unavailable
	// Compound: S holds the parts of a struct (a cell for each field, in order), an
	// array (its elements) or a map (key, value, key, value, ...), each as
	// AppendEncoded has it. See CompoundValue and Parts.
	Compound
)

// Value is one cell. The zero Value is NULL. S may point into an arena: who
// keeps a Value longer than the arena copies S.
type Value struct {
	S    string
	I    int64
	Kind Kind
}

// Constructors.
func NullValue() Value { return Value{} }
func BoolValue(b bool) Value {
	v := Value{Kind: Bool}
	if b {
		v.I = 1
	}
	return v
}
func IntValue(i int64) Value      { return Value{Kind: Int, I: i} }
func FloatValue(f float32) Value  { return Value{Kind: Float, I: int64(math.Float32bits(f))} }
func DoubleValue(f float64) Value { return Value{Kind: Double, I: int64(math.Float64bits(f))} }
func StringValue(s string) Value  { return Value{Kind: String, S: s} }
func BinaryValue(s string) Value  { return Value{Kind: Binary, S: s} }

// DecimalValue makes a decimal of an unscaled integer; ok is false where it
// needs more than 38 digits.
func DecimalValue(unscaled *big.Int) (v Value, ok bool) {
	if unscaled.IsInt64() {
		return Value{Kind: Dec, I: unscaled.Int64()}, true
	}
	if unscaled.CmpAbs(maxDecimal) > 0 {
		return Value{}, false
	}
	var buf [16]byte
	n := unscaled
	if unscaled.Sign() < 0 {
		n = new(big.Int).Add(unscaled, twoTo128)
	}
	n.FillBytes(buf[:])
	return Value{Kind: Dec, S: string(buf[:])}, true
}

var (
	twoTo128   = new(big.Int).Lsh(big.NewInt(1), 128)
	maxDecimal = new(big.Int).Sub(new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil), big.NewInt(1))
)

// IsNull reports whether the cell is NULL.
func (v Value) IsNull() bool { return v.Kind == Null }

// Float32 and Float64 give the number of a Float and a Double value.
func (v Value) Float32() float32 { return math.Float32frombits(uint32(v.I)) }
func (v Value) Float64() float64 { return math.Float64frombits(uint64(v.I)) }

// Unscaled gives the integer of a decimal as a new big.Int.
func (v Value) Unscaled() *big.Int {
	if v.S == "" {
		return big.NewInt(v.I)
	}
	n := new(big.Int).SetBytes([]byte(v.S))
	if v.S[0]&0x80 != 0 {
		n.Sub(n, twoTo128)
	}
	return n
}

// Unscaled128 gives the integer of a decimal as two words of two's complement.
func (v Value) Unscaled128() (hi int64, lo uint64) {
	if v.S == "" {
		return v.I >> 63, uint64(v.I)
	}
	var b [16]byte
	copy(b[:], v.S)
	return int64(binary.BigEndian.Uint64(b[:8])), binary.BigEndian.Uint64(b[8:])
}

// DecimalText prints a decimal with the given scale and every digit: "-0.10".
func (v Value) DecimalText(scale uint8) string {
	text := v.Unscaled().String()
	if scale == 0 {
		return text
	}
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	if pad := int(scale) + 1 - len(text); pad > 0 {
		text = strings.Repeat("0", pad) + text
	}
	cut := len(text) - int(scale)
	return sign + text[:cut] + "." + text[cut:]
}

// KindOf gives the Kind of the non-NULL values of a type. Unknown gives Null, as
// Void does, which has none; a Variant is the text of its JSON.
func KindOf(t Type) Kind {
	switch t.Primitive {
	case Boolean:
		return Bool
	case Byte, Short, Integer, Long, Date, Timestamp, TimestampNTZ:
		return Int
	case FloatType:
		return Float
	case DoubleType:
		return Double
	case DecimalType:
		return Dec
	case StringType:
		return String
	case BinaryType:
		return Binary
	case Struct, Array, Map:
		return Compound
	case Variant:
		return String
	}
	return Null
}

// Equal reports whether two cells of one column hold the same value. NULL
// equals NULL; NaN equals NaN; 0.0 and -0.0 differ.
func Equal(a, b Value) bool { return a == b }

// Compare orders two non-NULL cells of one column: -1, 0, +1. Strings and
// binary by bytes (UTF-8 order); NaN above every number; -0.0 below 0.0.
func Compare(a, b Value) int {
	switch a.Kind {
	case Float:
		return compareFloat(float64(a.Float32()), float64(b.Float32()))
	case Double:
		return compareFloat(a.Float64(), b.Float64())
	case Dec:
		ah, al := a.Unscaled128()
		bh, bl := b.Unscaled128()
		if ah != bh {
			return order(ah < bh)
		}
		if al != bl {
			return order(al < bl)
		}
		return 0
	case String, Binary, Compound: // compound cells have no order of meaning, only one
		return strings.Compare(a.S, b.S)
	}
	if a.I == b.I {
		return 0
	}
	return order(a.I < b.I)
}

func order(less bool) int {
	if less {
		return -1
	}
	return 1
}

func compareFloat(a, b float64) int {
	an, bn := math.IsNaN(a), math.IsNaN(b)
	switch {
	case an && bn:
		return 0
	case an:
		return 1
	case bn:
		return -1
	case a < b:
		return -1
	case a > b:
		return 1
	case a == 0 && math.Signbit(a) != math.Signbit(b):
		return order(math.Signbit(a))
	}
	return 0
}

// AppendEncoded appends a typed, length-prefixed form of the value: equal
// bytes mean equal values, and the forms of several values put together are
// unambiguous. NULL has a form of its own. Keys and row hashes are made of it.
func (v Value) AppendEncoded(dst []byte) []byte {
	dst = append(dst, byte(v.Kind))
	switch v.Kind {
	case Null, Unavailable:
	case String, Binary, Number, Compound:
		dst = binary.AppendUvarint(dst, uint64(len(v.S)))
		dst = append(dst, v.S...)
	case Dec:
		hi, lo := v.Unscaled128()
		dst = binary.BigEndian.AppendUint64(dst, uint64(hi))
		dst = binary.BigEndian.AppendUint64(dst, lo)
	default:
		dst = binary.BigEndian.AppendUint64(dst, uint64(v.I))
	}
	return dst
}

// EncodedLen gives the length of the form that a text made by AppendEncoded
// begins with, 0 where it is cut off, and whether it is that of NULL.
func EncodedLen(s string) (n int, null bool) {
	if s == "" {
		return 0, false
	}
	switch Kind(s[0]) {
	case Null, Unavailable:
		return 1, true
	case String, Binary, Number, Compound:
		size, w := binary.Uvarint([]byte(s[1:min(len(s), 11)]))
		if w <= 0 || size > uint64(len(s)-1-w) {
			return 0, false
		}
		return 1 + w + int(size), false
	case Dec:
		n = 17
	default:
		n = 9
	}
	if n > len(s) {
		return 0, false
	}
	return n, false
}
