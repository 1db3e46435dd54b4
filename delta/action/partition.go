package action

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
)

// ErrPartitionValue is wrapped by errors about partition values that their
// column's type does not have.
var ErrPartitionValue = errors.New("not a partition value of its column")

// FormatPartitionValue gives the log's text of a partition value ("Partition
// Value Serialization"): nil for NULL, and for empty text and binary, which the
// protocol cannot tell from NULL. Timestamps are ISO 8601 in UTC.
func FormatPartitionValue(v schema.Value, t schema.Type) *string {
	var text string
	switch v.Kind {
	case schema.Null:
		return nil
	case schema.Bool:
		text = strconv.FormatBool(v.I == 1)
	case schema.Float:
		text = strconv.FormatFloat(float64(v.Float32()), 'g', -1, 32)
	case schema.Double:
		text = strconv.FormatFloat(v.Float64(), 'g', -1, 64)
	case schema.Dec:
		text = v.DecimalText(t.Scale)
	case schema.String:
		text = v.S
	case schema.Binary:
		var b strings.Builder
		for i := range len(v.S) {
			fmt.Fprintf(&b, "\\u%04X", v.S[i])
		}
		text = b.String()
	default:
		switch t.Primitive {
		case schema.Date:
			text = time.Unix(v.I*86400, 0).UTC().Format("2006-01-02")
		case schema.Timestamp:
			text = time.UnixMicro(v.I).UTC().Format("2006-01-02T15:04:05.000000Z")
		case schema.TimestampNTZ:
			text = time.UnixMicro(v.I).UTC().Format("2006-01-02 15:04:05.000000")
		default:
			text = strconv.FormatInt(v.I, 10)
		}
	}
	if text == "" {
		return nil
	}
	return &text
}

// timestampForms are the texts that writers give timestamps, with any fraction. The
// last is that of a date, whose column became a timestamp.
var timestampForms = []string{"2006-01-02 15:04:05", time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02"}

// ParsePartitionValue reads the log's text of a partition value. A timestamp
// without a zone is read as UTC: the log does not say its writer's zone. The
// error wraps ErrPartitionValue.
func ParsePartitionValue(text *string, t schema.Type) (schema.Value, error) {
	if text == nil || *text == "" {
		return schema.Value{}, nil
	}
	s := *text
	bad := func() (schema.Value, error) {
		return schema.Value{}, fmt.Errorf("%w: %q as %s", ErrPartitionValue, s, t)
	}
	switch t.Primitive {
	case schema.StringType:
		return schema.StringValue(s), nil
	case schema.BinaryType:
		if raw, ok := unicodeEscapes(s); ok {
			return schema.BinaryValue(raw), nil
		}
		return schema.BinaryValue(s), nil
	case schema.Boolean:
		if b, err := strconv.ParseBool(s); err == nil {
			return schema.BoolValue(b), nil
		}
	case schema.Byte, schema.Short, schema.Integer, schema.Long:
		bits := map[schema.Primitive]int{schema.Byte: 8, schema.Short: 16, schema.Integer: 32, schema.Long: 64}[t.Primitive]
		if i, err := strconv.ParseInt(s, 10, bits); err == nil {
			return schema.IntValue(i), nil
		}
	case schema.FloatType:
		if f, err := strconv.ParseFloat(s, 32); err == nil {
			return schema.FloatValue(float32(f)), nil
		}
	case schema.DoubleType:
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return schema.DoubleValue(f), nil
		}
	case schema.DecimalType:
		if r, ok := parseDecimal(s); ok {
			r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Scale)), nil)))
			if r.IsInt() {
				if v, ok := schema.DecimalValue(r.Num()); ok {
					return v, nil
				}
			}
		}
	case schema.Date:
		if days, ok := parseDate(s); ok {
			return schema.IntValue(days), nil
		}
	case schema.Timestamp, schema.TimestampNTZ:
		for _, form := range timestampForms {
			if at, err := time.Parse(form, s); err == nil {
				return schema.IntValue(at.UnixMicro()), nil
			}
		}
	}
	return bad()
}

// parseDecimal reads a decimal as writers print it: 1.50, and 0E-18 for a zero of
// many places.
func parseDecimal(s string) (*big.Rat, bool) {
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(s[i+1:]); err != nil || exponent < -100 || exponent > 100 {
			return nil, false
		}
		mantissa = s[:i]
	}
	if len(mantissa) > 100 || strings.ContainsAny(mantissa, "/_xXpPbBoO") {
		return nil, false
	}
	r, ok := new(big.Rat).SetString(mantissa)
	if !ok {
		return nil, false
	}
	power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil))
	if exponent < 0 {
		return r.Quo(r, power), true
	}
	return r.Mul(r, power), true
}

// parseDate reads a date, whose year may have a sign and up to seven digits.
func parseDate(s string) (days int64, ok bool) {
	year, rest, sign := s, "", 1
	if strings.HasPrefix(s, "-") {
		year, sign = s[1:], -1
	} else {
		year = strings.TrimPrefix(s, "+")
	}
	if i := strings.IndexByte(year, '-'); i >= 4 && i <= 7 {
		year, rest = year[:i], year[i:]
	}
	n, err := strconv.ParseUint(year, 10, 32)
	if err != nil {
		return 0, false
	}
	within, err := time.Parse("2006-01-02", "2000"+rest) // a leap year
	if err != nil {
		return 0, false
	}
	d := time.Date(sign*int(n), within.Month(), within.Day(), 0, 0, 0, 0, time.UTC)
	return d.Unix() / 86400, d.Day() == within.Day()
}

// unicodeEscapes reads the protocol's text of binary: one \uXXXX a byte.
func unicodeEscapes(s string) (string, bool) {
	if len(s)%6 != 0 {
		return "", false
	}
	raw := make([]byte, 0, len(s)/6)
	for i := 0; i < len(s); i += 6 {
		v, err := strconv.ParseUint(s[i+2:i+6], 16, 8)
		if s[i] != '\\' || s[i+1] != 'u' || err != nil {
			return "", false
		}
		raw = append(raw, byte(v))
	}
	return string(raw), true
}

// PartitionFolder gives the Hive folder of a partition value, "name=value",
// escaped as Hive does. It is a key's part, not yet a path's.
func PartitionFolder(name string, text *string) string {
	if text == nil {
		return hiveEscape(name) + "=__HIVE_DEFAULT_PARTITION__"
	}
	return hiveEscape(name) + "=" + hiveEscape(*text)
}

func hiveEscape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == 0x7f || strings.IndexByte("\"#%'*/:=?\\{[]^", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if out := b.String(); out != "." && out != ".." {
		return out
	}
	return strings.ReplaceAll(s, ".", "%2E")
}
