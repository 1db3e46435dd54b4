package kafka

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

func lostOf(t testing.TB, err error, want ...change.LostOffsetsError) {
	t.Helper()
	lost := change.LostOffsets(err)
	if len(lost) != len(want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	for i := range want {
		if *lost[i] != want[i] {
			t.Errorf("got %+v, want %+v", *lost[i], want[i])
		}
	}
	if retry, _ := Classify(err); retry {
		t.Errorf("%v: to be retried", err)
	}
}

func TestLostOffsetsAtAssign(t *testing.T) {
	b := newBroker(t, 3)
	for p := range int32(3) {
		b.produce(p, 0, 20)
	}
	b.DeleteRecords("t", 1, 15)
	c := b.consumer()
	// All partitions are checked, and all that is lost is told at once.
	err := c.Assign(ctx(t), map[change.PartitionID]int64{id(0): 0, id(1): 10, id(2): 21})
	lostOf(t, err, change.LostOffsetsError{ID: id(1), Wanted: 10, Earliest: 15, End: 20}, change.LostOffsetsError{ID: id(2), Wanted: 21, End: 20})
	if blocks, err := c.Poll(ctx(t), 0); len(blocks) > 0 || err != nil {
		t.Errorf("something was assigned: %v, %v", blocks, err)
	}
	lostOf(t, c.Assign(ctx(t), map[change.PartitionID]int64{id(9): 1}), change.LostOffsetsError{ID: id(9), Wanted: 1})
	if err := c.Assign(ctx(t), map[change.PartitionID]int64{id(9): 0}); err == nil || !strings.Contains(err.Error(), "t/9") {
		t.Errorf("got %v", err)
	}
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 15, id(2): 20})
	r.until(map[change.PartitionID]int64{id(0): 20, id(1): 20})
	equal(t, "p1", r.values[id(1)], numbers(15, 5))
}

// TestLostOffsetsWhileReading: retention overtakes a partition that was
// paused. The other one is read on until the error is met, then nothing is.
func TestLostOffsetsWhileReading(t *testing.T) {
	b := newBroker(t, 2)
	b.produce(0, 0, 10)
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	r.until(map[change.PartitionID]int64{id(0): 10})
	c.Pause(id(0))
	b.produce(0, 10, 30)
	b.DeleteRecords("t", 0, 35)
	for range 5 {
		if _, err := r.poll(0); err != nil {
			t.Fatal(err)
		}
	}
	c.Resume(id(0))
	err := r.failure()
	lostOf(t, err, change.LostOffsetsError{ID: id(0), Wanted: 10, Earliest: 35, End: 40})
	equal(t, "p0", r.values[id(0)], numbers(0, 10))
	b.produce(1, 0, 5)
	for range 5 {
		if _, again := r.poll(0); again == nil || again.Error() != err.Error() {
			t.Fatalf("the error does not stick: %v", again)
		}
	}
	r = newReader(t, c, map[change.PartitionID]int64{id(0): 35})
	r.until(map[change.PartitionID]int64{id(0): 40})
	equal(t, "p0", r.values[id(0)], numbers(35, 5))
}

// TestGuards: where records would go on above a moved log start or below the
// position, for whatever reason, they are not delivered.
func TestGuards(t *testing.T) {
	for _, f := range []struct {
		name    string
		logTo   int64 // the log start
		part    kgo.FetchPartition
		want    *change.LostOffsetsError
		wantErr error
	}{
		{"clamped to the log start", 5, kgo.FetchPartition{LogStartOffset: 5, Records: []*kgo.Record{{Topic: "t", Offset: 5}}}, &change.LostOffsetsError{ID: id(0), Wanted: 3, Earliest: 5, End: 10}, nil},
		{"went back", 0, kgo.FetchPartition{Records: []*kgo.Record{{Topic: "t", Offset: 2}}}, nil, errBackwards},
	} {
		t.Run(f.name, func(t *testing.T) {
			b := newBroker(t, 1)
			b.produce(0, 0, 10)
			c := b.consumer()
			r := newReader(t, c, map[change.PartitionID]int64{id(0): 3})
			c.Pause(id(0))
			if f.logTo > 0 {
				b.DeleteRecords("t", 0, f.logTo)
			}
			arrive(c, id(0), arrival{FetchPartition: f.part, next: f.part.Records[0].Offset + 1})
			err := r.failure()
			if f.want != nil {
				lostOf(t, err, *f.want)
			} else if !errors.Is(err, f.wantErr) {
				t.Fatalf("got %v", err)
			}
			if retry, _ := Classify(err); retry {
				t.Error("to be retried")
			}
		})
	}
}

