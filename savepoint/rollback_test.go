package savepoint_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/savepoint"
)

// fiveDays is a table of four sealed days and an open one: in each some keys
// change, one comes and stays, one comes and goes the day after.
func fiveDays(t testing.TB) *rig {
	g := newRig(t)
	for day := 1; day <= 5; day++ {
		g.day(day, 1, 2, 3, 4, day+10)
		if day%2 == 1 { // the files of even days die with the day after
			g.put(july(day, 21), "c", day+20, "stays")
		}
		g.put(july(day, 22), "d", day+9, "")
	}
	g.ingest()
	return g
}

func TestRollbackAndReplay(t *testing.T) {
	g := fiveDays(t)
	before := g.pinned()
	dry := g.rollback("2022-07-02", savepoint.RollbackOptions{DryRun: true})
	if dry.Committed != -1 || dry.FilesRemoved == 0 || dry.FilesAdded == 0 || len(dry.Offsets) != 2 {
		t.Errorf("dry run: %+v", dry)
	}
	if after := g.pinned(); !maps.Equal(before, after) {
		t.Error("a dry run changed rows")
	}
	done := g.rollback("2022-07-02", savepoint.RollbackOptions{})
	if !slices.Equal(done.Labels, []string{"2022-07-03", "2022-07-04", "2022-07-05"}) || !slices.Equal(done.Labels, dry.Labels) || done.Committed < 0 {
		t.Errorf("rolled back %v, dry run %v, version %d", done.Labels, dry.Labels, done.Committed)
	}
	if got := g.pinned(); got["newest"] != before["2022-07-02"] || got["2022-07-04@7"] != before["2022-07-04"] {
		t.Error("the table is not that of the label, or a kept savepoint changed")
	}
	if again := g.rollback("2022-07-02", savepoint.RollbackOptions{}); !again.Nothing || again.Committed != -1 {
		t.Errorf("the second time: %+v", again)
	}
	g.check()
	g.ingest()
	after := g.pinned()
	for name, rows := range before {
		if after[name] != rows {
			t.Errorf("%s after the replay:\n%s\nwant\n%s", name, after[name], rows)
		}
	}
	g.check()
}

func TestRollbackWithoutReplay(t *testing.T) {
	g := fiveDays(t)
	before := g.pinned()
	plan := g.rollback("2022-07-02", savepoint.RollbackOptions{NoReplay: true})
	if got := g.pinned()["newest"]; got != before["2022-07-02"] {
		t.Errorf("rows: %s", got)
	}
	g.day(6, 1)
	g.ingest()
	_, _, m := g.newest()
	if _, err := m.Resolve("2022-07-04", false); !errors.Is(err, savepoint.ErrRolledBack) {
		t.Errorf("a label rolled back for good: %v", err)
	}
	r, err := m.Resolve("2022-07-05", true)
	if err != nil || r.Notice != "2022-07-05 is incomplete: rolled back to 2022-07-02 without replay" {
		t.Errorf("the label that was open: %q, %v (plan %+v)", r.Notice, err, plan)
	}
	g.check()
}

