package ingest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

const (
	second = int64(1e6)
	minute = 60 * second
	hour   = 60 * minute
)

// features say what happens in a run.
type features struct {
	partitions                                                    int
	load, reload, stale, lone                                     bool // full reads, again, of an older moment; incremental ones
	flags                                                         string
	reset, failover, gtids, grow, idle, empty                     bool
	truncates, partial, keyChanges, redelivery                    bool
	broken, future, misfits, zeroTimes, fineTimes, noBroker       bool
	stepsBack, late, lag, statements, noRows, filtered            bool
	noPositions, noServerID, columns, holes, tombstones, newWaits bool
	foreign                                                       bool // another engine writes rows too
}

// draw picks what happens, leaving out what the contract leaves open: changes of
// a key whose order nothing tells (no position, or a new line, on several
// partitions), and partial images that meet changes of other partitions.
func draw(r *rand.Rand) features {
	yes := func(p float64) bool { return r.Float64() < p }
	f := features{
		partitions: 1 + r.IntN(4), load: yes(.35), reload: yes(.12), stale: yes(.08), lone: yes(.25), flags: pick(r, "both", "both", "last", "none"),
		reset: yes(.12), failover: yes(.08), gtids: yes(.25), grow: yes(.2), idle: yes(.1), empty: yes(.08),
		truncates: yes(.12), partial: yes(.2), keyChanges: yes(.3), redelivery: yes(.4),
		broken: yes(.25), future: yes(.15), misfits: yes(.12), zeroTimes: yes(.15), fineTimes: yes(.3), noBroker: yes(.08),
		stepsBack: yes(.4), late: yes(.35), lag: yes(.4), statements: yes(.25), noRows: yes(.3), filtered: yes(.1),
		noPositions: yes(.07), noServerID: yes(.3), columns: yes(.15), holes: yes(.5), tombstones: yes(.08), newWaits: yes(.1),
	}
	if f.reset || f.failover {
		f.stepsBack, f.grow, f.late, f.stale, f.noServerID = false, false, false, false, false
		f.redelivery = f.redelivery && f.failover && f.gtids && !f.reset
	}
	if f.partial || f.columns || f.misfits {
		f.grow, f.stale, f.reload = false, false, false
		if f.partitions > 1 {
			f.truncates, f.keyChanges = false, false
		}
	}
	if f.partial && f.load && f.partitions > 1 {
		// A change whose time lies before the load's label, behind a read that may
		// still fall into it: whether its row is known then depends on the reading.
		f.late, f.stepsBack, f.zeroTimes, f.future = false, false, false, false
	}
	if f.noPositions || f.tombstones {
		f.idle, f.empty = false, false
		f.grow, f.stale, f.reset, f.failover, f.gtids = false, false, false, false, false
		if f.partitions > 1 {
			f.truncates, f.keyChanges, f.load, f.reload, f.lone = false, false, false, false, false
		}
	}
	if f.tombstones {
		f.noBroker = false
	}
	return f
}

// mayLack reports that updates may lack a column of the table, as they do once another
// engine has added one: these are partial images then, see draw.
func (f *features) mayLack() bool {
	return !f.grow && !f.stale && !f.reload && (f.partitions == 1 || !f.truncates && !f.keyChanges && !f.load)
}

