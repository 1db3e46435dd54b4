package sink

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/query/changes"
)

// Shape is how a change is a record.
type Shape string

// The shapes.
const (
	// Debezium is its envelope: before, after, op, source, ts_ms.
	Debezium Shape = "debezium"
	// CDF is the row of Delta's change data: the columns, _change_type, _commit_version,
	// _commit_timestamp, _commit_label. An update is two records.
	CDF Shape = "cdf"
)

// Shapes gives the names of the shapes.
func Shapes() []string { return []string{string(Debezium), string(CDF)} }

// shaper is what both shapes share.
type shaper struct {
	o       Options
	feed    *changes.Feed
	columns []schema.Field
	key     []int
}

func newEncoder(o Options, feed *changes.Feed) (encoder, error) {
	s := shaper{o: o, feed: feed, columns: feed.Columns(), key: feed.Key()}
	if len(s.key) == 0 {
		return nil, fmt.Errorf("records of changes: %w: name its columns", changes.ErrNoKey)
	}
	switch o.Shape {
	case Debezium:
		return newDebezium(s), nil
	case CDF:
		return cdf{s}, nil
	}
	return nil, fmt.Errorf("shape %q is unknown: use %s", o.Shape, strings.Join(Shapes(), " or "))
}

// object appends cells as a JSON object, by the conventions of the command line.
func (s *shaper) object(dst []byte, row []schema.Value, places []int) []byte {
	return s.objectOf(dst, row, places, appendPlain)
}

// objectOf appends cells as a JSON object, each by cell.
func (s *shaper) objectOf(dst []byte, row []schema.Value, places []int, cell func([]byte, schema.Type, schema.Value) []byte) []byte {
	dst = append(dst, '{')
	for n, i := range places {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(schema.AppendJSONString(dst, s.columns[i].Name), ':')
		dst = cell(dst, s.columns[i].Type, row[i])
	}
	return append(dst, '}')
}

func appendPlain(dst []byte, t schema.Type, v schema.Value) []byte {
	if v.IsNull() || v.Kind == schema.Unavailable {
		return append(dst, "null"...)
	}
	return schema.AppendJSON(dst, t, v)
}

