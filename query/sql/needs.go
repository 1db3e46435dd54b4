//go:build cgo

package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// DuckDB opens files of this machine only. Of the files of another store it gets
// excerpts: files of the same layout that have the footer and those column chunks
// that the plan of the statement names, and nothing in between. A scan of such files
// has columns of names that are found in the plan again.

// tableScan is a read_parquet over files of a store that is not local.
type tableScan struct {
	of     *reading
	groups []*group
	// columns are the places in of.fields of the columns that the plan names.
	columns map[int]bool
	// filters are what the plan's scans ask of the rows; one that asks for nothing
	// that is understood is nil.
	filters []*expr.Predicate
}

// marker is the name of a column of a scan.
func marker(scan, column int) string { return fmt.Sprintf("__gscd_%d_%d", scan, column) }

var markers = regexp.MustCompile(`__gscd_([0-9]+)_([0-9]+)`)

// padding are columns that no file has and nothing asks for. A plan does not show a
// filter whose column is, in the scan, behind as many others as the file has; with
// these no column is, though a scan has the places of rows among its columns too.
func padding(byID bool) []string {
	pads := make([]string, 4)
	for i := range pads {
		key := fmt.Sprintf("'__gscd_pad%d'", i)
		if byID {
			key = fmt.Sprint(1<<31 - 1 - i)
		}
		pads[i] = fmt.Sprintf("%s: {name: '__gscd_pad%d', type: 'BOOLEAN', default_value: NULL}", key, i)
	}
	return pads
}

// mark names the columns of a scan of files of another store so that the plan can be
// asked about them. Not for a plan that is shown.
func (x *executor) mark(r *reading, all *group, groups []*group) {
	if !r.remote() && !x.explaining || x.statement.dry {
		return
	}
	s := &tableScan{of: r, groups: groups, columns: map[int]bool{}}
	all.marked, all.cells = true, slices.Clone(all.cells)
	for i := range all.cells {
		if all.cells[i].inner != "" {
			all.cells[i].inner = marker(len(x.scans), i)
		}
	}
	x.scans = append(x.scans, s)
}

// needs asks the plan which columns of which files the statement reads, and leaves
// out of the scans the files that can't have a row for it. It says whether it left
// any out: then what the tables are has to be laid out again.
func (x *executor) needs(ctx context.Context) (again bool, err error) {
	const prefix = "EXPLAIN (FORMAT JSON) "
	rows, err := x.texts(ctx, prefix+x.statement.query)
	var fault *duckError
	if errors.As(err, &fault) {
		if fault.at >= 0 {
			fault.at += len(x.statement.text) - len(x.statement.query) - len(prefix)
		}
		return false, x.fault(asError(x.statement.text, fault, true))
	}
	if err != nil {
		return false, err
	}
	var text strings.Builder
	for _, row := range rows {
		text.WriteString(row[len(row)-1])
	}
	for _, m := range markers.FindAllStringSubmatch(text.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		column, _ := strconv.Atoi(m[2])
		if n < len(x.scans) && column < len(x.scans[n].of.fields) { // else it is a text of the statement's
			x.scans[n].columns[column] = true
		}
	}
	certain := x.readFilters(text.String()) && !x.whole
	if !certain {
		for _, s := range x.scans {
			s.filters = nil
			for i := range s.of.fields {
				s.columns[i] = s.columns[i] || x.whole
			}
		}
	}
	for _, s := range x.scans {
		for _, g := range s.groups {
			for _, file := range g.files {
				unread := certain && len(s.filters) == 0 // the plan has no scan of it, nor what stands for one
				if unread || s.canSkip(func(where *expr.Predicate) bool { return scan.CanSkipFile(file.add, s.stored(), where) }) {
					x.skipped[groupFile{s.of, g.number, file}] = true
					again = true
					continue
				}
				file.scans = append(file.scans, s)
			}
		}
	}
	return again, nil
}

// columns are the fields of a reading as a schema, for filters.
func (r *reading) columns() *schema.Schema {
	if r.schema == nil {
		var err error
		if r.schema, err = schema.New(r.fields...); err != nil {
			r.schema = &schema.Schema{} // no filter has a column of it
		}
	}
	return r.schema
}

// stored are the columns of the reading by the names that the files of the scan, and
// their statistics, have them by.
func (s *tableScan) stored() *schema.Schema {
	fields := slices.Clone(s.of.fields)
	for i, c := range s.groups[0].cells {
		fields[i].FileName, fields[i].FieldID = c.column.Name, c.column.FieldID
	}
	stored, err := schema.New(fields...)
	if err != nil {
		return s.of.columns()
	}
	return stored
}

