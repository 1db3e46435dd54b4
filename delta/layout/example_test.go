package layout_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// Twenty small files become one, with rows of near days and ids beside each other.
func ExampleOptimize() {
	ctx := context.Background()
	table := delta.New(mem.New())
	_, err := write.Create(ctx, table, write.Definition{
		Columns: []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("day", schema.Of(schema.Date))},
	}, write.Source{})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 20 {
		if _, err := write.Append(ctx, table, write.Values([][]any{{i, "2024-05-01"}, {i + 100, "2024-06-01"}})); err != nil {
			log.Fatal(err)
		}
	}
	before, err := table.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	report, err := layout.Optimize(ctx, table, layout.Options{OrderBy: []string{"day", "id"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range []*delta.Snapshot{before, report.Snapshot} {
		clustering, err := layout.Measure(s, "day")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d files, %.0f of them opened for a day\n", s.NumFiles(), clustering[0].Depth)
	}
	// Output:
	// 20 files, 20 of them opened for a day
	// 1 files, 1 of them opened for a day
}
