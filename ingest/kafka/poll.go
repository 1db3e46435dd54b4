package kafka

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

// Poll waits until records arrive, ctx ends or PollWait has passed (then there
// are none), and gives up to maxRecords records (0 or less: all that arrived)
// in blocks; those of one partition follow one another in order. An error
// comes alone: blocks that arrived with it are given first. After an error
// that Classify calls final, every Poll gives it again until Assign.
func (c *Consumer) Poll(ctx context.Context, maxRecords int) ([]change.Block, error) {
	if maxRecords <= 0 {
		maxRecords = math.MaxInt
	}
	c.mu.Lock()
	fetch, generation := c.fetch, c.generation
	blocks, err := c.ready(maxRecords)
	c.mu.Unlock()
	if err != nil || len(blocks) > 0 {
		return blocks, err
	}

	wait, cancel := context.WithTimeout(ctx, c.opts.PollWait)
	defer cancel()
	if fetch == nil {
		select {
		case <-wait.Done():
			return nil, ctx.Err()
		case <-c.done:
			return nil, ErrClosed
		}
	}
	fetches := fetch.PollRecords(wait, maxRecords)

	c.mu.Lock()
	if generation != c.generation {
		defer c.mu.Unlock()
		if c.closed {
			return nil, ErrClosed
		}
		return nil, ctx.Err()
	}
	blocks = c.take(fetches)
	c.mu.Unlock()
	c.judge(ctx, generation)
	if len(blocks) == 0 && ctx.Err() == nil {
		blocks = c.probe(ctx, generation)
	}
	if len(blocks) > 0 {
		return blocks, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready(maxRecords)
}

// ready gives what needs no waiting: an error, or blocks kept for partitions
// that were paused when they arrived. The caller holds mu.
func (c *Consumer) ready(maxRecords int) ([]change.Block, error) {
	switch {
	case c.closed:
		return nil, ErrClosed
	case c.failed != nil:
		return nil, c.failed
	case c.pending != nil:
		err := c.pending
		c.pending = nil
		return nil, err
	}
	var out []change.Block
	for _, r := range c.reading {
		for !r.paused && len(r.kept) > 0 && maxRecords > 0 {
			b := &r.kept[0]
			if len(b.Records) > maxRecords {
				first := change.Block{ID: b.ID, Records: b.Records[:maxRecords:maxRecords], Next: b.Records[maxRecords-1].Offset + 1}
				b.Records = b.Records[maxRecords:]
				return append(out, first), nil
			}
			out = append(out, *b)
			maxRecords -= len(b.Records)
			r.kept = r.kept[1:]
		}
	}
	return out, nil
}

// take turns what the library gave into blocks, keeping back those of paused
// partitions, and notes what went wrong. The caller holds mu.
func (c *Consumer) take(fetches kgo.Fetches) (blocks []change.Block) {
	lossy := c.noteErrors(fetches)
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		id := change.PartitionID{Topic: p.Topic, Partition: p.Partition}
		r := c.reading[id]
		if r == nil || lossy[id] {
			return
		}
		r.end = max(r.end, p.HighWatermark)
		if len(p.Records) == 0 {
			return
		}
		if p.Records[0].Offset > r.next && p.LogStartOffset > r.next {
			c.faults = append(c.faults, fault{id, errBackwards})
			return
		}
		b, err := c.block(id, r, p.Records)
		if err != nil {
			c.faults = append(c.faults, fault{id, err})
			return
		}
		r.next = b.Next
		r.probe = backoff{}
		if r.paused || len(r.kept) > 0 {
			r.kept = append(r.kept, b)
			return
		}
		blocks = append(blocks, b)
	})
	return blocks
}

// block turns the library's records into ours, all in a few allocations.
func (c *Consumer) block(id change.PartitionID, r *reading, records []*kgo.Record) (change.Block, error) {
	var data, headers int
	for _, k := range records {
		if !k.Attrs.IsControl() {
			data++
			headers += len(k.Headers)
		}
	}
	b := change.Block{ID: id, Records: make([]*change.Record, 0, data), Next: r.next}
	list := make([]change.Record, data)
	slab := make([]change.Header, 0, headers)
	for _, k := range records {
		if k.Attrs.IsControl() {
			// A probe may have gone past a marker that comes only now.
			b.Next = max(b.Next, k.Offset+1)
			continue
		}
		if k.Offset < b.Next {
			return b, errBackwards
		}
		rec := &list[len(b.Records)]
		*rec = change.Record{Topic: id.Topic, Partition: id.Partition, Offset: k.Offset, Timestamp: timestamp(k), Key: k.Key, Value: k.Value}
		if len(k.Headers) > 0 {
			from := len(slab)
			for _, h := range k.Headers {
				slab = append(slab, change.Header{Key: h.Key, Value: h.Value})
			}
			rec.Headers = slab[from:len(slab):len(slab)]
		}
		rec.Cap(c.opts.MaxRecord)
		b.Records = append(b.Records, rec)
		b.Next = k.Offset + 1
	}
	return b, nil
}

func timestamp(k *kgo.Record) int64 {
	if k.Attrs.TimestampType() < 0 {
		return -1
	}
	return max(k.Timestamp.UnixMilli(), -1)
}
