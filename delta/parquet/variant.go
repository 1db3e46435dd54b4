package parquet

import (
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/variant"
	"github.com/parquet-go/parquet-go/format"
)

// shredPlan says how a variant is put together from the columns below a group: the
// encoded value, the column of a type of its own (typed_value), or both, where some
// fields of objects have columns and the rest does not ("Variant Shredding").
type shredPlan struct {
	group *node
	value *node // leaf; nil where the group has none
	typed *node // nil where the group has none

	t       schema.Type // of typed as a leaf
	leaf    converter
	inner   *node // the repeated node of typed as an array
	element *shredPlan
	names   []string // of typed as an object
	fields  []*shredPlan
	leaves  []*node
}

// planVariant plans a column of variants; metadata is the leaf of the dictionaries.
func planVariant(n *node) (p *shredPlan, metadata *node, err error) {
	fail := func() (*shredPlan, *node, error) {
		return nil, nil, fmt.Errorf("%w: %q is %s, it can't be read as variant", ErrColumnType, n.name, n)
	}
	if n.leaf || n.isCollection() {
		return fail()
	}
	metadata = n.child("metadata")
	if metadata == nil || !metadata.leaf || metadata.physical != format.ByteArray {
		return fail()
	}
	if p, err = planShredded(n, 0); err == nil && p.value == nil && p.typed == nil {
		return fail()
	}
	return p, metadata, err
}

func planShredded(n *node, depth int) (*shredPlan, error) {
	p := &shredPlan{group: n}
	if n.leaf {
		return nil, fmt.Errorf("%w: %q is %s, it can't be part of a variant", ErrColumnType, n.name, n)
	}
	if p.value = n.child("value"); p.value != nil {
		if !p.value.leaf || p.value.physical != format.ByteArray || p.value.repetition == format.Repeated {
			return nil, fmt.Errorf("%w: %q is %s, it can't hold variants", ErrColumnType, p.value.name, p.value)
		}
		p.leaves = append(p.leaves, p.value)
	}
	p.typed = n.child("typed_value")
	if p.typed == nil {
		return p, nil
	}
	var err error
	switch {
	case p.typed.leaf:
		if p.t, err = typeOfShredded(p.typed); err == nil {
			p.leaf, err = leafConverter(p.typed, p.t)
		}
		p.leaves = append(p.leaves, p.typed)
	case p.typed.isCollection():
		var element *node
		if p.inner, element = listOf(p.typed); p.inner == nil {
			return nil, fmt.Errorf("%w: %q can't be part of a variant", ErrColumnType, p.typed.name)
		}
		if p.element, err = planShredded(element, depth+1); err == nil {
			p.leaves = append(p.leaves, p.element.leaves...)
		}
	default:
		for _, c := range p.typed.children {
			if c.firstLeaf() == nil {
				continue
			}
			var field *shredPlan
			if field, err = planShredded(c, depth+1); err != nil {
				break
			}
			p.names, p.fields = append(p.names, c.name), append(p.fields, field)
			p.leaves = append(p.leaves, field.leaves...)
		}
	}
	if err == nil && len(p.leaves) == 0 {
		err = fmt.Errorf("%w: %q holds nothing", ErrColumnType, n.name)
	}
	return p, err
}

// typeOfShredded gives the type of a typed_value.
func typeOfShredded(n *node) (schema.Type, error) {
	precision, scale, isDecimal := n.decimal()
	perSecond, local, isTime := n.timestampUnit()
	switch {
	case isDecimal && precision > 0 && precision <= 38 && scale >= 0 && scale <= precision:
		return schema.Decimal(uint8(precision), uint8(scale)), nil
	case isTime && perSecond == 1e6 && local:
		return schema.Of(schema.TimestampNTZ), nil
	case isTime && perSecond == 1e6:
		return schema.Of(schema.Timestamp), nil
	case n.isDate():
		return schema.Of(schema.Date), nil
	case n.isText():
		return schema.Of(schema.StringType), nil
	case n.element.LogicalType.Value != nil && n.physical != format.Int32 && n.physical != format.Int64, isTime, isDecimal:
		return schema.Type{}, fmt.Errorf("%w: %q is %s, it can't be part of a variant", ErrColumnType, n.name, n)
	}
	switch n.physical {
	case format.Boolean:
		return schema.Of(schema.Boolean), nil
	case format.Int32, format.Int64:
		return schema.Of(schema.Long), nil
	case format.Float:
		return schema.Of(schema.FloatType), nil
	case format.Double:
		return schema.Of(schema.DoubleType), nil
	case format.ByteArray:
		return schema.Of(schema.BinaryType), nil
	}
	return schema.Type{}, fmt.Errorf("%w: %q is %s, it can't be part of a variant", ErrColumnType, n.name, n)
}

