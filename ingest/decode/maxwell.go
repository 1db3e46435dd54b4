package decode

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// maxwell reads the JSON of Maxwell's daemon: one row a record, without types.
type maxwell struct {
	opts  *Options
	scan  scanner
	cells cells
	at    [maxwellMembers]token
	data  []member
	old   []member
	merge []member // the row before an update: old over data
	rows  *rowSchema
	seen  recognition

	keyScan scanner
	keyRows *rowSchema
	key     []member
}

// The members of a record that matter.
const (
	maxwellDatabase = iota
	maxwellTable
	maxwellType
	maxwellTime
	maxwellData
	maxwellOld
	maxwellPosition
	maxwellOffset
	maxwellCommit
	maxwellGTID
	maxwellServer
	maxwellKey
	maxwellMembers
)

var maxwellNames = [maxwellMembers]string{
	"database", "table", "type", "ts", "data", "old", "position", "xoffset", "commit", "gtid", "server_id", "primary_key_columns",
}

func newMaxwell(o *Options) *maxwell {
	o = o.writtenAs(maxwellCodec)
	return &maxwell{opts: o, cells: o.cells(), rows: newRowSchema(o, nil), keyRows: newRowSchema(o, nil)}
}

// maxwellCodec tells how Maxwell writes a type where it differs from Debezium.
func maxwellCodec(spec ColumnSpec, c codec) codec {
	switch name := spec.sqlName(); {
	case name == "set":
		c.enc = encLabels
	case name == "json":
		c.enc = encJSON
	case c.enc == encTime && c.typ.Primitive == schema.Timestamp:
		c.utc = true
	}
	return c
}

func (m *maxwell) Format() string { return "maxwell" }

func (m *maxwell) recognised() recognition { return m.seen }

// Decode implements Decoder.
func (m *maxwell) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	out.Reset()
	m.seen = foreign
	m.cells.arena = arena
	if len(rec.Value) > math.MaxInt32 || len(rec.Key) > math.MaxInt32 {
		return decodeError("the record is larger than 2 GiB")
	}
	if rec.Value == nil {
		m.seen = neutral
		out.Op = change.Tombstone
		err := m.recordKey(rec, out)
		if m.opts.Tombstones != "delete" {
			return nil
		}
		return needKey(out, err, "a tombstone that is to delete")
	}
	err := m.read(rec.Value)
	if err == nil {
		m.cells.b = rec.Value
		err = m.decode(rec, out)
	}
	if err != nil {
		*out = change.Change{Op: out.Op}
		if _, ok := err.(*Error); !ok {
			err = &Error{Reason: ReasonDecode, Err: err}
		}
	}
	return err
}

// read checks the whole value and notes where its members are.
func (m *maxwell) read(value []byte) error {
	s := &m.scan
	s.reset(value)
	m.at, m.data, m.old = [maxwellMembers]token{}, m.data[:0], m.old[:0]
	i := s.space(0)
	if i >= len(value) || value[i] != '{' {
		t, end := s.value(i, 0)
		if end < 0 {
			return s.err
		}
		return fmt.Errorf("the value is %s, not an object", t.kind)
	}
	for i, first := i+1, true; ; first = false {
		name, at := s.next(i, first)
		if at < 0 {
			return s.err
		}
		if name.kind == kindNone {
			if at = s.space(at); at != len(value) {
				return fmt.Errorf("json at byte %d: text behind the value", at)
			}
			return nil
		}
		slot := slices.Index(maxwellNames[:], view(value[name.start:name.end]))
		if slot >= 0 && m.at[slot].kind != kindNone {
			s.failWith(int(name.start), errTwice)
			return s.err
		}
		var t token
		if object := at < len(value) && value[at] == '{'; object && slot == maxwellData {
			t = token{kind: kindObject}
			m.data, i = s.members(at+1, 2, m.data)
		} else if object && slot == maxwellOld {
			t = token{kind: kindObject}
			m.old, i = s.members(at+1, 2, m.old)
		} else {
			t, i = s.value(at, 1)
		}
		if i < 0 {
			return s.err
		}
		if slot >= 0 {
			m.at[slot] = t
		}
	}
}

var (
	errNoMaxwell   = errors.New("no record of Maxwell: database, table and type are missing")
	errMaxwellData = errors.New("the record has no data; does Maxwell encrypt it (encrypt)?")
)

// word is the text of a member that is a string without escapes, else "".
func (m *maxwell) word(slot int) string {
	t := m.at[slot]
	if t.kind != kindString || t.flags&flagEscaped != 0 {
		return ""
	}
	return view(m.cells.raw(t))
}

