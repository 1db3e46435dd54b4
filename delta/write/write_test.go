package write_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

var ctx = context.Background()

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// columns reads "id long, name string" as columns.
func columns(t tester, text string) (fields []schema.Field) {
	t.Helper()
	for part := range strings.SplitSeq(text, ", ") {
		name, of, _ := strings.Cut(strings.TrimSpace(part), " ")
		of, required := strings.CutSuffix(of, "!")
		typ, err := schema.ParsePrimitive(of)
		if err != nil {
			t.Fatalf("%v", err)
		}
		fields = append(fields, schema.Field{Name: name, Type: typ, Nullable: !required})
	}
	return fields
}

// modes are the kinds of tables that changes of rows differ by.
var modes = map[string]map[string]string{
	"rewrite":           {},
	"vectors":           {"delta.enableDeletionVectors": "true"},
	"rewrite with feed": {"delta.enableChangeDataFeed": "true"},
	"vectors with feed": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
	"mapped":            {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
	"mapped by id":      {"delta.columnMapping.mode": "id"},
}

func create(t tester, text, partitionBy string, properties map[string]string) *delta.Table {
	t.Helper()
	table := delta.New(mem.New())
	d := write.Definition{Columns: columns(t, text), Properties: properties}
	if partitionBy != "" {
		d.PartitionBy = strings.Split(partitionBy, ",")
	}
	result, err := write.Create(ctx, table, d, write.Source{})
	if err != nil || !result.Committed || result.Version != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	return table
}

// rows gives the rows of a version as sorted texts; -1 is the newest.
func rows(t tester, table *delta.Table, version int64) []string {
	t.Helper()
	s, err := table.Snapshot(ctx)
	if version >= 0 {
		s, err = table.SnapshotAt(ctx, version)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	reading, err := scan.New(table.Store(), s, scan.Options{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	list := []string{}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatalf("%v", err)
		}
		list = append(list, rowText(reading.Columns(), row))
	}
	slices.Sort(list)
	return list
}

func rowText(fields []schema.Field, row []schema.Value) string {
	parts := make([]string, len(row))
	for i, v := range row {
		if parts[i] = "-"; !v.IsNull() {
			parts[i] = string(schema.AppendText(nil, fields[i].Type, v))
		}
	}
	return strings.Join(parts, "|")
}

// changes gives the change data of one version as sorted texts.
func changes(t tester, table *delta.Table, version int64) []string {
	t.Helper()
	s, err := table.SnapshotAt(ctx, version)
	if err != nil {
		t.Fatalf("%v", err)
	}
	list := []string{}
	for b, err := range scan.Changes(ctx, table, version, version, nil) {
		if err != nil {
			t.Fatalf("%v", err)
		}
		for r, kind := range b.Kinds {
			row := make([]schema.Value, len(b.Columns))
			for c := range row {
				row[c] = b.Columns[c][r]
			}
			list = append(list, kind+" "+rowText(s.Schema().Fields, row))
		}
	}
	slices.Sort(list)
	return list
}

func want(t testing.TB, got []string, texts ...string) {
	t.Helper()
	if slices.Sort(texts); !slices.Equal(got, texts) {
		t.Errorf("got %q, want %q", got, texts)
	}
}

func must(t tester) func(r write.Result, err error) write.Result {
	return func(r write.Result, err error) write.Result {
		t.Helper()
		if err != nil || !r.Committed {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
}

func values(rows ...[]any) write.Source { return write.Values(rows) }

func commitInfo(t tester, table *delta.Table, version int64) (operation string, parameters, metrics map[string]string) {
	t.Helper()
	raw, err := table.CommitInfo(ctx, version)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var info struct {
		Operation  string            `json:"operation"`
		Parameters map[string]string `json:"operationParameters"`
		Metrics    map[string]string `json:"operationMetrics"`
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return info.Operation, info.Parameters, info.Metrics
}

func TestAppendAndOverwrite(t *testing.T) {
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			table := create(t, "id long, day date, amount decimal(8,2)", "day", properties)
			r := must(t)(write.Append(ctx, table, values([]any{1, "2024-01-01", "1.50"}, []any{2, "2024-01-02", nil}, []any{3, nil, "-3"})))
			if r.Version != 1 || r.Inserted != 3 || r.FilesAdded != 3 {
				t.Errorf("%+v", r)
			}
			want(t, rows(t, table, -1), "1|2024-01-01|1.50", "2|2024-01-02|-", "3|-|-3.00")
			op, parameters, metrics := commitInfo(t, table, 1)
			if op != "WRITE" || parameters["mode"] != "Append" || parameters["partitionBy"] != `["day"]` || metrics["numOutputRows"] != "3" || metrics["numFiles"] != "3" {
				t.Error(op, parameters, metrics)
			}
			must(t)(write.OverwritePartitions(ctx, table, values([]any{4, "2024-01-02", "4"}, []any{5, "2024-01-03", "5"})))
			want(t, rows(t, table, -1), "1|2024-01-01|1.50", "3|-|-3.00", "4|2024-01-02|4.00", "5|2024-01-03|5.00")
			must(t)(write.Overwrite(ctx, table, values([]any{9, nil, "9"})))
			want(t, rows(t, table, -1), "9|-|9.00")
			want(t, rows(t, table, 1), "1|2024-01-01|1.50", "2|2024-01-02|-", "3|-|-3.00")
			must(t)(write.Overwrite(ctx, table, write.Source{}))
			want(t, rows(t, table, -1))
			if _, on := properties["delta.enableChangeDataFeed"]; on {
				want(t, changes(t, table, 3), "delete 1|2024-01-01|1.50", "delete 3|-|-3.00", "delete 4|2024-01-02|4.00", "delete 5|2024-01-03|5.00", "insert 9|-|9.00")
			}
		})
	}
}

func TestSourcesNameColumns(t *testing.T) {
	table := create(t, "id long, name string, at timestamp", "", nil)
	must(t)(write.Append(ctx, table, write.Values([][]any{{"a", 1}, {"b", 2}}, "NAME", "id")))
	batch := &scan.Batch{Rows: 2, Columns: [][]schema.Value{{schema.IntValue(3), schema.IntValue(4)}, {schema.StringValue("c"), {}}}}
	must(t)(write.Append(ctx, table, write.Batches(func(yield func(*scan.Batch, error) bool) { yield(batch, nil) }, "id", "name")))
	want(t, rows(t, table, -1), "1|a|-", "2|b|-", "3|c|-", "4|-|-")
	fault := errors.New("the source broke")
	for reason, s := range map[string]write.Source{
		"no such column":   write.Values([][]any{{1}}, "nix"),
		"named twice":      write.Values([][]any{{1, 1}}, "id", "ID"),
		"for 3 columns":    write.Values([][]any{{1}}),
		"can't hold x":     write.Values([][]any{{"x", "x", nil}}),
		"can't hold 1.5":   write.Values([][]any{{1.5}}, "id"),
		"the source broke": write.Rows(func(yield func([]schema.Value, error) bool) { yield(nil, fault) }),
		"is not what long": write.Rows(func(yield func([]schema.Value, error) bool) { yield([]schema.Value{schema.BoolValue(true)}, nil) }, "id"),
		"with a column of 0": write.Batches(func(yield func(*scan.Batch, error) bool) {
			yield(&scan.Batch{Rows: 1, Columns: [][]schema.Value{{{}}, {}, {}}}, nil)
		}),
	} {
		r, err := write.Append(ctx, table, s)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "column \"id\" is long and ", ""), reason) && !strings.Contains(err.Error(), "number") {
			t.Errorf("%s: %+v, %v", reason, r, err)
		}
	}
	if got := dataFiles(t, table); len(got) != 2 {
		t.Errorf("failed writes left files: %q", got)
	}
}

