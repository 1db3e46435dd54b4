package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

func TestExactOffsets(t *testing.T) {
	b := newBroker(t, 3)
	b.produce(0, 0, 100)
	b.produce(2, 0, 10)
	c := b.consumer()
	got, at, err := c.Partitions(ctx(t))
	want := []change.PartitionState{{ID: id(0), End: 100}, {ID: id(1)}, {ID: id(2), End: 10}}
	if err != nil || !slices.Equal(got, want) || time.Since(at) > time.Minute {
		t.Fatalf("got %v at %v, %v; want %v", got, at, err, want)
	}
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 40, id(1): 0, id(2): 10})
	b.produce(2, 10, 5)
	b.produce(1, 0, 1)
	r.until(map[change.PartitionID]int64{id(0): 100, id(1): 1, id(2): 15})
	equal(t, "p0", r.values[id(0)], numbers(40, 60))
	equal(t, "p1", r.values[id(1)], numbers(0, 1))
	equal(t, "p2", r.values[id(2)], numbers(10, 5))
	// A new assignment replaces the old one: other offsets, fewer partitions.
	r = newReader(t, c, map[change.PartitionID]int64{id(0): 99})
	b.produce(1, 1, 1)
	r.until(map[change.PartitionID]int64{id(0): 100})
	for range 3 {
		r.poll(0)
	}
	equal(t, "p0 again", r.values[id(0)], numbers(99, 1))
	if len(r.values) != 1 {
		t.Errorf("partitions that are not assigned: %v", r.values)
	}
	// No assignment: Poll waits and gives nothing.
	assign(t, c, nil)
	if blocks, err := c.Poll(ctx(t), 0); len(blocks) > 0 || err != nil {
		t.Errorf("got %v, %v", blocks, err)
	}
}

func TestRecordFields(t *testing.T) {
	b := newBroker(t, 1)
	in := []*change.Record{
		{Topic: "t", Timestamp: 1657936800400, Key: []byte("k"), Value: []byte("v"), Headers: []change.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}},
		{Topic: "t", Timestamp: 5, Value: []byte{}},
		{Topic: "t", Timestamp: 6, Key: []byte{}},
	}
	if err := Produce(ctx(t), b.options(), in); err != nil {
		t.Fatal(err)
	}
	c := b.consumer()
	assign(t, c, map[change.PartitionID]int64{id(0): 0})
	var got []*change.Record
	for len(got) < len(in) {
		blocks, err := c.Poll(ctx(t), 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			got = append(got, b.Records...)
		}
	}
	for i := range in {
		if g, w := fmt.Sprintf("%#v", *got[i]), fmt.Sprintf("%#v", *in[i]); g != w || in[i].Offset != int64(i) {
			t.Errorf("record %d:\n got %s\nwant %s", i, g, w)
		}
	}
}

// TestPause pauses and resumes at random while records arrive: every partition
// still gives its records once and in order, and none while it is paused.
func TestPause(t *testing.T) {
	b := newBroker(t, 3)
	const n = 400
	for p := range int32(3) {
		b.produce(p, 0, n/2)
	}
	c := b.consumer(func(o *Options) { o.PollWait = 5 * time.Millisecond })
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0, id(2): 0})
	rng := rand.New(rand.NewPCG(1, 1))
	paused := make(map[change.PartitionID]bool)
	for i := range 100 {
		if i%30 == 10 {
			b.produce(int32(i/30), n/2, n/2)
		}
		for p := range int32(3) {
			if rng.IntN(3) == 0 {
				if paused[id(p)] = !paused[id(p)]; paused[id(p)] {
					c.Pause(id(p), id(p))
				} else {
					c.Resume(id(p))
				}
			}
		}
		blocks, err := r.poll(1 + rng.IntN(9))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if paused[b.ID] {
				t.Fatalf("%v delivers while paused", b.ID)
			}
		}
	}
	c.Resume(id(0), id(1), id(2), id(7))
	r.until(map[change.PartitionID]int64{id(0): n, id(1): n, id(2): n})
	for p := range int32(3) {
		equal(t, fmt.Sprint("p", p), r.values[id(p)], numbers(0, n))
	}
}

// TestPauseKeepsWhatArrived gives a paused partition what a Poll under way
// would have brought: it must come back after Resume, cut as asked.
func TestPauseKeepsWhatArrived(t *testing.T) {
	b := newBroker(t, 1)
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0})
	c.Pause(id(0))
	for from := range 2 {
		var list []*kgo.Record
		for i := range 3 {
			list = append(list, &kgo.Record{Topic: "t", Offset: int64(3*from + i), Value: fmt.Append(nil, 3*from+i)})
		}
		arrive(c, id(0), arrival{FetchPartition: kgo.FetchPartition{Records: list}, next: int64(3*from + 3)})
	}
	if blocks, err := r.poll(0); len(blocks) != 0 || err != nil {
		t.Fatalf("got %v, %v", blocks, err)
	}
	c.Resume(id(0))
	for want := range 3 {
		if _, err := r.poll(2); err != nil {
			t.Fatal(err)
		}
		equal(t, "after Resume", r.values[id(0)], numbers(0, 2*(want+1)))
		if r.next[id(0)] != int64(2*(want+1)) {
			t.Fatalf("next %d", r.next[id(0)])
		}
	}
}

