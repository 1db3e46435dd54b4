package event

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/gscd-io/gscd/ddl"
)

// Form is how events are written as records.
type Form string

// The forms. GSCD is this program's own, docs/capture-format.md; the others are
// Debezium's envelope without and with the schema of its values.
const (
	GSCD            Form = "gscd"
	Debezium        Form = "debezium"
	DebeziumSchemas Form = "debezium-schemas"
)

// Forms are all of them.
func Forms() []Form { return []Form{GSCD, Debezium, DebeziumSchemas} }

// Version is that of gscd's own form, the member v.
const Version = 1

// Encoder writes events as the keys and values of records. It is not safe for
// concurrent use.
type Encoder struct {
	form   Form
	shapes map[*ddl.Table]*shape

	key, other, value []byte // of Records, for reuse
}

// NewEncoder makes one; the error names the forms that there are.
func NewEncoder(form Form) (*Encoder, error) {
	for _, f := range Forms() {
		if f == form {
			return &Encoder{form: form, shapes: map[*ddl.Table]*shape{}}, nil
		}
	}
	return nil, fmt.Errorf("form %q is unknown: set one of %q", form, Forms())
}

// shape is what is found once for a table's rows.
type shape struct {
	// head is, in gscd's form, the members that tell the row's shape.
	head []byte
	// columns are how Debezium's form has the cells, schema the value's schema with it.
	columns []debeziumColumn
	schema  []byte
	// names are the columns' names as JSON strings.
	names [][]byte
	table []byte // "db.table" without quotes, as in a JSON string
}

// maxShapes bounds the cache; definitions change seldom.
const maxShapes = 4096

func (e *Encoder) shape(t *ddl.Table) *shape {
	if s := e.shapes[t]; s != nil {
		return s
	}
	s := &shape{}
	for i := range t.Columns {
		s.names = append(s.names, appendString(nil, t.Columns[i].Name))
	}
	quoted := appendString(nil, t.Database+"."+t.Name)
	s.table = quoted[1 : len(quoted)-1]
	if e.form == GSCD {
		s.head = appendHead(t)
	} else {
		s.debezium(t, e.form == DebeziumSchemas)
	}
	if len(e.shapes) >= maxShapes {
		clear(e.shapes)
	}
	e.shapes[t] = s
	return s
}

// Append writes the value of an event's record.
func (e *Encoder) Append(dst []byte, ev *Event) []byte {
	if e.form == GSCD {
		return e.appendGSCD(dst, ev)
	}
	return e.appendDebezium(dst, ev)
}

// AppendKey writes the key of an event's record: the primary key of the row, in gscd's
// form with the table's name, so that tables can share a topic. An update that changes
// the key is two records, see Split. Records of a table without one share one key, and so
// stay in order. One that is not split, for its row is not whole, has the key before. A
// heartbeat has the source's name, a statement that of the table.
func (e *Encoder) AppendKey(dst []byte, ev *Event) []byte {
	t := ev.Table
	if t == nil {
		t = ev.Old
	}
	if e.form != GSCD && (t == nil || len(t.Key) == 0 || ev.row() == nil) {
		if t == nil {
			return appendString(append(dst, `{"serverName":`...), ev.Source.Name, '}')
		}
		return append(append(append(dst, `{"table":"`...), e.shape(t).table...), `"}`...)
	}
	if t == nil {
		return appendString(append(dst, `{"source":`...), ev.Source.Name, '}')
	}
	s := e.shape(t)
	if e.form == GSCD {
		dst = append(append(append(dst, `{"table":"`...), s.table...), '"')
		if len(t.Key) == 0 || ev.row() == nil {
			return append(dst, '}')
		}
		dst = append(dst, `,"key":`...)
	}
	row := ev.row()
	if ev.moves() {
		row = ev.Before
	}
	dst = append(dst, '{')
	for i, at := range t.Key {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, s.names[at]...), ':')
		if e.form == GSCD {
			dst = appendCell(dst, &row[at])
		} else {
			dst = s.columns[at].append(dst, &row[at])
		}
	}
	dst = append(dst, '}')
	if e.form == GSCD {
		dst = append(dst, '}')
	}
	return dst
}

