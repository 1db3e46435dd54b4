package output

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/schema"
)

func field(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

func of(p schema.Primitive) schema.Type { return schema.Of(p) }

func decimal(t *testing.T, text string) schema.Value {
	t.Helper()
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		t.Fatalf("no integer: %s", text)
	}
	v, ok := schema.DecimalValue(n)
	if !ok {
		t.Fatalf("too long: %s", text)
	}
	return v
}

// printed writes rows in a format to a string, as to no terminal.
func printed(t *testing.T, format string, columns []schema.Field, rows ...[]schema.Value) string {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(format, &buf, columns)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func structOf(fields ...schema.Field) schema.Type {
	return schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: fields}}
}

func arrayOf(t schema.Type) schema.Type {
	return schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: t, ContainsNull: true}}
}

func TestCells(t *testing.T) {
	micros := time.Date(2022, 7, 16, 8, 0, 0, 123456000, time.UTC).UnixMicro()
	day := time.Date(2022, 7, 16, 0, 0, 0, 0, time.UTC).Unix() / 86400
	for _, tc := range []struct {
		name       string
		t          schema.Type
		v          schema.Value
		json, text string
	}{
		{"null", of(schema.Long), schema.NullValue(), `null`, ``},
		{"true", of(schema.Boolean), schema.BoolValue(true), `true`, `true`},
		{"byte", of(schema.Byte), schema.IntValue(-128), `-128`, `-128`},
		{"long max", of(schema.Long), schema.IntValue(math.MaxInt64), `9223372036854775807`, `9223372036854775807`},
		{"long min", of(schema.Long), schema.IntValue(math.MinInt64), `-9223372036854775808`, `-9223372036854775808`},
		{"decimal", schema.Decimal(12, 2), schema.Value{Kind: schema.Dec, I: -10}, `-0.10`, `-0.10`},
		{"decimal 20,0", schema.Decimal(20, 0), decimal(t, "18446744073709551615"), `18446744073709551615`, `18446744073709551615`},
		{
			"decimal 38,18", schema.Decimal(38, 18), decimal(t, "-99999999999999999999999999999999999999"),
			`-99999999999999999999.999999999999999999`, `-99999999999999999999.999999999999999999`,
		},
		{"decimal keeps zeros", schema.Decimal(5, 3), schema.Value{Kind: schema.Dec, I: 1000}, `1.000`, `1.000`},
		{"double", of(schema.DoubleType), schema.DoubleValue(0.1), `0.1`, `0.1`},
		{"float", of(schema.FloatType), schema.FloatValue(0.1), `0.1`, `0.1`},
		{"double whole", of(schema.DoubleType), schema.DoubleValue(3), `3`, `3`},
		{"double small", of(schema.DoubleType), schema.DoubleValue(5e-324), `5e-324`, `5e-324`},
		{"double e-9", of(schema.DoubleType), schema.DoubleValue(1e-9), `1e-9`, `1e-9`},
		{"minus zero", of(schema.DoubleType), schema.DoubleValue(math.Copysign(0, -1)), `-0`, `-0`},
		{"NaN", of(schema.DoubleType), schema.DoubleValue(math.NaN()), `"NaN"`, `NaN`},
		{"Infinity", of(schema.FloatType), schema.FloatValue(float32(math.Inf(1))), `"Infinity"`, `Infinity`},
		{"-Infinity", of(schema.DoubleType), schema.DoubleValue(math.Inf(-1)), `"-Infinity"`, `-Infinity`},
		{"date", of(schema.Date), schema.IntValue(day), `"2022-07-16"`, `2022-07-16`},
		{"date before 1970", of(schema.Date), schema.IntValue(-719528), `"0000-01-01"`, `0000-01-01`},
		{"date year -1", of(schema.Date), schema.IntValue(-719529), `"-0001-12-31"`, `-0001-12-31`},
		{"date year 10000", of(schema.Date), schema.IntValue(2932897), `"+10000-01-01"`, `+10000-01-01`},
		{"timestamp", of(schema.Timestamp), schema.IntValue(micros), `"2022-07-16T08:00:00.123456Z"`, `2022-07-16T08:00:00.123456Z`},
		{"timestamp whole", of(schema.Timestamp), schema.IntValue(0), `"1970-01-01T00:00:00.000000Z"`, `1970-01-01T00:00:00.000000Z`},
		{"timestamp -1us", of(schema.Timestamp), schema.IntValue(-1), `"1969-12-31T23:59:59.999999Z"`, `1969-12-31T23:59:59.999999Z`},
		{"timestamp_ntz", of(schema.TimestampNTZ), schema.IntValue(micros), `"2022-07-16T08:00:00.123456"`, `2022-07-16T08:00:00.123456`},
		{"string", of(schema.StringType), schema.StringValue("a<b>\"\\\n\x01ü\u2028\x7f"), `"a<b>\"\\\n\u0001ü\u2028\u007f"`, "a<b>\"\\\n\x01ü\u2028\x7f"},
		{"not UTF-8", of(schema.StringType), schema.StringValue("a\xffb"), `"a\ufffdb"`, "a\xffb"},
		{"empty", of(schema.StringType), schema.StringValue(""), `""`, ``},
		{"binary", of(schema.BinaryType), schema.BinaryValue("\x00\xff\x10"), `"AP8Q"`, `0x00ff10`},
		{"array", schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: of(schema.Long)}}, schema.StringValue(`[1,null]`), `[1,null]`, `[1,null]`},
		{"empty binary", of(schema.BinaryType), schema.BinaryValue(""), `""`, `0x`},
		{
			"struct", structOf(field("d\"", schema.Decimal(5, 2)), field("s", of(schema.StringType)), field("t", of(schema.Date))),
			schema.CompoundValue(schema.Value{Kind: schema.Dec, I: -5}, schema.NullValue(), schema.IntValue(day)),
			`{"d\"":-0.05,"s":null,"t":"2022-07-16"}`, `{"d\"":-0.05,"s":null,"t":"2022-07-16"}`,
		},
		{"array of parts", arrayOf(arrayOf(of(schema.Long))), schema.CompoundValue(schema.CompoundValue(schema.IntValue(1), schema.NullValue()), schema.NullValue(), schema.CompoundValue()), `[[1,null],null,[]]`, `[[1,null],null,[]]`},
		{
			"map", schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: of(schema.Date), Element: of(schema.BinaryType)}},
			schema.CompoundValue(schema.IntValue(day), schema.BinaryValue("\x00"), schema.IntValue(0), schema.NullValue()), `{"2022-07-16":"AA==","1970-01-01":null}`, `{"2022-07-16":"AA==","1970-01-01":null}`,
		},
		{"map of texts", schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: of(schema.StringType), Element: of(schema.Boolean)}}, schema.CompoundValue(schema.StringValue("a\nb"), schema.BoolValue(true)), `{"a\nb":true}`, `{"a\nb":true}`},
		{"empty map", schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: of(schema.StringType), Element: of(schema.Boolean)}}, schema.CompoundValue(), `{}`, `{}`},
		{"variant", of(schema.Variant), schema.StringValue(`{"a":1}`), `{"a":1}`, `{"a":1}`},
	} {
		if got := string(AppendJSON(nil, tc.t, tc.v)); got != tc.json {
			t.Errorf("%s: JSON %s, want %s", tc.name, got, tc.json)
		}
		if got := string(AppendText(nil, tc.t, tc.v)); got != tc.text {
			t.Errorf("%s: text %s, want %s", tc.name, got, tc.text)
		}
	}
}

