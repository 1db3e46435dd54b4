package deadletter

import (
	"context"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// States tells what became of entries, as of one version of the table.
type States struct {
	p       *progress.Progress
	cal     *snapshotter.Calendar
	settled settled.Set
	// waiting are the places of held changes that are due: they have no fate yet.
	waiting map[settled.Place]bool
}

// ReadStates reads what a progress and its side files say. store is the table's.
func ReadStates(ctx context.Context, store objstore.Store, cal *snapshotter.Calendar, p *progress.Progress) (*States, error) {
	s := &States{p: p, cal: cal, waiting: map[settled.Place]bool{}}
	var err error
	if s.settled, err = settled.Load(ctx, store, p.Settled); err != nil {
		return nil, err
	}
	var due []drift.File // what is held for a later label has no entry, or one that is settled
	for _, f := range p.Held {
		if f.Load != nil || f.Label <= p.State.Open {
			due = append(due, f)
		}
	}
	r := drift.NewReader(ctx, store, due)
	defer r.Close()
	for {
		e, _, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil {
			return s, nil
		}
		s.waiting[settled.PlaceOf(e.Record)] = true
	}
}

// Of gives what became of an entry. It needs the place, OpenLabel and Made alone.
//
// An entry says nothing about the version where its record has not been taken in
// it yet (the table was rolled back behind it, or its writer ended before the
// commit), or waits there among the held changes.
func (s *States) Of(e *Entry) settled.Resolution {
	undone := settled.Resolution{State: settled.Undone}
	p := s.p.State.Find(change.PartitionID{Topic: e.Topic, Partition: e.Partition})
	if p == nil || e.Offset >= p.Next || s.waiting[e.Place()] {
		return undone
	}
	if r, ok := s.settled[e.Place()]; ok {
		return r
	}
	for _, span := range s.p.Undone {
		if e.Made >= span.From && e.Made <= span.To {
			return undone
		}
	}
	if made, err := s.cal.Parse(e.OpenLabel); err == nil && made > s.p.State.Open {
		return undone
	}
	return settled.Resolution{State: settled.Active}
}
