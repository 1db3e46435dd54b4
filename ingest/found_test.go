package ingest_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/snapshotter"
)

// found is a scenario by hand: one day after the other from 2022-07-16 on.
type found struct {
	*source
	sc *scenario
}

func newFound(t *testing.T, partitions int) *found {
	t.Helper()
	cal, err := snapshotter.NewCalendar("day", "Asia/Shanghai", "")
	if err != nil {
		t.Fatal(err)
	}
	s := newSource(rand.New(rand.NewPCG(1, 1)), features{partitions: partitions}, cal, time.Date(2022, 7, 16, 4, 0, 0, 0, time.UTC).UnixMicro())
	s.key, s.counter, s.file, s.pos = []string{"id"}, 0, 7, 100
	return &found{s, &scenario{
		seed: 1, most: 10, key: s.key, rules: rules{cal: cal, idle: 5 * minute, skew: 5 * minute, late: "fold", future: "dead_letter"},
		o: ingest.Options{
			Name: "t", Calendar: cal, Key: s.key, UntilEnd: true, MaxDeleteFraction: 1, BatchRows: 100, PollRecords: 100, Decoders: 1,
			Decode: decode.Options{KeyColumns: s.key},
		},
	}}
}

// at sets the source's clock: a time of a day of July, as the zone shows it.
func (f *found) at(day, hour, minutes int) {
	f.now = time.Date(2022, 7, day, hour-8, minutes, 0, 0, time.UTC).UnixMicro()
}

func (f *found) put(op byte, part int32, key, v string) *event {
	w := what{op: op, part: part, key: f.keyOf(key), time: -1}
	if op != 'd' {
		w.after = map[string]string{"id": key, "v": v}
	}
	return f.emit(w)
}

func (f *found) read(part int32, key, v, snapshot string, pos int64) {
	at := *f.step()
	at.Pos = pos
	f.emit(what{op: 'r', kind: fullRead, part: part, key: f.keyOf(key), after: map[string]string{"id": key, "v": v}, time: -1, pos: &at, snapshot: snapshot})
}

// look adds a step: everything that was emitted is there, at the source's clock.
func (f *found) look() {
	f.sc.steps = append(f.sc.steps, step{what: "look", n: len(f.topic), clock: f.now, wait: 10 * minute, seed: 1})
}

func (f *found) check(t *testing.T) {
	t.Helper()
	f.sc.f = f.source.f
	f.sc.events, _ = f.deliver()
	if fault := f.sc.play(t); fault != "" {
		t.Errorf("%s\n%s", fault, f.sc.print())
	}
}