// dataFiles names the objects that are not of the log.
func dataFiles(t tester, table *delta.Table) (keys []string) {
	t.Helper()
	for o, err := range table.Store().List(ctx, "", "") {
		if err != nil {
			t.Fatalf("%v", err)
		}
		if !strings.HasPrefix(o.Key, "_delta_log/") {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

func TestDelete(t *testing.T) {
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			table := create(t, "p string, id long, v double", "p", properties)
			feed := properties["delta.enableChangeDataFeed"] == "true"
			must(t)(write.Append(ctx, table, values([]any{"a", 1, 1.0}, []any{"a", 2, nil}, []any{"a", 3, 3.0}, []any{"b", 4, 4.0}, []any{nil, 5, 5.0})))
			r := must(t)(write.Delete(ctx, table, "id = 2 OR id >= 4"))
			if r.Deleted != 3 {
				t.Errorf("%+v", r)
			}
			want(t, rows(t, table, -1), "a|1|1", "a|3|3")
			op, parameters, metrics := commitInfo(t, table, 2)
			if op != "DELETE" || parameters["predicate"] != `["id = 2 OR id \u003e= 4"]` || metrics["numDeletedRows"] != "3" {
				t.Error(op, parameters, metrics)
			}
			if feed {
				want(t, changes(t, table, 2), "delete a|2|-", "delete b|4|4", "delete -|5|5")
			}
			must(t)(write.Delete(ctx, table, "v > 2"))
			want(t, rows(t, table, -1), "a|1|1")
			if feed {
				want(t, changes(t, table, 3), "delete a|3|3")
			}
			if r, err := write.Delete(ctx, table, "id = 77"); err != nil || r.Committed || r.Version != 3 {
				t.Errorf("%+v, %v", r, err)
			}
			must(t)(write.Append(ctx, table, values([]any{"c", 6, 6.0})))
			r = must(t)(write.Delete(ctx, table, "p = 'a'")) // by partition alone, a file with a vector or not
			if r.Deleted != 1 || r.FilesRemoved != 1 {
				t.Errorf("%+v", r)
			}
			want(t, rows(t, table, -1), "c|6|6")
			must(t)(write.Delete(ctx, table, "TRUE"))
			want(t, rows(t, table, -1))
			if feed {
				want(t, changes(t, table, 6), "delete c|6|6")
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			table := create(t, "p string, id long, name string", "p", properties)
			must(t)(write.Append(ctx, table, values([]any{"a", 1, "x"}, []any{"a", 2, "y"}, []any{"b", 3, nil})))
			twice := write.Func(func(row []schema.Value) (schema.Value, error) { return schema.IntValue(row[1].I * 10), nil })
			r := must(t)(write.Update(ctx, table, "id >= 2", write.Set{"ID": twice, "p": "c"}))
			if r.Updated != 2 {
				t.Errorf("%+v", r)
			}
			want(t, rows(t, table, -1), "a|1|x", "c|20|y", "c|30|-")
			if properties["delta.enableChangeDataFeed"] == "true" {
				want(t, changes(t, table, 2), "update_preimage a|2|y", "update_postimage c|20|y", "update_preimage b|3|-", "update_postimage c|30|-")
			}
			op, _, metrics := commitInfo(t, table, 2)
			if op != "UPDATE" || metrics["numUpdatedRows"] != "2" {
				t.Error(op, metrics)
			}
			must(t)(write.Update(ctx, table, "name IS NULL", write.Set{"name": "z"}))
			want(t, rows(t, table, -1), "a|1|x", "c|20|y", "c|30|z")
		})
	}
}

func TestMerge(t *testing.T) {
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			feed := properties["delta.enableChangeDataFeed"] == "true"
			table := create(t, "id long, p string, name string", "p", properties)
			must(t)(write.Append(ctx, table, values([]any{1, "a", "x"}, []any{2, "a", "y"}, []any{3, "b", "z"}, []any{nil, "b", "n"})))
			dropMinus := func(row []schema.Value) write.Act {
				if row[2].S == "-" {
					return write.Drop
				}
				return write.Put
			}
			r := must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}, Matched: dropMinus},
				values([]any{2, "c", "new"}, []any{3, "b", "-"}, []any{4, "d", "four"}, []any{nil, "b", "m"})))
			if r.Inserted != 2 || r.Updated != 1 || r.Deleted != 1 || r.Source != 4 {
				t.Errorf("%+v", r)
			}
			want(t, rows(t, table, -1), "1|a|x", "2|c|new", "4|d|four", "-|b|n", "-|b|m")
			if feed {
				want(t, changes(t, table, 2), "delete 3|b|z", "insert -|b|m", "insert 4|d|four", "update_postimage 2|c|new", "update_preimage 2|a|y")
			}
			op, parameters, metrics := commitInfo(t, table, 2)
			if op != "MERGE" || parameters["matchedPredicates"] != `[{"actionType":"update"},{"actionType":"delete"}]` ||
				metrics["numTargetRowsInserted"] != "2" || metrics["numTargetRowsUpdated"] != "1" || metrics["numTargetRowsDeleted"] != "1" {
				t.Error(op, parameters, metrics)
			}
			// Some columns only, and nothing inserted.
			skip := func([]schema.Value) write.Act { return write.Skip }
			must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}, NotMatched: skip}, write.Values([][]any{{4, "FOUR"}, {5, "five"}}, "id", "name")))
			want(t, rows(t, table, -1), "1|a|x", "2|c|new", "4|d|FOUR", "-|b|n", "-|b|m")
			// Deletes alone.
			drop := func([]schema.Value) write.Act { return write.Drop }
			must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"p"}, Matched: drop, NotMatched: skip}, write.Values([][]any{{"b"}, {"d"}, {"q"}}, "p")))
			want(t, rows(t, table, -1), "1|a|x", "2|c|new")
			if feed {
				want(t, changes(t, table, 4), "delete 4|d|FOUR", "delete -|b|n", "delete -|b|m")
			}
			_, err := write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, values([]any{7, "a", "x"}, []any{7, "a", "y"}))
			if !errors.Is(err, write.ErrDuplicateKey) || !strings.Contains(err.Error(), "id = 7") {
				t.Error(err)
			}
			if r, err := write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Source{}); err != nil || r.Committed {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestReplaceWhere(t *testing.T) {
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			feed := properties["delta.enableChangeDataFeed"] == "true"
			table := create(t, "day date, id long", "day", properties)
			must(t)(write.Append(ctx, table, values([]any{"2024-01-01", 1}, []any{"2024-01-02", 2}, []any{"2024-01-02", 3})))
			must(t)(write.ReplaceWhere(ctx, table, "day = '2024-01-02'", values([]any{"2024-01-02", 20})))
			want(t, rows(t, table, -1), "2024-01-01|1", "2024-01-02|20")
			must(t)(write.Append(ctx, table, values([]any{"2024-01-01", 5}, []any{"2024-01-01", 6})))
			must(t)(write.ReplaceWhere(ctx, table, "id > 5", values([]any{"2024-01-09", 7})))
			want(t, rows(t, table, -1), "2024-01-01|1", "2024-01-01|5", "2024-01-09|7")
			if feed {
				want(t, changes(t, table, 2), "delete 2024-01-02|2", "delete 2024-01-02|3", "insert 2024-01-02|20")
				want(t, changes(t, table, 4), "delete 2024-01-02|20", "delete 2024-01-01|6", "insert 2024-01-09|7")
			}
			_, err := write.ReplaceWhere(ctx, table, "id > 5", values([]any{"2024-01-09", 1}))
			if !errors.Is(err, write.ErrRow) || !strings.Contains(err.Error(), "id = 1") {
				t.Error(err)
			}
		})
	}
}

