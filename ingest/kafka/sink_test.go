package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

func newSink(t *testing.T, b *broker, topic string) *Sink {
	t.Helper()
	s, err := NewSink(b.options(), topic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestSinkWrites(t *testing.T) {
	b := newBroker(t, 3)
	topic := b.options().Topics[0]
	s := newSink(t, b, topic)
	if err := s.Check(ctx(t)); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB: more than the topic takes
	in := []*change.Record{
		{Topic: "other", Partition: 9, Offset: 77, Timestamp: 1658000000123, Key: []byte("a"), Value: []byte("1"),
			Headers: []change.Header{{Key: "h", Value: []byte{0, 255}}, {Key: "gscd-reason", Value: []byte("decode")}}},
		{Timestamp: -1, Key: []byte("b")},
		{Timestamp: -1, Key: []byte("c"), Value: large},
		{Timestamp: 1658000000124, Value: []byte("no key")},
	}
	if err := s.Publish(ctx(t), in); err != nil {
		t.Fatal(err)
	}
	s.Close() // and it goes on
	if err := s.Publish(ctx(t), in[:1]); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.options().Brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	got := map[string]int{}
	for n := 0; n < 5; {
		fetches := cl.PollFetches(ctx(t))
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			n++
			text := fmt.Sprintf("%s=%s", r.Key, r.Value)
			for _, h := range r.Headers {
				text += fmt.Sprintf(" %s:%q", h.Key, h.Value)
			}
			if r.Value != nil && r.Timestamp.UnixMilli() < 1658000000123 || r.Timestamp.UnixMilli() > 1658000000124 && len(r.Value) > 0 {
				t.Errorf("%s has the time %s", text, r.Timestamp)
			}
			got[text]++
		}
	}
	for _, want := range []string{`b=`, `c= gscd-value-left-out:"too large for this topic"`, `=no key`} {
		if got[want] != 1 {
			t.Errorf("%q is there %d times: %v", want, got[want], got)
		}
	}
	if got[`a=1 h:"\x00\xff" gscd-reason:"decode"`] != 2 {
		t.Errorf("what was written twice: %v", got)
	}
}

func TestSinkNamesWhatIsMissing(t *testing.T) {
	b := newBroker(t, 1)
	s := newSink(t, b, "nowhere")
	err := s.Check(ctx(t))
	if !errors.Is(err, ErrNotThere) || s.Retryable(err) {
		t.Errorf("no topic: %v", err)
	}
	if list, err := kadm.NewClient(mustClient(t, b)).ListTopics(ctx(t)); err != nil || list.Has("nowhere") {
		t.Errorf("it was created: %v", err)
	}
	b.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		in := req.(*kmsg.MetadataRequest)
		if len(in.Topics) != 1 || in.Topics[0].Topic == nil || *in.Topics[0].Topic != "guarded" {
			return nil, nil, false
		}
		resp := in.ResponseKind().(*kmsg.MetadataResponse)
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.AuthorizedOperations = in.Topics[0].Topic, 1<<8|1<<3 // describe, read
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	s = newSink(t, b, "guarded")
	if err := s.Check(ctx(t)); !errors.Is(err, ErrNotWritable) || s.Retryable(err) {
		t.Errorf("no right to write: %v", err)
	}
	if !s.Retryable(fmt.Errorf("write: %w", kerr.NotEnoughReplicas)) {
		t.Error("too few replicas are for good")
	}
}

func mustClient(t *testing.T, b *broker) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.options().Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}
