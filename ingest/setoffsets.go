package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// ErrNoOffset: the topic does not have an offset that is asked for.
var ErrNoOffset = errors.New("the topic does not have the offset")

// OffsetsByHand are where partitions go on by a person's word.
type OffsetsByHand struct {
	Offsets map[change.PartitionID]int64
	// States are what the topics have now, nil where nobody can be asked. Without
	// Force every offset must be in it.
	States []change.PartitionState
	Force  bool
	DryRun bool
}

// OffsetMove is one partition's part of a change of offsets.
type OffsetMove struct {
	ID       change.PartitionID
	From, To int64
}

// OffsetsSet says what a change of offsets does, or did.
type OffsetsSet struct {
	Moves []OffsetMove
	// Label is the open one; it and all later ones are incomplete where Incomplete
	// is not empty: records were skipped.
	Label, Incomplete string
	// Committed is the version that did it, -1 for a dry run, or where nothing changes.
	Committed int64
}

// SetOffsets lets a table go on at other offsets, in a commit of its own. Records
// that are skipped make the open label and all later ones incomplete; those that
// come again are duplicates by their position, or superseded. A running ingester
// takes the new version up by itself. The error wraps ErrNoOffset,
// savepoint.ErrForeign or the store's cause.
func SetOffsets(ctx context.Context, store objstore.Store, h OffsetsByHand) (*OffsetsSet, error) {
	table, err := savepoint.OpenTable(ctx, store)
	if err != nil {
		return nil, err
	}
	for range conflictTries {
		s, err := table.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		settings, err := savepoint.ReadSettings(ctx, table, s)
		if err != nil {
			return nil, err
		}
		p, err := savepoint.ProgressOf(ctx, table, s)
		if err != nil {
			return nil, err
		}
		done, err := h.plan(p, settings.Calendar)
		if err != nil || h.DryRun || len(done.Moves) == 0 {
			return done, err
		}
		p.Kind, p.Label = progress.Maintenance, done.Label
		p.Late, p.Seals = nil, nil
		savepoint.NoteUnseen(s, p)
		tx := delta.NewTransaction(table, s)
		version, conflict, err := savepoint.Commit(ctx, tx, p, "SET OFFSETS", map[string]string{"offsets": h.text()})
		if err != nil {
			return nil, fmt.Errorf("set offsets: %w", err)
		}
		if conflict == nil {
			done.Committed = version
			return done, nil
		}
	}
	return nil, fmt.Errorf("set offsets: %w; try again", ErrContended)
}

// plan moves the partitions of a progress.
func (h *OffsetsByHand) plan(p *progress.Progress, cal *snapshotter.Calendar) (*OffsetsSet, error) {
	done := &OffsetsSet{Label: cal.Name(p.State.Open), Committed: -1}
	states := map[change.PartitionID]change.PartitionState{}
	for _, st := range h.States {
		states[st.ID] = st
	}
	var faults []error
	var skipped []string
	for _, id := range h.ids() {
		next := h.Offsets[id]
		part := p.State.Find(id)
		if part == nil {
			faults = append(faults, fmt.Errorf("the table has no partition %s", id))
			continue
		}
		st, known := states[id]
		switch {
		case next < 0:
			faults = append(faults, fmt.Errorf("offset %d of %s: offsets begin at 0", next, id))
		case h.Force:
		case !known:
			faults = append(faults, fmt.Errorf("%w: %s can't be asked whether it has %d; --force sets it all the same", ErrNoOffset, id, next))
		case next < st.Earliest || next > st.End:
			faults = append(faults, fmt.Errorf("%w: %s has %d to %d, not %d; --force sets it all the same", ErrNoOffset, id, st.Earliest, st.End, next))
		}
		if next == part.Next {
			continue
		}
		done.Moves = append(done.Moves, OffsetMove{id, part.Next, next})
		if next > part.Next {
			skipped = append(skipped, fmt.Sprintf("offsets %d to %d of %s were skipped by hand", part.Next, next-1, id))
		}
		moveTo(p, part, next)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	done.Incomplete = strings.Join(skipped, "; ")
	if p.Incomplete == nil && done.Incomplete != "" {
		p.Incomplete = &progress.Incomplete{Since: p.State.Open, Reason: done.Incomplete}
	}
	return done, nil
}

func (h *OffsetsByHand) ids() []change.PartitionID {
	ids := make([]change.PartitionID, 0, len(h.Offsets))
	for id := range h.Offsets {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, change.PartitionID.Compare)
	return ids
}

func (h *OffsetsByHand) text() string {
	var list []string
	for _, id := range h.ids() {
		list = append(list, fmt.Sprintf("%s=%d", id, h.Offsets[id]))
	}
	return strings.Join(list, ",")
}

// moveTo lets a partition go on at an offset. What is skipped counts as holes, what
// comes again as rewound.
func moveTo(p *progress.Progress, part *snapshotter.Partition, next int64) {
	span := part.Next - part.Start
	part.Start = min(part.Start, next)
	part.Next = next
	switch now := part.Next - part.Start; {
	case now < span:
		p.Totals.Rewound += span - now
	default:
		p.Totals.Holes += now - span
	}
}
