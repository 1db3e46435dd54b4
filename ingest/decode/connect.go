package decode

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// connectField is a Kafka Connect schema, or a field of one, as JsonConverter
// writes it.
type connectField struct {
	Type       string                     `json:"type"`
	Name       string                     `json:"name"`
	Field      string                     `json:"field"`
	Parameters map[string]json.RawMessage `json:"parameters"`
	Fields     json.RawMessage            `json:"fields"`
}

// parameter gives a parameter's text; writers quote numbers or not.
func (f *connectField) parameter(name string) string {
	return strings.Trim(string(f.Parameters[name]), `"`)
}

// number gives an integer parameter, -1 where there is none.
func (f *connectField) number(name string) (int, error) {
	text := f.parameter(name)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseUint(text, 10, 15)
	if err != nil {
		return 0, fmt.Errorf("field %q: parameter %s is %.20q", f.Field, name, text)
	}
	return int(n), nil
}

func connectFields(raw json.RawMessage) (fields []connectField, err error) {
	if len(raw) > 0 {
		err = json.Unmarshal(raw, &fields)
	}
	return fields, err
}

// codec gives the encoding of a field's values in JSON.
func (f *connectField) codec() (codec, error) {
	base, ok := f.base()
	if !ok {
		return codec{}, fmt.Errorf("field %q has the unknown type %.40q", f.Field, f.Type)
	}
	switch name := f.Name; base.enc {
	case encInt:
		switch name {
		case "io.debezium.time.Date", "org.apache.kafka.connect.data.Date":
			return codec{enc: encDays, typ: schema.Of(schema.Date)}, nil
		case "io.debezium.time.Time", "org.apache.kafka.connect.data.Time":
			return codec{enc: encTime, typ: schema.Of(schema.Long), unit: millis}, nil
		case "io.debezium.time.MicroTime":
			return codec{enc: encTime, typ: schema.Of(schema.Long), unit: micros}, nil
		case "io.debezium.time.NanoTime":
			return codec{enc: encTime, typ: schema.Of(schema.Long), unit: nanos}, nil
		case "io.debezium.time.Timestamp", "org.apache.kafka.connect.data.Timestamp":
			return codec{enc: encTime, typ: schema.Of(schema.TimestampNTZ), unit: millis}, nil
		case "io.debezium.time.MicroTimestamp":
			return codec{enc: encTime, typ: schema.Of(schema.TimestampNTZ), unit: micros}, nil
		case "io.debezium.time.NanoTimestamp":
			return codec{enc: encTime, typ: schema.Of(schema.TimestampNTZ), unit: nanos}, nil
		}
	case encString:
		switch name {
		case "io.debezium.time.ZonedTimestamp":
			return codec{enc: encTime, typ: schema.Of(schema.Timestamp)}, nil
		case "io.debezium.time.IsoTimestamp":
			return codec{enc: encTime, typ: schema.Of(schema.TimestampNTZ)}, nil
		case "io.debezium.time.IsoTime":
			return codec{enc: encTime, typ: schema.Of(schema.Long)}, nil
		case "io.debezium.time.IsoDate":
			return codec{enc: encDays, typ: schema.Of(schema.Date)}, nil
		}
	case encBytes:
		switch name {
		case "org.apache.kafka.connect.data.Decimal":
			return f.decimal()
		case "io.debezium.data.Bits":
			n, err := f.number("length")
			if n < 1 {
				n = 64
			}
			if n > 64 { // no MySQL type; kept as its bytes
				return base, err
			}
			return bitsCodec(n), err
		}
	case encJSON:
		if f.Type == "struct" {
			switch {
			case name == "io.debezium.data.VariableScaleDecimal":
				return codec{enc: encVariable, typ: schema.Of(schema.StringType)}, nil
			case strings.HasPrefix(name, "io.debezium.data.geometry."):
				return codec{enc: encGeometry, typ: schema.Of(schema.BinaryType)}, nil
			}
		}
	}
	return base, nil
}

// base gives the encoding of the type without its logical name.
func (f *connectField) base() (codec, bool) {
	switch f.Type {
	case "boolean":
		return codec{enc: encBool, typ: schema.Of(schema.Boolean)}, true
	case "int8":
		return intCodec(schema.Byte, math.MinInt8, math.MaxInt8), true
	case "int16":
		return intCodec(schema.Short, math.MinInt16, math.MaxInt16), true
	case "int32":
		return intCodec(schema.Integer, math.MinInt32, math.MaxInt32), true
	case "int64":
		return intCodec(schema.Long, math.MinInt64, math.MaxInt64), true
	case "float", "float32":
		return codec{enc: encFloat, typ: schema.Of(schema.FloatType)}, true
	case "double", "float64":
		return codec{enc: encDouble, typ: schema.Of(schema.DoubleType)}, true
	case "string":
		return codec{enc: encString, typ: schema.Of(schema.StringType)}, true
	case "bytes":
		return codec{enc: encBytes, typ: schema.Of(schema.BinaryType)}, true
	case "struct", "array", "map":
		return codec{enc: encJSON, typ: schema.Of(schema.StringType)}, true
	}
	return codec{}, false
}

// decimal gives the encoding of Connect's Decimal. Without a precision a scale
// of 0 is Debezium's BIGINT UNSIGNED under bigint.unsigned.handling.mode=precise;
// its values fit decimal(20,0), and any other integer that doesn't is an error.
func (f *connectField) decimal() (codec, error) {
	scale, err := f.number("scale")
	if err != nil {
		return codec{}, err
	}
	precision, err := f.number("connect.decimal.precision")
	if err != nil {
		return codec{}, err
	}
	scale = max(scale, 0)
	switch {
	case precision < 1 && scale == 0:
		precision = 20
	case precision < scale && scale <= maxDigits:
		precision = maxDigits
	case precision < scale:
		precision = math.MaxInt16 // nothing tells; all digits are kept as text
	}
	c := codec{enc: encDecimal, precision: precision, scale: scale, base64: true}
	if precision > maxDigits {
		c.enc, c.typ = encLongDecimal, schema.Of(schema.StringType)
	} else {
		c.typ = schema.Decimal(uint8(precision), uint8(scale))
	}
	return c, nil
}

// configured is the codec of a column that both the record's schema and the
// configuration describe: the schema knows the encoding, the configuration the
// meaning that the schema lost and the type that is wanted.
func (c codec) configured(spec codec) codec {
	switch {
	case c.enc == encInt && (spec.enc == encInt || spec.enc == encUnsigned),
		spec.enc == encDecimal && (c.enc == encDouble || c.enc == encFloat || c.enc == encInt),
		spec.enc == encBytes && c.enc == encString,
		spec.enc == encBits && c.enc == encBytes,
		(spec.enc == encTime || spec.enc == encDays) && (c.enc == encInt || c.enc == encString):
		return spec
	case c.typ == spec.typ:
		c.length = max(c.length, spec.length)
		return c
	}
	c.fit = spec.typ
	return c
}