// TestTransactions: aborted records and markers leave holes, and the position
// reaches the high watermark behind them.
func TestTransactions(t *testing.T) {
	b := newBroker(t, 2)
	b.transaction("c1-", 0, 1, true)    // 0, marker 1
	b.transaction("a1-", 0, 1, false)   // 2, marker 3
	b.transaction("c2-", 0, 1, true)    // 4, marker 5
	b.transaction("a2-", 1, 300, false) // nothing but aborted records
	c := b.consumer()
	s := states(t, c)
	if s[id(0)].End != 6 || s[id(1)].End != 301 {
		t.Fatalf("ends %v", s)
	}
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	r.until(map[change.PartitionID]int64{id(0): 6, id(1): 301})
	equal(t, "p0", r.values[id(0)], []string{"c1-0", "c2-0"})
	equal(t, "p1", r.values[id(1)], nil)
	if r.next[id(0)] != 6 || r.next[id(1)] != 301 {
		t.Fatalf("positions %v", r.next)
	}
	// A restart behind the last marker, and in the middle of the aborted stretch.
	r = newReader(t, c, map[change.PartitionID]int64{id(0): 6, id(1): 150})
	r.until(map[change.PartitionID]int64{id(1): 301})

	// An open transaction: the end is the high watermark, but nothing behind
	// the last stable offset is delivered until it ends.
	open := b.begin("o-", 0, 2) // 6, 7
	b.produce(0, 8, 1)          // 8
	if end := states(t, c)[id(0)].End; end != 9 {
		t.Fatalf("end %d", end)
	}
	for range 20 {
		r.poll(0)
	}
	if len(r.values[id(0)]) != 0 || r.next[id(0)] != 6 {
		t.Fatalf("read past the last stable offset: %v, next %d", r.values[id(0)], r.next[id(0)])
	}
	var dump sink
	if n, err := Record(ctx(t), b.options(), &dump); err != nil || n != 2 || dump.String() != "t/0@0 c1-0\nt/0@4 c2-0\n" {
		t.Fatalf("recorded %d, %v:\n%s", n, err, dump.String())
	}
	b.end(open, true) // marker 9
	r.until(map[change.PartitionID]int64{id(0): 10})
	equal(t, "p0", r.values[id(0)], []string{"o-0", "o-1", "8"})
}

func TestLargeRecords(t *testing.T) {
	b := newBroker(t, 1)
	large := bytes.Repeat([]byte("x"), 12<<20)
	in := []*change.Record{
		{Topic: "t", Key: []byte("a"), Value: []byte("before")},
		{Topic: "t", Key: []byte("b"), Value: large},
		{Topic: "t", Key: []byte("c"), Value: bytes.Repeat([]byte("y"), 20<<20), Headers: []change.Header{{Key: "h"}}},
		{Topic: "t", Key: []byte("d"), Value: []byte("after")},
	}
	if err := Produce(ctx(t), b.options(), in); err != nil {
		t.Fatal(err)
	}
	c := b.consumer(func(o *Options) { o.FetchBytes, o.MaxRecord = 1<<20, 16<<20 })
	assign(t, c, map[change.PartitionID]int64{id(0): 0})
	var got []*change.Record
	for len(got) < 4 {
		blocks, err := c.Poll(ctx(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			got = append(got, b.Records...)
		}
	}
	if !bytes.Equal(got[1].Value, large) || got[1].Oversize != 0 {
		t.Errorf("offset 1: %d bytes, oversize %d", len(got[1].Value), got[1].Oversize)
	}
	if got[2].Oversize != 20<<20+2 || len(got[2].Value) != 1<<20 || string(got[2].Key) != "c" || got[2].Headers != nil {
		t.Errorf("offset 2: %d bytes, oversize %d", len(got[2].Value), got[2].Oversize)
	}
	if string(got[3].Value) != "after" || got[3].Offset != 3 {
		t.Errorf("offset 3: %s", got[3].Value)
	}
}

func TestAddedPartitions(t *testing.T) {
	b := newBroker(t, 1)
	b.produce(0, 0, 3)
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0})
	r.until(map[change.PartitionID]int64{id(0): 3})
	if _, err := b.admin().CreatePartitions(ctx(t), 2, "t"); err != nil {
		t.Fatal(err)
	}
	// The very next look knows them: the seal rule depends on it.
	if s := states(t, c); len(s) != 3 || s[id(2)].End != 0 {
		t.Fatalf("got %v", s)
	}
	b.produce(2, 0, 2)
	if s := states(t, c); s[id(2)].End != 2 {
		t.Fatalf("got %v", s)
	}
	r = newReader(t, c, map[change.PartitionID]int64{id(0): 3, id(1): 0, id(2): 0})
	r.until(map[change.PartitionID]int64{id(2): 2})
	equal(t, "p2", r.values[id(2)], numbers(0, 2))
	equal(t, "p0", r.values[id(0)], nil)
}

