package kafka

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

// TestNoLeader: for a while the metadata names no leader of a partition. It is
// told as soon as that lasts longer than a request may, and reading goes on
// when there is one; the other partition is read all the time.
func TestNoLeader(t *testing.T) {
	b := newBroker(t, 2, kfake.NumBrokers(1))
	c := b.consumer(func(o *Options) { o.RequestTimeout = 500 * time.Millisecond })
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	b.produce(0, 0, 5)
	r.until(map[change.PartitionID]int64{id(0): 5})
	topic := b.TopicInfo("t").TopicID
	port, _ := strconv.Atoi(b.ListenAddrs()[0][strings.LastIndex(b.ListenAddrs()[0], ":")+1:])
	until := time.Now().Add(1500 * time.Millisecond)
	b.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if time.Now().After(until) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: b.LeaderFor("t", 1), Host: "127.0.0.1", Port: int32(port)})
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic, rt.TopicID = kmsg.StringPtr("t"), topic
		for p := range int32(2) {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition, rp.Leader, rp.LeaderEpoch = p, b.LeaderFor("t", 1), 0
			if p == 0 {
				rp.ErrorCode, rp.Leader = kerr.LeaderNotAvailable.Code, -1
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Partitions: []int32{0}, Err: kerr.NotLeaderForPartition, Count: -1, When: func(kmsg.Request) bool { return time.Now().Before(until) }})
	cl := b.raw()
	b.send(cl, 0, 5, 5)
	b.send(cl, 1, 0, 3)
	told := 0
	for end := time.Now().Add(8 * time.Second); r.next[id(0)] < 10 && time.Now().Before(end); {
		if _, err := r.poll(0); err != nil {
			told++
			if retry, reason := Classify(err); !retry || !strings.Contains(err.Error(), "topic t partition 0") {
				t.Errorf("got %v (%s)", err, reason)
			}
			if r.next[id(1)] != 3 {
				t.Errorf("the other partition is at %d", r.next[id(1)])
			}
		}
	}
	if told == 0 || told > 4 {
		t.Errorf("told %d times", told)
	}
	equal(t, "p0", r.values[id(0)], numbers(0, 10))
	equal(t, "p1", r.values[id(1)], numbers(0, 3))
}

// TestPartitionErrors: errors of one partition that may pass lose nothing, and
// don't hold up the other one.
func TestPartitionErrors(t *testing.T) {
	for _, f := range []struct {
		err  *kerr.Error
		told bool
	}{
		{kerr.KafkaStorageError, false}, {kerr.NotLeaderForPartition, false}, {kerr.FencedLeaderEpoch, false}, {kerr.UnknownLeaderEpoch, false},
		{kerr.LeaderNotAvailable, false}, {kerr.ReplicaNotAvailable, false}, {kerr.OffsetNotAvailable, false}, {kerr.CorruptMessage, false},
		{kerr.UnknownServerError, true}, {kerr.UnknownTopicOrPartition, true},
	} {
		t.Run(f.err.Message, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 2, kfake.NumBrokers(1))
			b.produce(0, 0, 5)
			b.produce(1, 0, 5)
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Partitions: []int32{0}, Err: f.err, Count: 3})
			r := newReader(t, b.consumer(), map[change.PartitionID]int64{id(0): 0, id(1): 0})
			told := 0
			for end := time.Now().Add(10 * time.Second); (r.next[id(0)] < 5 || r.next[id(1)] < 5) && time.Now().Before(end); {
				if _, err := r.poll(0); err != nil {
					told++
					if retry, reason := Classify(err); !retry || !errors.Is(err, f.err) || !strings.Contains(err.Error(), "topic t partition 0") {
						t.Fatalf("got %v (%s)", err, reason)
					}
				}
			}
			if (told > 0) != f.told {
				t.Errorf("told %d times", told)
			}
			equal(t, "p0", r.values[id(0)], numbers(0, 5))
			equal(t, "p1", r.values[id(1)], numbers(0, 5))
		})
	}
}

