package delta_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// fileSet prints what EachFileSet promises of files: path, size, deletion vector.
func fileSet(files []*action.Add) string {
	var list []string
	for _, a := range files {
		id := ""
		if a.DeletionVector != nil {
			id = a.DeletionVector.UniqueID()
		}
		list = append(list, fmt.Sprint(a.Path, " ", a.Size, " ", id))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// Versions that are read side by side, whole or for their files alone, are those
// that are read one by one: from commits, from a checkpoint, round a damaged one.
func TestEachVersion(t *testing.T) {
	c := newClock()
	store, table, s := newTable(t, c)
	for i := range 9 {
		tx := delta.NewTransaction(table, s)
		tx.Add(add(fmt.Sprintf("part-%d.parquet", i)))
		if i > 2 {
			old, ok := s.File(fmt.Sprintf("part-%d.parquet", i-1))
			if !ok {
				t.Fatal("no file")
			}
			tx.Remove(delta.RemoveOf(old, c.now(), true))
			if i%2 == 0 {
				again := withVector(add(old.Path), i)
				tx.Add(again)
			}
		}
		s = commit(t, tx)
		if i == 3 || i == 6 {
			if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		c.advance(time.Minute)
	}
	versions := []int64{9, 0, 4, 5, 7, 6, 1}
	compare := func() {
		t.Helper()
		want := map[int64]string{}
		for _, v := range versions {
			one, err := table.SnapshotAt(ctx, v)
			if err != nil {
				t.Fatal(err)
			}
			want[v] = fileSet(one.Files())
		}
		seen := 0
		err := table.EachSnapshot(ctx, versions, func(v int64, s *delta.Snapshot, err error) error {
			seen++
			if err != nil || s.Version() != v || fileSet(s.Files()) != want[v] {
				t.Errorf("version %d: %v, want %s", v, err, want[v])
			}
			return nil
		})
		if err != nil || seen != len(versions) {
			t.Errorf("%d versions, %v", seen, err)
		}
		err = table.EachFileSet(ctx, versions, func(v int64, files []*action.Add, err error) error {
			if got := fileSet(files); err != nil || got != want[v] {
				t.Errorf("version %d: files %s, %v, want %s", v, got, err, want[v])
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	compare()
	if err := store.Put(ctx, deltalog.CheckpointKey(7), []byte("rotten")); err != nil {
		t.Fatal(err)
	}
	compare()

	var notFound *delta.VersionNotFoundError
	err := table.EachFileSet(ctx, []int64{10}, func(_ int64, _ []*action.Add, err error) error { return err })
	if !errors.As(err, &notFound) || notFound.Version != 10 {
		t.Errorf("a version that is not there: %v", err)
	}
	enough, calls := errors.New("enough"), 0
	err = table.EachSnapshot(ctx, versions, func(int64, *delta.Snapshot, error) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("ended by %v after %d calls", err, calls)
	}
}

func TestVersionAtAndHistory(t *testing.T) {
	c := newClock()
	store, table, s := newTable(t, c)
	start := c.now()
	for i := range 5 {
		c.advance(time.Hour)
		tx := delta.NewTransaction(table, s)
		tx.Add(add(fmt.Sprintf("part-%d.parquet", i)))
		tx.SetCommitInfo("WRITE", nil, nil, map[string]any{"n": i})
		s = commit(t, tx)
		if err := store.SetModified(deltalog.CommitKey(s.Version()), c.now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.SetModified(deltalog.CommitKey(0), start); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		after time.Duration
		want  int64
	}{{0, 0}, {time.Minute, 0}, {time.Hour, 1}, {2*time.Hour - time.Millisecond, 1}, {5 * time.Hour, 5}, {1000 * time.Hour, 5}} {
		v, at, err := table.VersionAt(ctx, start.Add(x.after))
		if err != nil || v != x.want || !at.Equal(start.Add(time.Duration(x.want)*time.Hour)) {
			t.Errorf("%s after the first: version %d of %s, %v; want %d", x.after, v, at, err, x.want)
		}
	}
	_, _, err := table.VersionAt(ctx, start.Add(-time.Millisecond))
	if !errors.Is(err, delta.ErrVersionNotFound) || !strings.Contains(err.Error(), "the oldest readable version is 0, of 2024-03-01T12:00:00Z") {
		t.Errorf("before the first: %v", err)
	}
	var got []string
	for v, err := range table.History(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s %s", v.Version, v.Committed.Sub(start), action.ParseInfo(v.Info).Operation))
	}
	want := "0 0s WRITE, 1 1h0m0s WRITE, 2 2h0m0s WRITE, 3 3h0m0s WRITE, 4 4h0m0s WRITE, 5 5h0m0s WRITE"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("history: %s\nwant %s", s, want)
	}
}

// commitAt makes a version at a time, with an in-commit timestamp where own is not zero.
func commitAt(t *testing.T, store *mem.Store, table *delta.Table, s *delta.Snapshot, at, own time.Time) *delta.Snapshot {
	t.Helper()
	x := delta.NewTransaction(table, s)
	x.Add(add(fmt.Sprint(s.Version() + 1)))
	if !own.IsZero() {
		x.SetCommitInfo("WRITE", nil, nil, map[string]any{"inCommitTimestamp": own.UnixMilli()})
	}
	s = commit(t, x)
	if err := store.SetModified(deltalog.CommitKey(s.Version()), at); err != nil {
		t.Fatal(err)
	}
	return s
}

// Over islands a time gives a version that was there then, or an error that names
// the versions next to it: never the one below the hole, as if it were that one.
func TestVersionAtOverHoles(t *testing.T) {
	store, table, s := newTable(t, newClock())
	start := time.Date(2024, 3, 2, 0, 0, 0, 0, time.UTC)
	for i := range 9 {
		s = commitAt(t, store, table, s, start.Add(time.Duration(i+1)*time.Hour), time.Time{})
		if v := s.Version(); v == 2 || v == 6 {
			if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, v := range []int64{0, 1, 3, 4, 5} {
		if err := store.Delete(ctx, deltalog.CommitKey(v)); err != nil {
			t.Fatal(err)
		}
	}
	for hours, want := range map[float64]string{
		1: "version can't be read: nothing was committed at or before 2024-03-02T01:00:00Z; the oldest readable version is 2, of 2024-03-02T02:00:00Z",
		2: "2",
		2.5: "version can't be read: what was there at 2024-03-02T02:30:00Z is not kept; the readable versions next to it are 2, of 2024-03-02T02:00:00Z, " +
			"and 6, of 2024-03-02T06:00:00Z",
		5.5: "version can't be read: what was there at 2024-03-02T05:30:00Z is not kept; the readable versions next to it are 2, of 2024-03-02T02:00:00Z, " +
			"and 6, of 2024-03-02T06:00:00Z",
		6: "6", 8.5: "8", 100: "9",
	} {
		v, _, err := table.VersionAt(ctx, start.Add(time.Duration(hours*float64(time.Hour))))
		got := fmt.Sprint(v)
		if err != nil {
			got = err.Error()
		}
		if got != want || err != nil && !errors.Is(err, delta.ErrVersionNotFound) {
			t.Errorf("%v hours: %s\nwant %s", hours, got, want)
		}
	}
}

// In-commit timestamps count from where they begin, whatever the times of the files
// are: here the table was copied when all was done.
func TestVersionAtWithInCommitTimestamps(t *testing.T) {
	store, table, s := newTable(t, newClock())
	start := time.Date(2024, 3, 2, 0, 0, 0, 0, time.UTC)
	copied := start.Add(1000 * time.Hour)
	if err := store.SetModified(deltalog.CommitKey(0), copied); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		own := time.Time{}
		if i >= 2 {
			own = start.Add(time.Duration(i+1) * time.Hour)
		}
		s = commitAt(t, store, table, s, copied.Add(time.Duration(i+1)*time.Second), own)
	}
	for hours, want := range map[float64]int64{3: 3, 3.5: 3, 5: 5, 6: 6, 2000: 6} {
		v, at, err := table.VersionAt(ctx, start.Add(time.Duration(hours*float64(time.Hour))))
		if err != nil || v != want || !at.Equal(start.Add(time.Duration(want)*time.Hour)) {
			t.Errorf("%v hours: version %d of %s, %v; want %d", hours, v, at, err, want)
		}
	}
	if _, _, err := table.VersionAt(ctx, start); !errors.Is(err, delta.ErrVersionNotFound) {
		t.Errorf("before they begin, and before the files were copied: %v", err)
	}
}
