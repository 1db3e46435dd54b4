package changes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/savepoint"
)

// ErrReplaced: the table is another one, or an older state of it.
var ErrReplaced = errors.New("the table is not the one that was followed")

// Follow waits for the versions of a table as they are committed, or for its seals.
type Follow struct {
	Table   *delta.Table
	Options Options
	// Position is the last version that was dealt with, -1 for none. The caller sets it
	// on as it goes.
	Position int64
	// Sealed waits for seals: their versions are the ends that Next gives.
	Sealed bool
	// Poll is how long it waits between two looks at the log. Default 1 s.
	Poll time.Duration

	last *delta.Snapshot
}

// Next waits until there is something behind Position, and gives the Feed of the table
// as it is then and the ends to go to, ascending: the newest version, or those of the
// seals. The error is that of ctx, one of reading, or wraps ErrReplaced.
func (f *Follow) Next(ctx context.Context) (*Feed, []int64, error) {
	for {
		feed, ends, err := f.Look(ctx)
		if err != nil || len(ends) > 0 {
			return feed, ends, err
		}
		poll := f.Poll
		if poll <= 0 {
			poll = time.Second
		}
		wait := time.NewTimer(poll)
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil, nil, ctx.Err()
		case <-wait.C:
		}
	}
}

// Look is Next that does not wait: ends are none where there is nothing.
func (f *Follow) Look(ctx context.Context) (*Feed, []int64, error) {
	var s *delta.Snapshot
	var err error
	if f.last == nil {
		s, err = f.Table.Snapshot(ctx)
	} else {
		s, err = f.Table.Update(ctx, f.last)
	}
	if err != nil {
		return nil, nil, err
	}
	if s.Version() < f.Position {
		return nil, nil, fmt.Errorf("%w: its newest version is %d, and %d was dealt with", ErrReplaced, s.Version(), f.Position)
	}
	if f.last != nil && s.Metadata().ID != f.last.Metadata().ID {
		return nil, nil, fmt.Errorf("%w: its id was %s and is %s", ErrReplaced, f.last.Metadata().ID, s.Metadata().ID)
	}
	f.last = s
	labels, err := savepoint.Read(ctx, f.Table, s)
	if errors.Is(err, savepoint.ErrForeign) {
		labels, err = nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if f.Sealed && labels == nil {
		return nil, nil, fmt.Errorf("%w: it has no labels that could be sealed", savepoint.ErrForeign)
	}
	feed, err := Open(f.Table, s, labels, f.Options)
	if err != nil {
		return nil, nil, err
	}
	var ends []int64
	switch {
	case !f.Sealed && s.Version() > f.Position:
		ends = []int64{s.Version()}
	case f.Sealed:
		for _, e := range labels.Entries {
			if e.State == savepoint.Sealed && !e.Kept && e.Version > f.Position && (len(ends) == 0 || e.Version > ends[len(ends)-1]) {
				ends = append(ends, e.Version)
			}
		}
	}
	return feed, ends, nil
}

// Before gives the version behind which the changes of a label begin: that of the label
// before it, -1 for the first one.
func (f *Feed) Before(label string) (int64, error) {
	if f.labels == nil {
		return 0, fmt.Errorf("%w: it has no labels, ask by version", savepoint.ErrForeign)
	}
	r, err := f.labels.Resolve(label, false)
	if err != nil {
		return 0, err
	}
	before := int64(-1)
	for _, e := range f.labels.Entries {
		if !e.Kept && e.State != savepoint.RolledBack && e.Label < r.Entry.Label {
			before = max(before, e.Version)
		}
	}
	return before, nil
}

// NetBetween is NetRange of the versions above after, up to upTo; where their change data is
// not there, or not any more, the two versions are compared, and Options.Notice says so.
// after is -1 for all rows of upTo. They belong to the label of upTo.
func (f *Feed) NetBetween(ctx context.Context, after, upTo int64) (u *Unit, end func(), err error) {
	s := labelSpan{after: after, upTo: upTo, label: f.sealedAt(upTo)}
	u, end, err = f.net(ctx, s)
	if err != nil && lost(err) {
		return f.compared(ctx, s, err)
	}
	return u, end, err
}

// sealedAt gives the last label that a version sealed, "" where it sealed none.
func (f *Feed) sealedAt(version int64) (label string) {
	if f.labels == nil {
		return ""
	}
	for _, e := range f.labels.Entries {
		if !e.Kept && e.State == savepoint.Sealed && e.Version == version {
			label = e.Name
		}
	}
	return label
}

// Period gives the time that a label is of, [start, end).
func (f *Feed) Period(label string) (start, end time.Time, ok bool) {
	if f.labels == nil || label == "" {
		return start, end, false
	}
	l, err := f.labels.Calendar.Parse(label)
	if err != nil {
		return start, end, false
	}
	return time.UnixMicro(f.labels.Calendar.Start(l)), time.UnixMicro(f.labels.Calendar.End(l)), true
}
