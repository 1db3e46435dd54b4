package expr

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
)

// literalKind enumerates how a literal was written.
type literalKind uint8

const (
	nullLiteral literalKind = iota
	boolLiteral
	numberLiteral
	textLiteral
	hexLiteral
	dateLiteral      // DATE 'text'
	timestampLiteral // TIMESTAMP 'text'
)

// literal is a value as it was written, not typed yet.
type literal struct {
	kind   literalKind
	text   string // of a boolean "true" or "false"
	offset int
}

// bound is a literal in the type of a column. Where exact is false the column
// can't hold the number, and value is the greatest one below it that it can hold.
type bound struct {
	value schema.Value
	exact bool
}

// bind types a literal by the column it is compared with. reason is "" on success.
func bind(l literal, column schema.Field) (b bound, reason string) {
	mismatch := func(hint string) (bound, string) {
		return bound{}, fmt.Sprintf("column %s is %s: %s", column.Name, column.Type, hint)
	}
	p := column.Type.Primitive
	switch p {
	case schema.Boolean:
		switch strings.ToLower(l.text) {
		case "true", "1":
			if l.kind <= textLiteral {
				return bound{schema.BoolValue(true), true}, ""
			}
		case "false", "0":
			if l.kind <= textLiteral {
				return bound{schema.BoolValue(false), true}, ""
			}
		}
		return mismatch("compare it with TRUE or FALSE")
	case schema.Byte, schema.Short, schema.Integer, schema.Long, schema.DecimalType:
		n, ok := parseNumber(l.text)
		if !ok || l.kind != numberLiteral && l.kind != textLiteral {
			return mismatch("compare it with a number")
		}
		return bindNumber(n, l.text, column)
	case schema.FloatType, schema.DoubleType:
		return bindFloat(l, column)
	case schema.StringType:
		switch l.kind {
		case textLiteral:
			return bound{schema.StringValue(l.text), true}, ""
		case numberLiteral, boolLiteral:
			return mismatch(fmt.Sprintf("write text in quotes: '%s'", l.text))
		}
		return mismatch("compare it with text in quotes")
	case schema.BinaryType:
		digits := l.text
		if l.kind == textLiteral {
			var ok bool
			if digits, ok = strings.CutPrefix(strings.ToLower(l.text), "0x"); !ok {
				return mismatch("write its bytes as '0x00ff'")
			}
		} else if l.kind != hexLiteral {
			return mismatch("write its bytes as '0x00ff'")
		}
		raw, err := hex.DecodeString(digits)
		if err != nil {
			return mismatch("its bytes take an even number of hex digits after 0x")
		}
		return bound{schema.BinaryValue(string(raw)), true}, ""
	case schema.Date:
		if l.kind == textLiteral || l.kind == dateLiteral {
			days, reason := parseDate(l.text)
			if reason == "" {
				return bound{schema.IntValue(days), true}, ""
			}
			return mismatch(reason)
		}
		return mismatch("write a date as '2022-07-16'")
	case schema.Timestamp, schema.TimestampNTZ:
		if l.kind == textLiteral || l.kind == dateLiteral || l.kind == timestampLiteral {
			micros, reason := parseTimestamp(l.text, p == schema.TimestampNTZ)
			if reason == "" {
				return bound{schema.IntValue(micros), true}, ""
			}
			return mismatch(reason)
		}
		return mismatch("write a time as '2022-07-16 08:00:00'")
	}
	return mismatch("it can only be tested with IS NULL")
}

// decimalNumber is digits * 10^exponent, negated where negative is set.
// digits has no leading zeros; zero has none at all.
type decimalNumber struct {
	negative bool
	digits   string
	exponent int
}

// maxDigits and maxExponent bound what a number costs.
const (
	maxDigits   = 500
	maxExponent = 1000
)

// parseNumber reads [+-]12.5e-3; ok is false for anything else, and for
// numbers past the limits.
func parseNumber(s string) (n decimalNumber, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		n.negative, s = s[0] == '-', s[1:]
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(s[i+1:])
		if err != nil || exponent > maxExponent || exponent < -maxExponent {
			return n, false
		}
		n.exponent, s = exponent, s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" && fraction == "" {
		return n, false
	}
	n.digits = whole + fraction
	n.exponent -= len(fraction)
	for i := range len(n.digits) {
		if !isDigit(n.digits[i]) {
			return n, false
		}
	}
	n.digits = strings.TrimLeft(n.digits, "0")
	if n.digits == "" {
		n.negative, n.exponent = false, 0
	}
	return n, len(n.digits) <= maxDigits
}

