package event

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/ddl"
)

// Debezium's envelope, as its MySQL and MariaDB connectors write it with
// decimal.handling.mode and bigint.unsigned.handling.mode precise: with schemas these
// are the bytes of Connect's Decimal, without them the digits, which nothing but
// digits can be. A zero date is null, not 1970-01-01.

// debeziumColumn is how a column's cells are written.
type debeziumColumn struct {
	kind   debeziumKind
	digits int // of a second's part; scale of a decimal; bits of a bit
	// field is the column's field in the schema, without the brace that ends it.
	field []byte
}

type debeziumKind uint8

const (
	asIs debeziumKind = iota
	asDecimal
	asUnsigned
	asDate
	asDatetime
	asTimestamp
	asTime
	asBit
	asBits
	asGeometry
)

// connectType is a Connect type with its meaning.
type connectType struct {
	typ, name  string
	version    int
	parameters string
	fields     string
}

// debezium finds how a table's rows are written.
func (s *shape) debezium(t *ddl.Table, schemas bool) {
	for i := range t.Columns {
		c, ct := debeziumColumnOf(&t.Columns[i], schemas)
		field := append([]byte(`{"type":"`), ct.typ...)
		field = append(append(field, `","optional":`...), strconv.FormatBool(t.Columns[i].Nullable || c.kind == asDate || c.kind == asDatetime || c.kind == asTimestamp)...)
		if ct.name != "" {
			field = append(append(append(field, `,"name":"`...), ct.name...), `","version":1`...)
		}
		if ct.parameters != "" {
			field = append(append(append(field, `,"parameters":{`...), ct.parameters...), '}')
		}
		if ct.fields != "" {
			field = append(append(append(field, `,"fields":[`...), ct.fields...), ']')
		}
		c.field = append(append(field, `,"field":`...), s.names[i]...)
		s.columns = append(s.columns, c)
	}
	if !schemas {
		return
	}
	var rows []byte
	for i := range s.columns {
		rows = append(append(comma(rows, i), s.columns[i].field...), '}')
	}
	name := string(s.table)
	row := func(field string) string {
		return `{"type":"struct","fields":[` + string(rows) + `],"optional":true,"name":"` + name + `.Value","field":"` + field + `"}`
	}
	s.schema = []byte(`{"type":"struct","fields":[` + row("before") + "," + row("after") + "," + sourceSchema +
		`,{"type":"string","optional":false,"field":"op"},{"type":"int64","optional":true,"field":"ts_ms"}],"optional":false,"name":"` + name + `.Envelope","version":1}`)
}

const sourceSchema = `{"type":"struct","fields":[{"type":"string","optional":false,"field":"version"},{"type":"string","optional":false,"field":"connector"},` +
	`{"type":"string","optional":false,"field":"name"},{"type":"int64","optional":false,"field":"ts_ms"},{"type":"string","optional":true,"field":"snapshot"},` +
	`{"type":"string","optional":false,"field":"db"},{"type":"string","optional":true,"field":"table"},{"type":"int64","optional":false,"field":"server_id"},` +
	`{"type":"string","optional":true,"field":"gtid"},{"type":"string","optional":false,"field":"file"},{"type":"int64","optional":false,"field":"pos"},` +
	`{"type":"int32","optional":false,"field":"row"},{"type":"int64","optional":true,"field":"ts_us"}],"optional":false,"name":"io.debezium.connector.mysql.Source","field":"source"}`

// number reads the first numbers in a type's parentheses.
func numbers(typ string) (first, second int) {
	_, rest, _ := strings.Cut(typ, "(")
	rest, _, _ = strings.Cut(rest, ")")
	a, b, _ := strings.Cut(rest, ",")
	first, _ = strconv.Atoi(strings.TrimSpace(a))
	second, _ = strconv.Atoi(strings.TrimSpace(b))
	return first, second
}

