package ingest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/savepoint"
)

var (
	modelRuns  = flag.Int("model.runs", 0, "random runs of the pipeline against the model (400; 100 with -short, 200 with -race)")
	modelWhole = flag.Bool("model.whole", false, "do not cut a run that fails down to what fails")
	modelSeed  = flag.Uint64("model.seed", 1, "seed of the first run; the others follow")
)

// TestModel drives the pipeline with random topics, interleavings, fetches,
// batches, crashes and rollbacks, and compares what the table says with the model.
//
// What a change must pass has five times as many. A failure prints its seed. The same
// run again:
//
//	go test ./ingest -run TestModel -model.seed=SEED -model.runs=1
func TestModel(t *testing.T) {
	runs := *modelRuns
	if runs == 0 {
		switch {
		case underRace:
			runs = 200
		case testing.Short():
			runs = 100
		default:
			runs = 400
		}
	}
	var next atomic.Uint64
	var failed atomic.Bool
	var wg sync.WaitGroup
	begin := time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !failed.Load() {
				i := next.Add(1) - 1
				if i >= uint64(runs) {
					return
				}
				seed := *modelSeed + i
				sc := newScenario(seed)
				if fault := sc.play(t); fault != "" {
					failed.Store(true)
					if *modelWhole {
						t.Errorf("seed %d: %s", seed, fault)
						return
					}
					t.Errorf("seed %d: %s\n\n%s\nagain: go test ./ingest -run TestModel -model.seed=%d -model.runs=1", seed, fault, sc.minimise(t), seed)
				}
			}
		})
	}
	wg.Wait()
	done := min(next.Load(), uint64(runs))
	t.Logf("%d runs, %.1f a second", done, float64(done)/time.Since(begin).Seconds())
}

// trial is a scenario at work.
type trial struct {
	*scenario
	store, dead objstore.Store
	m           *model
	checked     int64             // versions that were walked
	seen        map[labelAt]bool  // what was compared
	restartFrom int64             // versions before it cannot be played again
	after       []int64           // the newest version, by step
	rolledTo    map[int]string    // by step
	kept        map[string][]seal // rolled-back savepoints, by name
	// whole tells that everything there is was taken; lastWait is the drift.wait then.
	whole bool
	// pinned are the rows of every savepoint that was seen, by version.
	pinned map[int64][]string
	// others are the versions that another engine made.
	others map[int64]bool
	// vacuumed is the newest version when a vacuum ran beside a life: what is not
	// pinned of those before may be gone.
	vacuumed int64
	// late is a write of a life that has ended, and that has not arrived yet.
	late *lateWrite
	// indexDir, where set, has the key index between lives.
	indexDir string
	// broker, where set, has the topic; else a feed in memory has.
	broker *onKafka
}

func newTrial(sc *scenario, store, dead objstore.Store) *trial {
	return &trial{
		scenario: sc, store: store, dead: dead, m: &model{rules: sc.rules, gone: map[labelAt]bool{}}, checked: -1, kept: map[string][]seal{},
		rolledTo: map[int]string{}, seen: map[labelAt]bool{}, pinned: map[int64][]string{}, others: map[int64]bool{}, vacuumed: -1,
	}
}

// play runs the scenario and gives the first difference from the model, "" if none.
func (sc *scenario) play(t *testing.T) (difference string) {
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 8<<10)
			difference = fmt.Sprintf("panic: %v\n%s", p, buf[:runtime.Stack(buf, false)])
		}
	}()
	tr := newTrial(sc, mem.New(), mem.New())
	if sc.seed%2 == 0 {
		tr.indexDir = t.TempDir()
	}
	if sc.local {
		dir := t.TempDir()
		tr.store, tr.dead = localStore(dir+"/t"), localStore(dir+"/t__dead_letter")
	}
	for i, s := range sc.steps {
		if i == len(sc.steps)-1 {
			clear(tr.seen)
		}
		tr.o.ChangeData = sc.feeds > 0 && i+1 >= sc.feeds
		if err := tr.step(s); err != nil {
			return fmt.Sprintf("step %d (%s): %v", i, s, err)
		}
		tr.after = append(tr.after, tr.newest())
	}
	if err := tr.again(); err != nil {
		return err.Error()
	}
	return ""
}

