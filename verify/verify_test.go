package verify_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/verify"
)

func field(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

func side(name string, columns []schema.Field, rows ...[]schema.Value) verify.Side {
	return verify.Side{Name: name, Columns: columns, Rows: func(yield func([]schema.Value, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}}
}

var (
	long, text = schema.Of(schema.Long), schema.Of(schema.StringType)
	num, str   = schema.IntValue, schema.StringValue
	null       = schema.Value{}
)

// compare gives every difference as text.
func compare(t *testing.T, a, b verify.Side, o verify.Options) (found []string, result *verify.Result) {
	t.Helper()
	o.Keep, o.TempDir = 1000, t.TempDir()
	result, err := verify.Compare(context.Background(), a, b, o, func(r *verify.Range) error {
		if r.Equal() != (r.Differing == 0) {
			t.Errorf("a range with %d differing keys: equal %v", r.Differing, r.Equal())
		}
		for _, d := range r.Differences {
			var key []string
			for _, v := range d.Key {
				key = append(key, cell(v))
			}
			found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Kind, strings.Join(key, ","), strings.Join(d.Columns, "+"))))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, result
}

func cell(v schema.Value) string {
	switch {
	case v.IsNull():
		return "NULL"
	case v.Kind == schema.String:
		return v.S
	}
	return fmt.Sprint(v.I)
}

// Each kind of difference is found by its key; what is the same by value is none.
func TestDifferences(t *testing.T) {
	columns := []schema.Field{field("id", long), field("v", text), field("d", schema.Of(schema.DoubleType)), field("m", schema.Decimal(10, 2)), field("b", schema.Of(schema.Boolean)), field("at", schema.Of(schema.TimestampNTZ))}
	others := []schema.Field{field("m", schema.Decimal(12, 4)), field("id", schema.Of(schema.Integer)), field("v", text), field("d", schema.Of(schema.DoubleType)), field("b", long), field("at", schema.Of(schema.Timestamp)), field("more", text)}
	dec := func(n int64) schema.Value { return schema.Value{Kind: schema.KindOf(schema.Decimal(10, 2)), I: n} }
	ntz := func(n int64) schema.Value {
		return schema.Value{Kind: schema.KindOf(schema.Of(schema.TimestampNTZ)), I: n}
	}
	ts := func(n int64) schema.Value {
		return schema.Value{Kind: schema.KindOf(schema.Of(schema.Timestamp)), I: n}
	}
	found, result := compare(t,
		side("a", columns,
			[]schema.Value{num(1), str("same"), schema.DoubleValue(1.5), dec(150), schema.BoolValue(true), ntz(7)},
			[]schema.Value{num(2), str(""), null, null, null, null},
			[]schema.Value{num(3), str("x"), schema.DoubleValue(0), null, null, null},
			[]schema.Value{num(4), str("x"), null, dec(100), null, null},
			[]schema.Value{num(-5), str("extra"), null, null, null, null},
			[]schema.Value{num(7), str("x"), null, null, schema.BoolValue(false), null},
			[]schema.Value{num(8), str("twice"), null, null, null, null},
			[]schema.Value{num(8), str("twice"), null, null, null, null},
			[]schema.Value{num(9), str("x"), null, null, null, null},
		),
		side("b", others,
			[]schema.Value{null, num(9), str("x"), null, null, null, str("new")},
			[]schema.Value{null, num(8), str("twice"), null, null, null, null},
			[]schema.Value{null, num(7), str("x"), null, num(1), null, null},
			[]schema.Value{null, num(6), str("missing"), null, null, null, null},
			[]schema.Value{dec(10001), num(4), str("X"), null, null, null, null},
			[]schema.Value{null, num(3), str("x"), schema.DoubleValue(math.Copysign(0, -1)), null, null, null},
			[]schema.Value{null, num(2), null, null, null, null, null},
			[]schema.Value{dec(15000), num(1), str("same"), schema.DoubleValue(1.5), num(1), ts(7), null},
		),
		verify.Options{Key: []string{"id"}, RangeRows: 3})
	want := []string{"extra -5", "different 2 v", "different 3 d", "different 4 v+m", "missing 6", "different 7 b", "repeated 8", "different 9 more"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q\nwant  %q", found, want)
	}
	if result.Rows != [2]int64{9, 8} || result.Differing() != 8 || result.Ranges != 3 || len(result.Notes) != 1 || !strings.Contains(result.Notes[0], "only b has the column more") {
		t.Errorf("%+v", result)
	}
	if _, err := verify.Compare(context.Background(), side("a", columns), side("b", others[2:]), verify.Options{Key: []string{"id"}}, nil); !errors.Is(err, verify.ErrKey) || !strings.Contains(err.Error(), `b has no column "id"`) {
		t.Errorf("without the key: %v", err)
	}
}

// Whatever the order of the two sides, and with as little memory as it takes, what differs
// is what a comparison of maps finds. Keys that a collation takes for one are two.
func TestRandomSides(t *testing.T) {
	columns := []schema.Field{field("k", text), field("v", long)}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		models := [2]map[string]int64{{}, {}}
		for range random.IntN(300) {
			k := []string{"a", "A", "é", "e\u0301", "a ", "ß", "ss", ""}[random.IntN(8)] + fmt.Sprint(random.IntN(30))
			v := random.Int64N(3)
			for i := range models {
				if random.IntN(10) > 0 {
					models[i][k] = v
				}
			}
			if random.IntN(20) == 0 {
				models[random.IntN(2)][k] = 9
			}
		}
		want := map[string]bool{}
		var sides [2]verify.Side
		for i, m := range models {
			var rows [][]schema.Value
			for k, v := range m { // in no order
				rows = append(rows, []schema.Value{str(k), num(v)})
				switch o, there := models[1-i][k]; {
				case !there && i == 0:
					want["extra "+k] = true
				case !there:
					want["missing "+k] = true
				case o != v:
					want["different "+k+" v"] = true
				}
			}
			sides[i] = side(fmt.Sprint(i), columns, rows...)
		}
		found, result := compare(t, sides[0], sides[1], verify.Options{Key: []string{"k"}, RangeRows: 1 + random.IntN(50), Memory: 1})
		for _, f := range found {
			delete(want, strings.TrimSpace(f))
		}
		for k := range want { // a key that ends in a blank was cut
			if slices.Contains(found, strings.TrimSpace(k)) {
				delete(want, k)
			}
		}
		if len(want) > 0 || int64(len(found)) != result.Differing() || result.Rows != [2]int64{int64(len(models[0])), int64(len(models[1]))} {
			t.Fatalf("seed %d: not found: %v; found %v; %+v", seed, want, found, result)
		}
	}
}

// Without a key rows are compared whole, and counted.
func TestWithoutKey(t *testing.T) {
	columns := []schema.Field{field("v", text)}
	row := func(s string) []schema.Value { return []schema.Value{str(s)} }
	_, result := compare(t, side("a", columns, row("x"), row("x"), row("y")), side("b", columns, row("x"), row("y"), row("z")), verify.Options{})
	if result.ByKind[verify.Repeated] != 1 || result.ByKind[verify.Missing] != 1 || result.Differing() != 2 {
		t.Errorf("%+v", result)
	}
}
