package bench

import (
	"context"
	"flag"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

var (
	rewritesRows    = flag.Int64("rewrites.rows", 20_000, "rows of the table of which files are written anew")
	rewritesBatch   = flag.Int("rewrites.batch", 1000, "events a batch")
	rewritesBatches = flag.Int("rewrites.batches", 60, "batches")
)

// TestRewrites ingests many batches of uniform keys (60 % updates, 30 % inserts, 10 %
// deletes) and tells what is written for them, how files and deleted rows come to stand,
// and how long the batches wait for the commits of rewrites. The proof is
// -rewrites.rows=10000000 -rewrites.batch=100000 -rewrites.batches=200.
func TestRewrites(t *testing.T) {
	ctx := context.Background()
	store, err := local.New(filepath.Join(t.TempDir(), "orders"), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := MakeTable(ctx, store, calendar(t), *rewritesRows); err != nil {
		t.Fatal(err)
	}
	before := bytesUnder(t, store)
	w := NewWorkload(*rewritesRows)
	total := int64(*rewritesBatch) * int64(*rewritesBatches)
	var quarters [5]time.Time
	src := &Stream{N: total, Make: func(offset int64) *change.Record {
		if offset*4%total == 0 {
			quarters[offset*4/total] = time.Now()
		}
		return w.Next()
	}}
	logs, seen := observer.New(zapcore.InfoLevel)
	lane, err := ingest.New(ingest.Options{
		Name: "orders", Store: store, Calendar: calendar(t), Key: []string{"id"}, UntilEnd: true, Columns: Columns(),
		BatchRows: *rewritesBatch, Decode: decode.Options{KeyColumns: []string{"id"}}, Log: zap.New(logs),
		Now: func() time.Time { return time.UnixMilli(start).Add(time.Hour) },
	}, src)
	if err != nil {
		t.Fatal(err)
	}
	cpu := processTime(t)
	if err := lane.Run(ctx); err != nil {
		t.Fatal(err)
	}
	quarters[4], cpu = time.Now(), processTime(t)-cpu
	wrote := bytesUnder(t, store) - before
	table := delta.New(store)
	snap, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	own, moved, rewrites := int64(0), int64(0), 0
	for c, err := range table.Commits(ctx, 1, snap.Version()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, add := range c.Adds {
			switch {
			case !add.DataChange:
				moved += add.Size
				rewrites++
			case add.DeletionVector == nil:
				own += add.Size
			}
		}
	}
	rows, dead := int64(0), int64(0)
	for _, add := range snap.Files() {
		n, _ := stats.NumRecords(add.Stats)
		if rows += n; add.DeletionVector != nil {
			dead += add.DeletionVector.Cardinality
		}
	}
	var stall, took time.Duration
	for _, e := range seen.FilterMessage("wrote files anew").All() {
		stall = max(stall, e.ContextMap()["stall"].(time.Duration))
		took += e.ContextMap()["took"].(time.Duration)
	}
	t.Logf("| rows | batch | batches | first quarter, last quarter, k events/s | CPU us an event | own MB | written MB | of them rewrites | written / own | files | dead | rewrites | longest commit of one |")
	rate := func(q int) float64 { return float64(total/4) / quarters[q+1].Sub(quarters[q]).Seconds() / 1000 }
	t.Logf("| %d | %d | %d | %.0f, %.0f | %.2f | %.1f | %.1f | %.1f | %.2f | %d | %.0f %% | %d | %s |", *rewritesRows, *rewritesBatch, *rewritesBatches, rate(0), rate(3),
		float64(cpu.Microseconds())/float64(total), mb(own), mb(wrote), mb(moved), float64(wrote)/float64(own), snap.NumFiles(), 100*float64(dead)/float64(rows), rewrites, stall.Round(time.Millisecond))
	if rewrites == 0 || float64(dead) > .6*float64(rows) {
		t.Errorf("%d rewrites, %d of %d rows are deleted", rewrites, dead, rows)
	}
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
