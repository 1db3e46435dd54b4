package decode

import (
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/ingest/change"
)

// Rows that were flattened (ExtractNewRecordState) before the converter wrote them: as
// in debezium-flat, with the fields that begin with __ told from columns once a schema.

// flatPlace tells what a field of a flattened row is for, by its name: a column, or
// with __ in front what add.fields has brought back.
func (w *avroRows) flatPlace(name string) (avroRole, slot) {
	if !strings.HasPrefix(name, "__") {
		return roleColumn, slotNone
	}
	if _, own := w.opts.columns[strings.ToLower(name)]; own {
		return roleColumn, slotNone
	}
	switch name = name[2:]; name {
	case "op":
		return roleOp, slotNone
	case "deleted":
		return roleDeleted, slotNone
	case "ts_ms": // the envelope's
		return roleTime, slotNone
	case "ts_us", "ts_ns":
		return roleOther, slotNone
	}
	if at := slotOf(strings.TrimPrefix(name, "source_")); at != slotNone {
		return roleSlot, at
	}
	return roleOther, slotNone
}

// isFlat reports whether the record is a flattened row that shows it.
func (w *avroRows) isFlat(t *avroType) bool {
	var bits uint32
	shows := false
	for _, f := range t.fields {
		if bit := memberBit(f.name); bit != hasSource {
			bits |= bit
		} else if inner, _ := f.typ.nullable(); inner.kind == avroRecord {
			bits |= bit
		}
		role, _ := w.flatPlace(f.name)
		shows = shows || role != roleColumn && role != roleOther
	}
	return shows && !(bits&(hasSource|hasOp) == hasSource|hasOp && bits&(hasBefore|hasAfter) != 0)
}

// flat finds out what the schema of a flattened row means.
func (w *avroRows) flat(t *avroType) (*avroSchema, error) {
	s := &avroSchema{root: t, flat: true, roles: make([]avroRole, len(t.fields)), source: make([]slot, len(t.fields))}
	columns := &avroType{kind: avroRecord, name: t.name}
	var seen [roleSlot]bool
	var slotSeen [slots]bool
	for i, f := range t.fields {
		role, at := w.flatPlace(f.name)
		switch {
		case role == roleColumn:
			columns.fields = append(columns.fields, f)
		case role == roleSlot && slotSeen[at], role != roleOther && role != roleSlot && seen[role]:
			return nil, errTwice
		case role == roleSlot:
			slotSeen[at] = true
		default:
			seen[role] = true
		}
		s.roles[i], s.source[i] = role, at
	}
	row, err := w.row(columns)
	s.before, s.after = row, row
	return s, err
}

// flatOp tells what a flattened row does: __deleted goes before __op, and without the
// two it is a row that is to be there.
func (d *avro) flatOp() (change.Op, error) {
	switch {
	case d.deleted.kind == kindTrue || d.deleted.kind == kindString && d.deleted.s == "true":
		return change.Delete, nil
	case d.op == "":
		return change.Insert, nil
	case len(d.op) == 1 && d.op != "m":
		if op := opOf(d.op[0]); op != 0 {
			return op, nil
		}
	}
	return 0, fmt.Errorf("unknown __op %.20q", d.op)
}

// decodeFlat fills out from a flattened row that has been read.
func (d *avro) decodeFlat(s *avroSchema, rec *change.Record, out *change.Change) (err error) {
	src := &d.source
	if out.Op, err = d.flatOp(); err != nil {
		return err
	}
	d.seen = own
	if d.opts.Source != "" {
		if src.str(slotDB) == "" || src.str(slotTable) == "" {
			return errNoTable
		}
		if !d.opts.takes(src.str(slotDB), src.str(slotTable), out) {
			*out = change.Change{Op: change.Filtered}
			return nil
		}
	}
	if d.deleted.kind == kindNone && d.opts.Tombstones == "" {
		return ErrTombstones
	}
	if len(d.after) == 0 && out.Op != change.Truncate {
		return errNoFlatRow
	}
	if out.Op != change.Truncate && out.Op != change.Delete {
		if read, load := src.load(); read || out.Op == change.Read {
			out.Op, out.Load = change.Read, load
		}
	}
	if k := src.at[slotPos].kind; k == kindNone || k == kindNull {
		src.at[slotFile] = avroScalar{} // a file alone is no place
	}
	if out.Op == change.Delete {
		d.before = d.after
	}
	err = d.fill(s, rec, out)
	d.opts.withoutPlace(out)
	return err
}
