package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/gscd-io/gscd/ingest/change"
)

// OpenProtocol is the format of TiCDC's open protocol. A record may hold many rows.
const OpenProtocol = "open-protocol"

// The kinds of message, the action of a DDL message that means something here, and
// the version of a batch.
const (
	openRow      = 1
	openDDL      = 2
	openResolved = 3

	openTruncate = 11
	batchVersion = 1
)

// openProtocol reads batches: the record key is a version and the messages' keys,
// the value their values, each behind its length.
type openProtocol struct {
	flat
	typed *Options // without columns: the types of a batch have taken them in

	// The batch that was read last, what is wrong with it, and its messages; walk is
	// the message that comes next, and where it is.
	scannedKey, scanned []byte
	fault               error
	units               int
	unit, keyAt, at     int
	msg                 openMessage

	types  cache[*rowSchema] // by the names, types and flags of the columns
	last   *rowSchema
	lastBy []byte
	by     []byte
	seen   recognition

	columns columnList // of the row
	before  columnList // of the row before, or of the one deleted
}

// openMessage is one message of a batch: where its parts are, and what its key says.
type openMessage struct {
	key, value    span
	kind          int64
	ts            int64
	schema, table token
	partial       bool
	// What its value says: the row's columns, those before, of a delete, and the
	// action of DDL.
	after, before, deleted token
	action                 int64
}

// columnList is the columns of a row, each with its type and flags.
type columnList struct {
	members []member
	columns []openColumn
}

// openColumn is what a message says of a column beside its value. Old releases
// write no flags.
type openColumn struct {
	typ, flags int64
	flagged    bool
	handle     bool
}

func newOpenProtocol(o *Options) *openProtocol {
	typed := *o
	typed.columns = nil
	return &openProtocol{flat: newFlat(o, nil), typed: &typed}
}

func (d *openProtocol) Format() string { return OpenProtocol }

func (d *openProtocol) recognised() recognition { return d.seen }

var (
	errNoBatch   = errors.New("no batch of the open protocol: the record key has no version 1")
	errBatchEnds = errors.New("a message is longer than the batch")
	errBatchTail = errors.New("the batch has more values than keys")
	errOnlyKey   = errors.New("the message was too large for TiCDC and has its key alone: raise max-message-bytes, or compress them at the broker")
	errOpenRow   = errors.New("the message is neither a row (u) nor a delete (d)")
)

// batch checks all of a record, unless it was the last one.
func (d *openProtocol) batch(rec *change.Record) error {
	d.cells.b = rec.Value
	same := func(a, b []byte) bool {
		return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b) && a != nil
	}
	if same(rec.Key, d.scannedKey) && (same(rec.Value, d.scanned) || len(rec.Value) == 0 && len(d.scanned) == 0) {
		return d.fault
	}
	d.scannedKey, d.scanned, d.units = rec.Key, rec.Value, 0
	d.rewind()
	if d.fault = d.check(); d.fault != nil {
		d.fault = &Error{Reason: ReasonDecode, Err: d.fault}
	}
	d.rewind()
	return d.fault
}

// check reads everything once, and counts the messages.
func (d *openProtocol) check() error {
	for {
		ok, err := d.step()
		if err != nil || !ok {
			return err
		}
		if d.units++; d.units > maxRows {
			return errManyRows
		}
		if d.msg.kind == openRow {
			if err := d.readRow(); err != nil {
				return err
			}
		}
	}
}

// isBatch reports whether a record key is that of a batch.
func isBatch(key []byte) bool {
	return len(key) >= 16 && binary.BigEndian.Uint64(key) == batchVersion
}

func (d *openProtocol) rewind() { d.unit, d.keyAt, d.at = 0, 8, 0 }

// part gives the stretch behind the length at i.
func part(b []byte, i int) (span, error) {
	if len(b)-i < 8 {
		return span{}, errBatchEnds
	}
	n := binary.BigEndian.Uint64(b[i:])
	if n > uint64(len(b)-i-8) {
		return span{}, errBatchEnds
	}
	return span{int32(i + 8), int32(i + 8 + int(n))}, nil
}

