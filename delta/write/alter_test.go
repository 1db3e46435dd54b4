package write_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

func alter(t tester, table *delta.Table, changes ...write.Change) write.Result {
	t.Helper()
	return must(t)(write.Alter(ctx, table, changes))
}

func names(r write.Result) []string { return r.Snapshot.Schema().Names() }

func TestAlterColumns(t *testing.T) {
	table := create(t, "id integer, name string, p string", "p", map[string]string{"delta.enableChangeDataFeed": "true"})
	must(t)(write.Append(ctx, table, values([]any{1, "a", "x"}, []any{2, "b", "y"})))
	r := alter(t, table, write.AddColumn(write.Column("more", schema.Of(schema.Long)), write.After("id")))
	if got := names(r); !slices.Equal(got, []string{"id", "more", "name", "p"}) || r.Snapshot.Protocol().MinReaderVersion != 1 {
		t.Errorf("%q %+v", got, r.Snapshot.Protocol())
	}
	must(t)(write.Append(ctx, table, values([]any{3, 33, "c", "x"})))
	want(t, rows(t, table, -1), "1|-|a|x", "2|-|b|y", "3|33|c|x")
	r = alter(t, table, write.RenameColumn("name", "title"), write.RenameColumn("p", "part"), write.MoveColumn("part", write.First()))
	p := r.Snapshot.Protocol()
	if got := names(r); !slices.Equal(got, []string{"part", "id", "more", "title"}) || !slices.Contains(p.ReaderFeatures, "columnMapping") {
		t.Errorf("%q %+v", got, p)
	}
	for _, legacy := range []string{"appendOnly", "invariants", "changeDataFeed", "checkConstraints", "generatedColumns"} { // what (1,4) implied
		if !slices.Contains(p.WriterFeatures, legacy) {
			t.Errorf("%s is missing: %+v", legacy, p)
		}
	}
	must(t)(write.Append(ctx, table, values([]any{"z", 4, 44, "d"})))
	must(t)(write.Update(ctx, table, "title = 'b'", write.Set{"title": "B", "part": "w"}))
	want(t, changes(t, table, r.Version+2), "update_preimage y|2|-|b", "update_postimage w|2|-|B")
	alter(t, table, write.DropColumn("more"))
	r = alter(t, table, write.AddColumn(write.Column("more", schema.Of(schema.StringType)), write.Place{}))
	must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, values([]any{"x", 1, "A", "new"})))
	want(t, rows(t, table, -1), "x|1|A|new", "w|2|B|-", "x|3|c|-", "z|4|d|-") // the old cells of "more" don't come back
	if got := r.Snapshot.Metadata().Configuration[delta.PropertyMaxColumnID]; got != "5" {
		t.Errorf("maxColumnId %s", got)
	}
	want(t, rows(t, table, 3), "1|-|a|x", "2|-|b|y", "3|33|c|x")
	r = alter(t, table, write.WidenColumn("id", schema.Of(schema.Long)))
	if !slices.Contains(r.Snapshot.Protocol().ReaderFeatures, "typeWidening") || string(r.Snapshot.Schema().Fields[1].Metadata["delta.typeChanges"]) != `[{"fromType":"integer","toType":"long"}]` {
		t.Errorf("%+v %s", r.Snapshot.Protocol(), r.Snapshot.Metadata().SchemaString)
	}
	must(t)(write.Append(ctx, table, values([]any{"q", int64(1) << 40, "e", nil})))
	must(t)(write.Delete(ctx, table, "id < 4"))
	want(t, rows(t, table, -1), "z|4|d|-", "q|1099511627776|e|-")
	r = alter(t, table, write.CommentColumn("id", "the key"), write.Describe("orders", "all of them"), write.SetProperties(map[string]string{"owner": "me"}))
	if m := r.Snapshot.Metadata(); string(r.Snapshot.Schema().Fields[1].Metadata["comment"]) != `"the key"` || m.Name != "orders" || m.Configuration["owner"] != "me" {
		t.Errorf("%+v", m)
	}
	r = alter(t, table, write.UnsetProperties("owner", "nix"))
	if _, ok := r.Snapshot.Property("owner"); ok {
		t.Error("the property stays")
	}
	op, parameters, _ := commitInfo(t, table, r.Version)
	if op != "UNSET TBLPROPERTIES" || parameters["properties"] != `["owner","nix"]` {
		t.Error(op, parameters)
	}
}

