//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/gscd-io/gscd/ddl"
)

// ddlServer is a MariaDB and a catalog that is moved on by the statements that the server takes.
type ddlServer struct {
	t       *testing.T
	root    *client.Conn
	catalog *ddl.Catalog
	session ddl.Session
	taken   int
}

func newDDLServer(t *testing.T) *ddlServer {
	_, _, root := mariaDB(t)
	s := &ddlServer{t: t, root: root, catalog: ddl.NewCatalog(), session: ddl.Session{MariaDB: true, Charset: "utf8mb4"}}
	// As most of the statements expect it: what does not fit is made to fit, with a warning.
	s.must("SET sql_mode = 'NO_ENGINE_SUBSTITUTION'")
	s.must("SET foreign_key_checks = 0")
	return s
}

func (s *ddlServer) must(statement string) {
	s.t.Helper()
	if _, err := s.root.Execute(statement); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

func (s *ddlServer) use(database string) {
	s.t.Helper()
	s.run("DROP DATABASE IF EXISTS " + database)
	if !s.run("CREATE DATABASE " + database) {
		s.t.Fatal(database)
	}
	s.must("USE " + database)
	s.session.Database = database
}

// run gives a statement to the server and, if it takes it, to the catalog.
func (s *ddlServer) run(statement string) bool {
	s.t.Helper()
	if _, err := s.root.Execute(statement); err != nil {
		return false
	}
	if _, err := s.catalog.Apply(statement, s.session); err != nil {
		s.t.Error(err)
	}
	s.taken++
	return true
}

// shown are the columns and keys of the default database as the server tells them.
func (s *ddlServer) shown() map[string]string {
	s.t.Helper()
	r, err := s.root.Execute("SELECT c.table_name, c.column_name, c.column_type, COALESCE(c.character_set_name, ''), c.is_nullable, c.extra, " +
		"(SELECT GROUP_CONCAT(k.column_name ORDER BY k.seq_in_index) FROM information_schema.statistics k WHERE k.table_schema = c.table_schema AND k.table_name = c.table_name AND k.index_name = 'PRIMARY') " +
		"FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) " +
		"WHERE c.table_schema = '" + s.session.Database + "' AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY c.table_name, c.ordinal_position")
	if err != nil {
		s.t.Fatal(err)
	}
	tables := map[string]string{}
	for i := range r.RowNumber() {
		cell := func(j int) string {
			v, err := r.GetString(i, j)
			if err != nil {
				s.t.Fatal(err)
			}
			return v
		}
		table, extra := cell(0), strings.ToUpper(cell(5))
		if tables[table] == "" {
			tables[table] = "key " + cell(6) + "\n"
		}
		tables[table] += fmt.Sprintln(cell(1), cell(2), cell(3), cell(4) == "YES", strings.Contains(extra, "GENERATED"), strings.Contains(extra, "INVISIBLE"))
	}
	return tables
}

// followed are those of the catalog, in the same form.
func (s *ddlServer) followed() map[string]string {
	tables := map[string]string{}
	for _, t := range s.catalog.Tables() {
		if t.Database != s.session.Database || t.Incomplete {
			continue
		}
		said := "key "
		for _, k := range t.Keys {
			if k.Name == "PRIMARY" {
				said += strings.Join(k.Columns, ",")
			}
		}
		said += "\n"
		for _, c := range t.Columns {
			if c.Hidden {
				continue
			}
			charset := c.Charset
			if charset == "binary" {
				charset = ""
			}
			said += fmt.Sprintln(c.Name, c.Type, charset, c.Nullable, c.Generated, c.Invisible)
		}
		tables[t.Name] = said
	}
	return tables
}

// compare holds the catalog against the server, and reports whether they agree.
func (s *ddlServer) compare(after string) bool {
	s.t.Helper()
	want, got := s.shown(), s.followed()
	same := true
	for name, w := range want {
		if t := s.catalog.Table(s.session.Database, name); t != nil && t.Incomplete {
			continue
		}
		if got[name] != w {
			same = false
			s.t.Errorf("after %s\ntable %s:\n%s\nthe server has\n%s", after, name, got[name], w)
		}
	}
	for name := range got {
		if want[name] == "" {
			same = false
			s.t.Errorf("after %s: the server has no table %s", after, name)
		}
	}
	return same
}

// After every statement of the tools' own test suites that the server takes, the catalog has the
// columns, types, charsets and keys that information_schema prints.
func TestDDLCorpus(t *testing.T) {
	t.Parallel()
	s := newDDLServer(t)
	for _, file := range []string{"mysql-test.sql", "mysql-test-errors.sql"} {
		b, err := os.ReadFile(sharedFile(t, filepath.Join("cdc", "sql", "maxwell", file)))
		if err != nil {
			t.Fatal(err)
		}
		s.use("d")
		for _, statement := range strings.Split(strings.TrimSpace(string(b)), "\n") {
			upper := strings.ToUpper(statement)
			if strings.Contains(upper, "DATABASE ") || strings.Contains(upper, "USER ") || strings.Contains(upper, "MYSQL.") {
				continue
			}
			if strings.Contains(upper, "0X9353") || strings.Contains(upper, "0XFFFF") {
				continue // labels in hexadecimal digits of another charset stay digits
			}
			// Each stands for itself, and many are about the same table.
			if !s.run(statement) && strings.HasPrefix(upper, "CREATE TABLE") {
				s.use("d")
				s.run(statement)
			}
			if !s.compare(statement) {
				s.use("d")
			}
		}
	}
	for _, dir := range []string{"debezium", "debezium-ddl", "ticdc"} {
		files, _ := filepath.Glob(filepath.Join(sharedFile(t, filepath.Join("cdc", "sql", dir)), "*.sql"))
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s.use("d")
			for _, statement := range statementsOf(string(b)) {
				first := strings.ToUpper(strings.Fields(statement)[0])
				if slices.Contains([]string{"CREATE", "ALTER", "DROP", "RENAME"}, first) && !strings.Contains(strings.ToUpper(statement), "DATABASE ") && s.run(statement) {
					s.compare(statement)
				}
			}
		}
	}
	t.Logf("%d statements were taken", s.taken)
	if s.taken < 300 {
		t.Errorf("only %d statements were taken", s.taken)
	}
}

