package rowhash_test

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/gscd-io/gscd/delta/rowhash"
	"github.com/gscd-io/gscd/delta/schema"
)

var (
	null   = schema.Value{}
	text   = schema.Of(schema.StringType)
	long   = schema.Of(schema.Long)
	double = schema.Of(schema.DoubleType)
)

func s(v string) schema.Value { return schema.StringValue(v) }
func i(v int64) schema.Value  { return schema.IntValue(v) }

func dec(v string) schema.Value {
	n, _ := new(big.Int).SetString(v, 10)
	d, ok := schema.DecimalValue(n)
	if !ok {
		panic(v)
	}
	return d
}

func form(t schema.Type, v schema.Value) string { return string(rowhash.AppendValue(nil, t, v)) }

// Rows of a slice, and the same on the next day: which of them changed (separators, NULL,
// empty text, blanks, case, spelling of numbers, a control character as separator).
func TestChangeDetection(t *testing.T) {
	fields := []schema.Field{{Name: "a", Type: text}, {Name: "b", Type: text}, {Name: "amt", Type: schema.Decimal(10, 2)}, {Name: "d", Type: schema.Of(schema.Date)}}
	wide := slices.Clone(fields)
	wide[2].Type = schema.Decimal(12, 4)
	day := i(19174)
	tests := []struct {
		name      string
		old, new  []schema.Value
		unchanged bool
	}{
		{"separator moves", []schema.Value{s("a|b"), s("c"), dec("100"), day}, []schema.Value{s("a"), s("b|c"), dec("10000"), day}, false},
		{"NULL changes places", []schema.Value{null, s("x"), dec("100"), day}, []schema.Value{s("x"), null, dec("10000"), day}, false},
		{"NULL, empty", []schema.Value{null, s("q"), dec("100"), day}, []schema.Value{s(""), s("q"), dec("10000"), day}, false},
		{"empty, NULL", []schema.Value{s(""), s("q"), dec("100"), day}, []schema.Value{null, s("q"), dec("10000"), day}, false},
		{"a text that says NULL", []schema.Value{s("NULL"), s("q"), dec("100"), day}, []schema.Value{null, s("q"), dec("10000"), day}, false},
		{"blank", []schema.Value{s(" x"), s("q"), dec("100"), day}, []schema.Value{s("x"), s("q"), dec("10000"), day}, false},
		{"case", []schema.Value{s("x"), s("q"), dec("100"), day}, []schema.Value{s("X"), s("q"), dec("10000"), day}, false},
		{"12.50 and 12.5", []schema.Value{s("x"), s("q"), dec("1250"), day}, []schema.Value{s("x"), s("q"), dec("125000"), day}, true},
		{"1.00 and 1", []schema.Value{s("x"), s("q"), dec("100"), day}, []schema.Value{s("x"), s("q"), dec("10000"), day}, true},
		{"unit separator", []schema.Value{s("b\x1fc"), s("q"), dec("0"), null}, []schema.Value{s("b"), s("c\x1fq"), dec("0"), null}, false},
	}
	for _, tt := range tests {
		before, after := rowhash.New(fields, nil).Sum(tt.old), rowhash.New(wide, nil).Sum(tt.new)
		if (before == after) != tt.unchanged {
			t.Errorf("%s: %s, then %s", tt.name, before, after)
		}
	}
}

// Keys of two columns whose texts are alike when they are put together stay two keys.
func TestCompositeKey(t *testing.T) {
	key := []schema.Field{{Name: "k1", Type: text}, {Name: "k2", Type: text}}
	h := rowhash.New(key, nil)
	seen := map[rowhash.Sum][]schema.Value{}
	for _, k := range [][]schema.Value{{s("1|2"), s("3")}, {s("1"), s("2|3")}, {s("12"), s("3")}, {s("1"), s("23")}, {null, s("")}, {s(""), null}, {null, null}} {
		sum := h.Sum(k)
		if other, ok := seen[sum]; ok {
			t.Errorf("%v and %v have one sum", other, k)
		}
		seen[sum] = k
	}
}

