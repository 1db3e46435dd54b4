package write

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// spot is where a column is, or a field inside of columns, in an alteration. It is good
// until columns come, go or are mapped.
type spot struct {
	path   []string // as the schema spells it
	stored []string // the same by names in files
	column int      // place of the column
	list   *[]schema.Field
	at     int // place of the field in list
	// Of an element, key or value that is no field: where it is in the type of the field,
	// and that.
	below  []string
	part   *schema.Type
	holder *schema.Nested
}

func (s *spot) field() *schema.Field { return &(*s.list)[s.at] }
func (s *spot) name() string         { return schema.FormatPath(s.path...) }
func (s *spot) isColumn() bool       { return len(s.path) == 1 }

// typ gives the type of what the spot is.
func (s *spot) typ() *schema.Type {
	if s.part != nil {
		return s.part
	}
	return &s.field().Type
}

// locate finds a column by its name, or what is inside of one by a path: the names of
// fields of structs, element of an array, key and value of a map. The error wraps ErrColumn.
func (a *alteration) locate(name string) (*spot, error) {
	i, missing := a.find(name)
	if missing == nil {
		f := &a.fields[i]
		return &spot{path: []string{f.Name}, stored: []string{f.Stored()}, column: i, list: &a.fields, at: i}, nil
	}
	path, err := schema.ParsePath(name)
	if err != nil || len(path) == 1 {
		return nil, missing
	}
	s := &spot{list: &a.fields}
	for i, step := range path {
		if i > 0 {
			t := s.typ()
			switch {
			case t.Primitive == schema.Struct:
				s.list, s.below, s.part, s.holder = &t.Nested.Fields, nil, nil, nil
			case t.Primitive == schema.Array && strings.EqualFold(step, "element"), t.Primitive == schema.Map && strings.EqualFold(step, "value"):
				s.below, s.part, s.holder = append(s.below, strings.ToLower(step)), &t.Nested.Element, t.Nested
			case t.Primitive == schema.Map && strings.EqualFold(step, "key"):
				s.below, s.part, s.holder = append(s.below, "key"), &t.Nested.Key, nil
			default:
				return nil, fmt.Errorf("%w: %q: %s is %s", ErrColumn, name, s.name(), t)
			}
			if s.part != nil {
				s.path = append(s.path, s.below[len(s.below)-1])
				continue
			}
		}
		if s.at = slices.IndexFunc(*s.list, func(f schema.Field) bool { return strings.EqualFold(f.Name, step) }); s.at < 0 {
			if i == 0 {
				return nil, missing
			}
			return nil, fmt.Errorf("%w: %q: %s has %q", ErrColumn, name, s.name(), namesOf(*s.list))
		}
		if i == 0 {
			s.column = s.at
		}
		s.path, s.stored = append(s.path, s.field().Name), append(s.stored, s.field().Stored())
	}
	return s, nil
}

// locateField is locate of a column or field, which the parts of arrays and maps are not.
func (a *alteration) locateField(name string) (*spot, error) {
	s, err := a.locate(name)
	if err == nil && s.part != nil {
		return nil, refuse("%s is no field of a struct", s.name())
	}
	return s, err
}

func namesOf(fields []schema.Field) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

// ownFields copies fields, and those inside of them, so that they can be changed.
func ownFields(fields []schema.Field) []schema.Field {
	out := slices.Clone(fields)
	for i := range out {
		out[i].Type = ownType(out[i].Type)
	}
	return out
}

func ownType(t schema.Type) schema.Type {
	if t.Nested == nil {
		return t
	}
	n := *t.Nested
	n.Fields, n.Key, n.Element = ownFields(n.Fields), ownType(n.Key), ownType(n.Element)
	t.Nested = &n
	return t
}
