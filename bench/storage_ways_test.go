package bench

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/savepoint"
)

var (
	waysRows = flag.Int64("storage.ways.rows", 10_000, "rows of the table that TestStorageWays keeps in three ways")
	waysDays = flag.Int64("storage.ways.days", 3, "days of changes, of one row in a hundred each")
)

// TestStorageWays tells what the days of a table take in three ways: by deletion vectors,
// by writing files anew (copy-on-write, as MERGE of other engines), and as a full copy a
// day. The figures are -storage.ways.rows=100000 -storage.ways.days=30 -v.
func TestStorageWays(t *testing.T) {
	vectors, one := keepDays(t, false)
	anew, _ := keepDays(t, true)
	t.Logf("| day | merge-on-read | copy-on-write | full copies |")
	for i := range vectors {
		t.Logf("| %d | %.2f MB | %.2f MB | %.2f MB |", i+1, float64(vectors[i])/1e6, float64(anew[i])/1e6, float64(one)*float64(i+2)/1e6)
	}
	last := len(vectors) - 1
	if int64(last+1) != *waysDays {
		t.Fatalf("%d days, want %d", last+1, *waysDays)
	}
	if full := one * int64(last+2); vectors[last] >= full || vectors[last] >= anew[last] {
		t.Errorf("deletion vectors take %d bytes, copy-on-write %d, full copies %d", vectors[last], anew[last], full)
	}
}

// keepDays ingests the days, each sealed, and gives for each the bytes of all files that
// it and the days before need, those of the table before the first day in them, and the
// bytes of that.
func keepDays(t *testing.T, anew bool) (upTo []int64, one int64) {
	t.Helper()
	ctx := context.Background()
	store, cal := mem.New(), calendar(t)
	if err := MakeTable(ctx, store, cal, *waysRows); err != nil {
		t.Fatal(err)
	}
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	needed := map[string]int64{}
	one = need(t, table, 0, needed)
	perDay := *waysRows / 100
	rng := rand.New(rand.NewPCG(7, 7))
	w := NewWorkload(0)
	const dayMillis = 24 * 60 * 60 * 1000
	first := time.Date(2022, 7, 16, 0, 0, 0, 0, time.UTC).UnixMilli()
	src := &Stream{N: perDay * *waysDays, Make: func(offset int64) *change.Record {
		day, n := offset/perDay, offset%perDay
		return w.Update(offset, 1+rng.Int64N(*waysRows), first+day*dayMillis+20*60*1000+n*(dayMillis-30*60*1000)/perDay)
	}}
	lane, err := ingest.New(ingest.Options{
		Name: "orders", Store: store, Calendar: cal, Key: []string{"id"}, UntilEnd: true, Columns: Columns(), CopyOnWrite: anew,
		BatchRows: int(max(1, perDay/4)), Decode: decode.Options{KeyColumns: []string{"id"}},
		Now: func() time.Time { return time.UnixMilli(first + *waysDays*dayMillis + 60*60*1000) },
	}, src)
	if err != nil {
		t.Fatal(err)
	}
	if err := lane.Run(ctx); err != nil {
		t.Fatal(err)
	}
	snap, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, snap)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.Entries {
		if e.State == savepoint.Sealed {
			upTo = append(upTo, need(t, table, e.Version, needed))
		}
	}
	return upTo, one
}

// need adds the files of a version to those that are needed, and gives the bytes of all.
func need(t *testing.T, table *delta.Table, version int64, needed map[string]int64) (bytes int64) {
	t.Helper()
	snap, err := table.SnapshotAt(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range snap.Files() {
		needed[f.Path] = f.Size
		if d := f.DeletionVector; d != nil {
			// Vectors of many files lie in one object: each has its own bytes of it.
			needed[f.Path+" "+d.UniqueID()] = int64(d.SizeInBytes)
		}
	}
	for _, size := range needed {
		bytes += size
	}
	return bytes
}
