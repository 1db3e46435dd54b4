package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/scd2"
)

// interval is a row of a history: the key, the level and the days, "" for an open end.
type interval struct {
	id, level int64
	from, to  string
}

// history builds the history of the rig's table at a store and gives what the run did.
func (r *rig) history(store objstore.Store) *scd2.Report {
	r.t.Helper()
	report, err := scd2.Build(ctx, r.historySource(), delta.New(store), scd2.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

// checkHistoryRows holds the number of rows that a key has in the table's history
// against what the case expects.
func (r *rig) checkHistoryRows(c *given) {
	r.t.Helper()
	store := mem.New()
	r.history(store)
	for _, e := range c.expect(nil, "history_rows_for_key", "count") {
		var key struct{ ID int64 }
		e.into(r.t, "history_rows_for_key", &key)
		got := intervals(r.t, store, fmt.Sprintf("id = %d", key.ID))
		equal(r.t, fmt.Sprintf("history rows of key %d", key.ID), int64(len(got)), e.fieldInt("count"))
	}
}

func (r *rig) historySource() *scd2.Source {
	r.t.Helper()
	table := r.table()
	s, err := table.Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return &scd2.Source{Address: "user_dim", Table: table, Snapshot: s, Labels: r.labels()}
}

// intervals reads the rows of a history for which a filter is true, sorted.
func intervals(t testing.TB, store objstore.Store, where string) (list []interval) {
	t.Helper()
	s, err := delta.New(store).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	filter, err := expr.Parse(where, s.Schema())
	if err != nil {
		t.Fatal(err)
	}
	reading, err := scan.New(store, s, scan.Options{Where: filter, Columns: []string{"id", "level", "valid_from", "valid_to"}})
	if err != nil {
		t.Fatal(err)
	}
	day := func(v schema.Value) string { return string(schema.AppendText(nil, schema.Of(schema.Date), v)) }
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		i := interval{row[0].I, row[1].I, day(row[2]), day(row[3])}
		if i.to == scd2.DefaultOpenEnd {
			i.to = ""
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b interval) int {
		return slices.Compare([]string{fmt.Sprint(a.id), a.from}, []string{fmt.Sprint(b.id), b.from})
	})
	return list
}

func TestCase27HistoryTable(t *testing.T) {
	c := theCase(t, 27)
	stores := map[string]*mem.Store{}
	c.everyWay(func(t *testing.T, r *rig) {
		store := mem.New()
		stores[t.Name()] = store
		runs, version := 0, int64(-1)
		r.play(c.steps("Input"), func(s step) {
			if s.kind != "cli" {
				return
			}
			report := r.history(store)
			if runs++; runs == 2 && (len(report.Steps) > 0 || report.Version != version) {
				t.Errorf("the second run did %+v", report)
			}
			version = report.Version
		})
		equal(t, "runs", runs, 2)
		var want []interval
		for _, e := range c.expect(nil, "scd2") {
			var rows []struct {
				ID    int64  `json:"id"`
				Level int64  `json:"level"`
				From  string `json:"valid_from"`
				To    string `json:"valid_to"`
			}
			e.into(t, "scd2", &rows)
			for _, w := range rows {
				want = append(want, interval{w.ID, w.Level, w.From, w.To})
			}
		}
		sameList(t, "history", intervals(t, store, "TRUE"), want)
		for _, l := range []string{"2022-07-15", "2022-07-16", "2022-07-17", "2022-07-18"} {
			var then []string
			for _, i := range intervals(t, store, "valid_from <= DATE '"+l+"' AND valid_to > DATE '"+l+"'") {
				then = append(then, fmt.Sprintf("%d: %d", i.id, i.level))
			}
			var asOf []string
			for _, row := range r.mustAsOf(l) {
				asOf = append(asOf, fmt.Sprintf("%v: %v", row["id"], row["level"]))
			}
			slices.Sort(asOf)
			sameList(t, "rows of "+l, then, asOf)
		}
		report, err := scd2.Check(ctx, r.historySource(), delta.New(store), scd2.CheckOptions{})
		if err != nil || len(report.Faults) > 0 || len(report.Labels) != 4 {
			t.Errorf("check: %+v, %v", report, err)
		}
	})
	c.theMust(1, func(t *testing.T) {
		for name, store := range stores {
			equal(t, name, len(intervals(t, store, "level IN (2, 8)")), 0)
		}
	})
	c.theMust(2, func(*testing.T) {}) // above, for every way to write
	c.theMust(3, func(t *testing.T) {
		for name, store := range stores {
			list := intervals(t, store, "TRUE")
			for i, v := range list {
				if v.to != "" && v.to <= v.from {
					t.Errorf("%s: %+v is empty", name, v)
				}
				if i > 0 && list[i-1].id == v.id && (list[i-1].to == "" || list[i-1].to > v.from) {
					t.Errorf("%s: %+v overlaps %+v", name, list[i-1], v)
				}
			}
		}
	})
	c.theMust(4, func(t *testing.T) {
		// Day by day: a run that knows the days up to one, for each, beside one run for all.
		r := newRig(t, newTopic(0))
		daily, whole := mem.New(), mem.New()
		r.play(c.steps("Input"), func(step) {})
		steps := 0
		for _, e := range r.labels().Entries {
			if e.State == savepoint.Sealed {
				src := r.historySource()
				src.Labels.Entries = slices.DeleteFunc(slices.Clone(src.Labels.Entries), func(o savepoint.Entry) bool { return o.Label > e.Label })
				report, err := scd2.Build(ctx, src, delta.New(daily), scd2.Options{})
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "steps of a daily run", len(report.Steps), 1)
				steps++
			}
		}
		r.history(whole)
		equal(t, "days", steps, 4)
		sameList(t, "day by day", intervals(t, daily, "TRUE"), intervals(t, whole, "TRUE"))
	})
	c.theChoice(1, func(t *testing.T) { // no row for the stretch in which a key is deleted
		for name, store := range stores {
			equal(t, name, len(intervals(t, store, "id = 1 AND valid_from <= DATE '2022-07-17' AND valid_to > DATE '2022-07-17'")), 0)
		}
	})
}
