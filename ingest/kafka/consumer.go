package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

// Consumer reads the partitions of some topics from offsets that it is given.
// Poll and Assign are meant for one goroutine; the other methods may be called
// beside them. Close releases it.
type Consumer struct {
	opts   Options
	shared []kgo.Opt
	admin  *kgo.Client // metadata, offsets, group offsets
	done   chan struct{}

	mu     sync.Mutex
	closed bool
	fetch  *kgo.Client // nil without an assignment
	// generation counts the Assigns, so that what belongs to an earlier one is thrown away.
	generation int
	reading    map[change.PartitionID]*reading
	faults     []fault // not yet judged
	failed     error   // sticky until Assign
	pending    error   // for the next Poll
	meta       metadata
	topicIDs   map[string]string
}

// reading is where the reading of one partition stands.
type reading struct {
	next   int64
	end    int64 // the highest watermark heard of
	paused bool
	kept   []change.Block // arrived while paused
	probe  backoff
}

// New makes a Consumer without talking to the brokers. The error names every
// fault of the options.
func New(opts Options) (*Consumer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	shared, err := opts.client()
	if err != nil {
		return nil, err
	}
	admin, err := kgo.NewClient(shared...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return &Consumer{opts: opts, shared: shared, admin: admin, done: make(chan struct{}), topicIDs: make(map[string]string)}, nil
}

// Assign starts reading exactly these partitions at exactly these offsets. It
// ends every earlier assignment and pause and drops what was fetched. All
// offsets are first checked against the brokers: the error holds a
// change.LostOffsetsError for each partition that lacks its own, or is one of
// Partitions'. After an error nothing is assigned.
func (c *Consumer) Assign(ctx context.Context, offsets map[change.PartitionID]int64) error {
	c.unassign()
	states, _, err := c.Partitions(ctx)
	if err != nil {
		return err
	}
	if err := checkOffsets(offsets, states); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if len(offsets) == 0 {
		return nil
	}
	from := make(map[string]map[int32]kgo.Offset)
	for id, offset := range offsets {
		if from[id.Topic] == nil {
			from[id.Topic] = make(map[int32]kgo.Offset)
		}
		from[id.Topic][id.Partition] = kgo.NewOffset().At(offset)
	}
	perBroker := max(1<<20, min(c.opts.FetchBytes/int64(c.meta.leaders(offsets)), maxResponse))
	fetch, err := kgo.NewClient(append(slices.Clip(c.shared),
		kgo.ConsumePartitions(from),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMaxBytes(int32(perBroker)),
		kgo.FetchMaxPartitionBytes(int32(min(max(1<<20, perBroker/2), 8<<20))),
	)...)
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	c.fetch = fetch
	c.reading = make(map[change.PartitionID]*reading, len(offsets))
	for id, offset := range offsets {
		c.reading[id] = &reading{next: offset}
	}
	for _, s := range states {
		if r := c.reading[s.ID]; r != nil {
			r.end = s.End
		}
	}
	return nil
}

// unassign ends the assignment. The client is closed outside the lock: a Poll
// under way ends by it.
func (c *Consumer) unassign() {
	c.mu.Lock()
	old := c.fetch
	c.fetch, c.reading, c.faults, c.failed, c.pending = nil, nil, nil, nil, nil
	c.generation++
	c.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

func checkOffsets(offsets map[change.PartitionID]int64, states []change.PartitionState) error {
	known := make(map[change.PartitionID]change.PartitionState, len(states))
	for _, s := range states {
		known[s.ID] = s
	}
	var lost []*change.LostOffsetsError
	for id, offset := range offsets {
		// A partition that is not there has the log [0, 0).
		if s := known[id]; offset < s.Earliest || offset > s.End {
			lost = append(lost, &change.LostOffsetsError{ID: id, Wanted: offset, Earliest: s.Earliest, End: s.End})
		}
	}
	slices.SortFunc(lost, func(a, b *change.LostOffsetsError) int { return a.ID.Compare(b.ID) })
	var errs []error
	for _, e := range lost {
		errs = append(errs, e)
	}
	for id := range offsets {
		if _, ok := known[id]; !ok && lost == nil {
			errs = append(errs, fmt.Errorf("partition %v: it is not among the partitions of the table's topics", id))
		}
	}
	return errors.Join(errs...)
}

// Pause stops the delivery of these partitions until Resume or Assign. What
// arrived for them is delivered after Resume, in order. A Poll that runs at
// the same time may still return what it has taken before.
func (c *Consumer) Pause(ids ...change.PartitionID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if set := c.setPaused(ids, true); len(set) > 0 {
		c.fetch.PauseFetchPartitions(set)
	}
}

// Resume lets paused partitions go on where they stopped.
func (c *Consumer) Resume(ids ...change.PartitionID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if set := c.setPaused(ids, false); len(set) > 0 {
		c.fetch.ResumeFetchPartitions(set)
	}
}

// setPaused gives the partitions that changed, as the library wants them.
func (c *Consumer) setPaused(ids []change.PartitionID, paused bool) map[string][]int32 {
	set := make(map[string][]int32)
	for _, id := range ids {
		if r := c.reading[id]; r != nil && r.paused != paused {
			r.paused = paused
			set[id.Topic] = append(set[id.Topic], id.Partition)
		}
	}
	return set
}

// Close ends everything. Blocks stay valid.
func (c *Consumer) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	close(c.done)
	c.unassign()
	c.admin.Close()
	return nil
}
