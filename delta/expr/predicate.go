package expr

import (
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
)

// Predicate is a filter typed against one schema. It is immutable and safe for
// concurrent use.
type Predicate struct {
	text    string
	scope   scope
	root    node
	columns []int    // places in the schema
	refs    []Column // what is looked at
}

func newPredicate(text string, s scope, root node) *Predicate {
	p := &Predicate{text: text, scope: s, root: root}
	numbers := root.addColumns(nil)
	slices.Sort(numbers)
	for _, n := range slices.Compact(numbers) {
		c := s.column(n)
		p.refs = append(p.refs, c)
		p.columns = append(p.columns, c.Place)
	}
	slices.Sort(p.columns)
	p.columns = slices.Compact(p.columns)
	return p
}

// Text gives the filter as it was written, String as it was understood.
func (p *Predicate) Text() string   { return p.text }
func (p *Predicate) String() string { return p.root.write(&p.scope) }

// Columns gives the places in the schema of the columns that the filter looks
// at, or into, rising, each once. The slice must not be changed.
func (p *Predicate) Columns() []int { return p.columns }

// Refs gives what the filter looks at, each once: columns, and fields inside of structs.
// The slice must not be changed.
func (p *Predicate) Refs() []Column { return p.refs }

// Fits reports whether the columns that the filter looks at are the same ones,
// in name, type and place, in another schema, so that it may be used there.
func (p *Predicate) Fits(s *schema.Schema) bool {
	for _, c := range p.columns {
		if own := p.scope.schema; c >= len(s.Fields) || s.Fields[c].Name != own.Fields[c].Name ||
			s.Fields[c].Type.String() != own.Fields[c].Type.String() {
			return false
		}
	}
	return true
}

// CanSkip reports whether no row of a file can match, from what is known of what the
// filter looks at. It judges by bounds alone: false says nothing.
func (p *Predicate) CanSkip(bounds func(Column) Bounds) bool {
	return !p.root.mayBeTrue(func(number int) Bounds { return bounds(p.scope.column(number)) })
}

// Evaluator runs a Predicate. It keeps scratch memory, so each goroutine needs its own.
type Evaluator struct {
	root  node
	free  [][]int32
	scope *scope
	wide  [][]schema.Value // columns, and the fields inside of structs
	cells [][]schema.Value // of those fields
}

// NewEvaluator makes an Evaluator.
func (p *Predicate) NewEvaluator() *Evaluator { return &Evaluator{root: p.root, scope: &p.scope} }

// Select keeps of sel (rising row numbers) those for which the filter is true,
// in place, and returns them. columns is indexed by place in the schema; a nil
// column is NULL in every row, as one is that a file does not have.
func (e *Evaluator) Select(columns [][]schema.Value, sel []int32) []int32 {
	if len(e.scope.inside) > 0 && len(sel) > 0 {
		columns = e.widen(columns, sel)
	}
	return e.root.keep(e, columns, sel)
}

// widen puts the fields inside of structs behind the columns, for the rows of sel. A field
// of a struct that is NULL is NULL.
func (e *Evaluator) widen(columns [][]schema.Value, sel []int32) [][]schema.Value {
	n := len(e.scope.schema.Fields)
	if e.wide == nil {
		e.wide, e.cells = make([][]schema.Value, n+len(e.scope.inside)), make([][]schema.Value, len(e.scope.inside))
	}
	copy(e.wide[:n], columns)
	rows := int(sel[len(sel)-1]) + 1
	for i := range e.scope.inside {
		in := &e.scope.inside[i]
		structs := columns[in.Place]
		if e.wide[n+i] = nil; structs == nil {
			continue
		}
		if len(e.cells[i]) < rows {
			e.cells[i] = make([]schema.Value, rows)
		}
		for _, row := range sel {
			v := structs[row]
			for _, at := range in.Inside {
				v = v.Part(at)
			}
			e.cells[i][row] = v
		}
		e.wide[n+i] = e.cells[i]
	}
	return e.wide
}

// copyOf gives a copy of sel in scratch memory, to be handed back with done.
func (e *Evaluator) copyOf(sel []int32) []int32 {
	var buf []int32
	if n := len(e.free); n > 0 {
		buf, e.free = e.free[n-1], e.free[:n-1]
	}
	return append(buf[:0], sel...)
}