// TestLeaderLostRecords: a new leader has less than was read. The library
// would go on at what is left; we stop.
func TestLeaderLostRecords(t *testing.T) {
	b := newBroker(t, 1)
	b.produce(0, 0, 10)
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0})
	r.until(map[change.PartitionID]int64{id(0): 10})
	b.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		in := req.(*kmsg.OffsetForLeaderEpochRequest)
		resp := in.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, t := range in.Topics {
			rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.Partition, rp.EndOffset, rp.LeaderEpoch = p.Partition, 7, p.LeaderEpoch
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	if err := b.MoveTopicPartition("t", 0, 1-b.LeaderFor("t", 0)); err != nil {
		t.Fatal(err)
	}
	err := r.failure()
	lostOf(t, err, change.LostOffsetsError{ID: id(0), Wanted: 10, End: 7})
	equal(t, "p0", r.values[id(0)], numbers(0, 10))
}

// TestTruncatedEnd: a log that ends below the position is told by Partitions too.
func TestTruncatedEnd(t *testing.T) {
	b := newBroker(t, 1)
	b.produce(0, 0, 10)
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0})
	r.until(map[change.PartitionID]int64{id(0): 10})
	b.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		rt, rp := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
		rt.Topic, rp.Offset = "t", 7+req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp+1
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	_, _, err := c.Partitions(ctx(t))
	lostOf(t, err, change.LostOffsetsError{ID: id(0), Wanted: 10, Earliest: 6, End: 7})
}

func TestTopicRecreated(t *testing.T) {
	b := newBroker(t, 1)
	b.produce(0, 0, 10)
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0})
	r.until(map[change.PartitionID]int64{id(0): 10})
	old := c.TopicIDs()
	if len(old["t"]) != 22 {
		t.Fatalf("IDs %v", old)
	}
	b.DeleteTopic("t")
	if _, _, err := c.Partitions(ctx(t)); !errors.Is(err, ErrNoTopic) || !strings.Contains(err.Error(), "topic t") {
		t.Fatalf("got %v", err)
	}
	b.CreateTopic("t", 1, nil)
	b.produce(0, 100, 20)
	// The reader meets it by itself, and never delivers the new topic's records.
	err := r.failure()
	var again *TopicRecreatedError
	if !errors.Is(err, ErrTopicRecreated) || !errors.As(err, &again) || again.Topic != "t" || again.Old != old["t"] || again.New == again.Old {
		t.Fatalf("got %v", err)
	}
	equal(t, "p0", r.values[id(0)], numbers(0, 10))
	if retry, _ := Classify(err); retry {
		t.Error("to be retried")
	}
	// So does one that starts with the IDs of the table, whose offsets would fit.
	other := b.consumer()
	other.ExpectTopicIDs(old)
	if err := other.Assign(ctx(t), map[change.PartitionID]int64{id(0): 10}); !errors.Is(err, ErrTopicRecreated) {
		t.Fatalf("got %v", err)
	}
	// Accepted by the caller, the new topic is read.
	other.ExpectTopicIDs(map[string]string{"t": again.New})
	r = newReader(t, other, map[change.PartitionID]int64{id(0): 0})
	r.until(map[change.PartitionID]int64{id(0): 20})
	equal(t, "p0", r.values[id(0)], numbers(100, 20))
}

// TestHoleAtTheEnd: the broker answers with a batch whose records are all gone
// (a compacted log keeps the batch for its offsets). The library goes past it
// without a word; the position must follow.
func TestHoleAtTheEnd(t *testing.T) {
	b := newBroker(t, 1)
	b.produce(0, 0, 10)
	empty := emptyBatch(4, 9)
	b.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		in := req.(*kmsg.FetchRequest)
		if len(in.Topics) == 0 || in.Topics[0].Partitions[0].FetchOffset < 4 || in.Topics[0].Partitions[0].FetchOffset > 9 {
			return nil, nil, false
		}
		resp := in.ResponseKind().(*kmsg.FetchResponse)
		rt, rp := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		rt.Topic, rt.TopicID = in.Topics[0].Topic, in.Topics[0].TopicID
		rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset, rp.RecordBatches = 10, 10, 0, empty
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 4})
	r.until(map[change.PartitionID]int64{id(0): 10})
	equal(t, "p0", r.values[id(0)], nil)
	if r.next[id(0)] != 10 {
		t.Fatalf("position %v", r.next)
	}
	b.produce(0, 10, 5)
	r.until(map[change.PartitionID]int64{id(0): 15})
	equal(t, "p0", r.values[id(0)], numbers(10, 5))
}

