package write_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// modelRow is a row by the numbers of its columns; a column that is not there is NULL.
type modelRow map[int]any

// modelColumn is a column of the model: a number for life, and a name for now.
type modelColumn struct {
	id   int
	name string
}

// modelState is one version: what a table is, said in the plainest way.
type modelState struct {
	columns []modelColumn
	rows    []modelRow
}

const (
	columnK     = iota // long
	columnP            // string
	columnV            // long
	columnExtra        // strings from here on
)

func (s modelState) clone() modelState {
	out := modelState{columns: slices.Clone(s.columns)}
	for _, r := range s.rows {
		out.rows = append(out.rows, maps.Clone(r))
	}
	return out
}

func (s modelState) name(id int) string {
	for _, c := range s.columns {
		if c.id == id {
			return c.name
		}
	}
	return ""
}

func (s modelState) texts() []string {
	list := []string{}
	for _, r := range s.rows {
		parts := make([]string, len(s.columns))
		for i, c := range s.columns {
			if parts[i] = "-"; r[c.id] != nil {
				parts[i] = fmt.Sprint(r[c.id])
			}
		}
		list = append(list, strings.Join(parts, "|"))
	}
	slices.Sort(list)
	return list
}

// history drives a table and a model of it side by side.
type history struct {
	clock  time.Time
	store  *mem.Store
	table  *delta.Table
	feed   bool
	state  modelState
	states []modelState // by version
	data   []bool       // by version: rows were changed, columns not
	next   int          // id of the next column
}

func (h *history) source(rows []modelRow) write.Source {
	names := make([]string, len(h.state.columns))
	values := make([][]any, len(rows))
	for i, c := range h.state.columns {
		names[i] = c.name
	}
	for i, r := range rows {
		for _, c := range h.state.columns {
			values[i] = append(values[i], r[c.id])
		}
	}
	return write.Values(values, names...)
}

func (h *history) drawRow(t *rapid.T) modelRow {
	r := modelRow{}
	if k := rapid.IntRange(-1, 12).Draw(t, "k"); k >= 0 {
		r[columnK] = k
	}
	if p := rapid.SampledFrom([]string{"", "a", "b", "c d/é=%"}).Draw(t, "p"); p != "" {
		r[columnP] = p
	}
	if v := rapid.IntRange(-1, 20).Draw(t, "v"); v >= 0 {
		r[columnV] = v
	}
	for _, c := range h.state.columns {
		if c.id >= columnExtra && rapid.Bool().Draw(t, "extra") {
			r[c.id] = rapid.SampledFrom([]string{"x", "yy", "-"}).Draw(t, c.name)
		}
	}
	return r
}

func (h *history) drawRows(t *rapid.T) (rows []modelRow) {
	for range rapid.IntRange(1, 6).Draw(t, "rows") {
		rows = append(rows, h.drawRow(t))
	}
	return rows
}

// drawFilter gives a filter as text, and what it is of a row.
func (h *history) drawFilter(t *rapid.T) (string, func(modelRow) bool) {
	n := rapid.IntRange(0, 12).Draw(t, "n")
	name := h.state.name
	number := func(r modelRow, id int, test func(int) bool) bool {
		v, ok := r[id].(int)
		return ok && test(v)
	}
	switch rapid.IntRange(0, 6).Draw(t, "filter") {
	case 0:
		return fmt.Sprintf("%s < %d", name(columnK), n), func(r modelRow) bool { return number(r, columnK, func(v int) bool { return v < n }) }
	case 1:
		return fmt.Sprintf("%s = 'a'", name(columnP)), func(r modelRow) bool { return r[columnP] == "a" }
	case 2:
		return fmt.Sprintf("%s IS NULL", name(columnV)), func(r modelRow) bool { return r[columnV] == nil }
	case 3:
		return fmt.Sprintf("%s >= %d AND %s <> 'b'", name(columnV), n, name(columnP)), func(r modelRow) bool {
			return number(r, columnV, func(v int) bool { return v >= n }) && r[columnP] != nil && r[columnP] != "b"
		}
	case 4:
		return fmt.Sprintf("%s IN (%d, %d) OR %s IS NULL", name(columnK), n, n+1, name(columnP)), func(r modelRow) bool {
			return number(r, columnK, func(v int) bool { return v == n || v == n+1 }) || r[columnP] == nil
		}
	case 5:
		return fmt.Sprintf("NOT %s > %d", name(columnV), n), func(r modelRow) bool { return number(r, columnV, func(v int) bool { return v <= n }) }
	}
	return "TRUE", func(modelRow) bool { return true }
}

