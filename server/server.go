package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/server/group"
)

// Options are of the whole process.
type Options struct {
	// HTTP is the address, HOST:PORT, to answer at; "" for none.
	HTTP string
	// TLS is what HTTP is secured with; without files it is not.
	TLS TLSFiles
	// Token is what a request has to show, "" for nothing: see Server.SetToken.
	Token string
	// Pprof is the address, HOST:PORT, of profiles; "" for none.
	Pprof string
	// LogLevel is that of Log, where it can be changed.
	LogLevel zap.AtomicLevel
	// BatchMemory bounds the bytes of records in uncommitted batches of all
	// tables (0: DefaultBatchMemory), HeavyTasks how many tables seal, write a
	// checkpoint or build an index at once (0: DefaultHeavyTasks).
	BatchMemory int64
	HeavyTasks  int
	// Build says what the program was built from, for gscd_build_info.
	Build map[string]string
	// Traffic, where set, gives what was exchanged with the brokers so far.
	Traffic func() Traffic
	// Retries, where set, gives how many requests the S3 client has repeated, by operation.
	Retries func() map[string]int64
	// Notifications, where set, gives how each sink of notifications stands.
	Notifications func() []Notified
	// Failed, where set, is told of each table that has failed and is not started again.
	Failed func(table, address string, err error)
	// Group decides which of the tables run here; nil: all of them. The server runs it.
	Group *group.Member
	// Peers asks the other processes of the group for their status.
	Peers Asker
	Log   *zap.Logger

	// stalledAfter is for how long a table may be silent (0: stalledAfter).
	stalledAfter time.Duration
}

// String gives the addresses alone: the token is a secret.
func (o Options) String() string { return "HTTP at " + o.HTTP + ", profiles at " + o.Pprof }

// GoString is String.
func (o Options) GoString() string { return o.String() }

// Format prints String, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// Traffic counts what all clients of the brokers have exchanged with them.
type Traffic struct {
	// Requests by their names, Fetch and Metadata among them.
	Requests map[string]int64
	// Fetched are bytes on the wire.
	Fetched int64
}

// Notified is how a sink of notifications stands: attempts since the start, events that
// wait, and since when the first of them does (zero: none waits).
type Notified struct {
	Sink              string
	Delivered, Failed int64
	Undelivered       int
	Oldest            time.Time
}

// stalledAfter is for how long nothing may be heard of a table at work. A lane
// that waits for records is heard of four times a second; what may take minutes
// is one large commit, or the building of a large index.
const stalledAfter = 10 * time.Minute

// Server runs tables. Make it with New; one Run, once.
type Server struct {
	o       Options
	gate    *Gate
	memory  *Memory
	events  chan event
	reloads chan []Spec
	left    chan error // why this process is in its group no more
	done    chan struct{}
	started time.Time
	beat    atomic.Int64 // of the loop of Run, unix nanoseconds

	token        atomic.Pointer[[sha256.Size]byte] // its sum; nil where none is asked for
	certificates *certificates                     // nil without TLS
	level        logLevel

	mu      sync.Mutex
	tables  []*table
	watches map[string]*watch
	changes int64 // configurations taken
	refused int64 // and refused
}

// event is what a table's goroutine tells the loop of Run.
type event struct {
	t     *table
	ended bool // else its first check is done
	err   error
}

// New makes a server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.HeavyTasks <= 0 {
		o.HeavyTasks = DefaultHeavyTasks()
	}
	if o.stalledAfter <= 0 {
		o.stalledAfter = stalledAfter
	}
	s := &Server{
		o: o, gate: NewGate(o.HeavyTasks), memory: NewMemory(o.BatchMemory),
		events: make(chan event), reloads: make(chan []Spec), left: make(chan error, 1), done: make(chan struct{}),
		watches: map[string]*watch{},
	}
	s.SetToken(o.Token)
	s.level.now, s.level.log = o.LogLevel, o.Log
	if o.LogLevel != (zap.AtomicLevel{}) {
		s.level.usual = o.LogLevel.Level()
	}
	return s
}

