package savepoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

// rig is a topic of two partitions as a growing recording, and the table that is
// ingested from it. Days are those of July 2022, in UTC.
type rig struct {
	t       testing.TB
	file    string
	lines   []string
	offsets [2]int64
	position,
	clock int64
	store, dead *mem.Store
	options     func(*ingest.Options)
}

func newRig(t testing.TB) *rig {
	return &rig{t: t, file: filepath.Join(t.TempDir(), "topic.jsonl"), store: mem.New(), dead: mem.New()}
}

func july(day, hour int) time.Time { return time.Date(2022, 7, day, hour, 0, 0, 0, time.UTC) }

// put appends a change of a key: op is c, u or d. A key stays on its partition.
func (g *rig) put(at time.Time, op string, id int, v string) {
	g.position += 10
	row := map[string]any{"id": id, "v": v}
	value := map[string]any{
		"op": op, "before": nil, "after": row, "ts_ms": at.UnixMilli(),
		"source": map[string]any{"connector": "mysql", "name": "shop", "server_id": 1, "db": "d", "table": "t", "file": "b.000001", "pos": g.position, "row": 0, "ts_ms": at.UnixMilli()},
	}
	if op == "d" {
		value["before"], value["after"] = row, nil
	}
	g.append(id, at, value)
}

// garbage appends a record that can't be decoded.
func (g *rig) garbage(at time.Time, id int) { g.append(id, at, "no envelope") }

func (g *rig) append(id int, at time.Time, value any) {
	p := id % 2
	g.clock = max(g.clock, at.UnixMilli()+1000)
	line, err := json.Marshal(map[string]any{"topic": "t", "partition": p, "offset": g.offsets[p], "ts": g.clock, "key": map[string]any{"id": id}, "value": value})
	if err != nil {
		g.t.Fatal(err)
	}
	g.offsets[p]++
	g.lines = append(g.lines, string(line))
}

// day appends a day's changes: the given keys are written, and one on each
// partition at the end of the day.
func (g *rig) day(day int, ids ...int) {
	for i, id := range ids {
		g.put(july(day, 1+i%20), "u", id, fmt.Sprintf("day %d", day))
	}
	g.put(july(day, 23), "u", 100, fmt.Sprint(day))
	g.put(july(day, 23), "u", 101, fmt.Sprint(day))
}

// ingest takes what the topic has.
func (g *rig) ingest() {
	g.t.Helper()
	if err := os.WriteFile(g.file, []byte(strings.Join(g.lines, "\n")+"\n"), 0o600); err != nil {
		g.t.Fatal(err)
	}
	source, err := recording.Open([]string{g.file}, recording.Options{Topic: "t"})
	if err != nil {
		g.t.Fatal(err)
	}
	defer source.Close()
	calendar, err := snapshotter.NewCalendar("day", "UTC", "00:00")
	if err != nil {
		g.t.Fatal(err)
	}
	now := time.UnixMilli(g.clock)
	o := ingest.Options{
		Name: "t", Store: g.store, DeadLetterStore: g.dead, Calendar: calendar, Key: []string{"id"},
		DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, Now: func() time.Time { return now }, UntilEnd: true,
		Backup: true, Properties: map[string]string{savepoint.PropertyProtect: "backup"},
	}
	if g.options != nil {
		g.options(&o)
	}
	lane, err := ingest.New(o, source)
	if err != nil {
		g.t.Fatal(err)
	}
	if err := lane.Run(ctx); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) table() *delta.Table { return open(g.t, g.store) }

