package decode

import (
	"fmt"
	"math"
	"slices"

	"github.com/gscd-io/gscd/ingest/change"
)

// flat reads records that are one JSON object, of which certain members matter.
type flat struct {
	opts  *Options
	scan  scanner
	cells cells
	names []string
	at    []token // where the members of these names are

	// inside reads a member's value that is an object or array and of which more
	// must be known than where it is; it gives the index behind it, or -1.
	inside func(slot, at int) (end int, took bool)

	keyScan scanner
	keyRows *rowSchema
	key     []member
	merge   []member // the row before an update: old over the row
}

func newFlat(o *Options, names []string) flat {
	return flat{opts: o, cells: o.cells(), names: names, at: make([]token, len(names)), keyRows: newRowSchema(o, nil)}
}

// slot is the place of a name, -1 of one that does not matter. Members most often come
// in the order of the names, so the search begins at from.
func (f *flat) slot(name string, from int) int {
	for i := from; i < len(f.names); i++ {
		if f.names[i] == name {
			return i
		}
	}
	return slices.Index(f.names[:min(from, len(f.names))], name)
}

// read checks the whole value and notes where its members are.
func (f *flat) read(value []byte) error {
	s := &f.scan
	s.reset(value)
	f.cells.b = value
	clear(f.at)
	i := s.space(0)
	if i >= len(value) || value[i] != '{' {
		t, end := s.value(i, 0)
		if end < 0 {
			return s.err
		}
		return fmt.Errorf("the value is %s, not an object", t.kind)
	}
	slot := -1
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
		slot = f.slot(view(value[name.start:name.end]), slot+1)
		if slot >= 0 && f.at[slot].kind != kindNone {
			s.failWith(int(name.start), errTwice)
			return s.err
		}
		took := false
		t := token{start: int32(at), kind: kindObject}
		if slot >= 0 && at < len(value) && (value[at] == '{' || value[at] == '[') {
			if value[at] == '[' {
				t.kind = kindArray
			}
			i, took = f.inside(slot, at)
			t.end = int32(i)
		}
		if !took {
			t, i = s.value(at, 1)
		}
		if i < 0 {
			return s.err
		}
		if slot >= 0 {
			f.at[slot] = t
		}
	}
}

// reading is what a format does itself.
type reading struct {
	// seen is told what the record was.
	seen *recognition
	// key reads the record key; nil where record keys are no rows' keys.
	key func(*change.Record, *change.Change) error
	// value reads what the value is made of; nil where that is one JSON object, whose
	// members matter.
	value func(*change.Record) error
	// row reads the rest, once that is known.
	row func(*change.Record, *change.Change) error
}

// oneRow decodes a record.
func (f *flat) oneRow(rec *change.Record, arena *change.Arena, out *change.Change, r reading) error {
	out.Reset()
	*r.seen = foreign
	f.cells.arena = arena
	if len(rec.Value) > math.MaxInt32 || len(rec.Key) > math.MaxInt32 {
		return decodeError("the record is larger than 2 GiB")
	}
	if rec.Value == nil {
		*r.seen = neutral
		err := errNullKey
		if r.key != nil {
			err = r.key(rec, out)
		}
		return tombstone(f.opts, out, err)
	}
	var err error
	if r.value != nil {
		err = r.value(rec)
	} else {
		err = f.read(rec.Value)
	}
	if err == nil {
		err = r.row(rec, out)
	}
	return refused(out, err)
}

// word is the text of a member that is a string without escapes, else "".
func (f *flat) word(slot int) string {
	t := f.at[slot]
	if t.kind != kindString || t.flags&flagEscaped != 0 {
		return ""
	}
	return view(f.cells.raw(t))
}

// integer is an integer member, 0 where it is missing or null.
func (f *flat) integer(slot int) (int64, error) {
	t := f.at[slot]
	if t.kind == kindNone || t.kind == kindNull {
		return 0, nil
	}
	n, err := f.cells.whole(t)
	if err != nil {
		return 0, fmt.Errorf("%s is %.30s: %w", f.names[slot], f.cells.raw(t), err)
	}
	return n, nil
}

// of reports whether two members spell the table "db.table".
func (f *flat) of(out *change.Change, db, name int) (bool, error) {
	return f.spell(out, f.at[db], f.at[name])
}

func (f *flat) spell(out *change.Change, db, name token) (bool, error) {
	if db.kind != kindString || name.kind != kindString {
		return false, nil
	}
	d, err := text(f.cells.b, db, f.cells.arena)
	if err != nil {
		return false, err
	}
	n, err := text(f.cells.b, name, f.cells.arena)
	if err != nil {
		return false, err
	}
	return f.opts.takes(d, n, out), nil
}