func (m *maxwell) decode(rec *change.Record, out *change.Change) error {
	r := &m.cells
	for _, slot := range []int{maxwellDatabase, maxwellType} {
		if m.at[slot].kind != kindString {
			return errNoMaxwell
		}
	}
	switch kind := m.word(maxwellType); kind {
	case "insert":
		out.Op = change.Insert
	case "update":
		out.Op = change.Update
	case "delete":
		out.Op = change.Delete
	case "bootstrap-insert":
		out.Op = change.Read
	case "bootstrap-start", "bootstrap-complete",
		"table-create", "table-alter", "table-drop", "database-create", "database-alter", "database-drop":
		m.seen = own
		out.Op = change.Filtered
		return nil
	default:
		return fmt.Errorf("unknown type %.40q", r.raw(m.at[maxwellType]))
	}
	if m.at[maxwellTable].kind != kindString {
		return errNoMaxwell
	}
	if m.at[maxwellData].kind != kindObject {
		return errMaxwellData
	}
	m.seen = own
	if mine, err := m.mine(); err != nil || !mine {
		out.Op = change.Filtered
		return err
	}
	if err := m.origin(rec, out); err != nil {
		return err
	}
	return m.rowsOf(rec, out)
}

// mine reports whether the record is of the table asked for.
func (m *maxwell) mine() (bool, error) {
	if m.opts.Source == "" {
		return true, nil
	}
	db, err := text(m.cells.b, m.at[maxwellDatabase], m.cells.arena)
	if err != nil {
		return false, err
	}
	name, err := text(m.cells.b, m.at[maxwellTable], m.cells.arena)
	if err != nil {
		return false, err
	}
	rest, ok := strings.CutPrefix(m.opts.Source, db)
	return ok && rest != "" && rest[0] == '.' && rest[1:] == name, nil
}

// origin fills in where and when the change was made.
func (m *maxwell) origin(rec *change.Record, out *change.Change) (err error) {
	r := &m.cells
	seconds, err := m.integer(maxwellTime)
	if err != nil {
		return err
	}
	if m.opts.EventTime == "" || m.opts.EventTime == "source" {
		if seconds > maxTimestamp/microsPerSecond || seconds < minTimestamp/microsPerSecond {
			return fmt.Errorf("ts is %d: %w", seconds, errTimeRange)
		}
		out.EventTime = seconds * microsPerSecond
	}
	if m.opts.EventTime == "kafka" && rec.Timestamp > 0 {
		if out.EventTime, err = millis.inMicros(rec.Timestamp); err != nil {
			return err
		}
	}
	if out.Server.ID, err = m.integer(maxwellServer); err != nil {
		return err
	}
	if t := m.at[maxwellGTID]; t.kind == kindString {
		if out.GTID, err = text(r.b, t, r.arena); err != nil {
			return err
		}
	}
	if out.Op != change.Read { // a bootstrap's rows have no place in the log
		out.Position, out.HasPosition, err = m.position()
	}
	return err
}

func (m *maxwell) integer(slot int) (int64, error) {
	t := m.at[slot]
	if t.kind == kindNone || t.kind == kindNull {
		return 0, nil
	}
	n, err := m.cells.whole(t)
	if err != nil {
		return 0, fmt.Errorf("%s is %.30s: %w", maxwellNames[slot], m.cells.raw(t), err)
	}
	return n, nil
}

// position reads "binlog.000012:3456". Rows of one event share it: xoffset, the
// row's number in its transaction, tells them apart, and the last row, which has
// commit instead, comes behind them.
func (m *maxwell) position() (p change.Position, ok bool, err error) {
	at := m.word(maxwellPosition)
	colon := strings.LastIndexByte(at, ':')
	if colon < 0 {
		return p, false, nil
	}
	number := at[strings.LastIndexByte(at[:colon], '.')+1 : colon]
	pos := at[colon+1:]
	if number == "" || len(number) > 18 || !allDigits(number) {
		return p, false, nil
	}
	if pos == "" || len(pos) > 18 || !allDigits(pos) {
		return p, false, fmt.Errorf("position is %.60q", at)
	}
	p.File, _ = integer([]byte(number))
	p.Pos, _ = integer([]byte(pos))
	row, err := m.integer(maxwellOffset)
	switch {
	case err != nil:
		return p, false, err
	case m.at[maxwellCommit].kind == kindTrue:
		p.Row = math.MaxInt32
	case row < 0 || row >= math.MaxInt32:
		return p, false, fmt.Errorf("xoffset is %d", row)
	default:
		p.Row = int32(row)
	}
	return p, true, nil
}

