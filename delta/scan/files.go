package scan

import (
	"context"
	"sync"
)

// inOrder runs produce for 0..n-1, up to parallel of them at once, and hands
// what each sends to consume in the order of their numbers. It ends at the first
// error, or when consume asks for no more, and waits for what it started.
//
// A producer that is ahead holds at most queue items, so that memory is bounded;
// one that sends nothing (a filter takes no row) runs on unhindered.
func inOrder[T any](ctx context.Context, n, parallel int, produce func(ctx context.Context, i int, send func(T) error) error, consume func(T) (more bool)) error {
	const queue = 2
	type stream struct {
		items chan T
		err   error // read after items is closed
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	streams := make(chan *stream, parallel-1)
	running.Go(func() {
		defer close(streams)
		for i := range n {
			s := &stream{items: make(chan T, queue)}
			select {
			case streams <- s:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				defer close(s.items)
				s.err = produce(ctx, i, func(item T) error {
					select {
					case s.items <- item:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			})
		}
	})
	for s := range streams {
		for item := range s.items {
			if !consume(item) {
				return nil
			}
		}
		if s.err != nil {
			return s.err
		}
	}
	return ctx.Err()
}
