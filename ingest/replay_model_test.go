package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// shelf is a table whose topic has records that can't be applied, as long as the
// settings are what they are. Its model: a key's row is what its records leave in
// the order of their offsets, those left out that are dead letters, or were found
// superseded when they were replayed.
type shelf struct {
	cal         *snapshotter.Calendar
	store, dead *mem.Store
	topic       map[int32][]*event
	now         int64 // µs
	pos         int64
	seed        uint64
	// sealed are the rows of every sealed version, which must not change.
	sealed map[int64][]string
}

func newShelf(t *rapid.T) *shelf {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{
		cal: cal, store: mem.New(), dead: mem.New(), topic: map[int32][]*event{}, pos: 100, sealed: map[int64][]string{},
		now: time.Date(2022, 7, 16, 8, 0, 0, 0, time.UTC).UnixMicro(),
	}
}

// put adds a record of a key. Each key has its partition.
func (s *shelf) put(kind string, key int) {
	s.now += minute
	s.pos += 100
	at, op, row := s.now, byte('u'), map[string]string{"id": fmt.Sprint(key), "v": fmt.Sprint(s.pos), "w": fmt.Sprint(s.pos)}
	switch kind {
	case "delete":
		op = 'd'
	case "partial":
		row["w"] = keeps
	case "misfit":
		row["w"] = `"many"`
	case "late":
		at -= 24 * hour
	case "future":
		at += hour
	}
	after := "null"
	if op != 'd' {
		after = fmt.Sprintf(`{"id":%s,"v":%s,"w":%s}`, row["id"], row["v"], row["w"])
	}
	value := fmt.Sprintf(`{"op":"%c","before":null,"after":%s,"source":{"name":"s","db":"shop","table":"t","server_id":1,"file":"bin.000001","pos":%d,"ts_ms":%d}}`,
		op, after, s.pos, at/1000)
	if kind == "broken" {
		value = "{"
	}
	if op == 'd' {
		value = strings.Replace(value, `"before":null`, fmt.Sprintf(`"before":{"id":%d}`, key), 1)
	}
	p := int32(key % 2)
	offset := int64(len(s.topic[p]))
	s.topic[p] = append(s.topic[p], &event{
		record: &change.Record{Topic: "t", Partition: p, Offset: offset, Timestamp: s.now / 1000, Key: fmt.Appendf(nil, `{"id":%d}`, key), Value: []byte(value)},
		next:   offset + 1, op: op, new: fmt.Sprint(key), row: row, misfit: kind == "misfit",
	})
}

// settings are the policies that decide whether a record is a dead letter.
type settings struct{ late, future, bad string }

func drawSettings(t *rapid.T) settings {
	pick := func(a, b string) string {
		return rapid.SampledFrom([]string{a, a, b}).Draw(t, b)
	}
	return settings{pick("dead_letter", "fold"), pick("dead_letter", "clamp"), pick("dead_letter", "null")}
}

func (s *shelf) options(c settings, store, dead objstore.Store) ingest.Options {
	return ingest.Options{
		Name: "t", Store: store, DeadLetterStore: dead, Calendar: s.cal, Key: []string{"id"}, UntilEnd: true, Decoders: 1,
		Late: c.late, Future: c.future, BadValue: c.bad, DeadLetterFloor: 1 << 30, BatchRows: 5,
		Columns: map[string]schema.Type{"id": schema.Of(schema.Long), "v": schema.Of(schema.Long), "w": schema.Of(schema.Long)},
		Now:     func() time.Time { return time.UnixMicro(s.now) },
	}
}

// guarded runs an action on stores that fail at a call, 0 for none, and act
// beside it at another.
func (s *shelf) guarded(failAt int64, lost bool, actAt int64, act func() error, do func(store, dead objstore.Store) error) error {
	store, dead := faulty.New(s.store), faulty.New(s.dead)
	var n atomic.Int64
	var crashed atomic.Bool
	var fault error
	rule := func(c faulty.Call) *faulty.Fault {
		switch i := n.Add(1); {
		case crashed.Load():
			return &faulty.Fault{Err: faulty.ErrCrashed}
		case i == failAt:
			crashed.Store(true)
			return &faulty.Fault{Err: faulty.ErrCrashed, Applied: lost}
		case i == actAt && act != nil:
			fault = act()
		}
		return nil
	}
	store.Fail(rule)
	dead.Fail(rule)
	err := do(store, dead)
	if fault != nil {
		return fmt.Errorf("meanwhile: %w", fault)
	}
	if errors.Is(err, faulty.ErrCrashed) {
		return nil // the next action finds what it left
	}
	return err
}

func (s *shelf) ingest(c settings, store, dead objstore.Store) error {
	s.seed++
	lane, err := ingest.New(s.options(c, store, dead), newFeed(rand.New(rand.NewPCG(s.seed, 5)), s.topic, s.now, 4))
	if err != nil {
		return err
	}
	return lane.Run(ctx)
}

