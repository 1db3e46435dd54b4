package decode

import (
	"fmt"
	"path"
	"strings"

	"github.com/gscd-io/gscd/ingest/change"
)

// takes reports whether the change is of a table that Options.Source names, and notes
// its names.
func (o *Options) takes(db, table string, out *change.Change) bool {
	out.Database, out.Table = db, table
	if !o.pattern {
		return isTable(o.Source, db, table)
	}
	dbs, tables, _ := strings.Cut(o.Source, ".")
	okDB, _ := path.Match(dbs, db) // the pattern was checked
	okTable, _ := path.Match(tables, table)
	return okDB && okTable
}

// CheckSource reports a text that names no table, and no pattern of tables. It tells
// whether it is a pattern, in which * stands for any text, ? for a character and [0-9]
// for one of some.
func CheckSource(source string) (pattern bool, err error) {
	db, table, ok := strings.Cut(source, ".")
	if !ok || db == "" || table == "" {
		return false, fmt.Errorf("source is %q, set database.table", source)
	}
	for _, part := range []string{db, table} {
		if _, err := path.Match(part, ""); err != nil {
			return false, fmt.Errorf("source is %q: %w: * is any text, ? a character, [0-9] one of some", source, err)
		}
		pattern = pattern || strings.ContainsAny(part, "*?[\\")
	}
	return pattern, nil
}
