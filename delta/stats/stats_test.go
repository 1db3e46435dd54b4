package stats_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"pgregory.net/rapid"
)

func dec(text string) schema.Value {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		panic(text)
	}
	v, ok := schema.DecimalValue(n)
	if !ok {
		panic(text)
	}
	return v
}

func micros(text string) schema.Value {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return schema.IntValue(t.UnixMicro())
}

func fieldsOf(types ...schema.Type) (leaves []stats.Leaf, s *schema.Schema) {
	var columns []schema.Field
	for i, t := range types {
		name := "c" + string(rune('a'+i))
		columns = append(columns, schema.Field{Name: name, Type: t, Nullable: true})
	}
	s, err := schema.New(columns...)
	if err != nil {
		panic(err)
	}
	return stats.Leaves(columns), s
}

func TestEncode(t *testing.T) {
	fields, _ := fieldsOf(schema.Of(schema.Long), schema.Decimal(38, 10), schema.Of(schema.StringType), schema.Of(schema.Timestamp),
		schema.Of(schema.TimestampNTZ), schema.Of(schema.Date), schema.Of(schema.DoubleType), schema.Of(schema.FloatType),
		schema.Of(schema.Boolean), schema.Of(schema.BinaryType), schema.Of(schema.Long))
	st := stats.File{NumRows: 7, Columns: []stats.Column{
		{Min: schema.IntValue(math.MinInt64), Max: schema.IntValue(math.MaxInt64)},
		{Min: dec("-12345678901234567890123456789012345678"), Max: dec("5"), NullCount: 1},
		{Min: schema.StringValue("a\"\n\u00e9"), Max: schema.StringValue("z"), NullCount: 2},
		{Min: micros("2022-07-16T23:59:59.999999Z"), Max: micros("2022-07-16T23:59:59.999001Z")},
		{Min: micros("1969-12-31T23:59:59.999999Z"), Max: micros("1969-12-31T23:59:59.999Z")},
		{Min: schema.IntValue(-1), Max: schema.IntValue(19189)},
		{Min: schema.DoubleValue(0), Max: schema.DoubleValue(math.Inf(1))},
		{Min: schema.FloatValue(-1.5), Max: schema.FloatValue(float32(math.Copysign(0, -1)))},
		{Min: schema.BoolValue(false), Max: schema.BoolValue(true)},
		{Min: schema.BinaryValue("a"), Max: schema.BinaryValue("b")},
		{NullCount: 7},
	}}
	want := `{"numRecords":7,` +
		`"minValues":{"ca":-9223372036854775808,"cb":-1234567890123456789012345678.9012345678,"cc":"a\"\u000a` + "\u00e9" + `","cd":"2022-07-16T23:59:59.999Z","ce":"1969-12-31T23:59:59.999","cf":"1969-12-31","cg":-0,"ch":-1.5},` +
		`"maxValues":{"ca":9223372036854775807,"cb":0.0000000005,"cc":"z","cd":"2022-07-17T00:00:00.000Z","ce":"1969-12-31T23:59:59.999","cf":"2022-07-16","ch":0},` +
		`"nullCount":{"ca":0,"cb":1,"cc":2,"cd":0,"ce":0,"cf":0,"cg":0,"ch":0,"ci":0,"cj":0,"ck":7}`
	if got := stats.Encode(fields, st, nil); got != want+"}" {
		t.Errorf("stats\n%s\nwant\n%s}", got, want)
	}
	wide := false
	if got := stats.Encode(fields, st, &wide); got != want+`,"tightBounds":false}` {
		t.Errorf("with wide bounds: %s", got)
	}
	if got := stats.Encode(nil, stats.File{NumRows: 3}, nil); got != `{"numRecords":3,"minValues":{},"maxValues":{},"nullCount":{}}` {
		t.Errorf("without columns: %s", got)
	}
}