func localStore(dir string) objstore.Store {
	s, err := local.New(dir, local.Options{NoSync: true})
	if err != nil {
		panic(err)
	}
	return s
}

// topic is what has arrived at a step, by partition.
func (sc *scenario) topic(n int) map[int32][]*event {
	out := map[int32][]*event{}
	if sc.f.empty {
		out[int32(9)] = nil // known to the broker, and nothing in it
	}
	for _, e := range sc.events[:n] {
		out[e.record.Partition] = append(out[e.record.Partition], e)
	}
	return out
}

var ctx = context.Background()

func (tr *trial) step(s step) error {
	if s.what == "rollback" {
		tr.whole = false
		return tr.rollBack(s)
	}
	if operators[s.what] != nil {
		return tr.operate(s)
	}
	tr.whole = false
	topic := tr.topic(s.n)
	for p := int32(0); tr.broker != nil && p < tr.broker.partitions; p++ {
		topic[p] = topic[p] // one without a record is there too
	}
	r := rand.New(rand.NewPCG(s.seed, 11))
	for _, f := range s.faults {
		err := tr.life(s, topic, r, f)
		if err == nil && s.what == "look" {
			break // the fault did no harm
		}
		var wrong *wrongError
		if errors.As(err, &wrong) {
			return err
		}
	}
	if s.what == "abandon" {
		return tr.abandoned(s, topic)
	}
	err := tr.life(s, topic, r, fault{})
	for tries := 0; tr.broker != nil && tries < 20 && tr.broker.mayPass(err); tries++ {
		err = tr.life(s, topic, r, fault{}) // as who starts a table again does
	}
	if err != nil {
		return fmt.Errorf("without a fault: %w", err)
	}
	tr.m.look(topic, s.clock, s.wait, nil)
	tr.whole = true
	return tr.compare(true)
}

// wrongError is a difference that was found in the middle of a life.
type wrongError struct{ error }