func debeziumColumnOf(col *ddl.Column, schemas bool) (debeziumColumn, connectType) {
	name := col.Type
	if i := strings.IndexAny(name, "( "); i >= 0 {
		name = name[:i]
	}
	unsigned := strings.Contains(col.Type, "unsigned") || strings.Contains(col.Type, "zerofill")
	n, scale := numbers(col.Type)
	switch name {
	case "tinyint", "smallint":
		if unsigned && name == "smallint" {
			return debeziumColumn{}, connectType{typ: "int32"}
		}
		return debeziumColumn{}, connectType{typ: "int16"}
	case "mediumint", "int":
		if unsigned && name == "int" {
			return debeziumColumn{}, connectType{typ: "int64"}
		}
		return debeziumColumn{}, connectType{typ: "int32"}
	case "bigint":
		if !unsigned {
			return debeziumColumn{}, connectType{typ: "int64"}
		}
		c := debeziumColumn{}
		if schemas {
			c.kind = asUnsigned
		}
		return c, connectType{typ: "bytes", name: "org.apache.kafka.connect.data.Decimal", parameters: `"scale":"0"`}
	case "float":
		return debeziumColumn{}, connectType{typ: "float"}
	case "double":
		return debeziumColumn{}, connectType{typ: "double"}
	case "decimal":
		c := debeziumColumn{digits: scale}
		if schemas {
			c.kind = asDecimal
		}
		return c, connectType{typ: "bytes", name: "org.apache.kafka.connect.data.Decimal",
			parameters: `"scale":"` + strconv.Itoa(scale) + `","connect.decimal.precision":"` + strconv.Itoa(n) + `"`}
	case "bit":
		if n == 1 {
			return debeziumColumn{kind: asBit}, connectType{typ: "boolean"}
		}
		return debeziumColumn{kind: asBits, digits: n}, connectType{typ: "bytes", name: "io.debezium.data.Bits", parameters: `"length":"` + strconv.Itoa(n) + `"`}
	case "date":
		return debeziumColumn{kind: asDate}, connectType{typ: "int32", name: "io.debezium.time.Date"}
	case "datetime":
		c := debeziumColumn{kind: asDatetime, digits: n}
		if n > 3 {
			return c, connectType{typ: "int64", name: "io.debezium.time.MicroTimestamp"}
		}
		return c, connectType{typ: "int64", name: "io.debezium.time.Timestamp"}
	case "timestamp":
		return debeziumColumn{kind: asTimestamp}, connectType{typ: "string", name: "io.debezium.time.ZonedTimestamp"}
	case "time":
		return debeziumColumn{kind: asTime}, connectType{typ: "int64", name: "io.debezium.time.MicroTime"}
	case "year":
		return debeziumColumn{}, connectType{typ: "int32", name: "io.debezium.time.Year"}
	case "json":
		return debeziumColumn{}, connectType{typ: "string", name: "io.debezium.data.Json"}
	case "enum", "set":
		kind := "Enum"
		if name == "set" {
			kind = "EnumSet"
		}
		allowed := appendString(nil, labelList(col.Type))
		return debeziumColumn{}, connectType{typ: "string", name: "io.debezium.data." + kind, parameters: `"allowed":` + string(allowed)}
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector":
		return debeziumColumn{}, connectType{typ: "bytes"}
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection":
		return debeziumColumn{kind: asGeometry}, connectType{typ: "struct", name: "io.debezium.data.geometry.Geometry",
			fields: `{"type":"bytes","optional":false,"field":"wkb"},{"type":"int32","optional":true,"field":"srid"}`}
	}
	return debeziumColumn{}, connectType{typ: "string"}
}

// labelList is Debezium's: labels with commas between them.
func labelList(typ string) string {
	_, rest, _ := strings.Cut(typ, "('")
	rest = strings.TrimSuffix(strings.TrimSpace(rest), "')")
	return strings.ReplaceAll(strings.ReplaceAll(rest, "','", ","), "''", "'")
}

// Unavailable is what Debezium writes where the log does not say.
const Unavailable = "__debezium_unavailable_value"

func (d *debeziumColumn) append(dst []byte, c *Cell) []byte {
	switch c.Kind {
	case Null:
		return append(dst, "null"...)
	case Absent:
		return append(dst, `"`+Unavailable+`"`...)
	}
	switch d.kind {
	case asDecimal:
		return appendUnscaled(dst, string(c.Bytes))
	case asUnsigned:
		return appendUnscaled(dst, strconv.FormatUint(c.Number, 10))
	case asBit:
		return strconv.AppendBool(dst, c.Number != 0)
	case asBits:
		var b [8]byte
		for i := range b {
			b[i] = byte(c.Number >> (8 * i))
		}
		return appendBase64(dst, b[:(d.digits+7)/8])
	case asGeometry:
		if len(c.Bytes) < 4 {
			return append(dst, "null"...)
		}
		srid := uint32(c.Bytes[0]) | uint32(c.Bytes[1])<<8 | uint32(c.Bytes[2])<<16 | uint32(c.Bytes[3])<<24
		dst = appendBase64(append(dst, `{"wkb":`...), c.Bytes[4:])
		dst = append(dst, `,"srid":`...)
		if srid == 0 {
			return append(dst, "null}"...)
		}
		return append(strconv.AppendUint(dst, uint64(srid), 10), '}')
	case asDate:
		days, _, ok := instant(c.Bytes)
		if !ok {
			return append(dst, "null"...)
		}
		return strconv.AppendInt(dst, days, 10)
	case asDatetime:
		days, micros, ok := instant(c.Bytes)
		if !ok {
			return append(dst, "null"...)
		}
		if micros += days * 86400e6; d.digits <= 3 {
			micros /= 1000
		}
		return strconv.AppendInt(dst, micros, 10)
	case asTimestamp:
		if _, _, ok := instant(c.Bytes); !ok {
			return append(dst, "null"...)
		}
		dst = append(append(append(dst, '"'), c.Bytes[:10]...), 'T')
		return append(append(dst, c.Bytes[11:]...), `Z"`...)
	case asTime:
		return strconv.AppendInt(dst, clockMicros(c.Bytes), 10)
	}
	return appendCell(dst, c)
}

