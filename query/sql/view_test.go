//go:build cgo

package sql_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/query/sql"
)

func TestParseView(t *testing.T) {
	for text, want := range map[string]sql.View{
		"CREATE VIEW a AS SELECT 1":                                          {Name: "a", Query: "SELECT 1"},
		"-- it\n create or replace temp view \"A \"\"b\" as\n FROM t ;\n":    {Name: `A "b`, Query: "FROM t"},
		"/* x */ CREATE TEMPORARY VIEW größe_2 AS(SELECT 1)":                 {Name: "größe_2", Query: "(SELECT 1)"},
		"CREATE VIEW v AS SELECT 'CREATE VIEW w AS SELECT 1' AS text FROM t": {Name: "v", Query: "SELECT 'CREATE VIEW w AS SELECT 1' AS text FROM t"},
	} {
		if got, isView, err := sql.ParseView(text); got != want || !isView || err != nil {
			t.Errorf("%q: %+v, %v, %v", text, got, isView, err)
		}
	}
	for _, text := range []string{"SELECT 1", "", "  ", "CREATED", "WITH x AS (SELECT 1) FROM x"} {
		if _, isView, err := sql.ParseView(text); isView || err != nil {
			t.Errorf("%q: %v, %v", text, isView, err)
		}
	}
	for _, text := range []string{"CREATE TABLE a AS SELECT 1", "CREATE VIEW a(b) AS SELECT 1", "CREATE VIEW a.b AS SELECT 1", "CREATE VIEW", "create macro f() as 1", "CREATE PERSISTENT SECRET s"} {
		if _, isView, err := sql.ParseView(text); !isView || err == nil {
			t.Errorf("%q: %v, %v", text, isView, err)
		}
	}
}

// A statement over views gives what it gives with their queries in their places, and
// opens no more days.
func TestViews(t *testing.T) {
	s := localShop(t)
	views := []sql.View{
		{Name: "big", Query: "SELECT * FROM orders WHERE price >= 30 -- the large ones"},
		{Name: "unused", Query: "SELECT nothing FROM user_dim"},
		{Name: "Daily", Query: "SELECT dt, count(*) AS n, sum(price) AS total FROM big GROUP BY dt"},
		{Name: "tenth", Query: "FROM orders WHERE dt::date = DATE '2022-07-10'"},
		{Name: "mixed", Query: "WITH b AS (SELECT * FROM daily) SELECT b.dt, b.n, u.city FROM b JOIN user_dim u ON b.dt = u.dt WHERE u.id = 15"},
		{Name: "now", Query: "SELECT id, price FROM orders"},
		{Name: "plain", Query: "SELECT * EXCLUDE (dt) FROM orders"},
	}
	inside := strings.NewReplacer("@big", "(SELECT * FROM orders WHERE price >= 30)", "@daily", "(SELECT dt, count(*) AS n, sum(price) AS total FROM (SELECT * FROM orders WHERE price >= 30) GROUP BY dt)")
	for _, c := range []struct{ with, without string }{
		{"SELECT * FROM daily WHERE dt = '2022-07-12'", inside.Replace("SELECT * FROM @daily WHERE dt = '2022-07-12'")},
		{"SELECT * FROM DAILY WHERE dt BETWEEN '2022-07-11' AND '2022-07-13' ORDER BY dt", inside.Replace("SELECT * FROM @daily WHERE dt BETWEEN '2022-07-11' AND '2022-07-13' ORDER BY dt")},
		{"SELECT id, dt FROM tenth ORDER BY id", "SELECT id, dt FROM orders WHERE dt = '2022-07-10' ORDER BY id"},
		{"SELECT a.id FROM tenth a JOIN big b USING (id) WHERE b.dt = '2022-07-12' ORDER BY 1", inside.Replace("SELECT a.id FROM orders a JOIN @big b USING (id) WHERE a.dt = '2022-07-10' AND b.dt = '2022-07-12' ORDER BY 1")},
		{"SELECT * FROM mixed WHERE dt = '2022-07-11'", inside.Replace("SELECT b.dt, b.n, u.city FROM @daily b JOIN user_dim u ON b.dt = u.dt WHERE u.id = 15 AND b.dt = '2022-07-11' AND u.dt = '2022-07-11'")},
		{"SELECT count(*), sum(price) FROM now", "SELECT count(*), sum(price) FROM orders"},
		{"SELECT count(*) FROM plain", "SELECT count(*) FROM orders"},
		{"WITH big AS (SELECT 1 AS one) SELECT * FROM big", "SELECT 1 AS one"}, // a CTE goes before
		{"SELECT count(*) FROM main.big WHERE dt = '2022-07-12'", inside.Replace("SELECT count(*) FROM @big WHERE dt = '2022-07-12'")},
		{"DESCRIBE daily", inside.Replace("DESCRIBE SELECT * FROM @daily")},
	} {
		got := mustAsk(t, sql.Options{Tables: s.tables(), Views: views}, c.with)
		want := mustAsk(t, sql.Options{Tables: s.tables()}, c.without)
		if got.csv != want.csv || got.stats.Days != want.stats.Days || got.stats.Files != want.stats.Files || got.csv == "" {
			t.Errorf("%s:\n%s%+v, want\n%s%+v", c.with, got.csv, got.stats, want.csv, want.stats)
		}
	}
	e, err := sql.Explain(ctx, "SELECT * FROM daily WHERE dt = '2022-07-12'", sql.Options{Tables: s.tables(), Views: views})
	if err != nil || len(e.Tables) != 1 || len(e.Tables[0].Days) != 1 || e.Tables[0].Days[0].Label != "2022-07-12" {
		t.Errorf("explained: %+v, %v", e, err)
	}
}

