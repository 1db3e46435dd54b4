package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
)

// topicLog is a topic in memory. It is a Source that hands out what was sent
// so far, and keeps the group offsets that are published, which nothing reads.
type topicLog struct {
	mu        sync.Mutex
	logs      map[change.PartitionID]*partitionLog
	position  map[change.PartitionID]int64
	paused    map[change.PartitionID]bool
	published map[change.PartitionID]int64
	// onPublish, where set, is what PublishOffsets answers.
	onPublish func() error
	maxRecord int64
}

type partitionLog struct {
	records  []*change.Record
	earliest int64
	end      int64
	blocked  bool
}

var _ ingest.Source = (*topicLog)(nil)

func newTopic(partitions ...int32) *topicLog {
	l := &topicLog{logs: map[change.PartitionID]*partitionLog{}, paused: map[change.PartitionID]bool{}}
	for _, p := range partitions {
		l.partition(p)
	}
	return l
}

const topicName = "shop.user_dim"

func (l *topicLog) partition(p int32) *partitionLog {
	id := change.PartitionID{Topic: topicName, Partition: p}
	if l.logs[id] == nil {
		l.logs[id] = &partitionLog{}
	}
	return l.logs[id]
}

// send appends a record at its own offset.
func (l *topicLog) send(r *change.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.partition(r.Partition)
	p.records = append(p.records, r)
	p.end = max(p.end, r.Offset+1)
}

func (l *topicLog) Partitions(context.Context) ([]change.PartitionState, time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []change.PartitionState
	for id, p := range l.logs {
		out = append(out, change.PartitionState{ID: id, Earliest: p.earliest, End: p.end})
	}
	slices.SortFunc(out, func(a, b change.PartitionState) int { return a.ID.Compare(b.ID) })
	return out, time.Now(), nil
}

func (l *topicLog) Assign(_ context.Context, offsets map[change.PartitionID]int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.position, l.paused = map[change.PartitionID]int64{}, map[change.PartitionID]bool{}
	for id, at := range offsets {
		if p := l.logs[id]; p == nil || at < p.earliest || at > p.end {
			return fmt.Errorf("assign %s at %d: not there", id, at)
		}
		l.position[id] = at
	}
	return nil
}

func (l *topicLog) Poll(ctx context.Context, limit int) ([]change.Block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var blocks []change.Block
	for id, at := range l.position {
		p := l.logs[id]
		if l.paused[id] || p.blocked || limit == 0 {
			continue
		}
		block := change.Block{ID: id, Next: at}
		for _, r := range p.records {
			if r.Offset < at || limit == 0 {
				continue
			}
			copied := *r
			copied.Cap(l.maxRecord)
			block.Records = append(block.Records, &copied)
			block.Next = r.Offset + 1
			limit--
		}
		if block.Next > at {
			l.position[id] = block.Next
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		time.Sleep(time.Millisecond)
	}
	slices.SortFunc(blocks, func(a, b change.Block) int { return a.ID.Compare(b.ID) })
	return blocks, nil
}

func (l *topicLog) Pause(ids ...change.PartitionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.paused[id] = true
	}
}

func (l *topicLog) Resume(ids ...change.PartitionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.paused, id)
	}
}

func (l *topicLog) PublishOffsets(_ context.Context, offsets map[change.PartitionID]int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onPublish != nil {
		return l.onPublish()
	}
	l.published = offsets
	return nil
}

// recordAt finds a record by its coordinates.
func (l *topicLog) recordAt(partition int32, offset int64) *change.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.partition(partition).records {
		if r.Offset == offset {
			return r
		}
	}
	return nil
}
