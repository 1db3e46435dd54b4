package output

import (
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/gscd-io/gscd/delta/schema"
)

// Arrow is the format of NewArrowWriter. It is for files, and no record has it.
const Arrow = "arrow"

// A record batch is what the writer holds at once: so many rows, or as few as have so
// many bytes.
const (
	arrowBatchRows  = 64 << 10
	arrowBatchBytes = 8 << 20
)

type arrowWriter struct {
	columns []schema.Field
	texts   []bool // of the columns that are written as JSON text
	file    *ipc.FileWriter
	batch   *array.RecordBuilder
	rows    int
	bytes   int
	text    []byte
	err     error // of a Write that left a row in part
}

// NewArrowWriter makes a Writer of an Arrow IPC file (Feather version 2) with the types of
// the columns, uncompressed, so that readers can map it into memory. A record batch, of at
// most 65,536 rows and, but for its last row, 8 MiB, is held until it ends. Timestamps are in
// microseconds, with the zone UTC or none; a void column has Arrow's null type. Variants, and
// nested columns that have one in them, are JSON text, as in Parquet.
func NewArrowWriter(w io.Writer, columns []schema.Field) (Writer, error) {
	a := &arrowWriter{columns: columns, texts: make([]bool, len(columns))}
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		t := arrowType(c.Type)
		if a.texts[i] = t == nil; t == nil {
			t = arrow.BinaryTypes.String
		}
		fields[i] = arrow.Field{Name: c.Name, Type: t, Nullable: true}
	}
	of := arrow.NewSchema(fields, nil)
	var err error
	if a.file, err = ipc.NewFileWriter(w, ipc.WithSchema(of)); err != nil {
		return nil, fmt.Errorf("write Arrow: %w", err)
	}
	a.batch = array.NewRecordBuilder(memory.DefaultAllocator, of)
	return a, nil
}

// arrowType is the type in Arrow; nil where a part of it has none.
func arrowType(t schema.Type) arrow.DataType {
	switch t.Primitive {
	case schema.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case schema.Byte:
		return arrow.PrimitiveTypes.Int8
	case schema.Short:
		return arrow.PrimitiveTypes.Int16
	case schema.Integer:
		return arrow.PrimitiveTypes.Int32
	case schema.Long:
		return arrow.PrimitiveTypes.Int64
	case schema.FloatType:
		return arrow.PrimitiveTypes.Float32
	case schema.DoubleType:
		return arrow.PrimitiveTypes.Float64
	case schema.DecimalType:
		return &arrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
	case schema.StringType:
		return arrow.BinaryTypes.String
	case schema.BinaryType:
		return arrow.BinaryTypes.Binary
	case schema.Date:
		return arrow.PrimitiveTypes.Date32
	case schema.Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	case schema.TimestampNTZ:
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	case schema.Void:
		return arrow.Null
	case schema.Struct, schema.Array, schema.Map:
		return arrowNested(t)
	}
	return nil
}

func arrowNested(t schema.Type) arrow.DataType {
	switch {
	case t.Nested == nil:
		return nil
	case t.Primitive == schema.Struct:
		fields := make([]arrow.Field, len(t.Nested.Fields))
		for i, f := range t.Nested.Fields {
			part := arrowType(f.Type)
			if part == nil {
				return nil
			}
			fields[i] = arrow.Field{Name: f.Name, Type: part, Nullable: true}
		}
		return arrow.StructOf(fields...)
	}
	element := arrowType(t.Nested.Element)
	if element == nil {
		return nil
	}
	if t.Primitive == schema.Array {
		return arrow.ListOf(element)
	}
	key := arrowType(t.Nested.Key)
	if key == nil {
		return nil
	}
	return arrow.MapOf(key, element)
}

func (a *arrowWriter) Write(row []schema.Value) error {
	if a.err != nil {
		return a.err
	}
	if len(row) != len(a.columns) {
		return fmt.Errorf("write Arrow: %d cells for %d columns", len(row), len(a.columns))
	}
	for i, v := range row {
		t := a.columns[i].Type
		if a.texts[i] && !v.IsNull() && v.Kind != schema.Unavailable {
			a.text = AppendJSON(a.text[:0], t, v)
			t, v = schema.Of(schema.StringType), schema.StringValue(string(a.text))
		}
		if err := appendArrow(a.batch.Field(i), t, v); err != nil {
			a.err = fmt.Errorf("write Arrow: column %s: %w", a.columns[i].Name, err)
			return a.err
		}
		a.bytes += 8 + len(v.S)
	}
	if a.rows++; a.rows < arrowBatchRows && a.bytes < arrowBatchBytes {
		return nil
	}
	return a.flush()
}

