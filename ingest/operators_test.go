package ingest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// operators are what people and schedulers do to a table beside its ingester. Each
// runs on a store that may fail, and on one that does not: the second time it may
// find its work done.
var operators = map[string]func(tr *trial, s step, store objstore.Store) error{
	"optimize": (*trial).optimize,
	"vacuum":   (*trial).vacuum,
	"name":     (*trial).name1,
	"unpin":    (*trial).unpin,
	"force":    (*trial).force,
	"config":   (*trial).otherConfig,
	"column":   (*trial).addColumn,
	"foreign":  (*trial).foreignRows,
}

// operate runs an operator, and looks at everything that it must leave as it is.
func (tr *trial) operate(s step) error {
	if _, err := tr.readMap(); errors.Is(err, delta.ErrNotATable) {
		return nil
	} else if err != nil {
		return err
	}
	if tr.late != nil {
		_ = tr.late.arrives(ctx)
		tr.late = nil
	}
	for _, f := range s.faults {
		store := faulty.New(tr.store, faulty.Nth(f.call, storeFaults[f.kind]))
		err := operators[s.what](tr, s, store)
		var wrong *wrongError
		if errors.As(err, &wrong) {
			return err
		}
	}
	if err := operators[s.what](tr, s, tr.store); err != nil {
		return err
	}
	tr.restartFrom = tr.newest()
	clear(tr.seen)
	if err := tr.compare(false); err != nil {
		return err
	}
	return tr.checkPins()
}

// storeFaults are the faults of one call.
var storeFaults = map[string]faulty.Fault{
	"crash": {Crash: true}, "lost": {Crash: true, Applied: true}, "error": {}, "unknown": faulty.LostAnswer, "never": faulty.NeverArrived,
}

// checkPins is P5: every savepoint that is pinned has the rows that it had.
func (tr *trial) checkPins() error {
	m, err := tr.readMap()
	if err != nil {
		return err
	}
	table := delta.New(tr.store)
	for _, v := range m.Pinned() {
		snap, err := table.SnapshotAt(ctx, v)
		if err != nil {
			return fmt.Errorf("P5: %w", err)
		}
		rows, err := rowsOf(tr.store, snap)
		if err != nil {
			return fmt.Errorf("P5: version %d: %w", v, err)
		}
		if was, seen := tr.pinned[v]; seen && !slices.Equal(rows, was) {
			return fmt.Errorf("P5: the savepoint at version %d has the rows %q, it had %q", v, rows, was)
		}
		tr.pinned[v] = rows
	}
	return nil
}

func (tr *trial) snapshot(store objstore.Store) (*delta.Table, *delta.Snapshot, *savepoint.Map, error) {
	table := delta.New(store)
	snap, err := table.Snapshot(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := savepoint.Read(ctx, table, snap)
	return table, snap, m, err
}

func (tr *trial) optimize(s step, store objstore.Store) error {
	table, snap, m, err := tr.snapshot(store)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(s.seed, 29))
	o := ingest.Layout(m.Progress)
	o.PurgeOnly = r.IntN(4) == 0
	if !o.PurgeOnly && r.IntN(3) == 0 && snap.Schema().Index("v") >= 0 && !slices.Contains(snap.Metadata().PartitionColumns, "v") {
		o.OrderBy, o.Curve = []string{"v"}, pick(r, layout.ZOrder, layout.Hilbert)
	}
	if r.IntN(2) == 0 {
		pinned, err := savepoint.ReadPinnedFiles(ctx, table, snap)
		if err != nil {
			return err
		}
		lost := o.Leave
		o.Leave = func(add *action.Add) bool { return pinned.Leave(add) || lost(add) }
	}
	_, err = layout.Optimize(ctx, table, o)
	return err
}

func (tr *trial) optimizeMeanwhile(s step) error {
	if _, err := tr.readMap(); errors.Is(err, delta.ErrNotATable) {
		return nil
	}
	return tr.optimize(s, tr.store)
}

// vacuum removes what it may, without a grace period: nothing else runs.
func (tr *trial) vacuum(s step, store objstore.Store) error {
	o := savepoint.VacuumOptions{Now: time.Now().Add(time.Hour), RolledBack: 24 * time.Hour, ByLog: s.seed%3 == 1}
	if s.seed%5 == 0 {
		o.RolledBack = -time.Hour // all rolled-back savepoints are given up
	}
	report, err := savepoint.Vacuum(ctx, delta.New(store), o)
	if err == nil && store == tr.store {
		again, err := savepoint.Vacuum(ctx, delta.New(store), o)
		if err != nil {
			return err
		}
		for _, g := range again.Deleted {
			if g.Kind != savepoint.KindLog { // the checkpoint that the first has written lets more of the log go
				return fmt.Errorf("a second vacuum removed %v, the first %v", again.Deleted, report.Deleted)
			}
		}
	}
	return err
}

