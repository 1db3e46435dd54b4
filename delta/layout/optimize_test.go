package layout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
)

func optimize(t testing.TB, f *fixture, o layout.Options) *layout.Report {
	t.Helper()
	o.Extra = []parquet.Column{hidden}
	report, err := layout.Optimize(context.Background(), f.table, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Small files of a partition become one; the rows, the hidden column and the versions
// before stay, and the commit says that no data has changed.
func TestOptimizeJoinsSmallFiles(t *testing.T) {
	f := newFixture(t, true)
	before := f.append(12, 50)
	want := f.readIDs(before)
	report := optimize(t, f, layout.Options{Footer: func(inputs []map[string]string) map[string]string {
		return map[string]string{"inputs": fmt.Sprint(len(inputs))}
	}})
	s := report.Snapshot
	if len(report.Versions) != 1 || s.Version() != before.Version()+1 || s.NumFiles() != 2 || report.FilesRemoved != 12 || report.FilesAdded != 2 {
		t.Fatalf("%v: %+v", s, report)
	}
	if got := f.readIDs(s); !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	if got := f.readIDs(before); !slices.Equal(got, want) {
		t.Errorf("the version before has %d rows, want %d", len(got), len(want))
	}
	commit, err := f.table.Commit(t.Context(), s.Version())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range commit.Adds {
		if a.DataChange {
			t.Errorf("%s changes data", a.Path)
		}
		raw, err := f.store.Get(t.Context(), key(t, a))
		if err != nil {
			t.Fatal(err)
		}
		if file, err := parquet.OpenBytes(raw); err != nil || file.KeyValue()["inputs"] == "" {
			t.Errorf("footer %v, %v", file.KeyValue(), err)
		}
	}
	for _, r := range commit.Removes {
		if r.DataChange {
			t.Errorf("the remove of %s changes data", r.Path)
		}
	}
	var info struct {
		Operation           string
		OperationParameters map[string]string
		OperationMetrics    map[string]string
	}
	if err := json.Unmarshal(commit.Info, &info); err != nil {
		t.Fatal(err)
	}
	if info.Operation != "OPTIMIZE" || info.OperationParameters["predicate"] != "[]" || info.OperationParameters["zOrderBy"] != "[]" ||
		info.OperationMetrics["numRemovedFiles"] != "12" || info.OperationMetrics["numAddedFiles"] != "2" {
		t.Errorf("%+v", info)
	}
	if again := optimize(t, f, layout.Options{}); len(again.Versions) != 0 {
		t.Errorf("a second run did something: %+v", again)
	}
}

func key(t testing.TB, a *action.Add) string {
	t.Helper()
	k, err := action.Key(a.Path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Only the partitions asked for are touched, and other columns can't be asked for.
func TestOptimizeWhere(t *testing.T) {
	f := newFixture(t, true)
	s := f.append(12, 20)
	where, err := expr.Parse("city = 'Wuhan'", s.Schema())
	if err != nil {
		t.Fatal(err)
	}
	report := optimize(t, f, layout.Options{Where: where})
	counts := map[string]int{}
	for _, add := range report.Snapshot.Files() {
		counts[*add.PartitionValues["city"]]++
	}
	if !maps.Equal(counts, map[string]int{"Wuhan": 1, "Xi'an": 6}) {
		t.Errorf("files by city: %v", counts)
	}
	commit, err := f.table.Commit(t.Context(), report.Snapshot.Version())
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ OperationParameters map[string]string }
	if err := json.Unmarshal(commit.Info, &info); err != nil || info.OperationParameters["predicate"] != `["city = 'Wuhan'"]` {
		t.Errorf("%v, %v", info, err)
	}
	if where, err = expr.Parse("id = 3", s.Schema()); err != nil {
		t.Fatal(err)
	}
	if _, err = layout.Optimize(t.Context(), f.table, layout.Options{Where: where}); !errors.Is(err, layout.ErrColumn) {
		t.Errorf("a filter on rows: %v", err)
	}
}

// Deleted rows leave the files where their share is large enough.
func TestOptimizePurges(t *testing.T) {
	f := newFixture(t, false)
	f.append(3, 1000)
	f.kill(map[int64]bool{5: true})
	few := f.newest()
	o := layout.Options{SmallSize: 1, TargetSize: 1 << 20}
	if report := optimize(t, f, o); len(report.Versions) != 0 {
		t.Errorf("0.1 %% of dead rows made %+v", report)
	}
	doomed := map[int64]bool{}
	for id := range int64(200) {
		doomed[id] = true
	}
	f.kill(doomed)
	report := optimize(t, f, o)
	if report.VectorsRemoved != 1 || report.RowsPurged != 200 || report.FilesRemoved != 1 || report.Rows != 800 {
		t.Errorf("%+v", report)
	}
	if n := len(f.readIDs(report.Snapshot)); n != 2800 {
		t.Errorf("%d rows", n)
	}
	if n := len(f.readIDs(few)); n != 2999 {
		t.Errorf("the version before has %d rows", n)
	}
	f.kill(map[int64]bool{2500: true})
	report = optimize(t, f, layout.Options{PurgeOnly: true})
	if report.FilesRemoved != 1 || report.RowsPurged != 1 {
		t.Errorf("purge only: %+v", report)
	}
	info, err := f.table.CommitInfo(t.Context(), report.Snapshot.Version())
	if err != nil || action.ParseInfo(info).Operation != "REORG" {
		t.Errorf("%s, %v", info, err)
	}
}

// What is to be left stays, and is counted; a large file is not written anew for the
// sake of a small one.
func TestOptimizeLeaves(t *testing.T) {
	f := newFixture(t, false)
	s := f.append(5, 50)
	pinned := s.Files()[1].Path
	report := optimize(t, f, layout.Options{Leave: func(a *action.Add) bool { return a.Path == pinned }})
	if _, live := report.Snapshot.File(pinned); !live || report.Left != 1 || report.FilesRemoved != 4 || report.Snapshot.NumFiles() != 2 {
		t.Errorf("%v: %+v", report.Snapshot, report)
	}
	f = newFixture(t, false)
	f.append(1, 5000)
	f.append(1, 5)
	if report := optimize(t, f, layout.Options{}); len(report.Versions) != 0 {
		t.Errorf("a lopsided bin: %+v", report)
	}
}

// Files without the hidden column are not mixed with those that have it.
func TestOptimizeKeepsBareFilesApart(t *testing.T) {
	f := newFixture(t, false)
	tx := delta.NewTransaction(f.table, f.newest())
	for i := range 6 {
		f.add(tx, 30, i%2 == 0)
	}
	want := f.readIDs(f.commit(tx))
	for _, o := range []layout.Options{{}, {OrderBy: []string{"id"}}} {
		s := optimize(t, f, o).Snapshot
		if got := f.readIDs(s); !slices.Equal(got, want) || s.NumFiles() != 2 {
			t.Fatalf("%d rows in %d files", len(got), s.NumFiles())
		}
		with := 0
		for _, add := range s.Files() {
			raw, err := f.store.Get(t.Context(), key(t, add))
			if err != nil {
				t.Fatal(err)
			}
			file, err := parquet.OpenBytes(raw)
			if err != nil {
				t.Fatal(err)
			}
			if _, has := file.Find(hidden); has {
				with++
			}
		}
		if with != 1 {
			t.Errorf("%d of 2 files have the hidden column", with)
		}
	}
}

// Row groups that lose no row are taken over as they are.
func TestOptimizeCopiesRowGroups(t *testing.T) {
	f := newFixture(t, false)
	want := f.readIDs(f.append(3, 25_000))
	report := optimize(t, f, layout.Options{})
	if report.RowsCopied != 75_000 || report.Snapshot.NumFiles() != 1 {
		t.Errorf("%+v", report)
	}
	if got := f.readIDs(report.Snapshot); !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

// Rows that come to lie by two columns are told apart by files in both.
func TestOptimizeOrders(t *testing.T) {
	for _, curve := range []layout.Curve{layout.ZOrder, layout.Hilbert} {
		f := newFixture(t, false)
		before := f.append(20, 2000)
		want := f.readIDs(before)
		report := optimize(t, f, layout.Options{OrderBy: []string{"day", "Price"}, Curve: curve, TargetSize: 40_000, MemoryLimit: 2 << 20, TempDir: t.TempDir()})
		if got := f.readIDs(report.Snapshot); !slices.Equal(got, want) {
			t.Fatalf("%s: %d rows, want %d", curve, len(got), len(want))
		}
		was, err := layout.Measure(before, "day", "price")
		if err != nil {
			t.Fatal(err)
		}
		is, err := layout.Measure(report.Snapshot, "day", "price")
		if err != nil {
			t.Fatal(err)
		}
		for i := range was {
			if n := report.Snapshot.NumFiles(); was[i].Depth < 10 || n < 30 || is[i].Depth > 0.3*float64(n) {
				t.Errorf("%s, %s: depth %.1f of %d files, was %.1f of %d", curve, is[i].Column, is[i].Depth, n, was[i].Depth, before.NumFiles())
			}
		}
		if first := f.readFile(report.Snapshot, report.Snapshot.Files()[0]); slices.IsSorted(first) {
			t.Errorf("%s: rows lie as before", curve)
		}
	}
}

// Rows that others delete between reading and commit are deleted in the outputs.
func TestOptimizeFollowsDeletes(t *testing.T) {
	for _, o := range []layout.Options{{}, {OrderBy: []string{"name", "day"}}} {
		f := newFixture(t, false)
		want := f.readIDs(f.append(6, 300))
		doomed := map[int64]bool{}
		for id := range int64(350) { // the first file goes as a whole
			doomed[id] = true
		}
		doomed[1000] = true
		once := true
		f.store.before = func(string) {
			if once {
				once = false
				f.kill(doomed)
			}
		}
		report := optimize(t, f, o)
		f.store.before = nil
		want = slices.DeleteFunc(want, func(id int64) bool { return doomed[id] })
		if got := f.readIDs(report.Snapshot); !slices.Equal(got, want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		if report.Conflicts != 1 || report.Replanned != 0 || report.RowsFollowed != 351 || report.Snapshot.NumFiles() != 1 {
			t.Errorf("%+v", report)
		}
		if d := report.Snapshot.Files()[0].DeletionVector; d == nil || d.Cardinality != 351 {
			t.Errorf("deletion vector %+v", d)
		}
	}
}

// Whoever loses against another change of layout plans anew.
func TestOptimizeAgainstOptimize(t *testing.T) {
	f := newFixture(t, true)
	want := f.readIDs(f.append(8, 40))
	once := true
	f.store.before = func(string) {
		if once {
			once = false
			optimize(t, f, layout.Options{})
			f.append(4, 40)
		}
	}
	report := optimize(t, f, layout.Options{})
	f.store.before = nil
	if got := f.readIDs(report.Snapshot); len(got) != len(want)+160 || report.Replanned != 2 || report.Snapshot.NumFiles() != 2 {
		t.Errorf("%d rows in %d files: %+v", len(got), report.Snapshot.NumFiles(), report)
	}
}

// Where every attempt loses, that is said, and nothing is changed.
func TestOptimizeContended(t *testing.T) {
	f := newFixture(t, false)
	want := f.readIDs(f.append(4, 40))
	f.store.before = func(string) {
		tx := delta.NewTransaction(f.table, f.newest())
		for _, add := range f.newest().Files() { // statistics anew: the rows move
			again := *add
			again.Path, again.DataChange = copyOf(t, f, add), false
			tx.Remove(delta.RemoveOf(add, f.table.Now(), false))
			tx.Add(&again)
		}
		f.commit(tx)
	}
	_, err := layout.Optimize(t.Context(), f.table, layout.Options{})
	f.store.before = nil
	if !errors.Is(err, layout.ErrContended) {
		t.Errorf("%v", err)
	}
	if got := f.readIDs(f.newest()); !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

func copyOf(t testing.TB, f *fixture, add *action.Add) string {
	t.Helper()
	raw, err := f.store.Get(context.Background(), key(t, add))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("copy-%d.parquet", rand.Uint64())
	if err := f.store.Put(context.Background(), name, raw); err != nil {
		t.Fatal(err)
	}
	return name
}

// A dry run tells what would be replaced.
func TestOptimizeDryRun(t *testing.T) {
	f := newFixture(t, false)
	s := f.append(5, 50)
	report := optimize(t, f, layout.Options{DryRun: true})
	if report.FilesRemoved != 5 || report.FilesAdded != 0 || len(report.Versions) != 0 || f.newest().Version() != s.Version() {
		t.Errorf("%+v", report)
	}
}

// Whatever the table, the options and what others do meanwhile: the rows are those that
// nobody deleted, and every version before reads as it did.
func TestOptimizeKeepsRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFixture(t, rapid.Bool().Draw(rt, "partitioned"))
		live := map[int64]bool{}
		versions := map[int64][]int64{}
		note := func(s *delta.Snapshot) { versions[s.Version()] = f.readIDs(s) }
		appendSome := func(name string) {
			tx := delta.NewTransaction(f.table, f.newest())
			for range rapid.IntRange(1, 5).Draw(rt, name) {
				for _, id := range f.ids[f.add(tx, rapid.IntRange(1, 60).Draw(rt, "rows"), rapid.Bool().Draw(rt, "bare"))] {
					live[id] = true
				}
			}
			note(f.commit(tx))
		}
		killSome := func(name string) {
			doomed := map[int64]bool{}
			share := rapid.SampledFrom([]float64{0.02, 0.3, 0.9}).Draw(rt, name)
			random := rand.New(rand.NewPCG(uint64(rapid.IntRange(0, 1000).Draw(rt, "seed")), 1))
			for _, id := range slices.Sorted(maps.Keys(live)) {
				if random.Float64() < share {
					doomed[id] = true
					delete(live, id)
				}
			}
			if len(doomed) > 0 {
				note(f.kill(doomed))
			}
		}
		for range rapid.IntRange(1, 3).Draw(rt, "steps") {
			appendSome("files")
			if rapid.Bool().Draw(rt, "deletes") {
				killSome("share")
			}
			o := layout.Options{
				TargetSize: int64(rapid.SampledFrom([]int{1000, 5000, 1 << 20}).Draw(rt, "target")), Extra: []parquet.Column{hidden},
				PurgeOnly:   rapid.Bool().Draw(rt, "purge only"),
				MemoryLimit: int64(rapid.SampledFrom([]int{1, 1 << 22}).Draw(rt, "memory")),
				BatchBytes:  int64(rapid.SampledFrom([]int{1, 1 << 30}).Draw(rt, "batch")),
				Curve:       rapid.SampledFrom([]layout.Curve{layout.ZOrder, layout.Hilbert}).Draw(rt, "curve"),
			}
			if !o.PurgeOnly {
				o.OrderBy = rapid.SampledFrom([][]string{nil, {"id"}, {"name", "price"}, {"day", "weight", "name"}}).Draw(rt, "order")
			}
			meanwhile := rapid.IntRange(0, 3).Draw(rt, "meanwhile")
			f.store.before = func(string) {
				switch meanwhile--; {
				case meanwhile < 0:
				case meanwhile == 1:
					appendSome("files meanwhile")
				default:
					killSome("share meanwhile")
				}
			}
			report, err := layout.Optimize(context.Background(), f.table, o)
			f.store.before = nil
			if err != nil {
				rt.Fatal(err)
			}
			note(report.Snapshot)
			if got, want := f.readIDs(f.newest()), slices.Sorted(maps.Keys(live)); !slices.Equal(got, want) {
				rt.Fatalf("%d rows, want %d", len(got), len(want))
			}
		}
		for version, want := range versions {
			s, err := f.table.SnapshotAt(context.Background(), version)
			if err != nil {
				rt.Fatal(err)
			}
			if got := f.readIDs(s); !slices.Equal(got, want) {
				rt.Errorf("version %d has %d rows, had %d", version, len(got), len(want))
			}
		}
	})
}

// forgetful loses the first output as the second one is stored, once.
type forgetful struct {
	objstore.Store
	first string
	lost  bool
}

func (s *forgetful) Put(ctx context.Context, key string, data []byte) error {
	if s.first == "" {
		s.first = key
	} else if !s.lost {
		s.lost = true
		if err := s.Store.Delete(ctx, s.first); err != nil {
			return err
		}
	}
	return s.Store.Put(ctx, key, data)
}

// An output that a vacuum has taken for garbage, because the run was long, is written
// again: no version names it.
func TestOptimizeLosesAnOutput(t *testing.T) {
	f := newFixture(t, false)
	want := f.readIDs(f.append(6, 3000))
	store := &forgetful{Store: f.store}
	clock := time.Now()
	table := delta.New(store, delta.WithClock(func() time.Time { clock = clock.Add(20 * time.Minute); return clock }))
	report, err := layout.Optimize(t.Context(), table, layout.Options{OrderBy: []string{"id"}, TargetSize: 50_000, Extra: []parquet.Column{hidden}})
	if err != nil || !store.lost || report.Replanned != 1 || report.Snapshot.NumFiles() < 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	if got := f.readIDs(report.Snapshot); !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}
