package changes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/query/changes"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// rig is a topic as a growing recording, and the table ingested from it.
type rig struct {
	t      testing.TB
	lines  []string
	clock  int64
	store  *mem.Store
	dead   *mem.Store
	table  *delta.Table
	ingest func()
}

func newRig(t testing.TB, changeData bool) *rig {
	g := &rig{t: t, store: mem.New(), dead: mem.New()}
	file := filepath.Join(t.TempDir(), "topic.jsonl")
	g.ingest = func() {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(g.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		source, err := recording.Open([]string{file}, recording.Options{Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		calendar, err := snapshotter.NewCalendar("day", "UTC", "00:00")
		if err != nil {
			t.Fatal(err)
		}
		o := ingest.Options{
			Name: "t", Store: g.store, DeadLetterStore: g.dead, Calendar: calendar, Key: []string{"id"}, BatchRows: 4,
			DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, Now: func() time.Time { return time.UnixMilli(g.clock) }, UntilEnd: true, ChangeData: changeData,
		}
		lane, err := ingest.New(o, source)
		if err != nil {
			t.Fatal(err)
		}
		if err := lane.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if g.table, err = delta.Open(ctx, g.store); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// put appends a change of a key: op is c, u or d.
func (g *rig) put(day int, op string, id int, row map[string]any) {
	at := time.Date(2022, 7, day, 10, 0, len(g.lines), 0, time.UTC).UnixMilli()
	g.clock = max(g.clock, at+1000)
	row["id"] = id
	value := map[string]any{"op": op, "before": nil, "after": row, "ts_ms": at,
		"source": map[string]any{"name": "shop", "server_id": 1, "file": "b.000001", "pos": 10 * (len(g.lines) + 1), "row": 0, "ts_ms": at}}
	if op == "d" {
		value["before"], value["after"] = row, nil
	}
	line, err := json.Marshal(map[string]any{"topic": "t", "partition": 0, "offset": len(g.lines), "ts": g.clock, "key": map[string]any{"id": id}, "value": value})
	if err != nil {
		g.t.Fatal(err)
	}
	g.lines = append(g.lines, string(line))
}

// days has the days 14 to 18, of which 16 is empty and 18 open; a column appears on 17.
func (g *rig) days() {
	for id := range 6 {
		g.put(14, "c", id, map[string]any{"v": "first"})
	}
	g.put(15, "u", 1, map[string]any{"v": "once"})
	g.put(15, "u", 2, map[string]any{"v": "once"})
	g.put(15, "d", 3, map[string]any{})
	g.put(15, "c", 7, map[string]any{"v": "for hours"})
	g.put(15, "u", 1, map[string]any{"v": "twice"})
	g.put(15, "u", 2, map[string]any{"v": "first"})
	g.put(15, "d", 7, map[string]any{})
	g.put(17, "c", 3, map[string]any{"v": "again", "w": 5})
	g.put(17, "u", 4, map[string]any{"v": "wide", "w": 6})
	g.put(18, "d", 0, map[string]any{})
	g.put(18, "u", 5, map[string]any{"v": "open", "w": nil})
}

// check applies the changes of every range of labels to the savepoint before it.
func (g *rig) check(o changes.Options) {
	g.t.Helper()
	f, m := open(g.t, g.table, o)
	entries := slices.DeleteFunc(slices.Clone(m.Entries), func(e savepoint.Entry) bool { return e.Kept || e.State == savepoint.RolledBack })
	for i := range entries {
		before := rows{}
		if i > 0 {
			before = rowsAt(g.t, g.table, entries[i-1].Version, f.Columns())
		}
		for _, to := range entries[i:] {
			what := entries[i].Name + " to " + to.Name
			after := rowsAt(g.t, g.table, to.Version, f.Columns())
			every := collect(g.t, f.Labels(ctx, entries[i].Name, to.Name))
			equal(g.t, what, before.apply(g.t, every), after)
			net := collectUnits(g.t, f, f.NetLabels(ctx, entries[i].Name, to.Name))
			equal(g.t, what+", net", before.apply(g.t, net), after)
			for _, c := range slices.Concat(every, net) {
				if c.Label < entries[i].Name || c.Label > to.Name {
					g.t.Fatalf("%s: a change of %s", what, c.Label)
				}
				for _, s := range m.Progress.Undone {
					if s.From <= c.Version && c.Version <= s.To+1 {
						g.t.Fatalf("%s: a change of version %d, which was taken back", what, c.Version)
					}
				}
			}
		}
	}
}

func TestLabels(t *testing.T) {
	g := newRig(t, true)
	g.days()
	g.ingest()
	g.check(changes.Options{Notice: func(text string) { t.Errorf("with change data: %s", text) }})

	f, m := open(t, g.table, changes.Options{})
	got := ""
	for _, c := range collectUnits(t, f, f.NetLabels(ctx, "2022-07-15", "2022-07-16")) {
		got += fmt.Sprintf("%s %s %d %s; ", c.Label, c.Kind, c.Row[0].I, c.Row[1].S)
	}
	const want = "2022-07-15 update_preimage 1 first; 2022-07-15 update_postimage 1 twice; 2022-07-15 delete 3 first; "
	if got != want {
		t.Errorf("net of 15 and 16: %s\nwant %s", got, want)
	}
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{"2022-07-13", "2022-07-15", savepoint.ErrBefore}, {"2022-07-15", "2022-07-19", savepoint.ErrAfter},
		{"2022-07-17", "2022-07-15", changes.ErrRange}, {"July", "2022-07-15", savepoint.ErrNoLabel},
	} {
		for _, err := range f.Labels(ctx, c.from, c.to) {
			if !errors.Is(err, c.want) {
				t.Errorf("%s to %s: %v", c.from, c.to, err)
			}
		}
	}

	// What a rollback takes back is no change of a label any more, but it is one of the versions.
	version := m.Entries[len(m.Entries)-1].Version
	if _, err := savepoint.Rollback(ctx, g.table, "2022-07-15", savepoint.RollbackOptions{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	f, _ = open(t, g.table, changes.Options{})
	undo := collect(t, f.Versions(ctx, version+1, f.Newest()))
	equal(t, "the rollback", rowsAt(t, g.table, version, f.Columns()).apply(t, undo), rowsAt(t, g.table, f.Newest(), f.Columns()))
	if len(undo) == 0 {
		t.Error("the rollback changed nothing")
	}
	for _, err := range f.Labels(ctx, "2022-07-14", "2022-07-17") {
		if !errors.Is(err, savepoint.ErrRolledBack) {
			t.Errorf("a rolled-back label: %v", err)
		}
	}
	g.check(changes.Options{})
	g.ingest()
	g.put(19, "u", 1, map[string]any{"v": "later"})
	g.ingest()
	g.check(changes.Options{Memory: 1})
}

// Without change data the changes of a label come from its savepoints, and a reader is told.
func TestLabelsCompared(t *testing.T) {
	g := newRig(t, false)
	g.days()
	g.ingest()
	told := 0
	g.check(changes.Options{Notice: func(text string) {
		if !strings.Contains(text, "were compared") {
			t.Errorf("notice %q", text)
		}
		told++
	}})
	if told == 0 {
		t.Error("nobody was told")
	}
	f, m := open(t, g.table, changes.Options{})
	for _, err := range f.Versions(ctx, 1, f.Newest()) {
		if !errors.Is(err, changes.ErrNoChanges) || !strings.Contains(err.Error(), "there is no change data of versions up to") {
			t.Errorf("by version: %v", err)
		}
	}
	if _, err := savepoint.Delete(ctx, g.table, "2022-07-15", time.Now()); err != nil {
		t.Fatal(err)
	}
	f, m = open(t, g.table, changes.Options{})
	if _, err := f.Before("2022-07-16"); err != nil || len(m.Entries) == 0 {
		t.Error(err)
	}
	for _, err := range f.Labels(ctx, "2022-07-15", "2022-07-16") {
		if !errors.Is(err, savepoint.ErrDeleted) {
			t.Errorf("a deleted label: %v", err)
		}
	}
}

// Whoever follows a table gets each version once, and the state of each seal, whatever
// was rolled back in between.
func TestFollow(t *testing.T) {
	for _, changeData := range []bool{true, false} {
		g := newRig(t, changeData)
		g.days()
		g.ingest()
		sealed := changes.Follow{Table: g.table, Position: -1, Sealed: true}
		each := changes.Follow{Table: g.table, Position: -1}
		atSeal, atEnd := rows{}, rows{}
		ends := 0
		look := func() {
			t.Helper()
			sealed.Table, each.Table = g.table, g.table
			feed, list, err := sealed.Look(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, end := range list {
				u, done, err := feed.NetBetween(ctx, sealed.Position, end)
				if err != nil {
					t.Fatal(err)
				}
				// Rows are in the columns of today: those of before are read again in them.
				atSeal = rowsAt(t, g.table, sealed.Position, feed.Columns()).apply(t, unit(t, feed, u))
				equal(t, "sealed "+u.Label, atSeal, rowsAt(t, g.table, end, feed.Columns()))
				done()
				if u.Label == "" || u.Version != end {
					t.Errorf("unit %q of version %d", u.Label, u.Version)
				}
				sealed.Position = end
				ends++
			}
			if !changeData {
				return
			}
			feed, list, err = each.Look(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, end := range list {
				from := each.Position + 1
				atEnd = rowsAt(t, g.table, from-1, feed.Columns()).apply(t, collectUnits(t, feed, feed.NetVersions(ctx, from, end)))
				equal(t, "each", atEnd, rowsAt(t, g.table, end, feed.Columns()))
				each.Position = end
			}
		}
		look()
		if _, err := savepoint.Rollback(ctx, g.table, "2022-07-15", savepoint.RollbackOptions{Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		look()
		g.ingest()
		look()
		g.put(19, "u", 1, map[string]any{"v": "later"})
		g.ingest()
		look()
		look()
		if ends < 5 {
			t.Errorf("%d seals", ends)
		}
		sealed.Position = 1000
		if _, _, err := sealed.Look(ctx); !errors.Is(err, changes.ErrReplaced) {
			t.Errorf("a table that is behind: %v", err)
		}
	}
}
