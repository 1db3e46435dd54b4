package parquet

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
)

// intRange gives what a column of integers, dates or timestamps may hold.
func intRange(t schema.Type) (low, high int64) {
	switch t.Primitive {
	case schema.Byte:
		return math.MinInt8, math.MaxInt8
	case schema.Short:
		return math.MinInt16, math.MaxInt16
	case schema.Integer, schema.Date:
		return math.MinInt32, math.MaxInt32
	}
	return math.MinInt64, math.MaxInt64
}

// checkString refuses text that is no UTF-8: one such cell makes engines
// refuse the whole file.
func checkString(s string, text bool) error {
	if len(s) > maxValueBytes {
		return fmt.Errorf("%w: %d bytes, a file takes %d a value", ErrValue, len(s), maxValueBytes)
	}
	if text && !utf8.ValidString(s) {
		return fmt.Errorf("%w: %.40q is no UTF-8 text", ErrValue, s)
	}
	return nil
}

var powersOfTen = func() (p [39]uint128) {
	for n := range p {
		p[n] = tenTo(uint8(n))
	}
	return p
}()

// fitsDecimal tells whether an unscaled integer has at most so many digits,
// and a well-formed Value.
func fitsDecimal(v schema.Value, precision uint8) bool {
	if v.S == "" {
		if precision >= 19 {
			return true
		}
		limit := int64(powersOfTen[precision].lo)
		return v.I < limit && v.I > -limit
	}
	return len(v.S) == 16 && !powersOfTen[precision].lessEqual(magnitude128(v))
}

func kindName(k schema.Kind) string {
	switch k {
	case schema.Null:
		return "NULL"
	case schema.Bool:
		return "boolean"
	case schema.Int:
		return "integer"
	case schema.Float:
		return "float"
	case schema.Double:
		return "double"
	case schema.Dec:
		return "decimal"
	case schema.String:
		return "string"
	case schema.Binary:
		return "binary"
	case schema.Number:
		return "number of unknown type"
	case schema.Unavailable:
		return "value that the source did not send"
	}
	return fmt.Sprintf("value of kind %d", k)
}
