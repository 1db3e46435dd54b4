package main

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/query/sql"
)

// gscdRunner gives what runs gscd in this process, and wants its exit code.
func gscdRunner(t *testing.T) func(code int, args ...string) (stdout, stderr string) {
	return func(code int, args ...string) (string, string) {
		t.Helper()
		a, stdout, stderr := newTestApp()
		if got := run(args, a, commands); got != code {
			t.Fatalf("gscd %s: exit %d, want %d: %s", strings.Join(args, " "), got, code, stderr)
		}
		return stdout.String(), stderr.String()
	}
}

var (
	rowForm  = regexp.MustCompile(`(?s)<tr>(.*?)</tr>`)
	cellForm = regexp.MustCompile(`(?s)<t[hd]([^>]*)>(.*?)</t[hd]>`)
	tagForm  = regexp.MustCompile(`<[^>]*>`)
)

// tableOf gives the texts of a table of a page, its header first.
func tableOf(t *testing.T, page, id string) (rows [][]string) {
	t.Helper()
	_, rest, ok := strings.Cut(page, `<table id="`+id+`">`)
	if !ok {
		t.Fatalf("the page has no table %s", id)
	}
	body, _, _ := strings.Cut(rest, "</table>")
	for _, row := range rowForm.FindAllStringSubmatch(body, -1) {
		var cells []string
		for _, c := range cellForm.FindAllStringSubmatch(row[1], -1) {
			cells = append(cells, html.UnescapeString(tagForm.ReplaceAllString(c[2], "")))
		}
		rows = append(rows, cells)
	}
	return rows
}

// The figures of a page are those that the other commands print.
func TestReportHasTheFigures(t *testing.T) {
	t.Parallel()
	gscd := gscdRunner(t)
	dir := t.TempDir()
	table, file := filepath.Join(dir, "demo", "user_dim"), filepath.Join(dir, "days.html")
	gscd(exitOK, "demo", "--dir", filepath.Join(dir, "demo"))
	said, _ := gscd(exitOK, "report", "--table", table, "--html", file, "--format", "jsonl")
	if want := fmt.Sprintf(`{"table":"user_dim","file":%q,"labels":6,"problems":2}`+"\n", file); said != want {
		t.Errorf("printed %s, want %s", said, want)
	}
	page := readText(t, file)

	days := tableOf(t, page, "days")
	list, _ := gscd(exitOK, "snapshots", "--table", table, "--format", "jsonl")
	lines := strings.Split(strings.TrimSpace(list), "\n")
	if len(days) != len(lines)+1 {
		t.Fatalf("%d days, want %d", len(days)-1, len(lines))
	}
	for i, line := range lines {
		var want map[string]any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		for c, name := range days[0] {
			got := days[i+1][c]
			switch v := want[name].(type) {
			case json.Number:
				got = strings.ReplaceAll(got, ",", "")
				if got != v.String() {
					t.Errorf("%s: %s is %s, want %s", want["label"], name, got, v)
				}
			case []any:
				var words []string
				for _, w := range v {
					words = append(words, w.(string))
				}
				if got != strings.Join(words, ", ") {
					t.Errorf("%s: %s is %q, want %q", want["label"], name, got, words)
				}
			case string:
				if name == "sealed_at" {
					v = v[:10] + " " + v[11:19] + " UTC"
				}
				if got != v {
					t.Errorf("%s: %s is %q, want %q", want["label"], name, got, v)
				}
			case nil:
				if got != "" {
					t.Errorf("%s: %s is %q, want nothing", want["label"], name, got)
				}
			}
		}
	}
	if len(days[0]) != 14 {
		t.Errorf("%d columns, want the 14 of snapshots: %q", len(days[0]), days[0])
	}
	for _, forbidden := range []string{"http:", "https:", "<script", "src=", "url(", "@import"} {
		if strings.Contains(page, forbidden) {
			t.Errorf("the page has %q", forbidden)
		}
	}
	if !sql.Built {
		t.Skip("built without DuckDB: values are not read")
	}
	for _, row := range tableOf(t, page, "profile")[1:] {
		column, label := row[0], row[1]
		want, _ := gscd(exitOK, "query", "--table", table, "--format", "csv",
			fmt.Sprintf("SELECT count(*), count(*) - count(%[1]s), count(DISTINCT %[1]s), min(%[1]s), max(%[1]s) FROM t WHERE dt = '%[2]s'", column, label))
		_, want, _ = strings.Cut(strings.TrimSpace(want), "\n")
		nulls, _, _ := strings.Cut(row[3], " ")
		if got := strings.Join([]string{row[2], nulls, row[4], row[5], row[6]}, ","); got != want {
			t.Errorf("%s in %s: %s, want %s", column, label, got, want)
		}
	}
	if problems := tableOf(t, page, "problems"); problems[1][1] != "dead letters" || problems[1][2] != "2022-07-16" || problems[2][1] != "rolled back" {
		t.Errorf("problems are %q", problems)
	}
}

