package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/gscd-io/gscd/"

// rule says what the packages at and below a folder may import of ours: the
// folders in may and what is below them. Packages under one rule may import each
// other. The longest folder that fits a package is its rule.
type rule struct {
	folder string
	may    []string
}

const anything = "*"

// The data flows one way. The types of columns and their values, delta/schema,
// are the common vocabulary: every package but config may import them.
var layers = []rule{
	{"config", nil},

	{"delta/schema", nil},
	{"delta/action", nil},
	{"delta/objstore", nil},
	{"delta/variant", nil},
	{"delta/selfsum", nil}, // of bytes alone: each kind of file of a table has its sum from there
	{"delta/parquet", []string{"delta/selfsum", "delta/variant", "delta/stats", "delta/action", "delta/objstore"}},
	{"delta/stats", []string{"delta/action", "delta/objstore"}},
	{"delta/dv", []string{"delta/action", "delta/objstore"}},
	{"delta/checkpoint", []string{"delta/selfsum", "delta/parquet", "delta/stats", "delta/dv", "delta/action", "delta/objstore"}},
	{"delta/deltalog", []string{"delta/selfsum", "delta/checkpoint", "delta/parquet", "delta/stats", "delta/dv", "delta/action", "delta/objstore"}},
	{"delta", []string{"delta/selfsum", "delta/deltalog", "delta/checkpoint", "delta/parquet", "delta/stats", "delta/dv", "delta/action", "delta/objstore"}},
	{"delta/upsert", []string{"delta"}},
	{"delta/compact", nil}, // decisions on numbers alone
	{"delta/layout", []string{"delta"}},
	{"delta/clone", []string{"delta"}},
	{"delta/expr", nil},
	{"delta/rowhash", nil}, // of values alone: whoever compares rows uses one form of them
	{"delta/scan", []string{"delta"}},
	// Rows of two sides, wherever they are from: values, their hashes, and the sorting of what does not fit into memory.
	{"verify", []string{"delta"}},
	{"delta/write", []string{"delta"}},

	// The source's tables by their statements: a change may carry one, and capture follows them.
	{"ddl", nil},
	{"ingest/change", []string{"ddl"}},
	// Records of raw binlog events are read as capture reads a log.
	{"ingest/decode", []string{"ddl", "ingest/change", "capture/event", "capture/binlog"}},
	// What it changes is what a decoder gives.
	{"ingest/transform", []string{"ddl", "delta/expr", "delta/schema", "ingest/change", "ingest/decode"}},
	{"ingest/kafka", []string{"ingest/change"}},
	// It gives the decoders what they ask for, in their words.
	{"ingest/registry", []string{"ingest/decode"}},
	{"ingest/recording", []string{"ingest/change"}},

	{"format", nil}, // versions of what gscd keeps beside Delta's files: whoever reads such a thing refuses a newer one alike
	{"snapshotter", []string{"ingest/change"}},
	{"drift", []string{"format", "snapshotter", "delta/objstore", "delta/selfsum", "ingest/change"}},
	{"progress", []string{"format", "snapshotter", "drift", "ingest/change"}},
	{"savepoint", []string{"format", "delta", "snapshotter", "drift", "progress", "ingest/change", "ingest/marker", "ingest/settled"}},
	{"ingest", []string{"ingest", "format", "ddl", "delta", "snapshotter", "drift", "progress", "savepoint"}},
	// What must be kept of files beside rows comes from outside.
	{"maintain", []string{"delta", "savepoint", "snapshotter", "progress"}},
	// Rows from outside, as ingest.LoadSlice takes them.
	{"slice", []string{"delta", "ingest"}},
	// As capture reaches a server.
	{"slice/mysql", []string{"capture/source", "capture/event", "ddl", "delta", "ingest", "slice"}},
	{"server", []string{"ingest", "delta", "snapshotter", "drift", "progress", "savepoint", "query"}},

	// It is an observer too, and a store that sees what is uploaded.
	{"tracing", []string{"delta/objstore", "ingest", "progress"}},
	// It watches as an observer of ingest does, and reads the map of what it missed.
	{"notify", []string{"delta", "ingest", "progress", "savepoint", "snapshotter"}},

	// Which event deleted a row is in the delete markers alone, and which label a change waited for in held files.
	{"query", []string{"delta", "savepoint", "snapshotter", "drift", "progress", "ingest/marker"}},
	// What it writes to, and what of: a topic, and the changes of a table.
	{"sink", []string{"delta", "savepoint", "snapshotter", "progress", "query", "ingest/kafka", "ingest/change"}},
	{"scd2", []string{"format", "delta", "savepoint", "snapshotter", "progress", "query", "ingest/marker"}},
	{"capture", []string{"ddl", "ingest/change", "ingest/decode", "ingest/kafka"}},

	{"demo", []string{"bench", "capture", "delta", "drift", "ingest", "progress", "query", "savepoint", "scd2", "server", "snapshotter"}},
	{"bench", []string{"capture", "delta", "drift", "ingest", "maintain", "progress", "query", "savepoint", "scd2", "server", "snapshotter"}},
	{"examples", []string{"delta", "savepoint", "snapshotter", "progress", "query"}},
	{"cmd/gscd", []string{anything}},
	{"integration", []string{anything}},
}

