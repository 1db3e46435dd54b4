package ingest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gscd-io/gscd/ingest/change"
)

// change is an insert, update, delete or key change of some row.
func (s *source) change() {
	key, t := s.aKey(), int64(-1)
	if s.f.stepsBack {
		if s.hot != "" && s.chance(.45) {
			key = s.hot
		}
		if s.chance(.35) {
			t = s.now - pick(s.r, second, 30*second, 5*minute)
		}
	}
	s.hot = key
	if s.f.late && s.chance(.08) {
		t = s.now - pick(s.r, 12*minute, 40*minute, 26*hour)
	}
	if s.f.zeroTimes && s.chance(.15) {
		t = 0
	}
	if s.f.fineTimes && t > 0 {
		t += s.r.Int64N(1000)
	}
	old, live := s.rows[key]
	before := old
	if s.chance(.2) {
		before = nil
	}
	misfit := s.f.misfits && s.chance(.15)
	switch {
	case !live && s.f.partial && s.chance(.15): // its row is not known
		out := s.image(key)
		s.leaveOut(out)
		s.emit(what{op: 'u', part: -1, key: key, after: out, time: t})
	case misfit:
		out := s.image(key)
		out["v"] = `"many"`
		op := byte('c')
		if live {
			op = 'u'
		}
		s.emit(what{op: op, part: -1, key: key, before: old, after: out, time: t, misfit: true})
	case !live:
		s.rows[key] = s.image(key)
		s.emit(what{op: 'c', part: -1, key: key, after: s.rows[key], time: t})
	case s.f.keyChanges && s.chance(.3):
		s.keyChange(key, t)
	case s.chance(.3):
		delete(s.rows, key)
		s.gone = append(s.gone, s.emit(what{op: 'd', part: -1, key: key, before: before, time: t}))
		if s.chance(.5) {
			s.tombstone(key)
		}
	default:
		row := s.image(key)
		out := maps.Clone(row)
		if s.f.partial && s.chance(.4) {
			row["note"] = old["note"]
			s.leaveOut(out)
		}
		s.rows[key] = row
		s.emit(what{op: 'u', part: -1, key: key, before: before, after: out, time: t})
	}
}

// leaveOut makes an image partial.
func (s *source) leaveOut(out map[string]string) {
	if out["note"] = keeps; s.chance(.35) {
		delete(out, "note")
	}
}

// keyChange moves a row to another key, in one record or in two.
func (s *source) keyChange(key string, t int64) {
	to := s.aKey()
	old := s.rows[key]
	if _, taken := s.rows[to]; taken {
		return
	}
	row := maps.Clone(old)
	for i, c := range s.cells[to] {
		row[s.key[i]] = c
	}
	delete(s.rows, key)
	s.rows[to] = row
	pos := s.step()
	if s.chance(.5) {
		out := maps.Clone(row)
		if s.f.partial && s.chance(.4) {
			s.leaveOut(out)
		}
		s.emit(what{op: 'u', part: s.partition(pick(s.r, to, to, key)), key: to, old: key, before: old, after: out, time: t, pos: pos})
		return
	}
	s.emit(what{op: 'd', part: -1, key: key, before: old, time: t, pos: pos, half: true, headers: []change.Header{{Key: "__debezium.newkey", Value: []byte(to)}}})
	if s.chance(.5) {
		s.tombstone(key)
	}
	if t != 0 && s.chance(.2) {
		s.now += second
	}
	s.emit(what{op: 'c', part: -1, key: to, after: row, time: t, pos: pos, half: true, sameTx: true, headers: []change.Header{{Key: "__debezium.oldkey", Value: []byte(key)}}})
}

func (s *source) tombstone(key string) {
	s.add(&event{kind: tombstone, op: 'd', old: key}, s.partition(key), []byte(key), nil, nil)
}

// statement changes several rows at one position.
func (s *source) statement() {
	pos := s.step()
	s.gtid++
	keys := map[string]bool{}
	for i := range int32(2 + s.r.IntN(3)) {
		key := s.aKey()
		if keys[key] {
			continue
		}
		keys[key] = true
		old, live := s.rows[key]
		s.rows[key] = s.image(key)
		w := what{op: 'c', part: -1, key: key, before: old, after: s.rows[key], time: -1, pos: pos, row: i, sameTx: true}
		if live {
			w.op = 'u'
		}
		if s.f.noRows {
			w.row = 0
		}
		s.emit(w)
	}
}

