//go:build cgo

package sql_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/savepoint"
)

// reference has the tables of the shop as a warehouse has them: every row of every
// day, with the day beside it. The plain reader filled it.
var reference = sync.OnceValues(func() (*sql.Reference, error) {
	r, err := sql.NewReference()
	if err != nil {
		return nil, err
	}
	for name, store := range map[string]objstore.Store{"user_dim": sharedShop.users, "orders": sharedShop.orders} {
		s, err := openSource(store, name)
		if err != nil {
			return nil, err
		}
		fields := append(slices.Clone(s.Newest.Schema().Fields), schema.Field{Name: "dt", Type: schema.Of(schema.StringType)})
		var rows [][]schema.Value
		for _, e := range s.Labels.Entries {
			at := s.Newest
			if e.State == savepoint.Sealed {
				if at, err = s.Table.SnapshotAt(ctx, e.Version); err != nil {
					return nil, err
				}
			}
			reading, err := scan.New(store, at, scan.Options{})
			if err != nil {
				return nil, err
			}
			columns := reading.Columns()
			for row, err := range reading.Rows(ctx) {
				if err != nil {
					return nil, err
				}
				wide := make([]schema.Value, len(fields))
				for i, c := range columns {
					at := slices.IndexFunc(fields, func(f schema.Field) bool { return f.Name == c.Name })
					wide[at] = row[i]
				}
				wide[len(fields)-1] = schema.StringValue(e.Name)
				rows = append(rows, wide)
			}
		}
		if err := r.Create(name, fields, rows); err != nil {
			return nil, err
		}
	}
	return r, nil
})

// sameAsWarehouse runs a statement that uses dt on both, and compares the rows.
func sameAsWarehouse(t interface {
	Fatalf(string, ...any)
}, statement string, tables shop) (stats sql.Stats) {
	r, err := reference()
	if err != nil {
		t.Fatalf("%v", err)
	}
	columns, rows, wantErr := r.Query(statement)
	answer, err := sql.Run(ctx, statement, sql.Options{Tables: tables.tables()})
	if err == nil {
		defer answer.Close()
	}
	var want, got string
	if wantErr == nil {
		want, _ = printed(columns, func(yield func([]schema.Value, error) bool) {
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		})
	}
	if err == nil {
		stats = answer.Stats()
		got, err = printed(answer.Columns(), answer.All())
	}
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%s\n%v, the warehouse says %v", statement, err, wantErr)
	}
	if err == nil && sorted(got) != sorted(want) {
		t.Fatalf("%s\n%d days, %d files; got\n%swant\n%s", statement, stats.Days, stats.Files, sorted(got), sorted(want))
	}
	return stats
}

func sorted(lines string) string {
	list := strings.SplitAfter(lines, "\n")
	slices.Sort(list)
	return strings.Join(list, "")
}