func TestOnlyTheFirstColumns(t *testing.T) {
	types := make([]schema.Type, 40)
	st := stats.File{NumRows: 1, Columns: make([]stats.Column, 40)}
	for i := range types {
		types[i] = schema.Of(schema.Long)
		st.Columns[i] = stats.Column{Min: schema.IntValue(1), Max: schema.IntValue(1)}
	}
	fields, s := fieldsOf(types...)
	f, err := stats.Parse(stats.Encode(stats.Indexed(nil, fields), st, nil), s)
	if err != nil {
		t.Fatal(err)
	}
	if f.Bounds(fields[31].Path[0]).Min != schema.IntValue(1) || f.Bounds(fields[32].Path[0]) != stats.Unknown {
		t.Errorf("column 31 %+v, column 32 %+v", f.Bounds(fields[31].Path[0]), f.Bounds(fields[32].Path[0]))
	}
}

// Strings are cut as Spark cuts them (StatisticsCollection.truncateMaxStringAgg).
func TestStringsAreCut(t *testing.T) {
	fields, _ := fieldsOf(schema.Of(schema.StringType))
	for _, c := range []struct{ value, low, high string }{
		{strings.Repeat("a", 32), strings.Repeat("a", 32), strings.Repeat("a", 32)},
		{strings.Repeat("a", 33), strings.Repeat("a", 32), strings.Repeat("a", 32) + "\x7f"},
		{strings.Repeat("a", 32) + "é", strings.Repeat("a", 32), strings.Repeat("a", 32) + "\U0010ffff"},
		{strings.Repeat("a", 32) + "\U0010ffffb", strings.Repeat("a", 32), strings.Repeat("a", 32) + "\U0010ffff\x7f"},
		{strings.Repeat("a", 31) + "\U0001f600b", strings.Repeat("a", 31), strings.Repeat("a", 31) + "\U0010ffff"}, // a pair is not split
		{strings.Repeat("\U0010ffff", 40), strings.Repeat("\U0010ffff", 16), ""},                                   // nothing is above it
	} {
		text := stats.Encode(fields, stats.File{NumRows: 1, Columns: []stats.Column{{Min: schema.StringValue(c.value), Max: schema.StringValue(c.value)}}}, nil)
		var got struct{ MinValues, MaxValues map[string]string }
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if got.MinValues["ca"] != c.low || got.MaxValues["ca"] != c.high {
			t.Errorf("%q is cut to %q..%q, want %q..%q", c.value, got.MinValues["ca"], got.MaxValues["ca"], c.low, c.high)
		}
		if c.high != "" && c.high < c.value {
			t.Errorf("%q is below %q", c.high, c.value)
		}
	}
}

// What is written and read back is never narrower, and exact where it can be.
func TestBoundsNeverNarrow(t *testing.T) {
	types := []schema.Type{
		schema.Of(schema.Byte), schema.Of(schema.Long), schema.Of(schema.FloatType), schema.Of(schema.DoubleType), schema.Of(schema.StringType),
		schema.Of(schema.Date), schema.Of(schema.Timestamp), schema.Of(schema.TimestampNTZ), schema.Decimal(9, 2), schema.Decimal(38, 19), schema.Of(schema.Boolean),
	}
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(t, "type")
		draw := func(label string) schema.Value {
			switch typ.Primitive {
			case schema.FloatType:
				return schema.FloatValue(rapid.Float32().Draw(t, label))
			case schema.DoubleType:
				return schema.DoubleValue(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1)})).Draw(t, label))
			case schema.StringType:
				return schema.StringValue(rapid.OneOf(rapid.StringN(0, 5, -1), rapid.StringN(30, 70, -1),
					rapid.Map(rapid.StringN(0, 2, -1), func(s string) string { return strings.Repeat("\U0010ffff", 15) + s })).Draw(t, label))
			case schema.Date:
				return schema.IntValue(rapid.Int64Range(-800_000, 3_000_000).Draw(t, label))
			case schema.DecimalType:
				return dec(rapid.StringMatching(`-?[0-9]{1,9}`).Draw(t, label))
			case schema.Boolean:
				return schema.BoolValue(rapid.Bool().Draw(t, label))
			case schema.Byte:
				return schema.IntValue(rapid.Int64Range(-128, 127).Draw(t, label))
			}
			return schema.IntValue(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1e16, 1e16)).Draw(t, label))
		}
		low, high := draw("a"), draw("b")
		if schema.Compare(low, high) > 0 {
			low, high = high, low
		}
		fields, s := fieldsOf(typ)
		text := stats.Encode(fields, stats.File{NumRows: 10, Columns: []stats.Column{{Min: low, Max: high, NullCount: 3}}}, nil)
		if !json.Valid([]byte(text)) {
			t.Fatalf("not JSON: %s", text)
		}
		f, err := stats.Parse(text, s)
		if err != nil {
			t.Fatal(err)
		}
		b := f.Bounds("ca")
		if f.NumRecords != 10 || b.NullCount != 3 || !f.Tight {
			t.Fatalf("%s: %+v %+v", text, f, b)
		}
		if !b.Min.IsNull() && schema.Compare(b.Min, low) > 0 || !b.Max.IsNull() && schema.Compare(b.Max, high) < 0 {
			t.Fatalf("%s is narrower than %+v..%+v: %+v", text, low, high, b)
		}
		switch typ.Primitive {
		case schema.Byte, schema.Long, schema.DecimalType:
			if b.Min != low || b.Max != high {
				t.Fatalf("%s is not exact: %+v, want %+v..%+v", text, b, low, high)
			}
		case schema.Boolean:
			if !b.Min.IsNull() {
				t.Fatalf("a boolean has bounds: %+v", b)
			}
		}
	})
}

