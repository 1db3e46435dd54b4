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

// Structs, arrays and maps are carried along, decoded or not.
// nestedStats are those of the rows below: every seventh struct is NULL, and so are its fields.
const nestedStats = `{"numRecords":25050,"minValues":{"s":{"a":2000000,"b":"b0"},"id":2000000},` +
	`"maxValues":{"s":{"a":2500024999,"b":"b8"},"id":2500024999},"nullCount":{"s":{"a":3578,"b":3578},"id":0}}`

func TestOptimizeNested(t *testing.T) {
	ctx := t.Context()
	table := delta.New(mem.New())
	long := schema.Of(schema.Long)
	_, err := write.Create(ctx, table, write.Definition{Columns: []schema.Field{
		write.Column("s", schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{write.Column("a", long), write.Column("b", schema.Of(schema.StringType))}}}),
		write.Column("id", long),
		write.Column("l", schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: long, ContainsNull: true}}),
		write.Column("m", schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: schema.Of(schema.StringType), Element: long, ContainsNull: true}}),
	}}, write.Source{})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{20, 25_000, 30} {
		rows := func(yield func([]schema.Value, error) bool) {
			for i := range size {
				id := size*100_000 + i
				row := []schema.Value{
					schema.CompoundValue(schema.IntValue(id), schema.StringValue(fmt.Sprint("b", id%9))), schema.IntValue(id),
					schema.CompoundValue(schema.IntValue(id%3), schema.Value{}), schema.CompoundValue(schema.StringValue("k"), schema.IntValue(id%5)),
				}
				switch id % 7 {
				case 1:
					row[0] = schema.Value{}
				case 2:
					row[2] = schema.CompoundValue()
				case 3:
					row[3] = schema.Value{}
				}
				if !yield(row, nil) {
					return
				}
			}
		}
		if _, err := write.Append(ctx, table, write.Rows(rows)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := scanned(t, table, before)
	for _, o := range []layout.Options{{SmallSize: 1 << 40, TargetSize: 1 << 30}, {OrderBy: []string{"id"}, MemoryLimit: 1 << 20, TempDir: t.TempDir()}} {
		report, err := layout.Optimize(ctx, table, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := scanned(t, table, report.Snapshot); !slices.Equal(got, want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		if len(report.Versions) != 1 {
			t.Errorf("%+v", report)
		}
		if add := report.Snapshot.Files()[0]; o.OrderBy != nil && add.Stats != nestedStats {
			t.Errorf("statistics %s", add.Stats)
		}
	}
}