func TestFormats(t *testing.T) {
	columns := []schema.Field{field("id", of(schema.Long)), field("na,me", of(schema.StringType)), field("raw", of(schema.BinaryType))}
	rows := [][]schema.Value{
		{schema.IntValue(1), schema.StringValue("x"), schema.BinaryValue("\x01")},
		{schema.IntValue(2), schema.StringValue(""), schema.NullValue()},
		{schema.NullValue(), schema.StringValue("a \"b\",\nc"), schema.NullValue()},
		{schema.IntValue(-3), schema.NullValue(), schema.NullValue()},
	}
	for format, want := range map[string]string{
		JSON: `[
{"id":1,"na,me":"x","raw":"AQ=="},
{"id":2,"na,me":"","raw":null},
{"id":null,"na,me":"a \"b\",\nc","raw":null},
{"id":-3,"na,me":null,"raw":null}
]
`,
		JSONL: `{"id":1,"na,me":"x","raw":"AQ=="}
{"id":2,"na,me":"","raw":null}
{"id":null,"na,me":"a \"b\",\nc","raw":null}
{"id":-3,"na,me":null,"raw":null}
`,
		CSV: `id,"na,me",raw
1,x,0x01
2,"",
,"a ""b"",
c",
-3,,
`,
		Table: `┌──────┬───────────┬──────┐
│   id │ na,me     │ raw  │
├──────┼───────────┼──────┤
│    1 │ x         │ 0x01 │
│    2 │           │ null │
│ null │ a "b",\nc │ null │
│   -3 │ null      │ null │
└──────┴───────────┴──────┘
`,
	} {
		if got := printed(t, format, columns, rows...); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", format, got, want)
		}
	}
	for format, want := range map[string]string{JSON: "[]\n", JSONL: "", CSV: "id,\"na,me\",raw\n"} {
		if got := printed(t, format, columns); got != want {
			t.Errorf("%s without rows: %q, want %q", format, got, want)
		}
	}
	if got := printed(t, Table, columns); strings.Count(got, "\n") != 4 || !strings.Contains(got, "na,me") {
		t.Errorf("table without rows:\n%s", got)
	}
}