func TestSameValue(t *testing.T) {
	short, float, date, ntz := schema.Of(schema.Short), schema.Of(schema.FloatType), schema.Of(schema.Date), schema.Of(schema.TimestampNTZ)
	type of struct {
		t schema.Type
		v schema.Value
	}
	for n, same := range [][]of{
		{{short, i(7)}, {long, i(7)}, {schema.Decimal(5, 0), dec("7")}, {schema.Decimal(38, 10), dec("70000000000")}, {double, schema.DoubleValue(7)}, {float, schema.FloatValue(7)}},
		{{long, i(0)}, {schema.Decimal(9, 9), dec("0")}, {double, schema.DoubleValue(0)}},
		{{schema.Decimal(5, 2), dec("-150")}, {schema.Decimal(38, 30), dec("-1500000000000000000000000000000")}},
		{{schema.Decimal(38, 0), dec("99999999999999999999")}, {schema.Decimal(38, 3), dec("99999999999999999999000")}},
		{{float, schema.FloatValue(0.1)}, {double, schema.DoubleValue(float64(float32(0.1)))}},
		{{double, schema.DoubleValue(math.NaN())}, {double, schema.DoubleValue(math.Float64frombits(0xFFF8000000000123))}, {float, schema.FloatValue(float32(math.NaN()))}},
		{{date, i(-1)}, {ntz, i(-24 * 3600 * 1e6)}},
	} {
		for _, o := range same[1:] {
			if form(same[0].t, same[0].v) != form(o.t, o.v) {
				t.Errorf("%d: %s and %s differ", n, same[0].t, o.t)
			}
		}
	}
}

func TestOtherValue(t *testing.T) {
	all := []string{
		form(text, null), form(text, s("")), form(text, s("NULL")), form(text, s("7")), form(text, s("7.0")), form(long, i(7)), form(long, i(0)),
		form(schema.Of(schema.BinaryType), schema.BinaryValue("7")), form(schema.Of(schema.Boolean), schema.BoolValue(false)), form(schema.Of(schema.Boolean), schema.BoolValue(true)),
		form(double, schema.DoubleValue(math.Copysign(0, -1))), form(double, schema.DoubleValue(math.NaN())), form(double, schema.DoubleValue(math.Inf(1))), form(double, schema.DoubleValue(0.5)),
		form(schema.Of(schema.Date), i(7)), form(schema.Of(schema.Timestamp), i(7)), form(schema.Of(schema.TimestampNTZ), i(7)),
		form(schema.Decimal(10, 2), dec("7")), form(schema.Decimal(10, 1), dec("7")), form(schema.Decimal(38, 0), dec("99999999999999999999")),
		form(text, s("é")), form(text, s("e\u0301")), form(schema.Of(schema.Variant), s("7")),
	}
	for a := range all {
		for b := range all[:a] {
			if all[a] == all[b] {
				t.Errorf("%d and %d have one form", a, b)
			}
		}
	}
}

// A new column without a value, and another order of the columns, change no sum.
func TestColumns(t *testing.T) {
	old := []schema.Field{{Name: "id", Type: long}, {Name: "name", Type: text}}
	later := []schema.Field{{Name: "name", Type: text}, {Name: "email", Type: text}, {Name: "id", Type: long}}
	before := rowhash.New(old, nil).Sum([]schema.Value{i(9), s("Z")})
	h := rowhash.New(later, nil)
	if h.Sum([]schema.Value{s("Z"), null, i(9)}) != before {
		t.Error("a column that is NULL changed the sum")
	}
	if h.Sum([]schema.Value{s("Z"), s(""), i(9)}) == before {
		t.Error("a column with an empty text did not change the sum")
	}
	if rowhash.New(later, []int{2, 0}).Sum([]schema.Value{s("Z"), s("x"), i(9)}) != before {
		t.Error("a column that does not count changed the sum")
	}
	if rowhash.New(old, nil).Sum([]schema.Value{i(9)}) != rowhash.New(old, nil).Sum([]schema.Value{i(9), null}) {
		t.Error("a cell that is not there is not NULL")
	}
}

