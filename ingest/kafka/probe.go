package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

// A position that stays below the high watermark without a record arriving
// has one of three reasons: the records are on their way, a transaction is
// open (the last stable offset is below the watermark), or nothing readable
// stands there and the library has gone past it without a word. Only the third
// would leave the partition unread for ever, so a probe fetches at the position
// itself: where the answer has records the library will deliver them; where it
// goes on without any, the position moves.

// backoff spaces out the probes of a partition.
type backoff struct {
	at   time.Time
	wait time.Duration
}

const (
	firstProbe = 500 * time.Millisecond
	lastProbe  = 8 * time.Second
	probeBytes = 1 << 20
)

// probe looks at the partitions that were idle and unread for a while, and
// gives blocks without records for those that moved.
func (c *Consumer) probe(ctx context.Context, generation int) []change.Block {
	type target struct {
		id   change.PartitionID
		next int64
		meta metadata
	}
	var targets []target
	now := time.Now()
	c.mu.Lock()
	if generation == c.generation && c.failed == nil {
		for id, r := range c.reading {
			if r.paused || r.next >= r.end {
				continue
			}
			if r.probe.wait == 0 {
				r.probe = backoff{now.Add(firstProbe), firstProbe}
			}
			if now.Before(r.probe.at) {
				continue
			}
			r.probe.wait = min(2*r.probe.wait, lastProbe)
			r.probe.at = now.Add(r.probe.wait)
			targets = append(targets, target{id, r.next, c.meta})
		}
	}
	c.mu.Unlock()

	var out []change.Block
	for _, t := range targets {
		next := c.fetchPosition(ctx, t.meta, t.id, t.next)
		if next <= t.next {
			continue
		}
		c.mu.Lock()
		// Only if nothing arrived in the meantime.
		if r := c.reading[t.id]; generation == c.generation && r != nil && r.next == t.next {
			r.next, r.probe = next, backoff{}
			b := change.Block{ID: t.id, Next: next}
			if r.paused {
				r.kept = append(r.kept, b)
			} else {
				out = append(out, b)
			}
		}
		c.mu.Unlock()
	}
	return out
}

// fetchPosition fetches once at offset and gives the position behind what came,
// if that held no record; else offset. Errors count as nothing learned: the
// library meets them too, and tells.
func (c *Consumer) fetchPosition(ctx context.Context, m metadata, id change.PartitionID, offset int64) int64 {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 0, probeBytes
	req.IsolationLevel = committed
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = id.Topic, m.topics[id.Topic].id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = id.Partition, offset, probeBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)

	resp, err := c.admin.Broker(int(m.leader(id))).RetriableRequest(ctx, req)
	if err != nil {
		return offset
	}
	fetched := resp.(*kmsg.FetchResponse)
	if fetched.ErrorCode != 0 || len(fetched.Topics) != 1 || len(fetched.Topics[0].Partitions) != 1 {
		return offset
	}
	got := &fetched.Topics[0].Partitions[0]
	if got.Partition != id.Partition || kerr.ErrorForCode(got.ErrorCode) != nil || got.LogStartOffset > offset {
		return offset
	}
	read, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: offset, IsolationLevel: kgo.ReadCommitted(), Topic: id.Topic, Partition: id.Partition,
	}, got, kgo.DefaultDecompressor(), nil)
	if read.Err != nil || len(read.Records) > 0 {
		return offset
	}
	return next
}
