package ingest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/progress"
)

// stand is what is known of a key: the newest change of it, the row that it left
// (nil: none) and the label in which it came.
type stand struct {
	by  *verdict
	row map[string]string
	in  label
	// bare tells that another engine wrote the row, who says nothing of where it is from.
	bare bool
}

// state is the table as of one label.
type state struct {
	rows   map[string]stand // live ones only
	counts progress.Counts
	dead   int64
	// attributes and partitions are the evidence of a sealed label.
	attributes []string
	partitions map[int32]progress.PartitionEvidence
	late       []progress.LateChange
	columns    map[string]bool
}

// states gives the table as of every label up to the open one, and the fate of every record.
func (m *model) states() (map[label]*state, []*verdict) {
	all, loads := m.judge()
	out := map[label]*state{}
	known := map[string]stand{}
	var floors []*verdict // of truncates and replacing loads: never forgotten
	columns := map[string]bool{}
	for l := m.first; m.begun && l <= m.open(); l++ {
		// Rule 9: positions of deleted keys are known for two sealed labels more.
		maps.DeleteFunc(known, func(_ string, s stand) bool { return s.row == nil && s.in < l-2 })
		f := fold{rules: m.rules, at: l, known: known, foreign: m.besideAt(l).foreign, floors: floors, columns: maps.Clone(columns), chains: map[string][]*verdict{}, done: map[string]int{}}
		f.run(all, loads)
		floors = append(floors, f.cleared...)
		for _, c := range m.partitionBy {
			columns[c] = true // they are there from the first version on
		}
		for _, v := range all {
			if v.at == l && v.fate == "applied" {
				for c, text := range v.row {
					columns[c] = columns[c] || text != "null" && text != keeps
				}
			}
		}
		st := &state{rows: maps.Clone(known)}
		maps.DeleteFunc(st.rows, func(_ string, s stand) bool { return s.row == nil })
		st.counts.Touched = int64(f.ghosts)
		for _, w := range f.foreign {
			if w.op != 'm' {
				st.counts.Foreign++
			}
		}
		for _, c := range m.besideAt(l).columns {
			columns[c] = true
		}
		st.columns = maps.Clone(columns)
		out[l] = st
	}
	for _, v := range all {
		if v.judged && v.at > m.open() {
			v.fate = "held"
		}
		m.count(out, v)
	}
	for l, st := range out {
		m.evidence(l, st, all, loads)
	}
	return out, all
}

// fold is the changes of one label on their way to the rows.
type fold struct {
	rules
	at      label
	known   map[string]stand
	foreign []*verdict
	floors  []*verdict
	cleared []*verdict // what becomes a floor in this label
	columns map[string]bool
	chains  map[string][]*verdict // by key, in an order in which they may arrive
	done    map[string]int        // how much of each chain is folded
	ghosts  int                   // rows that replacing loads took
}

func (f *fold) run(all []*verdict, loads []*load) {
	var mine []*verdict
	for _, v := range all {
		if !v.judged || v.at != f.at || v.fate == "dead" {
			continue
		}
		mine = append(mine, v)
		v.fate = "superseded" // until a key takes it
		if v.kind == truncate {
			v.fate = "applied"
			f.cleared = append(f.cleared, v)
		}
	}
	var ends []*verdict
	for _, l := range loads { // rule 5: a load with both flags stands for the whole table
		if l.endsIn(f.at) && !f.merged {
			floor := &verdict{event: l.last.event, line: l.last.line, rank: asFloor, t: l.reads[0].t}
			if !floor.hasPos {
				floor.event = l.first.event // by arrival: what came before the load
			}
			for _, r := range l.reads {
				if r.open <= f.at {
					floor.t = min(floor.t, r.t)
				}
			}
			ends = append(ends, floor)
		}
	}
	f.cleared = append(f.cleared, ends...)
	keys := map[string]bool{}
	for k := range f.known {
		keys[k] = true
	}
	for _, v := range mine {
		for _, k := range v.touches() {
			keys[k] = true
		}
	}
	for _, v := range f.foreign {
		for _, k := range v.touches() {
			keys[k] = true
		}
	}
	for k := range keys {
		// What others did stands between what was taken before it and what came after.
		for _, w := range f.foreign {
			for _, v := range mine {
				before := v.index < w.cut[v.record.Partition] && !slices.Contains(f.chains[k], v)
				if before && (v.kind == truncate || slices.Contains(v.touches(), k)) {
					f.chains[k] = append(f.chains[k], v)
				}
			}
			if w.op == 'm' || slices.Contains(w.touches(), k) {
				f.chains[k] = append(f.chains[k], w)
			}
		}
		// All that touches the key, partition by partition: where it has changes on
		// several, any order comes to the same row, since the newest wins.
		for _, v := range mine {
			if (v.kind == truncate || slices.Contains(v.touches(), k)) && !slices.Contains(f.chains[k], v) {
				f.chains[k] = append(f.chains[k], v)
			}
		}
		f.chains[k] = append(f.chains[k], ends...)
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		f.upTo(k, nil)
	}
}

