package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/savepoint"
)

// MaxColumns is how many columns are described where none are named: the first ones.
const MaxColumns = 60

// exactRows is up to how many rows distinct values are counted one by one. The estimate
// of DuckDB beyond it is mostly within 15 %, at times 25 %, of the truth.
const exactRows = 2_000_000

// Profile is what columns hold in some labels.
type Profile struct {
	// Labels are those described, oldest first, of them Read those whose values were read.
	Labels []string
	Read   []string
	// Of is how many labels can be read at all, and Rows how many rows were read.
	Of   int
	Rows int64
	// Exact tells that distinct values were counted, and not estimated by HyperLogLog.
	Exact bool
	// Columns are in the order of the schema; Skipped are those beyond MaxColumns.
	Columns []Column
	Skipped int
	// Why says why values of some labels were not read, "" where all were.
	Why string
}

// Column is what one column holds, a Cell for each of Profile.Labels.
type Column struct {
	Name, Type string
	Cells      []Cell
}

// Cell is what a column holds in a label.
type Cell struct {
	// Absent: the label's version has no such column.
	Absent bool
	// Rows are the label's, Nulls and Distinct those of the column; -1 where they are
	// not known.
	Rows, Nulls, Distinct int64
	// Min and Max are as text, "" with HasRange unset where they are not known.
	Min, Max string
	HasRange bool
	// Bounds: the values are of the log's statistics, where deleted rows and cut values
	// may make them wider than the truth.
	Bounds bool
}

// described is a label of a profile and the version that answers it.
type described struct {
	label    string
	version  int64
	rows     int64
	snapshot *delta.Snapshot
	read     bool
}

func (r *Report) profile(ctx context.Context, s Source, o Options) error {
	fields, skipped, err := chosen(s.Newest.Schema(), o.Columns)
	if err != nil {
		return err
	}
	p := &Profile{Skipped: skipped}
	var labels []*described
	for i := range r.Days {
		d := &r.Days[i]
		if !d.Kept && (d.State == savepoint.Sealed || d.State == savepoint.Open) {
			labels = append(labels, &described{label: d.Name, version: d.Version, rows: d.Rows})
		}
	}
	p.Of = len(labels) + r.LeftOut
	labels = labels[max(0, len(labels)-o.Labels):]
	if err := openAll(ctx, s, labels); err != nil {
		return err
	}
	for _, f := range fields {
		p.Columns = append(p.Columns, Column{Name: f.Name, Type: f.Type.String(), Cells: make([]Cell, len(labels))})
	}
	for _, d := range labels {
		p.Labels = append(p.Labels, d.label)
	}
	if err := p.readValues(ctx, s, o, fields, labels); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.Why = err.Error()
		if !errors.Is(err, sql.ErrNotBuilt) {
			r.problem("error", "unread", "", "values could not be read: "+err.Error())
		}
		for _, d := range labels {
			d.read = false
		}
		p.Rows, p.Exact = 0, false
	}
	for i, d := range labels {
		if d.read {
			p.Read = append(p.Read, d.label)
			continue
		}
		p.fromStatistics(i, d, fields)
	}
	r.Profile = p
	return nil
}

// chosen are the columns to describe.
func chosen(s *schema.Schema, names []string) (fields []schema.Field, skipped int, err error) {
	for _, name := range names {
		i := s.IndexFold(name)
		if i < 0 {
			return nil, 0, fmt.Errorf("%w: %s; the columns are %s", ErrNoColumn, name, strings.Join(s.Names(), ", "))
		}
		fields = append(fields, s.Fields[i])
	}
	if names != nil {
		return fields, 0, nil
	}
	fields = s.Fields
	if skipped = max(0, len(fields)-MaxColumns); skipped > 0 {
		fields = fields[:MaxColumns]
	}
	return fields, skipped, nil
}

// ErrNoColumn: a column is to be described that the table does not have.
var ErrNoColumn = errors.New("the table has no such column")

func openAll(ctx context.Context, s Source, labels []*described) error {
	var versions []int64
	for _, d := range labels {
		if d.version == s.Newest.Version() {
			d.snapshot = s.Newest
		} else {
			versions = append(versions, d.version)
		}
	}
	slices.Sort(versions)
	return s.Table.EachSnapshot(ctx, slices.Compact(versions), func(version int64, at *delta.Snapshot, err error) error {
		if err != nil {
			return fmt.Errorf("version %d: %w; `gscd check` says more", version, err)
		}
		for _, d := range labels {
			if d.version == version {
				d.snapshot = at
			}
		}
		return nil
	})
}

