package decode

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// ErrColumnType is wrapped by the errors of ParseColumnType.
var ErrColumnType = errors.New("neither a Delta nor a MySQL type")

// ColumnSpec is a column's type as the configuration gives it.
type ColumnSpec struct {
	// Type is the column's type in the table.
	Type schema.Type
	text string
	// codec is how a record without schema writes the type.
	codec codec
}

// String gives the text that was parsed.
func (c ColumnSpec) String() string { return c.text }

// ParseColumnType reads a Delta type ("long", "decimal(12,2)") or a MySQL type
// ("bigint unsigned", "datetime(6)"), which also says how Debezium encodes it:
//
//	tinyint[(1)] byte; smallint short; mediumint, int integer; bigint long
//	… unsigned    the next wider type; bigint unsigned: decimal(20,0), and a
//	              negative integer in a record has wrapped around
//	decimal(p,s)  decimal(p,s), over 38 digits string: a JSON number, a string
//	              of base64 under Debezium.Decimals "base64", else of digits
//	float, float(p<24) float; float(p>=24), double, real double
//	bit(1) boolean; bit(n) long, bit(64) decimal(20,0): base64, little-endian
//	date          date: days
//	datetime(n)   timestamp_ntz: milliseconds, from n = 4 on microseconds
//	timestamp(n)  timestamp: ISO text; an integer is milliseconds
//	time(n)       long, signed microseconds
//	year          integer
//	char, varchar, text, enum, set, json, uuid, inet6  string
//	binary(n), varbinary, blob  binary: base64; binary(n) padded to n bytes
//	geometry, point, …  binary: the WKB
//
// Where a name is both, as "int", the two mean the same; "boolean" is Delta's
// (true, false, 0, 1), "bool" MySQL's tinyint(1). Text forms of dates and times
// are read everywhere. The error wraps ErrColumnType.
func ParseColumnType(text string) (ColumnSpec, error) {
	spec, err := parseColumnType(text)
	if err != nil {
		return ColumnSpec{}, fmt.Errorf("%w: %q: %w", ErrColumnType, text, err)
	}
	spec.text = text
	spec.Type = spec.codec.typ
	return spec, nil
}

// sqlName is the bare name of the type as it was configured: "set", "timestamp".
func (c ColumnSpec) sqlName() string {
	t, _ := splitType(c.text) // it was parsed before
	return t.name
}

var (
	errTypeName      = errors.New("no such type")
	errTypeArgs      = errors.New("the numbers in parentheses don't belong there")
	errTypeAttribute = errors.New("unknown attribute")
)

// sqlType is a type's text taken apart.
type sqlType struct {
	name     string
	args     []int
	quoted   bool // enum and set: the arguments are labels
	unsigned bool
}

func parseColumnType(text string) (ColumnSpec, error) {
	t, err := splitType(text)
	if err != nil {
		return ColumnSpec{}, err
	}
	c, err := t.codec()
	return ColumnSpec{codec: c}, err
}

func splitType(text string) (t sqlType, err error) {
	rest := strings.ToLower(strings.TrimSpace(text))
	end := strings.IndexFunc(rest, func(r rune) bool { return r == '(' || r == ' ' })
	if end < 0 {
		end = len(rest)
	}
	t.name, rest = rest[:end], strings.TrimSpace(rest[end:])
	for _, second := range []string{"precision", "varying"} { // double precision, character varying
		if r, ok := strings.CutPrefix(rest, second); ok && (t.name == "double" || t.name == "character") {
			rest = strings.TrimSpace(r)
			if second == "varying" {
				t.name = "varchar"
			}
		}
	}
	if strings.HasPrefix(rest, "(") {
		if t.quoted = t.name == "enum" || t.name == "set"; t.quoted {
			if end = strings.LastIndexByte(rest, ')'); end < 0 {
				return t, errTypeArgs
			}
		} else {
			if end = strings.IndexByte(rest, ')'); end < 0 {
				return t, errTypeArgs
			}
			for arg := range strings.SplitSeq(rest[1:end], ",") {
				n, err := strconv.ParseUint(strings.TrimSpace(arg), 10, 31)
				if err != nil {
					return t, errTypeArgs
				}
				t.args = append(t.args, int(n))
			}
		}
		rest = rest[end+1:]
	}
	words := strings.Fields(rest)
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "unsigned", "zerofill":
			t.unsigned = true
		case "signed", "binary", "ascii", "unicode":
		case "charset", "collate":
			i++
		case "character":
			i += 2
		default:
			return t, fmt.Errorf("%w %q", errTypeAttribute, words[i])
		}
		if i >= len(words) {
			return t, fmt.Errorf("%w %q", errTypeAttribute, words[len(words)-1])
		}
	}
	return t, nil
}

