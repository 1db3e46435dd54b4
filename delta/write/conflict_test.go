package write_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// cutIn is a store that lets someone else commit right before a commit is written.
type cutIn struct {
	objstore.Store
	mu    sync.Mutex
	first func() // once
	// lose makes the answer to a commit that was written get lost, so many times.
	lose int
}

func (c *cutIn) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	c.mu.Lock()
	first := c.first
	if strings.HasPrefix(key, "_delta_log/") {
		c.first = nil
	} else {
		first = nil
	}
	c.mu.Unlock()
	if first != nil {
		first()
	}
	err := c.Store.PutIfAbsent(ctx, key, data)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.lose > 0 {
		c.lose--
		return fmt.Errorf("the line broke: %w", objstore.ErrUnknownOutcome)
	}
	return err
}

// Two operations meet on one table: what is read by the one decides whether it can go
// behind the other as it is.
func TestConflicts(t *testing.T) {
	type op = func(*delta.Table) (write.Result, error)
	appendRow := func(id int, p string) op {
		return func(t *delta.Table) (write.Result, error) { return write.Append(ctx, t, values([]any{id, p, 0})) }
	}
	deleteWhere := func(where string, options ...write.Option) op {
		return func(t *delta.Table) (write.Result, error) { return write.Delete(ctx, t, where, options...) }
	}
	update := func(where string) op {
		return func(t *delta.Table) (write.Result, error) {
			plus := write.Func(func(row []schema.Value) (schema.Value, error) { return schema.IntValue(row[2].I + 1), nil })
			return write.Update(ctx, t, where, write.Set{"n": plus})
		}
	}
	mergeRow := func(id int) op {
		return func(t *delta.Table) (write.Result, error) {
			return write.Merge(ctx, t, write.MergeInto{Key: []string{"id"}}, values([]any{id, "m", 50}))
		}
	}
	overwrite := func(t *delta.Table) (write.Result, error) { return write.Overwrite(ctx, t, values([]any{9, "o", 9})) }
	replace := func(t *delta.Table) (write.Result, error) {
		return write.Replace(ctx, t, write.Definition{Columns: []schema.Field{write.Column("a", schema.Of(schema.Long))}}, values([]any{5}))
	}
	property := func(t *delta.Table) (write.Result, error) {
		return write.Alter(ctx, t, []write.Change{write.SetProperties(map[string]string{"x": "y"})})
	}
	addColumn := func(t *delta.Table) (write.Result, error) {
		return write.Alter(ctx, t, []write.Change{write.AddColumn(write.Column("more", schema.Of(schema.Long)), write.Place{})})
	}
	lower := write.WithIsolation(delta.WriteSerializable)
	for _, c := range []struct {
		name          string
		first, second op
		plans         int // of second
		conflict      bool
		want          []string
	}{
		{"append after append", appendRow(7, "a"), appendRow(8, "a"), 1, false, []string{"1|a|0", "2|a|0", "3|b|0", "7|a|0", "8|a|0"}},
		{"append after delete", deleteWhere("id = 1"), appendRow(8, "a"), 1, false, []string{"2|a|0", "3|b|0", "8|a|0"}},
		{"append after overwrite", overwrite, appendRow(8, "a"), 1, false, []string{"9|o|9", "8|a|0"}},
		{"append after a property", property, appendRow(8, "a"), 2, false, []string{"1|a|0", "2|a|0", "3|b|0", "8|a|0"}},
		{"append after a column", addColumn, appendRow(8, "a"), 2, true, []string{"1|a|0|-", "2|a|0|-", "3|b|0|-"}},
		{"delete after append that may match", appendRow(2, "a"), deleteWhere("id = 2"), 2, false, []string{"1|a|0", "3|b|0"}},
		{"the same, write serializable", appendRow(2, "a"), deleteWhere("id = 2", lower), 1, false, []string{"1|a|0", "3|b|0", "2|a|0"}},
		{"delete after append elsewhere", appendRow(7, "z"), deleteWhere("p = 'a'"), 1, false, []string{"3|b|0", "7|z|0"}},
		{"delete after delete of another file", deleteWhere("id = 3"), deleteWhere("id = 1"), 1, false, []string{"2|a|0"}},
		{"delete after delete in one file", deleteWhere("id = 2"), deleteWhere("id = 1"), 2, false, []string{"3|b|0"}},
		{"delete of what is gone", deleteWhere("id = 1"), deleteWhere("id = 1"), 2, false, []string{"2|a|0", "3|b|0"}},
		{"update after update of one row", update("id = 1"), update("id = 1"), 2, false, []string{"1|a|2", "2|a|0", "3|b|0"}},
		{"update after update of another file", update("id = 3"), update("id = 1"), 1, false, []string{"1|a|1", "2|a|0", "3|b|1"}},
		{"replace after append", appendRow(7, "a"), replace, 2, false, []string{"5"}},
		{"append after replace", replace, appendRow(7, "a"), 2, true, []string{"5"}},
		{"overwrite after append", appendRow(7, "a"), overwrite, 2, false, []string{"9|o|9"}},
		{"merge after merge of one new key", mergeRow(7), mergeRow(7), 2, false, []string{"1|a|0", "2|a|0", "3|b|0", "7|m|50"}},
		{"merge after append of its key", appendRow(8, "q"), mergeRow(8), 2, false, []string{"1|a|0", "2|a|0", "3|b|0", "8|m|50"}},
		{"merge after append of another key", appendRow(70, "q"), mergeRow(8), 1, false, []string{"1|a|0", "2|a|0", "3|b|0", "70|q|0", "8|m|50"}},
		{"update after a column", addColumn, update("id = 1"), 2, false, []string{"1|a|1|-", "2|a|0|-", "3|b|0|-"}},
		{"merge after a column", addColumn, mergeRow(1), 2, true, []string{"1|a|0|-", "2|a|0|-", "3|b|0|-"}},
		{"a column after append", appendRow(7, "a"), addColumn, 1, false, []string{"1|a|0|-", "2|a|0|-", "3|b|0|-", "7|a|0|-"}},
		{"a column after a property", property, addColumn, 2, false, []string{"1|a|0|-", "2|a|0|-", "3|b|0|-"}},
	} {
		for _, mode := range []string{"rewrite", "vectors"} {
			t.Run(c.name+" "+mode, func(t *testing.T) {
				store := &cutIn{Store: mem.New()}
				table := delta.New(store)
				must(t)(write.Create(ctx, table, write.Definition{Columns: columns(t, "id long, p string, n long"), PartitionBy: []string{"p"}, Properties: modes[mode]},
					values([]any{1, "a", 0}, []any{2, "a", 0}, []any{3, "b", 0})))
				var first write.Result
				var firstErr error
				store.first = func() { first, firstErr = c.first(table) }
				second, err := c.second(table)
				if firstErr != nil || !first.Committed {
					t.Fatalf("the first: %+v, %v", first, firstErr)
				}
				if c.conflict != errors.Is(err, delta.ErrConflict) || !c.conflict && err != nil {
					t.Fatalf("%+v, %v", second, err)
				}
				if second.Attempts != c.plans {
					t.Errorf("planned %d times, want %d", second.Attempts, c.plans)
				}
				want(t, rows(t, table, -1), slices.Clone(c.want)...)
				// Nothing is left of plans that did not come to be.
				used := map[string]bool{}
				newest, err := table.Snapshot(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for v := range newest.Version() + 1 {
					commit, err := table.Commit(ctx, v)
					if err != nil {
						t.Fatal(err)
					}
					for _, a := range commit.Adds {
						used[a.Path] = true
						if a.DeletionVector != nil {
							key, _, err := delta.VectorKey(a.DeletionVector)
							if err != nil {
								t.Fatal(err)
							}
							used[key] = true
						}
					}
				}
				if got := dataFiles(t, table); len(got) != len(used) {
					t.Errorf("%d files of use in %q", len(used), got)
				}
			})
		}
	}
}

// An answer that got lost is looked up: the operation is there once.
func TestLostAnswers(t *testing.T) {
	store := &cutIn{Store: mem.New()}
	table := delta.New(store)
	store.lose = 1
	must(t)(write.Create(ctx, table, write.Definition{Columns: columns(t, "id long")}, values([]any{1})))
	store.lose = 1
	r := must(t)(write.Append(ctx, table, values([]any{2})))
	if r.Version != 1 || r.Attempts != 1 {
		t.Errorf("%+v", r)
	}
	// Lost, and another one came right behind it.
	store.lose = 1
	store.first = func() { must(t)(write.Append(ctx, delta.New(store.Store), values([]any{3}))) }
	must(t)(write.Update(ctx, table, "id = 1", write.Set{"id": 10}))
	want(t, rows(t, table, -1), "10", "2", "3")
}

// Writers at once: every increment counts, every append is there once.
func TestRace(t *testing.T) {
	for _, mode := range []string{"rewrite", "vectors with feed"} {
		t.Run(mode, func(t *testing.T) {
			store := mem.New()
			must(t)(write.Create(ctx, delta.New(store), write.Definition{Columns: columns(t, "id long, n long"), Properties: modes[mode]}, values([]any{0, 0})))
			const writers, times = 3, 6
			var running sync.WaitGroup
			for w := range writers {
				running.Go(func() {
					table := delta.New(store)
					plus := write.Func(func(row []schema.Value) (schema.Value, error) { return schema.IntValue(row[1].I + 1), nil })
					for i := range times {
						if _, err := write.Update(ctx, table, "id = 0", write.Set{"n": plus}, write.WithAttempts(200)); err != nil {
							t.Errorf("update: %v", err)
						}
						if _, err := write.Append(ctx, table, values([]any{100*w + i + 1, -1})); err != nil {
							t.Errorf("append: %v", err)
						}
						// All of them bring the same keys: each is there once.
						if _, err := write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, values([]any{-1 - i, w})); err != nil {
							t.Errorf("merge: %v", err)
						}
					}
				})
			}
			running.Wait()
			got := rows(t, delta.New(store), -1)
			if len(got) != 1+writers*times+times || !slices.Contains(got, fmt.Sprintf("0|%d", writers*times)) {
				t.Errorf("%d rows: %q", len(got), got)
			}
		})
	}
}

func TestCreateRace(t *testing.T) {
	store := mem.New()
	var created, refused int
	var mu sync.Mutex
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			_, err := write.Create(ctx, delta.New(store), write.Definition{Columns: columns(t, "id long")}, values([]any{i}))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				created++
			case errors.Is(err, write.ErrExists):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	running.Wait()
	if created != 1 || refused != 3 {
		t.Errorf("%d created, %d refused", created, refused)
	}
	if got := dataFiles(t, delta.New(store)); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