// upTo folds the changes of a key that stand before v.
func (f *fold) upTo(key string, v *verdict) {
	for f.done[key] < len(f.chains[key]) {
		w := f.chains[key][f.done[key]]
		if w == v {
			return
		}
		f.take(key, w)
		f.done[key]++
	}
}

// fresh tells that nothing that is known of the key stands at v or behind it.
func (f *fold) fresh(key string, v *verdict) bool {
	if s, ok := f.known[key]; ok && s.by.kind != foreign && order(v, s.by) <= 0 {
		return false
	}
	before := f.chains[key][:f.done[key]]
	above := func(w *verdict) bool { return order(v, w) > 0 }
	return !slices.ContainsFunc(f.floors, func(w *verdict) bool { return !above(w) }) &&
		!slices.ContainsFunc(before, func(w *verdict) bool { return w.kind == truncate && !above(w) })
}

func (f *fold) take(key string, v *verdict) {
	s, known := f.known[key]
	if v.kind == foreign {
		f.known[key] = stand{by: v, row: v.row, in: f.at, bare: true}
		switch {
		case v.op == 'm' && known:
			s.bare = s.row != nil
			f.known[key] = s
		case v.op != 'u':
			delete(f.known, key)
		}
		return
	}
	if v.kind == truncate || v.rank == asFloor {
		if known && s.row != nil && f.fresh(key, v) {
			f.known[key] = stand{by: v, in: f.at}
			if v.rank == asFloor {
				f.ghosts++
			}
		}
		return
	}
	f.capture(v)
	if v.fate == "dead" || !f.fresh(key, v) {
		return
	}
	if v.kind == tombstone && (!known || s.row == nil) {
		return // a tombstone after its delete
	}
	v.fate = "applied"
	if key == v.old {
		f.known[key] = stand{by: v, in: f.at}
		return
	}
	row := map[string]string{}
	if v.op == 'u' {
		maps.Copy(row, v.base)
	}
	for c, text := range v.row {
		switch {
		case text == "null", v.misfit && c == "v":
			delete(row, c)
		case text == keeps:
		default:
			row[c] = text
		}
	}
	f.known[key] = stand{by: v, row: row, in: f.at}
}

// capture notes the row that an update completes (at a key change the old key's),
// and finds what has to be a dead letter instead.
func (f *fold) capture(v *verdict) {
	if v.captured {
		return
	}
	v.captured = true
	if v.op == 'u' {
		from := v.new
		if v.old != "" {
			from = v.old
		}
		f.upTo(from, v)
		v.base = f.known[from].row
		partial := false
		for c := range f.columns {
			_, has := v.row[c]
			partial = partial || !has && f.columns[c]
		}
		for _, text := range v.row {
			partial = partial || text == keeps
		}
		if partial && (f.noPartial || v.base == nil || !f.fresh(from, v)) {
			v.fate, v.why, v.deadIn = "dead", "partial", f.at
			return
		}
	}
	if v.misfit && !f.asNull {
		f.upTo(v.new, v)
		if f.fresh(v.new, v) {
			v.fate, v.why, v.deadIn = "dead", "value", f.at
		}
	}
}