// TestLeaderMoves: a partition that moves between brokers is read on, exactly.
func TestLeaderMoves(t *testing.T) {
	b := newBroker(t, 1)
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0})
	for i := range 3 {
		b.produce(0, 10*i, 10)
		r.until(map[change.PartitionID]int64{id(0): int64(10 * (i + 1))})
		if err := b.MoveTopicPartition("t", 0, 1-b.LeaderFor("t", 0)); err != nil {
			t.Fatal(err)
		}
		if end := states(t, c)[id(0)].End; end != int64(10*(i+1)) {
			t.Fatalf("end %d", end)
		}
	}
	equal(t, "p0", r.values[id(0)], numbers(0, 30))
}

// TestClockBeforeAsking: the clock reading is older than anything the brokers
// say, so a record that arrives while they are asked does not count as seen.
func TestClockBeforeAsking(t *testing.T) {
	b := newBroker(t, 1)
	read := false
	c := b.consumer(func(o *Options) {
		o.Now = func() time.Time {
			if !read {
				read = true
				b.produce(0, 0, 1)
			}
			return time.UnixMilli(42)
		}
	})
	got, at, err := c.Partitions(ctx(t))
	if err != nil || got[0].End != 1 || at.UnixMilli() != 42 {
		t.Fatalf("got %v at %v, %v", got, at, err)
	}
}

func TestPublishOffsets(t *testing.T) {
	b := newBroker(t, 2)
	offsets := map[change.PartitionID]int64{id(0): 7, id(1): 0}
	if err := b.consumer().PublishOffsets(ctx(t), offsets); err != nil {
		t.Fatal(err)
	}
	c := b.consumer(func(o *Options) { o.Group = "gscd-user_dim" })
	if err := c.PublishOffsets(ctx(t), offsets); err != nil {
		t.Fatal(err)
	}
	got, err := b.admin().FetchOffsets(ctx(t), "gscd-user_dim")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		partition int32
		at        int64
	}{{0, 7}, {1, 0}} {
		if o, ok := got.Lookup("t", want.partition); !ok || o.At != want.at {
			t.Errorf("partition %d: %v", want.partition, o)
		}
	}
}

func TestRecord(t *testing.T) {
	b := newBroker(t, 3)
	b.produce(0, 0, 3)
	b.produce(2, 5, 2)
	b.DeleteRecords("t", 0, 1)
	var dump sink
	n, err := Record(ctx(t), b.options(), &dump)
	if err != nil || n != 4 {
		t.Fatalf("%d records, %v", n, err)
	}
	lines := strings.Split(strings.TrimSpace(dump.String()), "\n")
	slices.Sort(lines)
	equal(t, "dump", lines, []string{"t/0@1 1", "t/0@2 2", "t/2@0 5", "t/2@1 6"})
}

func TestClose(t *testing.T) {
	b := newBroker(t, 1)
	c := b.consumer(func(o *Options) { o.PollWait = time.Minute })
	assign(t, c, map[change.PartitionID]int64{id(0): 0})
	canceled, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := c.Poll(canceled, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { c.Close() })
	for range 2 {
		if _, err := c.Poll(context.Background(), 0); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := c.Poll(context.Background(), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, _, err := c.Partitions(ctx(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := c.Assign(ctx(t), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestBesidePoll pauses, resumes and asks from another goroutine while Poll runs.
func TestBesidePoll(t *testing.T) {
	b := newBroker(t, 2)
	const n = 300
	b.produce(0, 0, n)
	c := b.consumer(func(o *Options) { o.PollWait = time.Millisecond })
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := range int32(1000) {
			select {
			case <-stop:
				return
			default:
			}
			c.Pause(id(i % 2))
			if i%10 == 0 {
				if _, _, err := c.Partitions(ctx(t)); err != nil {
					t.Error(err)
				}
			}
			c.Resume(id(0), id(1))
		}
	}()
	for r.next[id(0)] < n {
		if _, err := r.poll(3); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-stopped
	equal(t, "p0", r.values[id(0)], numbers(0, n))
}

func BenchmarkPoll(b *testing.B) {
	broker := newBroker(b, 4)
	value := bytes.Repeat([]byte(`{"id":1,"name":"some text"},`), 20)
	const n = 100_000
	var list []*change.Record
	for i := range n {
		list = append(list, &change.Record{Topic: "t", Partition: int32(i % 4), Timestamp: 1, Key: []byte("k"), Value: value})
	}
	if err := Produce(ctx(b), broker.options(), list); err != nil {
		b.Fatal(err)
	}
	c := broker.consumer()
	b.SetBytes(int64(n * len(value)))
	for b.Loop() {
		r := newReader(b, c, map[change.PartitionID]int64{id(0): 0, id(1): 0, id(2): 0, id(3): 0})
		for left := n; left > 0; {
			blocks, err := r.c.Poll(context.Background(), 10_000)
			if err != nil {
				b.Fatal(err)
			}
			for _, block := range blocks {
				left -= len(block.Records)
			}
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
