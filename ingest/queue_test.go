package ingest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// endless is a Source of large records that never ends.
type endless struct {
	value []byte
	next  int64
}

func (e *endless) Partitions(context.Context) ([]change.PartitionState, time.Time, error) {
	return nil, time.Now(), nil
}
func (e *endless) Assign(context.Context, map[change.PartitionID]int64) error { return nil }
func (e *endless) Pause(...change.PartitionID)                                {}
func (e *endless) Resume(...change.PartitionID)                               {}

func (e *endless) Poll(context.Context, int) ([]change.Block, error) {
	b := change.Block{ID: change.PartitionID{Topic: "t"}}
	for range 8 {
		b.Records = append(b.Records, &change.Record{Topic: "t", Offset: e.next, Value: e.value})
		e.next++
	}
	b.Next = e.next
	return []change.Block{b}, nil
}

// What is fetched ahead of a slow lane is bounded in bytes, however large records are.
func TestQueueBoundsBytes(t *testing.T) {
	source := &endless{value: bytes.Repeat([]byte("x"), 1<<20)}
	o := Options{Decoders: 1, PollRecords: 100}
	q := newQueue(source, &o)
	defer q.close()
	q.format = "debezium-json"
	most := int64(0)
	for range 300 {
		_, c, err := q.next(t.Context(), func(change.PartitionID) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		if q.flying != nil { // or how much comes ahead would be the scheduler's choice
			p := <-q.flying
			q.flying <- p
		}
		if !c.done() {
			c.advance() // a record at a time: the lane is the slow one
		}
		if c.done() {
			c.finish()
		}
		most = max(most, q.bytes)
	}
	if limit := int64(lowWaterBytes + 2*8<<20); most > limit || most < 16<<20 {
		t.Errorf("%d MiB were fetched ahead, want 16 to %d", most>>20, limit>>20)
	}
}
