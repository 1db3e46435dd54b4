package write_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

func counted(t *testing.T, id schema.Field, properties map[string]string) *delta.Table {
	t.Helper()
	table := delta.New(mem.New())
	d := write.Definition{Columns: append([]schema.Field{id}, columns(t, "name string, v long")...), Properties: properties}
	must(t)(write.Create(ctx, table, d, write.Values([][]any{{"a", 1}, {"b", 2}}, "name", "v")))
	return table
}

// mark gives the high-water mark of the first column, "" for none.
func mark(t *testing.T, r write.Result) string {
	t.Helper()
	return string(r.Snapshot.Schema().Fields[0].Metadata["delta.identity.highWaterMark"])
}

// Rows get numbers in every operation that inserts, and none comes twice.
func TestIdentityColumns(t *testing.T) {
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			table := counted(t, write.Identity("id", 10, 5, false), properties)
			want(t, rows(t, table, -1), "10|a|1", "15|b|2")

			r := must(t)(write.Append(ctx, table, values([]any{"c", 3}, []any{"d", 4}))) // the column is left out
			want(t, rows(t, table, -1), "10|a|1", "15|b|2", "20|c|3", "25|d|4")
			if got := mark(t, r); got != "25" {
				t.Errorf("the mark is %s", got)
			}
			r = must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"name"}}, write.Values([][]any{{"a", 100}, {"e", 5}, {"f", 6}}, "name", "v")))
			want(t, rows(t, table, -1), "10|a|100", "15|b|2", "20|c|3", "25|d|4", "30|e|5", "35|f|6")
			if got := mark(t, r); got != "35" {
				t.Errorf("the mark is %s", got)
			}
			// By its own number a row is found, updated and deleted, not inserted.
			must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Values([][]any{{20, "cc"}}, "id", "name")))
			for reason, do := range map[string]func() (write.Result, error){
				"append": func() (write.Result, error) {
					return write.Append(ctx, table, write.Values([][]any{{1, "x"}}, "id", "name"))
				},
				"merge": func() (write.Result, error) {
					return write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Values([][]any{{7, "x"}}, "id", "name"))
				},
			} {
				if _, err := do(); !errors.Is(err, write.ErrRule) || !strings.Contains(err.Error(), `"id" is GENERATED ALWAYS`) {
					t.Errorf("%s: %v", reason, err)
				}
			}
			if _, err := write.Merge(ctx, table, write.MergeInto{Key: []string{"name"}}, write.Values([][]any{{"a", 7}}, "name", "id")); !errors.Is(err, write.ErrColumn) {
				t.Error(err)
			}
			if _, err := write.Update(ctx, table, "TRUE", write.Set{"id": 1}); !errors.Is(err, write.ErrColumn) {
				t.Error(err)
			}
			must(t)(write.ReplaceWhere(ctx, table, "v >= 4", write.Values([][]any{{"g", 7}}, "name", "v")))
			want(t, rows(t, table, -1), "15|b|2", "20|cc|3", "40|g|7")
			// What was given once is not given again, not even in a version that was before.
			r = must(t)(write.Restore(ctx, table, 0))
			if got := mark(t, r); got != "40" {
				t.Errorf("the mark is %s", got)
			}
			must(t)(write.Append(ctx, table, values([]any{"h", 8})))
			want(t, rows(t, table, -1), "10|a|1", "15|b|2", "45|h|8")
			must(t)(write.Overwrite(ctx, table, values([]any{"i", 9})))
			want(t, rows(t, table, -1), "50|i|9")
		})
	}
}

// Numbers that rows bring themselves move the count no further.
func TestIdentityByDefault(t *testing.T) {
	table := counted(t, write.Identity("id", -1, -1, true), nil)
	before, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := must(t)(write.Append(ctx, table, values([]any{-50, "c", 3})))
	if got := mark(t, r); got != "-2" || r.Snapshot.Metadata() != before.Metadata() && r.Snapshot.Metadata().SchemaString != before.Metadata().SchemaString {
		t.Errorf("the mark is %s", got)
	}
	must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, values([]any{-2, "bb", 2}, []any{-60, "d", 4})))
	r = must(t)(write.Append(ctx, table, write.Values([][]any{{"e"}}, "name")))
	want(t, rows(t, table, -1), "-1|a|1", "-2|bb|2", "-3|e|-", "-50|c|3", "-60|d|4")
	if got := mark(t, r); got != "-3" {
		t.Errorf("the mark is %s", got)
	}
}

// Of two writers at one time no two rows get one number; after the last number there is none.
func TestIdentityAtOneTime(t *testing.T) {
	table := counted(t, write.Identity("id", 1, 1, false), nil)
	source := func(yield func([]schema.Value, error) bool) {
		must(t)(write.Append(ctx, table, values([]any{"first", 1}))) // comes between
		yield([]schema.Value{schema.StringValue("second"), schema.IntValue(2)}, nil)
	}
	if _, err := write.Append(ctx, table, write.Rows(source)); !errors.Is(err, delta.ErrConflict) {
		t.Error(err)
	}
	want(t, rows(t, table, -1), "1|a|1", "2|b|2", "3|first|1")

	last := delta.New(mem.New())
	must(t)(write.Create(ctx, last, write.Definition{Columns: append(columns(t, "v long"), write.Identity("id", math.MaxInt64-1, 1, false))}, write.Source{}))
	must(t)(write.Append(ctx, last, values([]any{1}, []any{2})))
	if _, err := write.Append(ctx, last, values([]any{3})); !errors.Is(err, write.ErrRule) || !strings.Contains(err.Error(), "no number after 9223372036854775807") {
		t.Error(err)
	}
	_, err := write.Alter(ctx, last, []write.Change{write.AddColumn(write.Identity("more", 1, 1, false), write.Place{})})
	if !errors.Is(err, write.ErrChange) {
		t.Error(err)
	}
	copied := delta.New(mem.New())
	s, err := last.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	must(t)(write.Create(ctx, copied, write.Definition{Columns: s.Schema().Fields}, values([]any{1})))
	want(t, rows(t, copied, -1), "1|9223372036854775806")
}
