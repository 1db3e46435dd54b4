package scd2

import (
	"context"
	"errors"

	"github.com/gscd-io/gscd/delta"
)

// Status is how far a history table is behind its source.
type Status struct {
	// Built tells that there is one. The rest but Sealed and Behind is zero without.
	Built   bool
	Version int64
	// First and Last are the labels that it has, "" for none; LastVersion is the version of
	// the source that Last was taken from, Rollbacks how many rollbacks were followed.
	First, Last string
	LastVersion int64
	Rollbacks   int64
	Granularity string
	Columns     Columns
	OpenEnd     string
	// Sealed is the last sealed label of the source, "" for none.
	Sealed string
	// Behind are the sealed labels to take, oldest first; Undo those to take back before,
	// which the source has rolled back or sealed anew.
	Behind, Undo []string
	// Incomplete says since when, and why, days of the source may lack rows.
	IncompleteSince, Incomplete string
}

// UpToDate tells that a run would do nothing.
func (s *Status) UpToDate() bool { return s.Built && len(s.Behind)+len(s.Undo) == 0 }

// StatusOf compares a history table with its source. The error wraps ErrForeign or
// ErrOtherSource.
func StatusOf(ctx context.Context, src *Source, out *delta.Table) (*Status, error) {
	r := &Status{Version: -1, LastVersion: -1}
	behind := src.Labels.Progress.State.First - 1
	st, err := readState(ctx, out, src)
	switch {
	case errors.Is(err, ErrNotBuilt):
	case err != nil:
		return nil, err
	default:
		r.Built, r.Version, r.Rollbacks = true, st.snapshot.Version(), st.rollbacks
		r.Granularity, r.Columns, r.OpenEnd = st.Granularity, st.Columns, st.OpenEnd
		if last, ok := st.lastTaken(); ok {
			r.First, r.Last, r.LastVersion = st.taken[0].name, last.name, last.version
		}
		at := st.undone(src.Labels)
		for _, t := range st.taken[at:] {
			r.Undo = append(r.Undo, t.name)
		}
		if behind, err = st.behind(src.Labels, at); err != nil {
			return nil, err
		}
	}
	list, _ := due(src.Labels, behind)
	for _, e := range list {
		r.Behind = append(r.Behind, e.Name)
	}
	all, _ := due(src.Labels, src.Labels.Progress.State.First-1)
	if len(all) > 0 {
		r.Sealed = all[len(all)-1].Name
	}
	if inc := src.Labels.Progress.Incomplete; inc != nil {
		r.IncompleteSince, r.Incomplete = src.Labels.Calendar.Name(inc.Since), inc.Reason
	}
	return r, nil
}
