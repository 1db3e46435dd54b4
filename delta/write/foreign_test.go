package write_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// foreignTables gives the folders of the tables that other engines wrote.
func foreignTables(t *testing.T) (root string, folders []string) {
	root = os.Getenv("GSCD_TESTDATA")
	if root == "" {
		dir, err := os.Getwd()
		for err == nil && dir != "/" {
			if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
				root = filepath.Join(dir, "..", "shared")
				break
			}
			dir = filepath.Dir(dir)
		}
	}
	root = filepath.Join(root, "delta-tables")
	if _, err := os.Stat(root); err != nil {
		t.Skipf("the tables of other engines are not at %s: set GSCD_TESTDATA", root)
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "_delta_log" {
			folders = append(folders, filepath.Dir(path))
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return root, folders
}

// inMemory copies a table, so that it may be written to; false for one that is large.
func inMemory(t *testing.T, folder string) (*mem.Store, bool) {
	store := mem.New()
	size := int64(0)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		key, err := filepath.Rel(folder, path)
		if size += int64(len(data)); err != nil || size > 20<<20 {
			return err
		}
		return store.Put(ctx, filepath.ToSlash(key), data)
	})
	if err != nil {
		t.Fatal(err)
	}
	return store, size <= 20<<20
}

// What can be read of other engines can be written to, or is refused for a reason that
// has a name: rows are added once more, deleted, and brought back.
func TestTablesOfOtherEngines(t *testing.T) {
	root, folders := foreignTables(t)
	written := 0
	refused := map[string]int{}
	for _, folder := range folders {
		name, err := filepath.Rel(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			store, small := inMemory(t, folder)
			if !small {
				return
			}
			table := delta.New(store)
			s, err := table.Snapshot(ctx)
			if err != nil {
				return // reading has its own tests
			}
			all := func() (list []string, err error) {
				s, err := table.Snapshot(ctx)
				if err != nil {
					return nil, err
				}
				reading, err := scan.New(store, s, scan.Options{})
				if err != nil {
					return nil, err
				}
				for row, err := range reading.Rows(ctx) {
					if err != nil {
						return nil, err
					}
					list = append(list, rowText(reading.Columns(), row))
				}
				slices.Sort(list)
				return list, nil
			}
			before, err := all()
			if err != nil || len(before) == 0 || len(before) > 20000 {
				return
			}
			reading, err := scan.New(store, s, scan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := write.Append(ctx, table, write.Batches(reading.Batches(ctx), s.Schema().Names()...))
			if err != nil {
				if !errors.Is(err, delta.ErrUnsupportedFeature) && !errors.Is(err, write.ErrRule) && !errors.Is(err, write.ErrRow) {
					t.Errorf("append: %v", err)
				}
				reason := err.Error()
				if i := strings.Index(reason, "table: "); i >= 0 {
					reason = reason[i:]
				}
				refused[reason]++
				if after, err := all(); err != nil || !slices.Equal(after, before) {
					t.Errorf("the refused append left %d rows of %d, %v", len(after), len(before), err)
				}
				return
			}
			written++
			twice := slices.Concat(before, before)
			slices.Sort(twice)
			if after, err := all(); err != nil || !slices.Equal(after, twice) {
				t.Errorf("appended: %d rows, want %d, %v", len(after), len(twice), err)
			}
			if _, err := write.Delete(ctx, table, "TRUE"); err != nil {
				if r.Snapshot.Metadata().Configuration[delta.PropertyAppendOnly] != "true" {
					t.Errorf("delete: %v", err)
				}
				return
			}
			if after, err := all(); err != nil || len(after) != 0 {
				t.Errorf("deleted: %d rows, %v", len(after), err)
			}
			if _, err := write.Restore(ctx, table, s.Version()); err != nil {
				t.Fatalf("restore: %v", err)
			}
			if after, err := all(); err != nil || !slices.Equal(after, before) {
				t.Errorf("restored: %d rows, want %d, %v", len(after), len(before), err)
			}
			// Every row is written anew, as it is.
			for i, f := range s.Schema().Fields {
				same := write.Func(func(row []schema.Value) (schema.Value, error) { return row[i], nil })
				_, err = write.Update(ctx, table, "TRUE", write.Set{f.Name: same})
				if !errors.Is(err, write.ErrColumn) {
					break
				}
			}
			if err != nil && !errors.Is(err, write.ErrRule) {
				t.Errorf("update: %v", err)
			}
			if after, err := all(); err != nil || !slices.Equal(after, before) {
				t.Errorf("updated: %d rows, want %d, %v", len(after), len(before), err)
			}
		})
	}
	t.Logf("%d tables written to", written)
	for reason, n := range refused {
		t.Logf("%d refused: %s", n, reason)
	}
	if written < 80 {
		t.Errorf("only %d tables were written to", written)
	}
}
