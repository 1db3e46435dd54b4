package checkpoint_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/checkpoint"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// A checkpoint of so many files, each with statistics of three columns and a deletion
// vector, written and read back, as each one is.
func BenchmarkWrite(b *testing.B) {
	for _, files := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			state := sample()
			one := state.Adds[0]
			state.Adds = state.Adds[:0]
			for i := range files {
				a := *one
				a.Path = fmt.Sprintf("part-%05d-3b1f7a10-1c4e-4f6c-9a53-1e1c2d0a%04x.zstd.parquet", i, i%65536)
				a.Stats = fmt.Sprintf(`{"numRecords":100000,"minValues":{"id":%d,"name":"aaaaaaaaaaaaaaaa","at":"2024-01-01T00:00:00.000Z"},"maxValues":{"id":%d,"name":"zzzzzzzzzzzzzzzz","at":"2024-01-02T00:00:00.000Z"},"nullCount":{"id":0,"name":0,"at":0},"tightBounds":false}`, i, i+900_000)
				a.DeletionVector = &action.DeletionVector{StorageType: "p", PathOrInlineDV: fmt.Sprintf("dv-%d.bin", i), SizeInBytes: 4000, Cardinality: 1000}
				state.Adds = append(state.Adds, &a)
			}
			store := mem.New()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := checkpoint.Write(context.Background(), store, "_delta_log/00000000000000000009.checkpoint.parquet", state); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(files), "ns/file")
		})
	}
}
