package expr

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
)

// Parse reads a filter and types it by the columns of a schema. The error is a
// *SyntaxError.
func Parse(text string, s *schema.Schema) (*Predicate, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, scope: scope{schema: s}, tokens: tokens}
	if p.peek().kind == end {
		return nil, p.fault(p.peek(), "the expression is empty")
	}
	parsed, err := p.or()
	if err != nil {
		return nil, err
	}
	root, err := p.asNode(parsed)
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != end {
		return nil, p.fault(t, "AND, OR or the end is expected, not %s", t.describe())
	}
	return newPredicate(text, p.scope, root), nil
}

type parser struct {
	text   string
	scope  scope
	tokens []token
	next   int
	depth  int
	inside bool // lists may name fields inside of columns
}

func (p *parser) peek() token { return p.tokens[p.next] }

func (p *parser) take() token {
	t := p.tokens[p.next]
	if t.kind != end {
		p.next++
	}
	return t
}

// accept takes the next token if it is a symbol or keyword.
func (p *parser) accept(s string) bool {
	if p.peek().is(s) {
		p.next++
		return true
	}
	return false
}

func (p *parser) fault(at token, format string, args ...any) error {
	return &SyntaxError{p.text, at.offset, fmt.Sprintf(format, args...)}
}

// operand is a column, by its number in the scope, or a literal.
type operand struct {
	column  int // -1: the literal
	literal literal
	at      token
}

// parsed is a condition, or an operand that may still become one side of a comparison.
type parsed struct {
	node    node
	operand operand
}

// asNode gives the condition that a parsed part is on its own.
func (p *parser) asNode(x parsed) (node, error) {
	if x.node != nil {
		return x.node, nil
	}
	o := x.operand
	if o.column >= 0 {
		f := p.scope.field(o.column)
		if f.Type.Primitive == schema.Boolean {
			return &comparison{o.column, equal, schema.BoolValue(true)}, nil
		}
		return nil, p.fault(o.at, "column %s is %s, no condition: compare it with a value", f.Name, f.Type)
	}
	switch o.literal.kind {
	case boolLiteral:
		return constant(truthOf(o.literal.text == "true")), nil
	case nullLiteral:
		return constant(unknown), nil
	}
	return nil, p.fault(o.at, "%s is no condition", o.at.describe())
}

func (p *parser) or() (parsed, error) {
	return p.joined("OR", p.and, func(n []node) node { return some(n) })
}

func (p *parser) and() (parsed, error) {
	return p.joined("AND", p.not, func(n []node) node { return all(n) })
}

// joined reads parts with a word between them.
func (p *parser) joined(word string, part func() (parsed, error), join func([]node) node) (parsed, error) {
	first, err := part()
	if err != nil || !p.peek().is(word) {
		return first, err
	}
	n, err := p.asNode(first)
	if err != nil {
		return parsed{}, err
	}
	nodes := []node{n}
	for p.accept(word) {
		x, err := part()
		if err != nil {
			return parsed{}, err
		}
		if n, err = p.asNode(x); err != nil {
			return parsed{}, err
		}
		nodes = append(nodes, n)
	}
	return parsed{node: join(nodes)}, nil
}

func (p *parser) not() (parsed, error) {
	negative, found := false, false
	for p.accept("NOT") {
		negative, found = !negative, true
	}
	x, err := p.test()
	if err != nil || !found {
		return x, err
	}
	n, err := p.asNode(x)
	if err == nil && negative {
		n = n.negate()
	}
	return parsed{node: n}, err
}

// test reads an operand and what is asked of it, or a condition in parentheses.
func (p *parser) test() (parsed, error) {
	x, err := p.primary()
	if err != nil {
		return x, err
	}
	t := p.peek()
	op, isComparison := operators[t.value]
	isComparison = isComparison && t.kind == symbol
	isTest := isComparison || t.is("IS") || t.is("IN") || t.is("BETWEEN") || t.is("LIKE") || t.is("NOT")
	if !isTest {
		return x, nil
	}
	if x.node != nil {
		return x, p.fault(t, "%s stands behind a condition: a column or value is needed before it", t.describe())
	}
	left := x.operand
	p.take()
	var n node
	switch {
	case isComparison:
		var right operand
		if right, err = p.value(); err == nil {
			n, err = p.compare(op, left, right)
		}
	case t.is("IS"):
		negative := p.accept("NOT")
		if !p.accept("NULL") {
			return x, p.fault(p.peek(), "NULL is expected behind IS, not %s", p.peek().describe())
		}
		n = p.isNull(left)
		if negative {
			n = n.negate()
		}
	default:
		negative := t.is("NOT")
		if negative {
			t = p.take()
		}
		switch {
		case t.is("IN"):
			n, err = p.in(left)
		case t.is("BETWEEN"):
			n, err = p.between(left)
		case t.is("LIKE"):
			n, err = p.like(left)
		default:
			return x, p.fault(t, "IN, BETWEEN or LIKE is expected behind NOT, not %s", t.describe())
		}
		if err == nil && negative {
			n = n.negate()
		}
	}
	return parsed{node: n}, err
}

