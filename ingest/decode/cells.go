package decode

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// cells is where the cells of one JSON text are read from and put.
type cells struct {
	b     []byte
	arena *change.Arena
	room  int // cells to leave free behind a row after
	// placeholder and its base64 form mark a cell that the source did not send.
	placeholder, placeholder64 string
	// empty: {} marks one.
	empty bool
}

var (
	errSmall  = errors.New("too small for the column")
	errLarge  = errors.New("too large for the column")
	errNoUnit = errors.New("nothing tells whether the integer is milliseconds or microseconds: configure datetime(3) or datetime(6)")

	errNotDecimalText = fmt.Errorf("%w; if the connector writes base64, set debezium: {decimals: base64}", errNotDecimal)
)

func wrongKind(k kind, want string) error { return fmt.Errorf("%s where %s belongs", k, want) }

// cell reads one cell.
func (r *cells) cell(c *codec, t token) (v schema.Value, err error) {
	switch {
	case t.kind == kindNull:
		return schema.Value{}, nil
	case t.kind == kindString && r.unavailable(t), r.empty && t.kind == kindObject && t.end-t.start == 2:
		return schema.Value{Kind: schema.Unavailable}, nil
	}
	if c.quoted && t.kind == kindString && t.flags&flagEscaped == 0 {
		t = quotedNumber(r.b, t)
	}
	switch c.enc {
	case encUntyped:
		return r.untyped(t)
	case encString:
		if t.kind != kindString {
			return v, wrongKind(t.kind, "a string")
		}
		v, err = r.str(t)
	case encInt:
		v, err = r.int(c, t)
	case encDouble, encFloat:
		v, err = r.float(c, t)
	case encBool:
		v, err = r.bool(c, t)
	case encDecimal, encLongDecimal:
		v, err = r.decimal(c, t)
	case encUnsigned:
		v, err = r.unsigned(c, t)
	case encTime:
		v, err = r.time(c, t)
	case encDays:
		v, err = r.days(t)
	case encBytes:
		v, err = r.bytes(c, t)
	case encBits:
		v, err = r.bits(c, t)
	case encText:
		if t.kind == kindString {
			v, err = r.str(t)
		} else {
			v = schema.StringValue(jsonText(r.b, t, r.arena))
		}
	case encGeometry:
		v, err = r.geometry(t)
	case encVariable:
		v, err = r.variable(t)
	case encLabels:
		v, err = r.labels(t)
	case encHex:
		v, err = r.hex(t, c.length)
	case encHexBits:
		v, err = r.hexBits(c, t)
	case encLatin1:
		v, err = r.latin1(t, c.length)
	case encGeometryLatin1:
		v, err = r.geometryLatin1(t)
	case encText64:
		v, err = r.text64(t)
	case encGoBytes:
		v, err = r.goBytes(t, c.length)
	case encGeometryBytes:
		if v, err = r.bytes(c, t); err == nil && len(v.S) < 4+5 {
			err = errGeometry
		}
		if err == nil {
			v.S = v.S[4:]
		}
	case encEnumIndex, encSetBits:
		v, err = r.numberedLabels(c, t)
	case encJSON:
		v = schema.StringValue(jsonText(r.b, t, r.arena))
	}
	if err == nil && c.fit.Primitive != schema.Unknown {
		return Fit(v, c.typ, c.fit)
	}
	return v, err
}

func (r *cells) raw(t token) []byte { return r.b[t.start:t.end] }

func (r *cells) unavailable(t token) bool {
	n := int(t.end - t.start)
	return n == len(r.placeholder) && string(r.raw(t)) == r.placeholder ||
		n == len(r.placeholder64) && string(r.raw(t)) == r.placeholder64
}

func (r *cells) str(t token) (schema.Value, error) {
	s, err := text(r.b, t, r.arena)
	return schema.StringValue(s), err
}

