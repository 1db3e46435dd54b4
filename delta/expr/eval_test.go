package expr

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/schema"
)

// The oracle: expressions as trees of their own, written as text for Parse and
// evaluated row by row in plain three-valued logic over Go values.

// cell is nil, *big.Rat, float64, string, []byte, bool or time.Time.
type cell any

type tree interface {
	text() string
	eval(row []cell) truth
}

type (
	treeNot struct{ x tree }
	treeAnd struct{ x, y tree }
	treeOr  struct{ x, y tree }
	treeCmp struct {
		column  int
		op      string
		literal string
		value   cell
		flipped bool
	}
	treeIn struct {
		column   int
		not      bool
		literals []string
		values   []cell
	}
	treeBetween struct {
		column   int
		not      bool
		lo, hi   string
		low, top cell
	}
	treeLike struct {
		not     bool
		pattern string
		regexp  *regexp.Regexp
	}
	treeNull struct {
		column int
		not    bool
	}
	treePair struct {
		left, right int
		op          string
	}
	treeBool struct{}
)

// within stands before each name: "" or the structs that the columns are put into.
var within string

func name(column int) string { return within + (&scope{schema: shop}).quoted(column) }

func (t treeNot) text() string { return "NOT (" + t.x.text() + ")" }
func (t treeAnd) text() string { return "(" + t.x.text() + ") AND (" + t.y.text() + ")" }
func (t treeOr) text() string  { return "(" + t.x.text() + ") OR (" + t.y.text() + ")" }
func (t treeCmp) text() string {
	if t.flipped {
		return t.literal + " " + t.op + " " + name(t.column)
	}
	return name(t.column) + " " + t.op + " " + t.literal
}

func (t treeIn) text() string {
	return name(t.column) + notWord(t.not) + " IN (" + strings.Join(t.literals, ",") + ")"
}

func (t treeBetween) text() string {
	return name(t.column) + notWord(t.not) + " BETWEEN " + t.lo + " AND " + t.hi
}

func (t treeLike) text() string {
	return within + "name" + notWord(t.not) + " LIKE '" + strings.ReplaceAll(t.pattern, "'", "''") + "'"
}
func (t treeNull) text() string { return name(t.column) + " IS" + notWord(t.not) + " NULL" }
func (t treePair) text() string { return name(t.left) + t.op + name(t.right) }
func (t treeBool) text() string { return within + "ok" }

func notWord(not bool) string {
	if not {
		return " NOT"
	}
	return ""
}

func notOf(t truth) truth {
	switch t {
	case yes:
		return no
	case no:
		return yes
	}
	return unknown
}

func andOf(a, b truth) truth {
	switch {
	case a == no || b == no:
		return no
	case a == yes && b == yes:
		return yes
	}
	return unknown
}

func (t treeNot) eval(r []cell) truth { return notOf(t.x.eval(r)) }
func (t treeAnd) eval(r []cell) truth { return andOf(t.x.eval(r), t.y.eval(r)) }
func (t treeOr) eval(r []cell) truth {
	return notOf(andOf(notOf(t.x.eval(r)), notOf(t.y.eval(r))))
}

func (t treeCmp) eval(r []cell) truth {
	if t.flipped {
		return compareCells(t.value, t.op, r[t.column])
	}
	return compareCells(r[t.column], t.op, t.value)
}

func (t treeIn) eval(r []cell) truth {
	out := no
	for _, v := range t.values {
		out = notOf(andOf(notOf(out), notOf(compareCells(r[t.column], "=", v))))
	}
	if t.not {
		return notOf(out)
	}
	return out
}

func (t treeBetween) eval(r []cell) truth {
	out := andOf(compareCells(r[t.column], ">=", t.low), compareCells(r[t.column], "<=", t.top))
	if t.not {
		return notOf(out)
	}
	return out
}

func (t treeLike) eval(r []cell) truth {
	if r[2] == nil {
		return unknown
	}
	return truthOf(t.regexp.MatchString(r[2].(string)) != t.not)
}
func (t treeNull) eval(r []cell) truth { return truthOf((r[t.column] == nil) != t.not) }
func (t treePair) eval(r []cell) truth { return compareCells(r[t.left], t.op, r[t.right]) }
func (t treeBool) eval(r []cell) truth { return compareCells(r[9], "=", true) }

