package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
)

var openRows = flag.Int64("open.rows", 0, "rows of one more table whose key index is built; 50000000 takes minutes and 2 GB of disk")

// BenchmarkOpenIndex builds the key index of a table, and reads the same columns alone,
// in turn with it: x-reading is its time beside the time of one goroutine that reads,
// x-reading-by-all beside that of as many as it has itself, x-reading-cpu beside the
// processor time.
func BenchmarkOpenIndex(b *testing.B) {
	for _, rows := range []int64{1_000_000, 10_000_000, *openRows} {
		if rows == 0 {
			continue
		}
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			ctx := context.Background()
			store, snap := madeTable(b, rows)
			debug.FreeOSMemory()
			var reading, readingAll, building, readCPU, buildCPU time.Duration
			for b.Loop() {
				began, cpu := time.Now(), cpuTime(b)
				if n := readKeys(ctx, b, store, snap, 1); n != rows {
					b.Fatalf("%d rows", n)
				}
				reading, readCPU = reading+time.Since(began), readCPU+cpuTime(b)-cpu
				began = time.Now()
				if n := readKeys(ctx, b, store, snap, 4); n != rows {
					b.Fatalf("%d rows", n)
				}
				readingAll += time.Since(began)
				began, cpu = time.Now(), cpuTime(b)
				x, err := ingest.OpenIndex(ctx, store, snap, []string{"id"})
				if err != nil {
					b.Fatal(err)
				}
				building, buildCPU = building+time.Since(began), buildCPU+cpuTime(b)-cpu
				if int64(x.Len()) != rows {
					b.Fatalf("%d keys", x.Len())
				}
				b.ReportMetric(float64(x.Bytes())/float64(rows), "B/key")
				b.ReportMetric(float64(residentNow())/(1<<20), "MiB-resident")
				x.Close()
			}
			b.ReportMetric(float64(rows*int64(b.N))/building.Seconds(), "keys/s")
			b.ReportMetric(float64(building)/float64(reading), "x-reading")
			b.ReportMetric(float64(building)/float64(readingAll), "x-reading-by-all")
			b.ReportMetric(float64(buildCPU)/float64(readCPU), "x-reading-cpu")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// readKeys reads the columns that a key index is made of, and gives the number of rows.
func readKeys(ctx context.Context, tb testing.TB, store objstore.Store, snap *delta.Snapshot, goroutines int) int64 {
	var next, rows atomic.Int64
	var all sync.WaitGroup
	files := snap.Files()
	for range min(goroutines, len(files)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				size := files[i].Size
				f, err := parquet.Open(objstore.NewReaderAt(ctx, store, files[i].Path, size), size)
				if err != nil {
					tb.Error(err)
					return
				}
				columns := []parquet.Column{{Name: "id", Type: schema.Of(schema.Long)}}
				for _, h := range ingest.Hidden {
					if h.Name == ingest.HiddenPrefix+"partition" || h.Name == ingest.HiddenPrefix+"read" {
						columns = append(columns, h)
					}
				}
				for batch, err := range f.Scan(ctx, columns, parquet.ScanOptions{}) {
					if err != nil {
						tb.Error(err)
						return
					}
					rows.Add(int64(batch.Rows))
				}
			}
		})
	}
	all.Wait()
	return rows.Load()
}

// residentNow is the memory that this process has, in bytes; 0 where Linux does not tell.
func residentNow() (bytes int64) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var all, pages int64
	if _, err := fmt.Sscan(string(text), &all, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
