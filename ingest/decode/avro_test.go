package decode

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// branch is a value of a union by the number of its type.
type branch struct {
	n int
	v any
}

// appendAvro encodes a value: nil, bool, int, float64, string, []byte, []any, branch,
// and map[string]any for records and maps. A union takes nil as its null, and else
// its first type that is not null.
func appendAvro(b []byte, t *avroType, v any) []byte {
	long := func(b []byte, n int) []byte { return binary.AppendVarint(b, int64(n)) }
	switch t.kind {
	case avroUnion:
		own, ok := v.(branch)
		for i := 0; !ok; i++ {
			if (t.branches[i].kind == avroNull) == (v == nil) {
				own, ok = branch{i, v}, true
			}
		}
		return appendAvro(long(b, own.n), t.branches[own.n], own.v)
	case avroBoolean:
		if v.(bool) {
			return append(b, 1)
		}
		return append(b, 0)
	case avroInt, avroLong:
		return long(b, v.(int))
	case avroFloat:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v.(float64))))
	case avroDouble:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.(float64)))
	case avroString:
		return append(long(b, len(v.(string))), v.(string)...)
	case avroBytes:
		return append(long(b, len(v.([]byte))), v.([]byte)...)
	case avroFixed:
		return append(b, v.([]byte)...)
	case avroEnum:
		return long(b, slices.Index(t.symbols, v.(string)))
	case avroArray: // the first block with its size in bytes, as some writers do
		items := v.([]any)
		var block []byte
		for _, item := range items {
			block = appendAvro(block, t.item, item)
		}
		if len(items) > 0 {
			b = append(long(long(b, -len(items)), len(block)), block...)
		}
		return long(b, 0)
	case avroMap:
		entries := v.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(entries)) { // a block each
			b = long(b, 1)
			b = append(long(b, len(key)), key...)
			b = appendAvro(b, t.item, entries[key])
		}
		return long(b, 0)
	case avroRecord:
		for _, f := range t.fields {
			b = appendAvro(b, f.typ, v.(map[string]any)[f.name])
		}
	}
	return b
}

func parsedAvro(t testing.TB, texts ...string) *avroType {
	t.Helper()
	typ, err := parseAvro(texts)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

const avroSourceFields = `{"name":"name","type":"string"},{"name":"db","type":"string"},{"name":"table","type":["null","string"]},{"name":"ts_ms","type":"long"},` +
	`{"name":"snapshot","type":[{"type":"string","connect.default":"false"},"null"]},{"name":"server_id","type":"long"},{"name":"gtid","type":["null","string"]},` +
	`{"name":"file","type":"string"},{"name":"pos","type":"long"},{"name":"row","type":"int"}`

// avroEnvelope is the schema of an envelope whose rows have the fields.
func avroEnvelope(fields string) string {
	return `{"type":"record","name":"Envelope","namespace":"a-b.c","fields":[{"name":"before","type":["null",{"type":"record","name":"Value","fields":[` + fields + `]}],"default":null},` +
		`{"name":"after","type":["null","Value"],"default":null},{"name":"source","type":{"type":"record","name":"Source","namespace":"io.debezium","fields":[` + avroSourceFields + `]}},` +
		`{"name":"transaction","type":["null",{"type":"record","name":"block","namespace":"event","fields":[{"name":"id","type":"string"}]}]},{"name":"op","type":"string"},{"name":"ts_ms","type":["null","long"]}]}`
}

func avroSourceOf() map[string]any {
	return map[string]any{"name": "a-b", "db": "shop-1", "table": "orders", "ts_ms": 1657843200123, "snapshot": "false", "server_id": 7, "gtid": nil, "file": "bin.000017", "pos": 4451, "row": 2}
}

func avroChange(op string, before, after any) map[string]any {
	return map[string]any{"before": before, "after": after, "source": avroSourceOf(), "op": op, "ts_ms": 1657843200999}
}

// confluentFrame is a value behind an id of 4 bytes.
func confluentFrame(id uint32, value []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), value...)
}

// apicurioFrame is a value behind an id of 8 bytes.
func apicurioFrame(id uint64, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{0}, id), value...)
}

// schemasOf is a registry that knows ids of both kinds.
type schemasOf map[SchemaID][]string

func (s schemasOf) Schema(id SchemaID) ([]string, error) {
	if texts, ok := s[id]; ok {
		return texts, nil
	}
	return nil, ErrNoSchema
}

func avroDecoder(t testing.TB, o Options, texts ...string) *avro {
	t.Helper()
	if o.Schemas == nil {
		o.Schemas = schemasOf{{ContentID, 1}: texts, {GlobalID, 1}: texts}
	}
	d, err := New(DebeziumAvro, o)
	if err != nil {
		t.Fatal(err)
	}
	return d.(*avro)
}