// arg gives the i-th argument or its default.
func (t sqlType) arg(i, otherwise int) int {
	if i < len(t.args) {
		return t.args[i]
	}
	return otherwise
}

func intCodec(p schema.Primitive, lo, hi int64) codec {
	return codec{enc: encInt, typ: schema.Of(p), lo: lo, hi: hi}
}

// typeCodecs holds the names that need no more than a look.
var typeCodecs = map[string]codec{
	"tinyint": {enc: encInt, typ: schema.Of(schema.Byte), lo: math.MinInt8, hi: math.MaxInt8, loose: true},
	"bool":    {enc: encInt, typ: schema.Of(schema.Byte), lo: math.MinInt8, hi: math.MaxInt8, loose: true},
	"byte":    {enc: encInt, typ: schema.Of(schema.Byte), lo: math.MinInt8, hi: math.MaxInt8, loose: true},

	"smallint": intCodec(schema.Short, math.MinInt16, math.MaxInt16), "short": intCodec(schema.Short, math.MinInt16, math.MaxInt16),
	"mediumint": intCodec(schema.Integer, -1<<23, 1<<23-1),
	"int":       intCodec(schema.Integer, math.MinInt32, math.MaxInt32), "integer": intCodec(schema.Integer, math.MinInt32, math.MaxInt32),
	"bigint": intCodec(schema.Long, math.MinInt64, math.MaxInt64), "long": intCodec(schema.Long, math.MinInt64, math.MaxInt64),
	"year": intCodec(schema.Integer, 0, 9999),

	"boolean": {enc: encBool, typ: schema.Of(schema.Boolean), loose: true},
	"double":  {enc: encDouble, typ: schema.Of(schema.DoubleType)}, "real": {enc: encDouble, typ: schema.Of(schema.DoubleType)},
	"date":          {enc: encDays, typ: schema.Of(schema.Date)},
	"timestamp":     {enc: encTime, typ: schema.Of(schema.Timestamp), unit: millis},
	"timestamp_ltz": {enc: encTime, typ: schema.Of(schema.Timestamp), unit: millis},
	"timestamp_ntz": {enc: encTime, typ: schema.Of(schema.TimestampNTZ)},
	"time":          {enc: encTime, typ: schema.Of(schema.Long), unit: micros},
}

// unsignedCodecs are those of the integers with unsigned.
var unsignedCodecs = map[string]codec{
	"tinyint":   intCodec(schema.Short, 0, math.MaxUint8),
	"smallint":  intCodec(schema.Integer, 0, math.MaxUint16),
	"mediumint": intCodec(schema.Integer, 0, 1<<24-1),
	"int":       intCodec(schema.Long, 0, math.MaxUint32), "integer": intCodec(schema.Long, 0, math.MaxUint32),
	"bigint": unsignedCodec, "serial": unsignedCodec,
}

var unsignedCodec = codec{enc: encUnsigned, typ: schema.Decimal(20, 0), precision: 20}

