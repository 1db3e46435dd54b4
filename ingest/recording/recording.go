package recording

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// ErrClosed is what a closed Recording answers.
var ErrClosed = errors.New("the recording is closed")

// Options say how a recording is read. The zero value reads everything.
type Options struct {
	// Topic is the topic of lines that name none. Empty: such a line is refused.
	Topic string
	// Topics keeps only the lines of these topics; nil keeps all. Lines of
	// other topics are checked too.
	Topics []string
	// MaxRecord is the most bytes of a record (key, value, headers) that are
	// delivered in full, see change.Record.Cap. Default 64 MiB, below 0 no limit.
	MaxRecord int64
	// BlockBytes bounds the lines that one Poll reads; a single longer line is
	// read all the same. Default 8 MiB.
	BlockBytes int64
	// TempDir is where compressed files are unpacked. Default: the system's.
	TempDir string
}

const (
	defaultMaxRecord  = 64 << 20
	defaultBlockBytes = 8 << 20
	// idleWait is how long Poll waits where there is nothing more to read.
	idleWait = 20 * time.Millisecond
)

// Recording is an open recording: it answers like a broker that has exactly
// these records. Safe for concurrent use, though Poll and Assign are meant for
// one goroutine. Close releases it.
type Recording struct {
	opts  Options
	maxTs int64

	mu     sync.Mutex
	files  []*file // nil after Close
	parts  []*partition
	byID   map[change.PartitionID]*partition
	now    time.Time
	pages  pages
	failed error // sticky until the next Assign
}

// Open reads the files once, in the order given, as one recording, and
// refuses it at the first bad line: the error names file and line.
func Open(names []string, opts Options) (*Recording, error) {
	if opts.MaxRecord == 0 {
		opts.MaxRecord = defaultMaxRecord
	}
	if opts.BlockBytes <= 0 {
		opts.BlockBytes = defaultBlockBytes
	}
	if len(names) == 0 {
		return nil, errors.New("open recording: no file named")
	}
	x := &indexer{topic: []byte(opts.Topic), parts: make(map[string]map[int32]*partition), maxTs: -1}
	if opts.Topics != nil {
		x.wanted = make(map[string]bool)
		for _, t := range opts.Topics {
			x.wanted[t] = true
		}
	}
	for n, name := range names {
		f, err := openFile(name, opts.TempDir)
		if err == nil {
			x.files = append(x.files, f)
			err = rewindAndRead(x, n)
		}
		if err != nil {
			err = fmt.Errorf("open recording: %w", err)
			for _, f := range x.files {
				err = errors.Join(err, f.close())
			}
			return nil, err
		}
	}
	r := &Recording{opts: opts, maxTs: x.maxTs, files: x.files, parts: x.sorted(), byID: make(map[change.PartitionID]*partition)}
	for _, p := range r.parts {
		r.byID[p.id] = p
	}
	if r.HasTimestamps() {
		r.now = time.UnixMilli(r.maxTs).UTC()
	}
	return r, nil
}

func rewindAndRead(x *indexer, n int) error {
	if _, err := x.files[n].f.Seek(0, 0); err != nil {
		return fmt.Errorf("read %s: %w", x.files[n].name, err)
	}
	return x.read(n)
}

// HasTimestamps tells whether any record of the topics read has a broker timestamp.
func (r *Recording) HasTimestamps() bool { return r.maxTs >= 0 }

// MaxBrokerTimestamp gives the largest broker timestamp of the topics read in
// milliseconds since 1970: the default clock. -1 where no record has one.
func (r *Recording) MaxBrokerTimestamp() int64 { return r.maxTs }

// SetNow sets the clock that Partitions reports. Default: the largest broker
// timestamp; where there is none the zero time, which lets nothing be sealed.
func (r *Recording) SetNow(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = t
}

// Partitions gives every partition that occurs in the recording, by topic and
// number: Earliest is its first offset, End the one behind its last.
func (r *Recording) Partitions(ctx context.Context) ([]change.PartitionState, time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files == nil {
		return nil, time.Time{}, ErrClosed
	}
	out := make([]change.PartitionState, len(r.parts))
	for i, p := range r.parts {
		out[i] = change.PartitionState{ID: p.id, Earliest: p.index.first(), End: p.index.end()}
	}
	return out, r.now, ctx.Err()
}

// Assign starts reading exactly these partitions at exactly these offsets (an
// offset in a hole stands for the next record). It ends every earlier
// assignment and pause. An offset outside [Earliest, End] gives
// change.LostOffsetsErrors, one for each such partition, and changes nothing.
func (r *Recording) Assign(ctx context.Context, offsets map[change.PartitionID]int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files == nil {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var lost []*change.LostOffsetsError
	for id, offset := range offsets {
		var earliest, end int64
		if p := r.byID[id]; p != nil {
			earliest, end = p.index.first(), p.index.end()
		}
		if offset < earliest || offset > end {
			lost = append(lost, &change.LostOffsetsError{ID: id, Wanted: offset, Earliest: earliest, End: end})
		}
	}
	if lost != nil {
		slices.SortFunc(lost, func(a, b *change.LostOffsetsError) int { return a.ID.Compare(b.ID) })
		errs := make([]error, len(lost))
		for i, e := range lost {
			errs[i] = e
		}
		return errors.Join(errs...)
	}
	r.failed = nil
	for _, p := range r.parts {
		offset, ok := offsets[p.id]
		p.assigned, p.paused, p.cursor, p.take = ok, false, cursor{}, nil
		if ok {
			p.next, p.cursor = offset, p.index.seek(offset)
		}
	}
	return nil
}

// Pause stops the delivery of these partitions until Resume or Assign.
// Partitions that are not assigned are ignored.
func (r *Recording) Pause(ids ...change.PartitionID) { r.setPaused(ids, true) }

// Resume lets paused partitions go on where they stopped.
func (r *Recording) Resume(ids ...change.PartitionID) { r.setPaused(ids, false) }

func (r *Recording) setPaused(ids []change.PartitionID, paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if p := r.byID[id]; p != nil && p.assigned {
			p.paused = paused
		}
	}
}

// Poll reads up to maxRecords records (0 or less: only bytes are bounded) of
// the partitions that are assigned and not paused, at most one block for each
// partition. Where all of them are read to their ends it waits a moment and
// gives none. The error is ctx's, ErrClosed, or a read error, after which
// only Assign helps.
func (r *Recording) Poll(ctx context.Context, maxRecords int) ([]change.Block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	blocks, err := r.read(maxRecords)
	if err != nil || len(blocks) > 0 {
		return blocks, err
	}
	t := time.NewTimer(idleWait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.C:
		return nil, nil
	}
}

func (r *Recording) read(maxRecords int) ([]change.Block, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files == nil {
		return nil, ErrClosed
	}
	if r.failed != nil {
		return nil, r.failed
	}
	if maxRecords <= 0 {
		maxRecords = math.MaxInt
	}
	r.plan(maxRecords)
	var blocks []change.Block
	for _, p := range r.parts {
		if len(p.take) == 0 {
			continue
		}
		b, err := r.block(p)
		if err != nil {
			// What was planned for the other partitions is not delivered: only
			// an Assign knows where to go on.
			r.failed = err
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// Close gives the files back. Blocks stay valid.
func (r *Recording) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, f := range r.files {
		err = errors.Join(err, f.close())
	}
	r.files, r.pages = nil, pages{}
	return err
}
