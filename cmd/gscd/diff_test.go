package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/savepoint"
)

// A rolled-back day has its diff and history. A day whose files are gone is named, with
// the days that can still be read; files that the two days share are not needed.
func TestDiffOfLostDays(t *testing.T) {
	dir := t.TempDir()
	a, _, errs := newTestApp()
	if code := run([]string{"demo", "--dir", dir}, a, commands); code != 0 {
		t.Fatal(errs)
	}
	table := filepath.Join(dir, "user_dim")
	store, err := local.New(table, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	opened, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := opened.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	labels, err := savepoint.Read(ctx, opened, newest)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := func(label string) *delta.Snapshot {
		r, err := labels.Resolve(label, true)
		if err != nil {
			t.Fatal(err)
		}
		s, err := opened.SnapshotAt(ctx, r.Entry.Version)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, e := range labels.Entries { // a rolled-back day can be asked for by name
		if !e.Kept {
			continue
		}
		says := e.Name + " is a savepoint that was rolled back"
		if code, out, stderr := gscdOn(table, "diff", e.Name, "2022-07-17", "--summary"); code != 0 || !strings.Contains(out, `"from":"`+e.Name+`"`) || !strings.Contains(stderr, says) {
			t.Errorf("exit %d, %q, %s", code, out, stderr)
		}
		code, out, stderr := gscdOn(table, "history", "--key", "id=5", "--to", e.Name)
		if code != 0 || !strings.Contains(out, `"valid_from":"2022-07-17T08:30:00.000000Z","valid_to":null`) || !strings.Contains(stderr, says) {
			t.Errorf("exit %d, %q, %s", code, out, stderr)
		}
	}
	before, after := snapshot("2022-07-15"), snapshot("2022-07-16")
	for _, add := range after.Files() {
		if _, shared := before.File(add.Path); !shared {
			if err := os.Remove(filepath.Join(table, add.Path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	code, out, stderr := gscdOn(table, "diff", "2022-07-15", "2022-07-16")
	if code != exitFailed || out != "" || !strings.Contains(stderr, "read 2022-07-16: ") ||
		!strings.Contains(stderr, "what can still be read: 2022-07-14, 2022-07-15; run gscd check") {
		t.Errorf("exit %d, %q, %s", code, out, stderr)
	}
	if code, out, stderr := gscdOn(table, "diff", "2022-07-14", "2022-07-15", "--summary"); code != 0 || !strings.Contains(out, `"updated":0`) {
		t.Errorf("exit %d, %q, %s", code, out, stderr)
	}
}
