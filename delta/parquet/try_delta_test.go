package parquet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// Columns whose differences are smaller are written so, others not, and all read as they were,
// by cells and, where they are integers, by numbers. With GSCD_TRY_DELTA a file is left for
// other readers.
func TestTryDelta(t *testing.T) {
	columns := []parquet.Column{
		{Name: "id", Type: schema.Of(schema.Long)},
		{Name: "amount", Type: schema.Of(schema.Long)},
		{Name: "wide", Type: schema.Of(schema.Long)},
		{Name: "at", Type: schema.Of(schema.StringType)},
		{Name: "hash", Type: schema.Of(schema.StringType)},
		{Name: "some", Type: schema.Of(schema.Long)},
	}
	const n = 20_000
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make([][]schema.Value, n)
	for i := range rows {
		at := time.UnixMicro(1657958400000000 + int64(i)*100_000 + rng.Int64N(1<<16)).UTC().Format("2006-01-02T15:04:05.000000Z")
		some := schema.Value{}
		if i%3 > 0 || i < 5000 && i > 4000 {
			some = schema.IntValue(rng.Int64N(1<<30) - 1<<29)
		}
		rows[i] = []schema.Value{
			schema.IntValue(int64(i)), schema.IntValue(rng.Int64N(1_000_000)), schema.IntValue(int64(rng.Uint64())),
			schema.StringValue(at), schema.StringValue(fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64())), some,
		}
	}
	size := map[bool]int{}
	for _, try := range []bool{false, true} {
		e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{TryDelta: try, RowGroupRows: 9000})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the encoder begins anew
			data, _, err := e.Encode(rows)
			if err != nil {
				t.Fatal(err)
			}
			size[try] = len(data)
			if name := os.Getenv("GSCD_TRY_DELTA"); name != "" && try {
				if err := os.WriteFile(name, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, err := parquet.OpenBytes(data)
			if err != nil {
				t.Fatal(err)
			}
			for b, err := range f.Scan(t.Context(), columns, parquet.ScanOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				for i := range b.Rows {
					for c := range columns {
						if got, want := b.Columns[c][i], rows[b.FirstRow+int64(i)][c]; got != want {
							t.Fatalf("row %d, %s: %v, want %v", b.FirstRow+int64(i), columns[c].Name, got, want)
						}
					}
				}
			}
			ints := []parquet.Column{columns[0], columns[5], columns[1], columns[2]}
			batches, ok := f.ScanInts(t.Context(), ints)
			if !ok {
				t.Fatal("these are integers")
			}
			seen := int64(0)
			for b, err := range batches {
				if err != nil {
					t.Fatal(err)
				}
				if b.FirstRow != seen {
					t.Fatalf("a batch at %d, want %d", b.FirstRow, seen)
				}
				seen += int64(b.Rows)
				for i := range b.Rows {
					for c, at := range []int{0, 5, 1, 2} {
						want := rows[b.FirstRow+int64(i)][at]
						null := b.Nulls[c] != nil && b.Nulls[c][i]
						if b.Columns[c][i] != want.I || null != want.IsNull() {
							t.Fatalf("row %d, %s: %d, NULL %t, want %v", b.FirstRow+int64(i), ints[c].Name, b.Columns[c][i], null, want)
						}
					}
				}
			}
			if seen != n {
				t.Fatalf("%d rows", seen)
			}
			if _, ok := f.ScanInts(t.Context(), columns[3:4]); ok {
				t.Error("a text is read as integers")
			}
			if _, ok := f.ScanInts(t.Context(), []parquet.Column{{Name: "none", Type: schema.Of(schema.Long)}}); ok {
				t.Error("a column that is not there is read")
			}
		}
	}
	if size[true] > size[false]*9/10 {
		t.Errorf("%d bytes, %d without differences: a tenth less is expected", size[true], size[false])
	}
	t.Logf("%d bytes, %d without differences", size[true], size[false])
}
