package decode

import (
	"errors"
	"fmt"
	"strings"
)

// object is a member of the envelope that should be an object.
type object struct {
	kind    kind
	members []member
	guide   guide
}

// emptied keeps the room for members, unless an odd record has made it huge.
func (o object) emptied() object {
	if cap(o.members) > 1<<16 {
		return object{}
	}
	return object{members: o.members[:0], guide: o.guide}
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
	hasMeta // a member that begins with __, as flattened records have
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
	if strings.HasPrefix(name, "__") {
		return hasMeta
	}
	return hasOther
}

// repeatable are the bits that stand for more than one name, or decide nothing.
const repeatable = hasOther | hasFineTime | hasDDL | hasDatabase | hasStatus | hasID | hasType | hasData | hasMeta

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
		o.members, at = d.scan.guided(at+1, depth+1, o.members[:0], &o.guide)
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
	case e.has&hasMeta != 0: // a flattened row, whatever its columns are called
		return false
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
