package savepoint_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/savepoint"
)

func TestVacuum(t *testing.T) {
	g := fiveDays(t)
	before := g.pinned()
	// Everything is young: nothing goes.
	if r := g.vacuum(savepoint.VacuumOptions{Retain: time.Hour, Grace: time.Hour}); len(r.Deleted) != 0 {
		t.Errorf("removed what is young: %v", r.Deleted)
	}
	// No label is given up: only the log between the savepoints goes.
	if r := g.vacuum(savepoint.VacuumOptions{}); kinds(r) != "log 4" {
		t.Errorf("removed %s", kinds(r))
	}
	if after := g.pinned(); !maps.Equal(before, after) {
		t.Error("a vacuum changed rows")
	}
	g.check()
	for _, label := range []string{"2022-07-02", "2022-07-03"} {
		if _, err := savepoint.Delete(ctx, g.table(), label, time.Now()); err != nil {
			t.Fatal(err)
		}
		delete(before, label)
	}
	r := g.vacuum(savepoint.VacuumOptions{})
	for _, kind := range []string{"data", "log", "backup", "held", "marker"} {
		if r.ByKind[kind].Files == 0 {
			t.Errorf("nothing of kind %s was removed: %s", kind, kinds(r))
		}
	}
	if left := keysWith(g.store, savepoint.BackupFolder); len(left) != 4 {
		t.Errorf("backups: %v, want those of two savepoints", left)
	}
	if after := g.pinned(); !maps.Equal(before, after) {
		t.Error("a vacuum changed rows")
	}
	if r := g.vacuum(savepoint.VacuumOptions{}); len(r.Deleted) != 0 {
		t.Errorf("the second run removed %v", r.Deleted)
	}
	g.check()
	// The lane goes on, from the newest version and after a rollback.
	g.day(6, 1, 3)
	g.ingest()
	g.rollback("2022-07-01", savepoint.RollbackOptions{})
	g.ingest()
	after := g.pinned()
	for _, label := range []string{"2022-07-01", "2022-07-04"} {
		if after[label] != before[label] {
			t.Errorf("%s: %s\nwant %s", label, after[label], before[label])
		}
	}
	g.check()
}

// Retain keeps versions readable by number that no savepoint needs.
func TestVacuumRetains(t *testing.T) {
	g := newRig(t)
	past := time.Now().Add(-10 * time.Hour)
	for i := range 6 { // a version an hour, from 10 hours ago on
		at := past.Add(time.Duration(i) * time.Hour)
		g.store.SetClock(func() time.Time { return at })
		g.put(july(1, 1+i), "u", 1, fmt.Sprint(i))
		g.put(july(1, 1+i), "u", 2, fmt.Sprint(i))
		g.ingest()
	}
	g.store.SetClock(time.Now)
	want := map[int64]string{}
	for v := range int64(6) {
		rows, err := rowsAt(g.store, v)
		if err != nil {
			t.Fatal(err)
		}
		want[v] = rows
	}
	r := g.vacuum(savepoint.VacuumOptions{Retain: 7*time.Hour + 30*time.Minute})
	if r.ByKind["data"].Files == 0 {
		t.Errorf("removed %v", r.Deleted)
	}
	for v := range int64(6) {
		rows, err := rowsAt(g.store, v)
		// Versions 3, 4, 5 are younger, version 2 was the newest 7:30 ago.
		if kept := v >= 2; kept && (err != nil || rows != want[v]) {
			t.Errorf("version %d: %s, %v; want %s", v, rows, err, want[v])
		} else if !kept && err == nil {
			t.Errorf("version %d can still be read: %s", v, rows)
		}
	}
	g.check()
}

// A rolled-back savepoint is unpinned when its time is over, and not before.
func TestVacuumUnpinsRolledBack(t *testing.T) {
	g := fiveDays(t)
	g.rollback("2022-07-02", savepoint.RollbackOptions{})
	g.ingest() // the labels are sealed again, and their entries as rolled back are gone
	before := g.pinned()
	if r := g.vacuum(savepoint.VacuumOptions{RolledBack: time.Hour}); len(r.Unpinned) != 0 {
		t.Errorf("unpinned too early: %v", r.Unpinned)
	}
	if after := g.pinned(); !maps.Equal(before, after) {
		t.Error("a kept savepoint changed")
	}
	r := g.vacuum(savepoint.VacuumOptions{RolledBack: time.Hour, Now: time.Now().Add(2 * time.Hour)})
	if !slices.Equal(r.Unpinned, []string{"2022-07-03@5", "2022-07-04@7"}) || r.ByKind["data"].Files == 0 {
		t.Errorf("unpinned %v, removed %s", r.Unpinned, kinds(r))
	}
	if got, want := g.states(), "01 sealed 1, 02 sealed 3, 03 sealed 11, 04 sealed 13, 05 open 15"; got != want {
		t.Errorf("map: %s\nwant %s", got, want)
	}
	after := g.pinned()
	maps.DeleteFunc(before, func(name, _ string) bool { return strings.Contains(name, "@") })
	if !maps.Equal(before, after) {
		t.Error("the other savepoints changed")
	}
	g.check()
}

