package decode

import (
	"errors"
	"fmt"
)

// avroRole is what a field of an envelope is for.
type avroRole uint8

const (
	roleOther avroRole = iota
	roleBefore
	roleAfter
	roleSource
	roleOp
	roleTime
	roleStatus
	// Of flattened rows: a column, __deleted, and a member of the source block.
	roleColumn
	roleDeleted
	roleSlot
)

// avroSchema is what one schema means to a decoder.
type avroSchema struct {
	root *avroType
	// err says why its records can't be used, whatever they are.
	err error
	// has are the fields of the root record, as those of a JSON envelope.
	has    uint32
	roles  []avroRole
	before *avroRow
	after  *avroRow
	// key is the root record as a row.
	key    *avroRow
	source []slot // of the fields of the source block, or of the root where it is flat
	flat   bool   // a flattened row
}

// avroRows finds the shape of rows; equal ones share it across schemas.
type avroRows struct {
	opts   *Options
	shapes cache[*shape]
}

func (w *avroRows) row(t *avroType) (*avroRow, error) {
	fields := make(map[string]codec, len(t.fields))
	names := make([]string, len(t.fields))
	key := []byte{}
	for i, f := range t.fields {
		c, err := f.typ.codec(f.name)
		if err != nil {
			return nil, err
		}
		names[i], fields[f.name] = f.name, c
		key = fmt.Appendf(key, "%q %v\n", f.name, c)
	}
	s, ok := w.shapes.get(key)
	if !ok {
		var err error
		if s, err = newRowSchema(w.opts, fields).shapeOf(names); err != nil {
			return nil, err
		}
		w.shapes.put(string(key), s)
	}
	return &avroRow{typ: t, shape: s}, nil
}

var errNoRecord = errors.New("the schema is no record")

// envelope finds out what the schema of a value means.
func (w *avroRows) envelope(t *avroType) (*avroSchema, error) {
	if t.kind != avroRecord {
		return nil, errNoRecord
	}
	if w.isFlat(t) {
		return w.flat(t)
	}
	s := &avroSchema{root: t, roles: make([]avroRole, len(t.fields))}
	var err error
	for i, f := range t.fields {
		bit := memberBit(f.name)
		if s.has&bit&^repeatable != 0 {
			return nil, errTwice
		}
		s.has |= bit
		inner, _ := f.typ.nullable()
		switch bit {
		case hasBefore, hasAfter:
			if inner.kind != avroRecord {
				return nil, fmt.Errorf("%s is of type %s, no record", f.name, inner.kind)
			}
			row, err := w.row(inner)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			if s.roles[i] = roleBefore; bit == hasBefore {
				s.before = row
			} else {
				s.roles[i], s.after = roleAfter, row
			}
		case hasSource:
			if inner.kind == avroRecord {
				s.roles[i] = roleSource
				s.source, err = sourceSlots(inner)
			}
		case hasOp:
			s.roles[i] = roleOp
		case hasTime:
			s.roles[i] = roleTime
		case hasStatus:
			s.roles[i] = roleStatus
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// sourceSlots places the fields of a source block.
func sourceSlots(t *avroType) ([]slot, error) {
	list := make([]slot, len(t.fields))
	var seen [slots]bool
	for i, f := range t.fields {
		at := slotOf(f.name)
		if at != slotNone && seen[at] {
			return nil, fmt.Errorf("%q twice in the source block", f.name)
		}
		list[i], seen[at] = at, true
	}
	return list, nil
}

// key finds out what the schema of a key means, whose record is the row itself.
func (w *avroRows) key(t *avroType) (*avroSchema, error) {
	if t.kind != avroRecord {
		return nil, errNoRecord
	}
	row, err := w.row(t)
	return &avroSchema{root: t, key: row}, err
}