// canSkip tells whether none of the scans of a plan can find a row where their
// filters are judged so.
func (s *tableScan) canSkip(judged func(*expr.Predicate) bool) bool {
	if len(s.filters) == 0 {
		return false
	}
	for _, f := range s.filters {
		if f == nil || !judged(f) {
			return false
		}
	}
	return true
}

// readFilters finds what the scans of a plan ask of their rows. It is false where
// that is not certain for all of them.
func (x *executor) readFilters(plan string) bool {
	var roots []planNode
	if json.Unmarshal([]byte(plan), &roots) != nil {
		return false
	}
	certain := true
	var walk func(n *planNode)
	walk = func(n *planNode) {
		if strings.Contains(n.Name, "COLUMN_DATA_SCAN") || strings.Contains(n.Name, "DUMMY_SCAN") {
			certain = false // a number of rows may have been taken from footers
		}
		if strings.Contains(n.Name, "READ_PARQUET") {
			of := markers.FindAllStringSubmatch(string(n.Extra), -1)
			number := -1
			for _, m := range of {
				switch i, _ := strconv.Atoi(m[1]); {
				case number < 0 && i < len(x.scans):
					number = i
				case number != i:
					certain = false
				}
			}
			if number < 0 {
				certain = false // it may be of any table, and it wants all rows
				return
			}
			s := x.scans[number]
			s.filters = append(s.filters, s.filterOf(n))
		}
		for i := range n.Children {
			walk(&n.Children[i])
		}
	}
	for i := range roots {
		walk(&roots[i])
	}
	return certain
}

// planNode is an operator of a plan of DuckDB.
type planNode struct {
	Name     string          `json:"name"`
	Children []planNode      `json:"children"`
	Extra    json.RawMessage `json:"extra_info"`
}

// A comparison as a plan shows it, and several of them.
const comparison = `__gscd_[0-9]+_[0-9]+(?:=|>=|<=|>|<)(?:-?[0-9]+(?:\.[0-9]+)?|'(?:[^']|'')*'(?:::(?:DATE|TIMESTAMP))?)`

var (
	comparisons   = regexp.MustCompile(`^` + comparison + `(?: AND ` + comparison + `)*$`)
	oneComparison = regexp.MustCompile(`__gscd_[0-9]+_([0-9]+)(=|>=|<=|>|<)(-?[0-9]+(?:\.[0-9]+)?|'(?:[^']|'')*')(::DATE|::TIMESTAMP)?`)
)

// filterOf gives the conditions of a scan that statistics can say something about;
// nil where there is none.
func (s *tableScan) filterOf(n *planNode) *expr.Predicate {
	var extra struct{ Filters json.RawMessage }
	if json.Unmarshal(n.Extra, &extra) != nil {
		return nil
	}
	var filters []string
	if json.Unmarshal(extra.Filters, &filters) != nil {
		var one string
		if json.Unmarshal(extra.Filters, &one) != nil {
			return nil
		}
		filters = []string{one}
	}
	var conditions []string
	for _, f := range filters {
		if !comparisons.MatchString(f) {
			continue
		}
		for _, m := range oneComparison.FindAllStringSubmatch(f, -1) {
			column, _ := strconv.Atoi(m[1])
			if column >= len(s.of.fields) || !ordered(s.of.fields[column].Type) {
				continue
			}
			literal := m[3]
			if m[4] != "" {
				literal = m[4][len("::"):] + " " + literal
			}
			conditions = append(conditions, identifier(s.of.fields[column].Name)+" "+m[2]+" "+literal)
		}
	}
	if len(conditions) == 0 {
		return nil
	}
	where, err := expr.Parse(strings.Join(conditions, " AND "), s.of.columns())
	if err != nil {
		return nil // a filter less
	}
	return where
}

// ordered tells types whose statistics are in DuckDB's order beyond doubt.
func ordered(t schema.Type) bool {
	switch t.Primitive {
	case schema.Byte, schema.Short, schema.Integer, schema.Long, schema.StringType, schema.Date, schema.TimestampNTZ, schema.DecimalType:
		return true
	}
	return false
}

// shown puts the names of columns in the place of their markers.
func (x *executor) shown(text string) string {
	return markers.ReplaceAllStringFunc(text, func(found string) string {
		m := markers.FindStringSubmatch(found)
		n, _ := strconv.Atoi(m[1])
		column, _ := strconv.Atoi(m[2])
		if n >= len(x.scans) || column >= len(x.scans[n].of.fields) {
			return found
		}
		name := x.scans[n].of.fields[column].Name
		return name + strings.Repeat(" ", max(len(found)-len(name), 0)) // it stands in a box
	})
}
