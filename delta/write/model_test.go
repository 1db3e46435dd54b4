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
	"github.com/gscd-io/gscd/delta/layout"
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
	clock       time.Time
	store       *mem.Store
	cut         *cutIn // around store, under table
	partitioned bool
	table       *delta.Table
	feed        bool
	state       modelState
	states      []modelState // by version
	data        []bool       // by version: rows were changed, columns not
	next        int          // id of the next column
}

func (h *history) now() time.Time { return h.clock }

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

// drawn is an operation on rows: what the library does, and what it means.
type drawn struct {
	what  string
	do    func(*delta.Table) (write.Result, error)
	means func(modelState) modelState
}

// step applies an operation. Some rows operations meet another one, which comes first:
// the table must be as if one had followed the other.
func (h *history) step(t *rapid.T) {
	switch rapid.IntRange(0, 12).Draw(t, "kind") {
	case 10:
		h.alter(t, h.state.clone())
		return
	case 11:
		version := rapid.IntRange(0, len(h.states)-1).Draw(t, "version")
		r, err := write.Restore(ctx, h.table, int64(version))
		var gone *delta.VersionNotFoundError
		if errors.As(err, &gone) {
			return // the log was cleaned
		}
		h.took(t, fmt.Sprint("restore of ", version), r, err, h.states[version].clone(), false)
		return
	case 12:
		h.optimize(t)
		return
	}
	ours := h.draw(t)
	if rapid.IntRange(0, 3).Draw(t, "meets") == 0 {
		theirs := h.draw(t)
		came := false
		h.cut.first = func() {
			came = true
			r, err := theirs.do(delta.New(h.store, delta.WithClock(h.now)))
			h.took(t, theirs.what+", first", r, err, theirs.means(h.state.clone()), true)
		}
		r, err := ours.do(h.table)
		h.cut.first = nil
		if came {
			ours.what += ", behind " + theirs.what
		}
		h.took(t, ours.what, r, err, ours.means(h.state.clone()), true)
		return
	}
	r, err := ours.do(h.table)
	h.took(t, ours.what, r, err, ours.means(h.state.clone()), true)
}

// optimize lays the table out anew, which nobody must see.
func (h *history) optimize(t *rapid.T) {
	o := layout.Options{SmallSize: 1 << 20, TargetSize: 1 << 20, PurgeShare: 0.001}
	if rapid.Bool().Draw(t, "order") {
		o.OrderBy = []string{h.state.name(columnK)}
	}
	if _, err := layout.Optimize(ctx, h.table, o); err != nil {
		t.Fatalf("optimize: %v", err)
	}
	s, err := h.table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for int64(len(h.states)) <= s.Version() {
		h.states, h.data = append(h.states, h.state.clone()), append(h.data, true)
	}
	if got, want := rows(t, h.table, -1), h.state.texts(); !slices.Equal(got, want) {
		t.Fatalf("after optimize version %d has\n%q\nthe model\n%q", s.Version(), got, want)
	}
}

func (h *history) draw(t *rapid.T) drawn {
	// Rows and files that are given up early make no difference.
	little := write.WithMemory(rapid.SampledFrom([]int64{1, 1000, 1 << 20}).Draw(t, "memory"))
	switch rapid.IntRange(0, 8).Draw(t, "op") {
	case 0, 1:
		rows := h.drawRows(t)
		source := h.source(rows)
		return drawn{"append", func(d *delta.Table) (write.Result, error) { return write.Append(ctx, d, source, little) },
			func(s modelState) modelState { s.rows = append(s.rows, clones(rows)...); return s }}
	case 2:
		rows := h.drawRows(t)
		source := h.source(rows)
		return drawn{"overwrite", func(d *delta.Table) (write.Result, error) { return write.Overwrite(ctx, d, source, little) },
			func(s modelState) modelState { s.rows = clones(rows); return s }}
	case 3:
		rows := h.drawRows(t)
		source := h.source(rows)
		return drawn{"overwrite of partitions", func(d *delta.Table) (write.Result, error) { return write.OverwritePartitions(ctx, d, source, little) },
			func(s modelState) modelState {
				if !h.partitioned {
					s.rows = nil
				}
				s.rows = slices.DeleteFunc(s.rows, func(old modelRow) bool {
					return slices.ContainsFunc(rows, func(n modelRow) bool { return n[columnP] == old[columnP] })
				})
				s.rows = append(s.rows, clones(rows)...)
				return s
			}}
	case 4:
		text, test := h.drawFilter(t)
		rows := slices.DeleteFunc(h.drawRows(t), func(r modelRow) bool { return !test(r) })
		source := h.source(rows)
		return drawn{"replace where " + text, func(d *delta.Table) (write.Result, error) { return write.ReplaceWhere(ctx, d, text, source, little) },
			func(s modelState) modelState {
				s.rows = append(slices.DeleteFunc(s.rows, test), clones(rows)...)
				return s
			}}
	case 5, 6:
		text, test := h.drawFilter(t)
		return drawn{"delete " + text, func(d *delta.Table) (write.Result, error) { return write.Delete(ctx, d, text, little) },
			func(s modelState) modelState { s.rows = slices.DeleteFunc(s.rows, test); return s }}
	case 7:
		return h.drawUpdate(t, little)
	}
	return h.drawMerge(t, little)
}