func places(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// tombstone is the record behind a delete, which lets a compacted topic forget the key.
func (s *shaper) tombstone(list []change.Record, k *changes.KeyChange) []change.Record {
	if s.o.Tombstones && k.After == nil {
		list = append(list, change.Record{Key: list[len(list)-1].Key, Timestamp: list[len(list)-1].Timestamp})
	}
	return list
}

// cdf is the shape of Delta's change data.
type cdf struct{ shaper }

func (s cdf) records(u *changes.Unit, k *changes.KeyChange, _ int) ([]change.Record, error) {
	var list []change.Record
	all := places(len(s.columns))
	for _, c := range k.Changes(u) {
		value := s.object(nil, c.Row, all)
		value = append(value[:len(value)-1], `,"_change_type":"`...)
		value = append(value, c.Kind...)
		value = fmt.Appendf(value, `","_commit_version":%d,"_commit_timestamp":`, c.Version)
		value = schema.AppendJSON(value, schema.Of(schema.Timestamp), schema.IntValue(c.Committed.UnixMicro()))
		if c.Label != "" {
			value = schema.AppendJSONString(append(value, `,"_commit_label":`...), c.Label)
		}
		list = append(list, change.Record{Key: s.object(nil, c.Row, s.key), Value: append(value, '}'), Timestamp: -1})
	}
	return s.tombstone(list, k), nil
}

// ops are Debezium's.
var ops = map[string]string{scan.Insert: "c", scan.UpdatePostimage: "u", scan.Delete: "d"}

// debezium is its envelope.
type debezium struct {
	shaper
	keySchema, valueSchema string
}

func newDebezium(s shaper) *debezium {
	d := &debezium{shaper: s}
	if s.o.Schemas {
		d.keySchema = d.connectKey()
		d.valueSchema = d.connectValue()
	}
	return d
}

func (d *debezium) records(u *changes.Unit, k *changes.KeyChange, n int) ([]change.Record, error) {
	list := k.Changes(u)
	c := list[len(list)-1]
	committed := u.Committed.UnixMilli()
	key := d.wrap(d.keySchema, d.row(nil, c.Row, d.key))
	value := append([]byte(nil), `{"before":`...)
	value = d.image(value, k.Before)
	value = d.image(append(value, `,"after":`...), k.After)
	value = append(value, `,"source":{"version":"1","connector":"gscd","name":`...)
	value = schema.AppendJSONString(value, d.o.Name)
	value = fmt.Appendf(value, `,"ts_ms":%d,"snapshot":"false","db":"gscd","table":`, d.eventTime(u))
	value = schema.AppendJSONString(value, d.o.Name)
	// File, position and row rise along the topic, so that a reader tells a record that
	// comes again.
	value = fmt.Appendf(value, `,"server_id":0,"file":"delta.1","pos":%d,"row":%d,"label":`, u.Version, min(n, math.MaxInt32))
	if u.Label == "" {
		value = append(value, "null"...)
	} else {
		value = schema.AppendJSONString(value, u.Label)
	}
	value = fmt.Appendf(value, `},"op":"%s","ts_ms":%d}`, ops[c.Kind], committed)
	out := []change.Record{{Key: key, Value: d.wrap(d.valueSchema, value), Timestamp: -1}}
	return d.tombstone(out, k), nil
}

// eventTime is the business time of a change, milliseconds: when it was committed, but
// within the label that it belongs to, so that a reader puts it there too.
func (d *debezium) eventTime(u *changes.Unit) int64 {
	at := u.Committed.UnixMilli()
	if start, end, ok := d.feed.Period(u.Label); ok {
		at = max(start.UnixMilli(), min(at, end.Add(-time.Millisecond).UnixMilli()))
	}
	return at
}

func (d *debezium) wrap(schemaText string, payload []byte) []byte {
	if schemaText == "" {
		return payload
	}
	out := make([]byte, 0, len(schemaText)+len(payload)+24)
	out = append(append(out, `{"schema":`...), schemaText...)
	out = append(append(out, `,"payload":`...), payload...)
	return append(out, '}')
}

func (d *debezium) image(dst []byte, row []schema.Value) []byte {
	if row == nil {
		return append(dst, "null"...)
	}
	return d.row(dst, row, places(len(d.columns)))
}

// row appends cells: with schemas in the encodings that these name.
func (d *debezium) row(dst []byte, row []schema.Value, at []int) []byte {
	if !d.o.Schemas {
		return d.object(dst, row, at)
	}
	return d.objectOf(dst, row, at, appendConnect)
}

// appendConnect appends a cell in the encoding of Kafka Connect's JSON.
func appendConnect(dst []byte, t schema.Type, v schema.Value) []byte {
	if v.IsNull() || v.Kind == schema.Unavailable {
		return append(dst, "null"...)
	}
	switch t.Primitive {
	case schema.DecimalType:
		return schema.AppendJSON(dst, schema.Of(schema.BinaryType), schema.BinaryValue(string(twosComplement(v.Unscaled()))))
	case schema.Date, schema.TimestampNTZ:
		return fmt.Appendf(dst, "%d", v.I)
	case schema.Struct, schema.Array, schema.Map:
		return schema.AppendJSONString(dst, string(schema.AppendJSON(nil, t, v)))
	case schema.Variant:
		return schema.AppendJSONString(dst, v.S)
	}
	return schema.AppendJSON(dst, t, v)
}

// twosComplement gives an integer as the fewest big-endian bytes.
func twosComplement(n *big.Int) []byte {
	if n.Sign() >= 0 {
		b := n.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	size := (new(big.Int).Not(n).BitLen() + 8) / 8
	mod := new(big.Int).Lsh(big.NewInt(1), uint(8*size))
	b := new(big.Int).Add(n, mod).Bytes()
	for len(b) < size {
		b = append([]byte{0}, b...)
	}
	return b
}

// connectKey and connectValue give the schemas of Kafka Connect.
func (d *debezium) connectKey() string {
	return d.columnsSchema(d.key, d.o.Name+".Key", "", false)
}

func (d *debezium) connectValue() string {
	all := places(len(d.columns))
	row := d.o.Name + ".Value"
	source := `{"type":"struct","fields":[` +
		`{"type":"string","optional":false,"field":"version"},{"type":"string","optional":false,"field":"connector"},` +
		`{"type":"string","optional":false,"field":"name"},{"type":"int64","optional":false,"field":"ts_ms"},` +
		`{"type":"string","optional":true,"field":"snapshot"},{"type":"string","optional":false,"field":"db"},` +
		`{"type":"string","optional":true,"field":"table"},{"type":"int64","optional":false,"field":"server_id"},` +
		`{"type":"string","optional":false,"field":"file"},{"type":"int64","optional":false,"field":"pos"},` +
		`{"type":"int32","optional":false,"field":"row"},{"type":"string","optional":true,"field":"label"}],` +
		`"optional":false,"name":"io.gscd.Source","field":"source"}`
	return `{"type":"struct","fields":[` + d.columnsSchema(all, row, "before", true) + "," + d.columnsSchema(all, row, "after", true) + "," + source +
		`,{"type":"string","optional":false,"field":"op"},{"type":"int64","optional":true,"field":"ts_ms"}],"optional":false,"name":` +
		quoted(d.o.Name+".Envelope") + "}"
}

// columnsSchema gives the schema of some columns.
func (d *debezium) columnsSchema(at []int, name, field string, optional bool) string {
	var b strings.Builder
	b.WriteString(`{"type":"struct","fields":[`)
	for n, i := range at {
		if n > 0 {
			b.WriteByte(',')
		}
		c := d.columns[i]
		fmt.Fprintf(&b, `{%s,"optional":%v,"field":%s}`, connectType(c.Type), c.Nullable, quoted(c.Name))
	}
	fmt.Fprintf(&b, `],"optional":%v,"name":%s`, optional, quoted(name))
	if field != "" {
		b.WriteString(`,"field":` + quoted(field))
	}
	return b.String() + "}"
}

func quoted(s string) string { return string(schema.AppendJSONString(nil, s)) }

func connectType(t schema.Type) string {
	plain := func(name string) string { return `"type":"` + name + `"` }
	named := func(typ, name string) string { return plain(typ) + `,"name":"` + name + `","version":1` }
	switch t.Primitive {
	case schema.Boolean:
		return plain("boolean")
	case schema.Byte:
		return plain("int8")
	case schema.Short:
		return plain("int16")
	case schema.Integer:
		return plain("int32")
	case schema.Long:
		return plain("int64")
	case schema.FloatType:
		return plain("float")
	case schema.DoubleType:
		return plain("double")
	case schema.DecimalType:
		return named("bytes", "org.apache.kafka.connect.data.Decimal") +
			fmt.Sprintf(`,"parameters":{"scale":"%d","connect.decimal.precision":"%d"}`, t.Scale, t.Precision)
	case schema.BinaryType:
		return plain("bytes")
	case schema.Date:
		return named("int32", "io.debezium.time.Date")
	case schema.Timestamp:
		return named("string", "io.debezium.time.ZonedTimestamp")
	case schema.TimestampNTZ:
		return named("int64", "io.debezium.time.MicroTimestamp")
	case schema.Struct, schema.Array, schema.Map, schema.Variant:
		return named("string", "io.debezium.data.Json")
	}
	return plain("string")
}
