package diff

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
)

var (
	// ErrColumn is wrapped where a column that was asked for is in neither version.
	ErrColumn = errors.New("no such column")
	// ErrKey is wrapped where the key is not made of columns that both versions have.
	ErrKey = errors.New("not a key of the table")
	// ErrTypes is wrapped where the types of a column in the two versions have no values
	// in common.
	ErrTypes = errors.New("the types of the column can't be compared")
)

// Column is a column as two versions have it.
type Column struct {
	// Field is how its cells are given: under the name in the version To, else in From,
	// and with the wider of the two types.
	schema.Field
	// From and To are its names in the versions, "" where one does not have it.
	From, To string
	// Key tells that it is of the key.
	Key bool
	// Gone tells that one version dropped it: its cells are given where the other one has
	// them, and not compared, since rows of shared files would change by it too. A column
	// that is new in the later version is compared, and NULL in the earlier one.
	Gone bool

	from, to schema.Field // as either version stores it, with the type of Field
}

// columnsOf puts the columns of two versions together: those of to in their order, then
// those that only from has. A column is one by what it is stored as, which column mapping
// keeps through a rename; where the versions share no file also by name, since another
// table may have taken the place.
func columnsOf(from, to *delta.Snapshot, shared bool) ([]Column, error) {
	var list []Column
	taken := make([]bool, len(from.Schema().Fields))
	find := func(f *schema.Field) int {
		same := func(is func(o *schema.Field) bool) int {
			for i := range from.Schema().Fields {
				if !taken[i] && is(&from.Schema().Fields[i]) {
					return i
				}
			}
			return -1
		}
		if i := same(func(o *schema.Field) bool { return o.Stored() == f.Stored() }); i >= 0 || shared {
			return i
		}
		return same(func(o *schema.Field) bool { return strings.EqualFold(o.Name, f.Name) })
	}
	forward := from.Version() <= to.Version()
	for _, f := range to.Schema().Fields {
		c := Column{Field: f, To: f.Name, to: stored(f), Gone: !forward || !isNew(f, from)}
		if i := find(&f); i >= 0 {
			taken[i] = true
			old := from.Schema().Fields[i]
			later, earlier := f, old
			if !forward {
				later, earlier = old, f
			}
			t, err := common(earlier, later)
			if err != nil {
				return nil, err
			}
			c.From, c.from, c.Gone = old.Name, stored(old), false
			c.Type, c.from.Type, c.to.Type = t, t, t
		}
		list = append(list, c)
	}
	for i, f := range from.Schema().Fields {
		// One whose name another column took has no name to be given under.
		if !taken[i] && to.Schema().IndexFold(f.Name) < 0 {
			list = append(list, Column{Field: f, From: f.Name, from: stored(f), Gone: forward || !isNew(f, to)})
		}
	}
	for i := range list { // names are those of the list, so that filters fit
		list[i].from.Name, list[i].to.Name = list[i].Name, list[i].Name
	}
	return list, nil
}

// isNew tells that a column which an earlier version does not have was not dropped there:
// a restore brings such columns back.
func isNew(f schema.Field, earlier *delta.Snapshot) bool {
	text, _ := earlier.Property(delta.PropertyMaxColumnID)
	highest, err := strconv.ParseInt(text, 10, 64)
	return err != nil || int64(f.MappedID()) > highest
}

// stored gives a field that may take another name.
func stored(f schema.Field) schema.Field {
	f.FileName = f.Stored()
	return f
}

// common gives the type that holds the values of both: the wider one, of nested types the
// later.
func common(earlier, later schema.Field) (schema.Type, error) {
	a, b := earlier.Type, later.Type
	switch {
	case a == b, a.Nested != nil && b.Nested != nil && a.Primitive == b.Primitive:
		return b, nil
	case a.Primitive == schema.Void, delta.Widens(a, b):
		return b, nil
	case b.Primitive == schema.Void, delta.Widens(b, a):
		return a, nil
	}
	return b, fmt.Errorf("%w: %s was %s and became %s; leave it out by naming the others", ErrTypes, later.Name, a, b)
}

// place finds a column by a name that either version has, in any case; -1: none.
func place(columns []Column, name string) int {
	for _, of := range []func(c Column) string{func(c Column) string { return c.To }, func(c Column) string { return c.From }} {
		if i := slices.IndexFunc(columns, func(c Column) bool { return of(c) != "" && strings.EqualFold(of(c), name) }); i >= 0 {
			return i
		}
	}
	return -1
}

func namesOf(columns []Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}