func compareCells(a cell, op string, b cell) truth {
	if a == nil || b == nil {
		return unknown
	}
	var order int
	switch x := a.(type) {
	case *big.Rat:
		order = x.Cmp(b.(*big.Rat))
	case float64:
		y := b.(float64)
		switch {
		case math.IsNaN(x) && math.IsNaN(y) || x == y:
		case math.IsNaN(x):
			order = 1
		case math.IsNaN(y):
			order = -1
		case x < y:
			order = -1
		default:
			order = 1
		}
	case string:
		order = bytes.Compare([]byte(x), []byte(b.(string)))
	case []byte:
		order = bytes.Compare(x, b.([]byte))
	case bool:
		if x != b.(bool) {
			order = -1
			if x {
				order = 1
			}
		}
	case time.Time:
		order = x.Compare(b.(time.Time))
	}
	switch op {
	case "=":
		return truthOf(order == 0)
	case "<>", "!=":
		return truthOf(order != 0)
	case "<":
		return truthOf(order < 0)
	case "<=":
		return truthOf(order <= 0)
	case ">":
		return truthOf(order > 0)
	}
	return truthOf(order >= 0)
}

var texts = []string{strings.Repeat("q", 40), strings.Repeat("q", 32), strings.Repeat("q", 40), "", "a", "ab", "abc", "b", "A", "ß", "日本", "a%", "a_b", `a\`, "\U0001F600x", strings.Repeat("q", 40), strings.Repeat("q", 32), strings.Repeat("q", 31) + "z"}

var doubles = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, 1.5, -2, 0.1}

// genCell draws a cell of a column: as the oracle sees it, and as the table does.
func genCell(t *rapid.T, column int) (cell, schema.Value) {
	if rapid.IntRange(0, 5).Draw(t, "null") == 0 {
		return nil, schema.Value{}
	}
	n := rapid.Int64Range(-3, 3).Draw(t, "n")
	switch shop.Fields[column].Type.Primitive {
	case schema.Long, schema.Byte, schema.Integer:
		return new(big.Rat).SetInt64(n), schema.IntValue(n)
	case schema.DecimalType:
		u := rapid.Int64Range(-300, 300).Draw(t, "u")
		return big.NewRat(u, 100), schema.Value{Kind: schema.Dec, I: u}
	case schema.StringType:
		s := rapid.SampledFrom(texts).Draw(t, "s")
		return s, schema.StringValue(s)
	case schema.FloatType:
		f := float32(rapid.SampledFrom(doubles).Draw(t, "f"))
		return float64(f), schema.FloatValue(f)
	case schema.DoubleType:
		f := rapid.SampledFrom(doubles).Draw(t, "d")
		return f, schema.DoubleValue(f)
	case schema.Boolean:
		return n > 0, schema.BoolValue(n > 0)
	case schema.BinaryType:
		b := []byte{0, byte(n)}[:1+n&1]
		return b, schema.BinaryValue(string(b))
	case schema.Date:
		return time.Unix(n*86400, 0).UTC(), schema.IntValue(n)
	}
	return time.UnixMicro(n).UTC(), schema.IntValue(n)
}

// genLiteral draws a literal for a column: how it is written, and its value.
func genLiteral(t *rapid.T, column int) (string, cell) {
	if rapid.IntRange(0, 9).Draw(t, "nullLiteral") == 0 {
		return "NULL", nil
	}
	switch p := shop.Fields[column].Type.Primitive; p {
	case schema.Long, schema.Byte, schema.Integer, schema.DecimalType:
		s := rapid.SampledFrom([]string{"0", "1", "-1", "2.0", "+3", "1.5", "-1.5", "0.005", "-0.005", "1.10", "-2.99", "1e0", "25e-1"}).Draw(t, "lit")
		v, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatal(s)
		}
		if rapid.Bool().Draw(t, "quoted") {
			s = "'" + s + "'"
		}
		return s, v
	case schema.FloatType, schema.DoubleType:
		bits := 64
		if p == schema.FloatType {
			bits = 32
		}
		s := rapid.SampledFrom([]string{"'NaN'", "'Infinity'", "'-Infinity'", "0", "-0.0", "1", "1.5", "-2e0", "0.1"}).Draw(t, "lit")
		f, err := strconv.ParseFloat(strings.Trim(s, "'"), bits)
		if err != nil {
			t.Fatal(err)
		}
		return s, f
	case schema.StringType:
		s := rapid.SampledFrom(texts).Draw(t, "lit")
		return "'" + s + "'", s
	case schema.Boolean:
		b := rapid.Bool().Draw(t, "lit")
		return strings.ToUpper(strconv.FormatBool(b)), b
	case schema.BinaryType:
		b := rapid.SampledFrom([][]byte{{}, {0}, {0, 1}, {0, 255}}).Draw(t, "lit")
		return fmt.Sprintf("'0x%x'", b), b
	case schema.Date:
		at := time.Unix(rapid.Int64Range(-3, 3).Draw(t, "lit")*86400, 0).UTC()
		return at.Format("DATE '2006-01-02'"), at
	default:
		at := time.UnixMicro(rapid.Int64Range(-3, 3).Draw(t, "lit")).UTC()
		return at.Format("'2006-01-02 15:04:05.000000'"), at
	}
}

func genTree(t *rapid.T, depth int) tree {
	if depth > 0 {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return treeNot{genTree(t, depth-1)}
		case 1, 2:
			return treeAnd{genTree(t, depth-1), genTree(t, depth-1)}
		case 3, 4:
			return treeOr{genTree(t, depth-1), genTree(t, depth-1)}
		}
	}
	column := rapid.IntRange(0, 11).Draw(t, "column")
	op := rapid.SampledFrom([]string{"=", "<>", "!=", "<", "<=", ">", ">="}).Draw(t, "op")
	not := rapid.Bool().Draw(t, "not")
	switch rapid.IntRange(0, 8).Draw(t, "test") {
	case 0, 1, 2:
		literal, value := genLiteral(t, column)
		return treeCmp{column, op, literal, value, not}
	case 3:
		in := treeIn{column: column, not: not}
		for range rapid.IntRange(1, 4).Draw(t, "items") {
			literal, value := genLiteral(t, column)
			in.literals, in.values = append(in.literals, literal), append(in.values, value)
		}
		return in
	case 4:
		lo, low := genLiteral(t, column)
		hi, top := genLiteral(t, column)
		return treeBetween{column, not, lo, hi, low, top}
	case 5:
		pattern := rapid.StringMatching(`(a|b|q|日|%|_|\\%|\\_|\\\\){0,4}`).Draw(t, "pattern")
		return treeLike{not, pattern, likeRegexp(pattern)}
	case 6:
		return treeNull{column, not}
	case 7:
		pairs := [][2]int{{0, 1}, {3, 1}, {0, 3}, {4, 5}, {1, 1}, {6, 12}}
		p := rapid.SampledFrom(pairs[:5]).Draw(t, "pair")
		return treePair{p[0], p[1], op}
	}
	return treeBool{}
}

// likeRegexp says in another language what a pattern means.
func likeRegexp(pattern string) *regexp.Regexp {
	out := "(?s)^"
	for i := 0; i < len(pattern); {
		r, size := utf8.DecodeRuneInString(pattern[i:])
		i += size
		switch r {
		case '%':
			out += ".*"
		case '_':
			out += "."
		case '\\':
			r, size = utf8.DecodeRuneInString(pattern[i:])
			i += size
			fallthrough
		default:
			out += regexp.QuoteMeta(string(r))
		}
	}
	return regexp.MustCompile(out + "$")
}

// file is some rows, by the oracle's cells and by columns.
type file struct {
	rows    [][]cell
	columns [][]schema.Value
}

func genFile(t *rapid.T) file {
	f := file{columns: make([][]schema.Value, len(shop.Fields))}
	for range rapid.IntRange(1, 6).Draw(t, "rows") {
		row := make([]cell, len(shop.Fields))
		for c := range 12 {
			var v schema.Value
			row[c], v = genCell(t, c)
			f.columns[c] = append(f.columns[c], v)
		}
		f.rows = append(f.rows, row)
	}
	return f
}

// The filter takes exactly the rows for which the oracle says true, also when
// asked of a part of the rows only.
func TestSelectIsTheNaiveEvaluation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expression, f := genTree(t, 3), genFile(t)
		p, err := Parse(expression.text(), shop)
		if err != nil {
			t.Fatal(err)
		}
		evaluator := p.NewEvaluator()
		for range 2 { // the second time over used scratch memory
			var sel, want []int32
			for i, row := range f.rows {
				if rapid.IntRange(0, 3).Draw(t, "in") == 0 {
					continue
				}
				sel = append(sel, int32(i))
				if expression.eval(row) == yes {
					want = append(want, int32(i))
				}
			}
			if got := evaluator.Select(f.columns, sel); !slices.Equal(got, want) {
				t.Fatalf("%s\n%s\nrows %v, want %v of %v", expression.text(), p, got, want, f.rows)
			}
		}
	})
}

// A file with a matching row is never skipped, whatever true bounds are known.
func TestSkippingLosesNoRow(t *testing.T) {
	skipped := 0
	rapid.Check(t, func(t *rapid.T) {
		expression, f := genTree(t, 2), genFile(t)
		p, err := Parse(expression.text(), shop)
		if err != nil {
			t.Fatal(err)
		}
		bounds := make([]Bounds, len(shop.Fields))
		for c := range 12 {
			bounds[c] = genBounds(t, f.columns[c])
		}
		if !p.CanSkip(func(c Column) Bounds { return bounds[c.Place] }) {
			return
		}
		skipped++
		for _, row := range f.rows {
			if expression.eval(row) == yes {
				t.Fatalf("%s\nskipped a file with the row %v\nbounds %+v", p, row, bounds)
			}
		}
	})
	if skipped == 0 {
		t.Error("no file was ever skipped")
	}
}

// genBounds draws something true of the cells of a column.
func genBounds(t *rapid.T, cells []schema.Value) Bounds {
	var values []schema.Value // neither NULL nor NaN
	nulls := 0
	for _, v := range cells {
		switch {
		case v.IsNull():
			nulls++
		case !isNaN(v):
			values = append(values, v)
		}
	}
	var b Bounds
	know := func(what string) bool { return rapid.IntRange(0, 3).Draw(t, what) > 0 }
	if nulls == len(cells) && know("allNulls") {
		b.AllNulls = true
	}
	if nulls == 0 && know("noNulls") {
		b.NoNulls = true
	}
	if len(values) > 0 && know("min") {
		b.Min = slices.MinFunc(values, Compare)
		if b.Min.Kind == schema.String && know("cutMin") {
			r := []rune(b.Min.S)
			b.Min.S = string(r[:min(len(r), 32)])
		}
	}
	if len(values) > 0 && know("max") {
		b.Max = slices.MaxFunc(values, Compare)
		if r := []rune(b.Max.S); b.Max.Kind == schema.String && len(r) > 32 {
			b.Max.S = string(r[:32])
			if know("tie") {
				b.Max.S += "\x7f"
			}
		}
	}
	same := nulls == 0
	for _, v := range cells {
		same = same && !v.IsNull() && v == cells[0]
	}
	if same && know("exact") {
		b = Value(cells[0])
	}
	return b
}

func TestCanSkip(t *testing.T) {
	long := func(lo, hi int64) Bounds {
		return Bounds{Min: schema.IntValue(lo), Max: schema.IntValue(hi), NoNulls: true}
	}
	str := func(lo, hi string) Bounds {
		return Bounds{Min: schema.StringValue(lo), Max: schema.StringValue(hi)}
	}
	cut := strings.Repeat("m", 32)
	for _, tc := range []struct {
		text string
		b    Bounds
		want bool
	}{
		{`id = 5`, long(1, 4), true},
		{`id = 5`, long(1, 5), false},
		{`id = 5`, long(6, 9), true},
		{`id <> 5`, long(5, 5), true},
		{`id <> 5`, long(5, 6), false},
		{`id < 1`, long(1, 4), true},
		{`id <= 1`, long(1, 4), false},
		{`id > 4`, long(1, 4), true},
		{`id >= 4`, long(1, 4), false},
		{`id > 4.5`, long(1, 4), true},
		{`id = 4.5`, long(1, 9), true},
		{`id IN (0, 5)`, long(1, 4), true},
		{`id IN (0, 3)`, long(1, 4), false},
		{`id NOT IN (5, 6)`, long(5, 5), true},
		{`id BETWEEN 5 AND 9`, long(1, 4), true},
		{`NOT (id > 3)`, long(4, 9), true},
		{`id IS NULL`, long(1, 4), true},
		{`id IS NULL`, Bounds{}, false},
		{`id IS NOT NULL`, Bounds{AllNulls: true}, true},
		{`id = 5`, Bounds{AllNulls: true}, true},
		{`id <> 5`, Bounds{AllNulls: true}, true},
		{`id = 5 OR id IS NULL`, Bounds{AllNulls: true}, false},
		{`id = 5 OR ok`, long(1, 4), false},
		{`id = 5 AND ok`, long(1, 4), true},
		{`id = NULL`, Bounds{}, true},
		{`FALSE`, Bounds{}, true},
		{`id = 5`, Bounds{}, false},
		{`id = 5`, str("a", "b"), false}, // bounds of a wrong kind are not used
		{`name = 'x'`, str("a", "c"), true},
		{`name > 'c'`, str("a", "c"), true},
		{`name = '` + cut + `x'`, str("a", cut), false},
		{`name > '` + cut + `x'`, str("a", cut), false},
		{`name <> '` + cut + `'`, str(cut, cut), false},
		{`name > 'n'`, str("a", cut), true},
		{`name LIKE 'd%'`, str("a", "c"), true},
		{`name LIKE 'b%'`, str("a", "c"), false},
		{`name LIKE 'c%'`, str("d", "f"), true},
		{`name LIKE 'c%'`, str("cx", "f"), false},
		{`name LIKE '%c'`, str("d", "f"), false},
		{`name NOT LIKE 'c%'`, str("d", "f"), false},
		{`name LIKE '` + cut + `x%'`, str("a", cut), false},
		{`d > 5`, Bounds{Min: schema.DoubleValue(1), Max: schema.DoubleValue(4)}, false}, // NaN may be there
		{`d = 5`, Bounds{Min: schema.DoubleValue(1), Max: schema.DoubleValue(4)}, true},
		{`d < 1`, Bounds{Min: schema.DoubleValue(1), Max: schema.DoubleValue(4)}, true},
		{`d = 'NaN'`, Bounds{Min: schema.DoubleValue(1), Max: schema.DoubleValue(4)}, false},
		{`d < 0`, Bounds{Min: schema.DoubleValue(math.Copysign(0, -1)), Max: schema.DoubleValue(4)}, true},
		{`d > 5`, Value(schema.DoubleValue(math.NaN())), false},
		{`d < 5`, Value(schema.DoubleValue(math.NaN())), true},
		{`d > 5`, Value(schema.DoubleValue(4)), true},
		{`name LIKE 'b%'`, Value(schema.StringValue("abc")), true},
		{`name LIKE 'a%'`, Value(schema.StringValue("abc")), false},
		{`name <> 'abc'`, Value(schema.StringValue("abc")), true},
		{`name IS NULL`, Value(schema.StringValue("abc")), true},
		{`name IS NULL`, Value(schema.NullValue()), false},
		{`id < qty`, Value(schema.IntValue(4)), true},
		{`id <= qty`, Value(schema.IntValue(4)), false},
		{`id < qty`, long(1, 4), false},
		{`id < qty`, Bounds{AllNulls: true}, true},
	} {
		p, err := Parse(tc.text, shop)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.CanSkip(func(Column) Bounds { return tc.b }); got != tc.want {
			t.Errorf("%s with %+v: skip %v, want %v", tc.text, tc.b, got, tc.want)
		}
	}
}

func TestLikeOnBytesThatAreNoText(t *testing.T) {
	for _, tc := range []struct {
		pattern, s string
		want       bool
	}{
		{"a_c", "a\xffc", true}, {"a%", "a\xff", true}, {"%c", "\xff\xfec", true}, {"\ufffd", "\xff", false}, {"\ufffd", "\ufffd", true},
	} {
		l, reason := newLike(2, tc.pattern, '\\')
		if reason != "" {
			t.Fatal(reason)
		}
		if got := l.matches(tc.s); got != tc.want {
			t.Errorf("%q LIKE %q: %v", tc.s, tc.pattern, got)
		}
	}
	if _, reason := newLike(2, "a\xff", '\\'); reason == "" {
		t.Error("a pattern that is no UTF-8 was taken")
	}
}

func BenchmarkSelect(b *testing.B) {
	p, err := Parse(`id > 500 AND name LIKE 'a%'`, shop)
	if err != nil {
		b.Fatal(err)
	}
	columns := make([][]schema.Value, len(shop.Fields))
	for i := range 4096 {
		columns[0] = append(columns[0], schema.IntValue(int64(i%1000)))
		columns[2] = append(columns[2], schema.StringValue(texts[i%len(texts)]))
	}
	evaluator, sel := p.NewEvaluator(), make([]int32, 4096)
	b.ReportAllocs()
	for b.Loop() {
		for i := range sel {
			sel[i] = int32(i)
		}
		evaluator.Select(columns, sel)
	}
	b.ReportMetric(float64(b.N)*4096/b.Elapsed().Seconds(), "rows/s")
}
