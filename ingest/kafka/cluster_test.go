package kafka

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

// cluster makes a Cluster, tables the consumers of topics in it.
func (b *broker) cluster(change ...func(*Options)) *Cluster {
	b.t.Helper()
	o := b.options()
	for _, f := range change {
		f(&o)
	}
	cl, err := NewCluster(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { cl.Close() })
	return cl
}

func (b *broker) table(cl *Cluster, topics ...string) *Consumer {
	b.t.Helper()
	o := b.options()
	if len(topics) > 0 {
		o.Topics = topics
	}
	c, err := cl.Consumer(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// count counts the requests of some kinds from now on.
func (b *broker) count(keys ...kmsg.Key) *kfake.FaultHandle {
	return b.Fault(kfake.Fault{Keys: keys, Count: -1, Observe: true})
}

// produceTo writes records of a size to a topic, and gives their bytes.
func (b *broker) produceTo(topic string, partition int32, n, size int) {
	b.t.Helper()
	noise := rand.NewChaCha8([32]byte{})
	var list []*change.Record
	for range n {
		value := make([]byte, size)
		noise.Read(value) // or it would be packed to nothing
		list = append(list, &change.Record{Topic: topic, Partition: partition, Timestamp: 1, Value: value})
	}
	if err := Produce(ctx(b.t), b.options(), list); err != nil {
		b.t.Fatal(err)
	}
}

// TestSharedTopic: tables of one topic read it at offsets of their own, each
// record once and in order, with reassignments in between.
func TestSharedTopic(t *testing.T) {
	b := newBroker(t, 2)
	b.produce(0, 0, 300)
	b.produce(1, 0, 100)
	cl := b.cluster()
	var tables sync.WaitGroup
	for n := range 5 {
		tables.Go(func() {
			c := b.table(cl)
			defer c.Close()
			from := int64(50 * n)
			r := newReader(t, c, map[change.PartitionID]int64{id(0): from, id(1): 0})
			r.until(map[change.PartitionID]int64{id(0): 300, id(1): 100})
			equal(t, fmt.Sprint("table ", n), r.values[id(0)], numbers(int(from), 300-int(from)))
			equal(t, fmt.Sprint("table ", n), r.values[id(1)], numbers(0, 100))
			r = newReader(t, c, map[change.PartitionID]int64{id(0): 290 - from})
			r.until(map[change.PartitionID]int64{id(0): 300})
			equal(t, fmt.Sprint("table ", n, " again"), r.values[id(0)], numbers(290-int(from), 10+int(from)))
		})
	}
	tables.Wait()
}

// TestSharedFetch: tables that are at one offset share the fetch.
func TestSharedFetch(t *testing.T) {
	b := newBroker(t, 1)
	cl := b.cluster()
	var readers []*reader
	for range 10 {
		readers = append(readers, newReader(t, b.table(cl), map[change.PartitionID]int64{id(0): 0}))
	}
	time.Sleep(200 * time.Millisecond) // they come together
	fetches := b.count(kmsg.Fetch)
	for i := range 5 {
		b.produce(0, i, 1)
		for _, r := range readers {
			r.until(map[change.PartitionID]int64{id(0): int64(i + 1)})
		}
	}
	for _, r := range readers {
		equal(t, "values", r.values[id(0)], numbers(0, 5))
	}
	if n := fetches.Hits(); n > 5*4+10 {
		t.Errorf("%d fetches for 5 records and 10 tables", n)
	}
}

// TestBudget: a table that takes nothing, and one whose partition is paused,
// keep the budget and not more; the others read all they have.
func TestBudget(t *testing.T) {
	const n, size, budget = 400, 50_000, 4 << 20 // 20 MB a topic, five times the budget
	b := newBroker(t, 1, kfake.SeedTopics(1, "slow", "busy"), kfake.SeedTopics(2, "held"))
	b.produceTo("slow", 0, n, size)
	b.produceTo("busy", 0, n, size)
	b.produceTo("held", 0, n, size)
	b.produceTo("held", 1, n, size)
	cl := b.cluster(func(o *Options) { o.FetchBytes = budget })
	at := func(topic string, partition int32) change.PartitionID {
		return change.PartitionID{Topic: topic, Partition: partition}
	}
	most := int64(0)
	look := func() {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		most = max(most, cl.buffered)
		sum := int64(0)
		for c := range cl.consumers {
			held := int64(0)
			for _, r := range c.reading {
				held += r.bytes
			}
			if held != c.buffered {
				t.Errorf("a table has %d bytes and counts %d", held, c.buffered)
			}
			sum += held
		}
		if sum != cl.buffered {
			t.Errorf("%d bytes are held and %d counted", sum, cl.buffered)
		}
	}
	slow := newReader(t, b.table(cl, "slow"), map[change.PartitionID]int64{at("slow", 0): 0})
	held := newReader(t, b.table(cl, "held"), map[change.PartitionID]int64{at("held", 0): 0, at("held", 1): 0})
	held.c.Pause(at("held", 0))
	time.Sleep(100 * time.Millisecond)
	busy := newReader(t, b.table(cl, "busy"), map[change.PartitionID]int64{at("busy", 0): 0})
	for busy.next[at("busy", 0)] < n || held.next[at("held", 1)] < n {
		for _, r := range []*reader{busy, held} {
			if _, err := r.poll(10); err != nil {
				t.Fatal(err)
			}
			look()
		}
	}
	// A batch comes whole, and each table may have one more than there is room for.
	if limit := int64(budget + 3<<20); most > limit {
		t.Errorf("%d bytes were held, want at most %d", most, limit)
	}
	if held.next[at("held", 0)] != 0 {
		t.Error("a paused partition was delivered")
	}
	held.c.Resume(at("held", 0))
	held.until(map[change.PartitionID]int64{at("held", 0): n})
	slow.until(map[change.PartitionID]int64{at("slow", 0): n})
	look()
	for _, r := range []*reader{slow, held, busy} {
		r.c.Close()
	}
	if cl.buffered != 0 {
		t.Errorf("%d bytes are left", cl.buffered)
	}
}

// TestPausedIsDropped: what a paused partition kept is given up where the
// budget is short, and comes again after Resume, in order.
func TestPausedIsDropped(t *testing.T) {
	b := newBroker(t, 2)
	b.produce(0, 0, 100)
	b.produce(1, 0, 100)
	c := b.table(b.cluster(func(o *Options) { o.FetchBytes = 1 << 20 }))
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	if _, err := r.poll(3); err != nil {
		t.Fatal(err)
	}
	c.Pause(id(0))
	c.cluster.mu.Lock()
	c.account(c.reading[id(0)], 1<<20) // as if its records were large
	if !c.cluster.dropPaused() {
		t.Error("nothing is given up")
	}
	if p := c.reading[id(0)]; p.kept != nil || p.bytes != 0 || p.ahead != p.next {
		t.Errorf("it keeps %d bytes up to %d", p.bytes, p.ahead)
	}
	c.cluster.mu.Unlock()
	r.until(map[change.PartitionID]int64{id(1): 100})
	c.Resume(id(0))
	r.until(map[change.PartitionID]int64{id(0): 100})
	for p := range int32(2) {
		equal(t, fmt.Sprint("p", p), r.values[id(p)], numbers(0, 100))
	}
}

// TestResumeDoesNotWait: a partition that is resumed while the broker holds a
// fetch of others comes at once.
func TestResumeDoesNotWait(t *testing.T) {
	b := newBroker(t, 2, kfake.NumBrokers(1))
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	c.Pause(id(0))
	c.cluster.mu.Lock()
	for _, n := range c.cluster.nodes {
		n.stirred = time.Now().Add(-time.Hour) // as after an hour of silence: the longest wait
	}
	c.cluster.mu.Unlock()
	b.produce(0, 0, 5)
	time.Sleep(100 * time.Millisecond)
	c.Resume(id(0))
	began := time.Now()
	r.until(map[change.PartitionID]int64{id(0): 5})
	if d := time.Since(began); d > time.Second {
		t.Errorf("it took %v", d)
	}
}

// TestIdle: twenty tables without data ask for the partitions once a minute,
// all in one request, and each broker holds a fetch for up to five seconds.
func TestIdle(t *testing.T) {
	const brokers, tables, seconds = 2, 20, 3.0
	var topics []string
	for n := range tables {
		topics = append(topics, fmt.Sprint("idle", n))
	}
	b := newBroker(t, 1, kfake.NumBrokers(brokers), kfake.SeedTopics(2, topics...))
	cl := b.cluster()
	var list []*Consumer
	for _, topic := range topics {
		c := b.table(cl, topic)
		assign(t, c, map[change.PartitionID]int64{{Topic: topic}: 0, {Topic: topic, Partition: 1}: 0})
		list = append(list, c)
	}
	time.Sleep(100 * time.Millisecond)
	fetches, looks, offsets := b.count(kmsg.Fetch), b.count(kmsg.Metadata), b.count(kmsg.ListOffsets)
	for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
		for _, c := range list {
			c.opts.PollWait = time.Millisecond
			if blocks, err := c.Poll(ctx(t), 0); len(blocks) > 0 || err != nil {
				t.Fatalf("%v, %v", blocks, err)
			}
			if added, err := c.NewPartitions(ctx(t), time.Minute); added || err != nil {
				t.Fatalf("new partitions: %v, %v", added, err)
			}
		}
	}
	// Each wait is half the time since the last assignment, from 20 ms to 5 s, so
	// the time grows by half with each fetch; two connections a broker.
	rounds := math.Log(seconds/0.04)/math.Log(1.5) + seconds/longestWait.Seconds() + 3
	if n := fetches.Hits(); n > int(2*brokers*rounds) || n == 0 {
		t.Errorf("%d fetches, want 1 to %v", n, int(2*brokers*rounds))
	}
	if n := looks.Hits(); n > 0 {
		t.Errorf("%d metadata requests within a minute", n)
	}
	if n := offsets.Hits(); n > 0 {
		t.Errorf("%d requests for offsets", n)
	}
	// After the minute one request is for all.
	cl.mu.Lock()
	for topic, h := range cl.known {
		h.at = h.at.Add(-time.Minute)
		cl.known[topic] = h
	}
	cl.mu.Unlock()
	if _, err := b.admin().CreatePartitions(ctx(t), 1, topics[7]); err != nil {
		t.Fatal(err)
	}
	before := looks.Hits()
	for n, c := range list {
		if added, err := c.NewPartitions(ctx(t), time.Minute); added != (n == 7) || err != nil {
			t.Errorf("new partitions of table %d: %v, %v", n, added, err)
		}
	}
	if n := looks.Hits() - before; n != 1 {
		t.Errorf("%d metadata requests for all tables, want 1", n)
	}
}

// TestAskTogether: tables that ask while the brokers are being asked share the next request.
func TestAskTogether(t *testing.T) {
	b := newBroker(t, 1)
	cl := b.cluster()
	var list []*Consumer
	for n := range 20 {
		list = append(list, b.table(cl, fmt.Sprintf("table-%d", n))) // a topic each, so that the round shows who joined it
	}
	looks := b.count(kmsg.Metadata)
	cl.mu.Lock()
	cl.asking = true
	cl.mu.Unlock()
	var asking sync.WaitGroup
	for _, c := range list {
		asking.Go(func() { c.Partitions(ctx(t)) })
	}
	for joined := 0; joined < len(list); time.Sleep(time.Millisecond) {
		cl.mu.Lock()
		if cl.pending != nil {
			joined = len(cl.pending.topics)
		}
		cl.mu.Unlock()
	}
	cl.rounds()
	asking.Wait()
	if n := looks.Hits(); n != 1 {
		t.Errorf("%d metadata requests of 20 tables, want 1", n)
	}
}

// TestTopicsApart: what is wrong with one table's topic is not the others' trouble.
func TestTopicsApart(t *testing.T) {
	b := newBroker(t, 1)
	b.produce(0, 0, 5)
	cl := b.cluster()
	missing, good := b.table(cl, "missing"), b.table(cl)
	var asking sync.WaitGroup
	for range 10 {
		asking.Go(func() {
			if _, _, err := missing.Partitions(ctx(t)); err == nil {
				t.Error("a topic that is not there has partitions")
			}
		})
		asking.Go(func() {
			if _, _, err := good.Partitions(ctx(t)); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if _, err := missing.NewPartitions(ctx(t), time.Minute); err == nil {
		t.Error("a topic that is not there has no new partitions")
	}
	r := newReader(t, good, map[change.PartitionID]int64{id(0): 0})
	missing.Close()
	r.until(map[change.PartitionID]int64{id(0): 5})
	good.Close()
	if _, err := cl.Consumer(b.options()); err != nil {
		t.Errorf("after the last one: %v", err)
	}
	cl.Close()
	if _, err := cl.Consumer(b.options()); err != ErrClosed {
		t.Errorf("got %v", err)
	}
}
