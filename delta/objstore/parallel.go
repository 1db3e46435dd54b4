package objstore

import (
	"context"
	"sync"
)

// InParallel runs do for 0..n-1, up to parallel of them at once and in no order: most
// of a request is waiting for its answer. It gives the first error, or ctx's, after all
// that were begun have ended; what was not begun by then is left out.
func InParallel(ctx context.Context, n, parallel int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	next := make(chan int)
	for range min(n, parallel) {
		running.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	running.Wait()
	return context.Cause(ctx)
}
