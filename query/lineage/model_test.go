package lineage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/query/lineage"
	"github.com/gscd-io/gscd/query/rowkey"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

const firstDay = 15

// record is a change in the topic.
type record struct {
	id   int
	op   string
	v    string
	w    any
	time time.Time
}

// world is a topic of two partitions and the table that is made of it.
type world struct {
	t       testing.TB
	random  *rand.Rand
	records [2][]record
	lines   []string
	pos     int64
	clock   time.Time
	live    map[int]bool
	store   *mem.Store
	options func(*ingest.Options)
	// vacuumed tells that commits and files of versions without a savepoint are gone.
	vacuumed bool
}

func (w *world) put(at time.Time, op string, id int, v string, extra any) {
	p := id % 2
	w.pos += 10
	row := map[string]any{"id": id, "v": v}
	if extra != nil {
		row["w"] = extra
	}
	value := map[string]any{"op": op, "before": nil, "after": row, "ts_ms": at.UnixMilli(), "source": map[string]any{
		"connector": "mysql", "name": "shop", "server_id": 7, "db": "d", "table": "t", "file": "b.000001", "pos": w.pos, "row": 0, "ts_ms": at.UnixMilli()}}
	if op == "d" {
		value["before"], value["after"] = row, nil
	}
	line, err := json.Marshal(map[string]any{"topic": "t", "partition": p, "offset": len(w.records[p]), "ts": at.UnixMilli() + 1000, "key": map[string]any{"id": id}, "value": value})
	if err != nil {
		w.t.Fatal(err)
	}
	w.records[p] = append(w.records[p], record{id, op, v, extra, at})
	w.lines = append(w.lines, string(line))
	w.live[id] = op != "d"
	w.clock = at
}

// day puts a day's changes, and the first of the next one on each partition.
func (w *world) day(day int) {
	at := time.Date(2022, 7, day, 1, 0, 0, 0, time.UTC)
	for range 4 + w.random.IntN(20) {
		at = at.Add(time.Duration(1+w.random.IntN(30)) * time.Minute)
		id := w.random.IntN(6)
		op := "u"
		switch {
		case !w.live[id]:
			op = "c"
		case w.random.IntN(4) == 0:
			op = "d"
		}
		var extra any
		if day > firstDay+2 {
			extra = w.random.IntN(2)
		}
		w.put(at, op, id, string('a'+rune(w.random.IntN(3))), extra)
	}
	for _, id := range []int{100, 101} {
		w.put(time.Date(2022, 7, day, 23, 59, id-100, 0, time.UTC), "u", id, fmt.Sprint(day), nil)
	}
}

