package savepoint_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/savepoint"
)

// feedRig has four days of changes, and their change data.
func feedRig(t *testing.T) *rig {
	g := newRig(t)
	g.options = func(o *ingest.Options) { o.ChangeData, o.BatchRows = true, 3 }
	for day := 1; day <= 4; day++ {
		g.day(day, 1, 2, day+2)
	}
	g.put(july(5, 1), "d", 1, "")
	g.ingest()
	return g
}

// kindsOf counts what changed from a version on, by kind.
func kindsOf(t *testing.T, table *delta.Table, from, to int64) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for b, err := range scan.Changes(ctx, table, from, to, nil) {
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range b.Kinds {
			counts[k]++
		}
	}
	return counts
}

// Vacuum keeps the change data of the versions that stay readable, and check knows it.
func TestChangeDataAndVacuum(t *testing.T) {
	g := feedRig(t)
	all := keysWith(g.store, "_change_data/")
	if len(all) < 4 {
		t.Fatalf("change data files: %v", all)
	}
	g.check()
	g.vacuum(savepoint.VacuumOptions{Retain: time.Hour, Grace: time.Minute, Now: time.Now().Add(30 * time.Minute)})
	if left := keysWith(g.store, "_change_data/"); !slices.Equal(left, all) {
		t.Fatalf("a vacuum inside the history left %v of %v", left, all)
	}
	_, newest, m := g.newest()
	if got := kindsOf(t, g.table(), 0, newest.Version()); got[scan.Delete] != 1 || got[scan.UpdatePostimage] != got[scan.UpdatePreimage] || got[scan.Insert] != 8 {
		t.Errorf("changes of all versions: %v", got)
	}

	last := ""
	for c, err := range g.table().Commits(ctx, 0, newest.Version()) {
		if err != nil {
			t.Fatal(err)
		}
		if len(c.CDC) > 0 {
			last = c.CDC[0].Path
		}
	}
	if err := g.store.Delete(ctx, last); err != nil {
		t.Fatal(err)
	}
	report, err := savepoint.Check(ctx, g.table(), savepoint.CheckOptions{Now: time.Now()})
	if err != nil || len(report.Faults) != 1 || report.Faults[0].Check != "change_data" || report.Faults[0].File != last || report.Faults[0].Severity != savepoint.SeverityWarning {
		t.Fatalf("check: %+v, %v", report.Faults, err)
	}

	g.vacuum(savepoint.VacuumOptions{Retain: time.Minute, Grace: time.Minute, Now: time.Now().Add(48 * time.Hour)})
	if left := keysWith(g.store, "_change_data/"); len(left) >= len(all)-1 {
		t.Errorf("a vacuum behind the history left %v", left)
	}
	g.check()
	if len(m.Entries) != 5 {
		t.Errorf("labels: %s", g.states())
	}
}

// A rollback has its net changes as change data, whatever was joined or rewritten since,
// and does without them where rows that go can't be read.
func TestRollbackHasChangeData(t *testing.T) {
	g := feedRig(t)
	damaged := g.store.Clone()
	_, before, _ := g.newest()
	plan := g.rollback("2022-07-02", savepoint.RollbackOptions{Differ: diff.Differ})
	if plan.ChangeFiles != 1 || plan.NoChangeData != "" {
		t.Fatalf("%+v", plan)
	}
	// Keys 5 and 6 go, 1 comes back, 2, 100 and 101 are as they were: 3 and 4 were not touched.
	want := map[string]int{scan.Delete: 2, scan.Insert: 1, scan.UpdatePreimage: 3, scan.UpdatePostimage: 3}
	if got := kindsOf(t, g.table(), plan.Committed, plan.Committed); len(got) != 4 || got[scan.Delete] != 2 || got[scan.Insert] != 1 || got[scan.UpdatePreimage] != 3 || got[scan.UpdatePostimage] != 3 {
		t.Errorf("the rollback changed %v, want %v", got, want)
	}

	var key string
	target, err := g.table().SnapshotAt(ctx, plan.Version)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range before.Files() {
		if _, ok := target.File(a.Path); !ok && key == "" {
			key = a.Path
		}
	}
	if err := damaged.Delete(ctx, key); err != nil {
		t.Fatal(err)
	}
	g.store = damaged
	plan = g.rollback("2022-07-02", savepoint.RollbackOptions{Differ: diff.Differ})
	if plan.ChangeFiles != 0 || !strings.Contains(plan.NoChangeData, key) || plan.Committed < 0 {
		t.Errorf("%+v", plan)
	}
}
