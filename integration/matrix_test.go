package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The other engines, in the order of the columns of the table in docs/compatibility.md.
var otherEngines = []struct {
	name, version string
	writes        bool
}{
	{"delta-rs", "1.6.6", true},
	{"Polars", "2.1.0", false},
	{"DuckDB", "1.5.5", false},
	{"ClickHouse", "26.9.2 (chdb 4.4.0)", false},
	{"Spark", "4.1.2 with Delta 4.4.0", true},
	{"Delta Kernel", "4.4.0 (Java)", false},
	{"Trino", "476", true},
}

// What a table has that another engine must understand, in the order of the rows.
var readFeatures = []string{
	"all types, NULL, smallest and largest values",
	"NaN, infinities, -0.0",
	"decimals of 38 digits",
	"empty, long and odd strings and bytes",
	"microseconds",
	"dates and times before 1900 and after 2299",
	"timestamps without a zone",
	"structs, arrays, maps",
	"partitions by every type, NULL among them",
	"partitions with special characters and empty texts",
	"deletion vectors, alone and several in one file",
	"deletion vectors that grow, files that end",
	"copy-on-write",
	"append, overwrite, replaceWhere",
	"dynamic partition overwrite",
	"delete, update, merge",
	"merge with deletion vectors",
	"restore",
	"columns added",
	"columns renamed, dropped, moved (column mapping by name)",
	"column mapping by id",
	"columns widened",
	"constraints, comments",
	"classic checkpoints alone",
	"classic checkpoints in parts",
	"v2 checkpoints with sidecars",
	"log compaction files and version checksums",
	"optimize, deletion vectors purged",
	"files ordered by a curve (zorder)",
	"deep clone",
	"shallow clone",
	"row tracking",
	"in-commit timestamps",
	"islands, after log cleanup and vacuum",
	"islands, copy-on-write",
	"tables of `gscd ingest`, merge on read",
	"tables of `gscd ingest`, copy-on-write",
	"tables of `gscd ingest`, partitioned",
	"tables of `gscd ingest`, with columns added",
	"tables of `gscd ingest`, with many commits",
	"tables of `gscd ingest`, rolled back",
	"tables of `gscd ingest --input`, recorded types",
	"tables of `gscd ingest --input`, recorded orders",
	"dead-letter tables",
	"conditions, by statistics",
	"conditions on partitions",
	"change data feed",
	"change data feed with deletion vectors",
}

// The tables that other engines write on.
var writeFeatures = []string{
	"plain",
	"partitioned",
	"deletion vectors",
	"column mapping by name",
	"change data feed",
	"constraints, comments",
	"classic checkpoints alone",
	"islands",
	"tables of `gscd ingest`",
}

// operations are what is done to each of those.
var operations = []string{"insert", "delete", "update", "merge", "optimize", "add column", "restore"}

// verdict says what became of one engine and one feature: "yes", "no", "partly", or "" where the
// engine has nothing of the kind or was not asked. Note says why; Yes may have one too.
type verdict struct {
	Outcome string `json:"outcome"`
	Note    string `json:"note,omitempty"`
}

// verdicts are by feature and engine.
type verdicts map[string]map[string]verdict

// results are what the tests found, as they lie in testdata.
type results struct {
	Read    verdicts `json:"read"`
	Written verdicts `json:"written"`
}

const (
	resultsFile  = "testdata/compatibility.json"
	tableBegin   = "<!-- made by the tests of integration/, from " + resultsFile + " -->"
	tableEnd     = "<!-- end of what the tests made -->"
	compatiblity = "../docs/compatibility.md"
)

func loadResults(t testing.TB) results {
	t.Helper()
	r := results{verdicts{}, verdicts{}}
	raw, err := os.ReadFile(filepath.FromSlash(resultsFile))
	if os.IsNotExist(err) {
		return r
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// render makes the part of the document that the results decide.
func (r results) render() string {
	var b strings.Builder
	var notes []string
	table := func(title string, features []string, v verdicts, writers bool) {
		b.WriteString("\n| " + title + " |")
		rule := "|---|"
		for _, e := range otherEngines {
			if e.writes || !writers {
				b.WriteString(" " + e.name + " |")
				rule += "---|"
			}
		}
		b.WriteString("\n" + rule + "\n")
		for _, f := range features {
			b.WriteString("| " + f + " |")
			for _, e := range otherEngines {
				if !e.writes && writers {
					continue
				}
				cell := v[f][e.name].Outcome
				if cell == "" {
					cell = "–"
				}
				if note := v[f][e.name].Note; note != "" {
					i := slices.Index(notes, note)
					if i < 0 {
						i, notes = len(notes), append(notes, note)
					}
					cell += fmt.Sprintf(" (%d)", i+1)
				}
				b.WriteString(" " + cell + " |")
			}
			b.WriteByte('\n')
		}
	}
	var names []string
	for _, e := range otherEngines {
		names = append(names, e.name+" "+e.version)
	}
	b.WriteString("Tried: " + strings.Join(names, ", ") + ".\n")
	table("read", readFeatures, r.Read, false)
	table("written on: "+strings.Join(operations, ", "), writeFeatures, r.Written, true)
	b.WriteByte('\n')
	for i, n := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, n)
	}
	return b.String()
}

// save writes results and document.
func (r results) save(t testing.TB) {
	t.Helper()
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.FromSlash(resultsFile), append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	page := string(readFile(t, filepath.FromSlash(compatiblity)))
	begin, end := strings.Index(page, tableBegin), strings.Index(page, tableEnd)
	if begin < 0 || end < begin {
		t.Fatalf("%s has no place for the table", compatiblity)
	}
	page = page[:begin] + tableBegin + "\n\n" + r.render() + "\n" + page[end:]
	if err := os.WriteFile(filepath.FromSlash(compatiblity), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCompatibilityTable holds the table of the document against what the tests with the
// engines found last, and that against the features and engines that they try.
func TestCompatibilityTable(t *testing.T) {
	r := loadResults(t)
	for _, side := range []struct {
		features []string
		v        verdicts
	}{{readFeatures, r.Read}, {writeFeatures, r.Written}} {
		for f, found := range side.v {
			if !slices.Contains(side.features, f) {
				t.Errorf("the results have %q, which nothing tries", f)
			}
			for e, v := range found {
				if v.Outcome != "yes" && v.Note == "" {
					t.Errorf("%s, %s: no, and nothing says why", f, e)
				}
			}
		}
		for _, f := range side.features {
			if side.v[f] == nil {
				t.Errorf("the results have no %q: run the engines with GSCD_MATRIX=write", f)
			}
		}
	}
	page := string(readFile(t, filepath.FromSlash(compatiblity)))
	_, rest, found := strings.Cut(page, tableBegin)
	table, _, ended := strings.Cut(rest, tableEnd)
	if !found || !ended || strings.TrimSpace(table) != strings.TrimSpace(r.render()) {
		t.Errorf("the table in %s is not that of the results: run the engines with GSCD_MATRIX=write", compatiblity)
	}
	requirements := string(readFile(t, filepath.FromSlash("engines/requirements.txt"))) + string(readFile(t, filepath.FromSlash("engines/spark-requirements.txt"))) +
		string(readFile(t, filepath.FromSlash("engines/trino.txt")))
	for _, pin := range []string{"deltalake==1.6.6", "polars==2.1.0", "duckdb==1.5.5", "chdb==4.4.0", "pyspark==4.1.2", "delta-spark==4.4.0", "trino-server:476"} {
		if !strings.Contains(requirements, pin) {
			t.Errorf("what is installed is not %s, which the table names", pin)
		}
	}
}
