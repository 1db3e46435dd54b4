package schema

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends a cell as JSON: long and decimal as numbers with every
// digit, floats as the shortest number that reads back the same and "NaN",
// "Infinity", "-Infinity", dates and timestamps as text, binary as base64, a
// struct and a map as objects, an array as an array. A cell of a nested column or a
// variant that is held as JSON text (Kind String) goes out as it is.
func AppendJSON(dst []byte, t Type, v Value) []byte {
	switch v.Kind {
	case Null, Unavailable:
		return append(dst, "null"...)
	case Int:
		switch t.Primitive {
		case Date, Timestamp, TimestampNTZ:
			dst = append(dst, '"')
			dst = appendInt(dst, t, v.I)
			return append(dst, '"')
		}
		return strconv.AppendInt(dst, v.I, 10)
	case Float:
		return appendFloat(dst, float64(v.Float32()), 32, true)
	case Double:
		return appendFloat(dst, v.Float64(), 64, true)
	case String:
		if !t.IsLeaf() || t.Primitive == Variant {
			return append(dst, v.S...)
		}
		return AppendJSONString(dst, v.S)
	case Binary:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, []byte(v.S))
		return append(dst, '"')
	case Compound:
		return appendCompound(dst, t, v)
	}
	return AppendText(dst, t, v)
}

// appendCompound appends a struct, array or map. A map's key stands as its text.
func appendCompound(dst []byte, t Type, v Value) []byte {
	if t.Nested == nil {
		return append(dst, "null"...)
	}
	opening, closing := byte('{'), byte('}')
	if t.Primitive == Array {
		opening, closing = '[', ']'
	}
	dst = append(dst, opening)
	i := 0
	for part := range v.Parts() {
		isKey := t.Primitive == Map && i%2 == 0
		if i > 0 && (isKey || t.Primitive != Map) {
			dst = append(dst, ',')
		}
		switch {
		case isKey && part.Kind == String:
			dst = append(AppendJSONString(dst, part.S), ':')
		case isKey:
			dst = append(AppendJSONString(dst, string(AppendText(nil, t.Nested.Key, part))), ':')
		case t.Primitive != Struct:
			dst = AppendJSON(dst, t.Nested.Element, part)
		case i < len(t.Nested.Fields):
			f := &t.Nested.Fields[i]
			dst = AppendJSON(append(AppendJSONString(dst, f.Name), ':'), f.Type, part)
		}
		i++
	}
	return append(dst, closing)
}

// AppendText appends a cell as the text of table and csv, without quotes:
// numbers, dates and timestamps as in JSON, binary as 0x and hex digits, nested
// cells as their JSON. NULL appends nothing: the format says what stands for it.
func AppendText(dst []byte, t Type, v Value) []byte {
	switch v.Kind {
	case Bool:
		return strconv.AppendBool(dst, v.I != 0)
	case Int:
		return appendInt(dst, t, v.I)
	case Float:
		return appendFloat(dst, float64(v.Float32()), 32, false)
	case Double:
		return appendFloat(dst, v.Float64(), 64, false)
	case Dec:
		if v.S == "" && t.Scale == 0 {
			return strconv.AppendInt(dst, v.I, 10)
		}
		return append(dst, v.DecimalText(t.Scale)...)
	case String, Number:
		return append(dst, v.S...)
	case Binary:
		dst = append(dst, "0x"...)
		return hex.AppendEncode(dst, []byte(v.S))
	case Compound:
		return appendCompound(dst, t, v)
	}
	return dst
}

// appendInt appends an Int value as its column's type prints.
func appendInt(dst []byte, t Type, i int64) []byte {
	switch t.Primitive {
	case Date:
		return appendDate(dst, time.Unix(i*86400, 0).UTC())
	case Timestamp:
		return append(appendTimestamp(dst, i), 'Z')
	case TimestampNTZ:
		return appendTimestamp(dst, i)
	}
	return strconv.AppendInt(dst, i, 10)
}

// appendDate appends 2022-07-16. Years beyond four digits carry a sign, as in ISO 8601.
func appendDate(dst []byte, t time.Time) []byte {
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		sign := byte('+')
		if year < 0 {
			sign, year = '-', -year
		}
		dst = append(dst, sign)
	}
	dst = appendDigits(dst, year, 4)
	dst = append(dst, '-')
	dst = appendDigits(dst, int(month), 2)
	dst = append(dst, '-')
	return appendDigits(dst, day, 2)
}

// appendTimestamp appends 2022-07-16T08:00:00.123456, always with six digits.
func appendTimestamp(dst []byte, micros int64) []byte {
	t := time.UnixMicro(micros).UTC()
	dst = appendDate(dst, t)
	hour, minute, second := t.Clock()
	dst = append(dst, 'T')
	dst = appendDigits(dst, hour, 2)
	dst = append(dst, ':')
	dst = appendDigits(dst, minute, 2)
	dst = append(dst, ':')
	dst = appendDigits(dst, second, 2)
	dst = append(dst, '.')
	return appendDigits(dst, t.Nanosecond()/1000, 6)
}

// appendDigits appends n >= 0 with at least width digits.
func appendDigits(dst []byte, n, width int) []byte {
	var buf [20]byte
	digits := strconv.AppendInt(buf[:0], int64(n), 10)
	for range width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// appendFloat appends the shortest text that reads back as f, spelled as
// encoding/json spells it (so 1e+21 only where plain digits get long).
func appendFloat(dst []byte, f float64, bits int, quoteSpecial bool) []byte {
	special := ""
	switch {
	case math.IsNaN(f):
		special = "NaN"
	case math.IsInf(f, 1):
		special = "Infinity"
	case math.IsInf(f, -1):
		special = "-Infinity"
	}
	if special != "" {
		if quoteSpecial {
			return append(append(append(dst, '"'), special...), '"')
		}
		return append(dst, special...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 {
		if bits == 64 && (abs < 1e-6 || abs >= 1e21) || bits == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21) {
			format = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	if format == 'e' { // e-09 to e-9
		if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
			dst[n-2] = dst[n-1]
			dst = dst[:n-1]
		}
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// AppendJSONString appends a JSON string. Bytes that are no UTF-8 become
// U+FFFD; U+2028 and U+2029 are escaped, since line-based tools break there.
func AppendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' && c != 0x7f {
			i++
			continue
		}
		size := 1
		var escaped []byte
		if c < utf8.RuneSelf {
			escaped = escapeByte(c)
		} else {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				escaped = []byte(`\ufffd`)
			case r == '\u2028':
				escaped = []byte(`\u2028`)
			case r == '\u2029':
				escaped = []byte(`\u2029`)
			default:
				i += size
				continue
			}
		}
		dst = append(append(dst, s[start:i]...), escaped...)
		i += size
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func escapeByte(c byte) []byte {
	switch c {
	case '"', '\\':
		return []byte{'\\', c}
	case '\n':
		return []byte(`\n`)
	case '\r':
		return []byte(`\r`)
	case '\t':
		return []byte(`\t`)
	}
	return []byte{'\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15]}
}
