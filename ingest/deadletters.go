package ingest

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/snapshotter"
)

// deadLetter keeps a record aside, counted in a label.
func (l *Lane) deadLetter(r *change.Record, rej *rejection, label snapshotter.Label, late bool) error {
	if l.o.DeadLetterFraction < 0 {
		return fmt.Errorf("%w: %s: %s (dead_letter.limit: 0)", ErrTooManyDeadLetters, rej.reason, rej.detail)
	}
	e := deadletter.Of(l.decoder.Alone(r))
	e.Reason, e.Detail, e.Column = rej.reason, rej.detail, rej.column
	label = max(label, l.state().First)
	e.Label, e.OpenLabel = l.o.Calendar.Name(label), l.o.Calendar.Name(l.state().Open)
	e.Made = 0
	if l.base != nil {
		e.Made = l.base.Version() + 1
		if l.inFlight != nil {
			e.Made++ // the batch in flight comes first
		}
	}
	l.batch.dead = append(l.batch.dead, e)
	l.batch.dirty = true
	if l.p.DeadLetters == nil {
		l.p.DeadLetters = map[string]int64{}
	}
	l.p.DeadLetters[e.Label]++
	l.p.Totals.DeadLetters++
	l.o.Log.Warn("dead letter", l.at(r, zap.String("reason", rej.reason), zap.String("detail", rej.detail))...)
	if n, of := l.recent.add(); n >= l.o.DeadLetterFloor && float64(n) > l.o.DeadLetterFraction*float64(of) {
		return fmt.Errorf("%w: %d of the last %d records, the newest: %s: %s; look at `gscd dead-letter list`, and at format, source, key and columns in the configuration",
			ErrTooManyDeadLetters, n, of, rej.reason, rej.detail)
	}
	return nil
}

// recallDeadLetters learns which records have an entry already: of a process that
// ended before its commit, or of before a rollback.
func (l *Lane) recallDeadLetters() error {
	if l.o.DeadLetterStore == nil {
		return nil
	}
	if l.dead == nil {
		l.dead = deadletter.Open(l.o.DeadLetterStore)
	}
	if err := l.dead.Refresh(l.ctx); err != nil {
		return fmt.Errorf("table %s: dead letters: %w", l.o.Name, err)
	}
	return nil
}

// lastDeadLetter is the highest offset of a partition that has an entry.
func (l *Lane) lastDeadLetter(id change.PartitionID) int64 {
	if l.dead == nil {
		return -1
	}
	return l.dead.Last(id)
}

// settleAgain says of a record that has just got its fate, and had an entry
// before, whether the entry counts now. dead is how many dead letters the batch
// had before.
func (l *Lane) settleAgain(r *change.Record, dead int) {
	at := settled.PlaceOf(r)
	if l.dead == nil || !l.dead.Has(at) {
		return
	}
	state := settled.Undone
	if len(l.batch.dead) > dead {
		state = settled.Active
	}
	l.settleEntry(at, settled.Resolution{State: state})
}

// settleEntry notes what the next commit says of an entry.
func (l *Lane) settleEntry(at settled.Place, r settled.Resolution) {
	l.batch.settled = append(l.batch.settled, settled.Item{Place: at, Resolution: r})
	l.batch.dirty = true
}

// tellDeadLetters publishes dead letters that are in their table.
func (l *Lane) tellDeadLetters(entries []deadletter.Entry) error {
	if l.o.DeadLetterTopic == nil {
		return nil
	}
	records := make([]*change.Record, len(entries))
	for i := range entries {
		records[i] = entries[i].Published()
	}
	return l.topicError(l.o.DeadLetterTopic.Publish(l.ctx, records))
}

// checkDeadLetterTopic finds out at the start what would stop the table at the
// first dead letter.
func (l *Lane) checkDeadLetterTopic() error {
	return l.topicError(l.o.DeadLetterTopic.Check(l.ctx))
}

func (l *Lane) topicError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table %s: dead letters: %w", l.o.Name, &SourceError{l.o.DeadLetterTopic.Retryable(err), err})
}

// recentDeadLetters counts dead letters among the last recordsKept records.
type recentDeadLetters struct {
	at   int64
	dead []int64 // record numbers, ascending
}

const recordsKept = 10_000

func (d *recentDeadLetters) taken() { d.at++ }

// clone makes a copy that goes on by itself.
func (d *recentDeadLetters) clone() recentDeadLetters {
	return recentDeadLetters{d.at, slices.Clone(d.dead)}
}

func (d *recentDeadLetters) add() (n int, of int64) {
	d.dead = append(d.dead, d.at)
	for d.dead[0] <= d.at-recordsKept {
		d.dead = d.dead[1:]
	}
	return len(d.dead), min(d.at, recordsKept)
}
