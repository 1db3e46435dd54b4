package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/change"
)

// Where a table that does not exist yet begins to read.
const (
	Earliest  = "earliest"
	Latest    = "latest"
	AtTime    = "time"
	AtOffsets = "offsets"
)

// Start says where a table that does not exist yet begins to read. Any start
// but Earliest (the default) marks its labels incomplete until a complete load.
type Start struct {
	At string
	// Time is the broker timestamp of the first record, with AtTime.
	Time time.Time
	// Offsets has every partition, with AtOffsets.
	Offsets map[change.PartitionID]int64
}

// String is for messages.
func (s Start) String() string {
	switch s.At {
	case AtTime:
		return s.Time.UTC().Format(time.RFC3339)
	case AtOffsets:
		return "given offsets"
	}
	return cmp.Or(s.At, Earliest)
}

// timeFinder is a Source that knows the first offset at or after a time.
type timeFinder interface {
	OffsetsAt(ctx context.Context, t time.Time) (map[change.PartitionID]int64, error)
}

// begin gives the offsets at which a new table begins: those of start, the
// earliest of a heartbeat topic.
func (l *Lane) begin(states []change.PartitionState) (map[change.PartitionID]int64, error) {
	offsets := map[change.PartitionID]int64{}
	var at map[change.PartitionID]int64
	var err error
	if l.o.Start.At == AtTime {
		if at, err = l.offsetsAt(states, l.o.Start.Time); err != nil {
			return nil, fmt.Errorf("table %s: start at %s: %w", l.o.Name, l.o.Start, err)
		}
	}
	var faults []error
	for _, st := range states {
		offset := st.Earliest
		switch {
		case l.isHeartbeat(st.ID):
		case l.o.Start.At == Latest:
			offset = st.End
		case l.o.Start.At == AtTime:
			offset = max(at[st.ID], st.Earliest)
		case l.o.Start.At == AtOffsets:
			given, named := l.o.Start.Offsets[st.ID]
			if !named {
				faults = append(faults, fmt.Errorf("start names no offset for partition %s: name every partition (it has %d to %d)", st.ID, st.Earliest, st.End))
			} else if given < st.Earliest || given > st.End {
				faults = append(faults, fmt.Errorf("start names offset %d for partition %s, which has %d to %d", given, st.ID, st.Earliest, st.End))
			}
			offset = given
		}
		offsets[st.ID] = offset
	}
	for id := range l.o.Start.Offsets {
		if l.o.Start.At == AtOffsets && !slices.ContainsFunc(states, func(st change.PartitionState) bool { return st.ID == id }) {
			faults = append(faults, fmt.Errorf("start names partition %s, which there is not", id))
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("table %s: %w: %w", l.o.Name, ErrRefused, errors.Join(faults...))
	}
	return offsets, nil
}

// offsetsAt asks the source, or where it can't tell reads until it knows.
func (l *Lane) offsetsAt(states []change.PartitionState, t time.Time) (map[change.PartitionID]int64, error) {
	if src, ok := l.source.(timeFinder); ok {
		return src.OffsetsAt(l.ctx, t)
	}
	at, from := map[change.PartitionID]int64{}, map[change.PartitionID]int64{}
	left := 0
	for _, st := range states {
		from[st.ID] = st.Earliest
		if st.End > st.Earliest {
			at[st.ID] = -1
			left++
		}
	}
	if err := l.source.Assign(l.ctx, from); err != nil {
		return nil, err
	}
	for left > 0 {
		blocks, err := l.source.Poll(l.ctx, l.o.PollRecords)
		if err != nil {
			return nil, err
		}
		for _, b := range blocks {
			i := slices.IndexFunc(states, func(st change.PartitionState) bool { return st.ID == b.ID })
			if i < 0 || at[b.ID] >= 0 {
				continue
			}
			if n := slices.IndexFunc(b.Records, func(r *change.Record) bool { return r.Timestamp >= t.UnixMilli() }); n >= 0 {
				at[b.ID] = b.Records[n].Offset
			} else if b.Next >= states[i].End {
				at[b.ID] = states[i].End
			} else {
				continue
			}
			left--
			l.source.Pause(b.ID)
		}
	}
	return at, nil
}

// markStart marks a new table that does not begin at the topic's start.
func (l *Lane) markStart() {
	if at := cmp.Or(l.o.Start.At, Earliest); at != Earliest {
		l.markIncomplete(fmt.Sprintf("the table was begun at %s, not at the start of its topics", l.o.Start))
	}
}

// compactor is a Source that knows which of its topics are compacted.
type compactor interface {
	Compacted(ctx context.Context) ([]string, error)
}

// checkCompacted refuses topics that Kafka removes changes from, unless that
// is allowed; then seals carry the attribute compacted.
func (l *Lane) checkCompacted() error {
	l.compacted = false
	src, ok := l.source.(compactor)
	if !ok {
		return nil
	}
	topics, err := src.Compacted(l.ctx)
	if err != nil {
		if err := sourceError(l.source, err); l.ctx.Err() != nil || isRetryable(err) {
			return fmt.Errorf("table %s: %w", l.o.Name, err)
		}
		l.o.Log.Warn("whether the topics are compacted is not known", zap.String("table", l.o.Name), zap.Error(err))
	}
	topics = slices.DeleteFunc(topics, func(t string) bool { return t == l.o.HeartbeatTopic })
	switch {
	case len(topics) == 0:
	case l.o.Compacted == Allow:
		l.compacted = true
	default:
		return fmt.Errorf("table %s: %w: topic %s is compacted (cleanup.policy), so Kafka removes changes that a day needs: set its cleanup.policy to delete, or set compacted: allow to read it all the same, which marks the labels",
			l.o.Name, ErrRefused, topics[0])
	}
	return nil
}
