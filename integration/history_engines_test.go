//go:build integration

package integration

import (
	"encoding/csv"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The two queries of practice on a history table, in other engines: as of a day by
// valid_from and valid_to, and the present by the open end. Both are what `gscd query` says.
func TestHistoryInOtherEngines(t *testing.T) {
	for _, name := range []string{"DuckDB", "Spark"} {
		t.Run(name, func(t *testing.T) { historyIn(t, startEngine(t, name), strings.ToLower(name)) })
	}
}

func historyIn(t *testing.T, e *engine, dialect string) {
	dir := t.TempDir()
	gscd(t, "demo", "--dir", dir)
	address, history := filepath.Join(dir, "user_dim"), filepath.Join(dir, "history")
	gscd(t, "scd2", "--table", address, "--out", history)
	from, text := "delta_scan('"+history+"')", "VARCHAR"
	switch dialect {
	case "spark":
		from, text = "delta.`"+history+"`", "STRING"
	case "trino":
		if _, err := e.ask(t, request{"do": "sql", "path": history, "text": "CALL delta.system.register_table('default', 'history', 'local://" + history + "')"}); err != nil {
			t.Fatal(err)
		}
		from = "delta.default.history"
	}
	ask := func(where string) (rows []string) {
		t.Helper()
		got, err := e.ask(t, request{"do": "query", "path": history, "text": "SELECT CAST(id AS " + text + ") AS id, name, city FROM " + from + " WHERE " + where})
		if err != nil {
			t.Fatal(err)
		}
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
		slices.Sort(rows)
		return rows
	}
	own := func(label string) (rows []string) {
		t.Helper()
		out := gscd(t, "query", "--table", address, "--as-of", label, "--format", "csv", "--columns", "id,name,city")
		records, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records[1:] {
			rows = append(rows, strings.Join(r, "|"))
		}
		slices.Sort(rows)
		return rows
	}
	for _, label := range []string{"2022-07-14", "2022-07-15", "2022-07-16", "2022-07-17"} {
		at := "DATE '" + label + "'"
		if got, want := ask("valid_from <= "+at+" AND valid_to > "+at), own(label); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("as of %s: got %q\nwant %q", label, got, want)
		}
	}
	if got, want := ask("valid_to = DATE '5999-01-01'"), own("2022-07-17"); !slices.Equal(got, want) {
		t.Errorf("the present: got %q\nwant %q", got, want)
	}
	if got, want := ask("is_current"), own("2022-07-17"); !slices.Equal(got, want) {
		t.Errorf("current rows: got %q\nwant %q", got, want)
	}
}
