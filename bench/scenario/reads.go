package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/maintain"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/savepoint"
)

// makeDays makes the table and ingests all events, so that all days but the last are sealed.
func makeDays(ctx context.Context, s *Spec, env Env) error {
	if err := makeTable(ctx, s, env); err != nil {
		return err
	}
	store, err := env.Open(ctx, s.Table)
	if err != nil {
		return err
	}
	cal, err := calendar(s)
	if err != nil {
		return err
	}
	src, err := openSource(&Spec{Params: s.Params}, &meter{})
	if err != nil {
		return err
	}
	defer src.Close()
	lane, err := ingest.New(laneOptions(s, store, cal), src)
	if err != nil {
		return err
	}
	if err := lane.Run(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// opened is a table with its sealed days, oldest first.
type opened struct {
	store  objstore.Store
	table  *delta.Table
	newest *delta.Snapshot
	labels *savepoint.Map
	sealed []savepoint.Entry
}

// open opens a table as a command does that reads.
func open(ctx context.Context, store objstore.Store) (t opened, err error) {
	t.store = store
	if t.table, err = savepoint.OpenTable(ctx, store); err != nil {
		return t, err
	}
	if t.newest, err = t.table.Snapshot(ctx); err != nil {
		return t, err
	}
	if t.labels, err = savepoint.Read(ctx, t.table, t.newest); err != nil {
		return t, err
	}
	for _, e := range t.labels.Entries {
		if e.State == savepoint.Sealed {
			t.sealed = append(t.sealed, e)
		}
	}
	return t, nil
}

// at opens the version of a sealed day and verifies it, as gscd query does.
func (t *opened) at(ctx context.Context, e savepoint.Entry) (*delta.Snapshot, error) {
	s, err := t.table.SnapshotAt(ctx, e.Version)
	if err != nil {
		return nil, err
	}
	return s, savepoint.Verify(ctx, t.table, s)
}

var errNoDays = errors.New("the workload seals too few days: give --days 4 or more")

// reading runs what reads or changes an open table: the clock is at work while do runs.
func reading(ctx context.Context, s *Spec, env Env, r *Result, do func(*opened, func()) error) error {
	store, counted, err := openCounted(ctx, s, env)
	if err != nil {
		return err
	}
	if r.FirstVersion, err = newestVersion(ctx, store); err != nil {
		return err
	}
	t, err := open(ctx, counted)
	if err != nil {
		return err
	}
	if len(t.sealed) < 2 {
		return errNoDays
	}
	m := &meter{}
	if err := do(&t, func() { counted.Reset(); m.begin() }); err != nil {
		return err
	}
	m.end(r)
	r.count(counted)
	return ctx.Err()
}

// runQuery reads all rows of the last sealed day.
func runQuery(ctx context.Context, s *Spec, env Env, r *Result) error {
	return reading(ctx, s, env, r, func(t *opened, begin func()) error {
		begin()
		at, err := t.at(ctx, t.sealed[len(t.sealed)-1])
		if err != nil {
			return err
		}
		return readRows(ctx, t.store, at, nil, r)
	})
}

// readRows counts the rows of a version, of some columns.
func readRows(ctx context.Context, store objstore.Store, at *delta.Snapshot, columns []string, r *Result) error {
	read, err := scan.New(store, at, scan.Options{Columns: columns})
	if err != nil {
		return err
	}
	for batch, err := range read.Batches(ctx) {
		if err != nil {
			return err
		}
		r.Done += int64(batch.Rows)
	}
	return nil
}

// verifyQuery compares the day that was read with the model.
func verifyQuery(ctx context.Context, s *Spec, env Env, r *Result) error {
	t, err := openPlain(ctx, s, env)
	if err != nil {
		return err
	}
	day := t.sealed[len(t.sealed)-1]
	at, err := t.at(ctx, day)
	if err != nil {
		return err
	}
	if err := t.stored(ctx, r); err != nil {
		return err
	}
	if err := checkRows(ctx, s, t.store, at, eventsUpTo(s, &t, day), r); err != nil {
		return err
	}
	if r.Done != r.Rows {
		return fmt.Errorf("%d rows were read of %s, which has %d", r.Done, day.Name, r.Rows)
	}
	return nil
}

func openPlain(ctx context.Context, s *Spec, env Env) (opened, error) {
	store, err := env.Open(ctx, s.Table)
	if err != nil {
		return opened{}, err
	}
	return open(ctx, store)
}

// stored takes what lies in the table now.
func (t *opened) stored(ctx context.Context, r *Result) error {
	return readCommits(ctx, t.store, t.newest, r)
}

// eventsUpTo is how many events belong to a day and those before it.
func eventsUpTo(s *Spec, t *opened, day savepoint.Entry) int64 {
	end := t.labels.Calendar.End(day.Label)
	low, high := int64(0), s.events()
	for low < high {
		if n := (low + high) / 2; s.Params.Time(n)*1000 < end {
			low = n + 1
		} else {
			high = n
		}
	}
	return low
}

// pointQueries is how many keys are asked for.
const pointQueries = 200

// runPoint asks the last sealed day for single keys.
func runPoint(ctx context.Context, s *Spec, env Env, r *Result) error {
	return reading(ctx, s, env, r, func(t *opened, begin func()) error {
		at, err := t.at(ctx, t.sealed[len(t.sealed)-1])
		if err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(s.Params.Seed, pointQueries))
		var took []time.Duration
		begin()
		for range pointQueries {
			id := 1 + rng.Int64N(max(1, s.Params.Rows+s.events()/4))
			asked := time.Now()
			where, err := expr.Parse(fmt.Sprintf("id = %d", id), at.Schema())
			if err != nil {
				return err
			}
			read, err := scan.New(t.store, at, scan.Options{Where: where, Columns: []string{"id", "amount"}})
			if err != nil {
				return err
			}
			answer := Answer{id, -1}
			for row, err := range read.Rows(ctx) {
				if err != nil {
					return err
				}
				answer[1] = row[1].I
			}
			took = append(took, time.Since(asked))
			r.Answers = append(r.Answers, answer)
			r.Done++
		}
		r.Latency = latencyOf(took)
		return nil
	})
}

func verifyPoint(ctx context.Context, s *Spec, env Env, r *Result) error {
	t, err := openPlain(ctx, s, env)
	if err != nil {
		return err
	}
	model, err := bench.NewModel(s.Params, eventsUpTo(s, &t, t.sealed[len(t.sealed)-1]))
	if err != nil {
		return err
	}
	for _, a := range r.Answers {
		want := int64(-1)
		if version, ok := model.Version(a[0]); ok {
			want = bench.Row(s.Params.Columns, a[0], version)[4].I
		}
		if a[1] != want {
			return fmt.Errorf("the key %d was answered with %d, not %d (-1: no such row)", a[0], a[1], want)
		}
	}
	r.Answers, r.Checked, r.Rows = nil, true, model.Live()
	return t.stored(ctx, r)
}

// latencyOf sorts durations and picks.
func latencyOf(took []time.Duration) *Latency {
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return &Latency{P50: ms(took[len(took)/2]), P99: ms(took[len(took)*99/100]), Max: ms(took[len(took)-1])}
}

// runDiff compares the first and the last sealed day.
func runDiff(ctx context.Context, s *Spec, env Env, r *Result) error {
	return reading(ctx, s, env, r, func(t *opened, begin func()) error {
		begin()
		from, err := t.at(ctx, t.sealed[0])
		if err != nil {
			return err
		}
		to, err := t.at(ctx, t.sealed[len(t.sealed)-1])
		if err != nil {
			return err
		}
		d, err := diff.New(t.store, from, to, diff.Options{TempDir: s.Scratch})
		if err != nil {
			return err
		}
		counts := [3]int64{}
		for c, err := range d.Changes(ctx) {
			if err != nil {
				return err
			}
			counts[c.Kind]++
			r.Done++
		}
		r.Answers = []Answer{{counts[diff.Inserted], counts[diff.Updated]}, {counts[diff.Deleted], 0}}
		return nil
	})
}

func verifyDiff(ctx context.Context, s *Spec, env Env, r *Result) error {
	t, err := openPlain(ctx, s, env)
	if err != nil {
		return err
	}
	before, err := bench.NewModel(s.Params, eventsUpTo(s, &t, t.sealed[0]))
	if err != nil {
		return err
	}
	after, err := bench.NewModel(s.Params, eventsUpTo(s, &t, t.sealed[len(t.sealed)-1]))
	if err != nil {
		return err
	}
	inserted, updated, deleted := before.Diff(after)
	if want := []Answer{{inserted, updated}, {deleted, 0}}; !slices.Equal(want, r.Answers) {
		return fmt.Errorf("the days differ by %v rows (inserted, updated; deleted), not by %v", want, r.Answers)
	}
	r.Answers, r.Checked, r.Rows = nil, true, after.Live()
	return t.stored(ctx, r)
}

// opens is how often a table is opened.
const opens = 20

// runOpen opens the table, with its map of days.
func runOpen(ctx context.Context, s *Spec, env Env, r *Result) error {
	return reading(ctx, s, env, r, func(t *opened, begin func()) error {
		var took []time.Duration
		begin()
		for range opens {
			asked := time.Now()
			again, err := open(ctx, t.store)
			if err != nil {
				return err
			}
			if again.newest.Version() != t.newest.Version() {
				return fmt.Errorf("version %d was opened, not %d", again.newest.Version(), t.newest.Version())
			}
			took = append(took, time.Since(asked))
			r.Done++
		}
		r.Latency = latencyOf(took)
		return nil
	})
}

// verifyNewest compares the newest version with the model of all events.
func verifyNewest(ctx context.Context, s *Spec, env Env, r *Result) error {
	t, err := openPlain(ctx, s, env)
	if err != nil {
		return err
	}
	if err := t.stored(ctx, r); err != nil {
		return err
	}
	return checkRows(ctx, s, t.store, t.newest, s.events(), r)
}

// runReadKeys reads the key column of the newest version and drops it.
func runReadKeys(ctx context.Context, s *Spec, env Env, r *Result) error {
	return reading(ctx, s, env, r, func(t *opened, begin func()) error {
		begin()
		return readRows(ctx, t.store, t.newest, []string{"id"}, r)
	})
}

// runIndex builds the key index of the newest version, as a start of the ingester does.
func runIndex(ctx context.Context, s *Spec, env Env, r *Result) error {
	return reading(ctx, s, env, r, func(t *opened, begin func()) error {
		begin()
		index, err := ingest.OpenIndex(ctx, t.store, t.newest, []string{"id"})
		if err != nil {
			return err
		}
		r.Done = int64(index.Len())
		return nil
	})
}

// verifyKeys compares how many keys there were with the model, and the rows too.
func verifyKeys(ctx context.Context, s *Spec, env Env, r *Result) error {
	if err := verifyNewest(ctx, s, env, r); err != nil {
		return err
	}
	if r.Done != r.Rows {
		return fmt.Errorf("there were %d keys, and the table has %d rows", r.Done, r.Rows)
	}
	return nil
}

// runRollback brings the table back to its first sealed day.
func runRollback(ctx context.Context, s *Spec, env Env, r *Result) error {
	return reading(ctx, s, env, r, func(t *opened, begin func()) error {
		begin()
		_, err := savepoint.Rollback(ctx, t.table, t.sealed[0].Name, savepoint.RollbackOptions{Now: time.Now(), Differ: diff.Differ})
		r.Done = 1
		return err
	})
}

func verifyRollback(ctx context.Context, s *Spec, env Env, r *Result) error {
	t, err := openPlain(ctx, s, env)
	if err != nil {
		return err
	}
	if err := t.stored(ctx, r); err != nil {
		return err
	}
	return checkRows(ctx, s, t.store, t.newest, eventsUpTo(s, &t, t.sealed[0]), r)
}

// runMaintain makes a pass of maintenance that keeps the savepoints and nothing else, so
// that it has all to do that there may be.
func runMaintain(ctx context.Context, s *Spec, env Env, r *Result) error {
	return reading(ctx, s, env, r, func(t *opened, begin func()) error {
		begin()
		_, err := maintain.Run(ctx, t.table, maintain.Options{
			Layout: ingest.Layout, Retention: savepoint.Policy{Text: "forever", Forever: true},
			History: time.Nanosecond, Grace: time.Nanosecond, RolledBack: time.Hour, Now: time.Now(),
		})
		r.Done = 1
		return err
	})
}
