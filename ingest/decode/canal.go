package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/gscd-io/gscd/ingest/change"
)

// CanalJSON is the format of Canal's flat messages. A record may hold many rows.
const CanalJSON = "canal-json"

// canal reads Canal's flat messages. The rows of one record are asked for one by
// one, and the record is scanned once.
type canal struct {
	flat

	// scanned is the value that was scanned last, fault what is wrong with it.
	scanned []byte
	fault   error
	data    rowList
	old     rowList

	types  cache[*rowSchema] // by the text of mysqlType
	last   *rowSchema
	lastBy []byte // the text that last was found by
	plain  *rowSchema
	seen   recognition
}

// rowList is an array of objects.
type rowList struct {
	members []member
	rows    []listedRow
}

// listedRow is one object of the array: its text, and its members.
type listedRow struct {
	start, end  int32
	first, next int32
}

func (l *rowList) row(i int) []member {
	r := &l.rows[i]
	return l.members[r.first:r.next]
}

// The members of a message that matter.
const (
	canalDatabase = iota
	canalTable
	canalType
	canalDDL
	canalTime
	canalSent
	canalData
	canalOld
	canalTypes
	canalKey
	canalGTID
	canalSQL
	canalTiDB
)

var canalNames = []string{
	"database", "table", "type", "isDdl", "es", "ts", "data", "old", "mysqlType", "pkNames", "gtid", "sql", "_tidb",
}

func newCanal(o *Options) *canal {
	o = o.writtenAs(func(spec ColumnSpec, c codec) codec { return c.asCanal(spec.sqlName(), spec.text, &o.Canal) })
	d := &canal{flat: newFlat(o, canalNames), plain: newRowSchema(o, nil)}
	d.inside = func(slot, at int) (end int, took bool) {
		switch {
		case d.scan.b[at] != '[':
		case slot == canalData:
			return d.data.read(&d.scan, at), true
		case slot == canalOld:
			return d.old.read(&d.scan, at), true
		}
		return 0, false
	}
	return d
}

// read reads the array at i.
func (l *rowList) read(s *scanner, i int) int {
	i = s.space(i + 1)
	if i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for {
		r := listedRow{start: int32(i), first: int32(len(l.members))}
		if i >= len(s.b) || s.b[i] != '{' {
			return s.fail(i, "no row")
		}
		if l.members, i = s.members(i+1, 3, l.members); i < 0 {
			return i
		}
		r.end, r.next = int32(i), int32(len(l.members))
		if l.rows = append(l.rows, r); len(l.rows) > maxRows {
			return s.failWith(i, errManyRows)
		}
		i = s.space(i)
		switch {
		case i < len(s.b) && s.b[i] == ']':
			return i + 1
		case i >= len(s.b) || s.b[i] != ',':
			return s.fail(i, "no comma between rows")
		}
		i = s.space(i + 1)
	}
}

func (l *rowList) reset() {
	if cap(l.members) > 1<<18 || cap(l.rows) > 1<<16 {
		*l = rowList{}
	}
	l.members, l.rows = l.members[:0], l.rows[:0]
}

func (d *canal) Format() string { return CanalJSON }

func (d *canal) recognised() recognition { return d.seen }

// message scans the record's value, unless it was the last one.
func (d *canal) message(rec *change.Record) error {
	if len(rec.Value) == len(d.scanned) && unsafe.SliceData(rec.Value) == unsafe.SliceData(d.scanned) && d.scanned != nil {
		d.cells.b = rec.Value
		return d.fault
	}
	d.data.reset()
	d.old.reset()
	d.scanned = rec.Value
	if d.fault = d.read(rec.Value); d.fault != nil {
		d.fault = &Error{Reason: ReasonDecode, Err: d.fault}
	}
	return d.fault
}

// rows is the array that has a row for each change: data, or in a DELETE of old
// releases of Flink CDC old.
func (d *canal) rows() *rowList {
	if len(d.data.rows) == 0 && d.at[canalData].kind != kindArray && d.word(canalType) == "DELETE" {
		return &d.old
	}
	return &d.data
}

