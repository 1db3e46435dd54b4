package faulty

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"sync"

	"github.com/gscd-io/gscd/delta/objstore"
)

var (
	// ErrInjected is the error of faults that name no other.
	ErrInjected = errors.New("injected fault")
	// ErrCrashed is wrapped by every call after Crash.
	ErrCrashed = errors.New("store crashed")
)

// Op names an operation of a store.
type Op string

// The operations.
const (
	Get         Op = "get"
	GetRange    Op = "get range"
	Head        Op = "head"
	Put         Op = "put"
	PutIfAbsent Op = "put if absent"
	// Piece is a Write of an object that is streamed; its Commit is a Put.
	Piece  Op = "put piece"
	Delete Op = "delete"
	List   Op = "list"
)

// Writes are the operations that change the store.
var Writes = []Op{Put, PutIfAbsent, Delete}

// Call is one operation.
type Call struct {
	// N counts the calls of a Store from 1.
	N  int64
	Op Op
	// Key is the key, or the prefix of a List.
	Key string
}

func (c Call) String() string { return fmt.Sprintf("call %d: %s %s", c.N, c.Op, c.Key) }

// Fault is how a call fails.
type Fault struct {
	// Err is wrapped by the call's error; nil means ErrInjected.
	Err error
	// Applied lets a write have its effect before it fails: a lost answer. A
	// write that would have failed anyway (PutIfAbsent of a key that is taken) gives its own error.
	Applied bool
	// After lets a List give so many objects before it fails.
	After int
	// Crash makes every later call fail too, as Store.Crash does.
	Crash bool
}

// Rule decides on a call: nil lets it pass. Rules are asked in order, under
// the store's lock: they must not call the store.
type Rule func(Call) *Fault

// Nth fails the n-th call of all (from 1) and no other.
func Nth(n int64, f Fault) Rule {
	return func(c Call) *Fault {
		if c.N == n {
			return &f
		}
		return nil
	}
}

// From fails the n-th call and every later one.
func From(n int64, f Fault) Rule {
	return func(c Call) *Fault {
		if c.N >= n {
			return &f
		}
		return nil
	}
}

// On fails calls of an operation whose key matches a pattern of path.Match,
// "*" for part of a name; "" matches every key. A malformed pattern panics at once.
func On(op Op, pattern string, f Fault) Rule {
	if _, err := path.Match(pattern, ""); err != nil {
		panic("faulty: pattern " + pattern + ": " + err.Error())
	}
	return func(c Call) *Fault {
		if ok, _ := path.Match(pattern, c.Key); c.Op == op && (ok || pattern == "") {
			return &f
		}
		return nil
	}
}

// Times lets a rule fail n calls, then no more.
func Times(n int, rule Rule) Rule {
	return func(c Call) *Fault {
		if n == 0 {
			return nil
		}
		f := rule(c)
		if f != nil {
			n--
		}
		return f
	}
}

// After lets a rule pass the first n calls that it would fail.
func After(n int, rule Rule) Rule {
	return func(c Call) *Fault {
		f := rule(c)
		if f != nil && n > 0 {
			n--
			return nil
		}
		return f
	}
}

// LostAnswer is the fault of a write that was applied and got no answer;
// NeverArrived of one that was not applied, and got none either. The caller
// can't tell them apart.
var (
	LostAnswer   = Fault{Err: objstore.ErrUnknownOutcome, Applied: true}
	NeverArrived = Fault{Err: objstore.ErrUnknownOutcome}
)

// Store fails calls by rules and passes the others on. It is safe for
// concurrent use.
type Store struct {
	below objstore.Store

	mu      sync.Mutex
	rules   []Rule
	calls   []Call
	crashed bool
}

var _ objstore.Streamer = (*Store)(nil)

// New wraps a store. Without rules it only counts.
func New(below objstore.Store, rules ...Rule) *Store { return &Store{below: below, rules: rules} }