func TestParseValuesOfOtherWriters(t *testing.T) {
	ts, ntz, d := schema.Of(schema.Timestamp), schema.Of(schema.TimestampNTZ), schema.Decimal(10, 2)
	for _, c := range []struct {
		typ      schema.Type
		json     string
		min, max schema.Value
	}{
		{ts, `"2024-01-01T10:00:00.123Z"`, micros("2024-01-01T10:00:00.123Z"), micros("2024-01-01T10:00:00.123999Z")},
		{ts, `"2024-01-01T10:00:00.123456Z"`, micros("2024-01-01T10:00:00.123456Z"), micros("2024-01-01T10:00:00.124455Z")},
		{ts, `"2024-01-01T10:00:00.1234567Z"`, micros("2024-01-01T10:00:00.123456Z"), micros("2024-01-01T10:00:00.124455Z")},
		{ts, `"2024-01-01T10:00:00.123+02:00"`, micros("2024-01-01T08:00:00.123Z"), micros("2024-01-01T08:00:00.123999Z")},
		{ts, `"2024-01-01T10:00:00-08:30:15"`, micros("2024-01-01T18:30:15Z"), micros("2024-01-01T18:30:15.000999Z")},
		{ts, `"2024-01-01 10:00"`, micros("2024-01-01T10:00:00Z"), micros("2024-01-01T10:00:00.000999Z")},
		{ts, `"+10000-01-01T00:00:00.000Z"`, schema.IntValue(253402300800000000), schema.IntValue(253402300800000999)},
		{ts, `"2024-02-30T00:00:00Z"`, schema.Value{}, schema.Value{}},
		{ts, `"2024-01-01T24:00:00Z"`, schema.Value{}, schema.Value{}},
		{ts, `"2024-01-01"`, schema.Value{}, schema.Value{}},
		{ts, `1704103200`, schema.Value{}, schema.Value{}},
		{ntz, `"2024-01-01T10:00:00.123"`, micros("2024-01-01T10:00:00.123Z"), micros("2024-01-01T10:00:00.123999Z")},
		{ntz, `"2024-01-01T10:00:00.123+02:00"`, schema.Value{}, schema.Value{}},
		{schema.Of(schema.Date), `"2022-07-16"`, schema.IntValue(19189), schema.IntValue(19189)},
		{schema.Of(schema.Date), `"-0044-03-15"`, schema.IntValue(-735525), schema.IntValue(-735525)},
		{schema.Of(schema.Date), `"2022-13-01"`, schema.Value{}, schema.Value{}},
		{d, `12.34`, dec("1234"), dec("1234")},
		{d, `12.3400`, dec("1234"), dec("1234")},
		{d, `-12.345`, dec("-1235"), dec("-1234")},
		{d, `12.345`, dec("1234"), dec("1235")},
		{d, `1.5E+3`, dec("150000"), dec("150000")},
		{d, `"7"`, dec("700"), dec("700")},
		{d, `1e99999`, schema.Value{}, schema.Value{}},
		{d, `"1-2"`, schema.Value{}, schema.Value{}},
		{schema.Decimal(38, 0), `99999999999999999999999999999999999999`, dec(strings.Repeat("9", 38)), dec(strings.Repeat("9", 38))},
		{schema.Decimal(38, 0), `999999999999999999999999999999999999990`, schema.Value{}, schema.Value{}},
		{schema.Of(schema.Long), `9007199254740993`, schema.IntValue(9007199254740993), schema.IntValue(9007199254740993)},
		{schema.Of(schema.Long), `1.5`, schema.Value{}, schema.Value{}},
		{schema.Of(schema.Long), `{"a":1}`, schema.Value{}, schema.Value{}},
		{schema.Of(schema.DoubleType), `0.0`, schema.DoubleValue(math.Copysign(0, -1)), schema.DoubleValue(0)},
		{schema.Of(schema.DoubleType), `"NaN"`, schema.Value{}, schema.Value{}},
		{schema.Of(schema.DoubleType), `"Infinity"`, schema.DoubleValue(math.Inf(1)), schema.DoubleValue(math.Inf(1))},
		{schema.Of(schema.FloatType), `0.10000000149011612`, schema.FloatValue(0.1), schema.FloatValue(0.1)},
		{schema.Of(schema.StringType), `"a\u00e9"`, schema.StringValue("aé"), schema.StringValue("aé")},
		{schema.Of(schema.StringType), `5`, schema.Value{}, schema.Value{}},
		{schema.Of(schema.Boolean), `true`, schema.Value{}, schema.Value{}},
		{schema.Of(schema.BinaryType), `"a"`, schema.Value{}, schema.Value{}},
		{schema.Of(schema.Long), `null`, schema.Value{}, schema.Value{}},
	} {
		_, s := fieldsOf(c.typ)
		f, err := stats.Parse(`{"minValues":{"ca":`+c.json+`},"maxValues":{"ca":`+c.json+`}}`, s)
		if err != nil {
			t.Errorf("%s %s: %v", c.typ, c.json, err)
			continue
		}
		b := f.Bounds("ca")
		if b.Min != c.min || b.Max != c.max || b.NullCount != -1 || f.NumRecords != -1 {
			t.Errorf("%s %s = %+v..%+v, want %+v..%+v", c.typ, c.json, b.Min, b.Max, c.min, c.max)
		}
	}
}

