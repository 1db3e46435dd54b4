package ingest

import (
	"encoding/json"
	"fmt"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// Hidden are the columns of data files that say which change gave each row.
// They are not in the table's schema.
var Hidden = []parquet.Column{
	{Name: HiddenPrefix + "partition", Type: schema.Of(schema.Integer)},
	{Name: HiddenPrefix + "offset", Type: schema.Of(schema.Long)},
	{Name: HiddenPrefix + "line", Type: schema.Of(schema.Integer)},
	{Name: HiddenPrefix + "file", Type: schema.Of(schema.Long)},
	{Name: HiddenPrefix + "pos", Type: schema.Of(schema.Long)},
	{Name: HiddenPrefix + "row", Type: schema.Of(schema.Integer)},
	{Name: HiddenPrefix + "time", Type: schema.Of(schema.Timestamp)},
	{Name: HiddenPrefix + "read", Type: schema.Of(schema.Boolean)},
}

// hiddenCells writes a Meta into the cells of Hidden.
func hiddenCells(cells []schema.Value, m snapshotter.Meta) {
	cells[0] = schema.IntValue(int64(m.Partition))
	cells[1] = schema.IntValue(m.Offset)
	cells[2] = schema.IntValue(int64(m.Line))
	if m.HasPosition {
		cells[3] = schema.IntValue(m.Position.File)
		cells[4] = schema.IntValue(m.Position.Pos)
	}
	if m.HasPosition || m.Position.Row != 0 {
		cells[5] = schema.IntValue(int64(m.Position.Row))
	}
	cells[6] = schema.IntValue(m.Time)
	cells[7] = schema.BoolValue(m.Rank != snapshotter.RankChange)
}

// metaOf reads a Meta from the cells of Hidden. ok is false where another
// engine rewrote the row and lost them.
func metaOf(cells []schema.Value) (m snapshotter.Meta, ok bool) {
	if cells[0].IsNull() || cells[1].IsNull() {
		return snapshotter.Meta{}, false
	}
	m = snapshotter.Meta{
		Partition: int32(cells[0].I), Offset: cells[1].I, Line: int32(cells[2].I),
		Position:    change.Position{File: cells[3].I, Pos: cells[4].I, Row: int32(cells[5].I)},
		HasPosition: !cells[3].IsNull(), Time: cells[6].I, Rank: snapshotter.RankChange,
	}
	if cells[7].I == 1 {
		m.Rank = snapshotter.RankRead
	}
	return m, true
}

// factsKey is the footer entry that keeps a file's facts.
const factsKey = "gscd.positions"

// facts bound the positions of a file's rows, so that most changes need no
// look into the file to know that they are newer.
type facts struct {
	// Line is the only line of the rows, -1 where there are several or some
	// row has no position.
	Line int32           `json:"line"`
	High change.Position `json:"high"`
}

// unknownFacts bound nothing.
var unknownFacts = facts{Line: -1}

// below reports that every row of the file stands below m by position.
func (f facts) below(m snapshotter.Meta) bool {
	return f.Line >= 0 && m.HasPosition && m.Line == f.Line && m.Position.Compare(f.High) > 0
}

// add takes one more row in; first tells that it is the first.
func (f *facts) add(m snapshotter.Meta, first bool) {
	switch {
	case first && m.HasPosition:
		*f = facts{m.Line, m.Position}
	case !m.HasPosition || m.Line != f.Line:
		f.Line = -1
	case m.Position.Compare(f.High) > 0:
		f.High = m.Position
	}
}

func (f facts) encode() map[string]string {
	raw, err := json.Marshal(f)
	if err != nil {
		panic("ingest: " + err.Error()) // plain data
	}
	return map[string]string{factsKey: string(raw)}
}

// facts gives what is known of a segment's rows.
func (l *Lane) facts(segment uint32) facts {
	if f, ok := l.segmentFacts[segment]; ok {
		return f
	}
	f := unknownFacts
	if text, ok := l.writer.Footer(l.ctx, segment)[factsKey]; ok {
		if json.Unmarshal([]byte(text), &f) != nil {
			f = unknownFacts
		}
	}
	l.segmentFacts[segment] = f
	return f
}

// lookUp reads where a live row of the table stands, to be compared with by. known
// tells that this holds for whatever it is compared with.
func (l *Lane) lookUp(ref upsert.Ref, by snapshotter.Meta) (m snapshotter.Meta, known bool, err error) {
	cells := l.rowsAhead.of(l.writer, ref)
	if cells == nil {
		rows, err := l.writer.ReadRows(l.ctx, []upsert.Ref{ref}, Hidden)
		if err != nil {
			return snapshotter.Meta{}, false, fmt.Errorf("look up a row's position: %w", err)
		}
		cells = rows[0]
	}
	if m, ok := metaOf(cells); ok {
		return m, true, nil
	}
	m, known = l.lostMeta(l.writer.Path(ref.Segment()), ref.Tag(), by)
	return m, known, nil
}
