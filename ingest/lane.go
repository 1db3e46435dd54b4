package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/marker"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// Lane is one table at work. Make it with New, run it with Run; one Run at a time.
type Lane struct {
	o      Options
	source Source
	ctx    context.Context
	queue  *queue

	// What follows is the state of one version and what was taken since; load
	// makes it anew.
	table   *delta.Table
	base    *delta.Snapshot // nil before the table is created
	p       *progress.Progress
	judge   *snapshotter.Judge
	writer  *upsert.Writer
	markers *marker.Set
	dead    *deadletter.Table
	decoder decode.Decoder // of held records
	// toldGaps is the format whose gaps have been logged.
	toldGaps string
	// compacted tells that Kafka compacts a topic of the table, which is allowed.
	compacted bool

	columns          *columns
	committedColumns int
	// altered are the changes of columns since the last commit, but for those that are
	// added; schema is the table's as the commit under way makes it.
	altered      []write.Change
	schema       *schema.Schema
	translations map[translationKey]translation
	key          []string
	keyTypes     []schema.Type
	keyPlaces    map[*change.Columns][]int
	keyBuf       []byte
	segmentFacts map[uint32]facts

	// startEnds are the high watermarks when this life began, with UntilEnd the
	// offsets to read up to, exact where the source tells them; starts the
	// partitions as they were first seen, before the table exists.
	startEnds map[change.PartitionID]int64
	exactEnds bool
	starts    []change.PartitionState
	stopped   *stopAt
	// committed are the offsets of the last commit.
	committed map[change.PartitionID]int64
	askedAt   time.Time // when the broker was last asked for partitions

	// owner names this lane; epoch is the one that it takes, or has taken where
	// owns is set. waited tells that it has had its turn of waiting, which began at
	// turnSince.
	owner     string
	epoch     int64
	owns      bool
	waited    bool
	turnSince time.Time

	// foreign are the commits of others since gscd's last one before base, rowsThen
	// the rows before them; highs where each partition stood at gscd's last commit;
	// lost finds what is known of lost positions by file. conflicts counts those in
	// a row.
	foreign   []foreignCommit
	rowsThen  int64
	highs     []progress.HighOfLine
	lost      map[string]*progress.Rewritten
	conflicts int
	// lookedAt is when lookForNewer last looked.
	lookedAt time.Time

	// written are the objects that this process stored.
	written   written
	indexFile indexFile
	// pinned are the data files of the last seal, nil while they are not known.
	pinned map[string]bool
	// rewriting is what is written anew beside the batches; running tells that Run is at work.
	rewriting *rewriting
	running   bool

	// taking is what is known ahead of the change that is being taken, nil where nothing is,
	// and takingOf the chunk's; the others are memory for the next chunk.
	taking    *lookedUp
	takingOf  *ahead
	rowsAhead rowsAhead // while held changes are released
	keysAhead []string
	refsAhead []upsert.Ref

	batch          *batch
	arena          *change.Arena
	inFlight       *flight   // the batch that is being stored; nil where none is
	spare          *batch    // the memory of the next batch, nil where there is none
	since          time.Time // when the batch took its first record
	clockAskedAt   time.Time // when a busy lane last asked whether its time is up
	late           []progress.LateChange
	pairs          pairs
	recent         recentDeadLetters
	recentThen     recentDeadLetters // recent at the last commit
	sealWas        string            // what held the last seal back, to log changes only
	lastCheckpoint int64
	checkpointing  *pendingCheckpoint // nil where none is being written

	// For Budget, Gate and Observer: the bytes that the budget knows of, whether
	// the lane is inside the gate, the ends last heard of, when the observer was
	// shown the state, when the commit under way was begun, the last one made,
	// and the open label opened.
	told        int64
	inside      bool
	ends        map[change.PartitionID]int64
	shownAt     time.Time
	writing     time.Time
	lastCommit  int64
	committedAt time.Time
	openedAt    time.Time
	// Figures for the observer, see View.
	conflictsMet, savepoints, liveBytes int64
}

// New makes a lane. The options are checked; the error lists every fault.
func New(o Options, source Source) (*Lane, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Lane{o: o, source: source, owner: newOwner()}, nil
}

// errReload makes Run take the newest version of the table and go on from there.
var errReload = errors.New("the table has moved on")

