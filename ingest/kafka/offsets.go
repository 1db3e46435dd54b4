package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/gscd-io/gscd/ingest/change"
)

// PublishOffsets sets the group's offsets, for tools that show lag. Nobody
// reads them back, so an error is a matter for the log only. Without a group
// it does nothing.
func (c *Consumer) PublishOffsets(ctx context.Context, offsets map[change.PartitionID]int64) error {
	if c.opts.Group == "" || len(offsets) == 0 {
		return nil
	}
	var list kadm.Offsets
	for id, offset := range offsets {
		list.Add(kadm.Offset{Topic: id.Topic, Partition: id.Partition, At: offset, LeaderEpoch: -1})
	}
	done, err := kadm.NewClient(c.cluster.client).CommitOffsets(ctx, c.opts.Group, list)
	if err == nil {
		err = done.Error()
	}
	if err != nil {
		return fmt.Errorf("publish the offsets of group %s: %w", c.opts.Group, withRight(err))
	}
	return nil
}
