package decode

import (
	"encoding/json"
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
	opts  *Options
	scan  scanner
	cells cells
	env   envelope

	value connectCache // schema parts of values
	key   connectCache // schema parts of keys
	plain *rowSchema   // values without schema part
	bare  *rowSchema   // keys without schema part

	keyScan    scanner
	keyMembers []member
	sourceText source
	servers    map[string]string
	server     string // the last one of servers
	seen       recognition
}

func newDebezium(o *Options) *debezium {
	return &debezium{
		opts: o, cells: o.cells(), servers: map[string]string{},
		value: connectCache{opts: o, parse: parseEnvelopeSchema}, key: connectCache{opts: o, parse: parseKeySchema},
		plain: newRowSchema(o, nil), bare: newRowSchema(o, nil),
	}
}

func (d *debezium) Format() string { return "debezium-json" }

func (d *debezium) recognised() recognition { return d.seen }

// object is a member of the envelope that should be an object.
type object struct {
	kind    kind
	members []member
}

// emptied keeps the room for members, unless an odd record has made it huge.
func (o object) emptied() object {
	if cap(o.members) > 1<<16 {
		return object{}
	}
	return object{members: o.members[:0]}
}

// The members of an envelope and of the other records of a Debezium topic.
const (
	hasBefore uint32 = 1 << iota
	hasAfter
	hasSource
	hasOp
	hasTime
	hasFineTime // ts_us, ts_ns
	hasSchema
	hasPayload
	hasDDL
	hasDatabase
	hasStatus
	hasID
	hasType
	hasData
	hasOther
)

// envelope is where the parts of one record's value are.
type envelope struct {
	has                   uint32
	before, after, source object
	op, tsMs, status, typ token
	payload               kind
	schema                *connectSchema
}

var errTwice = errors.New("a member twice in the envelope")

func memberBit(name string) uint32 {
	switch name {
	case "before":
		return hasBefore
	case "after":
		return hasAfter
	case "source":
		return hasSource
	case "op":
		return hasOp
	case "ts_ms":
		return hasTime
	case "ts_us", "ts_ns":
		return hasFineTime
	case "schema":
		return hasSchema
	case "payload":
		return hasPayload
	case "ddl":
		return hasDDL
	case "databaseName":
		return hasDatabase
	case "status":
		return hasStatus
	case "id":
		return hasID
	case "type":
		return hasType
	case "data":
		return hasData
	}
	return hasOther
}

// repeatable are the bits that stand for more than one name, or decide nothing.
const repeatable = hasOther | hasFineTime | hasDDL | hasDatabase | hasStatus | hasID | hasType | hasData

// read notes the members of the object whose brace is before i: the record,
// or its payload. It gives the index behind the object, or -1.
func (d *debezium) read(i, depth int) int {
	s, e := &d.scan, &d.env
	for first := true; ; first = false {
		name, at := s.next(i, first)
		if at < 0 || name.kind == kindNone {
			return at
		}
		bit := memberBit(view(s.b[name.start:name.end]))
		if e.has&bit&^repeatable != 0 {
			return s.failWith(int(name.start), errTwice)
		}
		e.has |= bit
		brace := at < len(s.b) && s.b[at] == '{'
		switch {
		case bit == hasSchema && brace:
			i = d.readSchema(at, depth)
		case bit == hasPayload && brace && depth == 1:
			e.payload = kindObject
			i = d.read(at+1, depth+1)
		case bit == hasBefore:
			i = d.readObject(&e.before, at, depth)
		case bit == hasAfter:
			i = d.readObject(&e.after, at, depth)
		case bit == hasSource:
			i = d.readObject(&e.source, at, depth)
		default:
			var t token
			t, i = s.value(at, depth)
			switch bit {
			case hasOp:
				e.op = t
			case hasTime:
				e.tsMs = t
			case hasStatus:
				e.status = t
			case hasType:
				e.typ = t
			case hasPayload:
				e.payload = t.kind
			}
		}
		if i < 0 {
			return i
		}
	}
}