// row is the row that an event is about, nil of other events.
func (ev *Event) row() []Cell {
	if ev.After != nil {
		return ev.After
	}
	return ev.Before
}

// Split takes an update that changes its row's key apart: a delete of the old row and
// an insert of the new one, with the same Source, each on the partition of its own key.
// Both are Moved. ok is false of every other event, and where the log does not say all
// of the new row: then nothing but the old one tells the rest.
func Split(ev *Event) (old, new Event, ok bool) {
	if !ev.moves() {
		return old, new, false
	}
	for i := range ev.After {
		if ev.After[i].Kind == Absent {
			return old, new, false
		}
	}
	old, new = *ev, *ev
	old.Op, old.After, old.Moved = Delete, nil, true
	new.Op, new.Before, new.Moved = Insert, nil, true
	old.Source.Last = false
	return old, new, true
}

// moves reports whether the event is an update that changes its row's key.
func (ev *Event) moves() bool {
	if ev.Op != Update || ev.Table == nil {
		return false
	}
	for _, at := range ev.Table.Key {
		if b, a := &ev.Before[at], &ev.After[at]; b.Kind != Absent && !b.Equal(a) {
			return true
		}
	}
	return false
}

// Equal reports whether two cells are the same value of one column.
func (c *Cell) Equal(d *Cell) bool {
	return c.Kind == d.Kind && c.Number == d.Number && c.Float == d.Float && string(c.Bytes) == string(d.Bytes)
}

var opNames = [...]string{Insert: "c", Update: "u", Delete: "d", Read: "r", Truncate: "t", Schema: "s", Heartbeat: "h"}

