package ingest_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// This file is the contract's sections 3 to 7 as a definition: every record of a
// topic is judged from the topic and the seals alone, and the rows of a label are
// what its changes leave, key by key, in the source's order. There is no stream,
// no batch, no file and no memory between two calls but the seals.

type label = snapshotter.Label

// kind says what a record is.
type kind uint8

const (
	rowChange kind = iota
	fullRead
	loneRead // of an incremental snapshot
	truncate
	tombstone
	filtered
	broken  // no change can be made of it
	foreign // no record, but a row that another engine wrote, deleted or moved
)

// event is a record of the topic together with what its producer knows of it.
type event struct {
	record *change.Record
	// next is the offset behind the record and behind the holes that follow it.
	next     int64
	kind     kind
	op       byte              // c, r, u, d, t
	old, new string            // the keys it deletes and writes, "" none
	row      map[string]string // column → JSON text, "null", or keeps; absent columns are absent
	time     int64             // µs, 0: it carries none
	broker   int64             // µs
	server   string            // connector and server
	pos      change.Position
	hasPos   bool
	gtid     string
	first    bool // flags of a full load
	last     bool
	half     bool   // of a key change that came as two records
	misfit   bool   // a value does not fit its column
	reason   string // of a broken record
}

// keeps stands for a value that the source did not send.
const keeps = `"__debezium_unavailable_value"`

func (e *event) touches() []string {
	return slices.DeleteFunc([]string{e.old, e.new}, func(k string) bool { return k == "" })
}

// rules are the settings that the contract knows.
type rules struct {
	cal        *snapshotter.Calendar
	idle, skew int64 // µs
	late       string
	future     string
	tombstones string

	nullKeys    string // dead_letter, or a value like any other
	noPartial   bool   // partial images are dead letters
	asNull      bool   // a value that does not fit is NULL
	merged      bool   // a second load takes no row away
	partitionBy []string
}

// model is one table, seen from outside.
type model struct {
	rules
	topic map[int32][]*event // what can be read
	clock int64              // when it was looked at
	begun bool               // a labelled record was seen, so there is a first label
	first label
	wait  int64 // drift.wait of the first label
	seals []seal
	// rolled are the labels that no commit has named since they were rolled back.
	rolled map[label]bool
	// gone are the savepoints that were deleted.
	gone map[labelAt]bool
	// beside is what others did while the open label was open.
	beside
}

// beside is what was done to a table, while a label was open, by others than its topic.
type beside struct {
	foreign []*verdict // in order; each has the records before it in cut
	columns []string   // that were added
}

// seal is what cannot be known from the topic: the moment at which a label was closed.
type seal struct {
	label   label
	upto    map[int32]int // so many records of each partition were taken
	byTime  map[int32]bool
	wait    int64 // drift.wait of the label that it opens
	version int64 // of the table under test; for rollbacks to it
	forced  bool  // by hand
	dueNow  bool  // a forced one that the clock would have allowed
	beside
}

// look is what a table must do that reads everything there is, at a clock reading.
// until stops it at an open label, as a crash does.
func (m *model) look(topic map[int32][]*event, clock, wait int64, until *label) {
	m.topic, m.clock = topic, clock
	if !m.begun {
		for _, events := range topic {
			for _, e := range events {
				if t, _, why := m.timeOf(e); why == "" && e.kind < tombstone {
					if l := m.cal.Label(t); !m.begun || l < m.first {
						m.first, m.begun = l, true // section 3.4: the smallest among the firsts
					}
					break
				}
			}
		}
		m.wait = wait
	}
	for m.begun && (until == nil || m.open() < *until) && m.mayBeSealed() {
		m.close(seal{wait: wait})
	}
}

// close seals the open label with what was taken.
func (m *model) close(s seal) {
	s.label, s.upto, s.byTime, s.version, s.beside = m.open(), map[int32]int{}, map[int32]bool{}, -1, m.beside
	for p := range m.topic {
		s.upto[p], s.byTime[p] = m.reach(p)
	}
	m.seals, m.beside = append(m.seals, s), beside{}
	delete(m.rolled, s.label)
}

// besideAt is what others did while a label was open.
func (m *model) besideAt(l label) beside {
	for _, s := range m.seals {
		if s.label == l {
			return s.beside
		}
	}
	return m.beside
}