// life is one process: a lane from start to end, or until a fault ends it.
func (tr *trial) life(s step, topic map[int32][]*event, r *rand.Rand, f fault) error {
	o := tr.o
	if tr.indexDir != "" && s.seed%4 != 0 { // some lives go without, and leave an old one behind
		o.IndexDir = tr.indexDir
		o.SaveIndexEvery(1 + int64(s.seed%3))
	}
	o.DriftWait = time.Duration(s.wait) * time.Microsecond
	o.Now = func() time.Time { return time.UnixMicro(s.clock) }
	tr.stages.set(&o, s.seed+uint64(f.call))
	if s.seed%3 > 0 {
		o.LookAhead()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var crashed atomic.Bool
	var act error
	commits := int64(0)
	began, start, theirs := time.Now(), tr.newest(), int64(-1)
	sky := &weather{Store: tr.store, pending: tr.late}
	tr.late = nil
	if storms[f.kind] {
		sky.fault = f
	}
	defer func() { tr.late = sky.pending }()
	store, dead := faulty.New(sky), faulty.New(tr.dead)
	store.Fail(func(c faulty.Call) *faulty.Fault {
		if crashed.Load() {
			return &faulty.Fault{Err: faulty.ErrCrashed}
		}
		if isCommit(c) {
			commits++
		}
		if !f.hits(c, commits) {
			return nil
		}
		switch f.kind {
		case "crash":
			crashed.Store(true)
			return &faulty.Fault{Err: faulty.ErrCrashed}
		case "lost":
			crashed.Store(true)
			return &faulty.Fault{Err: faulty.ErrCrashed, Applied: true}
		case "error":
			return &faulty.Fault{}
		case "unknown":
			return &faulty.LostAnswer
		case "never":
			return &faulty.NeverArrived
		case "stop":
			cancel()
		case "rollback":
			act = tr.rollBackMeanwhile(s, topic)
		case "zombie": // the process is frozen, another one takes its place, and it wakes up
			theirs = tr.successor(start, func() {
				act = tr.life(s, topic, rand.New(rand.NewPCG(s.seed, 13)), fault{})
			})
		case "savepoint":
			act = tr.createNamed()
		case "optimize":
			act = tr.optimizeMeanwhile(s)
		case "vacuum":
			act = tr.vacuumMeanwhile(began)
		case "usurper": // another one takes the table, and dies in the middle of it
			theirs = tr.successor(start, func() { act = tr.usurp(s, topic) })
		}
		return nil
	})
	dead.Fail(func(c faulty.Call) *faulty.Fault {
		if crashed.Load() {
			return &faulty.Fault{Err: faulty.ErrCrashed}
		}
		if f.kind == "dead" && c.N == f.call {
			crashed.Store(true)
			return &faulty.Fault{Applied: f.call%2 == 0}
		}
		return nil
	})
	o.Store, o.DeadLetterStore = store, dead
	feed := newFeed(r, topic, s.clock, tr.most)
	var source ingest.Source = feed
	if tr.broker != nil {
		consumer, end, err := tr.broker.source(s.clock)
		if err != nil {
			return &wrongError{err}
		}
		defer end()
		source = consumer
	}
	lane, err := ingest.New(o, source)
	if err != nil {
		return &wrongError{err}
	}
	err = lane.Run(ctx)
	if act != nil {
		return &wrongError{fmt.Errorf("meanwhile: %w", act)}
	}
	if newest := tr.newest(); theirs >= 0 && newest != theirs {
		return &wrongError{fmt.Errorf("an ingester that had lost the table committed up to version %d, its successor up to %d: %w", newest, theirs, err)}
	}
	if len(feed.ended) > 0 {
		return &wrongError{errors.Join(feed.ended...)}
	}
	if err == nil && f.kind == "" {
		if fault := checkIndex(lane); fault != nil {
			return &wrongError{fault}
		}
	}
	if f.kind == "stop" && err == nil {
		return context.Canceled // it may have ended before its work was done
	}
	return err
}

// abandoned is a crash after which the world moves on before the next start. The
// model is told which labels were sealed by then.
func (tr *trial) abandoned(s step, topic map[int32][]*event) error {
	m, err := tr.readMap()
	if errors.Is(err, delta.ErrNotATable) {
		return nil
	}
	if err != nil {
		return err
	}
	tr.m.look(topic, s.clock, s.wait, &m.Progress.State.Open)
	tr.restartFrom = tr.newest()
	return tr.compare(false)
}

func (tr *trial) rollBack(s step) error {
	m, err := tr.readMap()
	if errors.Is(err, delta.ErrNotATable) {
		return nil
	}
	if err != nil {
		return err
	}
	name, to := tr.target(m, s.to)
	if name == "" {
		return nil
	}
	for _, f := range s.faults {
		store := faulty.New(tr.store, faulty.Nth(f.call, map[string]faulty.Fault{
			"crash": {Crash: true}, "lost": {Crash: true, Applied: true}, "error": {}, "unknown": faulty.LostAnswer, "never": faulty.NeverArrived,
		}[f.kind]))
		if _, err := savepoint.Rollback(ctx, delta.New(store), name, savepoint.RollbackOptions{Now: time.Now(), Differ: diff.Differ}); err == nil {
			break
		}
	}
	if _, err := savepoint.Rollback(ctx, delta.New(tr.store), name, savepoint.RollbackOptions{Now: time.Now(), Differ: diff.Differ}); err != nil {
		return fmt.Errorf("rollback to %s: %w", name, err)
	}
	tr.rolledBackTo(to)
	tr.rolledTo[len(tr.after)] = name
	return tr.compare(false)
}

// target picks a savepoint to go back to: a sealed label, or one that was rolled
// back and is kept.
func (tr *trial) target(m *savepoint.Map, n int) (string, []seal) {
	type choice struct {
		name string
		to   []seal
	}
	var choices []choice
	for i, s := range tr.m.seals {
		if !tr.m.gone[labelAt{s.label, s.version}] {
			choices = append(choices, choice{tr.rules.cal.Name(s.label), tr.m.seals[:i+1]})
		}
	}
	for _, e := range m.Entries {
		if to, ok := tr.kept[e.Name]; ok && e.Kept {
			choices = append(choices, choice{e.Name, to})
		}
	}
	if len(choices) == 0 {
		return "", nil
	}
	c := choices[n%len(choices)]
	return c.name, c.to
}

func (tr *trial) rolledBackTo(to []seal) {
	for i, s := range tr.m.seals {
		if s.label > to[len(to)-1].label || s.version != to[min(i, len(to)-1)].version {
			tr.kept[fmt.Sprintf("%s@%d", tr.name(s.label), s.version)] = append([]seal{}, tr.m.seals[:i+1]...)
		}
	}
	tr.m.rollback(to)
}

// rollBackMeanwhile rolls the table back under a running lane.
func (tr *trial) rollBackMeanwhile(s step, topic map[int32][]*event) error {
	m, err := tr.readMap()
	if errors.Is(err, delta.ErrNotATable) {
		return nil
	}
	if err != nil {
		return err
	}
	tr.m.look(topic, s.clock, s.wait, &m.Progress.State.Open)
	if err := tr.compare(false); err != nil {
		return err
	}
	name, to := tr.target(m, int(s.seed%7))
	if name == "" {
		return nil
	}
	if _, err := savepoint.Rollback(ctx, delta.New(tr.store), name, savepoint.RollbackOptions{Now: time.Now(), Differ: diff.Differ}); err != nil {
		return err
	}
	tr.rolledBackTo(to)
	tr.restartFrom = tr.newest()
	return tr.compare(false)
}

func (tr *trial) createNamed() error {
	if _, err := tr.readMap(); err != nil {
		return nil
	}
	_, err := savepoint.CreateNamed(ctx, delta.New(tr.store), "meanwhile", -1)
	if errors.Is(err, savepoint.ErrName) {
		return nil // it is there already
	}
	return err
}

// again starts a new writer at some version in the middle of the history and
// plays the rest of the script: it must judge alike.
func (tr *trial) again() error {
	store, ok := tr.store.(*mem.Store)
	r := rand.New(rand.NewPCG(tr.seed, 17))
	newest := tr.newest()
	from := max(tr.restartFrom, 0)
	if !ok || newest <= from || r.IntN(3) > 0 || tr.steps[len(tr.steps)-1].what != "look" {
		return nil
	}
	v := from + r.Int64N(newest-from)
	other := newTrial(tr.scenario, store.Clone(), tr.dead.(*mem.Store).Clone())
	other.m, other.checked, other.kept, other.others = tr.m, newest, tr.kept, tr.others
	cutLog(other.store, v)
	begun := false
	for i, s := range tr.steps {
		if tr.after[i] < v || tr.after[i] == v && s.what != "look" {
			continue
		}
		begun = true
		if s.what == "rollback" {
			if name := tr.rolledTo[i]; strings.Contains(name, "@") {
				return nil // that version is not in this history
			} else if name != "" {
				if _, err := savepoint.Rollback(ctx, delta.New(other.store), name, savepoint.RollbackOptions{Now: time.Now(), Differ: diff.Differ}); err != nil {
					return fmt.Errorf("from version %d on, step %d: %w", v, i, err)
				}
			}
			continue
		}
		if err := other.life(s, tr.topic(s.n), r, fault{}); err != nil {
			return fmt.Errorf("from version %d on, step %d: %w", v, i, err)
		}
	}
	if !begun {
		return nil
	}
	other.checked = other.newest()
	if err := other.compareTable(true); err != nil {
		return fmt.Errorf("a writer that started at version %d came to another table: %w", v, err)
	}
	return nil
}

// cutLog makes a store what it was at a version.
func cutLog(store objstore.Store, version int64) {
	limit := fmt.Sprintf("_delta_log/%020d.json", version)
	for o, err := range store.List(ctx, "_delta_log/", "") {
		if err != nil {
			panic(err)
		}
		name := strings.TrimPrefix(o.Key, "_delta_log/")
		if o.Key > limit && !strings.HasPrefix(name, "_gscd/") {
			if err := store.Delete(ctx, o.Key); err != nil {
				panic(err)
			}
		}
	}
}