// run is the state of the loop of Run.
type run struct {
	*Server
	ctx    context.Context
	stop   context.CancelFunc
	live   int              // goroutines
	next   map[*table]*Spec // of tables that are being stopped: what comes after, nil for nothing
	first  map[*table]bool  // first checks that are awaited
	faults []error          // of first checks
	passed bool             // one first check has passed
	fault  error            // why no table could run
	// configured are the tables of the configuration; without a group all of them run.
	configured []Spec
}

// Run runs the tables until each has ended: ctx ends them at a commit boundary.
// One that fails does not stop the others; the error names all that failed. A
// first check that gives a StartError, or first checks that all fail, end the run.
func (s *Server) Run(ctx context.Context, specs []Spec) error {
	defer close(s.done)
	s.started = time.Now()
	shutdown, err := s.serve()
	if err != nil {
		return err
	}
	defer shutdown()
	defer paceGC(func() int64 { _, limit, _ := s.memory.use(); return limit / shareOfGC })()
	heap := newHeapLimit()
	defer heap.end()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &run{Server: s, ctx: ctx, stop: stop, next: map[*table]*Spec{}, first: map[*table]bool{}}
	r.configured = specs
	leave := r.join()
	if s.o.Group == nil {
		for _, spec := range specs {
			r.first[r.start(spec, len(s.tables))] = true
		}
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for r.live > 0 || s.o.Group != nil && r.ctx.Err() == nil {
		s.beat.Store(time.Now().UnixNano())
		var over <-chan struct{}
		if r.live == 0 {
			over = r.ctx.Done()
		}
		mapped := upsert.MappedBytes()
		heap.leave(mapped)
		s.memory.leave(mapped)
		select {
		case <-over:
		case <-s.sharedOut():
			r.share()
		case err := <-s.left:
			r.fault = err
			r.stop()
		case e := <-s.events:
			if e.ended {
				r.ended(e.t, e.err)
			} else {
				r.checked(e.t, e.err)
			}
		case specs := <-s.reloads:
			r.take(specs)
		case <-tick.C:
		}
	}
	leave()
	if r.fault != nil {
		return r.fault
	}
	return s.stopped()
}

// start runs a table, as the at-th of all.
func (r *run) start(spec Spec, at int) *table {
	w := r.watches[spec.Name]
	if w == nil {
		w = newWatch(spec.Name)
	}
	w.Alive()
	t := &table{Spec: spec, s: r.Server, watch: w, share: r.memory.share(), wake: make(chan struct{}, 1), state: Waiting, at: time.Now()}
	ctx, cancel := context.WithCancel(r.ctx)
	t.cancel = cancel
	r.mu.Lock()
	r.watches[spec.Name] = w
	if at < len(r.tables) {
		r.tables[at] = t
	} else {
		r.tables = append(r.tables, t)
	}
	r.mu.Unlock()
	r.live++
	go func() {
		err := t.live(ctx)
		cancel()
		r.events <- event{t, true, err}
	}()
	return t
}

// firstCheck tells the loop how the first check of a table has ended.
func (s *Server) firstCheck(t *table, err error) { s.events <- event{t, false, err} }

// checked judges the first checks of a run: where no table can run the program
// ends, for a person waits at its start.
func (r *run) checked(t *table, err error) {
	if !r.first[t] {
		return
	}
	delete(r.first, t)
	var nobody *StartError
	switch {
	case err == nil:
		r.passed = true
	case r.ctx.Err() != nil, r.fault != nil:
	case errors.As(err, &nobody):
		r.fault = err
	default:
		r.faults = append(r.faults, err)
		if len(r.first) == 0 && !r.passed {
			r.fault = together(len(r.faults), r.faults)
		}
	}
	if r.fault != nil {
		r.stop()
	}
}

// ended notes how a table has ended, and starts what comes after it.
func (r *run) ended(t *table, err error) {
	r.live--
	at := slices.Index(r.tables, t)
	next, replaced := r.next[t]
	delete(r.next, t)
	switch {
	case replaced && err != nil:
		r.o.Log.Warn("the table was stopped for the new configuration, with an error", zap.String("table", t.Name), zap.Error(err))
	case err != nil:
		t.become(Failed, err)
		if r.o.Failed != nil {
			r.o.Failed(t.Name, t.Address, err)
		}
		r.taken(t, err)
		if len(r.tables) > 1 && r.fault == nil {
			r.o.Log.Error("the table has stopped; the others go on", zap.String("table", t.Name), zap.Error(err))
		}
	default:
		t.become(Ended, nil)
	}
	again := replaced && next != nil && r.ctx.Err() == nil
	if again && !r.mayStart(*next) {
		again, next = false, nil
	}
	switch {
	case again:
		r.start(*next, at)
	case replaced && next == nil:
		r.mu.Lock()
		r.tables = slices.Delete(r.tables, at, at+1)
		delete(r.watches, t.Name)
		r.mu.Unlock()
		r.released(t)
	}
}

// take goes over to a new configuration.
func (r *run) take(specs []Spec) {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.changes++
	r.mu.Unlock()
	r.configured = specs
	r.become(r.ours(), "took the new configuration", func(*table) bool { return true })
}

// become makes the tables that run these. Of those that failed and are to run on
// as they were, tryAgain tells which are started anew.
func (r *run) become(specs []Spec, why string, tryAgain func(*table) bool) {
	var started, changed, again, removed []string
	for _, t := range slices.Clone(r.tables) {
		i := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == t.Name })
		if i < 0 {
			removed = append(removed, t.Name)
			r.replace(t, nil)
			continue
		}
		next, pending := r.next[t]
		state, err, _ := t.now()
		switch {
		case pending && next != nil && reflect.DeepEqual(next.Settings, specs[i].Settings):
		case !pending && reflect.DeepEqual(t.Settings, specs[i].Settings):
			if state == Failed && tryAgain(t) {
				again = append(again, t.Name)
				r.replace(t, &specs[i])
			} else if state == Waiting && err != nil {
				select {
				case t.wake <- struct{}{}:
				default:
				}
			}
		default:
			changed = append(changed, t.Name)
			r.replace(t, &specs[i])
		}
	}
	for _, spec := range specs {
		if !slices.ContainsFunc(r.tables, func(t *table) bool { return t.Name == spec.Name }) && r.mayStart(spec) {
			started = append(started, spec.Name)
			r.start(spec, len(r.tables))
		}
	}
	r.o.Log.Info(why, zap.Strings("started", started), zap.Strings("restarted", changed),
		zap.Strings("tried_again", again), zap.Strings("stopped", removed))
}