// rollback goes back to a list of seals that was true before.
func (m *model) rollback(to []seal) {
	last := to[len(to)-1].label
	if m.rolled == nil {
		m.rolled = map[label]bool{}
	}
	for l := last + 1; l <= m.open(); l++ {
		m.rolled[l] = true
	}
	maps.DeleteFunc(m.rolled, func(l label, _ bool) bool { return l <= last })
	m.seals, m.beside = slices.Clone(to), beside{}
}

func (m *model) open() label {
	if len(m.seals) == 0 {
		return m.first
	}
	return m.seals[len(m.seals)-1].label + 1
}

// pause is the watermark at which a partition has nothing more to say about the open label.
func (m *model) pause() int64 {
	wait := m.wait
	if n := len(m.seals); n > 0 {
		wait = m.seals[n-1].wait
	}
	return m.cal.End(m.open()) + wait
}

// reach says how many records of a partition are taken while the open label is
// open, and whether its watermark ends that (section 4: the pause is exact).
func (m *model) reach(p int32) (n int, byTime bool) {
	from := 0
	if len(m.seals) > 0 {
		from = m.seals[len(m.seals)-1].upto[p]
	}
	for i := range m.topic[p] {
		if i >= from && m.watermark(p, i) >= m.pause() {
			return i, true
		}
	}
	n = len(m.topic[p])
	return n, m.watermark(p, n) >= m.pause()
}

// watermark is the highest event time among the first n records of a partition.
func (m *model) watermark(p int32, n int) int64 {
	mark := snapshotter.NoTime
	for _, e := range m.topic[p][:n] {
		if t, _, why := m.timeOf(e); why == "" && m.moves(e) {
			mark = max(mark, t)
		}
	}
	return mark
}

// moves tells the records that move a watermark: reads do not.
func (m *model) moves(e *event) bool {
	if m.refusesKey(e) {
		return false
	}
	return e.kind == rowChange || e.kind == truncate || e.kind == tombstone && m.tombstones == "delete"
}

// refusesKey tells a record that is a dead letter because a key column is NULL.
func (m *model) refusesKey(e *event) bool {
	null := func(k string) bool { return strings.Contains(k, ":null") }
	return m.nullKeys == "dead_letter" && e.kind != broken && e.kind != filtered && (null(e.old) || null(e.new))
}

// timeOf is section 3.3: the time that decides, whether it is the event's own, or
// why the record is a dead letter.
func (m *model) timeOf(e *event) (t int64, own bool, why string) {
	const year1990 = 631152000e6
	switch {
	case e.kind == broken:
		return 0, false, e.reason
	case e.time < year1990:
		return e.broker, false, ""
	case e.time > e.broker+m.skew && m.future == "clamp":
		return e.broker, false, ""
	case e.time > e.broker+m.skew:
		return 0, false, "future"
	}
	return e.time, true, ""
}

func (m *model) mayBeSealed() bool {
	end := m.cal.End(m.open())
	if m.clock < end {
		return false
	}
	for p := range m.topic {
		if _, byTime := m.reach(p); !byTime && m.clock < m.pause()+m.idle {
			return false
		}
	}
	_, loads := m.judge()
	return !slices.ContainsFunc(loads, func(l *load) bool { return l.label == m.open() && !l.written })
}

// verdict is a record that was taken, and what became of it.
type verdict struct {
	*event
	index    int
	open     label // the label that was open when it was taken
	t        int64
	ownTime  bool
	mark     int64 // the watermark before it
	line     line
	newLine  bool
	rank     int
	own      label // its own label
	at       label // the one in which it is applied
	judged   bool  // it has labels
	late     bool
	load     *load
	fate     string // applied, superseded, duplicate, tombstone, filtered, dead, held
	why      string // of a dead letter
	deadIn   label
	base     map[string]string // the row that a partial image completes
	captured bool
	cut      map[int32]int // of what is foreign: so many records were taken before
}

// line is one unbroken binlog: a server, and the resets seen of it.
type line struct {
	server string
	resets int
}

// The ranks at one position, oldest first.
const (
	asFloor = iota
	asRead
	asChange
)

// load is one full read of the table: all reads of a line at one position.
type load struct {
	label       label
	firsts      map[int32]label // by partition
	reads       []*verdict
	first, last *verdict // the flagged ones
	written     bool     // in full
}

