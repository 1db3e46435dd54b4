package output_test

import (
	"bytes"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/output"
)

// arrowFile writes a file with one column.
func arrowFile(t *testing.T, columns []schema.Field, cells ...schema.Value) *ipc.FileReader {
	t.Helper()
	var out bytes.Buffer
	w, err := output.NewArrowWriter(&out, columns)
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range cells {
		if err := w.Write([]schema.Value{cell}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewFileReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each type is read back by Arrow's own reader with its values, and with a NULL of it.
func TestArrowTypes(t *testing.T) {
	text, long := schema.Of(schema.StringType), schema.Of(schema.Long)
	list := schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: long}}
	object := schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{
		{Name: "a", Type: long}, {Name: "b", Type: list}, {Name: "none", Type: schema.Of(schema.Void)},
	}}}
	withVariant := schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.Variant)}}
	wide, _ := new(big.Int).SetString("-12345678901234567890123456789012345678", 10)
	decimal, _ := schema.DecimalValue(wide)
	small, _ := schema.DecimalValue(big.NewInt(-10))
	for _, c := range []struct {
		is    schema.Type
		value schema.Value
		as    string // the type in Arrow
		want  string // the value, as Arrow's reader prints it
	}{
		{schema.Of(schema.Boolean), schema.BoolValue(true), "bool", "true"},
		{schema.Of(schema.Byte), schema.IntValue(-128), "int8", "-128"},
		{schema.Of(schema.Short), schema.IntValue(32767), "int16", "32767"},
		{schema.Of(schema.Integer), schema.IntValue(-1 << 31), "int32", "-2147483648"},
		{long, schema.IntValue(-1 << 63), "int64", "-9223372036854775808"},
		{schema.Of(schema.FloatType), schema.FloatValue(1.5), "float32", "1.5"},
		{schema.Of(schema.DoubleType), schema.DoubleValue(0.1), "float64", "0.1"},
		{schema.Decimal(38, 4), decimal, "decimal(38, 4)", "-1234567890123456789012345678901234.5678"},
		{schema.Decimal(4, 2), small, "decimal(4, 2)", "-0.1"},
		{text, schema.StringValue("北京"), "utf8", "北京"},
		{text, schema.StringValue(""), "utf8", ""},
		{schema.Of(schema.BinaryType), schema.BinaryValue("\x00\xff"), "binary", "AP8="},
		{schema.Of(schema.Date), schema.IntValue(-1), "date32", "1969-12-31"},
		{schema.Of(schema.Timestamp), schema.IntValue(1657929599999999), "timestamp[us, tz=UTC]", "2022-07-15T23:59:59.999999Z"},
		{schema.Of(schema.TimestampNTZ), schema.IntValue(-1), "timestamp[us]", "1969-12-31T23:59:59.999999Z"},
		{schema.Of(schema.Void), schema.Value{}, "null", array.NullValueStr},
		{list, schema.CompoundValue(schema.IntValue(1), schema.Value{}), "list<item: int64, nullable>", "[1,null]"},
		{list, schema.CompoundValue(), "list<item: int64, nullable>", "[]"},
		{object, schema.CompoundValue(schema.IntValue(7), schema.CompoundValue(schema.IntValue(8)), schema.Value{}),
			"struct<a: int64, b: list<item: int64, nullable>, none: null>", `{"a":7,"b":[8],"none":null}`},
		{schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: text, Element: long}},
			schema.CompoundValue(schema.StringValue("k"), schema.IntValue(1), schema.StringValue("l"), schema.Value{}),
			"map<utf8, int64, items_nullable>", `[{"key":"k","value":1},{"key":"l","value":null}]`},
		{schema.Of(schema.Variant), schema.StringValue(`{"a":1}`), "utf8", `{"a":1}`},
		{withVariant, schema.CompoundValue(schema.StringValue(`{"a":1}`), schema.Value{}), "utf8", `[{"a":1},null]`},
	} {
		r := arrowFile(t, []schema.Field{{Name: "c", Type: c.is}}, c.value, schema.Value{}, schema.Value{Kind: schema.Unavailable})
		if got := r.Schema().Field(0); got.Name != "c" || got.Type.String() != c.as || !got.Nullable {
			t.Errorf("%s: %v, want %s", c.is, got, c.as)
		}
		batch, err := r.RecordBatch(0)
		if err != nil {
			t.Errorf("%s: %v", c.is, err)
			continue
		}
		column := batch.Column(0)
		if got := column.ValueStr(0); got != c.want {
			t.Errorf("%s: %q, want %q", c.is, got, c.want)
		}
		nulls := 2
		if c.value.IsNull() {
			nulls = 3
		}
		if null := array.NullValueStr; column.Len() != 3 || column.NullN() != nulls || column.ValueStr(1) != null || column.ValueStr(2) != null {
			t.Errorf("%s: %v, want NULL in the rows 2 and 3 of 3", c.is, column)
		}
	}
}

