package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/gscd-io/gscd/ingest/change"
)

// CanalProtobuf is the format of Canal's packets, which it sends with
// canal.mq.flatMessage=false. A record may hold many rows.
const CanalProtobuf = "canal-protobuf"

// The types of a packet, of an entry and of an event that mean something here.
const (
	packetMessages  = 7
	packetHeartbeat = 11

	entryBegin     = 1
	entryRows      = 2
	entryEnd       = 3
	entryHeartbeat = 4
	entryGTID      = 5

	eventInsert     = 1
	eventUpdate     = 2
	eventDelete     = 3
	eventCreate     = 4
	eventQuery      = 7
	eventTruncate   = 8
	eventDropIndex  = 11
	eventGTID       = 12
	eventXACommit   = 13
	eventXARollback = 14
	eventHeartbeat  = 15
)

// rowProperty is the property of a row change that says which row of its event the
// first one is, where the others before it were cut away (see Alone).
const rowProperty = "gscd.row"

// packets reads Canal's packets: Packet, in it Messages, in it entries, of which
// each is an event of the binlog with its rows.
type packets struct {
	flat

	// scanned is the value that was read last, fault what is wrong with it, units
	// how many changes it holds. walk stands behind the unit that was read last.
	scanned []byte
	fault   error
	body    span
	kind    int
	units   int
	walk    packetWalk

	row, old         []member
	rowType, oldType []token // of mysqlType, beside row and old
	isKey            []bool  // beside row

	types  cache[*rowSchema] // by the names and types of the columns
	last   *rowSchema
	lastBy []byte
	by     []byte
	seen   recognition
}

// packetWalk goes through the changes of a packet.
type packetWalk struct {
	at    int // behind the entry in hand
	unit  int // of the change that comes next
	entry entry
	next  int // in entry's row change, behind the row read last
	row   int // of the row that comes next, from 0 on
	left  int // rows of the entry that are left, or 1 of an event without
}

// entry is an event of the binlog.
type entry struct {
	header, change        span
	schema, table, file   span
	gtid, sql             span
	offset, server, at    int64
	kind                  int
	headerEvent, event    int
	ddl, rows, rowsBefore int
}

func newPackets(o *Options) *packets {
	o = o.writtenAs(func(spec ColumnSpec, c codec) codec { return c.asCanal(spec.sqlName(), spec.text, &o.Canal) })
	return &packets{flat: newFlat(o, nil)}
}

func (d *packets) Format() string { return CanalProtobuf }

func (d *packets) recognised() recognition { return d.seen }

// packet reads the frame and checks all that is in it, unless it was the last one.
func (d *packets) packet(rec *change.Record) error {
	d.cells.b = rec.Value
	if len(rec.Value) == len(d.scanned) && unsafe.SliceData(rec.Value) == unsafe.SliceData(d.scanned) && d.scanned != nil {
		return d.fault
	}
	d.scanned, d.units = rec.Value, 0
	if d.fault = d.frame(rec.Value); d.fault == nil && d.kind == packetMessages {
		d.fault = d.check()
	}
	d.rewind()
	if d.fault != nil {
		d.fault = &Error{Reason: ReasonDecode, Err: d.fault}
	}
	return d.fault
}

var (
	errNoPacket    = errors.New("no packet of Canal")
	errCompression = errors.New("the packet is compressed, which Canal's own consumers do not read either: switch it off")
)

func (d *packets) frame(value []byte) error {
	w := newWire(value, span{0, int32(len(value))})
	compression := 0
	d.kind, d.body = 0, span{}
	for w.next() {
		switch w.field {
		case 1, 2:
			var version int64
			w.long(&version)
		case 3:
			w.enum(&d.kind)
		case 4:
			w.enum(&compression)
		case 5:
			w.message(&d.body)
		}
	}
	switch {
	case w.err != nil:
		return fmt.Errorf("%w: %w", errNoPacket, w.err)
	case d.kind != packetMessages && d.kind != packetHeartbeat:
		return fmt.Errorf("%w: its type is %d, not %d (messages)", errNoPacket, d.kind, packetMessages)
	case d.kind == packetMessages && d.body == (span{}):
		return fmt.Errorf("%w: it ends early", errNoPacket)
	case compression > 1:
		return errCompression
	}
	return nil
}

// check reads everything once, and counts the changes.
func (d *packets) check() error {
	d.rewind()
	for {
		row, ok, err := d.step()
		switch {
		case err != nil:
			return err
		case !ok:
			return nil
		}
		if d.units++; d.units > maxRows {
			return errManyRows
		}
		if row != nil {
			if err := d.columns(*row); err != nil {
				return err
			}
			if len(d.row) == 0 {
				return errCanalData
			}
		}
	}
}

