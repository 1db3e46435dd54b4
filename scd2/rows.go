package scd2

import (
	"context"
	"iter"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// Kind is what became of a key in a label.
type Kind uint8

// The kinds.
const (
	New Kind = iota
	Changed
	Deleted
)

// change is what became of a key: the rows as the history table has them, but for its own
// columns. Before is nil for New, After for Deleted. They are valid until the next one.
type change struct {
	kind          Kind
	before, after []schema.Value
}

// rows gives rows by key.
type rows = iter.Seq2[[]schema.Value, error]

// order compares rows of the history table by key.
type order []int

func (o order) compare(a, b []schema.Value) int {
	for _, c := range o {
		if n := (expr.Order{Column: c}).Compare(a[c], b[c]); n != 0 {
			return n
		}
	}
	return 0
}

// sorted reads a version by some columns. The rows are in the version's own columns.
func sorted(ctx context.Context, table *delta.Table, s *delta.Snapshot, by []int, where *expr.Predicate, o *Options) rows {
	return func(yield func([]schema.Value, error) bool) {
		var orders []expr.Order
		for _, c := range by {
			orders = append(orders, expr.Order{Column: c})
		}
		reading, err := scan.New(table.Store(), s, scan.Options{OrderBy: orders, Where: where, MemoryLimit: o.Memory / 4, TempDir: o.TempDir})
		if err != nil {
			yield(nil, err)
			return
		}
		for row, err := range reading.Rows(ctx) {
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// sourceRows gives the rows of a version of the source as the history table has them, by
// key or, with by nil, as they come.
func sourceRows(ctx context.Context, src *Source, s *delta.Snapshot, p *placing, width int, by []int, o *Options) rows {
	return func(yield func([]schema.Value, error) bool) {
		var own []int // the key columns in the source; one that it lacks yet is NULL in all rows
		for _, at := range by {
			for i := range p.at {
				if p.at[i] == at {
					own = append(own, i)
				}
			}
		}
		into := make([]schema.Value, width)
		for row, err := range sorted(ctx, src.Table, s, own, nil, o) {
			if err == nil {
				err = p.row(row, into)
			}
			if !yield(into, err) || err != nil {
				return
			}
		}
	}
}

// compare goes through the rows of two states of a table, both by key, and gives what
// became of the keys. Where columns is not nil, keys whose cells are alike in them are left
// out.
func compare(before, after rows, by order, columns []int) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		nextOld, stopOld := iter.Pull2(before)
		defer stopOld()
		nextNew, stopNew := iter.Pull2(after)
		defer stopNew()
		older, err1, hasOld := nextOld()
		newer, err2, hasNew := nextNew()
		for hasOld || hasNew {
			if err1 != nil || err2 != nil {
				if err1 == nil {
					err1 = err2
				}
				yield(change{}, err1)
				return
			}
			n := 0
			switch {
			case !hasOld:
				n = 1
			case !hasNew:
				n = -1
			default:
				n = by.compare(older, newer)
			}
			c := change{kind: Changed, before: older, after: newer}
			switch {
			case n < 0:
				c = change{kind: Deleted, before: older}
			case n > 0:
				c = change{kind: New, after: newer}
			}
			if (n != 0 || columns == nil || !alike(older, newer, columns)) && !yield(c, nil) {
				return
			}
			if n <= 0 {
				older, err1, hasOld = nextOld()
			}
			if n >= 0 {
				newer, err2, hasNew = nextNew()
			}
		}
	}
}

// alike reports whether two rows have the same cells in some columns.
func alike(a, b []schema.Value, columns []int) bool {
	for _, c := range columns {
		if !schema.Equal(a[c], b[c]) {
			return false
		}
	}
	return true
}
