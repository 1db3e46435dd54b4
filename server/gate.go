package server

import (
	"context"
	"runtime"
	"sync"

	"github.com/gscd-io/gscd/ingest"
)

// Gate lets in a bounded number of tables at once, in the order in which they
// came. At midnight every table wants to seal at the same moment; one after the
// other they take less memory, and the first ones are done sooner.
type Gate struct {
	mu      sync.Mutex
	limit   int
	inside  map[ingest.Work]int
	running int
	waiting []*turn // first come, first served
}

// turn is one that waits; ready is closed when it is let in.
type turn struct {
	work  ingest.Work
	ready chan struct{}
}

// DefaultHeavyTasks is how many tables do heavy work at once.
func DefaultHeavyTasks() int { return max(2, runtime.GOMAXPROCS(0)) }

// NewGate makes a gate that lets limit (at least 1) in.
func NewGate(limit int) *Gate {
	return &Gate{limit: max(1, limit), inside: map[ingest.Work]int{}}
}

// Enter waits for a turn. leave may be called more than once.
func (g *Gate) Enter(ctx context.Context, work ingest.Work) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := &turn{work, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, t)
	g.admit()
	g.mu.Unlock()
	leave = sync.OnceFunc(func() { g.left(t) })
	select {
	case <-t.ready:
		return leave, nil
	case <-ctx.Done():
		g.giveUp(t)
		return nil, ctx.Err()
	}
}

// admit lets in who is next, as long as there is room. The caller holds mu.
func (g *Gate) admit() {
	for g.running < g.limit && len(g.waiting) > 0 {
		t := g.waiting[0]
		g.waiting = g.waiting[1:]
		g.running++
		g.inside[t.work]++
		close(t.ready)
	}
}

func (g *Gate) left(t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.inside[t.work]--
	g.admit()
}

// giveUp takes back a turn that nobody waits for any more; it may have come
// in the same moment.
func (g *Gate) giveUp(t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == t {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			return
		}
	}
	g.running--
	g.inside[t.work]--
	g.admit()
}

// gateUse is how a gate stands.
type gateUse struct {
	inside  map[ingest.Work]int
	waiting int
	limit   int
}

func (g *Gate) use() gateUse {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := gateUse{map[ingest.Work]int{ingest.SealWork: 0, ingest.CheckpointWork: 0, ingest.IndexWork: 0}, len(g.waiting), g.limit}
	for work, n := range g.inside {
		u.inside[work] = n
	}
	return u
}
