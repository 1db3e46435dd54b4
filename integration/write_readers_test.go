//go:build integration

package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// libraryTables are tables that the library makes by itself, by their properties, and
// the engines that can't read such a table.
var libraryTables = []struct {
	name       string
	properties map[string]string
	partition  []string
	not        []string
}{
	{"rewritten", nil, nil, nil},
	{"rewritten, partitioned", nil, []string{"text"}, nil},
	{"deletion vectors", map[string]string{delta.PropertyDeletionVectors: "true"}, nil, nil},
	{"deletion vectors, partitioned by a time", map[string]string{delta.PropertyDeletionVectors: "true", delta.PropertyChangeDataFeed: "true"}, []string{"at", "d"}, nil},
	{"mapped by name", map[string]string{delta.PropertyColumnMapping: "name", delta.PropertyDeletionVectors: "true"}, []string{"small"}, nil},
	// DuckDB does not find the values of a partition column that was renamed (duckdb-delta #343).
	{"mapped by name, partition column renamed", map[string]string{delta.PropertyColumnMapping: "name"}, []string{"text"}, []string{"DuckDB"}},
	{"rows numbered, commits timed", map[string]string{delta.PropertyRowTracking: "true", "delta.enableInCommitTimestamps": "true", delta.PropertyDeletionVectors: "true"}, nil, nil},
	{"mapped by id", map[string]string{delta.PropertyColumnMapping: "id"}, nil, nil},
}

// everyOperation makes a table and puts every operation of the library on it.
func everyOperation(t *testing.T, table *delta.Table, properties map[string]string, partition []string) {
	t.Helper()
	columns := []schema.Field{write.Column("id", schema.Of(schema.Long))}
	for name, of := range map[string]schema.Type{
		"text": schema.Of(schema.StringType), "d": schema.Of(schema.Date), "at": schema.Of(schema.Timestamp), "amount": schema.Decimal(12, 2), "wide": schema.Decimal(38, 10),
		"small": schema.Of(schema.Short), "f": schema.Of(schema.FloatType), "x": schema.Of(schema.DoubleType), "ok": schema.Of(schema.Boolean), "raw": schema.Of(schema.BinaryType),
	} {
		columns = append(columns, write.Column(name, of))
	}
	slices.SortFunc(columns[1:], func(a, b schema.Field) int {
		return len(a.Name)*256 + int(a.Name[0]) - len(b.Name)*256 - int(b.Name[0])
	})
	var names []string
	for _, c := range columns {
		names = append(names, c.Name)
	}
	batch := func(from, n int) write.Source {
		var rows [][]any
		for i := from; i < from+n; i++ {
			values := map[string]any{
				"id": i, "text": fmt.Sprintf("t%d é/%%", i%3), "d": fmt.Sprintf("2024-02-%02d", 1+i%4), "at": fmt.Sprintf("2024-01-01 10:00:0%d.12345%d", i%2, i%2),
				"amount": fmt.Sprintf("%d.%02d", i*7-50, i%100), "wide": fmt.Sprintf("-1234567890123456789%d.0123456789", i), "small": i - 100,
				"f": float32(i) / 4, "x": float64(i) / 3, "ok": i%2 == 0, "raw": []byte{byte(i), 0, 255},
			}
			if i%5 == 0 {
				for _, null := range []string{"text", "wide", "x", "ok"} {
					values[null] = nil
				}
			}
			row := make([]any, len(names))
			for c, name := range names {
				row[c] = values[name]
			}
			rows = append(rows, row)
		}
		return write.Values(rows, names...)
	}
	step := func(what string) func(write.Result, error) {
		return func(r write.Result, err error) {
			t.Helper()
			if err != nil || !r.Committed {
				t.Fatalf("%s: %+v, %v", what, r, err)
			}
		}
	}
	step("create")(write.Create(ctx, table, write.Definition{Columns: columns, PartitionBy: partition, Properties: properties}, batch(0, 40)))
	step("append")(write.Append(ctx, table, batch(40, 40)))
	step("delete")(write.Delete(ctx, table, "id < 7 OR amount > 400"))
	step("update")(write.Update(ctx, table, "small < -70", write.Set{"f": 0.5, "text": "changed"}))
	step("merge")(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, batch(50, 50)))
	snapshot, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Checkpoint(ctx, snapshot, delta.CheckpointOptions{}); err != nil {
		t.Fatal(err)
	}
	step("replace where")(write.ReplaceWhere(ctx, table, "id >= 90", batch(95, 3)))
	step("overwrite partitions")(write.OverwritePartitions(ctx, table, batch(20, 9)))
	step("delete by partition")(write.Delete(ctx, table, "text = 't1 é/%'"))
	step("restore")(write.Restore(ctx, table, 6))
	step("add column")(write.Alter(ctx, table, []write.Change{write.AddColumn(write.Column("added", schema.Of(schema.Integer)), write.After("id"))}))
	names = append(names, "added")
	step("update after it")(write.Update(ctx, table, "id < 30", write.Set{"added": 7}))
	if properties[delta.PropertyColumnMapping] != "" {
		step("rename and drop")(write.Alter(ctx, table, []write.Change{write.RenameColumn("amount", "the amount"), write.DropColumn("x"), write.RenameColumn("text", "words")}))
		step("delete after it")(write.Delete(ctx, table, `"the amount" < 200`))
	}
	step("overwrite")(write.Overwrite(ctx, table, write.Values([][]any{{1}, {2}}, "id")))
}

// TestLibraryTablesElsewhere holds what the library writes against other engines, version
// by version.
func TestLibraryTablesElsewhere(t *testing.T) {
	t.Parallel()
	var engines []*engine
	for _, name := range []string{"delta-rs", "DuckDB", "Delta Kernel"} { // TestEngines has the others
		engines = append(engines, startEngine(t, name))
	}
	for _, c := range libraryTables {
		t.Run(c.name, func(t *testing.T) {
			store, err := local.New(t.TempDir(), local.Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			table := delta.New(store)
			everyOperation(t, table, maps.Clone(c.properties), c.partition)
			versions, err := table.Versions(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range versions {
				s, err := table.SnapshotAt(ctx, v)
				if err != nil {
					t.Fatal(err)
				}
				want := ownContent(t, store, s, nil)
				for _, e := range engines {
					if slices.Contains(c.not, e.name) {
						continue
					}
					got, err := e.read(t, store.String(), v, "true", want)
					if err != nil {
						t.Errorf("version %d: %v", v, err)
					} else if d := got.differs(want); d != "" {
						t.Errorf("version %d: %s reads other rows than gscd:\n  %s", v, e.name, d)
					}
				}
			}
		})
	}
}
