package snapshotter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/ingest/change"
)

// NoTime is the watermark of a partition that has taken no change yet.
const NoTime int64 = -1 << 62

// Line is one unbroken binlog: a server and the number of resets seen of it.
type Line struct {
	Server     change.Server `json:"server"`
	Generation int32         `json:"generation"`
}

// State is everything that judging remembers. It is plain data; the progress
// of a commit carries it as JSON.
type State struct {
	// First is the table's first label, Open the one whose changes are being committed.
	First Label `json:"first"`
	Open  Label `json:"open"`
	// Wait is drift.wait for the open label, in microseconds.
	Wait int64 `json:"wait"`
	// Lines is append-only: Meta.Line and the hidden column index it.
	Lines      []Line       `json:"lines,omitempty"`
	Partitions []*Partition `json:"partitions"`
	Loads      []*Load      `json:"loads,omitempty"`
	// Floors are the positions of truncates and of replacing loads.
	Floors []Meta `json:"floors,omitempty"`
}

// Partition is what is remembered of one partition.
type Partition struct {
	// Number is the table's own number of the partition: Kafka's, where the table has one topic.
	Number int32  `json:"number"`
	Topic  string `json:"topic"`
	Kafka  int32  `json:"partition"`
	// Start is the first offset ever taken from; Next the next one to take.
	Start int64 `json:"start"`
	Next  int64 `json:"next"`
	// Watermark is the highest event time taken, microseconds, NoTime before the first.
	Watermark int64 `json:"watermark"`
	// LastLabel is the label of the last change that was no duplicate; valid
	// where HasLastLabel is set.
	LastLabel    Label            `json:"last_label,omitempty"`
	HasLastLabel bool             `json:"has_last_label,omitempty"`
	Lines        []*PartitionLine `json:"lines,omitempty"`
	Origins
	// SentAgain is the encoded key of a delete that was the last record taken, and a
	// duplicate: a tombstone of that key behind it is one too. Nil else.
	SentAgain []byte `json:"sent_again,omitempty"`
	// LastGTID and GTIDs are empty where the source has none. They hold across
	// the lines of a failover: the same transaction comes from either server.
	LastGTID string  `json:"last_gtid,omitempty"`
	GTIDs    GTIDSet `json:"gtids,omitempty"`
	// Heartbeat tells that its records only show that the source lives: they
	// have no label and don't count.
	Heartbeat bool `json:"heartbeat,omitempty"`
}

// Origins are for the evidence: what event times were, and whether changes had a
// position in the source's log. Each is whether some change since the first offset was so.
type Origins struct {
	// CommitTimes are commits' times, StatementTimes those of statements, ColumnTimes
	// what a column says, BrokerTimes the broker's time stamps.
	CommitTimes    bool `json:"commit_times,omitempty"`
	StatementTimes bool `json:"statement_times,omitempty"`
	ColumnTimes    bool `json:"column_times,omitempty"`
	BrokerTimes    bool `json:"broker_times,omitempty"`
	Positions      bool `json:"positions,omitempty"`
	NoPositions    bool `json:"no_positions,omitempty"`
}

// ID names the partition in Kafka.
func (p *Partition) ID() change.PartitionID {
	return change.PartitionID{Topic: p.Topic, Partition: p.Kafka}
}

// PartitionLine is what one partition has seen of one server's binlogs.
type PartitionLine struct {
	Server     change.Server `json:"server"`
	Generation int32         `json:"generation"`
	// Number indexes State.Lines for (Server, Generation).
	Number int32 `json:"number"`
	// High is the highest position of a change taken, valid where HasHigh is
	// set; AtHigh the identities taken at it.
	High    change.Position `json:"high"`
	HasHigh bool            `json:"has_high,omitempty"`
	AtHigh  []uint64        `json:"at_high,omitempty"`
	// File is the highest log file number seen, reads included, -1 before the first.
	File int64 `json:"file"`
}