// genRow draws a row of the columns of allTypes.
var allTypes = []schema.Field{
	field("b", of(schema.Boolean)), field("l", of(schema.Long)), field("f", of(schema.FloatType)),
	field("d", of(schema.DoubleType)), field("m", schema.Decimal(38, 10)), field("s", of(schema.StringType)),
	field("x", of(schema.BinaryType)), field("day", of(schema.Date)), field("ts", of(schema.Timestamp)),
	field("ntz", of(schema.TimestampNTZ)),
}

func genRow(t *rapid.T) []schema.Value {
	row := make([]schema.Value, len(allTypes))
	for i, c := range allTypes {
		if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
			continue
		}
		switch c.Type.Primitive {
		case schema.Boolean:
			row[i] = schema.BoolValue(rapid.Bool().Draw(t, "b"))
		case schema.FloatType:
			row[i] = schema.FloatValue(rapid.Float32().Draw(t, "f"))
		case schema.DoubleType:
			row[i] = schema.DoubleValue(rapid.Float64().Draw(t, "d"))
		case schema.DecimalType:
			hi := big.NewInt(rapid.Int64().Draw(t, "hi"))
			v, ok := schema.DecimalValue(hi.Mul(hi, big.NewInt(rapid.Int64Range(0, 1e18).Draw(t, "lo"))))
			if !ok {
				v = schema.Value{Kind: schema.Dec, I: 7}
			}
			row[i] = v
		case schema.StringType:
			row[i] = schema.StringValue(rapid.String().Draw(t, "s"))
		case schema.BinaryType:
			row[i] = schema.BinaryValue(string(rapid.SliceOf(rapid.Byte()).Draw(t, "x")))
		case schema.Date:
			row[i] = schema.IntValue(int64(rapid.Int32().Draw(t, "day")))
		default:
			row[i] = schema.IntValue(rapid.Int64().Draw(t, "i"))
		}
	}
	return row
}

