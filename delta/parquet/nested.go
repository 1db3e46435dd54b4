package parquet

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/format"
)

// maxNestedBytes bounds the cells of one nested column in a batch: runs of levels
// can declare millions of elements in a few bytes.
const maxNestedBytes = 512 << 20

// nestedPlan says how values of a type are put together from the columns below
// one node of a file.
type nestedPlan struct {
	t      schema.Type
	node   *node         // nil: the file has no such column, and it is NULL
	inner  *node         // the repeated node of an array or map
	parts  []*nestedPlan // fields of a struct, the element of an array, key and value of a map
	leaves []*node       // all below that are read; a value has at least one instance in each
	leaf   converter
	// Of a variant.
	shred    *shredPlan
	metadata *node
}

// planNested binds a type to a node of a file.
func planNested(n *node, t schema.Type) (*nestedPlan, error) {
	p := &nestedPlan{t: t, node: n}
	fail := func() (*nestedPlan, error) {
		return nil, fmt.Errorf("%w: %q is %s, it can't be read as %s", ErrColumnType, n.name, n, t)
	}
	var err error
	part := func(child *node, t schema.Type) bool {
		inside := &nestedPlan{t: t}
		if child != nil && child.firstLeaf() != nil && t.Primitive != schema.Void {
			inside, err = planNested(child, t)
		}
		p.parts = append(p.parts, inside)
		if inside != nil {
			p.leaves = append(p.leaves, inside.leaves...)
		}
		return err == nil
	}
	switch t.Primitive {
	case schema.Struct:
		if n.leaf || n.isCollection() {
			return fail()
		}
		for _, f := range t.Nested.Fields {
			if !part(n.find(f.Stored(), f.FieldID), f.Type) {
				return nil, err
			}
		}
	case schema.Array:
		var element *node
		if p.inner, element = listOf(n); p.inner == nil {
			return fail()
		}
		part(element, t.Nested.Element)
	case schema.Map:
		if n.leaf || len(n.children) != 1 || n.children[0].repetition != format.Repeated || len(n.children[0].children) == 0 || len(n.children[0].children) > 2 {
			return fail()
		}
		p.inner = n.children[0]
		var value *node
		if len(p.inner.children) == 2 {
			value = p.inner.children[1]
		}
		_ = part(p.inner.children[0], t.Nested.Key) && part(value, t.Nested.Element)
	case schema.Variant:
		if p.shred, p.metadata, err = planVariant(n); err == nil {
			p.leaves = append([]*node{p.metadata}, p.shred.leaves...)
		}
	default:
		if !n.leaf {
			return fail()
		}
		p.leaf, err = leafConverter(n, t)
		p.leaves = []*node{n}
	}
	if err != nil {
		return nil, err
	}
	if len(p.leaves) == 0 { // some leaf must tell whether the value is there
		if l := n.firstLeaf(); l != nil {
			p.leaves = []*node{l}
		}
	}
	return p, nil
}

// nestedCells reads the cells of one nested column of a row group in order.
type nestedCells struct {
	plan   *nestedPlan
	leaves map[*node]*levelReader
	buf    []byte
	json   []byte
	one    [1]schema.Value
	used   int // bytes of the cells of the batch
}

// newNestedCells reads from the column chunks of a row group, by leaf.
func (f *File) newNestedCells(p *nestedPlan, group int, data map[int]*chunkData) *nestedCells {
	c := &nestedCells{plan: p, leaves: make(map[*node]*levelReader, len(p.leaves))}
	for _, l := range p.leaves {
		c.leaves[l] = &levelReader{leaf: l, chunk: f.chunk(group, l, data)}
	}
	return c
}

func (c *nestedCells) name() string { return c.plan.node.name }

// seek goes on to a row of the row group.
func (c *nestedCells) seek(row int64) error {
	for _, l := range c.leaves {
		if err := l.seek(row); err != nil {
			return err
		}
	}
	return nil
}

// read fills dst with the next rows.
func (c *nestedCells) read(dst []schema.Value) error {
	c.used = 0
	for i := range dst {
		if err := c.row(); err != nil {
			return err
		}
		if c.buf[0] == byte(schema.Null) {
			dst[i] = schema.Value{}
			continue
		}
		_, w := binary.Uvarint(c.buf[1:])
		dst[i] = schema.Value{Kind: schema.Kind(c.buf[0]), S: string(c.buf[1+w:])}
	}
	return nil
}

