package ingest_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
)

// weather is what the way to a store does beside losing single calls: from one call on
// it is slow, or throttled for some calls; one write arrives late, after others that
// were made behind it; or a process dies in the middle of one, and where the store knows
// no better, a part of the object is there.
type weather struct {
	objstore.Store
	fault fault

	mu      sync.Mutex
	calls   int64
	dead    bool
	pending *lateWrite
}

// lateWrite is a write whose sender has given up waiting.
type lateWrite struct {
	arrives func(ctx context.Context) error
	due     int64 // calls from now
}

// storms are the kinds of fault that are the weather's.
var storms = map[string]bool{"late": true, "torn": true, "throttle": true, "slow": true}

// throttled is how many calls in a row are refused.
const throttled = 5

// tick counts a call, lets a late write arrive that is due, and says whether this call is hit.
func (w *weather) tick(ctx context.Context) (hit bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return false, faulty.ErrCrashed
	}
	w.calls++
	if p := w.pending; p != nil {
		if p.due--; p.due <= 0 {
			w.pending = nil
			_ = p.arrives(ctx) // nobody hears of it
		}
	}
	at := w.fault.call
	switch w.fault.kind {
	case "slow":
		for i := int64(0); w.calls >= at && i < w.calls%7; i++ {
			runtime.Gosched()
		}
	case "throttle":
		if w.calls >= at && w.calls < at+throttled {
			return false, fmt.Errorf("503 slow down: %w", faulty.ErrInjected)
		}
	}
	return w.calls == at, nil
}

// write makes a write, unless the weather has it otherwise.
func (w *weather) write(ctx context.Context, do func(ctx context.Context) error, part func(ctx context.Context) error) error {
	hit, err := w.tick(ctx)
	if err != nil {
		return err
	}
	switch {
	case hit && w.fault.kind == "late":
		w.mu.Lock()
		w.pending = &lateWrite{do, 1 + w.fault.call%9}
		w.mu.Unlock()
		return fmt.Errorf("no answer: %w", objstore.ErrUnknownOutcome)
	case hit && w.fault.kind == "torn":
		w.mu.Lock()
		w.dead = true
		w.mu.Unlock()
		if part != nil {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return faulty.ErrCrashed
	}
	return do(ctx)
}

// Put implements objstore.Store. One that is torn leaves half of the object.
func (w *weather) Put(ctx context.Context, key string, data []byte) error {
	return w.write(ctx,
		func(ctx context.Context) error { return w.Store.Put(ctx, key, data) },
		func(ctx context.Context) error { return w.Store.Put(ctx, key, data[:len(data)/2]) })
}

// PutIfAbsent implements objstore.Store. It is all or nothing on every store: the log rests on it.
func (w *weather) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return w.write(ctx, func(ctx context.Context) error { return w.Store.PutIfAbsent(ctx, key, data) }, nil)
}

// Delete implements objstore.Store.
func (w *weather) Delete(ctx context.Context, key string) error {
	return w.write(ctx, func(ctx context.Context) error { return w.Store.Delete(ctx, key) }, nil)
}

// Get implements objstore.Store.
func (w *weather) Get(ctx context.Context, key string) ([]byte, error) {
	if _, err := w.tick(ctx); err != nil {
		return nil, err
	}
	return w.Store.Get(ctx, key)
}

// GetRange implements objstore.Store.
func (w *weather) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if _, err := w.tick(ctx); err != nil {
		return nil, err
	}
	return w.Store.GetRange(ctx, key, offset, length)
}

// Head implements objstore.Store.
func (w *weather) Head(ctx context.Context, key string) (objstore.Object, error) {
	if _, err := w.tick(ctx); err != nil {
		return objstore.Object{}, err
	}
	return w.Store.Head(ctx, key)
}
