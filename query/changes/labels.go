package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/savepoint"
)

// labelSpan is the versions of one label: those above after, up to upTo, without those
// that a rollback took back.
type labelSpan struct {
	label       string
	after, upTo int64
	without     []progress.Span
}

// Labels gives every change of the labels from..to, both included, as they count now: of
// the versions above the savepoint of the label before from, up to that of to, without
// those that a rollback took back. to may be the open label.
//
// A label whose change data is not there, or not any more, comes by comparing the
// savepoints around it, as net changes of its last version; Options.Notice says so. The
// error, which ends the sequence, wraps one of savepoint's sentinels for a label that can't
// be asked for, and ErrRange where from is behind to.
func (f *Feed) Labels(ctx context.Context, from, to string) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		spans, err := f.spans(from, to)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, s := range spans {
			if !f.every(ctx, s, yield) {
				return
			}
		}
	}
}

// every gives the changes of one label; false ends the sequence.
func (f *Feed) every(ctx context.Context, s labelSpan, yield func(*Change, error) bool) bool {
	p, err := f.plan(ctx, s.after+1, s.upTo, s.without, s.label)
	switch {
	case err != nil && lost(err):
		u, end, err := f.compared(ctx, s, err)
		if err != nil {
			yield(nil, err)
			return false
		}
		defer end()
		for c, err := range u.Changes() {
			if !yield(c, err) || err != nil {
				return false
			}
		}
		return true
	case err != nil:
		yield(nil, err)
		return false
	}
	for c, err := range f.planned(ctx, p, s.after+1, s.upTo) {
		if err != nil && lost(err) {
			err = fmt.Errorf("%s: %w; the net changes of a label can be read without them", s.label, err)
		}
		if !yield(c, err) || err != nil {
			return false
		}
	}
	return true
}