func (r *cells) untyped(t token) (schema.Value, error) {
	switch t.kind {
	case kindString:
		return r.str(t)
	case kindNumber:
		return number(r.b, t), nil
	case kindTrue, kindFalse:
		return schema.BoolValue(t.kind == kindTrue), nil
	}
	return schema.StringValue(jsonText(r.b, t, r.arena)), nil
}

func (r *cells) bool(c *codec, t token) (schema.Value, error) {
	switch t.kind {
	case kindTrue, kindFalse:
		return schema.BoolValue(t.kind == kindTrue), nil
	case kindNumber:
		if s := r.raw(t); c.loose && len(s) == 1 && s[0] <= '1' {
			return schema.BoolValue(s[0] == '1'), nil
		}
		return schema.Value{}, fmt.Errorf("%.20s is no boolean", r.raw(t))
	}
	return schema.Value{}, wrongKind(t.kind, "a boolean")
}

// whole reads a number token that must be an integer of 64 bits, however written.
func (r *cells) whole(t token) (int64, error) {
	if t.kind != kindNumber {
		return 0, wrongKind(t.kind, "an integer")
	}
	if t.flags&flagInteger != 0 {
		n, ok := integer(r.raw(t))
		if !ok {
			return 0, errLarge
		}
		return n, nil
	}
	return wholeText(view(r.raw(t)))
}

func (r *cells) int(c *codec, t token) (schema.Value, error) {
	if c.loose && (t.kind == kindTrue || t.kind == kindFalse) {
		return schema.IntValue(schema.BoolValue(t.kind == kindTrue).I), nil
	}
	n, err := r.whole(t)
	if err != nil {
		return schema.Value{}, err
	}
	return c.integer(n)
}

// integer is a cell of an integer column.
func (c *codec) integer(n int64) (schema.Value, error) {
	switch {
	case n < c.lo:
		return schema.Value{}, errSmall
	case n > c.hi:
		return schema.Value{}, errLarge
	}
	return schema.IntValue(n), nil
}

// unwrapped is a cell of a BIGINT UNSIGNED column, of which the largest integers come
// as negative ones.
func unwrapped(n int64, arena *change.Arena) schema.Value {
	if n >= 0 {
		return schema.Value{Kind: schema.Dec, I: n}
	}
	return decimalValue(false, uint128{0, uint64(n)}, arena)
}

func (r *cells) unsigned(c *codec, t token) (schema.Value, error) {
	if t.kind == kindNumber && t.flags&flagInteger != 0 {
		if n, ok := integer(r.raw(t)); ok {
			return unwrapped(n, r.arena), nil
		}
	}
	v, err := r.decimal(c, t)
	if err == nil {
		if hi, _ := v.Unscaled128(); hi < 0 {
			return schema.Value{}, errSmall
		} else if hi > 0 {
			return schema.Value{}, errLarge
		}
	}
	return v, err
}

func (r *cells) float(c *codec, t token) (schema.Value, error) {
	width := 64
	if c.enc == encFloat {
		width = 32
	}
	switch t.kind {
	case kindNumber:
	case kindString: // Jackson writes what JSON has no number for as strings
		if s := r.raw(t); string(s) != "NaN" && string(s) != "Infinity" && string(s) != "-Infinity" {
			return schema.Value{}, wrongKind(t.kind, "a number")
		}
	default:
		return schema.Value{}, wrongKind(t.kind, "a number")
	}
	f, err := strconv.ParseFloat(view(r.raw(t)), width)
	if err != nil {
		return schema.Value{}, errLarge // the scanner has passed its grammar
	}
	if width == 32 {
		return schema.FloatValue(float32(f)), nil
	}
	return schema.DoubleValue(f), nil
}

func (r *cells) decimal(c *codec, t token) (v schema.Value, err error) {
	raw := r.raw(t)
	switch t.kind {
	case kindNumber:
	case kindString:
		if raw, err = r.unescaped(t); err != nil {
			return v, err
		}
		if c.base64 {
			var room [64]byte
			b := room[:]
			if n := len(raw) / 4 * 3; n > len(room) {
				b = make([]byte, n)
			}
			if b, err = decodeBase64(b, raw); err != nil {
				return v, err
			}
			return c.decimalBytes(b, r.arena)
		}
	default:
		return v, wrongKind(t.kind, "a decimal")
	}
	if v, err = c.decimalText(view(raw), r.arena); err == errNotDecimal && c.enc == encDecimal {
		err = errNotDecimalText
	}
	return v, err
}