func TestAlterRefuses(t *testing.T) {
	table := create(t, "id integer!, name string, p string", "p", nil)
	must(t)(write.Append(ctx, table, values([]any{1, "a", "x"})))
	alter(t, table, write.AddConstraint("positive", "id > 0"))
	required := write.Column("r", schema.Of(schema.Long))
	required.Nullable = false
	for reason, change := range map[string]write.Change{
		"is a partition column":    write.DropColumn("p"),
		"is about column \"id\"":   write.DropColumn("id"),
		"constraint positive":      write.RenameColumn("id", "key"),
		"there is a column \"p\"":  write.RenameColumn("name", "P"),
		"no such column":           write.DropColumn("nix"),
		"is NOT NULL":              write.AddColumn(required, write.Place{}),
		"does not widen":           write.WidenColumn("id", schema.Of(schema.StringType)),
		"goes from none to name":   write.SetProperties(map[string]string{"delta.columnMapping.mode": "id"}),
		"AddConstraint":            write.SetProperties(map[string]string{"delta.constraints.x": "TRUE"}),
		"does not hold":            write.AddConstraint("large", "id > 1"),
		"is there, or has no name": write.AddConstraint("Positive", "id > 1"),
		"no constraint \"nix\"":    write.DropConstraint("nix"),
		"the name \"a b\"":         write.AddColumn(write.Column("a b", schema.Of(schema.Long)), write.Place{}),
	} {
		r, err := write.Alter(ctx, table, []write.Change{change})
		if err == nil || !strings.Contains(err.Error(), reason) || r.Committed {
			t.Errorf("%s: %+v, %v", reason, r, err)
		}
	}
	if r, err := write.Alter(ctx, table, []write.Change{write.AllowNull("name")}); err != nil || r.Committed {
		t.Errorf("nothing changed: %+v, %v", r, err)
	}
	alter(t, table, write.AllowNull("id"))
}

