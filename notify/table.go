package notify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/snapshotter"
)

// TableOptions say what a Table is of.
type TableOptions struct {
	Name, Location string
	Store          objstore.Store
	// Idle is the table's drift.idle.
	Idle time.Duration
	// Next is told all that the Table is told; nil for nobody.
	Next ingest.Observer
	// Why puts into words what holds the seal of a table back; nil: nobody knows.
	Why func(ingest.View) string
	// Recorded tells that the run has an end, or reads a recording: no seal is overdue.
	Recorded bool
}

// Table is a table that is watched. It is an ingest.Observer: its calls return at once.
type Table struct {
	n     *Notifier
	o     TableOptions
	lines []*line
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu sync.Mutex
	// due is the clock from which on the open label is overdue, zero before it is known.
	due      time.Time
	calendar *snapshotter.Calendar
	open     snapshotter.Label
	since    time.Time // when open was first seen here
	id       string    // of the table's metadata, "" before it is known
}

// Watch begins to watch a table, in the place of an earlier one of its name. It reads what
// each sink was told before; the error is the storage's. Notifier.Close ends it.
func (n *Notifier) Watch(ctx context.Context, o TableOptions) (*Table, error) {
	t := n.table(o)
	for _, s := range n.sinks {
		if !s.covers(o.Name) {
			continue
		}
		known, err := readTold(ctx, o.Store, s.Name)
		if err != nil {
			return nil, fmt.Errorf("what the sink %s was told: %w", s.Name, err)
		}
		t.id = known.TableID
		t.add(s, *known)
	}
	t.begin()
	return t, nil
}

func (n *Notifier) table(o TableOptions) *Table { return &Table{n: n, o: o} }

func (t *Table) add(s *Sink, known told) {
	t.lines = append(t.lines, &line{t: t, sink: s, told: known, wake: make(chan struct{}, 1)})
}

func (t *Table) begin() {
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	for _, l := range t.lines {
		t.ended.Go(func() { l.run(ctx) })
	}
	t.ended.Go(func() { t.look(ctx) })
	t.n.put(t)
}

// Rest tells that the table does not run here any more: no seal of it is overdue here. What
// waits is told all the same.
func (t *Table) Rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due = time.Time{}
}

// CatchUp tells what the map has and no sink was told, until ctx ends; left is how many
// events were not taken.
func (t *Table) CatchUp(ctx context.Context) (left int) {
	for _, l := range t.lines {
		l.catchUp(math.MaxInt64, "")
	}
	t.drain(ctx)
	for _, l := range t.lines {
		n, _ := l.undelivered()
		left += n
	}
	return left
}

func (t *Table) drain(ctx context.Context) {
	for _, l := range t.lines {
		l.drain(ctx)
	}
}

func (t *Table) end() {
	t.stop()
	t.ended.Wait()
}

// Alive is ingest.Observer's.
func (t *Table) Alive() {
	if t.o.Next != nil {
		t.o.Next.Alive()
	}
}

// Loaded is ingest.Observer's: what other processes have committed is in the map.
func (t *Table) Loaded(v ingest.View) {
	if t.o.Next != nil {
		t.o.Next.Loaded(v)
	}
	if v.Progress == nil {
		return
	}
	newest, forGood := max(v.Progress.LastSeal, rollbackOf(v.Progress)), forGoodOf(v.Progress)
	for _, l := range t.lines {
		l.catchUp(newest, forGood)
	}
	t.watch(v)
}

// Took is ingest.Observer's.
func (t *Table) Took(v ingest.View) {
	if t.o.Next != nil {
		t.o.Next.Took(v)
	}
	if v.Progress != nil {
		t.watch(v)
	}
}

// Committed is ingest.Observer's.
func (t *Table) Committed(c ingest.Commit, v ingest.View) {
	if t.o.Next != nil {
		t.o.Next.Committed(c, v)
	}
	if v.Progress == nil {
		return
	}
	for i := range v.Progress.Seals {
		ev := &v.Progress.Seals[i]
		e := t.sealed(v.Calendar, ev, c.Version)
		for _, l := range t.lines {
			l.seal(v.Calendar, e, ev)
		}
	}
	t.watch(v)
}