// Run ingests until ctx ends (then it returns nil at a commit boundary), or,
// with UntilEnd, until nothing is left to do. The error of a table that must
// stop wraps one of this package's sentinels, *change.LostOffsetsError, or the
// store's or broker's cause.
func (l *Lane) Run(ctx context.Context) error {
	l.ctx, l.stopped, l.running = ctx, nil, true
	defer l.dropRewrite()
	l.queue = newQueue(l.source, &l.o)
	defer l.queue.close()
	l.queue.define = l.readSchemasFor
	defer l.o.SchemaTopic.close()
	if l.o.DeadLetterTopic != nil {
		if err := l.checkDeadLetterTopic(); err != nil {
			return err
		}
		defer l.o.DeadLetterTopic.Close()
	}
	well := false
	defer func() { l.endIndexFile(well) }()
	for {
		err := l.run()
		switch {
		case errors.Is(err, errReload):
			if l.stopped != nil {
				continue
			}
			if err := l.backOff(); err != nil {
				return err
			}
			l.o.Log.Info("taking up the newest version of the table", l.fields("reason", err)...)
			continue
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			well = true
			return nil
		case l.acceptsLoss(err):
			l.o.Log.Warn("offsets were lost while the table was read", l.fields("reason", err)...)
			continue
		}
		well = err == nil
		return l.nameLoss(err)
	}
}

// run is one life: from the newest version on, until an end or a conflict. What was
// begun beside the lane is over when it ends.
func (l *Lane) run() error {
	defer l.dropCheckpoint()
	defer l.dropFlight() // where it ends in a panic
	err := l.live()
	if fault := l.settleFlight(); fault != nil && (err == nil || errors.Is(err, errReload)) {
		err = fault
	} else if fault != nil && !errors.Is(fault, errReload) {
		err = errors.Join(err, fault)
	}
	if err == nil || errors.Is(err, errReload) {
		if fault := l.settleCheckpoint(); fault != nil {
			return errors.Join(err, fault)
		}
	}
	return err
}

func (l *Lane) live() error {
	if err := l.load(); err != nil {
		return err
	}
	if l.p == nil {
		ready, err := l.findFirstLabel()
		if err != nil || !ready {
			return err
		}
	}
	for {
		if err := l.ctx.Err(); err != nil {
			return l.stop(err)
		}
		l.alive()
		if l.inFlight != nil && l.isOver(l.inFlight.aside) {
			if err := l.settleFlight(); err != nil {
				return err
			}
		}
		if l.overBudget() {
			if err := l.flush(); err != nil {
				return err
			}
		}
		if err := l.release(); err != nil {
			return err
		}
		took, err := l.takeBlock()
		if err != nil {
			return err
		}
		if took {
			if err := l.flushOnTime(); err != nil {
				return err
			}
			continue
		}
		// Nothing to take: every partition is paused or waits for records.
		done, err := l.atEnd()
		if err != nil || done {
			return err
		}
	}
}

// stop commits what was taken before the process ends.
func (l *Lane) stop(cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), stopGrace)
	defer cancel()
	l.ctx = ctx
	if err := l.flush(); err != nil && !errors.Is(err, errReload) {
		return err
	}
	return cause
}

// takeBlock takes the records of one block, up to the pause or the end of the
// batch. It reports whether anything moved.
func (l *Lane) takeBlock() (bool, error) {
	id, block, err := l.queue.next(l.ctx, l.takeable)
	if l.ctx.Err() != nil {
		return false, nil // nothing is half done: run commits what was taken
	}
	if err != nil || block == nil {
		return false, err
	}
	p := l.state().Find(id)
	if !l.batch.dirty && l.batch.records == 0 {
		l.since = time.Now()
	}
	lastDead := l.lastDeadLetter(id)
	if block.at == 0 {
		l.lookAhead(block)
	}
	if l.o.Tracer != nil {
		began, at := time.Now(), block.at
		defer func() { over(l.o.Tracer, FoldStage, began, block.at-at, 0) }()
	}
	for !block.done() {
		r, c, decodeErr := block.peek()
		if r.Row == 0 && l.judge.Paused(p) {
			l.queue.pause(id)
			return true, nil
		}
		if l.stopped != nil && l.stopped.id == id && l.stopped.offset == r.Offset {
			if err := l.flush(); err != nil {
				return true, err
			}
			return true, l.stopped.err
		}
		if r.Offset >= p.Next && decodeErr != nil {
			if decodeErr, err = l.awaitDefinition(r, c, decodeErr); err != nil {
				return true, err
			}
		}
		if decodeErr == nil && c.Op == change.Schema && r.Offset >= p.Next && (l.batch.hasRows() || l.inFlight != nil) {
			// What the source did before lies in a version before.
			if err := l.flush(); err != nil {
				return true, err
			}
		}
		block.advance()
		if r.Offset < p.Next {
			continue
		}
		if p.Heartbeat {
			l.takeHeartbeat(p, r, heartbeatTime(r, c))
			continue
		}
		if decodeErr == nil && c.Op == change.Heartbeat && r.Rows <= 1 && r.Oversize == 0 {
			l.takeHeartbeat(p, r, c.EventTime)
			continue
		}
		dead := len(l.batch.dead)
		l.taking, l.takingOf = block.ahead.of(block.at-1), &block.ahead
		again, err := l.take(p, r, c, decodeErr)
		l.taking = nil
		if err != nil {
			return true, l.stopBefore(id, r, err)
		}
		if r.Offset <= lastDead {
			l.settleAgain(r, dead)
		}
		if !again && r.LastRow() && l.batchFull() {
			if err := l.advance(); err != nil {
				return true, err
			}
		}
		if again {
			if err := l.flush(); err != nil {
				return true, err
			}
			if err := l.release(); err != nil {
				return true, err
			}
		}
	}
	if !l.judge.Paused(p) {
		block.finish()
		if block.next > p.Next {
			p.Next = block.next
			l.batch.dirty = l.batch.dirty || !p.Heartbeat
		}
	}
	return true, nil
}

