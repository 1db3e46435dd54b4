package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// GSCDJSON is the form that gscd capture writes, see docs/capture-format.md.
const GSCDJSON = "gscd-json"

// gscdVersion is the newest version of the form that is read.
const gscdVersion = 1

// gscd reads that form: a record has the names and MySQL types of its columns, and
// rows as arrays.
type gscd struct {
	single
	flat
	before, after []token

	shapes cache[*gscdShape]
	last   *gscdShape
	by     []byte // the text that a shape is found by, for reuse
	row    []member
	seen   recognition
}

// gscdShape is what is found once for the rows of one definition.
type gscdShape struct {
	*shape
	raw     [3][]byte // columns, types and key, as written
	rowKey  []int
	keyCols *change.Columns
}

// The members of a record that matter.
const (
	gscdV = iota
	gscdOp
	gscdName
	gscdDB
	gscdTable
	gscdColumns
	gscdTypes
	gscdKey
	gscdBefore
	gscdAfter
	gscdServer
	gscdFile
	gscdPos
	gscdRow
	gscdGTID
	gscdTime
	gscdCommit
	gscdFirst
	gscdLastOfTable
	gscdLast
	gscdMoved
	gscdStatement
	gscdOld
	gscdNew
	gscdRowsRemoved
)

var gscdNames = []string{
	"v", "op", "name", "db", "table", "columns", "types", "key", "before", "after",
	"server", "file", "pos", "row", "gtid", "ts_us", "commit", "first", "last_of_table", "last", "moved",
	"statement", "old", "new", "rows_removed",
}

func newGSCD(o *Options) *gscd {
	d := &gscd{flat: newFlat(o.writtenAs(gscdConfigured), gscdNames)}
	// No text stands for a cell that the source did not send: {} does.
	d.cells.placeholder, d.cells.placeholder64, d.cells.empty = "\x00", "\x00", true
	d.inside = func(slot, at int) (end int, took bool) {
		if d.scan.b[at] != '[' {
			return 0, false
		}
		switch slot {
		case gscdBefore:
			d.before, end = d.scan.elements(at, d.before[:0])
		case gscdAfter:
			d.after, end = d.scan.elements(at, d.after[:0])
		case gscdColumns, gscdTypes, gscdKey:
			// Most often they are those of the record before, which were read.
			if d.last == nil || !bytes.HasPrefix(d.scan.b[at:], d.last.raw[slot-gscdColumns]) {
				return 0, false
			}
			end = at + len(d.last.raw[slot-gscdColumns])
		default:
			return 0, false
		}
		return end, true
	}
	return d
}

// elements appends the elements of the array at i.
func (s *scanner) elements(i int, dst []token) ([]token, int) {
	i = s.space(i + 1)
	if i < len(s.b) && s.b[i] == ']' {
		return dst, i + 1
	}
	for {
		t, end := s.value(i, 2)
		if end < 0 {
			return dst, end
		}
		dst = append(dst, t)
		i = s.space(end)
		switch {
		case i < len(s.b) && s.b[i] == ']':
			return dst, i + 1
		case i >= len(s.b) || s.b[i] != ',':
			return dst, s.fail(i, "no comma between elements")
		}
		i = s.space(i + 1)
	}
}

// gscdCodec tells how the form has a MySQL type. One that is not known is text.
func gscdCodec(mysqlType string) codec {
	t, err := splitType(mysqlType)
	if err == nil {
		if t.name == "vector" {
			return codec{enc: encBytes, typ: schema.Of(schema.BinaryType)}
		}
		var c codec
		if c, err = t.codec(); err == nil {
			return c.asGSCD()
		}
	}
	return codec{enc: encText, typ: schema.Of(schema.StringType)}
}

func gscdConfigured(_ ColumnSpec, c codec) codec { return c.asGSCD() }

func (c codec) asGSCD() codec {
	switch {
	case c.enc == encTime && c.typ.Primitive == schema.Timestamp:
		c.zone = time.UTC
	case c.enc == encGeometry:
		c.enc = encGeometryBytes
	}
	c.base64 = false
	return c
}

func (d *gscd) Format() string { return GSCDJSON }

func (d *gscd) recognised() recognition { return d.seen }

// Decode implements Decoder.
func (d *gscd) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	d.before, d.after = d.before[:0], d.after[:0]
	return d.oneRow(rec, arena, out, reading{seen: &d.seen, key: d.recordKey, row: d.decode})
}

var (
	errNoGSCD  = errors.New("no record of gscd capture: v and op are missing")
	errGSCDRow = errors.New("columns, types and cells are not as many")
)

