//go:build cgo

package sql

import (
	"context"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// Reference is a plain DuckDB with real tables, to compare with.
type Reference struct{ e *engine }

func NewReference() (*Reference, error) {
	e, err := openEngine(map[string]string{"threads": "1"})
	if err != nil {
		return nil, err
	}
	return &Reference{e}, e.exec(context.Background(), "SET TimeZone = 'UTC'")
}

// Create makes a table; the rows have a cell more, the label.
func (r *Reference) Create(name string, fields []schema.Field, rows [][]schema.Value) error {
	columns := make([]string, len(fields))
	for i, f := range fields {
		columns[i] = identifier(f.Name) + " " + typeName(f.Type)
	}
	if err := r.Exec("CREATE TABLE " + identifier(name) + " (" + strings.Join(columns, ", ") + ")"); err != nil {
		return err
	}
	for len(rows) > 0 {
		n := min(len(rows), 100)
		lines := make([]string, n)
		for i, row := range rows[:n] {
			cells := make([]string, len(row))
			for c, v := range row {
				cells[c] = literal(v, fields[c].Type)
			}
			lines[i] = "(" + strings.Join(cells, ", ") + ")"
		}
		if err := r.Exec("INSERT INTO " + identifier(name) + " VALUES " + strings.Join(lines, ", ")); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (r *Reference) Exec(statement string) error { return r.e.exec(context.Background(), statement) }

// Query gives the columns and the rows of a statement.
func (r *Reference) Query(statement string) ([]schema.Field, [][]schema.Value, error) {
	ctx := context.Background()
	p, err := r.e.prepare(ctx, statement)
	if err != nil {
		return nil, nil, err
	}
	defer p.close()
	s, err := r.e.stream(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	var rows [][]schema.Value
	for row, err := range s.rows {
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, append([]schema.Value(nil), row...))
	}
	return s.fields(), rows, nil
}

func (r *Reference) Close() { r.e.close() }

// Unfenced runs a statement on an executor that may open some files, past the
// check of its syntax tree: what is left is what DuckDB itself refuses.
func Unfenced(dir string, paths []string, statement string) error {
	ctx := context.Background()
	f := &files{}
	for _, p := range paths {
		f.order = append(f.order, &dataFile{path: p})
	}
	o := Options{}.withDefaults()
	x, err := openExecutor(ctx, nil, &o, &statementOf, f, dir+"/spill")
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer x.close()
	return x.exec(ctx, statement)
}

var statementOf statement

// SetMaxParts sets from how many groups of files on a table is a join, and gives
// what sets it back.
func SetMaxParts(n int) (restore func()) {
	before := maxParts
	maxParts = n
	return func() { maxParts = before }
}

// SetExcerpts sets how many bytes of a file's end are read first, and what gaps are
// read, and gives what sets them back.
func SetExcerpts(guess, gap int64) (restore func()) {
	beforeGuess, beforeGap := footerGuess, excerptGap
	footerGuess, excerptGap = guess, gap
	return func() { footerGuess, excerptGap = beforeGuess, beforeGap }
}
