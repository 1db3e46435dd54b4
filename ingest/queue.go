package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// queue fetches blocks from a Source and has them decoded ahead of the lane.
// What it gives out is in offset order per partition.
type queue struct {
	source  Source
	o       *Options
	pending map[change.PartitionID][]*chunk
	order   []change.PartitionID // partitions with pending chunks, next first
	chunks  int
	bytes   int64 // of the records of pending chunks
	dry     bool  // the last poll brought nothing
	flying  chan polled
	spare   []chunkRoom
	landed  error // of a poll made ahead, for the next call of next
	paused  map[change.PartitionID]bool

	// define, where set, sees to it that the definitions of what was polled are known.
	define func([]change.Block) error

	// format is what chunks are decoded as: auto until one has decided.
	format  string
	work    chan *chunk
	workers sync.WaitGroup
	outage  outage
	// schemas is an outage of where the records' schemas come from.
	schemas outage
}

// polled is what a poll made ahead has brought.
type polled struct {
	blocks []change.Block
	err    error
}

// chunk is a stretch of one partition, decoded when ready is closed. It owns
// the memory of its changes.
type chunk struct {
	id      change.PartitionID
	records []*change.Record
	changes []change.Change
	errs    []error
	next    int64 // offset behind the chunk
	bytes   int64 // of its records
	ahead   ahead // filled in when its turn comes
	at      int
	over    bool // the stretch behind the last record was taken too
	ready   chan struct{}
	broken  error // a panic of the decoder or a schema that it could not have, known when ready
	rows    bool  // records of several rows were split into them
	// format is that of the decoder; when ready, what it has decided ("" for nothing yet).
	format string
}

const (
	chunkRecords = 512
	// The next poll is made ahead while fewer chunks and bytes than these wait.
	lowWater      = 48
	lowWaterBytes = 32 << 20
)

// arenaRecords is how many bytes of records an arena takes rows of before the next begins.
const arenaRecords = 8 << 20

func newQueue(source Source, o *Options) *queue {
	q := &queue{source: source, o: o, work: make(chan *chunk, 1024), paused: map[change.PartitionID]bool{}}
	q.outage = outage{log: o.Log, table: o.Name, what: ForSource}
	q.schemas = outage{log: o.Log, table: o.Name, what: ForSchemas}
	q.drop()
	for range o.Decoders {
		q.workers.Go(func() {
			decoders, arena, decoded := map[string]decode.Decoder{}, &change.Arena{}, int64(0)
			for c := range q.work {
				// Rows in one block of the arena keep each other's records in memory: few, where records are large.
				if decoded += c.bytes; decoded > arenaRecords {
					arena, decoded = &change.Arena{}, c.bytes
				}
				began := begun(o.Tracer)
				c.broken = Caught(func() error { return c.decode(decoders, arena, o) })
				over(o.Tracer, DecodeStage, began, len(c.records), c.bytes)
				close(c.ready)
			}
		})
	}
	return q
}

// decode fills in changes and errs. Its own error is a *SourceError: a record must
// wait for its schema, and so must all of the chunk.
func (c *chunk) decode(decoders map[string]decode.Decoder, arena *change.Arena, o *Options) error {
	d := decoders[c.format]
	if d == nil {
		var err error
		if d, err = newDecoder(c.format, o); err != nil {
			// The lane has made one of this format and these options before.
			for i := range c.errs {
				c.errs[i] = err
			}
			return nil
		}
		decoders[c.format] = d
	}
	if !c.rows {
		c.split(d)
		c.rows = true
	}
	for i, r := range c.records {
		if r.Oversize > 0 {
			continue
		}
		err := d.Decode(r, arena, &c.changes[i])
		if err := schemaOutage(err); err != nil {
			return err
		}
		c.errs[i] = err
	}
	c.format = d.Format()
	return nil
}

// schemaOutage gives the error of a record that must wait for its schema, nil for
// all others.
func schemaOutage(err error) error {
	if err == nil {
		return nil // before wait, which would be allocated
	}
	var wait *decode.SchemaError
	if errors.As(err, &wait) {
		return &SourceError{wait.Retryable, err}
	}
	return nil
}

