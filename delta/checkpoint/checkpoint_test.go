package checkpoint_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/checkpoint"
)

func ptr[T any](v T) *T { return &v }

func sample() *action.Commit {
	return &action.Commit{
		Protocol: &action.Protocol{MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"deletionVectors"}, WriterFeatures: []string{"deletionVectors", "appendOnly"}},
		Metadata: &action.Metadata{
			ID: "m", Name: "n", Format: action.Format{Provider: "parquet"}, SchemaString: `{"type":"struct","fields":[]}`,
			PartitionColumns: []string{"p"}, Configuration: map[string]string{"delta.appendOnly": "false"}, CreatedTime: ptr(int64(0)),
		},
		Txns:    []action.Txn{{AppID: "a", Version: -3, LastUpdated: ptr(int64(5))}, {AppID: "b"}},
		Domains: []action.DomainMetadata{{Domain: "d", Configuration: "{}"}},
		Adds: []*action.Add{
			{Path: "p=1/a", PartitionValues: map[string]*string{"p": ptr("1"), "q": nil}, Size: 0, ModificationTime: 7, Stats: `{"numRecords":1}`, Tags: map[string]string{"k": "v"}},
			{Path: "b", DeletionVector: &action.DeletionVector{StorageType: "u", PathOrInlineDV: "x", Offset: ptr(int32(0)), SizeInBytes: 1, Cardinality: 2}, BaseRowID: ptr(int64(0)), DefaultRowCommitVersion: ptr(int64(1)), ClusteringProvider: ptr("liquid")},
			{Path: "i", DeletionVector: &action.DeletionVector{StorageType: "i", PathOrInlineDV: "y", SizeInBytes: 1, Cardinality: 2}},
		},
		Removes: []*action.Remove{
			{Path: "c", DeletionTimestamp: 9, ExtendedFileMetadata: true, PartitionValues: map[string]*string{"p": ptr("")}, Size: ptr(int64(0))},
			{Path: "old"},
		},
	}
}

func TestStatesReadBack(t *testing.T) {
	data, err := checkpoint.Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	back, err := checkpoint.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if want := sample(); !reflect.DeepEqual(back, want) {
		t.Errorf("got\n%swant\n%s", back.Append(nil), want.Append(nil))
	}
	if err := checkpoint.Same(sample(), back); err != nil {
		t.Error(err)
	}
}

// TestShape holds the file's schema against that of a checkpoint of Spark 4.1
// with Delta 4.4: the same fields in the same order, all optional, but the
// columns of parsed values and statistics, which gscd leaves out.
func TestShape(t *testing.T) {
	path := filepath.Join(testData(t), "engines", "checkpoint-spark-4.4.0.schema.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Skip("no schema of Spark's checkpoints: ", err)
	}
	var want []string
	skipTo := -1
	for line := range strings.Lines(string(text)) {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		words := strings.Fields(strings.NewReplacer("field_id=-1 ", "", ";", "", "{", "", "}", "").Replace(line))
		if skipTo >= 0 && depth > skipTo || len(words) < 3 {
			continue
		}
		skipTo = -1
		if strings.HasSuffix(words[2], "_parsed") {
			skipTo = depth
			continue
		}
		want = append(want, strings.Repeat(" ", depth)+strings.Join(words[:3], " "))
	}
	data, err := checkpoint.Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var walk func(name string, n parquet.Node, depth int)
	walk = func(name string, n parquet.Node, depth int) {
		kind, repetition := "group", "optional"
		if n.Leaf() {
			kind = map[parquet.Kind]string{parquet.Boolean: "boolean", parquet.Int32: "int32", parquet.Int64: "int64", parquet.ByteArray: "binary"}[n.Type().Kind()]
		}
		if n.Required() {
			repetition = "required"
		} else if n.Repeated() {
			repetition = "repeated"
		}
		got = append(got, strings.Repeat(" ", depth)+repetition+" "+kind+" "+name)
		if !n.Leaf() {
			for _, f := range n.Fields() {
				walk(f.Name(), f, depth+1)
			}
		}
	}
	walk("spark_schema", f.Root(), 0)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// testData finds the shared test data, or skips.
func testData(t *testing.T) string {
	if dir := os.Getenv("GSCD_TESTDATA"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return filepath.Join(dir, "..", "shared")
		}
		dir = filepath.Dir(dir)
	}
	t.Skip("no shared test data: set GSCD_TESTDATA")
	return ""
}

func TestSameSeesWhatIsMissing(t *testing.T) {
	for name, change := range map[string]func(c *action.Commit){
		"add":      func(c *action.Commit) { c.Adds = c.Adds[:2] },
		"place":    func(c *action.Commit) { c.Adds[0], c.Adds[1] = c.Adds[1], c.Adds[0] },
		"vector":   func(c *action.Commit) { c.Adds[1].DeletionVector = nil },
		"size":     func(c *action.Commit) { c.Adds[1].Size++ },
		"txn":      func(c *action.Commit) { c.Txns[1].Version = 1 },
		"no txn":   func(c *action.Commit) { c.Txns = nil },
		"remove":   func(c *action.Commit) { c.Removes = nil },
		"domain":   func(c *action.Commit) { c.Domains = nil },
		"metadata": func(c *action.Commit) { c.Metadata = nil },
		"protocol": func(c *action.Commit) { c.Protocol.WriterFeatures = nil },
	} {
		other := sample()
		change(other)
		if err := checkpoint.Same(sample(), other); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	data, err := checkpoint.Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		if _, err := checkpoint.Decode(data[:cut]); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	})
}

// FuzzDecode: no bytes panic.
func FuzzDecode(f *testing.F) {
	data, err := checkpoint.Encode(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(bytes.Replace(data, []byte("gscd.sha256"), []byte("other.sha25"), 1)) // without a sum
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// A page may say that it unpacks to 64 MiB, and there are up to some hundred columns.
		alloctest.Within(t, len(data), 1<<14, 256<<20, func() { _, _ = checkpoint.Decode(data) })
		if _, err := checkpoint.Decode(data); err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
