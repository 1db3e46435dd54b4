package objstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
)

func TestInParallel(t *testing.T) {
	ctx := context.Background()
	var mu sync.Mutex
	seen, inside, most := map[int]int{}, 0, 0
	err := objstore.InParallel(ctx, 100, 3, func(_ context.Context, i int) error {
		mu.Lock()
		seen[i]++
		inside++
		most = max(most, inside)
		mu.Unlock()
		mu.Lock()
		inside--
		mu.Unlock()
		return nil
	})
	if err != nil || len(seen) != 100 || most > 3 {
		t.Errorf("%v: %d of 100 were run, %d at once", err, len(seen), most)
	}
	for i, n := range seen {
		if n != 1 {
			t.Errorf("%d was run %d times", i, n)
		}
	}
	if err := objstore.InParallel(ctx, 0, 3, nil); err != nil {
		t.Errorf("none: %v", err)
	}
}

func TestInParallelEnds(t *testing.T) {
	fault := errors.New("the first one")
	var began, ended atomic.Int64
	err := objstore.InParallel(context.Background(), 1000, 4, func(ctx context.Context, i int) error {
		began.Add(1)
		defer ended.Add(1)
		if i == 2 {
			return fault
		}
		if i > 2 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	if err != fault || began.Load() != ended.Load() || began.Load() > 8 {
		t.Errorf("%v: %d began, %d ended", err, began.Load(), ended.Load())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := objstore.InParallel(ctx, 3, 2, func(context.Context, int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("of a context that has ended: %v", err)
	}
}