// Rows implements Decoder.
func (d *canal) Rows(rec *change.Record) int {
	if rec.Value == nil || len(rec.Value) > math.MaxInt32 || d.message(rec) != nil {
		return 1
	}
	return max(1, len(d.rows().rows))
}

// Alone implements Decoder: the message with one element in data, and in old.
func (d *canal) Alone(rec *change.Record) *change.Record {
	if rec.Rows <= 1 || d.Rows(rec) <= 1 {
		return rec
	}
	arrays := []struct {
		at   token
		list *rowList
	}{{d.at[canalData], &d.data}, {d.at[canalOld], &d.old}}
	if arrays[0].at.start > arrays[1].at.start {
		slices.Reverse(arrays)
	}
	var out bytes.Buffer
	from := int32(0)
	for _, a := range arrays {
		if a.at.kind != kindArray {
			continue
		}
		out.Write(rec.Value[from:a.at.start])
		out.WriteByte('[')
		if int(rec.Row) < len(a.list.rows) {
			r := a.list.rows[rec.Row]
			out.Write(rec.Value[r.start:r.end])
		}
		out.WriteByte(']')
		from = a.at.end
	}
	out.Write(rec.Value[from:])
	alone := *rec
	alone.Value, alone.Rows = out.Bytes(), 0
	return &alone
}

// Decode implements Decoder.
func (d *canal) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	return d.oneRow(rec, arena, out, reading{seen: &d.seen, value: d.message, row: d.decode})
}

var (
	errNoCanal   = errors.New("no message of Canal: type, and data or isDdl, are missing")
	errCanalData = errors.New("the message has no rows")
	errStatement = errors.New("the binlog has a statement in the place of rows: set binlog_format to ROW at the source, and load the table again")
)

func (d *canal) decode(rec *change.Record, out *change.Change) error {
	r := &d.cells
	if d.at[canalType].kind != kindString || d.at[canalData].kind == kindNone && d.at[canalDDL].kind == kindNone && d.at[canalSQL].kind == kindNone {
		return errNoCanal
	}
	kind := d.word(canalType)
	switch kind {
	case "INSERT", "ROW":
		out.Op = change.Insert
	case "UPDATE":
		out.Op = change.Update
	case "DELETE":
		out.Op = change.Delete
	case "TRUNCATE":
		out.Op = change.Truncate
	case "CREATE", "ALTER", "ERASE", "RENAME", "QUERY", "CINDEX", "DINDEX":
		d.seen = own
		if kind == "QUERY" && d.at[canalDDL].kind == kindFalse && d.word(canalSQL) != "" {
			return errStatement
		}
		out.Op = change.Filtered
		return nil
	case "TIDB_WATERMARK":
		d.seen = own
		tidb, err := d.tidb()
		if err == nil && tidb.watermark == 0 {
			err = errWatermark
		}
		if err != nil {
			return err
		}
		return resolved(tidb.watermark, out)
	default:
		return fmt.Errorf("unknown type %.40q", r.raw(d.at[canalType]))
	}
	d.seen = own
	if d.opts.Source != "" {
		if mine, err := d.of(out, canalDatabase, canalTable); err != nil || !mine {
			out.Op = change.Filtered
			return err
		}
	}
	if err := d.origin(rec, out); err != nil {
		return err
	}
	tidb, err := d.tidb()
	if err != nil {
		return err
	}
	out.EventTimeIsCommit = tidb.commit != 0 && (d.opts.EventTime == "" || d.opts.EventTime == "source")
	if out.Op == change.Truncate {
		return nil
	}
	if tidb.partial && out.Op != change.Delete {
		return errOnlyKey
	}
	return d.row(rec, out)
}

var errWatermark = errors.New("a watermark without watermarkTs")

// tidb is what TiCDC says besides, with enable-tidb-extension.
type tidb struct {
	commit, watermark int64
	partial           bool // the row is not in the message
}