func (d *debezium) readObject(o *object, at, depth int) int {
	if at < len(d.scan.b) && d.scan.b[at] == '{' {
		o.kind = kindObject
		o.members, at = d.scan.members(at+1, depth+1, o.members[:0])
		return at
	}
	t, end := d.scan.value(at, depth)
	o.kind = t.kind
	return end
}

// readSchema passes over the schema part, which is most often the one before.
func (d *debezium) readSchema(at, depth int) int {
	n, err := d.value.find(&d.scan, at, depth)
	if err != nil {
		return d.scan.failWith(at, err)
	}
	d.env.schema = d.value.last
	return n
}

// Decode implements Decoder.
func (d *debezium) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	out.Reset()
	d.seen = foreign
	d.cells.arena = arena
	for i := range rec.Headers {
		switch rec.Headers[i].Key {
		case "__debezium.oldkey":
			out.OldKeyHeader = true
		case "__debezium.newkey":
			out.NewKeyHeader = true
		}
	}
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
	if err != nil {
		*out = change.Change{Op: out.Op}
		if _, ok := err.(*Error); !ok {
			err = &Error{Reason: ReasonDecode, Err: err}
		}
	}
	return err
}

// scanValue checks a value and fills the envelope. The JSON null counts as a
// payload that is null.
func (d *debezium) scanValue(value []byte) error {
	s, e := &d.scan, &d.env
	s.reset(value)
	*e = envelope{before: e.before.emptied(), after: e.after.emptied(), source: e.source.emptied()}
	i := s.space(0)
	var end int
	if i < len(value) && value[i] == '{' {
		end = d.read(i+1, 1)
	} else {
		var t token
		if t, end = s.value(i, 0); end >= 0 && t.kind != kindNull {
			return fmt.Errorf("the value is %s, not an object", t.kind)
		}
		e.payload = kindNull
	}
	if end < 0 {
		return s.err
	}
	if end = s.space(end); end != len(value) {
		return fmt.Errorf("json at byte %d: text behind the value", end)
	}
	return nil
}

// says reports whether a record without op is one of those that say nothing
// about rows: a DDL event, a heartbeat, a transaction mark or a signal.
func (d *debezium) says(e *envelope) bool {
	only := func(bits uint32) bool { return e.has&^(bits|hasSchema|hasPayload) == 0 }
	word := func(t token) string { return strings.ToLower(string(d.scan.b[t.start:t.end])) }
	switch {
	case e.has&(hasDDL|hasDatabase) == hasDDL|hasDatabase:
		return true
	case e.has&hasTime != 0 && only(hasTime|hasFineTime):
		return true
	case e.has&(hasStatus|hasID) == hasStatus|hasID && e.status.kind == kindString:
		return word(e.status) == "begin" || word(e.status) == "end"
	case e.has&(hasType|hasData) == hasType|hasData && only(hasID|hasType|hasData) && e.typ.kind == kindString:
		switch word(e.typ) {
		case "log", "schema-changes", "execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot",
			"snapshot-window-open", "snapshot-window-close":
			return true
		}
	}
	return false
}

func (d *debezium) tombstone(rec *change.Record, out *change.Change) error {
	d.seen = neutral
	out.Op = change.Tombstone
	err := d.decodeKey(rec, out)
	if d.opts.Tombstones != "delete" {
		return nil
	}
	return needKey(out, err, "a tombstone that is to delete")
}

// needKey is for records whose key alone tells the row.
func needKey(out *change.Change, err error, what string) error {
	if out.Key != nil {
		return nil
	}
	return &Error{Reason: ReasonKey, Err: fmt.Errorf("%s needs a key: %w", what, err)}
}

var (
	errNoOp     = errors.New("no envelope: op and source are missing; were the records flattened (ExtractNewRecordState)?")
	errNoSource = errors.New("no source block in the envelope")
)

