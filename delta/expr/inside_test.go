package expr

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"pgregory.net/rapid"
)

func structType(fields ...schema.Field) schema.Type {
	return schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: fields}}
}

func leaf(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

func nestedSchema(t *testing.T) *schema.Schema {
	long := schema.Of(schema.Long)
	s, err := schema.New(leaf("pad", long), leaf("s", structType(leaf("first", long), leaf("in.side", structType(shop.Fields...)))))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The columns of the shop put into a struct of a struct: a filter takes the same rows, and
// skips no file with one. Where a struct is NULL all is NULL in it.
func TestFieldsInsideAreAsColumns(t *testing.T) {
	s := nestedSchema(t)
	within = "S.`in.side`."
	defer func() { within = "" }()
	skipped := 0
	rapid.Check(t, func(t *rapid.T) {
		expression, f := genTree(t, 3), genFile(t)
		p, err := Parse(expression.text(), s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(p.String(), s)
		if err != nil && !strings.Contains(p.String(), "IN ()") {
			t.Fatalf("%s: %v", p, err)
		}
		structs := make([]schema.Value, len(f.rows))
		for i := range f.rows {
			cells := make([]schema.Value, len(shop.Fields))
			for c := range cells {
				if f.columns[c] != nil {
					cells[c] = f.columns[c][i]
				}
			}
			structs[i] = schema.CompoundValue(schema.IntValue(1), schema.CompoundValue(cells...))
			which := rapid.IntRange(0, 9).Draw(t, "whole")
			if which < 2 {
				structs[i] = []schema.Value{{}, schema.CompoundValue(schema.IntValue(1), schema.Value{})}[which]
				f.rows[i] = make([]cell, len(shop.Fields))
				for c := range f.columns {
					if f.columns[c] != nil {
						f.columns[c][i] = schema.Value{}
					}
				}
			}
		}
		var want []int32
		for i, row := range f.rows {
			if expression.eval(row) == yes {
				want = append(want, int32(i))
			}
		}
		for _, p := range []*Predicate{p, again} {
			if p == nil {
				continue
			}
			evaluator := p.NewEvaluator()
			for range 2 {
				sel := make([]int32, len(f.rows))
				for i := range sel {
					sel[i] = int32(i)
				}
				if got := evaluator.Select([][]schema.Value{nil, structs}, sel); !slices.Equal(got, want) {
					t.Fatalf("%s\nrows %v, want %v of %v", p, got, want, f.rows)
				}
			}
			if c := p.Columns(); len(c) > 1 || len(c) == 1 && c[0] != 1 {
				t.Fatalf("%s looks at %v", p, c)
			}
		}
		bounds := make([]Bounds, len(shop.Fields))
		for c := range 12 {
			bounds[c] = genBounds(t, f.columns[c])
		}
		if p.CanSkip(func(c Column) Bounds {
			if c.Place != 1 || len(c.Inside) != 2 || c.Inside[0] != 1 {
				t.Fatalf("asked for %+v", c)
			}
			return bounds[c.Inside[1]]
		}) {
			if skipped++; len(want) > 0 {
				t.Fatalf("%s\nskipped a file with rows %v of %v", p, want, f.rows)
			}
		}
	})
	if skipped == 0 {
		t.Error("no file was ever skipped")
	}
}

func TestNamesOfFieldsInside(t *testing.T) {
	s := nestedSchema(t)
	for text, want := range map[string]string{
		`s.first = 5`:                      `"s"."first" = 5`,
		"S.FIRST=5 AND pad<`s`.\"first\"":  `("s"."first" = 5 AND "pad" < "s"."first")`,
		"s.`in.side`.name LIKE 'a%'":       `"s"."in.side"."name" LIKE 'a%'`,
		"s IS NULL OR s.`in.side` IS NULL": `("s" IS NULL OR "s"."in.side" IS NULL)`,
		"NOT s . first >= -.5":             `"s"."first" <= -1`,
	} {
		if p, err := Parse(text, s); err != nil || p.String() != want {
			t.Errorf("%s: %v %v, want %s", text, p, err, want)
		}
	}
	p, err := Parse("s.first = 5 AND (s.`in.side`.name = 'a' OR pad = s.first)", s)
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, c := range p.Refs() {
		refs = append(refs, schema.FormatPath(c.Names(s)...))
	}
	if want := []string{"pad", "s.first", "s.`in.side`.name"}; !slices.Equal(refs, want) || !slices.Equal(p.Columns(), []int{0, 1}) {
		t.Errorf("looks at %q %v, want %q", refs, p.Columns(), want)
	}
	for text, want := range map[string]string{
		`s.firts = 5`:         "s has no field firts (did you mean first?)",
		`pad.x = 5`:           "pad is long, which has no field x",
		`s.first.x = 5`:       "s.first is long, which has no field x",
		`s. = 5`:              "the name of a field of s is expected behind the dot, not =",
		`s.'first' = 5`:       "the name of a field of s is expected behind the dot, not text 'first'",
		`s.first = 'x'`:       "column s.first is long: compare it with a number",
		`s = 5`:               "can only be tested with IS NULL",
		`"s.first" = 5`:       "there is no column s.first",
		`.s = 5`:              "a column or a value is expected, not .",
		`s.first = 5 . pad`:   "AND, OR or the end is expected, not .",
		"s.`in.side` = 5":     "column s.`in.side` is struct<",
		"s.`in.side`.id.city": "s.in.side.id is long, which has no field city",
	} {
		var syntax *SyntaxError
		if _, err := Parse(text, s); !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := ParseOrderBy("s.first", s); err == nil || !strings.Contains(err.Error(), "s.first is a field inside of a column") {
		t.Errorf("order: %v", err)
	}
}
