package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// Consumer reads the partitions of some topics from offsets that it is given.
// Poll and Assign are meant for one goroutine; the other methods may be called
// beside them. Close releases it.
type Consumer struct {
	opts    Options
	cluster *Cluster
	wake    chan struct{} // something came; at most one token
	done    chan struct{}

	// All below is guarded by cluster.mu.
	closed bool
	// generation counts the Assigns, so that what belongs to an earlier one is thrown away.
	generation int
	reading    map[change.PartitionID]*reading
	order      []*reading // the next to be given first
	buffered   int64      // bytes fetched and not taken
	takeable   int64      // that of them that is not of paused partitions
	polling    bool       // a Poll waits
	faults     []fault    // not yet judged
	failed     error      // sticky until Assign
	pending    error      // for the next Poll
	topicIDs   map[string]string
}

// New makes a Consumer with connections of its own, without talking to the
// brokers. The error names every fault of the options.
func New(opts Options) (*Consumer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	cl, err := NewCluster(opts)
	if err != nil {
		return nil, err
	}
	cl.CloseWithLast()
	return cl.Consumer(opts)
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
	cl := c.cluster
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.reading = make(map[change.PartitionID]*reading, len(offsets))
	for _, s := range states {
		offset, ok := offsets[s.ID]
		if !ok {
			continue
		}
		meta := cl.known[s.ID.Topic]
		r := &reading{c: c, id: s.ID, topicID: meta.id, next: offset, ahead: offset, end: s.End, epoch: -1, leader: leader{-1, -1}}
		c.reading[s.ID] = r
		c.order = append(c.order, r)
		cl.follow(r, meta.topicMeta)
		if r.lost() {
			cl.look()
		}
	}
	cl.schedule()
	return nil
}

// unassign ends the assignment. Fetches under way are thrown away when they come.
func (c *Consumer) unassign() {
	cl := c.cluster
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, r := range c.order {
		r.gone = true
		c.account(r, -r.bytes)
		if n := cl.nodes[r.leader.broker]; n != nil {
			delete(n.readings, r)
		}
	}
	c.reading, c.order, c.faults, c.failed, c.pending = nil, nil, nil, nil, nil
	c.generation++
	cl.schedule() // others may have waited for the budget
}

// account notes that a reading holds more bytes, or fewer. The caller holds mu.
func (c *Consumer) account(r *reading, bytes int64) {
	r.bytes += bytes
	c.buffered += bytes
	c.cluster.buffered += bytes
	if !r.paused {
		c.takeable += bytes
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
func (c *Consumer) Pause(ids ...change.PartitionID) { c.setPaused(ids, true) }

// Resume lets paused partitions go on where they stopped.
func (c *Consumer) Resume(ids ...change.PartitionID) { c.setPaused(ids, false) }

func (c *Consumer) setPaused(ids []change.PartitionID, paused bool) {
	cl := c.cluster
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, id := range ids {
		r := c.reading[id]
		if r == nil || r.paused == paused {
			continue
		}
		if r.paused = paused; paused {
			c.takeable -= r.bytes
		} else {
			c.takeable += r.bytes
			c.signal()
			if r.leader.broker >= 0 {
				cl.node(r.leader.broker).stirred = time.Now()
			}
		}
	}
	// Resumed partitions are fetched again; and a table all of whose bytes are
	// of paused partitions may fetch for the others.
	cl.schedule()
}

// signal wakes Poll. The caller holds mu.
func (c *Consumer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Close ends everything. Blocks stay valid.
func (c *Consumer) Close() error {
	c.end()
	cl := c.cluster
	cl.mu.Lock()
	cl.retired = cl.retired || cl.withLast && len(cl.consumers) == 0
	retired := cl.retired
	cl.mu.Unlock()
	if retired {
		return cl.Close()
	}
	return nil
}

// end takes the consumer out of its cluster.
func (c *Consumer) end() {
	cl := c.cluster
	cl.mu.Lock()
	again := c.closed
	c.closed = true
	delete(cl.consumers, c)
	cl.mu.Unlock()
	if !again {
		close(c.done)
		c.unassign()
	}
}
