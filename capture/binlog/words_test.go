package binlog

import (
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ddl"
)

func TestLeading(t *testing.T) {
	for statement, want := range map[string]string{
		"BEGIN":                                    "BEGIN",
		"  /* a; b */ insert into t values (1)":    "INSERT INTO T",
		"-- c\n# d\nUpdate `a``b` set x=1":         "UPDATE A`B SET",
		"/*!40000 ALTER TABLE `t` DISABLE KEYS */": "ALTER TABLE T",
		"/*M!100100 CREATE */ TABLE t":             "CREATE TABLE T",
		"ROLLBACK TO `sp`":                         "ROLLBACK TO SP",
		"":                                         "",
		"`":                                        "",
		"/* never closed":                          "",
		"XA COMMIT X'78',X'',1":                    "XA COMMIT X",
		"\x00\tREPLACE\x0b/**/t":                   "REPLACE T",
		"(select 1)":                               "( SELECT 1",
		"/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/": "CREATE DEFINER =",
	} {
		if got := strings.Join(leading(statement, 3), " "); got != want {
			t.Errorf("%q: %q, want %q", statement, got, want)
		}
	}
}

func TestChangedBy(t *testing.T) {
	for statement, want := range map[string]string{
		"INSERT INTO t VALUES (1)":                         "d.t",
		"insert low_priority ignore into `x`.`y` (a)":      "x.y",
		"REPLACE INTO percona.checksums (db) SELECT 1":     "percona.checksums",
		"REPLACE t SET a=1":                                "d.t",
		"DELETE FROM t":                                    "d.t",
		"DELETE LOW_PRIORITY QUICK FROM e.t WHERE a=1":     "e.t",
		"UPDATE t SET a=1":                                 "d.t",
		"UPDATE `from` SET a=1":                            "d.from",
		"UPDATE t, u SET t.a=u.a":                          "",
		"UPDATE t JOIN u USING (a) SET t.b=1":              "",
		"DELETE t FROM t JOIN u USING (a)":                 "",
		"DELETE FROM t USING t JOIN u":                     "",
		"DELETE FROM t1, t2 USING t1 INNER JOIN t2":        "",
		"WITH c AS (SELECT 1) UPDATE t SET a=1":            "",
		"LOAD DATA INFILE 'x' INTO TABLE t":                "",
		"CALL p()":                                         "",
		"INSERT":                                           "",
		"/* app */ INSERT DELAYED /* x */ INTO t SELECT 1": "d.t",
	} {
		name, ok := changedBy(query{database: "d", text: statement})
		got := ""
		if ok {
			got = name.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", statement, got, want)
		}
	}
	if _, ok := changedBy(query{text: "INSERT INTO t VALUES (1)"}); ok {
		t.Error("a table of no database")
	}
}

func TestReadSchema(t *testing.T) {
	c := ddl.NewCatalog()
	err := ReadSchema(c, strings.NewReader("-- a; dump\n/*!40101 SET NAMES utf8 */;\nUSE `s`;\n"+
		"CREATE TABLE `a;b` (\n  id int, -- one; two\n  n varchar(9) DEFAULT 'x;''y\\';'\n);\nDELIMITER ;;\nCREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN SET @a=1; SET @b=2; END ;;\nDELIMITER ;\n"+
		"/* c; */ CREATE TABLE b (id bigint unsigned primary key); CREATE TABLE o.c (x int)"), ddl.Session{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, t := range c.Tables() {
		names = append(names, t.Database+"."+t.Name)
	}
	if want := []string{"o.c", "s.a;b", "s.b"}; !slices.Equal(names, want) {
		t.Errorf("tables %q, want %q", names, want)
	}
	err = ReadSchema(c, strings.NewReader("\n\nCREATE TABLE x (\n id int,\n"), ddl.Session{Database: "d"})
	if err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("a statement that is cut: %v", err)
	}
}

func TestJSONDouble(t *testing.T) {
	for f, want := range map[float64]string{0: "0.0", 1: "1.0", -2.5: "-2.5", 123456789012345: "123456789012345.0", 1e15: "1e15", 1.5e-20: "1.5e-20", 1e-15: "0.000000000000001", 1e-16: "1e-16", 3.14: "3.14"} {
		if got := string(appendJSONDouble(nil, f)); got != want {
			t.Errorf("%g: %s, want %s", f, got, want)
		}
	}
}

func TestCharsetName(t *testing.T) {
	for id, want := range map[uint64]string{8: "latin1", 33: "utf8mb3", 63: "binary", 255: "utf8mb4", 309: "utf8mb4", 28: "gbk", 248: "gb18030", 1069: "utf8mb4", 1057: "utf8mb3", 2048: "utf8mb3", 2304: "utf8mb4", 2400: "utf8mb4", 9999: "", 0: ""} {
		if got := charsetName(id); got != want {
			t.Errorf("collation %d: %q, want %q", id, got, want)
		}
		if want != "" && charsetOf(want) == nil {
			t.Errorf("character set %s can't be read", want)
		}
	}
}
