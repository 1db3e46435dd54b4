package decode

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gscd-io/gscd/ingest/change"
)

// DebeziumAvro is the name of the format.
const DebeziumAvro = "debezium-avro"

// avro reads Debezium's envelopes in Avro. One pass over a record checks all of it
// and notes where the cells of before and after begin; then only what is needed is
// converted.
type avro struct {
	single
	opts  *Options
	cells avroCells
	rows  avroRows
	json  *debezium // for keys in JSON
	// values and keys are what the schemas mean that came before.
	values, keys map[SchemaID]*avroSchema
	kept         int // bytes of their texts

	// Of the record at hand: where the fields of before and after begin, nil for
	// null, and what the envelope says.
	before, after []int32
	source        avroSource
	op, status    string
	deleted       avroScalar
	tsMs          sourceTime

	beforeRoom, afterRoom, keyRoom []int32

	servers names
	seen    recognition
}

func newAvro(o *Options) *avro {
	return &avro{
		opts: o, cells: avroCells{placeholder: o.UnavailableValue}, rows: avroRows{opts: o}, json: newDebezium(o),
		values: map[SchemaID]*avroSchema{}, keys: map[SchemaID]*avroSchema{},
		beforeRoom: []int32{}, afterRoom: []int32{}, keyRoom: []int32{}, // not nil: that is a row which is null
	}
}

func (d *avro) Format() string { return DebeziumAvro }

func (d *avro) recognised() recognition { return d.seen }

// Decode implements Decoder.
func (d *avro) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	out.Reset()
	d.seen = foreign
	d.cells.arena, d.json.cells.arena = arena, arena
	d.json.keyHeaders(rec, out)
	if len(rec.Value) > math.MaxInt32 || len(rec.Key) > math.MaxInt32 {
		return decodeError("the record is larger than 2 GiB")
	}
	var err error
	if rec.Value == nil {
		d.seen = neutral
		err = d.tombstone(rec, out)
	} else {
		err = d.decode(rec, out)
	}
	if err == nil {
		return nil
	}
	*out = change.Change{Op: out.Op}
	var wait *SchemaError
	if errors.As(err, &wait) {
		return &SchemaError{wait.Retryable, err}
	}
	if _, ok := err.(*Error); ok {
		return err
	}
	reason := ReasonDecode
	if errors.Is(err, ErrNoSchema) {
		reason = ReasonSchema
	}
	return &Error{Reason: reason, Err: err}
}

// envelope gives what the schema of a value means.
func (d *avro) envelope(id SchemaID) (*avroSchema, error) {
	s, ok := d.values[id]
	if !ok {
		var err error
		if s, err = d.learn(id, d.values, d.rows.envelope); err != nil {
			return nil, err
		}
	}
	return s, s.err
}

// keySchema gives what the schema of a key means.
func (d *avro) keySchema(id SchemaID) (*avroSchema, error) {
	s, ok := d.keys[id]
	if !ok {
		var err error
		if s, err = d.learn(id, d.keys, d.rows.key); err != nil {
			return nil, err
		}
	}
	return s, s.err
}