func TestNested(t *testing.T) {
	inner := schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{{Name: "x", Type: long}, {Name: "y", Type: text}}}}
	wider := schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{{Name: "y", Type: text}, {Name: "x", Type: schema.Decimal(10, 1)}, {Name: "z", Type: text}}}}
	if form(inner, schema.CompoundValue(i(1), s("a"))) != form(wider, schema.CompoundValue(s("a"), dec("10"), null)) {
		t.Error("a struct with another order, a wider and a new field differs")
	}
	list := schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: text, ContainsNull: true}}
	lists := []schema.Value{schema.CompoundValue(), schema.CompoundValue(null), schema.CompoundValue(s("")), schema.CompoundValue(s("a"), s("b")), schema.CompoundValue(s("b"), s("a")), schema.CompoundValue(s("ab")), null}
	for a := range lists {
		for b := range lists[:a] {
			if form(list, lists[a]) == form(list, lists[b]) {
				t.Errorf("arrays %d and %d have one form", a, b)
			}
		}
	}
	dict := schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: text, Element: long}}
	if form(dict, schema.CompoundValue(s("a"), i(1), s("b"), i(2))) != form(dict, schema.CompoundValue(s("b"), i(2), s("a"), i(1))) {
		t.Error("the order of a map's entries changes it")
	}
	if form(dict, schema.CompoundValue(s("a"), i(1), s("b"), i(2))) == form(dict, schema.CompoundValue(s("a"), i(2), s("b"), i(1))) {
		t.Error("values of two keys changed places and the map is the same")
	}
}

// Random rows of few values, made of separators, NULL and Unicode: two have one form only if
// all their values are equal.
func TestRandomRowsAreToldApart(t *testing.T) {
	random := rand.New(rand.NewPCG(24, 7))
	pieces := []string{"", "|", "a", "\x00", "\x1f", "\x05", "\x01", "NULL", "é", "e\u0301", "\xff"}
	fields := []schema.Field{{Name: "a", Type: text}, {Name: "b", Type: text}, {Name: "ab", Type: text}, {Name: "n", Type: schema.Decimal(20, 1)}}
	cell := func() schema.Value {
		if random.IntN(3) == 0 {
			return null
		}
		return s(pieces[random.IntN(len(pieces))] + pieces[random.IntN(len(pieces))])
	}
	h := rowhash.New(fields, nil)
	forms := map[string][]schema.Value{}
	twice := 0
	for range 200_000 {
		row := []schema.Value{cell(), cell(), cell(), null}
		if random.IntN(2) == 0 {
			row[3] = dec(strconv.Itoa(random.IntN(4) * 5))
		}
		key := string(h.Append(nil, row))
		if other, ok := forms[key]; ok {
			twice++
			if !slices.Equal(other, row) {
				t.Fatalf("%v and %v have one form", other, row)
			}
			continue
		}
		forms[key] = row
	}
	if twice == 0 {
		t.Error("no row came twice: the test shows nothing")
	}
	for key, row := range forms {
		if string(h.Append(nil, row)) != key {
			t.Fatalf("%v has two forms", row)
		}
	}
}

// Two texts and a number of any bytes: one form only if all are equal, and bytes that no
// writer has made for the type do not stop it.
func FuzzForm(f *testing.F) {
	f.Add("a", "b", int64(1), "a", "b", int64(1), false)
	f.Add("a|b", "", int64(0), "a", "b|", int64(0), true)
	fields := []schema.Field{{Name: "a", Type: text}, {Name: "b", Type: text}, {Name: "n", Type: long}}
	nested := schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: text, Element: schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: long}}}}
	f.Fuzz(func(t *testing.T, a1, b1 string, n1 int64, a2, b2 string, n2 int64, withNull bool) {
		one, two := []schema.Value{s(a1), s(b1), i(n1)}, []schema.Value{s(a2), s(b2), i(n2)}
		if withNull {
			two[1] = null
		}
		h := rowhash.New(fields, nil)
		if bytes.Equal(h.Append(nil, one), h.Append(nil, two)) != slices.Equal(one, two) {
			t.Fatalf("%v and %v", one, two)
		}
		rowhash.AppendValue(nil, nested, schema.Value{Kind: schema.Compound, S: a1})
		rowhash.AppendValue(nil, schema.Decimal(5, 2), s(b1))
	})
}

func BenchmarkSum(b *testing.B) {
	fields := []schema.Field{{Name: "id", Type: long}, {Name: "name", Type: text}, {Name: "city", Type: text}, {Name: "amount", Type: schema.Decimal(12, 2)}, {Name: "at", Type: schema.Of(schema.Timestamp)}}
	row := []schema.Value{i(123456), s("somebody of the town"), s("Hangzhou"), dec("123450"), i(1657936800000000)}
	h := rowhash.New(fields, nil)
	b.ReportAllocs()
	for range b.N {
		h.Sum(row)
	}
}