// step reads the next message but for its columns; false at the end.
func (d *openProtocol) step() (ok bool, err error) {
	m := &d.msg
	*m = openMessage{}
	if d.keyAt == len(d.scannedKey) {
		if d.at != len(d.scanned) {
			return false, errBatchTail
		}
		return false, nil
	}
	if m.key, err = part(d.scannedKey, d.keyAt); err != nil {
		return false, err
	}
	if err := d.readKey(); err != nil {
		return false, fmt.Errorf("key of message %d: %w", d.unit, err)
	}
	d.keyAt = int(m.key.end)
	if m.kind != openResolved || len(d.scanned) > 0 { // it may have no value at all
		if m.value, err = part(d.scanned, d.at); err != nil {
			return false, err
		}
		d.at = int(m.value.end)
	}
	if m.kind != openResolved {
		if err := d.readValue(); err != nil {
			return false, fmt.Errorf("message %d: %w", d.unit, err)
		}
	}
	d.unit++
	return true, nil
}

// object calls member for each member of the object that the stretch is. Those
// with the names must not come twice.
func (d *openProtocol) object(b []byte, s span, names []string, member func(slot int, t token) error) error {
	sc := &d.scan
	sc.reset(b[:s.end])
	i := sc.space(int(s.start))
	if i >= len(sc.b) || sc.b[i] != '{' {
		if _, end := sc.value(i, 0); end < 0 {
			return sc.err
		}
		return errors.New("it is no object")
	}
	seen := 0
	for i, first := i+1, true; ; first = false {
		name, at := sc.next(i, first)
		if at < 0 {
			return sc.err
		}
		if name.kind == kindNone {
			if at = sc.space(at); at != len(sc.b) {
				return fmt.Errorf("json at byte %d: text behind the value", at)
			}
			return nil
		}
		var t token
		if t, i = sc.value(at, 1); i < 0 {
			return sc.err
		}
		slot := slices.Index(names, view(sc.b[name.start:name.end]))
		if slot < 0 {
			continue
		}
		if seen&(1<<slot) != 0 {
			sc.failWith(int(name.start), errTwice)
			return sc.err
		}
		seen |= 1 << slot
		if err := member(slot, t); err != nil {
			return err
		}
	}
}

var (
	openKeyNames    = []string{"ts", "scm", "tbl", "t", "ohk", "ccl"}
	openValueNames  = []string{"u", "p", "d", "t"}
	openColumnNames = []string{"t", "f", "h", "v"}
)

func (d *openProtocol) readKey() error {
	m, r := &d.msg, cells{b: d.scannedKey}
	err := d.object(d.scannedKey, m.key, openKeyNames, func(slot int, t token) (err error) {
		switch slot {
		case 0:
			m.ts, err = r.whole(t)
		case 1:
			m.schema = t
		case 2:
			m.table = t
		case 3:
			m.kind, err = r.whole(t)
		case 4:
			m.partial = m.partial || t.kind == kindTrue
		case 5:
			m.partial = m.partial || t.kind == kindString && t.end > t.start
		}
		return err
	})
	if err == nil && (m.kind < openRow || m.kind > openResolved) {
		err = fmt.Errorf("unknown kind %d of a message", m.kind)
	}
	return err
}

func (d *openProtocol) readValue() error {
	m, r := &d.msg, cells{b: d.scanned}
	return d.object(d.scanned, m.value, openValueNames, func(slot int, t token) (err error) {
		switch slot {
		case 0:
			m.after = t
		case 1:
			m.before = t
		case 2:
			m.deleted = t
		case 3:
			if m.kind == openDDL {
				m.action, err = r.whole(t)
			}
		}
		return err
	})
}

// readRow reads the columns of a row's message.
func (d *openProtocol) readRow() error {
	m := &d.msg
	switch now := m.after.kind == kindObject; {
	case now == (m.deleted.kind == kindObject):
		return errOpenRow
	case !now:
		d.before.reset()
		return d.list(&d.columns, m.deleted)
	}
	if d.before.reset(); m.before.kind == kindObject {
		if err := d.list(&d.before, m.before); err != nil {
			return err
		}
	}
	return d.list(&d.columns, m.after)
}

func (l *columnList) reset() { l.members, l.columns = l.members[:0], l.columns[:0] }