// Statements that are written for daily partitions give what they give there; the
// days that they see are counted.
func TestLikeAWarehouse(t *testing.T) {
	localShop(t)
	for i, c := range []struct {
		days      int // over both tables
		statement string
	}{
		// One day.
		{1, "SELECT * FROM user_dim WHERE dt = '2022-07-09'"},
		{1, "SELECT count(*), sum(amount), max(vip) FROM user_dim WHERE dt='2022-07-16'"},
		{1, "SELECT * FROM user_dim WHERE '2022-07-09' = dt AND city = 'Wuhan'"},
		{1, "SELECT * FROM user_dim WHERE dt = DATE '2022-07-09'"},
		{1, "SELECT * FROM user_dim WHERE CAST(dt AS DATE) = CAST('2022-07-09' AS DATE)"},
		{1, "SELECT * FROM user_dim WHERE dt = strftime(DATE '2022-07-10' - 1, '%Y-%m-%d')"},
		{1, "SELECT * FROM user_dim WHERE dt = DATE '2022-07-10' - INTERVAL 1 DAY"},
		{1, "SELECT * FROM user_dim WHERE dt = TIMESTAMPTZ '2022-07-09 00:00:00+00'"},
		{1, "SELECT * FROM user_dim WHERE dt > '2022-07-08' AND dt < '2022-07-10'"},
		{1, "SELECT * FROM user_dim WHERE NOT (dt <> '2022-07-09')"},
		{1, "SELECT * FROM (SELECT * FROM user_dim) AS u WHERE u.dt = '2022-07-09'"},
		{1, "WITH day AS (SELECT * FROM user_dim) SELECT city, count(*) FROM day WHERE dt = '2022-07-09' GROUP BY city"},
		{1, "SELECT d, id FROM (SELECT dt AS d, id FROM user_dim) WHERE d = '2022-07-09'"},
		{1, "FROM user_dim SELECT id WHERE dt = '2022-07-17'"},
		{1, "SELECT * FROM user_dim WHERE dt LIKE '%-09'"},
		{1, "SELECT * FROM user_dim WHERE regexp_matches(dt, '-09$')"},
		{1, "SELECT * FROM user_dim WHERE right(dt, 2) = '09'"},
		{1, "SELECT * FROM user_dim WHERE day(dt::DATE) = 9"},
		{1, "SELECT * FROM user_dim WHERE date_diff('day', DATE '2022-07-09', dt::DATE) = 0"},
		// Two days joined.
		{2, "SELECT a.id, a.name, b.name FROM user_dim a JOIN user_dim b ON a.id = b.id WHERE a.dt = '2022-07-10' AND b.dt = '2022-07-09' AND a.name <> b.name"},
		{2, "SELECT a.id FROM user_dim a LEFT JOIN user_dim b ON a.id = b.id AND b.dt = '2022-07-09' WHERE a.dt = '2022-07-10' AND b.id IS NULL"},
		{2, "SELECT * FROM (SELECT * FROM user_dim WHERE dt = '2022-07-09') a FULL JOIN (SELECT * FROM user_dim WHERE dt = '2022-07-10') b USING (id)"},
		{2, "SELECT id FROM user_dim WHERE dt = '2022-07-10' EXCEPT SELECT id FROM user_dim WHERE dt = '2022-07-09'"},
		{2, "SELECT id FROM user_dim u WHERE dt = '2022-07-10' AND NOT EXISTS (SELECT 1 FROM user_dim b WHERE b.dt = '2022-07-09' AND b.id = u.id)"},
		{2, "SELECT id FROM user_dim WHERE dt = '2022-07-10' AND id NOT IN (SELECT id FROM user_dim WHERE dt = '2022-07-09')"},
		{2, "SELECT count(*) FILTER (WHERE dt = '2022-07-09'), count(*) FILTER (WHERE dt = '2022-07-10') FROM user_dim WHERE dt IN ('2022-07-09', '2022-07-10')"},
		{2, "SELECT * FROM user_dim WHERE dt = '2022-07-09' UNION ALL SELECT * FROM user_dim WHERE dt = '2022-07-10'"},
		{2, "SELECT * FROM user_dim WHERE (dt = '2022-07-09' AND id = 3) OR (dt = '2022-07-10' AND id = 4)"},
		// Two tables, and days that one of them gives to the other.
		{2, "SELECT o.id, u.name FROM orders o JOIN user_dim u ON o.uid = u.id AND o.dt = u.dt WHERE o.dt = '2022-07-12'"},
		{2, "SELECT o.id, u.name FROM orders o JOIN user_dim u ON o.uid = u.id AND u.dt = o.dt AND u.dt = '2022-07-12'"},
		{2, "SELECT o.id, u.name FROM orders o, user_dim u WHERE o.uid = u.id AND o.dt = u.dt AND u.dt = DATE '2022-07-12'"},
		{6, "SELECT dt, count(*) FROM orders o JOIN user_dim u USING (dt) WHERE dt BETWEEN '2022-07-10' AND '2022-07-12' AND o.uid = u.id GROUP BY dt"},
		{4, "SELECT dt, sum(price) FROM orders o LEFT JOIN user_dim u USING (dt) WHERE dt IN ('2022-07-10', '2022-07-11') AND o.uid = u.id GROUP BY dt"},
		{12, "SELECT o.id, u.name FROM orders o JOIN user_dim u ON o.uid = u.id WHERE u.dt = '2022-07-12'"},
		// Ranges.
		{3, "SELECT dt, count(*), sum(amount) FROM user_dim WHERE dt BETWEEN '2022-07-10' AND '2022-07-12' GROUP BY dt ORDER BY dt"},
		{3, "SELECT dt, count(*) FROM user_dim GROUP BY dt HAVING dt >= '2022-07-15'"},
		{3, "SELECT * FROM (SELECT dt, count(*) AS n FROM user_dim GROUP BY dt) WHERE dt >= '2022-07-15'"},
		{3, "SELECT dt, id, lag(name) OVER (PARTITION BY id ORDER BY dt) FROM user_dim WHERE dt >= '2022-07-15'"},
		{4, "SELECT dt, count(*) FROM user_dim WHERE dt::DATE BETWEEN DATE '2022-07-08' AND DATE '2022-07-11' GROUP BY ALL"},
		{11, "SELECT dt, count(*) FROM user_dim GROUP BY dt"},
		{11, "SELECT DISTINCT dt FROM user_dim"},
		{11, "SELECT min(dt), max(dt) FROM user_dim"},
		{11, "SELECT id, min(dt), max(dt) FROM user_dim GROUP BY id"},
		{11, "SELECT * FROM user_dim WHERE dt = (SELECT max(dt) FROM user_dim)"},
		{11, "SELECT count(*) FROM user_dim WHERE left(dt, 4) = '2022'"},
		{11, "SELECT count(*) FROM user_dim WHERE dt BETWEEN '2022-01-01' AND '2022-12-31'"},
		{2, "SELECT dt, count(*) FROM user_dim WHERE dt <= '2022-07-08' GROUP BY dt"},
		// Nothing.
		{0, "SELECT * FROM user_dim WHERE dt > '2023'"},
		{0, "SELECT * FROM user_dim WHERE dt = '2022-07-09' AND dt = '2022-07-10'"},
		{0, "SELECT count(*), max(dt) FROM user_dim WHERE dt LIKE '2021-%'"},
		{0, "SELECT * FROM user_dim WHERE dt IS NULL"},
		// What could be pruned wrongly.
		{3, "SELECT a.id, b.dt FROM user_dim a LEFT JOIN user_dim b ON a.id = b.id AND b.dt > '2022-07-15' WHERE a.dt = '2022-07-09'"},
		{12, "SELECT a.id, b.dt FROM user_dim a LEFT JOIN orders b ON a.id = b.uid WHERE a.dt = '2022-07-09' AND b.dt IS NULL"},
		{12, "SELECT a.id, b.dt FROM user_dim a LEFT JOIN orders b ON a.id = b.uid WHERE a.dt = '2022-07-09' AND coalesce(b.dt, '2022-07-10') = '2022-07-10'"},
		{22, "SELECT count(*) FROM user_dim a FULL JOIN orders b ON a.id = b.uid AND a.dt = '2022-07-09' AND b.dt = '2022-07-10'"},
		{11, "SELECT * FROM (SELECT dt, id, lag(name) OVER (PARTITION BY id ORDER BY dt) AS before FROM user_dim) WHERE dt = '2022-07-09'"},
		{11, "SELECT * FROM (SELECT dt, id FROM user_dim ORDER BY dt, id LIMIT 30) WHERE dt = '2022-07-08'"},
		{11, "SELECT count(*) FROM user_dim WHERE dt = '2022-07-09' OR id = 3"},
		{22, "SELECT * FROM (SELECT dt, id FROM user_dim UNION ALL SELECT '2020-01-01', 3) x JOIN orders o ON o.uid = x.id WHERE CAST(x.dt AS DATE) < DATE '2021-01-01'"},
		{1, "WITH c AS (SELECT DATE '2020-01-01' AS dt, 3 AS id) SELECT u.name FROM c JOIN user_dim u USING (id) WHERE c.dt < DATE '2021-01-01' AND u.dt = '2022-07-09'"},
		{1, "SELECT u.name FROM (VALUES (DATE '2020-01-01', 3)) c(dt, id) JOIN user_dim u USING (id) WHERE c.dt < DATE '2021-01-01' AND u.dt = '2022-07-09'"},
		{11, "SELECT (dt || 'x')[:10] AS dt, count(*) FROM user_dim GROUP BY 1 HAVING max(dt) >= '2022-07-10'"},
		{11, "SELECT CASE WHEN dt = '2022-07-09' THEN 'a' ELSE 'b' END, count(*) FROM user_dim GROUP BY 1"},
		{11, "SELECT count(*) FROM user_dim u WHERE EXISTS (SELECT 1 FROM (SELECT u.dt AS dt) x WHERE x.dt::DATE = DATE '2022-07-09')"},
		{2, "SELECT count(*) FROM user_dim WHERE dt IN ('2022-07-09', '2022-07-10') AND dt IN (SELECT '2022-07-10')"},
		{1, "SELECT u FROM user_dim u WHERE u.dt = '2022-07-09'"},
		{11, "SELECT count(*) FROM user_dim u WHERE struct_extract(u, 'dt') = '2022-07-09'"},
		{1, "SELECT * EXCLUDE (dt) FROM user_dim WHERE dt = '2022-07-09'"},
		{1, "SELECT COLUMNS('^(id|dt)$') FROM user_dim WHERE dt = '2022-07-09'"},
		{11, "SELECT * REPLACE ('2022-07-09' AS dt) FROM user_dim WHERE dt::DATE = DATE '2022-07-09' OR id = 2"},
		{1, `SELECT "DT" FROM "USER_DIM" WHERE "Dt" = '2022-07-09'`},
		{1, "SELECT main.user_dim.id FROM main.user_dim WHERE user_dim.dt = '2022-07-09'"},
	} {
		restore := sql.SetMaxParts(i % 2 * 32) // so that both ways of reading are taken
		got := sameAsWarehouse(t, c.statement, sharedShop)
		restore()
		if got.Days != c.days {
			t.Errorf("%s\n%d days are seen, want %d", c.statement, got.Days, c.days)
		}
	}
}

