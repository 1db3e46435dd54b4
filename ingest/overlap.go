package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/marker"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/progress"
)

// A batch is stored and committed by a goroutine of its own while the lane takes and
// folds the next one. There is one in flight at most: the next is cut when it is
// settled. What looks a key up meanwhile sees the batch in flight over the table
// (overlaid); entries that came from there get their places in the table when it is
// settled. A commit that meets another's, or fails, is dealt with by the lane, and drops
// the batch in the making where it is to be judged anew.

// flight is a batch on its way into the table, as it was when it was cut. The goroutine
// that stores it reads the lane's writer and options, and changes nothing of the lane.
type flight struct {
	*aside
	ctx    context.Context
	cancel context.CancelFunc

	batch *batch
	arena *change.Arena
	// p is what its commit says: the lane's own progress, or a copy where the lane goes
	// on with that meanwhile (overlapped).
	p          *progress.Progress
	overlapped bool
	tx         *delta.Transaction
	operation  string
	schema     *schema.Schema
	feeds      bool // change data is written
	markers    marker.Plan
	// recent are the dead letters of late when it was cut; open is how long it had
	// taken records, begun when it was cut.
	recent recentDeadLetters
	open   time.Duration
	begun  time.Time

	// What came of it; made and written are nil where err is set.
	held    []drift.File
	written *upsert.Written
	made    *delta.Snapshot
	err     error
}

// stopGrace is how long a lane that is to end may take to commit what it has.
const stopGrace = 30 * time.Second

// graced is a context that outlives ctx by stopGrace.
func graced(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })
	return out, func() {
		stop()
		cancel()
	}
}

// advance commits the batch and goes on meanwhile, where that is possible. It waits
// for the batch before.
func (l *Lane) advance() error {
	if err := l.settleFlight(); err != nil {
		return err
	}
	if !l.batch.dirty && l.batch.records == 0 {
		return nil
	}
	if !l.mayOverlap() {
		return l.flush()
	}
	f, err := l.cut(true)
	if err != nil {
		return err
	}
	l.inFlight = f
	f.aside = l.beside(f.work(l))
	return nil
}

// mayOverlap tells that the batch changes nothing that the next one rests on but rows,
// markers and what is held.
func (l *Lane) mayOverlap() bool {
	b := l.batch
	switch {
	case l.o.serial, l.base == nil, l.stopped != nil:
		return false
	case l.o.CopyOnWrite: // rows move that the batch does not change
		return false
	case len(l.columns.list) != l.committedColumns, len(l.altered) > 0, len(l.p.Rewritten) > 0:
		return false
	case b.replayed, b.killedCount > 0, len(b.dead) > 0, len(b.settled) > 0:
		return false
	}
	return !l.wantsBoundary()
}

// wantsBoundary tells that something waits for a moment at which all that was taken is
// committed: files that were written anew, or are to be. Nothing is in flight.
func (l *Lane) wantsBoundary() bool {
	r := l.rewriting
	if r != nil && len(r.done) > 0 {
		return true
	}
	task, _, ok, err := l.nextLayout(false)
	if err != nil {
		return true // flush meets it
	}
	busy := func(id uint32) bool { return slices.Contains(r.task.Files, id) }
	return ok && (r == nil || task.ByKey && !slices.ContainsFunc(task.Files, busy))
}