func TestRulesAreKept(t *testing.T) {
	fields := columns(t, "id long!, at timestamp, day date, month string, size integer")
	fields[2].Metadata = map[string]json.RawMessage{"delta.generationExpression": json.RawMessage(`"CAST(at AS DATE)"`)}
	fields[3].Metadata = map[string]json.RawMessage{"delta.generationExpression": json.RawMessage(`"date_format(at, 'yyyy-MM')"`)}
	fields[4].Metadata = map[string]json.RawMessage{"CURRENT_DEFAULT": json.RawMessage(`"7"`)}
	table := delta.New(mem.New())
	r := must(t)(write.Create(ctx, table, write.Definition{
		Columns: fields, PartitionBy: []string{"day"}, Properties: map[string]string{"delta.constraints.small": "size < 100"},
	}, write.Values([][]any{{1, "2024-01-31 23:59:59", 5}}, "id", "at", "size")))
	if p := r.Snapshot.Protocol(); p.MinReaderVersion != 1 || p.MinWriterVersion != 7 || !slices.Contains(p.WriterFeatures, "allowColumnDefaults") {
		t.Errorf("%+v", p)
	}
	must(t)(write.Append(ctx, table, write.Values([][]any{{2, "1969-12-31 23:00:00"}, {3, nil}}, "id", "at")))
	want(t, rows(t, table, -1), "1|2024-01-31T23:59:59.000000Z|2024-01-31|2024-01|5", "2|1969-12-31T23:00:00.000000Z|1969-12-31|1969-12|7", "3|-|-|-|7")
	must(t)(write.Update(ctx, table, "id = 2", write.Set{"at": "2024-03-01 00:00:00"}))
	must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Values([][]any{{3, "2024-04-01 00:00:00"}, {4, "2024-05-01 00:00:00"}}, "id", "at")))
	want(t, rows(t, table, -1), "1|2024-01-31T23:59:59.000000Z|2024-01-31|2024-01|5", "2|2024-03-01T00:00:00.000000Z|2024-03-01|2024-03|7",
		"3|2024-04-01T00:00:00.000000Z|2024-04-01|2024-04|7", "4|2024-05-01T00:00:00.000000Z|2024-05-01|2024-05|7")
	for reason, do := range map[string]func() (write.Result, error){
		"is NOT NULL": func() (write.Result, error) { return write.Append(ctx, table, write.Values([][]any{{nil}}, "id")) },
		"small (size < 100)": func() (write.Result, error) {
			return write.Append(ctx, table, write.Values([][]any{{9, 100}}, "id", "size"))
		},
		"size = NULL": func() (write.Result, error) {
			return write.Append(ctx, table, write.Values([][]any{{9, nil}}, "id", "size"))
		},
		"size = 200": func() (write.Result, error) { return write.Update(ctx, table, "TRUE", write.Set{"size": 200}) },
		"is generated as CAST": func() (write.Result, error) {
			return write.Append(ctx, table, write.Values([][]any{{9, "2024-01-01 00:00:00", "2024-01-02"}}, "id", "at", "day"))
		},
		"\"month\" is generated": func() (write.Result, error) { return write.Update(ctx, table, "id = 1", write.Set{"month": "x"}) },
		"small": func() (write.Result, error) {
			return write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Values([][]any{{1, 500}}, "id", "size"))
		},
	} {
		r, err := do()
		if !errors.Is(err, write.ErrRow) || !strings.Contains(err.Error(), reason) || r.Committed {
			t.Errorf("%s: %+v, %v", reason, r, err)
		}
	}
	// Deletes check nothing.
	must(t)(write.Delete(ctx, table, "id = 1"))
	alter(t, table, write.SetDefault("size", "8"))
	must(t)(write.Append(ctx, table, write.Values([][]any{{10, nil}}, "id", "at")))
	if got := rows(t, table, -1); !slices.Contains(got, "10|-|-|-|8") {
		t.Errorf("%q", got)
	}
}

func TestRulesThatAreNotUnderstood(t *testing.T) {
	identity := columns(t, "id long, name string")
	identity[0].Metadata = map[string]json.RawMessage{"delta.identity.start": json.RawMessage("1"), "delta.identity.step": json.RawMessage("1")}
	odd := columns(t, "id long, name string")
	odd[1].Metadata = map[string]json.RawMessage{"delta.generationExpression": json.RawMessage(`"reverse(id)"`)}
	for reason, d := range map[string]write.Definition{
		"\"id\" is GENERATED ALWAYS": {Columns: identity},
		"the function REVERSE":       {Columns: odd},
		"CHECK constraint c":         {Columns: columns(t, "id long, name string"), Properties: map[string]string{"delta.constraints.c": "length(name) > 3"}},
	} {
		table := delta.New(mem.New())
		must(t)(write.Create(ctx, table, d, write.Source{}))
		_, err := write.Append(ctx, table, write.Values([][]any{{1}}, "id"))
		if !errors.Is(err, write.ErrRule) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
		if _, err := write.Delete(ctx, table, "id = 1"); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestRestoreAndReplace(t *testing.T) {
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			table := create(t, "id long, name string", "", properties)
			must(t)(write.Append(ctx, table, values([]any{1, "a"}, []any{2, "b"})))
			must(t)(write.Delete(ctx, table, "id = 1"))
			alter(t, table, write.RenameColumn("name", "title"), write.SetProperties(map[string]string{"x": "y"}))
			must(t)(write.Update(ctx, table, "id = 2", write.Set{"title": "c"}))
			r := must(t)(write.Restore(ctx, table, 1))
			want(t, rows(t, table, -1), "1|a", "2|b")
			if _, ok := r.Snapshot.Property("x"); ok || !slices.Equal(names(r), []string{"id", "name"}) {
				t.Errorf("%q", names(r))
			}
			op, parameters, metrics := commitInfo(t, table, r.Version)
			if op != "RESTORE" || parameters["version"] != "1" || metrics["numRestoredFiles"] != "1" {
				t.Error(op, parameters, metrics)
			}
			must(t)(write.Restore(ctx, table, 4))
			want(t, rows(t, table, -1), "2|c")
			if r, err := write.Restore(ctx, table, 4); err != nil || r.Committed {
				t.Errorf("%+v, %v", r, err)
			}
			if _, err := write.Create(ctx, table, write.Definition{Columns: columns(t, "a long")}, write.Source{}); !errors.Is(err, write.ErrExists) {
				t.Error(err)
			}
			r = must(t)(write.Replace(ctx, table, write.Definition{Columns: columns(t, "day date, n double"), PartitionBy: []string{"day"}, Properties: properties},
				values([]any{"2024-02-29", 0.5})))
			want(t, rows(t, table, -1), "2024-02-29|0.5")
			want(t, rows(t, table, r.Version-1), "2|c")
			must(t)(write.Append(ctx, table, values([]any{"2024-03-01", 1.5})))
			must(t)(write.Restore(ctx, table, 2))
			want(t, rows(t, table, -1), "2|b")
		})
	}
}