// decimalBytes is a cell of a decimal column from an unscaled integer in bytes.
func (c *codec) decimalBytes(b []byte, arena *change.Arena) (schema.Value, error) {
	if c.enc == encLongDecimal {
		s, err := longDecimalBytes(b, c.precision, c.scale)
		return schema.StringValue(s), err
	}
	return decimalBytes(b, c.precision, c.scale, arena)
}

// decimalText is a cell of a decimal column from a number's text.
func (c *codec) decimalText(s string, arena *change.Arena) (schema.Value, error) {
	if c.enc == encLongDecimal {
		s, err := longDecimalText(s, c.precision, c.scale)
		return schema.StringValue(s), err
	}
	return parseDecimal(s, c.precision, c.scale, arena)
}

func (r *cells) days(t token) (schema.Value, error) {
	if t.kind == kindString {
		s, err := text(r.b, t, r.arena)
		if err != nil {
			return schema.Value{}, err
		}
		return dateText(s)
	}
	n, err := r.whole(t)
	if err != nil {
		return schema.Value{}, err
	}
	return dateOf(n)
}

// dateText is the cell of a date's text; a zero date is NULL.
func dateText(s string) (schema.Value, error) {
	days, zero, err := parseDate(s)
	if zero || err != nil {
		return schema.Value{}, err
	}
	return schema.IntValue(days), nil
}

// dateOf is the cell of days since 1970.
func dateOf(days int64) (schema.Value, error) {
	if int64(int32(days)) != days {
		return schema.Value{}, errTimeRange
	}
	return schema.IntValue(days), nil
}

func (r *cells) time(c *codec, t token) (schema.Value, error) {
	if t.kind == kindString {
		s, err := text(r.b, t, r.arena)
		if err != nil {
			return schema.Value{}, err
		}
		return c.timeText(s)
	}
	n, err := r.whole(t)
	if err != nil {
		return schema.Value{}, err
	}
	return c.timeOf(n)
}

// timeText is a cell of a time column from its text.
func (c *codec) timeText(s string) (schema.Value, error) {
	v, err := timeText(s, c.typ)
	if c.zone != nil && errors.Is(err, errZone) {
		v, err = timeText(s, schema.Of(schema.TimestampNTZ))
		v.I = inZone(v, c.zone)
	}
	return v, err
}

// timeOf is a cell of a time column from an integer of the column's unit.
func (c *codec) timeOf(n int64) (schema.Value, error) {
	if c.unit == noUnit {
		return schema.Value{}, errNoUnit
	}
	n, err := c.unit.inMicros(n)
	if err == nil && c.typ.Primitive != schema.Long && (n < minTimestamp || n > maxTimestamp) {
		err = errTimeRange
	}
	if err != nil {
		return schema.Value{}, err
	}
	return schema.IntValue(n), nil
}

// The years 1 to 9999, in microseconds: beyond it, an integer has another unit.
const (
	minTimestamp = -62135596800 * microsPerSecond
	maxTimestamp = 253402300800*microsPerSecond - 1
)

// timeText reads a text for a column of the type: a timestamp, a date and
// time, or (long) a time. A zero date is NULL.
func timeText(s string, typ schema.Type) (schema.Value, error) {
	if typ.Primitive == schema.Long {
		n, err := parseTime(s)
		if err != nil {
			return schema.Value{}, err
		}
		return schema.IntValue(n), nil
	}
	n, zero, err := parseTimestamp(s, typ.Primitive == schema.Timestamp)
	if zero || err != nil {
		return schema.Value{}, err
	}
	return schema.IntValue(n), nil
}

