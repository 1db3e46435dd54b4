package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/settled"
)

// Replay says which dead letters are applied now, and how.
type Replay struct {
	// Pick tells of an active entry, without its bytes, whether it is meant.
	Pick func(*deadletter.Entry) bool
	// Fetch reads a record again of which the entry has the first MiB only; nil
	// where there is nothing to read from. It may give the record cut off again.
	Fetch func(ctx context.Context, at settled.Place) (*change.Record, error)
	// DryRun judges and commits nothing.
	DryRun bool
}

// Replayed is what a replay, or a dismissal, came to for one entry.
type Replayed struct {
	// Entry has no bytes.
	Entry deadletter.Entry
	// State is Active where the entry stays.
	State settled.State
	// Version is that of the commit, -1 without one.
	Version int64
	// Reason, Detail and Column say why it stays; Detail also why it needed no row.
	Reason, Detail, Column string
}

// replayBytes bounds the bytes of entries that are held in memory at a time.
const replayBytes = 128 << 20

// ReplayDeadLetters applies dead letters in the open label, as the options say
// now: decoded anew, each is applied where nothing newer for its key was, else
// superseded; what still cannot be applied stays. Rows, counts and what became of
// the entries are in the same commits of the table, so that a second replay finds
// nothing to do. A running ingester takes the new version up by itself.
//
// It gives what became of each picked entry, by place. After an error the list
// tells what was committed before it.
func ReplayDeadLetters(ctx context.Context, o Options, r Replay) ([]Replayed, error) {
	l, err := New(o, knownStates(nil))
	if err != nil {
		return nil, err
	}
	if o.DeadLetterStore == nil {
		return nil, fmt.Errorf("table %s: there is no store for dead letters", l.o.Name)
	}
	l.ctx = ctx
	l.owner = "" // the table stays its ingester's
	l.queue = newQueue(l.source, &l.o)
	defer l.queue.close()
	defer l.o.SchemaTopic.close()
	w := &replaying{Lane: l, Replay: r, done: map[settled.Place]Replayed{}}
	for conflicts := 0; ; {
		more, err := w.round()
		switch {
		case errors.Is(err, errReload) && conflicts < conflictTries:
			conflicts++ // what was not committed is judged again
			continue
		case err != nil:
			return w.list(), err
		case !more:
			return w.list(), nil
		}
		conflicts = 0
	}
}

// replaying is a replay at work.
type replaying struct {
	*Lane
	Replay
	done map[settled.Place]Replayed
	// pending are the entries of the batch.
	pending []Replayed
}

func (w *replaying) list() []Replayed {
	out := make([]Replayed, 0, len(w.done))
	for _, r := range w.done {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Replayed) int { return a.Entry.Place().Compare(b.Entry.Place()) })
	return out
}

// round takes up the newest version and replays the next entries, as many as
// fit in memory; more tells that there may be others.
func (w *replaying) round() (more bool, err error) {
	w.pending = nil
	if err := w.loadState(); err != nil {
		return false, err
	}
	if w.p == nil {
		return false, fmt.Errorf("table %s: %w", w.o.Name, delta.ErrNotATable)
	}
	w.batch.replayed = true
	entries, more, err := w.next()
	if err != nil {
		return false, fmt.Errorf("table %s: dead letters: %w", w.o.Name, err)
	}
	for i := range entries {
		if err := w.ctx.Err(); err != nil {
			return false, err
		}
		if err := w.replay(&entries[i]); err != nil {
			return false, err
		}
		if w.batchFull() {
			if err := w.commitReplayed(); err != nil {
				return false, err
			}
		}
	}
	return more, w.commitReplayed()
}

