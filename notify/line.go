package notify

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// line is what one sink is told of one table: a queue, and who works it off.
type line struct {
	t    *Table
	sink *Sink
	wake chan struct{}

	mu    sync.Mutex
	told  told
	queue []*Event
	// behind: the map has what the queue has not, more of it where that is known; reading:
	// it is being read.
	behind, reading bool
	more            int
	// late and stalled are the labels of which a warning is in the queue.
	late, stalled *snapshotter.Label
	busy, failing bool
	waiting       time.Time // since when the first of the queue waits
}

// maxQueue bounds the events of a line that are in memory.
const maxQueue = 256

// The waits between two attempts.
const (
	firstWait = time.Second
	longest   = 5 * time.Minute
)

// catchUp has the map read where it has a seal or rollback that was not told.
func (l *line) catchUp(newest int64, forGood string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, good := l.told.Version, l.told.ForGood
	for _, e := range l.queue {
		last, good = max(last, e.version), max(good, e.forGood)
	}
	if newest > last || forGood > good {
		l.behind = true
		l.signal()
	}
}

// seal queues a seal, and late changes that it is the last to tell of.
func (l *line) seal(cal *snapshotter.Calendar, e *Event, ev *progress.Evidence) {
	if late := ev.Counts.Late; late > 0 && late >= l.sink.LateChanges {
		l.warn(Late, ev.Label, func() *Event { return l.t.late(cal, ev.Label, late) })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told.knows(e.version, e.label) {
		return
	}
	if l.behind || l.reading || len(l.queue) >= maxQueue {
		l.behind = true
		l.more++
	} else {
		l.append(e)
	}
	l.signal()
}

// warn queues what is told once a label.
func (l *line) warn(kind Kind, label snapshotter.Label, event func() *Event) {
	if !l.sink.wants(kind) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	was, queued := l.told.Late, &l.late
	if kind == Stall {
		was, queued = l.told.Stalled, &l.stalled
	}
	if warned(was, label) || *queued != nil && **queued == label || len(l.queue) >= maxQueue {
		return // of a full queue it is told later
	}
	*queued = &label
	l.append(event())
	l.signal()
}

// push queues an event that no map has.
func (l *line) push(e *Event) {
	if !l.sink.wants(e.Kind) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) >= maxQueue {
		l.t.n.log.Warn("an event is not told: too many wait", l.fields(e)...)
		return
	}
	l.append(e)
	l.signal()
}

func (l *line) append(e *Event) {
	if len(l.queue) == 0 {
		l.waiting = time.Now()
	}
	copied := *e // each line gives it its ID
	l.queue = append(l.queue, &copied)
}

func (l *line) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run works the queue off until ctx ends.
func (l *line) run(ctx context.Context) {
	wait := firstWait
	for ctx.Err() == nil {
		did, err := l.step(ctx)
		if err == nil {
			wait = firstWait
			if did {
				continue
			}
			select {
			case <-ctx.Done():
			case <-l.wake:
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		in := wait - wait/5 + rand.N(2*wait/5+1)
		var answer *answerError
		if errors.As(err, &answer) && answer.after > in {
			in = answer.after
		}
		l.t.n.log.Warn("an event was not taken, and is told again", append(l.fields(nil), zap.Duration("in", in.Round(time.Millisecond)), zap.Error(err))...)
		wait = min(2*wait, longest)
		select {
		case <-ctx.Done():
		case <-time.After(in):
		}
	}
}

// step tells one event, or reads what the map has; did is false where nothing is to be done.
func (l *line) step(ctx context.Context) (did bool, err error) {
	l.mu.Lock()
	var first *Event
	switch {
	case len(l.queue) > 0:
		first = l.queue[0]
	case l.behind:
		l.behind, l.reading = false, true
	default:
		l.busy = false
		l.mu.Unlock()
		return false, nil
	}
	l.busy = true
	l.mu.Unlock()
	if first == nil {
		err = l.read(ctx)
	} else {
		err = l.tell(ctx, first)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = err != nil
	return true, err
}

// read fills the queue from the map.
func (l *line) read(ctx context.Context) error {
	l.mu.Lock()
	known := l.told
	l.mu.Unlock()
	list, more, err := l.t.seals(ctx, known, maxQueue)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = false
	if errors.Is(err, errGone) {
		l.more = 0
		return nil
	}
	if err != nil {
		l.behind = true
		return err
	}
	for _, e := range list {
		if e.Kind == Seal && e.Data.Counts.Late >= max(1, l.sink.LateChanges) && !warned(l.told.Late, e.label) && l.sink.wants(Late) {
			label := e.label
			l.late = &label
			late := *e
			late.Kind, late.version = Late, -1
			late.Data = Data{Event: Late, Table: e.Data.Table, Location: e.Data.Location, Label: e.Data.Label, Starts: e.Data.Starts, Ends: e.Data.Ends, LateChanges: e.Data.Counts.Late}
			l.append(&late)
		}
		l.append(e)
	}
	l.more = more
	if more > 0 {
		l.behind = true
	}
	return nil
}

// tell tells the first event of the queue, and keeps that it was told.
func (l *line) tell(ctx context.Context, e *Event) error {
	if l.sink.wants(e.Kind) {
		if err := l.send(ctx, e); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.told.take(e)
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.waiting = time.Now()
	if e.Kind == Late {
		l.late = nil
	} else if e.Kind == Stall {
		l.stalled = nil
	}
	known := l.told
	l.mu.Unlock()
	if e.Kind == Failed {
		return nil
	}
	// What can't be kept comes twice after a crash; the next event keeps this one too.
	if err := known.write(ctx, l.t.o.Store, l.sink.Name); err != nil && ctx.Err() == nil {
		l.t.n.log.Warn("it could not be kept that an event was told: it may come again", append(l.fields(e), zap.Error(err))...)
	}
	return nil
}

func (l *line) send(ctx context.Context, e *Event) error {
	if e.ID == "" {
		id, err := l.t.identity(ctx)
		if errors.Is(err, errGone) && e.Kind == Failed {
			err = nil // it failed before it was made
		}
		if err != nil {
			return err
		}
		e.named(id)
		l.mu.Lock()
		l.told.TableID = id
		l.mu.Unlock()
	}
	release, err := l.t.n.enter(ctx, l.sink)
	if err != nil {
		return err
	}
	err = l.sink.Sender.Send(ctx, e)
	release()
	if ctx.Err() == nil || err == nil {
		l.t.n.count(l.sink, err)
	}
	if err == nil {
		l.t.n.log.Info("told", l.fields(e)...)
	}
	return err
}

func (l *line) fields(e *Event) []zap.Field {
	out := []zap.Field{zap.String("table", l.t.o.Name), zap.String("sink", l.sink.Name)}
	if e != nil {
		out = append(out, zap.String("event", string(e.Kind)), zap.String("label", e.Data.Label))
		if e.Data.Version != nil {
			out = append(out, zap.Int64("version", *e.Data.Version))
		}
	}
	return out
}

// undelivered counts what is not told yet, and since when the first of it waits.
func (l *line) undelivered() (n int, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = len(l.queue) + l.more
	if n > 0 {
		since = l.waiting
	}
	return n, since
}

// drain waits until all was told, or ctx ends; not for a sink that fails.
func (l *line) drain(ctx context.Context) {
	for {
		l.mu.Lock()
		done := l.failing || len(l.queue) == 0 && !l.behind && !l.reading && !l.busy
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
