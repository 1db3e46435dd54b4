package integration

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	changefeed "github.com/gscd-io/gscd/query/changes"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/query/lineage"
	"github.com/gscd-io/gscd/query/rowkey"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/scd2"
)

// agreeCells gives a row as text, as agreeRow does, and its key.
func agreeCells(columns []schema.Field, cells []schema.Value) (key, text string) {
	row, k := map[string]any{}, agreeKey{}
	for i, c := range columns {
		if cells[i].IsNull() {
			continue
		}
		row[c.Name] = string(schema.AppendText(nil, c.Type, cells[i]))
		switch c.Name {
		case "id":
			k.id = int(cells[i].I)
		case "region":
			k.region = row[c.Name]
		}
	}
	return k.String(), agreeRow(row)
}

// byKey puts a row where its key has none yet.
func (a *agreement) byKey(what string, rows map[string]string, key, text string) {
	a.t.Helper()
	if rows[key] != "" {
		a.fail("%s: two rows of %s: %s and %s", what, key, rows[key], text)
	}
	rows[key] = text
}

func (a *agreement) checkScan(days []agreeDay) {
	a.t.Helper()
	for _, d := range days {
		s, err := a.table().SnapshotAt(ctx, d.Version)
		if err != nil {
			a.t.Fatal(err)
		}
		rows, what := map[string]string{}, "as of "+d.Name
		err = eachRow(a.store.Store, s, func(columns []schema.Field, cells []schema.Value) {
			key, text := agreeCells(columns, cells)
			a.byKey(what, rows, key, text)
		})
		if err != nil {
			a.fail("%s: %v", what, err)
		}
		a.same(what, rows, d.texts())
	}
}

