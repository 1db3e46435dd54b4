package transform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// filterKey is the shapes of a row and of the row before.
type filterKey struct{ after, before *change.Columns }

// filter is the condition, typed by the columns of both shapes.
type filter struct {
	eval *expr.Evaluator
	// places of the condition's columns in the schema, and of each the places in the
	// shapes, -1 where a shape does not have it.
	at            []int
	names         []string
	after, before []int
	columns       [][]schema.Value // by place, of one cell each
	err           error
}

// verdict is whether a row is taken.
type verdict uint8

const (
	unknown verdict = iota
	taken
	left
)

// filter makes of a change what it is for the rows that are taken: an update by which
// a row leaves is a delete of it, one by which it comes in an insert or update as it is.
func (d *Decoder) filter(c *change.Change) error {
	if d.rules.where == "" || c.Op == change.Tombstone {
		return nil
	}
	f := d.filterOf(filterKey{c.Columns, c.BeforeColumns})
	if f.err != nil {
		if c.Op == change.Delete && c.Columns == nil {
			return nil // the row before has other columns than the condition: delete it
		}
		return f.err
	}
	after, missing := f.row(c, true)
	before, _ := f.row(c, false)
	if c.After != nil && after == unknown {
		return &decode.Error{Reason: ReasonFilter, Err: fmt.Errorf("column %q of row_filter is not in the row (a partial image), and not in the row before", missing)}
	}
	switch {
	case c.After != nil && after == taken:
		return nil
	case c.Op == change.Delete && before != left:
		return nil
	case c.Op == change.Update && before != left:
		c.Op = change.Delete
	case c.Op == change.Insert:
		c.Op, c.IfThere = change.Delete, true // it may be an update: some formats don't tell
	default: // a read, or the row was not taken before
		*c = change.Change{Op: change.Filtered, EventTime: c.EventTime}
		return nil
	}
	if c.Before == nil {
		c.BeforeColumns, c.Before = c.Columns, c.After
	}
	c.Columns, c.After = nil, nil
	return nil
}

func (d *Decoder) filterOf(key filterKey) *filter {
	f := d.filters[key]
	if f == nil {
		if d.filters == nil || len(d.filters) >= maxPlans {
			d.filters = map[filterKey]*filter{}
		}
		f = d.rules.filter(key)
		d.filters[key] = f
	}
	return f
}

// filter types the condition.
func (r *Rules) filter(key filterKey) *filter {
	f := &filter{}
	var fields []schema.Field
	var untyped []string
	place := map[string]int{}
	for _, cols := range []*change.Columns{key.after, key.before} {
		if cols == nil {
			continue
		}
		for _, col := range cols.List {
			name := strings.ToLower(col.Name)
			if _, there := place[name]; there {
				continue
			}
			if col.Type.Primitive == schema.Unknown {
				untyped = append(untyped, col.Name)
				continue
			}
			place[name] = len(fields)
			fields = append(fields, schema.Field{Name: col.Name, Type: col.Type, Nullable: true})
		}
	}
	s, err := schema.New(fields...)
	var pred *expr.Predicate
	if err == nil {
		pred, err = expr.Parse(r.where, s)
	}
	if err != nil {
		if len(untyped) > 0 {
			err = fmt.Errorf("%w; the records give no types of the columns %s: name them under columns:", err, strings.Join(untyped, ", "))
		}
		f.err = &decode.Error{Reason: ReasonFilter, Err: fmt.Errorf("row_filter: %w", err)}
		return f
	}
	f.eval, f.at = pred.NewEvaluator(), pred.Columns()
	f.columns = make([][]schema.Value, len(s.Fields))
	find := func(cols *change.Columns, name string) int {
		if cols != nil {
			for i, col := range cols.List {
				if strings.EqualFold(col.Name, name) {
					return i
				}
			}
		}
		return -1
	}
	for _, at := range f.at {
		name := s.Fields[at].Name
		f.names = append(f.names, name)
		f.after, f.before = append(f.after, find(key.after, name)), append(f.before, find(key.before, name))
		f.columns[at] = make([]schema.Value, 1)
	}
	return f
}

// row judges the row, whose cells that were not sent are those before, or the row before.
func (f *filter) row(c *change.Change, after bool) (v verdict, missing string) {
	cell := func(at int, cells []schema.Value) (schema.Value, bool) {
		if at < 0 || at >= len(cells) || cells[at].Kind == schema.Unavailable {
			return schema.Value{}, false
		}
		return cells[at], true
	}
	for i, at := range f.at {
		v, ok := schema.Value{}, false
		if after {
			v, ok = cell(f.after[i], c.After)
		}
		if !ok {
			if v, ok = cell(f.before[i], c.Before); !ok {
				return unknown, f.names[i]
			}
		}
		f.columns[at][0] = v
	}
	if len(f.eval.Select(f.columns, []int32{0})) == 1 {
		return taken, ""
	}
	return left, ""
}

// ErrCondition is wrapped by the errors of CheckCondition.
var ErrCondition = errors.New("no condition of rows")

// CheckCondition reports a text that can be no condition, whatever the columns are.
func CheckCondition(text string) error {
	_, err := expr.Parse(text, &schema.Schema{})
	var syntax *expr.SyntaxError
	if err == nil || errors.As(err, &syntax) && strings.HasPrefix(syntax.Reason, "there is no column") {
		return nil // the columns are known by the records alone
	}
	return fmt.Errorf("%w: %w", ErrCondition, err)
}