// Batches end by rows and by bytes, the row that is written may be used again, and a file
// without rows has its schema.
func TestArrowBatches(t *testing.T) {
	columns := []schema.Field{{Name: "id", Type: schema.Of(schema.Long)}, {Name: "text", Type: schema.Of(schema.StringType)}}
	for _, c := range []struct {
		rows int
		text string
		want []int64 // rows of each batch
	}{
		{0, "", nil},
		{1<<16 + 5, "x", []int64{1 << 16, 5}},
		{20, strings.Repeat("x", 1<<20), []int64{8, 8, 4}},
	} {
		var out bytes.Buffer
		w, err := output.NewArrowWriter(&out, columns)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]schema.Value, 2)
		for i := range c.rows {
			row[0], row[1] = schema.IntValue(int64(i)), schema.StringValue(c.text)
			if err := w.Write(row); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := ipc.NewFileReader(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if r.NumRecords() != len(c.want) || r.Schema().NumFields() != 2 {
			t.Fatalf("%d rows: %d batches of %v, want %d", c.rows, r.NumRecords(), r.Schema(), len(c.want))
		}
		next := int64(0)
		for i, want := range c.want {
			batch, err := r.RecordBatch(i)
			if err != nil {
				t.Fatal(err)
			}
			if batch.NumRows() != want {
				t.Errorf("%d rows: batch %d has %d, want %d", c.rows, i, batch.NumRows(), want)
			}
			ids, texts := batch.Column(0).(*array.Int64), batch.Column(1).(*array.String)
			for j := range ids.Len() {
				if ids.Value(j) != next || texts.Value(j) != c.text {
					t.Fatalf("row %d: %d %.9q", next, ids.Value(j), texts.Value(j))
				}
				next++
			}
		}
	}
}

// A value that its column cannot hold is refused, and so is all that follows.
func TestArrowRefuses(t *testing.T) {
	object := schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: schema.Of(schema.Long), Element: schema.Of(schema.Long)}}
	for _, c := range []struct {
		is    schema.Type
		value schema.Value
		want  string
	}{
		{schema.Of(schema.Byte), schema.IntValue(128), "128 does not fit byte"},
		{schema.Of(schema.Date), schema.IntValue(1 << 40), "does not fit date"},
		{schema.Decimal(3, 1), schema.Value{Kind: schema.Dec, I: 1000}, "100.0 does not fit decimal(3,1)"},
		{schema.Of(schema.Long), schema.StringValue("x"), "in a column of long"},
		{schema.Of(schema.Void), schema.IntValue(1), "in a column of void"},
		{object, schema.CompoundValue(schema.Value{}, schema.IntValue(1)), "NULL as the key of a map"},
		{object, schema.CompoundValue(schema.IntValue(1)), "a key that has no value"},
	} {
		w, err := output.NewArrowWriter(&bytes.Buffer{}, []schema.Field{{Name: "c", Type: c.is}, {Name: "d", Type: c.is}})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Write([]schema.Value{c.value, {}})
		if !errors.Is(err, output.ErrValue) || !strings.Contains(err.Error(), "column c: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.is, err, c.want)
		}
		if again, closed := w.Write(make([]schema.Value, 2)), w.Close(); again != err || closed != err {
			t.Errorf("%s: then %v, %v", c.is, again, closed)
		}
	}
}
