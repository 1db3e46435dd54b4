package notify

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Notifier has the sinks of a process, and the tables that they are told of. Safe for
// concurrent use.
type Notifier struct {
	sinks []*Sink
	log   *zap.Logger
	turns map[*Sink]chan struct{}

	mu     sync.Mutex
	tables map[string]*Table
	counts map[*Sink]*counts
}

type counts struct{ delivered, failed int64 }

// New makes a Notifier. Names of sinks differ.
func New(sinks []*Sink, log *zap.Logger) *Notifier {
	if log == nil {
		log = zap.NewNop()
	}
	n := &Notifier{sinks: sinks, log: log, turns: map[*Sink]chan struct{}{}, counts: map[*Sink]*counts{}, tables: map[string]*Table{}}
	for _, s := range sinks {
		n.turns[s] = make(chan struct{}, maxAtOnce)
		n.counts[s] = &counts{}
	}
	return n
}

// maxAtOnce bounds how many events one sink is told at once, of different tables.
const maxAtOnce = 4

// enter waits until a sink may be told another event.
func (n *Notifier) enter(ctx context.Context, s *Sink) (leave func(), err error) {
	select {
	case n.turns[s] <- struct{}{}:
		return func() { <-n.turns[s] }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *Notifier) count(s *Sink, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		n.counts[s].delivered++
	} else {
		n.counts[s].failed++
	}
}

// put has a table in the place of an earlier one of its name, which is ended.
func (n *Notifier) put(t *Table) {
	n.mu.Lock()
	before := n.tables[t.o.Name]
	n.tables[t.o.Name] = t
	n.mu.Unlock()
	if before != nil {
		before.end()
	}
}

// Failed tells that a table at a location has failed and is not started again.
func (n *Notifier) Failed(table, location string, err error) {
	n.mu.Lock()
	t := n.tables[table]
	n.mu.Unlock()
	if t == nil { // it failed before it was watched
		t = n.table(TableOptions{Name: table, Location: location})
		for _, s := range n.sinks {
			if s.covers(table) {
				t.add(s, told{})
			}
		}
		t.begin()
	}
	t.fail(err)
}

// Close gives what is under way until ctx ends to be told, as long as sinks take it, and
// ends all watching. What is left is told at the next Watch.
func (n *Notifier) Close(ctx context.Context) {
	n.mu.Lock()
	tables := n.tables
	n.tables = map[string]*Table{}
	n.mu.Unlock()
	var ended sync.WaitGroup
	for _, t := range tables {
		ended.Go(func() {
			t.drain(ctx)
			t.end()
		})
	}
	ended.Wait()
}

// Stats is how a sink stands.
type Stats struct {
	Sink string
	// Delivered and Failed count attempts since the start.
	Delivered, Failed int64
	// Undelivered are the events that wait, Oldest is since when the first of them does;
	// zero where none does.
	Undelivered int
	Oldest      time.Time
}

// Stats gives how each sink stands, in the order of New.
func (n *Notifier) Stats() []Stats {
	n.mu.Lock()
	tables := slices.Collect(maps.Values(n.tables))
	out := make([]Stats, len(n.sinks))
	for i, s := range n.sinks {
		out[i] = Stats{Sink: s.Name, Delivered: n.counts[s].delivered, Failed: n.counts[s].failed}
	}
	n.mu.Unlock()
	for _, t := range tables {
		for _, l := range t.lines {
			s := &out[slices.Index(n.sinks, l.sink)]
			count, since := l.undelivered()
			s.Undelivered += count
			if !since.IsZero() && (s.Oldest.IsZero() || since.Before(s.Oldest)) {
				s.Oldest = since
			}
		}
	}
	return out
}
