package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

// fault is something that went wrong with a partition (with none in
// particular: the zero ID), to be looked into without holding the lock.
type fault struct {
	id  change.PartitionID
	err error
}

// errBackwards: records came from below the position, or from behind a log
// start above it. Whatever the reason, what lies between was not read.
var errBackwards = errors.New("reading did not go on where it stopped")

// noteErrors collects the errors of a poll, and gives the partitions whose
// records must not be taken: the library has moved their position already.
// Records beside any other error are good, they were read before it. The
// caller holds mu.
func (c *Consumer) noteErrors(fetches kgo.Fetches) (lossy map[change.PartitionID]bool) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
			return // our own waiting, or our own Close
		}
		id := change.PartitionID{Topic: topic, Partition: partition}
		if _, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
			if lossy == nil {
				lossy = make(map[change.PartitionID]bool)
			}
			lossy[id] = true
		}
		c.faults = append(c.faults, fault{id, err})
	})
	return lossy
}

// judge finds out what the noted faults mean to the caller, and keeps that for
// the next Poll: for good where nothing more can be read, once where trying
// again may help. Where ctx ends first, the next Poll judges.
func (c *Consumer) judge(ctx context.Context, generation int) {
	c.mu.Lock()
	faults := c.faults
	c.mu.Unlock()
	if len(faults) == 0 || ctx.Err() != nil {
		return
	}
	states := make(map[change.PartitionID]change.PartitionState)
	list, _, asked := c.Partitions(ctx)
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

	c.mu.Lock()
	defer c.mu.Unlock()
	if generation != c.generation {
		return
	}
	c.faults = c.faults[len(faults):]
	if retry, _ := Classify(err); retry {
		c.pending = err
	} else if c.failed == nil {
		c.failed = err
	}
}

// meaning gives the error that a fault is to the caller. asked is why the
// brokers could not be asked, nil where states is what they said.
func (c *Consumer) meaning(f fault, states map[change.PartitionID]change.PartitionState, asked error) error {
	err := fmt.Errorf("topic %s partition %d: read: %w", f.id.Topic, f.id.Partition, f.err)
	if f.id.Topic == "" {
		err = fmt.Errorf("read: %w", f.err)
	}
	s := states[f.id]
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](f.err); ok {
		// A leader was elected that has less than was read.
		return &change.LostOffsetsError{ID: f.id, Wanted: loss.ConsumedTo, Earliest: s.Earliest, End: loss.ResetTo}
	}
	if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](f.err); ok {
		return &BatchTooLargeError{ID: f.id, From: large.Offset, Next: large.NextOffset, err: f.err}
	}
	switch {
	case errors.Is(f.err, kerr.OffsetOutOfRange), errors.Is(f.err, errBackwards):
		if next, ok := c.position(f.id); ok && asked == nil && (next < s.Earliest || next > s.End) {
			return &change.LostOffsetsError{ID: f.id, Wanted: next, Earliest: s.Earliest, End: s.End}
		}
		return errors.Join(err, asked)
	case errors.Is(f.err, kerr.UnknownTopicID), errors.Is(f.err, kerr.InconsistentTopicID), errors.Is(f.err, kerr.UnknownTopicOrPartition):
		// Either the topic is gone or another one now, which asking has told,
		// or a broker has not heard of it yet.
		if asked != nil {
			return asked
		}
	}
	return err
}

// position gives the offset behind what was read.
func (c *Consumer) position(id change.PartitionID) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.reading[id]
	if r == nil {
		return 0, false
	}
	return r.next, true
}
