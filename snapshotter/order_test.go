package snapshotter

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/ingest/change"
)

// TestNewer holds rule 7 by example.
func TestNewer(t *testing.T) {
	at := func(partition int32, offset int64, line int32, pos int64, rank Rank, time int64) Meta {
		return Meta{Partition: partition, Offset: offset, Line: line, Position: change.Position{File: 1, Pos: pos}, HasPosition: true, Rank: rank, Time: time}
	}
	arrived := func(partition int32, offset int64) Meta {
		return Meta{Partition: partition, Offset: offset, Rank: RankChange}
	}
	for _, c := range []struct {
		what string
		a, b Meta
		want bool
	}{
		{"changes of one partition: offsets, whatever times say", at(0, 2, 0, 20, RankChange, 1), at(0, 1, 0, 10, RankChange, 9), true},
		{"also where the positions say otherwise", at(0, 2, 0, 10, RankChange, 1), at(0, 1, 0, 20, RankChange, 1), true},
		{"also across lines", at(0, 2, 1, 5, RankChange, 1), at(0, 1, 0, 99, RankChange, 9), true},
		{"rows of one record: positions", at(0, 2, 0, 20, RankChange, 1), at(0, 2, 0, 10, RankChange, 1), true},
		{"one line, two partitions: positions", at(1, 0, 0, 20, RankChange, 1), at(0, 9, 0, 10, RankChange, 9), true},
		{"two lines, two partitions: event time", at(1, 0, 1, 5, RankChange, 9), at(0, 9, 0, 99, RankChange, 1), true},
		{"two lines, two partitions, one time: the change before the read", at(1, 0, 1, 5, RankChange, 9), at(0, 9, 0, 99, RankRead, 9), true},
		{"a read behind a newer change of its partition is older", at(0, 9, 0, 10, RankRead, 9), at(0, 1, 0, 20, RankChange, 1), false},
		{"and the change newer", at(0, 1, 0, 20, RankChange, 1), at(0, 9, 0, 10, RankRead, 9), true},
		{"a read above a change of its partition is newer", at(0, 9, 0, 30, RankRead, 1), at(0, 1, 0, 20, RankChange, 9), true},
		{"at one position the change is newer than the read", at(1, 0, 0, 20, RankChange, 1), at(0, 9, 0, 20, RankRead, 9), true},
		{"and the read newer than the floor of its load", at(1, 0, 0, 20, RankRead, 1), at(0, 9, 0, 20, RankFloor, 9), true},
		{"two reads at one position: neither", at(1, 0, 0, 20, RankRead, 1), at(0, 9, 0, 20, RankRead, 9), false},
		{"a read of another line of its partition: offsets", at(0, 9, 1, 1, RankRead, 1), at(0, 8, 0, 99, RankChange, 9), true},
		{"without positions on one partition: offsets", arrived(0, 2), arrived(0, 1), true},
		{"without positions on one partition, the older one", arrived(0, 1), arrived(0, 2), false},
		{"without positions on two partitions: the one that has just arrived", arrived(1, 0), arrived(0, 9), true},
		{"one without a position: arrival", arrived(1, 0), at(0, 9, 0, 99, RankChange, 9), true},
	} {
		if got := Newer(c.a, c.b); got != c.want {
			t.Errorf("%s: got %v", c.what, got)
		}
	}
	log := change.Position{File: 1000000, Pos: 4}
	if log.Compare(change.Position{File: 999999, Pos: 9999}) != 1 {
		t.Error("log files compare as text")
	}
}

// onePartition draws what one partition may hold of a key: offsets rise, lines
// follow each other, positions of changes rise within a line, reads lie anywhere.
func onePartition(t *rapid.T) []Meta {
	var out []Meta
	var offset, pos int64
	line := int32(0)
	for range rapid.IntRange(2, 8).Draw(t, "n") {
		offset += rapid.Int64Range(1, 3).Draw(t, "offset")
		if rapid.IntRange(0, 5).Draw(t, "reset") == 0 {
			line, pos = line+1, 0
		}
		m := Meta{Partition: 3, Offset: offset, Line: line, HasPosition: true, Rank: RankChange, Time: rapid.Int64Range(0, 5).Draw(t, "time")}
		if rapid.Bool().Draw(t, "read") {
			m.Rank, m.Position.Pos = RankRead, rapid.Int64Range(0, pos+2).Draw(t, "read at")
		} else {
			pos += rapid.Int64Range(1, 2).Draw(t, "pos") // two changes of one key at one position have no order
			m.Position.Pos = pos
		}
		out = append(out, m)
	}
	return out
}

// oneLine draws changes, reads and floors of one line on several partitions.
func oneLine(t *rapid.T) []Meta {
	var out []Meta
	next := map[int32]int64{}
	at := rapid.SliceOfNDistinct(rapid.Int64Range(0, 20), 2, 8, rapid.ID[int64]).Draw(t, "positions")
	slices.Sort(at)
	for _, pos := range at {
		m := Meta{Partition: rapid.Int32Range(0, 2).Draw(t, "partition"), Line: 1, HasPosition: true, Rank: RankChange, Time: rapid.Int64Range(0, 5).Draw(t, "time")}
		m.Position = change.Position{File: pos / 5, Pos: pos % 5}
		m.Rank = Rank(rapid.IntRange(0, 2).Draw(t, "rank"))
		m.Offset = next[m.Partition]
		next[m.Partition]++
		out = append(out, m)
	}
	return out
}

