package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/snapshotter"
)

// Folder is where it is kept what each sink was told of a table.
const Folder = "_delta_log/_gscd/notified/"

// told is what a sink was told of a table.
type told struct {
	// TableID is the id of the table's metadata, "" before the first event.
	TableID string `json:"table_id,omitempty"`
	// Version and Label are the last seal or rollback that was told: all at smaller
	// versions, and at this one of smaller labels, need not be told.
	Version int64             `json:"version"`
	Label   snapshotter.Label `json:"label"`
	// ForGood is when the last rollback without replay that was told was made.
	ForGood string `json:"for_good,omitempty"`
	// Late and Stalled are the last open labels of which late changes and an overdue seal
	// were told.
	Late    *snapshotter.Label `json:"late,omitempty"`
	Stalled *snapshotter.Label `json:"stalled,omitempty"`
}

// lastLabel is behind every label: what was told up to a version, was with all of its labels.
const lastLabel = snapshotter.Label(1 << 61)

// knows tells that a seal or rollback was told.
func (s *told) knows(version int64, label snapshotter.Label) bool {
	return version < s.Version || version == s.Version && label <= s.Label
}

// warned tells that a label was told of, or a later one.
func warned(last *snapshotter.Label, label snapshotter.Label) bool {
	return last != nil && label <= *last
}

// take notes an event that was told.
func (s *told) take(e *Event) {
	label := e.label
	switch e.Kind {
	case Seal, RolledBack:
		if e.version >= 0 && !s.knows(e.version, e.label) {
			s.Version, s.Label = e.version, e.label
		}
		if e.forGood != "" {
			s.ForGood = e.forGood
		}
		if e.Kind == RolledBack { // the labels behind it come again
			if e.version == s.Version {
				s.Label = lastLabel
			}
			for _, last := range []**snapshotter.Label{&s.Late, &s.Stalled} {
				if *last != nil && **last > e.label {
					*last = &label
				}
			}
		}
	case Late:
		s.Late = &label
	case Stall:
		s.Stalled = &label
	}
}

func stateKey(sink string) string { return Folder + sink + ".json" }

// readTold reads what a sink was told. Of one that was told nothing it begins at the table's
// newest version, before the first of a table that does not exist, and keeps that, so
// that a crash before the first event loses none.
func readTold(ctx context.Context, store objstore.Store, sink string) (*told, error) {
	s := &told{Version: -1, Label: lastLabel}
	data, err := store.Get(ctx, stateKey(sink))
	switch {
	case err == nil:
		if err := json.Unmarshal(data, s); err != nil {
			return nil, fmt.Errorf("%s in %s: %w: remove it, and the sink is told what comes from now on", stateKey(sink), store, err)
		}
		return s, nil
	case !errors.Is(err, objstore.ErrNotExist):
		return nil, err
	}
	m, _, err := readMap(ctx, store)
	if err != nil && !errors.Is(err, errGone) {
		return nil, err
	}
	if err == nil {
		s.Version, s.ForGood = max(m.Progress.LastSeal, rollbackOf(m.Progress)), forGoodOf(m.Progress)
	}
	return s, s.write(ctx, store, sink)
}

func (s *told) write(ctx context.Context, store objstore.Store, sink string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return store.Put(ctx, stateKey(sink), append(data, '\n'))
}
