package ingest_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// story is two days of a table: a load, changes that wait for the second day, late
// ones, a bad record, seals, a rollback and the second day again.
type story struct {
	cal    *snapshotter.Calendar
	topic  map[int32][]*event
	day1   map[int32][]*event // what has arrived before the first day ends
	mid    int64              // clocks: on the second day, and behind it
	behind int64
}

func newStory(t *testing.T) *story {
	cal, err := snapshotter.NewCalendar("day", "Asia/Shanghai", "")
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) int64 {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when.UnixMicro()
	}
	s := newSource(rand.New(rand.NewPCG(1, 1)), features{partitions: 2}, cal, at("2022-07-16T12:00:00+08:00"))
	s.key, s.counter = []string{"id"}, 0
	emit := func(part int32, when string, op byte, id int, more func(*what)) {
		s.now = at("2022-07-" + when + "+08:00")
		w := what{op: op, part: part, key: s.keyOf(fmt.Sprint(id)), time: s.now}
		if op != 'd' {
			w.after = map[string]string{"id": fmt.Sprint(id), "v": fmt.Sprint(len(s.topic)), "note": `"x"`}
		}
		if more != nil {
			more(&w)
		}
		s.emit(w)
	}
	read := func(snapshot string) func(*what) {
		return func(w *what) {
			w.kind, w.snapshot, w.pos = fullRead, snapshot, &change.Position{File: 7, Pos: 90}
		}
	}
	s.file, s.pos = 7, 100
	for i, flag := range []string{"first", "true", "true", "last"} {
		emit(int32(i%2), "16T12:00:00", 'r', i, read(flag))
	}
	emit(0, "16T13:00:00", 'u', 0, nil)
	emit(1, "16T13:00:01", 'd', 1, nil)
	s.tombstone(`{"id":1}`)
	emit(0, "16T23:59:50", 'c', 4, nil)
	emit(0, "17T00:01:00", 'u', 4, nil) // held
	emit(1, "17T00:02:00", 'c', 5, nil) // held
	s.bad()
	emit(0, "16T23:59:59", 'u', 2, nil) // drift
	first := len(s.topic)
	emit(0, "17T00:09:00", 'd', 0, nil) // held
	emit(1, "17T00:11:00", 'u', 3, func(w *what) {
		w.old, w.before = s.keyOf("3"), map[string]string{"id": "3"}
		w.key = s.keyOf("9")
		w.after["id"] = "9"
	})
	emit(0, "17T00:12:00", 'c', 6, nil)
	emit(0, "16T10:00:00", 'u', 6, nil) // late
	emit(1, "17T12:00:00", 'c', 7, nil)
	emit(0, "17T13:00:00", 'd', 2, nil)
	emit(0, "18T00:01:00", 'c', 8, nil) // held
	events, _ := s.deliver()
	split := func(events []*event) map[int32][]*event {
		out := map[int32][]*event{}
		for _, e := range events {
			out[e.record.Partition] = append(out[e.record.Partition], e)
		}
		return out
	}
	return &story{cal: cal, topic: split(events), day1: split(events[:first]), mid: at("2022-07-17T00:03:00+08:00"), behind: at("2022-07-18T00:15:00+08:00")}
}

// play tells the story on a store; a step that fails is told again from its start.
func (st *story) play(store, dead objstore.Store, heal func()) error {
	lane := func(topic map[int32][]*event, clock int64) func() error {
		return func() error {
			o := ingest.Options{
				Name: "t", Store: store, DeadLetterStore: dead, Calendar: st.cal, Key: []string{"id"}, BatchRows: 3, UntilEnd: true,
				MaxDeleteFraction: 1, CheckpointEvery: 4, Now: func() time.Time { return time.UnixMicro(clock) }, Decode: decode.Options{KeyColumns: []string{"id"}},
			}
			atLast.set(&o, 0) // the longest way between what is taken and its commit
			l, err := ingest.New(o, newFeed(rand.New(rand.NewPCG(3, 3)), topic, clock, 4))
			if err != nil {
				return err
			}
			return l.Run(ctx)
		}
	}
	steps := []func() error{
		lane(st.day1, st.mid), lane(st.topic, st.mid), lane(st.topic, st.behind),
		func() error {
			_, err := savepoint.Rollback(ctx, delta.New(store), "2022-07-16", savepoint.RollbackOptions{Now: time.Now()})
			return err
		},
		lane(st.topic, st.behind),
	}
	for i, step := range steps {
		if err := step(); err == nil {
			continue
		}
		heal()
		if err := step(); err != nil {
			return fmt.Errorf("step %d, after the fault: %w", i, err)
		}
	}
	return nil
}