// TestNewerIsAStrictOrder: irreflexive, asymmetric, transitive, and any two
// changes of a key have an order.
func TestNewerIsAStrictOrder(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T) []Meta{"partition": onePartition, "line": oneLine} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			list := draw(t)
			for _, a := range list {
				if Newer(a, a) {
					t.Fatalf("%+v is newer than itself", a)
				}
				for _, b := range list {
					if a != b && Newer(a, b) && Newer(b, a) {
						t.Fatalf("%+v and %+v are both newer", a, b)
					}
					if a != b && a.Rank == RankChange && b.Rank == RankChange && !Newer(a, b) && !Newer(b, a) {
						t.Fatalf("%+v and %+v have no order", a, b)
					}
					for _, c := range list {
						if Newer(a, b) && Newer(b, c) && !Newer(a, c) {
							t.Fatalf("%+v, %+v, %+v go round", a, b, c)
						}
					}
				}
			}
		}))
	}
}

// TestFloors: a floor that another one makes superfluous goes, and only such a
// one: what stands above all floors stays the same.
func TestFloors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		meta := func(name string) Meta {
			return Meta{
				Partition: rapid.Int32Range(0, 1).Draw(t, name+" partition"), Offset: rapid.Int64Range(0, 5).Draw(t, name+" offset"),
				Line: rapid.Int32Range(0, 1).Draw(t, name+" line"), Position: change.Position{Pos: rapid.Int64Range(0, 5).Draw(t, name+" pos")},
				HasPosition: true, Time: rapid.Int64Range(0, 5).Draw(t, name+" time"), Rank: rapid.SampledFrom([]Rank{RankFloor, RankChange}).Draw(t, name+" rank"),
			}
		}
		var s State
		var all []Meta
		for i := range rapid.IntRange(1, 6).Draw(t, "floors") {
			f := meta(fmt.Sprint("floor ", i))
			s.AddFloor(f)
			all = append(all, f)
		}
		m := meta("change")
		m.Rank = RankChange
		want := !slices.ContainsFunc(all, func(f Meta) bool { return !Newer(m, f) })
		if got := s.AboveFloors(m); got != want {
			t.Fatalf("%+v is above %+v: %v, above all of %+v: %v", m, s.Floors, got, all, want)
		}
	})
}

// TestStateRoundTrip: a judge of a state that was written and read back judges
// whatever comes next as the first one does.
func TestStateRoundTrip(t *testing.T) {
	cal := calendar(t, "day", "Asia/Shanghai", "")
	first := parse(t, cal, "2022-07-16")
	start := cal.Start(first)
	rapid.Check(t, func(t *rapid.T) {
		state := &State{First: first, Open: first, Wait: 600e6}
		for p := range int32(2) {
			state.AddPartition(change.PartitionID{Topic: "t", Partition: p}, 0)
		}
		a := NewJudge(cal, state)
		b := a
		var held []taken
		next := map[int32]int64{}
		event := func() (int32, Event) {
			p := rapid.Int32Range(0, 1).Draw(t, "partition")
			key := func(name string) string { return rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, name) }
			e := Event{
				Kind: rapid.SampledFrom([]Kind{RowChange, RowChange, RowChange, FullRead, IncrementalRead, TableTruncate}).Draw(t, "kind"), Offset: next[p],
				Keys: [2]string{key("old"), key("new")}, Identity: rapid.Uint64Range(0, 1<<53-1).Draw(t, "identity"), OwnTime: rapid.IntRange(0, 5).Draw(t, "own") > 0,
				Time:        start + rapid.Int64Range(-2, 60).Draw(t, "hours")*3600e6 + rapid.Int64Range(0, 1).Draw(t, "micros"),
				Server:      change.Server{Name: "s", ID: rapid.Int64Range(0, 2).Draw(t, "server")},
				Position:    change.Position{File: rapid.Int64Range(1, 3).Draw(t, "file"), Pos: rapid.Int64Range(1, 9).Draw(t, "pos"), Row: rapid.Int32Range(0, 1).Draw(t, "row")},
				HasPosition: rapid.IntRange(0, 9).Draw(t, "has position") > 0,
				FirstRead:   rapid.Bool().Draw(t, "first"), LastRead: rapid.Bool().Draw(t, "last"),
				GTID: rapid.SampledFrom([]string{"", "", "u:1", "u:2", "u:3", "0-1-2"}).Draw(t, "gtid"),
			}
			next[p]++
			return p, e
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				raw, err := json.Marshal(a.State)
				if err != nil {
					t.Fatal(err)
				}
				read := &State{}
				if err := json.Unmarshal(raw, read); err != nil {
					t.Fatal(err)
				}
				if err := read.Validate(); err != nil {
					t.Fatal(err)
				}
				b = NewJudge(cal, read)
				for _, h := range held {
					b.Held(h.partition, h.keys, h.at)
				}
			case 1:
				a.Seal(600e6)
				if a != b {
					b.Seal(600e6)
				}
				held = slices.DeleteFunc(held, func(h taken) bool { return h.at <= a.State.Open })
			default:
				p, e := event()
				if a.Paused(a.State.Partition(p)) {
					continue
				}
				v := a.Take(a.State.Partition(p), &e)
				if v.Fate == Hold && e.Kind == RowChange {
					held = append(held, taken{p, e.Keys, v.At})
				}
				if a == b {
					continue
				}
				w := b.Take(b.State.Partition(p), &e)
				if !reflect.DeepEqual(v, w) {
					t.Fatalf("%+v: %+v, behind a restart %+v", e, v, w)
				}
			}
			x, _ := json.Marshal(a.State)
			y, _ := json.Marshal(b.State)
			if string(x) != string(y) {
				t.Fatalf("the state is\n%s\nbehind a restart\n%s", x, y)
			}
		}
	})
}