// inZone takes a date and time as the clock of a zone shows it; nothing tells which
// of the two is meant that it shows twice in autumn.
func inZone(v schema.Value, zone *time.Location) int64 {
	if v.Kind != schema.Int || zone == time.UTC {
		return v.I
	}
	t := time.UnixMicro(v.I).UTC()
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone).UnixMicro()
}

// unescaped gives the characters of a string token.
func (r *cells) unescaped(t token) ([]byte, error) {
	raw := r.raw(t)
	if t.flags&flagEscaped == 0 {
		return raw, nil
	}
	return unescape(make([]byte, len(raw)), raw)
}

// base64 decodes a string token into the arena, with zeros up to pad bytes.
func (r *cells) base64(t token, pad int) (b []byte, err error) {
	raw, err := r.unescaped(t)
	if err != nil {
		return nil, err
	}
	room := r.arena.Bytes(max(len(raw)/4*3, pad))
	b, err = decodeBase64(room, raw)
	if err != nil {
		return nil, err
	}
	if len(b) < pad {
		n := len(b)
		b = room[:pad]
		clear(b[n:])
	}
	return b, nil
}

func (r *cells) bytes(c *codec, t token) (schema.Value, error) {
	if t.kind != kindString {
		return schema.Value{}, wrongKind(t.kind, "base64")
	}
	b, err := r.base64(t, c.length)
	if err == nil && c.length > 0 && len(b) > c.length {
		err = errLarge
	}
	if err != nil {
		return schema.Value{}, err
	}
	return schema.BinaryValue(view(b)), nil
}

// labels joins the labels of a set with commas, as MySQL prints them.
func (r *cells) labels(t token) (schema.Value, error) {
	switch t.kind {
	case kindString:
		return r.str(t)
	case kindArray:
	default:
		return schema.Value{}, wrongKind(t.kind, "an array of labels")
	}
	s := scanner{b: r.b}
	room := r.arena.Bytes(int(t.end - t.start))[:0]
	for i := s.space(int(t.start) + 1); r.b[i] != ']'; {
		label, end := s.value(i, 1) // the scanner has passed it before
		if label.kind != kindString {
			return schema.Value{}, wrongKind(label.kind, "a label")
		}
		name, err := text(r.b, label, r.arena)
		if err != nil {
			return schema.Value{}, err
		}
		if len(room) > 0 {
			room = append(room, ',')
		}
		room = append(room, name...)
		if i = s.space(end); r.b[i] == ',' {
			i = s.space(i + 1)
		}
	}
	return schema.StringValue(view(room)), nil
}

func (r *cells) bits(c *codec, t token) (schema.Value, error) {
	var n uint64
	switch t.kind {
	case kindString:
		b, err := r.base64(t, 0)
		if err != nil {
			return schema.Value{}, err
		}
		return c.bitsBytes(b, r.arena)
	case kindNumber:
		v, err := parseDecimal(view(r.raw(t)), 20, 0, nil)
		if err != nil {
			return schema.Value{}, err
		}
		hi, lo := v.Unscaled128()
		switch {
		case hi < 0:
			return schema.Value{}, errSmall
		case hi > 0:
			return schema.Value{}, errLarge
		}
		n = lo
	default:
		return schema.Value{}, wrongKind(t.kind, "base64 or a number")
	}
	return c.bits(n, r.arena)
}

// bitsBytes is a cell of a bit column from its bytes, the lowest first.
func (c *codec) bitsBytes(b []byte, arena *change.Arena) (schema.Value, error) {
	var n uint64
	for i, x := range b {
		if i >= 8 && x != 0 {
			return schema.Value{}, errLarge
		}
		n |= uint64(x) << (8 * min(i, 7))
	}
	return c.bits(n, arena)
}

func (c *codec) bits(n uint64, arena *change.Arena) (schema.Value, error) {
	if c.length < 64 && n>>c.length != 0 {
		return schema.Value{}, errLarge
	}
	if c.typ.Primitive == schema.DecimalType {
		return decimalValue(false, uint128{0, n}, arena), nil
	}
	return schema.IntValue(int64(n)), nil
}
