package views_test

import (
	"errors"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/views"
)

func fields(t *testing.T, list ...schema.Field) *schema.Schema {
	t.Helper()
	s, err := schema.New(list...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Names are quoted, columns that a day lacks are NULL, those that were renamed or
// widened are the same ones.
func TestStatement(t *testing.T) {
	tags := schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.StringType)}}
	old := fields(t,
		schema.Field{Name: "id", FileName: "c1", Type: schema.Of(schema.Integer)},
		schema.Field{Name: "town", FileName: "c2", Type: schema.Of(schema.StringType)})
	newest := fields(t,
		schema.Field{Name: "id", FileName: "c1", Type: schema.Of(schema.Long)},
		schema.Field{Name: "ci`ty\"", FileName: "c2", Type: schema.Of(schema.StringType)},
		schema.Field{Name: "tags", FileName: "c3", Type: tags})
	v := views.View{
		Name: "dim.it's", Source: "/data/it's", Columns: newest.Fields, LabelColumn: "dt",
		Days: []views.Day{{Label: "2022-07-15", Version: 4, Schema: old}, {Label: "2022-07-16", Version: 9, Schema: newest}},
	}
	for dialect, want := range map[views.Dialect]string{
		views.Spark: "CREATE OR REPLACE VIEW `dim`.`it's` AS\n" +
			"SELECT CAST(`id` AS BIGINT) AS `id`, `town` AS `ci``ty\"`, CAST(NULL AS ARRAY<STRING>) AS `tags`, '2022-07-15' AS `dt` FROM delta.`/data/it's` VERSION AS OF 4\n" +
			"UNION ALL\nSELECT `id`, `ci``ty\"`, `tags`, '2022-07-16' AS `dt` FROM delta.`/data/it's` VERSION AS OF 9;\n",
		views.Trino: `CREATE OR REPLACE VIEW "dim"."it's" AS` + "\n" +
			`SELECT CAST("id" AS bigint) AS "id", "town" AS "ci` + "`" + `ty""", CAST(NULL AS ARRAY(varchar)) AS "tags", CAST('2022-07-15' AS varchar) AS "dt" FROM "/data/it's" FOR VERSION AS OF 4` + "\n" +
			"UNION ALL\n" + `SELECT "id", "ci` + "`" + `ty""", "tags", CAST('2022-07-16' AS varchar) AS "dt" FROM "/data/it's" FOR VERSION AS OF 9;` + "\n",
		views.DuckDB: `CREATE OR REPLACE VIEW "dim"."it's" AS` + "\n" +
			`SELECT CAST("id" AS BIGINT) AS "id", "town" AS "ci` + "`" + `ty""", CAST(NULL AS VARCHAR[]) AS "tags", '2022-07-15' AS "dt" FROM delta_scan('/data/it''s', version = 4)` + "\n" +
			"UNION ALL\n" + `SELECT "id", "ci` + "`" + `ty""", "tags", '2022-07-16' AS "dt" FROM delta_scan('/data/it''s', version = 9);` + "\n",
	} {
		got, err := dialect.Statement(v)
		if err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", dialect, err, got, want)
		}
	}
	v.Days = nil
	if _, err := views.Spark.Statement(v); !errors.Is(err, views.ErrNoDays) {
		t.Errorf("no days: %v", err)
	}
}