// TestAvroTypes: what each Avro type of a column becomes, with the meaning that
// Connect or Avro itself gives it, and with a type of the configuration.
func TestAvroTypes(t *testing.T) {
	connect := func(typ, name, parameters string) string {
		if parameters == "" {
			parameters = `"connect.version":1`
		} else {
			parameters = `"connect.parameters":{` + parameters + `}`
		}
		return `{"type":"` + typ + `","connect.name":"` + name + `",` + parameters + `}`
	}
	point := `{"type":"record","name":"Point","connect.name":"io.debezium.data.geometry.Point","fields":[{"name":"x","type":"double"},{"name":"y","type":"double"},{"name":"wkb","type":["null","bytes"]},{"name":"srid","type":["null","int"]}]}`
	variable := `{"type":"record","name":"V","connect.name":"io.debezium.data.VariableScaleDecimal","fields":[{"name":"scale","type":"int"},{"name":"value","type":"bytes"}]}`
	decimal := connect("bytes", "org.apache.kafka.connect.data.Decimal", `"scale":"2","connect.decimal.precision":"10"`)
	for _, c := range []struct {
		avro, column string
		value        any
		want         string // "type text"; an error begins with !
	}{
		{`"boolean"`, "", true, "boolean true"},
		{`"int"`, "", -7, "integer -7"},
		{`{"type":"int","connect.type":"int16"}`, "", 300, "short 300"},
		{`{"type":"int","connect.type":"int8"}`, "", 300, "!too large"},
		{`{"type":"int","connect.type":"int8"}`, "", -128, "byte -128"},
		{`"long"`, "", math.MinInt64, "long -9223372036854775808"},
		{`"long"`, "bigint unsigned", -1, "decimal(20,0) 18446744073709551615"},
		{`"long"`, "decimal(12,2)", 5, "decimal(12,2) 5.00"},
		{`"long"`, "varchar(9)", 5, "string 5"},
		{`{"type":"int","connect.type":"int16"}`, "boolean", 1, "boolean true"},
		{`{"type":"int","connect.type":"int16"}`, "tinyint(1)", 2, "byte 2"},
		{`"float"`, "", 5.17, "float 5.17"},
		{`"double"`, "", 0.1, "double 0.1"},
		{`"double"`, "decimal(5,2)", 1.25, "decimal(5,2) 1.25"},
		{`"double"`, "decimal(5,1)", 1.25, "!more digits behind the point"},
		{`"double"`, "", math.Inf(-1), "double -Inf"},
		{`"string"`, "", "naïve 😀", "string naïve 😀"},
		{`"string"`, "decimal(5,2)", "1.5", "decimal(5,2) 1.50"},
		{`"string"`, "varbinary(9)", "AP8=", "binary 0x00ff"},
		{`["null","string"]`, "", nil, `string \N`},
		{`["string","null"]`, "", "x", "string x"},
		{`["null","string"]`, "", DefaultUnavailable, "string unavailable"},
		{`["null","bytes"]`, "", []byte(DefaultUnavailable), "binary unavailable"},
		{`"bytes"`, "", []byte{0, 255}, "binary 0x00ff"},
		{`"bytes"`, "binary(4)", []byte{1}, "binary 0x01000000"},
		{`"bytes"`, "binary(1)", []byte{1, 2}, "!too large"},
		{`{"type":"fixed","name":"F","size":3}`, "", []byte{1, 2, 3}, "binary 0x010203"},
		{decimal, "", []byte{0xff, 0x85}, "decimal(10,2) -1.23"},
		{decimal, "decimal(12,4)", []byte{0x7b}, "decimal(12,4) 1.2300"},
		{decimal, "", []byte{}, "!not a decimal"},
		{connect("bytes", "org.apache.kafka.connect.data.Decimal", `"scale":"0"`), "", []byte{0, 255, 255, 255, 255, 255, 255, 255, 255}, "decimal(20,0) 18446744073709551615"},
		{connect("bytes", "org.apache.kafka.connect.data.Decimal", `"scale":"1","connect.decimal.precision":"65"`), "", []byte{1, 0}, "string 25.6"},
		{`{"type":"bytes","logicalType":"decimal","precision":6,"scale":3}`, "", []byte{0x04, 0xd2}, "decimal(6,3) 1.234"},
		{`{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":6,"scale":3}`, "", []byte{0, 0, 0x04, 0xd2}, "decimal(6,3) 1.234"},
		{connect("bytes", "io.debezium.data.Bits", `"length":"12"`), "", []byte{0x01, 0x0a}, "long 2561"},
		{connect("bytes", "io.debezium.data.Bits", `"length":"64"`), "", []byte{255, 255, 255, 255, 255, 255, 255, 255}, "decimal(20,0) 18446744073709551615"},
		{connect("int", "io.debezium.time.Date", ""), "", 19188, "date 2022-07-15"},
		{connect("long", "io.debezium.time.Timestamp", ""), "", 1657843200123, "timestamp_ntz 2022-07-15 00:00:00.123"},
		{connect("long", "io.debezium.time.MicroTimestamp", ""), "", 1657843200123456, "timestamp_ntz 2022-07-15 00:00:00.123456"},
		{connect("string", "io.debezium.time.ZonedTimestamp", ""), "", "2022-07-15T01:00:00.5+01:00", "timestamp 2022-07-15T00:00:00.5Z"},
		{connect("long", "io.debezium.time.MicroTime", ""), "", -3600000000, "long -3600000000"},
		{connect("int", "io.debezium.time.Year", ""), "", 2155, "integer 2155"},
		{`{"type":"long","logicalType":"timestamp-micros"}`, "", 1657843200123456, "timestamp 2022-07-15T00:00:00.123456Z"},
		{`{"type":"long","logicalType":"local-timestamp-millis"}`, "", 1657843200123, "timestamp_ntz 2022-07-15 00:00:00.123"},
		{`{"type":"long","connect.name":"org.apache.kafka.connect.data.Timestamp","logicalType":"timestamp-millis"}`, "", 1657843200123, "timestamp_ntz 2022-07-15 00:00:00.123"},
		{`{"type":"int","logicalType":"date"}`, "", -1, "date 1969-12-31"},
		{`{"type":"int","logicalType":"time-millis"}`, "", 1000, "long 1000000"},
		{connect("string", "io.debezium.data.Enum", `"allowed":"new,paid"`), "", "paid", "string paid"},
		{`{"type":"enum","name":"E","symbols":["new","paid"],"connect.name":"io.debezium.data.Enum"}`, "", "paid", "string paid"},
		{point, "", map[string]any{"x": 1.0, "y": 2.0, "wkb": []byte{1, 1}, "srid": nil}, "binary 0x0101"},
		{`["null",` + point + `]`, "point", map[string]any{"x": 1.0, "y": 2.0, "wkb": []byte{1, 1}, "srid": 4326}, "binary 0x0101"},
		{point, "", map[string]any{"x": 1.0, "y": 2.0, "wkb": nil, "srid": nil}, "!no wkb"},
		{variable, "", map[string]any{"scale": 30, "value": []byte{0xff}}, "string -0.000000000000000000000000000001"},
		{`{"type":"array","items":"float"}`, "", []any{1.5, math.NaN(), math.Inf(1), math.Inf(-1)}, `string [1.5,"NaN","Infinity","-Infinity"]`},
		{`{"type":"array","items":["null","string"]}`, "", []any{"a\"\\\n\x01b<", nil}, `string ["a\"\\\n\u0001b<",null]`},
		{`{"type":"array","items":"int"}`, "", []any{}, `string []`},
		{`{"type":"map","values":["null","long"]}`, "", map[string]any{"a": 1, "b": nil}, `string {"a":1,"b":null}`},
		{`{"type":"array","items":{"type":"record","name":"M","connect.internal.type":"MapEntry","fields":[{"name":"key","type":"int"},{"name":"value","type":"bytes"}]}}`, "",
			[]any{map[string]any{"key": 1, "value": []byte{255}}}, `string [[1,"/w=="]]`},
		{`{"type":"array","items":{"type":"record","name":"MapEntry","namespace":"io.confluent.connect.avro","fields":[{"name":"key","type":"int"},{"name":"value","type":"string"}]}}`, "",
			[]any{map[string]any{"key": 1, "value": "x"}}, `string [[1,"x"]]`},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"boolean"},{"name":"b","type":{"type":"fixed","name":"F","size":1}},{"name":"c","type":{"type":"enum","name":"E","symbols":["x"]}}]}`, "",
			map[string]any{"a": true, "b": []byte{0}, "c": "x"}, `string {"a":true,"b":"AA==","c":"x"}`},
		{`["null","int","string"]`, "", branch{1, 5}, "unknown 5"},
		{`["null","int","string"]`, "", branch{2, "x"}, "unknown x"},
		{`["null","int","string"]`, "varchar(9)", branch{1, 5}, "string 5"},
		{`"null"`, "", nil, `unknown \N`},
	} {
		o := Options{}
		if c.column != "" {
			spec, err := ParseColumnType(c.column)
			if err != nil {
				t.Fatal(err)
			}
			o.Columns = map[string]ColumnSpec{"V": spec}
		}
		text := avroEnvelope(`{"name":"id","type":"long"},{"name":"v","type":` + c.avro + `}`)
		value := appendAvro(nil, parsedAvro(t, text), avroChange("c", nil, map[string]any{"id": 1, "v": c.value}))
		var ch change.Change
		err := avroDecoder(t, o, text).Decode(&change.Record{Value: confluentFrame(1, value)}, &change.Arena{}, &ch)
		if fault, ok := strings.CutPrefix(c.want, "!"); ok {
			var e *Error
			if !errors.As(err, &e) || e.Reason != ReasonValue || e.Column != "v" || !strings.Contains(err.Error(), fault) {
				t.Errorf("%s of %v: %v", c.avro, c.value, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s of %v: %v", c.avro, c.value, err)
			continue
		}
		cell := typed{ch.After[1], ch.Columns.List[1].Type}
		got := cell.t.String() + " " + show(cell)
		if cell.v.Kind == schema.Unavailable {
			got = cell.t.String() + " unavailable"
		}
		if got != c.want {
			t.Errorf("%s of %v as %q: %s, want %s", c.avro, c.value, c.column, got, c.want)
		}
	}
}

const avroRow2 = `{"name":"id","type":"long"},{"name":"v","type":["null","string"]}`

func row2(id int, v any) map[string]any { return map[string]any{"id": id, "v": v} }

// TestAvroFrames: where the id of a schema is, and what it counts.
func TestAvroFrames(t *testing.T) {
	text, key := avroEnvelope(avroRow2), `{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}`
	value := appendAvro(nil, parsedAvro(t, text), avroChange("c", nil, row2(5, "x")))
	keyValue := appendAvro(nil, parsedAvro(t, key), map[string]any{"id": 5})
	registry := func(kind IDKind, id int64) Schemas {
		return schemasOf{{kind, id}: {text}, {kind, id + 1}: {key}}
	}
	id8 := binary.BigEndian.AppendUint64(nil, 3)
	key8 := binary.BigEndian.AppendUint64(nil, 4)
	named := func(kind string) []change.Header {
		return []change.Header{{Key: "apicurio.value." + kind, Value: id8}, {Key: "apicurio.key." + kind, Value: key8}}
	}
	for _, c := range []struct {
		name       string
		a          Avro
		schemas    Schemas
		key, value []byte
		headers    []change.Header
		fault      string
	}{
		{"confluent", Avro{}, registry(ContentID, 3), confluentFrame(4, keyValue), confluentFrame(3, value), nil, ""},
		{"confluent, set", Avro{Frame: FrameConfluent}, registry(ContentID, 3), confluentFrame(4, keyValue), confluentFrame(3, value), nil, ""},
		{"confluent, the largest id", Avro{}, registry(ContentID, math.MaxUint32-1), confluentFrame(math.MaxUint32, keyValue), confluentFrame(math.MaxUint32-1, value), nil, ""},
		{"confluent, global", Avro{ID: "global"}, registry(GlobalID, 3), confluentFrame(4, keyValue), confluentFrame(3, value), nil, ""},
		{"apicurio", Avro{}, registry(GlobalID, 3), apicurioFrame(4, keyValue), apicurioFrame(3, value), nil, ""},
		{"apicurio, set", Avro{Frame: FrameApicurio}, registry(GlobalID, 1<<40), apicurioFrame(1<<40+1, keyValue), apicurioFrame(1<<40, value), nil, ""},
		{"apicurio, content", Avro{ID: "content"}, registry(ContentID, 3), apicurioFrame(4, keyValue), apicurioFrame(3, value), nil, ""},
		{"headers, global", Avro{}, registry(GlobalID, 3), keyValue, value, named("globalId"), ""},
		{"headers, content", Avro{Frame: FrameHeaders}, registry(ContentID, 3), keyValue, value, named("contentId"), ""},
		{"key in JSON", Avro{}, registry(ContentID, 3), []byte(`{"id":5}`), confluentFrame(3, value), nil, ""},
		{"headers, none", Avro{Frame: FrameHeaders}, registry(ContentID, 3), nil, confluentFrame(3, value), nil, "no header has the id"},
		{"headers, short", Avro{Frame: FrameHeaders}, registry(ContentID, 3), nil, value, []change.Header{{Key: "apicurio.value.contentId", Value: []byte{3}}}, "no header has the id"},
		{"a frame as the other one", Avro{Frame: FrameConfluent}, registry(GlobalID, 3), nil, apicurioFrame(3, value), nil, "schema 0: there is no such schema"},
		{"text", Avro{}, registry(ContentID, 3), nil, []byte(`{"op":"c"}`), nil, "no Avro: the bytes begin with no 0 byte"},
		{"a GUID", Avro{}, registry(ContentID, 3), nil, append([]byte{1}, make([]byte, 30)...), nil, "GUID"},
		{"empty", Avro{}, registry(ContentID, 3), nil, []byte{}, nil, "no Avro"},
		{"short", Avro{}, registry(ContentID, 3), nil, []byte{0, 0, 0, 0}, nil, "fewer bytes"},
		{"short of apicurio", Avro{}, registry(ContentID, 3), nil, []byte{0, 0, 0, 0, 0, 0, 0, 3}, nil, "fewer bytes"},
		{"a schema that is none", Avro{}, schemasOf{{ContentID, 3}: {`{"type":"record"}`}}, nil, confluentFrame(3, value), nil, "schema 3: the schema: a record without name"},
		{"a schema of another thing", Avro{}, schemasOf{{ContentID, 3}: {`"string"`}}, nil, confluentFrame(3, []byte{2, 'x'}), nil, "the schema is no record"},
	} {
		for _, format := range []string{DebeziumAvro, Auto} {
			d, err := New(format, Options{Avro: c.a, Schemas: c.schemas})
			if err != nil {
				t.Fatal(err)
			}
			var ch change.Change
			err = d.Decode(&change.Record{Key: c.key, Value: c.value, Headers: c.headers}, &change.Arena{}, &ch)
			var e *Error
			if c.fault != "" {
				if !errors.As(err, &e) || format == DebeziumAvro && !strings.Contains(err.Error(), c.fault) || d.Format() != map[string]string{DebeziumAvro: DebeziumAvro}[format] {
					t.Errorf("%s as %s: %v, want %s", c.name, format, err, c.fault)
				}
				continue
			}
			if err != nil || d.Format() != DebeziumAvro || ch.After[0] != schema.IntValue(5) || ch.After[1] != schema.StringValue("x") ||
				ch.Key[0] != schema.IntValue(5) || ch.KeyColumns.List[0].Name != "id" {
				t.Errorf("%s as %s: %+v, %v", c.name, format, ch, err)
			}
		}
	}
	d, err := New(Auto, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err = d.Decode(&change.Record{Value: confluentFrame(3, value)}, &change.Arena{}, &change.Change{}); err == nil || !strings.Contains(err.Error(), "set schema_registry.url") {
		t.Errorf("without a registry: %v", err)
	}
	if _, err = New(DebeziumAvro, Options{}); err == nil || !strings.Contains(err.Error(), "schema_registry.url") {
		t.Errorf("the format without a registry: %v", err)
	}
}

// TestAvroChanges: what becomes of which record.
func TestAvroChanges(t *testing.T) {
	text := avroEnvelope(avroRow2)
	typ := parsedAvro(t, text)
	enc := func(v map[string]any, edit func(source map[string]any)) []byte {
		if edit != nil {
			edit(v["source"].(map[string]any))
		}
		return confluentFrame(1, appendAvro(nil, typ, v))
	}
	var ch change.Change
	decode := func(o Options, rec change.Record) error {
		return avroDecoder(t, o, text).Decode(&rec, &change.Arena{}, &ch)
	}
	must := func(o Options, rec change.Record) {
		t.Helper()
		if err := decode(o, rec); err != nil {
			t.Fatal(err)
		}
	}
	must(Options{Source: "shop-1.orders"}, change.Record{Value: enc(avroChange("u", row2(1, "old"), row2(2, "new")), nil), Headers: []change.Header{{Key: "__debezium.newkey"}}})
	if ch.Op != change.Update || ch.Before[0] != schema.IntValue(1) || ch.After[0] != schema.IntValue(2) || ch.Columns != ch.BeforeColumns || !ch.NewKeyHeader ||
		ch.Server != (change.Server{Name: "a-b", ID: 7}) || ch.Position != (change.Position{File: 17, Pos: 4451, Row: 2}) || ch.EventTime != 1657843200123000 || ch.ProcessingTime != 1657843200999 {
		t.Errorf("update: %+v", ch)
	}
	must(Options{KeyColumns: []string{"ID"}}, change.Record{Value: enc(avroChange("u", row2(1, "old"), row2(2, "new")), nil)})
	if len(ch.Before) != 1 || ch.BeforeColumns.List[0].Name != "id" || len(ch.After) != 2 {
		t.Errorf("keys of before: %+v", ch)
	}
	must(Options{}, change.Record{Value: enc(avroChange("d", row2(1, nil), nil), nil)})
	if ch.Op != change.Delete || ch.After != nil || ch.Before[0] != schema.IntValue(1) || ch.Columns != nil {
		t.Errorf("delete: %+v", ch)
	}
	must(Options{EventTime: "column:V"}, change.Record{Value: enc(avroChange("d", row2(1, "2022-07-15 00:00:01"), nil), nil)})
	if ch.EventTime != 1657843201000000 {
		t.Errorf("time of a column: %d", ch.EventTime)
	}
	must(Options{EventTime: "kafka"}, change.Record{Timestamp: 5, Value: enc(avroChange("c", nil, row2(1, nil)), nil)})
	if ch.EventTime != 5000 {
		t.Errorf("the broker's time: %d", ch.EventTime)
	}
	for snapshot, load := range map[string]change.Load{"true": 0, "first": change.FirstRead, "last_in_data_collection": change.LastRead, "incremental": change.Incremental} {
		must(Options{}, change.Record{Value: enc(avroChange("c", nil, row2(1, nil)), func(s map[string]any) { s["snapshot"] = snapshot })})
		if ch.Op != change.Read || ch.Load != load {
			t.Errorf("snapshot %s: %s %d", snapshot, ch.Op, ch.Load)
		}
	}
	must(Options{}, change.Record{Value: enc(avroChange("t", nil, nil), nil)})
	if ch.Op != change.Truncate || ch.After != nil || !ch.HasPosition {
		t.Errorf("truncate: %+v", ch)
	}
	for name, rec := range map[string]change.Record{
		"a message":      {Value: enc(avroChange("m", nil, nil), nil)},
		"another table":  {Value: enc(avroChange("c", nil, row2(1, nil)), func(s map[string]any) { s["table"] = nil })},
		"another schema": {Value: enc(avroChange("c", nil, row2(1, nil)), func(s map[string]any) { s["db"] = "shop_1" })},
	} {
		if must(Options{Source: "shop-1.orders"}, rec); ch.Op != change.Filtered {
			t.Errorf("%s: %+v", name, ch)
		}
	}
	key := `{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}`
	keyed := Options{Tombstones: "delete", Schemas: schemasOf{{ContentID, 1}: {text}, {ContentID, 2}: {key}}}
	for i, rec := range []change.Record{{Key: confluentFrame(2, []byte{10})}, {Key: confluentFrame(2, []byte{10}), Value: enc(avroChange("d", nil, nil), nil)}} {
		if must(keyed, rec); ch.Op != []change.Op{change.Tombstone, change.Delete}[i] || ch.Key[0] != schema.IntValue(5) || ch.KeyColumns.List[0].Type != schema.Of(schema.Long) {
			t.Errorf("by key: %+v", ch)
		}
	}
	for _, c := range []struct {
		rec    change.Record
		o      Options
		reason Reason
		fault  string
	}{
		{change.Record{}, keyed, ReasonKey, "needs a key: the record has none"},
		{change.Record{Key: confluentFrame(9, []byte{10})}, keyed, ReasonKey, "schema 9: there is no such schema"},
		{change.Record{Key: confluentFrame(2, []byte{10, 0})}, keyed, ReasonKey, "text behind"},
		{change.Record{Key: confluentFrame(1, []byte{10})}, keyed, ReasonKey, "branch 5 of a union of 2"},
		{change.Record{Value: enc(avroChange("d", nil, nil), nil)}, Options{}, ReasonKey, "a delete without before"},
		{change.Record{Value: enc(avroChange("u", nil, nil), nil)}, Options{}, ReasonDecode, "op u without after"},
		{change.Record{Value: enc(avroChange("x", nil, nil), nil)}, Options{}, ReasonDecode, `unknown op "x"`},
		{change.Record{Value: confluentFrame(8, nil)}, Options{}, ReasonSchema, "schema 8: there is no such schema"},
		{change.Record{Value: append(enc(avroChange("t", nil, nil), nil), 0)}, Options{}, ReasonDecode, "1 bytes behind the value"},
		{change.Record{Value: enc(avroChange("c", nil, row2(1, nil)), func(s map[string]any) { s["row"] = -1 })}, Options{}, ReasonDecode, "source.row is -1"},
		{change.Record{Value: enc(avroChange("c", nil, row2(1, nil)), func(s map[string]any) { s["ts_ms"] = math.MaxInt64 })}, Options{}, ReasonDecode, "source.ts_ms"},
	} {
		err := decode(c.o, c.rec)
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.reason || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%v, want %s: %s", err, c.reason, c.fault)
		}
	}
}

// TestAvroOtherRecords: what else a connector writes into its topics.
func TestAvroOtherRecords(t *testing.T) {
	for name, c := range map[string]struct {
		schema string
		value  map[string]any
		fault  string
	}{
		"heartbeat":   {`{"type":"record","name":"Heartbeat","fields":[{"name":"ts_ms","type":"long"}]}`, map[string]any{"ts_ms": 5}, ""},
		"transaction": {`{"type":"record","name":"T","fields":[{"name":"status","type":"string"},{"name":"id","type":"string"},{"name":"ts_ms","type":"long"}]}`, map[string]any{"status": "BEGIN", "id": "x", "ts_ms": 5}, ""},
		"ddl":         {`{"type":"record","name":"D","fields":[{"name":"databaseName","type":["null","string"]},{"name":"ddl","type":["null","string"]}]}`, map[string]any{"ddl": "x"}, ""},
		"another":     {`{"type":"record","name":"F","fields":[{"name":"id","type":"long"},{"name":"__z","type":"string"}]}`, map[string]any{"id": 1, "__z": "c"}, "no envelope"},
		"no source":   {`{"type":"record","name":"F","fields":[{"name":"op","type":"string"}]}`, map[string]any{"op": "c"}, "no source block"},
	} {
		d := avroDecoder(t, Options{}, c.schema)
		var ch change.Change
		err := d.Decode(&change.Record{Value: confluentFrame(1, appendAvro(nil, parsedAvro(t, c.schema), c.value))}, &change.Arena{}, &ch)
		if name == "heartbeat" && ch.ProcessingTime != 5 {
			t.Errorf("the time of a heartbeat is %d", ch.ProcessingTime)
		}
		if c.fault == "" && (err != nil || ch.Op != change.Filtered || d.recognised() != neutral) || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %v, %v", name, ch.Op, err)
		}
	}
}

// TestAvroReferences: a schema that refers to others, and one that changes.
func TestAvroReferences(t *testing.T) {
	value := `{"type":"record","name":"Value","namespace":"x","fields":[` + avroRow2 + `]}`
	source := `{"type":"record","name":"x.Source","fields":[` + avroSourceFields + `]}`
	envelope := `{"type":"record","name":"Envelope","namespace":"x","fields":[{"name":"before","type":["null","Value"]},{"name":"after","type":["null","x.Value"]},{"name":"source","type":{"type":"Source"}},{"name":"op","type":"string"}]}`
	other := avroEnvelope(avroRow2 + `,{"name":"extra","type":["null","string"]}`)
	schemas := schemasOf{{ContentID, 1}: {value, source, envelope}, {ContentID, 2}: {other}, {ContentID, 3}: {avroEnvelope(avroRow2)}}
	d := avroDecoder(t, Options{Schemas: schemas})
	var columns []*change.Columns
	for _, id := range []int64{1, 2, 1, 3} {
		var ch change.Change
		texts := schemas[SchemaID{ContentID, id}]
		rec := change.Record{Value: confluentFrame(uint32(id), appendAvro(nil, parsedAvro(t, texts...), avroChange("c", nil, map[string]any{"id": 1, "v": "x", "extra": "y"})))}
		if err := d.Decode(&rec, &change.Arena{}, &ch); err != nil {
			t.Fatal(err)
		}
		columns = append(columns, ch.Columns)
	}
	if columns[0] != columns[2] || columns[0] != columns[3] || columns[0] == columns[1] || len(columns[1].List) != 3 {
		t.Errorf("columns %v", columns)
	}
}

func TestAvroSchemaFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                      "no JSON",
		`7`:                                      "is no type",
		`"nobody"`:                               `the type "nobody" is not defined`,
		`[]`:                                     "an empty union",
		`["null",["null"]]`:                      "a union directly inside",
		`{"type":"array"}`:                       "is no type",
		`{"type":"fixed","name":"f"}`:            "has no size",
		`{"type":"fixed","name":"f","size":1.5}`: "has no size",
		`{"type":"enum","symbols":["a"]}`:        "without name",
		`{"type":"enum","name":"e","symbols":[1]}`:                                    "symbol that is no text",
		`{"type":"record","name":"r"}`:                                                "has no fields",
		`{"type":"record","name":"r","fields":[{}]}`:                                  "field without name",
		`{"type":"record","name":"r","fields":["x"]}`:                                 "field without name",
		`{"type":{"type":{}}}`:                                                        "is no type",
		`[{"type":"fixed","name":"f","size":1},{"type":"fixed","name":"f","size":1}]`: "defined twice",
		strings.Repeat("[", 20000):                                                    "no JSON",
		`{"type":"record","name":"r","fields":[{"name":"a","type":"x"}]}`:             `r.a: the type "x" is not defined`,
	} {
		if _, err := parseAvro([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	for name, text := range map[string]string{
		"a row that is none":  `{"type":"record","name":"r","fields":[{"name":"after","type":"string"},{"name":"op","type":"string"}]}`,
		"a column twice":      avroEnvelope(`{"name":"a","type":"int"},{"name":"a","type":"int"}`),
		"after twice":         `{"type":"record","name":"r","fields":[{"name":"op","type":"string"},{"name":"op","type":"string"}]}`,
		"a scale that is one": avroEnvelope(`{"name":"a","type":{"type":"bytes","connect.name":"org.apache.kafka.connect.data.Decimal","connect.parameters":{"scale":"x"}}}`),
	} {
		var e *Error
		if err := avroDecoder(t, Options{}, text).Decode(&change.Record{Value: confluentFrame(1, nil)}, &change.Arena{}, &change.Change{}); !errors.As(err, &e) || e.Reason != ReasonSchema {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAvroAllocations: the hot path allocates nothing but the arena's blocks.
func TestAvroAllocations(t *testing.T) {
	d, rec := benchAvro(t, Options{KeyColumns: []string{"id"}})
	arena, out := &change.Arena{}, change.Change{}
	if n := testing.AllocsPerRun(1000, func() {
		if err := d.Decode(&rec, arena, &out); err != nil {
			t.Fatal(err)
		}
	}); n > .5 {
		t.Errorf("%.1f allocations a record", n)
	}
}

// TestAvroText: what is printed of a record that can't be used.
func TestAvroText(t *testing.T) {
	text, key := avroEnvelope(avroRow2), `{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}`
	schemas := schemasOf{{ContentID, 1}: {text}, {ContentID, 2}: {key}}
	value := confluentFrame(1, appendAvro(nil, parsedAvro(t, text), avroChange("x", nil, row2(5, "v"))))
	const want = `{"before":null,"after":{"id":5,"v":"v"},"source":{"name":"a-b","db":"shop-1","table":"orders","ts_ms":1657843200123,"snapshot":"false","server_id":7,"gtid":null,` +
		`"file":"bin.000017","pos":4451,"row":2},"transaction":null,"op":"x","ts_ms":1657843200999}`
	for _, c := range []struct {
		rec               change.Record
		key, value, fault string
	}{
		{change.Record{Key: confluentFrame(2, []byte{10}), Value: value}, `{"id":5}`, want, ""},
		{change.Record{Key: []byte(`{"id":5}`), Value: value}, "", want, ""},
		{change.Record{Key: confluentFrame(3, nil), Value: value}, "", want, "the key: schema 3: there is no such schema"},
		{change.Record{Value: value[:20]}, "", "", "the value: schema 1: avro at byte"},
		{change.Record{Value: append(value[:len(value):len(value)], 1)}, "", "", "1 bytes behind"},
		{change.Record{Value: []byte("text")}, "", "", ""},
	} {
		key, value, err := AvroText(&c.rec, Avro{}, schemas)
		if key != c.key || value != c.value || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q %q %v, want %q %q %q", key, value, err, c.key, c.value, c.fault)
		}
	}
}

// TestAvroFlat: flattened rows, which say by fields with __ what they have lost.
func TestAvroFlat(t *testing.T) {
	const meta = `,{"name":"__deleted","type":["null","string"]},{"name":"__op","type":["null","string"]},{"name":"__db","type":["null","string"]},{"name":"__source_table","type":["null","string"]},` +
		`{"name":"__name","type":["null","string"]},{"name":"__server_id","type":["null","long"]},{"name":"__file","type":["null","string"]},{"name":"__pos","type":["null","long"]},{"name":"__row","type":["null","int"]},` +
		`{"name":"__source_ts_ms","type":["null","long"]},{"name":"__snapshot","type":["null","string"]},{"name":"__ts_ms","type":["null","long"]},{"name":"__other","type":"int"}`
	flat := func(fields string) string {
		return `{"type":"record","name":"Value","fields":[{"name":"id","type":"long"},{"name":"op","type":["null","string"]}` + fields + `]}`
	}
	row := func(more map[string]any) map[string]any {
		v := map[string]any{
			"id": 5, "op": "column", "__deleted": "false", "__op": "u", "__db": "d", "__source_table": "t", "__name": "n", "__server_id": 7, "__file": "b.000003", "__pos": 99, "__row": 1,
			"__source_ts_ms": 1657843200123, "__snapshot": "false", "__ts_ms": 9, "__other": 1,
		}
		maps.Copy(v, more)
		return v
	}
	key := `{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}`
	for _, c := range []struct {
		name, fields string
		value        map[string]any
		o            Options
		op           change.Op
		fault        string
	}{
		{"an update", meta, row(nil), Options{}, change.Update, ""},
		{"by auto", meta, row(nil), Options{Source: "d.t"}, change.Update, ""},
		{"an insert", meta, row(map[string]any{"__op": nil}), Options{}, change.Insert, ""},
		{"a delete", meta, row(map[string]any{"__deleted": "true"}), Options{}, change.Delete, ""},
		{"a delete by __op", meta, row(map[string]any{"__op": "d"}), Options{}, change.Delete, ""},
		{"a read", meta, row(map[string]any{"__op": "r", "__snapshot": "last"}), Options{}, change.Read, ""},
		{"by a pattern", meta, row(nil), Options{Source: "d.t*"}, change.Update, ""},
		{"of a table that the pattern leaves out", meta, row(nil), Options{Source: "d.u*"}, change.Filtered, ""},
		{"where tombstones delete", meta, row(nil), Options{Tombstones: "delete"}, change.Update, ""},
		{"of another table", meta, row(map[string]any{"__db": "e"}), Options{Source: "d.t"}, change.Filtered, ""},
		{"of no table", meta, row(map[string]any{"__db": nil}), Options{Source: "d.t"}, 0, "which table"},
		{"an op that is none", meta, row(map[string]any{"__op": "z"}), Options{}, 0, `unknown __op "z"`},
		{"only __op", `,{"name":"__op","type":"string"}`, row(nil), Options{}, 0, ErrTombstones.Error()},
		{"only __op, chosen", `,{"name":"__op","type":"string"}`, row(nil), Options{Tombstones: "delete"}, change.Update, ""},
		{"__op twice", `,{"name":"__op","type":"string"},{"name":"__op","type":"string"}`, row(nil), Options{}, 0, "twice"},
	} {
		text := flat(c.fields)
		c.o.Schemas = schemasOf{{ContentID, 1}: {text}, {ContentID, 2}: {key}}
		d, err := New(map[bool]string{true: Auto, false: DebeziumAvro}[c.name == "by auto"], c.o)
		if err != nil {
			t.Fatal(err)
		}
		var ch change.Change
		err = d.Decode(&change.Record{Key: confluentFrame(2, []byte{10}), Value: confluentFrame(1, appendAvro(nil, parsedAvro(t, text), c.value))}, &change.Arena{}, &ch)
		var e *Error
		if c.fault != "" {
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || ch.Op != c.op || d.Format() != DebeziumAvro {
			t.Errorf("%s: %s %v", c.name, ch.Op, err)
			continue
		}
		cells, columns := ch.After, ch.Columns
		if c.op == change.Delete {
			cells, columns = ch.Before, ch.BeforeColumns
		}
		switch {
		case c.op == change.Filtered:
		case len(columns.List) != 2 || columns.List[1].Name != "op" || cells[0] != schema.IntValue(5) || cells[1] != schema.StringValue("column") || ch.Key[0] != schema.IntValue(5):
			t.Errorf("%s: %+v", c.name, ch)
		case c.o.Tombstones == "delete":
			if ch.HasPosition || ch.Position != (change.Position{}) {
				t.Errorf("%s: it has the place %+v, and tombstones have none", c.name, ch.Position)
			}
		case c.fields == meta && (ch.Position != (change.Position{File: 3, Pos: 99, Row: 1}) || ch.EventTime != 1657843200123000 || ch.Server != (change.Server{Name: "n", ID: 7}) || ch.ProcessingTime != 9):
			t.Errorf("%s: %+v", c.name, ch)
		case c.fields != meta && (ch.HasPosition || ch.EventTime != 0):
			t.Errorf("%s: %+v", c.name, ch)
		}
	}
}

// TestAvroKept: a stream whose every record has another schema fills no memory.
func TestAvroKept(t *testing.T) {
	schemas := schemasOf{}
	large := avroEnvelope(`{"name":"id","type":"long","doc":"` + strings.Repeat("x", 1<<20) + `"}`)
	small := avroEnvelope(`{"name":"id","type":"long"}`)
	for id := range int64(3 * maxCached) {
		schemas[SchemaID{ContentID, 1 + id}] = []string{small}
		if id < 40 {
			schemas[SchemaID{ContentID, 1 + id}] = []string{large}
		}
	}
	d := avroDecoder(t, Options{Schemas: schemas})
	value := appendAvro(nil, parsedAvro(t, small), avroChange("c", nil, map[string]any{"id": 1}))
	columns := map[*change.Columns]bool{}
	for id := range uint32(3 * maxCached) {
		var c change.Change
		if err := d.Decode(&change.Record{Value: confluentFrame(1+id, value)}, &change.Arena{}, &c); err != nil {
			t.Fatal(err)
		}
		columns[c.Columns] = true
		if len(d.values) > maxCached || d.kept > maxCachedBytes {
			t.Fatalf("%d schemas of %d bytes are kept", len(d.values), d.kept)
		}
	}
	if len(columns) != 1 {
		t.Errorf("%d shapes of one row", len(columns))
	}
}
