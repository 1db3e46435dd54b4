package stats_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// tampered are tables whose statistics their sources changed by hand.
var tampered = map[string]bool{"issue_1374": true, "parsed-stats": true}

// The statistics that other writers gave hold for the values in their files.
func TestStatisticsOfOtherWriters(t *testing.T) {
	root := filepath.Join(sharedDir(t), "delta-tables")
	files, bounds := 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != "_delta_log" {
			return err
		}
		if tampered[filepath.Base(filepath.Dir(path))] {
			return fs.SkipDir
		}
		f, b := checkTable(t, filepath.Dir(path))
		files, bounds = files+f, bounds+b
		return fs.SkipDir
	})
	if err != nil {
		t.Skipf("no Delta test tables: %v", err)
	}
	t.Logf("%d files, %d bounds", files, bounds)
	if files < 150 || bounds < 500 {
		t.Errorf("checked %d files with %d bounds: too few, is the test data whole?", files, bounds)
	}
}

func checkTable(t *testing.T, table string) (files, bounds int) {
	commits, _ := filepath.Glob(filepath.Join(table, "_delta_log", "*.json"))
	var s *schema.Schema
	for _, commit := range commits {
		data, err := os.ReadFile(commit)
		if err != nil {
			t.Fatal(err)
		}
		type add struct {
			Path, Stats string
			DataChange  bool
		}
		var adds []add
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var a struct {
				MetaData *struct{ SchemaString string }
				Add      *add
			}
			if json.Unmarshal(lines.Bytes(), &a) != nil {
				continue
			}
			if a.MetaData != nil {
				s, _ = schema.Parse(a.MetaData.SchemaString)
				if s != nil {
					if mapped, err := s.Mapped(false); err == nil {
						s = mapped
					}
				}
			}
			if a.Add != nil && a.Add.Stats != "" {
				adds = append(adds, *a.Add)
			}
		}
		for _, a := range adds {
			path, err := url.PathUnescape(a.Path)
			if err != nil || s == nil {
				continue
			}
			file, err := os.ReadFile(filepath.Join(table, path))
			if err != nil || len(file) > 400<<10 {
				continue
			}
			f, err := stats.Parse(a.Stats, s)
			if err != nil {
				t.Errorf("%s: %s: %v", table, a.Stats, err)
				continue
			}
			bounds += checkFile(t, commit, file, f, s)
			files++
		}
	}
	return files, bounds
}

func checkFile(t *testing.T, commit string, data []byte, f *stats.FileStatistics, s *schema.Schema) (bounds int) {
	file, err := parquet.OpenBytes(data)
	if err != nil {
		return 0
	}
	if f.NumRecords >= 0 && f.NumRecords != file.NumRows() {
		t.Errorf("%s: numRecords %d, the file has %d", commit, f.NumRecords, file.NumRows())
	}
	for _, field := range s.Fields {
		b := f.Bounds(field.Name)
		if b == stats.Unknown || field.Type.Primitive == schema.Variant {
			continue
		}
		nulls := int64(0)
		for batch, err := range file.Scan(t.Context(), []parquet.Column{parquet.ColumnOf(&field)}, parquet.ScanOptions{}) {
			if err != nil {
				t.Errorf("%s: column %s: %v", commit, field.Name, err)
				break
			}
			for _, v := range batch.Columns[0] {
				switch {
				case v.IsNull():
					nulls++
				case !b.Min.IsNull() && schema.Compare(v, b.Min) < 0, !b.Max.IsNull() && schema.Compare(v, b.Max) > 0:
					t.Errorf("%s: column %s: %+v is outside %+v", commit, field.Name, v, b)
				}
			}
		}
		if b.NullCount >= 0 && b.NullCount != nulls {
			t.Errorf("%s: column %s: %d NULLs, the statistics say %d", commit, field.Name, nulls, b.NullCount)
		}
		if !b.Min.IsNull() || !b.Max.IsNull() {
			bounds++
		}
	}
	return bounds
}

func sharedDir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("GSCD_TESTDATA"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(filepath.Dir(dir), "shared")
		}
	}
	t.Skip("no go.mod above: set GSCD_TESTDATA")
	return ""
}

// Where a checkpoint has statistics as text and as columns, both say the same.
func TestStatisticsAsColumns(t *testing.T) {
	type row struct {
		MetaData *struct {
			SchemaString string `parquet:"schemaString"`
		} `parquet:"metaData"`
		Add *struct {
			Stats  string       `parquet:"stats"`
			Parsed parquet.JSON `parquet:"stats_parsed"`
		} `parquet:"add"`
	}
	compared := 0
	err := filepath.WalkDir(filepath.Join(sharedDir(t), "delta-tables"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".checkpoint.parquet") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rows, err := parquet.DecodeStructs[row](data)
		if err != nil {
			return nil // not this test's matter
		}
		var s *schema.Schema
		for _, r := range rows {
			if r.MetaData != nil {
				if s, err = schema.Parse(r.MetaData.SchemaString); err != nil {
					return nil
				}
			}
		}
		for _, r := range rows {
			if s == nil || r.Add == nil || r.Add.Stats == "" || r.Add.Parsed == "" {
				continue
			}
			text, err1 := stats.Parse(r.Add.Stats, s)
			columns, err2 := stats.Parse(string(r.Add.Parsed), s)
			if err1 != nil || err2 != nil {
				t.Errorf("%s: %v, %v", path, err1, err2)
				continue
			}
			for _, f := range stats.Leaves(s.Fields) {
				a, b := text.Bounds(f.Path...), columns.Bounds(f.Path...)
				exact := f.Type.Primitive != schema.Timestamp && f.Type.Primitive != schema.TimestampNTZ
				if exact && a != b || text.NumRecords != columns.NumRecords {
					t.Errorf("%s: column %s: %+v as text, %+v as columns", path, schema.FormatPath(f.Path...), a, b)
				}
				compared++
			}
		}
		return nil
	})
	if err != nil {
		t.Skipf("no Delta test tables: %v", err)
	}
	if compared < 50 {
		t.Errorf("compared %d columns: too few, is the test data whole?", compared)
	}
}
