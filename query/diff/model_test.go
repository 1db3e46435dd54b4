package diff_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/query/diff"
)

var ctx = context.Background()

// state is a version, said in the plainest way: rows by key, cells by the number that a
// column has for life, a column that is not there NULL.
type state struct {
	names map[int]string
	added int // columns so far, dropped ones too
	rows  map[string]map[int]string
}

func (s state) clone() state {
	c := state{maps.Clone(s.names), s.added, map[string]map[int]string{}}
	for k, r := range s.rows {
		c.rows[k] = maps.Clone(r)
	}
	return c
}

// key is the cell of column 0 as it sorts: NULL first.
func key(k int) string {
	if k < 0 {
		return ""
	}
	return fmt.Sprintf("%02d", k)
}

// changes compares states row by row.
func changes(from, to state, forward bool) []string {
	keys := maps.Clone(from.rows)
	maps.Copy(keys, to.rows)
	var list []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		a, b := from.rows[k], to.rows[k]
		switch {
		case a == nil:
			list = append(list, "inserted "+k+" "+cellsText(to, b))
		case b == nil:
			list = append(list, "deleted "+k+" "+cellsText(from, a))
		default:
			var differ []string
			for c := 1; c < max(from.added, to.added); c++ {
				_, inFrom := from.names[c]
				_, inTo := to.names[c]
				compared := inFrom && inTo || forward && inTo && c >= from.added || !forward && inFrom && c >= to.added
				if compared && a[c] != b[c] {
					differ = append(differ, fmt.Sprint(c))
				}
			}
			if len(differ) > 0 {
				list = append(list, "updated "+k+" "+cellsText(from, a)+" "+cellsText(to, b)+" "+strings.Join(differ, ","))
			}
		}
	}
	return list
}

