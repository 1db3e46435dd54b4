package ingest

import (
	"errors"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// brokenDecoder is a decoder with a fault.
type brokenDecoder struct{}

func (brokenDecoder) Decode(r *change.Record, _ *change.Arena, _ *change.Change) error {
	_ = r.Value[len(r.Value)]
	return nil
}

func (brokenDecoder) Rows(*change.Record) int               { return 1 }
func (brokenDecoder) Alone(r *change.Record) *change.Record { return r }

func (brokenDecoder) Format() string { return "broken" }

// A panic of the decoder beside the lane is the table's error, with its place.
func TestDecoderPanics(t *testing.T) {
	var d decode.Decoder = brokenDecoder{}
	c := &chunk{records: []*change.Record{{Offset: 7}}, changes: make([]change.Change, 1), errs: make([]error, 1), format: "broken"}
	c.broken = Caught(func() error {
		return c.decode(map[string]decode.Decoder{"broken": d}, &change.Arena{}, &Options{})
	})
	var broken *PanicError
	if !errors.As(c.broken, &broken) || !strings.Contains(string(broken.Stack), "brokenDecoder") {
		t.Fatalf("%v", c.broken)
	}
	// The lane meets it where the chunk is due.
	ready := make(chan struct{})
	close(ready)
	c.ready = ready
	id := change.PartitionID{Topic: "t", Partition: 1}
	q := &queue{o: &Options{Name: "x"}, pending: map[change.PartitionID][]*chunk{id: {c}}, order: []change.PartitionID{id}, chunks: 1, dry: true, paused: map[change.PartitionID]bool{}}
	_, _, err := q.next(t.Context(), func(change.PartitionID) bool { return true })
	if !errors.As(err, &broken) || !strings.HasPrefix(err.Error(), "table x: decode t/1 from offset 7 on: internal error: ") {
		t.Errorf("%v", err)
	}
}
