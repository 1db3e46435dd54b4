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

// metadata is what the brokers said about the topics when they were last asked.
type metadata struct {
	topics     map[string]topicMeta
	partitions []change.PartitionID // by topic and number
}

type topicMeta struct {
	id      [16]byte // zero from brokers before Kafka 2.8
	leaders map[int32]int32
}

func (m metadata) leader(id change.PartitionID) int32 {
	return m.topics[id.Topic].leaders[id.Partition]
}

// leaders counts the brokers that lead the partitions.
func (m metadata) leaders(ids map[change.PartitionID]int64) int {
	seen := make(map[int32]bool)
	for id := range ids {
		seen[m.leader(id)] = true
	}
	return len(seen)
}

// Partitions asks the brokers for all partitions of the topics, by topic and
// number, with log start and high watermark. at is the reader's clock before
// the brokers were asked: what they answer was true at that time or later.
//
// Errors: a TopicRecreatedError where a topic has another ID than before (see
// ExpectTopicIDs), ErrNoTopic, a change.LostOffsetsError where a log ends
// below what was read of it, or what hinders the asking.
func (c *Consumer) Partitions(ctx context.Context) (states []change.PartitionState, at time.Time, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, time.Time{}, ErrClosed
	}
	// Positions are taken before the brokers are asked: a later one may be
	// above a watermark that they told earlier.
	before := make(map[change.PartitionID]int64, len(c.reading))
	for id, r := range c.reading {
		before[id] = r.next
	}
	generation := c.generation
	c.mu.Unlock()

	at = c.opts.Now()
	meta, err := loadMetadata(ctx, c.admin, c.opts.Topics)
	if err != nil {
		return nil, at, err
	}
	if err := c.checkTopicIDs(meta.topics); err != nil {
		return nil, at, err
	}
	starts, err := listOffsets(ctx, c.admin, meta, atEarliest, uncommitted)
	if err != nil {
		return nil, at, err
	}
	ends, err := listOffsets(ctx, c.admin, meta, atEnd, uncommitted)
	if err != nil {
		return nil, at, err
	}
	var lost []error
	for _, id := range meta.partitions {
		s := change.PartitionState{ID: id, Earliest: starts[id], End: ends[id]}
		states = append(states, s)
		if next, ok := before[id]; ok && next > s.End {
			lost = append(lost, &change.LostOffsetsError{ID: id, Wanted: next, Earliest: s.Earliest, End: s.End})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meta = meta
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

// loadMetadata asks a broker. The library and kadm would answer from memory
// for a while, and a partition that was just added would hold no seal.
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
	var errs []error
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); err {
		case nil:
		case kerr.UnknownTopicOrPartition:
			errs = append(errs, fmt.Errorf("topic %s: %w", *t.Topic, ErrNoTopic))
		default:
			errs = append(errs, fmt.Errorf("topic %s: %w", *t.Topic, err))
		}
		meta := topicMeta{id: t.TopicID, leaders: make(map[int32]int32)}
		for _, p := range t.Partitions {
			meta.leaders[p.Partition] = p.Leader
			m.partitions = append(m.partitions, change.PartitionID{Topic: *t.Topic, Partition: p.Partition})
		}
		m.topics[*t.Topic] = meta
	}
	if errs == nil && len(m.topics) != len(topics) {
		errs = append(errs, errors.New("ask for the topics: not every topic was answered"))
	}
	slices.SortFunc(m.partitions, change.PartitionID.Compare)
	return m, errors.Join(errs...)
}

// listOffsets asks the leaders for one offset of every partition: of a place in
// the log, or (place ≥ 0) of the first record of a time in milliseconds, where
// partitions without one are left out. All must answer.
func listOffsets(ctx context.Context, cl *kgo.Client, m metadata, place int64, isolation int8) (map[change.PartitionID]int64, error) {
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
	out := make(map[change.PartitionID]int64, len(m.partitions))
	answered := 0
	var errs []error
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			errs = append(errs, fmt.Errorf("ask for offsets: %w", shard.Err))
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				id := change.PartitionID{Topic: t.Topic, Partition: p.Partition}
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					errs = append(errs, fmt.Errorf("topic %s partition %d: ask for offsets: %w", id.Topic, id.Partition, err))
				} else if answered++; p.Offset >= 0 {
					out[id] = p.Offset
				} else if place < 0 {
					errs = append(errs, fmt.Errorf("topic %s partition %d: ask for offsets: none was answered", id.Topic, id.Partition))
				}
			}
		}
	}
	if errs == nil && answered != len(m.partitions) {
		errs = append(errs, errors.New("ask for offsets: not every partition was answered"))
	}
	return out, errors.Join(errs...)
}

// TopicIDs gives the IDs of the topics as far as the brokers told them (those
// before Kafka 2.8 don't), to be kept with the offsets.
func (c *Consumer) TopicIDs() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.topicIDs)
}

// ExpectTopicIDs sets the IDs that the caller's offsets belong to. A topic
// without one, or with an empty one, is taken as Partitions first meets it.
// After a TopicRecreatedError it takes the new ID, to go on with the new topic.
func (c *Consumer) ExpectTopicIDs(ids map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topicIDs = maps.Clone(ids)
	if c.topicIDs == nil {
		c.topicIDs = make(map[string]string)
	}
}

func (c *Consumer) checkTopicIDs(topics map[string]topicMeta) error {
	c.mu.Lock()
	defer c.mu.Unlock()
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
