package parquet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	pq "github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

func newEncoder(t fatalf, columns []parquet.Column, opts parquet.EncoderOptions) *parquet.Encoder {
	t.Helper()
	e, err := parquet.NewEncoder(columns, opts)
	if err != nil {
		t.Fatalf("new encoder: %v", err)
	}
	return e
}

type fatalf interface {
	Helper()
	Fatalf(format string, args ...any)
}

func encodeRows(t fatalf, columns []parquet.Column, rows [][]schema.Value, opts parquet.EncoderOptions) ([]byte, parquet.FileStats) {
	t.Helper()
	data, st, err := newEncoder(t, columns, opts).Encode(rows)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return data, st
}

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

var allTypes = []schema.Type{
	schema.Of(schema.Boolean), schema.Of(schema.Byte), schema.Of(schema.Short), schema.Of(schema.Integer), schema.Of(schema.Long),
	schema.Of(schema.FloatType), schema.Of(schema.DoubleType), schema.Of(schema.StringType), schema.Of(schema.BinaryType),
	schema.Of(schema.Date), schema.Of(schema.Timestamp), schema.Of(schema.TimestampNTZ),
	schema.Decimal(4, 2), schema.Decimal(9, 0), schema.Decimal(10, 3), schema.Decimal(18, 18), schema.Decimal(19, 2), schema.Decimal(38, 10),
}

// cellOf draws a value of a type: small ones that repeat, the limits, NULL.
func cellOf(t schema.Type) *rapid.Generator[schema.Value] {
	ints := func(bits uint) *rapid.Generator[schema.Value] {
		low, high := int64(math.MinInt64)>>(64-bits), int64(math.MaxInt64)>>(64-bits)
		return rapid.Map(rapid.OneOf(rapid.Int64Range(low, high), rapid.Int64Range(0, 3), rapid.SampledFrom([]int64{low, high, -1})), schema.IntValue)
	}
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", "\U0010ffff", strings.Repeat("é", 60)}), rapid.StringN(0, 5, -1),
		rapid.Map(rapid.StringN(0, 3, -1), func(s string) string { return strings.Repeat("z", 63) + s }))
	var g *rapid.Generator[schema.Value]
	switch t.Primitive {
	case schema.Boolean:
		g = rapid.Map(rapid.Bool(), schema.BoolValue)
	case schema.Byte:
		g = ints(8)
	case schema.Short:
		g = ints(16)
	case schema.Integer, schema.Date:
		g = ints(32)
	case schema.FloatType:
		g = rapid.Map(rapid.OneOf(rapid.Float32(), rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1))})), schema.FloatValue)
	case schema.DoubleType:
		g = rapid.Map(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(-1)})), schema.DoubleValue)
	case schema.StringType:
		g = rapid.Map(text, schema.StringValue)
	case schema.BinaryType:
		g = rapid.Map(rapid.OneOf(text, rapid.Just(strings.Repeat("\xff", 80)), rapid.Just("\x00\xff")), schema.BinaryValue)
	case schema.DecimalType:
		nines := strings.Repeat("9", int(t.Precision))
		g = rapid.Map(rapid.OneOf(rapid.StringMatching(fmt.Sprintf(`-?[0-9]{1,%d}`, t.Precision)), rapid.SampledFrom([]string{nines, "-" + nines, "0", "-1", "1"})), dec)
	default:
		g = ints(64)
	}
	return rapid.OneOf(g, g, g, rapid.Just(schema.NullValue()))
}

func within(v, low, high schema.Value) bool {
	return schema.Compare(low, v) <= 0 && schema.Compare(v, high) <= 0
}

func isNaN(v schema.Value) bool {
	return v.Kind == schema.Float && v.Float32() != v.Float32() || v.Kind == schema.Double && v.Float64() != v.Float64()
}

func TestEncodeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var columns []parquet.Column
		for i, n := 0, rapid.IntRange(1, 6).Draw(t, "columns"); i < n; i++ {
			columns = append(columns, parquet.Column{Name: fmt.Sprintf("z%d", n-i), Type: rapid.SampledFrom(allTypes).Draw(t, "type"), FieldID: int32(10 + i)})
		}
		var rows [][]schema.Value
		for range rapid.IntRange(0, 80).Draw(t, "rows") {
			row := make([]schema.Value, len(columns))
			for c := range row {
				row[c] = cellOf(columns[c].Type).Draw(t, "cell")
			}
			rows = append(rows, row)
		}
		opts := parquet.EncoderOptions{
			Codec:        rapid.SampledFrom([]parquet.Codec{parquet.Zstd, parquet.Snappy, parquet.Uncompressed}).Draw(t, "codec"),
			RowGroupRows: rapid.SampledFrom([]int{0, 1, 7, 30}).Draw(t, "group"),
		}
		e := newEncoder(t, columns, opts)
		first, _, err := e.Encode(rows)
		if err != nil {
			t.Fatal(err)
		}
		kept := bytes.Clone(first)
		data, st, err := e.Encode(rows) // the encoder is reused, its first file stays
		if err != nil || !bytes.Equal(data, first) || !bytes.Equal(first, kept) {
			t.Fatalf("the second file differs from the first, %v", err)
		}
		checkFile(t, data, st, columns, rows)
	})
}

type fatalT interface {
	fatalf
	Fatal(args ...any)
}

// checkFile reads a file back with this package and with parquet-go, and
// checks everything that is said about its values.
func checkFile(t fatalT, data []byte, st parquet.FileStats, columns []parquet.Column, rows [][]schema.Value) {
	t.Helper()
	f, err := parquet.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	if f.NumRows() != int64(len(rows)) || st.NumRows != f.NumRows() || len(st.Columns) != len(columns) {
		t.Fatalf("%d rows in the file, %d in the statistics, want %d", f.NumRows(), st.NumRows, len(rows))
	}
	row := 0
	for b, err := range f.Scan(context.Background(), columns, parquet.ScanOptions{BatchRows: 9}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Rows {
			for c := range columns {
				if got := b.Columns[c][i]; !schema.Equal(got, rows[row][c]) {
					t.Fatalf("column %s row %d = %+v, want %+v", columns[c].Name, row, got, rows[row][c])
				}
			}
			row++
		}
	}
	if row != len(rows) {
		t.Fatalf("scanned %d rows of %d", row, len(rows))
	}
	for c, column := range columns {
		checkStats(t, st.Columns[c], column, rows, c)
		start := 0
		for g := range f.NumRowGroups() {
			end := start + int(f.RowGroupRows(g))
			b := f.RowGroupBounds(g, column)
			nulls := int64(0)
			for _, row := range rows[start:end] {
				switch v := row[c]; {
				case v.IsNull():
					nulls++
				case !b.Min.IsNull() && (isNaN(v) || !within(v, b.Min, b.Max)):
					t.Fatalf("column %s: %+v is out of the row group's bounds %+v", column.Name, v, b)
				}
			}
			if b.NullCount != nulls {
				t.Fatalf("column %s: %d NULLs in row group %d, want %d", column.Name, b.NullCount, g, nulls)
			}
			start = end
		}
	}
	checkWithParquetGo(t, data, columns, rows)
}

func checkStats(t fatalT, got parquet.ColumnStats, column parquet.Column, rows [][]schema.Value, c int) {
	t.Helper()
	var want parquet.ColumnStats
	nan := false
	for _, row := range rows {
		v := row[c]
		switch {
		case v.IsNull():
			want.NullCount++
		case isNaN(v):
			nan = true
		default:
			if want.Min.IsNull() || schema.Compare(v, want.Min) < 0 {
				want.Min = v
			}
			if want.Max.IsNull() || schema.Compare(v, want.Max) > 0 {
				want.Max = v
			}
		}
	}
	if nan {
		want.Min, want.Max = schema.Value{}, schema.Value{}
	}
	zero := func(v schema.Value) bool { // widened to the other zero
		return v.Kind == schema.Float && v.Float32() == 0 || v.Kind == schema.Double && v.Float64() == 0
	}
	if got.NullCount != want.NullCount || !zero(want.Min) && got.Min != want.Min || !zero(want.Max) && got.Max != want.Max {
		t.Fatalf("column %s: statistics %+v, want %+v", column.Name, got, want)
	}
}

