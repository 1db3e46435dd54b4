package kafka

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

// The times of a ListOffsets request that stand for places in the log.
const (
	atEarliest = -2
	atEnd      = -1
)

// The isolation levels of a request: with uncommitted the end is the high
// watermark, with committed the last stable offset.
const (
	uncommitted = 0
	committed   = 1
)

// metadata is what the brokers said about some topics.
type metadata struct {
	topics     map[string]topicMeta
	partitions []change.PartitionID // by topic and number
}

type topicMeta struct {
	id      [16]byte // zero from brokers before Kafka 2.8
	leaders map[int32]leader
	err     error
}

// leader is the broker that has a partition, below 0 for none, and the number
// of its election, -1 where it is not known.
type leader struct {
	broker, epoch int32
}

// of gives what is known of some topics, or why it is not.
func (m metadata) of(topics []string) (metadata, error) {
	part := metadata{topics: make(map[string]topicMeta, len(topics))}
	var errs []error
	for _, t := range topics {
		meta, ok := m.topics[t]
		if !ok {
			meta.err = fmt.Errorf("topic %s: ask for the topics: it was not answered", t)
		}
		if meta.err != nil {
			errs = append(errs, meta.err)
		}
		part.topics[t] = meta
		for p := range meta.leaders {
			part.partitions = append(part.partitions, change.PartitionID{Topic: t, Partition: p})
		}
	}
	slices.SortFunc(part.partitions, change.PartitionID.Compare)
	return part, errors.Join(errs...)
}

// readable gives the metadata without the topics that have an error.
func (m metadata) readable() metadata {
	var good []string
	for t, meta := range m.topics {
		if meta.err == nil {
			good = append(good, t)
		}
	}
	part, _ := m.of(good)
	return part
}

// Partitions asks the brokers for all partitions of the topics, by topic and
// number, with log start and high watermark. at is the reader's clock before
// the brokers were asked: what they answer was true at that time or later.
// Tables of one Cluster that ask at the same time share the requests.
//
// Errors: a TopicRecreatedError where a topic has another ID than before (see
// ExpectTopicIDs), ErrNoTopic, a change.LostOffsetsError where a log ends
// below what was read of it, or what hinders the asking.
func (c *Consumer) Partitions(ctx context.Context) (states []change.PartitionState, at time.Time, err error) {
	c.cluster.mu.Lock()
	if c.closed {
		c.cluster.mu.Unlock()
		return nil, time.Time{}, ErrClosed
	}
	// Positions are taken before the brokers are asked: a later one may be
	// above a watermark that they told earlier.
	before := make(map[change.PartitionID]int64, len(c.reading))
	for id, r := range c.reading {
		before[id] = r.ahead
	}
	generation := c.generation
	c.cluster.mu.Unlock()

	at = c.opts.Now()
	got, err := c.cluster.ask(ctx, c.opts.Topics)
	if err != nil {
		return nil, at, err
	}
	meta, err := got.meta.of(c.opts.Topics)
	if err != nil {
		return nil, at, err
	}
	if err := c.checkTopicIDs(meta.topics); err != nil {
		return nil, at, err
	}
	if err := errors.Join(got.starts.fault(c.opts.Topics), got.ends.fault(c.opts.Topics)); err != nil {
		return nil, at, err
	}
	var lost []error
	for _, id := range meta.partitions {
		s := change.PartitionState{ID: id, Earliest: got.starts.at[id], End: got.ends.at[id]}
		states = append(states, s)
		if next, ok := before[id]; ok && next > s.End {
			lost = append(lost, &change.LostOffsetsError{ID: id, Wanted: next, Earliest: s.Earliest, End: s.End})
		}
	}
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	if generation != c.generation {
		return states, at, nil
	}
	for _, s := range states {
		if r := c.reading[s.ID]; r != nil {
			r.end = max(r.end, s.End)
		}
	}
	return states, at, errors.Join(lost...)
}

// NewPartitions tells whether the topics have partitions that are not read, by
// metadata that is at most maxAge old. Where it is older all topics of the
// Cluster are asked for at once, so many tables cost one request. Errors are
// those of Partitions, of which it looks at the topics' existence and IDs.
func (c *Consumer) NewPartitions(ctx context.Context, maxAge time.Duration) (bool, error) {
	meta, err := c.cluster.recent(ctx, c.opts.Topics, maxAge)
	if err != nil {
		return false, err
	}
	if err := c.checkTopicIDs(meta.topics); err != nil {
		return false, err
	}
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	for _, id := range meta.partitions {
		if c.reading[id] == nil {
			return true, nil
		}
	}
	return false, nil
}