func (d *canal) tidb() (out tidb, err error) {
	t := d.at[canalTiDB]
	if t.kind != kindObject {
		return out, nil
	}
	s := scanner{b: d.cells.b}
	members, _ := s.members(int(t.start)+1, 2, nil) // the scanner has passed it before
	for _, m := range members {
		switch view(d.cells.raw(m.name)) {
		case "commitTs":
			out.commit, err = d.cells.whole(m.value)
		case "watermarkTs":
			out.watermark, err = d.cells.whole(m.value)
		case "onlyHandleKey":
			out.partial = out.partial || m.value.kind == kindTrue
		case "claimCheckLocation":
			out.partial = out.partial || m.value.kind == kindString && m.value.end > m.value.start
		}
		if err != nil {
			return out, fmt.Errorf("_tidb: %w", err)
		}
	}
	return out, nil
}

// origin fills in when the change was made; a message does not say where.
func (d *canal) origin(rec *change.Record, out *change.Change) (err error) {
	if err := d.when(canalTime, millis, rec, out); err != nil {
		return err
	}
	out.EventTimeIsCommit = d.sourceTime() && d.committed(out.EventTime)
	if t := d.at[canalSent]; t.kind == kindNumber && t.flags&flagInteger != 0 {
		out.ProcessingTime, _ = integer(d.cells.raw(t))
	}
	if t := d.at[canalGTID]; t.kind == kindString {
		if out.GTID, err = text(d.cells.b, t, d.cells.arena); err != nil {
			return err
		}
	}
	// Not a position, but the order of rows that have the same offset.
	out.Position.Row = rec.Row
	return nil
}

// committed reports whether the event time is that of the commitTs with which TiCDC
// extends a message, whose upper bits are milliseconds.
func (d *canal) committed(eventTime int64) bool {
	t := d.at[canalTiDB]
	if t.kind != kindObject {
		return false
	}
	ts, _, err := d.cells.object(t, "commitTs", "")
	if err != nil || ts.kind != kindNumber {
		return false
	}
	n, err := d.cells.whole(ts)
	return err == nil && n > 0 && n>>18 == floorDiv(eventTime, 1000)
}

// row fills in key, before and after of the row that the record stands for.
func (d *canal) row(rec *change.Record, out *change.Change) error {
	list := d.rows()
	if len(list.rows) == 0 {
		if d.word(canalSQL) != "" {
			return errStatement
		}
		return errCanalData
	}
	at := 0
	if len(list.rows) > 1 {
		at = int(rec.Row)
	}
	if at >= len(list.rows) {
		return fmt.Errorf("row %d of a message of %d", at, len(list.rows))
	}
	row := list.row(at)
	types, err := d.rowTypes()
	if err != nil {
		return err
	}
	if err := d.namedKey(canalKey, row, types, out); err != nil {
		return err
	}
	var old []member
	changed := at < len(d.old.rows)
	if changed {
		old = d.old.row(at)
	}
	return d.fill(types, row, old, changed, out)
}

// rowTypes gives the types that mysqlType names.
func (d *canal) rowTypes() (*rowSchema, error) {
	t := d.at[canalTypes]
	if t.kind != kindObject {
		return d.plain, nil
	}
	by := d.cells.raw(t)
	if d.last != nil && bytes.Equal(by, d.lastBy) {
		return d.last, nil
	}
	rows, ok := d.types.get(by)
	if !ok {
		s := scanner{b: d.cells.b}
		members, _ := s.members(int(t.start)+1, 2, nil) // the scanner has passed it before
		fields := make(map[string]codec, len(members))
		for _, m := range members {
			name, err := text(d.cells.b, m.name, &change.Arena{})
			if err != nil {
				return nil, err
			}
			if _, configured := d.opts.columns[strings.ToLower(name)]; configured || m.value.kind != kindString {
				continue // a cell is text: it is read as whatever is wanted
			}
			mysqlType, err := text(d.cells.b, m.value, &change.Arena{})
			if err != nil {
				return nil, err
			}
			fields[strings.Clone(name)] = canalCodec(mysqlType, &d.opts.Canal)
		}
		rows = newRowSchema(d.opts, fields)
		d.types.put(string(by), rows)
	}
	d.last, d.lastBy = rows, append(d.lastBy[:0], by...)
	return rows, nil
}
