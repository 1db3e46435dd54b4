package write_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"pgregory.net/rapid"
)

func parsed(t tester, where string, s *schema.Schema) *expr.Predicate {
	t.Helper()
	p, err := expr.Parse(where, s)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

// person is a row of the model: {id, a: {n, b: {text, m}}}; a nil is NULL.
type person struct {
	id int
	a  map[string]any
}

func (p person) row() []any {
	if p.a == nil {
		return []any{p.id, nil}
	}
	return []any{p.id, p.a}
}

// leaf gives a field by its path; nil where it is NULL, or a struct before it.
func (p person) leaf(path string) any {
	var v any = p.a
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		if v = m[name]; v == nil {
			return nil
		}
	}
	return v
}

// condition is a filter, and what it says of a row: 1 true, 0 false, -1 unknown.
type condition struct {
	text string
	eval func(person) int
}

func genCondition(t *rapid.T, depth int) condition {
	if depth > 0 && rapid.Bool().Draw(t, "deep") {
		x := genCondition(t, depth-1)
		switch rapid.IntRange(0, 2).Draw(t, "join") {
		case 0:
			return condition{"NOT (" + x.text + ")", func(p person) int {
				if v := x.eval(p); v >= 0 {
					return 1 - v
				}
				return -1
			}}
		case 1:
			y := genCondition(t, depth-1)
			return condition{"(" + x.text + " AND " + y.text + ")", func(p person) int {
				if x, y := x.eval(p), y.eval(p); x == 0 || y == 0 {
					return 0
				} else {
					return min(x, y)
				}
			}}
		}
		y := genCondition(t, depth-1)
		return condition{"(" + x.text + " OR " + y.text + ")", func(p person) int {
			if x, y := x.eval(p), y.eval(p); x == 1 || y == 1 {
				return 1
			} else {
				return min(x, y)
			}
		}}
	}
	path := rapid.SampledFrom([]string{"n", "b.text", "b.m"}).Draw(t, "leaf")
	if rapid.IntRange(0, 3).Draw(t, "null") == 0 {
		path = rapid.SampledFrom([]string{"n", "b", "b.text", "b.m"}).Draw(t, "of")
		return condition{"a." + path + " IS NULL", func(p person) int {
			if p.leaf(path) == nil {
				return 1
			}
			return 0
		}}
	}
	op := rapid.SampledFrom([]string{"=", "<>", "<", "<=", ">", ">="}).Draw(t, "op")
	var literal any = rapid.IntRange(-2, 22).Draw(t, "value")
	shown := fmt.Sprint(literal)
	if path == "b.text" {
		literal = fmt.Sprintf("t%02d", literal)
		shown = "'" + literal.(string) + "'"
	}
	return condition{"a." + path + " " + op + " " + shown, func(p person) int {
		v := p.leaf(path)
		if v == nil {
			return -1
		}
		order := 0
		if text, ok := v.(string); ok {
			order = strings.Compare(text, literal.(string))
		} else {
			order = v.(int) - literal.(int)
		}
		if op == "=" && order == 0 || op == "<>" && order != 0 || strings.HasPrefix(op, "<") && op != "<>" && order < 0 ||
			strings.HasPrefix(op, ">") && order > 0 || strings.HasSuffix(op, "=") && order == 0 {
			return 1
		}
		return 0
	}}
}

// genPeople draws rows whose values lie around a middle, as those of a file do.
func genPeople(t *rapid.T, first int) (list []person) {
	middle := rapid.IntRange(0, 20).Draw(t, "middle")
	shape := rapid.IntRange(0, 9).Draw(t, "shape") // files in which one is always NULL
	for i := range rapid.IntRange(1, 30).Draw(t, "rows") {
		p := person{id: 1000 + first + i}
		value := func(name string) int { return middle + rapid.IntRange(0, 3).Draw(t, name) }
		isNull := func(name string, n int) bool { return shape == n || rapid.IntRange(0, 9).Draw(t, name) == 0 }
		if !isNull("a", 0) {
			p.a = map[string]any{}
			if !isNull("n", 1) {
				p.a["n"] = value("n")
			}
			if !isNull("b", 2) {
				b := map[string]any{}
				if !isNull("text", 3) {
					b["text"] = fmt.Sprintf("t%02d", value("text"))
				}
				if !isNull("m", 4) {
					b["m"] = value("m")
				}
				p.a["b"] = b
			}
		}
		list = append(list, p)
	}
	return list
}

