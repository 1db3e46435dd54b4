package scd2_test

import (
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
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/scd2"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

type ctxType = context.Context

// rig is a topic as a growing recording, the gscd table that is ingested from it, and its
// history. Days are those of July 2022, in UTC.
type rig struct {
	t        testing.TB
	file     string
	lines    []string
	offset   int64
	position int64
	clock    int64
	store    *mem.Store
	out      objstore.Store
	options  scd2.Options
	ingests  func(*ingest.Options)
}

func newRig(t testing.TB) *rig {
	return &rig{t: t, file: filepath.Join(t.TempDir(), "topic.jsonl"), store: mem.New(), out: mem.New()}
}

func july(day, hour int) time.Time { return time.Date(2022, 7, day, hour, 0, 0, 0, time.UTC) }

// put appends a change: the row that is then, nil where the key is deleted.
func (g *rig) put(at time.Time, key map[string]any, row map[string]any) {
	g.position += 10
	op, before := "u", any(nil)
	if row == nil {
		op, before = "d", key
	}
	value := map[string]any{
		"op": op, "before": before, "after": row, "ts_ms": at.UnixMilli(),
		"source": map[string]any{"connector": "mysql", "name": "shop", "server_id": 1, "db": "d", "table": "t", "file": "b.000001", "pos": g.position, "row": 0, "ts_ms": at.UnixMilli()},
	}
	g.clock = max(g.clock, at.UnixMilli()+1000)
	line, err := json.Marshal(map[string]any{"topic": "t", "partition": 0, "offset": g.offset, "ts": g.clock, "key": key, "value": value})
	if err != nil {
		g.t.Fatal(err)
	}
	g.offset++
	g.lines = append(g.lines, string(line))
}

// pass seals the days before one: a heartbeat of a key that is there on every day.
func (g *rig) ingest(keys ...string) {
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
	if keys == nil {
		keys = []string{"id"}
	}
	o := ingest.Options{
		Name: "t", Store: g.store, DeadLetterStore: mem.New(), Calendar: calendar, Key: keys,
		DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, Now: func() time.Time { return now }, UntilEnd: true,
	}
	if g.ingests != nil {
		g.ingests(&o)
	}
	lane, err := ingest.New(o, source)
	if err != nil {
		g.t.Fatal(err)
	}
	if err := lane.Run(ctx); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) source() *scd2.Source {
	g.t.Helper()
	table, err := delta.Open(ctx, g.store)
	if err != nil {
		g.t.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		g.t.Fatal(err)
	}
	return &scd2.Source{Address: "mem:t", Table: table, Snapshot: s, Labels: m}
}

func (g *rig) build() *scd2.Report {
	g.t.Helper()
	r, err := scd2.Build(ctx, g.source(), delta.New(g.out), g.options)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

func (g *rig) rollback(to string) {
	g.t.Helper()
	src := g.source()
	if _, err := savepoint.Rollback(ctx, src.Table, to, savepoint.RollbackOptions{Now: time.Now()}); err != nil {
		g.t.Fatal(err)
	}
}

// check wants that the history says what the savepoints say.
func (g *rig) check() {
	g.t.Helper()
	r, err := scd2.Check(ctx, g.source(), delta.New(g.out), scd2.CheckOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	if len(r.Faults) > 0 || r.Differing > 0 {
		g.t.Errorf("check of %v: %d labels differ: %+v", r.Labels, r.Differing, r.Faults)
	}
}

// lines gives the rows of the newest version of a table as text, sorted: columns by name.
func lines(t testing.TB, store objstore.Store, columns ...string) []string {
	t.Helper()
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return linesAt(t, store, s, columns...)
}

func linesAt(t testing.TB, store objstore.Store, s *delta.Snapshot, columns ...string) (list []string) {
	t.Helper()
	reading, err := scan.New(store, s, scan.Options{Columns: columns})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, text(reading.Columns(), row))
	}
	slices.Sort(list)
	return list
}

func text(columns []schema.Field, row []schema.Value) string {
	var parts []string
	for i, v := range row {
		if v.IsNull() {
			parts = append(parts, "-")
			continue
		}
		parts = append(parts, string(schema.AppendText(nil, columns[i].Type, v)))
	}
	return strings.Join(parts, " ")
}

func versionOf(t testing.TB, store objstore.Store) int64 {
	t.Helper()
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s.Version()
}

func want(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func id(n int) map[string]any { return map[string]any{"id": n} }

func level(n, level int) map[string]any {
	return map[string]any{"id": n, "name": "A", "level": level, "city": fmt.Sprint("c", n)}
}