// appendArrow appends a cell to the builder of its type.
func appendArrow(b array.Builder, t schema.Type, v schema.Value) error {
	if v.IsNull() || v.Kind == schema.Unavailable {
		b.AppendNull()
		return nil
	}
	if v.Kind != schema.KindOf(t) {
		return fmt.Errorf("%w: kind %d in a column of %s", ErrValue, v.Kind, t)
	}
	if len(v.S) > math.MaxInt32-arrowBatchBytes {
		return fmt.Errorf("%w: %d bytes are more than a record batch holds", ErrValue, len(v.S))
	}
	fits := true
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v.I != 0)
	case *array.Int8Builder:
		fits = v.I == int64(int8(v.I))
		b.Append(int8(v.I))
	case *array.Int16Builder:
		fits = v.I == int64(int16(v.I))
		b.Append(int16(v.I))
	case *array.Int32Builder:
		fits = v.I == int64(int32(v.I))
		b.Append(int32(v.I))
	case *array.Date32Builder:
		fits = v.I == int64(int32(v.I))
		b.Append(arrow.Date32(v.I))
	case *array.Int64Builder:
		b.Append(v.I)
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.I))
	case *array.Float32Builder:
		b.Append(v.Float32())
	case *array.Float64Builder:
		b.Append(v.Float64())
	case *array.Decimal128Builder:
		hi, lo := v.Unscaled128()
		n := decimal128.New(hi, lo)
		fits = n.FitsInPrecision(int32(t.Precision))
		b.Append(n)
	case *array.StringBuilder:
		b.Append(v.S)
	case *array.BinaryBuilder:
		b.AppendString(v.S)
	default:
		return appendArrowParts(b, t, v)
	}
	if !fits {
		return fmt.Errorf("%w: %s does not fit %s", ErrValue, schema.AppendText(nil, t, v), t)
	}
	return nil
}

func appendArrowParts(b array.Builder, t schema.Type, v schema.Value) error {
	switch b := b.(type) {
	case *array.StructBuilder:
		b.Append(true)
		i := 0
		for part := range v.Parts() {
			if i == len(t.Nested.Fields) {
				return fmt.Errorf("%w: more parts than %s has", ErrValue, t)
			}
			if err := appendArrow(b.FieldBuilder(i), t.Nested.Fields[i].Type, part); err != nil {
				return fmt.Errorf("%s: %w", t.Nested.Fields[i].Name, err)
			}
			i++
		}
		for ; i < len(t.Nested.Fields); i++ {
			b.FieldBuilder(i).AppendNull()
		}
	case *array.MapBuilder: // before the lists: it has their methods
		b.Append(true)
		n := 0
		for part := range v.Parts() {
			into, of := b.KeyBuilder(), t.Nested.Key
			if n++; n%2 == 0 {
				into, of = b.ItemBuilder(), t.Nested.Element
			} else if part.IsNull() {
				return fmt.Errorf("%w: NULL as the key of a map", ErrValue)
			}
			if err := appendArrow(into, of, part); err != nil {
				return err
			}
		}
		if n%2 != 0 {
			return fmt.Errorf("%w: a map with a key that has no value", ErrValue)
		}
	case *array.ListBuilder:
		b.Append(true)
		for part := range v.Parts() {
			if err := appendArrow(b.ValueBuilder(), t.Nested.Element, part); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%w: %s has no form in Arrow", ErrValue, t)
	}
	return nil
}

func (a *arrowWriter) flush() error {
	if a.rows == 0 {
		return nil
	}
	batch := a.batch.NewRecordBatch()
	defer batch.Release()
	a.rows, a.bytes = 0, 0
	if err := a.file.Write(batch); err != nil {
		a.err = fmt.Errorf("write Arrow: %w", err)
	}
	return a.err
}

func (a *arrowWriter) Close() error {
	if a.err != nil {
		return a.err
	}
	defer a.batch.Release()
	if err := a.flush(); err != nil {
		return err
	}
	if err := a.file.Close(); err != nil {
		return fmt.Errorf("write Arrow: %w", err)
	}
	return nil
}
