//go:build integration

package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// sparkNumbers gives what Spark says of the numbers of rows: "id@version" by the column id.
func sparkNumbers(t *testing.T, spark *engine, path string) map[string]string {
	t.Helper()
	c, err := spark.ask(t, request{"do": "query", "path": path, "text": "SELECT id, concat(_metadata.row_id, '@', _metadata.row_commit_version) FROM {path}"})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, row := range c.Rows {
		if row[1] == nil {
			t.Fatalf("row %s has no number", *row[0])
		}
		out[*row[0]] = *row[1]
	}
	return out
}

// TestRowNumbersInSpark holds the numbers of rows against Spark: those of rows that gscd
// moves stay, in tables that either made, and Spark goes on behind it.
func TestRowNumbersInSpark(t *testing.T) {
	t.Parallel()
	spark := startEngine(t, "Spark")
	rows := func(from, n int) write.Source {
		var list [][]any
		for i := from; i < from+n; i++ {
			list = append(list, []any{i, i * 10})
		}
		return write.Values(list, "id", "v")
	}
	makers := map[string]func(t *testing.T, path string, table *delta.Table){
		"switched on by gscd": func(t *testing.T, _ string, table *delta.Table) {
			_, err := write.Create(ctx, table, write.Definition{
				Columns:    []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("v", schema.Of(schema.Long))},
				Properties: map[string]string{delta.PropertyDeletionVectors: "true"},
			}, rows(0, 6))
			if err == nil {
				_, err = write.Delete(ctx, table, "id = 5")
			}
			if err == nil {
				_, err = write.Alter(ctx, table, []write.Change{write.SetProperties(map[string]string{delta.PropertyRowTracking: "true"})})
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"of gscd": func(t *testing.T, _ string, table *delta.Table) {
			_, err := write.Create(ctx, table, write.Definition{
				Columns:    []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("v", schema.Of(schema.Long))},
				Properties: map[string]string{delta.PropertyRowTracking: "true"},
			}, rows(0, 5))
			if err != nil {
				t.Fatal(err)
			}
		},
		"of Spark": func(t *testing.T, path string, _ *delta.Table) {
			for _, text := range []string{
				"CREATE TABLE {path} (id BIGINT, v BIGINT) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true')",
				"INSERT INTO {path} VALUES (0, 0), (1, 10), (2, 20), (3, 30), (4, 40)",
				"UPDATE {path} SET v = 11 WHERE id = 1",
			} {
				if _, err := spark.ask(t, request{"do": "sql", "path": path, "text": text}); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			table := delta.New(localStore(t, path))
			make(t, path, table)
			committed := func(r write.Result, err error) {
				t.Helper()
				if err != nil || !r.Committed {
					t.Fatalf("%+v, %v", r, err)
				}
			}
			same := func(what string, want map[string]string) {
				t.Helper()
				if got := sparkNumbers(t, spark, path); !maps.Equal(got, want) {
					t.Fatalf("%s: Spark has %v, want %v", what, got, want)
				}
			}
			committed(write.Append(ctx, table, rows(5, 5)))
			want := sparkNumbers(t, spark, path)
			if len(want) != 10 {
				t.Fatalf("%v", want)
			}
			versionOf := func(id string, version string) {
				number, _, _ := strings.Cut(want[id], "@")
				want[id] = number + "@" + version
			}
			newest := func() string {
				s, err := table.Snapshot(ctx)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(s.Version())
			}
			committed(write.Update(ctx, table, "id IN (1, 3)", write.Set{"v": 5}))
			versionOf("1", newest())
			versionOf("3", newest())
			same("update", want)

			for _, o := range []layout.Options{{}, {OrderBy: []string{"v", "id"}}} {
				report, err := layout.Optimize(ctx, table, o)
				if err != nil || len(report.Versions) != 1 {
					t.Fatalf("%+v, %v", report, err)
				}
			}
			same("optimize", want)
			committed(write.Delete(ctx, table, "id = 2"))
			delete(want, "2")

			// Spark goes on, and gscd after it.
			if _, err := spark.ask(t, request{"do": "update", "path": path, "set": map[string]string{"v": "7"}, "where": "id = 7"}); err != nil {
				t.Fatal(err)
			}
			versionOf("7", newest())
			same("update of Spark", want)
			committed(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, rows(9, 2)))
			got := sparkNumbers(t, spark, path)
			versionOf("9", newest())
			fresh := got["10"]
			if _, version, _ := strings.Cut(fresh, "@"); version != newest() {
				t.Errorf("the new row is %s", fresh)
			}
			for id, number := range want {
				if number == fresh {
					t.Errorf("row %s has the number %s of a new one", id, fresh)
				}
			}
			want["10"] = fresh
			same("merge", want)
		})
	}
	t.Run("identity columns", func(t *testing.T) { identityInSpark(t, spark) })
}

// identityInSpark has gscd and Spark give numbers in turn, in tables that either made.
func identityInSpark(t *testing.T, spark *engine) {
	for _, maker := range []string{"gscd", "Spark"} {
		path := t.TempDir()
		table := delta.New(localStore(t, path))
		sql := func(text string) {
			t.Helper()
			if _, err := spark.ask(t, request{"do": "sql", "path": path, "text": text}); err != nil {
				t.Fatal(err)
			}
		}
		if maker == "gscd" {
			d := write.Definition{Columns: []schema.Field{write.Identity("id", 100, 10, false), write.Column("who", schema.Of(schema.StringType))}}
			if _, err := write.Create(ctx, table, d, write.Source{}); err != nil {
				t.Fatal(err)
			}
		} else {
			sql("CREATE TABLE {path} (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY 10), who STRING) USING delta")
		}
		numbers := map[int64]string{}
		look := func(who string, rows int) {
			t.Helper()
			s, err := table.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			reading, err := scan.New(table.Store(), s, scan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			n, seen := 0, map[int64]bool{}
			for row, err := range reading.Rows(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				if id := row[0].I; seen[id] || (id-100)%10 != 0 || id < 100 {
					t.Fatalf("%s, table of %s: the number %d", who, maker, id)
				}
				if seen[row[0].I] = true; numbers[row[0].I] == "" {
					numbers[row[0].I] = row[1].S
					n++
				}
			}
			if n != rows {
				t.Fatalf("%s, table of %s: %d new numbers, want %d: %v", who, maker, n, rows, numbers)
			}
		}
		sql("INSERT INTO {path} (who) VALUES ('Spark'), ('Spark')")
		look("Spark", 2)
		for range 2 {
			if _, err := write.Append(ctx, table, write.Values([][]any{{"gscd"}, {"gscd"}})); err != nil {
				t.Fatal(err)
			}
			look("gscd", 2)
		}
		sql("INSERT INTO {path} (who) VALUES ('Spark again')")
		look("Spark again", 1)
	}
}
