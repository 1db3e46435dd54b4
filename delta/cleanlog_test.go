package delta_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// history makes a table of so many hourly commits, each adding a file, with
// checkpoints at every tenth, and gives the state of each version.
func history(t *testing.T, commits int) (*clock, *mem.Store, *delta.Table, []string) {
	t.Helper()
	c := newClock()
	store, table, s := newTable(t, c)
	states := []string{state(s)}
	for v := 1; v < commits; v++ {
		c.advance(time.Hour)
		x := delta.NewTransaction(table, s)
		x.Add(add(fmt.Sprint("f", v)))
		x.SetTxn("gscd", delta.OwnVersion)
		s = commit(t, x)
		states = append(states, state(s))
		if v%10 == 0 {
			if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c, store, table, states
}

func names(versions []int64, kind string) []string {
	var list []string
	for _, v := range versions {
		list = append(list, fmt.Sprintf("%020d.%s", v, kind))
	}
	return list
}

func TestCleanLogLeavesIslands(t *testing.T) {
	c, store, table, states := history(t, 42)
	for _, name := range []string{"00000000000000000003.crc", "00000000000000000015.crc", "_gscd/held/a.zst", "_trino_meta/extended_stats.json", ".00000000000000000001.json.crc"} {
		if err := store.Put(ctx, deltalog.Dir+name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	c.advance(2 * time.Hour)
	options := delta.CleanOptions{Pinned: []int64{15, 10, 35, 10}, KeepCommits: []int64{17}, KeepSince: c.at.Add(-10 * time.Hour)}
	var announced []string
	options.BeforeDelete = func(_ context.Context, keys []string) error {
		announced = keys
		_, err := store.Get(ctx, deltalog.CheckpointKey(15))
		return err // the island is there before anything goes
	}
	dry := options
	dry.DryRun, dry.BeforeDelete = true, func(context.Context, []string) error { return errors.New("a dry run calls no hook") }
	before := keys(t, store, "")
	plan, err := table.CleanLog(ctx, dry)
	if err != nil || !slices.Equal(before, keys(t, store, "")) {
		t.Fatalf("dry run: %v", err)
	}
	report, err := table.CleanLog(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(plan.Deleted, report.Deleted) || plan.Bytes != report.Bytes || !slices.Equal(announced, report.Deleted) {
		t.Errorf("planned %v, announced %v, done %v", plan.Deleted, announced, report.Deleted)
	}
	if !slices.IsSorted(report.Deleted) || report.Start != 30 || !slices.Equal(report.Islands, []int64{15}) || !slices.Equal(plan.Islands, report.Islands) {
		t.Errorf("%+v", report)
	}
	// 43 h - 10 h: version 33 was the newest; its chain begins at checkpoint 30.
	want := slices.Concat(
		names([]int64{10, 15, 17, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41}, "json"),
		names([]int64{10, 15, 30, 40}, "checkpoint.parquet"),
		[]string{"00000000000000000015.crc", "_gscd/held/a.zst", "_last_checkpoint", "_trino_meta/extended_stats.json", ".00000000000000000001.json.crc"})
	slices.Sort(want)
	if got := keys(t, store, deltalog.Dir); !slices.Equal(got, want) {
		t.Errorf("left\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	versions, err := table.Versions(ctx)
	if err != nil || deltalog.Ranges(versions) != "10, 15, 30-41" {
		t.Errorf("versions %s, %v", deltalog.Ranges(versions), err)
	}
	for _, v := range versions {
		if s, err := table.SnapshotAt(ctx, v); err != nil || state(s) != states[v] {
			t.Errorf("version %d: %v", v, err)
		}
	}
	var notFound *delta.VersionNotFoundError
	if _, err := table.SnapshotAt(ctx, 20); !errors.As(err, &notFound) || !strings.Contains(err.Error(), "there are 10, 15, 30-41") {
		t.Errorf("%v", err)
	}
	if info, err := table.CommitInfo(ctx, 17); err != nil || !strings.Contains(string(info), `"readVersion":16`) {
		t.Errorf("kept commit: %s, %v", info, err)
	}
	if _, err := table.CommitInfo(ctx, 16); !errors.Is(err, delta.ErrVersionNotFound) {
		t.Errorf("cleaned commit: %v", err)
	}
	// Writing goes on, and cleaning again finds nothing.
	s := reopen(t, table)
	x := delta.NewTransaction(table, s)
	x.Add(add("more"))
	commit(t, x)
	if again, err := table.CleanLog(ctx, options); err != nil || len(again.Deleted) != 0 || again.Start != -1 {
		t.Errorf("again %+v, %v", again, err)
	}
}

func TestCleanLogRepairsTheHintFirst(t *testing.T) {
	c, store, table, _ := history(t, 25)
	c.advance(2 * time.Hour)
	for _, damage := range []string{``, `{"version":10,"size":1}`, `{"version":99,"size":1}`} {
		if err := store.Put(ctx, deltalog.HintKey, []byte(damage)); err != nil {
			t.Fatal(err)
		}
		err := errors.New("stop here")
		_, got := table.CleanLog(ctx, delta.CleanOptions{BeforeDelete: func(context.Context, []string) error { return err }})
		if !errors.Is(got, err) {
			t.Fatal(got)
		}
		if hint, ok, err := deltalog.ReadHint(ctx, store); err != nil || !ok || hint.Version != 20 || hint.NumOfAddFiles != 20 {
			t.Errorf("%q: %+v", damage, hint)
		}
	}
}

// A checkpoint of which half is there is none to begin the log with: the one before is.
// That of a pinned version is written again before what it is made of goes.
func TestCleanLogPassesATornCheckpoint(t *testing.T) {
	c, store, table, states := history(t, 42)
	data, err := store.Get(ctx, deltalog.CheckpointKey(30))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(ctx, deltalog.CheckpointKey(30), data[:len(data)/2]); err != nil {
		t.Fatal(err)
	}
	if err := store.Put(ctx, deltalog.CheckpointKey(10), data[:len(data)/3]); err != nil { // of a pinned version
		t.Fatal(err)
	}
	c.advance(2 * time.Hour)
	report, err := table.CleanLog(ctx, delta.CleanOptions{Pinned: []int64{10}, KeepSince: c.at.Add(-10 * time.Hour)})
	if err != nil || report.Start != 20 || !slices.Equal(report.Islands, []int64{10}) {
		t.Fatalf("%+v, %v", report, err)
	}
	versions, err := table.Versions(ctx)
	if err != nil || deltalog.Ranges(versions) != "10, 20-41" {
		t.Errorf("versions %s, %v", deltalog.Ranges(versions), err)
	}
	for _, v := range versions {
		if s, err := table.SnapshotAt(ctx, v); err != nil || state(s) != states[v] {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

func TestCleanLogKeepsWhatItMust(t *testing.T) {
	c, store, table, _ := history(t, 25)
	before := keys(t, store, "")
	for name, options := range map[string]delta.CleanOptions{
		"too young":            {Grace: 30 * time.Hour},
		"history reaches back": {KeepSince: c.at.Add(-30 * time.Hour)},
	} {
		if _, err := table.CleanLog(ctx, options); err != nil || !slices.Equal(before, keys(t, store, "")) {
			t.Errorf("%s: %v, or something went", name, err)
		}
	}
	_, store, table, _ = history(t, 25)
	if err := store.Delete(ctx, deltalog.CommitKey(4)); err != nil {
		t.Fatal(err)
	}
	before = keys(t, store, "")
	c.advance(time.Hour)
	_, err := table.CleanLog(ctx, delta.CleanOptions{Pinned: []int64{5}, Now: c.at})
	var notFound *delta.VersionNotFoundError
	if !errors.As(err, &notFound) || notFound.Version != 5 || !slices.Equal(before, keys(t, store, "")) {
		t.Errorf("a broken pin: %v", err)
	}
}

// TestInterruptedAnywhere fails every call of a commit, a checkpoint, a log
// cleanup and a vacuum in turn, with the write applied and without. Whatever
// happened, the newest and the pinned version open, a second run completes, and
// nothing was lost that a kept version needs.
func TestInterruptedAnywhere(t *testing.T) {
	c, origin, table, states := history(t, 24)
	pinned, err := table.SnapshotAt(ctx, 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*delta.Snapshot{pinned, reopen(t, table)} {
		for _, a := range s.Files() {
			if err := origin.Put(ctx, a.Path, []byte(a.Path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := origin.Put(ctx, "orphan.parquet", []byte("x")); err != nil {
		t.Fatal(err)
	}
	base := reopen(t, table)
	c.advance(3 * time.Hour)
	work := func(store objstore.Store) error {
		table := delta.New(store, delta.WithClock(c.now))
		s, err := table.Update(ctx, base)
		if err != nil {
			return err
		}
		if _, done := s.Txn("work"); !done {
			x := delta.NewTransaction(table, s)
			f1, _ := s.File("f1")
			x.Remove(delta.RemoveOf(f1, c.at, true))
			x.Add(add("new"))
			x.SetTxn("work", 1)
			out, err := x.Commit(ctx)
			if err != nil {
				return err
			}
			s = out.Snapshot
		}
		if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
			return err
		}
		if _, err := table.CleanLog(ctx, delta.CleanOptions{Pinned: []int64{7}}); err != nil {
			return err
		}
		_, err = delta.Vacuum(ctx, table, delta.VacuumOptions{Keep: []*delta.Snapshot{pinned}})
		return err
	}
	broken := errors.New("broken")
	for _, apply := range []bool{false, true} {
		for i := 0; ; i++ {
			store := origin.Clone()
			failing := &flaky{Store: store, fail: func(n int, op, _ string) (bool, error) {
				if n != i {
					return false, nil
				}
				if apply && (op == "put" || op == "putIfAbsent") {
					return true, fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, broken)
				}
				return apply, broken
			}}
			err := work(failing)
			checkAfter(t, fmt.Sprintf("call %d, applied %v, %v", i, apply, err), store, c, states[7])
			if err := work(store); err != nil {
				t.Fatalf("call %d, applied %v: a second run: %v", i, apply, err)
			}
			checkAfter(t, fmt.Sprintf("second run after call %d", i), store, c, states[7])
			healthy := delta.New(store, delta.WithClock(c.now))
			if versions, err := healthy.Versions(ctx); err != nil || deltalog.Ranges(versions) != "7, 20-24" {
				t.Fatalf("call %d: versions %s, %v", i, deltalog.Ranges(versions), err)
			}
			if _, err := store.Get(ctx, "orphan.parquet"); !errors.Is(err, objstore.ErrNotExist) {
				t.Errorf("call %d: the orphan stayed", i)
			}
			if failing.calls <= i {
				if i < 50 {
					t.Errorf("only %d calls", i)
				}
				break
			}
		}
	}
}

func checkAfter(t *testing.T, when string, store objstore.Store, c *clock, pinned string) {
	t.Helper()
	table := delta.New(store, delta.WithClock(c.now))
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if n := s.Version(); n != 23 && n != 24 || s.NumFiles() != 23 {
		t.Fatalf("%s: %s", when, s)
	}
	old, err := table.SnapshotAt(ctx, 7)
	if err != nil || state(old) != pinned {
		t.Fatalf("%s: the pinned version: %v", when, err)
	}
	for _, s := range []*delta.Snapshot{s, old} {
		for _, a := range s.Files() {
			if _, err := store.Head(ctx, a.Path); err != nil && a.Path != "new" {
				t.Fatalf("%s: version %d: %v", when, s.Version(), err)
			}
		}
	}
}