// took notes what became of an operation; data says that only rows have changed.
func (h *history) took(t *rapid.T, what string, r write.Result, err error, next modelState, data bool) {
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !r.Committed {
		if !slices.Equal(next.texts(), h.state.texts()) {
			t.Fatalf("%s did nothing, but should have", what)
		}
		return
	}
	if r.Version != int64(len(h.states)) {
		t.Fatalf("%s: version %d after %d", what, r.Version, len(h.states)-1)
	}
	h.state = next
	h.states, h.data = append(h.states, next.clone()), append(h.data, data)
	if got, want := rows(t, h.table, -1), next.texts(); !slices.Equal(got, want) {
		t.Fatalf("after %s version %d has\n%q\nthe model\n%q", what, r.Version, got, want)
	}
}

func (h *history) step(t *rapid.T) {
	next := h.state.clone()
	// Rows and files that are given up early make no difference.
	little := write.WithMemory(rapid.SampledFrom([]int64{1, 1000, 1 << 20}).Draw(t, "memory"))
	switch op := rapid.IntRange(0, 11).Draw(t, "op"); op {
	case 0, 1:
		rows := h.drawRows(t)
		r, err := write.Append(ctx, h.table, h.source(rows), little)
		next.rows = append(next.rows, rows...)
		h.took(t, "append", r, err, next, true)
	case 2:
		rows := h.drawRows(t)
		r, err := write.Overwrite(ctx, h.table, h.source(rows), little)
		next.rows = rows
		h.took(t, "overwrite", r, err, next, true)
	case 3:
		rows := h.drawRows(t)
		r, err := write.OverwritePartitions(ctx, h.table, h.source(rows))
		if len(r.Snapshot.Metadata().PartitionColumns) == 0 {
			next.rows = nil
		}
		next.rows = slices.DeleteFunc(next.rows, func(old modelRow) bool {
			return slices.ContainsFunc(rows, func(n modelRow) bool { return n[columnP] == old[columnP] })
		})
		next.rows = append(next.rows, rows...)
		h.took(t, "overwrite of partitions", r, err, next, true)
	case 4:
		text, test := h.drawFilter(t)
		rows := slices.DeleteFunc(h.drawRows(t), func(r modelRow) bool { return !test(r) })
		r, err := write.ReplaceWhere(ctx, h.table, text, h.source(rows), little)
		next.rows = append(slices.DeleteFunc(next.rows, test), rows...)
		h.took(t, "replace where "+text, r, err, next, true)
	case 5, 6:
		text, test := h.drawFilter(t)
		r, err := write.Delete(ctx, h.table, text, little)
		next.rows = slices.DeleteFunc(next.rows, test)
		h.took(t, "delete "+text, r, err, next, true)
	case 7:
		text, test := h.drawFilter(t)
		set := write.Set{h.state.name(columnP): "moved"}
		add := rapid.Bool().Draw(t, "add")
		if add {
			place := slices.IndexFunc(h.state.columns, func(c modelColumn) bool { return c.id == columnV })
			set = write.Set{h.state.name(columnV): write.Func(func(row []schema.Value) (schema.Value, error) {
				if v := row[place]; !v.IsNull() {
					return schema.IntValue(v.I + 1), nil
				}
				return schema.Value{}, nil
			})}
		}
		for _, r := range next.rows {
			if v, ok := r[columnV].(int); !test(r) {
			} else if !add {
				r[columnP] = "moved"
			} else if ok {
				r[columnV] = v + 1
			}
		}
		r, err := write.Update(ctx, h.table, text, set, little)
		h.took(t, "update "+text, r, err, next, true)
	case 8, 9:
		h.merge(t, next)
	case 10:
		h.alter(t, next)
	case 11:
		version := rapid.IntRange(0, len(h.states)-1).Draw(t, "version")
		r, err := write.Restore(ctx, h.table, int64(version))
		var gone *delta.VersionNotFoundError
		if errors.As(err, &gone) {
			return // the log was cleaned
		}
		h.took(t, fmt.Sprint("restore of ", version), r, err, h.states[version].clone(), false)
	}
}

