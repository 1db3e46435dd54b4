package stats

import (
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
)

// Leaf is a column, or a field inside of structs, that a file may have statistics of. An
// array and a map are leaves too, though without statistics.
type Leaf struct {
	// Path is its name, with those of the structs that it lies in before it; Stored is
	// the same by the names in files.
	Path, Stored []string
	Type         schema.Type
	// Place is the place of the column, with those of the fields down to the leaf behind it.
	Place []int
}

// Leaves gives the leaves of the columns of a file, in order.
func Leaves(columns []schema.Field) []Leaf { return appendLeaves(nil, columns, Leaf{}) }

func appendLeaves(leaves []Leaf, fields []schema.Field, within Leaf) []Leaf {
	for i := range fields {
		f := &fields[i]
		l := Leaf{
			Path: append(slices.Clip(within.Path), f.Name), Stored: append(slices.Clip(within.Stored), f.Stored()),
			Place: append(slices.Clip(within.Place), i), Type: f.Type,
		}
		if f.Type.Primitive == schema.Struct && f.Type.Nested != nil {
			leaves = appendLeaves(leaves, f.Type.Nested.Fields, l)
		} else {
			leaves = append(leaves, l)
		}
	}
	return leaves
}

// column gives what a writer knows of a leaf; nothing where it knows nothing.
func (f *File) column(l *Leaf) (c Column) {
	list := f.Columns
	for _, at := range l.Place {
		if at >= len(list) {
			return Column{NullCount: -1}
		}
		c = list[at]
		list = c.Fields
	}
	return c
}
