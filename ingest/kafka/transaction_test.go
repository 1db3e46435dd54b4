package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gscd-io/gscd/ingest/change"
)

func newProducer(t *testing.T, b *broker, to ProducerOptions) *Producer {
	t.Helper()
	if to.PositionTopic == "" {
		to.PositionTopic = "positions"
	}
	to.Topic, to.ID = "t", "sink"
	p, err := NewProducer(b.options(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func start(t *testing.T, p *Producer, want string) {
	t.Helper()
	got, err := p.Start(ctx(t))
	if err != nil || string(got) != want {
		t.Fatalf("start: %q, %v; want %q", got, err, want)
	}
}

// transact writes records with the values in one transaction, up to the position.
func transact(t *testing.T, p *Producer, position string, values ...string) error {
	t.Helper()
	if err := p.Begin(); err != nil {
		return err
	}
	for _, v := range values {
		if err := p.Produce(ctx(t), &change.Record{Timestamp: -1, Key: []byte(v[:1]), Value: []byte(v)}); err != nil {
			return err
		}
	}
	return p.Commit(ctx(t), []byte(position))
}

// visible gives what readers of committed records see, sorted.
func visible(t *testing.T, b *broker) (out []string) {
	t.Helper()
	c := b.consumer()
	from, until := map[change.PartitionID]int64{}, map[change.PartitionID]int64{}
	for id, s := range states(t, c) {
		from[id], until[id] = 0, s.End
	}
	r := newReader(t, c, from)
	r.until(until)
	for _, values := range r.values {
		out = append(out, values...)
	}
	slices.Sort(out)
	return out
}

func TestProducer(t *testing.T) {
	b := newBroker(t, 3)
	p := newProducer(t, b, ProducerOptions{})
	start(t, p, "")
	if err := transact(t, p, "1", "a1", "b1", "c1"); err != nil {
		t.Fatal(err)
	}
	if err := transact(t, p, "2"); err != nil { // no record, only a position
		t.Fatal(err)
	}
	// What was given up, or lost with its process, is not there.
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := p.Produce(ctx(t), &change.Record{Timestamp: -1, Key: []byte("a"), Value: []byte("given up")}); err != nil {
		t.Fatal(err)
	}
	if err := p.Abort(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := transact(t, p, "3", "a2"); err != nil {
		t.Fatal(err)
	}
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := p.Produce(ctx(t), &change.Record{Timestamp: -1, Key: []byte("a"), Value: []byte("lost")}); err != nil {
		t.Fatal(err)
	}
	if err := p.client.Flush(ctx(t)); err != nil {
		t.Fatal(err)
	}
	p.Close()
	again := newProducer(t, b, ProducerOptions{})
	start(t, again, "3")
	if err := transact(t, again, "4", "b2"); err != nil {
		t.Fatal(err)
	}
	equal(t, "committed", visible(t, b), []string{"a1", "a2", "b1", "b2", "c1"})

	settings, err := kadm.NewClient(mustClient(t, b)).DescribeTopicConfigs(ctx(t), "positions")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range settings[0].Configs {
		if c.Key == cleanupPolicy && c.MaybeValue() != "compact" {
			t.Errorf("the topic of positions has %s", c.MaybeValue())
		}
	}
}

func TestProducerIsFenced(t *testing.T) {
	b := newBroker(t, 1)
	first, second := newProducer(t, b, ProducerOptions{}), newProducer(t, b, ProducerOptions{})
	start(t, first, "")
	if err := transact(t, first, "1", "a1"); err != nil {
		t.Fatal(err)
	}
	if err := first.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := first.Produce(ctx(t), &change.Record{Timestamp: -1, Key: []byte("a"), Value: []byte("zombie")}); err != nil {
		t.Fatal(err)
	}
	if err := first.client.Flush(ctx(t)); err != nil {
		t.Fatal(err)
	}
	start(t, second, "1")
	err := first.Commit(ctx(t), []byte("2"))
	if !errors.Is(err, ErrFenced) || first.Retryable(err) {
		t.Errorf("the first one: %v", err)
	}
	if err := transact(t, second, "2", "a2"); err != nil {
		t.Fatal(err)
	}
	equal(t, "committed", visible(t, b), []string{"a1", "a2"})
}

func TestProducerNamesWhatIsWrong(t *testing.T) {
	b := newBroker(t, 1)
	if _, err := kadm.NewClient(mustClient(t, b)).CreateTopic(ctx(t), 1, 1, nil, "plain"); err != nil {
		t.Fatal(err)
	}
	if _, err := newProducer(t, b, ProducerOptions{PositionTopic: "plain"}).Start(ctx(t)); !errors.Is(err, ErrNotCompacted) {
		t.Errorf("a topic that is not compacted: %v", err)
	}
	p := newProducer(t, b, ProducerOptions{})
	p.to.Topic = "nowhere"
	if _, err := p.Start(ctx(t)); !errors.Is(err, ErrNotThere) || p.Retryable(err) {
		t.Errorf("no topic: %v", err)
	}
	p = newProducer(t, b, ProducerOptions{})
	start(t, p, "")
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := p.Produce(ctx(t), &change.Record{Timestamp: -1, Value: bytes.Repeat([]byte("x"), 2<<20)}); err != nil {
		t.Fatal(err)
	}
	if err := p.Commit(ctx(t), nil); !errors.Is(err, ErrTooLarge) || p.Retryable(err) {
		t.Errorf("a large record: %v", err)
	}
	p.to.Timeout, p.began = time.Nanosecond, time.Now().Add(-time.Hour)
	if err := p.explain(fmt.Errorf("x: %w", kerr.ProducerFenced)); !errors.Is(err, ErrTooSlow) {
		t.Errorf("a slow transaction: %v", err)
	}
}
