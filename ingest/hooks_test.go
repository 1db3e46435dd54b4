package ingest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
)

// company is what the other tables of a process could be: a budget that asks for
// a commit at any moment, a gate that makes wait, and an observer that checks
// what it is told.
type company struct {
	mu     sync.Mutex // a checkpoint waits for its turn beside the lane
	r      *rand.Rand
	inside int
	work   map[ingest.Work]int
	asked  int
	faults []string
	loads  int
	alive  int
	last   *ingest.Commit
	kinds  map[progress.Kind]int
}

func (s *company) faultf(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *company) Hold(bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes < 0 {
		s.faultf("a batch of %d bytes", bytes)
	}
	if ask := s.r.IntN(5) == 0; ask && bytes > 0 {
		s.asked++
		return true
	}
	return false
}

func (s *company) Enter(ctx context.Context, work ingest.Work) (func(), error) {
	s.mu.Lock()
	if s.inside++; s.inside > 1 {
		s.faultf("a table waits for %s while it is inside", work)
	}
	s.work[work]++
	wait := time.Duration(s.r.IntN(3)) * time.Second
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside--
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
	return leave, nil
}

func (s *company) Alive() { s.alive++ }

func (s *company) Loaded(v ingest.View) {
	s.loads++
	if (v.Progress == nil) != (v.Version < 0) || v.LastCommit > v.Version || v.Progress != nil && v.Committed.IsZero() {
		s.faultf("loaded %+v", v)
	}
	s.last = nil
}

func (s *company) Took(v ingest.View) {
	if v.Progress == nil || len(v.Ends) == 0 {
		s.faultf("took %+v", v)
	}
}

func (s *company) Committed(c ingest.Commit, v ingest.View) {
	switch {
	case v.Version != c.Version, v.LastCommit != c.Version, v.Progress.Kind != c.Kind, v.Progress.Totals.Missing() != 0, c.Took < 0, c.Open < 0:
		s.faultf("committed %+v with %+v", c, v)
	case s.last != nil && c.Version <= s.last.Version:
		s.faultf("version %d after %d", c.Version, s.last.Version)
	}
	s.last = &c
	s.kinds[c.Kind]++
}

// What the tables of a process share changes nothing of what a table holds.
func TestModelInCompany(t *testing.T) {
	runs := uint64(20)
	if testing.Short() || underRace {
		runs = 8
	}
	if fault := newScenario(1).play(t); fault != "" {
		t.Fatal(fault)
	}
	total := &company{work: map[ingest.Work]int{}, kinds: map[progress.Kind]int{}}
	for seed := range runs {
		seed += 1 << 41
		sc := newScenario(seed)
		s := sc.steps[len(sc.steps)-1]
		topic := sc.topic(s.n)
		tr := &trial{scenario: sc, store: mem.New(), dead: mem.New(), m: &model{rules: sc.rules}, checked: -1, seen: map[labelAt]bool{}}
		total.r = rand.New(rand.NewPCG(seed, 23))
		synctest.Test(t, func(t *testing.T) {
			for _, d := range []time.Duration{time.Duration(total.r.IntN(90)) * time.Second, time.Hour} {
				o := sc.o
				o.UntilEnd, o.Store, o.DeadLetterStore = false, tr.store, tr.dead
				o.DriftWait = time.Duration(s.wait) * time.Microsecond
				o.Now = func() time.Time { return time.UnixMicro(s.clock) }
				o.Budget, o.Gate, o.Observer = total, total, total
				lane, err := ingest.New(o, slowFeed{newFeed(rand.New(rand.NewPCG(seed, 29)), topic, s.clock, sc.most)})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(ctx, d)
				err = lane.Run(ctx)
				cancel()
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if total.inside != 0 {
					t.Fatalf("seed %d: it ended inside the gate", seed)
				}
			}
		})
		tr.m.look(topic, s.clock, s.wait, nil)
		if err := tr.compare(true); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, sc.print())
		}
		if len(total.faults) > 0 {
			t.Fatalf("seed %d: %q", seed, total.faults)
		}
	}
	t.Logf("%d starts, %d commits asked for, inside the gate %v, commits %v", total.loads, total.asked, total.work, total.kinds)
	if total.asked == 0 || total.work[ingest.SealWork] == 0 || total.work[ingest.IndexWork] == 0 || total.kinds[progress.Batch] == 0 || total.kinds[progress.SealKind] == 0 || total.alive == 0 {
		t.Error("something was never tried")
	}
}