// A view reaches what a statement reaches; what is wrong in it is told with its name and
// its place there.
func TestViewsKeepTheFence(t *testing.T) {
	s := localShop(t)
	for query, want := range map[string]string{
		"SELECT * FROM read_csv('/etc/passwd')": "view v: the table function read_csv can't be used",
		"SELECT * FROM '/etc/passwd'":           `view v: "/etc/passwd" is no table`,
		"COPY orders TO 'x'":                    "view v: only a query can be run here",
		"SELECT 1; DROP TABLE t":                "view v: only a query can be run here", "SELECT 1; SELECT 2": "view v: there are 2 statements",
		"SELECT 1; ATTACH 'x'":                          "view v: only a query can be run here",
		"SELECT id,\n nmae FROM user_dim":               "view v: Referenced column \"nmae\" not found",
		"SELECT getenv('HOME')":                         "view v: the function getenv can't be used here",
		"SELECT * FROM v":                               "view v: there is no table v",
		"SELECT * FROM later":                           "view v: there is no table later",
		"SELECT * FROM":                                 "view v: syntax error",
		"EXPLAIN SELECT 1":                              "view v: ",
		"SELECT 1 AS a -- open":                         "",
		"SELECT ? AS a":                                 "view v: the statement has a parameter",
		"SELECT 1) AS x; CREATE VIEW y AS (SELECT 2":    "view v: syntax error",
		"SELECT * FROM (DESCRIBE orders)":               "",
		"SELECT * FROM duckdb_settings()":               "view v: the table function duckdb_settings can't be used",
		"SELECT * FROM information_schema.tables":       "view v: there is no table information_schema.tables",
		"SELECT * FROM __gscd.t0":                       "view v: there is no table __gscd.t0",
		"SELECT current_setting('temp_directory') AS a": "view v: the function current_setting can't be used here",
	} {
		for _, statement := range []string{"SELECT * FROM v", "SELECT * FROM v WHERE (SELECT count(*) FROM orders WHERE dt = '2022-07-12') > 0"} {
			rows, err := sql.Run(ctx, statement, sql.Options{Tables: s.tables(), Views: []sql.View{{Name: "v", Query: query}, {Name: "later", Query: "SELECT 1"}}})
			if err == nil {
				rows.Close()
			}
			var fault *sql.Error
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %v", query, err)
			case want != "" && (!errors.As(err, &fault) || !fault.Rejected || !strings.Contains(fault.Message, want)):
				t.Errorf("%s: %v, want %s", query, err, want)
			case strings.Contains(query, "nmae") && (fault.Line != 2 || fault.Column != 2):
				t.Errorf("%s: line %d, column %d", query, fault.Line, fault.Column)
			}
		}
	}
	for _, c := range []struct {
		views []sql.View
		want  string
	}{
		{[]sql.View{{Name: "Orders", Query: "SELECT 1"}}, "view Orders: a table has that name"},
		{[]sql.View{{Name: "v", Query: "SELECT 1"}, {Name: "V", Query: "SELECT 1"}}, "view V: there are two of that name"},
		{[]sql.View{{Name: "", Query: "SELECT 1"}}, "give another name"},
		{[]sql.View{{Name: "__gscd", Query: "SELECT 1"}}, "give another name"},
	} {
		if _, err := sql.Run(ctx, "SELECT 1", sql.Options{Tables: s.tables(), Views: c.views}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.views, err)
		}
	}
}
