package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// feed is a broker at one moment: the records that have arrived, given out in
// random fetches, in any order of the partitions.
type feed struct {
	r     *rand.Rand
	clock time.Time
	most  int // records of one partition in a fetch
	logs  map[change.PartitionID]*partitionLog
	ended []error // faults of the caller
}

type partitionLog struct {
	events   []*event
	earliest int64
	end      int64
	next     int64 // offset that the next fetch begins at
	assigned bool
	paused   bool
}

// newFeed makes the broker of some partitions; one without a record is there too.
func newFeed(r *rand.Rand, topic map[int32][]*event, clock int64, most int) *feed {
	f := &feed{r: r, clock: time.UnixMicro(clock), most: most, logs: map[change.PartitionID]*partitionLog{}}
	for p, events := range topic {
		l := &partitionLog{events: events}
		if len(events) > 0 {
			l.earliest, l.end = events[0].record.Offset, events[len(events)-1].next
		}
		f.logs[change.PartitionID{Topic: "t", Partition: p}] = l
	}
	return f
}

// Partitions implements ingest.Source.
func (f *feed) Partitions(ctx context.Context) ([]change.PartitionState, time.Time, error) {
	var out []change.PartitionState
	for id, l := range f.logs {
		out = append(out, change.PartitionState{ID: id, Earliest: l.earliest, End: l.end})
	}
	slices.SortFunc(out, func(a, b change.PartitionState) int { return a.ID.Compare(b.ID) })
	return out, f.clock, ctx.Err()
}

// SettledEnds says that all of it can be read, be it after some empty polls.
func (f *feed) SettledEnds(ctx context.Context) (map[change.PartitionID]int64, error) {
	out := map[change.PartitionID]int64{}
	for id, l := range f.logs {
		out[id] = l.end
	}
	return out, ctx.Err()
}

// Assign implements ingest.Source.
func (f *feed) Assign(ctx context.Context, offsets map[change.PartitionID]int64) error {
	for id, l := range f.logs {
		l.next, l.assigned = offsets[id], false
		_, l.assigned = offsets[id]
		l.paused = false
		if l.assigned && (l.next < l.earliest || l.next > l.end) {
			return fmt.Errorf("assign %s: offset %d is outside [%d, %d]", id, l.next, l.earliest, l.end)
		}
	}
	for id := range offsets {
		if f.logs[id] == nil {
			return fmt.Errorf("assign %s: there is no such partition", id)
		}
	}
	return ctx.Err()
}

// Pause implements ingest.Source.
func (f *feed) Pause(ids ...change.PartitionID) { f.setPaused(ids, true) }

// Resume implements ingest.Source.
func (f *feed) Resume(ids ...change.PartitionID) { f.setPaused(ids, false) }

func (f *feed) setPaused(ids []change.PartitionID, paused bool) {
	for _, id := range ids {
		if f.logs[id] == nil {
			f.ended = append(f.ended, errors.New("pause of an unknown partition"))
			continue
		}
		f.logs[id].paused = paused
	}
}

// Poll implements ingest.Source: some partitions, some records of each; now and
// then nothing, as from a broker that is slow.
func (f *feed) Poll(ctx context.Context, most int) ([]change.Block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.r.IntN(20) == 0 {
		return nil, nil
	}
	ids := slices.SortedFunc(maps.Keys(f.logs), change.PartitionID.Compare)
	f.r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var blocks []change.Block
	for _, id := range ids {
		l := f.logs[id]
		if !l.assigned || l.paused || l.next >= l.end {
			continue
		}
		n := 1 + f.r.IntN(f.most)
		b := change.Block{ID: id, Next: l.next}
		for _, e := range l.events {
			if e.record.Offset < l.next {
				continue
			}
			if n == 0 || most == 0 {
				break
			}
			if e.record.Offset > b.Next && f.r.IntN(3) == 0 {
				b.Next = e.record.Offset // a stretch without records ends the block
				break
			}
			b.Records = append(b.Records, e.record)
			b.Next = e.record.Offset + 1
			n, most = n-1, most-1
			if f.r.IntN(2) == 0 {
				b.Next = e.next
			}
		}
		if len(b.Records) == 0 && b.Next == l.next {
			b.Next = l.end // nothing but holes up to the end
			if i := slices.IndexFunc(l.events, func(e *event) bool { return e.record.Offset >= l.next }); i >= 0 {
				continue
			}
		}
		l.next = b.Next
		blocks = append(blocks, b)
		if f.r.IntN(2) == 0 {
			break
		}
	}
	return blocks, nil
}
