//go:build cgo

package sql_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/query/sql"
)

// ways are statements that try to reach a file, a table's own one among them, an
// address, or what is inside. %s is a CSV file, %[2]s a data file of user_dim,
// %[3]s a folder that can be written to.
var ways = []string{
	// Table functions.
	"SELECT * FROM read_csv('%s')",
	"SELECT * FROM read_csv_auto('%s')",
	"SELECT * FROM READ_CSV(['%s'])",
	"SELECT * FROM main.read_csv('%s')",
	"SELECT * FROM system.main.read_csv('%s')",
	`SELECT * FROM "read_csv"('%s')`,
	"SELECT * FROM read_text('%s')",
	"SELECT * FROM read_blob('%s')",
	"SELECT * FROM read_json('%s')",
	"SELECT * FROM read_json_objects('%s')",
	"SELECT * FROM read_ndjson('%s')",
	"SELECT * FROM sniff_csv('%s')",
	"SELECT * FROM read_parquet('%[2]s')",
	"SELECT * FROM parquet_scan(['%[2]s'])",
	"SELECT * FROM parquet_metadata('%[2]s')",
	"SELECT * FROM parquet_schema('%[2]s')",
	"SELECT * FROM parquet_file_metadata('%[2]s')",
	"SELECT * FROM parquet_kv_metadata('%[2]s')",
	"SELECT * FROM parquet_bloom_probe('%[2]s', 'id', 1)",
	"SELECT * FROM glob('/etc/*')",
	"SELECT * FROM glob('%[3]s/**')",
	"SELECT * FROM read_duckdb('%s')",
	"SELECT * FROM query('SELECT * FROM read_csv(''%s'')')",
	"SELECT * FROM query_table('%s')",
	"SELECT * FROM query_table('user_dim')",
	"SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
	"SELECT * FROM histogram_values(user_dim, id)",
	"SELECT * FROM delta_scan('%[3]s')",
	"SELECT * FROM iceberg_scan('%[3]s')",
	"SELECT * FROM sqlite_scan('%s', 't')",
	"SELECT * FROM postgres_query('host=localhost', 'SELECT 1')",
	"SELECT * FROM duckdb_settings()",
	"SELECT * FROM duckdb_views()",
	"SELECT * FROM duckdb_variables()",
	"SELECT * FROM duckdb_secrets()",
	"SELECT * FROM which_secret('s3://b/k', 's3')",
	"SELECT * FROM pragma_table_info('user_dim')",
	"SELECT * FROM seq_scan('user_dim')",
	"SELECT * FROM arrow_scan(0, 0, 0)",
	"SELECT * FROM test_all_types()",
	// Files as names of tables, also where a name of another part of the statement
	// or a comment might hide them.
	"SELECT * FROM '%s'",
	`SELECT * FROM "%s"`,
	"FROM '%[2]s'",
	"SELECT * FROM 'https://example.org/x.csv'",
	"SELECT * FROM 's3://bucket/x.parquet'",
	"SELECT * FROM user_dim, '%s'",
	"SELECT * FROM user_dim JOIN '%s' USING (id)",
	"SELECT (SELECT count(*) FROM '%s')",
	"SELECT * FROM user_dim WHERE id IN (SELECT id FROM '%s')",
	"SELECT * FROM user_dim WHERE EXISTS (FROM '%s')",
	"WITH x AS (SELECT * FROM '%s') SELECT * FROM x",
	`WITH a AS (WITH "%s" AS (SELECT 1) SELECT 1) SELECT * FROM a, "%[1]s"`,
	`SELECT * FROM (WITH "%s" AS (SELECT 1) SELECT 1), "%[1]s"`,
	`WITH "%s" AS (SELECT * FROM "%[1]s") SELECT * FROM "%[1]s"`,
	"WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x, '%s') SELECT * FROM x",
	"SELECT * FROM user_dim UNION ALL SELECT * FROM '%s'",
	"SELECT * FROM (PIVOT '%s' ON a IN (1) USING count(*))",
	"SELECT * FROM (UNPIVOT '%s' ON a INTO NAME b VALUE c)",
	"SELECT list(x) OVER () FROM '%s' AS t(x)",
	"SELECT * FROM user_dim ORDER BY (SELECT max(a) FROM '%s')",
	"SELECT * FROM user_dim LIMIT (SELECT count(*) FROM '%s')",
	"SELECT * FROM user_dim, LATERAL (SELECT * FROM '%s')",
	"SELECT * /* FROM user_dim */ FROM '%s' -- user_dim",
	"SELECT [x FOR x IN (SELECT a FROM '%s')]",
	"SELECT * FROM user_dim POSITIONAL JOIN '%s'",
	"SELECT * FROM user_dim ASOF JOIN '%s' ON true",
	"DESCRIBE '%s'",
	"SUMMARIZE '%s'",
	"EXPLAIN SELECT * FROM '%s'",
	"EXPLAIN ANALYZE SELECT * FROM '%s'",
	"EXPLAIN ANALYZE COPY (SELECT 1) TO '%[3]s/out.csv'",
	"EXPLAIN ANALYZE INSERT INTO user_dim VALUES (1)",
	"SHOW TABLES FROM '%s'",
	"TABLE '%s'",
	// What is inside.
	"SELECT * FROM duckdb_tables",
	"SELECT * FROM information_schema.tables",
	"SELECT * FROM pg_catalog.pg_class",
	"SELECT * FROM sqlite_master",
	"SELECT * FROM temp.user_dim",
	"SELECT * FROM system.information_schema.columns",
	"SELECT getvariable('__gscd_dv0')",
	"SELECT current_setting('allowed_paths')",
	"SELECT pg_get_viewdef(1)",
	"SELECT json_serialize_plan('SELECT 1')",
	"SHOW TABLES", "SHOW ALL TABLES", "SHOW DATABASES",
	"SELECT filename FROM user_dim", "SELECT file_row_number FROM user_dim", "SELECT rowid FROM user_dim",
	"SELECT __gscd_offset FROM user_dim", "SELECT __gscd_branch FROM user_dim WHERE dt = '2022-07-09'",
	"SELECT * FROM __gscd.t0 WHERE '2022-07-09' = (SELECT max(dt) FROM user_dim)", "SELECT * FROM __gscd.labels",
	// Other statements, and several.
	"COPY user_dim TO '%[3]s/out.csv'",
	"COPY (SELECT * FROM user_dim) TO '%[3]s/out.parquet' (FORMAT parquet)",
	"COPY user_dim FROM '%s'",
	"EXPORT DATABASE '%[3]s/out'",
	"IMPORT DATABASE '%[3]s'",
	"ATTACH '%[3]s/out.db' AS x",
	"ATTACH ':memory:' AS x",
	"DETACH memory",
	"USE memory",
	"INSTALL httpfs", "LOAD httpfs", "LOAD '%s'", "FORCE INSTALL delta",
	"SET enable_external_access = true", "SET GLOBAL allowed_directories = ['/']", "RESET lock_configuration", "SET VARIABLE x = 1",
	"SET memory_limit = '1TB'",
	"PRAGMA enable_profiling", "PRAGMA database_list", "PRAGMA import_database('%[3]s')",
	"CALL pragma_version()", "CALL read_csv('%s')",
	"CREATE TABLE x AS SELECT * FROM '%s'", "CREATE VIEW x AS SELECT 1", "CREATE MACRO f() AS TABLE FROM '%s'",
	"CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')", "CREATE OR REPLACE VIEW user_dim AS SELECT 1",
	"INSERT INTO user_dim VALUES (1)", "UPDATE user_dim SET id = 1", "DELETE FROM user_dim", "DROP VIEW user_dim", "ALTER VIEW user_dim RENAME TO x",
	"TRUNCATE user_dim", "VACUUM", "ANALYZE", "CHECKPOINT", "BEGIN", "COMMIT", "PREPARE p AS SELECT 1", "EXECUTE p", "DEALLOCATE p",
	"WITH x AS (INSERT INTO user_dim VALUES (1) RETURNING *) SELECT * FROM x",
	"MERGE INTO user_dim USING orders ON true WHEN MATCHED THEN DELETE",
	"SELECT 1; SELECT 2", "SELECT 1; DROP VIEW user_dim", "SELECT 1;; COPY user_dim TO '%[3]s/out.csv'", "SELECT 1; -- \nSELECT 2",
	"SELECT $1", "SELECT ?", "SELECT $name",
	"PIVOT user_dim ON city USING count(*)", // it makes a type first
	"SELECT 1\x00; DROP VIEW user_dim", "SELECT '\xff'",
	"SELECT * FROM " + strings.Repeat("(SELECT * FROM ", 5000) + "user_dim" + strings.Repeat(")", 5000),
	"SELECT " + strings.Repeat("(", 20_000) + "1" + strings.Repeat(")", 20_000), "SELECT 1" + strings.Repeat(" + 1", 5000),
	"", "   ", "-- nothing", ";", "nonsense", "SELECT", "SELECT * FROM user_dim WHERE name = 'it''s",
}