// statementsOf cuts a script at the ends of lines that end a statement.
func statementsOf(script string) []string {
	var all []string
	var b strings.Builder
	for _, line := range strings.Split(script, "\n") {
		trimmed := strings.TrimSpace(line)
		if b.Len() == 0 && (trimmed == "" || strings.HasPrefix(trimmed, "--") || strings.HasPrefix(trimmed, "#")) {
			continue
		}
		b.WriteString(line + "\n")
		if strings.HasSuffix(trimmed, ";") {
			all = append(all, strings.TrimSuffix(strings.TrimSpace(b.String()), ";"))
			b.Reset()
		}
	}
	return all
}

// Random statements lead the catalog to what the server has.
func TestDDLRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(7)
	if v := os.Getenv("GSCD_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	s := newDDLServer(t)
	s.use("r")
	refused := 0
	for i := range 700 {
		statement := randomDDL(r)
		if !s.run(statement) {
			refused++
			if strings.HasPrefix(statement, "CREATE OR REPLACE") { // the old table is gone all the same, and the log says so
				s.run("DROP TABLE IF EXISTS " + strings.Fields(strings.TrimPrefix(strings.TrimPrefix(statement, "CREATE OR REPLACE TABLE "), "IF NOT EXISTS "))[0])
			}
			continue
		}
		if !s.compare(statement) {
			t.Fatalf("seed %d, statement %d", seed, i)
		}
	}
	t.Logf("%d statements taken, %d refused by the server", s.taken, refused)
	if s.taken < 100 {
		t.Errorf("only %d statements were taken", s.taken)
	}
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

func randomColumn(r *rand.Rand) string { return pick(r, columnNames...) }

// columnNames are those of randomColumn. With other seeds there are, rarely, statements that give two columns one
// name, of which MariaDB drops one in silence; that is not followed.
var columnNames = []string{"a", "b", "c", "d", "`e f`", "G", "h"}

func randomType(r *rand.Rand) string {
	t := pick(r, "int", "INT(5)", "tinyint(1)", "bool", "bigint unsigned", "smallint(3) zerofill", "mediumint unsigned", "decimal(12,3)", "numeric", "dec(5) unsigned", "float", "float(30)", "double precision",
		"real(7,2)", "bit", "bit(9)", "date", "time(3)", "datetime", "datetime(6)", "timestamp(2) null", "year", "char", "char(7)", "char(3) byte", "varchar(20)", "varchar(30) character set latin1", "nvarchar(4)", "char varying(9)",
		"national character varying(3)", "text", "text(80)", "tinytext", "mediumtext character set utf8", "text binary", "longtext collate latin1_bin", "blob", "blob(300)", "varbinary(9)", "binary", "json", "inet6", "uuid", "point",
		"enum('x','Y''s','z ')", "set('p','q') charset latin1", "enum(0x61,'b')", "varchar(50) compressed", "text compressed", "char(4) ascii", "char(4) unicode", "varchar(5) collate binary", "long varchar", "int8", "varchar(70000)")
	return t + pick(r, "", "", " null", " not null", " comment 'x, drop a'", " invisible", " default null", " unique", " check (1 < 2)", " not null default (1)")
}

func randomDDL(r *rand.Rand) string {
	table := func() string { return pick(r, "t", "u", "v") }
	switch r.IntN(14) {
	case 0, 1:
		var columns []string
		for _, n := range []string{"a", "b", "c", "d"}[:1+r.IntN(4)] {
			columns = append(columns, n+" "+randomType(r))
		}
		if r.IntN(2) == 0 {
			columns = append(columns, pick(r, "primary key (a)", "primary key (b, a)", "unique (a)", "unique key k (b)", "key (a), unique (a)", "constraint x unique (a)", "g int as (1) virtual", "g int generated always as (2) stored", "check (a > 0)"))
		}
		return "CREATE " + pick(r, "", "OR REPLACE ") + "TABLE " + pick(r, "", "IF NOT EXISTS ") + table() + " (" + strings.Join(columns, ", ") + ")" +
			pick(r, "", " charset latin1", " DEFAULT CHARACTER SET = utf8", " collate utf8mb4_bin", " with system versioning", " engine=innodb, comment='charset latin2'", " charset gbk partition by hash (1) partitions 2")
	case 2:
		return "CREATE TABLE " + table() + " LIKE " + table()
	case 3:
		return pick(r, "DROP TABLE "+table(), "TRUNCATE "+table(), "DROP TABLE IF EXISTS "+table()+", "+table())
	case 4:
		return "RENAME TABLE " + table() + " TO x1, " + table() + " TO " + table() + ", x1 TO " + table()
	case 5:
		return pick(r, "ALTER DATABASE r CHARACTER SET "+pick(r, "latin1", "utf8mb4", "utf8"), "CREATE UNIQUE INDEX "+randomColumn(r)+" ON "+table()+" (a)", "DROP INDEX "+randomColumn(r)+" ON "+table())
	}
	var specs []string
	names := slices.Clone(columnNames)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	randomColumn := func(*rand.Rand) string {
		n := names[0]
		names = append(names[1:], n)
		return n
	}
	for range 1 + r.IntN(2) {
		place := pick(r, "", "", " first", " after "+randomColumn(r))
		specs = append(specs, pick(r,
			"add "+randomColumn(r)+" "+randomType(r)+place,
			"add column if not exists "+randomColumn(r)+" "+randomType(r)+place,
			"add ("+randomColumn(r)+" "+randomType(r)+", "+randomColumn(r)+" int, key (a))",
			"drop "+randomColumn(r),
			"drop column if exists "+randomColumn(r),
			"change "+randomColumn(r)+" "+randomColumn(r)+" "+randomType(r)+place,
			"modify "+randomColumn(r)+" "+randomType(r)+place,
			"rename column "+randomColumn(r)+" to "+randomColumn(r),
			"alter "+randomColumn(r)+" drop default",
			"add primary key (a)", "drop primary key", "add unique (b)", "drop key "+randomColumn(r), "add unique index (a, b)",
			"convert to charset "+pick(r, "latin1", "utf8mb4", "utf8"), "default charset "+pick(r, "latin1", "utf8mb4"),
			"rename to "+pick(r, "t", "u"), "rename key a to q", "engine=innodb", "comment 'drop a, drop b'",
		))
	}
	return "ALTER TABLE " + pick(r, "t", "u", "v") + " " + strings.Join(specs, ", ")
}
