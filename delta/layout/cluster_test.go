package layout_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// A clustered table is laid out by its columns: what is not yet, and small cubes. Files
// of other columns and other rules stay.
func TestOptimizeOfAClusteredTable(t *testing.T) {
	ctx := t.Context()
	table := delta.New(mem.New())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := write.Create(ctx, table, write.Definition{
		Columns:    []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("a", schema.Of(schema.Long)), write.Column("b", schema.Of(schema.Long))},
		Properties: map[string]string{"delta.feature.clustering": "supported", "delta.dataSkippingNumIndexedCols": "1", "delta.columnMapping.mode": "name"},
	}, write.Source{})
	must(err)
	cluster := func(columns string) {
		t.Helper()
		s, err := table.Snapshot(ctx)
		must(err)
		x := delta.NewTransaction(table, s)
		x.Implements(delta.FeatureClustering, delta.FeatureColumnMapping)
		x.SetDomain(action.DomainMetadata{Domain: "delta.clustering", Configuration: `{"clusteringColumns":` + columns + `,"domainName":"delta.clustering"}`})
		out, err := x.Commit(ctx)
		if err != nil || !out.Committed {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	stored := func(name string) string { return r.Snapshot.Schema().Fields[r.Snapshot.Schema().Index(name)].Stored() }
	put := func(from int64) {
		t.Helper()
		var rows [][]any
		for i := from; i < from+2000; i++ {
			rows = append(rows, []any{i, i * 7919 % 1000, i * 104729 % 997})
		}
		_, err := write.Append(ctx, table, write.Values(rows))
		must(err)
	}
	optimize := func() *layout.Report {
		t.Helper()
		r, err := layout.Optimize(ctx, table, layout.Options{TargetSize: 8 << 10})
		must(err)
		return r
	}
	cluster(`[["` + stored("a") + `"],["` + stored("b") + `"]]`)
	put(0)
	put(2000)
	before, err := table.Snapshot(ctx)
	must(err)
	first := optimize()
	if first.FilesRemoved != 2 || first.FilesAdded < 4 || !slices.Equal(scanned(t, table, before), scanned(t, table, first.Snapshot)) {
		t.Fatalf("%+v", first)
	}
	cubes := map[string]bool{}
	for _, add := range first.Snapshot.Files() {
		cubes[add.Tags["ZCUBE_ID"]] = true
		if add.Tags["ZCUBE_ZORDER_BY"] != `["a","b"]` || add.ClusteringProvider == nil || *add.ClusteringProvider != "liquid" {
			t.Errorf("%+v", add)
		}
	}
	if len(cubes) != 1 || cubes[""] {
		t.Errorf("cubes %v", cubes)
	}
	where, err := expr.Parse("a = 500 AND b < 100", first.Snapshot.Schema())
	must(err)
	reading, err := scan.New(table.Store(), first.Snapshot, scan.Options{Where: where})
	must(err)
	if opened, all := len(reading.Files()), first.Snapshot.NumFiles(); opened*3 > all {
		t.Errorf("%d of %d files are opened", opened, all)
	}
	for c, err := range table.Commits(ctx, first.Versions[0], first.Versions[0]) {
		must(err)
		if !strings.Contains(string(c.Info), `"clusterBy":"[\"a\",\"b\"]"`) {
			t.Errorf("%s", c.Info)
		}
	}
	if again := optimize(); len(again.Versions) != 0 {
		t.Errorf("one cube is laid out again: %+v", again)
	}
	put(4000)
	if r := optimize(); r.FilesRemoved != first.FilesAdded+1 {
		t.Errorf("with new rows: %+v", r)
	}
	if _, err := layout.Optimize(ctx, table, layout.Options{OrderBy: []string{"id"}}); !errors.Is(err, layout.ErrColumn) {
		t.Errorf("another order: %v", err)
	}
	// Other columns: what lies by the old ones stays, new rows are laid out.
	cluster(`[["` + stored("b") + `"]]`)
	if r := optimize(); len(r.Versions) != 0 {
		t.Errorf("other columns: %+v", r)
	}
	put(6000)
	put(8000)
	if r := optimize(); r.FilesRemoved != 2 {
		t.Errorf("rows behind other columns: %+v", r)
	}
	// Without columns small files are joined.
	cluster(`[]`)
	if r, err := layout.Optimize(ctx, table, layout.Options{TargetSize: 1 << 20}); err != nil || r.FilesAdded != 1 {
		t.Errorf("no columns: %+v, %v", r, err)
	}
}