// tell gives what a table says: labels, rows, counts, offsets, dead letters.
func tell(t *testing.T, store, dead objstore.Store) string {
	t.Helper()
	table := delta.New(store)
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range m.Entries {
		name, _, _ := strings.Cut(e.Name, "@")
		fmt.Fprintf(&b, "%s %s kept %v\n", name, e.State, e.Kept)
		if e.State == savepoint.RolledBack && !e.Kept {
			continue
		}
		at, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := rowsOf(store, at)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  %s\n", strings.Join(rows, "\n  "))
		counts := m.Progress.Counts
		if e.State == savepoint.Sealed {
			ev, err := m.Evidence(ctx, table, e)
			if err != nil {
				t.Fatal(err)
			}
			counts = ev.Counts
			fmt.Fprintf(&b, "  %q %+v late %+v\n", ev.Attributes, ev.Partitions, ev.Late)
		}
		if e.State != savepoint.RolledBack {
			fmt.Fprintf(&b, "  %+v\n", counts)
		}
	}
	fmt.Fprintf(&b, "totals %+v dead letters %v held %d\n", m.Progress.Totals, m.Progress.DeadLetters, len(m.Progress.Held))
	err = deadletter.Open(dead).Each(ctx, func(e deadletter.Entry) error {
		fmt.Fprintf(&b, "dead letter %d@%d %s %s %s\n", e.Partition, e.Offset, e.Reason, e.Label, e.Value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// references collects the objects that any version needs, and says which of them
// are not there.
func references(t *testing.T, store objstore.Store) (needed map[string]bool, missing []string) {
	t.Helper()
	needed = map[string]bool{}
	table := delta.New(store)
	versions, err := table.Versions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range versions {
		if v != int64(i) {
			t.Fatalf("versions are %v", versions)
		}
		s, err := table.SnapshotAt(ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range s.Files() {
			key, err := action.Key(a.Path)
			if err != nil {
				t.Fatal(err)
			}
			needed[key] = true
			if a.DeletionVector != nil {
				key, _, err := delta.VectorKey(a.DeletionVector)
				if err != nil {
					t.Fatal(err)
				}
				needed[key] = true
			}
		}
		info, err := table.CommitInfo(ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		p, err := progress.Decode(info)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range p.Held {
			needed[f.Key] = true
		}
		for _, f := range p.Markers {
			needed[f.Key] = true
		}
	}
	for key := range needed {
		if _, err := store.Head(ctx, key); err != nil {
			missing = append(missing, key)
		}
	}
	return needed, missing
}

// orphans are the objects that no version needs, log and checkpoints aside.
func orphans(t *testing.T, store objstore.Store, needed map[string]bool) (list []string) {
	t.Helper()
	for o, err := range store.List(ctx, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		isLog := strings.HasPrefix(o.Key, "_delta_log/") && !strings.HasPrefix(o.Key, "_delta_log/_gscd/")
		if !needed[o.Key] && !isLog {
			list = append(list, o.Key)
		}
	}
	return list
}

// TestEveryCallFails lets each call of the store fail once, in each way in which
// calls fail, tells the rest of the story on what is left, and compares.
func TestEveryCallFails(t *testing.T) {
	st := newStory(t)
	reference, referenceDead := mem.New(), mem.New()
	counting := faulty.New(reference)
	if err := st.play(counting, referenceDead, func() { t.Error("a step failed without a fault") }); err != nil {
		t.Fatal(err)
	}
	want := tell(t, reference, referenceDead)
	for _, part := range []string{
		"2022-07-16 sealed kept false\n", "2022-07-17 sealed kept false\n", "2022-07-17 rolled-back kept true\n", "2022-07-18 open kept false\n",
		"late [{Topic:t Partition:0", "Held:0", "dead letters map[2022-07-16:1]", "id=9 note=\"x\"",
	} {
		if !strings.Contains(want, part) {
			t.Fatalf("the story lacks %q:\n%s", part, want)
		}
	}
	needed, missing := references(t, reference)
	if list := orphans(t, reference, needed); len(list)+len(missing) > 0 {
		t.Fatalf("without a fault there are orphans %q, and missing are %q", list, missing)
	}
	calls := counting.Calls()
	t.Logf("%d calls", len(calls))
	step := 1
	if testing.Short() || underRace {
		step = 7
	}
	for name, f := range map[string]faulty.Fault{
		"error before":     {},
		"lost answer":      faulty.LostAnswer,
		"never arrived":    faulty.NeverArrived,
		"crash before":     {Crash: true},
		"crash behind":     {Crash: true, Applied: true},
		"error, and there": {Applied: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := 0; i < len(calls); i += step {
				isWrite := slices.Contains(faulty.Writes, calls[i].Op)
				if !isWrite && (f.Applied || f.Err != nil) {
					continue // a read has no effect
				}
				st.failAt(t, calls[i].N, f, want)
			}
		})
	}
}

func (st *story) failAt(t *testing.T, i int64, f faulty.Fault, want string) {
	t.Helper()
	below, dead := mem.New(), mem.New()
	var hit faulty.Call
	var committed map[string][]byte
	store := faulty.New(below)
	store.Fail(func(c faulty.Call) *faulty.Fault {
		if c.N != i {
			return nil
		}
		hit, committed = c, commitsOf(below)
		return &f
	})
	if err := st.play(store, dead, store.Heal); err != nil {
		t.Fatalf("%s: %v", hit, err)
	}
	if got := tell(t, below, dead); got != want {
		t.Fatalf("%s: the table says\n%s\nwithout a fault\n%s", hit, got, want)
	}
	for key, body := range committed {
		if now, err := below.Get(ctx, key); err != nil || !bytes.Equal(now, body) {
			t.Fatalf("%s: %s was committed before, and is now %q, %v", hit, key, now, err)
		}
	}
	if !slices.Contains(faulty.Writes, hit.Op) {
		return // nothing was left half done
	}
	needed, missing := references(t, below)
	if len(missing) > 0 {
		t.Fatalf("%s: a version needs %q, which are not there", hit, missing)
	}
	for _, key := range orphans(t, below, needed) {
		known := slices.ContainsFunc([]string{".parquet", ".bin", ".zst"}, func(end string) bool { return strings.HasSuffix(key, end) })
		if !known {
			t.Fatalf("%s: it left %s behind", hit, key)
		}
	}
}

// commitsOf gives the commits of a log.
func commitsOf(store objstore.Store) map[string][]byte {
	out := map[string][]byte{}
	for v := int64(0); ; v++ {
		body, err := store.Get(ctx, deltalog.CommitKey(v))
		if errors.Is(err, objstore.ErrNotExist) {
			return out
		}
		out[deltalog.CommitKey(v)] = body
	}
}

// TestEveryDeadLetterCallFails does the same to the store of the dead letters.
func TestEveryDeadLetterCallFails(t *testing.T) {
	st := newStory(t)
	reference, referenceDead := mem.New(), mem.New()
	counting := faulty.New(referenceDead)
	if err := st.play(reference, counting, func() { t.Error("a step failed without a fault") }); err != nil {
		t.Fatal(err)
	}
	want := tell(t, reference, referenceDead)
	if counting.Count(faulty.PutIfAbsent) == 0 {
		t.Fatal("the story wrote no dead letter")
	}
	faults := map[string]faulty.Fault{"error before": {}, "lost answer": faulty.LostAnswer, "crash behind": {Crash: true, Applied: true}}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		for i := int64(1); i <= counting.Count(); i++ {
			below, dead := mem.New(), mem.New()
			failing := faulty.New(dead, faulty.Nth(i, faults[name]))
			if err := st.play(below, failing, failing.Heal); err != nil {
				t.Fatalf("%s at call %d: %v", name, i, err)
			}
			if got := tell(t, below, dead); got != want {
				t.Fatalf("%s at call %d: the table says\n%s\nwithout a fault\n%s", name, i, got, want)
			}
		}
	}
}