// learn asks for a schema, and remembers what it means: that is true for ever, but
// that it could not be had.
func (d *avro) learn(id SchemaID, known map[SchemaID]*avroSchema, find func(*avroType) (*avroSchema, error)) (*avroSchema, error) {
	texts, err := d.opts.Schemas.Schema(id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	var s *avroSchema
	t, err := parseAvro(texts)
	if err == nil {
		s, err = find(t)
	}
	if err != nil {
		s = &avroSchema{err: &Error{Reason: ReasonSchema, Err: fmt.Errorf("%s: %w", id, err)}}
	}
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	if len(known) >= maxCached || d.kept+size > maxCachedBytes {
		clear(d.values)
		clear(d.keys)
		d.kept = 0
	}
	known[id] = s
	d.kept += size
	return s, nil
}

func (d *avro) tombstone(rec *change.Record, out *change.Change) error {
	out.Op = change.Tombstone
	err := d.decodeKey(rec, out)
	switch {
	case mustWait(err):
		return err
	case d.opts.Tombstones != "delete":
		return nil
	}
	return needKey(out, err, "a tombstone that is to delete")
}

var errNoAvroOp = errors.New("no envelope: op and source are missing; rows that were flattened (ExtractNewRecordState) show it by __op or __deleted: set add.fields to op")

// mustWait tells that a schema could not be had. (errors.As would allocate for nil too.)
func mustWait(err error) bool {
	if err == nil {
		return false
	}
	var wait *SchemaError
	return errors.As(err, &wait)
}

// decode reads a value.
func (d *avro) decode(rec *change.Record, out *change.Change) error {
	id, at, err := d.opts.Avro.frame(rec, &valuePart, rec.Value)
	if err != nil {
		return err
	}
	if d.opts.Schemas == nil {
		return errNoRegistry
	}
	s, err := d.envelope(id)
	if err != nil {
		return err
	}
	if err := d.read(s, rec.Value, at); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if s.flat {
		return d.decodeFlat(s, rec, out)
	}
	if s.has&hasOp == 0 {
		if d.says(s) {
			d.seen = neutral
			*out = change.Change{Op: change.Filtered, ProcessingTime: d.tsMs.n}
			return nil
		}
		return errNoAvroOp
	}
	if err := d.setOp(out); err != nil {
		return err
	}
	if s.source == nil {
		return errNoSource
	}
	d.seen = own
	src := &d.source
	if out.Op == change.Filtered || d.opts.Source != "" && !d.opts.takes(src.str(slotDB), src.str(slotTable), out) {
		*out = change.Change{Op: change.Filtered}
		return nil
	}
	if out.Op != change.Truncate {
		if read, load := src.load(); read || out.Op == change.Read {
			out.Op, out.Load = change.Read, load
		}
	}
	return d.fill(s, rec, out)
}

// fill fills in what is known of a change whose op is.
func (d *avro) fill(s *avroSchema, rec *change.Record, out *change.Change) error {
	err := d.origin(out)
	if err == nil {
		err = d.cellsOf(s, rec, out)
	}
	if err != nil {
		return err
	}
	if d.opts.EventTime == "kafka" && rec.Timestamp > 0 {
		out.EventTime, err = millis.inMicros(rec.Timestamp)
	}
	return err
}

// read passes over a whole value, from at on, and notes what is where.
func (d *avro) read(s *avroSchema, value []byte, at int) error {
	r := &d.cells
	r.reset(value, at)
	d.before, d.after, d.op, d.status, d.tsMs = nil, nil, "", "", sourceTime{}
	d.source, d.deleted = avroSource{}, avroScalar{}
	if s.flat {
		d.after = d.afterRoom[:0]
	}
	i := at
	for f := 0; f < len(s.roles) && i >= 0; f++ {
		t := s.root.fields[f].typ
		switch s.roles[f] {
		case roleBefore:
			d.before, i = r.fieldsOf(t, i, d.beforeRoom)
			if d.before != nil {
				d.beforeRoom = d.before
			}
		case roleAfter:
			d.after, i = r.fieldsOf(t, i, d.afterRoom)
			if d.after != nil {
				d.afterRoom = d.after
			}
		case roleSource:
			i = d.readSource(s, t, i)
		case roleOp:
			d.op, i = d.word(t, i)
		case roleStatus:
			d.status, i = d.word(t, i)
		case roleTime:
			var v avroScalar
			v, i = r.scalar(t, i)
			d.tsMs = v.time()
		case roleColumn:
			d.after = append(d.after, int32(i))
			i = r.skip(t, i, 1)
		case roleDeleted:
			d.deleted, i = r.scalar(t, i)
		case roleSlot:
			d.source.at[s.source[f]], i = r.scalar(t, i)
		default:
			i = r.skip(t, i, 1)
		}
	}
	if s.flat {
		d.afterRoom = d.after
	}
	if i < 0 {
		return r.err
	}
	if i != len(value) {
		return fmt.Errorf("avro at byte %d: %d bytes behind the value", i, len(value)-i)
	}
	return nil
}

func (d *avro) word(t *avroType, i int) (string, int) {
	v, i := d.cells.scalar(t, i)
	if v.kind != kindString {
		return "", i
	}
	return v.s, i
}

func (d *avro) readSource(s *avroSchema, t *avroType, i int) int {
	r := &d.cells
	if t.kind == avroUnion {
		if t, i = r.branch(t, i); i < 0 || t.kind == avroNull {
			return i
		}
	}
	for f := 0; f < len(s.source) && i >= 0; f++ {
		if at := s.source[f]; at != slotNone {
			d.source.at[at], i = r.scalar(t.fields[f].typ, i)
		} else {
			i = r.skip(t.fields[f].typ, i, 2)
		}
	}
	d.source.is = true
	return i
}

// says reports whether a value without op is one that says nothing about rows: a
// DDL event, a heartbeat or a transaction mark.
func (d *avro) says(s *avroSchema) bool {
	switch {
	case s.has&(hasDDL|hasDatabase) == hasDDL|hasDatabase:
		return true
	case s.has&hasTime != 0 && s.has&^(hasTime|hasFineTime) == 0:
		return true
	case s.has&(hasStatus|hasID) == hasStatus|hasID:
		return strings.EqualFold(d.status, "begin") || strings.EqualFold(d.status, "end")
	}
	return false
}

func (d *avro) setOp(out *change.Change) error {
	if len(d.op) == 1 {
		out.Op = opOf(d.op[0])
	}
	if out.Op == 0 {
		return fmt.Errorf("unknown op %.20q", d.op)
	}
	return nil
}

// origin fills in where and when the change was made.
func (d *avro) origin(out *change.Change) error {
	src := &d.source
	out.Server.Name = d.servers.intern(src.str(slotName))
	var err error
	if out.Server.ID, err = src.int(slotServerID); err != nil {
		return fmt.Errorf("source.server_id: %w", err)
	}
	if out.Position, out.HasPosition, err = src.position(); err != nil {
		return err
	}
	out.GTID = src.str(slotGTID)
	if d.opts.EventTime == "" || d.opts.EventTime == "source" {
		ms := src.at[slotTsMs].time()
		t, ok := eventTime(ms, src.at[slotTsUs].time(), src.at[slotTsNs].time())
		if !ok {
			return fmt.Errorf("source.ts_ms is %d: %w", ms.n, errTimeRange)
		}
		out.EventTime = t
		out.EventTimeIsCommit = out.Op != change.Read && t%microsPerSecond != 0 && isMySQLGTID(out.GTID)
	}
	out.ProcessingTime = d.tsMs.n
	return nil
}

// cellsOf fills in key, before and after.
func (d *avro) cellsOf(s *avroSchema, rec *change.Record, out *change.Change) error {
	// The value's own cells first: reading the key takes the scanner to other bytes.
	var rowErr error
	switch out.Op {
	case change.Truncate:
	case change.Delete:
		if d.before != nil {
			rowErr = d.fillBefore(s.before, out)
		}
	default:
		if rowErr = d.fillAfter(s.after, out); rowErr == nil && out.Op == change.Update && d.before != nil {
			rowErr = d.fillBefore(s.before, out)
		}
	}
	keyErr := d.decodeKey(rec, out)
	switch {
	case mustWait(keyErr):
		return keyErr
	case rowErr != nil:
		return rowErr
	case out.Op == change.Delete && d.before == nil:
		return needKey(out, keyErr, "a delete without before")
	}
	return nil
}

func (d *avro) fillAfter(w *avroRow, out *change.Change) (err error) {
	if d.after == nil {
		return fmt.Errorf("op %s without after", d.op)
	}
	if out.After, err = d.cells.row(w, d.after); err != nil {
		return err
	}
	out.Columns = w.shape.cols
	if at := w.shape.timeAt; at >= 0 {
		return w.shape.timeFrom(out.After[at], out)
	}
	return nil
}

func (d *avro) fillBefore(w *avroRow, out *change.Change) (err error) {
	if out.Before, err = d.cells.keys(w, d.before); err != nil {
		return err
	}
	out.BeforeColumns = w.shape.keyCols
	at := w.shape.timeAt
	if out.Op != change.Delete || at < 0 {
		return nil
	}
	v, err := d.cells.cell(&w.shape.codecs[at], w.typ.fields[at].typ, int(d.before[at]))
	if err != nil {
		return w.shape.fault(at, err)
	}
	return w.shape.timeFrom(v, out)
}

// decodeKey fills in the record key's cells where it is a record in Avro, or an
// object in JSON.
func (d *avro) decodeKey(rec *change.Record, out *change.Change) error {
	if rec.Key == nil {
		return errNullKey
	}
	if !keyPart.framed(rec, rec.Key) {
		return d.json.decodeKey(rec, out)
	}
	id, at, err := d.opts.Avro.frame(rec, &keyPart, rec.Key)
	if err != nil {
		return err
	}
	if d.opts.Schemas == nil {
		return errNoRegistry
	}
	s, err := d.keySchema(id)
	if err != nil {
		return err
	}
	r := &d.cells
	r.reset(rec.Key, at)
	places, end := r.fieldsOf(s.root, at, d.keyRoom)
	if end < 0 {
		return fmt.Errorf("%s: %w", id, r.err)
	}
	d.keyRoom = places
	switch {
	case end != len(rec.Key):
		return errKeyTail
	case len(places) == 0:
		return errEmptyKey
	}
	key, err := r.row(s.key, places)
	if err != nil {
		return err
	}
	out.KeyColumns, out.Key = s.key.shape.cols, key
	return nil
}
