package kafka

import (
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// What goes over the wire is counted, and the ends are known while reading goes on.
func TestTrafficAndEnds(t *testing.T) {
	b := newBroker(t, 1)
	b.produce(0, 0, 3)
	var traffic Traffic
	c := b.consumer(func(o *Options) { o.Hooks = append(o.Hooks, &traffic) })
	id := change.PartitionID{Topic: "t", Partition: 0}
	if err := c.Assign(ctx(t), map[change.PartitionID]int64{id: 1}); err != nil {
		t.Fatal(err)
	}
	if end := c.Ends()[id]; end != 3 {
		t.Errorf("end %d, want 3", end)
	}
	poll := func(n int) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); n > 0 && time.Now().Before(end); {
			blocks, err := c.Poll(ctx(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, block := range blocks {
				n -= len(block.Records)
			}
		}
		if n != 0 {
			t.Fatalf("%d records are missing", n)
		}
	}
	poll(2)
	requests, fetched := traffic.Count()
	if requests["Fetch"] == 0 || requests["Metadata"] == 0 || fetched == 0 {
		t.Errorf("requests %v, %d bytes", requests, fetched)
	}
	// Nobody asks for offsets: the end comes with the records.
	b.produce(0, 3, 4)
	poll(4)
	after, more := traffic.Count()
	if end := c.Ends()[id]; end != 7 || more <= fetched || after["ListOffsets"] != requests["ListOffsets"] {
		t.Errorf("end %d, want 7; %d bytes after %d; requests %v", end, more, fetched, after)
	}
}
