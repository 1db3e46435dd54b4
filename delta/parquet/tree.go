package parquet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// ErrUnsupported is wrapped by errors about valid files with something that
// this package does not read.
var ErrUnsupported = errors.New("not supported in a Parquet file")

// node is one element of a file's schema: a group or a leaf.
type node struct {
	name           string
	element        *format.SchemaElement
	children       []*node
	repetition     format.FieldRepetitionType
	maxRep, maxDef uint8

	// Of leaves only.
	leaf     bool
	index    int // place among the leaves, and so in a row group
	physical format.Type
	width    int // bytes of a FIXED_LEN_BYTE_ARRAY
}

const maxSchemaDepth = 64

// buildTree makes the tree of a file's schema elements, which come in
// depth-first order, and lists its leaves.
func buildTree(elements []format.SchemaElement) (root *node, leaves []*node, err error) {
	if len(elements) == 0 {
		return nil, nil, corrupt("it has no schema")
	}
	b := treeBuilder{elements: elements}
	root, err = b.next(0, 0, 0)
	if err != nil {
		return nil, nil, err
	}
	if b.at != len(elements) || root.leaf {
		return nil, nil, corrupt("its schema is no tree")
	}
	return root, b.leaves, nil
}

type treeBuilder struct {
	elements []format.SchemaElement
	at       int
	leaves   []*node
}

func (b *treeBuilder) next(depth int, rep, def uint8) (*node, error) {
	if b.at >= len(b.elements) || depth > maxSchemaDepth {
		return nil, corrupt("its schema is cut off or nested too deep")
	}
	e := &b.elements[b.at]
	b.at++
	n := &node{name: e.Name, element: e}
	if depth > 0 {
		if n.repetition = e.RepetitionType.V; n.repetition != format.Required {
			def++
		}
		if n.repetition == format.Repeated {
			rep++
		}
	}
	n.maxRep, n.maxDef = rep, def
	if e.Type.Valid {
		n.leaf, n.index, n.physical, n.width = true, len(b.leaves), e.Type.V, int(e.TypeLength.V)
		if n.physical < format.Boolean || n.physical > format.FixedLenByteArray {
			return nil, corrupt("column %q has the unknown type %d", e.Name, n.physical)
		}
		if n.physical == format.FixedLenByteArray && (n.width <= 0 || n.width > 1<<20) {
			return nil, corrupt("column %q has values of %d bytes", e.Name, n.width)
		}
		b.leaves = append(b.leaves, n)
		return n, nil
	}
	count := int(e.NumChildren.V)
	if count < 0 || count > len(b.elements)-b.at {
		return nil, corrupt("group %q has %d children", e.Name, count)
	}
	for range count {
		child, err := b.next(depth+1, rep, def)
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, child)
	}
	return n, nil
}

// find finds a child by its field id, or by name where id is 0.
func (n *node) find(name string, id int32) *node {
	if id == 0 {
		return n.child(name)
	}
	for _, c := range n.children {
		if c.element.FieldID == id {
			return c
		}
	}
	return nil
}

// hasIDs tells whether any column of a file has a field id.
func (n *node) hasIDs() bool {
	return slices.ContainsFunc(n.children, func(c *node) bool { return c.element.FieldID != 0 || c.hasIDs() })
}

// child finds a child by exact name, else by the only one that differs in case.
func (n *node) child(name string) *node {
	var folded *node
	for _, c := range n.children {
		if c.name == name {
			return c
		}
		if strings.EqualFold(c.name, name) {
			if folded != nil {
				folded = nil
				break
			}
			folded = c
		}
	}
	return folded
}

// firstLeaf gives a leaf whose levels tell of the node; nil below an empty group.
func (n *node) firstLeaf() *node {
	if n.leaf {
		return n
	}
	for _, c := range n.children {
		if l := c.firstLeaf(); l != nil {
			return l
		}
	}
	return nil
}

