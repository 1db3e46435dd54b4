package maintain_test

import (
	"context"
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
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/maintain"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

// rig is a topic of one partition as a recording that grows, and the table of it. Days are
// those of July 2022, in UTC.
type rig struct {
	t       testing.TB
	file    string
	lines   []string
	offset  int64
	clock   time.Time
	store   *mem.Store
	dead    *mem.Store
	options func(*ingest.Options)
}

func newRig(t testing.TB) *rig {
	return &rig{t: t, file: filepath.Join(t.TempDir(), "topic.jsonl"), store: mem.New(), dead: mem.New()}
}

func july(day, hour int) time.Time { return time.Date(2022, 7, day, hour, 0, 0, 0, time.UTC) }

// put writes a value of some keys.
func (g *rig) put(at time.Time, v string, ids ...int) {
	for _, id := range ids {
		g.clock = at.Add(time.Second)
		record := map[string]any{"topic": "t", "partition": 0, "offset": g.offset, "ts": g.clock.UnixMilli(), "key": map[string]any{"id": id}, "value": map[string]any{
			"op": "u", "before": nil, "after": map[string]any{"id": id, "v": v}, "ts_ms": at.UnixMilli(),
			"source": map[string]any{"connector": "mysql", "name": "shop", "server_id": 1, "db": "d", "table": "t", "file": "b.000001", "pos": 100 + g.offset, "row": 0, "ts_ms": at.UnixMilli()},
		}}
		line, err := json.Marshal(record)
		if err != nil {
			g.t.Fatal(err)
		}
		g.lines = append(g.lines, string(line))
		g.offset++
	}
}

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
	now := g.clock
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

// days lets each of some days bring bursts of new keys, each a commit of its own, and
// changes of old ones.
func (g *rig) days(from, to, bursts int) {
	for day := from; day <= to; day++ {
		for n := range bursts {
			first := 10 * (day*bursts + n)
			ids := []int{1, 2}
			for id := first; id < first+5; id++ {
				ids = append(ids, id)
			}
			g.put(july(day, 1+n), fmt.Sprintf("%d/%d", day, n), ids...)
			g.ingest()
		}
	}
}

func options(now time.Time) maintain.Options {
	return maintain.Options{
		Layout: ingest.Layout, History: time.Minute, RolledBack: 24 * time.Hour, Now: now,
		Retention: savepoint.Policy{
			Text: "keep 3 days, then week ends for 50 years", Keep: savepoint.Span{N: 3, Unit: "day"},
			Then: []savepoint.Stage{{Ends: "week", Until: savepoint.Span{N: 50, Unit: "year"}}},
		},
	}
}

func (g *rig) maintain(o maintain.Options) *maintain.Report {
	g.t.Helper()
	r, err := maintain.Run(ctx, delta.New(g.store), o)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

func value(t testing.TB, r *maintain.Report, step, what string) int64 {
	t.Helper()
	for _, l := range r.Lines {
		if l.Step == step && l.What == what {
			if n, ok := l.Value.(int64); ok {
				return n
			}
		}
	}
	t.Fatalf("no figure %s of %s in %v", what, step, r.Lines)
	return 0
}

func rowsAt(t testing.TB, store objstore.Store, version int64) string {
	t.Helper()
	table := delta.New(store)
	var s *delta.Snapshot
	var err error
	if version < 0 {
		s, err = table.Snapshot(ctx)
	} else {
		s, err = table.SnapshotAt(ctx, version)
	}
	if err != nil {
		t.Fatal(err)
	}
	reading, err := scan.New(store, s, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		rows = append(rows, fmt.Sprint(row))
	}
	slices.Sort(rows)
	return strings.Join(rows, "\n")
}

// pinned gives the rows of every savepoint by its name, and of the newest version.
func pinned(t testing.TB, store objstore.Store) map[string]string {
	t.Helper()
	s, err := delta.New(store).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"newest": rowsAt(t, store, -1)}
	for _, p := range savepoint.PinsOf(s) {
		for _, name := range p.Names {
			out[name] = rowsAt(t, store, p.Version)
		}
	}
	return out
}

// same wants the rows of whatever is in both, and gives the names of what is gone.
func same(t testing.TB, before, now map[string]string) (gone []string) {
	t.Helper()
	for name, rows := range before {
		got, there := now[name]
		switch {
		case !there:
			gone = append(gone, name)
		case got != rows:
			t.Errorf("%s: %s\nwant %s", name, got, rows)
		}
	}
	slices.Sort(gone)
	return gone
}

func check(t testing.TB, store objstore.Store) {
	t.Helper()
	report, err := savepoint.Check(ctx, delta.New(store), savepoint.CheckOptions{Deep: true, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Faults {
		t.Errorf("check: %+v", f)
	}
}

// readOnly fails at whatever would change the store.
type readOnly struct {
	objstore.Store
}

var errReadOnly = errors.New("the store is read only")

func (readOnly) Put(context.Context, string, []byte) error         { return errReadOnly }
func (readOnly) PutIfAbsent(context.Context, string, []byte) error { return errReadOnly }
func (readOnly) Delete(context.Context, string) error              { return errReadOnly }
