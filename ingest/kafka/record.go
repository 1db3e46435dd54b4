package kafka

import (
	"context"
	"fmt"

	"github.com/gscd-io/gscd/ingest/change"
)

// RecordWriter takes the records of a dump (recording.Writer is one).
type RecordWriter interface {
	Write(*change.Record) error
}

// Record writes what the topics hold now, from the log start of every
// partition to its end, partitions mixed and each in offset order. Records of
// transactions that are open at the start are left out. It gives the number
// of records written.
func Record(ctx context.Context, opts Options, w RecordWriter) (records int64, err error) {
	opts.MaxRecord = -1 // a recording has whole records
	c, err := New(opts)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	states, _, err := c.Partitions(ctx)
	if err != nil {
		return 0, fmt.Errorf("record: %w", err)
	}
	// Only committed records are delivered, and those of open transactions may
	// take a quarter of an hour to become that.
	stable, err := c.SettledEnds(ctx)
	if err != nil {
		return 0, fmt.Errorf("record: %w", err)
	}
	left := make(map[change.PartitionID]int64)
	from := make(map[change.PartitionID]int64)
	for _, s := range states {
		if end := min(s.End, stable[s.ID]); end > s.Earliest {
			left[s.ID], from[s.ID] = end, s.Earliest
		}
	}
	if err := c.Assign(ctx, from); err != nil {
		return 0, fmt.Errorf("record: %w", err)
	}
	for len(left) > 0 {
		blocks, err := c.Poll(ctx, 0)
		if err != nil {
			if retry, _ := Classify(err); retry && ctx.Err() == nil {
				continue
			}
			return records, fmt.Errorf("record: %w", err)
		}
		for _, b := range blocks {
			end, ok := left[b.ID]
			if !ok {
				continue
			}
			for _, r := range b.Records {
				if r.Offset >= end {
					break
				}
				if err := w.Write(r); err != nil {
					return records, fmt.Errorf("record: %w", err)
				}
				records++
			}
			if b.Next >= end {
				delete(left, b.ID)
				c.Pause(b.ID)
			}
		}
	}
	return records, nil
}
