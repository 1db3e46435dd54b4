package bench

import (
	"context"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/savepoint"
)

var (
	storageRows    = flag.Int64("storage.rows", 100_000, "rows of the table whose storage is measured")
	storageDays    = flag.Int64("storage.days", 5, "days of changes")
	storageRecent  = flag.Bool("storage.recent", false, "nine changes in ten are of the rows that were changed last, a hundredth of all")
	storageCommits = flag.Int64("storage.commits", 144, "commits a day")
	storageDir     = flag.String("storage.dir", "", "where the table is made and left; empty: a temporary folder")
)

// TestStorage keeps days of a table of which one row in a hundred changes a
// day, removes everything that no day needs, and holds all bytes that are left
// against one copy of the table. The proof is -storage.rows=5000000 -storage.days=30.
func TestStorage(t *testing.T) {
	ctx := context.Background()
	dir := *storageDir
	if dir == "" {
		dir = t.TempDir()
	}
	store, err := local.New(filepath.Join(dir, "orders"), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	cal := calendar(t)
	if err := MakeTable(ctx, store, cal, *storageRows); err != nil {
		t.Fatal(err)
	}
	copyBytes := bytesUnder(t, store)
	perDay := *storageRows / 100
	rng := rand.New(rand.NewPCG(7, 7))
	w := NewWorkload(0)
	const dayMillis = 24 * 60 * 60 * 1000
	first := time.Date(2022, 7, 16, 0, 0, 0, 0, time.UTC).UnixMilli()
	var recent []int64
	ids := make([]int64, perDay**storageDays) // a record that is read again is the same
	for i := range ids {
		ids[i] = 1 + rng.Int64N(*storageRows)
		if n := int64(len(recent)); *storageRecent && n > 0 && rng.IntN(10) > 0 {
			ids[i] = recent[n-1-rng.Int64N(min(n, *storageRows/100))]
		}
		recent = append(recent, ids[i])
	}
	src := &Stream{}
	src.Make = func(offset int64) *change.Record {
		w.n = offset
		r := w.record('u', ids[offset])
		day, n := offset/perDay, offset%perDay
		at := first + day*dayMillis + 20*60*1000 + n*(dayMillis-30*60*1000)/perDay
		r.Timestamp = at + 200
		r.Value = withTime(r.Value, at)
		return r
	}
	began := time.Now()
	var before, after int64
	table := delta.New(store)
	t.Logf("| day | all | copies | data files | vectors | log | files | rows read for each live one |")
	for _, day := range []int64{1, 30, 90, 180, 365, *storageDays} {
		if day > *storageDays || day*perDay <= src.N {
			continue
		}
		src.N = day * perDay
		lane, err := ingest.New(ingest.Options{
			Name: "orders", Store: store, Calendar: cal, Key: []string{"id"}, UntilEnd: true, Columns: Columns(),
			BatchRows: int(max(1, perDay / *storageCommits)), Decode: decode.Options{KeyColumns: []string{"id"}}, Backup: true,
			Now: func() time.Time { return time.UnixMilli(first + day*dayMillis + 60*60*1000) },
		}, src)
		if err != nil {
			t.Fatal(err)
		}
		if err := lane.Run(ctx); err != nil {
			t.Fatal(err)
		}
		before = bytesUnder(t, store)
		if _, err := savepoint.Vacuum(ctx, table, savepoint.VacuumOptions{Now: time.Now(), Grace: time.Nanosecond, Retain: time.Nanosecond}); err != nil {
			t.Fatal(err)
		}
		after = bytesUnder(t, store)
		snap, err := table.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		rows, dead := int64(0), int64(0)
		for _, add := range snap.Files() {
			n, _ := stats.NumRecords(add.Stats)
			if rows += n; add.DeletionVector != nil {
				dead += add.DeletionVector.Cardinality
			}
		}
		if rows-dead != *storageRows {
			t.Errorf("day %d: %d live rows, want %d", day, rows-dead, *storageRows)
		}
		t.Logf("| %d | %d | %.2f | %d | %d | %d | %d | %.2f |", day, after, float64(after)/float64(copyBytes), bytesOf(t, store, "part-"),
			bytesOf(t, store, "deletion_vector_"), bytesOf(t, store, "_delta_log/"), snap.NumFiles(), float64(rows)/float64(rows-dead))
	}
	t.Logf("ingested %d days, %d changes in %s", *storageDays, src.N, time.Since(began).Round(time.Millisecond))
	ratio := float64(after) / float64(copyBytes)
	t.Logf("one copy %d, before vacuum %d, after %d: %.2f copies", copyBytes, before, after, ratio)
	snap, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, snap)
	if err != nil {
		t.Fatal(err)
	}
	days := 0
	for _, e := range m.Entries {
		if e.State != savepoint.Sealed {
			continue
		}
		days++
		at, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
		reading, err := scan.New(store, at, scan.Options{Columns: []string{"id"}})
		if err != nil {
			t.Fatal(err)
		}
		rows := int64(0)
		for b, err := range reading.Batches(ctx) {
			if err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
			rows += int64(b.Rows)
		}
		if rows != *storageRows {
			t.Errorf("%s has %d rows, want %d", e.Name, rows, *storageRows)
		}
	}
	if days != int(*storageDays) {
		t.Errorf("%d sealed days, want %d", days, *storageDays)
	}
	if *storageRows >= 5_000_000 && *storageDays <= 30 && ratio > 2 {
		t.Errorf("%.2f copies, at most 2 are allowed", ratio)
	}
}

// withTime sets the event time of an envelope of the workload.
func withTime(value []byte, ms int64) []byte {
	return replaceNumber(replaceNumber(value, `"ts_ms":`, ms), `"ts_us":`, ms*1000)
}

func bytesUnder(t *testing.T, store objstore.Store) int64 { return bytesOf(t, store, "") }

func bytesOf(t *testing.T, store objstore.Store, prefix string) (n int64) {
	for o, err := range store.List(context.Background(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		n += o.Size
	}
	return n
}