// Fail adds a rule, asked after those that are there.
func (s *Store) Fail(rule Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, rule)
}

// Heal removes all rules and ends a crash.
func (s *Store) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules, s.crashed = nil, false
}

// Crash makes every later call fail with ErrCrashed.
func (s *Store) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashed = true
}

// Count gives the number of calls so far, of some operations or of all. Calls
// that failed, and those after a crash, count too.
func (s *Store) Count(ops ...Op) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(0)
	for _, c := range s.calls {
		if len(ops) == 0 || slices.Contains(ops, c.Op) {
			n++
		}
	}
	return n
}

// Calls gives the calls so far.
func (s *Store) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// begin counts a call and asks the rules.
func (s *Store) begin(op Op, key string) (Call, *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Call{N: int64(len(s.calls)) + 1, Op: op, Key: key}
	s.calls = append(s.calls, c)
	if s.crashed {
		return c, &Fault{Err: ErrCrashed}
	}
	for _, rule := range s.rules {
		if f := rule(c); f != nil {
			s.crashed = s.crashed || f.Crash
			return c, f
		}
	}
	return c, nil
}

func (f *Fault) error(c Call) error {
	err := f.Err
	if err == nil {
		err = ErrInjected
	}
	return fmt.Errorf("%s %s: %w (%s)", c.Op, c.Key, err, c)
}

// read runs an operation that changes nothing.
func (s *Store) read(op Op, key string, do func() error) error {
	if c, f := s.begin(op, key); f != nil {
		return f.error(c)
	}
	return do()
}

// write runs an operation that changes the store.
func (s *Store) write(op Op, key string, do func() error) error {
	c, f := s.begin(op, key)
	if f == nil {
		return do()
	}
	if f.Applied {
		if err := do(); err != nil {
			return err
		}
	}
	return f.error(c)
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) (data []byte, err error) {
	err = s.read(Get, key, func() error { data, err = s.below.Get(ctx, key); return err })
	return data, err
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	err = s.read(GetRange, key, func() error { data, err = s.below.GetRange(ctx, key, offset, length); return err })
	return data, err
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (o objstore.Object, err error) {
	err = s.read(Head, key, func() error { o, err = s.below.Head(ctx, key); return err })
	return o, err
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	return s.write(Put, key, func() error { return s.below.Put(ctx, key, data) })
}

// Create implements objstore.Streamer.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	w, err := objstore.Begin(ctx, s.below, key)
	if err != nil {
		return nil, err
	}
	return &writer{w, s, key}, nil
}

// writer is an object in the making, whose calls may fail.
type writer struct {
	below objstore.Writer
	s     *Store
	key   string
}

// Write implements objstore.Writer.
func (w *writer) Write(data []byte) (n int, err error) {
	err = w.s.write(Piece, w.key, func() error { n, err = w.below.Write(data); return err })
	return n, err
}

// Commit implements objstore.Writer. What a fault keeps from the store is given up.
func (w *writer) Commit() error {
	defer w.below.Abort()
	return w.s.write(Put, w.key, w.below.Commit)
}

// Abort implements objstore.Writer.
func (w *writer) Abort() { w.below.Abort() }

// PutIfAbsent implements objstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.write(PutIfAbsent, key, func() error { return s.below.PutIfAbsent(ctx, key, data) })
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.write(Delete, key, func() error { return s.below.Delete(ctx, key) })
}

// List implements objstore.Store. It counts as one call when it is ranged over.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		c, f := s.begin(List, prefix)
		left := -1
		if f != nil {
			left = f.After
		}
		if left != 0 {
			for o, err := range s.below.List(ctx, prefix, startAfter) {
				if !yield(o, err) || err != nil {
					return
				}
				if left--; left == 0 {
					break
				}
			}
		}
		if f != nil {
			yield(objstore.Object{}, f.error(c))
		}
	}
}

// String implements objstore.Store.
func (s *Store) String() string { return s.below.String() }
