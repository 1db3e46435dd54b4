package scd2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// The txn actions of a history table. They move with the rows, and survive checkpoints,
// OPTIMIZE and log cleanup.
const (
	// appSteps counts the commits, so that of two runs one is first.
	appSteps = "gscd.scd2"
	// appLabel with a label's name behind it: the version of the source that it was taken
	// from, or -1 less that where it was undone.
	appLabel = "gscd.scd2/"
	// appRollbacks counts the rollbacks of the source that were followed.
	appRollbacks = "gscd.scd2.rollbacks"
	// appSource is the newest version of the source that a label was taken from.
	appSource = "gscd.scd2.source"
)

// gone is the version that marks a label as undone.
func gone(version int64) int64 { return -1 - version }

// Source is the table whose history is kept.
type Source struct {
	// Address is where it is, for messages and for the table's own record.
	Address  string
	Table    *delta.Table
	Snapshot *delta.Snapshot
	Labels   *savepoint.Map
}

// taken is a label that the history table has.
type taken struct {
	label   snapshotter.Label
	name    string
	version int64 // of the source
}

// state is how far a history table is.
type state struct {
	*settings
	snapshot  *delta.Snapshot
	steps     int64
	rollbacks int64
	source    int64
	taken     []taken // rising
}

// stateOf reads a history table of a source. The error wraps ErrForeign or ErrOtherSource.
func stateOf(s *delta.Snapshot, src *Source) (*state, error) {
	set, err := settingsOf(s)
	if err != nil {
		return nil, err
	}
	if id := src.Snapshot.Metadata().ID; id != set.Source {
		return nil, fmt.Errorf("%w: it is the history of %s (id %s), and %s has the id %s; give another --out", ErrOtherSource, set.Address, set.Source, src.Address, id)
	}
	st := &state{settings: set, snapshot: s, source: -1}
	for txn := range s.Txns() {
		switch {
		case txn.AppID == appSteps:
			st.steps = txn.Version
		case txn.AppID == appRollbacks:
			st.rollbacks = txn.Version
		case txn.AppID == appSource:
			st.source = txn.Version
		case strings.HasPrefix(txn.AppID, appLabel) && txn.Version >= 0:
			name := strings.TrimPrefix(txn.AppID, appLabel)
			l, err := src.Labels.Calendar.Parse(name)
			if err != nil {
				return nil, fmt.Errorf("txn %q: %w", txn.AppID, err)
			}
			st.taken = append(st.taken, taken{l, name, txn.Version})
		}
	}
	slices.SortFunc(st.taken, func(a, b taken) int { return cmp.Compare(a.label, b.label) })
	return st, nil
}

// readState reads the newest version of a history table. The error wraps ErrNotBuilt,
// ErrForeign or ErrOtherSource.
func readState(ctx context.Context, out *delta.Table, src *Source) (*state, error) {
	s, err := out.Snapshot(ctx)
	if errors.Is(err, delta.ErrNotATable) {
		return nil, fmt.Errorf("%w at %s", ErrNotBuilt, out.Store())
	}
	if err != nil {
		return nil, err
	}
	st, err := stateOf(s, src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out.Store(), err)
	}
	return st, nil
}

// undone is where the labels begin in taken that the source has rolled back or sealed anew
// since: len(taken) where there are none.
func (st *state) undone(m *savepoint.Map) int {
	now := map[snapshotter.Label]int64{}
	for _, e := range m.Entries {
		if !e.Kept && (e.State == savepoint.Sealed || e.State == savepoint.DeletedOne) {
			now[e.Label] = e.Version
		}
	}
	for i, t := range st.taken {
		if v, ok := now[t.label]; !ok || v != t.version {
			return i
		}
	}
	return len(st.taken)
}

// behind is the label behind which the next one is to be taken, when so many of those that
// are taken stay.
func (st *state) behind(m *savepoint.Map, stay int) (snapshotter.Label, error) {
	switch {
	case stay > 0:
		return st.taken[stay-1].label, nil
	case st.From != "":
		l, err := m.Calendar.Parse(st.From)
		if err != nil {
			return 0, fmt.Errorf("property %s: the first label: %w", Property, err)
		}
		return l - 1, nil
	}
	return m.Progress.State.First - 1, nil
}

// due are the sealed labels behind a label, rising; deleted are those among them whose
// savepoints are gone: their changes count in the next one.
func due(m *savepoint.Map, behind snapshotter.Label) (list []savepoint.Entry, deleted []string) {
	for _, e := range m.Entries {
		if e.Kept || e.Label <= behind {
			continue
		}
		switch e.State {
		case savepoint.Sealed:
			list = append(list, e)
		case savepoint.DeletedOne:
			deleted = append(deleted, e.Name)
		}
	}
	return list, deleted
}
