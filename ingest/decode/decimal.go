package decode

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// maxDigits is what a Delta decimal holds; MySQL's hold 65.
const (
	maxDigits      = 38
	maxMySQLDigits = 65
)

var (
	errNotDecimal = errors.New("not a decimal number")
	errDigitsLost = errors.New("more digits behind the point than the type has")
)

type tooLargeError struct{ precision, scale int }

func (e tooLargeError) Error() string {
	return fmt.Sprintf("too large for decimal(%d,%d)", e.precision, e.scale)
}

// uint128 is the magnitude of a decimal of up to 38 digits.
type uint128 struct{ hi, lo uint64 }

func (u uint128) less(v uint128) bool { return u.hi < v.hi || u.hi == v.hi && u.lo < v.lo }

// timesTenPlus gives 10*u + d; u has at most 37 digits.
func (u uint128) timesTenPlus(d uint64) uint128 {
	hi, lo := bits.Mul64(u.lo, 10)
	lo, carry := bits.Add64(lo, d, 0)
	return uint128{u.hi*10 + hi + carry, lo}
}

func (u uint128) negate() uint128 {
	lo, borrow := bits.Sub64(0, u.lo, 0)
	hi, _ := bits.Sub64(0, u.hi, borrow)
	return uint128{hi, lo}
}

// powers holds 10^0 to 10^38.
var powers = func() (p [maxDigits + 1]uint128) {
	p[0] = uint128{0, 1}
	for i := 1; i <= maxDigits; i++ {
		p[i] = p[i-1].timesTenPlus(0)
	}
	return p
}()

// decimalValue makes the cell of a magnitude below 10^38; the sixteen bytes
// of a large one come from the arena, or the heap where that is nil.
func decimalValue(neg bool, u uint128, arena *change.Arena) schema.Value {
	if u.hi == 0 {
		if u.lo <= math.MaxInt64 {
			n := int64(u.lo)
			if neg {
				n = -n
			}
			return schema.Value{Kind: schema.Dec, I: n}
		}
		if neg && u.lo == 1<<63 {
			return schema.Value{Kind: schema.Dec, I: math.MinInt64}
		}
	}
	if neg {
		u = u.negate()
	}
	var buf []byte
	if arena != nil {
		buf = arena.Bytes(16)
	} else {
		buf = make([]byte, 16)
	}
	for i := range 8 {
		buf[i] = byte(u.hi >> (56 - 8*i))
		buf[8+i] = byte(u.lo >> (56 - 8*i))
	}
	return schema.Value{Kind: schema.Dec, S: view(buf)}
}

// decimalParts is a number's text taken apart: value = ±(whole frac) * 10^exp,
// without zeros at either end. Both parts empty is 0.
type decimalParts struct {
	neg         bool
	whole, frac string
	exp         int
}

// splitDecimal takes [+-]digits[.digits][e[+-]digits] apart.
func splitDecimal(s string) (p decimalParts, err error) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		p.neg = s[0] == '-'
		s = s[1:]
	}
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		exp := s[e+1:]
		s = s[:e]
		minus := exp != "" && exp[0] == '-'
		if exp != "" && (exp[0] == '-' || exp[0] == '+') {
			exp = exp[1:]
		}
		if exp == "" || !allDigits(exp) {
			return p, errNotDecimal
		}
		for _, c := range []byte(exp) {
			p.exp = min(p.exp*10+int(c-'0'), 1<<20) // beyond that it is too large or lost anyhow
		}
		if minus {
			p.exp = -p.exp
		}
	}
	p.whole = s
	if dot := strings.IndexByte(s, '.'); dot >= 0 {
		p.whole, p.frac = s[:dot], s[dot+1:]
	}
	if p.whole == "" && p.frac == "" || !allDigits(p.whole) || !allDigits(p.frac) {
		return p, errNotDecimal
	}
	p.exp -= len(p.frac)
	if p.whole = strings.TrimLeft(p.whole, "0"); p.whole == "" {
		p.frac = strings.TrimLeft(p.frac, "0")
	}
	if n := len(p.frac); n > 0 {
		p.frac = strings.TrimRight(p.frac, "0")
		p.exp += n - len(p.frac)
	}
	if n := len(p.whole); p.frac == "" {
		p.whole = strings.TrimRight(p.whole, "0")
		p.exp += n - len(p.whole)
	}
	return p, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return true
}

// shift gives the zeros to append so that the digits become an unscaled
// integer of the scale; an error where digits would be lost or are too many.
func (p decimalParts) shift(precision, scale int) (int, error) {
	digits := len(p.whole) + len(p.frac)
	if digits == 0 {
		return 0, nil
	}
	shift := p.exp + scale
	if shift < 0 {
		return 0, errDigitsLost
	}
	if digits+shift > precision {
		return 0, tooLargeError{precision, scale}
	}
	return shift, nil
}