// primary reads a column, a literal, or anything in parentheses.
func (p *parser) primary() (parsed, error) {
	if !p.peek().is("(") {
		o, err := p.value()
		return parsed{operand: o}, err
	}
	open := p.take()
	if p.depth++; p.depth > maxDepth {
		return parsed{}, p.fault(open, "parentheses are nested deeper than %d", maxDepth)
	}
	x, err := p.or()
	if err != nil {
		return x, err
	}
	if t := p.peek(); !p.accept(")") {
		return x, p.fault(t, ") is expected, not %s", t.describe())
	}
	p.depth--
	return x, nil
}

// reserved words name a column only in quotes.
var reserved = []string{"AND", "OR", "NOT", "IN", "IS", "BETWEEN", "LIKE", "ESCAPE"}

// value reads a column or a literal.
func (p *parser) value() (operand, error) {
	t := p.take()
	constant := func(kind literalKind, value string) (operand, error) {
		return operand{-1, literal{kind, value, t.offset}, t}, nil
	}
	switch t.kind {
	case number:
		return constant(numberLiteral, t.value)
	case text:
		return constant(textLiteral, t.value)
	case hexed:
		return constant(hexLiteral, t.value)
	case quoted:
		return p.column(t)
	case word:
		switch {
		case t.is("TRUE"):
			return constant(boolLiteral, "true")
		case t.is("FALSE"):
			return constant(boolLiteral, "false")
		case t.is("NULL"):
			return constant(nullLiteral, "")
		case t.is("DATE") && p.peek().kind == text:
			return constant(dateLiteral, p.take().value)
		case t.is("TIMESTAMP") && p.peek().kind == text:
			return constant(timestampLiteral, p.take().value)
		case slices.ContainsFunc(reserved, t.is):
		default:
			return p.column(t)
		}
	}
	return operand{}, p.fault(t, "a column or a value is expected, not %s", t.describe())
}

func (p *parser) column(t token) (operand, error) {
	names := p.scope.schema.Names()
	i := p.scope.schema.IndexFold(t.value)
	if i < 0 {
		return operand{}, p.fault(t, "there is no column %s%s", shorten(t.value), p.hint(t, names))
	}
	c := Column{Place: i}
	f, path := &p.scope.schema.Fields[i], p.scope.schema.Fields[i].Name
	for at := t; p.accept("."); {
		if at = p.take(); at.kind != word && at.kind != quoted {
			return operand{}, p.fault(at, "the name of a field of %s is expected behind the dot, not %s", path, at.describe())
		}
		if f.Type.Primitive != schema.Struct {
			return operand{}, p.fault(at, "%s is %s, which has no field %s", path, f.Type, shorten(at.value))
		}
		if p.depth+len(c.Inside) > maxDepth {
			return operand{}, p.fault(at, "the path is longer than %d", maxDepth)
		}
		fields := f.Type.Nested.Fields
		i := fieldNamed(fields, at.value)
		if i < 0 {
			names = names[:0]
			for _, f := range fields {
				names = append(names, f.Name)
			}
			return operand{}, p.fault(at, "%s has no field %s%s", path, shorten(at.value), p.hint(at, names))
		}
		c.Inside = append(c.Inside, i)
		f, path = &fields[i], path+"."+fields[i].Name
	}
	if len(c.Inside) > 0 {
		i = p.scope.add(c)
	}
	return operand{column: i, at: t}, nil
}

// fieldNamed finds a field by its exact name, else by one that differs in case.
func fieldNamed(fields []schema.Field, name string) int {
	if i := slices.IndexFunc(fields, func(f schema.Field) bool { return f.Name == name }); i >= 0 {
		return i
	}
	return slices.IndexFunc(fields, func(f schema.Field) bool { return strings.EqualFold(f.Name, name) })
}

// hint tells what may have been meant by a name that is none of names.
func (p *parser) hint(t token, names []string) string {
	if near := nearest(t.value, names); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	if t.kind == quoted && p.text[t.offset] == '"' {
		return " (text goes in single quotes)"
	}
	return ""
}

// isNull builds IS NULL.
func (p *parser) isNull(o operand) node {
	if o.column < 0 {
		return constant(truthOf(o.literal.kind == nullLiteral))
	}
	return &nullness{column: o.column}
}

