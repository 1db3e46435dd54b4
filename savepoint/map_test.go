package savepoint_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gscd-io/gscd/savepoint"
)

func TestResolve(t *testing.T) {
	g := newRig(t)
	g.day(3, 1, 2, 3)
	g.day(4, 1)
	g.day(7, 2) // 5 and 6 are empty
	g.day(8, 3)
	g.ingest()
	if got, want := g.states(), "03 sealed 1, 04 sealed 3, 05 sealed 3, 06 sealed 3, 07 sealed 5, 08 open 6"; got != want {
		t.Fatalf("map: %s\nwant %s", got, want)
	}
	if _, err := savepoint.Delete(ctx, g.table(), "2022-07-04", time.Now()); err != nil {
		t.Fatal(err)
	}
	g.rollback("2022-07-06", savepoint.RollbackOptions{})
	_, _, m := g.newest()
	for _, c := range []struct {
		label   string
		sealed  bool
		version int64
		err     error
	}{
		{"2022-07-03", true, 1, nil},
		{"2022-07-05", true, 3, nil},
		{"2022-07-06", false, 3, nil},
		{"2022-07-07@5", false, 5, nil},
		{"2022-07-02", false, 0, savepoint.ErrBefore},
		{"2022-07-04", false, 0, savepoint.ErrDeleted},
		{"2022-07-07", false, 0, savepoint.ErrRolledBack},
		{"2022-07-08", false, 0, savepoint.ErrRolledBack},
		{"2022-07-09", false, 0, savepoint.ErrAfter},
		{"2022-07", false, 0, savepoint.ErrNoLabel},
		{"2022-07-07@6", false, 0, savepoint.ErrNoLabel},
	} {
		r, err := m.Resolve(c.label, c.sealed)
		if !errors.Is(err, c.err) || err == nil && r.Entry.Version != c.version {
			t.Errorf("%s: version %d, %v; want version %d, %v", c.label, r.Entry.Version, err, c.version, c.err)
		}
	}
	g.ingest()
	if got, want := g.states(), "03 sealed 1, 04 deleted 3, 05 sealed 3, 06 sealed 3, 07 sealed 10, 07@5 rolled-back 5, 08 open 11"; got != want {
		t.Errorf("map: %s\nwant %s", got, want)
	}
	if _, err := func() (savepoint.Resolution, error) { _, _, m := g.newest(); return m.Resolve("2022-07-08", true) }(); !errors.Is(err, savepoint.ErrNotSealed) {
		t.Errorf("the open label under sealed: %v", err)
	}
	g.check()
}