func (d *gscd) decode(rec *change.Record, out *change.Change) error {
	if d.at[gscdV].kind != kindNumber || d.at[gscdOp].kind != kindString {
		return errNoGSCD
	}
	if v, err := d.integer(gscdV); err != nil || v < 1 || v > gscdVersion {
		return fmt.Errorf("version %.20s of the form is not known: this gscd reads up to %d", d.cells.raw(d.at[gscdV]), gscdVersion)
	}
	switch op := d.word(gscdOp); op {
	case "c":
		out.Op = change.Insert
	case "u":
		out.Op = change.Update
	case "d":
		out.Op = change.Delete
	case "r":
		out.Op = change.Read
	case "t":
		out.Op = change.Truncate
	case "s":
		d.seen = own
		return d.definition(rec, out)
	case "h":
		d.seen = neutral
		out.Op = change.Heartbeat
		return d.when(gscdTime, micros, rec, out)
	default:
		return fmt.Errorf("unknown op %.40q", d.cells.raw(d.at[gscdOp]))
	}
	d.seen = own
	if d.opts.Source != "" {
		if mine, err := d.of(out, gscdDB, gscdTable); err != nil || !mine {
			out.Op = change.Filtered
			return err
		}
	}
	if err := d.origin(rec, out); err != nil || out.Op == change.Truncate {
		return err
	}
	return d.rows(out)
}

// definition makes a change of a statement; one that changes nothing about the table's
// columns or rows is filtered.
func (d *gscd) definition(rec *change.Record, out *change.Change) error {
	out.Op = change.Filtered
	var tables [2]*ddl.Table
	for i, slot := range []int{gscdOld, gscdNew} {
		if d.at[slot].kind != kindObject {
			continue
		}
		if err := json.Unmarshal(d.cells.raw(d.at[slot]), &tables[i]); err != nil {
			return fmt.Errorf("%s: %w", gscdNames[slot], err)
		}
	}
	old, new := tables[0], tables[1]
	if old == nil || d.opts.Source != "" && !d.opts.takes(old.Database, old.Name, out) {
		return nil
	}
	s := &change.SchemaChange{}
	for slot, to := range map[int]*string{gscdStatement: &s.Statement, gscdRowsRemoved: &s.RowsRemoved} {
		if d.at[slot].kind == kindString {
			var err error
			if *to, err = text(d.cells.b, d.at[slot], d.cells.arena); err != nil {
				return err
			}
		}
	}
	switch {
	case new == nil:
		s.RowsRemoved = s.Statement
	case !old.Incomplete && !new.Incomplete:
		s.Columns = ddl.Diff(old, new)
	}
	if len(s.Columns) == 0 && s.RowsRemoved == "" {
		return nil
	}
	out.Op, out.Schema = change.Schema, s
	return d.origin(rec, out)
}

func (d *gscd) flag(slot int) bool { return d.at[slot].kind == kindTrue }

// textOf is a member that is a string, else "".
func (d *gscd) textOf(slot int) (string, error) {
	if d.at[slot].kind != kindString {
		return "", nil
	}
	return text(d.cells.b, d.at[slot], d.cells.arena)
}

// origin fills in where and when the change was made.
func (d *gscd) origin(rec *change.Record, out *change.Change) (err error) {
	if err := d.when(gscdTime, micros, rec, out); err != nil {
		return err
	}
	out.EventTimeIsCommit = d.flag(gscdCommit) && out.EventTime != 0 && d.opts.EventTime != "kafka" && d.opts.timeColumn == ""
	if out.Server.ID, err = d.integer(gscdServer); err != nil {
		return err
	}
	if out.Server.Name, err = d.textOf(gscdName); err != nil {
		return err
	}
	if out.GTID, err = d.textOf(gscdGTID); err != nil {
		return err
	}
	if out.Op == change.Read {
		if d.flag(gscdFirst) {
			out.Load |= change.FirstRead
		}
		if d.flag(gscdLastOfTable) {
			out.Load |= change.LastRead
		}
	}
	if d.flag(gscdMoved) {
		out.NewKeyHeader, out.OldKeyHeader = out.Op == change.Delete, out.Op == change.Insert
	}
	if out.Position.File, out.HasPosition = fileNumber(d.word(gscdFile)); !out.HasPosition {
		out.Position.File = 0
		return nil
	}
	if out.Position.Pos, err = d.integer(gscdPos); err != nil {
		return err
	}
	row, err := d.integer(gscdRow)
	if err == nil && (row < 0 || row > math.MaxInt32) {
		err = fmt.Errorf("row is %d", row)
	}
	out.Position.Row = int32(row)
	return err
}

