package parquet

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// StructOptions say how EncodeStructs writes.
type StructOptions struct {
	// Codec compresses the pages. Checkpoints are written with Snappy, as Spark does.
	Codec Codec
	// RowGroupRows cuts row groups; default 200,000.
	RowGroupRows int
}

// EncodeStructs writes rows as a Parquet file shaped as Spark shapes a
// checkpoint: the root is "spark_schema", every field is optional, maps are
// key_value{key, value} with an optional value, lists are list{element} with
// an optional element, fields keep their order in the struct.
//
// T is a struct; fields with a tag `parquet:"name"` take part: bool, int32,
// int64, int, float64, string, []byte, pointers to them, structs, pointers to
// structs, slices, and maps with string keys. Nil pointers, slices and maps
// are NULL. With the option `parquet:"name,optional"` the zero value of any
// type is NULL too. Map entries are written in order of keys.
//
// The bytes are the caller's.
func EncodeStructs[T any](rows []T, opts StructOptions) ([]byte, error) {
	p, err := planOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	if opts.RowGroupRows <= 0 {
		opts.RowGroupRows = 200_000
	}
	e := &structEncoder{codec: opts.Codec}
	if err := e.group("spark_schema", p.fields, nil, 0, 0); err != nil {
		return nil, err
	}
	e.elements[0].RepetitionType = thrift.Null[format.FieldRepetitionType]{}
	for _, w := range e.columns {
		w.startFile()
	}
	f := newFileWriter(e.elements, nil)
	all := reflect.ValueOf(rows)
	for from := 0; from < len(rows); from += opts.RowGroupRows {
		to := min(from+opts.RowGroupRows, len(rows))
		for i := from; i < to; i++ {
			e.at = 0
			row := all.Index(i)
			for _, field := range p.fields {
				e.write(field, row.Field(field.field), levels{})
			}
			for _, w := range e.columns {
				w.endRow()
			}
		}
		f.addRowGroup(e.columns, to-from)
		for _, w := range e.columns {
			w.startChunk()
		}
	}
	err = f.finish(nil)
	return f.buf, err
}

// structEncoder holds the schema, and one writer a leaf in the same order, so
// that walking a plan and counting leaves finds the writers.
type structEncoder struct {
	codec    Codec
	elements []format.SchemaElement
	columns  []*columnWriter
	at       int // the next leaf
}

// group adds a group element and what is below it.
func (e *structEncoder) group(name string, fields []*plan, path []string, rep, def uint8) error {
	e.elements = append(e.elements, format.SchemaElement{
		Name: name, RepetitionType: thrift.New(format.Optional), NumChildren: thrift.New(int32(len(fields))),
	})
	for _, f := range fields {
		if err := e.add(f, f.name, append(slices.Clip(path), f.name), rep, def); err != nil {
			return err
		}
	}
	return nil
}

// add adds the optional element of a plan; rep and def are its parent's levels.
func (e *structEncoder) add(p *plan, name string, path []string, rep, def uint8) error {
	def++
	switch p.shape {
	case shapeStruct:
		return e.group(name, p.fields, path, rep, def)
	case shapeList:
		e.annotated(name, "list", &format.ListType{}, deprecated.List, 1)
		return e.add(p.element, "element", append(slices.Clip(path), "list", "element"), rep+1, def+1)
	case shapeMap:
		e.annotated(name, "key_value", &format.MapType{}, deprecated.Map, 2)
		if err := e.add(p.key, "key", append(slices.Clip(path), "key_value", "key"), rep+1, def); err != nil {
			return err
		}
		e.elements[len(e.elements)-1].RepetitionType = thrift.New(format.Required)
		return e.add(p.element, "value", append(slices.Clip(path), "key_value", "value"), rep+1, def+1)
	case shapeJSON:
		return fmt.Errorf("parquet: field %s: JSON can't be encoded", name)
	}
	element, err := elementOf(name, p.leaf, 0)
	if err != nil {
		return err
	}
	e.elements = append(e.elements, element)
	e.columns = append(e.columns, newColumnWriter(&element, p.leaf, path, rep, def, EncoderOptions{Codec: e.codec, PageRows: pageRows}, true))
	return nil
}

// annotated adds an optional LIST or MAP group and the repeated group in it.
func (e *structEncoder) annotated(name, inner string, logical format.LogicalTypeValue, converted deprecated.ConvertedType, children int32) {
	e.elements = append(e.elements,
		format.SchemaElement{
			Name: name, RepetitionType: thrift.New(format.Optional), NumChildren: thrift.New(int32(1)),
			ConvertedType: thrift.New(converted), LogicalType: format.LogicalType{Value: logical},
		},
		format.SchemaElement{Name: inner, RepetitionType: thrift.New(format.Repeated), NumChildren: thrift.New(children)})
}

// levels is where a value stands: its repetition level, and of its parent the
// definition level and the number of repeated groups around it.
type levels struct{ rep, def, depth uint8 }

// write shreds a value into the leaves below its plan.
func (e *structEncoder) write(p *plan, v reflect.Value, l levels) {
	if p.isNil(v) {
		e.nulls(p, l)
		return
	}
	if p.pointer {
		v = v.Elem()
	}
	l.def++
	switch p.shape {
	case shapeStruct:
		for _, f := range p.fields {
			e.write(f, v.Field(f.field), l)
		}
	case shapeList:
		if v.Len() == 0 {
			e.nulls(p.element, l)
			return
		}
		start := e.at
		for i := range v.Len() {
			e.at = start
			e.write(p.element, v.Index(i), levels{l.rep, l.def + 1, l.depth + 1})
			l.rep = l.depth + 1
		}
	case shapeMap:
		e.entries(p, v, l)
	default:
		w := e.leaf(l)
		w.put(cellOf(p.leaf, v))
	}
}

func (p *plan) isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return v.IsNil()
	}
	return p.zeroIsNil && v.IsZero()
}

// nulls adds one value that is not there to every leaf below the plan.
func (e *structEncoder) nulls(p *plan, l levels) {
	switch p.shape {
	case shapeStruct:
		for _, f := range p.fields {
			e.nulls(f, l)
		}
	case shapeList:
		e.nulls(p.element, l)
	case shapeMap:
		e.nulls(p.key, l)
		e.nulls(p.element, l)
	default:
		e.leaf(l).null(l.def)
	}
}

func (e *structEncoder) entries(p *plan, v reflect.Value, l levels) {
	if v.Len() == 0 {
		e.nulls(p.key, l)
		e.nulls(p.element, l)
		return
	}
	entries := make(map[string]reflect.Value, v.Len())
	for it := v.MapRange(); it.Next(); {
		entries[it.Key().String()] = it.Value()
	}
	start := e.at
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		e.at = start
		e.leaf(l).put(schema.StringValue(k))
		e.write(p.element, entries[k], levels{l.rep, l.def + 1, l.depth + 1})
		l.rep = l.depth + 1
	}
}

// leaf takes the next leaf's writer and adds the repetition level of a value.
func (e *structEncoder) leaf(l levels) *columnWriter {
	w := e.columns[e.at]
	e.at++
	if w.maxRep > 0 {
		w.rep = append(w.rep, l.rep)
	}
	return w
}

func cellOf(t schema.Type, v reflect.Value) schema.Value {
	switch t.Primitive {
	case schema.Boolean:
		return schema.BoolValue(v.Bool())
	case schema.DoubleType:
		return schema.DoubleValue(v.Float())
	case schema.StringType:
		return schema.StringValue(v.String())
	case schema.BinaryType:
		return schema.BinaryValue(string(v.Bytes()))
	}
	return schema.IntValue(v.Int())
}