func TestWideBounds(t *testing.T) {
	_, s := fieldsOf(schema.Of(schema.Long))
	for _, c := range []struct {
		text  string
		nulls int64
		tight bool
	}{
		{`{"numRecords":10,"nullCount":{"ca":4}}`, 4, true},
		{`{"numRecords":10,"nullCount":{"ca":4},"tightBounds":true}`, 4, true},
		{`{"numRecords":10,"nullCount":{"ca":4},"tightBounds":false}`, -1, false},
		{`{"numRecords":10,"nullCount":{"ca":0},"tightBounds":false}`, 0, false},
		{`{"numRecords":10,"nullCount":{"ca":10},"tightBounds":false}`, 10, false},
		{`{"numRecords":10,"nullCount":{"ca":11}}`, -1, true},
		{`{"nullCount":{"ca":4}}`, 4, true},
		{`{"numRecords":10,"nullCount":{"ca":-1}}`, -1, true},
		{`{"numRecords":10,"nullCount":null}`, -1, true},
		{`{}`, -1, true},
		{``, -1, true},
	} {
		f, err := stats.Parse(c.text, s)
		if err != nil || f.Bounds("ca").NullCount != c.nulls || f.Tight != c.tight {
			t.Errorf("%s: %+v, %v", c.text, f, err)
		}
	}
	// A minimum above the maximum tells nothing.
	f, err := stats.Parse(`{"minValues":{"ca":5},"maxValues":{"ca":4}}`, s)
	if err != nil || f.Bounds("ca") != stats.Unknown {
		t.Errorf("%+v, %v", f.Bounds("ca"), err)
	}
	if f.Bounds("nope") != stats.Unknown {
		t.Error("a column that is not there has bounds")
	}
}

