package expr

import (
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// Column is what a filter looks at: a column, or a field inside of structs.
type Column struct {
	// Place is the place of the column in the schema.
	Place int
	// Inside are the places of the fields from the column down to the one that is
	// meant; empty where it is the column itself.
	Inside []int
}

// Path gives the column in a schema, and the fields down to the one that is meant.
func (c Column) Path(s *schema.Schema) []schema.Field {
	path := append(make([]schema.Field, 0, 1+len(c.Inside)), s.Fields[c.Place])
	for _, at := range c.Inside {
		path = append(path, path[len(path)-1].Type.Nested.Fields[at])
	}
	return path
}

// Names gives the names along Path.
func (c Column) Names(s *schema.Schema) []string {
	path := c.Path(s)
	names := make([]string, len(path))
	for i := range path {
		names[i] = path[i].Name
	}
	return names
}

// scope numbers what a filter may look at: the columns of a schema by their places, and
// behind them the fields inside of structs that it names.
type scope struct {
	schema *schema.Schema
	inside []inner
}

// inner is a field inside of structs. Its name is the path as it is written.
type inner struct {
	Column
	names []string
	field schema.Field
}

// field gives what a number stands for.
func (s *scope) field(number int) *schema.Field {
	if n := number - len(s.schema.Fields); n >= 0 {
		return &s.inside[n].field
	}
	return &s.schema.Fields[number]
}

// column gives where a number lies.
func (s *scope) column(number int) Column {
	if n := number - len(s.schema.Fields); n >= 0 {
		return s.inside[n].Column
	}
	return Column{Place: number}
}

// add numbers a field inside of structs.
func (s *scope) add(c Column) int {
	for i := range s.inside {
		if have := &s.inside[i]; have.Place == c.Place && slices.Equal(have.Inside, c.Inside) {
			return len(s.schema.Fields) + i
		}
	}
	path, names := c.Path(s.schema), c.Names(s.schema)
	f := path[len(path)-1]
	f.Name = schema.FormatPath(names...)
	s.inside = append(s.inside, inner{c, names, f})
	return len(s.schema.Fields) + len(s.inside) - 1
}

// quoted writes the name of a number so that parsing gives it again.
func (s *scope) quoted(number int) string {
	names := []string{s.field(number).Name}
	if n := number - len(s.schema.Fields); n >= 0 {
		names = s.inside[n].names
	}
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return strings.Join(parts, ".")
}