func TestTxnMakesWritesIdempotent(t *testing.T) {
	table := create(t, "id long", "", nil)
	for i := range 3 {
		r, err := write.Append(ctx, table, values([]any{i}), write.WithTxn("loader", 7))
		if err != nil || r.Committed != (i == 0) || r.Known != (i > 0) || r.Version != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	want(t, rows(t, table, -1), "0")
	if got := dataFiles(t, table); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestTargetFileSize(t *testing.T) {
	table := create(t, "id long, text string", "", map[string]string{"delta.targetFileSize": "20000"})
	r := must(t)(write.Append(ctx, table, write.Rows(func(yield func([]schema.Value, error) bool) {
		for i := range int64(5000) {
			if !yield([]schema.Value{schema.IntValue(i), schema.StringValue(fmt.Sprint(i * i * 7919))}, nil) {
				return
			}
		}
	})))
	s := r.Snapshot
	if n := s.NumFiles(); n < 2 || n > 5 {
		t.Errorf("%d files", n)
	}
	for _, a := range s.Files()[:s.NumFiles()-1] {
		if a.Size < 15000 || a.Size > 30000 {
			t.Errorf("%d bytes", a.Size)
		}
	}
	if got := rows(t, table, -1); len(got) != 5000 {
		t.Errorf("%d rows", len(got))
	}
}

func add(t tester, s *delta.Snapshot) *action.Add {
	t.Helper()
	if s.NumFiles() != 1 {
		t.Fatalf("%d files", s.NumFiles())
	}
	return s.Files()[0]
}

func TestStatistics(t *testing.T) {
	table := create(t, "id long, text string, at timestamp, ok boolean", "", map[string]string{"delta.dataSkippingNumIndexedCols": "3"})
	r := must(t)(write.Append(ctx, table, values([]any{1, strings.Repeat("é", 40), "2024-01-01 10:00:00.000001", true}, []any{3, nil, "2024-01-01 10:00:00.123456", nil})))
	wanted := `{"numRecords":2,"minValues":{"id":1,"text":"` + strings.Repeat("é", 32) + `","at":"2024-01-01T10:00:00.000Z"},` +
		`"maxValues":{"id":3,"text":"` + strings.Repeat("é", 32) + "\U0010ffff" + `","at":"2024-01-01T10:00:00.124Z"},"nullCount":{"id":0,"text":1,"at":0}}`
	if got := add(t, r.Snapshot).Stats; got != wanted {
		t.Errorf("%s\nwant %s", got, wanted)
	}
}