// watch looks for late changes and an overdue seal.
func (t *Table) watch(v ingest.View) {
	open, late := v.Progress.State.Open, v.Progress.Counts.Late
	due := dueOf(v, t.o.Idle)
	t.mu.Lock()
	if t.due.IsZero() || t.open != open {
		t.since = time.Now()
	}
	t.due, t.calendar, t.open = due, v.Calendar, open
	seen := time.Since(t.since)
	t.mu.Unlock()
	overdue := v.Clock.Sub(due)
	why := ""
	for _, l := range t.lines {
		if late > 0 && late >= l.sink.LateChanges {
			l.warn(Late, open, func() *Event { return t.late(v.Calendar, open, late) })
		}
		if !t.o.Recorded && overdue > 0 && overdue >= l.sink.StallAfter && seen >= min(catchingUp, l.sink.StallAfter) {
			l.warn(Stall, open, func() *Event {
				if why == "" && t.o.Why != nil {
					why = t.o.Why(v)
				}
				return t.stalled(v.Calendar, open, overdue, why)
			})
		}
	}
}

// catchingUp is for how long a label may be open and overdue after a start: what was
// behind is read meanwhile.
const catchingUp = 2 * time.Minute

// lookEvery is how often a table is looked at that says nothing itself.
const lookEvery = 30 * time.Second

// look finds a seal that is overdue since the table does not run.
func (t *Table) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if !t.o.Recorded {
				t.lookAt(now)
			}
		}
	}
}

func (t *Table) lookAt(now time.Time) {
	t.mu.Lock()
	due, cal, open := t.due, t.calendar, t.open
	t.mu.Unlock()
	if due.IsZero() {
		return
	}
	for _, l := range t.lines {
		// A table that runs has told of it itself by now.
		if overdue := now.Sub(due); overdue >= l.sink.StallAfter+lookEvery {
			l.warn(Stall, open, func() *Event { return t.stalled(cal, open, overdue, "the table does not run") })
		}
	}
}

// fail tells that the table is not started again.
func (t *Table) fail(err error) {
	e := failed(t.o, err)
	for _, l := range t.lines {
		l.push(e)
	}
}

// identity gives the id of the table's metadata: receivers know an event by it.
func (t *Table) identity(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id == "" && t.o.Store != nil {
		id, err := tableID(ctx, t.o.Store)
		if err != nil {
			return "", err
		}
		t.id = id
	}
	return t.id, nil
}

// errGone ends what is derived from a table that is no longer gscd's, or not there.
var errGone = errors.New("the table is not there, or not gscd's any more")

// seals gives what the map has behind what was told, in order, at most limit events; more
// tells that there are others.
func (t *Table) seals(ctx context.Context, known told, limit int) (list []*Event, more int, err error) {
	m, table, err := readMap(ctx, t.o.Store)
	if err != nil {
		return nil, 0, err
	}
	type place struct {
		version int64
		label   snapshotter.Label
		at      int // in the map, -1 for a rollback, -2 for one without replay
	}
	var places []place
	for i, e := range m.Entries {
		if isSeal(e) && !known.knows(e.Version, e.Label) {
			places = append(places, place{e.Version, e.Label, i})
		}
	}
	if v := rollbackOf(m.Progress); v > known.Version {
		places = append(places, place{v, lastLabel, -1})
	}
	if at := forGoodOf(m.Progress); at > known.ForGood {
		places = append(places, place{math.MaxInt64, lastLabel, -2})
	}
	sortPlaces(places, func(p place) (int64, snapshotter.Label) { return p.version, p.label })
	for i, p := range places {
		if i == limit {
			return list, len(places) - limit, nil
		}
		switch p.at {
		case -1:
			list = append(list, t.rolledBack(m.Calendar, m.Progress, p.version))
			continue
		case -2:
			list = append(list, t.rolledBack(m.Calendar, m.Progress, -1))
			continue
		}
		seal, err := m.Seal(ctx, table, m.Entries[p.at])
		if err != nil {
			return nil, 0, err
		}
		list = append(list, t.sealed(m.Calendar, seal.Evidence, p.version))
	}
	return list, 0, nil
}