// checkSQL reads all days in one statement.
func (a *agreement) checkSQL(days []agreeDay, labels *savepoint.Map) {
	a.t.Helper()
	if !sql.Built {
		return
	}
	newest, err := a.table().Snapshot(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	source := &sql.Source{Name: "t", Store: a.store.Store, Table: a.table(), Newest: newest, Labels: labels}
	answer, err := sql.Run(ctx, "SELECT * FROM t WHERE dt >= '2000-01-01'", sql.Options{Threads: 1, Tables: []sql.Table{{
		Names: []string{"t"}, Open: func(context.Context) (*sql.Source, error) { return source, nil }}}})
	if err != nil {
		a.fail("SQL: %v", err)
	}
	defer answer.Close()
	columns := answer.Columns()
	at := slices.IndexFunc(columns, func(c schema.Field) bool { return c.Name == "dt" })
	byDay := map[string]map[string]string{}
	for cells, err := range answer.All() {
		if err != nil {
			a.fail("SQL: %v", err)
		}
		day := string(schema.AppendText(nil, columns[at].Type, cells[at]))
		if byDay[day] == nil {
			byDay[day] = map[string]string{}
		}
		key, text := agreeCells(slices.Delete(slices.Clone(columns), at, at+1), slices.Delete(slices.Clone(cells), at, at+1))
		a.byKey("SQL of "+day, byDay[day], key, text)
	}
	for _, d := range days {
		a.same("SQL of "+d.Name, byDay[d.Name], d.texts())
		delete(byDay, d.Name)
	}
	if len(byDay) > 0 {
		a.fail("SQL sees other days: %v", slices.Collect(maps.Keys(byDay)))
	}
}

// agreeDiff is what became of each key between two days.
func agreeDiff(from, to map[string]string) map[string]string {
	out := map[string]string{}
	for key := range agreeUnion(from, to) {
		if from[key] != to[key] {
			out[key] = from[key] + "> " + to[key]
		}
	}
	return out
}

// checkDiff compares each two days, both ways.
func (a *agreement) checkDiff(days []agreeDay) {
	a.t.Helper()
	for i, x := range days {
		for j, y := range days {
			if near := i-j == 1 || j-i == 1; !near && a.random.IntN(3) > 0 {
				continue
			}
			what := fmt.Sprintf("diff of %s and %s", x.Name, y.Name)
			from, err1 := a.table().SnapshotAt(ctx, x.Version)
			to, err2 := a.table().SnapshotAt(ctx, y.Version)
			if err := cmp.Or(err1, err2); err != nil {
				a.t.Fatal(err)
			}
			d, err := diff.New(a.store.Store, from, to, diff.Options{MemoryLimit: []int64{0, 500}[a.random.IntN(2)]})
			if err != nil {
				a.fail("%s: %v", what, err)
			}
			columns := make([]schema.Field, len(d.Columns()))
			for i, c := range d.Columns() {
				columns[i] = c.Field
			}
			got := map[string]string{}
			for c, err := range d.Changes(ctx) {
				if err != nil {
					a.fail("%s: %v", what, err)
				}
				if kind := agreeKind(c.Old != nil, c.New != nil); c.Kind != kind {
					a.fail("%s: a change said to be %s is %s", what, c.Kind, kind)
				}
				a.putChange(what, got, columns, c.Old, c.New)
			}
			a.same(what, got, agreeDiff(x.texts(), y.texts()))
		}
	}
}

func agreeKind(old, now bool) diff.Kind {
	switch {
	case old && now:
		return diff.Updated
	case old:
		return diff.Deleted
	}
	return diff.Inserted
}

func (a *agreement) putChange(what string, out map[string]string, columns []schema.Field, old, now []schema.Value) {
	a.t.Helper()
	key, before, after := "", "", ""
	if old != nil {
		key, before = agreeCells(columns, old)
	}
	if now != nil {
		key, after = agreeCells(columns, now)
	}
	a.byKey(what, out, key, before+"> "+after)
}

// checkChanges holds the net changes of each label against those of its key, and every
// change of some ranges of labels, one after another, against the rows in the end.
func (a *agreement) checkChanges(days []agreeDay, labels *savepoint.Map) {
	a.t.Helper()
	newest, err := a.table().Snapshot(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	feed, err := changefeed.Open(a.table(), newest, labels, changefeed.Options{Memory: []int64{0, 1}[a.random.IntN(2)], Notice: func(text string) {
		if a.options.ChangeData {
			a.fail("changes, with change data: %s", text)
		}
	}})
	if err != nil {
		a.t.Fatal(err)
	}
	for i, from := range days {
		before := map[string]string{}
		if i > 0 {
			before = days[i-1].texts()
		}
		for j, to := range days[i:] {
			if j > 0 && a.random.IntN(3) > 0 {
				continue
			}
			what := fmt.Sprintf("changes of %s to %s", from.Name, to.Name)
			a.same(what+", every one", a.applied(what, feed, before, feed.Labels(ctx, from.Name, to.Name)), to.texts())
			net := map[string]map[string]string{}
			for u, err := range feed.NetLabels(ctx, from.Name, to.Name) {
				if err != nil {
					a.fail("%s, net: %v", what, err)
				}
				if net[u.Label] != nil {
					a.fail("%s, net: %s comes twice", what, u.Label)
				}
				net[u.Label] = map[string]string{}
				for k, err := range u.Keys {
					if err != nil {
						a.fail("%s, net: %v", what, err)
					}
					a.putChange(what+", net", net[u.Label], feed.Columns(), k.Before, k.After)
				}
			}
			last := before
			for _, d := range days[i : i+j+1] {
				a.same(what+", net, of "+d.Name, net[d.Name], agreeDiff(last, d.texts()))
				last = d.texts()
				delete(net, d.Name)
			}
			if len(net) > 0 {
				a.fail("%s, net: there are changes of %v", what, slices.Collect(maps.Keys(net)))
			}
		}
	}
}

// applied gives the rows after changes: of a version first what goes, then what comes.
func (a *agreement) applied(what string, feed *changefeed.Feed, rows map[string]string, seq iter.Seq2[*changefeed.Change, error]) map[string]string {
	a.t.Helper()
	rows = maps.Clone(rows)
	version, come := int64(-1), map[string]string{}
	settle := func() {
		for key, text := range come {
			a.byKey(fmt.Sprintf("%s, version %d", what, version), rows, key, text)
		}
		clear(come)
	}
	type gone struct{ key, text string }
	var list []gone
	take := func() {
		for _, g := range list {
			if rows[g.key] != g.text {
				a.fail("%s: version %d takes %q away, where there is %q", what, version, g.text, rows[g.key])
			}
			delete(rows, g.key)
		}
		list = nil
		settle()
	}
	for c, err := range seq {
		if err != nil {
			a.fail("%s: %v", what, err)
		}
		if c.Version != version {
			take()
			version = c.Version
		}
		key, text := agreeCells(feed.Columns(), c.Row)
		if c.Kind == scan.Insert || c.Kind == scan.UpdatePostimage {
			a.byKey(fmt.Sprintf("%s, version %d", what, version), come, key, text)
		} else {
			list = append(list, gone{key, text})
		}
	}
	take()
	return rows
}

// sourceOf gives the record that an event names.
func (a *agreement) sourceOf(what string, e *lineage.Event) *agreeRecord {
	a.t.Helper()
	if e == nil || e.Topic != topicName || e.Partition < 0 || e.Offset >= int64(len(a.records[e.Partition])) {
		a.fail("%s: there is no such event: %+v", what, e)
	}
	r := a.records[e.Partition][e.Offset]
	if !r.at.Equal(e.Time) || !e.HasPosition || e.Pos != r.pos {
		a.fail("%s: the event %+v has time %s and position %d", what, e, r.at, r.pos)
	}
	return r
}

// checkKeys holds the history of every key against its row in each day.
func (a *agreement) checkKeys(days []agreeDay, labels *savepoint.Map) {
	a.t.Helper()
	newest, err := a.table().Snapshot(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	for key := range a.known {
		id, region, _ := strings.Cut(key, " ")
		cells := []rowkey.Cell{{Column: "id", Text: &id}, {Column: "region", Text: &region}}
		if region == "NULL" {
			cells[1].Text = nil
		}
		what := "history of " + key
		h, err := lineage.History(ctx, a.table(), newest, labels, lineage.HistoryOptions{Key: cells, After: -1})
		if err != nil {
			a.fail("%s: %v", what, err)
		}
		for _, s := range h.States {
			_, text := agreeCells(h.Columns, s.Row)
			if r := a.sourceOf(what, s.Source); r.new != key || r.row != text {
				a.fail("%s: the state %q is said to be of %+v", what, text, r)
			}
		}
		got, want := map[string]string{}, map[string]string{}
		for _, d := range days {
			if r := d.rows[key]; r != nil {
				want[d.Name] = r.row
			}
			for _, s := range h.States {
				if (s.Came == nil || s.Came.Version <= d.Version) && (s.Went == nil || s.Went.Version > d.Version) {
					_, text := agreeCells(h.Columns, s.Row)
					a.byKey(what, got, d.Name, text)
				}
			}
		}
		a.same(what, got, want)
	}
}

// checkBlame holds the event of each row against the newest change of its key.
func (a *agreement) checkBlame(days []agreeDay, labels *savepoint.Map) {
	a.t.Helper()
	for _, d := range days {
		s, err := a.table().SnapshotAt(ctx, d.Version)
		if err != nil {
			a.t.Fatal(err)
		}
		what := "events of the rows of " + d.Name
		b, err := lineage.NewBlame(ctx, a.table(), s, labels, scan.Options{})
		if err != nil {
			a.fail("%s: %v", what, err)
		}
		got, want := map[string]string{}, map[string]string{}
		for key, r := range d.rows {
			want[key] = fmt.Sprintf("%d:%d in %s", r.partition, r.offset, labels.Calendar.Name(r.label))
		}
		for row, err := range b.Rows(ctx) {
			if err != nil {
				a.fail("%s: %v", what, err)
			}
			key, _ := agreeCells(b.Columns(), row.Cells)
			got[key] = fmt.Sprintf("%d:%d in %s", row.Source.Partition, row.Source.Offset, row.Label)
		}
		a.same(what, got, want)
	}
}

// checkHistoryTable brings the history table up to the last sealed label, and holds its
// intervals against the days: each run of days in which a key has the same row.
func (a *agreement) checkHistoryTable(days []agreeDay) {
	a.t.Helper()
	if len(days) == 0 {
		return
	}
	a.buildHistory()
	s, err := delta.New(a.out).Snapshot(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	own := []string{"valid_from", "valid_to", "is_current", "row_hash"}
	got := map[string]string{}
	then := make([]map[string]string, len(days)) // valid_from <= day AND valid_to > day
	for i := range then {
		then[i] = map[string]string{}
	}
	err = eachRow(a.out, s, func(columns []schema.Field, cells []schema.Value) {
		var names []schema.Field
		var row []schema.Value
		of := map[string]string{}
		for i, c := range columns {
			if slices.Contains(own, c.Name) {
				of[c.Name] = string(schema.AppendText(nil, c.Type, cells[i]))
			} else {
				names, row = append(names, c), append(row, cells[i])
			}
		}
		key, text := agreeCells(names, row)
		a.byKey("history table", got, key+" from "+of["valid_from"], fmt.Sprintf("%sto %s %s", text, of["valid_to"], of["is_current"]))
		for i, d := range days {
			if of["valid_from"] <= d.Name && of["valid_to"] > d.Name {
				a.byKey("history table at "+d.Name, then[i], key, text)
			}
		}
	})
	if err != nil {
		a.t.Fatal(err)
	}
	want := map[string]string{}
	for key := range a.known {
		for i := 0; i < len(days); {
			text := days[i].texts()[key]
			end := i + 1
			for end < len(days) && days[end].texts()[key] == text {
				end++
			}
			if text != "" {
				to, current := scd2.DefaultOpenEnd, "true"
				if end < len(days) {
					to, current = days[end].Name, "false"
				}
				want[key+" from "+days[i].Name] = fmt.Sprintf("%sto %s %s", text, to, current)
			}
			i = end
		}
	}
	a.same("history table", got, want)
	for i, d := range days {
		a.same("history table at "+d.Name, then[i], d.texts())
	}
	report, err := scd2.Check(ctx, a.historySource(), delta.New(a.out), scd2.CheckOptions{})
	if err != nil || len(report.Faults) > 0 || len(report.Labels) != len(days) {
		a.fail("check of the history table: %+v, %v", report, err)
	}
	if !a.options.ChangeData {
		return
	}
	byChange := delta.New(mem.New())
	if _, err := scd2.Build(ctx, a.historySource(), byChange, scd2.Options{Granularity: scd2.ByChange}); err != nil {
		a.fail("history table by change: %v", err)
	}
	report, err = scd2.Check(ctx, a.historySource(), byChange, scd2.CheckOptions{})
	if err != nil || len(report.Faults) > 0 || len(report.Labels) != len(days) {
		a.fail("check of the history table by change: %+v, %v", report, err)
	}
}
