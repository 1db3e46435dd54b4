package slice

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
)

// jsonFile is a file of JSON lines: an object a line. It is read twice: once for the
// columns that it has, which may differ from line to line, and once for the rows.
type jsonFile struct {
	at Place
	o  FileOptions
}

func (f *jsonFile) Name() string { return f.at.Name }

func (f *jsonFile) Open(ctx context.Context, columns *schema.Schema) (ingest.SliceRows, error) {
	var out ingest.SliceRows
	at := map[string]int{}
	var sorts []sort
	err := f.lines(ctx, func(line int64, object *fastjson.Object) error {
		var fault error
		object.Visit(func(key []byte, v *fastjson.Value) {
			i, there := at[string(key)]
			if !there {
				i = len(out.Columns)
				at[string(key)] = i
				out.Columns = append(out.Columns, f.column(string(key), columns))
				sorts = append(sorts, noValue)
			}
			if out.Columns[i].Type.Primitive != schema.Void || fault != nil || v.Type() == fastjson.TypeNull {
				return
			}
			next, ok := sorts[i].with(sortOf(v))
			if !ok {
				fault = fmt.Errorf("%w: %s, line %d: the column %s is %s here and %s before: give its type with --columns %s=TYPE", ingest.ErrSlice, f.at.Name, line, key, sortOf(v), sorts[i], key)
			}
			sorts[i] = next
		})
		return fault
	})
	switch {
	case err != nil:
		return out, err
	case len(out.Columns) == 0 && columns == nil:
		return out, incomplete(f.at.Name, "it has 0 rows")
	case len(out.Columns) == 0: // a file without lines has all columns, and 0 rows
		for _, c := range columns.Fields {
			out.Columns = append(out.Columns, schema.Field{Name: c.Name, Type: c.Type, Nullable: true})
		}
	}
	for i := range out.Columns {
		c := &out.Columns[i]
		if c.Type.Primitive != schema.Void {
			continue
		}
		if i < len(sorts) && sorts[i] == nested {
			return out, fmt.Errorf("%w: the column %s of %s has objects or lists: a table that has the column says what they are; make it first, or leave the column out", ingest.ErrSlice, c.Name, f.at.Name)
		}
		c.Type = sorts[i].columnType()
	}
	out.Rows = func(yield func([]schema.Value, error) bool) {
		row := make([]schema.Value, len(out.Columns))
		stopped := errors.New("stopped")
		err := f.lines(ctx, func(line int64, object *fastjson.Object) error {
			clear(row)
			var fault error
			object.Visit(func(key []byte, v *fastjson.Value) {
				i, ok := at[string(key)]
				switch {
				case fault != nil:
				case !ok:
					fault = fmt.Errorf("%s has changed while it was read", f.at.Name)
				case v.Type() != fastjson.TypeNull && out.Columns[i].Type.Primitive != schema.Void:
					if row[i], fault = cellOfJSON(v, &out.Columns[i]); fault != nil {
						fault = fmt.Errorf("%w: %s, line %d: %w", ingest.ErrSlice, f.at.Name, line, fault)
					}
				}
			})
			if fault == nil && !yield(row, nil) {
				return stopped
			}
			return fault
		})
		if err != nil && !errors.Is(err, stopped) {
			yield(nil, err)
		}
	}
	return out, nil
}

// column gives the type of a column where table or options say it; else Void.
func (f *jsonFile) column(name string, columns *schema.Schema) schema.Field {
	c := schema.Field{Name: name, Type: schema.Of(schema.Void), Nullable: true}
	if t, ok := f.o.Declared[name]; ok {
		c.Type = t
	}
	if columns != nil {
		if at := columns.IndexFold(name); at >= 0 {
			c.Type = columns.Fields[at].Type
		}
	}
	return c
}

// lines hands each line's object to each.
func (f *jsonFile) lines(ctx context.Context, each func(line int64, object *fastjson.Object) error) error {
	in, err := openText(f.at)
	if err != nil {
		return err
	}
	defer in.Close()
	var p fastjson.Parser
	var long []byte
	for line := int64(1); ; line++ {
		raw, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], raw...)
			for errors.Is(err, bufio.ErrBufferFull) {
				raw, err = in.ReadSlice('\n')
				long = append(long, raw...)
			}
			raw = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return cutOff(f.at.Name, line, err)
		}
		if text := bytes.TrimSpace(raw); len(text) > 0 {
			v, parseErr := p.ParseBytes(text)
			switch {
			case parseErr != nil && err != nil:
				return incomplete(f.at.Name, "its last line, %d, is cut off: %s", line, parseErr)
			case parseErr != nil:
				return fmt.Errorf("%w: %s, line %d is no JSON: %w", ingest.ErrSlice, f.at.Name, line, parseErr)
			case v.Type() != fastjson.TypeObject:
				return fmt.Errorf("%w: %s, line %d is no object: write a row a line", ingest.ErrSlice, f.at.Name, line)
			}
			if fault := each(line, v.GetObject()); fault != nil {
				return fault
			}
		}
		if err != nil {
			return nil
		}
		if line%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// sort is what the values of a column that no one has declared are.
type sort uint8

const (
	noValue sort = iota
	booleans
	longs
	larges // integers past 2^63
	doubles
	texts
	nested
)

func (s sort) String() string {
	return [...]string{"empty", "boolean", "an integer", "a large integer", "a number", "text", "an object or a list"}[s]
}

func (s sort) columnType() schema.Type {
	switch s {
	case booleans:
		return schema.Of(schema.Boolean)
	case longs:
		return schema.Of(schema.Long)
	case larges:
		return schema.Decimal(20, 0)
	case doubles:
		return schema.Of(schema.DoubleType)
	case texts:
		return schema.Of(schema.StringType)
	}
	return schema.Of(schema.Void)
}

