package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// What a seal by hand is refused for.
var (
	// ErrNotOpen: the label is not the open one.
	ErrNotOpen = errors.New("not the open label")
	// ErrBehind: a partition may still bring changes of the label.
	ErrBehind = errors.New("a partition is behind")
	// ErrTooEarly: the label is not over yet.
	ErrTooEarly = errors.New("the label is not over")
	// ErrNotDecoded: held changes must be applied first, and how is not known.
	ErrNotDecoded = errors.New("changes that are held for the label wait to be applied")
)

// ByHand is a seal that a person decides.
type ByHand struct {
	// Label must be the open one.
	Label string
	// Known tells that States is what the source has now; else every partition
	// that is not past the label counts as behind.
	Known  bool
	States []change.PartitionState
	// AcceptBehind are partitions that may be behind: what they still bring of
	// the label will be late.
	AcceptBehind []change.PartitionID
	// Decodes tells that the options say how the table's records are decoded.
	Decodes bool
}

// SealByHand closes the open label where the rule would not, in a commit whose
// evidence says so. The label and all later ones are incomplete until a
// complete load. A running ingester takes the new version up by itself.
// The error wraps ErrNotOpen, ErrTooEarly, ErrBehind, ErrNotDecoded or the store's cause.
func SealByHand(ctx context.Context, o Options, h ByHand) (version int64, sealed *progress.Evidence, err error) {
	l, err := New(o, knownStates(h.States))
	if err != nil {
		return 0, nil, err
	}
	l.ctx = ctx
	l.owner = "" // the table stays its ingester's
	l.queue = newQueue(l.source, &l.o)
	defer l.queue.close()
	defer l.o.SchemaTopic.close()
	for range conflictTries {
		sealed, err = l.sealByHand(&h)
		if !errors.Is(err, errReload) {
			break
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return l.p.LastSeal, sealed, nil
}

// conflictTries is how often a commit by hand is built anew where a running
// ingester comes first.
const conflictTries = 20

func (l *Lane) sealByHand(h *ByHand) (*progress.Evidence, error) {
	if err := l.loadState(); err != nil {
		return nil, err
	}
	if l.p == nil {
		return nil, fmt.Errorf("table %s: %w", l.o.Name, delta.ErrNotATable)
	}
	clock := l.o.Now()
	if err := l.checkByHand(h.Label, clock); err != nil {
		return nil, fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	if !h.Decodes && slices.ContainsFunc(l.p.Held, l.due) {
		return nil, fmt.Errorf("table %s: %w: give the configuration of the table, or let an ingester apply them", l.o.Name, ErrNotDecoded)
	}
	if err := l.release(); err != nil {
		return nil, err
	}
	if err := l.flush(); err != nil {
		return nil, err
	}
	ends, rules, reason, err := l.agree(h, clock)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	l.markIncomplete(reason)
	e := l.evidence(ends, snapshotter.Decision{Seal: true, Rules: rules}, clock)
	e.Forced, e.Reason = true, reason
	l.openNext()
	seals := []progress.Evidence{e}
	if err := l.commitSeals(seals); err != nil {
		return nil, err
	}
	return &seals[0], nil
}

func (l *Lane) checkByHand(name string, clock time.Time) error {
	label, err := l.o.Calendar.Parse(name)
	if err != nil {
		return err
	}
	open := l.state().Open
	switch {
	case label < open:
		return fmt.Errorf("%s is %w: it is sealed, and %s is open", name, ErrNotOpen, l.o.Calendar.Name(open))
	case label > open:
		return fmt.Errorf("%s is %w: %s comes first", name, ErrNotOpen, l.o.Calendar.Name(open))
	}
	if end := time.UnixMicro(l.o.Calendar.End(open)); clock.Before(end) {
		return fmt.Errorf("%w: %s ends at %s", ErrTooEarly, name, rfc3339(end))
	}
	return nil
}

// agree gives every partition a rule, ByHand where none of the others holds,
// and says what was accepted. A partition that is behind must be named.
func (l *Lane) agree(h *ByHand, clock time.Time) (ends []snapshotter.End, rules map[int32]snapshotter.Rule, reason string, err error) {
	states := map[change.PartitionID]change.PartitionState{}
	for _, st := range h.States {
		states[st.ID] = st
	}
	due := l.judge.Pause() + l.o.DriftIdle.Microseconds()
	rules = map[int32]snapshotter.Rule{}
	var behind, refused []string
	judge := func(id change.PartitionID, text string) {
		if slices.Contains(h.AcceptBehind, id) {
			behind = append(behind, text)
		} else {
			refused = append(refused, text)
		}
	}
	for _, p := range l.state().Partitions {
		st, there := states[p.ID()]
		ends = append(ends, snapshotter.End{Partition: p, Offset: max(st.End, p.Next)})
		rules[p.Number] = snapshotter.ByHand
		switch {
		case l.judge.Paused(p):
			rules[p.Number] = snapshotter.ByWatermark
		case !h.Known:
			judge(p.ID(), fmt.Sprintf("%s may have records after offset %d, and there is no broker to ask", p.ID(), p.Next))
		case there && p.Next < st.End:
			judge(p.ID(), fmt.Sprintf("%s is %d records behind", p.ID(), st.End-p.Next))
		case there && clock.UnixMicro() >= due:
			rules[p.Number] = snapshotter.ByClock
		}
	}
	for _, st := range h.States {
		if l.state().Find(st.ID) == nil && st.End > st.Earliest {
			judge(st.ID, fmt.Sprintf("%s is new and has not been read", st.ID))
		}
	}
	if len(refused) > 0 {
		return nil, nil, "", fmt.Errorf("%w: %s; let it be read, or accept that its changes will be late with --accept-behind for each", ErrBehind, strings.Join(refused, "; "))
	}
	reason = "sealed by hand at " + rfc3339(clock)
	if len(behind) > 0 {
		reason += ": " + strings.Join(behind, "; ")
	}
	return ends, rules, reason, nil
}

// knownStates is a Source that only tells what there is.
type knownStates []change.PartitionState

func (s knownStates) Partitions(context.Context) ([]change.PartitionState, time.Time, error) {
	return s, time.Time{}, nil
}
func (knownStates) Assign(context.Context, map[change.PartitionID]int64) error { return nil }
func (knownStates) Poll(context.Context, int) ([]change.Block, error)          { return nil, nil }
func (knownStates) Pause(...change.PartitionID)                                {}
func (knownStates) Resume(...change.PartitionID)                               {}