// alone leaves out what stands in no order to the rows of another engine: these have no
// place in the source's order but that of the moment.
func (f *features) alone() {
	f.foreign, f.partitions = true, 1
	f.grow, f.idle, f.empty, f.lone, f.stale, f.reload, f.load = false, false, false, false, false, false, false
	f.reset, f.failover, f.truncates, f.tombstones, f.noPositions = false, false, false, false, false
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// source is a MySQL server, the connector that reads its binlog, and the topic
// that it writes to. What each does wrong is among the features.
type source struct {
	r   *rand.Rand
	f   features
	cal *snapshotter.Calendar
	key []string

	now       int64 // µs
	rows      map[string]map[string]string
	cells     map[string][]string // of a key
	file, pos int64
	server    int
	gtid      int
	counter   int64
	columns   []string // of the table beside key, v and note
	hot       string   // the key changed last
	gone      []*event // deletes
	topic     []*event
	arrival   []int64
	lag       map[int32]int64
	parts     int
}

func newSource(r *rand.Rand, f features, cal *snapshotter.Calendar, start int64) *source {
	s := &source{
		r: r, f: f, cal: cal, now: start, key: pick(r, []string{"id"}, []string{"id"}, []string{"id"}, []string{"a", "b"}),
		rows: map[string]map[string]string{}, cells: map[string][]string{}, server: 1, parts: f.partitions, lag: map[int32]int64{},
	}
	at := pick(r, [2]int64{1, 4}, [2]int64{7, 100}, [2]int64{9, 500}, [2]int64{999999, 40})
	s.file, s.pos = at[0], at[1]
	s.counter = pick(r, int64(0), 0, 1<<53)
	return s
}

func (s *source) chance(p float64) bool { return s.r.Float64() < p }

// aKey draws a key from a small pool, so that keys meet again.
func (s *source) aKey() string {
	n := 1 + s.r.IntN(7)
	if len(s.key) == 2 {
		b := fmt.Sprintf(`"k%d"`, n/3)
		if n == 7 {
			b = "null"
		}
		return s.keyOf(fmt.Sprint(n%3), b)
	}
	if n == 7 && s.chance(.3) {
		return s.keyOf("null")
	}
	return s.keyOf(fmt.Sprint(n))
}

// keyOf is the text of a key: {"id":1}.
func (s *source) keyOf(cells ...string) string {
	var b strings.Builder
	for i, c := range cells {
		fmt.Fprintf(&b, `%c"%s":%s`, "{,"[min(i, 1)], s.key[i], c)
	}
	b.WriteByte('}')
	s.cells[b.String()] = cells
	return b.String()
}

func (s *source) partition(key string) int32 {
	h := 0
	for _, c := range []byte(key) {
		h += int(c) * 7
	}
	return int32(h % s.parts)
}

// image is a new row of a key.
func (s *source) image(key string) map[string]string {
	s.counter++
	row := map[string]string{"v": fmt.Sprint(s.counter), "note": pick(s.r, `"x"`, `"y"`, "null")}
	for i, c := range s.cells[key] {
		row[s.key[i]] = c
	}
	for _, c := range s.columns {
		row[c] = pick(s.r, `"p"`, `"q"`, "null")
	}
	return row
}

// tick lets time go on: by seconds, to the edge of a period, or over empty ones.
func (s *source) tick() {
	l := s.cal.Label(s.now)
	start, end := s.cal.Start(l), s.cal.End(l)
	if s.chance(.04) {
		s.file, s.pos = s.file+1, 4 // the log rotates
	}
	switch c := s.r.Float64(); {
	case c < .55:
		s.now += pick[int64](s.r, 0, 0, 1, 5, 40) * second
	case c < .7:
		s.now += pick[int64](s.r, 2, 5, 9) * minute
	case c < .9:
		s.now = max(s.now, end+pick[int64](s.r, -120, -1, 0, 1, 60, 300)*second)
	case c < .93:
		s.now = max(s.now, start+10*minute+pick(s.r, -second, 0, second))
	case c < .96:
		s.now = max(s.now, end-3*minute)
	default:
		s.now = max(s.now, s.cal.End(l+pick(s.r, label(1), 1, 2, 4))-pick[int64](s.r, 1, 3600)*second)
	}
}

// what an act leaves to emit to decide.
type what struct {
	op       byte
	kind     kind
	part     int32 // -1: by key
	key      string
	old      string
	before   map[string]string
	after    map[string]string
	time     int64 // -1: now
	pos      *change.Position
	row      int32
	snapshot string
	broker   int64
	table    string
	misfit   bool
	half     bool
	headers  []change.Header
	noKey    bool
	sameTx   bool
}

// step moves the log on to the next event's position.
func (s *source) step() *change.Position {
	s.pos += pick(s.r, int64(10), 25, 60)
	return &change.Position{File: s.file, Pos: s.pos}
}

// emit writes an event as Debezium does.
func (s *source) emit(w what) *event {
	if w.part < 0 {
		w.part = s.partition(w.key)
	}
	if w.pos == nil {
		w.pos = s.step()
	}
	if !w.sameTx {
		s.gtid++
	}
	if w.time < 0 {
		w.time = s.now
		if s.f.fineTimes {
			w.time += s.r.Int64N(1000)
		}
	}
	broker := s.now + pick[int64](s.r, 0, 400, 2000)*1000
	if w.broker > 0 {
		broker = w.broker
	}
	e := &event{
		kind: w.kind, op: w.op, old: w.old, row: maps.Clone(w.after), time: w.time, broker: broker, pos: *w.pos, hasPos: true,
		server: s.serverName(), misfit: w.misfit, half: w.half,
	}
	e.pos.Row = w.row
	src := map[string]any{
		"ts_ms": w.time / 1000, "name": "shop", "db": "shop", "table": "t", "server_id": s.server, "row": w.row,
		"file": logFile(w.pos.File), "pos": w.pos.Pos,
	}
	isRead := w.kind == fullRead || w.kind == loneRead
	switch {
	case w.time == 0:
		src["ts_ms"] = pick[any](s.r, 0, 1657933620, nil)
	case s.f.fineTimes:
		src["ts_us"] = w.time
	default:
		e.time = w.time / 1000 * 1000
	}
	if isRead && s.f.noServerID {
		src["server_id"] = 0
	}
	if s.f.gtids && !isRead {
		e.gtid = fmt.Sprintf("3e11fa47-71ca-11e1-9e33-c80aa9429562:%d", s.gtid)
		src["gtid"] = e.gtid
	}
	if s.f.noPositions {
		delete(src, "file")
		e.hasPos, e.pos = false, change.Position{}
	}
	if w.snapshot != "" {
		src["snapshot"] = w.snapshot
		e.first, e.last = w.snapshot == "first", w.snapshot == "last"
	}
	if w.table != "" {
		src["table"], e.kind = w.table, filtered
	}
	if w.op == 'd' {
		e.old = w.key
	} else if w.op != 't' {
		e.new = w.key
	}
	value := map[string]any{"op": string(w.op), "before": image(w.before), "after": image(w.after), "source": src, "ts_ms": broker / 1000}
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	key := []byte(w.key)
	if w.key == "" || w.noKey {
		key = nil
	}
	s.add(e, w.part, key, raw, w.headers)
	return e
}

func (s *source) serverName() string { return fmt.Sprintf("shop/%d", s.server) }

func logFile(n int64) string { return fmt.Sprintf("mysql-bin.%06d", n) }

// image gives a row for the JSON encoder, with every digit.
func image(row map[string]string) any {
	if row == nil {
		return nil
	}
	out := map[string]json.RawMessage{}
	for c, text := range row {
		out[c] = json.RawMessage(text)
	}
	return out
}

// add hands a record to the producer.
func (s *source) add(e *event, part int32, key, value []byte, headers []change.Header) {
	if e.broker == 0 {
		e.broker = s.now
	}
	e.broker = e.broker / 1000 * 1000
	e.record = &change.Record{Topic: "t", Partition: part, Timestamp: e.broker / 1000, Key: key, Value: value, Headers: headers}
	if s.f.noBroker {
		e.record.Timestamp = -1
	}
	if s.f.lag && s.chance(.1) {
		s.lag[part] = pick[int64](s.r, 0, 0, 6, 12, 30) * minute
	}
	s.topic = append(s.topic, e)
	s.arrival = append(s.arrival, s.now+s.lag[part])
}

// deliver gives the topic in order of arrival, with offsets: each partition in
// order of production.
func (s *source) deliver() ([]*event, []int64) {
	type arrived struct {
		e  *event
		at int64
	}
	latest := map[int32]int64{}
	list := make([]arrived, len(s.topic))
	for i, e := range s.topic {
		p := e.record.Partition
		latest[p] = max(latest[p], s.arrival[i])
		list[i] = arrived{e, latest[p]}
	}
	slices.SortStableFunc(list, func(a, b arrived) int { return cmp.Compare(a.at, b.at) })
	next := map[int32]int64{}
	var events []*event
	var at []int64
	hole := func() int64 {
		if s.f.holes && s.chance(.1) {
			return 1 + s.r.Int64N(3)
		}
		return 0
	}
	for _, a := range list {
		p := a.e.record.Partition
		if _, ok := next[p]; !ok && s.f.holes {
			next[p] = s.r.Int64N(4) // what lay below is deleted, or was a marker
		}
		a.e.record.Offset = next[p]
		next[p]++
		next[p] += hole()
		a.e.next = next[p]
		events, at = append(events, a.e), append(at, a.at)
	}
	return events, at
}

// print is a record for people.
func (e *event) String() string {
	r := e.record
	return fmt.Sprintf("p%d@%d ts %s key %s value %s", r.Partition, r.Offset, time.UnixMicro(e.broker).UTC().Format(time.RFC3339Nano),
		bytes.TrimSpace(r.Key), r.Value)
}
