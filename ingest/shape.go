package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// HiddenPrefix begins the names of the columns that data files carry beside the schema's.
const HiddenPrefix = "__gscd_"

// columns is the table's columns as the next commit will have them: those of
// the last version and the ones that the batch adds.
type columns struct {
	list  []change.Column
	index map[string]int    // exact name → place
	fold  map[string]string // lower case → exact name
	// atOpen are the columns that the table had when the open label opened.
	atOpen map[string]bool
	shapes map[*change.Columns]*shape
}

// shape says how the columns of a record lie in the table's.
type shape struct {
	to    []int         // wire column → table column, -1 where the table has none
	exact []bool        // the wire type is the column's: the cell goes in as it is
	asIs  []schema.Kind // so does a cell of this kind
	width int           // number of table columns that to was made for
	same  bool          // the table's columns are those of the record, in this order
	plain bool          // same, and all cells go in as they are
	// absent are the table's columns that the record does not have;
	// lacksOld tells that one of them was there when the open label opened.
	absent   []int
	lacksOld bool
}

func newColumns(list []change.Column, atOpen []string) *columns {
	c := &columns{index: map[string]int{}, fold: map[string]string{}, shapes: map[*change.Columns]*shape{}}
	for _, col := range list {
		c.add(col)
	}
	c.opened(atOpen)
	return c
}

func (c *columns) add(col change.Column) {
	name := strings.Clone(col.Name)
	c.index[name] = len(c.list)
	c.fold[strings.ToLower(name)] = name
	c.list = append(c.list, change.Column{Name: name, Type: col.Type})
}

// cut takes away the columns behind the first n.
func (c *columns) cut(n int) {
	if n == len(c.list) {
		return
	}
	for _, col := range c.list[n:] {
		delete(c.index, col.Name)
		delete(c.fold, strings.ToLower(col.Name))
	}
	c.list = c.list[:n]
	clear(c.shapes)
}

// opened tells which columns the table has at the opening of a label.
func (c *columns) opened(names []string) {
	c.atOpen = make(map[string]bool, len(names))
	for _, n := range names {
		c.atOpen[n] = true
	}
	clear(c.shapes)
}

func (c *columns) names() []string {
	names := make([]string, len(c.list))
	for i, col := range c.list {
		names[i] = col.Name
	}
	return names
}

// maxShapes bounds the cache: a source with endless shapes must not fill memory.
const maxShapes = 4096

func (c *columns) shape(w *change.Columns) *shape {
	s := c.shapes[w]
	if s != nil && s.width == len(c.list) {
		return s
	}
	s = &shape{to: make([]int, len(w.List)), exact: make([]bool, len(w.List)), asIs: make([]schema.Kind, len(w.List)), width: len(c.list)}
	seen := make([]bool, len(c.list))
	for i, col := range w.List {
		s.to[i] = -1
		if at, ok := c.index[col.Name]; ok {
			s.to[i] = at
			s.exact[i] = col.Type == c.list[at].Type
			s.asIs[i] = decode.AsIs(col.Type, c.list[at].Type)
			seen[at] = true
		}
	}
	s.same = len(w.List) == len(c.list)
	for i, at := range s.to {
		s.same = s.same && i == at
	}
	s.plain = s.same && !slices.Contains(s.exact, false)
	for at, ok := range seen {
		if !ok {
			s.absent = append(s.absent, at)
			s.lacksOld = s.lacksOld || c.atOpen[c.list[at].Name]
		}
	}
	if len(c.shapes) >= maxShapes {
		clear(c.shapes)
	}
	c.shapes[w] = s
	return s
}

// badValue is a cell that does not fit its column.
type badValue struct {
	column string
	err    error
}

func (b *badValue) Error() string { return fmt.Sprintf("column %s: %v", b.column, b.err) }
func (b *badValue) Unwrap() error { return b.err }

// row lays a record's after-image out in the table's columns, adding the
// columns that it is the first to need; none where it gives an error. Cells that
// the record does not have are absent (schema.Unavailable for "keep", NULL otherwise).
func (l *Lane) row(c *change.Change, absent schema.Kind) ([]schema.Value, error) {
	before := len(l.columns.list)
	row, err := l.layOut(c, absent)
	if err != nil {
		l.columns.cut(before)
	}
	return row, err
}

