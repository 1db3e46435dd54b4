package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// shape is what is found once for all rows with the same member names under
// the same schema.
type shape struct {
	names  []string // as written, escapes included
	codecs []codec
	cols   *change.Columns
	// keyAt are the places of the configured key columns, keyCols they alone.
	keyAt   []int32
	keyCols *change.Columns
	// timeAt is the place of the column that gives the event time, or -1.
	timeAt int
}

// rowSchema is what a schema part says of rows; the empty one stands for
// records without schema. It finds the shapes of rows.
type rowSchema struct {
	opts   *Options
	fields map[string]codec
	// definition, where set, is what the fields are of: another column is an error.
	definition *definition
	shapes     cache[*shape]
	last       *shape
	before     *shape // the last one but one
	key        []byte // of shapes, for reuse
}

func newRowSchema(opts *Options, fields map[string]codec) *rowSchema {
	return &rowSchema{opts: opts, fields: fields}
}

// parseRowSchema reads the fields of a row's struct.
func parseRowSchema(opts *Options, raw json.RawMessage) (*rowSchema, error) {
	list, err := connectFields(raw)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]codec, len(list))
	for i := range list {
		f := &list[i]
		if fields[f.Field], err = f.codec(); err != nil {
			return nil, err
		}
	}
	return newRowSchema(opts, fields), nil
}

// find gives the shape of a row.
func (r *rowSchema) find(b []byte, members []member) (*shape, error) {
	if r.last != nil && r.last.fits(b, members) {
		return r.last, nil
	}
	if r.before != nil && r.before.fits(b, members) { // rows and their keys come in turn
		r.last, r.before = r.before, r.last
		return r.last, nil
	}
	r.key = r.key[:0]
	for i := range members {
		name := &members[i].name
		r.key = append(r.key, b[name.start:name.end]...)
		r.key = append(r.key, 0) // no JSON string has that byte
	}
	s, ok := r.shapes.get(r.key)
	if !ok {
		var err error
		if s, err = r.build(b, members); err != nil {
			return nil, err
		}
		r.shapes.put(string(r.key), s)
	}
	r.last, r.before = s, r.last
	return s, nil
}

func (s *shape) fits(b []byte, members []member) bool {
	if len(members) != len(s.names) {
		return false
	}
	for i := range members {
		name := &members[i].name
		if string(b[name.start:name.end]) != s.names[i] {
			return false
		}
	}
	return true
}

var errNoName = errors.New("a column without name")

func (r *rowSchema) build(b []byte, members []member) (*shape, error) {
	raws, names := make([]string, len(members)), make([]string, len(members))
	for i := range members {
		raw := string(b[members[i].name.start:members[i].name.end])
		name := raw
		if members[i].name.flags&flagEscaped != 0 {
			out, err := unescape(make([]byte, len(raw)), []byte(raw))
			if err != nil {
				return nil, err
			}
			name = string(out)
		}
		raws[i], names[i] = raw, name
	}
	s, err := r.shapeOf(names)
	if err != nil {
		return nil, err
	}
	s.names = raws
	return s, nil
}

// shapeOf makes the shape of a row with columns of these names.
func (r *rowSchema) shapeOf(names []string) (*shape, error) {
	s := &shape{cols: &change.Columns{}, timeAt: -1}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		switch {
		case name == "":
			return nil, errNoName
		case seen[name]:
			return nil, fmt.Errorf("column %q twice in a row", name)
		}
		seen[name] = true
		if err := r.known(name); err != nil {
			return nil, err
		}
		c := r.codec(name)
		s.codecs = append(s.codecs, c)
		s.cols.List = append(s.cols.List, change.Column{Name: name, Type: c.result()})
		if c.result().Primitive != schema.Unknown {
			s.cols.FromSchema = true
		}
		for _, key := range r.opts.KeyColumns {
			if strings.EqualFold(key, name) {
				s.keyAt = append(s.keyAt, int32(i))
			}
		}
		if r.opts.timeColumn != "" && strings.EqualFold(r.opts.timeColumn, name) {
			s.timeAt = i
		}
	}
	s.keyCols = s.cols
	if len(r.opts.KeyColumns) > 0 {
		s.keyCols = &change.Columns{FromSchema: s.cols.FromSchema}
		for _, i := range s.keyAt {
			s.keyCols.List = append(s.keyCols.List, s.cols.List[i])
		}
	}
	return s, nil
}

// known reports a column that a definition of the schema topic does not have.
func (r *rowSchema) known(name string) error {
	if r.definition == nil {
		return nil
	}
	if _, configured := r.opts.columns[strings.ToLower(name)]; configured {
		return nil
	}
	if text, ok := r.definition.unknown[name]; ok {
		return fmt.Errorf("column %q has the type %q, which is not known: name one under columns:", name, text)
	}
	if _, ok := r.fields[name]; !ok {
		return fmt.Errorf("%w: column %q is not in the definition at offset %d", ErrUndefined, name, r.definition.offset)
	}
	return nil
}

// codec gives the encoding of a column: the record's schema and the
// configuration, or what there is of them.
func (r *rowSchema) codec(name string) codec {
	c, typed := r.fields[name]
	spec, configured := r.opts.columns[strings.ToLower(name)]
	switch {
	case typed && configured:
		return c.configured(spec)
	case configured:
		return spec
	}
	return c
}

// after reads the row after of a change.
func (s *shape) after(r *cells, members []member, out *change.Change) error {
	row := r.arena.Row(len(members), r.room)
	if err := s.read(r, members, row); err != nil {
		return err
	}
	out.After, out.Columns, out.Roomy = row, s.cols, true
	return nil
}

// row reads all cells of a row into the arena.
func (s *shape) row(r *cells, members []member) ([]schema.Value, error) {
	row := r.arena.Values(len(members))
	if err := s.read(r, members, row); err != nil {
		return nil, err
	}
	return row, nil
}

func (s *shape) read(r *cells, members []member, out []schema.Value) error {
	for i := range members {
		v, err := r.cell(&s.codecs[i], members[i].value)
		if err != nil {
			return s.fault(i, err)
		}
		out[i] = v
	}
	return nil
}

// keys reads the cells of the configured key columns alone.
func (s *shape) keys(r *cells, members []member) ([]schema.Value, error) {
	if s.keyCols == s.cols {
		return s.row(r, members)
	}
	out := r.arena.Values(len(s.keyAt))
	for i, at := range s.keyAt {
		v, err := r.cell(&s.codecs[at], members[at].value)
		if err != nil {
			return nil, s.fault(int(at), err)
		}
		out[i] = v
	}
	return out, nil
}

func (s *shape) fault(i int, err error) error {
	name := s.cols.List[i].Name
	if t := s.cols.List[i].Type; t.Primitive != schema.Unknown {
		err = fmt.Errorf("no %s: %w", t, err)
	}
	return &Error{Reason: ReasonValue, Column: name, Err: err}
}
