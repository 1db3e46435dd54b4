package clone_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// file writes a Parquet file of ids, and of names where there are some.
func file(t testing.TB, path string, typ schema.Primitive, names bool, ids ...int64) {
	t.Helper()
	columns := []parquet.Column{{Name: "id", Type: schema.Of(typ)}}
	if names {
		columns = append(columns, parquet.Column{Name: "name", Type: schema.Of(schema.StringType)})
	}
	e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{RowGroupRows: 2})
	must(t, err)
	var rows [][]schema.Value
	for _, id := range ids {
		row := []schema.Value{schema.IntValue(id)}
		if names {
			row = append(row, schema.StringValue(fmt.Sprint("n", id)))
		}
		rows = append(rows, row)
	}
	data, _, err := e.Encode(rows)
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, data, 0o644))
}

// A folder becomes a table where it is: columns of all files, values of folders, bounds
// of footers.
func TestConvert(t *testing.T) {
	dir := t.TempDir()
	file(t, filepath.Join(dir, "day=2022-07-16/city=Xi%27an/a.parquet"), schema.Long, true, 1, 2, 3)
	file(t, filepath.Join(dir, "day=2022-07-17/city=__HIVE_DEFAULT_PARTITION__/b b.parquet"), schema.Long, false, 7)
	file(t, filepath.Join(dir, "_tmp/c.parquet"), schema.Long, false, 8)
	must(t, os.WriteFile(filepath.Join(dir, "_SUCCESS"), nil, 0o644))
	partitions, err := clone.ParseColumns("day date, city")
	must(t, err)
	s, err := clone.Convert(t.Context(), store(t, dir), clone.ConvertOptions{PartitionBy: partitions, Properties: map[string]string{"a": "b"}})
	must(t, err)
	if names := s.Schema().Names(); !slices.Equal(names, []string{"id", "name", "day", "city"}) || s.Metadata().Configuration["a"] != "b" {
		t.Errorf("columns %v, %v", names, s.Metadata().Configuration)
	}
	table := delta.New(store(t, dir))
	again, err := table.Snapshot(t.Context())
	must(t, err)
	if got, want := rowsOf(t, table, again), []string{"1 n1", "2 n2", "3 n3", "7 "}; !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	for _, add := range again.Files() {
		known, err := stats.Parse(add.Stats, s.Schema())
		must(t, err)
		if city := add.PartitionValues["city"]; city == nil {
			if add.Path != "day=2022-07-17/city=__HIVE_DEFAULT_PARTITION__/b%20b.parquet" || known.NumRecords != 1 || known.Bounds("id").Min.I != 7 {
				t.Errorf("%+v: %s", add, add.Stats)
			}
		} else if *city != "Xi'an" || *add.PartitionValues["day"] != "2022-07-16" || known.Bounds("id").Max.I != 3 || known.Bounds("name").Min.S != "n1" || known.NumRecords != 3 {
			t.Errorf("%+v: %s", add, add.Stats)
		}
	}
	if _, err := clone.Convert(t.Context(), store(t, dir), clone.ConvertOptions{}); !errors.Is(err, clone.ErrExists) {
		t.Errorf("a second time: %v", err)
	}
}

// What does not go together is refused, and no log is written.
func TestConvertRefuses(t *testing.T) {
	for name, make := range map[string]func(dir string) []schema.Field{
		"nothing there": func(string) []schema.Field { return nil },
		"types differ": func(dir string) []schema.Field {
			file(t, filepath.Join(dir, "a.parquet"), schema.Long, false, 1)
			file(t, filepath.Join(dir, "b.parquet"), schema.Integer, false, 1)
			return nil
		},
		"folders differ": func(dir string) []schema.Field {
			file(t, filepath.Join(dir, "x=1/a.parquet"), schema.Long, false, 1)
			file(t, filepath.Join(dir, "b.parquet"), schema.Long, false, 1)
			return nil
		},
		"no such value": func(dir string) []schema.Field {
			file(t, filepath.Join(dir, "x=one/a.parquet"), schema.Long, false, 1)
			return []schema.Field{{Name: "x", Type: schema.Of(schema.Long)}}
		},
		"a table inside": func(dir string) []schema.Field {
			file(t, filepath.Join(dir, "t/_delta_log/0.checkpoint.parquet"), schema.Long, false, 1)
			return nil
		},
		"no Parquet": func(dir string) []schema.Field {
			must(t, os.WriteFile(filepath.Join(dir, "a.parquet"), []byte("PAR1 and so on"), 0o644))
			return nil
		},
	} {
		dir := t.TempDir()
		_, err := clone.Convert(t.Context(), store(t, dir), clone.ConvertOptions{PartitionBy: make(dir)})
		if !errors.Is(err, clone.ErrNotConvertible) && !errors.Is(err, parquet.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "_delta_log")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a log was written", name)
		}
	}
}
