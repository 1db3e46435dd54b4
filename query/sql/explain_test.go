//go:build cgo

package sql_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/savepoint"
)

// What is said to be opened and fetched is what a run opens and fetches.
func TestExplainIsWhatRuns(t *testing.T) {
	s, restore := farShop(t)
	defer restore()
	o := sql.Options{Tables: s.tables(), TempDir: t.TempDir()}
	for i, statement := range excerptStatements {
		restoreParts := sql.SetMaxParts(i % 2 * 32)
		e, err := sql.Explain(ctx, statement, o)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		run := mustAsk(t, sql.Options{Tables: s.tables()}, statement).stats
		days := 0
		for _, table := range e.Tables {
			days += len(table.Days)
			for _, d := range table.Days {
				if d.Opened > d.Files || d.ReadGroups > d.RowGroups || d.RowGroups < d.Opened || table.Labels != sealedDays+1 {
					t.Errorf("%s: %+v of %d labels", statement, d, table.Labels)
				}
			}
		}
		if got := (sql.Stats{Days: days, Files: e.Files, Bytes: e.Bytes, Fetched: e.Fetched}); got != run {
			t.Errorf("%s: explained %+v, opened %+v", statement, got, run)
		}
		restoreParts()
	}
}

func TestExplainLocal(t *testing.T) {
	s := localShop(t)
	one := func(statement string) sql.DayExplanation {
		t.Helper()
		e, err := sql.Explain(ctx, statement, sql.Options{Tables: s.tables(), TempDir: t.TempDir()})
		if err != nil || len(e.Tables) != 1 || len(e.Tables[0].Days) != 1 {
			t.Fatalf("%s: %+v, %v", statement, e, err)
		}
		return e.Tables[0].Days[0]
	}
	at := dt(5)
	all := one("SELECT * FROM user_dim WHERE dt = '" + at + "'")
	few := one("EXPLAIN SELECT * FROM user_dim WHERE dt = '" + at + "' AND id >= 25")
	none := one("SELECT * FROM user_dim WHERE dt = '" + at + "' AND id >= 2500")
	source, err := openSource(s.users, "user_dim")
	if err != nil {
		t.Fatal(err)
	}
	r, err := source.Labels.Resolve(at, true)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := source.Table.SnapshotAt(ctx, r.Entry.Version)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := scan.New(s.users, snapshot, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	much, err := reading.Reading(ctx)
	if err != nil || much.RowGroups != all.RowGroups || much.RowGroupsRead != all.RowGroups || much.Pages == 0 || much.PagesRead != much.Pages {
		t.Errorf("scan: %+v, %v", much, err)
	}
	if all.Label != at || all.Version != r.Entry.Version || all.Opened != all.Files || all.Fetch != 0 || all.Files != snapshot.NumFiles() {
		t.Errorf("all: %+v", all)
	}
	if few.Opened != 1 || few.Files != all.Files || few.Bytes >= all.Bytes {
		t.Errorf("few: %+v", few)
	}
	if none.Opened != 0 || none.Bytes != 0 || none.RowGroups != 0 {
		t.Errorf("none: %+v", none)
	}
}

// The errors are those of a run.
func TestExplainRefuses(t *testing.T) {
	s := localShop(t)
	var fault *sql.Error
	_, err := sql.Explain(ctx, "SELECT nmae FROM user_dim", sql.Options{Tables: s.tables(), TempDir: t.TempDir()})
	if !errors.As(err, &fault) || fault.Line != 1 || fault.Column != 8 {
		t.Errorf("a column that is not there: %v", err)
	}
	_, err = sql.Explain(ctx, "SELECT * FROM user_dim WHERE dt = '2021-01-01'", sql.Options{Tables: s.tables(), TempDir: t.TempDir()})
	if !errors.Is(err, savepoint.ErrBefore) {
		t.Errorf("a label that is not there: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err = sql.Explain(cancelled, "SELECT 1", sql.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// CTEs, window functions and columns that old days lack answer as a warehouse with a
// partition a day does.
func TestRoundedStatements(t *testing.T) {
	for _, statement := range []string{
		"WITH d AS (SELECT dt, city, count(*) AS n FROM user_dim WHERE dt BETWEEN '2022-07-09' AND '2022-07-14' GROUP BY ALL), " +
			"b AS (SELECT *, lag(n) OVER (PARTITION BY city ORDER BY dt) AS before FROM d) SELECT dt, city, n, n - before FROM b",
		"SELECT id, dt, amount, first_value(dt) OVER (PARTITION BY id ORDER BY dt ROWS UNBOUNDED PRECEDING) FROM user_dim WHERE dt >= '2022-07-14'",
		"SELECT dt, count(vip), count(*), bool_or(vip) FROM user_dim WHERE dt >= '2022-07-09' GROUP BY dt",
		"SELECT id, vip FROM user_dim WHERE dt = '2022-07-08' AND vip IS NULL",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i, name FROM n JOIN user_dim u ON u.id = i WHERE u.dt = '2022-07-10'",
		"SELECT * FROM (SELECT dt, city, sum(amount) AS s, rank() OVER (PARTITION BY dt ORDER BY sum(amount) DESC) AS r FROM user_dim GROUP BY ALL) WHERE r = 1 AND dt < '2022-07-12'",
	} {
		sameAsWarehouse(t, statement, localShop(t))
	}
}
