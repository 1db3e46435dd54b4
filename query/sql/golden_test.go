//go:build cgo

package sql_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/sql"
)

// goldenTables names the tables of the shared test data that can be read, and
// their rows, or skips.
func goldenTables(t *testing.T) (dir string, rows map[string]int64) {
	t.Helper()
	root := os.Getenv("GSCD_TESTDATA")
	for at, _ := os.Getwd(); root == "" && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			root = filepath.Join(filepath.Dir(at), "shared")
		}
	}
	dir = filepath.Join(root, "delta-tables")
	f, err := os.Open(filepath.Join(dir, "expected.jsonl"))
	if err != nil {
		t.Skip("no shared test data: set GSCD_TESTDATA")
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	rows = map[string]int64{}
	for lines.Scan() {
		var g struct {
			Table, Error string
			Rows         *int64
			Template     bool
		}
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		if g.Error == "" && g.Rows != nil && !g.Template {
			rows[g.Table] = *g.Rows
		}
	}
	return dir, rows
}

// Tables that other engines wrote give the rows that the plain reader gives: all
// types, whatever their form in the files, partition columns, deletion vectors.
func TestGoldenTables(t *testing.T) {
	dir, tables := goldenTables(t)
	t.Cleanup(sql.SetMaxParts(1)) // so that both ways of reading are taken
	for name, rows := range tables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if rows > 5000 {
				t.Skip("a large table")
			}
			store := openLocal(t, filepath.Join(dir, name))
			s, err := openSource(store, "golden")
			if errors.Is(err, delta.ErrUnsupportedFeature) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			o := sql.Options{Tables: []sql.Table{table(store, "golden")}, Threads: 1}
			statement, columns := "SELECT * FROM golden", scan.Options{}
			if strings.Contains(name, "variant") {
				_, err := ask(t, o, statement)
				if err == nil || !strings.Contains(err.Error(), "column v has variants, which SQL does not read") {
					t.Errorf("variants: %v", err)
				}
				id := s.Newest.Schema().Names()[0]
				statement, columns.Columns = "SELECT "+id+" FROM golden", []string{id}
			}
			a := mustAsk(t, o, statement)
			reading, err := scan.New(store, s.Newest, columns)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := printed(reading.Columns(), reading.Rows(ctx))
			if err != nil {
				t.Fatal(err)
			}
			if sorted(a.csv) != sorted(plain) {
				t.Errorf("got\n%.600s\nthe plain reader gives\n%.600s", sorted(a.csv), sorted(plain))
			}
			if slices.ContainsFunc(s.Newest.Schema().Fields, func(f schema.Field) bool { return f.FileName != "" || f.Type.Nested != nil }) {
				copied := mem.New() // of such a store the columns that are needed are fetched, by the names in the files
				for o, err := range store.List(ctx, "", "") {
					data, getErr := store.Get(ctx, o.Key)
					if err := errors.Join(err, getErr, copied.Put(ctx, o.Key, data)); err != nil {
						t.Fatal(err)
					}
				}
				o.Tables = []sql.Table{table(copied, "golden")}
				if fetched := mustAsk(t, o, statement); sorted(fetched.csv) != sorted(plain) {
					t.Errorf("got, of another store,\n%.600s\nthe plain reader gives\n%.600s", sorted(fetched.csv), sorted(plain))
				}
			}
			for i, f := range reading.Columns() {
				if a.columns[i].Name != f.Name || f.Type.IsLeaf() && f.Type.Primitive != schema.Void && a.columns[i].Type != f.Type {
					t.Errorf("column %s is %s, want %s %s", a.columns[i].Name, a.columns[i].Type, f.Name, f.Type)
				}
			}
		})
	}
}

// Conditions on columns of other names in files, of a store whose files are skipped by
// statistics.
func TestConditionsOnMappedColumns(t *testing.T) {
	dir, _ := goldenTables(t)
	source := openLocal(t, filepath.Join(dir, "golden/data-skipping-basic-stats-all-types-columnmapping-name/delta"))
	store := mem.New()
	for o, err := range source.List(ctx, "", "") {
		data, getErr := source.Get(ctx, o.Key)
		if err := errors.Join(err, getErr, store.Put(ctx, o.Key, data)); err != nil {
			t.Fatal(err)
		}
	}
	o := sql.Options{Tables: []sql.Table{table(store, "golden")}, Threads: 1}
	for where, want := range map[string]string{
		"as_int = 0": "1", "as_int > 0": "0", "as_int >= 0 AND as_string = '0'": "1", "as_string < '0'": "0", "as_big_decimal = 0": "1", "as_date > DATE '1999-01-01'": "1",
	} {
		if a := mustAsk(t, o, "SELECT count(*) FROM golden WHERE "+where); strings.TrimSpace(a.csv) != want {
			t.Errorf("%s: %s, want %s", where, a.csv, want)
		}
	}
}

// Absolute paths are read where they lead into the table itself.
func TestAbsolutePaths(t *testing.T) {
	dir, _ := goldenTables(t)
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join(dir, "delta-rs/delta-0.8.0"))); err != nil {
		t.Fatal(err)
	}
	commits, err := filepath.Glob(filepath.Join(root, "_delta_log", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(prefix string) {
		for _, path := range commits {
			commit, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.ReplaceAll(string(commit), `"path":"`, `"path":"`+prefix)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	write("file:" + root + "/")
	o := sql.Options{Tables: []sql.Table{table(openLocal(t, root), "golden")}, Threads: 1}
	if a := mustAsk(t, o, "SELECT count(*), sum(value) FROM golden"); strings.TrimSpace(a.csv) != "4,7" {
		t.Errorf("got %s", a.csv)
	}
	write("file:/elsewhere/")
	if _, err := ask(t, o, "SELECT * FROM golden"); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("outside: %v", err)
	}
}
