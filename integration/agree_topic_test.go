package integration

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// agreeKinds are the things that some of the tables must have had.
var agreeKinds = []string{
	"labels", "empty days", "late", "late to a sealed label", "held", "deletes", "returns", "key changes", "truncates",
	"redelivered", "moved to another partition", "rolled back", "optimized", "column added",
}

// agreeSeen counts what the random tables had.
type agreeSeen struct {
	mu     sync.Mutex
	counts map[string]int
}

func (s *agreeSeen) add(what string, n ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[what] += append(n, 1)[0]
}

// agreeRecord is a change in the topic. old and new are the keys that it deletes and
// writes, "" none; both are of a truncate.
type agreeRecord struct {
	partition int32
	offset    int64
	pos       int64 // in the binlog: the order of all changes
	at        time.Time
	old, new  string
	row       string // as agreeRow writes it
	truncate  bool
	again     bool // a redelivery
	sent      *change.Record

	label snapshotter.Label // see judge
	dead  bool
}

// agreeTopic is a source that writes a topic, and the plainest reading of it.
type agreeTopic struct {
	random  *rand.Rand
	log     *topicLog
	seen    *agreeSeen
	now     time.Time
	pos     int64
	records map[int32][]*agreeRecord
	live    map[string]bool
	known   map[string]bool
	wide    bool // rows have the column w
}

func newAgreeTopic(random *rand.Rand, log *topicLog, seen *agreeSeen) *agreeTopic {
	return &agreeTopic{random: random, log: log, seen: seen, records: map[int32][]*agreeRecord{}, live: map[string]bool{}, known: map[string]bool{}}
}

// agreeKey is a key of two columns, of which the second may be NULL.
type agreeKey struct {
	id     int
	region any
}

func (k agreeKey) String() string {
	if k.region == nil {
		return fmt.Sprintf("%d NULL", k.id)
	}
	return fmt.Sprintf("%d %s", k.id, k.region)
}

func (k agreeKey) cells() map[string]any { return map[string]any{"id": k.id, "region": k.region} }

func (s *agreeTopic) anyKey() agreeKey {
	return agreeKey{s.random.IntN(5), []any{"eu", "us", nil}[s.random.IntN(3)]}
}

// writeDay puts a day's changes and lets work look at some moments of it, the last one in
// the day after the buffer of the day before has run out.
func (s *agreeTopic) writeDay(day int, work func(time.Time)) {
	zone := time.FixedZone("", 8*3600)
	start := time.Date(2022, 7, 10+day, 0, 0, 0, 0, zone)
	s.now = start.Add(time.Second)
	if day == 0 { // all columns are there from the start
		for p := range int32(3) {
			s.write(p, s.now, agreeKey{int(p) + 100, "eu"}, "first")
		}
	}
	if day > 0 && s.random.IntN(6) == 0 {
		s.seen.add("empty days")
		if s.random.IntN(2) == 0 {
			work(start.Add(20 * time.Hour))
		}
		return
	}
	if s.random.IntN(2) == 0 { // inside the buffer of the day before
		for range s.random.IntN(8) {
			s.step(time.Minute)
			s.change(start)
			if s.random.IntN(3) == 0 {
				work(s.now)
			}
		}
	}
	s.now = start.Add(15 * time.Minute)
	for range 1 + s.random.IntN(16) {
		s.step(80 * time.Minute)
		s.change(start)
		if s.random.IntN(10) == 0 {
			work(s.now)
		}
	}
	work(start.Add(23*time.Hour + 58*time.Minute))
}

func (s *agreeTopic) step(most time.Duration) {
	s.now = s.now.Add(time.Duration(1+s.random.Int64N(int64(most/time.Millisecond))) * time.Millisecond).Truncate(time.Millisecond)
}

// change puts a random change.
func (s *agreeTopic) change(start time.Time) {
	at := s.now
	switch n := s.random.IntN(20); {
	case n < 3:
		s.seen.add("late")
		at = at.Add(-time.Duration(s.random.IntN(180)) * time.Minute)
	case n == 3:
		s.seen.add("late to a sealed label")
		at = start.Add(-time.Duration(1+s.random.IntN(40)) * time.Hour)
	}
	key := s.anyKey()
	p := s.partitionOf(key)
	if s.random.IntN(30) == 0 {
		s.seen.add("moved to another partition")
		p = s.random.Int32N(3)
	}
	switch n := s.random.IntN(40); {
	case n == 0:
		s.seen.add("truncates")
		clear(s.live)
		s.put(&agreeRecord{partition: p, at: at, truncate: true}, "t", nil, nil, nil)
	case n < 3:
		if list := s.records[p]; len(list) > 0 {
			s.seen.add("redelivered")
			s.putAgain(list[s.random.IntN(len(list))])
		}
	case n < 7 && s.live[key.String()]:
		to := s.anyKey()
		if to == key {
			return
		}
		s.seen.add("key changes")
		delete(s.live, key.String())
		s.live[to.String()], s.known[to.String()] = true, true
		row := s.row(to)
		s.put(&agreeRecord{partition: p, at: at, old: key.String(), new: to.String(), row: agreeRow(row)}, "u", to.cells(), s.row(key), row)
	case n < 16 && (s.live[key.String()] || n == 7):
		s.seen.add("deletes")
		delete(s.live, key.String())
		s.known[key.String()] = true
		s.put(&agreeRecord{partition: p, at: at, old: key.String()}, "d", key.cells(), s.row(key), nil)
	default:
		if s.known[key.String()] && !s.live[key.String()] {
			s.seen.add("returns")
		}
		s.write(p, at, key, []any{"x", "y", "z", nil}[s.random.IntN(4)])
	}
}

