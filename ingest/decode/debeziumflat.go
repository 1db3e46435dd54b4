package decode

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gscd-io/gscd/ingest/change"
)

// DebeziumFlat is the format of Debezium's records after ExtractNewRecordState.
const DebeziumFlat = "debezium-flat"

// ErrTombstones: flattened records tell of no delete but by tombstones, and nothing
// was set about these. No other record can be told right either.
var ErrTombstones = errors.New("flattened records without __deleted: deletes come as tombstones or not at all; set tombstones: delete, or ignore where the connector drops deletes")

// debeziumFlat reads rows that were flattened: columns, and beside them members
// that begin with __, which say what add.fields of the connector names.
type debeziumFlat struct {
	debezium
	deleted token
	// meta tells that the record has a member that only flattened ones have.
	meta bool
}

func newDebeziumFlat(o *Options) *debeziumFlat {
	d := &debeziumFlat{debezium: *newDebezium(o)}
	d.value.parse = parseKeySchema // the struct is the row itself
	return d
}

func (d *debeziumFlat) Format() string { return DebeziumFlat }

// Decode implements Decoder.
func (d *debeziumFlat) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
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
	if err := d.scanRow(rec.Value); err != nil {
		return &Error{Reason: ReasonDecode, Err: err}
	}
	if d.env.payload == kindNull {
		return d.tombstone(rec, out)
	}
	err := d.decode(rec, out)
	return refused(out, err)
}

// scanRow checks the value and notes where its members are: those of the row in
// env.after, the others where they belong.
func (d *debeziumFlat) scanRow(value []byte) error {
	s, e := &d.scan, &d.env
	s.reset(value)
	*e = envelope{after: e.after.emptied()}
	i := s.space(0)
	if i >= len(value) || value[i] != '{' {
		t, end := s.value(i, 0)
		switch {
		case end < 0:
			return s.err
		case t.kind != kindNull:
			return fmt.Errorf("the value is %s, not an object", t.kind)
		}
		e.payload = kindNull
		return d.end(end)
	}
	end, err := d.wrapped(i + 1)
	if err != nil {
		return err
	}
	if end < 0 {
		s.reset(value)
		*e = envelope{after: e.after.emptied()}
		// With the guide, which wrapped may have led astray: what it notes is of these members.
		if e.after.members, end = s.guided(i+1, 1, e.after.members, &e.after.guide); end < 0 {
			return s.err
		}
		e.after.kind = kindObject
	}
	if err := d.end(end); err != nil {
		return err
	}
	return d.sort()
}

func (d *debeziumFlat) end(i int) error {
	if i = d.scan.space(i); i != len(d.scan.b) {
		return fmt.Errorf("json at byte %d: text behind the value", i)
	}
	return nil
}

// wrapped reads {"schema":…,"payload":…} whose brace is before i. It gives -1
// where the object is something else: a row.
func (d *debeziumFlat) wrapped(i int) (end int, err error) {
	s, e := &d.scan, &d.env
	for first := true; ; first = false {
		name, at := s.next(i, first)
		if at < 0 {
			return -1, s.err
		}
		if name.kind == kindNone {
			if e.payload == kindNone {
				return -1, nil
			}
			return at, nil
		}
		bit := memberBit(view(s.b[name.start:name.end]))
		open := at < len(s.b) && s.b[at] == '{'
		null := at < len(s.b) && s.b[at] == 'n'
		switch {
		case e.has&bit != 0:
			return -1, nil
		case bit == hasSchema && open:
			i = d.readSchema(at, 1)
		case bit == hasPayload && open:
			e.payload = kindObject
			i = d.readObject(&e.after, at, 1)
		case bit == hasPayload && null:
			e.payload = kindNull
			_, i = s.value(at, 1)
		case bit == hasSchema && null:
			_, i = s.value(at, 1)
		default:
			return -1, nil
		}
		e.has |= bit
		if i < 0 {
			return -1, s.err
		}
	}
}

// sort takes the members that are no columns out of the row. A name that columns:
// has is a column, whatever it begins with.
func (d *debeziumFlat) sort() error {
	e := &d.env
	d.meta, d.deleted, d.sourceText.at = false, token{}, [slots]token{}
	row := e.after.members[:0]
	for _, m := range e.after.members {
		name := view(d.scan.b[m.name.start:m.name.end])
		if !strings.HasPrefix(name, "__") {
			row = append(row, m)
			continue
		}
		if _, own := d.opts.columns[strings.ToLower(name)]; own {
			row = append(row, m)
			continue
		}
		to := d.place(name[2:])
		if to == nil {
			continue
		}
		if to.kind != kindNone {
			return fmt.Errorf("at byte %d: %w", m.name.start, errTwice)
		}
		d.meta = true
		*to = m.value
	}
	e.after.members = row
	return nil
}

