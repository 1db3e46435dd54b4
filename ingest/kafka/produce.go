package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

// Produce writes the records to their topics and partitions, in order for each
// partition, and waits until all brokers' replicas have them. A Timestamp
// below 0 becomes the present. It sets each record's Offset. Of opts only the
// connection is used, and ctx alone ends the trying. For demos and tests: one
// client a call.
func Produce(ctx context.Context, opts Options, records []*change.Record) error {
	if err := opts.validateConnection(); err != nil {
		return err
	}
	opts = opts.withDefaults()
	shared, err := opts.client(newLogin(&opts))
	if err != nil {
		return err
	}
	largest := 0
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		k := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
		if r.Timestamp >= 0 {
			k.Timestamp = time.UnixMilli(r.Timestamp)
		}
		size := len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			size += len(h.Key) + len(h.Value)
		}
		largest = max(largest, size)
		out[i] = k
	}
	// A batch of the largest record, with room for what the format adds. The
	// topic's own max.message.bytes still decides.
	batch := max(1<<20, largest+64<<10)
	cl, err := kgo.NewClient(append(shared,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(int32(batch)),
		kgo.BrokerMaxWriteBytes(int32(max(100<<20, batch+1<<20))),
	)...)
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	defer cl.Close()
	for _, r := range cl.ProduceSync(ctx, out...) {
		if r.Err != nil {
			return fmt.Errorf("topic %s partition %d: produce: %w", r.Record.Topic, r.Record.Partition, r.Err)
		}
	}
	for i, k := range out {
		records[i].Offset = k.Offset
	}
	return nil
}
