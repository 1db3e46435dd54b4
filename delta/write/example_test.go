package write_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// orders makes the table of the examples: three orders of two days. In a program the
// store is local.Open or s3.Open.
func orders() *delta.Table {
	table := delta.New(mem.New())
	_, err := write.Create(context.Background(), table, write.Definition{
		Columns: []schema.Field{
			write.Column("id", schema.Of(schema.Long)), write.Column("day", schema.Of(schema.Date)), write.Column("amount", schema.Decimal(8, 2)),
		},
		PartitionBy: []string{"day"},
		Properties:  map[string]string{delta.PropertyDeletionVectors: "true"},
	}, write.Values([][]any{{1, "2024-05-01", "10.00"}, {2, "2024-05-01", "20.50"}, {3, "2024-05-02", "5.00"}}))
	if err != nil {
		log.Fatal(err)
	}
	return table
}

// show prints the rows of the newest version, by id.
func show(table *delta.Table) {
	ctx := context.Background()
	snapshot, err := table.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	order, err := expr.ParseOrderBy("id", snapshot.Schema())
	if err != nil {
		log.Fatal(err)
	}
	reading, err := scan.New(table.Store(), snapshot, scan.Options{OrderBy: order})
	if err != nil {
		log.Fatal(err)
	}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rowText(reading.Columns(), row))
	}
}

func ExampleCreate() {
	ctx := context.Background()
	table := delta.New(mem.New())
	result, err := write.Create(ctx, table, write.Definition{
		Columns:     []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("name", schema.Of(schema.StringType))},
		Description: "who buys",
	}, write.Values([][]any{{1, "Ann"}, {2, "Ben"}}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result)
	_, err = write.Create(ctx, table, write.Definition{}, write.Source{})
	fmt.Println(errors.Is(err, write.ErrExists))
	// Output:
	// version 0: 2 inserted, 0 updated, 0 deleted
	// true
}

func ExampleAppend() {
	table := orders()
	rows := write.Values([][]any{{4, "2024-05-03", "7.25"}})
	// The same batch once more, after a crash maybe, is left out.
	for range 2 {
		result, err := write.Append(context.Background(), table, rows, write.WithTxn("loader", 17))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Version, result.Committed, result.Known)
	}
	// Output:
	// 1 true false
	// 1 false true
}

func ExampleAppend_columns() {
	table := orders()
	// Some columns, in another order; cells instead of Go values.
	rows := func(yield func([]schema.Value, error) bool) {
		for id := range int64(3) {
			if !yield([]schema.Value{schema.IntValue(19844), schema.IntValue(10 + id)}, nil) {
				return
			}
		}
	}
	result, err := write.Append(context.Background(), table, write.Rows(rows, "day", "id"))
	fmt.Println(result, err)
	// Output: version 1: 3 inserted, 0 updated, 0 deleted <nil>
}

func ExampleDelete() {
	table := orders()
	result, err := write.Delete(context.Background(), table, "day = '2024-05-01' AND amount > 15")
	fmt.Println(result, err)
	show(table)
	// Output:
	// version 1: 0 inserted, 0 updated, 1 deleted <nil>
	// 1|2024-05-01|10.00
	// 3|2024-05-02|5.00
}

func ExampleUpdate() {
	table := orders()
	double := write.Func(func(row []schema.Value) (schema.Value, error) {
		return schema.Value{Kind: schema.Dec, I: 2 * row[2].I}, nil // amount, in cents
	})
	result, err := write.Update(context.Background(), table, "id <= 2", write.Set{"amount": double, "day": "2024-05-04"})
	fmt.Println(result, err)
	show(table)
	// Output:
	// version 1: 0 inserted, 2 updated, 0 deleted <nil>
	// 1|2024-05-04|20.00
	// 2|2024-05-04|41.00
	// 3|2024-05-02|5.00
}

func ExampleMerge() {
	table := orders()
	cancelled := func(row []schema.Value) write.Act {
		if row[2].IsNull() {
			return write.Drop
		}
		return write.Put
	}
	result, err := write.Merge(context.Background(), table, write.MergeInto{Key: []string{"id"}, Matched: cancelled},
		write.Values([][]any{{2, "2024-05-01", nil}, {3, "2024-05-02", "6.00"}, {4, "2024-05-03", "1.00"}}))
	fmt.Println(result, err)
	show(table)
	// Output:
	// version 1: 1 inserted, 1 updated, 1 deleted <nil>
	// 1|2024-05-01|10.00
	// 3|2024-05-02|6.00
	// 4|2024-05-03|1.00
}

