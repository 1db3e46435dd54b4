package scd2

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
)

// CheckIntervals looks at a history table alone, without the table that it is the history
// of: per key no interval is empty, none overlaps another, at most one is open, and
// is_current says so. Rows are sorted by key, in the memory of the options and on disk
// beyond it. The error wraps ErrNotBuilt or ErrForeign.
func CheckIntervals(ctx context.Context, out *delta.Table, c CheckOptions) (*CheckReport, error) {
	if c.Keys <= 0 {
		c.Keys = 100
	}
	o := Options{Memory: c.Memory, TempDir: c.TempDir}.withDefaults()
	s, err := out.Snapshot(ctx)
	if errors.Is(err, delta.ErrNotATable) {
		return nil, fmt.Errorf("%w at %s", ErrNotBuilt, out.Store())
	}
	if err != nil {
		return nil, err
	}
	set, err := settingsOf(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out.Store(), err)
	}
	faults, err := set.intervals(ctx, out, s, &o, c.Keys)
	return &CheckReport{Version: s.Version(), Faults: faults}, err
}

// intervals finds faults of the intervals of a version, by key, so many at most.
func (set *settings) intervals(ctx context.Context, out *delta.Table, s *delta.Snapshot, o *Options, most int) (faults []Fault, err error) {
	columns, c := s.Schema(), set.Columns
	openEnd, err := set.open()
	if err != nil {
		return nil, err
	}
	var key order
	for _, stored := range set.Key {
		i := columns.Index(set.Fields[stored])
		if i < 0 {
			return nil, fmt.Errorf("the history table lacks its key column %q", set.Fields[stored])
		}
		key = append(key, i)
	}
	from, to, current := columns.Index(c.ValidFrom), columns.Index(c.ValidTo), columns.Index(c.IsCurrent)
	if min(from, to, current) < 0 {
		return nil, fmt.Errorf("the history table lacks one of its columns %q", []string{c.ValidFrom, c.ValidTo, c.IsCurrent})
	}
	before := make([]schema.Value, len(columns.Fields)) // the row before: its key and end
	first := true
	for row, err := range sorted(ctx, out, s, append(slices.Clone(key), from), nil, o) {
		if err != nil {
			return nil, err
		}
		isOpen := schema.Equal(row[to], openEnd)
		same := !first && key.compare(before, row) == 0
		problem := ""
		switch {
		case row[from].IsNull(), isOpen != (row[current].I != 0), !isOpen && (row[to].IsNull() || row[from].I >= row[to].I):
			problem = Interval
		case same && isOpen && schema.Equal(before[to], openEnd):
			problem = OpenTwice
		case same && (schema.Equal(before[to], openEnd) || before[to].I > row[from].I):
			problem = Overlap
		}
		if problem != "" {
			faults = append(faults, Fault{Problem: problem, Key: keyText(columns, key, row)})
			if len(faults) == most {
				break
			}
		}
		if !same {
			for _, at := range key {
				before[at] = row[at]
				before[at].S = strings.Clone(row[at].S)
			}
		}
		before[to], first = row[to], false
	}
	return faults, nil
}