// variant appends a variant that is there as an encoded cell of its JSON.
func (c *nestedCells) variant(p *nestedPlan, dst []byte) ([]byte, error) {
	raw, present, err := c.text(p.metadata)
	if err != nil {
		return dst, err
	}
	if !present {
		return dst, corrupt("column %q: a variant without metadata", p.node.name)
	}
	m, err := variant.ParseMetadata(raw)
	if err != nil {
		return dst, corrupt("column %q: %v", p.node.name, err)
	}
	text, present, err := c.shredded(p.shred, &m, c.json[:0])
	if err != nil {
		if errors.Is(err, variant.ErrCorrupt) {
			err = corrupt("column %q: %v", p.node.name, err)
		}
		return dst, err
	}
	c.json = text
	if !present {
		return append(dst, byte(schema.Null)), nil
	}
	if c.used += len(text); c.used > maxNestedBytes {
		return dst, fmt.Errorf("%w: column %q has values of more than %d bytes in a few rows", ErrUnsupported, p.node.name, maxNestedBytes)
	}
	return schema.StringValue(string(text)).AppendEncoded(dst), nil
}

// text consumes one value of a leaf of byte arrays.
func (c *nestedCells) text(leaf *node) (s string, present bool, err error) {
	l := c.leaves[leaf]
	if _, _, err := l.current(); err != nil {
		return "", false, err
	}
	place, present := l.take()
	if present {
		s = l.str(place)
	}
	return s, present, nil
}

// shredded appends one variant, or part of one, as JSON; present is false where it is
// not there.
func (c *nestedCells) shredded(p *shredPlan, m *variant.Metadata, dst []byte) (out []byte, present bool, err error) {
	if len(dst) > variant.MaxJSON {
		return dst, false, fmt.Errorf("%w: column %q has a variant of more than %d bytes", ErrUnsupported, p.group.name, variant.MaxJSON)
	}
	if p.group.repetition == format.Optional {
		_, def, err := c.leaves[p.leaves[0]].current()
		if err != nil {
			return dst, false, err
		}
		if def < p.group.maxDef {
			return dst, false, c.passAll(p.leaves)
		}
	}
	value, hasValue := "", false
	if p.value != nil {
		if value, hasValue, err = c.text(p.value); err != nil {
			return dst, false, err
		}
	}
	if p.typed == nil {
		if !hasValue {
			return dst, false, nil
		}
		dst, err = variant.AppendJSON(dst, m, value)
		return dst, true, err
	}
	start := len(dst)
	dst, present, err = c.typed(p, m, value, hasValue, dst)
	if err != nil || present || !hasValue {
		return dst, present, err
	}
	dst, err = variant.AppendJSON(dst[:start], m, value)
	return dst, true, err
}

// typed appends what stands in typed_value, together with the rest of an object in
// value.
func (c *nestedCells) typed(p *shredPlan, m *variant.Metadata, value string, hasValue bool, dst []byte) (out []byte, present bool, err error) {
	if p.typed.leaf {
		l := c.leaves[p.typed]
		if _, _, err := l.current(); err != nil {
			return dst, false, err
		}
		place, present := l.take()
		if !present {
			return dst, false, nil
		}
		v, err := c.cell(&p.leaf, l, place)
		return variant.AppendCell(dst, v, p.t), true, err
	}
	below := p.leaves
	if p.value != nil {
		below = below[1:]
	}
	if p.typed.repetition == format.Optional {
		_, def, err := c.leaves[below[0]].current()
		if err != nil {
			return dst, false, err
		}
		if def < p.typed.maxDef {
			return dst, false, c.passAll(below)
		}
	}
	if p.element != nil {
		dst, err = c.shreddedArray(p, m, below, append(dst, '['))
		return append(dst, ']'), true, err
	}
	dst = append(dst, '{')
	first := true
	field := func(name string) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(variant.AppendCell(dst, schema.StringValue(name), schema.Of(schema.StringType)), ':')
	}
	for i, f := range p.fields {
		before, wasFirst := len(dst), first
		field(p.names[i])
		var there bool
		if dst, there, err = c.shredded(f, m, dst); err != nil {
			return dst, true, err
		}
		if !there {
			dst, first = dst[:before], wasFirst
		}
	}
	if hasValue {
		isObject, err := variant.Fields(m, value, func(name string, json []byte) {
			field(name)
			dst = append(dst, json...)
		})
		if err != nil {
			return dst, true, err
		}
		if !isObject {
			return dst, true, corrupt("column %q: a value beside the fields of an object that is none", p.group.name)
		}
	}
	return append(dst, '}'), true, nil
}

func (c *nestedCells) shreddedArray(p *shredPlan, m *variant.Metadata, below []*node, dst []byte) ([]byte, error) {
	guide := c.leaves[below[0]]
	_, def, err := guide.current()
	if err != nil {
		return dst, err
	}
	if def < p.inner.maxDef {
		return dst, c.passAll(below)
	}
	for i := 0; ; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		var present bool
		if dst, present, err = c.shredded(p.element, m, dst); err != nil {
			return dst, err
		}
		if !present {
			dst = append(dst, "null"...)
		}
		more, err := guide.peek()
		if err != nil || !more {
			return dst, err
		}
		if rep, _, _ := guide.levels(); rep != p.inner.maxRep {
			return dst, nil
		}
	}
}
