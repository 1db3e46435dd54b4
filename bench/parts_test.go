package bench

import (
	"context"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// BenchmarkSplit judges changes: label, redelivery, watermark.
func BenchmarkSplit(b *testing.B) {
	cal := calendar(b)
	open := cal.Label(start * 1000)
	state := &snapshotter.State{First: open, Open: open, Wait: 600e6}
	p := state.AddPartition(change.PartitionID{Topic: Topic}, 0)
	j := snapshotter.NewJudge(cal, state)
	e := snapshotter.Event{Kind: snapshotter.RowChange, OwnTime: true, Server: change.Server{Name: "shop", ID: 223344}, HasPosition: true, Keys: [2]string{"", "k"}}
	b.ReportAllocs()
	n := int64(0)
	for b.Loop() {
		n++
		e.Offset, e.Position.Pos, e.Time, e.Identity = n, n*300, start*1000+n, uint64(n)
		if v := j.Take(p, &e); v.Fate != snapshotter.Apply {
			b.Fatalf("fate %d", v.Fate)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkReadDay reads a day of a table from local disk: all columns, and
// two of them under a filter that takes everything.
func BenchmarkReadDay(b *testing.B) {
	const rows = 1_000_000
	ctx := context.Background()
	store, snap := madeTable(b, rows)
	for name, o := range map[string]scan.Options{"columns=10": {}, "columns=2": {Columns: []string{"id", "city"}}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				reading, err := scan.New(store, snap, o)
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for batch, err := range reading.Batches(ctx) {
					if err != nil {
						b.Fatal(err)
					}
					n += batch.Rows
				}
				if n != rows {
					b.Fatalf("%d rows", n)
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// madeTable is a table of so many rows on local disk, without fsync.
func madeTable(b *testing.B, rows int64) (*local.Store, *delta.Snapshot) {
	b.Helper()
	store, err := local.New(b.TempDir(), local.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	if err := MakeTable(b.Context(), store, calendar(b), rows); err != nil {
		b.Fatal(err)
	}
	table, err := delta.Open(b.Context(), store)
	if err != nil {
		b.Fatal(err)
	}
	snap, err := table.Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return store, snap
}