// decode fills out from an envelope that has been scanned.
func (d *debezium) decode(rec *change.Record, out *change.Change) error {
	e, r := &d.env, &d.cells
	r.b = rec.Value
	if e.has&hasOp == 0 {
		return errNoOp
	}
	op := byte(0)
	if e.op.kind == kindString && e.op.end == e.op.start+1 {
		op = r.b[e.op.start]
	}
	switch op {
	case 'c':
		out.Op = change.Insert
	case 'u':
		out.Op = change.Update
	case 'd':
		out.Op = change.Delete
	case 'r':
		out.Op = change.Read
	case 't':
		out.Op = change.Truncate
	case 'm':
		out.Op = change.Filtered
	default:
		return fmt.Errorf("unknown op %.20q", r.raw(e.op))
	}
	if e.source.kind != kindObject {
		return errNoSource
	}
	src := &d.sourceText
	if err := src.find(r.b, e.source.members); err != nil {
		return err
	}
	d.seen = own
	if op == 'm' || d.opts.Source != "" && !src.of(d.opts.Source, r) {
		*out = change.Change{Op: change.Filtered}
		return nil
	}
	if op != 't' {
		if read, load := src.load(r); read || op == 'r' {
			out.Op, out.Load = change.Read, load
		}
	}
	if err := d.origin(out); err != nil {
		return err
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

// origin fills in where and when the change was made.
func (d *debezium) origin(out *change.Change) (err error) {
	src, r := &d.sourceText, &d.cells
	name, _ := src.str(slotName, r)
	out.Server.Name = d.intern(name)
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
		out.EventTimeIsCommit = out.Op != change.Read && out.EventTime%microsPerSecond != 0 && isMySQLGTID(out.GTID)
	}
	if t := d.env.tsMs; t.kind == kindNumber && t.flags&flagInteger != 0 {
		out.ProcessingTime, _ = integer(r.raw(t))
	}
	return nil
}

// intern gives a server's name as a string that outlives the record.
func (d *debezium) intern(name string) string {
	if name == d.server {
		return d.server
	}
	kept, ok := d.servers[name]
	if !ok {
		if len(d.servers) >= maxCached {
			clear(d.servers)
		}
		kept = strings.Clone(name)
		d.servers[kept] = kept
	}
	d.server = kept
	return kept
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
		s, err := after.find(r.b, e.after.members)
		if err != nil {
			return err
		}
		if out.After, err = s.row(r, e.after.members); err != nil {
			return err
		}
		out.Columns = s.cols
		if s.timeAt >= 0 {
			if err = d.timeFrom(s, out.After[s.timeAt], out); err != nil {
				return err
			}
		}
		if out.Op != change.Update || e.before.kind != kindObject {
			return nil
		}
	}
	s, err := before.find(r.b, e.before.members)
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
		return d.timeFrom(s, v, out)
	}
	return nil
}

func (d *debezium) timeFrom(s *shape, v schema.Value, out *change.Change) (err error) {
	if out.EventTime, err = columnTime(v, s.cols.List[s.timeAt].Type); err != nil {
		return s.fault(s.timeAt, fmt.Errorf("no event time: %w", err))
	}
	return nil
}

var (
	errNullKey  = errors.New("the record has none")
	errPlainKey = errors.New("the record key is no JSON object")
	errKeyTail  = errors.New("the record key has text behind its object")
	errEmptyKey = errors.New("the record key has no columns")
)

// decodeKey fills in the record key's cells where it is an object of cells.
func (d *debezium) decodeKey(rec *change.Record, out *change.Change) error {
	if rec.Key == nil {
		return errNullKey
	}
	s := &d.keyScan
	s.reset(rec.Key)
	i := s.space(0)
	if i >= len(rec.Key) || rec.Key[i] != '{' {
		return errPlainKey
	}
	members, end := s.members(i+1, 1, d.keyMembers[:0])
	if end < 0 {
		return s.err
	}
	d.keyMembers = members
	if end = s.space(end); end != len(rec.Key) {
		return errKeyTail
	}
	row := d.bare
	if schemaAt, payload := wrapped(rec.Key, members); payload != nil {
		if schemaAt != nil && schemaAt.kind == kindObject {
			if _, err := d.key.find(s, int(schemaAt.start), 1); err != nil {
				return err
			}
			row = d.key.last.after
		}
		members, end = s.members(int(payload.start)+1, 2, members[:0])
		if end < 0 {
			return s.err
		}
		d.keyMembers = members
	}
	if len(members) == 0 {
		return errEmptyKey
	}
	d.cells.b = rec.Key
	shape, err := row.find(rec.Key, members)
	if err != nil {
		return err
	}
	key, err := shape.row(&d.cells, members)
	if err != nil {
		return err
	}
	out.KeyColumns, out.Key = shape.cols, key
	return nil
}

