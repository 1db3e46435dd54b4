package scan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
)

// find finds what a name of Options.Columns means: a column, else the path of a field
// inside of structs.
func (s *Scan) find(name string) (expr.Column, error) {
	if i := s.schema.IndexFold(name); i >= 0 {
		return expr.Column{Place: i}, nil
	}
	unknown := fmt.Errorf("%w: %q; the table has %q", ErrColumn, name, s.schema.Names())
	path, err := schema.ParsePath(name)
	if err != nil || len(path) < 2 {
		return expr.Column{}, unknown
	}
	c := expr.Column{Place: s.schema.IndexFold(path[0])}
	if c.Place < 0 {
		return c, unknown
	}
	f := s.schema.Fields[c.Place]
	for _, name := range path[1:] {
		if f.Type.Primitive != schema.Struct {
			return c, fmt.Errorf("%w: %q: %s is %s and has no fields", ErrColumn, path, f.Name, f.Type)
		}
		at := slices.IndexFunc(f.Type.Nested.Fields, func(inner schema.Field) bool { return inner.Name == name })
		if at < 0 {
			at = slices.IndexFunc(f.Type.Nested.Fields, func(inner schema.Field) bool { return strings.EqualFold(inner.Name, name) })
		}
		if at < 0 {
			return c, fmt.Errorf("%w: %q: %s has no field %q", ErrColumn, path, f.Name, name)
		}
		c.Inside = append(c.Inside, at)
		f = f.Type.Nested.Fields[at]
	}
	return c, nil
}

// give makes a column, or a field inside of one, part of the output.
func (s *Scan) give(c expr.Column) {
	place := c.Place
	if len(c.Inside) > 0 {
		place = len(s.schema.Fields) + len(s.inside)
		s.inside = append(s.inside, c)
	}
	s.output = append(s.output, place)
}

// field describes a place of the output.
func (s *Scan) field(place int) schema.Field {
	if place < len(s.schema.Fields) {
		return s.schema.Fields[place]
	}
	c := s.inside[place-len(s.schema.Fields)]
	path := c.Path(s.schema)
	f := path[len(path)-1]
	f.Name, f.FileName, f.FieldID, f.Nullable = schema.FormatPath(c.Names(s.schema)...), "", 0, true
	return f
}

// fillInside sets the places of fields inside of structs, in the rows that are kept. A
// field of a struct that is NULL is NULL.
func (s *Scan) fillInside(rows *selection) {
	for i, c := range s.inside {
		place := len(s.schema.Fields) + i
		if rows.columns[place] == nil {
			rows.columns[place] = make([]schema.Value, batchRows)
		}
		from, to := rows.columns[c.Place], rows.columns[place]
		for _, row := range rows.kept {
			v := from[row]
			for _, at := range c.Inside {
				v = v.Part(at)
			}
			to[row] = v
		}
	}
}

// planFields finds of which columns to read only some fields: all that is asked for of
// them lies inside. The others become void there, so that fields keep their places.
func (s *Scan) planFields() {
	paths := map[int][][]int{}
	whole := slices.Clone(s.output)
	for _, by := range s.options.OrderBy {
		whole = append(whole, by.Column)
	}
	asked := slices.Clone(s.inside)
	if s.options.Where != nil {
		asked = append(asked, s.options.Where.Refs()...)
	}
	for _, c := range asked {
		if len(c.Inside) == 0 {
			whole = append(whole, c.Place)
		}
		paths[c.Place] = append(paths[c.Place], c.Inside)
	}
	s.fields = make([]schema.Field, len(s.data))
	for i, c := range s.data {
		if s.fields[i] = s.schema.Fields[c]; !slices.Contains(whole, c) {
			s.fields[i].Type = only(s.fields[i].Type, paths[c])
		}
	}
}

// only gives a struct with all fields void that lead to none of some paths.
func only(t schema.Type, paths [][]int) schema.Type {
	if t.Primitive != schema.Struct || slices.ContainsFunc(paths, func(p []int) bool { return len(p) == 0 }) {
		return t
	}
	nested := *t.Nested
	nested.Fields = slices.Clone(t.Nested.Fields)
	for i := range nested.Fields {
		var below [][]int
		for _, p := range paths {
			if p[0] == i {
				below = append(below, p[1:])
			}
		}
		if f := &nested.Fields[i]; below == nil {
			f.Type = schema.Of(schema.Void)
		} else {
			f.Type = only(f.Type, below)
		}
	}
	t.Nested = &nested
	return t
}
