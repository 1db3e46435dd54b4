//go:build integration

package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/write"
)

// TestClusteringWithSpark optimizes a clustered table of Spark's: Spark reads it, takes
// the files for the cube that they are, and the other way round.
func TestClusteringWithSpark(t *testing.T) {
	t.Parallel()
	spark := startEngine(t, "Spark")
	path := t.TempDir()
	table := delta.New(localStore(t, path))
	run := func(text string) {
		t.Helper()
		if _, err := spark.ask(t, request{"do": "sql", "path": path, "text": text}); err != nil {
			t.Fatal(err)
		}
	}
	query := func(text string) []string {
		t.Helper()
		c, err := spark.ask(t, request{"do": "query", "path": path, "text": text})
		if err != nil {
			t.Fatal(err)
		}
		var rows []string
		for _, row := range c.Rows {
			var cells []string
			for _, cell := range row {
				cells = append(cells, *cell)
			}
			rows = append(rows, strings.Join(cells, " "))
		}
		return rows
	}
	state := func() []string {
		return query("SELECT count(*), sum(id), sum(a * id), sum(length(b)) FROM {path}")
	}
	optimize := func(files, versions int) *delta.Snapshot {
		t.Helper()
		r, err := layout.Optimize(ctx, table, layout.Options{TargetSize: 8 << 10})
		if err != nil || r.FilesRemoved != files || len(r.Versions) != versions {
			t.Fatalf("%+v, %v", r, err)
		}
		return r.Snapshot
	}
	run("CREATE TABLE {path} (id BIGINT, a BIGINT, b STRING) USING delta CLUSTER BY (a, b)")
	run("INSERT INTO {path} SELECT /*+ COALESCE(1) */ id, id * 7919 % 100, concat('b', id * 104729 % 997) FROM range(5000)")
	var rows [][]any
	for i := range 500 {
		rows = append(rows, []any{10_000 + i, i % 100, "b"})
	}
	if _, err := write.Append(ctx, table, write.Values(rows)); err != nil {
		t.Fatal(err)
	}
	before := state()
	s := optimize(2, 1)
	if after := state(); !slices.Equal(after, before) || len(s.Files()) < 3 {
		t.Fatalf("Spark has %v of %d files, want %v", after, len(s.Files()), before)
	}
	run("OPTIMIZE {path}") // one cube by the table's columns: nothing to do
	if newest, err := table.Snapshot(ctx); err != nil || newest.Version() != s.Version() {
		t.Fatalf("Spark lays a cube of gscd out again: version %d, %v", newest.Version(), err)
	}
	run("INSERT INTO {path} SELECT id + 20000, id % 7, 'b' FROM range(300)")
	run("OPTIMIZE {path}")
	newest, err := table.Snapshot(ctx)
	if err != nil || newest.Version() != s.Version()+2 {
		t.Fatalf("version %d, %v", newest.Version(), err)
	}
	optimize(0, 0) // nor does gscd with a cube of Spark
}