// done is must, where there may be nothing to do.
func done(t tester) func(write.Result, error) {
	return func(_ write.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// Filters of fields inside of structs take the rows that they take by hand, with all that
// leaves out files and row groups, and operations change these and no others.
func TestInsideIsAsTheModelSays(t *testing.T) {
	files, opened := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]string{"rewrite", "vectors", "mapped", "mapped by id"}).Draw(t, "mode")
		table := delta.New(mem.New())
		long := schema.Of(schema.Long)
		must(t)(write.Create(ctx, table, write.Definition{Properties: maps.Clone(modes[mode]), Columns: []schema.Field{write.Column("id", long),
			write.Column("a", structOf(write.Column("n", long), write.Column("b", structOf(write.Column("text", schema.Of(schema.StringType)), write.Column("m", schema.Decimal(12, 0))))))}}, write.Source{}))
		var model []person
		add := func() {
			more := genPeople(t, len(model)*100)
			var list [][]any
			for _, p := range more {
				list = append(list, p.row())
			}
			memory := int64(1 << 20)
			if rapid.Bool().Draw(t, "groups") {
				memory = 4 << 10 // row groups of some rows
			}
			must(t)(write.Append(ctx, table, write.Values(list), write.WithMemory(memory)))
			model = append(model, more...)
		}
		check := func(c condition) {
			var want []string
			for _, p := range model {
				if c.eval(p) == 1 {
					want = append(want, fmt.Sprint(p.id))
				}
			}
			slices.Sort(want)
			got, n := matching(t, table, c.text)
			if got != strings.Join(want, " ") {
				t.Fatalf("%s: %s, want %s of %v", c.text, got, want, model)
			}
			s, err := table.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			files, opened = files+s.NumFiles(), opened+n
		}
		for range rapid.IntRange(1, 4).Draw(t, "files") {
			add()
		}
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			c := genCondition(t, 3)
			check(c)
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				done(t)(write.Delete(ctx, table, c.text))
				model = slices.DeleteFunc(model, func(p person) bool { return c.eval(p) == 1 })
			case 1:
				done(t)(write.Update(ctx, table, c.text, write.Set{"a": map[string]any{"n": 7}}))
				for i := range model {
					if c.eval(model[i]) == 1 {
						model[i].a = map[string]any{"n": 7}
					}
				}
			case 2:
				add()
			}
			check(genCondition(t, 2))
		}
	})
	t.Logf("%d of %d files opened", opened, files)
	if opened*5 > files*4 {
		t.Errorf("%d of %d files were opened: statistics tell nothing", opened, files)
	}
}

// A replaced part of a table by a field inside of a struct.
func TestReplaceWhereInside(t *testing.T) {
	for _, mode := range []string{"vectors", "mapped"} {
		table := placesTable(t, modes[mode])
		must(t)(write.ReplaceWhere(ctx, table, "address.city = 'Wuxi' AND address.geo.lat < 3", write.Values([][]any{{7, map[string]any{"city": "Wuxi", "zip": 1, "geo": map[string]any{"lat": 2}}}}, "id", "address")))
		if got, _ := matching(t, table, "TRUE"); got != "2 7" {
			t.Errorf("rows %s", got)
		}
		if _, err := write.ReplaceWhere(ctx, table, "address.zip = 2", write.Values([][]any{{8, map[string]any{"zip": 3}}}, "id", "address")); err == nil {
			t.Error("a row that the filter does not take was written")
		}
	}
}
