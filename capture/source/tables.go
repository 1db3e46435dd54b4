package source

import (
	"fmt"
	"slices"
	"strings"
)

// TableName names a table of the server.
type TableName struct {
	Database, Name string
}

// String gives DATABASE.TABLE.
func (t TableName) String() string { return t.Database + "." + t.Name }

// Compare orders by database, then by name.
func (t TableName) Compare(u TableName) int {
	if c := strings.Compare(t.Database, u.Database); c != 0 {
		return c
	}
	return strings.Compare(t.Name, u.Name)
}

func (t TableName) quoted() string { return quoted(t.Database) + "." + quoted(t.Name) }

// systemDatabases are never captured.
var systemDatabases = []string{"mysql", "sys", "information_schema", "performance_schema"}

// IsSystem tells a database of the server's own.
func IsSystem(database string) bool {
	return slices.Contains(systemDatabases, strings.ToLower(database))
}

// Tables lists the base tables that the user may see, in order.
func (s *Session) Tables(wanted func(database, table string) bool) (out []TableName, err error) {
	rows, err := s.query("SELECT table_schema AS d, table_name AS t FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1, 2")
	for _, r := range rows {
		if n := (TableName{r["d"], r["t"]}); !IsSystem(n.Database) && wanted(n.Database, n.Name) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, TableName.Compare)
	return out, err
}

// Definition gives the statement that creates a table as it is now. The error wraps
// ErrChanged where the table is gone.
func (s *Session) Definition(t TableName) (string, error) {
	rows, err := s.query("SHOW CREATE TABLE " + t.quoted())
	if err != nil {
		return "", changed(err)
	}
	if len(rows) != 1 || rows[0]["create table"] == "" {
		return "", fmt.Errorf("%s: %s is no table", s.server.Name(), t)
	}
	return rows[0]["create table"], nil
}

// Database is what a database sets for its tables.
type Database struct {
	Name, Charset string
}

// Databases lists those that the user may see.
func (s *Session) Databases() (out []Database, err error) {
	rows, err := s.query("SELECT schema_name AS n, default_character_set_name AS c FROM information_schema.schemata")
	for _, r := range rows {
		if !IsSystem(r["n"]) {
			out = append(out, Database{r["n"], r["c"]})
		}
	}
	return out, err
}

// Charset is the server's default character set; FoldNames tells that names of tables
// are compared without case.
func (s *Session) Charset() (charset string, foldNames bool, err error) {
	v, err := s.variables("character_set_server", "lower_case_table_names")
	return v["character_set_server"], v["lower_case_table_names"] != "0", err
}

// MayRead asks whether the user may read a table.
func (s *Session) MayRead(t TableName) error {
	return s.Exec("SELECT 1 FROM " + t.quoted() + " LIMIT 0")
}