// What encoding/json reads back from json and jsonl is what was written.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(genRow), 0, 5).Draw(rt, "rows")
		var fromArray, fromLines []map[string]any
		decode := json.NewDecoder(strings.NewReader(printed(t, JSON, allTypes, rows...)))
		decode.UseNumber()
		if err := decode.Decode(&fromArray); err != nil {
			rt.Fatal(err)
		}
		lines := printed(t, JSONL, allTypes, rows...)
		if strings.Count(lines, "\n") != len(rows) {
			rt.Fatalf("%d rows gave %d lines", len(rows), strings.Count(lines, "\n"))
		}
		decode = json.NewDecoder(strings.NewReader(lines))
		decode.UseNumber()
		for {
			var row map[string]any
			err := decode.Decode(&row)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				rt.Fatal(err)
			}
			fromLines = append(fromLines, row)
		}
		for _, got := range [][]map[string]any{fromArray, fromLines} {
			if len(got) != len(rows) {
				rt.Fatalf("%d rows, want %d", len(got), len(rows))
			}
			for r, row := range rows {
				checkJSONRow(rt, got[r], row)
			}
		}
	})
}

func checkJSONRow(t *rapid.T, got map[string]any, row []schema.Value) {
	if len(got) != len(allTypes) {
		t.Fatalf("%d keys, want %d", len(got), len(allTypes))
	}
	for i, c := range allTypes {
		v, cell := row[i], got[c.Name]
		if v.IsNull() {
			if cell != nil {
				t.Fatalf("%s: %v, want null", c.Name, cell)
			}
			continue
		}
		var want any
		switch c.Type.Primitive {
		case schema.Boolean:
			want = v.I == 1
		case schema.Long:
			want = json.Number(strconv.FormatInt(v.I, 10))
		case schema.DecimalType:
			want = json.Number(v.DecimalText(10))
		case schema.FloatType, schema.DoubleType:
			bits, f := 64, v.Float64()
			if c.Type.Primitive == schema.FloatType {
				bits, f = 32, float64(v.Float32())
			}
			n, ok := cell.(json.Number)
			if !ok {
				s := cell.(string)
				if back, err := strconv.ParseFloat(s, bits); err != nil || back != f && !(math.IsNaN(back) && math.IsNaN(f)) {
					t.Fatalf("%s: %q is not %v", c.Name, s, f)
				}
				continue
			}
			back, err := strconv.ParseFloat(n.String(), bits)
			if err != nil || back != f || math.Signbit(back) != math.Signbit(f) {
				t.Fatalf("%s: %s is not %v", c.Name, n, f)
			}
			own, _ := json.Marshal(f)
			if bits == 32 {
				own, _ = json.Marshal(float32(f))
			}
			if n.String() != string(own) {
				t.Fatalf("%s: %s, encoding/json says %s", c.Name, n, own)
			}
			continue
		case schema.StringType:
			want = strings.ToValidUTF8(v.S, "\ufffd")
		case schema.BinaryType:
			raw, err := json.Marshal([]byte(v.S))
			if err != nil {
				t.Fatal(err)
			}
			want = strings.Trim(string(raw), `"`)
		default:
			continue // dates and timestamps have a test of their own
		}
		if cell != want {
			t.Fatalf("%s: %v, want %v", c.Name, cell, want)
		}
	}
}

// Dates and timestamps read back by the standard library are the same ones.
func TestTimesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(rt, "s"), 0).UTC().
			Add(time.Duration(rapid.Int64Range(0, 999999).Draw(rt, "us")) * time.Microsecond)
		got := string(AppendText(nil, of(schema.Timestamp), schema.IntValue(at.UnixMicro())))
		if want := at.Format("2006-01-02T15:04:05.000000Z"); got != want {
			rt.Fatalf("%s, want %s", got, want)
		}
		days := int64(math.Floor(float64(at.Unix()) / 86400))
		if got, want := string(AppendText(nil, of(schema.Date), schema.IntValue(days))), at.Format(time.DateOnly); got != want {
			rt.Fatalf("%s, want %s", got, want)
		}
	})
}

