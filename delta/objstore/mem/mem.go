package mem

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
)

// object is immutable once stored.
type object struct {
	data     []byte
	modified time.Time
}

// Store keeps objects in a map. It is safe for concurrent use.
type Store struct {
	mu      sync.RWMutex
	objects map[string]object
	now     func() time.Time
}

var _ objstore.Streamer = (*Store)(nil)

// New makes an empty store on the system clock.
func New() *Store {
	return &Store{objects: map[string]object{}, now: time.Now}
}

// SetClock makes later writes take their time from now.
func (s *Store) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// SetModified gives an object a time of its own, as if it had been written
// then. The error wraps objstore.ErrNotExist.
func (s *Store) SetModified(key string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	if !ok {
		return missing("set time of", key)
	}
	o.modified = at
	s.objects[key] = o
	return nil
}

// Clone gives the store as a crash at this moment would leave it: every
// finished write, nothing else. It shares the clock.
func (s *Store) Clone() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &Store{objects: maps.Clone(s.objects), now: s.now}
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	o, err := s.find(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	return append([]byte{}, o.data...), nil
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	o, err := s.find(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 {
		return nil, fmt.Errorf("get %s: range of %d bytes at %d is negative", key, length, offset)
	}
	size := int64(len(o.data))
	from := min(offset, size)
	return append([]byte{}, o.data[from:from+min(length, size-from)]...), nil
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (objstore.Object, error) {
	o, err := s.find(ctx, "head", key)
	if err != nil {
		return objstore.Object{}, err
	}
	return describe(key, o), nil
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, key, data, false)
}

// PutIfAbsent implements objstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, key, data, true)
}

func (s *Store) write(ctx context.Context, key string, data []byte, absent bool) error {
	if err := check(ctx, "put", key); err != nil {
		return err
	}
	own := bytes.Clone(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[key]; taken && absent {
		return fmt.Errorf("put %s: %w", key, objstore.ErrExist)
	}
	s.objects[key] = object{own, s.now()}
	return nil
}

// Create implements objstore.Streamer.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	if err := check(ctx, "put", key); err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, s: s, key: key}, nil
}

// writer is an object in the making.
type writer struct {
	ctx   context.Context
	s     *Store
	key   string
	data  []byte
	ended bool
}

// Write implements objstore.Writer.
func (w *writer) Write(data []byte) (int, error) {
	if w.ended {
		return 0, objstore.ErrEnded
	}
	if err := w.ctx.Err(); err != nil {
		return 0, fmt.Errorf("put %s: %w", w.key, err)
	}
	w.data = append(w.data, data...)
	return len(data), nil
}

// Commit implements objstore.Writer.
func (w *writer) Commit() error {
	if w.ended {
		return objstore.ErrEnded
	}
	w.ended = true
	if err := check(w.ctx, "put", w.key); err != nil {
		return err
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.objects[w.key] = object{w.data, w.s.now()}
	return nil
}

// Abort implements objstore.Writer.
func (w *writer) Abort() { w.ended = true }

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := check(ctx, "delete", key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	return nil
}

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		if err := objstore.CheckPrefix(prefix); err != nil {
			yield(objstore.Object{}, fmt.Errorf("list: %w", err))
			return
		}
		for _, o := range s.matching(prefix, startAfter) {
			if err := ctx.Err(); err != nil {
				yield(objstore.Object{}, fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (s *Store) matching(prefix, startAfter string) []objstore.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []objstore.Object
	for key, o := range s.objects {
		if strings.HasPrefix(key, prefix) && key > startAfter {
			found = append(found, describe(key, o))
		}
	}
	slices.SortFunc(found, func(a, b objstore.Object) int { return cmp.Compare(a.Key, b.Key) })
	return found
}

// String implements objstore.Store.
func (s *Store) String() string { return "mem:" }

func (s *Store) find(ctx context.Context, op, key string) (object, error) {
	if err := check(ctx, op, key); err != nil {
		return object{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[key]
	if !ok {
		return object{}, missing(op, key)
	}
	return o, nil
}

func check(ctx context.Context, op, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", op, key, err)
	}
	return nil
}

func missing(op, key string) error { return fmt.Errorf("%s %s: %w", op, key, objstore.ErrNotExist) }

func describe(key string, o object) objstore.Object {
	return objstore.Object{Key: key, Size: int64(len(o.data)), Modified: o.modified}
}