// Names and values that are tags, quotes and SQL stay texts, in DuckDB and on the page.
func TestReportOfHostileNames(t *testing.T) {
	t.Parallel()
	gscd := gscdRunner(t)
	dir := t.TempDir()
	const column, value = `a"b'</td><script>alert(1)</script>`, `"><img src=x onerror=alert(2)>'); DROP TABLE t; --`
	var lines strings.Builder
	for i := range 40 {
		after := map[string]any{"id": i, column: value, "dt": fmt.Sprintf("own %d", i%4), "amount": i * 10}
		if i%5 == 0 {
			after[column] = nil
		}
		line, err := json.Marshal(map[string]any{"topic": "app.x", "partition": 0, "offset": i, "ts": 1657764000000 + i*6*3600_000, "key": map[string]any{"id": i}, "value": map[string]any{
			"op": "c", "after": after, "source": map[string]any{"connector": "mysql", "db": "x", "table": "x", "file": "bin.000001", "pos": 100 * (i + 1), "ts_ms": 1657764000000 + i*6*3600_000},
		}})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	input, table, file := filepath.Join(dir, "x.jsonl"), filepath.Join(dir, "x"), filepath.Join(dir, "x.html")
	if err := os.WriteFile(input, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	gscd(exitOK, "ingest", "--input", input, "--location", table, "--topic", "app.x", "--key", "id", "--timezone", "UTC", "--log-level", "error")

	gscd(exitOK, "report", "--table", table, "--html", file, "--labels", "3")
	page := readText(t, file)
	for _, never := range []string{"<script", "<img", "onerror=alert(2)>'"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if sql.Built {
		latest := tableOf(t, page, "latest")
		var found bool
		for _, row := range latest[1:] {
			found = found || row[0] == column && row[3] == "1" && row[4] == value
		}
		if !found {
			t.Errorf("the column is not described: %q", latest)
		}
	}

	// Without reading rows the statistics in the log must do.
	gscd(exitOK, "report", "--table", table, "--html", file, "--max-rows", "0", "--columns", "amount,id", "--no-check")
	page = readText(t, file)
	latest := tableOf(t, page, "latest")
	if len(latest) != 3 || latest[1][0] != "amount" || latest[1][3] != "not counted" || latest[1][4] != "0" || latest[1][5] != "390" {
		t.Errorf("from statistics: %q", latest)
	}
	if !strings.Contains(page, "gscd check was not run") || !strings.Contains(page, "No rows were read") {
		t.Error("the page does not say what was left out")
	}
	_, says := gscd(exitUsage, "report", "--table", table, "--html", file, "--columns", "nothing")
	if !strings.Contains(says, "no such column: nothing; the columns are") {
		t.Errorf("an unknown column: %s", says)
	}

	// A day whose file is gone is told, and the page is there.
	files, err := filepath.Glob(filepath.Join(table, "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	gscd(exitOK, "report", "--table", table, "--html", file)
	problems := tableOf(t, readText(t, file), "problems")
	var kinds []string
	for _, row := range problems[1:] {
		if strings.Contains(row[3], filepath.Base(files[0])) {
			kinds = append(kinds, row[1])
		}
	}
	if want := "check"; !strings.Contains(strings.Join(kinds, " "), want) || sql.Built && !strings.Contains(strings.Join(kinds, " "), "unread") {
		t.Errorf("a file is gone: %q", problems)
	}
}

// Several tables go into a folder, a file each; what is wrong leaves no file.
func TestReportOfSeveralTables(t *testing.T) {
	t.Parallel()
	gscd := gscdRunner(t)
	dir := t.TempDir()
	table := filepath.Join(dir, "demo", "user_dim")
	gscd(exitOK, "demo", "--dir", filepath.Join(dir, "demo"))
	if err := os.CopyFS(filepath.Join(dir, "demo", "orders"), os.DirFS(table)); err != nil {
		t.Fatal(err)
	}
	cfg := filepath.Join(dir, "gscd.yaml")
	text := fmt.Sprintf("calendar: {timezone: Asia/Shanghai}\ntables:\n  - {name: users, location: %s}\n  - {location: %s}\n  - {location: %s}\n", table, filepath.Join(dir, "demo", "orders"), filepath.Join(dir, "later"))
	if err := os.WriteFile(cfg, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	pages := filepath.Join(dir, "pages")
	_, says := gscd(exitOK, "report", "-c", cfg, "--html", pages, "--labels", "0")
	if !strings.Contains(says, "table later does not exist yet") {
		t.Errorf("said %q", says)
	}
	for _, name := range []string{"users", "orders"} {
		if page := readText(t, filepath.Join(pages, name+".html")); !strings.Contains(page, "<bdi>"+name+"</bdi></h1>") || strings.Contains(page, `id="latest"`) {
			t.Errorf("the page of %s is of another table, or describes columns", name)
		}
	}
	gscd(exitOK, "report", "-c", cfg, "--html", filepath.Join(dir, "one.html"), "--table", "users")
	readText(t, filepath.Join(dir, "one.html"))

	_, says = gscd(exitUsage, "report", "-c", cfg, "--html", filepath.Join(dir, "one.html"))
	if !strings.Contains(says, "is a file, and there are 3 tables") {
		t.Errorf("said %q", says)
	}
	gscd(exitUsage, "report", "-c", cfg, "--html", pages, "--table", table, "--table", filepath.Join(dir, "demo", "orders")+"/../user_dim")
	gscd(exitUsage, "report", "--table", table)
	gscd(exitUsage, "report", "--table", table, "--html", "x", "--labels", "-1")
	gscd(exitUsage, "report", "--table", table, "--html", "x", "--memory-limit", "none")
	gscd(exitFailed, "report", "--table", table, "--html", filepath.Join(dir, "nowhere", "x.html"))
	gscd(exitFailed, "report", "--table", dir, "--html", filepath.Join(dir, "x.html"))
	if left, err := filepath.Glob(filepath.Join(dir, "*.part")); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
