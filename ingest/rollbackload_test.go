package ingest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// TestRollbackUnderLoad rolls a table back again and again while its ingester runs: with
// replay, twice in a row, to a day before a column came, with the topic's start moving up
// to what was replayed last, while a reader holds an old day open. In the end every day
// has the rows that it had.
func TestRollbackUnderLoad(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	s := newSource(rand.New(rand.NewPCG(5, 5)), features{partitions: 2}, cal, time.Date(2022, 7, 16, 1, 0, 0, 0, time.UTC).UnixMicro())
	s.key, s.counter = []string{"id"}, 0
	const days, perDay = 6, 40
	for day := range days {
		if day == 3 {
			s.columns = []string{"c1"} // the 19th is the first day that has it
		}
		for range perDay {
			s.now += 30 * minute
			s.change()
		}
		s.now = s.cal.End(s.cal.Label(s.now)) + hour
	}
	events, _ := s.deliver()
	topic := map[int32][]*event{}
	for _, e := range events {
		topic[e.record.Partition] = append(topic[e.record.Partition], e)
	}
	clock := s.now + hour
	store, dead := mem.New(), mem.New()
	run := func(ctx context.Context, on objstore.Store, earliest map[int32]int64) error {
		source := newFeed(rand.New(rand.NewPCG(6, 6)), topic, clock, 3)
		for p, at := range earliest {
			source.logs[change.PartitionID{Topic: "t", Partition: p}].earliest = at
		}
		lane, err := ingest.New(ingest.Options{
			Name: "t", Store: on, DeadLetterStore: dead, Calendar: cal, Key: s.key, UntilEnd: true, BatchRows: 7, CheckpointEvery: 5,
			Now: func() time.Time { return time.UnixMicro(clock) }, Decode: decode.Options{KeyColumns: s.key},
		}, source)
		if err != nil {
			return err
		}
		return lane.Run(ctx)
	}
	if err := run(t.Context(), store, nil); err != nil {
		t.Fatal(err)
	}
	want := rowsByDay(t, store)
	if len(want) != days {
		t.Fatalf("%d days are sealed", len(want))
	}
	if rows := want["2022-07-18"]; len(rows) == 0 || slices.ContainsFunc(rows, func(r string) bool { return len(r) > 0 && r[0] == 'c' }) {
		t.Fatalf("the 18th has rows %q", rows)
	}

	// A reader of the 17th reads a row now and then, all the time.
	table := delta.New(store)
	m := readLabels(t, store)
	held, err := m.Resolve("2022-07-17", true)
	if err != nil {
		t.Fatal(err)
	}
	old, err := table.SnapshotAt(t.Context(), held.Entry.Version)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := scan.New(store, old, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	readRows := 0
	more := make(chan struct{})
	read := make(chan error, 1)
	go func() {
		for _, err := range reading.Rows(context.Background()) {
			if err != nil {
				read <- err
				return
			}
			readRows++
			<-more
		}
		read <- nil
	}()

	r := rand.New(rand.NewPCG(7, 7))
	earliest := map[int32]int64{}
	rollbacks := 0
	back := func(to string) error {
		if _, err := readLabels(t, store).Resolve(to, true); err != nil {
			return nil // it is rolled back itself, and not sealed again yet
		}
		rollbacks++
		_, err := savepoint.Rollback(context.Background(), delta.New(store), to, savepoint.RollbackOptions{
			Now: time.Now(), Differ: diff.Differ, Earliest: asPartitions(earliest),
		})
		return err
	}
	for round := range 12 {
		// The topic's start moves up to where the oldest day that is gone back to ends.
		oldest := 16 + min(3, round/3)
		m := readLabels(t, store)
		e, err := m.Resolve(fmt.Sprintf("2022-07-%d", oldest), true)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := m.Evidence(t.Context(), delta.New(store), e.Entry)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ev.Partitions {
			earliest[p.Partition] = p.Offset
		}
		if oldest > 16 {
			version := newestVersion(store)
			_, err := savepoint.Rollback(t.Context(), delta.New(store), "2022-07-16", savepoint.RollbackOptions{Now: time.Now(), Earliest: asPartitions(earliest)})
			if err == nil || newestVersion(store) != version {
				t.Fatalf("round %d: a rollback to a day whose replay the topic no longer has: %v", round, err)
			}
		}
		// In a life, at two of its calls: back to one day, and at once to another.
		to := func() string { return fmt.Sprintf("2022-07-%d", oldest+r.IntN(22-oldest)) }
		if round%2 == 0 {
			if err := back(to()); err != nil { // so that there is something to do
				t.Fatal(err)
			}
		}
		at := 1 + r.Int64N(120)
		var fault atomic.Pointer[error]
		on := faulty.New(store, func(c faulty.Call) *faulty.Fault {
			if c.N == at || c.N == at+15 {
				err := back(to())
				if err == nil {
					err = back(to()) // twice in a row
				}
				if err != nil {
					fault.Store(&err)
				}
			}
			return nil
		})
		if err := run(t.Context(), on, earliest); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := fault.Load(); err != nil {
			t.Fatalf("round %d: %v", round, *err)
		}
		// One that came behind the life's last commit is found by the next.
		if err := run(t.Context(), store, earliest); err != nil {
			t.Fatalf("round %d, once more: %v", round, err)
		}
		select {
		case more <- struct{}{}:
		default:
		}
		if got := rowsByDay(t, store); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("round %d: the days are\n%v\nthey were\n%v", round, got, want)
		}
	}
	close(more)
	if err := <-read; err != nil || readRows != len(want["2022-07-17"]) {
		t.Fatalf("the reader of the 17th read %d rows, %v; there are %d", readRows, err, len(want["2022-07-17"]))
	}
	t.Logf("%d rollbacks, %d versions", rollbacks, newestVersion(store)+1)
}

func asPartitions(at map[int32]int64) map[change.PartitionID]int64 {
	out := map[change.PartitionID]int64{}
	for p, offset := range at {
		out[change.PartitionID{Topic: "t", Partition: p}] = offset
	}
	return out
}

func newestVersion(store objstore.Store) int64 {
	versions, err := delta.New(store).Versions(ctx)
	if err != nil || len(versions) == 0 {
		return -1
	}
	return versions[len(versions)-1]
}

func readLabels(t *testing.T, store objstore.Store) *savepoint.Map {
	t.Helper()
	_, _, m, err := (*trial)(nil).snapshot(store)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// rowsByDay gives the rows of every sealed label.
func rowsByDay(t *testing.T, store objstore.Store) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, e := range readLabels(t, store).Entries {
		if e.State != savepoint.Sealed {
			continue
		}
		snap, err := delta.New(store).SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatal(err)
		}
		if out[e.Name], err = rowsOf(store, snap); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