// What encoding/csv reads back is the text of each cell.
func TestCSVRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(genRow), 0, 5).Draw(rt, "rows")
		got, err := csv.NewReader(strings.NewReader(printed(t, CSV, allTypes, rows...))).ReadAll()
		if err != nil {
			rt.Fatal(err)
		}
		if len(got) != len(rows)+1 {
			rt.Fatalf("%d lines, want %d", len(got), len(rows)+1)
		}
		for i, c := range allTypes {
			if got[0][i] != c.Name {
				rt.Fatalf("header %q, want %q", got[0][i], c.Name)
			}
			for r, row := range rows {
				want := string(AppendText(nil, c.Type, row[i]))
				want = strings.ReplaceAll(want, "\r\n", "\n") // encoding/csv reads it so
				if got[r+1][i] != want {
					rt.Fatalf("row %d, %s: %q, want %q", r, c.Name, got[r+1][i], want)
				}
			}
		}
	})
}

func TestTableCutsToTheTerminal(t *testing.T) {
	text.EnableColors()
	var buf bytes.Buffer
	columns := []schema.Field{field("id", of(schema.Long)), field("note", of(schema.StringType)), field("city", of(schema.StringType))}
	w, err := newWriter(Table, &buf, columns, Terminal{Width: 40})
	if err != nil {
		t.Fatal(err)
	}
	const n = pageRows*2 + 10
	for i := range n {
		row := []schema.Value{schema.IntValue(int64(i)), schema.StringValue(strings.Repeat("long ", 1+i%20)), schema.StringValue("東京\x1b[31m")}
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n")
	if len(lines) != n+4 {
		t.Fatalf("%d lines, want %d", len(lines), n+4)
	}
	for i, line := range lines {
		if width := text.StringWidth(line); width != 39 {
			t.Fatalf("line %d is %d wide: %s", i, width, line)
		}
		if strings.ContainsRune(line, 0x1b) {
			t.Fatalf("line %d has an escape: %q", i, line)
		}
	}
	if !strings.Contains(lines[22], "…") || !strings.Contains(lines[22], `東京\u001b[3…`) {
		t.Errorf("line 22: %s", lines[22])
	}
	if got := lines[len(lines)-1]; !strings.HasPrefix(got, "└") {
		t.Errorf("last line: %s", got)
	}
}

func TestTableColours(t *testing.T) {
	text.EnableColors()
	columns := []schema.Field{field("id", of(schema.Long))}
	for _, color := range []bool{true, false} {
		var buf bytes.Buffer
		w, err := newWriter(Table, &buf, columns, Terminal{Width: 80, Color: color})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Write([]schema.Value{{}}), w.Close()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(buf.String(), "\x1b["); got != color {
			t.Errorf("colour %v: escapes %v in %q", color, got, buf.String())
		}
	}
}

func TestWidePagesElsewhereKeepEveryCell(t *testing.T) {
	columns := []schema.Field{field("s", of(schema.StringType))}
	rows := make([][]schema.Value, 0, pageRows+1)
	for range pageRows {
		rows = append(rows, []schema.Value{schema.StringValue("short")})
	}
	long := strings.Repeat("x", 500)
	got := printed(t, Table, columns, append(rows, []schema.Value{schema.StringValue(long)})...)
	if !strings.Contains(got, long) {
		t.Error("a long cell of a later page was cut")
	}
}

func TestRecords(t *testing.T) {
	at := time.Date(2022, 7, 17, 8, 10, 0, 5000, time.FixedZone("", 8*3600))
	records := []Record{
		{
			{"label", "2022-07-16"},
			{"version", int64(12)},
			{"sealed_at", at},
			{"attributes", []string{"no load", "by clock"}},
			{"partitions", []Record{{{"topic", "t"}, {"lag", 0}}}},
			{"share", 0.25},
			{"drift", nil},
			{"cell", Cell{schema.Decimal(5, 2), schema.Value{Kind: schema.Dec, I: 100}}},
		},
		{
			{"label", "2022-07-17"},
			{"version", int64(13)},
			{"sealed_at", time.Time{}},
			{"attributes", []string{}},
			{"partitions", []Record(nil)},
			{"share", math.NaN()},
			{"drift", 90 * time.Second},
			{"cell", Cell{schema.Of(schema.Long), schema.Value{}}},
		},
	}
	for format, want := range map[string]string{
		JSONL: `{"label":"2022-07-16","version":12,"sealed_at":"2022-07-17T00:10:00.000005Z","attributes":["no load","by clock"],"partitions":[{"topic":"t","lag":0}],"share":0.25,"drift":null,"cell":1.00}
{"label":"2022-07-17","version":13,"sealed_at":null,"attributes":[],"partitions":[],"share":"NaN","drift":"1m30s","cell":null}
`,
		CSV: `label,version,sealed_at,attributes,partitions,share,drift,cell
2022-07-16,12,2022-07-17T00:10:00.000005Z,"[""no load"",""by clock""]","[{""topic"":""t"",""lag"":0}]",0.25,,1.00
2022-07-17,13,,[],[],NaN,1m30s,
`,
	} {
		var buf bytes.Buffer
		if err := WriteRecords(format, &buf, records); err != nil {
			t.Fatal(err)
		}
		if buf.String() != want {
			t.Errorf("%s:\n%swant:\n%s", format, buf.String(), want)
		}
	}
	var buf bytes.Buffer
	if err := WriteRecords(Table, &buf, records); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(buf.String(), "│ no load, by clock │") {
		t.Errorf("table:\n%s", buf.String())
	}
	buf.Reset()
	if err := errors.Join(WriteRecords(JSON, &buf, nil), WriteRecords(CSV, &buf, nil)); err != nil || buf.String() != "[]\n" {
		t.Errorf("no records: %q, %v", buf.String(), err)
	}
	buf.Reset()
	if err := WriteObject(JSON, &buf, records[0][:2]); err != nil || buf.String() != "{\"label\":\"2022-07-16\",\"version\":12}\n" {
		t.Errorf("object: %q, %v", buf.String(), err)
	}
	buf.Reset()
	if err := WriteObject(CSV, &buf, records[0][:2]); err != nil || buf.String() != "name,value\nlabel,2022-07-16\nversion,12\n" {
		t.Errorf("object: %q, %v", buf.String(), err)
	}
}

func TestRecordErrors(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteRecords(JSON, &buf, []Record{{{"a", struct{}{}}}}); !errors.Is(err, ErrValue) {
		t.Errorf("got %v", err)
	}
	if err := WriteRecords(JSON, &buf, []Record{{{"a", 1}}, {{"b", 1}}}); err == nil || !strings.Contains(err.Error(), `"b" stands where "a"`) {
		t.Errorf("got %v", err)
	}
	if err := WriteRecords(JSON, &buf, []Record{{{"a", json.RawMessage("{")}}}); !errors.Is(err, ErrValue) {
		t.Errorf("got %v", err)
	}
	if _, err := NewWriter("xml", &buf, nil); !errors.Is(err, ErrFormat) {
		t.Errorf("got %v", err)
	}
	if got, err := Resolve("", &buf); got != JSONL || err != nil {
		t.Errorf("default format %q, %v", got, err)
	}
}

// A failing output is reported by Write or Close.
type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	d.left -= len(p)
	if d.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestWriteErrors(t *testing.T) {
	columns := []schema.Field{field("s", of(schema.StringType))}
	for _, format := range Formats() {
		w, err := NewWriter(format, &fullDisk{left: 1000}, columns)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 * pageRows {
			if err = w.Write([]schema.Value{schema.StringValue("some text")}); err != nil {
				break
			}
		}
		if err := errors.Join(err, w.Close()); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %v", format, err)
		}
		if err := w.Write(nil); err == nil {
			t.Errorf("%s: a row without cells was taken", format)
		}
	}
}
