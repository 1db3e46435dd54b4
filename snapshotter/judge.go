package snapshotter

import (
	"slices"
	"strings"

	"github.com/gscd-io/gscd/ingest/change"
)

// Kind says how an event is judged.
type Kind uint8

// The kinds of event that have a label. Everything else (tombstones, filtered
// records, what cannot be decoded) is taken without being judged.
const (
	RowChange Kind = iota + 1
	FullRead
	IncrementalRead
	TableTruncate
)

// Event is what the judge needs of a change.
type Event struct {
	Kind   Kind
	Offset int64
	// Keys are the encoded keys that the change touches, "" for none: old, new.
	Keys [2]string
	// Identity tells apart the changes made at one position: a hash of the keys
	// it deletes and writes, of 53 bits so that JSON keeps it exactly.
	Identity uint64
	// Time in microseconds since 1970 UTC. OwnTime is false where it was
	// replaced (missing, or clamped): then it never opens a line.
	Time        int64
	OwnTime     bool
	Server      change.Server
	Position    change.Position
	HasPosition bool
	GTID        string
	// FirstRead and LastRead are the flags of a full load.
	FirstRead, LastRead bool
}

// Fate is what becomes of a judged event.
type Fate uint8

// The fates. Apply: now, in the open label. Hold: when Verdict.At opens, or for
// a read of a load when the load's label does. Duplicate: nothing.
const (
	Apply Fate = iota + 1
	Hold
	Duplicate
)

// Verdict is the judgement of one event.
type Verdict struct {
	Fate Fate
	// Label is the event's own label, At the one it is applied in (for a full
	// read both are those of its load, and may still fall).
	Label, At Label
	// Late: the own label was sealed when the event was taken.
	Late bool
	Meta Meta
	// Load is set for full reads.
	Load *Load
	// NewLine tells that the event opened a line: a binlog begun anew.
	NewLine bool
	// LoadLabelFell tells that held reads of Load may be due now.
	LoadLabelFell bool
}

// Judge applies the rules to events, partition by partition, in the order in
// which they are taken. It changes State. One goroutine at a time.
type Judge struct {
	State  *State
	cursor *Cursor
	cal    *Calendar
	// held gives per partition number and encoded key the largest label of a held row change.
	held map[int32]map[string]Label
}

// NewJudge makes a judge of a state. What is held must be told by Held.
func NewJudge(cal *Calendar, state *State) *Judge {
	return &Judge{State: state, cal: cal, cursor: cal.Cursor(), held: map[int32]map[string]Label{}}
}

// Label gives the label of an instant in microseconds.
func (j *Judge) Label(t int64) Label { return j.cursor.Label(t) }

// Pause gives the watermark at which a partition has nothing more to say about
// the open label.
func (j *Judge) Pause() int64 { return j.cal.End(j.State.Open) + j.State.Wait }

// Paused reports whether nothing may be taken from the partition before the
// open label is sealed.
func (j *Judge) Paused(p *Partition) bool { return p.Watermark >= j.Pause() }

// Held tells that a row change of these keys waits for a label. A restart
// tells it of everything that is still held.
func (j *Judge) Held(partition int32, keys [2]string, at Label) {
	m := j.held[partition]
	if m == nil {
		m = map[string]Label{}
		j.held[partition] = m
	}
	for _, k := range keys {
		if l, ok := m[k]; k != "" && (!ok || l < at) {
			m[strings.Clone(k)] = at
		}
	}
}

// Opened forgets what was held for labels up to the open one: it is applied
// before anything else is taken.
func (j *Judge) Opened() {
	for p, m := range j.held {
		for k, l := range m {
			if l <= j.State.Open {
				delete(m, k)
			}
		}
		if len(m) == 0 {
			delete(j.held, p)
		}
	}
}

