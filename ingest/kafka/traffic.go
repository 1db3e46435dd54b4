package kafka

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

// Traffic counts what clients exchange with the brokers, for metrics. Set it in
// Options.Hooks; any number of clusters may share one. Its zero value is ready.
type Traffic struct {
	mu       sync.Mutex
	requests map[string]int64
	fetched  atomic.Int64
}

var (
	_ kgo.HookBrokerWrite = (*Traffic)(nil)
	_ kgo.HookBrokerRead  = (*Traffic)(nil)
)

// OnBrokerWrite is kgo.HookBrokerWrite's.
func (t *Traffic) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == nil {
		t.requests = make(map[string]int64)
	}
	t.requests[kmsg.NameForKey(key)]++
}

// OnBrokerRead is kgo.HookBrokerRead's.
func (t *Traffic) OnBrokerRead(_ kgo.BrokerMetadata, key int16, bytes int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.Fetch) {
		t.fetched.Add(int64(bytes))
	}
}

// Count gives the requests sent so far by name (Fetch, Metadata, …), and the
// bytes of the answers to Fetch as they came over the wire.
func (t *Traffic) Count() (requests map[string]int64, fetched int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.requests), t.fetched.Load()
}

// Ends gives the high watermarks that were heard of last, by Partitions or with
// what was fetched, of what is assigned.
func (c *Consumer) Ends() map[change.PartitionID]int64 {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	ends := make(map[change.PartitionID]int64, len(c.reading))
	for id, r := range c.reading {
		ends[id] = r.end
	}
	return ends
}
