package diff_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/diff"
)

// foreignTables gives the tables of other writers in the shared test data, or skips.
func foreignTables(t *testing.T) (dirs []string) {
	t.Helper()
	root := os.Getenv("GSCD_TESTDATA")
	for at, _ := os.Getwd(); root == "" && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			root = filepath.Join(filepath.Dir(at), "shared")
		}
	}
	err := filepath.WalkDir(filepath.Join(root, "delta-tables"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "_delta_log" {
			dirs = append(dirs, filepath.Dir(path))
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Skipf("no tables of other writers: %v", err)
	}
	return dirs
}

// rowsOf reads all rows of a version as texts, by columns that it and the diff have; ok is
// false where some engine could read it and gscd can't, which is for other tests.
func rowsOf(t *testing.T, table *delta.Table, s *delta.Snapshot, names []string) (rows []string, ok bool) {
	reading, err := scan.New(table.Store(), s, scan.Options{Columns: names})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			return nil, false
		}
		rows = append(rows, lineOf(reading.Columns(), row))
	}
	slices.Sort(rows)
	return rows, true
}

func lineOf(columns []schema.Field, row []schema.Value) string {
	var parts []string
	for i, c := range columns {
		cell := "NULL"
		if !row[i].IsNull() {
			cell = string(schema.AppendJSON(nil, c.Type, row[i]))
		}
		parts = append(parts, cell)
	}
	return strings.Join(parts, "|")
}

// less takes from sorted rows those that others have too, each once.
func less(rows, others []string) (left []string) {
	for _, row := range rows {
		for len(others) > 0 && others[0] < row {
			others = others[1:]
		}
		if len(others) > 0 && others[0] == row {
			others = others[1:]
			continue
		}
		left = append(left, row)
	}
	return left
}

// Between any two versions of tables that other engines wrote, the rows that went and came
// are those that a full read of both finds.
func TestForeignTables(t *testing.T) {
	pairs, changed := 0, 0
	for _, dir := range foreignTables(t) {
		store, err := local.New(dir, local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		table, err := delta.Open(ctx, store)
		if err != nil {
			continue // broken on purpose
		}
		var snapshots []*delta.Snapshot
		for v, err := range table.History(ctx) {
			if err != nil || len(snapshots) == 8 {
				break
			}
			if s, err := table.SnapshotAt(ctx, v.Version); err == nil {
				snapshots = append(snapshots, s)
			}
		}
		for i := 1; i < len(snapshots); i++ {
			for _, from := range []*delta.Snapshot{snapshots[i-1], snapshots[0]} {
				n, compared := checkPair(t, table, from, snapshots[i])
				if compared {
					pairs++
				}
				changed += n
			}
		}
	}
	if pairs < 100 || changed < 100 {
		t.Errorf("%d pairs of versions were compared, with %d changes", pairs, changed)
	}
	t.Logf("%d pairs of versions, %d changes", pairs, changed)
}

func checkPair(t *testing.T, table *delta.Table, from, to *delta.Snapshot) (changes int, compared bool) {
	t.Helper()
	d, err := diff.New(table.Store(), from, to, diff.Options{})
	if errors.Is(err, diff.ErrTypes) || from.Version() == to.Version() {
		return 0, false
	}
	if err != nil {
		t.Errorf("%s from %d to %d: %v", table.Store(), from.Version(), to.Version(), err)
		return 0, false
	}
	var names []string
	var columns []schema.Field
	var places []int
	for i, c := range d.Columns() {
		switch {
		case c.From == c.To && from.Schema().Fields[from.Schema().Index(c.From)].Type.String() == c.Type.String() && c.Type.String() == to.Schema().Fields[to.Schema().Index(c.To)].Type.String():
			names, columns, places = append(names, c.To), append(columns, c.Field), append(places, i)
		case c.Gone:
		default:
			return 0, false // columns that came make NULLs that a read of one version does not have
		}
	}
	before, ok1 := rowsOf(t, table, from, names)
	after, ok2 := rowsOf(t, table, to, names)
	if !ok1 || !ok2 {
		return 0, false
	}
	var went, came []string
	for c, err := range d.Changes(ctx) {
		if err != nil {
			t.Errorf("%s from %d to %d: %v", table.Store(), from.Version(), to.Version(), err)
			return 0, false
		}
		var row []schema.Value
		for _, i := range places {
			row = append(row, c.Row()[i])
		}
		if c.Kind == diff.Deleted {
			went = append(went, lineOf(columns, row))
		} else {
			came = append(came, lineOf(columns, row))
		}
	}
	slices.Sort(went)
	slices.Sort(came)
	if want := less(before, after); !slices.Equal(went, want) {
		t.Errorf("%s from %d to %d: went\n%q, want\n%q", table.Store(), from.Version(), to.Version(), went, want)
	}
	if want := less(after, before); !slices.Equal(came, want) {
		t.Errorf("%s from %d to %d: came\n%q, want\n%q", table.Store(), from.Version(), to.Version(), came, want)
	}
	return len(went) + len(came), true
}
