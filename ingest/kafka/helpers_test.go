package kafka

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/gscd-io/gscd/ingest/change"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker is a cluster over TCP with one topic "t".
type broker struct {
	*kfake.Cluster
	t testing.TB
}

func newBroker(t testing.TB, partitions int32, opts ...kfake.Opt) *broker {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2), kfake.SeedTopics(partitions, "t"),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "100000000"})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &broker{c, t}
}

func (b *broker) options() Options {
	return Options{Brokers: b.ListenAddrs(), Topics: []string{"t"}, PollWait: 50 * time.Millisecond, RequestTimeout: 5 * time.Second, maxBackoff: 50 * time.Millisecond}
}

func (b *broker) consumer(change ...func(*Options)) *Consumer {
	b.t.Helper()
	o := b.options()
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

// produce writes n records with values from..from+n-1 to one partition.
func (b *broker) produce(partition int32, from, n int) {
	b.t.Helper()
	var list []*change.Record
	for i := range n {
		list = append(list, &change.Record{Topic: "t", Partition: partition, Timestamp: int64(1000 + from + i), Key: fmt.Append(nil, from+i), Value: fmt.Append(nil, from+i)})
	}
	if err := Produce(ctx(b.t), b.options(), list); err != nil {
		b.t.Fatal(err)
	}
}

// transaction writes n records in one transaction and ends it.
func (b *broker) transaction(id string, partition int32, n int, commit bool) {
	b.t.Helper()
	cl := b.begin(id, partition, n)
	b.end(cl, commit)
}

func (b *broker) begin(id string, partition int32, n int) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(1<<20))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	for i := range n {
		if err := cl.ProduceSync(ctx(b.t), &kgo.Record{Topic: "t", Partition: partition, Value: fmt.Append(nil, id, i)}).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
	return cl
}

func (b *broker) end(cl *kgo.Client, commit bool) {
	b.t.Helper()
	if err := cl.EndTransaction(ctx(b.t), kgo.TransactionEndTry(commit)); err != nil {
		b.t.Fatal(err)
	}
	cl.Close()
}

func (b *broker) admin() *kadm.Client {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return c
}

func id(partition int32) change.PartitionID {
	return change.PartitionID{Topic: "t", Partition: partition}
}

func states(t testing.TB, c *Consumer) map[change.PartitionID]change.PartitionState {
	t.Helper()
	list, _, err := c.Partitions(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[change.PartitionID]change.PartitionState)
	for _, s := range list {
		out[s.ID] = s
	}
	return out
}

func assign(t testing.TB, c *Consumer, offsets map[change.PartitionID]int64) {
	t.Helper()
	if err := c.Assign(ctx(t), offsets); err != nil {
		t.Fatal(err)
	}
}

// reader collects what Poll gives, and checks what holds for every block.
type reader struct {
	t      testing.TB
	c      *Consumer
	values map[change.PartitionID][]string
	next   map[change.PartitionID]int64
}

func newReader(t testing.TB, c *Consumer, from map[change.PartitionID]int64) *reader {
	t.Helper()
	assign(t, c, from)
	return &reader{t, c, make(map[change.PartitionID][]string), maps.Clone(from)}
}

func (r *reader) poll(max int) (blocks []change.Block, err error) {
	r.t.Helper()
	blocks, err = r.c.Poll(ctx(r.t), max)
	n := 0
	for _, b := range blocks {
		for _, rec := range b.Records {
			if rec.Offset < r.next[b.ID] || rec.Offset >= b.Next || rec.Topic != b.ID.Topic || rec.Partition != b.ID.Partition {
				r.t.Fatalf("%v: offset %d in a block from %d to %d", b.ID, rec.Offset, r.next[b.ID], b.Next)
			}
			r.next[b.ID] = rec.Offset + 1
			r.values[b.ID] = append(r.values[b.ID], string(rec.Value))
			n++
		}
		if b.Next < r.next[b.ID] {
			r.t.Fatalf("%v: next %d below %d", b.ID, b.Next, r.next[b.ID])
		}
		r.next[b.ID] = b.Next
	}
	if max > 0 && n > max {
		r.t.Fatalf("%d records of at most %d", n, max)
	}
	return blocks, err
}

// until polls until every partition's position is at least what is asked.
func (r *reader) until(want map[change.PartitionID]int64) {
	r.t.Helper()
	deadline := time.Now().Add(8 * time.Second)
	for {
		done := true
		for id, next := range want {
			done = done && r.next[id] >= next
		}
		if done {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("positions %v, want %v", r.next, want)
		}
		if _, err := r.poll(0); err != nil {
			r.t.Fatal(err)
		}
	}
}

// failure polls until an error comes.
func (r *reader) failure() error {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if _, err := r.poll(0); err != nil {
			return err
		}
	}
	r.t.Fatal("no error")
	return nil
}

func numbers(from, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(from+i))
	}
	return out
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %d values %.200v, want %d %.200v", what, len(got), got, len(want), want)
	}
}

type sink struct{ bytes.Buffer }

func (s *sink) Write(r *change.Record) error {
	_, err := fmt.Fprintf(&s.Buffer, "%s/%d@%d %s\n", r.Topic, r.Partition, r.Offset, r.Value)
	return err
}

// arrive hands the consumer what a fetch at its position might have brought, in
// place of what was fetched ahead.
func arrive(c *Consumer, id change.PartitionID, a arrival) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	r := c.reading[id]
	if len(a.Records) > 0 && a.Records[0].Offset < r.ahead {
		c.account(r, -r.bytes)
		r.kept, r.ahead = nil, r.next
	}
	c.cluster.arrived(r, a)
}

// raw makes a client that knows the topic already, send writes values with it
// while the metadata are not to be asked for.
func (b *broker) raw() *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

func (b *broker) send(cl *kgo.Client, partition int32, from, n int) {
	b.t.Helper()
	for i := range n {
		if err := cl.ProduceSync(ctx(b.t), &kgo.Record{Topic: "t", Partition: partition, Value: fmt.Append(nil, from+i)}).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// from gives an offset of partition 0.
func from(offset int64) map[change.PartitionID]int64 {
	return map[change.PartitionID]int64{id(0): offset}
}

// patient is until, past errors that may pass.
func (r *reader) patient(want map[change.PartitionID]int64) {
	r.t.Helper()
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
		done := true
		for id, next := range want {
			done = done && r.next[id] >= next
		}
		if done {
			return
		}
		if _, err := r.poll(0); err != nil && !r.c.Retryable(err) {
			r.t.Fatal(err)
		}
	}
	r.t.Fatalf("positions %v, want %v", r.next, want)
}