func cellsText(s state, row map[int]string) string {
	var parts []string
	for c := 1; c < s.added; c++ {
		if _, has := s.names[c]; has && row[c] != "" {
			parts = append(parts, fmt.Sprintf("%d=%s", c, row[c]))
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// found gives what the package says of two versions in the form of changes.
func found(t interface{ Fatal(...any) }, table *delta.Table, from, to *delta.Snapshot, fromState, toState state, o diff.Options) []string {
	o.Key = []string{"k"}
	d, err := diff.New(table.Store(), from, to, o)
	if err != nil {
		t.Fatal(err)
	}
	number := make([]int, len(d.Columns()))
	for i, c := range d.Columns() {
		s, name := toState, c.To
		if c.To == "" {
			s, name = fromState, c.From
		}
		for id, n := range s.names {
			if n == name {
				number[i] = id
			}
		}
	}
	row := func(s state, cells []schema.Value) (string, string) {
		m := map[int]string{}
		k := ""
		for i, c := range d.Columns() {
			text := ""
			if !cells[i].IsNull() {
				text = string(schema.AppendText(nil, c.Type, cells[i]))
			}
			if c.Key {
				k = text
			} else {
				m[number[i]] = text
			}
		}
		if len(k) == 1 {
			k = "0" + k
		}
		return k, cellsText(s, m)
	}
	var list []string
	for c, err := range d.Changes(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		switch c.Kind {
		case diff.Inserted:
			k, text := row(toState, c.New)
			list = append(list, "inserted "+k+" "+text)
		case diff.Deleted:
			k, text := row(fromState, c.Old)
			list = append(list, "deleted "+k+" "+text)
		default:
			k, text := row(fromState, c.Old)
			_, after := row(toState, c.New)
			var differ []int
			for _, i := range c.Changed {
				differ = append(differ, number[i])
			}
			slices.Sort(differ)
			list = append(list, "updated "+k+" "+text+" "+after+" "+strings.ReplaceAll(strings.Trim(fmt.Sprint(differ), "[]"), " ", ","))
		}
	}
	return list
}

// Any two versions of a table that is written at random, both ways, differ as the models
// of them do.
func TestModel(t *testing.T) {
	temp := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		table := delta.New(mem.New())
		definition := write.Definition{
			Columns:    []schema.Field{write.Column("k", schema.Of(schema.Integer)), write.Column("c1", schema.Of(schema.StringType)), write.Column("c2", schema.Of(schema.StringType))},
			Properties: map[string]string{"delta.columnMapping.mode": rapid.SampledFrom([]string{"name", "id"}).Draw(t, "mapping")},
		}
		if rapid.Bool().Draw(t, "vectors") {
			definition.Properties[delta.PropertyDeletionVectors] = "true"
		}
		if rapid.Bool().Draw(t, "partitioned") {
			definition.PartitionBy = []string{"c1"}
		}
		if _, err := write.Create(ctx, table, definition, write.Values(nil)); err != nil {
			t.Fatal(err)
		}
		now := state{map[int]string{0: "k", 1: "c1", 2: "c2"}, 3, map[string]map[int]string{}}
		states := []state{now.clone()}
		done := func(what string, err error) {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			s, err := table.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for int64(len(states)) <= s.Version() {
				states = append(states, now.clone())
			}
		}
		for range rapid.IntRange(2, 10).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			default: // rows by key, new and old ones
				var keys []int
				var values [][]any
				names := []string{"k"}
				var ids []int
				for id := 1; id < now.added; id++ {
					if name, has := now.names[id]; has {
						ids, names = append(ids, id), append(names, name)
					}
				}
				for range rapid.IntRange(1, 6).Draw(t, "rows") {
					k := rapid.IntRange(-1, 20).Draw(t, "k")
					if slices.Contains(keys, k) {
						continue
					}
					keys = append(keys, k)
					row, cells := map[int]string{}, []any{nil}
					if k >= 0 {
						cells[0] = k
					}
					for _, id := range ids {
						v := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "v")
						if row[id] = v; v == "" {
							cells = append(cells, nil)
						} else {
							cells = append(cells, v)
						}
					}
					now.rows[key(k)] = row
					values = append(values, cells)
				}
				before := now.clone()
				conditions := []string{"FALSE"}
				for _, k := range keys {
					delete(now.rows, key(k))
					if k < 0 {
						conditions = append(conditions, "k IS NULL")
					} else {
						conditions = append(conditions, fmt.Sprintf("k = %d", k))
					}
				}
				_, err := write.Delete(ctx, table, strings.Join(conditions, " OR "))
				done("delete", err)
				now = before
				_, err = write.Append(ctx, table, write.Values(values, names...))
				done("append", err)
			case 4:
				k := rapid.IntRange(0, 20).Draw(t, "from")
				maps.DeleteFunc(now.rows, func(have string, _ map[int]string) bool { return have >= key(k) && have <= key(k+4) })
				_, err := write.Delete(ctx, table, fmt.Sprintf("k >= %d AND k <= %d", k, k+4))
				done("delete", err)
			case 5:
				_, err := layout.Optimize(ctx, table, layout.Options{SmallSize: 1 << 20, TargetSize: 1 << 20, PurgeShare: 0.001})
				done("optimize", err)
			case 6:
				version := rapid.IntRange(0, len(states)-1).Draw(t, "version")
				added := now.added
				now = states[version].clone()
				now.added = added
				_, err := write.Restore(ctx, table, int64(version))
				done("restore", err)
			case 7:
				name := fmt.Sprintf("c%d", now.added)
				now.names[now.added] = name
				now.added++
				_, err := write.Alter(ctx, table, []write.Change{write.AddColumn(write.Column(name, schema.Of(schema.StringType)), write.Place{})})
				done("add "+name, err)
			case 8:
				name := fmt.Sprintf("renamed%d", len(states))
				_, err := write.Alter(ctx, table, []write.Change{write.RenameColumn(now.names[2], name)})
				now.names[2] = name
				done("rename", err)
			case 9:
				for id, name := range now.names {
					if id > 2 {
						delete(now.names, id)
						for _, r := range now.rows {
							delete(r, id)
						}
						_, err := write.Alter(ctx, table, []write.Change{write.DropColumn(name)})
						done("drop "+name, err)
						break
					}
				}
			}
		}
		for range 4 {
			a := rapid.IntRange(0, len(states)-1).Draw(t, "from")
			b := rapid.IntRange(0, len(states)-1).Draw(t, "to")
			from, err1 := table.SnapshotAt(ctx, int64(a))
			to, err2 := table.SnapshotAt(ctx, int64(b))
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			o := diff.Options{MemoryLimit: rapid.SampledFrom([]int64{1, 500, 0}).Draw(t, "memory"), TempDir: temp}
			got, want := found(t, table, from, to, states[a], states[b], o), changes(states[a], states[b], a <= b)
			if !slices.Equal(got, want) {
				t.Fatalf("from %d to %d:\n%s\nthe model has\n%s", a, b, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}