// namedKey takes the key from the cells of a row that an array of the record names.
func (f *flat) namedKey(slot int, row []member, rows *rowSchema, out *change.Change) error {
	t := f.at[slot]
	if t.kind != kindArray {
		return nil
	}
	f.key = f.key[:0]
	s := &f.keyScan
	s.reset(f.cells.raw(t))
	for i := s.space(1); s.b[i] != ']'; {
		name, end := s.value(i, 1) // the scanner has passed it before
		for _, cell := range row {
			if name.kind == kindString && string(s.b[name.start:name.end]) == string(f.cells.raw(cell.name)) {
				f.key = append(f.key, cell)
				break
			}
		}
		if i = s.space(end); s.b[i] == ',' {
			i = s.space(i + 1)
		}
	}
	return f.keyCells(rows, out)
}

// keyCells reads the cells of f.key.
func (f *flat) keyCells(rows *rowSchema, out *change.Change) error {
	if len(f.key) == 0 {
		return nil
	}
	shape, err := rows.find(f.cells.b, f.key)
	if err != nil {
		return err
	}
	cells, err := shape.row(&f.cells, f.key)
	if err != nil {
		return err
	}
	out.KeyColumns, out.Key = shape.cols, cells
	return nil
}

// when fills in the event time: that of the member, in the unit given, or the
// broker's. One that a column gives is filled in by fill.
func (f *flat) when(slot int, in unit, rec *change.Record, out *change.Change) error {
	n, err := f.integer(slot)
	if err != nil {
		return err
	}
	return timeOf(f.names[slot], n, in, f.opts, rec, out)
}

// timeOf fills in the event time: n in the unit given, which the record calls by
// the name, or the broker's.
func timeOf(name string, n int64, in unit, o *Options, rec *change.Record, out *change.Change) (err error) {
	switch o.EventTime {
	case "", "source":
		us, err := in.inMicros(n)
		if err != nil || us > maxTimestamp || us < minTimestamp {
			return fmt.Errorf("%s is %d: %w", name, n, errTimeRange)
		}
		out.EventTime = us
	case "kafka":
		if rec.Timestamp > 0 {
			out.EventTime, err = millis.inMicros(rec.Timestamp)
		}
	}
	return err
}

// sourceTime tells that the event time is what the record says of the source.
func (f *flat) sourceTime() bool { return f.opts.EventTime == "" || f.opts.EventTime == "source" }

// fill reads a row into before (of a delete) or after. Where changed, old has the
// cells that an update changed, as they were.
func (f *flat) fill(rows *rowSchema, row, old []member, changed bool, out *change.Change) error {
	r := &f.cells
	shape, err := rows.find(r.b, row)
	if err != nil {
		return err
	}
	if out.Op == change.Delete {
		out.Before, err = shape.keys(r, row)
		out.BeforeColumns = shape.keyCols
	} else {
		err = shape.after(r, row, out)
	}
	if err != nil {
		return err
	}
	if shape.timeAt >= 0 {
		v, err := r.cell(&shape.codecs[shape.timeAt], row[shape.timeAt].value)
		if err != nil {
			return shape.fault(shape.timeAt, err)
		}
		if err = shape.timeFrom(v, out); err != nil {
			return err
		}
	}
	if out.Op != change.Update || !changed {
		return nil
	}
	f.merge = f.overlay(f.merge, row, old)
	if len(f.merge) > len(row) { // else the names are the row's
		if shape, err = rows.find(r.b, f.merge); err != nil {
			return err
		}
	}
	out.Before, err = shape.keys(r, f.merge)
	out.BeforeColumns = shape.keyCols
	return err
}

// overlay puts the cells of old over those of a row: what the row was before an
// update, where old has the changed columns alone.
func (f *flat) overlay(dst, row, old []member) []member {
	b := f.cells.b
	dst = append(dst[:0], row...)
	next := 0 // old has its columns in the row's order, most often
	for _, was := range old {
		name := b[was.name.start:was.name.end]
		i := next
		for i < len(row) && string(b[row[i].name.start:row[i].name.end]) != string(name) {
			i++
		}
		if i == len(row) {
			i = slices.IndexFunc(row[:next], func(now member) bool { return string(b[now.name.start:now.name.end]) == string(name) })
		}
		if i < 0 {
			dst = append(dst, was)
			continue
		}
		dst[i], next = was, i+1
	}
	return dst
}
