package bench

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
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
	storageSeries  = flag.String("storage.series", "", "file that gets a line of CSV a day: the bytes that this day and those before need, and those of full copies")
	storageScan    = flag.String("storage.scan", "", "table that TestStorage has left, of -storage.rows rows, which TestStorageScan reads")
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
	afresh := writeAfresh(t, store, snap)
	t.Logf("the newest version written afresh, in the order of its keys and without hidden columns: %d, %.1f a row; %.2f copies of that",
		len(afresh), float64(len(afresh))/float64(*storageRows), float64(after)/float64(len(afresh)))
	days := 0
	var series bytes.Buffer
	series.WriteString("day,data,vectors,full_copies\n")
	needed, data, vectors, full := map[string]bool{}, int64(0), int64(0), float64(0)
	for _, e := range m.Entries {
		if e.State != savepoint.Sealed {
			continue
		}
		days++
		at, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
		for _, f := range at.Files() {
			if !needed[f.Path] {
				needed[f.Path], data = true, data+f.Size
			}
			if d := f.DeletionVector; d != nil && !needed[f.Path+" "+d.UniqueID()] {
				needed[f.Path+" "+d.UniqueID()], vectors = true, vectors+int64(d.SizeInBytes)
			}
		}
		// A copy a day: its size goes from that of the first table to that of the last version.
		full += float64(copyBytes) + float64(int64(len(afresh))-copyBytes)*float64(days)/float64(*storageDays)
		fmt.Fprintf(&series, "%d,%d,%d,%.0f\n", days, data, vectors, full)
		if days%max(1, int(*storageDays)/12) != 0 && days != int(*storageDays) {
			continue // the rows of some are read
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
	t.Logf("full copies of all days: %.0f, %.1f times what is stored", full, full/float64(after))
	if *storageSeries != "" {
		if err := os.WriteFile(*storageSeries, series.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	timeScans(t, store, snap)
	if days != int(*storageDays) {
		t.Errorf("%d sealed days, want %d", days, *storageDays)
	}
	if *storageRows >= 5_000_000 && *storageDays <= 30 && ratio > 2 {
		t.Errorf("%.2f copies, at most 2 are allowed", ratio)
	}
}

// writeAfresh writes the rows of a version as one file in the order of their ids, without
// hidden columns, as a copy of a day would be.
func writeAfresh(t *testing.T, store objstore.Store, snap *delta.Snapshot) []byte {
	t.Helper()
	reading, err := scan.New(store, snap, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([][]schema.Value, 0, *storageRows)
	for b, err := range reading.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Rows {
			row := make([]schema.Value, len(b.Columns))
			for c := range row {
				row[c] = b.Columns[c][i]
				row[c].S = strings.Clone(row[c].S)
			}
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b []schema.Value) int { return cmp.Compare(a[0].I, b[0].I) })
	e, err := parquet.NewEncoder(columnsOf(snap), parquet.EncoderOptions{TryDelta: true})
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := e.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func columnsOf(snap *delta.Snapshot) (columns []parquet.Column) {
	for i := range snap.Schema().Fields {
		columns = append(columns, parquet.ColumnOf(&snap.Schema().Fields[i]))
	}
	return columns
}

// TestStorageScan is the end of TestStorage alone, on a table that it has left.
func TestStorageScan(t *testing.T) {
	if *storageScan == "" {
		t.Skip("no -storage.scan")
	}
	store, err := local.New(*storageScan, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := delta.New(store).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	timeScans(t, store, snap)
}

// timeScans reads all rows of a version and those of a table of as many rows that was just
// made, in turn, and tells the ratios of the processor's time.
func timeScans(t *testing.T, store objstore.Store, snap *delta.Snapshot) {
	t.Helper()
	fresh, err := local.New(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := MakeTable(t.Context(), fresh, calendar(t), *storageRows); err != nil {
		t.Fatal(err)
	}
	made, err := delta.New(fresh).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := func(store objstore.Store, s *delta.Snapshot, columns []string) time.Duration {
		began, rows := cpuTime(t), int64(0)
		reading, err := scan.New(store, s, scan.Options{Columns: columns})
		if err != nil {
			t.Fatal(err)
		}
		for b, err := range reading.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			rows += int64(b.Rows)
		}
		if rows != *storageRows {
			t.Fatalf("%d rows", rows)
		}
		return cpuTime(t) - began
	}
	for _, columns := range [][]string{nil, {"id", "amount"}} {
		newest, first := time.Hour, time.Hour
		for range 3 {
			first = min(first, read(fresh, made, columns))
			newest = min(newest, read(store, snap, columns))
		}
		t.Logf("scan of %v (none: all): %s of CPU, of a new table %s: %.2f times", columns, newest, first, float64(newest)/float64(first))
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
