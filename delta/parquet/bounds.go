package parquet

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/format"
)

// bounds is the least and the greatest value of a page, chunk or file. Values
// are kept as keys that order as the values do: see the key functions.
type bounds struct {
	has  bool
	nan  bool // a NaN was there: nothing is known
	minI int64
	maxI int64
	minS string
	maxS string
}

func (b *bounds) addInt(key int64) {
	if !b.has {
		b.has, b.minI, b.maxI = true, key, key
		return
	}
	b.minI, b.maxI = min(b.minI, key), max(b.maxI, key)
}

func (b *bounds) addString(key string) {
	switch {
	case !b.has:
		b.has, b.minS, b.maxS = true, key, key
	case key < b.minS:
		b.minS = key
	case key > b.maxS:
		b.maxS = key
	}
}

// merge widens b by another's bounds.
func (b *bounds) merge(o *bounds) {
	b.nan = b.nan || o.nan
	switch {
	case !o.has:
	case !b.has:
		b.has, b.minI, b.maxI, b.minS, b.maxS = true, o.minI, o.maxI, o.minS, o.maxS
	default:
		b.minI, b.maxI = min(b.minI, o.minI), max(b.maxI, o.maxI)
		b.minS, b.maxS = min(b.minS, o.minS), max(b.maxS, o.maxS)
	}
}

// floatKey orders the bits of a double, or of a float widened to 64 bits by
// sign extension, as schema.Compare does. It is its own inverse.
func floatKey(b int64) int64 { return b ^ int64(uint64(b>>63)>>1) }

// decimalKey gives 16 bytes that order as the decimals do.
func decimalKey(v schema.Value) (key [16]byte) {
	hi, lo := v.Unscaled128()
	binary.BigEndian.PutUint64(key[:], uint64(hi)^1<<63)
	binary.BigEndian.PutUint64(key[8:], lo)
	return key
}

// decimalOfKey is the inverse of decimalKey, in a Value's only form.
func decimalOfKey(key string) schema.Value {
	hi := int64(binary.BigEndian.Uint64([]byte(key[:8])) ^ 1<<63)
	lo := int64(binary.BigEndian.Uint64([]byte(key[8:])))
	return decimal128(hi, uint64(lo))
}

// decimal128 makes a decimal of two words; in I where it fits.
func decimal128(hi int64, lo uint64) schema.Value {
	if hi == int64(lo)>>63 {
		return schema.Value{Kind: schema.Dec, I: int64(lo)}
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(hi))
	binary.BigEndian.PutUint64(b[8:], lo)
	return schema.Value{Kind: schema.Dec, S: string(b[:])}
}

// magnitude128 gives the absolute value of a decimal.
func magnitude128(v schema.Value) uint128 {
	hi, lo := v.Unscaled128()
	if hi >= 0 {
		return uint128{uint64(hi), lo}
	}
	low, borrow := bits.Sub64(0, lo, 0)
	high, _ := bits.Sub64(0, uint64(hi), borrow)
	return uint128{high, low}
}

// tenTo gives 10^n, n up to 38.
func tenTo(n uint8) uint128 {
	p := uint128{lo: 1}
	for range n {
		hi, lo := bits.Mul64(p.lo, 10)
		p = uint128{p.hi*10 + hi, lo}
	}
	return p
}

// values gives the bounds as cells of a column, widened to both zeros for
// floats. ok is false where they are not known.
func (b *bounds) values(t schema.Type) (low, high schema.Value, ok bool) {
	if !b.has || b.nan {
		return low, high, false
	}
	switch kind := schema.KindOf(t); kind {
	case schema.Float:
		low, high = schema.Value{Kind: kind, I: int64(uint32(floatKey(b.minI)))}, schema.Value{Kind: kind, I: int64(uint32(floatKey(b.maxI)))}
		if low.Float32() == 0 {
			low = schema.FloatValue(float32(math.Copysign(0, -1)))
		}
		if high.Float32() == 0 {
			high = schema.FloatValue(0)
		}
	case schema.Double:
		low, high = schema.Value{Kind: kind, I: floatKey(b.minI)}, schema.Value{Kind: kind, I: floatKey(b.maxI)}
		if low.Float64() == 0 {
			low = schema.DoubleValue(math.Copysign(0, -1))
		}
		if high.Float64() == 0 {
			high = schema.DoubleValue(0)
		}
	case schema.String, schema.Binary:
		low, high = schema.Value{Kind: kind, S: b.minS}, schema.Value{Kind: kind, S: b.maxS}
	case schema.Dec:
		if t.Precision > 18 {
			return decimalOfKey(b.minS), decimalOfKey(b.maxS), true
		}
		fallthrough
	default:
		low, high = schema.Value{Kind: kind, I: b.minI}, schema.Value{Kind: kind, I: b.maxI}
	}
	return low, high, true
}

// maxBoundBytes caps a string in a file's metadata.
const maxBoundBytes = 64

// encode gives the bounds as a file's metadata has them: PLAIN, strings cut.
// ok is false where one of them is not known or can't be cut.
func (b *bounds) encode(t schema.Type, physical format.Type, width int) (low, high []byte, ok bool) {
	lowV, highV, ok := b.values(t)
	if !ok {
		return nil, nil, false
	}
	if physical == format.ByteArray {
		text := t.Primitive == schema.StringType
		high, ok = cutHigh(highV.S, text)
		return cutLow(lowV.S, text), high, ok
	}
	return appendPlain(nil, lowV, physical, width), appendPlain(nil, highV, physical, width), true
}

// appendPlain appends a value of a fixed width as PLAIN has it; a boolean as a byte.
func appendPlain(dst []byte, v schema.Value, physical format.Type, width int) []byte {
	switch physical {
	case format.Boolean:
		return append(dst, byte(v.I))
	case format.Int32, format.Float:
		return binary.LittleEndian.AppendUint32(dst, uint32(v.I))
	case format.FixedLenByteArray:
		var b [16]byte
		hi, lo := v.Unscaled128()
		binary.BigEndian.PutUint64(b[:], uint64(hi))
		binary.BigEndian.PutUint64(b[8:], lo)
		return append(dst, b[16-width:]...)
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(v.I))
}

// cutLow cuts a lower bound: a prefix is never above the whole.
func cutLow(s string, text bool) []byte {
	if len(s) <= maxBoundBytes {
		return []byte(s)
	}
	return []byte(prefix(s, text))
}

// cutHigh cuts an upper bound and raises what is left above the whole. ok is
// false where nothing is above it: all 0xff, or all U+10FFFF.
func cutHigh(s string, text bool) (high []byte, ok bool) {
	if len(s) <= maxBoundBytes {
		return []byte(s), true
	}
	cut := prefix(s, text)
	if !text {
		cut = strings.TrimRight(cut, "\xff")
		if cut == "" {
			return nil, false
		}
		high = []byte(cut)
		high[len(high)-1]++
		return high, true
	}
	for cut != "" {
		r, size := utf8.DecodeLastRuneInString(cut)
		cut = cut[:len(cut)-size]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xD7FF:
			r = 0xE000 // over the surrogates
		default:
			r++
		}
		return utf8.AppendRune([]byte(cut), r), true
	}
	return nil, false
}

func prefix(s string, text bool) string {
	n := maxBoundBytes
	for text && n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