// maxColumns is four times what a table of MySQL may have.
const maxColumns = 1 << 14

func (d *packets) rewind() { d.walk = packetWalk{at: int(d.body.start)} }

// step goes to the next change: a row, or nil for an event without rows that says
// something. ok is false at the end.
func (d *packets) step() (row *span, ok bool, err error) {
	k := &d.walk
	for k.left == 0 {
		w := newWire(d.scanned, span{int32(k.at), d.body.end})
		if !w.next() {
			return nil, false, w.err
		}
		k.at = w.at
		switch {
		case w.field == 1 && w.typ == wireVarint: // the number of the batch
		case w.field == 2 && w.many():
			if err := d.readEntry(w.bytes); err != nil {
				return nil, false, err
			}
			if e := &k.entry; e.kind == entryRows && e.event < eventGTID {
				k.next, k.row, k.left = int(e.change.start), 0, max(1, e.rows)
			}
		case w.err != nil:
			return nil, false, w.err
		}
	}
	k.left--
	k.unit++
	if k.entry.rows == 0 {
		return nil, true, nil
	}
	w := newWire(d.scanned, span{int32(k.next), k.entry.change.end})
	for w.next() {
		if w.field == 12 {
			k.next = w.at
			k.row++
			return &w.bytes, true, nil
		}
	}
	return nil, false, errCanalData // the rows were counted before
}

func (d *packets) readEntry(raw span) error {
	e := &d.walk.entry
	*e = entry{}
	w := newWire(d.scanned, raw)
	for w.next() {
		switch w.field {
		case 1:
			w.message(&e.header)
		case 2:
			w.enum(&e.kind)
		case 3:
			w.message(&e.change)
		}
	}
	if w.err != nil {
		return w.err
	}
	switch e.kind {
	case 0: // left out
		e.kind = entryRows
	case entryRows:
	case entryBegin, entryEnd, entryHeartbeat, entryGTID:
		return d.readHeader(e)
	default:
		return fmt.Errorf("unknown type %d of an entry", e.kind)
	}
	if err := d.readHeader(e); err != nil {
		return err
	}
	return d.readChange(e)
}

func (d *packets) readHeader(e *entry) error {
	w := newWire(d.scanned, e.header)
	var header span
	for w.next() {
		switch w.field {
		case 2:
			w.text(&e.file)
		case 3:
			w.long(&e.offset)
		case 4:
			w.long(&e.server)
		case 6:
			w.long(&e.at)
		case 8:
			w.text(&e.schema)
		case 9:
			w.text(&e.table)
		case 11:
			w.enum(&e.headerEvent)
		case 12:
			if w.many() {
				key, value, err := d.pair(w.bytes)
				if err != nil {
					return err
				}
				if d.is(key, "curtGtid") {
					e.gtid = value
				}
			}
		case 13:
			w.text(&header)
		}
	}
	// What the header calls gtid may be the set of all of them.
	if text := d.text(header); e.gtid == (span{}) && isOneGTID(text) {
		e.gtid = header
	}
	return w.err
}

// isOneGTID tells a GTID of MySQL or MariaDB from a set of them.
func isOneGTID(s string) bool {
	if isMySQLGTID(s) {
		n := s[strings.LastIndexByte(s, ':')+1:]
		return n != "" && allDigits(n) && !strings.Contains(s, ",")
	}
	parts := strings.Split(s, "-")
	return len(parts) == 3 && parts[0] != "" && parts[1] != "" && parts[2] != "" && allDigits(strings.Join(parts, ""))
}

func (d *packets) readChange(e *entry) error {
	w := newWire(d.scanned, e.change)
	for w.next() {
		switch w.field {
		case 2:
			w.enum(&e.event)
		case 10:
			w.enum(&e.ddl)
		case 11:
			w.text(&e.sql)
		case 12:
			if w.many() {
				e.rows++
			}
		case 13:
			if !w.many() {
				break
			}
			key, value, err := d.pair(w.bytes)
			if err != nil {
				return err
			}
			if d.is(key, rowProperty) {
				n, err := strconv.ParseInt(d.text(value), 10, 31)
				if err != nil || n < 0 {
					return fmt.Errorf("%s is %.20q", rowProperty, d.text(value))
				}
				e.rowsBefore = int(n)
			}
		}
	}
	switch {
	case w.err != nil:
		return w.err
	case e.event == 0 && e.headerEvent == eventQuery && e.rows == 0:
		e.event = eventQuery
	case e.event == 0: // left out
		e.event = eventUpdate
	}
	if e.headerEvent != 0 && e.headerEvent != e.event {
		return fmt.Errorf("the header says event %d, its content event %d", e.headerEvent, e.event)
	}
	if e.rows > 0 && e.event > eventDelete {
		return fmt.Errorf("rows in an event of type %d", e.event)
	}
	return nil
}

