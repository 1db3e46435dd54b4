package kafka

import (
	"context"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

// Poll waits until records arrive, ctx ends or PollWait has passed (then there
// are none), and gives up to maxRecords records (0 or less: all that arrived)
// in blocks; those of one partition follow one another in order. An error
// comes alone: blocks that arrived before it are given first. After an error
// that Classify calls final, every Poll gives it again until Assign.
func (c *Consumer) Poll(ctx context.Context, maxRecords int) ([]change.Block, error) {
	if maxRecords <= 0 {
		maxRecords = math.MaxInt
	}
	end := time.NewTimer(c.opts.PollWait)
	defer end.Stop()
	defer c.polls(false)
	for waited := false; ; {
		c.judge(ctx)
		taken, err := c.take(maxRecords)
		switch {
		case err != nil:
			return nil, err
		case len(taken) > 0:
			return c.blocks(taken), nil
		case ctx.Err() != nil || waited:
			return nil, ctx.Err()
		}
		c.polls(true)
		select {
		case <-c.wake:
		case <-end.C:
			waited = true
		case <-ctx.Done():
		case <-c.done:
		}
	}
}

// polls tells the scheduler whether the table waits for records.
func (c *Consumer) polls(waits bool) {
	cl := c.cluster
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if c.polling = waits; waits && cl.starved {
		cl.starved = false
		cl.schedule()
	}
}

// taken is a stretch of a partition on its way to the table.
type taken struct {
	id change.PartitionID
	batch
}

// take gives what needs no waiting: an error, or records.
func (c *Consumer) take(maxRecords int) (out []taken, err error) {
	cl := c.cluster
	cl.mu.Lock()
	defer cl.mu.Unlock()
	switch {
	case c.closed:
		return nil, ErrClosed
	case c.failed != nil:
		return nil, c.failed
	case c.pending != nil:
		err, c.pending = c.pending, nil
		return nil, err
	}
	for i, r := range c.order {
		for !r.paused && len(r.kept) > 0 && maxRecords > 0 {
			b := &r.kept[0]
			n := len(b.records)
			if n > maxRecords {
				first := batch{records: b.records[:maxRecords:maxRecords], next: b.records[maxRecords-1].Offset + 1}
				first.bytes = b.bytes * int64(maxRecords) / int64(n)
				b.records, b.bytes = b.records[maxRecords:], b.bytes-first.bytes
				b, n = &first, maxRecords
			} else {
				r.kept = r.kept[1:]
			}
			maxRecords -= n
			r.next = b.next
			c.account(r, -b.bytes)
			out = append(out, taken{r.id, *b})
		}
		if maxRecords == 0 {
			// The next call begins with the partition behind this one.
			c.order = append(append(make([]*reading, 0, len(c.order)), c.order[i+1:]...), c.order[:i+1]...)
			break
		}
	}
	if len(out) > 0 && cl.starved {
		cl.starved = false
		cl.schedule()
	}
	return out, nil
}

// blocks turns the library's records into ours.
func (c *Consumer) blocks(list []taken) []change.Block {
	out := make([]change.Block, len(list))
	for i, t := range list {
		out[i] = c.block(t)
	}
	return out
}

// block makes one block in a few allocations.
func (c *Consumer) block(t taken) change.Block {
	headers := 0
	for _, k := range t.records {
		headers += len(k.Headers)
	}
	b := change.Block{ID: t.id, Records: make([]*change.Record, len(t.records)), Next: t.next}
	list := make([]change.Record, len(t.records))
	slab := make([]change.Header, 0, headers)
	for i, k := range t.records {
		rec := &list[i]
		*rec = change.Record{Topic: t.id.Topic, Partition: t.id.Partition, Offset: k.Offset, Timestamp: timestamp(k), Key: k.Key, Value: k.Value}
		if len(k.Headers) > 0 {
			from := len(slab)
			for _, h := range k.Headers {
				slab = append(slab, change.Header{Key: h.Key, Value: h.Value})
			}
			rec.Headers = slab[from:len(slab):len(slab)]
		}
		rec.Cap(c.opts.MaxRecord)
		b.Records[i] = rec
	}
	return b
}

func timestamp(k *kgo.Record) int64 {
	if k.Attrs.TimestampType() < 0 {
		return -1
	}
	return max(k.Timestamp.UnixMilli(), -1)
}