func TestRestoreNeedsItsFiles(t *testing.T) {
	table := create(t, "id long", "", nil)
	must(t)(write.Append(ctx, table, values([]any{1})))
	file := dataFiles(t, table)[0]
	must(t)(write.Overwrite(ctx, table, values([]any{2})))
	if err := table.Store().Delete(ctx, file); err != nil {
		t.Fatal(err)
	}
	if _, err := write.Restore(ctx, table, 1); !errors.Is(err, scan.ErrFileMissing) || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
	if _, err := write.Restore(ctx, table, 99); !errors.Is(err, delta.ErrVersionNotFound) {
		t.Error(err)
	}
}

func TestReplaceOfNothingCreates(t *testing.T) {
	table := delta.New(mem.New())
	r := must(t)(write.Replace(ctx, table, write.Definition{Columns: columns(t, "id long")}, values([]any{1}, []any{2})))
	if r.Version != 0 || r.Inserted != 2 {
		t.Errorf("%+v", r)
	}
	if p := r.Snapshot.Protocol(); p.MinReaderVersion != 1 || p.MinWriterVersion != 2 {
		t.Errorf("%+v", p)
	}
	want(t, rows(t, table, -1), "1", "2")
}

// The columns of a mapped table, and its properties, make another table.
func TestCreateLikeAnother(t *testing.T) {
	table := create(t, "id integer, name string", "", modes["mapped"])
	must(t)(write.Append(ctx, table, values([]any{1, "a"})))
	alter(t, table, write.RenameColumn("name", "title"))
	r := alter(t, table, write.WidenColumn("id", schema.Of(schema.Long)))
	for name, properties := range map[string]map[string]string{"mapped": r.Snapshot.Metadata().Configuration, "not mapped": nil} {
		t.Run(name, func(t *testing.T) {
			rows1, err := scan.New(table.Store(), r.Snapshot, scan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			like := delta.New(mem.New())
			made := must(t)(write.Create(ctx, like, write.Definition{Columns: rows1.Columns(), Properties: properties}, write.Batches(rows1.Batches(ctx))))
			want(t, rows(t, like, -1), "1|a")
			if text := made.Snapshot.Metadata().SchemaString; strings.Contains(text, "typeChanges") || strings.Contains(text, "physicalName") != (properties != nil) {
				t.Error(text)
			}
			alter(t, like, write.AddColumn(write.Column("more", schema.Of(schema.Long)), write.Place{}))
			must(t)(write.Append(ctx, like, values([]any{2, "b", 3})))
			want(t, rows(t, like, -1), "1|a|-", "2|b|3")
		})
	}
}