// What the topic no longer has can't be read again: nothing is changed.
func TestRollbackRefused(t *testing.T) {
	g := fiveDays(t)
	table, s, m := g.newest()
	third, err := m.Evidence(ctx, table, m.Entries[2])
	if err != nil {
		t.Fatal(err)
	}
	earliest := map[change.PartitionID]int64{}
	for _, p := range third.Partitions {
		earliest[change.PartitionID{Topic: p.Topic, Partition: p.Partition}] = p.Offset
	}
	for label, refused := range map[string]bool{"2022-07-01": true, "2022-07-02": true, "2022-07-03": false, "2022-07-04": false} {
		_, err := savepoint.Rollback(ctx, table, label, savepoint.RollbackOptions{DryRun: true, Earliest: earliest, Now: time.Now()})
		if errors.Is(err, savepoint.ErrNoReplay) != refused {
			t.Errorf("to %s: %v, want refused %v", label, err, refused)
		}
	}
	for label, want := range map[string]error{"2022-07-05": savepoint.ErrNotSealed, "2022-06-30": savepoint.ErrBefore, "2022-08-01": savepoint.ErrAfter, "x": savepoint.ErrNoLabel} {
		if _, err := savepoint.Rollback(ctx, table, label, savepoint.RollbackOptions{Now: time.Now()}); !errors.Is(err, want) {
			t.Errorf("to %s: %v, want %v", label, err, want)
		}
	}
	// A savepoint with a file lost must not become the newest version.
	lost := keysWith(g.store, "part-")
	for _, key := range lost {
		if add := s.Files()[len(s.Files())-1]; key != add.Path {
			if err := g.store.Delete(ctx, key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := savepoint.Rollback(ctx, table, "2022-07-01", savepoint.RollbackOptions{Now: time.Now()}); err == nil {
		t.Error("went back to a savepoint whose files are lost")
	}
	if now, err := table.Snapshot(ctx); err != nil || now.Version() != s.Version() {
		t.Errorf("version %d, %v: a refused rollback committed", now.Version(), err)
	}
}

// A label whose savepoint was deleted before the kept one, and that was sealed anew since
// it was rolled back, is deleted again: its new savepoint belongs to what is undone.
func TestRollbackToKeptBehindDeleted(t *testing.T) {
	g := newRig(t)
	for day := 1; day <= 5; day++ {
		g.day(day, 1, 2, 3, 4, day+10)
		if day == 3 || day == 5 {
			g.ingest()
		}
		if day == 3 {
			if _, err := savepoint.Delete(t.Context(), g.table(), "2022-07-02", time.UnixMilli(g.clock)); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := g.pinned()["2022-07-04"]
	states := func(want string) {
		t.Helper()
		if got := g.states(); got != want {
			t.Fatalf("map: %s\nwant %s", got, want)
		}
	}
	states("01 sealed 1, 02 deleted 3, 03 sealed 7, 04 sealed 9, 05 open 10")
	g.rollback("2022-07-01", savepoint.RollbackOptions{})
	g.ingest()
	states("01 sealed 1, 02 sealed 13, 03 sealed 15, 03@7 rolled-back 7, 04 sealed 17, 04@9 rolled-back 9, 05 open 18")
	g.rollback("2022-07-04@9", savepoint.RollbackOptions{})
	states("01 sealed 1, 02 deleted 3, 02@13 rolled-back 13, 03 sealed 7, 03@15 rolled-back 15, 04 sealed 9, 04@17 rolled-back 17, 05 rolled-back -1")
	if got := g.pinned()["newest"]; got != old {
		t.Errorf("newest: %s\nwant %s", got, old)
	}
	g.check()
}

// A kept savepoint brings its whole history back: the labels before it answer
// with the versions that they had, those sealed since are kept in turn.
func TestRollbackToKept(t *testing.T) {
	g := fiveDays(t) // days sealed by 1, 3, 5, 7
	old := g.pinned()
	g.rollback("2022-07-01", savepoint.RollbackOptions{})
	// Half of the topic again, so that day 2 is sealed anew and day 3 is open.
	all, clock := g.lines, g.clock
	g.lines = g.lines[:len(g.lines)/2]
	g.clock = july(3, 12).UnixMilli()
	g.ingest()
	const between = "01 sealed 1, 02 sealed 11, 02@3 rolled-back 3, 03 open 12, 03@5 rolled-back 5, 04 rolled-back 7, 04@7 rolled-back 7, 05 rolled-back -1"
	if got := g.states(); got != between {
		t.Fatalf("map: %s\nwant %s", got, between)
	}
	g.rollback("2022-07-04@7", savepoint.RollbackOptions{})
	const want = "01 sealed 1, 02 sealed 3, 02@11 rolled-back 11, 03 sealed 5, 04 sealed 7, 05 rolled-back -1"
	if got := g.states(); got != want {
		t.Fatalf("map: %s\nwant %s", got, want)
	}
	got := g.pinned()
	for _, label := range []string{"2022-07-01", "2022-07-02", "2022-07-03", "2022-07-04"} {
		if got[label] != old[label] {
			t.Errorf("%s: %s\nwant %s", label, got[label], old[label])
		}
	}
	if got["newest"] != old["2022-07-04"] {
		t.Errorf("newest: %s", got["newest"])
	}
	g.check()
	g.lines, g.clock = all, clock
	g.ingest()
	if got := g.pinned()["newest"]; got != old["newest"] {
		t.Errorf("newest after the replay: %s\nwant %s", got, old["newest"])
	}
	g.check()
}
