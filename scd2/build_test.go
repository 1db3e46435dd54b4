package scd2_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/scd2"
	"github.com/gscd-io/gscd/snapshotter"
)

// Case 27: many changes a day, a change that changes nothing, a delete and a return, and
// two keys with the same values.
func TestHistory(t *testing.T) {
	g := newRig(t)
	g.put(july(15, 1), id(1), level(1, 1))
	g.put(july(15, 1), id(2), level(2, 1))
	g.put(july(16, 2), id(1), level(1, 2))
	g.put(july(16, 3), id(1), level(1, 3))
	g.put(july(16, 4), id(1), level(1, 3))
	g.put(july(17, 1), id(1), nil)
	g.put(july(18, 1), id(1), level(1, 3))
	g.put(july(18, 2), id(2), level(2, 8))
	g.put(july(18, 3), id(2), level(2, 1))
	g.put(july(19, 1), id(2), level(2, 9))
	g.ingest()
	r := g.build()
	if len(r.Steps) != 4 || r.Last != "2022-07-18" {
		t.Errorf("%+v", r)
	}
	columns := []string{"id", "level", "valid_from", "valid_to", "is_current"}
	rows := []string{
		"1 1 2022-07-15 2022-07-16 false", "1 3 2022-07-16 2022-07-17 false", "1 3 2022-07-18 5999-01-01 true", "2 1 2022-07-15 5999-01-01 true",
	}
	want(t, "history", lines(t, g.out, columns...), rows...)
	g.check()
	before := versionOf(t, g.out)
	if r := g.build(); len(r.Steps) != 0 || r.Version != before {
		t.Errorf("the second run: %+v", r)
	}
	if now := versionOf(t, g.out); now != before {
		t.Errorf("the second run wrote version %d", now)
	}
}

// A day that was rolled back is undone and taken again.
func TestRollback(t *testing.T) {
	g := newRig(t)
	g.put(july(15, 1), id(1), level(1, 1))
	g.put(july(15, 1), id(2), level(2, 1))
	g.put(july(16, 2), id(1), level(1, 2))
	g.put(july(16, 2), id(2), nil)
	g.put(july(17, 3), id(3), level(3, 1))
	g.put(july(17, 3), id(1), level(1, 5))
	g.put(july(18, 3), id(3), level(3, 7))
	g.ingest()
	g.build()
	g.check()
	columns := []string{"id", "level", "valid_from", "valid_to", "is_current"}
	all := lines(t, g.out, columns...)
	want(t, "history", all, "1 1 2022-07-15 2022-07-16 false", "1 2 2022-07-16 2022-07-17 false", "1 5 2022-07-17 5999-01-01 true", "2 1 2022-07-15 2022-07-16 false", "3 1 2022-07-17 5999-01-01 true")
	g.rollback("2022-07-15")
	r := g.build()
	want(t, "undone", r.Undone, "2022-07-16", "2022-07-17")
	want(t, "history", lines(t, g.out, columns...), "1 1 2022-07-15 5999-01-01 true", "2 1 2022-07-15 5999-01-01 true")
	g.check()
	g.ingest()
	g.build()
	want(t, "history", lines(t, g.out, columns...), all...)
	g.check()
}

// Of two runs at one time each day is taken by one, and both end with the whole history.
func TestTwoRuns(t *testing.T) {
	g := newRig(t)
	for day := 3; day <= 12; day++ {
		for n := range 4 {
			g.put(july(day, 1), id(n+day%3), level(n+day%3, day*n%5))
		}
		g.put(july(day, 2), id(day%4), nil)
	}
	g.ingest()
	alone := newRig(t)
	alone.store = g.store
	alone.build()
	shown := []string{"id", "level", "valid_from", "valid_to", "is_current"}
	whole := lines(t, alone.out, shown...)
	var runs sync.WaitGroup
	reports, faults := make([]*scd2.Report, 3), make([]error, 3)
	for i := range reports {
		src := g.source()
		runs.Go(func() { reports[i], faults[i] = scd2.Build(ctx, src, delta.New(g.out), g.options) })
	}
	runs.Wait()
	taken := 0
	for i, r := range reports {
		if faults[i] != nil {
			t.Error(faults[i])
		}
		taken += len(r.Steps)
	}
	if taken != 9 {
		t.Errorf("%d days were taken of 9", taken)
	}
	want(t, "history", lines(t, g.out, shown...), whole...)
	g.check()
}

// A history table of another making becomes days: its ends are dates or instants, open ones
// NULL or far away.
func TestHistoryAsDays(t *testing.T) {
	calendar := func(granularity, zone string) *snapshotter.Calendar {
		c, err := snapshotter.NewCalendar(granularity, zone, "00:00")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	days := func(c *snapshotter.Calendar, ends schema.Primitive, rows [][]any) (list []string) {
		store := mem.New()
		res, err := write.Create(ctx, delta.New(store), write.Definition{Columns: []schema.Field{
			column("k", schema.Integer), column("eff_from", ends), column("eff_to", ends), column("v", schema.StringType), column("load", schema.StringType),
		}}, write.Values(rows))
		if err != nil {
			t.Fatal(err)
		}
		h, err := scd2.OpenHistory(ctx, store, res.Snapshot, c, scd2.HistoryOptions{Columns: scd2.Columns{ValidFrom: "eff_from", ValidTo: "eff_to"}, Without: []string{"load"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range h.Labels() {
			fields, rows, err := h.Rows(ctx, l)
			if err != nil {
				t.Fatal(err)
			}
			var then []string
			for row, err := range rows {
				if err != nil {
					t.Fatal(err)
				}
				then = append(then, text(fields, row))
			}
			slices.Sort(then)
			list = append(list, c.Name(l)+": "+strings.Join(then, ", "))
		}
		return list
	}
	rows := func(at func(day int) any) [][]any {
		return [][]any{
			{1, at(4), at(6), "a", "x"}, {1, at(6), nil, "b", "x"}, {2, at(4), at(20), "c", "x"}, {3, at(6), at(7), "d", "x"}, {3, at(20), at(0), "e", "x"},
		}
	}
	date := func(day int) any {
		if day == 0 {
			return "9999-12-31"
		}
		return fmt.Sprintf("2022-07-%02d", day)
	}
	want(t, "days", days(calendar("day", "UTC"), schema.Date, rows(date)),
		"2022-07-04: 1 a, 2 c", "2022-07-06: 1 b, 2 c, 3 d", "2022-07-07: 1 b, 2 c", "2022-07-20: 1 b, 3 e")
	want(t, "weeks", days(calendar("week", "UTC"), schema.Date, rows(date)), "2022-W27: 1 b, 2 c", "2022-W29: 1 b, 3 e")
	at := func(day int) any {
		if day == 0 {
			return time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		return july(day, 20) // in Shanghai the day after
	}
	want(t, "instants", days(calendar("day", "Asia/Shanghai"), schema.Timestamp, rows(at)),
		"2022-07-05: 1 a, 2 c", "2022-07-07: 1 b, 2 c, 3 d", "2022-07-08: 1 b, 2 c", "2022-07-21: 1 b, 3 e")
}
