package stats

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/valyala/fastjson"
)

// parseBound reads a minimum or, where upper is set, a maximum; NULL where it
// is none of the type.
func parseBound(v *fastjson.Value, t schema.Type, upper bool) schema.Value {
	text, isString, ok := scalar(v)
	if !ok {
		return schema.Value{}
	}
	var value schema.Value
	switch t.Primitive {
	case schema.StringType:
		value, ok = schema.StringValue(text), isString && utf8.ValidString(text)
	case schema.Byte, schema.Short, schema.Integer, schema.Long:
		n, err := strconv.ParseInt(text, 10, 64)
		value, ok = schema.IntValue(n), err == nil
	case schema.FloatType:
		f, err := strconv.ParseFloat(text, 32)
		value, ok = schema.FloatValue(float32(widenZero(f, upper))), err == nil && !math.IsNaN(f)
	case schema.DoubleType:
		f, err := strconv.ParseFloat(text, 64)
		value, ok = schema.DoubleValue(widenZero(f, upper)), err == nil && !math.IsNaN(f)
	case schema.DecimalType:
		value, ok = parseDecimal(text, t.Scale, upper)
	case schema.Date:
		var days int64
		days, ok = parseDate(text)
		value = schema.IntValue(days)
	case schema.Timestamp, schema.TimestampNTZ:
		var micros int64
		micros, ok = parseTimestamp(text, t.Primitive == schema.TimestampNTZ)
		if upper && micros <= math.MaxInt64-999 {
			micros += 999 // writers cut to milliseconds
		}
		value = schema.IntValue(micros)
	default: // booleans and binary have no bounds, whatever stands there
		ok = false
	}
	if !ok {
		return schema.Value{}
	}
	return value
}

// parseDecimal reads a number exactly. Digits behind the scale, which no
// writer should have, widen the bound.
func parseDecimal(text string, scale uint8, upper bool) (schema.Value, bool) {
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil {
			return schema.Value{}, false
		}
		mantissa, exponent = text[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	number := whole + fraction
	shift := exponent - len(fraction) + int(scale)
	if len(number) > 100 || shift > 100 || shift < -200 {
		return schema.Value{}, false
	}
	n, ok := new(big.Int).SetString(number, 10)
	if !ok || strings.ContainsAny(fraction, "+-") {
		return schema.Value{}, false
	}
	if shift >= 0 {
		return schema.DecimalValue(n.Mul(n, powerOfTen(shift)))
	}
	rest := new(big.Int)
	n.DivMod(n, powerOfTen(-shift), rest) // rounds down
	if upper && rest.Sign() != 0 {
		n.Add(n, big.NewInt(1))
	}
	return schema.DecimalValue(n)
}

func powerOfTen(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// parseDate reads "2022-07-16", with years of any length and sign.
func parseDate(text string) (days int64, ok bool) {
	sign := int64(1)
	switch {
	case strings.HasPrefix(text, "-"):
		sign, text = -1, text[1:]
	case strings.HasPrefix(text, "+"):
		text = text[1:]
	}
	parts := strings.Split(text, "-")
	if len(parts) != 3 || len(parts[0]) < 4 || len(parts[0]) > 7 {
		return 0, false
	}
	year, ok1 := digits(parts[0], len(parts[0]))
	month, ok2 := digits(parts[1], 2)
	day, ok3 := digits(parts[2], 2)
	if !ok1 || !ok2 || !ok3 || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	t := time.Date(int(sign*year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	if t.Day() != int(day) {
		return 0, false
	}
	return t.Unix() / 86400, true
}

// parseTimestamp reads "2022-07-16T23:59:59.999Z", with an offset of hours,
// minutes and perhaps seconds instead of Z, "T" or a blank in the middle, and
// up to nine digits of a second, which are cut to six. Without an offset it is
// taken as UTC; a timestamp without zone must have none but Z.
func parseTimestamp(text string, local bool) (micros int64, ok bool) {
	at := strings.IndexAny(text, "T ")
	if at < 0 {
		return 0, false
	}
	days, ok := parseDate(text[:at])
	if !ok {
		return 0, false
	}
	clock := text[at+1:]
	offset := int64(0)
	if c, found := strings.CutSuffix(clock, "Z"); found {
		clock = c
	} else if i := strings.LastIndexAny(clock, "+-"); i >= 0 {
		if local {
			return 0, false
		}
		seconds, ok := parseClock(clock[i+1:], 0)
		if !ok {
			return 0, false
		}
		if offset = seconds; clock[i] == '-' {
			offset = -seconds
		}
		clock = clock[:i]
	}
	clock, fraction, hasFraction := strings.Cut(clock, ".")
	seconds, ok := parseClock(clock, 1)
	if !ok {
		return 0, false
	}
	part := int64(0)
	if hasFraction {
		if fraction == "" || len(fraction) > 9 {
			return 0, false
		}
		fraction = (fraction + "00000")[:6]
		if part, ok = digits(fraction, 6); !ok {
			return 0, false
		}
	}
	total := days*86400 + seconds - offset
	if total > math.MaxInt64/1_000_000-1 || total < math.MinInt64/1_000_000+1 {
		return 0, false
	}
	return total*1_000_000 + part, true
}

// parseClock reads "15:04" and "15:04:05" as seconds; least is how many colons
// there must be.
func parseClock(text string, least int) (seconds int64, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) > 3 || len(parts) <= least {
		return 0, false
	}
	unit := int64(3600)
	for i, p := range parts {
		n, ok := digits(p, 2)
		if !ok || i == 0 && n > 23 || n > 59 {
			return 0, false
		}
		seconds += n * unit
		unit /= 60
	}
	return seconds, true
}

// digits reads exactly n decimal digits.
func digits(text string, n int) (v int64, ok bool) {
	if len(text) != n {
		return 0, false
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, true
}