// Each heavy dependency has one home: modules by prefix, and the folders that
// may import them.
var homes = []struct {
	dependency string
	folders    []string
}{
	{"github.com/aws/aws-sdk-go-v2", []string{"delta/objstore/s3", "delta/objstore/dynamodb", "ingest/kafka"}},
	{"github.com/aws/smithy-go", []string{"delta/objstore/s3", "delta/objstore/dynamodb", "ingest/kafka"}},
	{"github.com/aws/aws-msk-iam-sasl-signer-go", []string{"ingest/kafka"}},
	{"google.golang.org/api", []string{"delta/objstore/gcs"}},
	{"github.com/Azure", []string{"delta/objstore/azure"}},
	{"github.com/parquet-go/parquet-go", []string{"delta/parquet"}},
	{"github.com/apache/arrow-go", []string{"query/output"}},
	{"github.com/RoaringBitmap/roaring", []string{"delta/dv"}},
	{"github.com/twmb/franz-go/pkg/kfake", []string{"demo", "bench"}},
	{"github.com/twmb/franz-go", []string{"ingest/kafka", "capture", "demo", "bench"}},
	{"github.com/go-mysql-org/go-mysql", []string{"capture", "ingest/decode", "slice/mysql"}},
	{"github.com/duckdb", []string{"query/sql"}},
	{"github.com/prometheus", []string{"server", "ingest/kafka"}},
	{"go.opentelemetry.io", []string{"tracing"}},
	{"github.com/spf13", []string{"cmd/gscd"}},
	{"github.com/goccy/go-yaml", []string{"config"}},
	{"github.com/jedib0t/go-pretty", []string{"query/output", "cmd/gscd", "demo", "bench"}},
	{"github.com/valyala/fastjson", []string{"ingest/decode", "ingest/recording", "delta/action", "delta/stats", "slice"}},
}

// within reports whether a folder is dir or below it.
func within(folder, dir string) bool {
	return folder == dir || strings.HasPrefix(folder, dir+"/")
}

// ruleOf is the rule of a folder: the longest that fits.
func ruleOf(folder string) (best rule, found bool) {
	for _, r := range layers {
		if within(folder, r.folder) && len(r.folder) >= len(best.folder) {
			best, found = r, true
		}
	}
	return best, found
}

// forbidden says why a folder may not import another one of ours; "" if it may.
func forbidden(folder, imported string) string {
	r, found := ruleOf(folder)
	if !found {
		return "is not in the table of this test: add it with what it may import"
	}
	target, _ := ruleOf(imported)
	switch {
	case slices.Contains(r.may, anything), target.folder == r.folder:
		return ""
	case within(imported, "cmd"), within(imported, "integration"), within(imported, "config"):
		return "may not: only cmd/gscd reads the configuration, and nothing imports cmd"
	case imported == "delta/schema" && r.folder != "config":
		return ""
	}
	for _, m := range r.may {
		if within(imported, m) {
			return ""
		}
	}
	if len(r.may) == 0 {
		return "may not: it is a leaf and imports nothing of ours"
	}
	return "may not: it may import " + strings.Join(r.may, ", ")
}

