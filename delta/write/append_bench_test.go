package write_test

import (
	"fmt"
	"iter"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

var benchColumns = []schema.Field{
	write.Column("id", schema.Of(schema.Long)), write.Column("bucket", schema.Of(schema.Long)),
	write.Column("city", schema.Of(schema.StringType)), write.Column("amount", schema.Of(schema.Long)),
	write.Column("price", schema.Of(schema.DoubleType)), write.Column("note", schema.Of(schema.StringType)),
}

// benchBatches are n rows, as bench/peers has them, in batches of 4096.
func benchBatches(n int64) (batches []*scan.Batch) {
	cities := []string{"Beijing", "Hangzhou", "Wuhan", "Shanghai", "Chengdu", "Nanjing", "Xi'an", "Suzhou"}
	for from := int64(0); from < n; from += 4096 {
		to := min(from+4096, n)
		b := &scan.Batch{Rows: int(to - from), Columns: make([][]schema.Value, len(benchColumns))}
		for i := from; i < to; i++ {
			for c, v := range []schema.Value{
				schema.IntValue(i), schema.IntValue(i * 7919 % 100), schema.StringValue(cities[i%8]),
				schema.IntValue(i * 104729 % 1_000_000), schema.DoubleValue(float64(i%1000) + 0.25), schema.StringValue(fmt.Sprint("customer ", i%5000)),
			} {
				b.Columns[c] = append(b.Columns[c], v)
			}
		}
		batches = append(batches, b)
	}
	return batches
}

func BenchmarkAppend(b *testing.B) {
	const n = 1_000_000
	batches := benchBatches(n)
	sources := map[string]func() write.Source{
		"rows": func() write.Source {
			return write.Rows(func(yield func([]schema.Value, error) bool) {
				row := make([]schema.Value, len(benchColumns))
				for _, batch := range batches {
					for r := range batch.Rows {
						for c := range row {
							row[c] = batch.Columns[c][r]
						}
						if !yield(row, nil) {
							return
						}
					}
				}
			})
		},
		"batches": func() write.Source {
			return write.Batches(iter.Seq2[*scan.Batch, error](func(yield func(*scan.Batch, error) bool) {
				for _, batch := range batches {
					if !yield(batch, nil) {
						return
					}
				}
			}))
		},
	}
	for _, name := range []string{"rows", "batches"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			store, err := local.New(b.TempDir(), local.Options{})
			if err != nil {
				b.Fatal(err)
			}
			table := delta.New(store)
			if _, err := write.Create(b.Context(), table, write.Definition{Columns: benchColumns}, write.Source{}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := write.Append(b.Context(), table, sources[name]()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}