// compare builds a comparison of two operands.
func (p *parser) compare(op operator, left, right operand) (node, error) {
	switch {
	case left.column < 0 && right.column < 0:
		return p.compareLiterals(op, left, right)
	case left.column < 0:
		left, right, op = right, left, op.mirrored()
	case right.column >= 0:
		return p.comparePair(op, left, right)
	}
	if right.literal.kind == nullLiteral {
		return constant(unknown), nil
	}
	b, reason := bind(right.literal, *p.scope.field(left.column))
	if reason != "" {
		return nil, p.fault(right.at, "%s", reason)
	}
	if !b.exact { // the column holds b.value and what is above the literal, nothing between
		switch op {
		case equal, notEqual:
			return &member{column: left.column, not: op == notEqual}, nil
		case less, lessOrEqual:
			op = lessOrEqual
		default:
			op = greater
		}
	}
	return &comparison{left.column, op, b.value}, nil
}

func (p *parser) compareLiterals(op operator, left, right operand) (node, error) {
	a, b := left.literal, right.literal
	if a.kind == nullLiteral || b.kind == nullLiteral {
		return constant(unknown), nil
	}
	if a.kind == b.kind {
		switch a.kind {
		case numberLiteral:
			x, _ := parseNumber(a.text)
			y, _ := parseNumber(b.text)
			return constant(truthOf(op.takes(x.rat().Cmp(y.rat())))), nil
		case textLiteral:
			return constant(truthOf(op.takes(Compare(schema.StringValue(a.text), schema.StringValue(b.text))))), nil
		case boolLiteral:
			return constant(truthOf(op.takes(Compare(schema.BoolValue(a.text == "true"), schema.BoolValue(b.text == "true"))))), nil
		}
	}
	return nil, p.fault(left.at, "no column is compared here")
}

func (p *parser) comparePair(op operator, left, right operand) (node, error) {
	a, b := p.scope.field(left.column), p.scope.field(right.column)
	compare := pairOrder(a.Type, b.Type)
	if compare == nil {
		return nil, p.fault(right.at, "column %s is %s and column %s is %s: compare each with a value", a.Name, a.Type, b.Name, b.Type)
	}
	return &pair{left.column, right.column, op, compare}, nil
}

// between builds x >= low AND x <= high.
func (p *parser) between(x operand) (node, error) {
	low, err := p.value()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); !p.accept("AND") {
		return nil, p.fault(t, "AND is expected between the bounds of BETWEEN, not %s", t.describe())
	}
	high, err := p.value()
	if err != nil {
		return nil, err
	}
	from, err := p.compare(greaterOrEqual, x, low)
	if err != nil {
		return nil, err
	}
	to, err := p.compare(lessOrEqual, x, high)
	return all{from, to}, err
}

// in reads the list of IN.
func (p *parser) in(x operand) (node, error) {
	if t := p.peek(); !p.accept("(") {
		return nil, p.fault(t, "( is expected behind IN, not %s", t.describe())
	}
	var values []schema.Value
	var others []node // parts that no list of values can hold
	for {
		item, err := p.value()
		if err != nil {
			return nil, err
		}
		n, err := p.compare(equal, x, item)
		if err != nil {
			return nil, err
		}
		if c, ok := n.(*comparison); ok && x.column >= 0 {
			values = append(values, c.value)
		} else if m, ok := n.(*member); !ok || len(m.values) > 0 {
			others = append(others, n)
		}
		if p.accept(")") {
			break
		}
		if t := p.peek(); !p.accept(",") {
			return nil, p.fault(t, ", or ) is expected in the list of IN, not %s", t.describe())
		}
	}
	var list node = some(others)
	if x.column >= 0 {
		list = newMember(x.column, values)
		if len(others) > 0 {
			list = some(append([]node{list}, others...))
		}
	}
	return list, nil
}

// like reads the pattern of LIKE.
func (p *parser) like(x operand) (node, error) {
	t := p.take()
	if t.kind != text {
		return nil, p.fault(t, "a pattern in single quotes is expected behind LIKE, not %s", t.describe())
	}
	escape := '\\'
	if p.accept("ESCAPE") {
		e := p.take()
		r, size := utf8.DecodeRuneInString(e.value)
		if e.kind != text || size == 0 || size != len(e.value) || r == '%' || r == '_' {
			return nil, p.fault(e, "ESCAPE takes one character in single quotes, neither %% nor _")
		}
		escape = r
	}
	if x.column < 0 {
		return nil, p.fault(x.at, "a column is expected before LIKE")
	}
	if f := p.scope.field(x.column); f.Type.Primitive != schema.StringType {
		return nil, p.fault(x.at, "column %s is %s: LIKE takes text", f.Name, f.Type)
	}
	l, reason := newLike(x.column, t.value, escape)
	if reason != "" {
		return nil, p.fault(t, "%s", reason)
	}
	return l, nil
}
