package clone_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

func store(t testing.TB, dir string, outside ...string) *local.Store {
	t.Helper()
	s, err := local.New(dir, local.Options{NoSync: true, Outside: outside})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source is a table of two versions with rows, partitions of odd names, and deletion
// vectors in the newer one.
func source(t testing.TB, dir string) *delta.Table {
	t.Helper()
	table := delta.New(store(t, dir))
	ctx := t.Context()
	_, err := write.Create(ctx, table, write.Definition{
		Columns:     []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("city", schema.Of(schema.StringType))},
		PartitionBy: []string{"city"},
		Properties:  map[string]string{delta.PropertyDeletionVectors: "true", "gscd.key": `["id"]`, "delta.logRetentionDuration": "interval 9 days"},
	}, write.Source{})
	must(t, err)
	var rows [][]any
	for id := range 100 {
		rows = append(rows, []any{id, []any{"Wuhan", "Xi'an/日 ü%", nil}[id%3]})
	}
	_, err = write.Append(ctx, table, write.Values(rows))
	must(t, err)
	_, err = write.Delete(ctx, table, "id < 30 AND id >= 9")
	must(t, err)
	return table
}

func rowsOf(t testing.TB, table *delta.Table, s *delta.Snapshot) (rows []string) {
	t.Helper()
	scan, err := scan.New(table.Store(), s, scan.Options{})
	must(t, err)
	for row, err := range scan.Rows(t.Context()) {
		must(t, err)
		rows = append(rows, fmt.Sprint(row[0].I, " ", row[1].S))
	}
	slices.Sort(rows)
	return rows
}

func at(t testing.TB, table *delta.Table, version int64) *delta.Snapshot {
	t.Helper()
	s, err := table.SnapshotAt(t.Context(), version)
	must(t, err)
	return s
}

// A clone has the rows of the version, of deletion vectors too, and goes its own way.
func TestClone(t *testing.T) {
	for _, deep := range []bool{false, true} {
		for version := int64(1); version <= 2; version++ {
			t.Run(fmt.Sprintf("deep %v, version %d", deep, version), func(t *testing.T) {
				dir := t.TempDir()
				from := source(t, filepath.Join(dir, "a b"))
				want := rowsOf(t, from, at(t, from, version))
				to := delta.New(store(t, filepath.Join(dir, "clone"), filepath.Join(dir, "a b")))
				report, err := clone.Clone(t.Context(), from, at(t, from, version), to, clone.Options{Deep: deep, Properties: func(p map[string]string) map[string]string {
					delete(p, "gscd.key")
					return p
				}})
				must(t, err)
				again, err := to.Snapshot(t.Context())
				must(t, err)
				if got := rowsOf(t, to, again); !slices.Equal(got, want) || len(got) != map[int64]int{1: 100, 2: 79}[version] {
					t.Errorf("%d rows, want %d", len(got), len(want))
				}
				m := again.Metadata()
				if _, ok := m.Configuration["gscd.key"]; ok || m.ID == at(t, from, 2).Metadata().ID || m.Configuration["delta.logRetentionDuration"] != "interval 9 days" {
					t.Errorf("metadata %+v", m)
				}
				info, err := to.CommitInfo(t.Context(), 0)
				must(t, err)
				if !strings.Contains(string(info), `"operation":"CLONE"`) || !strings.Contains(string(info), fmt.Sprintf(`"isShallow":"%v"`, !deep)) {
					t.Errorf("%s", info)
				}
				if (report.Copied > 0) != deep || report.Files != 3 {
					t.Errorf("%+v", report)
				}
				for _, add := range again.Files() {
					if strings.HasPrefix(add.Path, "file:/") == deep {
						t.Errorf("path %s", add.Path)
					}
				}
				if deep { // it needs the source no more
					must(t, os.RemoveAll(filepath.Join(dir, "a b")))
				}
				_, err = write.Delete(t.Context(), to, "id >= 50")
				must(t, err)
				newest, err := to.Snapshot(t.Context())
				must(t, err)
				if got := rowsOf(t, to, newest); len(got) != len(want)-50 {
					t.Errorf("%d rows after a delete of 50", len(got))
				}
				if !deep {
					if got := rowsOf(t, from, at(t, from, version)); !slices.Equal(got, want) {
						t.Errorf("the source has %d rows", len(got))
					}
				}
			})
		}
	}
}

