package ingest_test

import (
	"context"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/compact"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// Files are written anew beside the batches: rows, every sealed day and the positions of
// all rows are those of a table of which no file is. What is left of work that was given
// up is garbage to a vacuum, and nothing else.
func TestRewritesBesideBatches(t *testing.T) {
	src := daysOf(4, 60)
	plain, s := newShared(t), newShared(t)
	for _, x := range []*shared{plain, s} {
		x.o = func(o *ingest.Options) {
			o.BatchRows = 4
			o.Rewrites.Limits = compact.Limits{JoinFiles: 1000, JoinAtSeal: 1000, DeadShare: 1}
			if x == s {
				o.Rewrites.Limits = compact.Limits{JoinFiles: 3, DeadShare: .1, WorthShare: .01, WorthBytes: 1, PinnedShare: .2, CopyShare: .6, TinyRows: 1, TinyBytes: 1}
			}
		}
	}
	for _, upTo := range [][2]int{{40, 40}, {90, 75}, {200, 200}} {
		arrived := src.upTo(upTo[0], upTo[1])
		plain.mustRun(arrived, "20T12:00")
		s.mustRun(arrived, "20T12:00")
	}
	if got, want := s.rows(-1), plain.rows(-1); got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	for _, day := range []string{"2022-07-16", "2022-07-17", "2022-07-18", "2022-07-19"} {
		if got, want := s.asOf(day), plain.asOf(day); got != want {
			t.Errorf("%s: rows %s, want %s", day, got, want)
		}
	}
	got, want := s.positions(), plain.positions()
	for id, text := range want {
		if got[id] != text {
			t.Errorf("the row %d is at %s, want %s", id, got[id], text)
		}
	}
	s.consistent()
	rewritten := 0
	for c, err := range s.table.Commits(context.Background(), 1, s.snapshot().Version()) {
		if err != nil {
			t.Fatal(err)
		}
		moves := len(c.Adds) > 0
		for _, add := range c.Adds {
			moves = moves && !add.DataChange
		}
		if moves {
			rewritten++
		}
	}
	if rewritten < 2 { // one is waited for at each seal where it was begun
		t.Errorf("%d commits moved rows", rewritten)
	}
	if _, err := savepoint.Vacuum(context.Background(), s.table, savepoint.VacuumOptions{Now: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	s.consistent()
	t.Logf("%d commits moved rows", rewritten)
}