func (d *openProtocol) list(l *columnList, t token) (err error) {
	l.reset()
	s := scanner{b: d.scanned[:t.end]}
	l.members, _ = s.members(int(t.start)+1, 2, l.members) // the scanner has passed it before
	if len(l.members) > maxColumns {
		return fmt.Errorf("a row of more than %d columns", maxColumns)
	}
	r := cells{b: d.scanned}
	for i := range l.members {
		at := l.members[i].value
		c, v := openColumn{}, token{}
		if at.kind != kindObject {
			return fmt.Errorf("column %s is no object", r.raw(l.members[i].name))
		}
		err := d.object(d.scanned, span{at.start, at.end}, openColumnNames, func(slot int, t token) (err error) {
			switch slot {
			case 0:
				c.typ, err = r.whole(t)
			case 1:
				c.flagged = true
				c.flags, err = r.whole(t)
			case 2:
				c.handle = t.kind == kindTrue
			case 3:
				v = t
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("column %s: %w", r.raw(l.members[i].name), err)
		}
		if v.kind == kindNone {
			v.kind = kindNull
		}
		c.handle = c.handle || c.flags&openHandle != 0
		l.members[i].value = v
		l.columns = append(l.columns, c)
	}
	return nil
}

// Rows implements Decoder.
func (d *openProtocol) Rows(rec *change.Record) int {
	if !isBatch(rec.Key) || d.tooLarge(rec) || d.batch(rec) != nil {
		return 1
	}
	return max(1, d.units)
}

func (d *openProtocol) tooLarge(rec *change.Record) bool {
	return len(rec.Key) > math.MaxInt32 || len(rec.Value) > math.MaxInt32
}

// seek goes to the message that a record stands for.
func (d *openProtocol) seek(unit int) error {
	if d.unit > unit {
		d.rewind()
	}
	for {
		ok, err := d.step()
		switch {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("message %d of a batch of %d", unit, d.units)
		case d.unit == unit+1:
			return nil
		}
	}
}

// Alone implements Decoder: a batch of one message.
func (d *openProtocol) Alone(rec *change.Record) *change.Record {
	if rec.Rows <= 1 || d.Rows(rec) <= 1 || d.seek(int(rec.Row)) != nil {
		return rec
	}
	alone := *rec
	alone.Key = binary.BigEndian.AppendUint64(nil, batchVersion)
	alone.Key = append(alone.Key, d.scannedKey[d.msg.key.start-8:d.msg.key.end]...)
	alone.Value = nil
	if d.msg.value != (span{}) {
		alone.Value = bytes.Clone(d.scanned[d.msg.value.start-8 : d.msg.value.end])
	}
	alone.Rows = 0
	return &alone
}

// Decode implements Decoder.
func (d *openProtocol) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	out.Reset()
	d.seen = foreign
	d.cells.arena = arena
	if d.tooLarge(rec) {
		return decodeError("the record is larger than 2 GiB")
	}
	if !isBatch(rec.Key) {
		return &Error{Reason: ReasonDecode, Err: errNoBatch}
	}
	err := d.batch(rec)
	if err == nil {
		err = d.decode(rec, out)
	}
	return refused(out, err)
}

func (d *openProtocol) decode(rec *change.Record, out *change.Change) error {
	if d.units == 0 {
		return errNoBatch
	}
	at := 0
	if d.units > 1 {
		at = int(rec.Row)
	}
	if err := d.seek(at); err != nil {
		return err
	}
	m := &d.msg
	d.seen = own
	if m.kind == openResolved {
		d.seen = neutral
		return resolved(m.ts, out)
	}
	if d.opts.Source != "" {
		if mine, err := d.mine(out); err != nil || !mine {
			out.Op = change.Filtered
			return err
		}
	}
	switch {
	case m.kind == openDDL && m.action == openTruncate:
		out.Op = change.Truncate
	case m.kind == openDDL:
		out.Op = change.Filtered
		return nil
	case m.deleted.kind == kindObject:
		out.Op = change.Delete
	case m.before.kind == kindObject:
		out.Op = change.Update
	default: // or an update, where TiCDC sends no old values
		out.Op = change.Insert
	}
	if err := timeOf("ts", m.ts>>tsoLogical, millis, d.opts, rec, out); err != nil {
		return err
	}
	out.EventTimeIsCommit = d.opts.EventTime == "" || d.opts.EventTime == "source"
	out.Position.Row = rec.Row
	if out.Op == change.Truncate {
		return nil
	}
	if m.partial && out.Op != change.Delete {
		return errOnlyKey
	}
	return d.row(out)
}

// tsoLogical is how many bits of a time stamp of TiDB are a counter; above them are
// milliseconds since 1970.
const tsoLogical = 18

// resolved makes a change of a promise of TiCDC: what was committed before ts has
// been sent on this partition.
func resolved(ts int64, out *change.Change) error {
	us, err := millis.inMicros(ts >> tsoLogical)
	if err != nil || us > maxTimestamp || us < 0 {
		return fmt.Errorf("the time %d: %w", ts, errTimeRange)
	}
	out.Op, out.EventTime = change.Heartbeat, us
	return nil
}

func (d *openProtocol) mine(out *change.Change) (bool, error) {
	m := &d.msg
	if m.schema.kind != kindString || m.table.kind != kindString {
		return false, nil
	}
	db, err := text(d.scannedKey, m.schema, d.cells.arena)
	if err != nil {
		return false, err
	}
	table, err := text(d.scannedKey, m.table, d.cells.arena)
	return d.opts.takes(db, table, out), err
}

// row fills in key, before and after.
func (d *openProtocol) row(out *change.Change) error {
	if err := d.readRow(); err != nil {
		return err
	}
	types, err := d.rowTypes(&d.columns)
	if err != nil {
		return err
	}
	d.key = d.key[:0]
	for i, c := range d.columns.columns {
		if c.handle {
			d.key = append(d.key, d.columns.members[i])
		}
	}
	if err := d.keyCells(types, out); err != nil {
		return err
	}
	if err := d.fill(types, d.columns.members, nil, false, out); err != nil || out.Op != change.Update {
		return err
	}
	d.completeBefore()
	if types, err = d.rowTypes(&d.before); err != nil {
		return err
	}
	shape, err := types.find(d.cells.b, d.before.members)
	if err != nil {
		return err
	}
	out.Before, err = shape.keys(&d.cells, d.before.members)
	out.BeforeColumns = shape.keyCols
	return err
}

// completeBefore puts the columns into the row before that did not change, where
// TiCDC leaves them out.
func (d *openProtocol) completeBefore() {
	if len(d.before.members) >= len(d.columns.members) {
		return
	}
	name := func(m member) string { return view(d.cells.raw(m.name)) }
	known := make(map[string]bool, len(d.before.members))
	for _, m := range d.before.members {
		known[name(m)] = true
	}
	for i, m := range d.columns.members {
		if !known[name(m)] {
			d.before.members = append(d.before.members, m)
			d.before.columns = append(d.before.columns, d.columns.columns[i])
		}
	}
}

// rowTypes gives the types that the columns name.
func (d *openProtocol) rowTypes(l *columnList) (*rowSchema, error) {
	d.by = d.by[:0]
	for i, m := range l.members {
		c := l.columns[i]
		d.by = append(append(d.by, d.cells.raw(m.name)...), 0) // no JSON string has that byte
		d.by = binary.AppendVarint(binary.AppendVarint(d.by, c.typ), c.flags)
		if c.flagged {
			d.by = append(d.by, 1)
		}
		d.by = append(d.by, 0)
	}
	if d.last != nil && bytes.Equal(d.by, d.lastBy) {
		return d.last, nil
	}
	rows, ok := d.types.get(d.by)
	if !ok {
		fields := make(map[string]codec, len(l.members))
		for i, m := range l.members {
			name, err := text(d.cells.b, m.name, &change.Arena{})
			if err != nil {
				return nil, err
			}
			name = strings.Clone(name)
			fields[name] = l.columns[i].codec(name, d.opts)
		}
		rows = newRowSchema(d.typed, fields)
		d.types.put(string(d.by), rows)
	}
	d.last, d.lastBy = rows, append(d.lastBy[:0], d.by...)
	return rows, nil
}