// vacuumMeanwhile keeps what running readers and writers may need: everything since
// the life began.
func (tr *trial) vacuumMeanwhile(began time.Time) error {
	if _, err := tr.readMap(); errors.Is(err, delta.ErrNotATable) {
		return nil
	}
	now := time.Now()
	age := now.Sub(began) + 10*time.Millisecond
	tr.restartFrom, tr.vacuumed = tr.newest(), tr.newest()
	_, err := savepoint.Vacuum(ctx, delta.New(tr.store), savepoint.VacuumOptions{Now: now, Grace: age, Retain: age, RolledBack: 24 * time.Hour})
	return err
}

// name1 pins the newest version under one of two names, or gives one up.
func (tr *trial) name1(s step, store objstore.Store) error {
	name := []string{"one", "two"}[s.seed%2]
	table, _, m, err := tr.snapshot(store)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(m.Named, func(n savepoint.Named) bool { return n.Name == name }) {
		_, err = savepoint.Delete(ctx, table, name, time.Now())
	} else {
		_, err = savepoint.CreateNamed(ctx, table, name, -1)
	}
	return err
}

// unpin deletes the savepoint of a sealed label.
func (tr *trial) unpin(s step, store objstore.Store) error {
	table, _, m, err := tr.snapshot(store)
	if err != nil {
		return err
	}
	var sealed []savepoint.Entry
	for _, e := range m.Entries {
		if e.State == savepoint.Sealed && !e.Kept {
			sealed = append(sealed, e)
		}
	}
	if len(sealed) == 0 {
		return nil
	}
	e := sealed[int(s.seed%uint64(len(sealed)))]
	_, err = savepoint.Delete(ctx, table, e.Name, time.Now())
	if now, readErr := tr.readMap(); readErr == nil && slices.ContainsFunc(now.Entries, func(n savepoint.Entry) bool {
		return n.Label == e.Label && n.State == savepoint.DeletedOne
	}) {
		tr.m.gone[labelAt{e.Label, e.Version}] = true // be its answer lost
	}
	return err
}

// force closes the open label by hand.
func (tr *trial) force(s step, store objstore.Store) error {
	open := tr.m.open()
	_, loads := tr.m.judge()
	if !tr.whole || slices.ContainsFunc(loads, func(l *load) bool { return !l.written }) {
		return nil // what was taken is not all that there is
	}
	clock := max(tr.m.clock, tr.rules.cal.End(open))
	if tr.name(open) != s.label(tr) {
		return nil // it is closed
	}
	o := tr.o
	o.Store, o.DeadLetterStore, o.DriftWait = store, tr.dead, time.Duration(s.wait)*time.Microsecond
	o.Now = func() time.Time { return time.UnixMicro(clock) }
	h := ingest.ByHand{Label: tr.name(open), Known: true, Decodes: true}
	for p, events := range tr.m.topic {
		st := change.PartitionState{ID: change.PartitionID{Topic: "t", Partition: p}}
		if len(events) > 0 {
			st.Earliest, st.End = events[0].record.Offset, events[len(events)-1].next
		}
		h.States, h.AcceptBehind = append(h.States, st), append(h.AcceptBehind, st.ID)
	}
	_, _, err := ingest.SealByHand(ctx, o, h)
	m, readErr := tr.readMap()
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if m.Progress.State.Open == open+1 {
		due := clock >= tr.m.pause()+tr.rules.idle
		tr.m.close(seal{wait: s.wait, forced: true, dueNow: due})
		tr.whole = false
		return nil
	}
	return err
}

// label names the open label, as the table has it.
func (s step) label(tr *trial) string {
	m, err := tr.readMap()
	if err != nil {
		return ""
	}
	return tr.name(m.Progress.State.Open)
}

// otherConfig starts ingesters with another calendar and another key: both are refused.
func (tr *trial) otherConfig(s step, store objstore.Store) error {
	before := tr.newest()
	granularity := "hour"
	if tr.rules.cal.Granularity() == granularity {
		granularity = "day"
	}
	for _, change := range []func(o *ingest.Options) error{
		func(o *ingest.Options) (err error) {
			o.Calendar, err = snapshotter.NewCalendar(granularity, tr.rules.cal.Timezone(), "")
			return err
		},
		func(o *ingest.Options) (err error) {
			o.Calendar, err = snapshotter.NewCalendar(tr.rules.cal.Granularity(), "Pacific/Auckland", "")
			return err
		},
		func(o *ingest.Options) error {
			o.Key = []string{"note"}
			o.Decode.KeyColumns = o.Key
			return nil
		},
	} {
		o := tr.o
		o.Store, o.DeadLetterStore, o.DriftWait = store, tr.dead, time.Duration(s.wait)*time.Microsecond
		o.Now = func() time.Time { return time.UnixMicro(tr.m.clock) }
		if err := change(&o); err != nil {
			return err
		}
		lane, err := ingest.New(o, newFeed(rand.New(rand.NewPCG(s.seed, 1)), tr.m.topic, tr.m.clock, tr.most))
		if err != nil {
			return err
		}
		if err := lane.Run(ctx); store == tr.store && !errors.Is(err, ingest.ErrCalendar) {
			return &wrongError{fmt.Errorf("an ingester with another calendar or key: %w", err)}
		}
	}
	if now := tr.newest(); now != before {
		return &wrongError{fmt.Errorf("an ingester that was refused committed version %d", now)}
	}
	return nil
}
