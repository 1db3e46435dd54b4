package ddl

import (
	"fmt"
	"strings"
	"testing"
)

// The statements of gh-ost: the new table begins as a copy, is altered, and takes the
// name in the end. What became of the columns of t is known, a rename too.
func TestOnlineSchemaChange(t *testing.T) {
	for _, test := range []struct{ name, script, swap, want string }{
		{"gh-ost", "CREATE TABLE _t_gho LIKE t; ALTER TABLE _t_gho CHANGE b c bigint, DROP x, ADD y text", "RENAME TABLE t TO _t_del, _t_gho TO t",
			"drop x, b int -> c bigint, add y text"},
		{"pt-online-schema-change", "CREATE TABLE _t_new (id int primary key, b int, x varchar(10)) charset latin1; ALTER TABLE _t_new DROP x, MODIFY b bigint", "RENAME TABLE d.t TO d._t_old, d._t_new TO d.t",
			"drop x, b int -> b bigint"},
		{"nothing but a rebuild", "CREATE TABLE _t_gho LIKE t; ALTER TABLE _t_gho ENGINE=InnoDB", "RENAME TABLE t TO _t_del, _t_gho TO t", ""},
	} {
		c, s := NewCatalog(), Session{Database: "d"}
		for _, statement := range strings.Split("CREATE TABLE t (id int primary key, b int, x varchar(10)) charset latin1; "+test.script, "; ") {
			if _, err := c.Apply(statement, s); err != nil {
				t.Fatal(err)
			}
		}
		effects, err := c.Apply(test.swap, s)
		if err != nil {
			t.Fatal(err)
		}
		outcomes := Outcomes(effects)
		if len(outcomes) != 3 || outcomes[0].Name != (Name{"d", "t"}) || outcomes[0].Old == nil || outcomes[0].New == nil || outcomes[0].New.Name != "t" || !outcomes[0].Known {
			t.Fatalf("%s: %+v", test.name, outcomes)
		}
		if outcomes[1].New == nil || outcomes[2].New != nil {
			t.Errorf("%s: %+v", test.name, outcomes)
		}
		var said []string
		for _, ch := range Diff(outcomes[0].Old, outcomes[0].New) {
			switch {
			case ch.New == "":
				said = append(said, "drop "+ch.Old)
			case ch.Old == "":
				said = append(said, "add "+ch.New+" "+ch.NewType)
			default:
				said = append(said, fmt.Sprintf("%s %s -> %s %s", ch.Old, ch.OldType, ch.New, ch.NewType))
			}
		}
		if got := strings.Join(said, ", "); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Columns are known by their ID: a drop with an addition of the same name is two
// columns, names that change places are renames.
func TestDiff(t *testing.T) {
	c, s := NewCatalog(), Session{Database: "d"}
	for statement, want := range map[string]string{
		"ALTER TABLE t DROP a, ADD a int":                          "[{a  int } { a  int}]",
		"ALTER TABLE t CHANGE a b int, CHANGE b a int":             "[{a b int int} {b a int int}]",
		"ALTER TABLE t MODIFY a int FIRST, DEFAULT CHARSET latin1": "[]",
		"ALTER TABLE t RENAME COLUMN a TO z":                       "[{a z int int}]",
	} {
		if _, err := c.Apply("CREATE OR REPLACE TABLE t (k int primary key, a int, b int)", s); err != nil {
			t.Fatal(err)
		}
		effects, err := c.Apply(statement, s)
		if err != nil || len(effects) != 1 {
			t.Fatal(err, effects)
		}
		if got := fmt.Sprint(Diff(effects[0].Old, effects[0].New)); got != want {
			t.Errorf("%s: %s, want %s", statement, got, want)
		}
	}
}

// What one statement does to a table is put together by name.
func TestOutcomes(t *testing.T) {
	c, s := NewCatalog(), Session{Database: "d"}
	for _, step := range []struct{ statement, want string }{
		{"CREATE TABLE t (a int)", "t:-+"},
		{"ALTER TABLE t ADD b int, RENAME u", "t:+- u:-+"},
		{"TRUNCATE u", "u:++truncated"},
		{"ALTER TABLE u DROP PARTITION p1", "u:++DROP PARTITION p1"},
		{"ALTER TABLE unknown ADD b int", "unknown:--?"},
		{"RENAME TABLE unknown TO u", "unknown:-- u:--?"},
		{"CREATE TABLE v SELECT 1", "v:-+"},
		{"DROP TABLE IF EXISTS v, w", "v:+-"},
		{"INSERT INTO v VALUES (1)", ""},
	} {
		effects, err := c.Apply(step.statement, s)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		sign := func(t *Table) string {
			if t == nil {
				return "-"
			}
			return "+"
		}
		for _, o := range Outcomes(effects) {
			text := o.Name.Table + ":" + sign(o.Old) + sign(o.New) + o.RowsRemoved
			if o.Truncated {
				text += "truncated"
			}
			if !o.Known {
				text += "?"
			}
			said = append(said, text)
		}
		if got := strings.Join(said, " "); got != step.want {
			t.Errorf("%s: %s, want %s", step.statement, got, step.want)
		}
	}
}

// The key is the primary one, else the first unique one without NULL; it follows its columns.
func TestKey(t *testing.T) {
	c, s := NewCatalog(), Session{Database: "d"}
	for _, step := range []struct{ statement, want string }{
		{"CREATE TABLE t (a int, b int not null, c int not null, unique (a), unique k (c, b))", "[2 1]"},
		{"ALTER TABLE t MODIFY a int NOT NULL", "[0]"},
		{"ALTER TABLE t ADD PRIMARY KEY (b)", "[1]"},
		{"ALTER TABLE t CHANGE b z int FIRST", "[0]"},
		{"ALTER TABLE t DROP PRIMARY KEY", "[1]"},
		{"ALTER TABLE t DROP KEY a, DROP INDEX k", "[]"},
		{"CREATE UNIQUE INDEX x ON t (c)", "[2]"},
		{"DROP INDEX x ON t", "[]"},
	} {
		if _, err := c.Apply(step.statement, s); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.Table("d", "t").Key); got != step.want {
			t.Errorf("%s: %s, want %s", step.statement, got, step.want)
		}
	}
}