func TestPhysicalNames(t *testing.T) {
	s, err := schema.New(schema.Field{Name: "id", Type: schema.Of(schema.Long), FileName: "col-1f"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := stats.Parse(`{"minValues":{"col-1f":5,"id":1}}`, s)
	if err != nil || f.Bounds("id").Min != schema.IntValue(5) {
		t.Errorf("%+v, %v", f.Bounds("id"), err)
	}
}

// Fields of structs stand in objects of objects, by their names in files.
func TestNestedStatistics(t *testing.T) {
	long, text := schema.Of(schema.Long), schema.Of(schema.StringType)
	list := schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: long}}
	geo := structOf(schema.Field{Name: "lat", Type: schema.Of(schema.DoubleType)}, schema.Field{Name: "x.y", FileName: "col-5", Type: long})
	columns := []schema.Field{
		{Name: "id", Type: long},
		{Name: "address", FileName: "col-1", Type: structOf(schema.Field{Name: "city", FileName: "col-2", Type: text}, schema.Field{Name: "tags", Type: list},
			schema.Field{Name: "geo", FileName: "col-4", Type: geo})},
		{Name: "empty", Type: structOf(schema.Field{Name: "l", Type: list})},
		{Name: "city", Type: text},
	}
	s, err := schema.New(columns...)
	if err != nil {
		t.Fatal(err)
	}
	st := stats.File{NumRows: 5, Columns: []stats.Column{
		{Min: schema.IntValue(1), Max: schema.IntValue(2)},
		{Fields: []stats.Column{
			{Min: schema.StringValue("a"), Max: schema.StringValue("b"), NullCount: 2}, {NullCount: 1},
			{Fields: []stats.Column{{Min: schema.DoubleValue(1.5), Max: schema.DoubleValue(2)}, {NullCount: 5}}},
		}},
		{Fields: []stats.Column{{}}},
		{Min: schema.StringValue("c"), Max: schema.StringValue("d"), NullCount: 3},
	}}
	got := stats.Encode(stats.Indexed(nil, stats.Leaves(columns)), st, nil)
	want := `{"numRecords":5,"minValues":{"id":1,"col-1":{"col-2":"a","col-4":{"lat":1.5}},"city":"c"},` +
		`"maxValues":{"id":2,"col-1":{"col-2":"b","col-4":{"lat":2}},"city":"d"},"nullCount":{"id":0,"col-1":{"col-2":2,"col-4":{"lat":0,"col-5":5}},"city":3}}`
	if got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	f, err := stats.Parse(got, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path []string
		want stats.Bounds
	}{
		{[]string{"address", "city"}, stats.Bounds{Min: schema.StringValue("a"), Max: schema.StringValue("b"), NullCount: 2}},
		{[]string{"city"}, stats.Bounds{Min: schema.StringValue("c"), Max: schema.StringValue("d"), NullCount: 3}},
		{[]string{"address", "geo", "lat"}, stats.Bounds{Min: schema.DoubleValue(1.5), Max: schema.DoubleValue(2)}},
		{[]string{"address", "geo", "x.y"}, stats.Bounds{NullCount: 5}},
		{[]string{"address"}, stats.Unknown}, {[]string{"address", "tags"}, stats.Unknown}, {[]string{"empty", "l"}, stats.Unknown},
	} {
		if got := f.Bounds(c.path...); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.path, got, c.want)
		}
	}
	for _, text := range []string{`{"minValues":{"col-1":5},"nullCount":{"col-1":3}}`, `{"minValues":{"col-1":{"col-2":{"x":1}}},"maxValues":{"col-1":[1]}}`} {
		if f, err := stats.Parse(text, s); err != nil || f.Bounds("address", "city") != stats.Unknown {
			t.Errorf("%s: %+v %v", text, f.Bounds("address", "city"), err)
		}
	}
}

