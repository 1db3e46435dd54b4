//go:build cgo

package sql

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/output"
)

var duckNames = map[schema.Primitive]string{
	schema.Boolean: "BOOLEAN", schema.Byte: "TINYINT", schema.Short: "SMALLINT", schema.Integer: "INTEGER", schema.Long: "BIGINT",
	schema.FloatType: "FLOAT", schema.DoubleType: "DOUBLE", schema.StringType: "VARCHAR", schema.BinaryType: "BLOB",
	schema.Date: "DATE", schema.Timestamp: "TIMESTAMPTZ", schema.TimestampNTZ: "TIMESTAMP",
}

// typeName gives a type of a table as DuckDB spells it. A variant is JSON.
func typeName(t schema.Type) string {
	return spelled(t, func(f *schema.Field) string { return f.Name })
}

// fileTypeName is typeName with the names that the parts of structs have in files.
func fileTypeName(t schema.Type) string { return spelled(t, (*schema.Field).Stored) }

func spelled(t schema.Type, name func(*schema.Field) string) string {
	switch t.Primitive {
	case schema.Variant:
		return "JSON"
	case schema.DecimalType:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
	case schema.Struct:
		parts := make([]string, len(t.Nested.Fields))
		for i, f := range t.Nested.Fields {
			parts[i] = identifier(name(&f)) + " " + spelled(f.Type, name)
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	case schema.Array:
		return spelled(t.Nested.Element, name) + "[]"
	case schema.Map:
		return "MAP(" + spelled(t.Nested.Key, name) + ", " + spelled(t.Nested.Element, name) + ")"
	}
	if name, ok := duckNames[t.Primitive]; ok {
		return name
	}
	return "VARCHAR" // a column that never had a value
}

// hasVariant tells whether a type is a variant, or has some inside.
func hasVariant(t schema.Type) bool {
	if t.Nested == nil {
		return t.Primitive == schema.Variant
	}
	return hasVariant(t.Nested.Key) || hasVariant(t.Nested.Element) ||
		slices.ContainsFunc(t.Nested.Fields, func(f schema.Field) bool { return hasVariant(f.Type) })
}

// mapped tells whether parts of structs have other names in files.
func mapped(t schema.Type) bool {
	if t.Nested == nil {
		return false
	}
	return mapped(t.Nested.Key) || mapped(t.Nested.Element) ||
		slices.ContainsFunc(t.Nested.Fields, func(f schema.Field) bool { return f.Stored() != f.Name || mapped(f.Type) })
}

// renamed gives the expression of a cell of a file with the table's names for the
// parts of its structs.
func renamed(cell string, t schema.Type, depth int) string {
	if !mapped(t) {
		return cell
	}
	one := fmt.Sprintf("__gscd_x%d", depth)
	switch t.Primitive {
	case schema.Struct:
		parts := make([]string, len(t.Nested.Fields))
		for i, f := range t.Nested.Fields {
			parts[i] = identifier(f.Name) + " := " + renamed(cell+"."+identifier(f.Stored()), f.Type, depth)
		}
		return "CASE WHEN " + cell + " IS NOT NULL THEN struct_pack(" + strings.Join(parts, ", ") + ") END"
	case schema.Array:
		return "list_transform(" + cell + ", lambda " + one + ": " + renamed(one, t.Nested.Element, depth+1) + ")"
	}
	return "map_from_entries(list_transform(map_entries(" + cell + "), lambda " + one + ": struct_pack(key := " +
		renamed(one+".key", t.Nested.Key, depth+1) + ", value := " + renamed(one+".value", t.Nested.Element, depth+1) + ")))"
}

// literal gives a cell as an expression of its column's type.
func literal(v schema.Value, t schema.Type) string {
	value := "NULL"
	switch {
	case v.IsNull():
	case v.Kind == schema.Binary:
		value = "unhex('" + hex.EncodeToString([]byte(v.S)) + "')"
	case v.Kind == schema.String && strings.IndexByte(v.S, 0) >= 0:
		value = "decode(unhex('" + hex.EncodeToString([]byte(v.S)) + "'))"
	default:
		value = quoted(string(output.AppendText(nil, t, v)))
	}
	return "CAST(" + value + " AS " + typeName(t) + ")"
}
