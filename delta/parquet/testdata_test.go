package parquet_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sharedFiles lists the files below delta-tables of the test data whose name
// ends in suffix; the test is skipped where there is no test data.
func sharedFiles(t testing.TB, suffix string) (root string, files []string) {
	t.Helper()
	root = filepath.Join(sharedDir(t), "delta-tables")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, suffix) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Skipf("no Delta test tables: %v", err)
	}
	return root, files
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