func (s *agreeTopic) partitionOf(key agreeKey) int32 {
	h := fnv.New32a()
	h.Write([]byte(key.String()))
	return int32(h.Sum32() % 3)
}

func (s *agreeTopic) row(key agreeKey) map[string]any {
	row := key.cells()
	row["a"] = []any{"x", "y", nil}[s.random.IntN(3)]
	if s.wide {
		row["w"] = []any{1, 2, nil}[s.random.IntN(3)]
	}
	return row
}

func (s *agreeTopic) write(p int32, at time.Time, key agreeKey, a any) {
	row := s.row(key)
	row["a"] = a
	op := "c"
	if s.live[key.String()] {
		op = "u"
	}
	s.live[key.String()], s.known[key.String()] = true, true
	s.put(&agreeRecord{partition: p, at: at, new: key.String(), row: agreeRow(row)}, op, key.cells(), nil, row)
}

func (s *agreeTopic) put(r *agreeRecord, op string, key, before, after map[string]any) {
	if after["w"] != nil {
		s.seen.add("column added")
	}
	s.pos += 10
	r.pos = s.pos
	image := func(row map[string]any) any {
		if row == nil {
			return nil
		}
		return row
	}
	value := map[string]any{"op": op, "before": image(before), "after": image(after), "ts_ms": s.now.UnixMilli(), "source": map[string]any{
		"connector": "mysql", "name": "shop", "server_id": 7, "db": "shop", "table": "user_dim", "file": "b.000001", "pos": r.pos, "row": 0, "ts_ms": r.at.UnixMilli()}}
	r.sent = &change.Record{Topic: topicName, Partition: r.partition, Value: agreeJSON(value)}
	if key != nil {
		r.sent.Key = agreeJSON(key)
	}
	s.append(r)
}

func (s *agreeTopic) putAgain(of *agreeRecord) {
	r, sent := *of, *of.sent
	r.again, r.sent = true, &sent
	s.append(&r)
}

func (s *agreeTopic) append(r *agreeRecord) {
	r.offset = int64(len(s.records[r.partition]))
	r.sent.Offset, r.sent.Timestamp = r.offset, s.now.UnixMilli()+200
	s.records[r.partition] = append(s.records[r.partition], r)
	s.log.send(r.sent)
}

func agreeJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// agreeRow is a row as text: columns by name, NULLs left out.
func agreeRow(row map[string]any) string {
	var b strings.Builder
	for _, c := range slices.Sorted(maps.Keys(row)) {
		if row[c] != nil {
			fmt.Fprintf(&b, "%s=%v ", c, row[c])
		}
	}
	return b.String()
}

// agreeEnd is where a label ends: the offsets below which its seal has taken all records.
type agreeEnd struct {
	label   snapshotter.Label
	offsets map[int32]int64
}

// judge gives every record the label in which it is applied. ends are those of the labels
// from the first on, in order, the last one that of the open label.
func (s *agreeTopic) judge(cal *snapshotter.Calendar, first snapshotter.Label, ends []agreeEnd, lateIsDead bool) {
	for p, list := range s.records {
		for i, r := range list {
			open := ends[len(ends)-1].label
			if at := slices.IndexFunc(ends, func(e agreeEnd) bool { return e.offsets[p] > r.offset }); at >= 0 {
				open = ends[at].label
			}
			r.label = max(cal.Label(r.at.UnixMicro()), first)
			if !r.truncate && r.label >= open { // it goes behind what is held of its keys
				for _, h := range list[:i] {
					if !h.truncate && !h.again && h.label > open && h.touches(r) {
						s.seen.add("held")
						r.label = max(r.label, h.label)
					}
				}
			}
			r.dead = lateIsDead && r.label < open
			r.label = max(r.label, open)
		}
	}
}

func (r *agreeRecord) touches(o *agreeRecord) bool {
	return slices.ContainsFunc([]string{r.old, r.new}, func(k string) bool { return k != "" && (k == o.old || k == o.new) })
}

// rowsOf gives the newest change of each key that has a row when a label ends.
func (s *agreeTopic) rowsOf(end agreeEnd) map[string]*agreeRecord {
	newest := map[string]*agreeRecord{}
	floor := int64(0)
	for p, list := range s.records {
		for _, r := range list {
			if r.offset >= end.offsets[p] || r.label > end.label || r.again || r.dead {
				continue
			}
			if r.truncate {
				floor = max(floor, r.pos)
			}
			for _, k := range []string{r.old, r.new} {
				if k != "" && (newest[k] == nil || newest[k].pos < r.pos) {
					newest[k] = r
				}
			}
		}
	}
	maps.DeleteFunc(newest, func(k string, r *agreeRecord) bool { return r.new != k || r.pos < floor })
	return newest
}

// text writes the topic for whoever looks for the cause of a difference.
func (s *agreeTopic) text() string {
	var b strings.Builder
	for p := range int32(3) {
		for _, r := range s.records[p] {
			fmt.Fprintf(&b, "p%d %d pos %d at %s: old %q new %q row %q truncate %v again %v dead %v\n",
				p, r.offset, r.pos, r.at.Format("02 15:04:05"), r.old, r.new, r.row, r.truncate, r.again, r.dead)
		}
	}
	return b.String()
}