// redeliver is the connector after a crash: it writes again what it wrote last.
func (s *source) redeliver() {
	var mine []*event
	for _, e := range s.topic {
		if e.kind == rowChange || e.kind == truncate {
			mine = append(mine, e)
		}
	}
	for _, e := range mine[max(0, len(mine)-1-s.r.IntN(6)):] {
		again := *e
		if !s.f.noBroker { // else the envelope's time stands for it, and that stays
			again.broker = s.now + 500*1000
		}
		value := e.record.Value
		if s.f.failover && s.f.gtids {
			value = s.readFromHere(&again)
		}
		s.add(&again, e.record.Partition, e.record.Key, value, e.record.Headers)
	}
}

// readFromHere makes an event as the present server's binlog has it: at another position.
func (s *source) readFromHere(e *event) []byte {
	var value map[string]json.RawMessage
	var src map[string]any
	if json.Unmarshal(e.record.Value, &value) != nil || json.Unmarshal(value["source"], &src) != nil {
		panic("own record")
	}
	if e.server == s.serverName() {
		return e.record.Value
	}
	row := e.pos.Row
	e.server, e.pos = s.serverName(), *s.step()
	e.pos.Row = row
	src["server_id"], src["file"], src["pos"] = s.server, logFile(e.pos.File), e.pos.Pos
	if e.time > 0 {
		src["ts_ms"] = e.time / 1000
		if s.f.fineTimes {
			src["ts_us"] = e.time
		}
	}
	raw, err := json.Marshal(src)
	if err != nil {
		panic(err)
	}
	value["source"] = raw
	if raw, err = json.Marshal(value); err != nil {
		panic(err)
	}
	return raw
}

// bad is a record of which no change can be made.
func (s *source) bad() {
	key := s.aKey()
	switch p := s.partition(key); s.r.IntN(4) {
	case 0, 1:
		s.add(&event{kind: broken, reason: "decode"}, p, []byte(key), []byte(`{"op":"u","bef`), nil)
	case 2:
		s.add(&event{kind: broken, reason: "decode"}, p, []byte(key), []byte(`{"op":"zz","source":{}}`), nil)
	default:
		e := s.emit(what{op: 'u', part: p, key: key, after: map[string]string{"v": "1"}, time: -1, noKey: true})
		e.kind, e.reason = broken, "key"
	}
}

// future is a change from a server whose clock is ahead.
func (s *source) future(skew int64) {
	key := s.aKey()
	old, live := s.rows[key]
	s.rows[key] = s.image(key)
	w := what{op: 'c', part: -1, key: key, before: old, after: s.rows[key], broker: s.now}
	w.time = s.now + pick(s.r, 4*minute, skew, skew+1000, 6*minute, 50*hour)
	if live {
		w.op = 'u'
	}
	s.emit(w)
}

func (s *source) truncate() {
	clear(s.rows)
	s.emit(what{op: 't', kind: truncate, part: int32(s.r.IntN(s.parts)), time: -1})
}

// loneRead is a read of an incremental snapshot, sometimes one that came too late.
func (s *source) loneRead() {
	if len(s.gone) > 0 && !s.f.partial && !s.f.noPositions && s.chance(.4) {
		d := pick(s.r, s.gone...)
		pos := d.pos
		pos.Pos--
		s.emit(what{op: 'r', kind: loneRead, part: -1, key: d.old, after: s.image(d.old), time: -1, pos: &pos, snapshot: "incremental"})
		return
	}
	if len(s.rows) > 0 {
		key := pick(s.r, sorted(s.rows)...)
		if _, live := s.rows[s.hot]; live && s.chance(.5) {
			key = s.hot
		}
		pos := &change.Position{File: s.file, Pos: s.pos}
		if s.f.partial || s.chance(.5) {
			pos.Pos++
		}
		s.emit(what{op: 'r', kind: loneRead, part: -1, key: key, after: s.rows[key], time: -1, pos: pos, snapshot: "incremental"})
	}
}