// String describes a leaf's type for messages: "INT32 DECIMAL(9,2)".
func (n *node) String() string {
	if !n.leaf {
		return "group"
	}
	text := n.physical.String()
	if n.physical == format.FixedLenByteArray {
		text = fmt.Sprintf("%s(%d)", text, n.width)
	}
	if l := n.element.LogicalType.Value; l != nil {
		return text + " " + l.String()
	}
	if n.element.ConvertedType.Valid {
		return text + " " + convertedNames[n.element.ConvertedType.V]
	}
	return text
}

var convertedNames = map[deprecated.ConvertedType]string{
	deprecated.UTF8: "UTF8", deprecated.Map: "MAP", deprecated.List: "LIST", deprecated.Enum: "ENUM",
	deprecated.Decimal: "DECIMAL", deprecated.Date: "DATE", deprecated.TimeMillis: "TIME_MILLIS",
	deprecated.TimeMicros: "TIME_MICROS", deprecated.TimestampMillis: "TIMESTAMP_MILLIS",
	deprecated.TimestampMicros: "TIMESTAMP_MICROS", deprecated.Uint8: "UINT_8", deprecated.Uint16: "UINT_16",
	deprecated.Uint32: "UINT_32", deprecated.Uint64: "UINT_64", deprecated.Int8: "INT_8",
	deprecated.Int16: "INT_16", deprecated.Int32: "INT_32", deprecated.Int64: "INT_64",
	deprecated.Json: "JSON", deprecated.Bson: "BSON", deprecated.Interval: "INTERVAL",
}

// decimalScale gives precision and scale where the leaf is a decimal.
func (n *node) decimal() (precision, scale int32, ok bool) {
	if d, is := n.element.LogicalType.Value.(*format.DecimalType); is {
		return d.Precision, d.Scale, true
	}
	if n.element.ConvertedType.Valid && n.element.ConvertedType.V == deprecated.Decimal {
		return n.element.Precision.V, n.element.Scale.V, true
	}
	return 0, 0, false
}

// timestampUnit gives how many units of an INT64 timestamp make a second;
// ok is false where the leaf is none, and local where it has no time zone.
func (n *node) timestampUnit() (perSecond int64, local, ok bool) {
	if t, is := n.element.LogicalType.Value.(*format.TimestampType); is {
		switch t.Unit.Value.(type) {
		case *format.MilliSeconds:
			return 1e3, !t.IsAdjustedToUTC, true
		case *format.MicroSeconds:
			return 1e6, !t.IsAdjustedToUTC, true
		case *format.NanoSeconds:
			return 1e9, !t.IsAdjustedToUTC, true
		}
		return 0, false, false
	}
	if n.element.ConvertedType.Valid {
		switch n.element.ConvertedType.V {
		case deprecated.TimestampMillis:
			return 1e3, false, true
		case deprecated.TimestampMicros:
			return 1e6, false, true
		}
	}
	return 0, false, false
}

// isDate and isUnsigned tell of the annotation of an integer leaf.
func (n *node) isDate() bool {
	_, is := n.element.LogicalType.Value.(*format.DateType)
	return is || n.element.ConvertedType.Valid && n.element.ConvertedType.V == deprecated.Date
}

func (n *node) isUnsigned() bool {
	if t, is := n.element.LogicalType.Value.(*format.IntType); is {
		return !t.IsSigned
	}
	c := n.element.ConvertedType
	return c.Valid && c.V >= deprecated.Uint8 && c.V <= deprecated.Uint64
}

// isCollection tells whether a group is annotated as a list or map.
func (n *node) isCollection() bool {
	switch n.element.LogicalType.Value.(type) {
	case *format.ListType, *format.MapType:
		return true
	}
	c := n.element.ConvertedType
	return c.Valid && (c.V == deprecated.List || c.V == deprecated.Map)
}

// isText tells whether a byte array is annotated as UTF-8.
func (n *node) isText() bool {
	switch n.element.LogicalType.Value.(type) {
	case *format.StringType, *format.JsonType, *format.EnumType:
		return true
	}
	c := n.element.ConvertedType
	return c.Valid && (c.V == deprecated.UTF8 || c.V == deprecated.Enum || c.V == deprecated.Json)
}
