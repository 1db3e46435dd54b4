package decode

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// maxwell reads the JSON of Maxwell's daemon: one row a record, without types.
type maxwell struct {
	single
	flat
	data []member
	old  []member
	rows *rowSchema
	seen recognition
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
)

var maxwellNames = []string{
	"database", "table", "type", "ts", "data", "old", "position", "xoffset", "commit", "gtid", "server_id", "primary_key_columns",
}

func newMaxwell(o *Options) *maxwell {
	o = o.writtenAs(maxwellCodec)
	m := &maxwell{flat: newFlat(o, maxwellNames), rows: newRowSchema(o, nil)}
	m.inside = func(slot, at int) (end int, took bool) {
		switch {
		case m.scan.b[at] != '{':
		case slot == maxwellData:
			m.data, end = m.scan.members(at+1, 2, m.data)
			return end, true
		case slot == maxwellOld:
			m.old, end = m.scan.members(at+1, 2, m.old)
			return end, true
		}
		return 0, false
	}
	return m
}

// maxwellCodec tells how Maxwell writes a type where it differs from Debezium.
func maxwellCodec(spec ColumnSpec, c codec) codec {
	switch name := spec.sqlName(); {
	case name == "set":
		c.enc = encLabels
	case name == "json":
		c.enc = encJSON
	case c.enc == encTime && c.typ.Primitive == schema.Timestamp:
		c.zone = time.UTC
	}
	return c
}

func (m *maxwell) Format() string { return "maxwell" }

func (m *maxwell) recognised() recognition { return m.seen }

// Decode implements Decoder.
func (m *maxwell) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	m.data, m.old = m.data[:0], m.old[:0]
	return m.oneRow(rec, arena, out, reading{seen: &m.seen, key: m.recordKey, row: m.decode})
}

var (
	errNoMaxwell   = errors.New("no record of Maxwell: database, table and type are missing")
	errMaxwellData = errors.New("the record has no data; does Maxwell encrypt it (encrypt)?")
)

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
	if m.opts.Source != "" {
		if mine, err := m.of(out, maxwellDatabase, maxwellTable); err != nil || !mine {
			out.Op = change.Filtered
			return err
		}
	}
	if err := m.origin(rec, out); err != nil {
		return err
	}
	return m.rowsOf(rec, out)
}

// origin fills in where and when the change was made.
func (m *maxwell) origin(rec *change.Record, out *change.Change) (err error) {
	r := &m.cells
	if err := m.when(maxwellTime, seconds, rec, out); err != nil {
		return err
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
	keyErr := m.namedKey(maxwellKey, m.data, m.keyRows, out)
	if out.Key == nil && keyErr == nil {
		keyErr = m.recordKey(rec, out)
		m.cells.b = rec.Value
	}
	if err := m.fill(m.rows, m.data, m.old, len(m.old) > 0, out); err != nil {
		return err
	}
	if out.Op == change.Delete && len(m.data) == 0 {
		return needKey(out, keyErr, "a delete without data")
	}
	return nil
}

const maxwellKeyPrefix = "pk."

var errMaxwellKey = errors.New("the record key has no member pk.COLUMN (producer_partition_by and kafka_key_format: hash make one)")

// recordKey takes the key from the record's key, {"database":…,"table":…,"pk.id":1}.
func (m *maxwell) recordKey(rec *change.Record, out *change.Change) error {
	if rec.Key == nil {
		return errNullKey
	}
	members, err := m.keyScan.keyMembers(rec.Key, m.key[:0])
	if err != nil {
		return err
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
	return m.keyCells(m.keyRows, out)
}