// checkWithParquetGo reads values, order of columns, field ids and the page
// index with the other implementation.
func checkWithParquetGo(t fatalT, data []byte, columns []parquet.Column, rows [][]schema.Value) {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for c, field := range f.Root().Columns() {
		if field.Name() != columns[c].Name || int32(field.ID()) != columns[c].FieldID || !field.Optional() {
			t.Fatalf("column %d is %s with id %d", c, field.Name(), field.ID())
		}
	}
	start := 0
	for _, g := range f.RowGroups() {
		end := start + int(g.NumRows())
		for c, chunk := range g.ColumnChunks() {
			index, err := chunk.ColumnIndex()
			hasIndex := err == nil && index.NumPages() > 0
			offsets, err := chunk.OffsetIndex()
			if err != nil {
				t.Fatalf("offset index: %v", err)
			}
			pages := chunk.Pages()
			row, page := start, 0
			for row < end {
				p, err := pages.ReadPage()
				if err != nil {
					t.Fatalf("parquet-go: page %d of column %s: %v", page, columns[c].Name, err)
				}
				if offsets.FirstRowIndex(page) != int64(row-start) {
					t.Fatalf("page %d begins at row %d, the index says %d", page, row-start, offsets.FirstRowIndex(page))
				}
				buf := make([]pq.Value, p.NumValues())
				n, _ := p.Values().ReadValues(buf)
				nulls := int64(0)
				for _, v := range buf[:n] {
					if !sameAsOracle(rows[row][c], columns[c].Type, v) {
						t.Fatalf("parquet-go: column %s row %d = %v, want %+v", columns[c].Name, row, v, rows[row][c])
					}
					if v.IsNull() {
						nulls++
					} else if hasIndex && (index.NullPage(page) || !insideIndex(v, index.MinValue(page), index.MaxValue(page), columns[c].Type)) {
						t.Fatalf("column %s row %d: %v is outside its page's bounds %v..%v", columns[c].Name, row, v, index.MinValue(page), index.MaxValue(page))
					}
					row++
				}
				if hasIndex && index.NullCount(page) != nulls {
					t.Fatalf("column %s: page %d has %d NULLs, want %d", columns[c].Name, page, index.NullCount(page), nulls)
				}
				page++
			}
			pages.Close()
		}
		start = end
	}
	if start != len(rows) {
		t.Fatalf("parquet-go reads %d rows of %d", start, len(rows))
	}
}

// insideIndex compares with the order of the type, not the one of parquet-go.
func insideIndex(v, low, high pq.Value, t schema.Type) bool {
	if t.Primitive == schema.DecimalType && t.Precision > 18 {
		n := func(v pq.Value) *big.Int {
			b := v.ByteArray()
			n := new(big.Int).SetBytes(b)
			if len(b) > 0 && b[0]&0x80 != 0 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
			return n
		}
		return n(low).Cmp(n(v)) <= 0 && n(v).Cmp(n(high)) <= 0
	}
	switch v.Kind() {
	case pq.Boolean:
		return !low.Boolean() || v.Boolean() && (high.Boolean() || !v.Boolean())
	case pq.Int32:
		return low.Int32() <= v.Int32() && v.Int32() <= high.Int32()
	case pq.Int64:
		return low.Int64() <= v.Int64() && v.Int64() <= high.Int64()
	case pq.Float:
		return low.Float() <= v.Float() && v.Float() <= high.Float()
	case pq.Double:
		return low.Double() <= v.Double() && v.Double() <= high.Double()
	}
	return bytes.Compare(low.ByteArray(), v.ByteArray()) <= 0 && bytes.Compare(v.ByteArray(), high.ByteArray()) <= 0
}