// Nothing but the tables can be reached, in any way of writing it.
func TestRefused(t *testing.T) {
	s, dir := ownShop(t)
	secret := filepath.Join(dir, "secret.csv")
	if err := os.WriteFile(secret, []byte("id,a\n1,open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Glob(filepath.Join(dir, "user_dim", "*.parquet"))
	if err != nil || len(data) == 0 {
		t.Fatal(data, err)
	}
	out := t.TempDir()
	for _, way := range ways {
		statement := way
		if strings.Contains(way, "%s") || strings.Contains(way, "%[") {
			statement = fmt.Sprintf(way, secret, data[0], out)
			statement, _, _ = strings.Cut(statement, "%!(EXTRA")
		}
		a, err := ask(t, sql.Options{Tables: s.tables()}, statement)
		var refused *sql.Error
		if !errors.As(err, &refused) || !refused.Rejected {
			t.Errorf("%s\nis answered with %q, %v", statement, a.csv, err)
			continue
		}
		for _, inside := range []string{"open sesame", "__gscd", "INTERNAL", "Stack Trace"} {
			if strings.Contains(refused.Message, inside) && !strings.Contains(statement, inside) {
				t.Errorf("%s\n%v", statement, err)
			}
		}
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("written: %v, %v", left, err)
	}
}

// Past the check of its syntax tree, DuckDB itself opens nothing but the files of
// the days that are asked for.
func TestSecondFence(t *testing.T) {
	s, dir := ownShop(t)
	_ = s
	secret := filepath.Join(dir, "secret.csv")
	if err := os.WriteFile(secret, []byte("id\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Glob(filepath.Join(dir, "user_dim", "*.parquet"))
	if err != nil || len(data) < 2 {
		t.Fatal(data, err)
	}
	out := t.TempDir()
	if err := sql.Unfenced(out, data[:1], "SELECT * FROM read_parquet('"+data[0]+"')"); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"SELECT * FROM read_parquet('" + data[1] + "')",
		"SELECT * FROM read_parquet('" + filepath.Dir(data[0]) + "/*.parquet')",
		"SELECT * FROM read_parquet('" + filepath.Dir(data[0]) + "/../secret.csv')",
		"SELECT * FROM '" + secret + "'",
		"SELECT * FROM read_text('/etc/passwd')",
		"SELECT * FROM glob('/etc/*')",
		"SELECT * FROM 'https://localhost:1/x.parquet'",
		"COPY (SELECT 1) TO '" + out + "/x.csv'",
		"COPY (SELECT 1) TO '" + data[1] + "'",
		"ATTACH '" + out + "/x.db'",
		"INSTALL httpfs", "LOAD httpfs",
		"SET enable_external_access = true", "SET allowed_paths = ['/etc/passwd']", "SET lock_configuration = false",
		"EXPORT DATABASE '" + out + "/x'",
		"CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
		"PRAGMA profiling_output = '" + out + "/x'",
	} {
		if err := sql.Unfenced(out, data[:1], statement); err == nil {
			t.Errorf("%s is not refused", statement)
		}
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("written: %v, %v", left, err)
	}
}