var genLabel = rapid.Custom(func(t *rapid.T) string { return dt(rapid.IntRange(0, sealedDays).Draw(t, "day")) })

// genCondition makes a condition on the labels, or on the ids, of a table.
func genCondition(t *rapid.T, of string, depth int) string {
	l := func() string { return "'" + genLabel.Draw(t, "label") + "'" }
	op := func() string {
		return rapid.SampledFrom([]string{"=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM"}).Draw(t, "op")
	}
	kinds := 12
	if depth > 0 {
		kinds = 16
	}
	c := of + ".dt"
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0, 1, 2:
		return c + " " + op() + " " + l()
	case 3:
		return l() + " " + op() + " " + c
	case 4:
		return c + rapid.SampledFrom([]string{" IN (", " NOT IN ("}).Draw(t, "in") + l() + ", " + l() + ", " + l() + ")"
	case 5:
		return c + " BETWEEN " + l() + " AND " + l()
	case 6:
		return "CAST(" + c + " AS DATE) " + op() + " DATE " + l()
	case 7:
		return c + " " + op() + " DATE " + l() + rapid.SampledFrom([]string{" + 0", " + INTERVAL 0 DAY"}).Draw(t, "plus")
	case 8:
		return c + " LIKE '%" + l()[9:]
	case 9:
		return "substr(" + c + ", 9) " + op() + " '1'"
	case 10:
		return of + ".id " + op() + " 7"
	case 11:
		return "coalesce(" + c + ", " + l() + ") = " + l()
	case 12:
		return c + rapid.SampledFrom([]string{" IS NULL", " IS NOT NULL"}).Draw(t, "null")
	case 13:
		return "NOT (" + genCondition(t, of, depth-1) + ")"
	}
	return "(" + genCondition(t, of, depth-1) + rapid.SampledFrom([]string{" AND ", " OR "}).Draw(t, "and") + genCondition(t, of, depth-1) + ")"
}

