package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/ingest"
)

// fake is a table whose runs end as a test says.
type fake struct {
	run func(ctx context.Context, with Shared) error

	mu             sync.Mutex
	with           Shared
	opened, closed int
	runs           int
}

// untilStopped loads, and runs until it is stopped.
func untilStopped(ctx context.Context, with Shared) error {
	with.Observer.Loaded(ingest.View{Version: -1})
	<-ctx.Done()
	return nil
}

// results gives the results of the runs one after the other, the last one again.
func results(errs ...error) func(context.Context, Shared) error {
	n := 0
	return func(context.Context, Shared) error {
		n++
		return errs[min(n, len(errs))-1]
	}
}

func (f *fake) open(_ context.Context, with Shared) (Runner, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	f.with = with
	return f, nil
}

func (f *fake) Run(ctx context.Context) error {
	f.mu.Lock()
	f.runs++
	with := f.with
	f.mu.Unlock()
	return f.run(ctx, with)
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

// count is how often it was opened, run and closed.
func (f *fake) count() [3]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return [3]int{f.opened, f.runs, f.closed}
}

func (f *fake) spec(name string, settings int) Spec {
	return Spec{Name: name, Settings: settings, Open: f.open}
}

var errFull = &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}

func newServer(t *testing.T) (*Server, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return New(Options{Log: zap.New(core), HeavyTasks: 2, BatchMemory: 1 << 20}), logs
}

func messages(logs *observer.ObservedLogs, table string) (out []string) {
	for _, e := range logs.All() {
		if e.ContextMap()["table"] == table {
			out = append(out, e.Message)
		}
	}
	return out
}

func TestOneFailsTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, logs := newServer(t)
		passes, stops := &fake{run: results(errFull, errFull, errFull, nil)}, &fake{run: results(ingest.ErrNoKey)}
		broken := &fake{run: func(context.Context, Shared) error { var m map[string]int; m["x"] = 1; return nil }}
		began := time.Now()
		err := s.Run(t.Context(), []Spec{passes.spec("passes", 0), stops.spec("stops", 0), broken.spec("broken", 0)})
		want := "2 of 3 tables stopped:\n  the table has no key\n  table broken: internal error: assignment to entry in nil map"
		if err == nil || err.Error() != want || !errors.Is(err, ingest.ErrNoKey) {
			t.Errorf("%v", err)
		}
		// A full disk is waited for, longer each time; the lane stays the same one.
		if took := time.Since(began); took < 6*time.Second || took > 9*time.Second || passes.count() != [3]int{1, 4, 1} {
			t.Errorf("%v after %s", passes.count(), took)
		}
		if stops.count() != [3]int{1, 1, 1} || broken.count() != [3]int{1, 1, 1} {
			t.Errorf("stops %v, broken %v", stops.count(), broken.count())
		}
		if m := messages(logs, "stops"); len(m) != 1 || m[0] != "the table has stopped; the others go on" {
			t.Errorf("%q", m)
		}
		var stack string
		for _, e := range logs.FilterMessage("the table met an internal error").All() {
			stack, _ = e.ContextMap()["stack"].(string)
		}
		if !strings.Contains(stack, "TestOneFailsTheOthersGoOn") {
			t.Errorf("no stack of the panic: %q", stack)
		}
		if n := s.watches["passes"].restarts; n != 3 {
			t.Errorf("%d restarts", n)
		}
		if _, held, _ := s.memory.use(); held != 1<<20 {
			t.Errorf("limit %d", held)
		}
	})
}

func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The only table gives its own error, and nothing else is said of it.
		s, logs := newServer(t)
		if err := s.Run(t.Context(), []Spec{(&fake{run: results(ingest.ErrNoKey)}).spec("t", 0)}); err == nil || err.Error() != "the table has no key" || logs.Len() != 0 {
			t.Errorf("%v, %d lines", err, logs.Len())
		}
		// A stop while waiting is a clean end.
		s, _ = newServer(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		if err := s.Run(ctx, []Spec{(&fake{run: results(errFull)}).spec("t", 0)}); err != nil {
			t.Errorf("stopped: %v", err)
		}
		// A run with an end is not tried for ever.
		s, _ = newServer(t)
		f := &fake{run: results(errFull)}
		spec := f.spec("t", 0)
		spec.Ends = true
		if err := s.Run(t.Context(), []Spec{spec}); !errors.Is(err, syscall.ENOSPC) || f.runs != lastTry {
			t.Errorf("%v after %d runs", err, f.runs)
		}
	})
}

func TestFirstChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := func(f *fake, name string, errs ...error) Spec {
			spec, n := f.spec(name, 0), 0
			spec.Check = func(context.Context) error {
				n++
				return errs[min(n, len(errs))-1]
			}
			return spec
		}
		away := &StartError{&ingest.SourceError{Retryable: true, Err: errors.New("no broker answers")}}
		// No broker: the program ends at once, whatever else there is.
		s, _ := newServer(t)
		err := s.Run(t.Context(), []Spec{check(&fake{run: untilStopped}, "a", nil), check(&fake{run: untilStopped}, "b", away)})
		if err == nil || err.Error() != "table b: no broker answers" {
			t.Errorf("%v", err)
		}
		// No table has a place to write to: the same, though a full disk may pass.
		s, _ = newServer(t)
		err = s.Run(t.Context(), []Spec{check(&fake{run: untilStopped}, "a", errFull), check(&fake{run: untilStopped}, "b", errFull)})
		if err == nil || !strings.HasPrefix(err.Error(), "2 of 2 tables stopped:\n  table ") {
			t.Errorf("%v", err)
		}
		// One can run: the other waits for its disk.
		s, _ = newServer(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		waits := &fake{run: untilStopped}
		if err := s.Run(ctx, []Spec{check(&fake{run: untilStopped}, "a", nil), check(waits, "b", errFull, errFull, nil)}); err != nil || waits.count() != [3]int{1, 1, 1} {
			t.Errorf("%v, %v", err, waits.count())
		}
	})
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, logs := newServer(t)
		var tables [6]*fake
		for i := range tables {
			tables[i] = &fake{run: untilStopped}
		}
		same, changed, after, leaves, comes, fails := tables[0], tables[1], tables[2], tables[3], tables[4], tables[5]
		fails.run = results(ingest.ErrNoKey)
		// The old one takes its time to come to a commit boundary.
		changed.run = func(ctx context.Context, with Shared) error {
			_ = untilStopped(ctx, with)
			time.Sleep(3 * time.Second)
			if n := after.count(); n != [3]int{} {
				t.Errorf("the new one has begun before the old one ended: %v", n)
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- s.Run(ctx, []Spec{same.spec("same", 1), changed.spec("changed", 1), leaves.spec("leaves", 1), fails.spec("fails", 1)})
		}()
		time.Sleep(time.Second)
		if wrong := s.unready(time.Now()); len(wrong) != 1 || wrong[0] != "table fails: failed: the table has no key" {
			t.Errorf("before: %q", wrong)
		}
		mended := &fake{run: untilStopped}
		s.Reload([]Spec{(&fake{}).spec("same", 1), after.spec("changed", 2), mended.spec("fails", 1), comes.spec("comes", 1)})
		time.Sleep(time.Second)
		// Another one while the first is under way changes nothing more.
		s.Reload([]Spec{(&fake{}).spec("same", 1), (&fake{}).spec("changed", 2), (&fake{}).spec("fails", 1), (&fake{}).spec("comes", 1)})
		time.Sleep(10 * time.Second)
		names := ""
		for _, x := range s.all() {
			state, _, _ := x.now()
			names += fmt.Sprintf("%s:%s ", x.Name, state)
		}
		if names != "same:running changed:running fails:running comes:running " || s.unready(time.Now()) != nil {
			t.Errorf("after: %s, %q", names, s.unready(time.Now()))
		}
		for _, c := range []struct {
			what string
			f    *fake
			want [3]int
		}{
			{"same", same, [3]int{1, 1, 0}}, {"changed", changed, [3]int{1, 1, 1}}, {"after", after, [3]int{1, 1, 0}},
			{"leaves", leaves, [3]int{1, 1, 1}}, {"comes", comes, [3]int{1, 1, 0}}, {"fails", fails, [3]int{1, 1, 1}}, {"mended", mended, [3]int{1, 1, 0}},
		} {
			if got := c.f.count(); got != c.want {
				t.Errorf("%s was opened, run and closed %v times, want %v", c.what, got, c.want)
			}
		}
		taken := logs.FilterMessage("took the new configuration").All()
		if len(taken) != 2 || fmt.Sprint(taken[0].ContextMap()) != "map[restarted:[changed] started:[comes] stopped:[leaves] tried_again:[fails]]" {
			t.Errorf("%v", taken)
		}
		if fmt.Sprint(taken[1].ContextMap()) != "map[restarted:[] started:[] stopped:[] tried_again:[]]" {
			t.Errorf("%v", taken[1])
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.Reload(nil) // too late: it does not hang
		if len(s.memory.tables) != 0 {
			t.Errorf("%d shares of memory are left", len(s.memory.tables))
		}
	})
}

// A new configuration wakes a table that waits to be started again.
func TestReloadWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t)
		errs := []error{errFull, errFull, errFull, errFull, errFull, errFull, errFull, nil}
		f := &fake{run: results(errs...)}
		done := make(chan error)
		go func() { done <- s.Run(t.Context(), []Spec{f.spec("t", 1)}) }()
		time.Sleep(75 * time.Second) // after 1, 3, 7, 15, 31, 63 s
		if n := f.count()[1]; n != 7 {
			t.Errorf("%d runs", n)
		}
		s.Reload([]Spec{f.spec("t", 1)})
		began := time.Now()
		if err := <-done; err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