// unscaled gives floor(n * 10^scale), and whether that is n exactly.
func (n decimalNumber) unscaled(scale int) (floor *big.Int, exact bool) {
	digits, shift := n.digits, n.exponent+scale
	exact = true
	if shift >= 0 {
		digits += strings.Repeat("0", shift)
	} else {
		cut := max(len(digits)+shift, 0)
		exact = strings.Trim(digits[cut:], "0") == ""
		digits = digits[:cut]
	}
	floor = new(big.Int)
	if digits != "" {
		floor.SetString(digits, 10)
	}
	if n.negative {
		floor.Neg(floor)
		if !exact {
			floor.Sub(floor, big.NewInt(1))
		}
	}
	return floor, exact
}

// rat gives the number as a fraction.
func (n decimalNumber) rat() *big.Rat {
	scale := max(-n.exponent, 0)
	unscaled, _ := n.unscaled(scale)
	return new(big.Rat).SetFrac(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
}

var integerBits = map[schema.Primitive]int{schema.Byte: 8, schema.Short: 16, schema.Integer: 32, schema.Long: 64}

func bindNumber(n decimalNumber, written string, column schema.Field) (bound, string) {
	t := column.Type
	floor, exact := n.unscaled(int(t.Scale))
	if t.Primitive == schema.DecimalType {
		limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Precision)), nil)
		// The floor of a number just above -limit may be -limit itself, which the column can't hold either.
		if floor.CmpAbs(limit) >= 0 {
			return bound{}, fmt.Sprintf("%s is out of range of column %s, %s: it has %d digits before the point",
				shorten(written), column.Name, t, t.Precision-t.Scale)
		}
		v, _ := schema.DecimalValue(floor)
		return bound{v, exact}, ""
	}
	bits := integerBits[t.Primitive]
	low, high := int64(math.MinInt64)>>(64-bits), int64(math.MaxInt64)>>(64-bits)
	if !floor.IsInt64() || floor.Int64() < low || floor.Int64() > high {
		return bound{}, fmt.Sprintf("%s is out of range of column %s, %s: %d to %d", shorten(written), column.Name, t, low, high)
	}
	return bound{schema.IntValue(floor.Int64()), exact}, ""
}

func bindFloat(l literal, column schema.Field) (bound, string) {
	bits := 64
	if column.Type.Primitive == schema.FloatType {
		bits = 32
	}
	f, err := strconv.ParseFloat(l.text, bits)
	_, isNumber := parseNumber(l.text)
	switch {
	case l.kind == textLiteral && (l.text == "NaN" || l.text == "Infinity" || l.text == "-Infinity"):
	case l.kind != numberLiteral && l.kind != textLiteral || !isNumber:
		return bound{}, fmt.Sprintf("column %s is %s: compare it with a number, or 'NaN', 'Infinity', '-Infinity'", column.Name, column.Type)
	case err != nil:
		return bound{}, fmt.Sprintf("%s is out of range of column %s, %s", shorten(l.text), column.Name, column.Type)
	}
	if bits == 32 {
		return bound{schema.FloatValue(float32(f)), true}, ""
	}
	return bound{schema.DoubleValue(f), true}, ""
}

