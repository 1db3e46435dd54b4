package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrType is wrapped by errors about text that names no type.
var ErrType = errors.New("not a Delta type")

// Primitive enumerates the leaf types of the Delta protocol ("Schema
// Serialization Format, Primitive Types") and the three nested ones.
type Primitive uint8

// The types. Unknown is the zero Type: a column whose type no record has told yet.
// Void is the type of a column that is NULL in every row and in no file. Variant
// holds values of any type; a leaf here, as its parts have no columns.
const (
	Unknown Primitive = iota
	Boolean
	Byte
	Short
	Integer
	Long
	FloatType
	DoubleType
	DecimalType
	StringType
	BinaryType
	Date
	Timestamp
	TimestampNTZ
	Void
	Variant
	Struct
	Array
	Map
)

var primitiveNames = [...]string{
	Unknown: "unknown", Boolean: "boolean", Byte: "byte", Short: "short", Integer: "integer",
	Long: "long", FloatType: "float", DoubleType: "double", DecimalType: "decimal",
	StringType: "string", BinaryType: "binary", Date: "date", Timestamp: "timestamp",
	TimestampNTZ: "timestamp_ntz", Void: "void", Variant: "variant", Struct: "struct", Array: "array", Map: "map",
}

// Type is a column's type. Types of leaf columns are comparable with ==.
type Type struct {
	Primitive Primitive
	// Precision (1..38) and Scale (0..Precision) are set for decimals only.
	Precision, Scale uint8
	// Nested is set for Struct, Array and Map only.
	Nested *Nested
}

// Nested describes what a struct, array or map is made of. A struct uses
// Fields; an array Element; a map Key and Element.
type Nested struct {
	Fields       []Field
	Key, Element Type
	ContainsNull bool
}

// Decimal returns decimal(precision,scale).
func Decimal(precision, scale uint8) Type {
	return Type{Primitive: DecimalType, Precision: precision, Scale: scale}
}

// Of returns the type of a primitive that has no parameters.
func Of(p Primitive) Type { return Type{Primitive: p} }

// String gives the type as the Delta protocol spells it: "long", "decimal(12,2)".
func (t Type) String() string {
	switch t.Primitive {
	case DecimalType:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case Struct:
		var b strings.Builder
		b.WriteString("struct<")
		for i, f := range t.Nested.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(f.Name + ":" + f.Type.String())
		}
		return b.String() + ">"
	case Array:
		return "array<" + t.Nested.Element.String() + ">"
	case Map:
		return "map<" + t.Nested.Key.String() + "," + t.Nested.Element.String() + ">"
	}
	return primitiveNames[t.Primitive]
}

// ParsePrimitive reads a leaf type as the Delta protocol spells it. The names
// int, bigint, smallint, tinyint, timestamp_ltz and null of other writers are read too.
// The error wraps ErrType.
func ParsePrimitive(s string) (Type, error) {
	switch s {
	case "int":
		return Of(Integer), nil
	case "bigint":
		return Of(Long), nil
	case "smallint":
		return Of(Short), nil
	case "tinyint":
		return Of(Byte), nil
	case "timestamp_ltz":
		return Of(Timestamp), nil
	case "null":
		return Of(Void), nil
	case "decimal":
		return Decimal(10, 0), nil
	}
	for p := Boolean; p <= Variant; p++ {
		if p != DecimalType && primitiveNames[p] == s {
			return Of(p), nil
		}
	}
	if args, ok := strings.CutPrefix(s, "decimal("); ok && strings.HasSuffix(args, ")") {
		p, sc, found := strings.Cut(strings.TrimSuffix(args, ")"), ",")
		if !found {
			sc = "0"
		}
		precision, err1 := strconv.ParseUint(strings.TrimSpace(p), 10, 8)
		scale, err2 := strconv.ParseUint(strings.TrimSpace(sc), 10, 8)
		if err1 == nil && err2 == nil && precision >= 1 && precision <= 38 && scale <= precision {
			return Decimal(uint8(precision), uint8(scale)), nil
		}
	}
	return Type{}, fmt.Errorf("%w: %q", ErrType, s)
}

// IsInteger reports whether the type is byte, short, integer or long.
func (t Type) IsInteger() bool { return t.Primitive >= Byte && t.Primitive <= Long }

// IsLeaf reports whether the type has no parts.
func (t Type) IsLeaf() bool { return t.Primitive < Struct }
