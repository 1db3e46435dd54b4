package layout_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/layout"
)

// The depth is how many files a lookup opens, and overlaps with how many others each
// shares values.
func TestMeasure(t *testing.T) {
	const unknown = `{"numRecords":5}`
	span := func(low, high int) string {
		return fmt.Sprintf(`{"numRecords":5,"minValues":{"id":%d},"maxValues":{"id":%d},"nullCount":{"id":0}}`, low, high)
	}
	for _, c := range []struct {
		name            string
		stats           []string
		depth, overlaps float64
		unknown         int
	}{
		{"apart", []string{span(0, 9), span(10, 19), span(20, 29)}, 1, 0, 0},
		{"all over", []string{span(0, 29), span(0, 29), span(0, 29)}, 3, 2, 0},
		{"two of three", []string{span(0, 15), span(10, 19), span(20, 29)}, 8. / 6, 2. / 3, 0},
		{"one value shared", []string{span(0, 10), span(10, 20)}, 1.5, 1, 0},
		{"without bounds", []string{span(0, 9), span(10, 19), unknown}, 2, 4. / 3, 1},
		{"nothing but NULL", []string{span(0, 9), `{"numRecords":5,"nullCount":{"id":5}}`}, 1, 0, 0},
		{"none", nil, 0, 0, 0},
	} {
		f := newFixture(t, false)
		tx := delta.NewTransaction(f.table, f.newest())
		for i, text := range c.stats {
			tx.Add(&action.Add{Path: fmt.Sprint(i), PartitionValues: map[string]*string{}, Size: 1, DataChange: true, Stats: text})
		}
		got, err := layout.Measure(f.commit(tx), "ID")
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
		if m := got[0]; m.Column != "id" || m.Files != len(c.stats) || m.Unknown != c.unknown || !near(m.Depth, c.depth) || !near(m.Overlaps, c.overlaps) {
			t.Errorf("%s: %+v, want depth %v, overlaps %v", c.name, m, c.depth, c.overlaps)
		}
	}
	f := newFixture(t, true)
	for _, name := range []string{"nothing", "city"} {
		if _, err := layout.Measure(f.newest(), name); !errors.Is(err, layout.ErrColumn) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What can't be asked for is refused before anything is written.
func TestOptimizeRefuses(t *testing.T) {
	f := newFixture(t, true)
	for name, o := range map[string]layout.Options{
		"no column":    {OrderBy: []string{"nothing"}},
		"a partition":  {OrderBy: []string{"city"}},
		"twice":        {OrderBy: []string{"id", "ID"}},
		"too many":     {OrderBy: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}},
		"no curve":     {OrderBy: []string{"id"}, Curve: "peano"},
		"purge sorted": {OrderBy: []string{"id"}, PurgeOnly: true},
	} {
		if _, err := layout.Optimize(t.Context(), f.table, o); !errors.Is(err, layout.ErrColumn) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := layout.Optimize(t.Context(), delta.New(f.store), layout.Options{}); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
}