// judge gives every record that is taken its labels and, where they don't depend
// on rows, its fate.
func (m *model) judge() ([]*verdict, []*load) {
	var all []*verdict
	var loads []*load
	if !m.begun {
		return nil, nil
	}
	for _, p := range slices.Sorted(maps.Keys(m.topic)) {
		all = append(all, m.partition(p, &loads)...)
	}
	for _, l := range loads {
		l.label = slices.Min(slices.Collect(maps.Values(l.firsts))) // the smallest among the first reads
	}
	for _, v := range all {
		if v.load != nil {
			v.own, v.at = v.load.label, max(v.load.label, v.open)
		}
	}
	return all, loads
}

// partition judges the records of one partition.
func (m *model) partition(p int32, loads *[]*load) []*verdict {
	n, _ := m.reach(p)
	out := make([]*verdict, 0, n)
	past := pastOf{servers: map[string]*serverPast{}, gtids: map[string]bool{}}
	for i, e := range m.topic[p][:n] {
		v := &verdict{event: e, index: i, open: m.openAt(p, i), mark: m.watermark(p, i)}
		out = append(out, v)
		v.t, v.ownTime, v.why = m.timeOf(e)
		switch {
		case e.kind == filtered:
			v.fate = "filtered"
			continue
		case e.kind == tombstone && m.tombstones != "delete":
			v.fate = "tombstone"
			continue
		case e.kind != broken && m.refusesKey(e):
			v.fate, v.why, v.deadIn = "dead", "null_key", v.open
			continue
		case v.why != "":
			v.fate, v.deadIn = "dead", v.open
			continue
		}
		if e.kind == tombstone && i > 0 && out[i-1].fate == "duplicate" && out[i-1].op == 'd' && out[i-1].old == e.old {
			v.fate = "duplicate" // it came with a delete that was sent again
			continue
		}
		isRead := e.kind == fullRead || e.kind == loneRead
		if past.repeats(v, isRead) {
			v.fate = "duplicate"
			continue
		}
		v.judged, v.own, v.rank = true, max(m.cal.Label(v.t), m.first), asChange
		if isRead {
			v.rank = asRead
		}
		if e.kind == fullRead {
			v.load = loadOf(loads, v)
		}
		for _, l := range *loads { // a record behind a load's reads, that is none of them: it is written in full
			if _, has := l.firsts[p]; has && l != v.load {
				l.written = true
			}
		}
		switch {
		case e.kind == loneRead:
			for _, w := range out[:i] {
				if w.judged && w.rank == asChange {
					v.own = w.own
				}
			}
		case isRead:
			continue // its load decides
		default:
			if e.kind != truncate && v.own >= v.open {
				for _, w := range out[:i] { // rule 7: what is held of its keys
					if w.judged && w.rank == asChange && w.kind != truncate && w.at > v.open && shareKey(v, w) {
						v.own = max(v.own, w.at)
					}
				}
			}
			v.late = v.own < v.open
		}
		v.at = max(v.own, v.open)
		if v.late && m.late == "dead_letter" {
			v.fate, v.why, v.deadIn = "dead", "late", v.own
		}
	}
	return out
}

func (m *model) openAt(p int32, i int) label {
	for _, s := range m.seals {
		if i < s.upto[p] {
			return s.label
		}
	}
	return m.open()
}

func shareKey(v, w *verdict) bool {
	return slices.ContainsFunc(v.touches(), func(k string) bool { return slices.Contains(w.touches(), k) })
}

func loadOf(loads *[]*load, v *verdict) *load {
	i := slices.IndexFunc(*loads, func(l *load) bool { return l.reads[0].line == v.line && l.reads[0].pos == v.pos })
	if i < 0 {
		i = len(*loads)
		*loads = append(*loads, &load{firsts: map[int32]label{}})
	}
	l := (*loads)[i]
	l.reads = append(l.reads, v)
	if _, has := l.firsts[v.record.Partition]; !has {
		l.firsts[v.record.Partition] = max(v.own, v.open)
	}
	if v.event.first && (l.first == nil || v.open < l.first.open) {
		l.first = v
	}
	if v.event.last && (l.last == nil || v.open < l.last.open) {
		l.last, l.written = v, true
	}
	return l
}