func (w *world) ingest() {
	file := filepath.Join(w.t.TempDir(), "topic.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(w.lines, "\n")+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	source, err := recording.Open([]string{file}, recording.Options{Topic: "t"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer source.Close()
	calendar, err := snapshotter.NewCalendar("day", "UTC", "00:00")
	if err != nil {
		w.t.Fatal(err)
	}
	now := w.clock.Add(time.Second)
	o := ingest.Options{Name: "t", Store: w.store, DeadLetterStore: mem.New(), Calendar: calendar, Key: []string{"id"},
		DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, Now: func() time.Time { return now }, UntilEnd: true}
	w.options(&o)
	lane, err := ingest.New(o, source)
	if err == nil {
		err = lane.Run(ctx)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) open() (*delta.Table, *delta.Snapshot, *savepoint.Map) {
	table, err := delta.Open(ctx, w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		w.t.Fatal(err)
	}
	return table, s, m
}

// rowAt scans a version for a key; "" where it has none. whole is false where files of the
// version are gone.
func (w *world) rowAt(s *delta.Snapshot, id int) (row string, whole bool) {
	var columns []string
	for _, name := range []string{"v", "w"} {
		if s.Schema().Index(name) >= 0 {
			columns = append(columns, name)
		}
	}
	reading, err := scan.New(w.store, s, scan.Options{Columns: append(columns, "id")})
	if err != nil {
		w.t.Fatal(err)
	}
	for cells, err := range reading.Rows(ctx) {
		if errors.Is(err, scan.ErrFileMissing) {
			return "", false
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if cells[len(columns)].I == int64(id) {
			row = rowText(reading.Columns()[:len(columns)], cells[:len(columns)])
		}
	}
	return row, true
}

func rowText(columns []schema.Field, row []schema.Value) (text string) {
	for i, c := range columns {
		if !row[i].IsNull() && c.Name != "id" {
			text += c.Name + string(schema.AppendText([]byte{'='}, c.Type, row[i])) + " "
		}
	}
	return text
}

func (r record) text() string {
	if r.w == nil {
		return "v=" + r.v + " "
	}
	return fmt.Sprintf("v=%s w=%v ", r.v, r.w)
}

// spelled is what versions say of a key, one behind the other: when it came, was something
// else and went.
func (w *world) spelled(table *delta.Table, labels *savepoint.Map, id int, rolledBack bool) (list []string) {
	last := ""
	for v, err := range table.History(ctx) {
		if err != nil {
			w.t.Fatal(err)
		}
		skip := false
		for _, span := range labels.Progress.Undone {
			skip = skip || v.Version >= span.From && v.Version <= span.To
		}
		if skip && !rolledBack {
			continue
		}
		s, err := table.SnapshotAt(ctx, v.Version)
		if err != nil {
			w.t.Fatal(err)
		}
		row, whole := w.rowAt(s, id)
		if !whole {
			w.t.Fatalf("version %d is not whole", v.Version)
		}
		if row != last {
			list = append(list, fmt.Sprintf("%d %s", v.Version, row))
			last = row
		}
	}
	return list
}

func (w *world) event(e *lineage.Event) record {
	if e == nil || e.Partition < 0 || e.Topic != "t" || e.Offset >= int64(len(w.records[e.Partition])) || e.Server != "shop" || e.ServerID != 7 || !e.HasPosition {
		w.t.Fatalf("there is no such event: %+v", e)
	}
	r := w.records[e.Partition][e.Offset]
	if !r.time.Equal(e.Time) {
		w.t.Fatalf("%+v is of %s", e, r.time)
	}
	return r
}

func wentAt(s lineage.State) int64 {
	if s.Went == nil {
		return -1
	}
	return s.Went.Version
}

// checkHistory holds the history of a key against what each version has.
func (w *world) checkHistory(id int, rolledBack bool) *lineage.KeyHistory {
	table, s, labels := w.open()
	text := fmt.Sprint(id)
	h, err := lineage.History(ctx, table, s, labels, lineage.HistoryOptions{Key: []rowkey.Cell{{Column: "id", Text: &text}}, After: -1, RolledBack: rolledBack})
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for i, state := range h.States {
		row := rowText(h.Columns, state.Row)
		came := h.First
		if state.Came != nil {
			came = state.Came.Version
		}
		got = append(got, fmt.Sprintf("%d %s", came, row))
		if r := w.event(state.Source); r.id != id || r.op == "d" || r.text() != row {
			w.t.Fatalf("key %d: the state %s is said to be of %+v", id, row, r)
		}
		next := i+1 < len(h.States) && h.States[i+1].Came.Version == wentAt(state)
		switch {
		case state.End == lineage.Lasts:
			if i != len(h.States)-1 || !state.To.IsZero() {
				w.t.Fatalf("key %d: state %d of %d lasts", id, i, len(h.States))
			}
		case state.End == lineage.Deleted:
			got = append(got, fmt.Sprintf("%d ", state.Went.Version))
			if r := w.event(state.Ended); r.id != id || r.op != "d" || !r.time.Equal(state.To) || next {
				w.t.Fatalf("key %d: deleted by %+v: %+v, went %+v, came %+v, next %v", id, r, state, state.Went, state.Came, next)
			}
		case state.End == lineage.Updated:
			if r := w.event(state.Ended); r.id != id || r.op == "d" || !next || len(h.States[i+1].Changed) == 0 {
				w.t.Fatalf("key %d: updated by %+v", id, r)
			}
		case !next:
			got = append(got, fmt.Sprintf("%d ", state.Went.Version))
		}
	}
	if w.vacuumed { // versions without some of their files may still tell of the key
		w.checkSavepoints(table, labels, id, got)
	} else if want := w.spelled(table, labels, id, rolledBack); !slices.Equal(got, want) {
		w.t.Fatalf("key %d (rolled back %v): the history says\n%s\nthe versions have\n%s", id, rolledBack, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return h
}

// checkSavepoints holds the state in force at each savepoint against its rows.
func (w *world) checkSavepoints(table *delta.Table, labels *savepoint.Map, id int, got []string) {
	for _, version := range labels.Pinned() {
		s, err := table.SnapshotAt(ctx, version)
		if err != nil {
			w.t.Fatal(err)
		}
		undone := slices.ContainsFunc(labels.Progress.Undone, func(span progress.Span) bool { return version >= span.From && version <= span.To })
		want, whole := w.rowAt(s, id)
		if !whole {
			w.t.Fatalf("savepoint %d is not whole", version)
		}
		in := ""
		for _, line := range got {
			from, row, _ := strings.Cut(line, " ")
			if at, err := strconv.ParseInt(from, 10, 64); err == nil && at <= version {
				in = row
			}
		}
		if in != want && !undone {
			w.t.Fatalf("key %d at savepoint %d: %q, want %q of %q", id, version, in, want, got)
		}
	}
}

// checkBlame holds the rows of every sealed day against the last event of each key in it.
func (w *world) checkBlame() {
	table, _, labels := w.open()
	for _, e := range labels.Entries {
		if e.State != savepoint.Sealed || e.Kept {
			continue
		}
		s, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			w.t.Fatal(err)
		}
		b, err := lineage.NewBlame(ctx, table, s, labels, scan.Options{})
		if err != nil {
			w.t.Fatal(err)
		}
		rows := 0
		for row, err := range b.Rows(ctx) {
			if err != nil {
				w.t.Fatal(err)
			}
			rows++
			id := int(row.Cells[0].I)
			last, at := -1, time.UnixMicro(labels.Calendar.End(e.Label))
			for offset, r := range w.records[id%2] {
				if r.id == id && r.time.Before(at) {
					last = offset
				}
			}
			r := w.event(row.Source)
			if row.Source.Offset != int64(last) || row.Label != r.time.Format(time.DateOnly) || row.Version < 0 || row.Version > e.Version {
				w.t.Fatalf("as of %s row %d is of %+v, label %s, version %d; the last event is %d", e.Name, id, row.Source, row.Label, row.Version, last)
			}
		}
		if evidence, err := labels.Evidence(ctx, table, e); err != nil || evidence.Rows != int64(rows) {
			w.t.Fatalf("%s: %d rows of %v, %v", e.Name, rows, evidence, err)
		}
	}
}

// rowsAt scans a version: rows by key.
func (w *world) rowsAt(s *delta.Snapshot) map[int64]string {
	reading, err := scan.New(w.store, s, scan.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	rows := map[int64]string{}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			w.t.Fatal(err)
		}
		rows[row[s.Schema().Index("id")].I] = rowText(reading.Columns(), row)
	}
	return rows
}

// checkDiff holds the diff of any two sealed days, both ways, against their rows.
func (w *world) checkDiff() {
	table, _, labels := w.open()
	var days []*delta.Snapshot
	for _, e := range labels.Entries {
		if e.State == savepoint.Sealed && !e.Kept {
			s, err := table.SnapshotAt(ctx, e.Version)
			if err != nil {
				w.t.Fatal(err)
			}
			days = append(days, s)
		}
	}
	for _, from := range days {
		before := w.rowsAt(from)
		for _, to := range days {
			after := w.rowsAt(to)
			d, err := diff.New(w.store, from, to, diff.Options{})
			if err != nil {
				w.t.Fatal(err)
			}
			columns := make([]schema.Field, len(d.Columns()))
			for i, c := range d.Columns() {
				columns[i] = c.Field
			}
			got, last := map[int64]string{}, int64(-1)
			for c, err := range d.Changes(ctx) {
				if err != nil {
					w.t.Fatal(err)
				}
				id := c.Row()[0].I
				if id <= last {
					w.t.Fatalf("key %d behind %d", id, last)
				}
				last = id
				old, now := "", ""
				if c.Old != nil {
					old = rowText(columns, c.Old)
				}
				if c.New != nil {
					now = rowText(columns, c.New)
				}
				got[id] = fmt.Sprintf("%s %s> %s", c.Kind, old, now)
			}
			want := map[int64]string{}
			for id, row := range before {
				if after[id] == "" {
					want[id] = fmt.Sprintf("deleted %s> ", row)
				} else if after[id] != row {
					want[id] = fmt.Sprintf("updated %s> %s", row, after[id])
				}
			}
			for id, row := range after {
				if before[id] == "" {
					want[id] = fmt.Sprintf("inserted > %s", row)
				}
			}
			if !maps.Equal(got, want) {
				w.t.Fatalf("from version %d to %d: %v, want %v", from.Version(), to.Version(), got, want)
			}
		}
	}
}

// Of tables made at random, by batches of any size, in both modes of writing, with files
// laid out anew, rollbacks and cleaned logs, the history of each key is what the versions
// say, each event is that which the topic has there.
func TestModel(t *testing.T) {
	steps := map[lineage.Step]int{}
	ends := map[lineage.End]int{}
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{t: t, random: rand.New(rand.NewPCG(seed, 6)), live: map[int]bool{100: true, 101: true}, store: mem.New()}
			batch, copyOnWrite := 1+w.random.IntN(9), seed%2 == 1
			w.options = func(o *ingest.Options) {
				o.BatchRows, o.CopyOnWrite = batch, copyOnWrite
				if seed%4 >= 2 { // rows move between partitions
					o.PartitionBy = []string{"v"}
				}
			}
			days := 3 + w.random.IntN(4)
			for day := firstDay; day < firstDay+days; day++ {
				w.day(day)
				w.ingest()
				table, _, labels := w.open()
				switch w.random.IntN(4) {
				case 0:
					o := ingest.Layout(labels.Progress)
					o.SmallSize, o.TargetSize, o.PurgeShare = 1<<20, 1<<20, 0.001
					if _, err := layout.Optimize(ctx, table, o); err != nil {
						t.Fatal(err)
					}
				case 1:
					if open := labels.Progress.State.Open; open > labels.Progress.State.First {
						to := labels.Calendar.Name(open - 1)
						if _, err := savepoint.Rollback(ctx, table, to, savepoint.RollbackOptions{Now: time.Now()}); err != nil {
							t.Fatal(err)
						}
						w.ingest()
					}
				case 2:
					if seed%3 == 0 {
						w.vacuumed = true
						if _, err := savepoint.Vacuum(ctx, table, savepoint.VacuumOptions{RolledBack: time.Hour, Now: time.Now().Add(time.Minute)}); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			for id := range 6 {
				for _, rolledBack := range []bool{false, true} {
					if rolledBack && w.vacuumed {
						continue // what was between a state and the rollback that ended it is gone
					}
					for _, s := range w.checkHistory(id, rolledBack).States {
						ends[s.End]++
						if s.Came != nil {
							steps[s.Came.Step]++
						}
					}
				}
			}
			w.checkBlame()
			w.checkDiff()
		})
	}
	for _, end := range []lineage.End{lineage.Lasts, lineage.Updated, lineage.Deleted, lineage.Reverted} {
		if ends[end] == 0 {
			t.Errorf("no state ended so: %q", end)
		}
	}
	if steps[lineage.ByCommit] == 0 || steps[lineage.BySavepoint] == 0 {
		t.Errorf("steps %v", steps)
	}
}