// count enters a record where section 5 says that it counts.
func (m *model) count(out map[label]*state, v *verdict) {
	taken := out[v.open]
	switch v.fate {
	case "applied":
		c := &out[v.at].counts
		c.Touched++
		switch v.op {
		case 'c', 'r':
			c.Inserts++
		case 'u':
			c.Updates++
		case 'd':
			c.Deletes++
		case 't':
			c.Truncates++
		}
	case "superseded":
		out[v.at].counts.Superseded++
	case "duplicate":
		taken.counts.Duplicates++
	case "tombstone":
		taken.counts.Tombstones++
	case "filtered":
		taken.counts.Filtered++
	case "dead":
		out[max(v.deadIn, m.first)].dead++
	}
	if v.fate == "tombstone" || v.fate == "filtered" || v.fate == "dead" && !v.judged {
		return
	}
	if !v.ownTime {
		taken.counts.Replaced++
	}
	if v.newLine {
		taken.counts.NewLines++
	}
	if v.late {
		taken.counts.Late++
		fate := map[string]string{"applied": "folded", "superseded": "superseded", "dead": "dead_letter"}[v.fate]
		taken.late = append(taken.late, progress.LateChange{
			Topic: v.record.Topic, Partition: v.record.Partition, Offset: v.record.Offset, Key: v.keyText(), Label: v.own, Fate: fate,
		})
	} else if v.judged && v.own == v.open && v.kind != fullRead && m.cal.Label(v.mark) > v.open {
		taken.counts.Drift++
	}
}

func (e *event) keyText() string {
	for _, k := range []string{e.new, e.old} {
		if k != "" {
			return k
		}
	}
	return "{}"
}

func (m *model) evidence(l label, st *state, all []*verdict, loads []*load) {
	if !slices.ContainsFunc(loads, func(x *load) bool { return x.written && x.label <= l }) {
		st.attributes = append(st.attributes, "no load")
	}
	i := slices.IndexFunc(m.seals, func(s seal) bool { return s.label == l })
	if i < 0 {
		return
	}
	s := m.seals[i]
	st.partitions = map[int32]progress.PartitionEvidence{}
	if m.incomplete(l, loads) {
		st.attributes = append(st.attributes, "incomplete")
	}
	if st.counts.Foreign > 0 {
		st.attributes = append(st.attributes, "foreign")
	}
	byClock := true
	for p, n := range s.upto {
		byClock = byClock && !s.byTime[p]
		e := progress.PartitionEvidence{Partition: p, Watermark: m.watermark(p, n), Rule: "clock", Offset: m.offset(i, p)}
		switch {
		case s.byTime[p]:
			e.Rule = "watermark"
		case s.forced && !s.dueNow:
			e.Rule = "hand"
		}
		st.partitions[p] = e
	}
	if byClock {
		st.attributes = append(st.attributes, "by clock")
	}
	if st.counts.Touched == 0 {
		st.attributes = append(st.attributes, "empty")
	}
}

// incomplete tells that a label, or one before it, was sealed by hand, and that no
// load of the whole table has come since.
func (m *model) incomplete(l label, loads []*load) bool {
	since, is := label(0), false
	for _, s := range m.seals {
		whole := slices.ContainsFunc(loads, func(x *load) bool { return x.endsIn(s.label) && !m.merged })
		is = is && !(whole && s.label >= since)
		if s.forced && !is {
			since, is = s.label, true
		}
		if s.label == l {
			break
		}
	}
	return is
}

// endsIn tells whether a load stands for the whole table in a label.
func (l *load) endsIn(at label) bool {
	return l.written && l.label == at && l.first != nil && l.last != nil && l.first.open <= at && l.last.open <= at
}

// offset is where reading goes on behind a seal: where the watermark has ended it,
// right behind the record that did; else behind everything that there was.
func (m *model) offset(seal int, p int32) int64 {
	s := m.seals[seal]
	switch n := s.upto[p]; {
	case n == 0:
		return 0
	case !s.byTime[p]:
		return m.topic[p][n-1].next
	case seal > 0 && m.seals[seal-1].upto[p] == n:
		return m.offset(seal-1, p)
	default:
		return m.topic[p][n-1].record.Offset + 1
	}
}

// rowText is a row as text: its columns by name, NULLs left out.
func rowText(row map[string]string) string {
	var b strings.Builder
	for _, c := range slices.Sorted(maps.Keys(row)) {
		fmt.Fprintf(&b, "%s=%s ", c, row[c])
	}
	return strings.TrimSpace(b.String())
}