func clones(rows []modelRow) (out []modelRow) {
	for _, r := range rows {
		out = append(out, maps.Clone(r))
	}
	return out
}

func (h *history) place(id int) int {
	return slices.IndexFunc(h.state.columns, func(c modelColumn) bool { return c.id == id })
}

func (h *history) drawUpdate(t *rapid.T, little write.Option) drawn {
	text, test := h.drawFilter(t)
	set := write.Set{h.state.name(columnP): "moved"}
	add := rapid.Bool().Draw(t, "add")
	if add {
		place := h.place(columnV)
		set = write.Set{h.state.name(columnV): write.Func(func(row []schema.Value) (schema.Value, error) {
			if v := row[place]; !v.IsNull() {
				return schema.IntValue(v.I + 1), nil
			}
			return schema.Value{}, nil
		})}
	}
	return drawn{"update " + text, func(d *delta.Table) (write.Result, error) { return write.Update(ctx, d, text, set, little) },
		func(s modelState) modelState {
			for _, r := range s.rows {
				if v, ok := r[columnV].(int); !test(r) {
				} else if !add {
					r[columnP] = "moved"
				} else if ok {
					r[columnV] = v + 1
				}
			}
			return s
		}}
}

func (h *history) drawMerge(t *rapid.T, little write.Option) drawn {
	var source []modelRow
	keys := map[any]bool{}
	for _, r := range h.drawRows(t) {
		if r[columnK] == nil || !keys[r[columnK]] {
			source = append(source, r)
			keys[r[columnK]] = true
		}
	}
	place := h.place(columnV)
	into := write.MergeInto{
		Key: []string{h.state.name(columnK)},
		Matched: func(row []schema.Value) write.Act {
			if v := row[place]; v.IsNull() {
				return write.Skip
			} else if v.I > 14 {
				return write.Drop
			}
			return write.Put
		},
		NotMatched: func(row []schema.Value) write.Act {
			if row[place].I > 10 {
				return write.Skip
			}
			return write.Put
		},
	}
	rows := h.source(source)
	return drawn{"merge", func(d *delta.Table) (write.Result, error) { return write.Merge(ctx, d, into, rows, little) },
		func(s modelState) modelState {
			var out []modelRow
			matched := map[int]bool{}
			for _, old := range s.rows {
				i := slices.IndexFunc(source, func(n modelRow) bool { return n[columnK] != nil && n[columnK] == old[columnK] })
				if i < 0 {
					out = append(out, old)
					continue
				}
				matched[i] = true
				switch v, ok := source[i][columnV].(int); {
				case !ok:
					out = append(out, old)
				case v <= 14:
					out = append(out, maps.Clone(source[i]))
				}
			}
			for i, r := range source {
				if v, ok := r[columnV].(int); !matched[i] && (!ok || v <= 10) {
					out = append(out, maps.Clone(r))
				}
			}
			s.rows = out
			return s
		}}
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
	s, err := h.table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	switch rapid.IntRange(0, 6).Draw(t, "log") {
	case 0:
		parts := rapid.IntRange(0, 3).Draw(t, "parts")
		if _, err := h.table.Checkpoint(ctx, s, delta.CheckpointOptions{PartActions: parts}); err != nil {
			t.Fatal(err)
		}
	case 5:
		if s.Version() > 0 {
			from := rapid.Int64Range(0, s.Version()-1).Draw(t, "from")
			if _, err := h.table.CompactLog(ctx, from, s.Version()); err != nil && !errors.Is(err, delta.ErrVersionNotFound) {
				t.Fatal(err)
			}
		}
	case 6:
		if err := h.table.WriteChecksum(ctx, s); err != nil {
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
		h.store.SetClock(h.now)
		h.cut = &cutIn{Store: h.store}
		h.table = delta.New(h.cut, delta.WithClock(h.now))
		properties := maps.Clone(modes[rapid.SampledFrom(slices.Sorted(maps.Keys(modes))).Draw(t, "mode")])
		h.feed = properties["delta.enableChangeDataFeed"] == "true"
		properties["delta.targetFileSize"] = "700" // some rows a file
		d := write.Definition{Columns: columns(t, "k long, p string, v long"), Properties: properties}
		if rapid.Bool().Draw(t, "v2") {
			properties[delta.PropertyCheckpointPolicy] = "v2"
		}
		if h.partitioned = rapid.Bool().Draw(t, "partitioned"); h.partitioned {
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
