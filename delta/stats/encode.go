package stats

import (
	"math"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
)

// stringPrefix is how many UTF-16 units of a string a bound keeps, as Spark's
// do; maxPrefix where a maximum gives up.
const (
	stringPrefix = 32
	maxPrefix    = 2 * stringPrefix
)

// Encode gives add.stats ("Per-file Statistics"): numRecords, and of leaves, which are in
// the order of Leaves, minimum, maximum and number of NULLs, fields of structs as objects
// in objects. A NullCount below 0 is not known, and left out. tightBounds is left out
// where nil, which means true. Bounds are never narrower than the values: strings are cut,
// with the maximum raised, and timestamps are cut to milliseconds, the maximum upwards.
// Booleans and binary have no bounds.
func Encode(leaves []Leaf, st File, tightBounds *bool) string {
	b := append(make([]byte, 0, 64+64*len(leaves)), `{"numRecords":`...)
	b = strconv.AppendInt(b, st.NumRows, 10)
	columns := make([]Column, len(leaves))
	for i := range leaves {
		columns[i] = st.column(&leaves[i])
	}
	member := func(name string, value func(b []byte, i int) []byte) {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		b = appendObject(b, leaves, 0, 0, value)
	}
	member("minValues", func(b []byte, i int) []byte { return appendBound(b, columns[i].Min, leaves[i].Type, false) })
	member("maxValues", func(b []byte, i int) []byte { return appendBound(b, columns[i].Max, leaves[i].Type, true) })
	member("nullCount", func(b []byte, i int) []byte {
		if columns[i].NullCount < 0 {
			return b
		}
		return strconv.AppendInt(b, columns[i].NullCount, 10)
	})
	if tightBounds != nil {
		b = append(b, `,"tightBounds":`...)
		b = strconv.AppendBool(b, *tightBounds)
	}
	return string(append(b, '}'))
}

// appendObject appends the values of leaves that lie in one struct, depth names deep, the
// first of them being number from. What has no value is left out, a struct of which
// nothing has one too.
func appendObject(b []byte, leaves []Leaf, from, depth int, value func(b []byte, i int) []byte) []byte {
	b = append(b, '{')
	first := true
	for i := 0; i < len(leaves); {
		n := 1 // leaves in one column or struct
		for i+n < len(leaves) && leaves[i+n].Place[depth] == leaves[i].Place[depth] {
			n++
		}
		before := len(b)
		if !first {
			b = append(b, ',')
		}
		b = append(appendString(b, leaves[i].Stored[depth]), ':')
		at := len(b)
		if len(leaves[i].Place) > depth+1 {
			b = appendObject(b, leaves[i:i+n], from+i, depth+1, value)
			if len(b) == at+2 {
				b = b[:at]
			}
		} else {
			b = value(b, from+i)
		}
		if len(b) == at {
			b = b[:before]
		} else {
			first = false
		}
		i += n
	}
	return append(b, '}')
}

// appendBound appends a bound, or nothing where the value has none.
func appendBound(b []byte, v schema.Value, t schema.Type, upper bool) []byte {
	switch v.Kind {
	case schema.String:
		s, ok := v.S, true
		if upper {
			s, ok = raise(v.S)
		} else {
			s = cutUTF16(v.S, stringPrefix)
		}
		if !ok || !utf8.ValidString(s) {
			return b
		}
		return appendString(b, s)
	case schema.Dec:
		return append(b, v.DecimalText(t.Scale)...)
	case schema.Float:
		f := float64(v.Float32())
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return b
		}
		return strconv.AppendFloat(b, widenZero(f, upper), 'g', -1, 32)
	case schema.Double:
		f := v.Float64()
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return b
		}
		return strconv.AppendFloat(b, widenZero(f, upper), 'g', -1, 64)
	case schema.Int:
		switch t.Primitive {
		case schema.Date:
			return appendTime(b, time.Unix(v.I*86400, 0), "2006-01-02")
		case schema.Timestamp:
			return appendTime(b, time.UnixMicro(toMillis(v.I, upper)), "2006-01-02T15:04:05.000Z")
		case schema.TimestampNTZ:
			return appendTime(b, time.UnixMicro(toMillis(v.I, upper)), "2006-01-02T15:04:05.000")
		}
		return strconv.AppendInt(b, v.I, 10)
	}
	return b
}

// widenZero makes both zeros lie within the bounds.
func widenZero(f float64, upper bool) float64 {
	switch {
	case f != 0:
		return f
	case upper:
		return 0
	}
	return math.Copysign(0, -1)
}

// toMillis rounds microseconds to whole milliseconds, the upper bound upwards.
func toMillis(us int64, upper bool) int64 {
	rest := us % 1000
	if rest < 0 {
		rest += 1000
	}
	us -= rest
	if upper && rest > 0 {
		us += 1000
	}
	return us
}

// appendTime appends a quoted time; years that the text form can't hold have none.
func appendTime(b []byte, t time.Time, form string) []byte {
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return b
	}
	b = append(b, '"')
	b = t.AppendFormat(b, form)
	return append(b, '"')
}

// cutUTF16 gives the longest prefix of at most n UTF-16 units that does not
// split a character.
func cutUTF16(s string, n int) string {
	if len(s) <= n {
		return s
	}
	units := 0
	for i, r := range s {
		if units += utf16.RuneLen(r); units > n || utf16.RuneLen(r) < 0 {
			return s[:i]
		}
	}
	return s
}

// raise gives a text that is not below s and about as long as a prefix of it:
// the prefix and a last character above the one that was cut. ok is false where
// there is none within maxPrefix.
func raise(s string) (string, bool) {
	prefix := cutUTF16(s, stringPrefix)
	if len(prefix) == len(s) {
		return s, true
	}
	for {
		r, size := utf8.DecodeRuneInString(s[len(prefix):])
		switch {
		case r == utf8.RuneError:
			return "", false
		case r < 0x7f:
			return prefix + "\x7f", true
		case r < utf8.MaxRune:
			return prefix + string(utf8.MaxRune), true
		}
		if prefix = s[:len(prefix)+size]; len(prefix) == len(s) {
			return s, true
		}
		if len(utf16.Encode([]rune(prefix))) >= maxPrefix {
			return "", false
		}
	}
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
