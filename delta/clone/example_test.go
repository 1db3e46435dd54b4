package clone_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// The first version of a table with rows becomes a table of its own.
func ExampleClone() {
	ctx := context.Background()
	orders, copied := delta.New(mem.New()), delta.New(mem.New())
	_, err := write.Create(ctx, orders, write.Definition{Columns: []schema.Field{write.Column("id", schema.Of(schema.Long))}}, write.Source{})
	if err != nil {
		log.Fatal(err)
	}
	for id := range 2 {
		if _, err := write.Append(ctx, orders, write.Values([][]any{{id}})); err != nil {
			log.Fatal(err)
		}
	}
	first, err := orders.SnapshotAt(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	report, err := clone.Clone(ctx, orders, first, copied, clone.Options{Deep: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Files, "of", 2, "files, as version", report.Version)
	// Output: 1 of 2 files, as version 0
}