var powersOfTen = [19]int64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// shortDecimal reads [-]digits[.digits] into the unscaled integer, where that has no
// more than 18 digits, as most have. ok is false of all else.
func shortDecimal(s string, precision, scale int) (n int64, ok bool) {
	neg := s != "" && s[0] == '-'
	if neg {
		s = s[1:]
	}
	if len(s) == 0 || len(s) > 19 || s[0]-'0' > 9 {
		return 0, false
	}
	point := -1
	for i := range len(s) {
		switch c := s[i] - '0'; {
		case c <= 9:
			n = n*10 + int64(c)
		case s[i] == '.' && point < 0 && i+1 < len(s):
			point = i
		default:
			return 0, false
		}
	}
	digits, shift := len(s), scale
	if point >= 0 {
		digits--
		shift -= len(s) - 1 - point
	}
	if shift < 0 || digits+shift > 18 {
		return 0, false
	}
	n *= powersOfTen[shift]
	if precision < 19 && n >= powersOfTen[precision] {
		return 0, false
	}
	if neg {
		n = -n
	}
	return n, true
}

// parseDecimal reads a number's text as decimal(precision,scale), exactly.
// precision is at most 38.
func parseDecimal(s string, precision, scale int, arena *change.Arena) (schema.Value, error) {
	if n, ok := shortDecimal(s, precision, scale); ok {
		return schema.Value{Kind: schema.Dec, I: n}, nil
	}
	p, err := splitDecimal(s)
	if err != nil {
		return schema.Value{}, err
	}
	shift, err := p.shift(precision, scale)
	if err != nil {
		return schema.Value{}, err
	}
	var u uint128
	for _, part := range [2]string{p.whole, p.frac} {
		for _, c := range []byte(part) {
			u = u.timesTenPlus(uint64(c - '0'))
		}
	}
	for range shift {
		u = u.timesTenPlus(0)
	}
	return decimalValue(p.neg, u, arena), nil
}

// longDecimalText reads a number's text as a decimal of up to 65 digits and
// prints it plainly with all digits of the scale.
func longDecimalText(s string, precision, scale int) (string, error) {
	p, err := splitDecimal(s)
	if err != nil {
		return "", err
	}
	shift, err := p.shift(precision, scale)
	if err != nil {
		return "", err
	}
	return plainDecimal(p.neg, p.whole+p.frac+strings.Repeat("0", shift), scale), nil
}

// plainDecimal places the point in the digits of an unscaled integer.
func plainDecimal(neg bool, digits string, scale int) string {
	zero := strings.Trim(digits, "0") == ""
	if pad := scale + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	out := digits[:len(digits)-scale]
	if scale > 0 {
		out += "." + digits[len(digits)-scale:]
	}
	if neg && !zero {
		return "-" + out
	}
	return out
}

var (
	errBase64    = errors.New("not base64")
	strictBase64 = base64.StdEncoding.Strict()
)

// base64Len gives the number of bytes that base64 text stands for.
func base64Len(s []byte) int {
	n := len(s) / 4 * 3
	for i := len(s); i > 0 && n > 0 && s[i-1] == '='; i-- {
		n--
	}
	return n
}

// decodeBase64 decodes into dst, which has room for len(s)/4*3 bytes. Padding
// is required and the unused bits must be 0: no two texts mean the same bytes.
func decodeBase64(dst, s []byte) ([]byte, error) {
	n, err := strictBase64.Decode(dst, s)
	if err != nil || len(s)%4 != 0 || n != base64Len(s) { // the lengths differ where there are line ends
		return nil, errBase64
	}
	return dst[:n], nil
}

// decimalBytes makes decimal(precision,scale) of a big-endian two's complement
// integer, as Connect writes the unscaled value.
func decimalBytes(b []byte, precision, scale int, arena *change.Arena) (schema.Value, error) {
	if len(b) == 0 {
		return schema.Value{}, errNotDecimal
	}
	neg := b[0]&0x80 != 0
	fill := byte(0)
	if neg {
		fill = 0xff
	}
	for len(b) > 16 && b[0] == fill {
		b = b[1:]
	}
	if len(b) > 16 {
		return schema.Value{}, tooLargeError{precision, scale}
	}
	var u uint128
	if neg {
		u = uint128{math.MaxUint64, math.MaxUint64}
	}
	for _, c := range b {
		u = uint128{u.hi<<8 | u.lo>>56, u.lo<<8 | uint64(c)}
	}
	if neg {
		if u.hi>>63 == 0 { // sixteen bytes behind a cut sign byte
			return schema.Value{}, tooLargeError{precision, scale}
		}
		u = u.negate()
	} else if u.hi>>63 != 0 {
		return schema.Value{}, tooLargeError{precision, scale}
	}
	if !u.less(powers[precision]) {
		return schema.Value{}, tooLargeError{precision, scale}
	}
	return decimalValue(neg, u, arena), nil
}

// longDecimalBytes is decimalBytes for decimals of more than 38 digits: their text.
func longDecimalBytes(b []byte, precision, scale int) (string, error) {
	if len(b) == 0 {
		return "", errNotDecimal
	}
	if len(b) > 256 {
		return "", tooLargeError{precision, scale}
	}
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	digits := new(big.Int).Abs(n).String()
	if len(digits) > precision {
		return "", tooLargeError{precision, scale}
	}
	return plainDecimal(n.Sign() < 0, digits, scale), nil
}
