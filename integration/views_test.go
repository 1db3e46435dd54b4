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
	for name, dialect := range map[string]string{"DuckDB": "duckdb", "Spark": "spark"} {
		t.Run(name, func(t *testing.T) {
			e := startEngine(t, name)
			statement := strings.TrimSuffix(string(gscd(t, "views", "--table", address, "--dialect", dialect, "--name", "days")), ";\n")
			for range 2 {
				if _, err := e.ask(t, request{"do": "sql", "path": address, "text": statement}); err != nil {
					t.Fatal(err)
				}
			}
			for _, where := range []string{"dt < '2022-07-18'", "dt = '2022-07-16'", "dt IN ('2022-07-14', '2022-07-17') AND city = 'Beijing'"} {
				got, err := e.ask(t, request{"do": "query", "path": address, "text": "SELECT dt, CAST(id AS " + map[string]string{"spark": "STRING", "duckdb": "VARCHAR"}[dialect] + ") AS id, name, city FROM days WHERE " + where})
				if err != nil {
					t.Fatal(err)
				}
				var rows []string
				for _, r := range got.Rows {
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
		})
	}
}
