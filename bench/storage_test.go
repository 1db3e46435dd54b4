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
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/savepoint"
)

var (
	storageRows = flag.Int64("storage.rows", 100_000, "rows of the table whose storage is measured")
	storageDays = flag.Int64("storage.days", 5, "days of changes")
	storageDir  = flag.String("storage.dir", "", "where the table is made and left; empty: a temporary folder")
)

// commitsADay is one commit every ten minutes.
const commitsADay = 144

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
	src := &Stream{N: perDay * *storageDays}
	src.Make = func(offset int64) *change.Record {
		w.n = offset
		r := w.record('u', 1+rng.Int64N(*storageRows))
		day, n := offset/perDay, offset%perDay
		at := first + day*dayMillis + 20*60*1000 + n*(dayMillis-30*60*1000)/perDay
		r.Timestamp = at + 200
		r.Value = withTime(r.Value, at)
		return r
	}
	lane, err := ingest.New(ingest.Options{
		Name: "orders", Store: store, Calendar: cal, Key: []string{"id"}, UntilEnd: true, Columns: Columns(),
		BatchRows: int(max(1, perDay/commitsADay)), Decode: decode.Options{KeyColumns: []string{"id"}}, Backup: true,
		Now: func() time.Time { return time.UnixMilli(first + *storageDays*dayMillis + 60*60*1000) },
	}, src)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := lane.Run(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("ingested %d days, %d changes in %s", *storageDays, src.N, time.Since(began).Round(time.Millisecond))
	before := bytesUnder(t, store)
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := savepoint.Vacuum(ctx, table, savepoint.VacuumOptions{Now: time.Now(), Grace: time.Nanosecond, Retain: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	after := bytesUnder(t, store)
	for _, k := range []string{"", "_delta_log/", "_delta_log/_gscd/", "part-", "deletion_vector_"} {
		t.Logf("%-20s %12d bytes", k+"*", bytesOf(t, store, k))
	}
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
	if *storageRows >= 5_000_000 && ratio > 2 {
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
