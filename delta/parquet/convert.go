package parquet

import (
	"errors"
	"math"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/format"
)

// ErrColumnType is wrapped where a column of a file can't be read as the type asked for.
var ErrColumnType = errors.New("column of another type")

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