// rowsOf fills in key, before and after.
func (m *maxwell) rowsOf(rec *change.Record, out *change.Change) error {
	r := &m.cells
	keyErr := m.namedKey(out)
	if out.Key == nil && keyErr == nil {
		keyErr = m.recordKey(rec, out)
		r.b = rec.Value
	}
	shape, err := m.rows.find(r.b, m.data)
	if err != nil {
		return err
	}
	if out.Op == change.Delete {
		if out.Before, err = shape.keys(r, m.data); err != nil {
			return err
		}
		out.BeforeColumns = shape.keyCols
		if len(m.data) == 0 {
			return needKey(out, keyErr, "a delete without data")
		}
	} else {
		if out.After, err = shape.row(r, m.data); err != nil {
			return err
		}
		out.Columns = shape.cols
	}
	if shape.timeAt >= 0 {
		v, err := r.cell(&shape.codecs[shape.timeAt], m.data[shape.timeAt].value)
		if err != nil {
			return shape.fault(shape.timeAt, err)
		}
		if err = shape.timeFrom(v, out); err != nil {
			return err
		}
	}
	if out.Op != change.Update || len(m.old) == 0 {
		return nil
	}
	if shape, err = m.rows.find(r.b, m.before()); err != nil {
		return err
	}
	out.Before, err = shape.keys(r, m.merge)
	out.BeforeColumns = shape.keyCols
	return err
}

// before is the row before an update: old holds the changed columns alone.
func (m *maxwell) before() []member {
	name := func(n token) string { return view(m.cells.raw(n)) }
	m.merge = append(m.merge[:0], m.data...)
	for _, was := range m.old {
		i := slices.IndexFunc(m.merge, func(now member) bool { return name(now.name) == name(was.name) })
		if i < 0 {
			m.merge = append(m.merge, was)
		} else {
			m.merge[i] = was
		}
	}
	return m.merge
}

// namedKey takes the key from the columns that the record names
// (output_primary_key_columns).
func (m *maxwell) namedKey(out *change.Change) error {
	t := m.at[maxwellKey]
	if t.kind != kindArray {
		return nil
	}
	m.key = m.key[:0]
	s := &m.keyScan
	s.reset(m.cells.raw(t))
	for i := s.space(1); s.b[i] != ']'; {
		name, end := s.value(i, 1) // the scanner has passed it before
		for _, cell := range m.data {
			if name.kind == kindString && string(s.b[name.start:name.end]) == string(m.cells.raw(cell.name)) {
				m.key = append(m.key, cell)
				break
			}
		}
		if i = s.space(end); s.b[i] == ',' {
			i = s.space(i + 1)
		}
	}
	return m.keyCells(out)
}

const maxwellKeyPrefix = "pk."

var errMaxwellKey = errors.New("the record key has no member pk.COLUMN (producer_partition_by and kafka_key_format: hash make one)")

// recordKey takes the key from the record's key, {"database":…,"table":…,"pk.id":1}.
func (m *maxwell) recordKey(rec *change.Record, out *change.Change) error {
	if rec.Key == nil {
		return errNullKey
	}
	s := &m.keyScan
	s.reset(rec.Key)
	i := s.space(0)
	if i >= len(rec.Key) || rec.Key[i] != '{' {
		return errPlainKey
	}
	members, end := s.members(i+1, 1, m.key[:0])
	if end < 0 {
		return s.err
	}
	if end = s.space(end); end != len(rec.Key) {
		return errKeyTail
	}
	m.key = members[:0]
	for _, cell := range members {
		if strings.HasPrefix(view(rec.Key[cell.name.start:cell.name.end]), maxwellKeyPrefix) {
			cell.name.start += int32(len(maxwellKeyPrefix))
			m.key = append(m.key, cell)
		}
	}
	if len(m.key) == 0 {
		return errMaxwellKey
	}
	m.cells.b = rec.Key
	return m.keyCells(out)
}

// keyCells reads the cells of m.key.
func (m *maxwell) keyCells(out *change.Change) error {
	if len(m.key) == 0 {
		return nil
	}
	shape, err := m.keyRows.find(m.cells.b, m.key)
	if err != nil {
		return err
	}
	cells, err := shape.row(&m.cells, m.key)
	if err != nil {
		return err
	}
	out.KeyColumns, out.Key = shape.cols, cells
	return nil
}
