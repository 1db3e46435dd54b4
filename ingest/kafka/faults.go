package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

// fault is something that went wrong with a partition, to be looked into
// without holding the lock.
type fault struct {
	r   *reading
	err error
	// plain: there is nothing to find out by asking, and reading goes on.
	plain bool
}

var (
	// errBackwards: records came from below the position, or from behind a log
	// start above it. Whatever the reason, what lies between was not read.
	errBackwards = errors.New("reading did not go on where it stopped")
	// errOtherTopic: the topic has another ID than the one that is read.
	errOtherTopic = errors.New("the topic is another one now")
)

// fault notes what went wrong, and stops the partition until that is judged.
// The caller holds mu.
func (c *Consumer) fault(r *reading, err error) {
	if !r.stopped {
		r.stopped = true
		c.faults = append(c.faults, fault{r: r, err: err})
		c.signal()
	}
}

// tell notes what goes wrong for long, while reading is tried again. The caller
// holds mu.
func (c *Consumer) tell(r *reading, err error) {
	for _, f := range c.faults {
		if f.plain && f.err.Error() == err.Error() {
			return // said for another partition
		}
	}
	c.faults = append(c.faults, fault{r, err, true})
	c.signal()
}

// judge finds out what the noted faults mean to the caller, and keeps that for
// the next take: for good where nothing more can be read, once where trying
// again may help. What came before a fault is given first. Where ctx ends
// first, the next Poll judges.
func (c *Consumer) judge(ctx context.Context) {
	cl := c.cluster
	cl.mu.Lock()
	faults, generation := c.faults, c.generation
	for _, f := range faults {
		if !f.r.paused && len(f.r.kept) > 0 {
			faults = nil
		}
	}
	cl.mu.Unlock()
	if len(faults) == 0 || ctx.Err() != nil {
		return
	}
	var (
		states = make(map[change.PartitionID]change.PartitionState)
		list   []change.PartitionState
		asked  error
	)
	for _, f := range faults {
		if !f.plain {
			list, _, asked = c.Partitions(ctx)
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	for _, s := range list {
		states[s.ID] = s
	}
	var errs []error
	for _, f := range faults {
		errs = append(errs, c.meaning(f, states, asked))
	}
	err := errors.Join(errs...)

	cl.mu.Lock()
	defer cl.mu.Unlock()
	if generation != c.generation {
		return
	}
	c.faults = c.faults[len(faults):]
	if !c.Retryable(err) {
		c.failed = err
		return
	}
	c.pending = err
	for _, f := range faults {
		if !f.plain {
			f.r.stopped = false
			f.r.failed(cl, f.err)
		}
	}
	cl.schedule()
}

// meaning gives the error that a fault is to the caller. asked is why the
// brokers could not be asked, nil where states is what they said.
func (c *Consumer) meaning(f fault, states map[change.PartitionID]change.PartitionState, asked error) error {
	id := f.r.id
	err := fmt.Errorf("topic %s partition %d: read: %w", id.Topic, id.Partition, withRight(f.err))
	if f.plain {
		return err
	}
	s := states[id]
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](f.err); ok {
		// A leader was elected that has less than was read.
		return &change.LostOffsetsError{ID: id, Wanted: loss.ConsumedTo, Earliest: s.Earliest, End: loss.ResetTo}
	}
	if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](f.err); ok {
		return &BatchTooLargeError{ID: id, From: large.Offset, Next: large.NextOffset, err: f.err}
	}
	switch {
	case errors.Is(f.err, kerr.OffsetOutOfRange), errors.Is(f.err, errBackwards):
		c.cluster.mu.Lock()
		ahead := f.r.ahead
		c.cluster.mu.Unlock()
		if asked == nil && (ahead < s.Earliest || ahead > s.End) {
			return &change.LostOffsetsError{ID: id, Wanted: ahead, Earliest: s.Earliest, End: s.End}
		}
		return errors.Join(err, asked)
	case errors.Is(f.err, errOtherTopic), errors.Is(f.err, kerr.UnknownTopicID), errors.Is(f.err, kerr.InconsistentTopicID), errors.Is(f.err, kerr.UnknownTopicOrPartition):
		// Either the topic is gone or another one now, which asking has told,
		// or a broker has not heard of it yet.
		if asked != nil {
			return asked
		}
	}
	return err
}
