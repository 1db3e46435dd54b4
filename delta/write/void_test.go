package write_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/write"
)

// A void column is NULL in every row and in no file, whatever is done to the rows.
func TestVoidColumns(t *testing.T) {
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			table := create(t, "id long, nothing void, name string", "", properties)
			must(t)(write.Append(ctx, table, values([]any{1, nil, "a"}, []any{2, nil, "b"})))
			must(t)(write.Append(ctx, table, write.Values([][]any{{"c", 3}}, "name", "id")))
			must(t)(write.Update(ctx, table, "id = 1", write.Set{"name": "x"}))
			must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, values([]any{2, nil, "y"}, []any{4, nil, "d"})))
			must(t)(write.Delete(ctx, table, "nothing IS NULL AND id = 3"))
			want(t, rows(t, table, -1), "1|-|x", "2|-|y", "4|-|d")
			report, err := layout.Optimize(ctx, table, layout.Options{OrderBy: []string{"name"}})
			if err != nil || len(report.Versions) != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
			want(t, rows(t, table, -1), "1|-|x", "2|-|y", "4|-|d")
			for _, a := range report.Snapshot.Files() {
				f, err := scan.OpenFile(ctx, table.Store(), a)
				if err != nil {
					t.Fatal(err)
				}
				fields, err := f.Fields()
				if err != nil || len(fields) != 2 {
					t.Errorf("%+v, %v", fields, err)
				}
				if strings.Contains(a.Stats, "nothing") {
					t.Errorf("statistics %s", a.Stats)
				}
			}
			if _, err := write.Append(ctx, table, values([]any{5, "z", "e"})); !errors.Is(err, write.ErrRow) {
				t.Errorf("a void column took a value: %v", err)
			}
		})
	}
}
