package parquet_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

var streamColumns = []parquet.Column{
	{Name: "id", Type: schema.Of(schema.Long)},
	{Name: "name", Type: schema.Of(schema.StringType)},
	{Name: "weight", Type: schema.Of(schema.DoubleType)},
	{Name: "price", Type: schema.Decimal(20, 2)},
}

func streamRows(from, to int) (rows [][]schema.Value) {
	for i := from; i < to; i++ {
		row := []schema.Value{
			schema.IntValue(int64(i)), schema.StringValue(fmt.Sprintf("name %03d", i%500)), schema.DoubleValue(float64(i) / 2), {Kind: schema.Dec, I: int64(i * 100)},
		}
		if i%7 == 3 {
			row[1] = schema.Value{}
		}
		rows = append(rows, row)
	}
	return rows
}

func streamEncoder(t *testing.T) *parquet.Encoder {
	t.Helper()
	e, err := parquet.NewEncoder(streamColumns, parquet.EncoderOptions{RowGroupRows: 6000})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// memoryStream is a Stream into memory.
type memoryStream struct {
	*parquet.Stream
	out *bytes.Buffer
}

func beginStream(e *parquet.Encoder) memoryStream {
	out := &bytes.Buffer{}
	return memoryStream{e.Stream(out), out}
}

func (s memoryStream) finish(keyValue map[string]string) ([]byte, parquet.FileStats) {
	st, err := s.Finish(keyValue)
	if err != nil || s.Size() != int64(s.out.Len()) {
		panic(fmt.Sprint("finish: ", err, s.Size(), s.out.Len()))
	}
	return s.out.Bytes(), st
}

// A file of rows that come by and by and of copied row groups reads as all of them in
// order, by scan and by row, with the statistics of all.
func TestStream(t *testing.T) {
	whole, _, err := streamEncoder(t).Encode(streamRows(5000, 15000)) // 2 row groups
	if err != nil {
		t.Fatal(err)
	}
	source, err := parquet.OpenBytes(whole)
	if err != nil {
		t.Fatal(err)
	}
	s := beginStream(streamEncoder(t))
	if !s.CanCopy(source) {
		t.Fatal("a file of the same columns can't be copied")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Append(streamRows(0, 1000)))
	must(s.Append(streamRows(1000, 5000)))
	must(s.CopyGroup(source, 0))
	must(s.CopyGroup(source, 1))
	must(s.Append(streamRows(15000, 30000)))
	if s.Rows() != 30000 {
		t.Errorf("%d rows", s.Rows())
	}
	size := s.Size()
	data, st := s.finish(map[string]string{"a": "b"})
	if size < int64(len(data))/2 || size > 4*int64(len(data)) {
		t.Errorf("size %d before the end, %d bytes", size, len(data))
	}
	f, err := parquet.OpenBytes(data)
	must(err)
	if f.NumRows() != 30000 || f.NumRowGroups() != 6 || f.KeyValue()["a"] != "b" {
		t.Fatalf("%d rows in %d groups, %v", f.NumRows(), f.NumRowGroups(), f.KeyValue())
	}
	want := streamRows(0, 30000)
	n := 0
	for b, err := range f.Scan(t.Context(), streamColumns, parquet.ScanOptions{}) {
		must(err)
		for i := range b.Rows {
			for c := range streamColumns {
				if b.Columns[c][i] != want[n][c] {
					t.Fatalf("row %d column %d: %+v, want %+v", n, c, b.Columns[c][i], want[n][c])
				}
			}
			n++
		}
	}
	if n != 30000 {
		t.Fatalf("%d rows", n)
	}
	at := []int64{0, 4999, 5000, 9000, 10999, 11000, 14999, 15000, 29999}
	rows, err := f.Rows(t.Context(), streamColumns, at)
	must(err)
	for i, row := range rows {
		for c := range row {
			if row[c] != want[at[i]][c] {
				t.Errorf("row %d column %d: %+v", at[i], c, row[c])
			}
		}
	}
	_, plain, err := streamEncoder(t).Encode(want)
	must(err)
	for c := range streamColumns {
		if !reflect.DeepEqual(st.Columns[c], plain.Columns[c]) {
			t.Errorf("column %d: %+v, want %+v", c, st.Columns[c], plain.Columns[c])
		}
	}
	if st.NumRows != plain.NumRows {
		t.Errorf("%d rows in the statistics", st.NumRows)
	}
}

// Bounds that the file is not to have are not taken over from one that has them.
func TestStreamLeavesBoundsOut(t *testing.T) {
	data, _, err := streamEncoder(t).Encode(streamRows(0, 10))
	if err != nil {
		t.Fatal(err)
	}
	source, err := parquet.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	e, err := parquet.NewEncoder(streamColumns, parquet.EncoderOptions{StatsColumns: []string{"id"}})
	if err != nil {
		t.Fatal(err)
	}
	s := beginStream(e)
	if err := s.CopyGroup(source, 0); err != nil {
		t.Fatal(err)
	}
	data, st := s.finish(nil)
	made, err := parquet.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range streamColumns {
		if had := source.RowGroupBounds(0, c); had.Min.IsNull() {
			t.Fatalf("%s has no bounds to leave out", c.Name)
		}
		if b := made.RowGroupBounds(0, c); b.Min.IsNull() != (i > 0) || st.Columns[i].Min.IsNull() != (i > 0) {
			t.Errorf("%s: bounds %+v, statistics %+v", c.Name, b, st.Columns[i])
		}
	}
}

// Where one part has a NaN, the file has no bounds of that column.
func TestStreamKnowsNoBoundsOfNaN(t *testing.T) {
	rows := streamRows(0, 10)
	rows[4][2] = schema.DoubleValue(math.NaN())
	data, _, err := streamEncoder(t).Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	source, err := parquet.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	s := beginStream(streamEncoder(t))
	if err := s.CopyGroup(source, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(streamRows(10, 20)); err != nil {
		t.Fatal(err)
	}
	_, st := s.finish(nil)
	if !st.Columns[2].Min.IsNull() || !st.Columns[2].Max.IsNull() || st.Columns[0].Min.I != 0 || st.Columns[0].Max.I != 19 {
		t.Errorf("%+v", st.Columns)
	}
}

// Files of other columns, and of other writers, are not copied.
func TestStreamCopiesOnlyItsOwn(t *testing.T) {
	s := beginStream(streamEncoder(t))
	for _, columns := range [][]parquet.Column{
		streamColumns[:3],
		{streamColumns[1], streamColumns[0], streamColumns[2], streamColumns[3]},
		{streamColumns[0], streamColumns[1], streamColumns[2], {Name: "price", Type: schema.Decimal(20, 3)}},
	} {
		e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := e.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenBytes(data)
		if err != nil {
			t.Fatal(err)
		}
		if s.CanCopy(f) {
			t.Errorf("%v can be copied", columns)
		}
	}
}

// Row groups of nested columns are copied too.
func TestStreamNested(t *testing.T) {
	long := schema.Of(schema.Long)
	columns := []parquet.Column{
		{Name: "l", Type: schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: long, ContainsNull: true}}},
		{Name: "id", Type: long},
	}
	rows := func(from, to int64) (rows [][]schema.Value) {
		for i := from; i < to; i++ {
			list := schema.CompoundValue(schema.IntValue(i), schema.Value{}, schema.IntValue(-i))
			switch i % 5 {
			case 0:
				list = schema.Value{}
			case 1:
				list = schema.CompoundValue()
			}
			rows = append(rows, []schema.Value{list, schema.IntValue(i)})
		}
		return rows
	}
	e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{RowGroupRows: 6000})
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := e.Encode(rows(1000, 9000))
	if err != nil {
		t.Fatal(err)
	}
	source, err := parquet.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	s := beginStream(e)
	if !s.CanCopy(source) || s.Append(rows(0, 1000)) != nil || s.CopyGroup(source, 0) != nil || s.CopyGroup(source, 1) != nil || s.Append(rows(9000, 20000)) != nil {
		t.Fatal("it can't be written")
	}
	data, st := s.finish(nil)
	f, err := parquet.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	want, n := rows(0, 20000), 0
	for b, err := range f.Scan(t.Context(), columns, parquet.ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Rows {
			for c := range columns {
				if b.Columns[c][i] != want[n][c] {
					t.Fatalf("row %d: %+v, want %+v", n, b.Columns[c][i], want[n][c])
				}
			}
			n++
		}
	}
	if n != 20000 || st.NumRows != 20000 || len(st.Columns) != 2 || st.Columns[1].Max.I != 19999 || st.Columns[1].Min.I != 0 || !st.Columns[0].Min.IsNull() {
		t.Errorf("%d rows, %+v", n, st)
	}
}
