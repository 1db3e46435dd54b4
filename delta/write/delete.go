package write

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
)

// Delete deletes the rows for which a filter is true ("TRUE" for all). A filter on
// partition columns alone reads no file; else only the columns of the filter are read,
// and, where the table takes no deletion vectors, the files that have such rows are
// written anew without them.
func Delete(ctx context.Context, table *delta.Table, where string, options ...Option) (Result, error) {
	return newOperation(table, options).run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		filter, err := expr.Parse(where, p.layout.schema)
		if err != nil {
			return false, err
		}
		if err := p.deleteRows(ctx, filter, func(found []*touched) bool {
			return p.feed() && !p.vectors() && slices.ContainsFunc(found, func(t *touched) bool { return !t.whole() })
		}); err != nil {
			return false, fmt.Errorf("delete from %s: %w", table.Store(), err)
		}
		p.info("DELETE", map[string]string{"predicate": predicates(where)}, p.changeMetrics("numDeletedRows", p.counts.Deleted, p.counts.DeletedUnknown))
		return p.counts.FilesRemoved+p.counts.VectorsAdded+p.counts.VectorsUpdated > 0, nil
	})
}

// deleteRows ends the rows that a filter takes, and records what was read. feed says,
// of the files that have such rows, whether change data files are due.
func (p *plan) deleteRows(ctx context.Context, filter *expr.Predicate, feed func([]*touched) bool) error {
	found, read, err := p.reader.matching(ctx, filter)
	if err != nil {
		return err
	}
	p.scanned = time.Now()
	if err := p.endRows(ctx, found, feed(found), nil); err != nil {
		return err
	}
	p.readsOf(filter, read)
	return nil
}

// readsOf records that a filter was read of some files.
func (p *plan) readsOf(filter *expr.Predicate, files []action.FileKey) {
	bounds := p.reader.bounds(filter.Columns())
	p.tx.SetReads(delta.Reads{Files: files, Match: func(a *action.Add) bool { return !filter.CanSkip(bounds(a)) }})
}

// changeMetrics are those that DELETE and UPDATE share.
func (p *plan) changeMetrics(rows string, n int64, unknown bool) map[string]int64 {
	c := &p.counts
	metrics := map[string]int64{
		"numAddedFiles": c.FilesAdded, "numRemovedFiles": c.FilesRemoved, "numAddedBytes": c.BytesAdded, "numRemovedBytes": c.BytesRemoved,
		"numCopiedRows": c.Copied, "numAddedChangeFiles": c.ChangeFiles,
	}
	if !unknown {
		metrics[rows] = n
	}
	p.vectorMetrics(metrics, "numDeletionVectors")
	return metrics
}

// Set says what an Update sets columns to, by name: a Go value as Values takes it, or a
// Func.
type Set map[string]any

// Func computes a cell of a row as it was before the update: row[i] is the cell of the
// i-th column of the table. It must not keep the row.
type Func func(row []schema.Value) (schema.Value, error)

// Update changes columns of the rows for which a filter is true.
func Update(ctx context.Context, table *delta.Table, where string, set Set, options ...Option) (Result, error) {
	return newOperation(table, options).run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		filter, err := expr.Parse(where, p.layout.schema)
		if err != nil {
			return false, err
		}
		by, err := p.setter(set)
		if err != nil {
			return false, err
		}
		found, read, err := p.reader.matching(ctx, filter)
		if err != nil {
			return false, fmt.Errorf("update %s: %w", table.Store(), err)
		}
		p.scanned = time.Now()
		if err := p.endRows(ctx, found, p.feed(), by); err != nil {
			return false, fmt.Errorf("update %s: %w", table.Store(), err)
		}
		p.readsOf(filter, read)
		p.info("UPDATE", map[string]string{"predicate": predicates(where)}, p.changeMetrics("numUpdatedRows", p.counts.Updated, false))
		return p.counts.Updated > 0, nil
	})
}

// Edit changes or deletes the rows for which a filter is true, each by itself: by makes
// next, which has the old cells, the new row, and says whether it stays.
func Edit(ctx context.Context, table *delta.Table, where string, by func(next []schema.Value) (stays bool, err error), options ...Option) (Result, error) {
	return newOperation(table, options).run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		filter, err := expr.Parse(where, p.layout.schema)
		if err != nil {
			return false, err
		}
		found, read, err := p.reader.matching(ctx, filter)
		if err != nil {
			return false, fmt.Errorf("update %s: %w", table.Store(), err)
		}
		p.scanned = time.Now()
		next := make([]schema.Value, len(p.layout.schema.Fields))
		edit := func(old []schema.Value) ([]schema.Value, error) {
			copy(next, old)
			if stays, err := by(next); err != nil || !stays {
				return nil, err
			}
			return next, p.rules.recompute(next, func(int) bool { return false })
		}
		if err := p.endRows(ctx, found, p.feed(), edit); err != nil {
			return false, fmt.Errorf("update %s: %w", table.Store(), err)
		}
		p.readsOf(filter, read)
		metrics := p.changeMetrics("numUpdatedRows", p.counts.Updated, false)
		metrics["numDeletedRows"] = p.counts.Deleted
		p.info("UPDATE", map[string]string{"predicate": predicates(where)}, metrics)
		return p.counts.Updated+p.counts.Deleted > 0, nil
	})
}

// setter gives what makes a new row of an old one.
func (p *plan) setter(set Set) (replace, error) {
	type assignment struct {
		column int
		value  schema.Value
		of     Func
	}
	var list []assignment
	places := map[int]bool{}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		i := p.layout.schema.IndexFold(name)
		if i < 0 {
			return nil, fmt.Errorf("%w: %q; the table has %q", ErrColumn, name, p.layout.schema.Names())
		}
		f := &p.layout.schema.Fields[i]
		if places[i] {
			return nil, fmt.Errorf("%w: %q is set twice", ErrColumn, f.Name)
		}
		places[i] = true
		if err := settable(f); err != nil {
			return nil, err
		}
		a := assignment{column: i}
		switch v := set[name].(type) {
		case Func:
			a.of = v
		case func([]schema.Value) (schema.Value, error):
			a.of = v
		default:
			var err error
			if a.value, err = valueOf(v, f); err != nil {
				return nil, err
			}
		}
		list = append(list, a)
	}
	next := make([]schema.Value, len(p.layout.schema.Fields))
	return func(old []schema.Value) ([]schema.Value, error) {
		copy(next, old)
		for _, a := range list {
			next[a.column] = a.value
			if a.of != nil {
				var err error
				if next[a.column], err = a.of(old); err != nil {
					return nil, err
				}
			}
		}
		return next, p.rules.recompute(next, func(c int) bool { return places[c] })
	}, nil
}

// settable refuses identity columns.
func settable(f *schema.Field) error {
	if isIdentity(f) {
		return fmt.Errorf("%w: %q is an identity column", ErrColumn, f.Name)
	}
	return nil
}
