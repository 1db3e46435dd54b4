package server

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
)

// The operations of a store and how they end, as metrics name them.
var (
	storeOps   = []string{"get", "get_range", "head", "put", "put_if_absent", "delete", "list"}
	storeCodes = []string{"ok", "not_found", "exists", "temporary", "unknown", "canceled", "error"}
)

func codeOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, objstore.ErrNotExist):
		return "not_found"
	case errors.Is(err, objstore.ErrExist):
		return "exists"
	case errors.Is(err, objstore.ErrUnknownOutcome):
		return "unknown"
	case errors.Is(err, objstore.ErrTemporary):
		return "temporary"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "error"
}

// storeCall is one kind of call and its end.
type storeCall struct{ op, code string }

// storeUse counts the calls of a table's stores. A call that a store repeats by
// itself, or makes of several requests (large objects), is one.
type storeUse struct {
	mu            sync.Mutex
	calls         map[storeCall]int64
	read, written int64
	// pending are the calls under way.
	pending map[*storeWait]bool
}

// storeWait is a call that was not answered yet.
type storeWait struct {
	op, key string
	since   time.Time
}

// begin notes that a call is under way, until done is called.
func (u *storeUse) begin(op, key string) (done func()) {
	w := &storeWait{op, key, time.Now()}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pending == nil {
		u.pending = map[*storeWait]bool{}
	}
	u.pending[w] = true
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.pending, w)
	}
}

// slowCall is for how long a call of the storage may go unanswered before it is told of.
const slowCall = 10 * time.Second

// oldest is the call that has waited longest, nil where none waits for long.
func (u *storeUse) oldest(now time.Time) (oldest *storeWait) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for w := range u.pending {
		if now.Sub(w.since) >= slowCall && (oldest == nil || w.since.Before(oldest.since)) {
			oldest = w
		}
	}
	return oldest
}

func (u *storeUse) count(op string, err error, read, written int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = map[storeCall]int64{}
	}
	u.calls[storeCall{op, codeOf(err)}]++
	u.read += int64(read)
	if err == nil {
		u.written += int64(written)
	}
}

// watchedStore is a store whose calls are counted.
type watchedStore struct {
	objstore.Store
	use *storeUse
}

var _ objstore.Streamer = watchedStore{}

// Get is Store.Get.
func (s watchedStore) Get(ctx context.Context, key string) ([]byte, error) {
	defer s.use.begin("get", key)()
	data, err := s.Store.Get(ctx, key)
	s.use.count("get", err, len(data), 0)
	return data, err
}

// GetRange is Store.GetRange.
func (s watchedStore) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	defer s.use.begin("get_range", key)()
	data, err := s.Store.GetRange(ctx, key, offset, length)
	s.use.count("get_range", err, len(data), 0)
	return data, err
}

// Head is Store.Head.
func (s watchedStore) Head(ctx context.Context, key string) (objstore.Object, error) {
	defer s.use.begin("head", key)()
	o, err := s.Store.Head(ctx, key)
	s.use.count("head", err, 0, 0)
	return o, err
}

// Put is Store.Put.
func (s watchedStore) Put(ctx context.Context, key string, data []byte) error {
	defer s.use.begin("put", key)()
	err := s.Store.Put(ctx, key, data)
	s.use.count("put", err, 0, len(data))
	return err
}

// Create is Streamer.Create; the object counts as a put when it ends.
func (s watchedStore) Create(ctx context.Context, key string) (objstore.Writer, error) {
	w, err := objstore.Begin(ctx, s.Store, key)
	if err != nil {
		s.use.count("put", err, 0, 0)
		return nil, err
	}
	return &watchedWriter{Writer: w, use: s.use, key: key}, nil
}

// watchedWriter counts the object that it makes.
type watchedWriter struct {
	objstore.Writer
	use  *storeUse
	key  string
	size int
}

// Write is Writer.Write.
func (w *watchedWriter) Write(data []byte) (int, error) {
	defer w.use.begin("put", w.key)()
	n, err := w.Writer.Write(data)
	w.size += n
	return n, err
}

// Commit is Writer.Commit.
func (w *watchedWriter) Commit() error {
	defer w.use.begin("put", w.key)()
	err := w.Writer.Commit()
	w.use.count("put", err, 0, w.size)
	return err
}

// PutIfAbsent is Store.PutIfAbsent.
func (s watchedStore) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	defer s.use.begin("put_if_absent", key)()
	err := s.Store.PutIfAbsent(ctx, key, data)
	s.use.count("put_if_absent", err, 0, len(data))
	return err
}

// Delete is Store.Delete.
func (s watchedStore) Delete(ctx context.Context, key string) error {
	defer s.use.begin("delete", key)()
	err := s.Store.Delete(ctx, key)
	s.use.count("delete", err, 0, 0)
	return err
}

// List is Store.List; one sequence is one call.
func (s watchedStore) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		var fault error
		defer func() { s.use.count("list", fault, 0, 0) }()
		done := s.use.begin("list", prefix)
		defer func() { done() }()
		for o, err := range s.Store.List(ctx, prefix, startAfter) {
			done() // what the caller does with it is no waiting for the storage
			fault = err
			if !yield(o, err) {
				return
			}
			done = s.use.begin("list", prefix)
		}
	}
}
