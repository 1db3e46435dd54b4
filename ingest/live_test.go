package ingest_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
)

// TestModelLive runs the lane as a service does, without an end: batches close on
// time, the broker is asked again now and then, and a stop comes in the middle of
// everything. What has arrived by then must be as the model says.
func TestModelLive(t *testing.T) {
	runs := uint64(100)
	if testing.Short() || underRace {
		runs = 30
	}
	// What is made once for the process must not be made inside a bubble.
	if fault := newScenario(1).play(t); fault != "" {
		t.Fatal(fault)
	}
	for seed := range runs {
		seed += 1 << 40
		sc := newScenario(seed)
		s := sc.steps[len(sc.steps)-1]
		topic := sc.topic(s.n)
		tr := newTrial(sc, mem.New(), mem.New())
		synctest.Test(t, func(t *testing.T) {
			// Stopped and started again some times, then long enough to read everything.
			r := rand.New(rand.NewPCG(seed, 19))
			for _, d := range []time.Duration{time.Duration(r.IntN(5)) * time.Second, time.Duration(r.IntN(90)) * time.Second, 30 * time.Minute} {
				o := sc.o
				o.UntilEnd, o.Store, o.DeadLetterStore = false, tr.store, tr.dead
				o.DriftWait = time.Duration(s.wait) * time.Microsecond
				o.Now = func() time.Time { return time.UnixMicro(s.clock) }
				lane, err := ingest.New(o, slowFeed{newFeed(r, topic, s.clock, sc.most)})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(ctx, d)
				err = lane.Run(ctx)
				cancel()
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
		tr.m.look(topic, s.clock, s.wait, nil)
		if err := tr.compare(true); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, sc.print())
		}
	}
}

// slowFeed takes time for each fetch.
type slowFeed struct{ *feed }

func (s slowFeed) Poll(ctx context.Context, most int) ([]change.Block, error) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
	return s.feed.Poll(ctx, most)
}