// appendUnscaled writes a decimal's digits as Connect does: the integer without its
// point, big-endian in two's complement, in base64.
func appendUnscaled(dst []byte, digits string) []byte {
	whole, part, _ := strings.Cut(digits, ".")
	n, _ := new(big.Int).SetString(whole+part, 10)
	if n == nil {
		n = new(big.Int)
	}
	b := n.Bytes()
	switch {
	case n.Sign() < 0:
		size := len(b)
		if b[0] >= 0x80 {
			size++
		}
		// -n in so many bytes is 2^(8*size) - |n|; a number that just fits has its first bit set.
		turned := new(big.Int).Lsh(big.NewInt(1), uint(8*size))
		b = turned.Add(turned, n).Bytes()
	case len(b) == 0:
		b = []byte{0}
	case b[0] >= 0x80:
		b = append([]byte{0}, b...)
	}
	return appendBase64(dst, b)
}

// two reads digits.
func digitsOf(b []byte) (n int64) {
	for _, c := range b {
		n = n*10 + int64(c-'0')
	}
	return n
}

// instant reads what a date, datetime or timestamp prints: days since 1970 and
// microseconds of the day. A zero date, or one with month or day 0, is none.
func instant(b []byte) (days, micros int64, ok bool) {
	if len(b) < 10 {
		return 0, 0, false
	}
	y, m, d := digitsOf(b[:4]), digitsOf(b[5:7]), digitsOf(b[8:10])
	if m == 0 || d == 0 {
		return 0, 0, false
	}
	if m <= 2 {
		y--
		m += 12
	}
	days = 365*y + y/4 - y/100 + y/400 + (153*(m-3)+2)/5 + d - 1 - 719468
	if len(b) > 11 {
		micros = clockMicros(b[11:])
	}
	return days, micros, true
}

// clockMicros reads "-838:59:59.000000".
func clockMicros(b []byte) (micros int64) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	var part [3]int64
	i := 0
	for ; len(b) > 0 && b[0] != '.'; b = b[1:] {
		if b[0] == ':' {
			i = min(i+1, 2)
			continue
		}
		part[i] = part[i]*10 + int64(b[0]-'0')
	}
	micros = (part[0]*3600 + part[1]*60 + part[2]) * 1e6
	if len(b) > 1 {
		unit := int64(100000)
		for _, c := range b[1:] {
			micros += int64(c-'0') * unit
			unit /= 10
		}
	}
	if negative {
		return -micros
	}
	return micros
}

func (e *Encoder) appendDebezium(dst []byte, ev *Event) []byte {
	switch ev.Op {
	case Heartbeat:
		return append(strconv.AppendInt(append(dst, `{"ts_ms":`...), ev.Source.Time/1000, 10), '}')
	case Schema:
		return e.appendDDL(dst, ev)
	}
	s := e.shape(ev.Table)
	if e.form == DebeziumSchemas {
		dst = append(append(append(dst, `{"schema":`...), s.schema...), `,"payload":`...)
	}
	dst = s.appendRow(append(dst, `{"before":`...), ev.Before)
	dst = s.appendRow(append(dst, `,"after":`...), ev.After)
	dst = e.appendSource(append(dst, `,"source":`...), ev, ev.Table)
	dst = append(append(append(dst, `,"op":"`...), opNames[ev.Op]...), `","ts_ms":`...)
	dst = append(strconv.AppendInt(dst, ev.Source.Time/1000, 10), '}')
	if e.form == DebeziumSchemas {
		dst = append(dst, '}')
	}
	return dst
}

func (s *shape) appendRow(dst []byte, cells []Cell) []byte {
	if cells == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	for i := range cells {
		dst = append(append(comma(dst, i), s.names[i]...), ':')
		dst = s.columns[i].append(dst, &cells[i])
	}
	return append(dst, '}')
}

