package delta_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
)

// testData finds the shared test data, or skips.
func testData(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("GSCD_TESTDATA"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			data := filepath.Join(dir, "..", "shared")
			if _, statErr := os.Stat(filepath.Join(data, "delta-tables")); statErr == nil {
				return data
			}
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Skip("no shared test data: set GSCD_TESTDATA")
	return ""
}

// goldenTable is a line of expected.jsonl: tables of other writers with what an
// independent reader found in them.
type goldenTable struct {
	Table   string   `json:"table"`
	Version *int64   `json:"version"`
	Columns []string `json:"columns"`
	Files   *int     `json:"files"`
	// FilesSpark is for paths that are one file for Spark alone: gscd is with it.
	FilesSpark *int             `json:"files_spark"`
	Error      string           `json:"error"`
	Refuse     string           `json:"refuse_unless_supported"`
	Protocol   []any            `json:"protocol"`
	Versions   [][]any          `json:"versions"`
	Txn        map[string]int64 `json:"txn"`
	Domains    []string         `json:"domains"`
	Deleted    int64            `json:"dv_deleted"`
	Partitions []string         `json:"partition_columns"`
	Template   bool             `json:"template"`
}

func goldenTables(t testing.TB) (dir string, tables []goldenTable) {
	dir = filepath.Join(testData(t), "delta-tables")
	f, err := os.Open(filepath.Join(dir, "expected.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var g goldenTable
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, g)
	}
	return dir, tables
}

// refused are the tables that no reader by path may read, and what must be named:
// the newest commits of the first ones are known to their catalog only, and the last
// one is of a version of the protocol that does not exist. Everything else must open.
var refused = map[string]string{
	"delta-rs/err_table_d":                           "catalogOwned",
	"delta-rs/err_table_e":                           "catalogOwned",
	"kernel-java/catalog-owned-preview":              "catalogManaged",
	"golden/deltalog-invalid-protocol-version/delta": "minReaderVersion 99",
}

func openGolden(ctx context.Context, dir string) (*delta.Table, *delta.Snapshot, error) {
	store, err := local.New(dir, local.Options{})
	if err != nil {
		return nil, nil, err
	}
	table, err := delta.Open(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	s, err := table.Snapshot(ctx)
	return table, s, err
}

func TestGoldenTables(t *testing.T) {
	ctx := context.Background()
	dir, tables := goldenTables(t)
	opened := 0
	for _, g := range tables {
		t.Run(g.Table, func(t *testing.T) {
			table, s, err := openGolden(ctx, filepath.Join(dir, g.Table))
			if feature, ok := refused[g.Table]; ok {
				var unsupported *delta.UnsupportedFeatureError
				if !errors.As(err, &unsupported) || unsupported.Feature != feature || !unsupported.Reading || !errors.Is(err, delta.ErrUnsupportedFeature) {
					t.Fatalf("want a refusal of %s, got %v", feature, err)
				}
				return
			}
			switch g.Error {
			case "not-a-table":
				if !errors.Is(err, delta.ErrNotATable) {
					t.Fatalf("want ErrNotATable, got %v", err)
				}
				return
			case "corrupt":
				if !errors.Is(err, delta.ErrCorrupt) {
					t.Fatalf("want ErrCorrupt, got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			opened++
			checkGolden(t, g, table, s)
		})
	}
	if opened < 100 {
		t.Errorf("only %d tables opened", opened)
	}
}

func checkGolden(t *testing.T, g goldenTable, table *delta.Table, s *delta.Snapshot) {
	ctx := context.Background()
	if s.Version() != *g.Version {
		t.Errorf("version %d, want %d", s.Version(), *g.Version)
	}
	if g.Files != nil && (s.NumFiles() != *g.Files || len(s.Files()) != *g.Files) {
		t.Errorf("%d files, want %d", s.NumFiles(), *g.Files)
	}
	if g.FilesSpark != nil && s.NumFiles() != *g.FilesSpark {
		t.Errorf("%d files, Spark has %d", s.NumFiles(), *g.FilesSpark)
	}
	if names := s.Schema().Names(); g.Columns != nil && !slices.Equal(names, g.Columns) {
		t.Errorf("columns %v, want %v", names, g.Columns)
	}
	// What a column's metadata says, of constraints, defaults, mapping or else, is kept.
	var written, again any
	if json.Unmarshal([]byte(s.Metadata().SchemaString), &written) == nil && json.Unmarshal([]byte(s.Schema().String()), &again) == nil &&
		!strings.Contains(g.Table, "invalid-schema-key") && !reflect.DeepEqual(written, again) { // that one spells "nullable" otherwise
		t.Errorf("the schema\n%s\nwould be written as\n%s", s.Metadata().SchemaString, s.Schema())
	}
	if p := s.Protocol(); g.Protocol != nil && (float64(p.MinReaderVersion) != g.Protocol[0] || float64(p.MinWriterVersion) != g.Protocol[1]) {
		t.Errorf("protocol %+v, want %v", p, g.Protocol)
	}
	if got := s.Metadata().PartitionColumns; len(got)+len(g.Partitions) > 0 && !slices.Equal(got, g.Partitions) {
		t.Errorf("partitioned by %v, want %v", got, g.Partitions)
	}
	var domains []string
	for _, d := range s.Domains() {
		domains = append(domains, d.Domain)
	}
	if slices.Sort(g.Domains); g.Domains != nil && !slices.Equal(domains, g.Domains) {
		t.Errorf("domains %v, want %v", domains, g.Domains)
	}
	deleted := int64(0)
	for _, a := range s.Files() {
		if a.DeletionVector != nil {
			deleted += a.DeletionVector.Cardinality
		}
	}
	if deleted != g.Deleted && g.Deleted > 0 {
		t.Errorf("%d rows deleted, want %d", deleted, g.Deleted)
	}
	for app, version := range g.Txn {
		if txn, ok := s.Txn(app); !ok || txn.Version != version {
			t.Errorf("txn %s: %+v, want %d", app, txn, version)
		}
	}
	for i, a := range s.Files() {
		if got, ok := s.File(a.Path); !ok || got.Path != a.Path {
			t.Errorf("file %d %q is not found by its path", i, a.Path)
		}
	}
	if strings.Contains(g.Table, "struct-stats-only") {
		for _, a := range s.Files() {
			if !strings.HasPrefix(a.Stats, `{"numRecords":1,"minValues":{`) {
				t.Errorf("stats of %s: %q", a.Path, a.Stats)
			}
		}
	}
	if g.Versions == nil || g.Table == "delta-rs/delta-live-table" { // its version 0 has an empty schema string
		return
	}
	var want []int64
	for _, v := range g.Versions {
		version := int64(v[0].(float64))
		want = append(want, version)
		at, err := table.SnapshotAt(ctx, version)
		if err != nil {
			// Refused are versions of another protocol than the newest's, at most.
			t.Errorf("version %d: %v", version, err)
			continue
		}
		if at.NumFiles() != int(v[1].(float64)) {
			t.Errorf("version %d: %d files, want %v", version, at.NumFiles(), v[1])
		}
	}
	if got, err := table.Versions(ctx); err != nil || !slices.Equal(got, want) {
		t.Errorf("versions %v, want %v (%v)", got, want, err)
	}
	// A version that is not there is refused with those that are.
	for version := int64(0); version <= want[len(want)-1]+1; version++ {
		if slices.Contains(want, version) {
			continue
		}
		_, err := table.SnapshotAt(ctx, version)
		var notFound *delta.VersionNotFoundError
		if !errors.As(err, &notFound) || notFound.Version != version || !slices.Equal(notFound.Available, want) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}
