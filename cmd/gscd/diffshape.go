package main

import (
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/query/output"
)

// diffShape is how changes are printed: the columns, and a row of each change.
type diffShape struct {
	fields []schema.Field
	row    func(*diff.Change) []schema.Value
}

// shapeOf gives the shape of a format: for people the key and what became of the columns
// as text, for CSV a column for each old and new value, else objects.
func shapeOf(format string, columns []diff.Column) diffShape {
	kind := schema.Field{Name: "change", Type: schema.Of(schema.StringType)}
	var key, rest []int
	for i, c := range columns {
		if c.Key {
			key = append(key, i)
		} else {
			rest = append(rest, i)
		}
	}
	switch format {
	case output.Table:
		return textShape(kind, columns, key, rest)
	case output.CSV:
		return flatShape(kind, columns, key, rest)
	}
	return nestedShape(kind, columns, key)
}

func textShape(kind schema.Field, columns []diff.Column, key, rest []int) diffShape {
	s := diffShape{fields: []schema.Field{kind}}
	for _, i := range key {
		s.fields = append(s.fields, columns[i].Field)
	}
	s.fields = append(s.fields, schema.Field{Name: "columns", Type: schema.Of(schema.StringType)})
	s.row = func(c *diff.Change) []schema.Value {
		row := []schema.Value{schema.StringValue(c.Kind.String())}
		for _, i := range key {
			row = append(row, c.Row()[i])
		}
		var parts []string
		for _, i := range rest {
			name := columns[i].Name + ": "
			switch {
			case c.Kind != diff.Updated:
				if !c.Row()[i].IsNull() {
					parts = append(parts, name+cellText(columns[i].Type, c.Row()[i]))
				}
			case slices.Contains(c.Changed, i):
				parts = append(parts, name+cellText(columns[i].Type, c.Old[i])+" → "+cellText(columns[i].Type, c.New[i]))
			}
		}
		return append(row, schema.StringValue(strings.Join(parts, ", ")))
	}
	return s
}

func cellText(t schema.Type, v schema.Value) string {
	if v.IsNull() {
		return "NULL"
	}
	return string(schema.AppendText(nil, t, v))
}

func flatShape(kind schema.Field, columns []diff.Column, key, rest []int) diffShape {
	s := diffShape{fields: []schema.Field{kind}}
	for _, i := range key {
		s.fields = append(s.fields, columns[i].Field)
	}
	s.fields = append(s.fields, schema.Field{Name: "changed", Type: schema.Of(schema.StringType)})
	for _, prefix := range []string{"old_", "new_"} {
		for _, i := range rest {
			f := columns[i].Field
			f.Name = prefix + f.Name
			s.fields = append(s.fields, f)
		}
	}
	s.row = func(c *diff.Change) []schema.Value {
		row := []schema.Value{schema.StringValue(c.Kind.String())}
		for _, i := range key {
			row = append(row, c.Row()[i])
		}
		row = append(row, schema.StringValue(strings.Join(changedNames(columns, c), ",")))
		for _, cells := range [][]schema.Value{c.Old, c.New} {
			for _, i := range rest {
				if cells == nil {
					row = append(row, schema.Value{})
				} else {
					row = append(row, cells[i])
				}
			}
		}
		return row
	}
	return s
}

func changedNames(columns []diff.Column, c *diff.Change) []string {
	names := make([]string, len(c.Changed))
	for i, place := range c.Changed {
		names[i] = columns[place].Name
	}
	return names
}

func nestedShape(kind schema.Field, columns []diff.Column, key []int) diffShape {
	object := func(name string, places []int) schema.Field {
		n := &schema.Nested{}
		for _, i := range places {
			f := columns[i].Field
			f.Nullable = true
			n.Fields = append(n.Fields, f)
		}
		return schema.Field{Name: name, Type: schema.Type{Primitive: schema.Struct, Nested: n}, Nullable: true}
	}
	all := make([]int, len(columns))
	for i := range all {
		all[i] = i
	}
	changed := schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.StringType)}}
	s := diffShape{fields: []schema.Field{kind}}
	if len(key) > 0 {
		s.fields = append(s.fields, object("key", key))
	}
	s.fields = append(s.fields, schema.Field{Name: "changed", Type: changed}, object("old", all), object("new", all))
	s.row = func(c *diff.Change) []schema.Value {
		row := []schema.Value{schema.StringValue(c.Kind.String())}
		if len(key) > 0 {
			var cells []schema.Value
			for _, i := range key {
				cells = append(cells, c.Row()[i])
			}
			row = append(row, schema.CompoundValue(cells...))
		}
		var names []schema.Value
		for _, name := range changedNames(columns, c) {
			names = append(names, schema.StringValue(name))
		}
		row = append(row, schema.CompoundValue(names...))
		for _, cells := range [][]schema.Value{c.Old, c.New} {
			if cells == nil {
				row = append(row, schema.Value{})
			} else {
				row = append(row, schema.CompoundValue(cells...))
			}
		}
		return row
	}
	return s
}
