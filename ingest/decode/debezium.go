package decode

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// debezium reads Debezium JSON. One pass over a record checks all of it and
// notes where the members of before, after and source are; then only what is
// needed is converted.
type debezium struct {
	single
	opts  *Options
	scan  scanner
	cells cells
	env   envelope

	value connectCache // schema parts of values
	key   connectCache // schema parts of keys
	plain *rowSchema   // values without schema part
	bare  *rowSchema   // keys without schema part

	// defined holds the row schemas of the definitions of a schema topic.
	defined map[*definition]*rowSchema
	untyped *rowSchema

	keyScan    scanner
	keyMembers []member
	sourceText source
	servers    names
	seen       recognition
}

func newDebezium(o *Options) *debezium {
	return &debezium{
		opts: o, cells: o.cells(),
		value: connectCache{opts: o, parse: parseEnvelopeSchema}, key: connectCache{opts: o, parse: parseKeySchema},
		plain: newRowSchema(o, nil), bare: newRowSchema(o, nil), untyped: newRowSchema(o, nil),
	}
}

func (d *debezium) Format() string { return "debezium-json" }

func (d *debezium) recognised() recognition { return d.seen }

// Decode implements Decoder.
func (d *debezium) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	out.Reset()
	d.seen = foreign
	d.cells.arena = arena
	d.keyHeaders(rec, out)
	if len(rec.Value) > math.MaxInt32 || len(rec.Key) > math.MaxInt32 {
		return decodeError("the record is larger than 2 GiB")
	}
	if rec.Value == nil {
		return d.tombstone(rec, out)
	}
	if err := d.scanValue(rec.Value); err != nil {
		return &Error{Reason: ReasonDecode, Err: err}
	}
	e := &d.env
	switch {
	case e.payload == kindNull && e.has&^(hasSchema|hasPayload) == 0:
		return d.tombstone(rec, out)
	case e.has&hasOp == 0 && d.says(e):
		d.seen = neutral
		*out = change.Change{Op: change.Filtered}
		return nil
	}
	err := d.decode(rec, out)
	return refused(out, err)
}

// keyHeaders notes whether the record is one half of a key change.
func (d *debezium) keyHeaders(rec *change.Record, out *change.Change) {
	for i := range rec.Headers {
		switch rec.Headers[i].Key {
		case "__debezium.oldkey":
			out.OldKeyHeader = true
		case "__debezium.newkey":
			out.NewKeyHeader = true
		}
	}
}

// opOf is what an envelope's op means, 0 for none.
func opOf(op byte) change.Op {
	switch op {
	case 'c':
		return change.Insert
	case 'u':
		return change.Update
	case 'd':
		return change.Delete
	case 'r':
		return change.Read
	case 't':
		return change.Truncate
	case 'm':
		return change.Filtered
	}
	return 0
}

func (d *debezium) tombstone(rec *change.Record, out *change.Change) error {
	d.seen = neutral
	out.Op = change.Tombstone
	if d.opts.History != nil {
		d.bare = d.untyped
	}
	if d.opts.History != nil && d.opts.Tombstones == "delete" && rec.Key != nil {
		if err := d.defineKey(rec); err != nil {
			return needKey(out, err, "a tombstone that is to delete")
		}
	}
	err := d.decodeKey(rec, out)
	if d.opts.Tombstones != "delete" {
		return nil
	}
	return needKey(out, err, "a tombstone that is to delete")
}

var (
	errNoOp     = errors.New("no envelope: op and source are missing; were the records flattened (ExtractNewRecordState: format debezium-flat)?")
	errNoSource = errors.New("no source block in the envelope")
)

// decode fills out from an envelope that has been scanned.
func (d *debezium) decode(rec *change.Record, out *change.Change) error {
	e, r := &d.env, &d.cells
	r.b = rec.Value
	if e.has&hasOp == 0 {
		return errNoOp
	}
	if e.op.kind == kindString && e.op.end == e.op.start+1 {
		out.Op = opOf(r.b[e.op.start])
	}
	if out.Op == 0 {
		return fmt.Errorf("unknown op %.20q", r.raw(e.op))
	}
	if e.source.kind != kindObject {
		return errNoSource
	}
	src := &d.sourceText
	if err := src.findGuided(r.b, e.source.members, &e.source.guide); err != nil {
		return err
	}
	d.seen = own
	if out.Op == change.Filtered || d.opts.Source != "" && !src.of(d.opts, r, out) {
		*out = change.Change{Op: change.Filtered}
		return nil
	}
	if out.Op != change.Truncate {
		if read, load := src.load(r); read || out.Op == change.Read {
			out.Op, out.Load = change.Read, load
		}
	}
	if err := d.origin(out); err != nil {
		return err
	}
	if d.opts.History != nil && out.Op != change.Truncate {
		if err := d.define(out); err != nil {
			return err
		}
	}
	if err := d.rows(rec, out); err != nil {
		return err
	}
	if d.opts.EventTime == "kafka" && rec.Timestamp > 0 {
		us, err := millis.inMicros(rec.Timestamp)
		if err != nil {
			return err
		}
		out.EventTime = us
	}
	return nil
}

