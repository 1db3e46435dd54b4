package delta_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
)

// By the log goes what a full vacuum removes, but for what no commit names; what
// versions in the window need stays.
func TestVacuumByLog(t *testing.T) {
	table, s := logTable(t, false, 12)
	store := table.Store()
	old, err := table.SnapshotAt(ctx, 6)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for v := range int64(12) {
		at, err := table.SnapshotAt(ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		for _, add := range at.Files() {
			keys[add.Path] = true
		}
	}
	for key := range keys { // names that a vacuum looks at
		if err := store.Put(ctx, key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Put(ctx, "orphan.parquet", []byte("x")); err != nil {
		t.Fatal(err)
	}
	run := func(byLog bool) (list []string, report *delta.VacuumReport) {
		t.Helper()
		report, err := delta.Vacuum(ctx, table, delta.VacuumOptions{
			Keep: []*delta.Snapshot{old}, Grace: time.Minute, Now: time.Now().Add(time.Hour), DryRun: true, ByLog: byLog,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range report.Deleted {
			list = append(list, g.Key)
		}
		return list, report
	}
	full, _ := run(false)
	byLog, report := run(true)
	if want := slices.DeleteFunc(slices.Clone(full), func(key string) bool { return key == "orphan.parquet" }); !slices.Equal(byLog, want) || len(want) < 5 || len(full) != len(want)+1 {
		t.Errorf("by the log %q, fully %q", byLog, full)
	}
	for _, add := range slices.Concat(old.Files(), s.Files()) {
		if slices.Contains(byLog, add.Path) {
			t.Errorf("%s goes, and is needed", add.Path)
		}
	}
	if report.ByKind[delta.KindData].Files != int64(len(byLog)) {
		t.Errorf("%+v", report.ByKind)
	}
}
