package write_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// versioned makes a table with open and closed rows of keys, NULL among them.
func versioned(t *testing.T, store *mem.Store) *delta.Table {
	t.Helper()
	table := delta.New(store)
	_, err := write.Create(context.Background(), table, write.Definition{
		Columns: []schema.Field{
			write.Column("k", schema.Of(schema.Long)), write.Column("v", schema.Of(schema.StringType)),
			write.Column("till", schema.Of(schema.Integer)), write.Column("open", schema.Of(schema.Boolean)),
		},
		PartitionBy: []string{"open"}, Properties: map[string]string{delta.PropertyDeletionVectors: "true"},
	}, write.Values([][]any{
		{1, "a", 2, false}, {1, "b", nil, true}, {2, "a", nil, true}, {3, "a", 1, false}, {nil, "a", nil, true}, {nil, "z", 1, false},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// rowsOf prints the rows of the newest version, sorted by all columns.
func rowsOf(t *testing.T, table *delta.Table) string {
	t.Helper()
	s, err := table.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(rows(t, table, s.Version()))
}

// A merge that closes the open row of a key and inserts its successor in one commit: closed
// rows match nothing, NULL is a key like others, and what does not fit into memory comes
// out the same.
func TestMergeClosesAndInserts(t *testing.T) {
	for _, memory := range []int64{64 << 20, 1 << 10} {
		store := mem.New()
		table := versioned(t, store)
		live := func(a, b write.Act) func([]schema.Value) write.Act {
			return func(row []schema.Value) write.Act {
				if row[3].I != 0 {
					return a
				}
				return b
			}
		}
		list := [][]any{{1, "c", nil, true}, {2, nil, nil, false}, {3, "b", nil, true}, {4, nil, nil, false}, {nil, "b", nil, true}}
		for i := range 40 {
			list = append(list, []any{100 + i, "n", nil, true})
		}
		result, err := write.Merge(context.Background(), table, write.MergeInto{
			Key: []string{"k"}, NullSafe: true, Where: "open = TRUE",
			Matched: live(write.Both, write.Put), NotMatched: live(write.Put, write.Skip),
			Update: func(next, row []schema.Value) error {
				next[2], next[3] = schema.IntValue(9), schema.BoolValue(false)
				return nil
			},
			Also: write.Values([][]any{{1, "between", 8, false}, {200, "gone", 8, false}}),
		}, write.Values(list), write.WithMemory(memory), write.WithTxn("app", 1), write.WithTxns(map[string]int64{"other": 7}))
		if err != nil {
			t.Fatal(err)
		}
		if result.Updated != 3 || result.Inserted != 45 || result.Deleted != 0 {
			t.Errorf("%v", result)
		}
		if txn, ok := result.Snapshot.Txn("other"); !ok || txn.Version != 7 {
			t.Errorf("txn: %v %v", txn, ok)
		}
		if _, err := write.Delete(context.Background(), table, "k >= 100"); err != nil {
			t.Fatal(err)
		}
		want := "[-|a|9|false -|b|-|true -|z|1|false 1|a|2|false 1|between|8|false 1|b|9|false 1|c|-|true 2|a|9|false 3|a|1|false 3|b|-|true]"
		if got := rowsOf(t, table); got != want {
			t.Errorf("memory %d: %s\nwant %s", memory, got, want)
		}
		// Back again.
		_, err = write.Edit(context.Background(), table, "till = 9 OR open = TRUE", func(next []schema.Value) (bool, error) {
			if next[3].I != 0 {
				return false, nil
			}
			next[2], next[3] = schema.Value{}, schema.BoolValue(true)
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want = "[-|a|-|true -|z|1|false 1|a|2|false 1|between|8|false 1|b|-|true 2|a|-|true 3|a|1|false]"
		if got := rowsOf(t, table); got != want {
			t.Errorf("memory %d: %s\nwant %s", memory, got, want)
		}
	}
}
