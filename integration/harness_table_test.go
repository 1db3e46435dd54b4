package integration

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// rig is one table, the ingester that fills it, and the topic that it reads.
type rig struct {
	t           testing.TB
	source      ingest.Source
	topic       *topicLog // the source, where it is one in memory
	store, dead *gate
	options     ingest.Options
	clock       time.Time
	// lane is the running process, nil before the start and after a restart.
	lane *ingest.Lane
	// freshLanes makes every piece of work that of a new process.
	freshLanes bool
}

func calendar(t testing.TB, granularity, zone string) *snapshotter.Calendar {
	t.Helper()
	c, err := snapshotter.NewCalendar(granularity, zone, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newRig makes a table in memory under the ground rules of the cases.
func newRig(t testing.TB, source ingest.Source, change ...func(*ingest.Options)) *rig {
	t.Helper()
	return rigOn(t, mem.New(), mem.New(), source, change...)
}

func rigOn(t testing.TB, store, dead objstore.Store, source ingest.Source, change ...func(*ingest.Options)) *rig {
	t.Helper()
	r := &rig{t: t, source: source, store: &gate{Store: store}, dead: &gate{Store: dead}}
	r.topic, _ = source.(*topicLog)
	r.options = ingest.Options{
		Name: "user_dim", Store: r.store, DeadLetterStore: r.dead, Calendar: calendar(t, "day", "Asia/Shanghai"),
		DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, MaxClockSkew: 5 * time.Minute,
		UntilEnd: true, Now: func() time.Time { return r.clock },
	}
	for _, f := range change {
		f(&r.options)
	}
	return r
}

// work lets the ingester work until it has nothing left to do.
func (r *rig) work() error {
	r.t.Helper()
	if r.lane == nil || r.freshLanes {
		lane, err := ingest.New(r.options, r.source)
		if err != nil {
			r.t.Fatal(err)
		}
		r.lane = lane
	}
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := r.lane.Run(within)
	if within.Err() != nil {
		r.t.Fatal("the ingester came to no end within a minute")
	}
	return err
}

func (r *rig) mustWork() {
	r.t.Helper()
	if err := r.work(); err != nil {
		r.t.Fatalf("ingest: %v", err)
	}
}

// workAt sets the clock and works.
func (r *rig) workAt(at string) {
	r.t.Helper()
	r.clock = instant(r.t, at)
	r.mustWork()
}

// restart ends the process; the next work is that of a new one.
func (r *rig) restart() { r.lane = nil }

// table opens the table past the gate: as another process would.
func (r *rig) table() *delta.Table {
	r.t.Helper()
	table, err := savepoint.OpenTable(ctx, r.store.Store)
	if err != nil {
		r.t.Fatal(err)
	}
	return table
}

// exists reports whether the table was created.
func (r *rig) exists() bool {
	_, err := savepoint.OpenTable(ctx, r.store.Store)
	if err != nil && !errors.Is(err, delta.ErrNotATable) {
		r.t.Fatal(err)
	}
	return err == nil
}

func (r *rig) labels() *savepoint.Map {
	r.t.Helper()
	table := r.table()
	s, err := table.Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

func (r *rig) progress() *progress.Progress {
	r.t.Helper()
	return r.labels().Progress
}

// next gives the next offset of a partition.
func (r *rig) next(partition int32) int64 {
	r.t.Helper()
	for _, p := range r.progress().State.Partitions {
		if p.Kafka == partition {
			return p.Next
		}
	}
	r.t.Fatalf("no partition %d in the progress", partition)
	return 0
}

// sealed lists the sealed labels; a table that does not exist has none.
func (r *rig) sealed() []string {
	r.t.Helper()
	out := []string{}
	if !r.exists() {
		return out
	}
	for _, e := range r.labels().Entries {
		if e.State == savepoint.Sealed {
			out = append(out, e.Name)
		}
	}
	return out
}

func (r *rig) evidence(label string) *progress.Evidence {
	r.t.Helper()
	m := r.labels()
	for _, e := range m.Entries {
		if e.Name == label {
			ev, err := m.Evidence(ctx, r.table(), e)
			if err != nil {
				r.t.Fatal(err)
			}
			return ev
		}
	}
	r.t.Fatalf("the map has no %s", label)
	return nil
}

// deadLetters lists the dead-letter table by coordinates.
func (r *rig) deadLetters() []deadletter.Entry {
	r.t.Helper()
	var out []deadletter.Entry
	err := deadletter.Open(r.dead.Store).Each(ctx, func(e deadletter.Entry) error {
		out = append(out, e)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b deadletter.Entry) int {
		return change.PartitionID{Topic: a.Topic, Partition: a.Partition}.Compare(change.PartitionID{Topic: b.Topic, Partition: b.Partition})*2 + int(a.Offset-b.Offset)
	})
	return out
}

// rollback runs `gscd rollback --to LABEL`.
func (r *rig) rollback(to string) *savepoint.Plan {
	r.t.Helper()
	plan, err := savepoint.Rollback(ctx, r.table(), to, savepoint.RollbackOptions{Now: r.clock, Differ: diff.Differ})
	if err != nil {
		r.t.Fatalf("roll back to %s: %v", to, err)
	}
	return plan
}
