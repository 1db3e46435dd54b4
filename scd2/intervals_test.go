package scd2_test

import (
	"errors"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/scd2"
)

// Faults of intervals are found in the history table alone, whatever files the rows of a
// key lie in, and with either form of an open end.
func TestCheckIntervals(t *testing.T) {
	for _, end := range []string{scd2.DefaultOpenEnd, scd2.OpenEndNull} {
		openEnd := any(end)
		if end == scd2.OpenEndNull {
			openEnd = nil
		}
		m := make1(t, mem.New(), "day", "UTC", "2022-07-01", []schema.Field{column("id", schema.Integer), column("a", schema.StringType)}, write.Values([][]any{{1, "x"}, {2, "y"}, {3, "z"}}))
		m.seal()
		m.merge([][]any{{1, "xx"}}, "id", "a")
		m.seal()
		m.seal()
		store := mem.New()
		m.build(store, scd2.Options{OpenEnd: end})
		out := delta.New(store)
		for _, c := range []struct {
			name    string
			row     []any
			problem string
		}{
			{"sound", nil, ""},
			{"another key", []any{4, "n", "2022-07-02", openEnd, true}, ""},
			{"open twice", []any{1, "y", "2022-07-03", openEnd, true}, scd2.OpenTwice},
			{"begins within a closed one", []any{1, "y", "2022-07-01", "2022-07-02", false}, scd2.Overlap},
			{"closed within the open one", []any{2, "y", "2022-07-02", "2022-07-03", false}, scd2.Overlap},
			{"empty", []any{5, "y", "2022-07-02", "2022-07-02", false}, scd2.Interval},
			{"ends before it begins", []any{5, "y", "2022-07-03", "2022-07-02", false}, scd2.Interval},
			{"closed, and said to be current", []any{5, "y", "2022-07-02", "2022-07-03", true}, scd2.Interval},
			{"open, and said not to be current", []any{5, "y", "2022-07-02", openEnd, false}, scd2.Interval},
			{"no beginning", []any{5, "y", nil, openEnd, true}, scd2.Interval},
			{"before all others, without a gap", []any{2, "y", "2022-06-30", "2022-07-01", false}, ""},
		} {
			before, err := out.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if c.row != nil {
				if _, err := write.Append(ctx, out, write.Values([][]any{c.row})); err != nil {
					t.Fatal(err)
				}
			}
			r, err := scd2.CheckIntervals(ctx, out, scd2.CheckOptions{})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.problem == "" && len(r.Faults) != 0, c.problem != "" && (len(r.Faults) != 1 || r.Faults[0].Problem != c.problem):
				t.Errorf("open end %s, %s: %+v", end, c.name, r.Faults)
			}
			if _, err := write.Restore(ctx, out, before.Version()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := scd2.CheckIntervals(ctx, delta.New(mem.New()), scd2.CheckOptions{}); !errors.Is(err, scd2.ErrNotBuilt) {
		t.Error(err)
	}
}