// Take judges an event of a partition and remembers it. The caller has made
// sure that the partition is not paused, and sets Partition.Next itself.
func (j *Judge) Take(p *Partition, e *Event) Verdict {
	s := j.State
	line := s.line(p, s.server(p, e))
	v := Verdict{}
	own := max(j.cursor.Label(e.Time), s.First)

	// A log file number below the highest one, under a time that the partition
	// has not reached yet: the binlog was begun anew (rule 6).
	if e.HasPosition && e.Kind != IncrementalRead && e.Position.File < line.File && e.Time > p.Watermark && e.OwnTime {
		j.openLine(p, line)
		v.NewLine = true
	}
	if e.HasPosition {
		line.File = max(line.File, e.Position.File)
	}
	meta := func(rank Rank) Meta {
		return Meta{p.Number, e.Offset, line.Number, e.Position, e.HasPosition, rank, e.Time}
	}

	switch e.Kind {
	case FullRead:
		v.Meta = meta(RankRead)
		j.takeRead(p, e, own, &v)
		return v
	case IncrementalRead:
		j.proveLoads(p, nil)
		v.Meta = meta(RankRead)
		v.Label = own
		if p.HasLastLabel {
			v.Label = p.LastLabel
		}
		v.At = max(v.Label, s.Open)
		v.Fate = j.applyOrHold(v.At)
		return v
	}

	if e.HasPosition && j.redelivered(p, line, e) {
		if e.Time <= p.Watermark || !e.OwnTime {
			p.Watermark = max(p.Watermark, e.Time)
			v.Fate = Duplicate
			return v
		}
		j.openLine(p, line)
		line.File = e.Position.File
		v.NewLine = true
	}
	if e.HasPosition {
		takePosition(p, line, e)
	}
	p.Watermark = max(p.Watermark, e.Time)
	j.proveLoads(p, nil)

	v.Meta = meta(RankChange)
	v.Label = own
	if held := j.held[p.Number]; held != nil && own >= s.Open && e.Kind == RowChange {
		for _, k := range e.Keys {
			if l, ok := held[k]; ok && k != "" {
				v.Label = max(v.Label, l)
			}
		}
	}
	p.LastLabel, p.HasLastLabel = v.Label, true
	v.Late = v.Label < s.Open
	v.At = max(v.Label, s.Open)
	v.Fate = j.applyOrHold(v.At)
	if v.Fate == Hold && e.Kind == RowChange {
		j.Held(p.Number, e.Keys, v.At)
	}
	return v
}

// Place gives where an event stands in the source's order that was taken before
// and set aside. It is not judged: no watermark, position or load moves.
func (j *Judge) Place(p *Partition, e *Event) Meta {
	line := j.State.line(p, j.State.server(p, e))
	rank := RankChange
	if e.Kind == FullRead || e.Kind == IncrementalRead {
		rank = RankRead
	}
	return Meta{p.Number, e.Offset, line.Number, e.Position, e.HasPosition, rank, e.Time}
}

func (j *Judge) applyOrHold(at Label) Fate {
	if at > j.State.Open {
		return Hold
	}
	return Apply
}

// takeRead judges a read of a full load (rule 5).
func (j *Judge) takeRead(p *Partition, e *Event, own Label, v *Verdict) {
	s := j.State
	line := v.Meta.Line
	l := s.load(line, e.Position)
	if l == nil {
		l = &Load{Line: line, Server: s.Lines[line].Server, Position: e.Position, Label: max(own, s.Open), Oldest: e.Time}
		s.Loads = append(s.Loads, l)
		s.forgetOldLoads()
	}
	if !slices.Contains(l.On, p.Number) {
		l.On = append(l.On, p.Number)
		if label := max(own, s.Open); label < l.Label {
			l.Label = label
			v.LoadLabelFell = true
		}
	}
	l.Oldest = min(l.Oldest, e.Time)
	if e.FirstRead && l.FirstRead == nil {
		m := v.Meta
		l.FirstRead = &m
	}
	if e.LastRead {
		if l.LastRead == nil {
			m := v.Meta
			l.LastRead = &m
		}
		l.Written = true
	}
	j.proveLoads(p, l)
	v.Load, v.Label, v.At = l, l.Label, max(l.Label, s.Open)
	v.Fate = j.applyOrHold(l.Label)
}

// proveLoads marks the loads that the partition brought reads of as written in
// full: something else came behind them.
func (j *Judge) proveLoads(p *Partition, except *Load) {
	for _, l := range j.State.Loads {
		if l != except && !l.Written && slices.Contains(l.On, p.Number) {
			l.Written = true
		}
	}
}

// redelivered reports whether a change is at or below what its line has taken
// on the partition (rule 6). Where there are GTIDs the set of transactions
// decides, and the position inside the last one.
func (j *Judge) redelivered(p *Partition, line *PartitionLine, e *Event) bool {
	if e.GTID != "" && e.GTID != p.LastGTID {
		return p.GTIDs.Has(e.GTID)
	}
	if !line.HasHigh {
		return false
	}
	switch e.Position.Compare(line.High) {
	case -1:
		return true
	case 0:
		return slices.Contains(line.AtHigh, e.Identity)
	}
	return false
}

func takePosition(p *Partition, line *PartitionLine, e *Event) {
	// Another transaction may lie at a lower position (another server's log of
	// the same GTIDs): it begins the positions anew.
	other := e.GTID != "" && e.GTID != p.LastGTID
	if c := e.Position.Compare(line.High); !line.HasHigh || c > 0 || other && c != 0 {
		line.High, line.HasHigh, line.AtHigh = e.Position, true, line.AtHigh[:0]
	}
	if !slices.Contains(line.AtHigh, e.Identity) {
		line.AtHigh = append(line.AtHigh, e.Identity)
	}
	if other {
		p.LastGTID = strings.Clone(e.GTID)
		p.GTIDs.Add(p.LastGTID)
	}
}

func (j *Judge) openLine(p *Partition, l *PartitionLine) {
	l.Generation++
	l.Number = j.State.lineNumber(l.Server, l.Generation)
	l.HasHigh, l.AtHigh, l.File = false, l.AtHigh[:0], -1
	p.LastGTID, p.GTIDs = "", nil
}
