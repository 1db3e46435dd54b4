//go:build integration

package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A day is compared with the server that it was loaded from: the server's order of keys,
// which its collation makes, does not matter, and what was changed since is named.
func TestVerifyMySQL(t *testing.T) {
	t.Parallel()
	address, ca, root := mariaDB(t)
	run := func(statement string) {
		t.Helper()
		if _, err := root.Execute(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("CREATE DATABASE shop")
	run("CREATE USER reader IDENTIFIED BY '" + mariaPassword + "' REQUIRE SSL")
	run("GRANT SELECT ON shop.* TO reader")
	run("CREATE TABLE shop.names (region INT, name VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, price DECIMAL(12,4), d DOUBLE, at DATETIME(6), ts TIMESTAMP(6) NULL, flag TINYINT(1), raw VARBINARY(9), PRIMARY KEY (region, name))")
	var rows []string
	for i := range 30_000 {
		rows = append(rows, fmt.Sprintf("(%d,'%s',%d.5,%d.25,'2022-07-16 10:00:00.%06d','2022-07-16 10:00:00',%d,x'00ff')", i%7-3, []string{"b", "A", "Z", "a-", "é", "_"}[i%6]+fmt.Sprint(i), i, i, i, i%2))
	}
	for part := range slices.Chunk(rows, 5000) {
		run("INSERT INTO shop.names VALUES " + strings.Join(part, ","))
	}
	run("INSERT INTO shop.names VALUES (9,'',NULL,NULL,NULL,NULL,NULL,NULL)")

	table, from := filepath.Join(t.TempDir(), "t"), "mysql://reader@"+address+"/shop/names"
	secure := []string{"GSCD_MYSQL_PASSWORD=" + mariaPassword, "GSCD_MYSQL_CA_FILE=" + ca}
	gscdIn(t, secure, "load", "--snapshot", "2022-07-16", from, "--table", table, "--key", "region,name", "--timezone", "UTC")
	verify := []string{"verify", "--table", table, "--as-of", "2022-07-16", "--against", from, "--format", "jsonl", "--memory-limit", "2MiB"}
	if out := string(gscdIn(t, secure, verify...)); strings.Contains(out, mariaPassword) || strings.Contains(out, "range") {
		t.Errorf("as it was loaded:\n%s", out)
	}

	run("UPDATE shop.names SET price = price + 0.0001, d = -d WHERE name = 'A1'")
	run("UPDATE shop.names SET name = 'a-3x' WHERE name = 'a-3'")
	run("DELETE FROM shop.names WHERE name = ''")
	said, code := gscdFails(t, secure, verify...)
	for _, want := range []string{
		`{"kind":"different","key":{"region":-2,"name":"A1"},"to":null,"rows":null,"rows_against":null,"hash":null,"hash_against":null,"columns":["price","d"]}`,
		`{"kind":"extra","key":{"region":0,"name":"a-3"},`, `{"kind":"missing","key":{"region":0,"name":"a-3x"},`, `{"kind":"extra","key":{"region":9,"name":""},`,
		"30001 rows", "1 missing, 2 extra, 1 different",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s", want)
		}
	}
	if code != 3 || strings.Contains(said, mariaPassword) || t.Failed() {
		t.Errorf("exit %d\n%s", code, said)
	}
}
