package bench

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/query/diff"
)

var updateCounted = flag.Bool("update", false, "write what TestCounted counts to testdata/counted.json")

const countedFile = "testdata/counted.json"

// count is one figure that is held against the one committed. Less is better. within
// is the part by which it may differ, and least a difference that is none.
type count struct {
	name   string
	value  float64
	within float64
	least  float64
}

// TestCounted holds the work that a small workload takes against what it took when
// testdata/counted.json was written: bytes, files, requests, allocations. No times, so
// that it says the same on every machine. Less work fails too, so that the file stays true.
func TestCounted(t *testing.T) {
	got := append(countIngest(t, 20_000, 1000, 40), countIngest(t, 2000, 2000, 10)...)
	if *updateCounted {
		writeCounted(t, got)
		return
	}
	text, err := os.ReadFile(countedFile)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatalf("%s: %v", countedFile, err)
	}
	var faults []string
	for _, c := range got {
		w, known := want[c.name]
		delete(want, c.name)
		if d := c.value - w; known && (d < 0 && -d <= w*c.within+c.least || d >= 0 && d <= w*c.within+c.least) {
			continue
		}
		said := fmt.Sprintf("%s: %.6g, was %.6g (%+.1f %%): %s", c.name, c.value, w, 100*(c.value-w)/max(w, 1e-9), map[bool]string{true: "worse", false: "better"}[c.value > w])
		if !known {
			said = fmt.Sprintf("%s: %.6g, not in %s", c.name, c.value, countedFile)
		}
		faults = append(faults, said)
	}
	for name := range want {
		faults = append(faults, fmt.Sprintf("%s: in %s, and not counted any more", name, countedFile))
	}
	if len(faults) > 0 {
		t.Errorf("the work for a small workload has changed:\n  %s\nIf that is meant, say in the commit why what is worse is worth it, and update the file with\n  go test ./bench -run TestCounted -update",
			strings.Join(faults, "\n  "))
	}
}

func writeCounted(t *testing.T, counts []count) {
	t.Helper()
	values := map[string]float64{}
	for _, c := range counts {
		values[c.name] = float64(int64(c.value*1000)) / 1000
	}
	text, err := json.MarshalIndent(values, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(countedFile, append(text, '\n'), 0o666); err != nil {
		t.Fatal(err)
	}
}

// countIngest ingests batches into a table of rows rows, then opens it, looks for one
// row, and compares the version before the changes with the newest.
func countIngest(t *testing.T, rows int64, batch, batches int) []count {
	t.Helper()
	ctx := context.Background()
	below := mem.New()
	store := counting.New(below)
	if err := MakeTable(ctx, store, calendar(t), rows); err != nil {
		t.Fatal(err)
	}
	before := sizes(t, below)
	w := NewWorkload(rows)
	records := make([]*change.Record, batch*batches)
	for i := range records {
		records[i] = w.Next()
	}
	src := &Stream{N: int64(len(records)), Make: func(offset int64) *change.Record { return records[offset] }}
	lane, err := ingest.New(ingest.Options{
		Name: "orders", Store: store, Calendar: calendar(t), Key: []string{"id"}, UntilEnd: true, Columns: Columns(),
		BatchRows: batch, Decode: decode.Options{KeyColumns: []string{"id"}},
		Now:      func() time.Time { return time.UnixMilli(start).Add(time.Hour) },
		Rewrites: ingest.Rewrites{Inline: true}, // else the clock decides behind which batch they are committed
	}, src)
	if err != nil {
		t.Fatal(err)
	}
	store.Reset()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	allocations, allocated := m.Mallocs, m.TotalAlloc
	if err := lane.Run(ctx); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&m)
	log, data := store.Log(), store.Data()

	name := fmt.Sprintf("%d rows, %d batches of %d: ", rows, batches, batch)
	var out []count
	add := func(what string, value, within, least float64) {
		out = append(out, count{name + what, value, within, least})
	}
	each, events := float64(batches), float64(len(records))
	add("allocations an event", float64(m.Mallocs-allocations)/events, .05, .02)
	add("bytes allocated an event", float64(m.TotalAlloc-allocated)/events, .08, 16)
	wrote := map[string]int64{}
	for key, size := range sizes(t, below) {
		if _, was := before[key]; !was {
			wrote[kindOf(key)] += size
		}
	}
	for _, kind := range []string{"data files", "deletion vectors", "commits", "checkpoints", "other state"} {
		add("bytes of "+kind+" an event", float64(wrote[kind])/events, .03, .5)
	}
	requests := []struct {
		name string
		n    int
	}{
		{"GET", log.Gets + data.Gets}, {"HEAD", log.Heads + data.Heads}, {"PUT", log.Puts + data.Puts},
		{"conditional PUT", log.ConditionalPuts + data.ConditionalPuts}, {"DELETE", log.Deletes + data.Deletes}, {"LIST", log.Lists + data.Lists},
	}
	for _, r := range requests {
		add(r.name+" a batch", float64(r.n)/each, .02, .06)
	}
	add("bytes read an event", float64(log.Read+data.Read)/events, .03, .5)

	table, err := delta.Open(ctx, below)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	added, removed, touched := filesOf(t, table, newest.Version())
	add("files added a batch", float64(added)/each, 0, .11)
	add("files removed a batch", float64(removed)/each, 0, .11)
	add("files that get a deletion vector a batch", float64(touched)/each, .02, .06)
	// An object store asks money and a round trip for each: besides the data files at most six a commit.
	if n := float64(log.Calls()+data.Calls())/each - float64(added)/each; n > 6 {
		t.Errorf("%s%.1f requests a commit besides its data files, at most 6 are allowed", name, n)
	}
	add("commits", float64(newest.Version()), 0, 0)
	add("live files at the end", float64(newest.NumFiles()), 0, 0)
	return append(out, countReads(t, store, name, newest.Version(), rows)...)
}

