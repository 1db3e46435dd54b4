//go:build cgo

package sql_test

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/sql"
)

// regrouped copies a table and cuts its data files into row groups of three rows.
// The log gets their new sizes.
func regrouped(t testing.TB, from objstore.Store) objstore.Store {
	t.Helper()
	to := mem.New()
	sizes := map[string]int{}
	logs := map[string][]byte{}
	for o, err := range from.List(ctx, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, err := from.Get(ctx, o.Key)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.Contains(o.Key, "checkpoint"):
			continue // the log has everything yet
		case strings.HasPrefix(o.Key, "_delta_log/") && path.Ext(o.Key) == ".json":
			logs[o.Key] = data
			continue
		case path.Ext(o.Key) == ".parquet":
			data = inGroups(t, from, data)
			sizes[o.Key] = len(data)
		}
		if err := to.Put(ctx, o.Key, data); err != nil {
			t.Fatal(err)
		}
	}
	for key, data := range logs {
		var out bytes.Buffer
		for line := range bytes.Lines(data) {
			var action map[string]map[string]json.RawMessage
			if json.Unmarshal(line, &action) == nil && action["add"] != nil {
				var name string
				if err := json.Unmarshal(action["add"]["path"], &name); err != nil {
					t.Fatal(err)
				}
				line = bytes.Replace(line, append([]byte(`"size":`), action["add"]["size"]...), []byte(`"size":`+itoa(sizes[name])), 1)
			}
			out.Write(line)
		}
		if err := to.Put(ctx, key, sumOfCommit.ReplaceAll(out.Bytes(), nil)); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// sumOfCommit is of the bytes as they were.
var sumOfCommit = regexp.MustCompile(`,"sha256":"[0-9a-f]{64}"`)

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func inGroups(t testing.TB, store objstore.Store, data []byte) []byte {
	t.Helper()
	s, err := openSource(store, "table")
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	var columns []parquet.Column // the hidden ones have nothing to do here
	for _, c := range f.Columns() {
		if i := s.Newest.Schema().IndexFold(c.Name); i >= 0 {
			columns = append(columns, parquet.Column{Name: c.Name, Type: s.Newest.Schema().Fields[i].Type})
		}
	}
	var rows [][]schema.Value
	for b, err := range f.Scan(ctx, columns, parquet.ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Rows {
			row := make([]schema.Value, len(columns))
			for c := range columns {
				row[c] = b.Columns[c][i]
			}
			rows = append(rows, row)
		}
	}
	e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{RowGroupRows: 3})
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := e.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var (
	makeRemote sync.Once
	remoteShop shop
)

// farShop gives the tables of localShop in stores that DuckDB can't reach, with data
// files of many row groups, and has excerpts made of them as of large files: no byte
// comes that is not asked for.
func farShop(t testing.TB) (s shop, restore func()) {
	t.Helper()
	localShop(t)
	makeRemote.Do(func() { remoteShop = shop{regrouped(t, sharedShop.users), regrouped(t, sharedShop.orders)} })
	return remoteShop, sql.SetExcerpts(8, -1)
}

// Whatever is asked, excerpts of the files give the rows that the files give.
func TestExcerptsAreEnough(t *testing.T) {
	s, restore := farShop(t)
	defer restore()
	statements := slices.Clone(excerptStatements)
	for i, statement := range statements {
		restoreParts := sql.SetMaxParts(i % 2 * 32)
		sameAsWarehouse(t, statement, s)
		restoreParts()
	}
}

// Tables of this machine and of another store go together.
func TestTablesHereAndThere(t *testing.T) {
	s, restore := farShop(t)
	defer restore()
	for _, mixed := range []shop{{sharedShop.users, s.orders}, {s.users, sharedShop.orders}} {
		for i, statement := range []string{
			"SELECT o.id, u.name FROM orders o JOIN user_dim u ON o.uid = u.id AND o.dt = u.dt WHERE o.dt = '2022-07-12' AND o.id > 20 AND u.id < 4",
			"SELECT u.city, sum(o.price) FROM orders o JOIN user_dim u ON o.uid = u.id AND o.dt = u.dt WHERE o.dt >= '2022-07-15' GROUP BY u.city",
			"SELECT id FROM user_dim WHERE dt = '2022-07-12' AND id < 8 EXCEPT SELECT uid FROM orders WHERE dt = '2022-07-12' AND price > 12",
		} {
			restoreParts := sql.SetMaxParts(i % 2 * 32)
			sameAsWarehouse(t, statement, mixed)
			restoreParts()
		}
	}
}

// A column costs less than all, and a few of its rows less than the column; and a file
// that can't have them nothing.
func TestExcerptsAreNoMore(t *testing.T) {
	s, restore := farShop(t)
	defer restore()
	counted := counting.New(s.users)
	o := sql.Options{Tables: []sql.Table{table(counted, "user_dim")}}
	read := func(statement string) (bytes int64, files int) {
		t.Helper()
		counted.Reset()
		a := mustAsk(t, o, statement)
		if a.stats.Files != len(counted.Opened()) {
			t.Errorf("%s: %d files, %q were opened", statement, a.stats.Files, counted.Opened())
		}
		vectors := counted.Data().Read - a.stats.Fetched
		if a.stats.Fetched <= 0 || vectors < 0 || a.stats.Fetched > a.stats.Bytes {
			t.Errorf("%s: %+v of %s", statement, a.stats, counted.Data())
		}
		return a.stats.Fetched, a.stats.Files
	}
	all, files := read("SELECT * FROM user_dim WHERE dt = '2022-07-12'")
	column, _ := read("SELECT name FROM user_dim WHERE dt = '2022-07-12'")
	rows, some := read("SELECT name FROM user_dim WHERE dt = '2022-07-12' AND id = 18")
	none, few := read("SELECT name FROM user_dim WHERE dt = '2022-07-12' AND id >= 25")
	count, _ := read("SELECT count(*) FROM user_dim WHERE dt = '2022-07-12' AND id = 18")
	t.Logf("%d bytes of %d files; a column %d; a row %d of %d files; rows of the last days %d of %d files; one row counted %d", all, files, column, rows, some, none, few, count)
	if column >= all || rows >= column || count >= rows || some > files || few != 1 {
		t.Error("more was read than is needed")
	}
}

// excerptStatements name columns in every way that there is.
var excerptStatements = []string{
	"SELECT * FROM user_dim WHERE dt = '2022-07-12'",
	"SELECT id FROM user_dim WHERE dt = '2022-07-12' AND id > 10",
	"SELECT id FROM user_dim WHERE dt = '2022-07-12' AND id = 5 AND city = 'Wuhan'",
	"SELECT count(*) FROM user_dim WHERE dt = '2022-07-12' AND id BETWEEN 4 AND 9",
	"SELECT dt, count(*) FROM user_dim WHERE dt >= '2022-07-12' AND id < 12 GROUP BY dt",
	"SELECT name FROM user_dim WHERE dt = '2022-07-12' AND born > DATE '1997-05-25' AND amount < 9000.5",
	"SELECT name FROM user_dim WHERE dt = '2022-07-12' AND seen > TIMESTAMP '2022-04-15 05:20:00.000007'",
	"SELECT name FROM user_dim WHERE dt = '2022-07-12' AND name LIKE 'user 1%'",
	"SELECT (SELECT count(*) FROM user_dim WHERE dt = '2022-07-12'), name FROM user_dim WHERE dt = '2022-07-12' AND id = 3",
	"SELECT (SELECT count(*) FROM user_dim b WHERE b.dt = '2022-07-12' AND b.id <> a.id), name FROM user_dim a WHERE dt = '2022-07-12' AND id = 3",
	"SELECT * FROM (SELECT id, name FROM user_dim WHERE dt = '2022-07-12' AND id < 6 ORDER BY id) a POSITIONAL JOIN (SELECT price, dt FROM orders WHERE dt = '2022-07-12' ORDER BY id) b",
	"SELECT a.id, b.id FROM user_dim a ASOF JOIN orders b ON a.id >= b.uid WHERE a.dt = '2022-07-12' AND b.dt = '2022-07-12' AND a.id < 5 AND b.id > 26",
	"SELECT count(*) FROM user_dim a JOIN orders b ON a.id < b.uid AND a.score > b.price / 100 WHERE a.dt = '2022-07-12' AND b.dt = '2022-07-12'",
	"WITH RECURSIVE r AS (SELECT id, name FROM user_dim WHERE dt = '2022-07-12' AND id = 3 UNION ALL SELECT u.id, u.name FROM user_dim u JOIN r ON u.id = r.id + 1 WHERE u.dt = '2022-07-12') SELECT * FROM r",
	"WITH m AS MATERIALIZED (SELECT * FROM user_dim WHERE dt = '2022-07-12') SELECT a.city, b.name FROM m a JOIN m b ON a.id = b.id + 1 WHERE a.id > 7",
	"SELECT u FROM user_dim u WHERE u.dt = '2022-07-12' AND u.id > 12",
	"SELECT COLUMNS('^(id|city)$') FROM user_dim WHERE dt = '2022-07-12'",
	"SELECT * EXCLUDE (photo, name) FROM user_dim WHERE dt = '2022-07-12' AND vip",
	"SELECT id, row_number() OVER (PARTITION BY city ORDER BY amount DESC) AS n FROM user_dim WHERE dt = '2022-07-12' QUALIFY n = 1",
	"SELECT id, name FROM user_dim WHERE dt = '2022-07-12' ORDER BY amount DESC LIMIT 3",
	"SELECT id, name, photo FROM user_dim WHERE dt >= '2022-07-12' ORDER BY score DESC, dt LIMIT 5",
	"SELECT city, max(name), min(born) FROM user_dim WHERE dt = '2022-07-12' GROUP BY city HAVING count(*) > 3",
	"SELECT a.name FROM user_dim a WHERE a.dt = '2022-07-12' AND a.id IN (SELECT uid FROM orders WHERE dt = '2022-07-12' AND price > 51)",
	"SELECT a.name FROM user_dim a WHERE a.dt = '2022-07-12' AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.dt = '2022-07-12' AND o.uid = a.id AND o.price >= 52)",
	"SELECT o.price, l.name FROM orders o, LATERAL (SELECT name FROM user_dim u WHERE u.id = o.uid AND u.dt = '2022-07-12') l WHERE o.dt = '2022-07-12' AND o.id > 20",
	"SELECT * FROM (PIVOT (SELECT city, id, score FROM user_dim WHERE dt = '2022-07-12') ON city IN ('Beijing', 'Wuhan') USING sum(score) GROUP BY id)",
	"SELECT * FROM (UNPIVOT (SELECT id, amount, score::DECIMAL(12,2) AS score FROM user_dim WHERE dt = '2022-07-12') ON amount, score INTO NAME what VALUE worth)",
	"SELECT city FROM user_dim WHERE dt = '2022-07-12' AND id < 4 UNION ALL SELECT name FROM user_dim WHERE dt = '2022-07-12' AND id > 12 UNION SELECT 'it''s __gscd_0_1'",
	"SELECT name FROM user_dim WHERE dt = '2022-07-12' AND (id = 3 OR city = 'Beijing') AND name <> '__gscd_0_7=5'",
	"SELECT count(*), count(vip), count(DISTINCT city) FROM user_dim WHERE dt = '2022-07-12'",
	"SELECT a.id FROM user_dim a JOIN user_dim b ON a.id = b.id WHERE a.dt = '2022-07-12' AND b.dt = '2022-07-12' AND a.id < 4 AND b.city = 'Wuhan'",
	"SELECT a.id, b.name FROM user_dim a JOIN user_dim b ON a.id = b.id WHERE a.dt = '2022-07-12' AND b.dt = '2022-07-13' AND b.id >= 15",
	"SELECT max(id) FROM user_dim WHERE dt = '2022-07-12' AND id > 1000",
	"SELECT id FROM user_dim WHERE dt = '2022-07-12' AND id IN (2, 3, 30)",
	"SELECT id FROM user_dim WHERE dt = '2022-07-12' AND city IS NULL AND id <= 9",
	"SELECT id FROM user_dim WHERE dt = '2022-07-12' USING SAMPLE 100 PERCENT (bernoulli)",
}

// The same of conditions that nobody thought of.
func TestExcerptsOfAnything(t *testing.T) {
	s, restore := farShop(t)
	defer restore()
	rapid.Check(t, func(t *rapid.T) {
		column := rapid.SampledFrom([]string{"id", "name", "amount", "score", "born", "city"})
		operand := func(c string) string {
			id := rapid.IntRange(0, 32).Draw(t, "id")
			return map[string]string{
				"id": itoa(id), "name": "'user " + itoa(id) + "'", "amount": itoa(id*1000) + ".05", "score": itoa(id) + "/4",
				"born": "DATE '1997-05-19' + " + itoa(id), "city": "'Wuhan'",
			}[c]
		}
		op := rapid.SampledFrom([]string{"=", "<>", "<", "<=", ">", ">="})
		var condition func(of string, depth int) string
		condition = func(of string, depth int) string {
			if depth > 0 && rapid.Bool().Draw(t, "deeper") {
				return "(" + condition(of, depth-1) + rapid.SampledFrom([]string{" AND ", " AND ", " OR "}).Draw(t, "and") + condition(of, depth-1) + ")"
			}
			c := column.Draw(t, "column")
			return of + "." + c + " " + op.Draw(t, "op") + " " + operand(c)
		}
		first, second := genLabel.Draw(t, "first"), genLabel.Draw(t, "second")
		of := func(name, label string) string {
			return name + ".dt = '" + label + "' AND " + condition(name, 2)
		}
		join := rapid.SampledFrom([]string{"JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN"}).Draw(t, "join")
		statement := rapid.SampledFrom([]string{
			"SELECT a.id, a." + column.Draw(t, "output") + " FROM user_dim a WHERE " + of("a", first),
			"SELECT count(*), max(a." + column.Draw(t, "output") + ") FROM user_dim a WHERE " + of("a", first),
			"SELECT a.dt, count(*), sum(a.amount) FROM user_dim a WHERE a.dt >= '" + first + "' AND " + condition("a", 2) + " GROUP BY a.dt",
			"SELECT count(*), sum(a.score) FROM (SELECT * FROM user_dim a WHERE " + of("a", first) + ") a " + join + " (SELECT * FROM user_dim b WHERE " + of("b", second) + ") b ON a.id = b.id",
			"SELECT a.name FROM user_dim a WHERE " + of("a", first) + " AND a.id NOT IN (SELECT id FROM user_dim b WHERE " + of("b", second) + ")",
		}).Draw(t, "statement")
		restore := sql.SetMaxParts(rapid.SampledFrom([]int{0, 32}).Draw(t, "parts"))
		sameAsWarehouse(t, statement, s)
		restore()
	})
}

// What is counted without a scan is counted all the same: DuckDB takes numbers of rows
// from footers, and a plan then has nothing of the table.
func TestCountsWithoutAScan(t *testing.T) {
	s, restore := farShop(t)
	defer restore()
	for _, statement := range []string{
		"SELECT count(*) FROM orders WHERE dt = '2022-07-12'",
		"SELECT (SELECT count(*) FROM orders WHERE dt = '2022-07-12') AS n, id FROM user_dim WHERE dt = '2022-07-12' AND id < 4",
		"SELECT u.id, o.n FROM user_dim u, (SELECT count(*) AS n FROM orders WHERE dt = '2022-07-12') o WHERE u.dt = '2022-07-12' AND u.id < 4",
		"SELECT u.id, o.a, o.b FROM user_dim u, (SELECT min(id) AS a, max(id) AS b FROM orders WHERE dt = '2022-07-12') o WHERE u.dt = '2022-07-12' AND u.id < 4",
		"SELECT id FROM user_dim WHERE dt = '2022-07-12' AND EXISTS (SELECT 1 FROM orders WHERE dt = '2022-07-12')",
		"SELECT id, (SELECT count(*) FROM user_dim WHERE dt = '2022-07-07') AS n FROM orders WHERE dt = '2022-07-12' AND id < 9",
	} {
		sameAsWarehouse(t, statement, s)
	}
}

// An error that is found while the plan is asked for ends the statement, no more.
func TestFaultsOfFarTables(t *testing.T) {
	s, restore := farShop(t)
	defer restore()
	for _, statement := range []string{
		"SELECT nope FROM orders WHERE dt = '2022-07-12'",
		"SELECT id + 'a'::DATE FROM orders WHERE dt = '2022-07-12'",
	} {
		rows, err := sql.Run(ctx, statement, sql.Options{Tables: s.tables()})
		if err == nil {
			rows.Close()
			t.Errorf("%s: no error", statement)
		}
		if _, err := sql.Explain(ctx, statement, sql.Options{Tables: s.tables(), TempDir: t.TempDir()}); err == nil {
			t.Errorf("%s is explained", statement)
		}
	}
}
