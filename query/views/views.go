package views

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// Dialect is the SQL of an engine.
type Dialect string

// The dialects.
const (
	Spark  Dialect = "spark"
	Trino  Dialect = "trino"
	DuckDB Dialect = "duckdb"
)

// Dialects gives the names of all.
func Dialects() []string { return []string{string(Spark), string(Trino), string(DuckDB)} }

// ErrNoDays: a view without days would have no columns in some engines.
var ErrNoDays = errors.New("there is no day to show")

// View is what a statement is written of.
type View struct {
	// Name is that of the view; its parts (catalog, schema) are divided by dots.
	Name string
	// Source is where the table is for the engine: an address for Spark and DuckDB, a
	// name with dots for Trino.
	Source string
	// Columns are those that the view has, and LabelColumn the name of the label's.
	Columns     []schema.Field
	LabelColumn string
	// Days in the order of their labels.
	Days []Day
}

// Day is a label and the version that answers it.
type Day struct {
	Label   string
	Version int64
	Schema  *schema.Schema
}

// Statement writes a CREATE OR REPLACE VIEW. The error wraps ErrNoDays.
func (d Dialect) Statement(v View) (string, error) {
	if len(v.Days) == 0 {
		return "", ErrNoDays
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE OR REPLACE VIEW %s AS", d.path(v.Name))
	for i, day := range v.Days {
		if i > 0 {
			b.WriteString("\nUNION ALL")
		}
		b.WriteString("\nSELECT ")
		for _, f := range v.Columns {
			b.WriteString(d.cell(&f, day.Schema) + ", ")
		}
		fmt.Fprintf(&b, "%s AS %s FROM %s", d.label(day.Label), d.identifier(v.LabelColumn), d.table(v.Source, day.Version))
	}
	b.WriteString(";\n")
	return b.String(), nil
}

// cell is the column of a day: its own, widened where it is of another type, or NULL.
func (d Dialect) cell(f *schema.Field, day *schema.Schema) string {
	name := d.identifier(f.Name)
	i := day.IndexFold(f.Name)
	if f.FileName != "" { // what stays where a column is renamed
		i = slices.IndexFunc(day.Fields, func(own schema.Field) bool { return own.Stored() == f.FileName })
	}
	if i < 0 {
		return "CAST(NULL AS " + d.typeName(f.Type) + ") AS " + name
	}
	own := day.Fields[i]
	cell := d.identifier(own.Name)
	if own.Type.String() != f.Type.String() {
		cell = "CAST(" + cell + " AS " + d.typeName(f.Type) + ")"
	}
	if cell == name {
		return name
	}
	return cell + " AS " + name
}

func (d Dialect) label(label string) string {
	if d == Trino { // where a literal has its length as a type
		return "CAST(" + d.text(label) + " AS varchar)"
	}
	return d.text(label)
}

func (d Dialect) table(source string, version int64) string {
	switch d {
	case Spark:
		return fmt.Sprintf("delta.%s VERSION AS OF %d", d.identifier(source), version)
	case Trino:
		return fmt.Sprintf("%s FOR VERSION AS OF %d", d.path(source), version)
	}
	return fmt.Sprintf("delta_scan(%s, version = %d)", d.text(source), version)
}

func (d Dialect) identifier(name string) string {
	if d == Spark {
		return "`" + strings.ReplaceAll(name, "`", "``") + "`"
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// path quotes the parts of a name.
func (d Dialect) path(name string) string {
	parts := strings.Split(name, ".")
	for i := range parts {
		parts[i] = d.identifier(parts[i])
	}
	return strings.Join(parts, ".")
}

func (d Dialect) text(text string) string {
	if d == Spark {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

var typeNames = map[Dialect]map[schema.Primitive]string{
	Spark: {
		schema.Byte: "TINYINT", schema.Short: "SMALLINT", schema.Integer: "INT", schema.Long: "BIGINT", schema.FloatType: "FLOAT",
		schema.DoubleType: "DOUBLE", schema.Boolean: "BOOLEAN", schema.StringType: "STRING", schema.BinaryType: "BINARY",
		schema.Date: "DATE", schema.Timestamp: "TIMESTAMP", schema.TimestampNTZ: "TIMESTAMP_NTZ", schema.Variant: "VARIANT",
	},
	Trino: {
		schema.Byte: "tinyint", schema.Short: "smallint", schema.Integer: "integer", schema.Long: "bigint", schema.FloatType: "real",
		schema.DoubleType: "double", schema.Boolean: "boolean", schema.StringType: "varchar", schema.BinaryType: "varbinary",
		schema.Date: "date", schema.Timestamp: "timestamp(3) with time zone", schema.TimestampNTZ: "timestamp(6)", schema.Variant: "json",
	},
	DuckDB: {
		schema.Byte: "TINYINT", schema.Short: "SMALLINT", schema.Integer: "INTEGER", schema.Long: "BIGINT", schema.FloatType: "FLOAT",
		schema.DoubleType: "DOUBLE", schema.Boolean: "BOOLEAN", schema.StringType: "VARCHAR", schema.BinaryType: "BLOB",
		schema.Date: "DATE", schema.Timestamp: "TIMESTAMPTZ", schema.TimestampNTZ: "TIMESTAMP", schema.Variant: "JSON",
	},
}

// typeName spells a type; one that a column never had a value of is text.
func (d Dialect) typeName(t schema.Type) string {
	switch t.Primitive {
	case schema.DecimalType:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
	case schema.Struct:
		separator := " "
		if d == Spark {
			separator = ": "
		}
		parts := make([]string, len(t.Nested.Fields))
		for i, f := range t.Nested.Fields {
			parts[i] = d.identifier(f.Name) + separator + d.typeName(f.Type)
		}
		list := strings.Join(parts, ", ")
		switch d {
		case Spark:
			return "STRUCT<" + list + ">"
		case Trino:
			return "ROW(" + list + ")"
		}
		return "STRUCT(" + list + ")"
	case schema.Array:
		element := d.typeName(t.Nested.Element)
		switch d {
		case Spark:
			return "ARRAY<" + element + ">"
		case Trino:
			return "ARRAY(" + element + ")"
		}
		return element + "[]"
	case schema.Map:
		pair := d.typeName(t.Nested.Key) + ", " + d.typeName(t.Nested.Element)
		if d == Spark {
			return "MAP<" + pair + ">"
		}
		return "MAP(" + pair + ")"
	}
	if name, ok := typeNames[d][t.Primitive]; ok {
		return name
	}
	return typeNames[d][schema.StringType]
}