// emptyBatch is a record batch of the offsets first to last without a record.
func emptyBatch(first, last int64) []byte {
	batch := kmsg.RecordBatch{FirstOffset: first, PartitionLeaderEpoch: 0, Magic: 2, LastOffsetDelta: int32(last - first), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	b := batch.AppendTo(nil)
	batch.CRC = int32(crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(nil)
}

// TestBrokerErrors: what the broker asks to try again is tried again below us
// and loses nothing; what it refuses comes up.
func TestBrokerErrors(t *testing.T) {
	b := newBroker(t, 2)
	b.produce(0, 0, 50)
	fault := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.NotLeaderForPartition, Count: 2},
		kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "t", Err: kerr.LeaderNotAvailable, Count: 1})
	c := b.consumer()
	err := c.Assign(ctx(t), nil)
	if retry, _ := Classify(err); !retry || !errors.Is(err, kerr.LeaderNotAvailable) || !strings.Contains(err.Error(), "topic t partition ") {
		t.Errorf("got %v", err)
	}
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0, id(1): 0})
	r.until(map[change.PartitionID]int64{id(0): 50})
	equal(t, "p0", r.values[id(0)], numbers(0, 50))
	if fault.Hits() != 3 {
		t.Errorf("%d faults were met", fault.Hits())
	}

	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.TopicAuthorizationFailed, Count: 1})
	b.produce(0, 50, 1)
	err = r.failure()
	if retry, reason := Classify(err); retry || !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), "topic t") {
		t.Errorf("got %v: %v, %s", err, retry, reason)
	}

	// An error to be tried again is told once, and reading goes on behind it.
	// No fetch of the consumer above may be waiting at the broker and take it.
	c.Close()
	b = newBroker(t, 2)
	b.produce(0, 0, 51)
	c = b.consumer()
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.UnknownServerError, Count: 1})
	r = newReader(t, c, map[change.PartitionID]int64{id(0): 50})
	err = r.failure()
	if retry, reason := Classify(err); !retry || !errors.Is(err, kerr.UnknownServerError) {
		t.Errorf("got %v: %v, %s", err, retry, reason)
	}
	r.until(map[change.PartitionID]int64{id(0): 51})
	equal(t, "p0", r.values[id(0)], numbers(50, 1))
}

// TestFaultIsJudgedLater: where the caller stops while a fault is looked into,
// the next Poll looks again.
func TestFaultIsJudgedLater(t *testing.T) {
	b := newBroker(t, 1)
	c := b.consumer()
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0})
	c.cluster.mu.Lock()
	c.fault(c.reading[id(0)], &kgo.ErrDataLoss{Topic: "t", ConsumedTo: 5, ResetTo: 3})
	c.cluster.mu.Unlock()
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Poll(stopped, 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	lostOf(t, r.failure(), change.LostOffsetsError{ID: id(0), Wanted: 5, End: 3})
}

func TestClusterDown(t *testing.T) {
	b := newBroker(t, 1)
	b.produce(0, 0, 1)
	c := b.consumer(func(o *Options) { o.RequestTimeout = 300 * time.Millisecond })
	r := newReader(t, c, map[change.PartitionID]int64{id(0): 0})
	r.until(map[change.PartitionID]int64{id(0): 1})
	b.Close()
	start := time.Now()
	_, _, err := c.Partitions(ctx(t))
	if retry, reason := Classify(err); !retry || time.Since(start) > 5*time.Second {
		t.Errorf("got %v: %v, %s after %v", err, retry, reason, time.Since(start))
	}
	if _, err := r.poll(0); err != nil {
		if retry, _ := Classify(err); !retry {
			t.Errorf("got %v", err)
		}
	}
}

func TestClassify(t *testing.T) {
	lost := &change.LostOffsetsError{ID: id(0), Wanted: 1, Earliest: 2, End: 3}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{fmt.Errorf("x: %w", lost), false},
		{errors.Join(io.EOF, lost), false},
		{&TopicRecreatedError{Topic: "t"}, false},
		{fmt.Errorf("topic t: %w", ErrNoTopic), false},
		{&BatchTooLargeError{ID: id(0), err: &kgo.ErrDecompressTooLarge{}}, false},
		{context.Canceled, false},
		{ErrClosed, false},
		{kgo.ErrClientClosed, false},
		{errBackwards, false},
		{kerr.SaslAuthenticationFailed, false},
		{&kadm.AuthError{Err: kerr.TopicAuthorizationFailed}, false},
		{kerr.CorruptMessage, true},
		{kerr.UnsupportedVersion, false},
		{kerr.NotLeaderForPartition, true},
		{kerr.UnknownTopicID, true},
		{x509.UnknownAuthorityError{}, false},
		{&net.OpError{Op: "dial", Err: &os.SyscallError{Err: errors.New("refused")}}, true},
		{&net.DNSError{IsNotFound: true}, true},
		{&kgo.ErrFirstReadEOF{}, true},
		{io.ErrUnexpectedEOF, true},
		{context.DeadlineExceeded, true},
		{errors.New("never met"), true},
	} {
		if got, reason := Classify(c.err); got != c.want || reason == "" {
			t.Errorf("%v: retryable %v (%s), want %v", c.err, got, reason, c.want)
		}
	}
}
