package ingest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// layOut optimizes the table as `gscd optimize` does.
func (s *shared) layOut(table *delta.Table, order ...string) *layout.Report {
	s.t.Helper()
	report := &layout.Report{}
	snap, err := table.Snapshot(context.Background())
	if err == nil {
		p, readErr := savepoint.ProgressOf(context.Background(), table, snap)
		o := ingest.Layout(p)
		o.OrderBy, o.PurgeShare = order, 0.01
		if err = readErr; err == nil {
			report, err = layout.Optimize(context.Background(), table, o)
		}
	}
	if err != nil {
		s.t.Error(err) // not Fatal: it may run beside the test
	}
	return report
}

// positions gives the hidden cells of every live row by id, as text.
func (s *shared) positions() map[int64]string {
	s.t.Helper()
	ctx, out := context.Background(), map[int64]string{}
	for _, add := range s.snapshot().Files() {
		dead, err := delta.ReadDeletionVector(ctx, s.store, add)
		if err != nil {
			s.t.Fatal(err)
		}
		key, err := action.Key(add.Path)
		if err != nil {
			s.t.Fatal(err)
		}
		raw, err := s.store.Get(ctx, key)
		if err != nil {
			s.t.Fatal(err)
		}
		f, err := parquet.OpenBytes(raw)
		if err != nil {
			s.t.Fatal(err)
		}
		columns := append([]parquet.Column{{Name: "id", Type: schema.Of(schema.Long)}}, ingest.Hidden...)
		// Trino's deletes fail on bounds of columns that the table has not.
		for group := range f.NumRowGroups() {
			for _, c := range columns {
				if b := f.RowGroupBounds(group, c); b.Min.IsNull() != (c.Name != "id") {
					s.t.Errorf("%s, column %s: bounds %+v", add.Path, c.Name, b)
				}
			}
		}
		for b, err := range f.Scan(ctx, columns, parquet.ScanOptions{}) {
			if err != nil {
				s.t.Fatal(err)
			}
			for i := range b.Rows {
				if dead != nil && dead.Contains(uint32(b.FirstRow)+uint32(i)) {
					continue
				}
				text := ""
				for _, column := range b.Columns[1:] {
					text += fmt.Sprintf("%v/%d ", column[i].Kind, column[i].I)
				}
				out[b.Columns[0][i].I] = text
			}
		}
	}
	return out
}

// daysOf is some days of changes of few keys: every batch kills rows of the ones before.
func daysOf(days, events int) *parts {
	src := &parts{}
	for day := range days {
		for i := range events {
			n := day*events + i
			op, id := "u", n*7%23
			if n%9 == 8 {
				op = "d"
			}
			src.put(id%2, op, id, fmt.Sprint("v", n), fmt.Sprintf("%dT%02d", 16+day, 1+i*22/events), 10+n)
		}
	}
	return src
}

// Files are laid out anew while a table is written to: rows, every sealed day and the
// positions of all rows are those of a table that nobody has touched.
func TestLayoutBesideALane(t *testing.T) {
	for _, c := range []struct {
		name        string
		order       []string
		copyOnWrite bool
		background  bool
	}{
		{name: "joined before each commit"},
		{name: "ordered before each commit", order: []string{"v", "id"}},
		{name: "copy on write", copyOnWrite: true},
		{name: "at any time", background: true},
		{name: "ordered at any time", background: true, order: []string{"id"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := daysOf(4, 40)
			plain, s := newShared(t), newShared(t)
			for _, x := range []*shared{plain, s} {
				x.o = func(o *ingest.Options) { o.CopyOnWrite, o.BatchRows = c.copyOnWrite, 7 }
			}
			table := delta.New(s.store)
			laidOut, followed := 0, int64(0)
			note := func(r *layout.Report) {
				laidOut += len(r.Versions)
				followed += r.RowsFollowed
			}
			for _, upTo := range [][2]int{{30, 30}, {60, 55}, {100, 100}} {
				arrived := src.upTo(upTo[0], upTo[1])
				plain.mustRun(arrived, "20T12:00")
				if !c.background {
					own, calls := false, 0
					if err := s.run(arrived, "20T12:00", func(version int64) {
						if calls++; version > 0 && !own && calls%2 == 0 {
							own = true
							note(s.layOut(table, c.order...))
							own = false
						}
					}); err != nil {
						t.Fatal(err)
					}
					continue
				}
				stop := make(chan struct{})
				var busy sync.WaitGroup
				if laidOut+int(s.versionOr(0)) > 0 {
					busy.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
								note(s.layOut(table, c.order...))
							}
						}
					})
				}
				err := s.run(arrived, "20T12:00", nil)
				close(stop)
				busy.Wait()
				if err != nil {
					t.Fatal(err)
				}
				note(s.layOut(table, c.order...))
			}
			if laidOut == 0 {
				t.Error("nothing was laid out anew")
			}
			if got, want := s.rows(-1), plain.rows(-1); got != want {
				t.Errorf("rows %s, want %s", got, want)
			}
			for _, day := range []string{"2022-07-16", "2022-07-17", "2022-07-18"} {
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
			t.Logf("%d commits of layout, %d rows followed", laidOut, followed)
		})
	}
}

// versionOr is the newest version, or other where there is no table yet.
func (s *shared) versionOr(other int64) int64 {
	snap, err := s.table.Snapshot(context.Background())
	if err != nil {
		return other
	}
	return snap.Version()
}
