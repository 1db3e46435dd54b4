package ddl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testdata is the folder of recorded changes; the test is skipped without it.
func testdata(t *testing.T, parts ...string) string {
	t.Helper()
	for _, root := range []string{os.Getenv("GSCD_TESTDATA"), "../../shared"} {
		if root == "" {
			continue
		}
		if path := filepath.Join(append([]string{root, "cdc"}, parts...)...); exists(path) {
			return path
		}
	}
	t.Skip("no test data: set GSCD_TESTDATA, or put it in ../shared beside go.mod")
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// split cuts a script at the semicolons that stand between tokens.
func split(t *testing.T, script string) []string {
	t.Helper()
	tokens, err := lex(script, Session{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	from := 0
	for _, tok := range tokens {
		if tok.symbol(";") || tok.kind == end {
			if s := strings.TrimSpace(script[from:tok.at]); s != "" {
				all = append(all, s)
			}
			from = tok.at + 1
		}
	}
	return all
}

// Every statement of the tools' own test suites is followed, and those that begin like
// a definition of a table say so.
func TestParseCorpus(t *testing.T) {
	var statements []string
	for _, file := range []string{"mysql-test.sql", "mysql-test-errors.sql"} {
		b, err := os.ReadFile(testdata(t, "sql", "maxwell", file))
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, strings.Split(strings.TrimSpace(string(b)), "\n")...)
	}
	for _, dir := range []string{"debezium", "debezium-ddl", "ticdc"} {
		files, err := filepath.Glob(filepath.Join(testdata(t, "sql", dir), "*.sql"))
		if err != nil || len(files) == 0 {
			t.Fatal(err, len(files))
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			statements = append(statements, split(t, string(b))...)
		}
	}
	defined := 0
	for _, statement := range statements {
		changes, err := Parse(statement, Session{Database: "d"})
		if err != nil {
			if strings.HasPrefix(statement, "CREATE TABLE t1 ( c01 BIT") { // cut off in the middle
				continue
			}
			t.Error(err)
			continue
		}
		words := strings.Fields(strings.ToUpper(statement))
		defines := len(words) > 1 && (words[1] == "TABLE" || words[1] == "DATABASE") && (words[0] == "CREATE" || words[0] == "ALTER" || words[0] == "DROP" || words[0] == "RENAME")
		if defines {
			defined++
		}
		if defines && len(changes) == 0 {
			t.Errorf("no change seen in %q", statement)
		}
		for _, c := range changes {
			if c.Kind != CreateDatabase && c.Kind != AlterDatabase && c.Kind != DropDatabase && (c.Name.Table == "" || c.Name.Database == "") {
				t.Errorf("%+v in %q", c, statement)
			}
		}
	}
	t.Logf("%d statements, %d define tables", len(statements), defined)
	if defined < 500 {
		t.Errorf("%d statements define tables", defined)
	}
}

func TestParse(t *testing.T) {
	for statement, want := range map[string]string{
		"INSERT INTO t VALUES (1)":         "",
		"BEGIN":                            "",
		"CREATE TEMPORARY TABLE t (a int)": "",
		"DROP TEMPORARY TABLE t":           "",
		"CREATE VIEW v AS SELECT 1":        "",
		"DROP VIEW v":                      "",
		"create definer=x@y trigger a before insert on b for each row set @a='": "!",
		"GRANT ALL ON *.* TO 'x": "",
		"/* c */ drop table if exists `a b`, x.`y``z` /* by gh-ost */": "DROP TABLE d.a b|DROP TABLE x.y`z",
		"TRUNCATE t":                                                        "TRUNCATE TABLE d.t",
		"TRUNCATE TABLE x.t;":                                               "TRUNCATE TABLE x.t",
		"RENAME TABLE t TO _t_del, _t_gho TO t":                             "RENAME TABLE d.t d._t_del|RENAME TABLE d._t_gho d.t",
		"ALTER TABLE t RENAME TO x.u":                                       "RENAME TABLE d.t x.u",
		"ALTER TABLE t ADD c int, RENAME u":                                 "ALTER TABLE d.t +c|RENAME TABLE d.t d.u",
		"alter table t drop a, drop column if exists b cascade":             "ALTER TABLE d.t -a -b",
		"ALTER TABLE t CHANGE a b int COMMENT 'x, drop c' AFTER d":          "ALTER TABLE d.t a=b",
		"ALTER TABLE t RENAME COLUMN a TO b, RENAME KEY x TO y":             "ALTER TABLE d.t a=b",
		"ALTER TABLE t DROP PARTITION p0, p1":                               "ALTER TABLE d.t !DROP PARTITION p0, p1",
		"ALTER TABLE t TRUNCATE PARTITION ALL;":                             "ALTER TABLE d.t !TRUNCATE PARTITION ALL",
		"ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u":                   "ALTER TABLE d.t !EXCHANGE PARTITION p WITH TABLE u",
		"ALTER TABLE t REORGANIZE PARTITION a, b INTO (PARTITION c)":        "ALTER TABLE d.t",
		"ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (5))":    "ALTER TABLE d.t",
		"ALTER TABLE t ADD partitions int":                                  "ALTER TABLE d.t +partitions",
		"ALTER TABLE t ALGORITHM=INPLACE, LOCK=NONE, ADD x int":             "ALTER TABLE d.t +x",
		"ALTER TABLE t WAIT 5 ADD x int":                                    "ALTER TABLE d.t +x",
		"SET STATEMENT max_statement_time=0 FOR ALTER TABLE t ADD x int":    "ALTER TABLE d.t +x",
		"ALTER /*!50100 IGNORE */ TABLE t /*!50100 ADD a int, */ ADD b int": "ALTER TABLE d.t +a +b",
		"ALTER TABLE t ADD a int /*M!100301 , ADD b int */":                 "ALTER TABLE d.t +a",
		"ALTER TABLE t ADD a int -- , ADD b int":                            "ALTER TABLE d.t +a",
		"ALTER TABLE t ADD a int # , ADD b int\n, ADD c int":                "ALTER TABLE d.t +a +c",
		"CREATE UNIQUE INDEX k USING BTREE ON t (a, b(10) DESC)":            "ALTER TABLE d.t",
		"DROP INDEX k ON x.t":                                               "ALTER TABLE x.t",
		"CREATE TABLE t LIKE u":                                             "CREATE TABLE d.t like d.u",
		"CREATE TABLE IF NOT EXISTS t (LIKE x.u)":                           "CREATE TABLE d.t like x.u",
		"ALTER TABLE t ADD":                                                 "!",
		"ALTER TABLE t CHANGE a":                                            "!",
		"CREATE TABLE t (a int":                                             "!",
		"CREATE TABLE t":                                                    "!",
		"RENAME TABLE t":                                                    "!",
		"ALTER TABLE t ADD c varchar(10) DEFAULT 'x":                        "!",
		"ALTER DATABASE CHARACTER SET latin1":                               "ALTER DATABASE d. latin1",
		"CREATE DATABASE x COLLATE = utf8_bin":                              "CREATE DATABASE x. utf8mb3",
	} {
		changes, err := Parse(statement, Session{Database: "d"})
		var got []string
		for _, c := range changes {
			s := c.Kind.String() + " " + c.Name.String()
			if c.To.Table != "" {
				s += " " + c.To.String()
			}
			if c.Like.Table != "" {
				s += " like " + c.Like.String()
			}
			if c.Charset != "" {
				s += " " + c.Charset
			}
			for _, step := range c.Steps {
				switch step.Act {
				case AddColumn:
					s += " +" + step.Definition.Name
				case DropColumn:
					s += " -" + step.Column
				case ChangeColumn, RenameColumn:
					s += " " + step.Column + "=" + step.Definition.Name
				}
			}
			if c.RowsRemoved != "" {
				s += " !" + c.RowsRemoved
			}
			got = append(got, s)
		}
		said := strings.Join(got, "|")
		var refused *SyntaxError
		if errors.As(err, &refused) {
			said = "!"
			if refused.Statement != statement || !strings.Contains(err.Error(), statement[:4]) {
				t.Errorf("%q: %v", statement, err)
			}
		}
		if said != want {
			t.Errorf("%q:\n%s\nwant\n%s", statement, said, want)
		}
	}
}

// Types are printed as information_schema has them; MySQL 8 prints no widths.
func TestTypes(t *testing.T) {
	for written, want := range map[string]string{
		"int": "int", "INT(5)": "int", "tinyint(1)": "tinyint(1)", "bool": "tinyint(1)", "int(4) zerofill": "int(4) unsigned zerofill",
		"bigint unsigned": "bigint unsigned", "serial": "bigint unsigned", "year(4)": "year", "numeric": "decimal(10,0)", "dec(7)": "decimal(7,0)",
		"double precision": "double", "float(30)": "double", "float(7,3)": "float(7,3)", "char": "char(1) utf8mb4",
		"varchar(20) character set latin1": "varchar(20) latin1", "national varchar(3)": "varchar(3) utf8mb3", "char(3) byte": "binary(3) binary",
		"text(100)": "text utf8mb4", "text(10)": "tinytext utf8mb4", "json": "json utf8mb4", "long varbinary": "mediumblob binary",
		`enum('a','it''s','B\\c', 0x64)`: `enum('a','it''s','B\\c','d') utf8mb4`, "set('x ','y')": "set('x','y') utf8mb4",
		"timestamp(6)": "timestamp(6)", "datetime(0)": "datetime", "geomcollection": "geomcollection", "point srid 4326": "point",
		"some_new_type(3,4)": "some_new_type(3,4)", "varchar(10) collate utf8_bin": "varchar(10) utf8mb3", "bit": "bit(1)",
	} {
		c := NewCatalog()
		if _, err := c.Apply("CREATE TABLE t (a "+written+")", Session{Database: "d"}); err != nil {
			t.Error(err)
			continue
		}
		got := c.Table("d", "t").Columns[0]
		if said := strings.TrimSpace(got.Type + " " + got.Charset); said != want {
			t.Errorf("%s: %s, want %s", written, said, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("CREATE TABLE t (a int primary key, b enum('x','y') default 'x' references u(v) on delete set null, key(b)) charset=latin1", uint64(0), true)
	f.Add("ALTER TABLE t ADD (a int, b text), CHANGE a b char varying(3) after c, /*!50100 drop d, */ rename to u", uint64(4), false)
	f.Add("rename table a to b, c to a", uint64(1<<20), true)
	f.Add("ALTER TABLE t CONVERT TO CHARSET utf8, DROP PRIMARY KEY, ADD SYSTEM VERSIONING", uint64(0), true)
	f.Add("SET STATEMENT a=b FOR CREATE INDEX x ON y (z)", uint64(1<<9), true)
	f.Fuzz(func(t *testing.T, statement string, mode uint64, mariaDB bool) {
		c := NewCatalog()
		s := Session{Database: "d", SQLMode: mode, MariaDB: mariaDB}
		for _, st := range []string{"CREATE TABLE t (a int primary key, b text, c enum('x') unique, d int)", statement, statement} {
			effects, err := c.Apply(st, s)
			var refused *SyntaxError
			if err != nil && !errors.As(err, &refused) {
				t.Fatalf("%q: %v", st, err)
			}
			for _, e := range effects {
				if e.Old != nil && e.New != nil {
					Diff(e.Old, e.New)
				}
			}
		}
		for _, table := range c.Tables() {
			ids := map[int64]bool{}
			for _, column := range table.Columns {
				if column.ID == 0 || ids[column.ID] {
					t.Fatalf("%q: columns %+v", statement, table.Columns)
				}
				ids[column.ID] = true
			}
			for _, k := range table.Key {
				if k >= len(table.Columns) {
					t.Fatalf("%q: key %v of %d columns", statement, table.Key, len(table.Columns))
				}
			}
		}
	})
}