func (d *packets) pair(s span) (key, value span, err error) {
	w := newWire(d.scanned, s)
	for w.next() {
		switch w.field {
		case 1:
			w.text(&key)
		case 2:
			w.text(&value)
		}
	}
	return key, value, w.err
}

func (d *packets) text(s span) string { return view(d.scanned[s.start:s.end]) }

func (d *packets) is(s span, word string) bool { return d.text(s) == word }

// columns reads a row: d.row and what belongs to it, and d.old.
func (d *packets) columns(row span) error {
	d.row, d.rowType, d.isKey = d.row[:0], d.rowType[:0], d.isKey[:0]
	d.old, d.oldType = d.old[:0], d.oldType[:0]
	w := newWire(d.scanned, row)
	for w.next() {
		if w.field != 1 && w.field != 2 || !w.many() {
			continue
		}
		m, typ, key, err := d.column(w.bytes)
		switch {
		case err != nil:
			return err
		case len(d.row) == maxColumns || len(d.old) == maxColumns:
			return fmt.Errorf("a row of more than %d columns", maxColumns)
		case w.field == 2 || d.walk.entry.event == eventDelete:
			d.row, d.rowType, d.isKey = append(d.row, m), append(d.rowType, typ), append(d.isKey, key)
		default:
			d.old, d.oldType = append(d.old, m), append(d.oldType, typ)
		}
	}
	return w.err
}

func (d *packets) column(s span) (m member, typ token, isKey bool, err error) {
	var name, value, mysqlType span
	key, null := 0, 0
	w := newWire(d.scanned, s)
	for w.next() {
		switch w.field {
		case 3:
			w.text(&name)
		case 4:
			w.enum(&key)
		case 6:
			w.enum(&null)
		case 8:
			w.text(&value)
		case 10:
			w.text(&mysqlType)
		}
	}
	switch {
	case w.err != nil:
		return m, typ, false, w.err
	case name == (span{}):
		return m, typ, false, errNoName
	case bytes.IndexByte(d.scanned[name.start:name.end], 0) >= 0 || bytes.IndexByte(d.scanned[mysqlType.start:mysqlType.end], 0) >= 0:
		return m, typ, false, fmt.Errorf("the byte 0 in the name or type of column %.40q", d.text(name))
	}
	m.name = token{start: name.start, end: name.end, kind: kindString}
	m.value = token{start: value.start, end: value.end, kind: kindString}
	if null != 0 {
		m.value = token{kind: kindNull}
	}
	return m, token{start: mysqlType.start, end: mysqlType.end, kind: kindString}, key != 0, nil
}

// Rows implements Decoder.
func (d *packets) Rows(rec *change.Record) int {
	if rec.Value == nil || len(rec.Value) > math.MaxInt32 || d.packet(rec) != nil {
		return 1
	}
	return max(1, d.units)
}

// seek goes to the change that a record stands for, and reads its row.
func (d *packets) seek(unit int) (row *span, err error) {
	if d.walk.unit > unit {
		d.rewind()
	}
	for {
		row, ok, err := d.step()
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, fmt.Errorf("row %d of a packet of %d", unit, d.units)
		}
		if d.walk.unit == unit+1 {
			return row, nil
		}
	}
}

// Alone implements Decoder: a packet with one entry, of one row.
func (d *packets) Alone(rec *change.Record) *change.Record {
	if rec.Rows <= 1 || d.Rows(rec) <= 1 {
		return rec
	}
	row, err := d.seek(int(rec.Row))
	if err != nil {
		return rec
	}
	e := &d.walk.entry
	var content []byte
	w := newWire(d.scanned, e.change)
	for from := w.at; w.next(); from = w.at {
		keep := w.field != 12
		if w.field == 13 {
			key, _, _ := d.pair(w.bytes) // it was read before
			keep = !d.is(key, rowProperty)
		}
		if keep {
			content = append(content, d.scanned[from:w.at]...)
		}
	}
	if row != nil {
		content = appendBytesField(content, 12, d.scanned[row.start:row.end])
		if n := d.rowInEvent(); n > 0 {
			pair := appendBytesField(nil, 1, []byte(rowProperty))
			pair = appendBytesField(pair, 2, strconv.AppendInt(nil, int64(n), 10))
			content = appendBytesField(content, 13, pair)
		}
	}
	one := appendBytesField(nil, 1, d.scanned[e.header.start:e.header.end])
	one = appendVarintField(one, 2, entryRows)
	one = appendBytesField(one, 3, content)
	alone := *rec
	alone.Value = appendBytesField(appendVarintField(nil, 3, packetMessages), 5, appendBytesField(nil, 2, one))
	alone.Rows = 0
	return &alone
}