// NetLabels gives the net changes of each of the labels from..to that has versions, in
// order. Labels and errors are as those of Labels.
func (f *Feed) NetLabels(ctx context.Context, from, to string) iter.Seq2[*Unit, error] {
	return func(yield func(*Unit, error) bool) {
		spans, err := f.spans(from, to)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, s := range spans {
			u, end, err := f.net(ctx, s)
			if err != nil && lost(err) {
				u, end, err = f.compared(ctx, s, err)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			more := yield(u, nil)
			end()
			if !more {
				return
			}
		}
	}
}

// spans finds the versions of each label of a range; labels without any are left out.
func (f *Feed) spans(from, to string) ([]labelSpan, error) {
	if f.labels == nil {
		return nil, fmt.Errorf("%w: it has no labels, ask by version", savepoint.ErrForeign)
	}
	first, err := f.labels.Resolve(from, false)
	if err != nil {
		return nil, err
	}
	last, err := f.labels.Resolve(to, false)
	switch {
	case err != nil:
		return nil, err
	case first.Entry.Kept || last.Entry.Kept:
		return nil, fmt.Errorf("%w: %s and %s: of a savepoint that was rolled back, ask by version", ErrRange, from, to)
	case first.Entry.Label > last.Entry.Label:
		return nil, fmt.Errorf("%w: %s is behind %s", ErrRange, from, to)
	}
	var out []labelSpan
	after := int64(-1)
	for _, e := range f.labels.Entries {
		if e.Kept || e.State == savepoint.RolledBack {
			continue
		}
		if e.Label > last.Entry.Label {
			break
		}
		if e.Label >= first.Entry.Label && e.Version > after {
			out = append(out, labelSpan{e.Name, after, e.Version, f.labels.Progress.Undone})
		}
		after = max(after, e.Version)
	}
	return out, nil
}

// compared gives the net changes of a label by comparing the versions at its ends, since
// its change data is not there for a reason.
func (f *Feed) compared(ctx context.Context, s labelSpan, reason error) (u *Unit, end func(), err error) {
	to, err := f.at(ctx, s.upTo)
	if err != nil {
		return nil, nil, errors.Join(reason, err)
	}
	committed, err := f.table.CommitTime(ctx, s.upTo)
	if err != nil {
		return nil, nil, errors.Join(reason, err)
	}
	u = &Unit{Version: s.upTo, Committed: committed, Label: s.label}
	if s.after < 0 {
		u.Keys, err = f.all(ctx, to)
	} else {
		var from *delta.Snapshot
		if from, err = f.at(ctx, s.after); err == nil {
			u.Keys, err = f.difference(ctx, from, to)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(reason, err)
	}
	f.opts.Notice(fmt.Sprintf("%s: there is no change data of it, so versions %d and %d were compared: one net change a key", cmp.Or(s.label, "changes"), s.after, s.upTo))
	return u, func() {}, nil
}

func (f *Feed) at(ctx context.Context, version int64) (*delta.Snapshot, error) {
	if version == f.newest.Version() {
		return f.newest, nil
	}
	return f.table.SnapshotAt(ctx, version)
}

// difference compares two versions. Their rows are put into the newest version's columns.
func (f *Feed) difference(ctx context.Context, from, to *delta.Snapshot) (iter.Seq2[*KeyChange, error], error) {
	if len(f.key) == 0 {
		return nil, fmt.Errorf("net changes: %w", ErrNoKey)
	}
	var key []string
	for _, i := range f.key {
		c := f.Columns()[i]
		at := slices.IndexFunc(to.Schema().Fields, func(o schema.Field) bool { return strings.EqualFold(o.Stored(), c.Stored()) })
		if at < 0 {
			return nil, fmt.Errorf("%w: version %d has no key column %s", ErrNoChanges, to.Version(), c.Name)
		}
		key = append(key, to.Schema().Fields[at].Name)
	}
	d, err := diff.New(f.table.Store(), from, to, diff.Options{Key: key, MemoryLimit: f.opts.Memory, TempDir: f.opts.TempDir})
	if err != nil {
		return nil, err
	}
	var of []schema.Field
	for _, c := range d.Columns() {
		of = append(of, c.Field)
	}
	source := f.sources(of)
	return func(yield func(*KeyChange, error) bool) {
		for c, err := range d.Changes(ctx) {
			if err != nil {
				yield(nil, fmt.Errorf("compare versions %d and %d: %w", from.Version(), to.Version(), err))
				return
			}
			k := KeyChange{Before: placed(c.Old, source), After: placed(c.New, source)}
			if !yield(&k, nil) {
				return
			}
		}
	}, nil
}

// all gives every row of a version as an insert, by key.
func (f *Feed) all(ctx context.Context, to *delta.Snapshot) (iter.Seq2[*KeyChange, error], error) {
	reading, err := scan.New(f.table.Store(), to, scan.Options{})
	if err != nil {
		return nil, err
	}
	source := f.sources(reading.Columns())
	return func(yield func(*KeyChange, error) bool) {
		n, err := f.netting()
		defer n.close()
		if err == nil {
			for row, err1 := range reading.Rows(ctx) {
				if err = err1; err == nil {
					err = n.add(&Change{Kind: scan.Insert, Version: to.Version(), Row: placed(row, source)})
				}
				if err != nil {
					break
				}
			}
		}
		if err != nil {
			yield(nil, fmt.Errorf("read version %d: %w", to.Version(), err))
			return
		}
		n.keys()(yield)
	}, nil
}

// sources gives the places of Columns among other ones, -1 where they are not.
func (f *Feed) sources(of []schema.Field) []int {
	out := make([]int, len(f.Columns()))
	for i, c := range f.Columns() {
		out[i] = slices.IndexFunc(of, func(o schema.Field) bool { return strings.EqualFold(o.Stored(), c.Stored()) })
	}
	return out
}

// placed puts a row into other columns; nil stays nil.
func placed(row []schema.Value, source []int) []schema.Value {
	if row == nil {
		return nil
	}
	out := make([]schema.Value, len(source))
	for i, at := range source {
		if at >= 0 {
			out[i] = row[at]
		}
	}
	return out
}
