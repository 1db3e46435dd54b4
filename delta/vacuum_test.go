package delta_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
)

func put(t testing.TB, store objstore.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := store.Put(ctx, key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
}

func vectorFile(t tester, a *action.Add) string {
	key, ok, err := delta.VectorKey(a.DeletionVector)
	if !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	return key
}

func TestVacuum(t *testing.T) {
	c := newClock()
	store, table, s := newTable(t, c)
	a1, a2 := withVector(add("a.parquet"), 1), withVector(add("a.parquet"), 2)
	shared := *withVector(add("shared.parquet"), 1) // its vector lies in the file of a1's
	shared.DeletionVector = &action.DeletionVector{StorageType: "u", PathOrInlineDV: a1.DeletionVector.PathOrInlineDV, Offset: pointer(int32(99)), SizeInBytes: 3, Cardinality: 1}
	for _, key := range []string{
		"a.parquet", "b c.parquet", "p=1/c.parquet", "pinned.parquet", "shared.parquet", vectorFile(t, a1), vectorFile(t, a2),
		"orphan.parquet", "x/orphan.parquet", "deletion_vector_00000000-0000-0000-0000-000000000000.bin", "_change_data/old.parquet", "_change_data/x/new.parquet",
		"_delta_log/_gscd/held/used.zst", "_delta_log/_gscd/held/unused.zst", "_delta_log/_gscd/backup/x.json", "_delta_log/00000000000000000099.tmp",
		"README.md", "_hidden/x.parquet", ".tmp.parquet", "_SUCCESS", "sub/_delta_log/00000000000000000000.json", "sub/table.parquet", "kept.parquet", "_p=1/gone.parquet",
	} {
		put(t, store, key)
	}
	step := func(fill func(x *delta.Transaction)) {
		x := delta.NewTransaction(table, s)
		fill(x)
		s = commit(t, x)
		c.advance(10 * time.Hour)
	}
	remove := func(x *delta.Transaction, path string) {
		a, ok := s.File(path)
		if !ok {
			t.Fatal(path)
		}
		x.Remove(delta.RemoveOf(a, c.at, true))
	}
	c.advance(10 * time.Hour)
	step(func(x *delta.Transaction) { // 1, at 10 h
		x.Add(add("b%20c.parquet"))
		x.Add(a1)
		x.Add(&shared)
		x.Add(add("pinned.parquet"))
		x.AddCDC(&action.CDC{Path: "_change_data/old.parquet"})
	})
	pinned := s
	step(func(x *delta.Transaction) { remove(x, "pinned.parquet"); x.Add(add("p=1/c.parquet")) }) // 2, at 20 h
	step(func(x *delta.Transaction) { remove(x, "a.parquet"); x.Add(a2) })                        // 3, at 30 h
	step(func(x *delta.Transaction) {                                                             // 4, at 40 h; now 50 h
		remove(x, "b%20c.parquet")
		x.AddCDC(&action.CDC{Path: "_change_data/x/new.parquet"})
	})
	put(t, store, "young-orphan.parquet")
	c.advance(30 * time.Minute)

	clean := func(options delta.VacuumOptions) []string {
		t.Helper()
		dry := options
		dry.DryRun = true
		before := keys(t, store, "")
		plan, err := delta.Vacuum(ctx, table, dry)
		if err != nil || !slices.Equal(before, keys(t, store, "")) {
			t.Fatalf("dry run: %v", err)
		}
		report, err := delta.Vacuum(ctx, table, options)
		if err != nil || !slices.Equal(plan.Deleted, report.Deleted) {
			t.Fatalf("%v\nplanned %v\ndone %v", err, plan.Deleted, report.Deleted)
		}
		after := keys(t, store, "")
		var gone []string
		for _, key := range before {
			if !slices.Contains(after, key) {
				gone = append(gone, key)
			}
		}
		var said []string
		var bytes, total int64
		for _, g := range report.Deleted {
			said = append(said, g.Key)
			bytes += g.Size
		}
		for _, k := range report.ByKind {
			total += k.Bytes
		}
		if !slices.Equal(said, gone) || bytes != total {
			t.Fatalf("said %v, gone %v", said, gone)
		}
		return gone
	}
	// The newest version of 24 h ago, 2, refers to b c.parquet and to a.parquet with its first vector.
	held := delta.VacuumPrefix{Prefix: "_delta_log/_gscd/held/", Kind: "held", Keep: func(key string) bool { return strings.Contains(key, "/used") }}
	window := delta.VacuumOptions{
		Keep: []*delta.Snapshot{pinned}, KeepVersionsSince: c.at.Add(-24 * time.Hour), Prefixes: []delta.VacuumPrefix{held},
		ExtraKeep: func(key string) bool { return key == "kept.parquet" },
	}
	if got, want := clean(window), []string{
		"_change_data/old.parquet", "_delta_log/_gscd/held/unused.zst", "_p=1/gone.parquet",
		"deletion_vector_00000000-0000-0000-0000-000000000000.bin", "orphan.parquet", "x/orphan.parquet",
	}; !slices.Equal(got, want) {
		t.Errorf("with a window and a pin: %q", got)
	}
	window.Keep = nil
	if got, want := clean(window), []string{"pinned.parquet"}; !slices.Equal(got, want) {
		t.Errorf("without the pin: %q", got)
	}
	// Without a window: the versions of the last hour. a1's vector file holds shared's, too.
	report, err := delta.Vacuum(ctx, table, delta.VacuumOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := report.ByKind[delta.KindData]; got.Files != 2 { // b c and kept
		t.Errorf("%+v", report.Deleted)
	}
	for _, r := range s.Tombstones() {
		// a under its first vector: the file is live, the vector's file too (shared).
		if want := r.Path != "b%20c.parquet"; report.Obsolete(r) != want {
			t.Errorf("tombstone of %s %s: obsolete %v", r.Path, r.DeletionVector.UniqueID(), !want)
		}
	}
	clean(delta.VacuumOptions{})
	step(func(x *delta.Transaction) { remove(x, "shared.parquet") })
	if got, want := clean(delta.VacuumOptions{Grace: time.Minute}), []string{"_change_data/x/new.parquet", vectorFile(t, a1), "shared.parquet", "young-orphan.parquet"}; !slices.Equal(got, want) {
		t.Errorf("at last: %q", got)
	}
	left := keys(t, store, "")
	for _, key := range []string{
		"README.md", "_hidden/x.parquet", ".tmp.parquet", "_SUCCESS", "sub/table.parquet", "_delta_log/_gscd/backup/x.json",
		"_delta_log/_gscd/held/used.zst", "_delta_log/00000000000000000099.tmp", "a.parquet", vectorFile(t, a2), "p=1/c.parquet",
	} {
		if !slices.Contains(left, key) {
			t.Errorf("%s is gone", key)
		}
	}
}

func TestVacuumRefusesPathsOutsideOfTheTable(t *testing.T) {
	store, table, _ := newTable(t, newClock())
	if err := store.Put(ctx, "_delta_log/00000000000000000001.json", []byte(`{"add":{"path":"file:/data/t/x.parquet","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := delta.Vacuum(ctx, table, delta.VacuumOptions{}); !errors.Is(err, delta.ErrAbsolutePath) {
		t.Errorf("%v", err)
	}
	for _, prefix := range []string{"", "_delta_log/", "data/", "_delta_log/0000", "_delta_log/_gscd", "_delta_log/_sidecars/"} {
		if _, err := delta.Vacuum(ctx, table, delta.VacuumOptions{Prefixes: []delta.VacuumPrefix{{Prefix: prefix}}}); err == nil || errors.Is(err, delta.ErrAbsolutePath) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}