// readValues reads the columns of the last labels, as long as their rows are not too many,
// with one statement: files that several of them have are read once.
func (p *Profile) readValues(ctx context.Context, s Source, o Options, fields []schema.Field, labels []*described) error {
	if !sql.Built {
		return sql.ErrNotBuilt
	}
	rows := int64(0)
	for i := len(labels) - 1; i >= 0; i-- {
		if rows += labels[i].rows; rows > o.MaxRows {
			p.Why = fmt.Sprintf("they have more than %d rows together with those after them", o.MaxRows)
			break
		}
		labels[i].read = true
	}
	places := map[string]int{}
	var wanted []string
	for i, d := range labels {
		if d.read {
			places[d.label] = i
			wanted = append(wanted, literal(d.label))
			p.Rows += d.rows
		}
	}
	if len(wanted) == 0 || len(fields) == 0 {
		return nil
	}
	dt := "dt"
	if s.Newest.Schema().IndexFold(dt) >= 0 {
		dt = "gscd_dt"
	}
	p.Exact = p.Rows <= exactRows
	var aggregates strings.Builder
	for _, f := range fields {
		c := identifier(f.Name)
		fmt.Fprintf(&aggregates, ", count(%s)", c)
		if countable(f.Type) {
			fmt.Fprintf(&aggregates, pick(p.Exact, ", count(DISTINCT %s)", ", approx_count_distinct(%s)"), c)
		}
		if ordered(f.Type) {
			fmt.Fprintf(&aggregates, ", min(%[1]s), max(%[1]s)", c)
		}
	}
	statement := fmt.Sprintf("SELECT %s, count(*)%s FROM t WHERE %[1]s IN (%[3]s) GROUP BY %[1]s", dt, aggregates.String(), strings.Join(wanted, ", "))
	answer, err := sql.Run(ctx, statement, sql.Options{
		Tables: []sql.Table{{Names: []string{"t"}, Open: func(context.Context) (*sql.Source, error) {
			return &sql.Source{Name: s.Name, Store: s.Store, Table: s.Table, Newest: s.Newest, Labels: s.Labels}, nil
		}}},
		MemoryLimit: o.MemoryLimit, TempLimit: o.TempLimit, TempDir: o.TempDir,
	})
	if err != nil {
		return err
	}
	defer answer.Close()
	// A label without rows is no group.
	for i, d := range labels {
		if d.read {
			p.fill(i, d, fields, 0, nil)
		}
	}
	types := answer.Columns()
	for row, err := range answer.All() {
		if err != nil {
			return err
		}
		i := places[row[0].S]
		p.fill(i, labels[i], fields, row[1].I, func(column int) (schema.Value, schema.Type) { return row[2+column], types[2+column].Type })
	}
	return nil
}

// fill sets the cells of a label from the aggregates of a row; at gives them one after
// another, nil where there is no row.
func (p *Profile) fill(label int, d *described, fields []schema.Field, rows int64, at func(int) (schema.Value, schema.Type)) {
	next := 0
	take := func() (v schema.Value, t schema.Type) {
		if at != nil {
			v, t = at(next)
		}
		next++
		return v, t
	}
	for i, f := range fields {
		cell := Cell{Rows: rows, Distinct: -1, Absent: d.snapshot.Schema().Index(f.Name) < 0}
		n, _ := take()
		cell.Nulls = rows - n.I
		if countable(f.Type) {
			n, _ := take()
			cell.Distinct = min(n.I, rows-cell.Nulls) // an estimate may be above
		}
		if ordered(f.Type) {
			low, t := take()
			high, _ := take()
			if cell.HasRange = !low.IsNull() && !high.IsNull(); cell.HasRange {
				cell.Min, cell.Max = shown(t, low), shown(t, high)
			}
		}
		p.Columns[i].Cells[label] = cell
	}
}

// countable are the types whose values are counted, ordered those that have a minimum.
func countable(t schema.Type) bool {
	return t.Primitive != schema.Unknown && t.Primitive < schema.Void
}

func ordered(t schema.Type) bool {
	return countable(t) && t.Primitive != schema.BinaryType
}

func shown(t schema.Type, v schema.Value) string { return cut(string(schema.AppendText(nil, t, v))) }

// identifier and literal write names and texts in SQL.
func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func literal(text string) string    { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