// Many rows: several pages, dictionaries that fill up, two goroutines.
func TestEncodeManyRows(t *testing.T) {
	rows := orderRows(60_000)
	for i, row := range rows {
		row[1] = schema.IntValue(int64(i / 3)) // few enough at first, too many later
		row[3] = schema.StringValue(fmt.Sprintf("country %d", min(i/2, 40_000)))
	}
	for _, goroutines := range []int{1, 2} {
		for _, group := range []int{0, 25_000} {
			data, st := encodeRows(t, orders, rows, parquet.EncoderOptions{Goroutines: goroutines, RowGroupRows: group})
			columns := slices.Clone(orders)
			checkFile(t, data, st, columns, rows)
			at := []int64{0, 1, 1, 19_999, 20_000, 24_999, 25_000, 59_999}
			picked, err := openBytes(t, data).Rows(t.Context(), columns, at)
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range at {
				if !slices.Equal(picked[i], rows[row]) {
					t.Errorf("row %d = %v, want %v", row, picked[i], rows[row])
				}
			}
		}
	}
}

func TestBoundsInTheFooter(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	columns := []parquet.Column{
		column("wide", schema.Decimal(20, 2)), column("long", schema.Of(schema.StringType)), column("bytes", schema.Of(schema.BinaryType)),
		column("nan", schema.Of(schema.DoubleType)), column("none", schema.Of(schema.StringType)), column("off", schema.Of(schema.Long)),
	}
	rows := [][]schema.Value{
		{dec("-3"), schema.StringValue(long), schema.BinaryValue(strings.Repeat("\xff", 70)), schema.DoubleValue(1), {}, schema.IntValue(1)},
		{dec("2"), schema.StringValue("y"), schema.BinaryValue("a"), schema.DoubleValue(math.NaN()), {}, schema.IntValue(2)},
	}
	data, st := encodeRows(t, columns, rows, parquet.EncoderOptions{StatsColumns: []string{"wide", "long", "bytes", "nan", "none"}, KeyValue: map[string]string{"k": "v"}})
	if len(data) > 5000 {
		t.Errorf("the file has %d bytes: a long string is in its footer", len(data))
	}
	f, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	chunks := f.Metadata().RowGroups[0].Columns
	if s := chunks[0].MetaData.Statistics; string(s.MinValue) != "\xff\xff\xff\xff\xff\xff\xff\xff\xfd" || string(s.MaxValue) != "\x00\x00\x00\x00\x00\x00\x00\x00\x02" {
		t.Errorf("decimal bounds %x..%x, want -3..2", s.MinValue, s.MaxValue)
	}
	if s := chunks[1].MetaData.Statistics; string(s.MinValue) != long[:64] || string(s.MaxValue) != "y" {
		t.Errorf("string bounds %q..%q", s.MinValue, s.MaxValue)
	}
	for _, c := range []int{2, 3, 4, 5} {
		if s := chunks[c].MetaData.Statistics; s.MinValue != nil || s.MaxValue != nil || chunks[c].ColumnIndexLength != 0 && c != 4 {
			t.Errorf("column %s has bounds %x..%x that nobody knows", columns[c].Name, s.MinValue, s.MaxValue)
		}
	}
	if s := chunks[4].MetaData.Statistics; s.NullCount != 2 {
		t.Errorf("%d NULLs of two", s.NullCount)
	}
	if st.Columns[1].Min.S != long || st.Columns[1].Max.S != "y" || st.Columns[2].Max.S != strings.Repeat("\xff", 70) {
		t.Error("the statistics cut a string")
	}
	if !st.Columns[3].Min.IsNull() || !st.Columns[5].Min.IsNull() || st.Columns[0].Min != dec("-3") {
		t.Errorf("statistics %+v", st)
	}
	if v, _ := f.Lookup("k"); v != "v" {
		t.Errorf("key-value k = %q", v)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, c := range []struct {
		typ   schema.Type
		value schema.Value
	}{
		{schema.Of(schema.Long), schema.StringValue("1")},
		{schema.Of(schema.Long), schema.Value{Kind: schema.Dec, I: 1}},
		{schema.Of(schema.Long), schema.Value{Kind: schema.Number, S: "1e5"}},
		{schema.Of(schema.Long), schema.Value{Kind: schema.Unavailable}},
		{schema.Of(schema.Byte), schema.IntValue(128)},
		{schema.Of(schema.Short), schema.IntValue(-32769)},
		{schema.Of(schema.Date), schema.IntValue(1 << 31)},
		{schema.Of(schema.StringType), schema.StringValue("\xff")},
		{schema.Of(schema.StringType), schema.BinaryValue("a")},
		{schema.Of(schema.BinaryType), schema.StringValue("a")},
		{schema.Of(schema.DoubleType), schema.FloatValue(1)},
		{schema.Decimal(4, 2), dec("10000")},
		{schema.Decimal(18, 2), dec("1000000000000000000")},
		{schema.Decimal(20, 2), dec("-100000000000000000000")},
		{schema.Decimal(20, 2), schema.Value{Kind: schema.Dec, S: "short"}},
	} {
		e := newEncoder(t, []parquet.Column{column("a", schema.Of(schema.Long)), column("b", c.typ)}, parquet.EncoderOptions{})
		good := []schema.Value{schema.IntValue(1), {}}
		_, _, err := e.Encode([][]schema.Value{good, good, {schema.IntValue(2), c.value}})
		if !errors.Is(err, parquet.ErrValue) || !strings.Contains(err.Error(), `"b"`) || !strings.Contains(err.Error(), "row 2") {
			t.Errorf("%+v in %s: %v", c.value, c.typ, err)
		}
		if _, _, err := e.Encode([][]schema.Value{good}); err != nil {
			t.Errorf("the encoder is spoilt: %v", err)
		}
	}
	e := newEncoder(t, orders, parquet.EncoderOptions{})
	if _, _, err := e.Encode([][]schema.Value{{schema.IntValue(1)}}); !errors.Is(err, parquet.ErrValue) {
		t.Errorf("a row of one cell: %v", err)
	}
	for _, columns := range [][]parquet.Column{
		{}, {column("", schema.Of(schema.Long))}, {column("a", schema.Of(schema.Long)), column("a", schema.Of(schema.Long))},
		{column("a", schema.Type{})}, {column("a", schema.Type{Primitive: schema.Array})}, {column("a", schema.Decimal(40, 0))},
	} {
		if _, err := parquet.NewEncoder(columns, parquet.EncoderOptions{}); err == nil {
			t.Errorf("columns %v were taken", columns)
		}
	}
	if _, err := parquet.NewEncoder(orders, parquet.EncoderOptions{StatsColumns: []string{"nope"}}); err == nil {
		t.Error("statistics of a column that is not there")
	}
}

// A decimal in its long form is the same value.
func TestLongFormOfASmallDecimal(t *testing.T) {
	v := schema.Value{Kind: schema.Dec, S: strings.Repeat("\xff", 15) + "\xfe"}
	for _, typ := range []schema.Type{schema.Decimal(5, 0), schema.Decimal(12, 0), schema.Decimal(30, 0)} {
		columns := []parquet.Column{column("d", typ)}
		data, _ := encodeRows(t, columns, [][]schema.Value{{v}}, parquet.EncoderOptions{})
		if got := scanAll(t, openBytes(t, data), columns, parquet.ScanOptions{}); got[0][0] != dec("-2") {
			t.Errorf("%s: %+v, want -2", typ, got[0][0])
		}
	}
}
