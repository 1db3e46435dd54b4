package bench

import (
	"context"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// Stream is a source of records that are made as they are read: one partition
// of n records. It is an ingest.Source.
type Stream struct {
	// Make gives the record of an offset; it is called in order, once each,
	// from the offset that was assigned.
	Make func(offset int64) *change.Record
	N    int64
	at   int64
	off  bool
}

var streamID = change.PartitionID{Topic: Topic}

// Partitions gives the one partition.
func (s *Stream) Partitions(context.Context) ([]change.PartitionState, time.Time, error) {
	return []change.PartitionState{{ID: streamID, End: s.N}}, time.Now(), nil
}

// Assign starts at an offset.
func (s *Stream) Assign(_ context.Context, offsets map[change.PartitionID]int64) error {
	s.at = offsets[streamID]
	return nil
}

// Poll makes the next records.
func (s *Stream) Poll(_ context.Context, limit int) ([]change.Block, error) {
	n := min(int64(limit), s.N-s.at)
	if n <= 0 || s.off {
		return nil, nil
	}
	b := change.Block{ID: streamID, Records: make([]*change.Record, n)}
	for i := range b.Records {
		b.Records[i] = s.Make(s.at)
		s.at++
	}
	b.Next = s.at
	return []change.Block{b}, nil
}

// Pause stops the partition.
func (s *Stream) Pause(...change.PartitionID) { s.off = true }

// Resume lets it go on.
func (s *Stream) Resume(...change.PartitionID) { s.off = false }