// A clone of a clone, and one in the place of a table.
func TestCloneAgain(t *testing.T) {
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	from := source(t, a)
	shallow := delta.New(store(t, b, a))
	_, err := clone.Clone(t.Context(), from, at(t, from, 2), shallow, clone.Options{})
	must(t, err)
	deep := delta.New(store(t, c))
	report, err := clone.Clone(t.Context(), shallow, at(t, shallow, 0), deep, clone.Options{Deep: true})
	must(t, err)
	want := rowsOf(t, from, at(t, from, 2))
	if got := rowsOf(t, deep, report.Snapshot); !slices.Equal(got, want) {
		t.Errorf("a deep clone of a shallow one: %d rows, want %d", len(got), len(want))
	}
	if _, err := clone.Clone(t.Context(), from, at(t, from, 1), deep, clone.Options{Deep: true}); !errors.Is(err, clone.ErrExists) {
		t.Errorf("over a table: %v", err)
	}
	for _, version := range []int64{1, 2, 1} {
		report, err = clone.Clone(t.Context(), from, at(t, from, version), deep, clone.Options{Deep: true, Replace: true})
		must(t, err)
		if got, want := rowsOf(t, deep, report.Snapshot), rowsOf(t, from, at(t, from, version)); !slices.Equal(got, want) {
			t.Errorf("replaced by version %d: %d rows, want %d", version, len(got), len(want))
		}
	}
	if report.Copied != 0 || report.Version != 3 {
		t.Errorf("files that were there are copied again: %+v", report)
	}
	if got := rowsOf(t, deep, at(t, deep, 2)); !slices.Equal(got, want) {
		t.Errorf("the version before: %d rows", len(got))
	}
}

// Of a file that is not as the log says no clone is made.
func TestCloneOfDamage(t *testing.T) {
	dir := t.TempDir()
	from := source(t, filepath.Join(dir, "a"))
	s := at(t, from, 2)
	path := filepath.Join(dir, "a")
	err := filepath.Walk(path, func(p string, info os.FileInfo, err error) error {
		if err == nil && strings.HasSuffix(p, ".parquet") {
			return os.WriteFile(p, []byte("PAR1"), 0o644)
		}
		return err
	})
	must(t, err)
	to := delta.New(store(t, filepath.Join(dir, "b")))
	if _, err := clone.Clone(t.Context(), from, s, to, clone.Options{Deep: true}); !errors.Is(err, clone.ErrInconsistent) {
		t.Errorf("%v", err)
	}
	if _, err := to.Snapshot(t.Context()); !errors.Is(err, delta.ErrNotATable) {
		t.Errorf("there is a clone: %v", err)
	}
}

func TestURI(t *testing.T) {
	for _, c := range [][3]string{
		{"/data/a b", "x=1/f.parquet", "file:/data/a%20b/x=1/f.parquet"},
		{"/data/t/", "x=%20/f", "file:/data/t/x=%2520/f"},
		{"/data/日 t", "x=a:b#/ü.parquet", "file:/data/日%20t/x=a:b%23/ü.parquet"},
		{"s3://bucket/t", "f.parquet", "s3://bucket/t/f.parquet"},
		{"s3://bucket/a b", "f", "s3://bucket/a%20b/f"},
	} {
		if got := clone.URI(c[0], c[1]); got != c[2] {
			t.Errorf("%s, %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// Each partition has a manifest of the files of the version, and none lies about
// deleted rows.
func TestManifest(t *testing.T) {
	dir := t.TempDir()
	table := source(t, dir)
	if _, err := clone.Manifest(t.Context(), table, at(t, table, 2)); !errors.Is(err, clone.ErrVectors) {
		t.Errorf("with deletion vectors: %v", err)
	}
	s := at(t, table, 1)
	keys, err := clone.Manifest(t.Context(), table, s)
	must(t, err)
	want := []string{
		"_symlink_format_manifest/city=Wuhan/manifest", "_symlink_format_manifest/city=Xi%27an%2F日 ü%25/manifest",
		"_symlink_format_manifest/city=__HIVE_DEFAULT_PARTITION__/manifest",
	}
	if !slices.Equal(keys, want) {
		t.Errorf("%q", keys)
	}
	for _, key := range keys {
		text, err := os.ReadFile(filepath.Join(dir, key))
		must(t, err)
		for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
			if _, err := os.Stat(strings.TrimPrefix(line, "file:")); err != nil || !strings.HasPrefix(line, "file:"+dir+"/city=") {
				t.Errorf("%s names %q: %v", key, line, err)
			}
		}
	}
	_, err = write.Overwrite(t.Context(), table, write.Values([][]any{{1, "Wuhan"}}))
	must(t, err)
	newest, err := table.Snapshot(t.Context())
	must(t, err)
	if keys, err = clone.Manifest(t.Context(), table, newest); err != nil || len(keys) != 1 {
		t.Errorf("%q, %v", keys, err)
	}
	if _, err := os.Stat(filepath.Join(dir, want[1])); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the manifest of a partition without files: %v", err)
	}
}