// The commits that list late changes stay until the label's seal has listed them.
func TestVacuumKeepsLateLists(t *testing.T) {
	g := newRig(t)
	g.day(1, 1)
	g.day(2, 1)
	g.put(july(1, 5), "u", 3, "late")
	g.ingest()
	for range 25 { // more commits, so that the log has a checkpoint behind the list
		g.put(july(2, 23), "u", 1, "more")
		g.ingest()
	}
	if r := g.vacuum(savepoint.VacuumOptions{}); r.ByKind["log"].Files == 0 {
		t.Fatalf("removed %s", kinds(r))
	}
	g.day(3, 1)
	g.ingest()
	table, _, m := g.newest()
	ev, err := m.Evidence(ctx, table, m.Entries[1])
	if err != nil || ev.Counts.Late != 1 || len(ev.Late) != 1 {
		t.Errorf("late changes in the evidence: %+v, %v", ev, err)
	}
	g.check()
}

// Whatever is done, what is pinned reads as before.
func TestPinnedProperty(t *testing.T) {
	if err := flag.Set("rapid.checks", "8"); err != nil { // each is a table of a week, read some dozen times
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		g := newRig(t)
		day := 1
		known := map[string]string{} // rows of each pin when it was first seen
		fill := func(days int) {
			for range days {
				if day == 28 {
					return
				}
				ids := rapid.SliceOfN(rapid.IntRange(1, 12), 0, 6).Draw(r, "ids")
				for i, id := range ids {
					g.put(july(day, 1+i), rapid.SampledFrom([]string{"u", "u", "d"}).Draw(r, "op"), id, fmt.Sprint(day))
				}
				g.day(day)
				day += rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(r, "next")
			}
			g.ingest()
		}
		compare := func(what string) {
			got := g.pinned()
			for name, rows := range known {
				if name == "newest" {
					continue
				}
				if _, pinned := got[name]; !pinned {
					delete(known, name)
				} else if got[name] != rows {
					r.Fatalf("%s after %s:\n%s\nwant\n%s", name, what, got[name], rows)
				}
			}
			maps.Copy(known, got)
		}
		fill(rapid.IntRange(2, 4).Draw(r, "days"))
		compare("ingest")
		for range rapid.IntRange(2, 6).Draw(r, "steps") {
			_, s, _ := g.newest()
			var names []string
			for _, p := range savepoint.PinsOf(s) {
				names = append(names, p.Names...)
			}
			what := rapid.SampledFrom([]string{"ingest", "rollback", "delete", "create", "vacuum", "vacuum"}).Draw(r, "step")
			switch what {
			case "ingest":
				fill(rapid.IntRange(1, 2).Draw(r, "days"))
			case "rollback":
				names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "n") })
				if len(names) == 0 {
					continue
				}
				to := rapid.SampledFrom(names).Draw(r, "to")
				// After a rollback, rows of labels from there on may be sealed anew with the same rows:
				// the topic is the same, so they must be.
				plan, err := savepoint.Rollback(ctx, g.table(), to, savepoint.RollbackOptions{Now: time.Now()})
				if err != nil {
					r.Fatalf("roll back to %s: %v", to, err)
				}
				if got := g.pinned()["newest"]; !plan.Nothing && got != known[to] {
					r.Fatalf("rolled back to %s:\n%s\nwant\n%s", to, got, known[to])
				}
			case "delete":
				if len(names) == 0 {
					continue
				}
				name := rapid.SampledFrom(names).Draw(r, "name")
				if _, err := savepoint.Delete(ctx, g.table(), name, time.Now()); err != nil {
					r.Fatalf("delete %s: %v", name, err)
				}
			case "create":
				name := fmt.Sprintf("n%d", s.Version())
				if _, err := savepoint.CreateNamed(ctx, g.table(), name, -1); err != nil {
					r.Fatalf("create: %v", err)
				}
			case "vacuum":
				rolledBack := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(r, "rolled back")
				g.vacuum(savepoint.VacuumOptions{RolledBack: rolledBack})
			}
			compare(what)
			g.check()
		}
	})
}