// stopBefore makes a policy's refusal of a record an end at exactly that
// record: what was taken is dropped, taken again up to it, and committed. So
// nothing of the record, not even its watermark, is in the table.
func (l *Lane) stopBefore(id change.PartitionID, r *change.Record, err error) error {
	err = l.describe(r, err)
	if l.stopped != nil || !errors.Is(err, ErrLate) && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrTooManyDeadLetters) {
		return err
	}
	l.stopped = &stopAt{id, r.Offset, err}
	return fmt.Errorf("%w: %w", errReload, err)
}

// stopAt is the record before which the table stops, and why.
type stopAt struct {
	id     change.PartitionID
	offset int64
	err    error
}

func (l *Lane) describe(r *change.Record, err error) error {
	if errors.Is(err, errReload) {
		return err
	}
	return fmt.Errorf("table %s: topic %s partition %d offset %d: %w", l.o.Name, r.Topic, r.Partition, r.Offset, err)
}

// takeable reports whether records of a partition may be taken now.
func (l *Lane) takeable(id change.PartitionID) bool {
	p := l.state().Find(id)
	if p == nil || l.judge.Paused(p) {
		return false
	}
	end, known := l.startEnds[id]
	return !l.o.UntilEnd || known && p.Next < end
}

func (l *Lane) batchFull() bool {
	b := l.batch
	holds := l.holds()
	if b.records >= l.o.BatchRows || b.size() >= l.o.BatchBytes/2 || holds >= l.o.BatchBytes {
		return true
	}
	if grown := holds - l.told; (grown < 0 || grown >= tellEvery) && l.overBudget() {
		return true
	}
	// The clock is asked once in a while only.
	return b.records%1024 == 0 && b.records > 0 && !l.o.UntilEnd && l.timeIsUp()
}

// flushOnTime commits a batch whose time is up between two blocks: a source that
// always has a little never lets the lane come to its end.
func (l *Lane) flushOnTime() error {
	if l.o.UntilEnd || !l.batch.dirty || time.Since(l.clockAskedAt) < askClock {
		return nil
	}
	l.clockAskedAt = time.Now()
	if !l.timeIsUp() {
		return nil
	}
	return l.advance()
}

// askClock is how often a busy lane asks whether the time of its batch is up.
const askClock = 250 * time.Millisecond

func (l *Lane) state() *snapshotter.State { return &l.p.State }

// largeRecord is from how many bytes on a record counts twice in a batch.
const largeRecord = 64 << 10