// with gives the sort that holds both; the numbers hold one another upwards.
func (s sort) with(o sort) (sort, bool) {
	number := func(s sort) bool { return s >= longs && s <= doubles }
	switch {
	case s == noValue || s == o:
		return o, true
	case number(s) && number(o):
		return max(s, o), true
	}
	return s, false
}

func sortOf(v *fastjson.Value) sort {
	switch v.Type() {
	case fastjson.TypeTrue, fastjson.TypeFalse:
		return booleans
	case fastjson.TypeString:
		return texts
	case fastjson.TypeNumber:
		raw := v.MarshalTo(nil)
		if bytes.ContainsAny(raw, ".eE") {
			return doubles
		}
		if _, err := strconv.ParseInt(string(raw), 10, 64); err != nil {
			return larges
		}
		return longs
	}
	return nested
}

// cellOfJSONText reads the text of a JSON value as a cell of a column.
func cellOfJSONText(text string, column *schema.Field) (schema.Value, error) {
	v, err := fastjson.Parse(text)
	if err != nil {
		return schema.Value{}, fmt.Errorf("the column %s is %s, and the text is no JSON: %w", column.Name, column.Type, err)
	}
	return cellOfJSON(v, column)
}

// cellOfJSON types a JSON value by a column. Text is taken for what JSON has no values of
// its own for: decimals, dates, times, binary (base64), NaN and the infinities.
func cellOfJSON(v *fastjson.Value, column *schema.Field) (schema.Value, error) {
	if v.Type() == fastjson.TypeNull {
		return schema.Value{}, nil
	}
	wrong := func() (schema.Value, error) {
		text := v.MarshalTo(nil)
		return schema.Value{}, fmt.Errorf("the column %s is %s and can't hold %.100s", column.Name, column.Type, text)
	}
	t := column.Type
	switch t.Primitive {
	case schema.Boolean:
		if b, err := v.Bool(); err == nil {
			return schema.BoolValue(b), nil
		}
		return wrong()
	case schema.StringType:
		if v.Type() != fastjson.TypeString {
			return wrong()
		}
		return schema.StringValue(string(v.GetStringBytes())), nil
	case schema.BinaryType:
		if v.Type() != fastjson.TypeString {
			return wrong()
		}
		raw, err := base64.StdEncoding.DecodeString(string(v.GetStringBytes()))
		if err != nil {
			return wrong()
		}
		return schema.BinaryValue(string(raw)), nil
	case schema.Byte, schema.Short, schema.Integer, schema.Long:
		if v.Type() != fastjson.TypeNumber {
			return wrong()
		}
		if n, err := v.Int64(); err == nil && t.Primitive == schema.Long {
			return schema.IntValue(n), nil
		}
		return expr.ParseValue(string(v.MarshalTo(nil)), *column)
	case schema.FloatType, schema.DoubleType:
		return floatOfJSON(v, column, wrong)
	case schema.DecimalType:
		if v.Type() == fastjson.TypeNumber {
			return expr.ParseValue(string(v.MarshalTo(nil)), *column)
		}
		fallthrough
	case schema.Date, schema.Timestamp, schema.TimestampNTZ:
		if v.Type() != fastjson.TypeString {
			return wrong()
		}
		return expr.ParseValue(string(v.GetStringBytes()), *column)
	case schema.Struct, schema.Array, schema.Map:
		return compoundOfJSON(v, column, wrong)
	}
	return wrong()
}

func floatOfJSON(v *fastjson.Value, column *schema.Field, wrong func() (schema.Value, error)) (schema.Value, error) {
	var f float64
	switch v.Type() {
	case fastjson.TypeNumber:
		var err error
		if f, err = strconv.ParseFloat(string(v.MarshalTo(nil)), 64); err != nil {
			return wrong()
		}
	case fastjson.TypeString:
		switch string(v.GetStringBytes()) {
		case "NaN":
			f = math.NaN()
		case "Infinity":
			f = math.Inf(1)
		case "-Infinity":
			f = math.Inf(-1)
		default:
			return wrong()
		}
	default:
		return wrong()
	}
	if column.Type.Primitive == schema.FloatType {
		return schema.FloatValue(float32(f)), nil
	}
	return schema.DoubleValue(f), nil
}

func compoundOfJSON(v *fastjson.Value, column *schema.Field, wrong func() (schema.Value, error)) (schema.Value, error) {
	n := column.Type.Nested
	var parts []schema.Value
	var fault error
	add := func(v *fastjson.Value, name string, t schema.Type) {
		part := schema.Value{}
		if v != nil && fault == nil {
			part, fault = cellOfJSON(v, &schema.Field{Name: column.Name + "." + name, Type: t})
		}
		parts = append(parts, part)
	}
	switch column.Type.Primitive {
	case schema.Array:
		list, err := v.Array()
		if err != nil {
			return wrong()
		}
		for _, item := range list {
			add(item, "element", n.Element)
		}
	case schema.Struct:
		object, err := v.Object()
		if err != nil {
			return wrong()
		}
		known := 0
		for _, f := range n.Fields {
			item := object.Get(f.Name)
			if item != nil {
				known++
			}
			add(item, f.Name, f.Type)
		}
		if known < object.Len() {
			return wrong()
		}
	default:
		object, err := v.Object()
		if err != nil || n.Key.Primitive != schema.StringType {
			return wrong()
		}
		object.Visit(func(key []byte, item *fastjson.Value) {
			parts = append(parts, schema.StringValue(string(key)))
			add(item, string(key), n.Element)
		})
	}
	return schema.CompoundValue(parts...), fault
}
