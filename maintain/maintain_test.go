package maintain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/maintain"
	"github.com/gscd-io/gscd/savepoint"
)

// later is when every object of the tests is older than any grace period.
func later() time.Time { return time.Now().Add(48 * time.Hour) }

// tenDays has the days 1 to 10 of July, of which the 3rd and the 10th are Sundays, three commits
// each, a savepoint with a name, and one that was rolled back.
func tenDays(t testing.TB) *rig {
	g := newRig(t)
	g.days(1, 4, 3)
	if _, err := savepoint.Rollback(ctx, delta.New(g.store), "2022-07-02", savepoint.RollbackOptions{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	g.days(5, 11, 3)
	if _, err := savepoint.CreateNamed(ctx, delta.New(g.store), "audit", 2); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPass(t *testing.T) {
	g := tenDays(t)
	before := pinned(t, g.store)
	o := options(later())

	o.DryRun, o.Thresholds.ExtraFiles = true, 1000 // what is rewritten would be freed too, 48 hours later
	dry, err := maintain.Run(ctx, delta.New(readOnly{g.store}), o)
	if err != nil {
		t.Fatal(err)
	}
	notes := map[string]string{}
	for _, l := range dry.Lines {
		if l.Step == "retention" {
			notes[l.What] = l.Note
		}
	}
	for name, note := range map[string]string{
		"2022-07-01": "goes: older than 3 days, and the last of week 2022-W26 is 2022-07-03",
		"2022-07-03": "stays: the last of week 2022-W26, kept for 50 years",
		"2022-07-10": "stays: one of the newest, which the table can go back to",
		"audit":      "stays: it has a name",
		"deleted":    "keep 3 days, then week ends for 50 years",
	} {
		if notes[name] != note {
			t.Errorf("%s: %q, want %q", name, notes[name], note)
		}
	}

	o.DryRun = false
	done := g.maintain(o)
	gone := same(t, before, pinned(t, g.store))
	want := []string{"2022-07-01", "2022-07-02", "2022-07-03@", "2022-07-04", "2022-07-05", "2022-07-06", "2022-07-07", "2022-07-08", "2022-07-09"}
	if len(gone) != len(want) {
		t.Errorf("gone are %v, want %v", gone, want)
	}
	for i, name := range want {
		if i < len(gone) && !strings.HasPrefix(gone[i], name) {
			t.Errorf("gone are %v, want %v", gone, want)
		}
	}
	check(t, g.store)
	if n := value(t, done, "retention", "deleted"); n != 8 {
		t.Errorf("%d labels deleted", n)
	}
	for _, kind := range []string{"data", "deletion_vector"} {
		if a, b := value(t, dry, "vacuum", kind), value(t, done, "vacuum", kind); a != b || a == 0 {
			t.Errorf("the dry run would free %d bytes of %s, the run freed %d", a, kind, b)
		}
	}
	o = options(later())
	o.DryRun = true
	if dry, err = maintain.Run(ctx, delta.New(readOnly{g.store}), o); err != nil {
		t.Fatal(err)
	}
	done = g.maintain(options(later()))
	for _, what := range []string{"files_removed", "bytes_removed"} {
		if a, b := value(t, dry, "layout", what), value(t, done, "layout", what); a != b || a == 0 {
			t.Errorf("the dry run says %s %d, the run %d", what, a, b)
		}
	}
	s, err := delta.New(g.store).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.NumFiles() > 2 {
		t.Errorf("%d live files, the live bytes fill one", s.NumFiles())
	}
	// The next pass frees what the files were rewritten of, and the one behind it has nothing to do.
	g.maintain(options(later()))
	if again := g.maintain(options(later())); len(again.Did) != 0 {
		t.Errorf("the third pass did %q", again.Did)
	}
	same(t, before, pinned(t, g.store))
	g.days(12, 13, 2)
	check(t, g.store)
}

// Files that savepoints need are joined only while they are few bytes.
func TestPinnedFilesAreWeighed(t *testing.T) {
	g := newRig(t)
	g.days(1, 8, 1)
	o := options(later())
	o.Retention = savepoint.Policy{Forever: true}
	o.Thresholds.PinnedBytes = 1
	r := g.maintain(o)
	if n := value(t, r, "layout", "files_removed"); n != 0 {
		t.Errorf("%d pinned files were rewritten", n)
	}
	if n := value(t, r, "layout", "files_left"); n == 0 {
		t.Errorf("no file is told to be left: %v", r.Lines)
	}
	o.Thresholds.PinnedBytes = 0 // 4 MiB
	r = g.maintain(o)
	if n := value(t, r, "layout", "files_removed"); n == 0 {
		t.Errorf("small pinned files stay: %v", r.Lines)
	}
	o.Thresholds.ExtraFiles = 100
	g.days(9, 10, 2)
	if r = g.maintain(o); value(t, r, "layout", "files_removed") != 0 {
		t.Errorf("within the threshold: %v", r.Lines)
	}
	check(t, g.store)
}

// A row that is changed again and again leaves deleted rows in files.
func TestDeadRowsGo(t *testing.T) {
	g := newRig(t)
	g.options = func(o *ingest.Options) { o.Rewrites.DeadShare = 1 } // the ingester leaves them
	var ids []int
	for id := range 400 {
		ids = append(ids, id)
	}
	g.put(july(1, 1), "first", ids...)
	g.ingest()
	g.put(july(1, 2), "second", ids[:210]...)
	g.ingest()
	s, err := delta.New(g.store).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.NumFiles(); n != 2 {
		t.Fatalf("%d files: the ingester has cleaned by itself, and nothing is left to do", n)
	}
	o := options(later())
	o.Thresholds.ExtraFiles = 10
	r := g.maintain(o) // 210 of 610 rows
	if r.Figures.DeletedRows != 210 || value(t, r, "layout", "files_removed") != 0 {
		t.Errorf("below the threshold: %+v", r)
	}
	g.put(july(1, 3), "third", ids[100:310]...)
	g.ingest()
	before := rowsAt(t, g.store, -1)
	r = g.maintain(o) // 310 of 400, 110 of 210, none of 210
	if n := value(t, r, "layout", "rows_purged"); n != 310 {
		t.Errorf("%d rows purged: %v", n, r.Lines)
	}
	if got := rowsAt(t, g.store, -1); got != before {
		t.Errorf("rows %s\nwant %s", got, before)
	}
	check(t, g.store)
}

// Whatever write a pass ends with: nothing that stays has changed, and the next pass ends well.
func TestCrashAnywhere(t *testing.T) {
	g := newRig(t)
	g.days(1, 5, 2)
	before, now := pinned(t, g.store), later()
	sound := faulty.New(g.store.Clone())
	if _, err := maintain.Run(ctx, delta.New(sound), options(now)); err != nil {
		t.Fatal(err)
	}
	writes := sound.Count(faulty.Put, faulty.PutIfAbsent, faulty.Delete)
	if writes < 20 {
		t.Fatalf("only %d writes", writes)
	}
	for n := range writes {
		store := g.store.Clone()
		failing := faulty.New(store, faulty.After(int(n), func(c faulty.Call) *faulty.Fault {
			switch c.Op {
			case faulty.Put, faulty.PutIfAbsent, faulty.Delete:
				return &faulty.Fault{Crash: true, Applied: n%2 == 0}
			}
			return nil
		}))
		_, _ = maintain.Run(ctx, delta.New(failing), options(now))
		same(t, before, pinned(t, store))
		check(t, store)
		if _, err := maintain.Run(ctx, delta.New(store), options(now)); err != nil {
			t.Fatalf("write %d: the pass behind it: %v", n, err)
		}
		same(t, before, pinned(t, store))
		check(t, store)
		if t.Failed() {
			t.Fatalf("crashed at write %d of %d", n, writes)
		}
	}
}

// An ingester in another process commits, and seals, before each commit of the pass; it goes
// on afterwards, and a step of the caller's is done.
func TestBesideIngester(t *testing.T) {
	g := tenDays(t)
	day, commits := 12, 0
	store := &beforeCommit{g.store, func() {
		if commits++; day > 16 {
			return
		}
		g.days(day, day, 2)
		day++
	}}
	o := options(later())
	stepped := false
	o.Steps = []maintain.Step{{Name: "extra", Run: func(_ context.Context, p maintain.Pass) (maintain.Outcome, error) {
		stepped = p.Labels != nil && p.Snapshot.Version() > 0 && !p.DryRun
		return maintain.Outcome{Did: "counted", Figures: map[string]int64{"rows": 7}}, nil
	}}}
	r, err := maintain.Run(ctx, delta.New(store), o)
	if err != nil {
		t.Fatal(err)
	}
	if !stepped || value(t, r, "extra", "rows") != 7 || !slices.Contains(r.Did, "counted") {
		t.Errorf("the step: %v, %v", stepped, r.Did)
	}
	if commits < 3 || day < 14 {
		t.Errorf("%d commits of the pass, the ingester is at day %d", commits, day)
	}
	check(t, g.store)
	before := pinned(t, g.store)
	g.days(day, day+1, 2)
	check(t, g.store)
	delete(before, "newest")
	if gone := same(t, before, pinned(t, g.store)); len(gone) > 0 {
		t.Errorf("gone are %v", gone)
	}
	// Every key has its newest value: what was moved is followed.
	if rows, want := rowsAt(t, g.store, -1), fmt.Sprintf("[{ 1 2} {%d/1 ", day+1); !strings.Contains(rows, want) {
		t.Errorf("rows %s\nwant %s", rows, want)
	}
}

// beforeCommit calls do before each commit of whoever has the store.
type beforeCommit struct {
	objstore.Store
	do func()
}

func (b *beforeCommit) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if strings.HasPrefix(key, "_delta_log/0") && strings.HasSuffix(key, ".json") {
		b.do()
	}
	return b.Store.PutIfAbsent(ctx, key, data)
}

// A reader has opened a version that no savepoint holds, and reads its files one by one, while
// passes go by: within the grace period each of them is there.
func TestSlowReaderIsNotBroken(t *testing.T) {
	g := newRig(t)
	g.days(1, 3, 4)
	table := delta.New(g.store)
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.NumFiles() < 2 {
		t.Fatalf("%d files are too few for a slow reader", s.NumFiles())
	}
	want := rowsAt(t, g.store, s.Version())
	reading, err := scan.New(g.store, s, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := options(time.Now().Add(30 * time.Minute))
	o.History, o.Grace = 0, time.Hour
	var rows []string
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprint(row))
		if len(rows)%5 == 0 && len(rows) < 40 {
			g.put(july(3, 12), "meanwhile", 1, 2, len(rows))
			g.ingest()
			g.maintain(o)
		}
	}
	slices.Sort(rows)
	if got := strings.Join(rows, "\n"); got != want {
		t.Errorf("the reader got %s\nwant %s", got, want)
	}
	if got := rowsAt(t, g.store, s.Version()); got != want {
		t.Errorf("opened again: %s", got)
	}
	// Past the grace period its files go.
	o.Now = later()
	g.maintain(o)
	g.maintain(o)
	if _, err := table.SnapshotAt(ctx, s.Version()); err == nil {
		there := map[string]bool{}
		for obj, err := range g.store.List(ctx, "", "") {
			if err != nil {
				t.Fatal(err)
			}
			there[obj.Key] = true
		}
		if !slices.ContainsFunc(s.Files(), func(a *action.Add) bool { return !there[a.Path] }) {
			t.Error("nothing was removed: the test says nothing")
		}
	}
	check(t, g.store)
}

// A store in memory whose objects have classes.
type classed struct {
	*mem.Store
	class map[string]string
	moves int
}

func (c *classed) Classes() []string { return []string{"STANDARD", "STANDARD_IA"} }

func (c *classed) SetClass(_ context.Context, key, class string) error {
	c.class[key] = class
	c.moves++
	return nil
}

func (c *classed) ListClasses(ctx context.Context, prefix string) iter.Seq2[objstore.Classed, error] {
	return func(yield func(objstore.Classed, error) bool) {
		for o, err := range c.List(ctx, prefix, "") {
			class := c.class[o.Key]
			if class == "" {
				class = "STANDARD"
			}
			o.Size *= 1000 // past the least that is moved
			if !yield(objstore.Classed{Object: o, Class: class}, err) {
				return
			}
		}
	}
}

// Files that only old savepoints need change their class, once; those of the newest version, of
// a young savepoint and of a named one don't.
func TestTier(t *testing.T) {
	g := newRig(t)
	for day := 1; day <= 5; day++ { // each day replaces all rows, so each has files of its own
		g.put(july(day, 3), fmt.Sprint(day), 1, 2, 3, 4)
		g.ingest()
	}
	table := delta.New(g.store)
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]int64{}
	for _, p := range savepoint.PinsOf(s) {
		versions[p.Names[0]] = p.Version
	}
	if _, err := savepoint.CreateNamed(ctx, table, "audit", versions["2022-07-02"]); err != nil {
		t.Fatal(err)
	}
	filesOf := func(label string) (keys []string) {
		s, err := table.SnapshotAt(ctx, versions[label])
		if err != nil {
			t.Fatal(err)
		}
		for _, add := range s.Files() {
			keys = append(keys, add.Path)
		}
		return keys
	}
	store := &classed{Store: g.store, class: map[string]string{}}
	before := pinned(t, g.store)
	o := options(july(5, 12))
	o.Retention = savepoint.Policy{Forever: true}
	o.Tier = &maintain.Tier{After: 36 * time.Hour, Class: "STANDARD_IA"} // the 3rd ended 36 hours before, the 4th 12
	o.Now = o.Now.Add(time.Second)
	o.DryRun = true
	dry, err := maintain.Run(ctx, delta.New(store), o)
	if err != nil || store.moves != 0 {
		t.Fatalf("%d moves, %v", store.moves, err)
	}
	o.DryRun = false
	var r *maintain.Report
	for range 2 {
		if r, err = maintain.Run(ctx, delta.New(store), o); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for _, label := range []string{"2022-07-01", "2022-07-03"} {
		want = append(want, filesOf(label)...)
	}
	var got []string
	for key := range store.class {
		if strings.HasSuffix(key, ".parquet") {
			got = append(got, key)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("moved are %v, want %v", got, want)
	}
	if n := value(t, dry, "tier", "files"); int(n) != store.moves {
		t.Errorf("the dry run says %d files, %d were moved", n, store.moves)
	}
	if value(t, r, "tier", "files") != 0 || value(t, r, "tier", "bytes_there") != value(t, dry, "tier", "bytes") {
		t.Errorf("the second time: %v", r.Lines)
	}
	same(t, before, pinned(t, g.store))
	for _, tier := range []maintain.Tier{{After: time.Hour, Class: "GLACIER"}, {After: time.Hour, Class: "COLD"}} {
		o.Tier = &tier
		if _, err := maintain.Run(ctx, delta.New(store), o); !errors.Is(err, maintain.ErrClass) {
			t.Errorf("%+v: %v", tier, err)
		}
	}
	if _, err := maintain.Run(ctx, delta.New(g.store), o); !errors.Is(err, maintain.ErrClass) {
		t.Errorf("a store without classes: %v", err)
	}
}