// place tells where a member belongs whose name, without the __, is this: nil for
// nowhere. add.fields may name a member of the source block with source. or without.
func (d *debeziumFlat) place(name string) *token {
	switch name {
	case "op":
		return &d.env.op
	case "deleted":
		return &d.deleted
	case "ts_ms": // the envelope's
		return &d.env.tsMs
	case "ts_us", "ts_ns":
		return nil
	}
	slot := slotOf(strings.TrimPrefix(name, "source_"))
	if slot == slotNone {
		return nil
	}
	return &d.sourceText.at[slot]
}

var (
	errEnvelope  = errors.New("an envelope, not a flattened record: set format to debezium-json")
	errNoTable   = errors.New("the record does not say which table it is of: set add.fields of the connector to op,db,table,…")
	errNoFlatRow = errors.New("the record has no columns")
)

// decode fills out from a row that has been scanned.
func (d *debeziumFlat) decode(rec *change.Record, out *change.Change) error {
	e, r, src := &d.env, &d.cells, &d.sourceText
	r.b = rec.Value
	var err error
	if out.Op, err = d.op(); err != nil {
		return err
	}
	if d.meta {
		d.seen = own
	} else if d.isEnvelope() {
		return errEnvelope
	}
	if d.opts.Source != "" {
		if src.at[slotDB].kind != kindString || src.at[slotTable].kind != kindString {
			return errNoTable
		}
		if !src.of(d.opts, r, out) {
			*out = change.Change{Op: change.Filtered}
			return nil
		}
	}
	if d.deleted.kind == kindNone && d.opts.Tombstones == "" {
		return ErrTombstones
	}
	if len(e.after.members) == 0 && out.Op != change.Truncate {
		return errNoFlatRow
	}
	if out.Op != change.Truncate && out.Op != change.Delete {
		if read, load := src.load(r); read || out.Op == change.Read {
			out.Op, out.Load = change.Read, load
		}
	}
	if src.at[slotPos].kind == kindNone {
		src.at[slotFile] = token{} // a file alone is no place
	}
	if err := d.origin(out); err != nil {
		return err
	}
	d.opts.withoutPlace(out)
	if out.Op == change.Delete {
		e.before, e.after = e.after, e.before
	}
	err = d.rows(rec, out)
	if out.Op == change.Delete {
		e.before, e.after = e.after, e.before
	}
	if err != nil || d.opts.EventTime != "kafka" || rec.Timestamp <= 0 {
		return err
	}
	out.EventTime, err = millis.inMicros(rec.Timestamp)
	return err
}

// withoutPlace takes its place in the log from a flattened change where tombstones delete:
// they have none, and one that is sent again deletes again, so that the changes behind it
// must be taken again too.
func (o *Options) withoutPlace(out *change.Change) {
	if o.Tombstones == "delete" {
		out.Position, out.HasPosition, out.GTID = change.Position{}, false, ""
	}
}

// op tells what the record does: __deleted goes before __op, and without the two it
// is a row that is to be there.
func (d *debeziumFlat) op() (change.Op, error) {
	r, t := &d.cells, d.env.op
	switch {
	case d.deleted.kind == kindTrue || d.deleted.kind == kindString && string(r.raw(d.deleted)) == "true":
		return change.Delete, nil
	case t.kind == kindNone || t.kind == kindNull:
		return change.Insert, nil
	case t.kind == kindString && t.end == t.start+1:
		switch r.b[t.start] {
		case 'c':
			return change.Insert, nil
		case 'u':
			return change.Update, nil
		case 'd':
			return change.Delete, nil
		case 'r':
			return change.Read, nil
		case 't':
			return change.Truncate, nil
		}
	}
	return 0, fmt.Errorf("unknown __op %.20q", r.raw(t))
}

// isEnvelope reports whether the members are those of an envelope with its source.
func (d *debeziumFlat) isEnvelope() bool {
	var bits uint32
	for _, m := range d.env.after.members {
		bit := memberBit(view(d.scan.b[m.name.start:m.name.end]))
		if bit == hasSource && m.value.kind != kindObject {
			return false
		}
		bits |= bit
	}
	return bits&(hasSource|hasOp) == hasSource|hasOp && bits&(hasBefore|hasAfter) != 0
}