func (l *Lane) layOut(c *change.Change, absent schema.Kind) ([]schema.Value, error) {
	sh := l.columns.shape(c.Columns)
	roomy := c.Roomy && cap(c.After) >= len(c.After)+len(Hidden)
	if sh.plain && roomy {
		return c.After, l.checkPartitionValues(c.After)
	}
	for i, at := range sh.to {
		if at >= 0 {
			continue
		}
		if err := l.addColumn(c, i); err != nil {
			return nil, err
		}
	}
	sh = l.columns.shape(c.Columns)
	inPlace := sh.same && roomy
	row := c.After // it becomes the table's row where it lies
	if !inPlace {
		row = l.arena.Row(len(l.columns.list), len(Hidden))
	}
	for i, at := range sh.to {
		if at < 0 {
			continue
		}
		cell := &c.After[i]
		if sh.exact[i] || cell.Kind == sh.asIs[i] || cell.Kind == schema.Null || cell.Kind == schema.Unavailable {
			if !inPlace {
				row[at] = *cell
			}
			continue
		}
		v, err := decode.Fit(*cell, c.Columns.List[i].Type, l.columns.list[at].Type)
		if err != nil {
			if l.o.BadValue != AsNull {
				return nil, &badValue{l.columns.list[at].Name, err}
			}
			v = schema.Value{}
		}
		row[at] = v
	}
	if absent != schema.Null {
		for _, at := range sh.absent {
			row[at] = schema.Value{Kind: absent}
		}
	}
	return row, l.checkPartitionValues(row)
}

// errEmptyPartition: the Delta protocol gives NULL and the empty text of a
// partition column the same form, so the row would come back changed.
var errEmptyPartition = errors.New("an empty value in a column of partition_by would be read back as NULL: leave the column out of partition_by, or set bad_value: null")

func (l *Lane) checkPartitionValues(row []schema.Value) error {
	for _, name := range l.o.PartitionBy {
		at, ok := l.columns.index[name]
		if !ok || row[at].S != "" || row[at].Kind != schema.String && row[at].Kind != schema.Binary {
			continue
		}
		if l.o.BadValue != AsNull {
			return &badValue{name, errEmptyPartition}
		}
		row[at] = schema.Value{}
	}
	return nil
}

// addColumn adds the record's i-th column to the table, where policy and value ask for it.
func (l *Lane) addColumn(c *change.Change, i int) error {
	col, v := c.Columns.List[i], c.After[i]
	if v.Kind == schema.Null && !c.Columns.FromSchema || v.Kind == schema.Unavailable && col.Type.Primitive == schema.Unknown {
		return nil
	}
	t := col.Type
	if declared, ok := l.o.Columns[col.Name]; ok {
		t = declared
	} else if t.Primitive == schema.Unknown {
		if v.Kind == schema.Null {
			return nil
		}
		t = decode.TypeOf(v)
	}
	switch {
	case strings.HasPrefix(strings.ToLower(col.Name), HiddenPrefix):
		return fmt.Errorf("%w: column %q: names that begin with %s are gscd's own; rename it in the source or leave it out there", ErrRefused, col.Name, HiddenPrefix)
	case l.feeds() && reserved(col.Name):
		return fmt.Errorf("%w: column %q: change data has a column of its own of that name; rename it in the source or leave it out there, or leave change_data out", ErrRefused, col.Name)
	case col.Name == "":
		return &badValue{`""`, errors.New("a column without a name")}
	}
	if other, taken := l.columns.fold[strings.ToLower(col.Name)]; taken {
		return &badValue{col.Name, fmt.Errorf("the table has a column %s, which is the same name to Delta", other)}
	}
	if l.base != nil || l.committedColumns > 0 {
		switch l.o.NewColumn {
		case Ignore:
			return nil
		case Fail:
			return fmt.Errorf("%w: column %q is new (new_column: fail)", ErrRefused, col.Name)
		}
	}
	l.columns.add(change.Column{Name: col.Name, Type: t})
	return nil
}

// keyOf gives the encoded key of an image, "" where it lacks a key column.
func (l *Lane) keyOf(cols *change.Columns, cells []schema.Value) (string, error) {
	if cols == nil || cells == nil {
		return "", nil
	}
	places := l.keyPlaces[cols]
	if places == nil {
		places = make([]int, len(l.key))
		for i, name := range l.key {
			places[i] = slices.IndexFunc(cols.List, func(c change.Column) bool { return c.Name == name })
		}
		if len(l.keyPlaces) >= maxShapes {
			clear(l.keyPlaces)
		}
		l.keyPlaces[cols] = places
	}
	buf := l.keyBuf[:0]
	for i, at := range places {
		if at < 0 || at >= len(cells) || cells[at].Kind == schema.Unavailable {
			return "", nil
		}
		v := cells[at]
		if v.Kind != schema.Null {
			if l.keyTypes[i].Primitive == schema.Unknown {
				l.keyTypes[i] = l.keyType(l.key[i], cols.List[at].Type, v)
			}
			if cols.List[at].Type != l.keyTypes[i] {
				var err error
				if v, err = decode.Fit(v, cols.List[at].Type, l.keyTypes[i]); err != nil {
					return "", &badValue{l.key[i], err}
				}
			}
		}
		buf = v.AppendEncoded(buf)
	}
	l.keyBuf = buf
	return l.arena.String(buf), nil
}

func (l *Lane) keyType(name string, wire schema.Type, v schema.Value) schema.Type {
	if at, ok := l.columns.index[name]; ok {
		return l.columns.list[at].Type
	}
	if t, ok := l.o.Columns[name]; ok {
		return t
	}
	if wire.Primitive != schema.Unknown {
		return wire
	}
	return decode.TypeOf(v)
}
