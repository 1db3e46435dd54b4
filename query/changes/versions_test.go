package changes_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/query/changes"
)

// feedTable is a table with change data and a history of all kinds of commits.
func feedTable(t *testing.T, rng *rand.Rand, vectors bool) *delta.Table {
	t.Helper()
	table := delta.New(mem.New())
	must := func(_ write.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	properties := map[string]string{delta.PropertyChangeDataFeed: "true"}
	if vectors {
		properties[delta.PropertyDeletionVectors] = "true"
	}
	must(write.Create(ctx, table, write.Definition{
		Columns: []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("name", schema.Of(schema.StringType)), write.Column("n", schema.Of(schema.Integer))}, Properties: properties,
	}, write.Values([][]any{{1, "a", 1}, {2, "b", nil}})))
	for step := range 24 {
		var batch [][]any
		for id := range 12 {
			if rng.IntN(3) == 0 {
				batch = append(batch, []any{id, fmt.Sprintf("step %d", step), rng.IntN(3)})
			}
		}
		switch rng.IntN(7) {
		case 0:
			must(write.Delete(ctx, table, fmt.Sprintf("id = %d OR id = %d", rng.IntN(12), rng.IntN(12))))
		case 1:
			must(write.Update(ctx, table, fmt.Sprintf("id < %d", rng.IntN(12)), write.Set{"n": rng.IntN(3)}))
		case 2:
			if step%2 == 0 {
				must(write.Alter(ctx, table, []write.Change{write.AddColumn(write.Column(fmt.Sprintf("c%d", step), schema.Of(schema.StringType)), write.Place{})}))
			}
		case 3:
			s, err := table.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			must(write.Restore(ctx, table, rng.Int64N(s.Version()+1)))
		default:
			must(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}, Matched: func(row []schema.Value) write.Act {
				if row[2].I == 0 {
					return write.Drop
				}
				return write.Put
			}}, write.Values(batch, "id", "name", "n")))
		}
	}
	return table
}

// Applied to the rows of a version, the changes behind it give those of any later one;
// the net changes too, one a key.
func TestVersions(t *testing.T) {
	for _, vectors := range []bool{true, false} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("vectors=%v/%d", vectors, seed), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(seed, 7))
				table := feedTable(t, rng, vectors)
				f, _ := open(t, table, changes.Options{Key: []string{"id"}, Memory: 2000, TempDir: t.TempDir()})
				last := f.Newest()
				for range 12 {
					from := rng.Int64N(last + 1)
					to := from + rng.Int64N(last-from+1)
					before, after := rowsAt(t, table, from-1, f.Columns()), rowsAt(t, table, to, f.Columns())
					what := fmt.Sprintf("versions %d to %d", from, to)
					equal(t, what, before.apply(t, collect(t, f.Versions(ctx, from, to))), after)
					equal(t, what+", net each", before.apply(t, collectUnits(t, f, f.NetVersions(ctx, from, to))), after)
					u, end, err := f.NetRange(ctx, from, to)
					if err != nil {
						t.Fatal(err)
					}
					equal(t, what+", net", before.apply(t, unit(t, f, u)), after)
					end()
				}
			})
		}
	}
}

// What is not there any more is named, and from where on there is something.
func TestVersionsGone(t *testing.T) {
	store := mem.New()
	table := delta.New(store)
	must := func(_ write.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(write.Create(ctx, table, write.Definition{Columns: []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("v", schema.Of(schema.Long))},
		Properties: map[string]string{delta.PropertyDeletionVectors: "true"}}, write.Values([][]any{{1, 1}, {2, 2}})))
	must(write.Alter(ctx, table, []write.Change{write.SetProperties(map[string]string{delta.PropertyChangeDataFeed: "true"})}))
	for v := range 3 {
		must(write.Update(ctx, table, "id = 1", write.Set{"v": 10 + v}))
	}
	f, _ := open(t, table, changes.Options{})
	fails := func(from int64, want error, says string) {
		t.Helper()
		for _, err := range f.Versions(ctx, from, f.Newest()) {
			if err == nil {
				t.Fatal("a change before the error")
			}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
				t.Errorf("from %d: %v; want %q", from, err, says)
			}
		}
	}
	fails(0, changes.ErrNoChanges, "is not true in version 0; change data can be read from version 1 on")
	if got := collect(t, f.Versions(ctx, 1, f.Newest())); len(got) != 6 || got[0].Kind != scan.UpdatePreimage || got[5].Row[1].I != 12 {
		t.Errorf("changes %v", got)
	}
	if _, _, err := f.NetRange(ctx, 1, 2); !errors.Is(err, changes.ErrNoKey) {
		t.Errorf("net without a key: %v", err)
	}
	for o := range store.List(ctx, "_change_data/", "") { // those of version 2 come first or not
		commit, err := table.Commit(ctx, 2)
		if err != nil {
			t.Fatal(err)
		}
		if commit.CDC[0].Path == o.Key {
			if err := store.Delete(ctx, o.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	fails(1, scan.ErrFileMissing, "; change data can be read from version 3 on")
	fails(9, changes.ErrRange, "newest is 4")
}

// A key that is none is refused, not guessed.
func TestNetDuplicateKey(t *testing.T) {
	table := delta.New(mem.New())
	if _, err := write.Create(ctx, table, write.Definition{Columns: []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("v", schema.Of(schema.Long))},
		Properties: map[string]string{delta.PropertyChangeDataFeed: "true"}}, write.Values([][]any{{1, 1}, {1, 2}})); err != nil {
		t.Fatal(err)
	}
	f, _ := open(t, table, changes.Options{Key: []string{"ID"}})
	u, end, err := f.NetRange(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for _, err := range u.Keys {
		if !errors.Is(err, changes.ErrDuplicateKey) || !strings.Contains(err.Error(), "version 0 changed the key id=1 twice") {
			t.Errorf("%v", err)
		}
	}
}