// Whatever is asked of the days, leaving some out never changes the answer.
func TestPruningIsExact(t *testing.T) {
	localShop(t)
	seen, of := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := genCondition(t, "a", 2), genCondition(t, "b", 2)
		join := rapid.SampledFrom([]string{"JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"}).Draw(t, "join")
		on := rapid.SampledFrom([]string{"a.id = b.id", "a.id = b.id AND a.dt = b.dt", "a.id = b.id AND a.dt < b.dt"}).Draw(t, "on")
		statement := rapid.SampledFrom([]string{
			"SELECT a.dt, count(*), sum(a.amount) FROM user_dim a WHERE " + a + " GROUP BY a.dt",
			"SELECT * FROM (SELECT * FROM user_dim) a WHERE " + a,
			"WITH a AS (SELECT id, dt FROM user_dim) SELECT * FROM a WHERE " + a,
			"SELECT count(*), min(a.dt), max(a.id) FROM user_dim a " + join + " orders b ON " + on + " AND " + b + " WHERE " + a,
			"SELECT count(*), min(a.dt), max(a.id) FROM user_dim a JOIN orders b ON " + on + " WHERE " + a + " AND " + b,
			"SELECT count(*), max(a.id) FROM user_dim a WHERE " + a + " AND a.id IN (SELECT id FROM orders b WHERE " + b + ")",
			"SELECT a.id FROM user_dim a WHERE " + a + " EXCEPT SELECT b.id FROM orders b WHERE " + b,
		}).Draw(t, "statement")
		if !strings.Contains(statement, ".dt") {
			return
		}
		restore := sql.SetMaxParts(rapid.SampledFrom([]int{0, 32}).Draw(t, "parts"))
		stats := sameAsWarehouse(t, statement, sharedShop)
		restore()
		seen += stats.Days
		of += strings.Count(statement, "FROM user_dim")*(sealedDays+1) + strings.Count(statement, "orders")*(sealedDays+1)
	})
	t.Logf("%d labels seen of %d", seen, of)
}