func ExampleReplaceWhere() {
	table := orders()
	result, err := write.ReplaceWhere(context.Background(), table, "day = '2024-05-01'", write.Values([][]any{{9, "2024-05-01", "1.00"}}))
	fmt.Println(result, err)
	show(table)
	// Output:
	// version 1: 1 inserted, 0 updated, 2 deleted <nil>
	// 3|2024-05-02|5.00
	// 9|2024-05-01|1.00
}

func ExampleOverwritePartitions() {
	table := orders()
	result, err := write.OverwritePartitions(context.Background(), table, write.Values([][]any{{8, "2024-05-02", "2.00"}, {9, "2024-05-09", "1.00"}}))
	fmt.Println(result, err)
	show(table)
	// Output:
	// version 1: 2 inserted, 0 updated, 1 deleted <nil>
	// 1|2024-05-01|10.00
	// 2|2024-05-01|20.50
	// 8|2024-05-02|2.00
	// 9|2024-05-09|1.00
}

func ExampleOverwrite() {
	table := orders()
	result, err := write.Overwrite(context.Background(), table, write.Values([][]any{{1, "2024-06-01", "1.00"}}))
	fmt.Println(result, err)
	// Output: version 1: 1 inserted, 0 updated, 3 deleted <nil>
}

func ExampleRestore() {
	ctx := context.Background()
	table := orders()
	if _, err := write.Delete(ctx, table, "TRUE"); err != nil {
		log.Fatal(err)
	}
	result, err := write.Restore(ctx, table, 0)
	fmt.Println(result.Version, err)
	show(table)
	// Output:
	// 2 <nil>
	// 1|2024-05-01|10.00
	// 2|2024-05-01|20.50
	// 3|2024-05-02|5.00
}

func ExampleAlter() {
	ctx := context.Background()
	table := orders()
	_, err := write.Alter(ctx, table, []write.Change{
		write.RenameColumn("amount", "total"),
		write.AddColumn(write.Column("note", schema.Of(schema.StringType)), write.After("id")),
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := write.Alter(ctx, table, []write.Change{write.AddConstraint("positive", "total > 0")}); err != nil {
		log.Fatal(err)
	}
	_, err = write.Append(ctx, table, write.Values([][]any{{4, "-1"}}, "id", "total"))
	fmt.Println(errors.Is(err, write.ErrRow), err)
	// Output:
	// true append to mem:: row 0: row does not fit the table: CHECK constraint positive (total > 0) does not hold for total = -1.00
}

func ExampleBatches() {
	ctx := context.Background()
	table := orders()
	snapshot, err := table.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	where, err := expr.Parse("amount >= 10", snapshot.Schema())
	if err != nil {
		log.Fatal(err)
	}
	rows, err := scan.New(table.Store(), snapshot, scan.Options{Where: where, Columns: []string{"id", "amount"}})
	if err != nil {
		log.Fatal(err)
	}
	large := delta.New(mem.New())
	result, err := write.Create(ctx, large, write.Definition{Columns: rows.Columns()}, write.Batches(rows.Batches(ctx)))
	fmt.Println(result, err)
	show(large)
	// Output:
	// version 0: 2 inserted, 0 updated, 0 deleted <nil>
	// 1|10.00
	// 2|20.50
}

func ExampleReplace() {
	table := orders()
	result, err := write.Replace(context.Background(), table, write.Definition{Columns: []schema.Field{write.Column("n", schema.Of(schema.Integer))}},
		write.Values([][]any{{1}, {2}}))
	fmt.Println(result, err)
	fmt.Println(result.Snapshot.Schema().Names())
	// Output:
	// version 1: 2 inserted, 0 updated, 3 deleted <nil>
	// [n]
}

// A column that the table counts: rows leave it out.
func ExampleIdentity() {
	ctx := context.Background()
	table := delta.New(mem.New())
	_, err := write.Create(ctx, table, write.Definition{
		Columns: []schema.Field{write.Identity("id", 100, 10, false), write.Column("name", schema.Of(schema.StringType))},
	}, write.Values([][]any{{"ink"}, {"pen"}}))
	if err != nil {
		log.Fatal(err)
	}
	if _, err = write.Append(ctx, table, write.Values([][]any{{"cap"}})); err != nil {
		log.Fatal(err)
	}
	show(table)
	// Output:
	// 100|ink
	// 110|pen
	// 120|cap
}
