package parquet

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/parquet-go/parquet-go/format"
)

// DecodeStructs reads a Parquet file into structs; see EncodeStructs for the
// types of fields, and JSON. Columns are found by name. A field with no column
// in the file gets its zero value, a NULL one too; columns without a field are
// not read. Lists are read in every shape writers have given them, integers
// from INT32 and INT64. Errors wrap ErrCorrupt, ErrUnsupported or ErrColumnType.
//
// Nothing in the rows shares memory with data.
func DecodeStructs[T any](data []byte) (rows []T, err error) {
	p, err := planOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	meta, root, _, err := readFooter(bytes.NewReader(data), int64(len(data)), FooterGuess)
	if err != nil {
		return nil, err
	}
	defer catch(&err)
	if err := checkDensity(meta, int64(len(data))); err != nil {
		return nil, err
	}
	rows = make([]T, 0, meta.NumRows)
	for g := range meta.RowGroups {
		d := &structDecoder{data: data, group: &meta.RowGroups[g], leaves: map[int]*levelReader{}}
		read, err := d.bind(p, root)
		if err != nil {
			return nil, err
		}
		for range meta.RowGroups[g].NumRows {
			var row T
			if err := read.fill(reflect.ValueOf(&row).Elem()); err != nil {
				return nil, fmt.Errorf("row %d: %w", len(rows), err)
			}
			rows = append(rows, row)
		}
		for _, l := range d.leaves {
			if more, err := l.peek(); err != nil || more {
				return nil, corrupt("column %q goes on after the last row", l.leaf.name)
			}
		}
	}
	return rows, nil
}

// checkDensity refuses more rows or list elements than honest files of a size
// have: runs can declare millions in a few bytes.
func checkDensity(meta *format.FileMetaData, size int64) error {
	limit := 4096 + 16*size
	if meta.NumRows > limit {
		return corrupt("%d rows in %d bytes", meta.NumRows, size)
	}
	for g := range meta.RowGroups {
		for c := range meta.RowGroups[g].Columns {
			if n := meta.RowGroups[g].Columns[c].MetaData.NumValues; n > limit {
				return corrupt("%d values in %d bytes", n, size)
			}
		}
	}
	return nil
}

// structDecoder binds a plan to the columns of one row group.
type structDecoder struct {
	data   []byte
	group  *format.RowGroup
	leaves map[int]*levelReader
}

func (d *structDecoder) open(leaf *node) *levelReader {
	if l := d.leaves[leaf.index]; l != nil {
		return l
	}
	m := &d.group.Columns[leaf.index].MetaData
	start, length := chunkRange(m)
	l := &levelReader{leaf: leaf, chunk: newChunkReader(leaf, m, d.data[start:start+length])}
	d.leaves[leaf.index] = l
	return l
}

// binding reads values of one plan from the columns below one node. Every
// call consumes, of each of its leaves, the values of exactly one instance.
type binding struct {
	plan   *plan
	node   *node          // nil: the file has no such column
	leaves []*levelReader // all below, never empty where node is set
	fields []*binding     // of a struct
	inner  *node          // the repeated node of a list or map
	key    *binding       // of a map
	value  *binding       // of a list's elements or a map's values
	assign func(l *levelReader, place int, v reflect.Value) error
	json   func(b *jsonWriter) error
}