func TestNotStatistics(t *testing.T) {
	_, s := fieldsOf(schema.Of(schema.Long))
	for _, text := range []string{"x", "[]", "5", `"s"`, `{"numRecords":`, "{}{}", strings.Repeat("[", 1000)} {
		if _, err := stats.Parse(text, s); !errors.Is(err, stats.ErrStats) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	fields, s := fieldsOf(schema.Of(schema.Long), schema.Decimal(12, 2), schema.Of(schema.StringType), schema.Of(schema.Timestamp),
		schema.Of(schema.TimestampNTZ), schema.Of(schema.Date), schema.Of(schema.DoubleType), schema.Of(schema.FloatType))
	f.Add(stats.Encode(fields, stats.File{NumRows: 7, Columns: []stats.Column{
		{Min: schema.IntValue(1), Max: schema.IntValue(2)}, {Min: dec("-5"), Max: dec("500")}, {Min: schema.StringValue("a"), Max: schema.StringValue("é")},
		{Min: schema.IntValue(1), Max: schema.IntValue(1e15)}, {Min: schema.IntValue(-1), Max: schema.IntValue(1e15)}, {Min: schema.IntValue(1), Max: schema.IntValue(2)},
		{Min: schema.DoubleValue(1), Max: schema.DoubleValue(2e99)}, {Min: schema.FloatValue(1), Max: schema.FloatValue(2)},
	}}, nil))
	f.Add(`{"numRecords":1,"minValues":{"cb":1e5,"cd":"2024-01-01T10:00:00.123+02:00"},"tightBounds":false}`)
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := stats.Parse(text, s)
		if err != nil {
			if !errors.Is(err, stats.ErrStats) {
				t.Fatal(err)
			}
			return
		}
		for _, c := range fields {
			b := parsed.Bounds(c.Path...)
			for _, v := range []schema.Value{b.Min, b.Max} {
				if !v.IsNull() && v.Kind != schema.KindOf(c.Type) {
					t.Fatalf("%s has a bound %+v", c.Type, v)
				}
			}
			if !b.Min.IsNull() && !b.Max.IsNull() && schema.Compare(b.Min, b.Max) > 0 {
				t.Fatalf("%+v is in no order", b)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	fields, s := fieldsOf(schema.Of(schema.Long), schema.Decimal(12, 2), schema.Of(schema.StringType), schema.Of(schema.Timestamp))
	text := stats.Encode(fields, stats.File{NumRows: 7, Columns: []stats.Column{
		{Min: schema.IntValue(1), Max: schema.IntValue(2)}, {Min: dec("-5"), Max: dec("500")},
		{Min: schema.StringValue("a"), Max: schema.StringValue("b")}, {Min: schema.IntValue(1), Max: schema.IntValue(1e15)},
	}}, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := stats.Parse(text, s); err != nil {
			b.Fatal(err)
		}
	}
}

// The bounds of a file of floats enclose the doubles that its values are read as.
func TestBoundsOfWidenedFloats(t *testing.T) {
	changes := map[string]json.RawMessage{"delta.typeChanges": json.RawMessage(`[{"fromType":"float","toType":"double"}]`)}
	s, err := schema.New(schema.Field{Name: "d", Type: schema.Of(schema.DoubleType), Metadata: changes})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []float32{3.4, -3.4, 0.1, 1e-40, 3.4028235e38, 16777216} {
		text := strconv.FormatFloat(float64(v), 'g', -1, 32)
		f, err := stats.Parse(`{"minValues":{"d":`+text+`},"maxValues":{"d":`+text+`}}`, s)
		b := f.Bounds("d")
		if err != nil || b.Min.Float64() >= float64(v) || b.Max.Float64() <= float64(v) || b.Max.Float64()-b.Min.Float64() > math.Abs(float64(v)) && v > 1e-30 && v < 1e38 {
			t.Errorf("%v: %v to %v, %v", float64(v), b.Min.Float64(), b.Max.Float64(), err)
		}
	}
}
