package counting

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Counts are calls and bytes.
type Counts struct {
	// Calls by kind. A GetRange is a Get; a List is one call however many pages it has.
	Gets, Heads, Puts, ConditionalPuts, Deletes, Lists int
	// Read and Written are bytes of objects.
	Read, Written int64
}

// Calls gives all calls.
func (c Counts) Calls() int {
	return c.Gets + c.Heads + c.Puts + c.ConditionalPuts + c.Deletes + c.Lists
}

func (c Counts) String() string {
	return fmt.Sprintf("%d gets (%d bytes), %d heads, %d puts, %d conditional puts (%d bytes), %d deletes, %d lists",
		c.Gets, c.Read, c.Heads, c.Puts, c.ConditionalPuts, c.Written, c.Deletes, c.Lists)
}

// Store counts the calls of the store below.
type Store struct {
	below objstore.Store

	mu   sync.Mutex
	log  Counts          // of objects below _delta_log
	data Counts          // of all others
	keys map[string]bool // of the data objects that were read

	largestRead, largestWrite int
}

var _ objstore.Streamer = (*Store)(nil)

// New wraps a store.
func New(below objstore.Store) *Store { return &Store{below: below, keys: map[string]bool{}} }

// Log gives the counts of objects below _delta_log/.
func (s *Store) Log() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

// Data gives the counts of all other objects: data files and deletion vectors.
func (s *Store) Data() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data
}

// Largest gives the most bytes that one call read, and that one call wrote: a Put, or
// a Write of an object that is streamed.
func (s *Store) Largest() (read, written int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.largestRead, s.largestWrite
}

func (s *Store) wrote(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.largestWrite = max(s.largestWrite, n)
}

// Opened gives the keys of the data files (*.parquet) that were read, sorted.
func (s *Store) Opened() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key := range s.keys {
		if strings.HasSuffix(key, ".parquet") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Reset sets all counts to zero.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.data, s.keys = Counts{}, Counts{}, map[string]bool{}
	s.largestRead, s.largestWrite = 0, 0
}

func (s *Store) count(key string, add func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(key, "_delta_log/") {
		add(&s.log)
		return
	}
	add(&s.data)
}

func (s *Store) got(key string, n int) {
	s.count(key, func(c *Counts) { c.Gets++; c.Read += int64(n) })
	s.mu.Lock()
	s.largestRead = max(s.largestRead, n)
	s.mu.Unlock()
	if !strings.HasPrefix(key, "_delta_log/") {
		s.mu.Lock()
		s.keys[key] = true
		s.mu.Unlock()
	}
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	data, err := s.below.Get(ctx, key)
	s.got(key, len(data))
	return data, err
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	data, err := s.below.GetRange(ctx, key, offset, length)
	s.got(key, len(data))
	return data, err
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (objstore.Object, error) {
	o, err := s.below.Head(ctx, key)
	s.count(key, func(c *Counts) { c.Heads++ })
	return o, err
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	err := s.below.Put(ctx, key, data)
	s.wrote(len(data))
	s.count(key, func(c *Counts) { c.Puts++; c.Written += int64(len(data)) })
	return err
}

// Create implements objstore.Streamer. The object counts as one put.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	w, err := objstore.Begin(ctx, s.below, key)
	if err != nil {
		return nil, err
	}
	s.count(key, func(c *Counts) { c.Puts++ })
	return &writer{w, s, key}, nil
}

// writer counts what is written.
type writer struct {
	objstore.Writer
	s   *Store
	key string
}

// Write implements objstore.Writer.
func (w *writer) Write(data []byte) (int, error) {
	n, err := w.Writer.Write(data)
	w.s.count(w.key, func(c *Counts) { c.Written += int64(n) })
	w.s.wrote(len(data))
	return n, err
}

// PutIfAbsent implements objstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	err := s.below.PutIfAbsent(ctx, key, data)
	s.count(key, func(c *Counts) { c.ConditionalPuts++; c.Written += int64(len(data)) })
	return err
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.below.Delete(ctx, key)
	s.count(key, func(c *Counts) { c.Deletes++ })
	return err
}

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		s.count(prefix, func(c *Counts) { c.Lists++ })
		s.below.List(ctx, prefix, startAfter)(yield)
	}
}

// String implements objstore.Store.
func (s *Store) String() string { return s.below.String() }
