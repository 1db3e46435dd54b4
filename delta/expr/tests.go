package expr

import (
	"math"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// Compare orders two non-NULL cells of one column as filters and --order-by do:
// schema.Compare, but -0.0 equals 0.0.
func Compare(a, b schema.Value) int {
	switch a.Kind {
	case schema.Float:
		if a.Float32() == b.Float32() {
			return 0
		}
	case schema.Double:
		if a.Float64() == b.Float64() {
			return 0
		}
	}
	return schema.Compare(a, b)
}

// operator is a comparison: the results of Compare for which it is true.
type operator uint8

const (
	less operator = 1 << iota
	equal
	greater

	lessOrEqual    = less | equal
	greaterOrEqual = greater | equal
	notEqual       = less | greater
)

var operators = map[string]operator{
	"<": less, "=": equal, ">": greater, "<=": lessOrEqual, ">=": greaterOrEqual, "<>": notEqual,
}

func (o operator) String() string {
	for s, op := range operators {
		if op == o {
			return s
		}
	}
	return "?"
}

// takes reports whether the operator is true of a result of Compare.
func (o operator) takes(order int) bool { return o&(1<<(order+1)) != 0 }

func (o operator) negated() operator { return o ^ (less | equal | greater) }

// mirrored is the operator with its sides exchanged.
func (o operator) mirrored() operator { return o&equal | o&less<<2 | o&greater>>2 }

// comparison tests a column against a value that is not NULL.
type comparison struct {
	column int
	op     operator
	value  schema.Value
}

func (c *comparison) keep(_ *Evaluator, columns [][]schema.Value, sel []int32) []int32 {
	kept := sel[:0]
	cells := columns[c.column]
	if cells == nil {
		return kept
	}
	if c.value.Kind == schema.Int || c.value.Kind == schema.Bool {
		want, op := c.value.I, c.op
		for _, row := range sel {
			cell := &cells[row]
			if cell.Kind == schema.Null {
				continue
			}
			order := equal
			if cell.I < want {
				order = less
			} else if cell.I > want {
				order = greater
			}
			if order&op != 0 {
				kept = append(kept, row)
			}
		}
		return kept
	}
	for _, row := range sel {
		if cells[row].Kind != schema.Null && c.op.takes(Compare(cells[row], c.value)) {
			kept = append(kept, row)
		}
	}
	return kept
}

func (c *comparison) mayBeTrue(bounds func(int) Bounds) bool {
	b := bounds(c.column)
	switch {
	case b.AllNulls:
		return false
	case b.Exact:
		return c.op.takes(Compare(b.Min, c.value))
	}
	b = b.usable(c.value.Kind)
	if c.op == notEqual {
		return !b.allAre(c.value)
	}
	return c.op&less != 0 && b.mayBeBelow(c.value) || c.op&greater != 0 && b.mayBeAbove(c.value) ||
		c.op&equal != 0 && b.mayBe(c.value)
}

func (c *comparison) negate() node { return &comparison{c.column, c.op.negated(), c.value} }

func (c *comparison) write(s *scope) string {
	return s.quoted(c.column) + " " + c.op.String() + " " + quoteValue(s, c.column, c.value)
}

func (c *comparison) addColumns(columns []int) []int { return append(columns, c.column) }

// pair tests two columns against each other.
type pair struct {
	left, right int
	op          operator
	compare     func(a, b schema.Value) int
}

func (p *pair) keep(_ *Evaluator, columns [][]schema.Value, sel []int32) []int32 {
	kept := sel[:0]
	left, right := columns[p.left], columns[p.right]
	if left == nil || right == nil {
		return kept
	}
	for _, row := range sel {
		if a, b := left[row], right[row]; !a.IsNull() && !b.IsNull() && p.op.takes(p.compare(a, b)) {
			kept = append(kept, row)
		}
	}
	return kept
}

func (p *pair) mayBeTrue(bounds func(int) Bounds) bool {
	a, b := bounds(p.left), bounds(p.right)
	switch {
	case a.AllNulls || b.AllNulls:
		return false
	case a.Exact && b.Exact:
		return p.op.takes(p.compare(a.Min, b.Min))
	}
	return true
}

func (p *pair) negate() node { return &pair{p.left, p.right, p.op.negated(), p.compare} }

func (p *pair) write(s *scope) string {
	return s.quoted(p.left) + " " + p.op.String() + " " + s.quoted(p.right)
}

func (p *pair) addColumns(columns []int) []int { return append(columns, p.left, p.right) }

// member tests whether a column is one of values (sorted, each once), or with
// not whether it is none of them. Without values it is false, or true, of
// every cell that is not NULL.
type member struct {
	column int
	values []schema.Value
	not    bool
}

func newMember(column int, values []schema.Value) *member {
	slices.SortFunc(values, Compare)
	values = slices.CompactFunc(values, func(a, b schema.Value) bool { return Compare(a, b) == 0 })
	return &member{column: column, values: values}
}

func (m *member) test(v schema.Value) bool {
	_, found := slices.BinarySearchFunc(m.values, v, Compare)
	return found != m.not
}

func (m *member) keep(_ *Evaluator, columns [][]schema.Value, sel []int32) []int32 {
	return keepCells(columns[m.column], sel, m.test)
}

// keepCells keeps the rows whose cell is not NULL and passes a test.
func keepCells(cells []schema.Value, sel []int32, test func(schema.Value) bool) []int32 {
	kept := sel[:0]
	if cells == nil {
		return kept
	}
	for _, row := range sel {
		if cells[row].Kind != schema.Null && test(cells[row]) {
			kept = append(kept, row)
		}
	}
	return kept
}

func (m *member) mayBeTrue(bounds func(int) Bounds) bool {
	b := bounds(m.column)
	switch {
	case b.AllNulls:
		return false
	case b.Exact:
		return m.test(b.Min)
	}
	if len(m.values) == 0 {
		return m.not
	}
	b = b.usable(m.values[0].Kind)
	if m.not {
		return !slices.ContainsFunc(m.values, b.allAre)
	}
	return slices.ContainsFunc(m.values, b.mayBe)
}

func (m *member) negate() node { return &member{m.column, m.values, !m.not} }

func (m *member) write(s *scope) string {
	parts := make([]string, len(m.values))
	for i, v := range m.values {
		parts[i] = quoteValue(s, m.column, v)
	}
	word := " IN ("
	if m.not {
		word = " NOT IN ("
	}
	return s.quoted(m.column) + word + strings.Join(parts, ", ") + ")"
}

func (m *member) addColumns(columns []int) []int { return append(columns, m.column) }

// nullness tests a column with IS NULL, or with not IS NOT NULL.
type nullness struct {
	column int
	not    bool
}

func (n *nullness) keep(_ *Evaluator, columns [][]schema.Value, sel []int32) []int32 {
	cells := columns[n.column]
	kept := sel[:0]
	for _, row := range sel {
		if isNull := cells == nil || cells[row].IsNull(); isNull != n.not {
			kept = append(kept, row)
		}
	}
	return kept
}

func (n *nullness) mayBeTrue(bounds func(int) Bounds) bool {
	b := bounds(n.column)
	if n.not {
		return !b.AllNulls
	}
	return !b.NoNulls && !b.Exact
}

func (n *nullness) negate() node { return &nullness{n.column, !n.not} }

func (n *nullness) write(s *scope) string {
	if n.not {
		return s.quoted(n.column) + " IS NOT NULL"
	}
	return s.quoted(n.column) + " IS NULL"
}

func (n *nullness) addColumns(columns []int) []int { return append(columns, n.column) }

// quoteValue writes a value so that parsing it for its column gives it again.
func quoteValue(s *scope, column int, v schema.Value) string {
	t := s.field(column).Type
	shown := string(schema.AppendText(nil, t, v))
	isFloat := v.Kind == schema.Float || v.Kind == schema.Double
	switch {
	case v.Kind == schema.Bool:
		return strings.ToUpper(shown)
	case v.Kind == schema.Int && t.Primitive <= schema.Long, v.Kind == schema.Dec, isFloat && isFinite(v):
		return shown
	}
	return "'" + strings.ReplaceAll(shown, "'", "''") + "'"
}

// isFinite reports whether a float is neither NaN nor infinite.
func isFinite(v schema.Value) bool {
	f := v.Float64()
	if v.Kind == schema.Float {
		f = float64(v.Float32())
	}
	return !math.IsNaN(f) && !math.IsInf(f, 0)
}
