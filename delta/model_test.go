package delta_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// machine drives a table with random histories beside a model: for each version
// what it must show, and the objects it needs.
type machine struct {
	clock    *clock
	store    *mem.Store
	table    *delta.Table
	snapshot *delta.Snapshot
	// the model
	order   []string          // live paths in the order they came
	live    map[string]string // path -> the text that files() shows
	txns    map[string]int64
	states  []string    // by version
	objects [][]string  // by version
	times   []time.Time // by version
	pins    map[int64]*delta.Snapshot
	vectors int
}

func (m *machine) note(t *rapid.T) {
	var list, objects []string
	for _, p := range m.order {
		list = append(list, m.live[p])
	}
	for _, a := range m.snapshot.Files() {
		objects = append(objects, a.Path)
		if a.DeletionVector != nil {
			objects = append(objects, vectorFile(t, a))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version %d files %s txns", len(m.states), strings.Join(list, " "))
	for _, app := range slices.Sorted(maps.Keys(m.txns)) {
		fmt.Fprintf(&b, " %s=%d", app, m.txns[app])
	}
	if got := state(m.snapshot); !strings.HasPrefix(got, b.String()+" metadata") {
		t.Fatalf("the snapshot says\n%s\nthe model\n%s", got, b.String())
	}
	m.states = append(m.states, b.String())
	m.objects = append(m.objects, objects)
	m.times = append(m.times, m.clock.at)
}

func (m *machine) commit(t *rapid.T) {
	x := delta.NewTransaction(m.table, m.snapshot)
	version := int64(len(m.states))
	for i := range rapid.IntRange(0, 3).Draw(t, "adds") {
		path := fmt.Sprintf("f%d-%d.parquet", version, i)
		m.write(t, path)
		x.Add(add(path))
		m.order, m.live[path] = append(m.order, path), path
	}
	for _, path := range slices.Clone(m.order) {
		a, ok := m.snapshot.File(path)
		if !ok {
			continue
		}
		switch rapid.IntRange(0, 5).Draw(t, "touch "+path) {
		case 0:
			x.Remove(delta.RemoveOf(a, m.clock.at, true))
			m.order = slices.DeleteFunc(m.order, func(p string) bool { return p == path })
			delete(m.live, path)
		case 1:
			m.vectors++
			x.Remove(delta.RemoveOf(a, m.clock.at, true))
			again := withVector(a, m.vectors)
			m.write(t, vectorFile(t, again))
			x.Add(again)
			m.live[path] = fmt.Sprintf("%s(%d)", path, m.vectors)
		}
	}
	app := rapid.SampledFrom([]string{"gscd", "gscd.seal/1", "other"}).Draw(t, "app")
	x.SetTxn(app, delta.OwnVersion)
	m.txns[app] = version
	out, err := x.Commit(ctx)
	if err != nil || !out.Committed || out.Version != version {
		t.Fatalf("%+v, %v", out, err)
	}
	stale := m.snapshot
	m.snapshot = out.Snapshot
	m.note(t)
	if rapid.IntRange(0, 4).Draw(t, "conflict") == 0 {
		late := delta.NewTransaction(m.table, stale)
		late.Add(add("late.parquet"))
		if out, err := late.Commit(ctx); err != nil || out.Conflict == nil {
			t.Fatalf("a stale base won: %+v, %v", out, err)
		}
	}
}

func (m *machine) write(t *rapid.T, key string) {
	if err := m.store.Put(ctx, key, []byte(key)); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) checkpoint(t *rapid.T) {
	result, err := m.table.Checkpoint(ctx, m.snapshot, delta.CheckpointOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.snapshot = result.Snapshot
}

func (m *machine) pin(t *rapid.T) {
	if rapid.Bool().Draw(t, "unpin") && len(m.pins) > 0 {
		delete(m.pins, rapid.SampledFrom(slices.Sorted(maps.Keys(m.pins))).Draw(t, "pin"))
		return
	}
	m.pins[m.snapshot.Version()] = m.snapshot
}

func (m *machine) advance(t *rapid.T) {
	m.clock.advance(time.Duration(rapid.IntRange(1, 300).Draw(t, "minutes")) * time.Minute)
}

func (m *machine) clean(t *rapid.T) {
	var pinned []int64
	for v := range m.pins {
		pinned = append(pinned, v)
	}
	if _, err := m.table.CleanLog(ctx, delta.CleanOptions{Pinned: pinned, KeepSince: m.clock.at.Add(-5 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) vacuum(t *rapid.T) {
	var keep []*delta.Snapshot
	for _, s := range m.pins {
		keep = append(keep, s)
	}
	report, err := delta.Vacuum(ctx, m.table, delta.VacuumOptions{Keep: keep, KeepVersionsSince: m.clock.at.Add(-5 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	result, err := m.table.Checkpoint(ctx, m.snapshot, delta.CheckpointOptions{Drop: report.Obsolete})
	if err != nil {
		t.Fatal(err)
	}
	m.snapshot = result.Snapshot
}

func (m *machine) restore(t *rapid.T) {
	if len(m.pins) == 0 {
		t.Skip("no pins")
	}
	target := m.pins[rapid.SampledFrom(slices.Sorted(maps.Keys(m.pins))).Draw(t, "target")]
	adds, removes := delta.DiffForRestore(m.snapshot, target, m.clock.at)
	x := delta.NewTransaction(m.table, m.snapshot)
	for _, a := range adds {
		x.Add(a)
	}
	for _, r := range removes {
		x.Remove(r)
	}
	x.SetTxn("restore", delta.OwnVersion)
	out, err := x.Commit(ctx)
	if err != nil || !out.Committed {
		t.Fatalf("%+v, %v", out, err)
	}
	m.snapshot = out.Snapshot
	// The model: the target's files; those that never left keep their places.
	old := m.live
	m.live = map[string]string{}
	for _, a := range target.Files() {
		m.live[a.Path] = a.Path
		if a.DeletionVector != nil {
			m.live[a.Path] = fmt.Sprintf("%s(%d)", a.Path, a.DeletionVector.Cardinality)
		}
	}
	m.order = slices.DeleteFunc(m.order, func(p string) bool { _, stays := m.live[p]; return !stays })
	for _, a := range target.Files() {
		if _, there := old[a.Path]; !there {
			m.order = append(m.order, a.Path)
		}
	}
	m.txns["restore"] = out.Version
	m.note(t)
}

// reopen replaces the snapshot in hand by one read from the log, or updates an older one.
func (m *machine) reopen(t *rapid.T) {
	m.snapshot = reopen(t, m.table)
}

// check holds the table against the model.
func (m *machine) check(t *rapid.T) {
	fresh := reopen(t, m.table)
	if state(fresh) != state(m.snapshot) {
		t.Fatalf("reopened\n%s\nin hand\n%s", state(fresh), state(m.snapshot))
	}
	versions, err := m.table.Versions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	must := slices.Collect(maps.Keys(m.pins))
	for v, at := range m.times {
		// The versions that were the newest in the last five hours are kept, too.
		if v == len(m.times)-1 || m.times[v+1].After(m.clock.at.Add(-5*time.Hour)) || at.After(m.clock.at.Add(-5*time.Hour)) {
			must = append(must, int64(v))
		}
	}
	for _, v := range must {
		if !slices.Contains(versions, v) {
			t.Fatalf("version %d is lost, there are %s", v, deltalog.Ranges(versions))
		}
		for _, key := range m.objects[v] {
			if _, err := m.store.Head(ctx, key); err != nil {
				t.Fatalf("version %d lost %v", v, err)
			}
		}
	}
	look := slices.Collect(maps.Keys(m.pins)) // all of them would take most of the test's time
	look = append(look, rapid.SampledFrom(versions).Draw(t, "look"))
	for _, v := range look {
		s, err := m.table.SnapshotAt(ctx, v)
		if err != nil || !strings.HasPrefix(state(s), m.states[v]+" metadata") {
			t.Fatalf("version %d: %v\n%s\nwant\n%s", v, err, state(s), m.states[v])
		}
	}
}

func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{clock: newClock(), live: map[string]string{}, txns: map[string]int64{}, pins: map[int64]*delta.Snapshot{}}
		m.store, m.table, m.snapshot = newTable(t, m.clock)
		m.note(t)
		t.Repeat(map[string]func(*rapid.T){
			"commit": m.commit, "commit too": m.commit, "checkpoint": m.checkpoint, "pin": m.pin, "advance": m.advance,
			"clean": m.clean, "vacuum": m.vacuum, "restore": m.restore, "reopen": m.reopen,
			"": m.check,
		})
	})
}

// TestSnapshotsShareWhatDidNotChange: many small commits change no older snapshot.
func TestSnapshotsShareWhatDidNotChange(t *testing.T) {
	_, table, s := newTable(t, newClock())
	x := delta.NewTransaction(table, s)
	for i := range 500 {
		x.Add(add(fmt.Sprintf("f%03d", i)))
	}
	s = commit(t, x)
	first := s
	want := files(first)
	for i := range 300 {
		x := delta.NewTransaction(table, s)
		a, _ := s.File(fmt.Sprintf("f%03d", i))
		x.Remove(delta.RemoveOf(a, time.UnixMilli(1), true))
		if i%3 > 0 {
			x.Add(withVector(a, i))
		}
		s = commit(t, x)
	}
	if s.NumFiles() != 400 || files(first) != want {
		t.Errorf("%d files; the first snapshot has %d", s.NumFiles(), first.NumFiles())
	}
	if a, ok := s.File("f299"); !ok || a.DeletionVector.Cardinality != 299 {
		t.Errorf("%+v", a)
	}
	if _, ok := s.File("f297"); ok {
		t.Error("f297 is still there")
	}
	if got := reopen(t, table); state(got) != state(s) {
		t.Error("reopened differs")
	}
}