func (e *Encoder) appendSource(dst []byte, ev *Event, t *ddl.Table) []byte {
	s := &ev.Source
	dst = appendString(append(dst, `{"version":"gscd","connector":"mysql","name":`...), s.Name)
	dst = strconv.AppendInt(append(dst, `,"ts_ms":`...), s.Time/1000, 10)
	snapshot := "false"
	if ev.Op == Read {
		switch {
		case s.Last:
			snapshot = "last"
		case s.LastOfTable:
			snapshot = "last_in_data_collection"
		case s.First:
			snapshot = "first_in_data_collection"
		default:
			snapshot = "true"
		}
	}
	dst = append(append(append(dst, `,"snapshot":"`...), snapshot...), `","db":`...)
	database, name := "", ""
	if t != nil {
		database, name = t.Database, t.Name
	}
	dst = appendString(append(appendString(dst, database), `,"table":`...), name)
	dst = strconv.AppendUint(append(dst, `,"server_id":`...), uint64(s.ServerID), 10)
	if dst = append(dst, `,"gtid":`...); s.GTID == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, s.GTID)
	}
	dst = appendString(append(dst, `,"file":`...), s.File)
	dst = strconv.AppendUint(append(dst, `,"pos":`...), s.Pos, 10)
	dst = strconv.AppendInt(append(dst, `,"row":`...), int64(s.Row), 10)
	return append(strconv.AppendInt(append(dst, `,"ts_us":`...), s.Time, 10), '}')
}

// appendDDL writes what Debezium's topic of definitions has.
func (e *Encoder) appendDDL(dst []byte, ev *Event) []byte {
	t, kind := ev.Table, "ALTER"
	switch {
	case t == nil:
		t, kind = ev.Old, "DROP"
	case ev.Old == nil:
		kind = "CREATE"
	}
	dst = e.appendSource(append(dst, `{"source":`...), ev, t)
	dst = strconv.AppendInt(append(dst, `,"ts_ms":`...), ev.Source.Time/1000, 10)
	dst = appendString(append(dst, `,"databaseName":`...), t.Database)
	dst = appendString(append(dst, `,"schemaName":null,"ddl":`...), ev.Statement)
	dst = append(append(append(dst, `,"tableChanges":[{"type":"`...), kind...), `","id":`...)
	dst = appendString(dst, `"`+t.Database+`"."`+t.Name+`"`)
	if kind == "DROP" {
		return append(dst, `,"table":null}]}`...)
	}
	dst = append(dst, `,"table":{"defaultCharsetName":`...)
	dst = appendString(dst, t.Charset)
	dst = append(dst, `,"primaryKeyColumnNames":[`...)
	for i, at := range t.Key {
		dst = appendString(comma(dst, i), t.Columns[at].Name)
	}
	dst = append(dst, `],"columns":[`...)
	for i := range t.Columns {
		c := &t.Columns[i]
		name := c.Type
		if j := strings.IndexAny(name, "( "); j >= 0 {
			name = name[:j]
		}
		if strings.Contains(c.Type, "unsigned") {
			name += " unsigned"
		}
		dst = appendString(append(comma(dst, i), `{"name":`...), c.Name)
		dst = appendString(append(dst, `,"typeName":`...), strings.ToUpper(name))
		dst = appendString(append(dst, `,"typeExpression":`...), strings.ToUpper(name))
		if c.Charset != "" && c.Charset != "binary" {
			dst = appendString(append(dst, `,"charsetName":`...), c.Charset)
		}
		if length, scale := numbers(c.Type); length > 0 {
			dst = strconv.AppendInt(append(dst, `,"length":`...), int64(length), 10)
			if strings.HasPrefix(c.Type, "decimal") {
				dst = strconv.AppendInt(append(dst, `,"scale":`...), int64(scale), 10)
			}
		}
		dst = strconv.AppendInt(append(dst, `,"position":`...), int64(i+1), 10)
		dst = strconv.AppendBool(append(dst, `,"optional":`...), c.Nullable)
		dst = strconv.AppendBool(append(dst, `,"generated":`...), c.Generated)
		if strings.HasPrefix(c.Type, "enum(") || strings.HasPrefix(c.Type, "set(") {
			dst = append(dst, `,"enumValues":[`...)
			for j, label := range strings.Split(strings.TrimSuffix(c.Type[strings.IndexByte(c.Type, '(')+1:], ")"), ",") {
				dst = appendString(comma(dst, j), label)
			}
			dst = append(dst, ']')
		}
		dst = append(dst, '}')
	}
	return append(dst, `]}}]}`...)
}