func (d *structDecoder) bind(p *plan, n *node) (*binding, error) {
	b := &binding{plan: p, node: n}
	var err error
	fail := func(want string) (*binding, error) {
		return nil, fmt.Errorf("%w: column %q is a %s, want a %s", ErrColumnType, n.name, n, want)
	}
	switch p.shape {
	case shapeStruct:
		if n.leaf {
			return fail("group")
		}
		for _, f := range p.fields {
			child := n.child(f.name)
			if child == nil || child.firstLeaf() == nil {
				b.fields = append(b.fields, &binding{plan: f})
				continue
			}
			field, err := d.bind(f, child)
			if err != nil {
				return nil, err
			}
			b.fields = append(b.fields, field)
			b.leaves = append(b.leaves, field.leaves...)
		}
		if len(b.leaves) == 0 { // some leaf must tell whether the group is there
			if l := n.firstLeaf(); l != nil {
				b.leaves = []*levelReader{d.open(l)}
			}
		}
		return b, nil
	case shapeList:
		var element *node
		if b.inner, element = listOf(n); b.inner == nil {
			return fail("list")
		}
		b.value, err = d.bind(p.element, element)
	case shapeMap:
		if n.leaf || len(n.children) != 1 || n.children[0].repetition != format.Repeated || len(n.children[0].children) != 2 {
			return fail("map")
		}
		b.inner = n.children[0]
		if b.key, err = d.bind(p.key, b.inner.children[0]); err != nil {
			return nil, err
		}
		b.value, err = d.bind(p.element, b.inner.children[1])
		b.leaves = b.key.leaves
	case shapeJSON:
		return d.bindJSON(b)
	default:
		if !n.leaf || n.repetition == format.Repeated {
			return fail(p.leaf.String())
		}
		if b.assign = assignerOf(p.typ, n); b.assign == nil {
			return fail(p.leaf.String())
		}
		b.leaves = []*levelReader{d.open(n)}
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	b.leaves = append(b.leaves[:len(b.leaves):len(b.leaves)], b.value.leaves...)
	return b, nil
}

// listOf gives the repeated node of a list and the node of its elements, by
// the rules of the format's LogicalTypes for lists of old writers.
func listOf(n *node) (repeated, element *node) {
	if n.repetition == format.Repeated {
		return n, n // a repeated field is a list by itself
	}
	if n.leaf || len(n.children) != 1 || n.children[0].repetition != format.Repeated {
		return nil, nil
	}
	repeated = n.children[0]
	if repeated.leaf || len(repeated.children) != 1 || repeated.name == "array" || repeated.name == n.name+"_tuple" {
		return repeated, repeated
	}
	return repeated, repeated.children[0]
}

// skip consumes one instance that is not there: one value of each leaf.
func (b *binding) skip() error {
	for _, l := range b.leaves {
		if _, _, err := l.current(); err != nil {
			return err
		}
		l.take()
	}
	return nil
}

// fill reads one instance into v, which is zero.
func (b *binding) fill(v reflect.Value) error {
	if b.node == nil || len(b.leaves) == 0 {
		return nil
	}
	if b.node.repetition == format.Optional {
		if _, def, err := b.leaves[0].current(); err != nil || def < b.node.maxDef {
			if err == nil {
				err = b.skip()
			}
			return err
		}
	}
	if b.plan.pointer {
		p := reflect.New(b.plan.typ)
		v.Set(p)
		v = p.Elem()
	}
	return b.fillPresent(v)
}

func (b *binding) fillPresent(v reflect.Value) error {
	switch b.plan.shape {
	case shapeStruct:
		used := false
		for _, f := range b.fields {
			if f.node == nil {
				continue
			}
			used = true
			if err := f.fill(v.Field(f.plan.field)); err != nil {
				return err
			}
		}
		if !used {
			return b.skip()
		}
		return nil
	case shapeList:
		v.Set(reflect.MakeSlice(b.plan.typ, 0, 0))
		return b.repeat(func() error {
			element := reflect.New(b.plan.typ.Elem()).Elem()
			if err := b.value.element(b.inner, element); err != nil {
				return err
			}
			v.Set(reflect.Append(v, element))
			return nil
		})
	case shapeMap:
		v.Set(reflect.MakeMap(b.plan.typ))
		return b.repeat(func() error {
			key := reflect.New(b.plan.typ.Key()).Elem()
			if err := b.key.fill(key); err != nil {
				return err
			}
			value := reflect.New(b.plan.typ.Elem()).Elem()
			if err := b.value.fill(value); err != nil {
				return err
			}
			v.SetMapIndex(key, value)
			return nil
		})
	case shapeJSON:
		var text jsonWriter
		if err := b.json(&text); err != nil {
			return err
		}
		v.SetString(text.String())
		return nil
	}
	l := b.leaves[0]
	if _, _, err := l.current(); err != nil {
		return err
	}
	place, present := l.take()
	if !present {
		return corrupt("column %q: a value is NULL and must not be", b.node.name)
	}
	return b.assign(l, place, v)
}

// element reads a list's element; where it is the repeated node itself, that
// it is there is known already.
func (b *binding) element(inner *node, v reflect.Value) error {
	if b.node != inner {
		return b.fill(v)
	}
	if b.plan.pointer {
		p := reflect.New(b.plan.typ)
		v.Set(p)
		v = p.Elem()
	}
	return b.fillPresent(v)
}

// repeat calls one for each instance of the repeated node; none where it is empty.
func (b *binding) repeat(one func() error) error {
	guide := b.leaves[0]
	_, def, err := guide.current()
	if err != nil {
		return err
	}
	if def < b.inner.maxDef {
		return b.skip()
	}
	for {
		if err := one(); err != nil {
			return err
		}
		// Another instance follows where the next value repeats at this level.
		more, err := guide.peek()
		if err != nil || !more {
			return err
		}
		if rep, _, _ := guide.levels(); rep != b.inner.maxRep {
			return nil
		}
	}
}

// assignerOf gives the function that sets a Go value from a leaf's; nil where
// the leaf's type does not fit.
func assignerOf(t reflect.Type, n *node) func(l *levelReader, place int, v reflect.Value) error {
	integer := n.physical == format.Int32 || n.physical == format.Int64
	switch t.Kind() {
	case reflect.Bool:
		if n.physical == format.Boolean {
			return func(l *levelReader, place int, v reflect.Value) error { v.SetBool(l.int(place) != 0); return nil }
		}
	case reflect.Int32, reflect.Int64, reflect.Int:
		if integer {
			return func(l *levelReader, place int, v reflect.Value) error {
				i := l.int(place)
				if v.OverflowInt(i) {
					return corrupt("column %q: %d is out of range", n.name, i)
				}
				v.SetInt(i)
				return nil
			}
		}
	case reflect.Float64:
		if n.physical == format.Double || n.physical == format.Float {
			return func(l *levelReader, place int, v reflect.Value) error {
				v.SetFloat(floatOf(n.physical, l.int(place)))
				return nil
			}
		}
	case reflect.String:
		if n.physical == format.ByteArray {
			return func(l *levelReader, place int, v reflect.Value) error {
				v.SetString(l.owned(place))
				return nil
			}
		}
	case reflect.Slice:
		if n.physical >= format.ByteArray {
			return func(l *levelReader, place int, v reflect.Value) error {
				v.SetBytes([]byte(l.str(place)))
				return nil
			}
		}
	}
	return nil
}