// Load is one full read of the source table: all reads of one line at one
// position. A log that was begun anew may bring another load at the same position.
type Load struct {
	// Line indexes State.Lines; Server is that line's when the load was first met.
	Line     int32           `json:"line"`
	Server   change.Server   `json:"server"`
	Position change.Position `json:"position"`
	// Label is the smallest label among the first reads of the partitions.
	Label Label `json:"label"`
	// On lists the partitions that have brought reads of it.
	On []int32 `json:"on"`
	// Written tells that it was written in full: the source is done with it.
	Written bool `json:"written,omitempty"`
	// FirstRead and LastRead are the flagged ones, nil until taken.
	FirstRead *Meta `json:"first_read,omitempty"`
	LastRead  *Meta `json:"last_read,omitempty"`
	// Oldest is the smallest event time among its reads, microseconds.
	Oldest int64 `json:"oldest"`
	// Ended tells that its end has acted (rows older than a replacing load are gone).
	Ended bool `json:"ended,omitempty"`
}

// Replaces reports whether first and last read are flagged: only such a load
// may stand for the whole table.
func (l *Load) Replaces() bool { return l.FirstRead != nil && l.LastRead != nil }

// Floor is the position that a replacing load leaves. Without positions the
// order is arrival, and what came before its first read is older than the load:
// that holds on one partition only.
func (l *Load) Floor() Meta {
	m := *l.LastRead
	if !m.HasPosition {
		m = *l.FirstRead
	}
	m.Rank, m.Time = RankFloor, l.Oldest
	return m
}

// Partition gives the partition of a number, nil where it is not known yet.
func (s *State) Partition(number int32) *Partition {
	for _, p := range s.Partitions {
		if p.Number == number {
			return p
		}
	}
	return nil
}

// Find gives the partition of a Kafka name, nil where it is not known yet.
func (s *State) Find(id change.PartitionID) *Partition {
	for _, p := range s.Partitions {
		if p.Topic == id.Topic && p.Kafka == id.Partition {
			return p
		}
	}
	return nil
}

// topicStride keeps the partition numbers of a table's second and later topics apart.
const topicStride = 1 << 16

// AddPartition registers a partition that starts at an offset. The numbers of
// the first topic's partitions are Kafka's own.
func (s *State) AddPartition(id change.PartitionID, start int64) *Partition {
	base := int32(0)
	for _, p := range s.Partitions {
		if p.Topic == id.Topic {
			base = p.Number - p.Kafka
			break
		}
		base = max(base, p.Number-p.Kafka+topicStride)
	}
	p := &Partition{Number: base + id.Partition, Topic: id.Topic, Kafka: id.Partition, Start: start, Next: start, Watermark: NoTime}
	s.Partitions = append(s.Partitions, p)
	return p
}

// line gives what a partition remembers of a server, adding it where it is new.
func (s *State) line(p *Partition, server change.Server) *PartitionLine {
	for _, l := range p.Lines {
		if l.Server == server {
			return l
		}
	}
	server.Name = strings.Clone(server.Name) // it may point into a batch's arena
	l := &PartitionLine{Server: server, File: -1}
	l.Number = s.lineNumber(server, 0)
	p.Lines = append(p.Lines, l)
	return l
}

// server gives the server whose line an event belongs to. Debezium's snapshot
// reads carry no server id (0): they are of the server whose changes the same
// connector reads, or else their positions could not be compared with it.
func (s *State) server(p *Partition, e *Event) change.Server {
	if len(p.Lines) > 0 && p.Lines[len(p.Lines)-1].Server == e.Server && e.Server.ID != 0 {
		return e.Server
	}
	isRead := e.Kind == FullRead || e.Kind == IncrementalRead
	for i := len(s.Lines) - 1; i >= 0; i-- {
		known := s.Lines[i].Server
		if known.Name != e.Server.Name || known.ID == 0 {
			continue
		}
		if e.Server.ID == 0 && isRead {
			return known
		}
		return e.Server
	}
	if e.Server.ID != 0 {
		s.nameServer(e.Server)
		s.nameConnector(e.Server)
	}
	return e.Server
}

// nameConnector gives the line of a server that a load from outside came from, which knows
// no connector, the first connector that is heard of with that server.
func (s *State) nameConnector(server change.Server) {
	unnamed := change.Server{ID: server.ID}
	for _, p := range s.Partitions {
		for _, l := range p.Lines {
			if l.Server == unnamed {
				return // its changes come without a connector's name
			}
		}
	}
	line := slices.IndexFunc(s.Lines, func(l Line) bool { return l.Server == unnamed })
	if line < 0 {
		return
	}
	known := slices.IndexFunc(s.Lines, func(l Line) bool { return l.Server == server && l.Generation == s.Lines[line].Generation })
	if known < 0 {
		s.Lines[line].Server.Name = strings.Clone(server.Name)
		return
	}
	for i := range s.Floors { // its reads were here first
		if s.Floors[i].Line == int32(line) {
			s.Floors[i].Line = int32(known)
		}
	}
}