// split makes a record of each row of a record that holds several. They share
// its bytes and its coordinates.
func (c *chunk) split(d decode.Decoder) {
	var split []*change.Record
	for i, r := range c.records {
		n := 1
		if r.Oversize == 0 {
			n = d.Rows(r)
		}
		if n > 1 && split == nil {
			split = append(make([]*change.Record, 0, len(c.records)+n), c.records[:i]...)
		}
		switch {
		case n > 1:
			rows := make([]change.Record, n)
			for row := range rows {
				rows[row] = *r
				rows[row].Row, rows[row].Rows = int32(row), int32(n)
				split = append(split, &rows[row])
			}
		case split != nil:
			split = append(split, r)
		}
	}
	if split != nil {
		c.records, c.changes, c.errs = split, make([]change.Change, len(split)), make([]error, len(split))
	}
}

func (q *queue) close() {
	if q.flying != nil {
		<-q.flying
	}
	close(q.work)
	q.workers.Wait()
}

func (q *queue) drop() {
	q.pending, q.order, q.chunks, q.bytes, q.dry = map[change.PartitionID][]*chunk{}, nil, 0, 0, false
}

// reset drops what was fetched and reads on from the given offsets.
func (q *queue) reset(ctx context.Context, offsets map[change.PartitionID]int64) error {
	_ = q.settle() // what it brings is dropped, an error of it too
	q.landed = nil
	q.drop()
	for id := range q.paused {
		q.source.Resume(id)
	}
	clear(q.paused)
	return sourceError(q.source, q.source.Assign(ctx, offsets))
}

// pause stops fetching from a partition; what is pending stays.
func (q *queue) pause(id change.PartitionID) {
	if !q.paused[id] {
		q.paused[id] = true
		q.land()
		q.source.Pause(id)
	}
}

// land waits for the poll that was made ahead, so that the source is the
// caller's alone; an error of it comes out of the next call of next.
func (q *queue) land() { q.landed = errors.Join(q.landed, q.settle()) }

// next gives the oldest pending chunk of a partition that may be taken from,
// decoded; nil where a poll brought none. The chunk stays pending until it is done.
func (q *queue) next(ctx context.Context, takeable func(change.PartitionID) bool) (change.PartitionID, *chunk, error) {
	if err := q.landed; err != nil {
		q.landed = nil
		return change.PartitionID{}, nil, err
	}
	for id := range q.paused {
		if takeable(id) {
			delete(q.paused, id)
			q.land()
			q.source.Resume(id)
			q.dry = false
		}
	}
	for tries := 0; ; tries++ {
		if err := q.ahead(ctx); err != nil {
			return change.PartitionID{}, nil, err
		}
		for i := 0; i < len(q.order); i++ {
			id := q.order[i]
			list := q.pending[id]
			for len(list) > 0 && list[0].finished() {
				q.chunks--
				q.bytes -= list[0].bytes
				q.recycle(list[0])
				list = list[1:]
			}
			if q.pending[id] = list; len(list) == 0 {
				delete(q.pending, id)
				q.order = append(q.order[:i], q.order[i+1:]...)
				i--
				continue
			}
			if !takeable(id) {
				q.pause(id) // or more of it would come, and crowd out what can be taken
				continue
			}
			// The next call begins with another partition.
			q.order = append(append(q.order[:i:i], q.order[i+1:]...), id)
			c := list[0]
			select {
			case <-c.ready:
			case <-ctx.Done():
				return id, nil, ctx.Err()
			}
			if c.broken != nil {
				err := fmt.Errorf("table %s: decode %s from offset %d on: %w", q.o.Name, id, c.records[0].Offset, c.broken)
				return id, nil, q.again(c, err)
			}
			q.schemas.over()
			return id, c, nil
		}
		if tries > 0 && q.dry {
			return change.PartitionID{}, nil, nil
		}
		if err := q.poll(ctx); err != nil {
			return change.PartitionID{}, nil, err
		}
	}
}

// again has a chunk decoded anew whose schemas could not be had. It gives nil after
// a short wait, where they may be had later.
func (q *queue) again(c *chunk, err error) error {
	if err := q.schemas.ride(err); err != nil {
		return err
	}
	c.broken, c.ready = nil, make(chan struct{})
	q.work <- c
	return nil
}

// ahead starts the next poll of a busy source while there is still something
// to take, and takes in one that has ended.
func (q *queue) ahead(ctx context.Context) error {
	if q.flying != nil {
		select {
		case p := <-q.flying:
			q.flying = nil
			return q.take(p)
		default:
			return nil
		}
	}
	if q.dry || q.chunks >= lowWater || q.bytes >= lowWaterBytes || q.chunks == 0 {
		return nil
	}
	flying := make(chan polled, 1)
	q.flying = flying
	go func() {
		flying <- q.ask(ctx)
	}()
	return nil
}