// rowInEvent is the number of the row read last among those of its event.
func (d *packets) rowInEvent() int { return d.walk.entry.rowsBefore + d.walk.row - 1 }

// Decode implements Decoder.
func (d *packets) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	return d.oneRow(rec, arena, out, reading{seen: &d.seen, value: d.packet, row: d.decode})
}

func (d *packets) decode(rec *change.Record, out *change.Change) error {
	if d.seen = own; d.units == 0 {
		d.seen = neutral
		out.Op = change.Filtered
		return nil
	}
	at := 0
	if d.units > 1 {
		at = int(rec.Row)
	}
	row, err := d.seek(at)
	if err != nil {
		return err
	}
	e := &d.walk.entry
	if d.opts.Source != "" && !d.opts.takes(d.text(e.schema), d.text(e.table), out) {
		out.Op = change.Filtered
		return nil
	}
	switch e.event {
	case eventInsert:
		out.Op = change.Insert
	case eventUpdate:
		out.Op = change.Update
	case eventDelete:
		out.Op = change.Delete
	case eventTruncate:
		out.Op = change.Truncate
	default:
		out.Op = change.Filtered
		return nil
	}
	if err := d.origin(rec, out); err != nil || out.Op == change.Truncate {
		return err
	}
	switch {
	case row == nil && e.sql.start < e.sql.end:
		return errStatement
	case row == nil:
		return errCanalData
	}
	return d.fillRow(*row, out)
}

// origin fills in where and when the change was made. TiCDC names no file.
func (d *packets) origin(rec *change.Record, out *change.Change) error {
	e := &d.walk.entry
	out.Server.ID = e.server
	out.Position.Row = rec.Row // without a position, the order of rows that have the same offset
	file := d.text(e.file)
	if number := file[strings.LastIndexByte(file, '.')+1:]; number != "" && len(number) <= 18 && allDigits(number) {
		n, _ := integer([]byte(number))
		out.Position = change.Position{File: n, Pos: e.offset}
		if e.rows > 0 {
			out.Position.Row = int32(d.rowInEvent())
		}
		out.HasPosition = true
	}
	out.GTID = d.text(e.gtid)
	return timeOf("executeTime", e.at, millis, d.opts, rec, out)
}

// fillRow fills in key, before and after.
func (d *packets) fillRow(row span, out *change.Change) error {
	if err := d.columns(row); err != nil {
		return err
	}
	types, err := d.rowTypes(d.row, d.rowType)
	if err != nil {
		return err
	}
	d.key = d.key[:0]
	for i, m := range d.row {
		if d.isKey[i] {
			d.key = append(d.key, m)
		}
	}
	if err := d.keyCells(types, out); err != nil {
		return err
	}
	if err := d.fill(types, d.row, nil, false, out); err != nil {
		return err
	}
	if out.Op != change.Update || len(d.old) == 0 {
		return nil
	}
	if types, err = d.rowTypes(d.old, d.oldType); err != nil {
		return err
	}
	shape, err := types.find(d.cells.b, d.old)
	if err != nil {
		return err
	}
	out.Before, err = shape.keys(&d.cells, d.old)
	out.BeforeColumns = shape.keyCols
	return err
}

// rowTypes gives the types that the columns name.
func (d *packets) rowTypes(row []member, types []token) (*rowSchema, error) {
	r := &d.cells
	d.by = d.by[:0]
	for i := range row {
		d.by = append(append(d.by, r.raw(row[i].name)...), 0)
		d.by = append(append(d.by, r.raw(types[i])...), 0)
	}
	if d.last != nil && bytes.Equal(d.by, d.lastBy) {
		return d.last, nil
	}
	rows, ok := d.types.get(d.by)
	if !ok {
		fields := make(map[string]codec, len(row))
		for i := range row {
			name, mysqlType := string(r.raw(row[i].name)), string(r.raw(types[i]))
			if _, configured := d.opts.columns[strings.ToLower(name)]; !configured && mysqlType != "" {
				fields[name] = canalCodec(mysqlType, &d.opts.Canal)
			} // a cell is text: it is read as whatever is wanted
		}
		rows = newRowSchema(d.opts, fields)
		d.types.put(string(d.by), rows)
	}
	d.last, d.lastBy = rows, append(d.lastBy[:0], d.by...)
	return rows, nil
}
