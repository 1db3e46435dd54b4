package mysql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/decode"
)

// column is a column of the table: its type there, and the one that it has as a slice,
// which is the same as from Kafka.
type column struct {
	name, sql string
	typ       schema.Type
}

func columnOf(name, sql string) (column, error) {
	spec, err := decode.ParseColumnType(sql)
	if err != nil {
		return column{}, fmt.Errorf("the column %s: %w", name, err)
	}
	return column{name, base(sql), spec.Type}, nil
}

// base is the name of a type without what is behind it.
func base(sql string) string {
	if i := strings.IndexAny(sql, "( "); i >= 0 {
		sql = sql[:i]
	}
	return strings.ToLower(sql)
}

// selected is the column in a SELECT. What the server would show rounded, or as bytes of a
// form of its own, is asked for in another way.
func (c *column) selected() string {
	name := quoted(c.name)
	switch c.sql {
	case "float": // 6 digits as text; as a double all that it has
		return "(" + name + " + 0e0)"
	case "bit":
		return "CAST(" + name + " AS UNSIGNED)"
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection":
		return "ST_AsBinary(" + name + ")"
	}
	return name
}

// cell makes a cell of what the server has sent.
func (c *column) cell(v *mysql.FieldValue) (schema.Value, error) {
	var text string
	switch v.Type {
	case mysql.FieldValueTypeNull:
		return schema.Value{}, nil
	case mysql.FieldValueTypeUnsigned:
		text = strconv.FormatUint(v.AsUint64(), 10)
	case mysql.FieldValueTypeSigned:
		if n := v.AsInt64(); schema.KindOf(c.typ) == schema.Int {
			return schema.IntValue(n), nil
		}
		text = strconv.FormatInt(v.AsInt64(), 10)
	case mysql.FieldValueTypeFloat:
		if c.typ.Primitive == schema.FloatType {
			return schema.FloatValue(float32(v.AsFloat64())), nil
		}
		return schema.DoubleValue(v.AsFloat64()), nil
	default:
		text = string(v.AsString())
	}
	switch {
	case c.typ.Primitive == schema.StringType:
		return schema.StringValue(text), nil
	case c.typ.Primitive == schema.BinaryType:
		return schema.BinaryValue(text), nil
	case c.typ.Primitive == schema.Boolean:
		return schema.BoolValue(text != "0"), nil
	case c.sql == "time":
		return c.timeOfDay(text)
	case c.sql == "timestamp":
		text += "Z" // the session's zone is UTC
	}
	cell, err := expr.ParseValue(text, schema.Field{Name: c.name, Type: c.typ})
	if err != nil {
		return cell, fmt.Errorf("the column %s has %q: %w", c.name, text, err)
	}
	return cell, nil
}

// timeOfDay makes microseconds of [-]HHH:MM:SS[.ffffff].
func (c *column) timeOfDay(text string) (schema.Value, error) {
	rest, negative := strings.CutPrefix(text, "-")
	clock, fraction, _ := strings.Cut(rest, ".")
	parts := strings.Split(clock, ":")
	micros, err := strconv.ParseUint((fraction + "000000")[:6], 10, 32)
	if len(parts) != 3 || err != nil {
		return schema.Value{}, fmt.Errorf("the column %s has %q, which is no time", c.name, text)
	}
	seconds := uint64(0)
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return schema.Value{}, fmt.Errorf("the column %s has %q, which is no time", c.name, text)
		}
		seconds = seconds*60 + n
	}
	total := int64(seconds*1_000_000 + micros)
	if negative {
		total = -total
	}
	return schema.IntValue(total), nil
}
