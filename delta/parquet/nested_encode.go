package parquet

import (
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// nestedWriter shreds the cells of one column, or of a part of one, into leaves.
type nestedWriter struct {
	name  string
	t     schema.Type
	leaf  *columnWriter   // of a leaf
	parts []*nestedWriter // fields of a struct, the element of an array, key and value of a map
}

// newNestedEncoder makes an encoder of columns some of which are no leaves.
func newNestedEncoder(e *Encoder, columns []Column) (*Encoder, error) {
	e.elements, e.columns = e.elements[:1], nil
	seen := map[string]bool{}
	for _, c := range columns {
		if c.Name == "" || seen[c.Name] {
			return nil, fmt.Errorf("parquet: column name %q is empty or not the only one", c.Name)
		}
		seen[c.Name] = true
		want := e.opts.StatsColumns == nil || slices.Contains(e.opts.StatsColumns, c.Name)
		w, err := e.nest(c.Name, c.Type, c.FieldID, []string{c.Name}, 0, 0, want)
		if err != nil {
			return nil, err
		}
		e.nested = append(e.nested, w)
	}
	for _, name := range e.opts.StatsColumns {
		if !seen[name] {
			return nil, fmt.Errorf("parquet: no column %q to keep statistics of", name)
		}
	}
	return e, nil
}

// nest adds the optional element of a type and what is below it; rep and def are its
// parent's levels.
func (e *Encoder) nest(name string, t schema.Type, id int32, path []string, rep, def uint8, want bool) (*nestedWriter, error) {
	if len(path) > maxSchemaDepth {
		return nil, fmt.Errorf("column %q: %w: nested deeper than %d", path[0], ErrUnsupported, maxSchemaDepth)
	}
	if !t.IsLeaf() && t.Nested == nil {
		return nil, fmt.Errorf("column %q: %w: a type without its parts", path[0], ErrUnsupported)
	}
	def++
	w := &nestedWriter{name: name, t: t}
	add := func(name string, t schema.Type, id int32, below []string, rep, def uint8) error {
		part, err := e.nest(name, t, id, append(slices.Clip(path), below...), rep, def, want)
		w.parts = append(w.parts, part)
		return err
	}
	group := func(name string, id int32, children int, repetition format.FieldRepetitionType) *format.SchemaElement {
		e.elements = append(e.elements, format.SchemaElement{
			Name: name, FieldID: id, RepetitionType: thrift.New(repetition), NumChildren: thrift.New(int32(children)),
		})
		return &e.elements[len(e.elements)-1]
	}
	switch t.Primitive {
	case schema.Struct:
		if len(t.Nested.Fields) == 0 {
			return nil, fmt.Errorf("column %q: %w: a struct without fields", path[0], ErrUnsupported)
		}
		group(name, id, len(t.Nested.Fields), format.Optional)
		for i := range t.Nested.Fields {
			c := ColumnOf(&t.Nested.Fields[i])
			if err := add(c.Name, c.Type, c.FieldID, []string{c.Name}, rep, def); err != nil {
				return nil, err
			}
		}
		return w, nil
	case schema.Array:
		g := group(name, id, 1, format.Optional)
		g.ConvertedType, g.LogicalType.Value = thrift.New(deprecated.List), &format.ListType{}
		group("list", 0, 1, format.Repeated)
		return w, add("element", t.Nested.Element, 0, []string{"list", "element"}, rep+1, def+1)
	case schema.Map:
		if !t.Nested.Key.IsLeaf() {
			return nil, fmt.Errorf("column %q: %w: a map with keys of type %s", path[0], ErrUnsupported, t.Nested.Key)
		}
		g := group(name, id, 1, format.Optional)
		g.ConvertedType, g.LogicalType.Value = thrift.New(deprecated.Map), &format.MapType{}
		group("key_value", 0, 2, format.Repeated)
		if err := add("key", t.Nested.Key, 0, []string{"key_value", "key"}, rep+1, def); err != nil {
			return nil, err
		}
		e.elements[len(e.elements)-1].RepetitionType = thrift.New(format.Required)
		return w, add("value", t.Nested.Element, 0, []string{"key_value", "value"}, rep+1, def+1)
	}
	element, err := elementOf(name, t, id)
	if err != nil {
		return nil, err
	}
	e.elements = append(e.elements, element)
	w.leaf = newColumnWriter(&element, t, path, rep, def, e.opts, want)
	e.columns = append(e.columns, w.leaf)
	return w, nil
}

// width is the number of cells of a row.
func (e *Encoder) width() int {
	if e.nested != nil {
		return len(e.nested)
	}
	return len(e.columns)
}

// stats gives what is known of a column, and of the fields in it where it is a struct.
func (w *nestedWriter) stats(of func(*columnWriter) ColumnStats) (st ColumnStats) {
	switch {
	case w.leaf != nil:
		return of(w.leaf)
	case w.t.Primitive == schema.Struct:
		for _, p := range w.parts {
			st.Fields = append(st.Fields, p.stats(of))
		}
	}
	return st
}

// leaves gives the leaves of a column in order.
func (w *nestedWriter) leaves(list []*columnWriter) []*columnWriter {
	if w.leaf != nil {
		return append(list, w.leaf)
	}
	for _, p := range w.parts {
		list = p.leaves(list)
	}
	return list
}

// encodeNested is encodeGroup where columns are no leaves.
func (e *Encoder) encodeNested(rows [][]schema.Value, base int) error {
	if err := e.addNested(rows, base); err != nil {
		return err
	}
	for _, leaf := range e.columns {
		leaf.flushPage()
	}
	return nil
}

// addNested is addColumns, of all columns, where some are no leaves.
func (e *Encoder) addNested(rows [][]schema.Value, base int) error {
	for i, row := range rows {
		for c, w := range e.nested {
			if err := w.write(row[c], levels{}); err != nil {
				return fmt.Errorf("column %q row %d: %w", w.name, base+i, err)
			}
		}
		for _, leaf := range e.columns {
			leaf.endRow()
		}
	}
	return nil
}

// write shreds a cell. The error wraps ErrValue.
func (w *nestedWriter) write(v schema.Value, l levels) error {
	if v.IsNull() {
		w.nulls(l)
		return nil
	}
	if want := schema.KindOf(w.t); v.Kind != want {
		return fmt.Errorf("%w: a %s in a column of type %s", ErrValue, kindName(v.Kind), w.t)
	}
	l.def++
	n := 0
	switch w.t.Primitive {
	case schema.Struct:
		for part := range v.Parts() {
			if n < len(w.parts) {
				if err := w.parts[n].write(part, l); err != nil {
					return err
				}
			}
			n++
		}
		if n != len(w.parts) {
			return fmt.Errorf("%w: %d fields in a column of type %s", ErrValue, n, w.t)
		}
		return nil
	case schema.Array:
		for part := range v.Parts() {
			if err := w.parts[0].write(part, levels{l.rep, l.def + 1, l.depth + 1}); err != nil {
				return err
			}
			l.rep = l.depth + 1
			n++
		}
	case schema.Map:
		for part := range v.Parts() {
			if n%2 == 1 {
				if err := w.parts[1].write(part, levels{l.rep, l.def + 1, l.depth + 1}); err != nil {
					return err
				}
				l.rep = l.depth + 1
			} else if part.IsNull() {
				return fmt.Errorf("%w: a key of a map is NULL", ErrValue)
			} else if err := w.parts[0].put(part, l); err != nil { // it is there, so at its own level
				return err
			}
			n++
		}
		if n%2 == 1 {
			return fmt.Errorf("%w: a map with a key and no value", ErrValue)
		}
	default:
		return w.put(v, l)
	}
	if n == 0 { // an empty collection: not NULL, and no part of it there
		for _, p := range w.parts {
			p.nulls(l)
		}
	}
	return nil
}

// put adds a value to a leaf.
func (w *nestedWriter) put(v schema.Value, l levels) error {
	if want := schema.KindOf(w.t); v.Kind != want {
		return fmt.Errorf("%w: a %s in a column of type %s", ErrValue, kindName(v.Kind), w.t)
	}
	switch v.Kind {
	case schema.Int:
		if low, high := intRange(w.t); v.I < low || v.I > high {
			return fmt.Errorf("%w: %d in a column of type %s", ErrValue, v.I, w.t)
		}
	case schema.String, schema.Binary:
		if err := checkString(v.S, v.Kind == schema.String); err != nil {
			return err
		}
	case schema.Dec:
		if !fitsDecimal(v, w.t.Precision) {
			return fmt.Errorf("%w: %s in a column of type %s", ErrValue, v.DecimalText(w.t.Scale), w.t)
		}
	}
	w.repeat(l)
	w.leaf.put(v)
	return nil
}

func (w *nestedWriter) repeat(l levels) {
	if w.leaf.maxRep > 0 {
		w.leaf.rep = append(w.leaf.rep, l.rep)
	}
}

// nulls adds one value that is not there to every leaf.
func (w *nestedWriter) nulls(l levels) {
	if w.leaf != nil {
		w.repeat(l)
		w.leaf.null(l.def)
		return
	}
	for _, p := range w.parts {
		p.nulls(l)
	}
}