// What the random runs have found, each as small as it can be.
func TestFound(t *testing.T) {
	t.Run("late changes are of their label alone, though labels share a seal", func(t *testing.T) {
		f := newFound(t, 1)
		f.put('c', 0, "1", "1")
		f.at(17, 1, 0)
		f.look()
		f.put('c', 0, "2", "2")
		f.at(16, 13, 0)
		f.put('u', 0, "2", "3") // late
		f.at(20, 1, 0)
		f.look()
		f.check(t)
	})
	t.Run("late changes before a rollback are undone", func(t *testing.T) {
		f := newFound(t, 1)
		f.put('c', 0, "1", "1")
		f.at(17, 1, 0)
		f.look()
		f.at(16, 13, 0)
		f.put('u', 0, "1", "2") // late
		f.at(17, 2, 0)
		f.look()
		f.sc.steps = append(f.sc.steps, step{what: "rollback", to: 0})
		f.look()
		f.at(18, 1, 0)
		f.look()
		f.check(t)
	})
	t.Run("a tombstone behind its delete is superseded", func(t *testing.T) {
		f := newFound(t, 1)
		f.sc.rules.tombstones, f.sc.o.Tombstones, f.sc.o.Decode.Tombstones = "delete", "delete", "delete"
		f.put('c', 0, "1", "1")
		f.put('d', 0, "1", "")
		f.tombstone(f.keyOf("1"))
		f.put('c', 0, "2", "2")
		f.tombstone(f.keyOf("2")) // a delete by itself
		f.at(18, 1, 0)
		f.look()
		f.check(t)
	})
	t.Run("a partition column may have no value yet", func(t *testing.T) {
		f := newFound(t, 1)
		f.sc.o.PartitionBy, f.sc.rules.partitionBy = []string{"v"}, []string{"v"}
		f.sc.o.Columns = map[string]schema.Type{"v": schema.Of(schema.Long)}
		f.put('d', 0, "1", "")
		f.put('c', 0, "2", "null")
		f.look()
		f.put('c', 0, "3", "3")
		f.at(18, 1, 0)
		f.look()
		f.check(t)
	})
	t.Run("a dead letter adds no column", func(t *testing.T) {
		f := newFound(t, 1)
		f.sc.o.Columns = map[string]schema.Type{"v": schema.Of(schema.Long)}
		f.put('c', 0, "1", "1")
		key := f.keyOf("2")
		f.emit(what{op: 'c', part: 0, key: key, after: map[string]string{"id": "2", "note": `"x"`, "v": `"many"`}, time: -1, misfit: true})
		f.at(17, 1, 0)
		f.look()
		f.put('u', 0, "3", "3") // whole, though it lacks a note
		f.at(18, 1, 0)
		f.look()
		f.check(t)
	})
	t.Run("a load ends when both flags have come", func(t *testing.T) {
		f := newFound(t, 2)
		f.put('c', 0, "1", "1")
		f.put('c', 1, "2", "2")
		f.read(0, "3", "3", "last", 5000)
		f.look()
		f.read(1, "4", "4", "first", 5000)
		f.at(18, 1, 0)
		f.look() // 1 and 2 are gone
		f.check(t)
	})
	t.Run("a load without positions outlives its end", func(t *testing.T) {
		f := newFound(t, 1)
		f.source.f.noPositions = true
		f.put('c', 0, "1", "1")
		f.read(0, "2", "2", "first", 0)
		f.read(0, "3", "3", "true", 0)
		f.read(0, "4", "4", "last", 0)
		f.put('c', 0, "5", "5")
		f.at(18, 1, 0)
		f.look()
		f.check(t)
	})
	t.Run("reads of a load are no drift", func(t *testing.T) {
		f := newFound(t, 1)
		f.read(0, "1", "1", "true", 5000)
		f.at(17, 0, 5)
		f.pos = 6000
		f.put('c', 0, "2", "2")
		f.read(0, "3", "3", "true", 5000)
		f.look()
		f.at(18, 1, 0)
		f.look()
		f.check(t)
	})
	t.Run("a load behind a reset is another one, at the same position too", func(t *testing.T) {
		f := newFound(t, 1)
		f.file = 1
		f.read(0, "1", "1", "last", 157)
		f.file, f.pos = 2, 4
		f.put('c', 0, "2", "2")
		f.at(17, 1, 0)
		f.look()
		f.at(18, 0, 5)
		f.file = 1
		f.read(0, "3", "3", "first", 157)
		f.read(0, "4", "4", "last", 157)
		f.at(19, 1, 0)
		f.look() // the 17th has the old rows, the 18th only the new ones
		f.check(t)
	})
	t.Run("a rollback to a kept savepoint can be repeated", func(t *testing.T) {
		f := newFound(t, 1)
		f.put('c', 0, "1", "1")
		f.at(17, 1, 0)
		f.put('c', 0, "2", "2")
		f.at(19, 1, 0)
		f.look()
		f.sc.steps = append(f.sc.steps,
			step{what: "rollback", to: 0},
			// To the 18th as it was: the first try works, and is made again.
			step{what: "rollback", to: 2, faults: []fault{{"lost", 1 << 40}}},
		)
		f.look()
		f.check(t)
	})
	t.Run("a deleted savepoint that a rollback passes is rolled back", func(t *testing.T) {
		f := newFound(t, 1)
		f.put('c', 0, "1", "1")
		f.at(19, 1, 0)
		f.look()
		f.sc.steps = append(f.sc.steps, step{what: "unpin", seed: 2}, step{what: "rollback", to: 0}) // the 18th goes, then back to the 16th
		f.look()
		f.check(t)
	})
	t.Run("a rollback takes a column away that came since the one before", func(t *testing.T) {
		f := newFound(t, 1)
		f.put('c', 0, "1", "1")
		f.at(17, 1, 0)
		f.look()
		f.sc.steps = append(f.sc.steps, step{what: "rollback", to: 0}, step{what: "column"}, step{what: "rollback", to: 0})
		f.put('c', 0, "2", "2")
		f.at(18, 1, 0)
		f.look()
		f.check(t)
	})
}