// parseDate reads 2022-07-16 as days since 1970-01-01. Years past four digits
// take a sign, as the output prints them.
func parseDate(s string) (days int64, reason string) {
	year, month, day, rest, ok := cutDate(s)
	if !ok || rest != "" {
		return 0, "write a date as '2022-07-16'"
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if int(t.Month()) != month || t.Day() != day {
		return 0, fmt.Sprintf("there is no day %s", shorten(s))
	}
	days = t.Unix() / 86400 // whole days: no remainder
	if days < math.MinInt32 || days > math.MaxInt32 {
		return 0, fmt.Sprintf("%s is out of range of date", shorten(s))
	}
	return days, ""
}

// cutDate takes [sign]year-mm-dd off the front.
func cutDate(s string) (year, month, day int, rest string, ok bool) {
	sign := 1
	signed := s != "" && (s[0] == '-' || s[0] == '+')
	if signed {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	if n < 4 || n > 7 || n > 4 && !signed {
		return 0, 0, 0, "", false
	}
	year, _ = strconv.Atoi(s[:n])
	month, s, ok = cutTwoDigits(s[n:], '-')
	if !ok {
		return 0, 0, 0, "", false
	}
	day, s, ok = cutTwoDigits(s, '-')
	return sign * year, month, day, s, ok
}

// cutTwoDigits takes a mark and two digits off the front; mark 0 means none.
func cutTwoDigits(s string, mark byte) (n int, rest string, ok bool) {
	if mark != 0 {
		if s == "" || s[0] != mark {
			return 0, s, false
		}
		s = s[1:]
	}
	if len(s) < 2 || !isDigit(s[0]) || !isDigit(s[1]) {
		return 0, s, false
	}
	return int(s[0]-'0')*10 + int(s[1]-'0'), s[2:], true
}

// parseTimestamp reads a date, or a date and a time with up to six digits after
// the second and, unless ntz, an offset (none: UTC), as microseconds.
func parseTimestamp(s string, ntz bool) (micros int64, reason string) {
	const form = "write a time as '2022-07-16 08:00:00'"
	_, _, _, rest, ok := cutDate(s)
	if !ok {
		return 0, form
	}
	days, reason := parseDate(s[:len(s)-len(rest)])
	if reason != "" {
		return 0, reason
	}
	if rest == "" {
		return scaleMicros(days*86400, 0, s)
	}
	if rest[0] != ' ' && rest[0] != 'T' && rest[0] != 't' {
		return 0, form
	}
	hour, rest, ok1 := cutTwoDigits(rest[1:], 0)
	minute, rest, ok2 := cutTwoDigits(rest, ':')
	if !ok1 || !ok2 {
		return 0, form
	}
	second, afterSecond, hasSecond := cutTwoDigits(rest, ':')
	fraction := int64(0)
	if hasSecond {
		rest = afterSecond
		if rest != "" && rest[0] == '.' {
			n := 1
			for n < len(rest) && isDigit(rest[n]) {
				n++
			}
			if n == 1 || n > 7 {
				return 0, "a second has at most six digits after the point"
			}
			fraction, _ = strconv.ParseInt((rest[1:n] + "000000")[:6], 10, 64)
			rest = rest[n:]
		}
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, fmt.Sprintf("there is no time %s", shorten(s))
	}
	offset, hasOffset, ok := parseOffset(rest)
	switch {
	case !ok:
		return 0, form
	case hasOffset && ntz:
		return 0, "its times have no zone: leave the offset out"
	}
	return scaleMicros(days*86400+int64(hour*3600+minute*60+second-offset), fraction, s)
}

func scaleMicros(seconds, fraction int64, written string) (micros int64, reason string) {
	const limit = math.MaxInt64 / 1_000_000
	if seconds <= -limit || seconds >= limit {
		return 0, fmt.Sprintf("%s is out of range of timestamp", shorten(written))
	}
	return seconds*1_000_000 + fraction, ""
}

// parseOffset reads "", Z, +08, +08:00 or +0800, after an optional space, as seconds east of UTC.
func parseOffset(s string) (seconds int, has, ok bool) {
	s = strings.TrimPrefix(s, " ")
	if s == "" {
		return 0, false, true
	}
	if s == "Z" || s == "z" {
		return 0, true, true
	}
	sign := 1
	switch s[0] {
	case '-':
		sign = -1
	case '+':
	default:
		return 0, false, false
	}
	hours, rest, ok := cutTwoDigits(s[1:], 0)
	if !ok {
		return 0, false, false
	}
	minutes := 0
	if rest != "" {
		if minutes, rest, ok = cutTwoDigits(strings.TrimPrefix(rest, ":"), 0); !ok || rest != "" {
			return 0, false, false
		}
	}
	if hours > 18 || minutes > 59 {
		return 0, false, false
	}
	return sign * (hours*3600 + minutes*60), true, true
}

// ParseValue reads a text as a cell of a column, as a filter reads a text in
// quotes: numbers, true and false, dates, times, 0x00ff. Nothing is rounded: a
// text that the column can't hold exactly is an error.
func ParseValue(written string, column schema.Field) (schema.Value, error) {
	b, reason := bind(literal{kind: textLiteral, text: written}, column)
	if reason == "" && !b.exact {
		reason = fmt.Sprintf("column %s is %s and can't hold %s exactly", column.Name, column.Type, shorten(written))
	}
	if reason != "" {
		return schema.Value{}, fmt.Errorf("%w: %s", ErrValue, reason)
	}
	return b.value, nil
}
