package scenario

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// source is where a scenario's events come from.
type source interface {
	ingest.Source
	Close() error
}

// openSource gives the broker's topic, or the generator in this process.
func openSource(s *Spec, m *meter) (source, error) {
	if len(s.Brokers) > 0 {
		return kafka.New(kafka.Options{Brokers: s.Brokers, Topics: []string{s.Topic}, PollWait: 50 * time.Millisecond})
	}
	g, err := bench.NewGenerator(s.Params)
	if err != nil {
		return nil, err
	}
	made := &made{g: g, n: s.events()}
	m.source = made.used
	return made, nil
}

// How far the generator runs ahead: so many blocks of so many records.
const (
	ahead        = 4
	blockRecords = 2_000
)

var madeID = change.PartitionID{Topic: bench.Topic}

// made is a source of one partition whose records a goroutine on a thread of its own makes,
// so that its processor time can be told apart.
type made struct {
	g      *bench.Generator
	n      int64
	blocks chan change.Block
	stop   chan struct{} // nil where nothing is made
	cpu    atomic.Int64  // nanoseconds
	rest   change.Block  // what the last Poll left
	paused bool
}

func (m *made) used() time.Duration { return time.Duration(m.cpu.Load()) }

// make makes the records from an offset on. It has a generator of its own.
func (m *made) make(g *bench.Generator, from int64, blocks chan<- change.Block, stop <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(blocks)
	counted := threadTime()
	for range from {
		g.Next()
	}
	for at := from; at < m.n; {
		b := change.Block{ID: madeID, Records: make([]*change.Record, min(blockRecords, m.n-at))}
		for i := range b.Records {
			b.Records[i] = g.Record(g.Next())
		}
		at += int64(len(b.Records))
		b.Next = at
		now := threadTime()
		m.cpu.Add(int64(now - counted))
		counted = now
		select {
		case blocks <- b:
		case <-stop:
			return
		}
	}
}

// Partitions implements ingest.Source.
func (m *made) Partitions(context.Context) ([]change.PartitionState, time.Time, error) {
	return []change.PartitionState{{ID: madeID, End: m.n}}, time.Now(), nil
}

// Assign implements ingest.Source. The workload is made again from its beginning.
func (m *made) Assign(_ context.Context, offsets map[change.PartitionID]int64) error {
	if err := m.Close(); err != nil {
		return err
	}
	g, err := bench.NewGenerator(m.g.Params())
	if err != nil {
		return err
	}
	m.rest, m.paused = change.Block{}, false
	m.blocks, m.stop = make(chan change.Block, ahead), make(chan struct{})
	go m.make(g, offsets[madeID], m.blocks, m.stop)
	return nil
}

// Poll implements ingest.Source.
func (m *made) Poll(ctx context.Context, limit int) ([]change.Block, error) {
	if m.paused {
		return nil, nil
	}
	if len(m.rest.Records) == 0 {
		select {
		case m.rest = <-m.blocks:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out := m.rest
	if len(out.Records) == 0 {
		return nil, nil
	}
	m.rest = change.Block{}
	if len(out.Records) > limit {
		m.rest = change.Block{ID: madeID, Records: out.Records[limit:], Next: out.Next}
		out.Records = out.Records[:limit]
		out.Next = out.Records[limit-1].Offset + 1
	}
	return []change.Block{out}, nil
}

// Pause implements ingest.Source.
func (m *made) Pause(...change.PartitionID) { m.paused = true }

// Resume implements ingest.Source.
func (m *made) Resume(...change.PartitionID) { m.paused = false }

// Close ends the making.
func (m *made) Close() error {
	if m.stop != nil {
		close(m.stop)
		m.stop = nil
	}
	return nil
}

// A startedMade and a startedConsumer call begin at their first Poll: the lane is loaded
// then, its index stands. They are two since the lane asks a source what it can do.
type startedMade struct {
	*made
	begin once
}

type startedConsumer struct {
	*kafka.Consumer
	begin once
}

// startedAt wraps a source.
func startedAt(src source, begin func()) ingest.Source {
	switch src := src.(type) {
	case *made:
		return &startedMade{src, once{do: begin}}
	case *kafka.Consumer:
		return &startedConsumer{src, once{do: begin}}
	}
	return src
}

// once calls do the first time.
type once struct {
	do   func()
	done bool
}

func (o *once) call() {
	if !o.done {
		o.done = true
		o.do()
	}
}

func (s *startedMade) Poll(ctx context.Context, limit int) ([]change.Block, error) {
	s.begin.call()
	return s.made.Poll(ctx, limit)
}

func (s *startedConsumer) Poll(ctx context.Context, limit int) ([]change.Block, error) {
	s.begin.call()
	return s.Consumer.Poll(ctx, limit)
}
