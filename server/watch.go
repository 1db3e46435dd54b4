package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// watch is what is known of one table while it runs, and what it counts. It
// outlives the table's runners: counters are of the process. It is an
// ingest.Observer.
type watch struct {
	store  storeUse
	batch  prometheus.Histogram // seconds
	commit prometheus.Histogram // seconds
	beat   atomic.Int64         // unix nanoseconds

	calendar calendarPage

	mu sync.Mutex
	// view is the newest one, its progress a copy; loaded tells that it is of a
	// runner at work.
	view   ingest.View
	loaded bool
	// told is the progress at the last commit or load, which counters go by.
	told     *progress.Progress
	fates    fates
	taken    int64
	late     int64
	drift    int64
	commits  map[progress.Kind]int64
	seals    map[string]int64
	restarts int64
	// conflicts counts those of all runners, lastConflicts those of the one at work.
	conflicts, lastConflicts int64
}

// fates counts records by what became of them.
type fates struct{ applied, superseded, duplicates, tombstones, filtered, deadLetters int64 }

// The rules by which labels are sealed, as metrics name them.
const (
	byProof = "proof"
	byClock = "clock"
)

func newWatch(table string) *watch {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{"table": table},
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900},
		})
	}
	w := &watch{
		batch:   histogram("gscd_batch_seconds", "How long batches took records before they were committed."),
		commit:  histogram("gscd_commit_seconds", "How long commits took, with the writing of their files."),
		commits: map[progress.Kind]int64{}, seals: map[string]int64{},
	}
	w.Alive()
	return w
}

// Alive is ingest.Observer's.
func (w *watch) Alive() { w.beat.Store(time.Now().UnixNano()) }

// since is how long the table has not been heard of.
func (w *watch) since(now time.Time) time.Duration { return now.Sub(time.Unix(0, w.beat.Load())) }

// Loaded is ingest.Observer's.
func (w *watch) Loaded(v ingest.View) {
	w.Alive()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show(v)
	w.told, w.loaded = w.view.Progress, true
}

// Took is ingest.Observer's.
func (w *watch) Took(v ingest.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show(v)
}

// Committed is ingest.Observer's.
func (w *watch) Committed(c ingest.Commit, v ingest.View) {
	w.Alive()
	if c.Kind == progress.Batch {
		w.batch.Observe(c.Open.Seconds())
	}
	w.commit.Observe(c.Took.Seconds())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show(v)
	w.count(w.view.Progress)
	w.commits[c.Kind]++
	for _, s := range v.Progress.Seals {
		rule := byProof
		if slices.Contains(s.Attributes, "by clock") {
			rule = byClock
		}
		w.seals[rule]++
	}
}

// show keeps a copy of a state. The caller holds mu.
func (w *watch) show(v ingest.View) {
	if v.Progress != nil {
		v.Progress = copied(v.Progress)
	}
	v.Ends, v.Waits = maps.Clone(v.Ends), slices.Clone(v.Waits)
	if v.Conflicts < w.lastConflicts { // of a new runner
		w.lastConflicts = 0
	}
	w.conflicts, w.lastConflicts = w.conflicts+v.Conflicts-w.lastConflicts, v.Conflicts
	w.view = v
}

// count adds what a commit has brought since the one before. The caller holds mu.
func (w *watch) count(p *progress.Progress) {
	before := w.told
	w.told = p
	if before == nil {
		before = &progress.Progress{}
		before.State.Open = p.State.Open
	}
	// A replay takes dead letters back: counters only rise, gauges tell the rest.
	add := func(to *int64, now, then int64) { *to += max(0, now-then) }
	t, b := &p.Totals, &before.Totals
	add(&w.taken, t.Taken, b.Taken)
	add(&w.fates.applied, t.Applied, b.Applied)
	add(&w.fates.superseded, t.Superseded, b.Superseded)
	add(&w.fates.duplicates, t.Duplicates, b.Duplicates)
	add(&w.fates.tombstones, t.Tombstones, b.Tombstones)
	add(&w.fates.filtered, t.Filtered, b.Filtered)
	add(&w.fates.deadLetters, t.DeadLetters, b.DeadLetters)
	// The counts of a label begin anew when it opens.
	counts := before.Counts
	if before.State.Open != p.State.Open {
		counts = progress.Counts{}
	}
	add(&w.late, p.Counts.Late, counts.Late)
	add(&w.drift, p.Counts.Drift, counts.Drift)
}

// copied is a copy of all that a standing looks at: the lane goes on changing its own.
func copied(p *progress.Progress) *progress.Progress {
	c := *p
	c.Late, c.Seals = nil, nil
	c.Held = slices.Clone(p.Held)
	c.DeadLetters = maps.Clone(p.DeadLetters)
	c.Raised, c.RolledBack, c.Deleted = slices.Clone(p.Raised), slices.Clone(p.RolledBack), slices.Clone(p.Deleted)
	c.State.Partitions = make([]*snapshotter.Partition, len(p.State.Partitions))
	for i, part := range p.State.Partitions {
		one := *part
		one.Lines, one.GTIDs = nil, nil
		c.State.Partitions[i] = &one
	}
	c.State.Loads = make([]*snapshotter.Load, len(p.State.Loads))
	for i, load := range p.State.Loads {
		one := *load
		one.On = nil
		c.State.Loads[i] = &one
	}
	c.State.Lines, c.State.Floors = nil, nil
	if p.Incomplete != nil {
		why := *p.Incomplete
		c.Incomplete = &why
	}
	return &c
}

// state is the newest view; loaded is false where no runner that has loaded the
// table is at work.
func (w *watch) state() (v ingest.View, loaded bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view, w.loaded
}

// unload tells that the runner has ended.
func (w *watch) unload() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loaded, w.view.Waits = false, nil
}

// queued is a gate for one table: while it waits for its turn it is alive.
type queued struct {
	gate  *Gate
	watch *watch
	waits *atomic.Bool
}

// Enter is ingest.Gate's.
func (q queued) Enter(ctx context.Context, work ingest.Work) (leave func(), err error) {
	q.waits.Store(true)
	defer func() {
		q.watch.Alive()
		q.waits.Store(false)
	}()
	return q.gate.Enter(ctx, work)
}

// failed counts a start that will be made anew.
func (w *watch) failed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restarts++
}