func (h *history) merge(t *rapid.T, next modelState) {
	var source []modelRow
	keys := map[any]bool{}
	for _, r := range h.drawRows(t) {
		if r[columnK] == nil || !keys[r[columnK]] {
			source = append(source, r)
			keys[r[columnK]] = true
		}
	}
	place := slices.IndexFunc(h.state.columns, func(c modelColumn) bool { return c.id == columnV })
	act := func(row []schema.Value) write.Act {
		if v := row[place]; v.IsNull() {
			return write.Skip
		} else if v.I > 14 {
			return write.Drop
		}
		return write.Put
	}
	var rows []modelRow
	matched := map[int]bool{}
	for _, old := range next.rows {
		s := slices.IndexFunc(source, func(n modelRow) bool { return n[columnK] != nil && n[columnK] == old[columnK] })
		if s < 0 {
			rows = append(rows, old)
			continue
		}
		matched[s] = true
		switch v, ok := source[s][columnV].(int); {
		case !ok:
			rows = append(rows, old)
		case v <= 14:
			rows = append(rows, maps.Clone(source[s]))
		}
	}
	for s, r := range source {
		if v, ok := r[columnV].(int); !matched[s] && (!ok || v <= 10) {
			rows = append(rows, r)
		}
	}
	insert := func(row []schema.Value) write.Act {
		if row[place].I > 10 {
			return write.Skip
		}
		return write.Put
	}
	r, err := write.Merge(ctx, h.table, write.MergeInto{Key: []string{h.state.name(columnK)}, Matched: act, NotMatched: insert}, h.source(source))
	next.rows = rows
	h.took(t, "merge", r, err, next, true)
}

func (h *history) alter(t *rapid.T, next modelState) {
	switch rapid.IntRange(0, 3).Draw(t, "alter") {
	case 0:
		name := fmt.Sprintf("e%d", h.next%3) // names come again
		if slices.ContainsFunc(next.columns, func(c modelColumn) bool { return c.name == name }) {
			return
		}
		next.columns = append(next.columns, modelColumn{h.next, name})
		h.next++
		r, err := write.Alter(ctx, h.table, []write.Change{write.AddColumn(write.Column(name, schema.Of(schema.StringType)), write.Place{})})
		h.took(t, "add of "+name, r, err, next, false)
	case 1:
		c := &next.columns[rapid.IntRange(0, len(next.columns)-1).Draw(t, "column")]
		from, to := c.name, fmt.Sprintf("r%d", len(h.states))
		c.name = to
		r, err := write.Alter(ctx, h.table, []write.Change{write.RenameColumn(from, to)})
		h.took(t, "rename of "+from, r, err, next, false)
	case 2:
		i := rapid.IntRange(0, len(next.columns)-1).Draw(t, "column")
		if next.columns[i].id < columnExtra {
			return
		}
		name := next.columns[i].name
		for _, r := range next.rows {
			delete(r, next.columns[i].id)
		}
		next.columns = slices.Delete(next.columns, i, i+1)
		r, err := write.Alter(ctx, h.table, []write.Change{write.DropColumn(name)})
		h.took(t, "drop of "+name, r, err, next, false)
	case 3:
		i := rapid.IntRange(0, len(next.columns)-1).Draw(t, "column")
		c := next.columns[i]
		next.columns = slices.Insert(slices.Delete(next.columns, i, i+1), 0, c)
		r, err := write.Alter(ctx, h.table, []write.Change{write.MoveColumn(c.name, write.First())})
		if i == 0 {
			return // nothing changed
		}
		h.took(t, "move of "+c.name, r, err, next, false)
	}
}

