package parquet

import (
	"fmt"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// Fields gives the columns of the file as columns of a table, all of them nullable: the
// types that lose nothing. The error wraps ErrUnsupported and names a column of a type
// that tables don't have.
func (f *File) Fields() ([]schema.Field, error) { return f.root.fields(0) }

func (n *node) fields(depth int) ([]schema.Field, error) {
	list := make([]schema.Field, 0, len(n.children))
	for _, c := range n.children {
		t, err := c.infer(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, schema.Field{Name: c.name, Type: t, Nullable: true})
	}
	return list, nil
}

// infer gives the type of a table that a node holds.
func (n *node) infer(depth int) (schema.Type, error) {
	if depth > maxSchemaDepth {
		return n.inside(depth, false)
	}
	if repeated, element := listOf(n); repeated != nil && (n.repetition == format.Repeated || n.isCollection() && !n.isMap()) {
		var t schema.Type
		var err error
		if element == repeated {
			t, err = element.inside(depth+1, true)
		} else {
			t, err = element.infer(depth + 1)
		}
		if err != nil {
			return t, err
		}
		return schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: t, ContainsNull: true}}, nil
	}
	return n.inside(depth, false)
}

// isMap tells whether a group is annotated as a map, and is one.
func (n *node) isMap() bool {
	_, is := n.element.LogicalType.Value.(*format.MapType)
	c := n.element.ConvertedType
	return (is || c.Valid && (c.V == deprecated.Map || c.V == deprecated.MapKeyValue)) && len(n.children) == 1 && n.children[0].repetition == format.Repeated && len(n.children[0].children) == 2
}

// inside is infer of what is no list; taken tells that the repetition is a list's.
func (n *node) inside(depth int, taken bool) (schema.Type, error) {
	none := schema.Type{}
	unsupported := func() (schema.Type, error) {
		return none, fmt.Errorf("%w: a table has no type for %q, which is %s", ErrUnsupported, n.name, n)
	}
	if depth > maxSchemaDepth || n.repetition == format.Repeated && !taken {
		return unsupported()
	}
	switch {
	case n.isMap():
		entry := n.children[0]
		key, err := entry.children[0].infer(depth + 1)
		if err != nil {
			return none, err
		}
		value, err := entry.children[1].infer(depth + 1)
		if err != nil {
			return none, err
		}
		return schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: key, Element: value, ContainsNull: true}}, nil
	case !n.leaf && len(n.children) == 0:
		return unsupported()
	case !n.leaf:
		fields, err := n.fields(depth)
		if err != nil {
			return none, err
		}
		return schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: fields}}, nil
	}
	return n.inferLeaf()
}

// inferLeaf gives the type of a leaf.
func (n *node) inferLeaf() (schema.Type, error) {
	t := schema.Type{}
	precision, scale, isDecimal := n.decimal()
	_, local, isTimestamp := n.timestampUnit()
	bits, signed := n.integer()
	switch {
	case isDecimal && precision >= 1 && precision <= 38 && scale >= 0 && scale <= precision:
		t = schema.Decimal(uint8(precision), uint8(scale))
	case isDecimal:
	case isTimestamp && local:
		t = schema.Of(schema.TimestampNTZ)
	case isTimestamp, n.physical == format.Int96:
		t = schema.Of(schema.Timestamp)
	case n.isDate():
		t = schema.Of(schema.Date)
	case n.isTime():
	case n.physical == format.Int32 || n.physical == format.Int64:
		t = integerType(bits, signed)
	case n.physical == format.Boolean:
		t = schema.Of(schema.Boolean)
	case n.physical == format.Float:
		t = schema.Of(schema.FloatType)
	case n.physical == format.Double:
		t = schema.Of(schema.DoubleType)
	case n.isText():
		t = schema.Of(schema.StringType)
	default:
		t = schema.Of(schema.BinaryType)
	}
	if t.Primitive != schema.Unknown {
		if _, err := leafConverter(n, t); err == nil {
			return t, nil
		}
	}
	return t, fmt.Errorf("%w: a table has no type for %q, which is %s", ErrUnsupported, n.name, n)
}

// integerType gives the type that holds all integers of some bits; Unknown for those of
// 64 without a sign.
func integerType(bits int, signed bool) schema.Type {
	if !signed {
		bits *= 2
	}
	switch {
	case bits <= 8:
		return schema.Of(schema.Byte)
	case bits <= 16:
		return schema.Of(schema.Short)
	case bits <= 32:
		return schema.Of(schema.Integer)
	case bits <= 64:
		return schema.Of(schema.Long)
	}
	return schema.Type{}
}

// integer gives the bits of an integer leaf, and whether it has a sign.
func (n *node) integer() (bits int, signed bool) {
	if t, is := n.element.LogicalType.Value.(*format.IntType); is {
		return int(t.BitWidth), t.IsSigned
	}
	if c := n.element.ConvertedType; c.Valid && c.V >= deprecated.Uint8 && c.V <= deprecated.Int64 {
		return 8 << ((c.V - deprecated.Uint8) % 4), c.V >= deprecated.Int8
	}
	if n.physical == format.Int64 {
		return 64, true
	}
	return 32, true
}

// isTime tells whether an integer leaf is a time of day.
func (n *node) isTime() bool {
	_, is := n.element.LogicalType.Value.(*format.TimeType)
	c := n.element.ConvertedType
	return is || c.Valid && (c.V == deprecated.TimeMillis || c.V == deprecated.TimeMicros)
}