// settle waits for the poll that was made ahead, if any, and takes it in.
func (q *queue) settle() error {
	if q.flying == nil {
		return nil
	}
	p := <-q.flying
	q.flying = nil
	return q.take(p)
}

// poll brings more, from the poll that was made ahead or from a new one.
func (q *queue) poll(ctx context.Context) error {
	if q.flying != nil {
		return q.settle()
	}
	return q.take(q.ask(ctx))
}

// ask asks the source for more.
func (q *queue) ask(ctx context.Context) polled {
	began := begun(q.o.Tracer)
	blocks, err := q.source.Poll(ctx, q.o.PollRecords)
	if q.o.Tracer != nil && len(blocks) > 0 {
		records, bytes := 0, int64(0)
		for _, b := range blocks {
			records += len(b.Records)
			for _, r := range b.Records {
				bytes += int64(len(r.Key) + len(r.Value))
			}
		}
		over(q.o.Tracer, PollStage, began, records, bytes)
	}
	return polled{blocks, err}
}

func (q *queue) take(p polled) error {
	if p.err != nil {
		q.dry = true
		return q.outage.ride(sourceError(q.source, p.err))
	}
	q.dry = len(p.blocks) == 0
	if !q.dry {
		q.outage.over()
	}
	if q.define != nil {
		if err := q.define(p.blocks); err != nil {
			return err
		}
	}
	for _, b := range p.blocks {
		records := b.Records
		for first := true; first || len(records) > 0; first = false {
			n := min(len(records), chunkRecords)
			c := q.newChunk(n)
			c.id, c.records, c.format = b.ID, records[:n], q.format
			records = records[n:]
			if c.next = b.Next; len(records) > 0 {
				c.next = records[0].Offset
			}
			if q.pending[b.ID] == nil {
				q.order = append(q.order, b.ID)
			}
			for _, r := range c.records {
				c.bytes += r.Size()
			}
			q.pending[b.ID] = append(q.pending[b.ID], c)
			q.chunks++
			q.bytes += c.bytes
			q.work <- c
		}
	}
	return nil
}

// chunkRoom is the memory of a chunk that was taken, for another one.
type chunkRoom struct {
	changes []change.Change
	errs    []error
	ahead   []lookedUp
}

func (q *queue) recycle(c *chunk) {
	if len(q.spare) < lowWater && len(c.changes) >= chunkRecords {
		clear(c.changes)
		clear(c.errs)
		clear(c.ahead.changes)
		q.spare = append(q.spare, chunkRoom{c.changes, c.errs, c.ahead.changes[:0]})
	}
}

// newChunk makes a chunk of at most chunkRecords changes.
func (q *queue) newChunk(n int) *chunk {
	var room chunkRoom
	if last := len(q.spare) - 1; last >= 0 {
		room, q.spare = q.spare[last], q.spare[:last]
	} else {
		room = chunkRoom{changes: make([]change.Change, n), errs: make([]error, n)}
	}
	return &chunk{changes: room.changes[:n], errs: room.errs[:n], ahead: ahead{changes: room.ahead}, ready: make(chan struct{})}
}

// done reports that every record was taken.
func (c *chunk) done() bool { return c.at >= len(c.records) }

// finished is done, including the stretch behind the last record. It may be asked
// before the chunk is ready.
func (c *chunk) finished() bool { return c.over }

// finish tells that the stretch behind the last record was taken too.
func (c *chunk) finish() { c.at, c.over = len(c.records), true }

// peek gives the next record and what was decoded of it.
func (c *chunk) peek() (*change.Record, *change.Change, error) {
	return c.records[c.at], &c.changes[c.at], c.errs[c.at]
}

func (c *chunk) advance() { c.at++ }

// partitions asks the source what there is, at a moment when no poll is under way.
func (q *queue) partitions(ctx context.Context) ([]change.PartitionState, error) {
	q.land()
	states, _, err := q.source.Partitions(ctx)
	return states, sourceError(q.source, err)
}

// newPartitions tells whether there may be partitions that are not read, as of
// at most maxAge ago; of a source that can't tell cheaply there may always be.
func (q *queue) newPartitions(ctx context.Context, maxAge time.Duration) (bool, error) {
	src, ok := q.source.(partitionWatcher)
	if !ok {
		return true, nil
	}
	q.land()
	added, err := src.NewPartitions(ctx, maxAge)
	return added, sourceError(q.source, err)
}