// countReads counts what opening a table takes, one row of it, and what changed since it was made.
func countReads(t *testing.T, store *counting.Store, name string, version, rows int64) (out []count) {
	t.Helper()
	ctx := context.Background()
	read := func(what string, do func()) {
		store.Reset()
		do()
		log, data := store.Log(), store.Data()
		out = append(out,
			count{name + what + ", requests", float64(log.Calls() + data.Calls()), 0, 0},
			count{name + what + ", data files opened", float64(len(store.Opened())), 0, 0},
			count{name + what + ", bytes read", float64(log.Read + data.Read), .03, 64})
	}
	var table *delta.Table
	var newest *delta.Snapshot
	read("open", func() {
		var err error
		if table, err = delta.Open(ctx, store); err != nil {
			t.Fatal(err)
		}
		if newest, err = table.Snapshot(ctx); err != nil {
			t.Fatal(err)
		}
	})
	scanned := 0
	read("one row", func() {
		one, err := expr.Parse(fmt.Sprintf("id = %d", rows+50), newest.Schema())
		if err != nil {
			t.Fatal(err)
		}
		reading, err := scan.New(store, newest, scan.Options{Where: one})
		if err != nil {
			t.Fatal(err)
		}
		for b, err := range reading.Batches(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			scanned += b.Rows
		}
	})
	if scanned > 1 {
		t.Errorf("%s%d rows of one key", name, scanned)
	}
	first, err := table.SnapshotAt(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	decoded := int64(0)
	read("diff", func() {
		d, err := diff.New(store, first, newest, diff.Options{Parallelism: 1})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range d.Changes(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		decoded = d.RowsRead()
		if n == 0 {
			t.Errorf("%sno row differs", name)
		}
	})
	return append(out, count{name + "diff, rows decoded", float64(decoded), 0, 0})
}

// sizes are the bytes of all objects.
func sizes(t *testing.T, store *mem.Store) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for o, err := range store.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		out[o.Key] = o.Size
	}
	return out
}

func kindOf(key string) string {
	switch {
	case strings.HasPrefix(key, "_delta_log/_gscd/"):
		return "other state"
	case strings.Contains(key, ".checkpoint") || strings.HasSuffix(key, "_last_checkpoint"):
		return "checkpoints"
	case strings.HasPrefix(key, "_delta_log/"):
		return "commits"
	case strings.Contains(key, "deletion_vector"):
		return "deletion vectors"
	}
	return "data files"
}

// filesOf counts over the commits from 1 on: files added that were not there, files
// that went, and files that were there before and got a deletion vector.
func filesOf(t *testing.T, table *delta.Table, version int64) (added, removed, touched int) {
	t.Helper()
	for c, err := range table.Commits(context.Background(), 1, version) {
		if err != nil {
			t.Fatal(err)
		}
		gone := map[string]bool{}
		for i := range c.Removes {
			gone[c.Removes[i].Path] = true
		}
		var adds []string
		for i := range c.Adds {
			adds = append(adds, c.Adds[i].Path)
		}
		for _, path := range adds {
			if gone[path] {
				touched++
				delete(gone, path)
			} else {
				added++
			}
		}
		removed += len(gone)
	}
	return added, removed, touched
}
