package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gscd-io/gscd/ingest"
)

// Never more than the limit are inside, and who came first is let in first.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2)
		var mu sync.Mutex
		var order []int
		inside, most := 0, 0
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // they come one after the other
				leave, err := g.Enter(t.Context(), ingest.SealWork)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				inside++
				most = max(most, inside)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				inside--
				mu.Unlock()
				leave()
				leave() // once too often does no harm
			})
		}
		time.Sleep(500 * time.Millisecond)
		if u := g.use(); u.waiting != 8 || u.inside[ingest.SealWork] != 2 || u.inside[ingest.IndexWork] != 0 || u.limit != 2 {
			t.Errorf("in between: %+v", u)
		}
		all.Wait()
		if most != 2 || !slices.IsSorted(order) || len(order) != 10 {
			t.Errorf("%d at once, in the order %v", most, order)
		}
		if u := g.use(); u.waiting != 0 || u.inside[ingest.SealWork] != 0 {
			t.Errorf("at the end: %+v", u)
		}
	})
}

// Who gives up waiting leaves no hole behind.
func TestGateGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1)
		leave, err := g.Enter(t.Context(), ingest.IndexWork)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := g.Enter(ctx, ingest.SealWork)
			gone <- err
		}()
		let := make(chan struct{})
		go func() {
			synctest.Wait()
			leave, err := g.Enter(t.Context(), ingest.SealWork)
			if err == nil {
				leave()
			}
			close(let)
		}()
		time.Sleep(time.Second)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		leave()
		<-let
		if u := g.use(); u.waiting != 0 || u.inside[ingest.SealWork]+u.inside[ingest.IndexWork] != 0 {
			t.Errorf("at the end: %+v", u)
		}
		if _, err := g.Enter(ctx, ingest.SealWork); !errors.Is(err, context.Canceled) {
			t.Errorf("too late: %v", err)
		}
	})
}