// Outside is the Partition of a floor that no record of a topic made.
const Outside = -1

// LoadedFromOutside remembers that the rows are those of a server at a position: its
// changes before that are older than they are, and another server's where their time, in
// microseconds since 1970, is before that of the load. It must come before any change.
func (s *State) LoadedFromOutside(serverID int64, at change.Position, time int64) {
	s.AddFloor(Meta{
		Partition: Outside, Offset: -1, Line: s.lineNumber(change.Server{ID: serverID}, 0),
		Position: at, HasPosition: true, Rank: RankRead, Time: time,
	})
}

// nameServer gives the reads that came without a server id the server that is
// heard of now, the first of its connector.
func (s *State) nameServer(server change.Server) {
	unnamed := change.Server{Name: server.Name}
	for _, p := range s.Partitions {
		for _, l := range p.Lines {
			if l.Server == unnamed && l.HasHigh {
				return // changes came without an id too: nothing tells that they are this server's
			}
		}
	}
	server.Name = strings.Clone(server.Name)
	for i := range s.Lines {
		if s.Lines[i].Server == unnamed {
			s.Lines[i].Server = server
		}
	}
	for _, p := range s.Partitions {
		for _, l := range p.Lines {
			if l.Server == unnamed {
				l.Server = server
			}
		}
	}
}

func (s *State) lineNumber(server change.Server, generation int32) int32 {
	want := Line{server, generation}
	if i := slices.Index(s.Lines, want); i >= 0 {
		return int32(i)
	}
	s.Lines = append(s.Lines, want)
	return int32(len(s.Lines) - 1)
}

func (s *State) load(line int32, pos change.Position) *Load {
	for _, l := range s.Loads {
		if l.Line == line && l.Position == pos {
			return l
		}
	}
	return nil
}

// maxLoads bounds how many ended loads are remembered.
const maxLoads = 64

// forgetOldLoads drops the oldest ended loads past maxLoads; the oldest
// written one stays, since "no load" is answered by it.
func (s *State) forgetOldLoads() {
	for len(s.Loads) > maxLoads {
		i := slices.IndexFunc(s.Loads[1:], func(l *Load) bool { return l.Written && l.Label < s.Open })
		if i < 0 {
			return
		}
		s.Loads = slices.Delete(s.Loads, i+1, i+2)
	}
}

// LoadedBy reports whether a load of a label ≤ label has been written in full.
func (s *State) LoadedBy(label Label) bool {
	return slices.ContainsFunc(s.Loads, func(l *Load) bool { return l.Written && l.Label <= label })
}

// AddFloor remembers a floor. Floors that it makes superfluous go: those of
// the same partition and line that lie at or below it in every order.
func (s *State) AddFloor(m Meta) {
	s.Floors = slices.DeleteFunc(s.Floors, func(f Meta) bool {
		return f.Partition == m.Partition && f.Line == m.Line && f.Offset <= m.Offset && f.Rank <= m.Rank &&
			f.Time <= m.Time && f.HasPosition == m.HasPosition && f.Position.Compare(m.Position) <= 0
	})
	s.Floors = append(s.Floors, m)
}

// AboveFloors reports whether a change is newer than every floor.
func (s *State) AboveFloors(m Meta) bool {
	for _, f := range s.Floors {
		if !Newer(m, f) {
			return false
		}
	}
	return true
}

// Validate finds what no writer of this program leaves behind.
func (s *State) Validate() error {
	if s.Open < s.First {
		return fmt.Errorf("open label %d lies before the first %d", s.Open, s.First)
	}
	for _, p := range s.Partitions {
		if p == nil {
			return fmt.Errorf("an empty partition entry")
		}
		if p.Next < p.Start {
			return fmt.Errorf("%s/%d: next offset %d lies before its start %d", p.Topic, p.Kafka, p.Next, p.Start)
		}
		for _, l := range p.Lines {
			if l == nil || int(l.Number) >= len(s.Lines) || l.Number < 0 {
				return fmt.Errorf("%s/%d: a line that the table does not know", p.Topic, p.Kafka)
			}
		}
	}
	for _, l := range s.Loads {
		if l == nil {
			return fmt.Errorf("an empty load entry")
		}
	}
	return nil
}