// take gives one record its fate. release tells that held changes are due now.
func (l *Lane) take(p *snapshotter.Partition, r *change.Record, c *change.Change, decodeErr error) (release bool, err error) {
	if err := undecided(decodeErr); err != nil {
		return false, err
	}
	b := l.batch
	b.records++
	if r.Row == 0 {
		b.bytes += r.Size() // headers too: they share a buffer with what the batch keeps
		if r.Size() > largeRecord {
			b.bytes += r.Size() // its values are as large in the file, which is in memory beside it
		}
	} else {
		l.p.Totals.FurtherRows++
	}
	// An offset is passed when the last row has its fate: no commit comes before it.
	if r.LastRow() {
		p.Next = r.Offset + 1
	}
	b.dirty = true
	l.p.Totals.Taken++
	l.recent.taken()

	rej := l.rejected(r, decodeErr)
	if rej == nil {
		switch {
		case c.Op == change.Filtered, c.Op == change.Heartbeat, c.Op == change.Truncate && l.o.Truncate == Ignore:
			if c.Op == change.Heartbeat && c.EventTime >= earliestTime {
				l.moveWatermark(p, r, c.EventTime)
			}
			l.p.Counts.Filtered++
			l.p.Totals.Filtered++
			return false, nil
		case c.Op == change.Tombstone && l.o.Tombstones != DeleteIt:
			l.p.Counts.Tombstones++
			l.p.Totals.Tombstones++
			return false, nil
		}
		var old, new string
		if old, new, rej = l.keysOf(c, p.Number, r.Offset); rej == nil && c.Op != change.Schema {
			rej, err = l.checkNullKey(c, old, new)
			if err != nil {
				return false, err
			}
		}
		if rej == nil {
			again := sentAgain(p, c, old)
			var t int64
			var own bool
			t, own, rej = l.o.eventTime(r, c)
			switch {
			case rej == nil && again: // a duplicate like the delete before it
				if !own {
					l.p.Counts.Replaced++
				}
				p.Watermark = max(p.Watermark, t)
				l.p.Counts.Duplicates++
				l.p.Totals.Duplicates++
				return false, nil
			case rej == nil:
				return l.takeJudged(p, r, c, old, new, t, own)
			}
		}
	}
	return false, l.deadLetter(r, rej, l.state().Open, false)
}

// sentAgain reports whether the change is the tombstone behind a delete that was a
// duplicate. It has no position to show it, and would delete what was inserted since.
func sentAgain(p *snapshotter.Partition, c *change.Change, key string) bool {
	again := c.Op == change.Tombstone && p.SentAgain != nil && string(p.SentAgain) == key
	p.SentAgain = nil
	return again
}

// noteOrigin notes, for the evidence, where the change's time and place are from.
func (l *Lane) noteOrigin(p *snapshotter.Partition, c *change.Change, own bool) {
	switch configured := l.o.Decode.EventTime; {
	case !own || configured == "kafka":
		p.BrokerTimes = true
	case configured != "" && configured != "source":
		p.ColumnTimes = true
	case c.EventTimeIsCommit:
		p.CommitTimes = true
	default:
		p.StatementTimes = true
	}
	p.Positions = p.Positions || c.HasPosition
	p.NoPositions = p.NoPositions || !c.HasPosition
	if c.KeyUnsure {
		l.p.Counts.UnsureKeys++
	}
}

// undecided refuses a stream of which no record can be judged before a setting is
// chosen: its dead letters would be all of it.
func undecided(decodeErr error) error {
	if errors.Is(decodeErr, decode.ErrTombstones) {
		return fmt.Errorf("%w: %w", ErrRefused, decodeErr)
	}
	return nil
}

func (l *Lane) rejected(r *change.Record, err error) *rejection {
	switch {
	case r.Oversize > 0:
		return reject("oversize", "the record has %d bytes, the limit is %d", r.Oversize, l.o.MaxRecord)
	case err == nil:
		return nil
	}
	var d *decode.Error
	if errors.As(err, &d) {
		return &rejection{string(d.Reason), l.o.Transform.Told(d), d.Column}
	}
	return reject("decode", "%s", l.o.Transform.Told(err))
}

func (l *Lane) checkNullKey(c *change.Change, old, new string) (*rejection, error) {
	if l.o.NullKey == AsValue || !hasNull(old) && !hasNull(new) {
		return nil, nil
	}
	if l.o.NullKey == Fail {
		return nil, fmt.Errorf("%w: a key column is NULL (null_key: fail)", ErrRefused)
	}
	return reject("null_key", "a key column is NULL"), nil
}

// hasNull reports whether an encoded key begins with, or is, a NULL. Keys of
// several columns are decoded cell by cell.
func hasNull(key string) bool {
	for len(key) > 0 {
		n, null := schema.EncodedLen(key)
		if null || n <= 0 {
			return null
		}
		key = key[n:]
	}
	return false
}