// cut makes the batch one that is stored, with all that its commit will say. Dead letters
// are stored first. overlapped tells that the lane goes on with another batch meanwhile;
// else the flight is not under way before it is waited for.
func (l *Lane) cut(overlapped bool) (*flight, error) {
	b := l.batch
	if err := l.readSchemas(); err != nil {
		return nil, err
	}
	l.writing = time.Now()
	if l.o.Tracer != nil {
		l.o.Tracer.Cut(l.writing)
	}
	f := &flight{batch: b, arena: l.arena, ctx: l.ctx, cancel: func() {}, overlapped: overlapped, p: l.p, operation: "WRITE",
		feeds: l.feeds(), open: l.writing.Sub(l.since), begun: l.writing}
	if b.replayed {
		f.operation = "REPLAY"
	}
	if len(b.dead) > 0 {
		if l.dead == nil {
			return nil, fmt.Errorf("table %s: there are dead letters and no store for them", l.o.Name)
		}
		if err := l.dead.Write(l.ctx, b.dead); err != nil {
			return nil, fmt.Errorf("table %s: write dead letters: %w", l.o.Name, err)
		}
		if err := l.tellDeadLetters(b.dead); err != nil {
			return nil, err
		}
	}
	var err error
	if f.tx, err = l.transaction(); err != nil {
		return nil, err
	}
	f.schema = l.schema
	var deleted []marker.Added
	for i := range b.entries {
		if e := &b.entries[i]; e.deleted && !e.live {
			deleted = append(deleted, marker.Added{Key: e.key, Meta: e.meta})
		}
	}
	f.markers = l.markers.Plan(l.p.Markers, l.state().Open, deleted)
	if b.held.Len() > 0 {
		l.p.Group++
	}
	l.sayBatch()
	l.takeOwnership()
	f.recent = l.recent.clone()
	if !overlapped {
		f.aside = &aside{done: make(chan struct{}), later: f.work(l)}
		return f, nil
	}
	f.p = l.p.Clone()
	f.ctx, f.cancel = graced(l.ctx)
	if l.batch, l.spare = l.spare, nil; l.batch == nil {
		l.batch = newBatch()
	}
	l.arena, l.since = &change.Arena{}, f.begun
	return f, nil
}

// work is what a goroutine does for a flight.
func (f *flight) work(l *Lane) func() {
	return func() {
		f.err = Caught(func() error {
			if err := traced(l.o.Tracer, EncodeStage, func(*Stretch) error { return f.store(l) }); err != nil {
				return err
			}
			return traced(l.o.Tracer, CommitStage, func(s *Stretch) error {
				err := f.commit(l)
				if s != nil && err == nil {
					s.Version, s.Label, s.Records = f.made.Version(), f.p.Label, f.batch.records
				}
				return err
			})
		})
	}
}

// store stores what the commit will name: held changes, markers and what became of dead
// letters while the rows are written.
func (f *flight) store(l *Lane) error {
	var storing sync.WaitGroup
	var heldFault, markerFault, settledFault error
	if f.batch.held.Len() > 0 {
		storing.Go(func() {
			heldFault = Caught(func() (err error) {
				f.held, err = f.batch.held.Write(f.ctx, l.o.Store, f.p.Group)
				return err
			})
		})
	}
	markers, settledFiles := f.p.Markers, f.p.Settled
	storing.Go(func() {
		markerFault = Caught(func() (err error) {
			markers, err = f.markers.Write(f.ctx, l.o.Store)
			return err
		})
	})
	storing.Go(func() {
		settledFault = Caught(func() (err error) {
			settledFiles, err = settled.Write(f.ctx, l.o.Store, settledFiles, f.batch.settled)
			return err
		})
	})
	err := Caught(func() error { return l.writeRows(f) })
	storing.Wait()
	if err := errors.Join(err, heldFault, markerFault, settledFault); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	f.p.Held = append(f.p.Held, f.held...)
	f.p.Markers, f.p.Settled = markers, settledFiles
	return nil
}

func (f *flight) commit(l *Lane) (err error) {
	f.made, err = commitProgress(f.ctx, l.o.Name, f.tx, f.operation, f.p, f.batch)
	return err
}

