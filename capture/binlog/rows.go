package binlog

import (
	"fmt"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/gscd-io/gscd/capture/event"
)

// rowEvent is a kind of event that holds rows.
type rowEvent struct {
	op         event.Op
	version    int
	compressed bool
	partial    bool // JSON columns may be changes of them
}

var rowEvents = map[replication.EventType]rowEvent{
	replication.WRITE_ROWS_EVENTv0:                      {op: event.Insert},
	replication.UPDATE_ROWS_EVENTv0:                     {op: event.Update},
	replication.DELETE_ROWS_EVENTv0:                     {op: event.Delete},
	replication.WRITE_ROWS_EVENTv1:                      {op: event.Insert, version: 1},
	replication.UPDATE_ROWS_EVENTv1:                     {op: event.Update, version: 1},
	replication.DELETE_ROWS_EVENTv1:                     {op: event.Delete, version: 1},
	replication.WRITE_ROWS_EVENTv2:                      {op: event.Insert, version: 2},
	replication.UPDATE_ROWS_EVENTv2:                     {op: event.Update, version: 2},
	replication.DELETE_ROWS_EVENTv2:                     {op: event.Delete, version: 2},
	replication.PARTIAL_UPDATE_ROWS_EVENT:               {op: event.Update, version: 2, partial: true},
	replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1:  {op: event.Insert, version: 1, compressed: true},
	replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1: {op: event.Update, version: 1, compressed: true},
	replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1: {op: event.Delete, version: 1, compressed: true},
}

// rows is the event whose rows are read.
type rows struct {
	rowEvent
	table         *table
	data          []byte // what is left of it
	before, after []byte // which columns the images have
	// closing: behind these rows, or what is queued, the transaction ends.
	closing bool
}

func (r *rows) left() bool { return len(r.data) > 0 }

// dummyTable is the id of an event that has no rows and ends a statement.
const dummyTable = 0x00ffffff

// openRows begins to read an event's rows.
func (r *Reader) openRows(kind rowEvent, body []byte) error {
	post, err := r.postHeader(r.header.EventType)
	if err != nil {
		return err
	}
	c := cursor{b: body}
	id := c.uint(idSize(post))
	flags := c.uint(2)
	if kind.version == 2 {
		c.take(max(c.uint(2), 2) - 2) // extra data: NDB's, partitions
	}
	columns := c.length()
	if columns > maxColumns {
		return corrupt("rows of %d columns", columns)
	}
	size := (columns + 7) / 8
	first := c.take(size)
	second := first
	if kind.op == event.Update {
		second = c.take(size)
	}
	if c.err != nil {
		return corrupt("rows: %v", c.err)
	}
	last := flags&replication.RowsEventStmtEndFlag != 0
	r.rows = rows{rowEvent: kind, closing: last && !r.tx.open}
	t := r.tables[id]
	if last {
		clear(r.tables)
	}
	switch {
	case t == nil && id == dummyTable:
		return nil
	case t == nil:
		return corrupt("rows of a table whose TABLE_MAP event is missing")
	case !t.wanted:
		return nil
	case t.err != nil:
		return &tableError{string(dotted(t.raw)), t.err}
	case int(columns) != len(t.columns):
		return corrupt("rows of %d columns of a table of %d", columns, len(t.columns))
	}
	data := c.b
	if kind.compressed {
		if data, err = inflate(data); err != nil {
			return err
		}
	}
	r.rows.table, r.rows.data, r.rows.before, r.rows.after = t, data, first, second
	return nil
}

// dotted is the table's name in a TABLE_MAP event.
func dotted(raw []byte) []byte {
	c := cursor{b: raw}
	name := append([]byte(nil), c.take(c.uint(1))...)
	c.uint(1)
	return append(append(name, '.'), c.take(c.uint(1))...)
}

// nextRow reads the next row; nil where it was put aside.
func (r *Reader) nextRow() (*event.Event, error) {
	s := &r.slots[r.turn]
	r.turn = 1 - r.turn
	s.scratch = s.scratch[:0]
	ev := &s.event
	*ev = event.Event{Op: r.rows.op, Source: r.source(), Table: r.rows.table.def}
	ev.Source.Row = r.row
	r.row++
	r.tx.given++
	had := len(r.rows.data)
	var err error
	if r.rows.op != event.Insert {
		if s.before, err = r.image(s.before, r.rows.before, nil, s); err != nil {
			return nil, r.rowError(err)
		}
		ev.Before = s.before
	}
	if r.rows.op != event.Delete {
		if s.after, err = r.image(s.after, r.rows.after, ev.Before, s); err != nil {
			return nil, r.rowError(err)
		}
		ev.After = s.after
		for i := range ev.Before { // an image other than FULL leaves out what did not change
			if ev.After[i].Kind == event.Absent {
				ev.After[i] = ev.Before[i]
			}
		}
	}
	if len(r.rows.data) == had {
		return nil, r.rowError(corrupt("a row without bytes"))
	}
	if r.tx.xa {
		return nil, r.aside.keep(ev, r.o.MaxPrepared)
	}
	return ev, nil
}

func (r *Reader) rowError(err error) error {
	t := r.rows.table.def
	return &tableError{t.Database + "." + t.Name, fmt.Errorf("row %d of the event: %w", r.row-1, err)}
}

// image reads one image of a row. Of an update's second image before is the first, to
// which changes of JSON columns are applied; nil else.
func (r *Reader) image(cells []event.Cell, has []byte, before []event.Cell, s *slot) ([]event.Cell, error) {
	t := r.rows.table
	data := r.rows.data
	if cap(cells) < len(t.columns) {
		cells = make([]event.Cell, len(t.columns))
	}
	cells = cells[:len(t.columns)]
	var changes []byte // which JSON columns are changes
	if r.rows.partial && before != nil {
		c := cursor{b: data}
		if c.length()&uint64(replication.EnumBinlogRowValueOptionsPartialJsonUpdates) != 0 {
			changes = c.take(uint64(t.json+7) / 8)
		}
		if c.err != nil {
			return cells, c.err
		}
		data = c.b
	}
	present := 0
	for i := range t.columns {
		if bit(has, i) {
			present++
		}
	}
	size := (present + 7) / 8
	if size > len(data) {
		return cells, errShort
	}
	nulls := data[:size]
	data = data[size:]
	n, json := 0, 0
	for i := range t.columns {
		col := &t.columns[i]
		changed := false
		if changes != nil && col.isJSON() {
			changed = bit(changes, json)
			json++
		}
		if !bit(has, i) {
			cells[i] = event.Cell{}
			continue
		}
		null := bit(nulls, n)
		n++
		if null {
			cells[i] = event.Cell{Kind: event.Null}
			continue
		}
		var used int
		var err error
		if changed {
			used, err = col.change(data, &before[i], &cells[i], s)
		} else {
			used, err = col.cell(data, &cells[i], s)
		}
		if err != nil {
			return cells, fmt.Errorf("column %s: %w", t.def.Columns[i].Name, err)
		}
		data = data[used:]
	}
	r.rows.data = data
	return cells, nil
}