// row reads one row into buf, as an encoded cell.
func (c *nestedCells) row() (err error) {
	c.buf, err = c.value(c.plan, c.buf[:0])
	return err
}

// end checks that the row group has no more than its rows.
func (c *nestedCells) end() error {
	for _, l := range c.leaves {
		if more, err := l.peek(); err != nil || more {
			return corrupt("column %q goes on after the last row", l.leaf.name)
		}
	}
	return nil
}

// value appends one value, which may be NULL, and consumes its instances.
func (c *nestedCells) value(p *nestedPlan, dst []byte) ([]byte, error) {
	if p.node == nil || len(p.leaves) == 0 {
		return append(dst, byte(schema.Null)), nil
	}
	if p.node.repetition == format.Optional {
		_, def, err := c.leaves[p.leaves[0]].current()
		if err != nil {
			return dst, err
		}
		if def < p.node.maxDef {
			return append(dst, byte(schema.Null)), c.passAll(p.leaves)
		}
	}
	return c.present(p, dst)
}

// passAll consumes one instance of each leaf of a value that is not there.
func (c *nestedCells) passAll(leaves []*node) error {
	for _, l := range leaves {
		r := c.leaves[l]
		if _, _, err := r.current(); err != nil {
			return err
		}
		r.take()
	}
	return nil
}

// present appends a value that is there.
func (c *nestedCells) present(p *nestedPlan, dst []byte) ([]byte, error) {
	switch {
	case p.shred != nil:
		return c.variant(p, dst)
	case p.t.Nested == nil:
		return c.leaf(p, dst)
	}
	from := len(dst)
	dst = append(dst, byte(schema.Compound))
	start := len(dst)
	var err error
	if p.t.Primitive == schema.Struct {
		used := false
		for _, f := range p.parts {
			used = used || f.node != nil
			if dst, err = c.value(f, dst); err != nil {
				return dst, err
			}
		}
		if !used {
			err = c.passAll(p.leaves)
		}
	} else {
		dst, err = c.repeat(p, dst)
	}
	if err != nil {
		return dst, err
	}
	if c.used += len(dst) - from; c.used > maxNestedBytes {
		return dst, fmt.Errorf("%w: column %q has values of more than %d bytes in a few rows", ErrUnsupported, p.node.name, maxNestedBytes)
	}
	var size [binary.MaxVarintLen64]byte
	return slices.Insert(dst, start, size[:binary.PutUvarint(size[:], uint64(len(dst)-start))]...), nil
}

// repeat appends the elements of an array or the entries of a map.
func (c *nestedCells) repeat(p *nestedPlan, dst []byte) ([]byte, error) {
	guide := c.leaves[p.leaves[0]]
	_, def, err := guide.current()
	if err != nil {
		return dst, err
	}
	if def < p.inner.maxDef {
		return dst, c.passAll(p.leaves)
	}
	for {
		before := len(dst)
		used := false
		for _, part := range p.parts {
			used = used || part.node != nil
			if dst, err = c.value(part, dst); err != nil {
				return dst, err
			}
		}
		if !used {
			if err := c.passAll(p.leaves); err != nil {
				return dst, err
			}
		}
		if c.used += len(dst) - before; c.used > maxNestedBytes {
			return dst, fmt.Errorf("%w: column %q has values of more than %d bytes in a few rows", ErrUnsupported, p.node.name, maxNestedBytes)
		}
		// Another instance follows where the next value repeats at this level.
		more, err := guide.peek()
		if err != nil || !more {
			return dst, err
		}
		if rep, _, _ := guide.levels(); rep != p.inner.maxRep {
			return dst, nil
		}
	}
}

// leaf appends the value of a leaf.
func (c *nestedCells) leaf(p *nestedPlan, dst []byte) ([]byte, error) {
	r := c.leaves[p.node]
	if _, _, err := r.current(); err != nil {
		return dst, err
	}
	place, present := r.take()
	if !present {
		return dst, corrupt("column %q: a value is NULL and must not be", p.node.name)
	}
	v, err := c.cell(&p.leaf, r, place)
	return v.AppendEncoded(dst), err
}

// cell converts one value of a leaf.
func (c *nestedCells) cell(conv *converter, l *levelReader, place int) (schema.Value, error) {
	one := values{}
	if l.leaf.physical >= format.ByteArray {
		one.strs = []string{l.str(place)}
	} else {
		one.ints = []int64{l.int(place)}
	}
	err := conv.cells(c.one[:], &one)
	return c.one[0], err
}