// settleFlight waits for the batch in flight, if there is one, and takes over what came
// of it. After an error the life of the lane ends.
func (l *Lane) settleFlight() error {
	f := l.inFlight
	if f == nil {
		return nil
	}
	f.wait()
	f.cancel()
	err := f.err
	for errors.Is(err, errConflict) && !f.batch.replayed { // a replay is judged anew
		if err = l.follow(err); err != nil {
			break // also of a conflict that can't be followed
		}
		err = l.storeAgain(f)
	}
	l.inFlight = nil
	if err != nil {
		return err
	}
	if f.overlapped {
		l.p.Held = append(l.p.Held, f.held...)
		l.p.Markers, l.p.Settled, l.p.Rows = f.p.Markers, f.p.Settled, f.p.Rows
	}
	l.made(f.made, f.p, f.recent, Commit{
		Kind: f.p.Kind, Version: f.made.Version(), Records: f.batch.records, Open: f.open, Took: time.Since(f.begun),
	})
	if err := l.applied(f.written); err != nil {
		return err
	}
	l.addLate(f.batch.late)
	clear(l.segmentFacts)
	if !f.overlapped {
		l.committedColumns, l.altered = len(l.columns.list), nil
		l.batch, l.arena = f.batch.next(), &change.Arena{}
		l.publish()
		return nil
	}
	if err := l.land(f); err != nil {
		return err
	}
	l.spare = f.batch.next()
	l.publish()
	return l.maybeCheckpoint()
}

// dropFlight ends the one in flight, where the lane can't go on.
func (l *Lane) dropFlight() {
	if f := l.inFlight; f != nil {
		f.cancel()
		if f.later == nil {
			f.wait()
		}
		l.inFlight = nil
	}
}

// storeAgain plans what lay on rows that have moved once more, and commits it.
func (l *Lane) storeAgain(f *flight) (err error) {
	f.ctx = l.ctx
	if f.overlapped {
		f.tx, f.schema, f.p.Rewritten = delta.NewTransaction(l.table, l.base), l.base.Schema(), l.p.Clone().Rewritten
	} else if f.tx, err = l.transaction(); err != nil {
		return err
	} else {
		f.schema = l.schema
	}
	if err := l.writeRows(f); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	return f.commit(l)
}

// land gives the entries that came from a batch that is in the table now their places there.
func (l *Lane) land(f *flight) error {
	index := l.writer.Index()
	for i := range l.batch.entries {
		e := &l.batch.entries[i]
		for _, ref := range [...]*upsert.Ref{&e.old, &e.base} {
			if n, ok := ref.Pending(); ok {
				if *ref = index.Get(f.batch.entries[n].key); *ref == 0 {
					return fmt.Errorf("table %s: %w: a row that version %d brought is not in the key index", l.o.Name, upsert.ErrInconsistent, l.base.Version())
				}
			}
		}
	}
	return nil
}

// overlaid gives the entry that a key has in the batch in flight, as the next batch finds
// it in the table; ok is false where there is none.
func (l *Lane) overlaid(key string) (e entry, ok bool) {
	f := l.inFlight
	if f == nil {
		return entry{}, false
	}
	i, ok := f.batch.index.look(key, f.batch.entries)
	if !ok {
		return entry{}, false
	}
	from := &f.batch.entries[i]
	e = entry{key: key, meta: from.meta, known: from.known, live: from.live}
	switch {
	case !from.dirty:
		e.old = from.old
	case from.live:
		e.old = upsert.PendingRef(uint32(i))
	}
	return e, true
}

// inMemory gives the row of an entry of the batch or, where it lies there, of the one in
// flight; nil where it lies in the table.
func (l *Lane) inMemory(e *entry) []schema.Value {
	if e.row == nil && l.inFlight != nil {
		if n, ok := e.old.Pending(); ok {
			return l.inFlight.batch.entries[n].row
		}
	}
	return e.row
}

// batches are the one in flight and the one in the making.
func (l *Lane) batches() []*batch {
	if f := l.inFlight; f != nil && f.overlapped {
		return []*batch{f.batch, l.batch}
	}
	return []*batch{l.batch}
}

// holds is the bytes of records that the batches hold.
func (l *Lane) holds() (n int64) {
	for _, b := range l.batches() {
		n += b.size()
	}
	return n
}