// define sets the types of a record without schema to those that its table had then.
func (d *debezium) define(out *change.Change) error {
	src, r := &d.sourceText, &d.cells
	d.plain, d.bare = d.untyped, d.untyped
	if d.env.schema != nil {
		return nil
	}
	if !out.HasPosition {
		return errNoPosition
	}
	db, _ := src.str(slotDB, r)
	table, _ := src.str(slotTable, r)
	at, err := src.eventTime(r)
	if err != nil {
		return err
	}
	def, err := d.opts.History.at(tableName{db, table}, place{out.Server.Name, out.Server.ID, out.Position, at})
	if err != nil {
		return err
	}
	d.plain = d.schemaOf(def)
	d.bare = d.plain
	return nil
}

func (d *debezium) schemaOf(def *definition) *rowSchema {
	rows := d.defined[def]
	if rows == nil {
		if d.defined == nil || len(d.defined) >= maxCached {
			d.defined = map[*definition]*rowSchema{}
		}
		rows = newRowSchema(d.opts, def.fields)
		rows.definition = def
		d.defined[def] = rows
	}
	return rows
}

// defineKey sets the types of a tombstone's key: its columns' have never changed.
func (d *debezium) defineKey(rec *change.Record) error {
	db, table, _ := strings.Cut(d.opts.Source, ".")
	members, err := d.keyScan.keyMembers(rec.Key, nil)
	if err != nil {
		return nil // which decodeKey will say
	}
	var names []string
	for _, m := range members {
		name, err := text(rec.Key, m.name, d.cells.arena)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	def, err := d.opts.History.anyTime(tableName{db, table}, names)
	if err == nil {
		d.bare = d.schemaOf(def)
	}
	return err
}

// origin fills in where and when the change was made.
func (d *debezium) origin(out *change.Change) (err error) {
	src, r := &d.sourceText, &d.cells
	name, _ := src.str(slotName, r)
	out.Server.Name = d.servers.intern(name)
	if out.Server.ID, err = src.int(slotServerID, r); err != nil {
		return fmt.Errorf("source.server_id: %w", err)
	}
	if out.Position, out.HasPosition, err = src.position(r); err != nil {
		return err
	}
	out.GTID, _ = src.str(slotGTID, r)
	if d.opts.EventTime == "" || d.opts.EventTime == "source" {
		if out.EventTime, err = src.eventTime(r); err != nil {
			return err
		}
		out.EventTimeIsCommit = out.Op != change.Read && (out.EventTime%microsPerSecond != 0 && isMySQLGTID(out.GTID) || src.commits(out.EventTime, r))
	}
	if t := d.env.tsMs; t.kind == kindNumber && t.flags&flagInteger != 0 {
		out.ProcessingTime, _ = integer(r.raw(t)) // past 64 bits: none
	}
	return nil
}

// rows fills in key, before and after.
func (d *debezium) rows(rec *change.Record, out *change.Change) error {
	e, r := &d.env, &d.cells
	before, after := d.plain, d.plain
	if e.schema != nil {
		before, after = e.schema.before, e.schema.after
	}
	keyErr := d.decodeKey(rec, out)
	r.b = rec.Value
	switch out.Op {
	case change.Truncate:
		return nil
	case change.Delete:
		if e.before.kind != kindObject {
			return needKey(out, keyErr, "a delete without before")
		}
	default:
		if e.after.kind != kindObject {
			return fmt.Errorf("op %s without after", r.raw(e.op))
		}
		s, err := after.findGuided(r.b, e.after.members, &e.after.guide)
		if err != nil {
			return err
		}
		if err = s.after(r, e.after.members, out); err != nil {
			return err
		}
		if s.timeAt >= 0 {
			if err = s.timeFrom(out.After[s.timeAt], out); err != nil {
				return err
			}
		}
		if out.Op != change.Update || e.before.kind != kindObject {
			return nil
		}
	}
	s, err := before.findGuided(r.b, e.before.members, &e.before.guide)
	if err != nil {
		return err
	}
	if out.Before, err = s.keys(r, e.before.members); err != nil {
		return err
	}
	out.BeforeColumns = s.keyCols
	if out.Op == change.Delete && s.timeAt >= 0 {
		v, err := r.cell(&s.codecs[s.timeAt], e.before.members[s.timeAt].value)
		if err != nil {
			return s.fault(s.timeAt, err)
		}
		return s.timeFrom(v, out)
	}
	return nil
}

// timeFrom takes the event time from the cell of the column that gives it.
func (s *shape) timeFrom(v schema.Value, out *change.Change) (err error) {
	if out.EventTime, err = columnTime(v, s.cols.List[s.timeAt].Type); err != nil {
		return s.fault(s.timeAt, fmt.Errorf("no event time: %w", err))
	}
	return nil
}
