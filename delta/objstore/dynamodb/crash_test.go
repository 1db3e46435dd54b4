package dynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/dynamodb"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// life is how many calls a writer makes before it dies. The last one takes
// effect where lost is set, and its answer is not heard.
type life struct {
	mu    sync.Mutex
	left  int
	lost  bool
	calls int
}

var errDead = fmt.Errorf("the writer is dead: %w", io.ErrUnexpectedEOF)

// spend takes one call; do says whether it has its effect, heard whether the
// writer lives to see it.
func (l *life) spend() (do, heard bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.left--
	return l.left > 0 || l.left == 0 && l.lost, l.left > 0
}

// mortal is a bucket as a writer with a life sees it.
type mortal struct {
	objstore.Store
	life *life
}

func (m mortal) run(write bool, call func() error) error {
	do, heard := m.life.spend()
	var err error
	if do {
		err = call()
	}
	switch {
	case heard:
		return err
	case write && do:
		return fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, errDead)
	}
	return errDead
}

func (m mortal) Get(ctx context.Context, key string) (data []byte, err error) {
	err = m.run(false, func() (err error) { data, err = m.Store.Get(ctx, key); return err })
	return data, err
}

func (m mortal) Head(ctx context.Context, key string) (o objstore.Object, err error) {
	err = m.run(false, func() (err error) { o, err = m.Store.Head(ctx, key); return err })
	return o, err
}

func (m mortal) Put(ctx context.Context, key string, data []byte) error {
	return m.run(true, func() error { return m.Store.Put(ctx, key, data) })
}

func (m mortal) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return m.run(true, func() error { return m.Store.PutIfAbsent(ctx, key, data) })
}

func (m mortal) Delete(ctx context.Context, key string) error {
	return m.run(true, func() error { return m.Store.Delete(ctx, key) })
}

func (m mortal) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Object, error] {
	return m.Store.List(ctx, prefix, after)
}

// line is the way to DynamoDB of a writer with a life.
type line struct {
	next http.RoundTripper
	life *life
}

func (l line) RoundTrip(r *http.Request) (*http.Response, error) {
	do, heard := l.life.spend()
	if heard {
		return l.next.RoundTrip(r)
	}
	if do {
		if response, err := l.next.RoundTrip(r); err == nil {
			response.Body.Close()
		}
	}
	return nil, errDead
}

// A writer dies at each of its calls, before or after the call's effect. The
// next writer finds its commit whole or not at all, and goes on behind it; what
// the dead one was told is true.
func TestDeathAtEachStep(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for left := 1; ; left++ {
			f, base := newFake(t), mem.New()
			survivor := f.open(t, base)
			if err := survivor.PutIfAbsent(t.Context(), commit(0), []byte("zero")); err != nil {
				t.Fatal(err)
			}
			l := &life{left: left, lost: lost}
			o := f.options()
			o.Attempts = 1
			o.Transport = func(next http.RoundTripper) http.RoundTripper { return line{next, l} }
			told := f.client(t, o).Store(mortal{base, l}, tablePath).PutIfAbsent(t.Context(), commit(1), []byte("dying"))

			where := fmt.Sprintf("lost %t, dead at call %d", lost, left)
			versions := 0
			for o, err := range survivor.List(t.Context(), "_delta_log/", "") {
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				if o.Key != commit(versions) {
					t.Fatalf("%s: %s is listed", where, o.Key)
				}
				versions++
			}
			data, err := survivor.Get(t.Context(), commit(1))
			there := err == nil
			switch {
			case there && string(data) != "dying", there != (versions == 2), !there && !errors.Is(err, objstore.ErrNotExist):
				t.Fatalf("%s: %d versions, %q, %v", where, versions, data, err)
			case told == nil && !there:
				t.Fatalf("%s: it was told that its commit stands, and it does not", where)
			case told != nil && !errors.Is(told, objstore.ErrUnknownOutcome) && there:
				t.Fatalf("%s: it was told %v, and its commit stands", where, told)
			}
			next := 1
			if there {
				next = 2
			}
			if err := survivor.PutIfAbsent(t.Context(), commit(next), []byte("alive")); err != nil {
				t.Fatalf("%s: the next commit: %v", where, err)
			}
			if f.entry(next) != "true" || there && f.entry(1) != "true" {
				t.Errorf("%s: an entry is left incomplete", where)
			}
			if l.left > 0 { // it has lived through its commit
				if left < 8 {
					t.Fatalf("a commit took %d calls only", left)
				}
				break
			}
		}
	}
}

// Writers race for versions, each reading the newest before. Every version has
// one winner, and no writer is told otherwise.
func TestRace(t *testing.T) {
	f, base := newFake(t), mem.New()
	const writers, versions = 4, 15
	var mu sync.Mutex
	winners := map[int]string{}
	var wg sync.WaitGroup
	for w := range writers {
		s := f.client(t, f.options()).Store(base, tablePath)
		wg.Go(func() { raceFor(t, s, fmt.Sprint("writer ", w), versions, &mu, winners) })
	}
	wg.Wait()
	for v := range versions {
		if got, err := base.Get(t.Context(), commit(v)); err != nil || string(got) != winners[v] {
			t.Errorf("version %d is %q, %v; told it has %q", v, got, err, winners[v])
		}
	}
}

func raceFor(t *testing.T, s *dynamodb.Store, name string, versions int, mu *sync.Mutex, winners map[int]string) {
	for {
		next := 0
		for _, err := range s.List(t.Context(), "_delta_log/", "") {
			if err != nil {
				t.Error(err)
				return
			}
			next++
		}
		if next >= versions {
			return
		}
		switch err := s.PutIfAbsent(t.Context(), commit(next), []byte(name)); {
		case err == nil:
			mu.Lock()
			if other, taken := winners[next]; taken {
				t.Errorf("version %d was won by %s and %s", next, other, name)
			}
			winners[next] = name
			mu.Unlock()
		case !errors.Is(err, objstore.ErrExist):
			t.Errorf("%s, version %d: %v", name, next, err)
			return
		}
	}
}
