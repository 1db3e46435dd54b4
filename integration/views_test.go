//go:build integration

package integration

import (
	"encoding/csv"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The view that gscd writes for an engine gives there the rows that `gscd query` gives,
// and may be made again.
func TestViewsInOtherEngines(t *testing.T) {
	for name, dialect := range map[string]string{"DuckDB": "duckdb", "Spark": "spark"} {
		t.Run(name, func(t *testing.T) { viewsIn(t, startEngine(t, name), dialect) })
	}
}

func viewsIn(t *testing.T, e *engine, dialect string) {
	dir := t.TempDir()
	gscd(t, "demo", "--dir", dir)
	address := filepath.Join(dir, "user_dim")
	sorted := func(list []string) []string { slices.Sort(list); return list }
	own := func(where string) (list []string) {
		out := gscd(t, "query", "--table", address, "--format", "csv", "SELECT dt, id, name, city FROM t WHERE "+where)
		records, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records[1:] {
			list = append(list, strings.Join(r, "|"))
		}
		return sorted(list)
	}
	do := func(what, text string) *content {
		t.Helper()
		got, err := e.ask(t, request{"do": what, "path": address, "text": text})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	args := []string{"views", "--table", address, "--dialect", dialect, "--name", "days"}
	if dialect == "trino" { // it finds tables by names
		do("sql", "CALL delta.system.register_table('default', 'user_dim', 'local://"+strings.ReplaceAll(address, "'", "''")+"')")
		args = append(args, "--source", "delta.default.user_dim")
	}
	statement := strings.TrimSuffix(string(gscd(t, args...)), ";\n")
	for range 2 {
		do("sql", statement)
	}
	text := "VARCHAR"
	if dialect == "spark" {
		text = "STRING"
	}
	for _, where := range []string{"dt < '2022-07-18'", "dt = '2022-07-16'", "dt IN ('2022-07-14', '2022-07-17') AND city = 'Beijing'"} {
		var rows []string
		for _, r := range do("query", "SELECT dt, CAST(id AS "+text+") AS id, name, city FROM days WHERE "+where).Rows {
			var cells []string
			for _, c := range r {
				if c == nil {
					cells = append(cells, "")
					continue
				}
				cells = append(cells, *c)
			}
			rows = append(rows, strings.Join(cells, "|"))
		}
		if want := own(where); len(want) == 0 || !slices.Equal(sorted(rows), want) {
			t.Errorf("%s: got %q\nwant %q", where, rows, want)
		}
	}
}
