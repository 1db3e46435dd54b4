//go:build cgo

package sql

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/output"
)

var duckNames = map[schema.Primitive]string{
	schema.Boolean: "BOOLEAN", schema.Byte: "TINYINT", schema.Short: "SMALLINT", schema.Integer: "INTEGER", schema.Long: "BIGINT",
	schema.FloatType: "FLOAT", schema.DoubleType: "DOUBLE", schema.StringType: "VARCHAR", schema.BinaryType: "BLOB",
	schema.Date: "DATE", schema.Timestamp: "TIMESTAMPTZ", schema.TimestampNTZ: "TIMESTAMP",
}

// typeName gives a type of a table as DuckDB spells it.
func typeName(t schema.Type) string {
	switch t.Primitive {
	case schema.DecimalType:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
	case schema.Struct:
		parts := make([]string, len(t.Nested.Fields))
		for i, f := range t.Nested.Fields {
			parts[i] = identifier(f.Name) + " " + typeName(f.Type)
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	case schema.Array:
		return typeName(t.Nested.Element) + "[]"
	case schema.Map:
		return "MAP(" + typeName(t.Nested.Key) + ", " + typeName(t.Nested.Element) + ")"
	}
	if name, ok := duckNames[t.Primitive]; ok {
		return name
	}
	return "VARCHAR" // a column that never had a value
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
