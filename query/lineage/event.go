package lineage

import (
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// Event is the change of the source that gave a row, or took it away.
type Event struct {
	// Topic, Partition and Offset are its record in Kafka.
	Topic     string
	Partition int32
	Offset    int64
	// Time is when it happened in the source: its event time.
	Time time.Time
	// Read tells that it is a row of a load, which was so before that time.
	Read bool
	// Server is the connector's name of the source and ServerID the source's own.
	Server   string
	ServerID int64
	// HasPosition tells that its place in the binlog is known: the number of the file,
	// the position in it, and the row of the event there.
	HasPosition bool
	File, Pos   int64
	Row         int32
}

// The hidden columns of data files, in this order behind the table's own.
var hidden = []schema.Field{
	hiddenField("partition", schema.Integer), hiddenField("offset", schema.Long), hiddenField("line", schema.Integer),
	hiddenField("file", schema.Long), hiddenField("pos", schema.Long), hiddenField("row", schema.Integer),
	hiddenField("time", schema.Timestamp), hiddenField("read", schema.Boolean),
}

func hiddenField(name string, p schema.Primitive) schema.Field {
	return schema.Field{Name: "__gscd_" + name, Type: schema.Of(p), Nullable: true}
}

// sources knows what the numbers in hidden columns stand for.
type sources struct {
	partitions map[int32]*snapshotter.Partition
	lines      []snapshotter.Line
}

// sourcesOf reads them from a progress, which may be nil.
func sourcesOf(p *progress.Progress) sources {
	s := sources{partitions: map[int32]*snapshotter.Partition{}}
	if p != nil {
		for _, partition := range p.State.Partitions {
			s.partitions[partition.Number] = partition
		}
		s.lines = p.State.Lines
	}
	return s
}

// event reads the cells of the hidden columns; nil where they are lost.
func (s sources) event(cells []schema.Value) *Event {
	if cells[0].IsNull() || cells[1].IsNull() || cells[1].I < 0 { // below 0: lost before, and a place was made up to compare with
		return nil
	}
	return s.of(snapshotter.Meta{
		Partition: int32(cells[0].I), Offset: cells[1].I, Line: int32(cells[2].I), HasPosition: !cells[3].IsNull(), Time: cells[6].I,
	}, Event{Read: cells[7].I == 1, File: cells[3].I, Pos: cells[4].I, Row: int32(cells[5].I)})
}

// marked gives the event of a delete marker.
func (s sources) marked(m snapshotter.Meta) *Event {
	return s.of(m, Event{File: m.Position.File, Pos: m.Position.Pos, Row: m.Position.Row})
}

func (s sources) of(m snapshotter.Meta, e Event) *Event {
	e.Partition, e.Offset, e.Time, e.HasPosition = m.Partition, m.Offset, time.UnixMicro(m.Time).UTC(), m.HasPosition
	if p := s.partitions[m.Partition]; p != nil {
		e.Topic, e.Partition = p.Topic, p.Kafka
	}
	if m.HasPosition && int(m.Line) < len(s.lines) && m.Line >= 0 {
		e.Server, e.ServerID = s.lines[m.Line].Server.Name, s.lines[m.Line].Server.ID
	}
	return &e
}