func (e *Evaluator) done(buf []int32) { e.free = append(e.free, buf) }

// node is a part of a filter. NOT is pushed down to the tests when a filter is
// built (De Morgan holds in three-valued logic), so "unknown" and "false" need
// not be told apart above a test: a node is the set of rows for which it is true.
type node interface {
	// keep is Select for this node.
	keep(e *Evaluator, columns [][]schema.Value, sel []int32) []int32
	// mayBeTrue is false only if the node is true for no row of a file.
	mayBeTrue(bounds func(column int) Bounds) bool
	// negate gives the node that is true where this one is false, and unknown where it is.
	negate() node
	write(s *scope) string
	// addColumns appends the numbers of what the node looks at.
	addColumns(columns []int) []int
}

// truth is a value of three-valued logic.
type truth uint8

const (
	no truth = iota
	yes
	unknown
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// constant is TRUE, FALSE, NULL, or a comparison of two literals.
type constant truth

func (c constant) keep(_ *Evaluator, _ [][]schema.Value, sel []int32) []int32 {
	if truth(c) == yes {
		return sel
	}
	return sel[:0]
}

func (c constant) mayBeTrue(func(int) Bounds) bool { return truth(c) == yes }

func (c constant) negate() node {
	switch truth(c) {
	case yes:
		return constant(no)
	case no:
		return constant(yes)
	}
	return c
}

func (c constant) write(*scope) string {
	return [...]string{no: "FALSE", yes: "TRUE", unknown: "NULL"}[c]
}

func (c constant) addColumns(columns []int) []int { return columns }

// all is AND, any of its parts; some is OR.
type (
	all  []node
	some []node
)

func (a all) keep(e *Evaluator, columns [][]schema.Value, sel []int32) []int32 {
	for _, n := range a {
		if len(sel) == 0 {
			break
		}
		sel = n.keep(e, columns, sel)
	}
	return sel
}

func (a all) mayBeTrue(bounds func(int) Bounds) bool {
	for _, n := range a {
		if !n.mayBeTrue(bounds) {
			return false
		}
	}
	return true
}

func (a all) negate() node { return some(negateEach(a)) }

func (o some) keep(e *Evaluator, columns [][]schema.Value, sel []int32) []int32 {
	rest := e.copyOf(sel) // rows that no part has taken yet
	taken := e.copyOf(nil)
	for _, n := range o {
		if len(rest) == 0 {
			break
		}
		hits := n.keep(e, columns, e.copyOf(rest))
		rest = subtract(rest, hits)
		taken = append(taken, hits...)
		e.done(hits)
	}
	slices.Sort(taken)
	sel = append(sel[:0], taken...)
	e.done(rest)
	e.done(taken)
	return sel
}

// subtract takes the rows of hits, which are all in rows, out of rows.
func subtract(rows, hits []int32) []int32 {
	kept := rows[:0]
	for _, row := range rows {
		if len(hits) > 0 && hits[0] == row {
			hits = hits[1:]
			continue
		}
		kept = append(kept, row)
	}
	return kept
}

func (o some) mayBeTrue(bounds func(int) Bounds) bool {
	for _, n := range o {
		if n.mayBeTrue(bounds) {
			return true
		}
	}
	return false
}

func (o some) negate() node { return all(negateEach(o)) }

func negateEach(nodes []node) []node {
	out := make([]node, len(nodes))
	for i, n := range nodes {
		out[i] = n.negate()
	}
	return out
}

func (a all) write(s *scope) string           { return writeJoined(a, " AND ", s) }
func (o some) write(s *scope) string          { return writeJoined(o, " OR ", s) }
func (a all) addColumns(columns []int) []int  { return addEach(a, columns) }
func (o some) addColumns(columns []int) []int { return addEach(o, columns) }

func writeJoined(nodes []node, word string, s *scope) string {
	out := "("
	for i, n := range nodes {
		if i > 0 {
			out += word
		}
		out += n.write(s)
	}
	return out + ")"
}

func addEach(nodes []node, columns []int) []int {
	for _, n := range nodes {
		columns = n.addColumns(columns)
	}
	return columns
}
