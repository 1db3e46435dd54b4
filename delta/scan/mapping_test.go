package scan_test

import (
	"fmt"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// mappedField is a column's JSON under column mapping.
func mappedField(name, kind string, id int, stored string) string {
	return fmt.Sprintf(`{"name":%q,"type":%q,"nullable":true,"metadata":{"delta.columnMapping.id":%d,"delta.columnMapping.physicalName":%q}}`, name, kind, id, stored)
}

// A table whose columns were renamed, dropped and added again: each is found in every
// file by what stays, in partition values and statistics too, by name or by id.
func TestRenamedColumns(t *testing.T) {
	for _, mode := range []string{"name", "id"} {
		store := mem.New()
		write := func(key string, columns []parquet.Column, rows ...[]schema.Value) int64 {
			e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
			if err != nil {
				t.Fatal(err)
			}
			data, _, err := e.Encode(rows)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Put(ctx, key, data); err != nil {
				t.Fatal(err)
			}
			return int64(len(data))
		}
		long := schema.Of(schema.Long)
		// In the file of id mode the names are others: only the ids tell.
		names := []string{"col-a", "col-b"}
		if mode == "id" {
			names = []string{"col-b", "col-a"}
		}
		// The second column was dropped later, and b is another one now.
		first := write("1.parquet", []parquet.Column{{Name: names[0], Type: long, FieldID: 1}, {Name: names[1], Type: long, FieldID: 2}},
			[]schema.Value{schema.IntValue(1), schema.IntValue(100)}, []schema.Value{schema.IntValue(2), schema.IntValue(200)})
		second := write("2.parquet", []parquet.Column{{Name: "col-c", Type: long, FieldID: 3}, {Name: names[0], Type: long, FieldID: 1}},
			[]schema.Value{schema.IntValue(30), schema.IntValue(3)})
		s := `{"type":"struct","fields":[` + mappedField("renamed", "long", 1, "col-a") + "," + mappedField("b", "long", 3, "col-c") + "," + mappedField("p", "string", 4, "col-p") + `]}`
		commit := action.Commit{
			Protocol: &action.Protocol{MinReaderVersion: 2, MinWriterVersion: 5},
			Metadata: &action.Metadata{ID: "m", Format: action.Format{Provider: "parquet"}, SchemaString: s, PartitionColumns: []string{"p"}, Configuration: map[string]string{"delta.columnMapping.mode": mode}},
			Adds: []*action.Add{
				{Path: "1.parquet", Size: first, PartitionValues: map[string]*string{"col-p": new("x")}, Stats: `{"numRecords":2,"minValues":{"col-a":1,"col-b":100},"maxValues":{"col-a":2,"col-b":200},"nullCount":{"col-a":0,"col-b":0}}`},
				{Path: "2.parquet", Size: second, PartitionValues: map[string]*string{"col-p": nil}, Stats: `{"numRecords":1,"minValues":{"col-a":3,"col-c":30},"maxValues":{"col-a":3,"col-c":30},"nullCount":{"col-a":0,"col-c":0}}`},
			},
		}
		if err := store.Put(ctx, deltalog.CommitKey(0), commit.Append(nil)); err != nil {
			t.Fatal(err)
		}
		snapshot, err := delta.New(store).Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for filter, want := range map[string]string{
			"":                          "[[1 NULL x] [2 NULL x] [3 30 NULL]] of 2 files",
			"renamed >= 3":              "[[3 30 NULL]] of 1 files",
			"b = 100":                   "[] of 1 files", // of the first nothing is known: its statistics are of another b
			"b IS NULL AND renamed > 1": "[[2 NULL x]] of 1 files",
			"p = 'x' AND renamed <> 1":  "[[2 NULL x]] of 1 files",
		} {
			options := scan.Options{}
			if filter != "" {
				if options.Where, err = expr.Parse(filter, snapshot.Schema()); err != nil {
					t.Fatal(err)
				}
			}
			s, err := scan.New(store, snapshot, options)
			if err != nil {
				t.Fatal(err)
			}
			rows := [][]string{}
			for _, row := range collect(t, s) {
				var texts []string
				for _, v := range row {
					switch {
					case v.IsNull():
						texts = append(texts, "NULL")
					case v.Kind == schema.String:
						texts = append(texts, v.S)
					default:
						texts = append(texts, fmt.Sprint(v.I))
					}
				}
				rows = append(rows, texts)
			}
			if got := fmt.Sprintf("%v of %d files", rows, len(s.Files())); got != want {
				t.Errorf("%s, %s: %s, want %s", mode, filter, got, want)
			}
		}
	}
}