// takeJudged gives a decoded change with keys and a time its fate.
func (l *Lane) takeJudged(p *snapshotter.Partition, r *change.Record, c *change.Change, old, new string, t int64, own bool) (release bool, err error) {
	s := l.state()
	before := p.Watermark
	ev := event(c, r.Offset, t, own, old, new)
	if l.o.Append {
		ev.Identity = l.appendIdentity(c)
	}
	v := l.judge.Take(p, &ev)
	if !own {
		l.p.Counts.Replaced++
	}
	if v.NewLine {
		l.p.Counts.NewLines++
		l.o.Log.Info("a new line: the source's binlog was begun anew", l.at(r)...)
	}
	if v.Fate == snapshotter.Duplicate {
		if c.Op == change.Delete && l.o.Tombstones == DeleteIt {
			p.SentAgain = []byte(old)
		}
		l.p.Counts.Duplicates++
		l.p.Totals.Duplicates++
		return false, nil
	}
	l.noteOrigin(p, c, own)
	if v.Late && c.Op != change.Schema {
		if done, err := l.takeLate(r, &v, old, new); done || err != nil {
			return false, err
		}
	} else if v.Load == nil && v.Label == s.Open && before != snapshotter.NoTime && l.judge.Label(before) > s.Open {
		// Reads of a load have its label wherever they stand: they are no drift.
		l.p.Counts.Drift++
	}
	if c.OldKeyHeader || c.NewKeyHeader {
		if l.pairs.split(v.Meta, v.At, c.NewKeyHeader) {
			l.p.Counts.SplitPairs++
		}
	}
	if v.Fate == snapshotter.Hold {
		l.hold(r, &ev, &v)
		return false, nil
	}
	if v.LoadLabelFell && l.heldOf(v.Load) {
		// Reads of this load that were taken earlier are due before this one.
		l.hold(r, &ev, &v)
		return true, nil
	}
	f, rej, err := l.apply(c, old, new, v.Meta, true)
	if err != nil {
		return false, err
	}
	l.settle(f, v.Late && c.Op != change.Schema)
	if rej != nil {
		return false, l.deadLetter(r, rej, s.Open, v.Late)
	}
	return false, nil
}

// settle counts the fate of a change that was due.
func (l *Lane) settle(f fate, late bool) {
	name := "folded"
	switch f {
	case applied:
		l.p.Totals.Applied++
	case superseded:
		l.p.Totals.Superseded++
		name = "superseded"
	case filtered:
		l.p.Counts.Filtered++
		l.p.Totals.Filtered++
		return
	default:
		name = DeadLetter
	}
	if late && len(l.batch.late) > 0 {
		l.batch.late[len(l.batch.late)-1].Fate = name
	}
}

// takeLate lists a late change; done tells that policy has settled it.
func (l *Lane) takeLate(r *change.Record, v *snapshotter.Verdict, old, new string) (done bool, err error) {
	if l.o.Late == Fail {
		return true, fmt.Errorf("%w: it belongs to %s, which is sealed; set late: fold or late: dead_letter to go on",
			ErrLate, l.o.Calendar.Name(v.Label))
	}
	l.p.Counts.Late++
	if len(l.batch.late) < progress.MaxLate {
		key := new
		if key == "" {
			key = old
		}
		l.batch.late = append(l.batch.late, progress.LateChange{
			Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: l.keyText(key), Label: v.Label,
		})
	}
	if l.o.Late == DeadLetter {
		l.settle(deadLettered, true)
		return true, l.deadLetter(r, reject("late", "it belongs to %s, which was sealed", l.o.Calendar.Name(v.Label)), v.Label, true)
	}
	return false, nil
}

func (l *Lane) fields(key string, value any) []zap.Field {
	return []zap.Field{zap.String("table", l.o.Name), zap.Any(key, value)}
}

func (l *Lane) at(r *change.Record, more ...zap.Field) []zap.Field {
	at := []zap.Field{zap.String("table", l.o.Name), zap.String("topic", r.Topic), zap.Int32("partition", r.Partition), zap.Int64("offset", r.Offset)}
	if r.Row > 0 {
		at = append(at, zap.Int32("row", r.Row))
	}
	return append(at, more...)
}

// pairs remembers the labels of first halves of key changes that came as two
// records, to find pairs whose halves have different labels.
type pairs map[pairKey]snapshotter.Label

type pairKey struct {
	line int32
	pos  change.Position
	del  bool
}

// maxPairs bounds the halves whose other half never comes.
const maxPairs = 10_000

func (p *pairs) split(m snapshotter.Meta, at snapshotter.Label, del bool) bool {
	if *p == nil || len(*p) > maxPairs {
		*p = pairs{}
	}
	pos := m.Position
	pos.Row = 0 // the halves may differ in the row alone
	if other, ok := (*p)[pairKey{m.Line, pos, !del}]; ok {
		delete(*p, pairKey{m.Line, pos, !del})
		return other != at
	}
	(*p)[pairKey{m.Line, pos, del}] = at
	return false
}