// wrapped tells a key in {"schema", "payload"} from a row with such columns: its
// payload is an object, which no key column's value is.
func wrapped(b []byte, members []member) (schemaAt, payload *token) {
	for i := range members {
		m := &members[i]
		switch view(b[m.name.start:m.name.end]) {
		case "schema":
			schemaAt = &m.value
		case "payload":
			payload = &m.value
		default:
			return nil, nil
		}
	}
	if payload == nil || payload.kind != kindObject || len(members) > 2 {
		return nil, nil
	}
	return schemaAt, payload
}

// connectSchema is a parsed schema part.
type connectSchema struct {
	raw           string
	before, after *rowSchema
}

// connectCache knows the schema parts that came before. Comparing one's bytes
// with the last one's is much cheaper than scanning it.
type connectCache struct {
	opts  *Options
	parse func(*connectCache, []byte) (*connectSchema, error)
	last  *connectSchema
	known map[string]*connectSchema
	rows  map[string]*rowSchema // by the text of the fields
}

// find makes the schema at i the last one and gives the index behind it.
func (c *connectCache) find(s *scanner, i, depth int) (int, error) {
	if c.last != nil {
		// An object can't be the beginning of another one.
		if n := len(c.last.raw); len(s.b)-i >= n && string(s.b[i:i+n]) == c.last.raw {
			return i + n, nil
		}
	}
	_, end := s.value(i, depth)
	if end < 0 {
		return end, nil
	}
	raw := s.b[i:end]
	found := c.known[string(raw)]
	if found == nil {
		if c.known == nil || len(c.known) >= maxCached {
			c.known, c.rows = map[string]*connectSchema{}, map[string]*rowSchema{}
		}
		var err error
		if found, err = c.parse(c, raw); err != nil {
			return -1, fmt.Errorf("the schema part: %w", err)
		}
		found.raw = string(raw)
		c.known[found.raw] = found
	}
	c.last = found
	return end, nil
}

// row gives the schema of a row; equal texts share one, and with it the shapes.
func (c *connectCache) row(fields json.RawMessage) (*rowSchema, error) {
	if r := c.rows[string(fields)]; r != nil {
		return r, nil
	}
	r, err := parseRowSchema(c.opts, fields)
	if err != nil {
		return nil, err
	}
	c.rows[string(fields)] = r
	return r, nil
}

// parseEnvelopeSchema reads the schema of an envelope. One that does not
// describe before and after leaves their columns untyped.
func parseEnvelopeSchema(c *connectCache, raw []byte) (*connectSchema, error) {
	fields, err := schemaFields(raw)
	if err != nil {
		return nil, err
	}
	out := &connectSchema{}
	for i := range fields {
		f := &fields[i]
		switch {
		case f.Type != "struct":
		case f.Field == "before":
			out.before, err = c.row(f.Fields)
		case f.Field == "after":
			out.after, err = c.row(f.Fields)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Field, err)
		}
	}
	if out.after == nil {
		out.after = out.before
	}
	if out.after == nil {
		out.after = newRowSchema(c.opts, nil)
	}
	if out.before == nil {
		out.before = out.after
	}
	return out, nil
}

func schemaFields(raw []byte) ([]connectField, error) {
	var top connectField
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, err
	}
	return connectFields(top.Fields)
}

// parseKeySchema reads the schema of a key, whose struct is the row itself.
func parseKeySchema(c *connectCache, raw []byte) (*connectSchema, error) {
	var top connectField
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, err
	}
	row, err := c.row(top.Fields)
	return &connectSchema{before: row, after: row}, err
}