func TestSummaries(t *testing.T) {
	g := newRig(t)
	g.day(1, 1, 2, 3, 4)
	g.garbage(july(1, 23), 1)
	g.day(2, 1, 2, 3, 4)
	g.put(july(1, 12), "u", 5, "late")
	g.garbage(july(2, 23), 1)
	g.day(3, 1, 2, 3, 4, 5)
	g.ingest()
	if _, err := savepoint.CreateNamed(ctx, g.table(), "two", 3); err != nil {
		t.Fatal(err)
	}
	table, s, m := g.newest()
	list, err := m.Summaries(ctx, table, s)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range list {
		c := x.Counts
		got = append(got, fmt.Sprintf("%s %s rows %d +%d ~%d -%d late %d dead %d %v sealed %v own %v",
			x.Name, x.State, x.Rows, c.Inserts, c.Updates, c.Deletes, c.Late, x.DeadLetters, x.Attributes, x.SealedAt != "", x.OwnBytes > 0))
	}
	want := []string{
		"2022-07-01 sealed rows 6 +0 ~6 -0 late 0 dead 1 [no load] sealed true own true",
		// Held under a name too, so deleting the label would free nothing.
		"2022-07-02 sealed rows 7 +0 ~7 -0 late 1 dead 2 [no load] sealed true own false",
		"2022-07-03 open rows 7 +0 ~7 -0 late 0 dead 2 [no load] sealed false own true",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	seal, err := m.Seal(ctx, table, m.Entries[1])
	if err != nil || len(seal.Evidence.Late) != 1 || seal.Evidence.Late[0].Key != `{"id":5}` || seal.Evidence.Late[0].Fate != "folded" {
		t.Errorf("evidence of day 2: %+v, %v", seal, err)
	}
	wrong := m.Entries[1]
	wrong.Version = m.Entries[0].Version
	if _, err := m.Seal(ctx, table, wrong); !errors.Is(err, savepoint.ErrNotSealer) {
		t.Errorf("a version that did not seal the label: %v", err)
	}
	// own_bytes is what a vacuum frees once the label is given up.
	if _, err := savepoint.Delete(ctx, g.table(), "2022-07-01", time.Now()); err != nil {
		t.Fatal(err)
	}
	r := g.vacuum(savepoint.VacuumOptions{})
	if freed := r.ByKind["data"].Bytes + r.ByKind["deletion_vector"].Bytes; freed != list[0].OwnBytes {
		t.Errorf("the vacuum freed %d bytes, own_bytes was %d: %v", freed, list[0].OwnBytes, r.Deleted)
	}
}

func TestNames(t *testing.T) {
	g := newRig(t)
	g.day(1, 1)
	g.day(2, 1)
	g.day(3, 1)
	g.ingest()
	for _, name := range []string{"2022-07-16", "", "1st", "a b", "a/b", "é"} {
		if _, err := savepoint.CreateNamed(ctx, g.table(), name, -1); !errors.Is(err, savepoint.ErrName) {
			t.Errorf("create %q: %v, want ErrName", name, err)
		}
	}
	if _, err := savepoint.CreateNamed(ctx, g.table(), "batch", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := savepoint.CreateNamed(ctx, g.table(), "batch", 2); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if _, err := savepoint.CreateNamed(ctx, g.table(), "batch", 1); !errors.Is(err, savepoint.ErrName) {
		t.Errorf("another version under the same name: %v", err)
	}
	before := g.pinned()
	g.day(4, 1)
	g.ingest()
	g.vacuum(savepoint.VacuumOptions{})
	if got := g.pinned()["batch"]; got != before["batch"] || got == "" {
		t.Errorf("rows of the named savepoint: %q, want %q", got, before["batch"])
	}
	if _, err := savepoint.Delete(ctx, g.table(), "batch", time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := savepoint.Delete(ctx, g.table(), "batch", time.Now()); err == nil {
		t.Error("deleted twice")
	}
	if _, err := savepoint.CreateNamed(ctx, g.table(), "again", 2); err != nil {
		t.Errorf("its files are there until the next vacuum: %v", err)
	}
	g.check()
}

// A version whose files a vacuum took must not be pinned.
func TestPinNeedsFiles(t *testing.T) {
	g := newRig(t)
	g.day(1, 1)
	g.ingest()
	for i := range 3 { // one file each, so that the first is soon rewritten
		g.put(july(1, 2+i), "u", 1, fmt.Sprint(i))
		g.put(july(1, 2+i), "u", 100, fmt.Sprint(i))
		g.put(july(1, 2+i), "u", 101, fmt.Sprint(i))
		g.ingest()
	}
	removed := g.vacuum(savepoint.VacuumOptions{})
	if removed.ByKind["data"].Files == 0 || removed.Tombstones == 0 {
		t.Fatalf("removed %v, dropped %d tombstones", removed.Deleted, removed.Tombstones)
	}
	// That wrote a checkpoint, before which the log is of no use now.
	if again := g.vacuum(savepoint.VacuumOptions{}); kinds(again) != "log 3" {
		t.Errorf("the second run removed %s", kinds(again))
	}
	if _, err := savepoint.CreateNamed(ctx, g.table(), "old", 0); err == nil {
		t.Error("a version without its files was pinned")
	}
	g.check()
}