// loadMetadata asks a broker. The library and kadm would answer from memory
// for a while, and a partition that was just added would hold no seal. What is
// wrong with a topic is in its entry.
func loadMetadata(ctx context.Context, cl *kgo.Client, topics []string) (metadata, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	m := metadata{topics: make(map[string]topicMeta)}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return m, fmt.Errorf("ask for the topics: %w", err)
	}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		meta := topicMeta{id: t.TopicID, leaders: make(map[int32]leader)}
		switch err := kerr.ErrorForCode(t.ErrorCode); err {
		case nil:
		case kerr.UnknownTopicOrPartition:
			meta.err = fmt.Errorf("topic %s: %w", *t.Topic, ErrNoTopic)
		default:
			meta.err = fmt.Errorf("topic %s: %w", *t.Topic, withRight(err))
		}
		for _, p := range t.Partitions {
			meta.leaders[p.Partition] = leader{p.Leader, p.LeaderEpoch}
			m.partitions = append(m.partitions, change.PartitionID{Topic: *t.Topic, Partition: p.Partition})
		}
		m.topics[*t.Topic] = meta
	}
	slices.SortFunc(m.partitions, change.PartitionID.Compare)
	return m, nil
}

// offsets are the answers of the leaders, and by topic what was not answered.
type offsets struct {
	at     map[change.PartitionID]int64
	faults map[string][]error
}

// fault gives what went wrong with any of the topics.
func (o *offsets) fault(topics []string) error {
	var errs []error
	for _, t := range topics {
		for _, err := range o.faults[t] {
			if !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// listOffsets asks the leaders for one offset of every partition: of a place in
// the log, or (place ≥ 0) of the first record of a time in milliseconds, where
// partitions without one are left out.
func listOffsets(ctx context.Context, cl *kgo.Client, m metadata, place int64, isolation int8) *offsets {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	for _, id := range m.partitions {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != id.Topic {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = id.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = id.Partition, place
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	out := &offsets{make(map[change.PartitionID]int64, len(m.partitions)), make(map[string][]error)}
	if len(m.partitions) == 0 {
		return out
	}
	answered := make(map[change.PartitionID]bool, len(m.partitions))
	fault := func(topic string, format string, args ...any) {
		out.faults[topic] = append(out.faults[topic], fmt.Errorf(format, args...))
	}
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			for _, t := range shard.Req.(*kmsg.ListOffsetsRequest).Topics {
				for _, p := range t.Partitions {
					answered[change.PartitionID{Topic: t.Topic, Partition: p.Partition}] = true
				}
				fault(t.Topic, "ask for offsets: %w", shard.Err)
			}
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				id := change.PartitionID{Topic: t.Topic, Partition: p.Partition}
				answered[id] = true
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					fault(id.Topic, "topic %s partition %d: ask for offsets: %w", id.Topic, id.Partition, withRight(err))
				} else if p.Offset >= 0 {
					out.at[id] = p.Offset
				} else if place < 0 {
					fault(id.Topic, "topic %s partition %d: ask for offsets: none was answered", id.Topic, id.Partition)
				}
			}
		}
	}
	for _, id := range m.partitions {
		if !answered[id] {
			fault(id.Topic, "topic %s partition %d: ask for offsets: it was not answered", id.Topic, id.Partition)
		}
	}
	return out
}

// TopicIDs gives the IDs of the topics as far as the brokers told them (those
// before Kafka 2.8 don't), to be kept with the offsets.
func (c *Consumer) TopicIDs() map[string]string {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	return maps.Clone(c.topicIDs)
}

// ExpectTopicIDs sets the IDs that the caller's offsets belong to. A topic
// without one, or with an empty one, is taken as Partitions first meets it.
// After a TopicRecreatedError it takes the new ID, to go on with the new topic.
func (c *Consumer) ExpectTopicIDs(ids map[string]string) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.topicIDs = maps.Clone(ids)
	if c.topicIDs == nil {
		c.topicIDs = make(map[string]string)
	}
}

func (c *Consumer) checkTopicIDs(topics map[string]topicMeta) error {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	var errs []error
	for _, t := range slices.Sorted(maps.Keys(topics)) {
		if topics[t].id == [16]byte{} {
			continue
		}
		id := idString(topics[t].id)
		switch old := c.topicIDs[t]; old {
		case id:
		case "":
			c.topicIDs[t] = id
		default:
			errs = append(errs, &TopicRecreatedError{Topic: t, Old: old, New: id})
		}
	}
	return errors.Join(errs...)
}

// idString writes a topic's ID as Kafka's own tools do.
func idString(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