// rows fills in key, before and after.
func (d *gscd) rows(out *change.Change) error {
	s, err := d.shape()
	if err != nil {
		return err
	}
	if d.at[gscdBefore].kind == kindArray {
		if err := d.members(s, d.before); err != nil {
			return err
		}
		if out.Before, err = s.keys(&d.cells, d.row); err != nil {
			return err
		}
		out.BeforeColumns = s.shape.keyCols
		if out.Op == change.Delete {
			err = d.keyOf(s, out)
		}
	}
	if d.at[gscdAfter].kind == kindArray && err == nil {
		if err := d.members(s, d.after); err != nil {
			return err
		}
		if err := s.shape.after(&d.cells, d.row, out); err != nil {
			return err
		}
		out.Columns = s.cols
		err = d.keyOf(s, out)
	}
	switch {
	case err != nil:
		return err
	case out.Op == change.Delete && out.Before == nil:
		return errors.New("a delete without before")
	case out.Op != change.Delete && out.After == nil:
		return errors.New("no row: after is missing")
	case s.timeAt >= 0:
		v, err := d.cells.cell(&s.codecs[s.timeAt], d.row[s.timeAt].value)
		if err != nil {
			return s.fault(s.timeAt, err)
		}
		return s.timeFrom(v, out)
	}
	return nil
}

// members puts the cells of a row beside the names of its columns.
func (d *gscd) members(s *gscdShape, cells []token) error {
	if len(cells) != len(s.codecs) {
		return errGSCDRow
	}
	d.row = d.row[:0]
	for _, t := range cells {
		d.row = append(d.row, member{value: t})
	}
	return nil
}

// keyOf takes the key's cells from the row in d.row.
func (d *gscd) keyOf(s *gscdShape, out *change.Change) error {
	if len(s.rowKey) == 0 {
		return nil
	}
	cells := d.cells.arena.Values(len(s.rowKey))
	for i, at := range s.rowKey {
		v, err := d.cells.cell(&s.codecs[at], d.row[at].value)
		if err != nil {
			return s.fault(at, err)
		}
		cells[i] = v
	}
	out.KeyColumns, out.Key = s.keyCols, cells
	return nil
}

// shape finds that of the record's definition.
func (d *gscd) shape() (*gscdShape, error) {
	same := d.last != nil
	for i := range len(gscdShape{}.raw) {
		t := d.at[gscdColumns+i]
		if t.kind != kindArray {
			return nil, fmt.Errorf("%s is missing", gscdNames[gscdColumns+i])
		}
		same = same && bytes.Equal(d.cells.raw(t), d.last.raw[i])
	}
	if same {
		return d.last, nil
	}
	d.by = d.by[:0]
	for i := range len(gscdShape{}.raw) {
		d.by = append(append(d.by, d.cells.raw(d.at[gscdColumns+i])...), 0)
	}
	s, ok := d.shapes.get(d.by)
	if !ok {
		var err error
		if s, err = d.build(); err != nil {
			return nil, err
		}
		d.shapes.put(string(d.by), s)
	}
	d.last = s
	return s, nil
}

func (d *gscd) build() (*gscdShape, error) {
	var lists [3][]token
	s := &gscdShape{keyCols: &change.Columns{FromSchema: true}}
	for i := range lists {
		t := d.at[gscdColumns+i]
		s.raw[i] = bytes.Clone(d.cells.raw(t))
		var end int
		if lists[i], end = d.scan.elements(int(t.start), nil); end < 0 {
			return nil, d.scan.err
		}
	}
	columns, types := lists[0], lists[1]
	if len(columns) != len(types) {
		return nil, errGSCDRow
	}
	names := make([]string, len(columns))
	fields := make(map[string]codec, len(names))
	for i := range names {
		if columns[i].kind != kindString || types[i].kind != kindString {
			return nil, errors.New("a name or type of a column is no string")
		}
		name, err := text(d.cells.b, columns[i], &change.Arena{})
		if err != nil {
			return nil, err
		}
		mysqlType, err := text(d.cells.b, types[i], &change.Arena{})
		if err != nil {
			return nil, err
		}
		names[i] = strings.Clone(name)
		fields[names[i]] = gscdCodec(strings.Clone(mysqlType))
	}
	var err error
	if s.shape, err = newRowSchema(d.opts, fields).shapeOf(names); err != nil {
		return nil, err
	}
	for _, t := range lists[2] {
		at, err := d.cells.whole(t)
		if err != nil || at < 0 || at >= int64(len(names)) {
			return nil, fmt.Errorf("key names column %.20s of %d", d.cells.raw(t), len(names))
		}
		s.rowKey = append(s.rowKey, int(at))
		s.keyCols.List = append(s.keyCols.List, s.cols.List[at])
	}
	return s, nil
}

// recordKey takes the key from the record's key, {"table":"shop.t","key":{"id":1}}.
func (d *gscd) recordKey(rec *change.Record, out *change.Change) error {
	if rec.Key == nil {
		return errNullKey
	}
	outer, err := d.keyScan.keyMembers(rec.Key, d.key[:0])
	if err != nil {
		return err
	}
	for _, m := range outer {
		if string(rec.Key[m.name.start:m.name.end]) != "key" || m.value.kind != kindObject {
			continue
		}
		s := &d.keyScan
		s.reset(rec.Key)
		d.key, _ = s.members(int(m.value.start)+1, 2, nil) // the scanner has passed it before
		d.cells.b = rec.Key
		return d.keyCells(d.keyRows, out)
	}
	return errEmptyKey
}
