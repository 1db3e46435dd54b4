package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

func newWriter(t *testing.T, b *broker, to WriterOptions) *Writer {
	t.Helper()
	to.StateTopic, to.ID = "state", "capture"
	w, err := NewWriter(b.options(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// startWriter gives the state, the last value of each key.
func startWriter(t *testing.T, w *Writer) map[string]string {
	t.Helper()
	state := map[string]string{}
	if err := w.Start(ctx(t), func(r *change.Record) error {
		state[string(r.Key)] = string(r.Value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return state
}

func write(t *testing.T, w *Writer, topic string, partition int32, values ...string) {
	t.Helper()
	for _, v := range values {
		if err := w.Write(ctx(t), &change.Record{Topic: topic, Partition: partition, Key: []byte(v[:1]), Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
}

func state(pairs ...string) (out []*change.Record) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, &change.Record{Key: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	return out
}

func TestWriterTransactions(t *testing.T) {
	b := newBroker(t, 3)
	w := newWriter(t, b, WriterOptions{})
	if s := startWriter(t, w); len(s) != 0 {
		t.Fatalf("state of a new topic: %v", s)
	}
	n, err := w.Topic(ctx(t), NewTopic{Name: "made", Partitions: 4, Settings: map[string]string{"retention.ms": "1234567"}})
	if err != nil || n != 4 {
		t.Fatalf("made: %d partitions, %v", n, err)
	}
	if n, err := w.Topic(ctx(t), NewTopic{Name: "t", Partitions: 9}); err != nil || n != 3 {
		t.Fatalf("t: %d partitions, %v", n, err)
	}
	write(t, w, "t", 2, "a1", "a2")
	write(t, w, "made", 3, "x1")
	if err := w.Commit(ctx(t), state("position", "1", "schema/t", "one")); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(ctx(t), state("position", "2")); err != nil { // a state alone
		t.Fatal(err)
	}
	if err := w.Commit(ctx(t), nil); err != nil { // nothing at all
		t.Fatal(err)
	}
	write(t, w, "t", 0, "g1")
	if err := errors.Join(w.Abort(ctx(t)), w.Abort(ctx(t))); err != nil {
		t.Fatal(err)
	}
	write(t, w, "t", 0, "b1") // never committed
	if err := w.client.Flush(ctx(t)); err != nil {
		t.Fatal(err)
	}
	again := newWriter(t, b, WriterOptions{})
	if s := startWriter(t, again); s["position"] != "2" || s["schema/t"] != "one" || len(s) != 2 {
		t.Fatalf("state: %v", s)
	}
	// The first one is fenced.
	err = w.Commit(ctx(t), state("position", "3"))
	if !errors.Is(err, ErrFenced) || w.Retryable(err) {
		t.Errorf("the first writer: %v", err)
	}
	write(t, again, "t", 2, "a3")
	if err := again.Commit(ctx(t), state("position", "4")); err != nil {
		t.Fatal(err)
	}
	equal(t, "committed", visible(t, b), []string{"a1", "a2", "a3"})
}

// Without transactions all is visible at once, and the state stays behind what is written.
func TestWriterIdempotent(t *testing.T) {
	b := newBroker(t, 1)
	w := newWriter(t, b, WriterOptions{Idempotent: true})
	startWriter(t, w)
	write(t, w, "t", 0, "a1", "a2")
	if err := w.Commit(ctx(t), state("position", "2")); err != nil {
		t.Fatal(err)
	}
	write(t, w, "t", 0, "a3")
	if err := w.client.Flush(ctx(t)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if s := startWriter(t, newWriter(t, b, WriterOptions{Idempotent: true})); s["position"] != "2" {
		t.Fatalf("state: %v", s)
	}
	equal(t, "written", visible(t, b), []string{"a1", "a2", "a3"})
}

func TestWriterSizes(t *testing.T) {
	b := newBroker(t, 1)
	w := newWriter(t, b, WriterOptions{MaxMessage: 3 << 20})
	startWriter(t, w)
	if n, err := w.Topic(ctx(t), NewTopic{Name: "large", Partitions: 1}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if err := w.Write(ctx(t), &change.Record{Topic: "large", Value: slices.Repeat([]byte("x"), 2<<20)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(ctx(t), nil); err != nil {
		t.Fatal(err)
	}
	// One that is larger still is named, and ends the writing.
	_ = w.Write(ctx(t), &change.Record{Topic: "large", Key: []byte("k1"), Value: []byte(strings.Repeat("y", 4<<20))})
	err := w.Commit(ctx(t), nil)
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(fmt.Sprint(err), `"k1"`) || w.Retryable(err) {
		t.Errorf("a record that is too large: %v", err)
	}
	small := newWriter(t, b, WriterOptions{})
	startWriter(t, small)
	if _, err := small.Topic(ctx(t), NewTopic{Name: "small", Partitions: 1, Settings: map[string]string{"max.message.bytes": "1000"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := small.Topic(ctx(t), NewTopic{Name: "small", Partitions: 1}); !errors.Is(err, ErrTopicTakesLess) {
		t.Errorf("a topic that takes less: %v", err)
	}
}