// log puts the log into another state, which no reader must see.
func (h *history) log(t *rapid.T) {
	h.clock = h.clock.Add(time.Duration(rapid.IntRange(0, 48).Draw(t, "hours")) * time.Hour)
	const hint = "_delta_log/_last_checkpoint"
	switch rapid.IntRange(0, 4).Draw(t, "log") {
	case 0:
		s, err := h.table.Snapshot(ctx)
		if err == nil {
			_, err = h.table.Checkpoint(ctx, s, delta.CheckpointOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	case 1:
		if _, err := h.table.CleanLog(ctx, delta.CleanOptions{KeepSince: h.clock.Add(-60 * time.Hour)}); err != nil {
			t.Fatal(err)
		}
	case 2:
		if err := h.store.Delete(ctx, hint); err != nil && !errors.Is(err, objstore.ErrNotExist) {
			t.Fatal(err)
		}
	case 3:
		if err := h.store.Put(ctx, hint, []byte(`{"version":1,"size":1}`)); err != nil {
			t.Fatal(err)
		}
	}
}

// travel compares every version that can be read with the model.
func (h *history) travel(t *rapid.T) {
	versions, err := h.table.Versions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if newest := versions[len(versions)-1]; newest != int64(len(h.states)-1) {
		t.Fatalf("the newest version is %d of %d", newest, len(h.states)-1)
	}
	for _, v := range versions {
		if got, want := rows(t, h.table, v), h.states[v].texts(); !slices.Equal(got, want) {
			t.Fatalf("version %d has\n%q\nthe model\n%q", v, got, want)
		}
		if h.feed && v > 0 && h.data[v] && slices.Contains(versions, v-1) {
			h.replay(t, v)
		}
	}
}

// replay makes a version of the one before and its change data.
func (h *history) replay(t *rapid.T, v int64) {
	state := h.states[v-1].texts()
	for _, take := range []bool{true, false} {
		for _, c := range changes(t, h.table, v) {
			kind, row, _ := strings.Cut(c, " ")
			switch isOld := kind == "delete" || kind == "update_preimage"; {
			case take && isOld:
				at := slices.Index(state, row)
				if at < 0 {
					t.Fatalf("version %d: %s, which was not there: %q", v, c, state)
				}
				state = slices.Delete(state, at, at+1)
			case !take && !isOld:
				state = append(state, row)
			}
		}
	}
	if slices.Sort(state); !slices.Equal(state, h.states[v].texts()) {
		t.Fatalf("version %d by its changes is\n%q\nthe model\n%q", v, state, h.states[v].texts())
	}
}

// TestRandomHistories applies random operations to tables of every kind and to a model,
// and reads every version in every state of the log.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{clock: time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC), store: mem.New(), next: columnExtra}
		now := func() time.Time { return h.clock }
		h.store.SetClock(now)
		h.table = delta.New(h.store, delta.WithClock(now))
		properties := maps.Clone(modes[rapid.SampledFrom(slices.Sorted(maps.Keys(modes))).Draw(t, "mode")])
		h.feed = properties["delta.enableChangeDataFeed"] == "true"
		properties["delta.targetFileSize"] = "700" // some rows a file
		d := write.Definition{Columns: columns(t, "k long, p string, v long"), Properties: properties}
		if rapid.Bool().Draw(t, "partitioned") {
			d.PartitionBy = []string{"p"}
		}
		h.state = modelState{columns: []modelColumn{{columnK, "k"}, {columnP, "p"}, {columnV, "v"}}}
		r, err := write.Create(ctx, h.table, d, write.Source{})
		if err != nil || !r.Committed {
			t.Fatalf("%+v, %v", r, err)
		}
		h.states, h.data = append(h.states, h.state.clone()), append(h.data, false)
		for range rapid.IntRange(3, 25).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				h.log(t)
			} else {
				h.step(t)
			}
		}
		h.travel(t)
	})
}