// appendHead writes the members that tell the shape of a table's rows.
func appendHead(t *ddl.Table) []byte {
	dst := appendString([]byte(`,"db":`), t.Database)
	dst = appendString(append(dst, `,"table":`...), t.Name)
	dst = append(dst, `,"columns":[`...)
	for i := range t.Columns {
		dst = appendString(comma(dst, i), t.Columns[i].Name)
	}
	dst = append(dst, `],"types":[`...)
	for i := range t.Columns {
		dst = appendString(comma(dst, i), t.Columns[i].Type)
	}
	dst = append(dst, `],"key":[`...)
	for i, at := range t.Key {
		dst = strconv.AppendInt(comma(dst, i), int64(at), 10)
	}
	return append(dst, ']')
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

func (e *Encoder) appendGSCD(dst []byte, ev *Event) []byte {
	dst = append(dst, `{"v":1,"op":"`...)
	dst = append(append(dst, opNames[ev.Op]...), '"')
	dst = appendString(append(dst, `,"name":`...), ev.Source.Name)
	switch ev.Op {
	case Schema:
		dst = appendString(append(dst, `,"statement":`...), ev.Statement)
		dst = appendTable(append(dst, `,"old":`...), ev.Old)
		dst = appendTable(append(dst, `,"new":`...), ev.Table)
		if ev.RowsRemoved != "" {
			dst = appendString(append(dst, `,"rows_removed":`...), ev.RowsRemoved)
		}
	case Heartbeat:
		dst = strconv.AppendInt(append(dst, `,"ts_ms":`...), ev.Source.Time/1000, 10)
	default:
		dst = append(dst, e.shape(ev.Table).head...)
		if ev.Op == Truncate && ev.Statement != "" {
			dst = appendString(append(dst, `,"statement":`...), ev.Statement)
		}
	}
	if ev.Before != nil {
		dst = appendCells(append(dst, `,"before":`...), ev.Before)
	}
	if ev.After != nil {
		dst = appendCells(append(dst, `,"after":`...), ev.After)
	}
	s := &ev.Source
	dst = strconv.AppendUint(append(dst, `,"server":`...), uint64(s.ServerID), 10)
	dst = appendString(append(dst, `,"file":`...), s.File)
	dst = strconv.AppendUint(append(dst, `,"pos":`...), s.Pos, 10)
	dst = strconv.AppendInt(append(dst, `,"row":`...), int64(s.Row), 10)
	if s.GTID != "" {
		dst = appendString(append(dst, `,"gtid":`...), s.GTID)
	}
	dst = strconv.AppendInt(append(dst, `,"ts_us":`...), s.Time, 10)
	for _, flag := range []struct {
		set  bool
		text string
	}{
		{s.CommitTime, `,"commit":true`}, {s.First, `,"first":true`}, {s.LastOfTable, `,"last_of_table":true`},
		{s.Last, `,"last":true`}, {ev.Moved, `,"moved":true`},
	} {
		if flag.set {
			dst = append(dst, flag.text...)
		}
	}
	return append(dst, '}')
}

// appendTable writes a definition, null where there is none.
func appendTable(dst []byte, t *ddl.Table) []byte {
	raw, err := json.Marshal(t)
	if err != nil { // strings, numbers and flags alone
		panic(err)
	}
	return append(dst, raw...)
}

func appendCells(dst []byte, cells []Cell) []byte {
	dst = append(dst, '[')
	for i := range cells {
		dst = appendCell(comma(dst, i), &cells[i])
	}
	return append(dst, ']')
}

// appendCell writes a cell: numbers as numbers, text as a string, bytes as base64, NULL
// as null, what the log does not say as {}.
func appendCell(dst []byte, c *Cell) []byte {
	switch c.Kind {
	case Null:
		return append(dst, "null"...)
	case Int:
		return strconv.AppendInt(dst, int64(c.Number), 10)
	case Uint:
		return strconv.AppendUint(dst, c.Number, 10)
	case Float:
		return appendFloat(dst, c.Float, 32)
	case Double:
		return appendFloat(dst, c.Float, 64)
	case Text:
		return appendText(dst, c.Bytes)
	case Bytes:
		return appendBase64(dst, c.Bytes)
	}
	return append(dst, "{}"...)
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	return append(base64.StdEncoding.AppendEncode(dst, b), '"')
}

// appendString writes a JSON string, and what is to stand behind it.
func appendString(dst []byte, s string, behind ...byte) []byte {
	return append(appendText(dst, unsafe.Slice(unsafe.StringData(s), len(s))), behind...)
}

const hexDigits = "0123456789abcdef"

// appendText writes UTF-8 as a JSON string; what is none becomes U+FFFD.
func appendText(dst, s []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// Header is one of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record is what is sent of an event.
type Record struct {
	Key, Value []byte
	Headers    []Header
	// Everywhere: the record belongs on every partition of its topic, since it tells
	// something about the rows of all of them, in order with them: statements, truncates
	// and heartbeats of gscd's form. Its key then decides nothing.
	Everywhere bool
}

// Records gives the records of an event, in order: one, or two of an update that
// changes its row's key. What give gets is valid until it returns; its error ends it.
func (e *Encoder) Records(ev *Event, give func(Record) error) error {
	old, new, two := Split(ev)
	if !two {
		e.key = e.AppendKey(e.key[:0], ev)
		e.value = e.Append(e.value[:0], ev)
		return give(Record{Key: e.key, Value: e.value, Everywhere: e.form == GSCD && ev.row() == nil})
	}
	e.key, e.other = e.AppendKey(e.key[:0], &old), e.AppendKey(e.other[:0], &new)
	var newKey, oldKey []Header
	if e.form != GSCD {
		newKey, oldKey = []Header{{"__debezium.newkey", e.other}}, []Header{{"__debezium.oldkey", e.key}}
	}
	e.value = e.Append(e.value[:0], &old)
	if err := give(Record{Key: e.key, Value: e.value, Headers: newKey}); err != nil {
		return err
	}
	e.value = e.Append(e.value[:0], &new)
	return give(Record{Key: e.other, Value: e.value, Headers: oldKey})
}