// next gives the next active entries that are picked, in the order of their
// offsets, with their bytes.
func (w *replaying) next() (entries []deadletter.Entry, more bool, err error) {
	states, err := deadletter.ReadStates(w.ctx, w.o.Store, w.o.Calendar, w.p)
	if err != nil {
		return nil, false, err
	}
	err = w.dead.Each(w.ctx, func(e deadletter.Entry) error {
		if _, done := w.done[e.Place()]; !done && states.Of(&e).State == settled.Active && w.Pick(&e) {
			e.Key, e.Value, e.Headers = nil, nil, nil // there may be many
			entries = append(entries, e)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(entries, func(a, b deadletter.Entry) int { return a.Place().Compare(b.Place()) })
	bytes := int64(0)
	for i := range entries {
		if bytes += entries[i].Length; bytes > replayBytes && i > 0 {
			entries, more = entries[:i], true
			break
		}
	}
	err = w.dead.Each(w.ctx, func(e deadletter.Entry) error {
		at, found := slices.BinarySearchFunc(entries, e, func(a, b deadletter.Entry) int { return a.Place().Compare(b.Place()) })
		if found {
			entries[at] = e
		}
		return nil
	})
	return entries, more, err
}

// replay applies one entry to the batch.
func (w *replaying) replay(e *deadletter.Entry) error {
	out := Replayed{Entry: *e, State: settled.Active, Version: -1}
	out.Entry.Key, out.Entry.Value, out.Entry.Headers = nil, nil, nil
	w.batch.records++
	w.batch.bytes += e.Length
	state, detail, rej, err := w.decide(e)
	if errors.Is(err, ErrRefused) { // a policy would stop an ingester: here it only stays
		rej, err = reject(e.Reason, "%v", err), nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("table %s: replay %s: %w", w.o.Name, e.Place(), err)
	case rej != nil:
		out.Reason, out.Detail, out.Column = rej.reason, rej.detail, rej.column
	default:
		out.State, out.Detail = state, detail
		w.settleEntry(e.Place(), settled.Resolution{State: state, At: time.Now().UnixMilli(), Version: w.base.Version() + 1, Note: detail})
		if w.p.Resolved == nil {
			w.p.Resolved = map[string]int64{}
		}
		w.p.Resolved[w.o.Calendar.Name(w.state().Open)]++
		w.p.Totals.DeadLetters--
	}
	w.pending = append(w.pending, out)
	return nil
}

// decide gives the new fate of an entry, counted, or why it stays.
func (w *replaying) decide(e *deadletter.Entry) (_ settled.State, detail string, _ *rejection, _ error) {
	r, rej := w.whole(e)
	if rej != nil {
		return "", "", rej, nil
	}
	if e.Reason == "late" && w.o.Late != Fold {
		return "", "", reject("late", "it came after its label was sealed, and late: %s is still set; replay it with --late fold", w.o.Late), nil
	}
	p := w.state().Find(change.PartitionID{Topic: e.Topic, Partition: e.Partition})
	var c change.Change
	decodeErr := w.decoder.Decode(r, w.arena, &c)
	if err := schemaOutage(decodeErr); err != nil {
		return "", "", nil, w.describe(r, err)
	}
	if rej := w.rejected(r, decodeErr); rej != nil {
		return "", "", rej, nil
	}
	switch {
	case c.Op == change.Filtered, c.Op == change.Heartbeat, c.Op == change.Truncate && w.o.Truncate == Ignore:
		w.p.Counts.Filtered++
		w.p.Totals.Filtered++
		return settled.Dismissed, "filtered by the configuration", nil, nil
	case c.Op == change.Tombstone && w.o.Tombstones != DeleteIt:
		w.p.Counts.Tombstones++
		w.p.Totals.Tombstones++
		return settled.Superseded, "a tombstone", nil, nil
	}
	old, new, rej := w.keys(&c, p.Number, r.Offset)
	if rej == nil {
		var err error
		if rej, err = w.checkNullKey(&c, old, new); err != nil {
			return "", "", nil, err
		}
	}
	if rej != nil {
		return "", "", rej, nil
	}
	t, own, rej := w.o.eventTime(r, &c)
	if rej != nil {
		return "", "", rej, nil
	}
	ev := event(&c, r.Offset, t, own, old, new)
	f, rej, err := w.apply(&c, old, new, w.judge.Place(p, &ev), false)
	if rej != nil || err != nil {
		return "", "", rej, err
	}
	w.settle(f, false)
	if f == superseded {
		return settled.Superseded, "its key has something newer", nil, nil
	}
	return settled.Replayed, "", nil, nil
}

// whole gives the record of an entry with all its bytes, from the topic where the
// entry has the first MiB only.
func (w *replaying) whole(e *deadletter.Entry) (*change.Record, *rejection) {
	switch {
	case e.Length > w.o.MaxRecord:
		return nil, reject("oversize", "the record has %d bytes, the limit is %d: set max_record to more", e.Length, w.o.MaxRecord)
	case e.Whole():
		return e.Record(), nil
	case w.Fetch == nil:
		return nil, reject("oversize", "only its first MiB is kept, and there is neither a broker nor a recording to read it again from")
	}
	r, err := w.Fetch(w.ctx, e.Place())
	if err != nil {
		return nil, reject("oversize", "only its first MiB is kept, and it can't be read again: %v", err)
	}
	return r, nil
}

// commitReplayed makes the batch a version, and what it says true.
func (w *replaying) commitReplayed() error {
	version := int64(-1)
	if !w.DryRun && len(w.batch.settled) > 0 {
		version = w.base.Version() + 1
		if err := w.flush(); err != nil {
			return err
		}
		w.batch.replayed = true
	}
	for _, r := range w.pending {
		if r.State != settled.Active {
			r.Version = version
			w.o.Log.Info("dead letter", zap.String("table", w.o.Name), zap.Stringer("place", r.Entry.Place()),
				zap.String("state", string(r.State)), zap.Int64("version", version))
		}
		w.done[r.Entry.Place()] = r
	}
	w.pending = nil
	return nil
}
