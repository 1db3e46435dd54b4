package layout_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// scanned gives the rows of a version as sorted texts.
func scanned(t testing.TB, table *delta.Table, s *delta.Snapshot) (rows []string) {
	t.Helper()
	reading, err := scan.New(table.Store(), s, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range reading.Rows(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("%+v", row))
	}
	slices.Sort(rows)
	return rows
}

// Columns that were renamed, dropped, added and widened, and constraints, are no
// hindrance: rows stay as they are, under the names that files have.
func TestOptimizeAfterAlter(t *testing.T) {
	ctx := t.Context()
	table := delta.New(mem.New())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := write.Create(ctx, table, write.Definition{
		Columns: []schema.Field{
			write.Column("id", schema.Of(schema.Integer)), write.Column("old", schema.Of(schema.StringType)),
			write.Column("gone", schema.Of(schema.StringType)), write.Column("city", schema.Of(schema.StringType)),
		},
		PartitionBy: []string{"city"},
		Properties:  map[string]string{"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"},
	}, write.Source{})
	must(err)
	put := func(from int64, altered bool) {
		t.Helper()
		var rows [][]any
		for id := from; id < from+20; id++ {
			row := []any{id, fmt.Sprint("name", id%7), "x", []string{"Wuhan", "Xi'an"}[id%2]}
			if altered {
				row[2], row[3] = row[3], id*1000
			}
			rows = append(rows, row)
		}
		_, err := write.Append(ctx, table, write.Values(rows))
		must(err)
	}
	put(0, false)
	put(20, false)
	_, err = write.Alter(ctx, table, []write.Change{write.RenameColumn("old", "name"), write.DropColumn("gone"), write.WidenColumn("id", schema.Of(schema.Long)),
		write.AddColumn(write.Column("late", schema.Of(schema.Long)), write.Place{})})
	must(err)
	_, err = write.Alter(ctx, table, []write.Change{write.AddConstraint("positive", "id >= 0")})
	must(err)
	put(40, true)
	before, err := table.Snapshot(ctx)
	must(err)
	want := scanned(t, table, before)
	for _, o := range []layout.Options{{}, {OrderBy: []string{"name", "id", "late"}, Curve: layout.Hilbert}} {
		report, err := layout.Optimize(ctx, table, o)
		must(err)
		if got := scanned(t, table, report.Snapshot); !slices.Equal(got, want) || len(got) != 60 {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		if report.Snapshot.NumFiles() != 2 || len(report.Versions) != 1 {
			t.Errorf("%v: %+v", report.Snapshot, report)
		}
	}
	if m, err := layout.Measure(before, "name"); err != nil || m[0].Unknown != 0 || m[0].Files != 6 || m[0].Depth < 2 {
		t.Errorf("%+v, %v", m, err)
	}
}