func (s *shelf) replay(c settings, pick func(*deadletter.Entry) bool, store, dead objstore.Store) error {
	_, err := ingest.ReplayDeadLetters(ctx, s.options(c, store, dead), ingest.Replay{Pick: pick})
	if errors.Is(err, delta.ErrNotATable) {
		return nil
	}
	return err
}

func (s *shelf) dismiss(pick func(*deadletter.Entry) bool, store, dead objstore.Store) error {
	_, err := ingest.Dismiss(ctx, store, dead, pick, "by the test", false)
	if errors.Is(err, delta.ErrNotATable) {
		return nil
	}
	return err
}

// open reads the newest version; nil without a table.
func (s *shelf) open() (*savepoint.Map, *delta.Table, *delta.Snapshot, error) {
	table, err := delta.Open(ctx, s.store)
	if errors.Is(err, delta.ErrNotATable) {
		return nil, nil, nil, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	snap, err := table.Snapshot(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := savepoint.Read(ctx, table, snap)
	return m, table, snap, err
}

// states gives what became of each entry, and the places of held changes.
func (s *shelf) states(m *savepoint.Map) (map[settled.Place]settled.State, map[settled.Place]bool, error) {
	states, err := deadletter.ReadStates(ctx, s.store, s.cal, m.Progress)
	if err != nil {
		return nil, nil, err
	}
	of := map[settled.Place]settled.State{}
	err = deadletter.Open(s.dead).Each(ctx, func(e deadletter.Entry) error {
		if _, twice := of[e.Place()]; twice {
			return fmt.Errorf("%s is there twice", e.Place())
		}
		of[e.Place()] = states.Of(&e).State
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	held := map[settled.Place]bool{}
	r := drift.NewReader(ctx, s.store, m.Progress.Held)
	defer r.Close()
	for {
		e, _, err := r.Next()
		if err != nil || e == nil {
			return of, held, err
		}
		held[placeOf(e.Record)] = true
	}
}

func placeOf(r *change.Record) settled.Place {
	return settled.Place{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

// check compares the newest version with the model, and sealed ones with what they were.
func (s *shelf) check() error {
	m, table, snap, err := s.open()
	if err != nil || m == nil {
		return err
	}
	states, held, err := s.states(m)
	if err != nil {
		return err
	}
	// P3: every record has one fate, and what is said of single ones adds up.
	p := m.Progress
	n := map[settled.State]int64{}
	for _, state := range states {
		n[state]++
	}
	if missing := p.Totals.Missing(); missing != 0 || p.Totals.DeadLetters != n[settled.Active]+n[settled.Dismissed] || p.Totals.Dismissed != n[settled.Dismissed] {
		return fmt.Errorf("P3: %d missing, totals %+v, entries by state %v", missing, p.Totals, n)
	}
	if open := m.DeadLettersUpTo(p, p.State.Open); open != n[settled.Active] {
		return fmt.Errorf("the open label counts %d dead letters, %v are there", open, n)
	}
	var rows []string
	last := map[string]map[string]string{}
	for _, events := range s.topic {
		for _, e := range events {
			part := p.State.Find(change.PartitionID{Topic: "t", Partition: e.record.Partition})
			if part == nil || e.record.Offset >= part.Next || held[placeOf(e.record)] {
				continue
			}
			switch states[placeOf(e.record)] {
			case settled.Active, settled.Dismissed, settled.Superseded:
				continue
			}
			if e.op == 'd' {
				delete(last, e.new)
				continue
			}
			row := maps.Clone(e.row)
			if row["w"] == keeps {
				if last[e.new] == nil {
					return fmt.Errorf("%s was applied, and it had no row to complete", e)
				}
				row["w"] = last[e.new]["w"]
			}
			if e.misfit {
				delete(row, "w")
			}
			last[e.new] = row
		}
	}
	for _, row := range last {
		rows = append(rows, strings.Replace(rowText(row), "w= ", "", 1))
	}
	slices.Sort(rows)
	got, err := rowsOf(s.store, snap)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i] = strings.TrimSpace(strings.TrimSuffix(rows[i], "w="))
	}
	if !slices.Equal(got, rows) {
		return fmt.Errorf("rows are\n  %s\nthe model says\n  %s\nentries %v", strings.Join(got, "\n  "), strings.Join(rows, "\n  "), states)
	}
	for _, e := range m.Entries {
		if e.State != savepoint.Sealed && !e.Kept {
			continue
		}
		then, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			return err
		}
		got, err := rowsOf(s.store, then)
		if err != nil {
			return err
		}
		if was, seen := s.sealed[e.Version]; seen && !slices.Equal(got, was) {
			return fmt.Errorf("%s was altered: %v, it was %v", e.Name, got, was)
		}
		s.sealed[e.Version] = got
	}
	return nil
}

// TestReplayModel plays random dead letters, replays, dismissals, rollbacks,
// vacuums, and crashes between all their steps.
func TestReplayModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShelf(t)
		picker := func() func(*deadletter.Entry) bool {
			mask := rapid.Uint64().Draw(t, "mask")
			return func(e *deadletter.Entry) bool { return mask>>((e.Offset*2+int64(e.Partition))%64)&1 == 1 }
		}
		fault := func() (int64, bool) {
			if rapid.IntRange(0, 2).Draw(t, "fault?") > 0 {
				return 0, false
			}
			return rapid.Int64Range(1, 60).Draw(t, "call"), rapid.Bool().Draw(t, "lost")
		}
		for range rapid.IntRange(3, 14).Draw(t, "steps") {
			what := rapid.SampledFrom([]string{"ingest", "ingest", "ingest", "replay", "replay", "dismiss", "rollback", "vacuum", "ingest and replay"}).Draw(t, "what")
			c := drawSettings(t)
			call, lost := fault()
			var err error
			switch what {
			case "ingest", "ingest and replay":
				for range rapid.IntRange(0, 12).Draw(t, "records") {
					s.put(rapid.SampledFrom([]string{"full", "full", "delete", "partial", "misfit", "late", "future", "broken"}).Draw(t, "kind"), rapid.IntRange(1, 6).Draw(t, "key"))
				}
				if s.now < time.Date(2022, 7, 18, 0, 0, 0, 0, time.UTC).UnixMicro() { // positions of deletes are known for two days
					s.now += rapid.SampledFrom([]int64{0, 0, 24 * hour}).Draw(t, "days")
				}
				var act func() error
				var actAt int64
				if what == "ingest and replay" {
					pick, with := picker(), drawSettings(t)
					actAt = rapid.Int64Range(1, 80).Draw(t, "at")
					act = func() error { return s.replay(with, pick, s.store, s.dead) }
				}
				err = s.guarded(call, lost, actAt, act, func(store, dead objstore.Store) error { return s.ingest(c, store, dead) })
			case "replay":
				pick := picker()
				err = s.guarded(call, lost, 0, nil, func(store, dead objstore.Store) error { return s.replay(c, pick, store, dead) })
			case "dismiss":
				pick := picker()
				err = s.guarded(call, lost, 0, nil, func(store, dead objstore.Store) error { return s.dismiss(pick, store, dead) })
			case "rollback":
				err = s.rollback(rapid.IntRange(0, 9).Draw(t, "to"))
			case "vacuum":
				err = s.vacuum()
			}
			if err == nil {
				err = s.check()
			}
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		// In the end all is done without a fault, twice: the second time nothing is left.
		all := func(*deadletter.Entry) bool { return true }
		mended := settings{"fold", "clamp", "null"}
		if err := errors.Join(s.ingest(mended, s.store, s.dead), s.replay(mended, all, s.store, s.dead), s.check()); err != nil {
			t.Fatal(err)
		}
		before := newestOf(t, s.store)
		if err := s.replay(mended, all, s.store, s.dead); err != nil {
			t.Fatal(err)
		}
		if after := newestOf(t, s.store); after != before {
			t.Fatalf("a second replay committed version %d", after)
		}
		if err := errors.Join(s.copied(), s.dismiss(all, s.store, s.dead), s.copied(), s.check()); err != nil {
			t.Fatal(err)
		}
	})
}

func newestOf(t *rapid.T, store objstore.Store) int64 {
	versions, err := delta.New(store).Versions(ctx)
	if errors.Is(err, delta.ErrNotATable) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	return versions[len(versions)-1]
}

// copied brings the columns of the dead-letter table up to date, and compares them.
func (s *shelf) copied() error {
	m, _, _, err := s.open()
	if err != nil || m == nil {
		return err
	}
	if _, err := ingest.SyncDeadLetters(ctx, s.store, s.dead); err != nil {
		return err
	}
	states, err := deadletter.ReadStates(ctx, s.store, s.cal, m.Progress)
	if err != nil {
		return err
	}
	err = deadletter.Open(s.dead).Each(ctx, func(e deadletter.Entry) error {
		if want := states.Of(&e); e.Copied != want {
			return fmt.Errorf("%s says %+v, it is %+v", e.Place(), e.Copied, want)
		}
		return nil
	})
	if n, again := ingest.SyncDeadLetters(ctx, s.store, s.dead); err == nil && (n != 0 || again != nil) {
		return fmt.Errorf("a second sync changed %d entries: %w", n, again)
	}
	return err
}

func (s *shelf) rollback(n int) error {
	m, _, _, err := s.open()
	if err != nil || m == nil {
		return err
	}
	var names []string
	for _, e := range m.Entries {
		if e.State == savepoint.Sealed || e.Kept {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	_, err = savepoint.Rollback(ctx, delta.New(s.store), names[n%len(names)], savepoint.RollbackOptions{Now: time.Now()})
	return err
}

func (s *shelf) vacuum() error {
	m, table, _, err := s.open()
	if err != nil || m == nil {
		return err
	}
	_, err = savepoint.Vacuum(context.Background(), table, savepoint.VacuumOptions{Grace: 1, Now: time.Now().Add(time.Hour), RolledBack: 24 * time.Hour})
	return err
}