func open(t testing.TB, store *mem.Store) *delta.Table {
	t.Helper()
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func (g *rig) newest() (*delta.Table, *delta.Snapshot, *savepoint.Map) {
	g.t.Helper()
	table := g.table()
	s, err := table.Snapshot(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		g.t.Fatal(err)
	}
	return table, s, m
}

// rowsAt prints the rows of a version, sorted.
func rowsAt(store *mem.Store, version int64) (string, error) {
	table, err := delta.Open(ctx, store)
	if err != nil {
		return "", err
	}
	s, err := table.SnapshotAt(ctx, version)
	if err != nil {
		return "", err
	}
	reading, err := scan.New(store, s, scan.Options{})
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	w, err := output.NewWriter("jsonl", &out, reading.Columns())
	if err != nil {
		return "", err
	}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			return "", err
		}
		if err := w.Write(row); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// pinned gives the rows of everything that is pinned, by name, and of the newest
// version under "newest".
func (g *rig) pinned() map[string]string {
	g.t.Helper()
	_, s, _ := g.newest()
	out := map[string]string{}
	read := func(name string, version int64) {
		rows, err := rowsAt(g.store, version)
		if err != nil {
			g.t.Fatalf("%s: %v", name, err)
		}
		out[name] = rows
	}
	for _, p := range savepoint.PinsOf(s) {
		for _, name := range p.Names {
			read(name, p.Version)
		}
	}
	read("newest", s.Version())
	return out
}

// states prints the map: label state version.
func (g *rig) states() string {
	g.t.Helper()
	_, _, m := g.newest()
	var parts []string
	for _, e := range m.Entries {
		parts = append(parts, fmt.Sprintf("%s %s %d", e.Name[8:], e.State, e.Version))
	}
	return strings.Join(parts, ", ")
}

func (g *rig) rollback(to string, o savepoint.RollbackOptions) *savepoint.Plan {
	g.t.Helper()
	o.Now = time.Now()
	plan, err := savepoint.Rollback(ctx, g.table(), to, o)
	if err != nil {
		g.t.Fatal(err)
	}
	return plan
}

// check wants no fault.
func (g *rig) check() {
	g.t.Helper()
	report, err := savepoint.Check(ctx, g.table(), savepoint.CheckOptions{Deep: true, Now: time.Now()})
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range report.Faults {
		g.t.Errorf("check: %+v", f)
	}
}

// vacuum removes all that may go, and wants that a dry run says the same.
func (g *rig) vacuum(o savepoint.VacuumOptions) *savepoint.VacuumReport {
	g.t.Helper()
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	o.DryRun = true
	before := g.store.Clone()
	dry, err := savepoint.Vacuum(ctx, g.table(), o)
	if err != nil {
		g.t.Fatal(err)
	}
	if !slices.Equal(keys(before), keys(g.store)) {
		g.t.Fatal("a dry run changed the store")
	}
	o.DryRun = false
	done, err := savepoint.Vacuum(ctx, g.table(), o)
	if err != nil {
		g.t.Fatal(err)
	}
	if !slices.Equal(dry.Deleted, done.Deleted) || !slices.Equal(dry.Unpinned, done.Unpinned) || dry.Kept != done.Kept {
		g.t.Fatalf("dry run: %v, unpins %v, keeps %d\n    run: %v, unpins %v, keeps %d", dry.Deleted, dry.Unpinned, dry.Kept, done.Deleted, done.Unpinned, done.Kept)
	}
	there := keys(g.store)
	for _, d := range done.Deleted {
		if slices.Contains(there, d.Key) {
			g.t.Fatalf("%s is reported as removed and is there", d.Key)
		}
	}
	return done
}

func keys(store *mem.Store) (list []string) {
	for o, err := range store.List(ctx, "", "") {
		if err != nil {
			panic(err)
		}
		list = append(list, o.Key)
	}
	return list
}

// keysWith gives the keys that contain all the parts.
func keysWith(store *mem.Store, parts ...string) []string {
	return slices.DeleteFunc(keys(store), func(k string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(k, p) })
	})
}

func kinds(r *savepoint.VacuumReport) string {
	var list []string
	for kind, total := range r.ByKind {
		list = append(list, fmt.Sprintf("%s %d", kind, total.Files))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