// replace stops a table at a commit boundary; next, where there is one, follows it.
func (r *run) replace(t *table, next *Spec) {
	_, pending := r.next[t]
	r.next[t] = next
	if state, _, _ := t.now(); !pending && (state == Failed || state == Ended) {
		// Its goroutine has ended: what it left is known, and was logged.
		r.live++
		r.ended(t, nil)
		return
	}
	t.cancel()
}

// Reload makes the tables those of a new configuration: new ones are started,
// those that left are stopped at a commit boundary, those whose settings differ
// are started anew, those that failed are tried again, all others go on. It
// returns when Run has begun to do so, or has ended.
func (s *Server) Reload(specs []Spec) {
	select {
	case s.reloads <- specs:
	case <-s.done:
	}
}

// Refused counts a configuration that could not be taken.
func (s *Server) Refused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
}

// stopped is the error of a run in which some tables failed.
func (s *Server) stopped() error {
	var faults []error
	for _, t := range s.tables {
		if state, err, _ := t.now(); state == Failed {
			faults = append(faults, err)
		}
	}
	return together(len(s.tables), faults)
}

// together puts the errors of some of all tables into one.
func together(tables int, faults []error) error {
	if tables == 1 || len(faults) == 0 {
		return errors.Join(faults...)
	}
	var text strings.Builder
	for _, err := range faults {
		fmt.Fprintf(&text, "\n  %v", err)
	}
	return &stoppedError{fmt.Sprintf("%d of %d tables stopped:%s", len(faults), tables, text.String()), faults}
}

// stoppedError is several tables' errors in one text.
type stoppedError struct {
	text   string
	faults []error
}

func (e *stoppedError) Error() string { return e.text }

func (e *stoppedError) Unwrap() []error { return e.faults }

// all are the tables in the order of the configuration.
func (s *Server) all() []*table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tables)
}
