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
	t.Parallel()
	for name, dialect := range map[string]string{"DuckDB": "duckdb", "Spark": "spark"} {
		t.Run(name, func(t *testing.T) {
			e := startEngine(t, name)
			viewsIn(t, e, dialect)
			practiceIn(t, e, dialect)
		})
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

// practiceIn asks the two queries of practice of a history table, as docs/scd2.md has them:
// the rows as of each day must be those of the day's savepoint.
func practiceIn(t *testing.T, e *engine, dialect string) {
	dir := t.TempDir()
	gscd(t, "demo", "--dir", dir)
	source, history := filepath.Join(dir, "user_dim"), filepath.Join(dir, "history")
	gscd(t, "scd2", "--table", source, "--out", history)
	table, text := "{path}", "VARCHAR"
	switch dialect {
	case "duckdb":
		table = "delta_scan('" + history + "')"
	case "spark":
		text = "STRING"
	}
	rows := func(where string) (list []string) {
		t.Helper()
		got, err := e.ask(t, request{"do": "query", "path": history, "text": "SELECT CAST(id AS " + text + ") AS id, name, city FROM " + table + " WHERE " + where})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.Rows {
			list = append(list, *r[0]+","+*r[1]+","+*r[2])
		}
		slices.Sort(list)
		return list
	}
	days := []string{"2022-07-14", "2022-07-15", "2022-07-16", "2022-07-17"}
	for _, day := range days {
		out := gscd(t, "query", "--table", source, "--as-of", day, "--columns", "id,name,city", "--format", "csv")
		want := strings.Split(strings.TrimSpace(string(out)), "\n")[1:]
		slices.Sort(want)
		sameList(t, "as of "+day, rows("valid_from <= DATE '"+day+"' AND valid_to > DATE '"+day+"'"), want)
		if day == days[len(days)-1] {
			sameList(t, "now", rows("valid_to = DATE '5999-01-01'"), want)
		}
	}
}