// maxArgs is how many numbers a type takes; 0 where it is not listed.
var maxArgs = map[string]int{
	"tinyint": 1, "smallint": 1, "mediumint": 1, "int": 1, "integer": 1, "bigint": 1, "year": 1, "bit": 1,
	"decimal": 2, "numeric": 2, "dec": 2, "fixed": 2, "float": 2, "double": 2, "real": 2,
	"datetime": 1, "timestamp": 1, "time": 1,
	"char": 1, "varchar": 1, "nchar": 1, "nvarchar": 1, "character": 1, "text": 1, "blob": 1, "binary": 1, "varbinary": 1,
}

func (t sqlType) codec() (codec, error) {
	if len(t.args) > maxArgs[t.name] || (t.name == "enum" || t.name == "set") != t.quoted {
		return codec{}, errTypeArgs
	}
	if t.name == "serial" {
		t.unsigned = true
	}
	if c, ok := unsignedCodecs[t.name]; ok && t.unsigned {
		return c, nil
	}
	if c, ok := typeCodecs[t.name]; ok {
		return c, t.precisionFault()
	}
	switch t.name {
	case "decimal", "numeric", "dec", "fixed":
		return decimalCodec(t.arg(0, 10), t.arg(1, 0))
	case "float":
		switch p := t.arg(0, 0); {
		case len(t.args) == 1 && p > 53:
			return codec{}, errTypeArgs
		case len(t.args) == 1 && p >= 24:
			return typeCodecs["double"], nil
		}
		return codec{enc: encFloat, typ: schema.Of(schema.FloatType)}, nil
	case "bit":
		switch n := t.arg(0, 1); {
		case n < 1 || n > 64:
			return codec{}, errTypeArgs
		case n == 1:
			return typeCodecs["boolean"], nil
		default:
			return bitsCodec(n), nil
		}
	case "datetime":
		c := codec{enc: encTime, typ: schema.Of(schema.TimestampNTZ), unit: millis}
		if t.arg(0, 0) > 3 {
			c.unit = micros
		}
		return c, t.precisionFault()
	case "string", "char", "character", "varchar", "nchar", "nvarchar", "tinytext", "text", "mediumtext", "longtext",
		"enum", "set", "json", "uuid", "inet4", "inet6":
		return codec{enc: encText, typ: schema.Of(schema.StringType)}, nil
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		c := codec{enc: encBytes, typ: schema.Of(schema.BinaryType)}
		if t.name == "binary" {
			c.length = t.arg(0, 0)
		}
		return c, nil
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geometrycollection", "geomcollection":
		return codec{enc: encGeometry, typ: schema.Of(schema.BinaryType)}, nil
	}
	return codec{}, errTypeName
}

// precisionFault refuses fractions of a second beyond microseconds.
func (t sqlType) precisionFault() error {
	if (t.name == "datetime" || t.name == "timestamp" || t.name == "time") && t.arg(0, 0) > 6 {
		return errTypeArgs
	}
	return nil
}

func bitsCodec(n int) codec {
	if n >= 64 {
		return codec{enc: encBits, typ: schema.Decimal(20, 0), length: 64}
	}
	return codec{enc: encBits, typ: schema.Of(schema.Long), length: n}
}

// decimalCodec reads decimals of MySQL: up to 38 digits as decimals, above as text.
func decimalCodec(precision, scale int) (codec, error) {
	if precision < 1 || precision > maxMySQLDigits || scale > precision {
		return codec{}, errTypeArgs
	}
	c := codec{enc: encDecimal, precision: precision, scale: scale}
	if precision > maxDigits {
		c.enc, c.typ = encLongDecimal, schema.Of(schema.StringType)
	} else {
		c.typ = schema.Decimal(uint8(precision), uint8(scale))
	}
	return c, nil
}

// hinted applies what the configuration says of records without schemas.
func (c codec) hinted(h Debezium) codec {
	c.base64 = h.Decimals == "base64"
	if h.Unsigned == "long" && c.typ == schema.Decimal(20, 0) && c.enc == encDecimal {
		c.enc = encUnsigned
	}
	return c
}