// homeless says why a folder may not import a dependency; "" if it may.
func homeless(folder, imported string) string {
	for _, h := range homes {
		if !within(imported, h.dependency) {
			continue
		}
		if slices.ContainsFunc(h.folders, func(f string) bool { return within(folder, f) }) || within(folder, "integration") {
			return ""
		}
		return "may not: " + h.dependency + " lives in " + strings.Join(h.folders, ", ")
	}
	return ""
}

// source is one Go file that is no test.
type source struct {
	folder, name string
	file         *ast.File
}

// sources parses the imports and package comments of every file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	var found []source
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || hasModule(p)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		found = append(found, source{path.Dir(rel), rel, f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no Go files found")
	}
	return found
}

// hasModule reports whether a folder is a module of its own.
func hasModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			why := homeless(s.folder, imported)
			if ours, ok := strings.CutPrefix(imported, module); ok {
				why = forbidden(s.folder, ours)
			}
			if why != "" {
				t.Errorf("%s imports %s: %s %s", s.name, imported, s.folder, why)
			}
		}
	}
}

// Every package says what it owns.
func TestPackageComments(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command " + path.Base(s.folder) + " "
		}
		documented[s.folder] = documented[s.folder] || strings.HasPrefix(s.file.Doc.Text(), want)
	}
	for _, folder := range slices.Sorted(maps.Keys(documented)) {
		if !documented[folder] {
			t.Errorf("%s has no package comment: write a doc.go with what it owns, its nouns and its invariants", folder)
		}
	}
}

// The table itself: what it must refuse and allow.
func TestImportTable(t *testing.T) {
	for _, c := range []struct {
		folder, imports string
		ok              bool
	}{
		{"cmd/gscd", "config", true},
		{"server", "config", false},
		{"server", "ingest/change", true},
		{"server", "query/output", true},
		{"ingest", "config", false},
		{"config", "delta/schema", false},
		{"config", "snapshotter", false},
		{"delta/upsert", "delta", true},
		{"delta", "delta/upsert", false},
		{"delta/write", "delta/expr", true},
		{"delta/write", "query", false},
		{"delta/layout", "delta/expr", true},
		{"delta/layout", "savepoint", false},
		{"delta", "delta/deltalog", true},
		{"delta/deltalog", "delta", false},
		{"delta/parquet", "delta/schema", true},
		{"delta/parquet", "delta/checkpoint", false},
		{"delta/objstore/s3", "delta/objstore", true},
		{"delta/objstore", "delta/action", false},
		{"delta/expr", "delta/schema", true},
		{"delta/expr", "query/output", false},
		{"delta/action", "delta/schema", true},
		{"savepoint", "delta/action", true},
		{"savepoint", "ingest", false},
		{"ingest/decode", "ingest/change", true},
		{"ingest/decode", "ingest", false},
		{"ingest/deadletter", "ingest/change", true},
		{"ingest", "server", false},
		{"query", "ingest", false},
		{"scd2", "query", true},
		{"demo", "cmd/gscd", false},
		{"newcomer", "delta", false},
	} {
		if why := forbidden(c.folder, c.imports); (why == "") != c.ok {
			t.Errorf("%s imports %s: %q, want allowed %v", c.folder, c.imports, why, c.ok)
		}
	}
	for _, c := range []struct {
		folder, imports string
		ok              bool
	}{
		{"delta/parquet", "github.com/parquet-go/parquet-go/format", true},
		{"delta/checkpoint", "github.com/parquet-go/parquet-go", false},
		{"demo", "github.com/twmb/franz-go/pkg/kfake", true},
		{"ingest/kafka", "github.com/twmb/franz-go/pkg/kfake", false},
		{"ingest/kafka", "github.com/twmb/franz-go/pkg/kgo", true},
		{"query/output", "github.com/spf13/cobra", false},
		{"query/output", "github.com/apache/arrow-go/v18/arrow/ipc", true},
		{"query/sql", "github.com/apache/arrow-go/v18/arrow", false},
		{"server", "go.uber.org/zap", true},
		{"server", "github.com/prometheus/client_golang/prometheus", true},
		{"ingest", "github.com/prometheus/client_golang/prometheus", false},
		{"server", "github.com/twmb/franz-go/pkg/kgo", false},
	} {
		if why := homeless(c.folder, c.imports); (why == "") != c.ok {
			t.Errorf("%s imports %s: %q, want allowed %v", c.folder, c.imports, why, c.ok)
		}
	}
}