// load reads the whole table. behind: as of an older moment; unseen: the
// connector missed changes before it.
func (s *source) load(flags string, unseen, behind bool) {
	if unseen && len(s.rows) > 3 {
		delete(s.rows, pick(s.r, sorted(s.rows)...))
	}
	if unseen && len(s.rows) > 0 && s.chance(.5) {
		key := pick(s.r, sorted(s.rows)...)
		s.rows[key] = s.image(key)
	}
	s.pos += 40
	pos := &change.Position{File: s.file, Pos: s.pos}
	if behind {
		pos.Pos -= 130
	}
	keys := sorted(s.rows)
	s.r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i, key := range keys {
		w := what{op: 'r', kind: fullRead, part: -1, key: key, after: s.rows[key], time: -1, pos: pos, snapshot: "true"}
		if flags == "both" && i == 0 {
			w.snapshot = "first"
		}
		if flags != "none" && i == len(keys)-1 {
			w.snapshot = "last"
		}
		s.emit(w)
		if s.chance(.5) {
			s.tick()
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// otherServer begins the binlog anew, or goes on with another server. Every
// partition has a change of the old one before, from a file that the new one has
// not reached, so that all count the same resets.
func (s *source) otherServer(reset bool) {
	if s.file == 1 {
		s.file, s.pos = 2, 4
	}
	for p := range int32(s.parts) {
		knows := slices.ContainsFunc(s.topic, func(e *event) bool {
			return e.record.Partition == p && e.kind == rowChange && e.time > 0 && e.pos.File > 1
		})
		for n := 1; !knows && n < 100; n++ {
			key := s.keyOf(append([]string{fmt.Sprint(n + 100)}, slices.Repeat([]string{`"z"`}, len(s.key)-1)...)...)
			if s.partition(key) == p {
				s.rows[key] = s.image(key)
				s.emit(what{op: 'c', part: p, key: key, after: s.rows[key], time: -1})
				knows = true
			}
		}
	}
	s.now += 7 * minute
	if reset {
		s.file, s.pos = 1, 4
		if s.f.gtids {
			s.gtid = 0
		}
		return
	}
	s.server++
	s.file, s.pos = pick(s.r, 1, s.file, s.file+5), 4
}

// alter adds a column to the table, or drops one.
func (s *source) alter() {
	if len(s.columns) > 0 && s.chance(.5) {
		for _, row := range s.rows {
			delete(row, s.columns[0])
		}
		s.columns = s.columns[1:]
		return
	}
	s.columns = append(s.columns, pick(s.r, "c1", "c2"))
	s.columns = slices.Compact(s.columns)
}

// live writes n acts to the topic.
func (s *source) live(n int, skew int64) {
	f := s.f
	if f.load {
		for range 2 + s.r.IntN(5) {
			key := s.aKey()
			s.rows[key] = s.image(key)
		}
		if s.chance(.5) {
			s.now = s.cal.End(s.cal.Label(s.now)) - pick[int64](s.r, 1, 5, 60)*second
		}
		s.load(f.flags, false, false)
	}
	if f.idle && s.parts < 4 { // one record, then silence
		key := s.keyOf(append([]string{"50"}, slices.Repeat([]string{`"z"`}, len(s.key)-1)...)...)
		s.emit(what{op: 'c', part: int32(s.parts), key: key, after: s.image(key), time: -1})
	}
	growAt, otherAt, reloadAt := s.r.IntN(n), n/2+s.r.IntN(n-n/2), n/2+s.r.IntN(n-n/2)
	for i := range n {
		s.tick()
		if f.grow && i == growAt {
			s.parts = min(4, s.parts+1+s.r.IntN(2))
		}
		if (f.reset || f.failover) && i == otherAt {
			s.otherServer(f.reset)
			if f.redelivery {
				s.redeliver()
			}
			if s.chance(.4) && !f.partial && !f.columns && !f.misfits {
				s.load("both", true, false)
			}
		}
		if f.reload && i == reloadAt {
			s.load(pick(s.r, "both", "both", "last", "none"), true, false)
		}
		if f.columns && s.chance(.1) {
			s.alter()
		}
		switch c := s.r.Float64(); {
		case f.redelivery && c < .06 && !f.failover:
			s.redeliver()
		case f.broken && c < .12:
			s.bad()
		case f.future && c < .18:
			s.future(skew)
		case f.truncates && c < .23:
			s.truncate()
		case f.statements && c < .33:
			s.statement()
		case f.lone && c < .4:
			s.loneRead()
		case f.stale && c < .43:
			s.load("last", false, true)
		case f.filtered && c < .5:
			key := s.aKey()
			s.emit(what{op: 'c', part: -1, key: key, after: s.image(key), time: -1, table: "other"})
		case c > .97:
			s.tombstone(s.aKey())
		default:
			s.change()
		}
	}
}
