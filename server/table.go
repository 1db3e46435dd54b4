package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/ingest"
)

// Spec is a table that should run.
type Spec struct {
	Name, Address string
	// Topics are those that it reads; they give its weight in a group.
	Topics []string
	// Settings tell two Specs of one name apart: by reflect.DeepEqual, a table
	// whose settings differ is started anew.
	Settings any
	// Ends tells that the table stops by itself.
	Ends bool
	// Idle is its drift.idle, Proof its seal.proof.
	Idle  time.Duration
	Proof string
	// Check is asked before the table is run for the first time; nil: nothing is.
	Check func(ctx context.Context) error
	// Open makes what runs the table. It is called once, and again only where
	// it gave an error.
	Open func(ctx context.Context, with Shared) (Runner, error)
}

// Shared is what a table gets from its process.
type Shared struct {
	Budget   ingest.Budget
	Gate     ingest.Gate
	Observer ingest.Observer
	// Count gives a store that counts its calls as the table's.
	Count func(objstore.Store) objstore.Store
}

// Runner is a table at work. Run returns nil at its end, or at a commit
// boundary after ctx ended; after an error it may be called again.
type Runner interface {
	Run(ctx context.Context) error
	Close() error
}

// State is what a table does.
type State string

// The states. A table waits until it has loaded its state, and between two
// starts; it has failed where it is not started again.
const (
	Waiting State = "waiting"
	Running State = "running"
	Failed  State = "failed"
	Ended   State = "ended"
)

// StartError says that no table can run: a first check that gives one ends the
// whole run.
type StartError struct{ Err error }

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *StartError) Unwrap() error { return e.Err }

// table is a Spec at work. Its goroutine is live's.
type table struct {
	Spec
	s       *Server
	watch   *watch
	share   *share
	cancel  context.CancelFunc
	wake    chan struct{} // ends a wait between two starts
	runner  Runner
	checked bool

	inQueue atomic.Bool // it waits for its turn at the gate
	working atomic.Bool // its runner or check is at work: it must be heard of

	mu    sync.Mutex
	state State
	err   error
	at    time.Time // since when it is in its state
}

func (t *table) become(state State, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != state {
		t.at = time.Now()
	}
	t.state, t.err = state, err
}

// now is the table's state, and what went wrong last.
func (t *table) now() (state State, err error, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state = t.state
	if _, loaded := t.watch.state(); t.state == Waiting && t.err == nil && loaded {
		state = Running
	}
	return state, t.err, t.at
}

// live runs a table until it ends, starting it again where that may help.
func (t *table) live(ctx context.Context) (err error) {
	defer t.share.end()
	defer func() {
		if t.runner != nil {
			if fault := t.close(); fault != nil {
				err = errors.Join(err, fault)
			}
		}
	}()
	wait := firstWait
	for try := 1; ; try++ {
		began := time.Now()
		err := t.attempt(ctx)
		if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		if time.Since(began) > calm {
			wait, try = firstWait, 1
		}
		if !Retryable(err) || t.Ends && try >= lastTry {
			return err
		}
		in := scattered(wait)
		t.watch.failed()
		t.become(Waiting, err)
		t.s.o.Log.Warn("the table failed and is started again", zap.String("table", t.Name), zap.Duration("in", in.Round(time.Millisecond)), zap.Error(err))
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
			wait = firstWait
		case <-time.After(in):
			wait = min(2*wait, longWait)
		}
		t.become(Waiting, nil)
	}
}

// attempt is one try. A panic of it is an error.
func (t *table) attempt(ctx context.Context) error {
	t.watch.Alive()
	t.working.Store(true)
	err := ingest.Caught(func() error { return t.try(ctx) })
	t.working.Store(false)
	t.share.Hold(0)
	t.watch.unload()
	var broken *ingest.PanicError
	if errors.As(err, &broken) {
		t.s.o.Log.Error("the table met an internal error", zap.String("table", t.Name), zap.Any("panic", broken.Value), zap.ByteString("stack", broken.Stack))
		err = fmt.Errorf("table %s: %w", t.Name, err)
	}
	return err
}

// try checks, opens and runs the table once.
func (t *table) try(ctx context.Context) (err error) {
	if !t.checked {
		if t.Check != nil {
			err = t.Check(ctx)
		}
		if err != nil {
			err = fmt.Errorf("table %s: %w", t.Name, err)
		}
		t.s.firstCheck(t, err)
		if err != nil {
			return err
		}
		t.checked = true
	}
	if t.runner == nil {
		if t.runner, err = t.Open(ctx, t.shared()); err != nil {
			t.runner = nil
			return err
		}
	}
	return t.runner.Run(ctx)
}

func (t *table) shared() Shared {
	return Shared{
		Budget:   t.share,
		Gate:     queued{t.s.gate, t.watch, &t.inQueue},
		Observer: t.watch,
		Count:    func(s objstore.Store) objstore.Store { return watchedStore{s, &t.watch.store} },
	}
}

func (t *table) close() (err error) {
	if err := ingest.Caught(t.runner.Close); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	return nil
}

// stalled is for how long nothing was heard of a table that should be at work,
// 0 where that is no fault.
func (t *table) stalled(now time.Time) time.Duration {
	if !t.working.Load() || t.inQueue.Load() {
		return 0
	}
	return t.watch.since(now)
}

// forStorage is what a Wait for the storage is for.
const forStorage = "the storage"

// waits are what the table waits for that does not answer.
func (t *table) waits(now time.Time) []ingest.Wait {
	var out []ingest.Wait
	if v, _ := t.watch.state(); t.working.Load() {
		out = append(out, v.Waits...)
	}
	if call := t.watch.store.oldest(now); call != nil {
		out = append(out, ingest.Wait{For: forStorage, Since: call.since, Err: fmt.Errorf("%s %s in %s is not answered", call.op, call.key, t.Address)})
	}
	return out
}

// waitsFor puts waits into words, nil where there are none.
func waitsFor(waits []ingest.Wait) any {
	var out []string
	for _, w := range waits {
		text := fmt.Sprintf("%s, since %s", w.For, rfc3339(w.Since))
		if w.Err != nil {
			text += ": " + w.Err.Error()
		}
		out = append(out, text)
	}
	if out == nil {
		return nil
	}
	return strings.Join(out, "; ")
}

// standing is where the table stands, or stood when it failed; nil before it
// was loaded, or exists.
func (t *table) standing() *Standing {
	v, _ := t.watch.state()
	if v.Progress == nil {
		return nil
	}
	p := v.Progress
	f := Facts{
		Name: t.Name, Address: t.Address, Progress: p, Calendar: v.Calendar,
		Version: v.Version, LastCommit: v.LastCommit, Committed: v.Committed, OpenSince: v.Opened, LastSealed: lastSealed(v),
		Ends: v.Ends, Asked: len(v.Ends) >= len(p.State.Partitions), Clock: v.Clock, Idle: t.Idle, Proof: t.Proof,
	}
	return Stand(f)
}

// lastSealed is the newest label before the open one that is a savepoint, ""
// where there is none.
func lastSealed(v ingest.View) string {
	p := v.Progress
	if p.LastSeal < 0 {
		return ""
	}
	gone := map[int64]bool{}
	for _, r := range p.RolledBack {
		gone[int64(r.Label)] = true
	}
	for _, d := range p.Deleted {
		gone[int64(d.Label)] = true
	}
	for label := p.State.Open - 1; label >= p.State.First; label-- {
		if !gone[int64(label)] {
			return v.Calendar.Name(label)
		}
	}
	return ""
}
