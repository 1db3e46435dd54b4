package expr

import (
	"github.com/gscd-io/gscd/delta/schema"
)

// Order is one column of --order-by. NULL comes first, with Desc last: it
// counts as below every value.
type Order struct {
	// Column is its place in the schema.
	Column int
	Desc   bool
}

// Compare orders two cells of the column, NULL included.
func (o Order) Compare(a, b schema.Value) int {
	var order int
	switch {
	case a.IsNull() && b.IsNull():
	case a.IsNull():
		order = -1
	case b.IsNull():
		order = 1
	default:
		order = Compare(a, b)
	}
	if o.Desc {
		return -order
	}
	return order
}

// ParseOrderBy reads "C [asc|desc], D": columns as in Parse. The error is a
// *SyntaxError.
func ParseOrderBy(text string, s *schema.Schema) ([]Order, error) {
	p, err := newListParser(text, s)
	if err != nil {
		return nil, err
	}
	var orders []Order
	err = p.list(func(column operand) error {
		if f := s.Fields[column.column]; !f.Type.IsLeaf() || f.Type.Primitive == schema.Variant {
			return p.fault(column.at, "column %s is %s and has no order", f.Name, f.Type)
		}
		o := Order{Column: column.column}
		if p.accept("DESC") {
			o.Desc = true
		} else {
			p.accept("ASC")
		}
		orders = append(orders, o)
		return nil
	})
	return orders, err
}

// ParseColumns reads "A, B" as columns of the schema, in the order given, and
// gives their names as the schema spells them. A column named twice is an error.
// The error is a *SyntaxError.
func ParseColumns(text string, s *schema.Schema) ([]string, error) {
	p, err := newListParser(text, s)
	if err != nil {
		return nil, err
	}
	var columns []string
	seen := map[int]bool{}
	err = p.list(func(column operand) error {
		if seen[column.column] {
			return p.fault(column.at, "column %s is named twice", s.Fields[column.column].Name)
		}
		seen[column.column] = true
		columns = append(columns, s.Fields[column.column].Name)
		return nil
	})
	return columns, err
}

// ParsePaths is ParseColumns of columns and fields inside of structs, as paths that
// schema.ParsePath reads: a column has its name alone.
func ParsePaths(text string, s *schema.Schema) ([]string, error) {
	p, err := newListParser(text, s)
	if err != nil {
		return nil, err
	}
	p.inside = true
	var paths []string
	seen := map[int]bool{}
	err = p.list(func(column operand) error {
		path := schema.FormatPath(p.scope.column(column.column).Names(s)...)
		if seen[column.column] {
			return p.fault(column.at, "column %s is named twice", path)
		}
		seen[column.column] = true
		paths = append(paths, path)
		return nil
	})
	return paths, err
}

func newListParser(text string, s *schema.Schema) (*parser, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	return &parser{text: text, scope: scope{schema: s}, tokens: tokens}, nil
}

// list reads columns with commas between them; each takes what follows a column.
func (p *parser) list(each func(column operand) error) error {
	for {
		t := p.take()
		if t.kind != word && t.kind != quoted {
			return p.fault(t, "a column is expected, not %s", t.describe())
		}
		column, err := p.column(t)
		if err != nil {
			return err
		}
		if !p.inside && column.column >= len(p.scope.schema.Fields) {
			return p.fault(t, "%s is a field inside of a column: name the column", p.scope.field(column.column).Name)
		}
		if err := each(column); err != nil {
			return err
		}
		t = p.take()
		if t.kind == end {
			return nil
		}
		if !t.is(",") {
			return p.fault(t, "a comma or the end is expected, not %s", t.describe())
		}
	}
}