// TestFinalErrors: what a broker refuses stops the table, with partition and reason.
func TestFinalErrors(t *testing.T) {
	b := newBroker(t, 2)
	b.produce(1, 0, 5)
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Partitions: []int32{0}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	err := r.failure()
	if retry, _ := Classify(err); retry || c.Retryable(err) || !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), "topic t partition 0") {
		t.Errorf("got %v", err)
	}
}

// TestHangingTransaction: nothing behind a transaction that does not end is
// delivered, its partition's position stays below the watermark, so the day
// does not end, and the other partition goes on.
func TestHangingTransaction(t *testing.T) {
	b := newBroker(t, 2)
	b.produce(0, 0, 2)
	open := b.begin("hangs", 0, 3) // 2 to 4
	b.produce(0, 5, 4)             // 5 to 8
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	for i := range 5 {
		b.produce(1, 10*i, 10)
		r.until(map[change.PartitionID]int64{id(1): int64(10 * (i + 1))})
	}
	equal(t, "p0", r.values[id(0)], numbers(0, 2))
	if s := states(t, c)[id(0)]; r.next[id(0)] != 2 || s.End != 9 {
		t.Errorf("position %d, end %d, want 2 and 9", r.next[id(0)], s.End)
	}
	if ends, err := c.SettledEnds(ctx(t)); err != nil || ends[id(0)] != 2 {
		t.Errorf("settled ends %v, %v", ends, err)
	}
	b.end(open, false)
	r.until(map[change.PartitionID]int64{id(0): 10}) // with the marker
	equal(t, "p0", r.values[id(0)], append(numbers(0, 2), numbers(5, 4)...))
}

// TestBrokerRestart: a broker is away and comes back with its log: reading goes
// on where it stopped.
func TestBrokerRestart(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir)}
	b := newBroker(t, 2, options...)
	b.produce(0, 0, 10)
	c := b.consumer(func(o *Options) { o.RequestTimeout = 300 * time.Millisecond })
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	r.until(map[change.PartitionID]int64{id(0): 10})
	b.Close()
	told := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if _, err := r.poll(0); err != nil {
			told++
			if retry, reason := Classify(err); !retry {
				t.Fatalf("got %v (%s)", err, reason)
			}
		}
	}
	if told == 0 {
		t.Error("nobody is told that the broker is away")
	}
	b = newBroker(t, 2, options...)
	b.produce(0, 10, 5)
	b.produce(1, 0, 5)
	for end := time.Now().Add(8 * time.Second); (r.next[id(0)] < 15 || r.next[id(1)] < 5) && time.Now().Before(end); {
		if _, err := r.poll(0); err != nil {
			if retry, reason := Classify(err); !retry {
				t.Fatalf("got %v (%s)", err, reason)
			}
		}
	}
	equal(t, "p0", r.values[id(0)], numbers(0, 15))
	equal(t, "p1", r.values[id(1)], numbers(0, 5))
}

// TestLeadersShuffle: with two tables at different offsets, leaders move while
// records come.
func TestLeadersShuffle(t *testing.T) {
	b := newBroker(t, 3, kfake.NumBrokers(3))
	cl := b.cluster()
	from := map[change.PartitionID]int64{id(0): 0, id(1): 0, id(2): 0}
	one, two := newReader(t, b.table(cl), from), newReader(t, b.table(cl), from)
	for i := range 5 {
		for p := range int32(3) {
			b.produce(p, 10*i, 10)
		}
		b.ShufflePartitionLeaders()
		want := map[change.PartitionID]int64{id(0): int64(10 * (i + 1)), id(1): int64(10 * (i + 1)), id(2): int64(10 * (i + 1))}
		one.until(want)
		if i%2 == 1 {
			two.until(want)
		}
	}
	two.until(map[change.PartitionID]int64{id(0): 50, id(1): 50, id(2): 50})
	for p := range int32(3) {
		equal(t, "one", one.values[id(p)], numbers(0, 50))
		equal(t, "two", two.values[id(p)], numbers(0, 50))
	}
}
