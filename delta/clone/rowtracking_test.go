package clone_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// A clone has the numbers that rows have in its source, and goes on behind them.
func TestCloneKeepsRowNumbers(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	from := delta.New(store(t, dir))
	_, err := write.Create(ctx, from, write.Definition{
		Columns: []schema.Field{write.Column("id", schema.Of(schema.Long))}, Properties: map[string]string{delta.PropertyRowTracking: "true"},
	}, write.Values([][]any{{1}, {2}, {3}}))
	must(t, err)
	_, err = write.Update(ctx, from, "id = 2", write.Set{"id": 20})
	must(t, err)
	r, err := write.Append(ctx, from, write.Values([][]any{{4}, {5}}))
	must(t, err)
	// Files by their first number, with the version that is the default of their rows.
	numbers := func(s *delta.Snapshot) map[string]bool {
		out := map[string]bool{}
		for _, a := range s.Files() {
			out[fmt.Sprintf("%d@%d", *a.BaseRowID, *a.DefaultRowCommitVersion)] = true
		}
		return out
	}
	want := map[string]bool{"3@1": true, "6@2": true}
	if got := numbers(r.Snapshot); !maps.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	for _, deep := range []bool{true, false} {
		to := delta.New(store(t, t.TempDir(), dir))
		report, err := clone.Clone(ctx, from, r.Snapshot, to, clone.Options{Deep: deep})
		must(t, err)
		if got := numbers(report.Snapshot); !maps.Equal(got, want) {
			t.Errorf("deep %v: %v", deep, got)
		}
		mark := func(s *delta.Snapshot) string {
			if d := s.Domains(); len(d) == 1 {
				return d[0].Configuration
			}
			return ""
		}
		if got := mark(report.Snapshot); got != `{"rowIdHighWaterMark":7}` {
			t.Errorf("deep %v: %s", deep, got)
		}
		more, err := write.Append(ctx, to, write.Values([][]any{{6}}))
		must(t, err)
		if got := numbers(more.Snapshot); len(got) != 3 || !got["8@1"] || mark(more.Snapshot) != `{"rowIdHighWaterMark":8}` {
			t.Errorf("deep %v: %v, %s", deep, got, mark(more.Snapshot))
		}
	}
}
