package parquet_test

import (
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// TestDeltaColumns: numbers that go up, or seldom change, or are missing here and there
// come back from columns that are packed by their differences, and take few bytes.
func TestDeltaColumns(t *testing.T) {
	columns := []parquet.Column{
		{Name: "up", Type: schema.Of(schema.Long)}, {Name: "same", Type: schema.Of(schema.Long)},
		{Name: "gaps", Type: schema.Of(schema.Timestamp)}, {Name: "small", Type: schema.Of(schema.Integer)},
	}
	const n = 20_000
	rows := make([][]schema.Value, n)
	for i := range rows {
		rows[i] = []schema.Value{
			schema.IntValue(1<<40 + int64(i)*300 + int64(i%7)), schema.IntValue(7), schema.IntValue(-int64(i) * int64(i)), schema.IntValue(int64(i)),
		}
		if i%5 == 3 {
			rows[i][2] = schema.NullValue()
		}
	}
	sizes := map[bool]int{}
	for _, packed := range []bool{false, true} {
		o := parquet.EncoderOptions{RowGroupRows: 7000}
		if packed {
			o.DeltaColumns = []string{"up", "same", "gaps", "small", "no such column"}
		}
		e, err := parquet.NewEncoder(columns, o)
		if err != nil {
			t.Fatal(err)
		}
		var data []byte
		for range 2 { // the second file by a used encoder
			if data, _, err = e.EncodeWith(rows, map[string]string{"k": "v"}); err != nil {
				t.Fatal(err)
			}
		}
		sizes[packed] = len(data)
		f := openBytes(t, data)
		if f.KeyValue()["k"] != "v" {
			t.Errorf("footer %v", f.KeyValue())
		}
		at := 0
		for b, err := range f.Scan(t.Context(), columns, parquet.ScanOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Rows {
				for c := range columns {
					if got := b.Columns[c][i]; got != rows[at][c] {
						t.Fatalf("row %d column %s: %v, want %v", at, columns[c].Name, got, rows[at][c])
					}
				}
				at++
			}
		}
		if at != n {
			t.Fatalf("%d rows", at)
		}
		seen := 0
		if err := f.Int64s("up", func(first int64, values []int64, _ []bool) error {
			for i, v := range values {
				if v != rows[int(first)+i][0].I {
					t.Fatalf("row %d: %d", first+int64(i), v)
				}
				seen++
			}
			return nil
		}); err != nil || seen != n {
			t.Fatalf("%d values, %v", seen, err)
		}
	}
	if sizes[true] > sizes[false]*3/4 {
		t.Errorf("%d bytes packed, %d plain", sizes[true], sizes[false])
	}
}
