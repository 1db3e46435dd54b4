package change

import (
	"cmp"
	"errors"
	"fmt"
)

// PartitionID names one partition of one topic.
type PartitionID struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// String gives TOPIC/PARTITION.
func (p PartitionID) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Compare orders by topic, then by partition number: -1, 0 or +1.
func (p PartitionID) Compare(q PartitionID) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Partition, q.Partition))
}

// PartitionState is what the broker said about a partition at one moment.
type PartitionState struct {
	ID PartitionID
	// Earliest is the log start offset: the first one that can still be read.
	Earliest int64
	// End is the high watermark, not the last stable offset: records of open
	// transactions count as unread.
	End int64
}

// Block is a stretch of one partition as it was read.
type Block struct {
	ID PartitionID
	// Records in offset order. It may be empty: a stretch of transaction
	// markers, aborted or compacted records only moves Next.
	Records []*Record
	// Next is the offset behind everything that the block covers: where
	// reading goes on. It never goes down from block to block of a partition.
	Next int64
}

// LostOffsetsError says that a partition was to be read from an offset that
// its log does not have: deleted by retention, cut off by a leader that knew
// less, or never there (another topic, a shorter recording). Errors about
// several partitions are joined; LostOffsets takes them apart.
type LostOffsetsError struct {
	ID PartitionID
	// Wanted is the offset asked for; the log holds [Earliest, End).
	Wanted, Earliest, End int64
}

// Lost gives the range of offsets [from, to) that can't be read any more.
func (e *LostOffsetsError) Lost() (from, to int64) {
	if e.Wanted < e.Earliest {
		return e.Wanted, e.Earliest
	}
	return e.End, e.Wanted
}

func (e *LostOffsetsError) Error() string {
	from, to := e.Lost()
	if e.Wanted < e.Earliest {
		return fmt.Sprintf("topic %s partition %d: needs offset %d, the oldest there is %d: %d offsets (%d-%d) are lost; load the table again, or accept the loss with on_lost_offsets: continue",
			e.ID.Topic, e.ID.Partition, e.Wanted, e.Earliest, to-from, from, to-1)
	}
	return fmt.Sprintf("topic %s partition %d: needs offset %d, but the log ends at %d: %d offsets (%d-%d) are gone; is it another topic or recording? load the table again, or accept the loss with on_lost_offsets: continue",
		e.ID.Topic, e.ID.Partition, e.Wanted, e.End, to-from, from, to-1)
}

// ErrTopicRecreated: a topic is another one than the offsets belong to.
var ErrTopicRecreated = errors.New("the topic was deleted and created again")

// LostOffsets collects every LostOffsetsError inside err, in the order joined.
func LostOffsets(err error) []*LostOffsetsError {
	switch e := err.(type) {
	case nil:
		return nil
	case *LostOffsetsError:
		return []*LostOffsetsError{e}
	case interface{ Unwrap() []error }:
		var out []*LostOffsetsError
		for _, inner := range e.Unwrap() {
			out = append(out, LostOffsets(inner)...)
		}
		return out
	case interface{ Unwrap() error }:
		return LostOffsets(e.Unwrap())
	}
	return nil
}

// OversizeKept is how much of the key and of the value of a record over the
// limit is kept: 1 MiB.
const OversizeKept = 1 << 20

// Cap cuts a record of more than limit bytes (key, value and headers; a limit
// of 0 or less means none) down to the first MiB of its key and value, without
// headers, and sets Oversize. The kept bytes are copies, so that the large
// buffer can go.
func (r *Record) Cap(limit int64) {
	if limit <= 0 {
		return
	}
	size := r.Size()
	if size <= limit {
		return
	}
	r.Oversize, r.Key, r.Value, r.Headers = size, cut(r.Key), cut(r.Value), nil
}

// Size is the number of bytes of key, value and headers.
func (r *Record) Size() int64 {
	size := int64(len(r.Key)) + int64(len(r.Value))
	for _, h := range r.Headers {
		size += int64(len(h.Key)) + int64(len(h.Value))
	}
	return size
}

// cut keeps nil apart from empty.
func cut(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b[:min(len(b), OversizeKept)]...)
}
