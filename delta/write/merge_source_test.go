package write_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// A source that does not fit into memory gives what one that fits gives, and leaves no
// temporary file.
func TestMergeOfASourceThatDoesNotFit(t *testing.T) {
	source := func(yield func([]schema.Value, error) bool) {
		for i := range int64(900) {
			row := []schema.Value{schema.IntValue(i*3 + 1), schema.StringValue(fmt.Sprint("p", i%2)), schema.IntValue(-i)}
			if i%100 == 7 {
				row[0] = schema.Value{} // like nothing
			}
			if !yield(row, nil) {
				return
			}
		}
	}
	into := write.MergeInto{Key: []string{"id"}, Matched: func(row []schema.Value) write.Act {
		return write.Act(row[2].I % 3 * -1) // puts, drops and skips
	}}
	for _, mode := range []string{"rewrite with feed", "vectors", "vectors with feed"} {
		var want []string
		var counts write.Counts
		for _, memory := range []int64{1 << 30, 100_000, 10_000} {
			t.Run(fmt.Sprint(mode, " ", memory), func(t *testing.T) {
				table := create(t, "id long, p string, n long", "p", modes[mode])
				var old [][]any
				for i := range 2000 {
					old = append(old, []any{i, fmt.Sprint("p", i%3), i})
				}
				must(t)(write.Append(ctx, table, write.Values(old[:1000])))
				must(t)(write.Append(ctx, table, write.Values(old[1000:])))
				dir := t.TempDir()
				r := must(t)(write.Merge(ctx, table, into, write.Rows(source), write.WithMemory(memory), write.WithTempDir(dir)))
				got := rows(t, table, -1)
				slices.Sort(got)
				if r.Counts.Source != 900 || r.Updated == 0 || r.Deleted == 0 || r.Inserted == 0 {
					t.Errorf("%+v", r.Counts)
				}
				if want == nil {
					want, counts = got, r.Counts
				}
				if !slices.Equal(got, want) || r.Updated != counts.Updated || r.Deleted != counts.Deleted || r.Inserted != counts.Inserted || r.Copied != counts.Copied {
					t.Errorf("%d rows, %+v; want %d rows, %+v", len(got), r.Counts, len(want), counts)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("left: %v, %v", left, err)
				}
				twice := append(slices.Clone(old[:900]), []any{5, "q", 0})
				before := rows(t, table, -1)
				_, err := write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Values(twice), write.WithMemory(memory), write.WithTempDir(dir))
				if !errors.Is(err, write.ErrDuplicateKey) || !strings.Contains(err.Error(), "5") {
					t.Errorf("a key twice: %v", err)
				}
				if now := rows(t, table, -1); !slices.Equal(now, before) {
					t.Error("a refused merge changed the table")
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("left: %v, %v", left, err)
				}
			})
		}
	}
}
