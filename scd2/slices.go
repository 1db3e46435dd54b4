package scd2

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/snapshotter"
)

// HistoryOptions says how to read a history table that anybody wrote.
type HistoryOptions struct {
	// Columns are its own columns; of a table that Build made they are known. "" is the
	// usual name for ValidFrom and ValidTo; IsCurrent, RowHash and LoadTime are left out of
	// the rows where the table has them.
	Columns Columns
	// Without are further columns to leave out.
	Without []string
}

// History reads a table with half-open intervals as days: the full rows of each label in
// which a row begins or ends. ValidTo of an open row is NULL, or any time that is still to
// come for the last row.
type History struct {
	store    objstore.Store
	snapshot *delta.Snapshot
	cal      *snapshotter.Calendar
	from, to schema.Field
	columns  []string
	labels   []snapshotter.Label
}

// far is the year from which on an end counts as open: tables write 2999, 5999 or 9999.
const far = 2900

// OpenHistory finds the labels of a history table, which is read once for that. The error
// wraps ErrSettings where a column is missing, or is neither a date nor a timestamp.
func OpenHistory(ctx context.Context, store objstore.Store, s *delta.Snapshot, cal *snapshotter.Calendar, o HistoryOptions) (*History, error) {
	own := o.Columns
	if set, err := settingsOf(s); err == nil && own == (Columns{}) {
		own = set.Columns
	} else {
		own = own.withDefaults()
	}
	h := &History{store: store, snapshot: s, cal: cal}
	for _, c := range []struct {
		name string
		into *schema.Field
	}{{own.ValidFrom, &h.from}, {own.ValidTo, &h.to}} {
		i := s.Schema().IndexFold(c.name)
		if i < 0 {
			return nil, fmt.Errorf("%w: it has no column %q; its columns are %q", ErrSettings, c.name, s.Schema().Names())
		}
		*c.into = s.Schema().Fields[i]
		switch c.into.Type.Primitive {
		case schema.Date:
			if !cal.DayOrCoarser() {
				return nil, fmt.Errorf("%w: column %q is a date, which does not tell the labels of %s", ErrSettings, c.name, cal)
			}
		case schema.Timestamp, schema.TimestampNTZ:
		default:
			return nil, fmt.Errorf("%w: column %q is %s, neither a date nor a timestamp", ErrSettings, c.name, c.into.Type)
		}
	}
	for _, name := range o.Without {
		if s.Schema().IndexFold(name) < 0 {
			return nil, fmt.Errorf("%w: it has no column %q to leave out; its columns are %q", ErrSettings, name, s.Schema().Names())
		}
	}
	without := append(slices.Clone(o.Without), own.list()...)
	for _, f := range s.Schema().Fields {
		if !contains(without, f.Name) {
			h.columns = append(h.columns, f.Name)
		}
	}
	return h, h.find(ctx)
}

// Labels are those in which a row begins or ends, rising.
func (h *History) Labels() []snapshotter.Label { return h.labels }

// find goes through the ends of all intervals.
func (h *History) find(ctx context.Context) error {
	reading, err := scan.New(h.store, h.snapshot, scan.Options{Columns: []string{h.from.Name, h.to.Name}})
	if err != nil {
		return err
	}
	seen := map[snapshotter.Label]bool{}
	ends := map[[2]schema.Value]bool{} // few, of many rows
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			return err
		}
		pair := [2]schema.Value{row[0], row[1]}
		if ends[pair] {
			continue
		}
		if len(ends) < 1<<16 {
			ends[pair] = true
		}
		if row[0].IsNull() {
			return fmt.Errorf("%w: a row has no %s", ErrSettings, h.from.Name)
		}
		seen[h.label(h.from, row[0])] = true
		if !row[1].IsNull() && !h.isFar(row[1]) {
			seen[h.label(h.to, row[1])] = true
		}
	}
	for l := range seen {
		h.labels = append(h.labels, l)
	}
	slices.Sort(h.labels)
	return nil
}

// micros gives an end as microseconds; the clock of a date, and of a timestamp without
// zone, is the calendar's.
func (h *History) micros(f schema.Field, v schema.Value) int64 {
	if f.Type.Primitive == schema.Date {
		return v.I * 86400e6
	}
	return v.I
}

func (h *History) isFar(v schema.Value) bool {
	const year = 31_556_952e6
	return h.micros(h.to, v) >= (far-1970)*year
}

// label is the label in which an end lies.
func (h *History) label(f schema.Field, v schema.Value) snapshotter.Label {
	if f.Type.Primitive != schema.Date {
		return h.cal.Label(v.I)
	}
	// The label whose own date is the last one not behind it.
	l := h.cal.Label(h.micros(f, v))
	for h.cal.Date(l).Unix()/86400 > v.I {
		l--
	}
	for h.cal.Date(l+1).Unix()/86400 <= v.I {
		l++
	}
	return l
}

// moment writes a time in a label, for comparing with a column: of dates the last one of
// the label, else its last microsecond.
func (h *History) moment(f schema.Field, l snapshotter.Label) string {
	v, word := schema.IntValue(h.cal.End(l)-1), "TIMESTAMP"
	if f.Type.Primitive == schema.Date {
		v, word = schema.IntValue(h.cal.Date(l+1).Unix()/86400-1), "DATE"
	}
	return word + " '" + string(schema.AppendText(nil, f.Type, v)) + "'"
}

// Rows gives the columns and all rows of a label.
func (h *History) Rows(ctx context.Context, l snapshotter.Label) ([]schema.Field, iter.Seq2[[]schema.Value, error], error) {
	from, to := quote(h.from.Name), quote(h.to.Name)
	text := fmt.Sprintf("%s <= %s AND (%s > %s OR %s IS NULL)", from, h.moment(h.from, l), to, h.moment(h.to, l), to)
	where, err := expr.Parse(text, h.snapshot.Schema())
	if err != nil {
		return nil, nil, err
	}
	reading, err := scan.New(h.store, h.snapshot, scan.Options{Columns: h.columns, Where: where})
	if err != nil {
		return nil, nil, err
	}
	fields := make([]schema.Field, 0, len(h.columns))
	for _, f := range reading.Columns() {
		fields = append(fields, plainField(f, f.Name))
	}
	return fields, reading.Rows(ctx), nil
}

// String names the columns that days get, for messages.
func (h *History) String() string { return strings.Join(h.columns, ", ") }
