package decode

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

const src = `"source":{"name":"s","server_id":7,"ts_ms":1657936800000,"file":"mysql-bin.000007","pos":100,"row":2,"db":"shop","table":"user_dim"}`

// decodeOne decodes one record with a new decoder.
func decodeOne(t testing.TB, opts Options, key, value string) (change.Change, error) {
	t.Helper()
	d, err := New("debezium-json", opts)
	if err != nil {
		t.Fatal(err)
	}
	rec := change.Record{Timestamp: 1657936805000}
	if key != "" {
		rec.Key = []byte(key)
	}
	if value != "" {
		rec.Value = []byte(value)
	}
	var c change.Change
	err = d.Decode(&rec, &change.Arena{}, &c)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("%s: %v is no *Error", value, err)
	}
	return c, err
}

func TestOps(t *testing.T) {
	row := `"after":{"id":1}`
	for _, c := range []struct {
		value string
		op    change.Op
		load  change.Load
	}{
		{`{"op":"c",` + row + `,` + src + `}`, change.Insert, 0},
		{`{` + src + `,"before":{"id":1},` + row + `,"op":"u"}`, change.Update, 0},
		{`{"op":"d","before":{"id":1},"after":null,` + src + `}`, change.Delete, 0},
		{`{"op":"t","before":null,"after":null,` + src + `}`, change.Truncate, 0},
		{`{"op":"r",` + row + `,` + src + `}`, change.Read, 0},
		{`{"op":"m","message":{},` + src + `}`, change.Filtered, 0},
		{`{"schema":null,"payload":{"op":"c",` + row + `,` + src + `}}`, change.Insert, 0},
		{`{"payload":{"op":"c",` + row + `,` + src + `}}`, change.Insert, 0},
		{` {"payload" : {"op" : "c" , ` + row + ` , ` + src + ` } , "schema" : {"type":"struct","fields":[]} } `, change.Insert, 0},
		{snapshot("c", `"true"`), change.Read, 0},
		{snapshot("c", `true`), change.Read, 0},
		{snapshot("c", `false`), change.Insert, 0},
		{snapshot("c", `"false"`), change.Insert, 0},
		{snapshot("c", `null`), change.Insert, 0},
		{snapshot("r", `"false"`), change.Read, 0},
		{snapshot("r", `"first"`), change.Read, change.FirstRead},
		{snapshot("r", `"first_in_data_collection"`), change.Read, change.FirstRead},
		{snapshot("r", `"last_in_data_collection"`), change.Read, change.LastRead},
		{snapshot("c", `"last"`), change.Read, change.LastRead},
		{snapshot("r", `"incremental"`), change.Read, change.Incremental},
		{"", change.Tombstone, 0},
		{"null", change.Tombstone, 0},
		{`{"schema":null,"payload":null}`, change.Tombstone, 0},
		{`{"ts_ms":1}`, change.Filtered, 0},
		{`{"schema":{"type":"struct"},"payload":{"ts_ms":1,"ts_us":1,"ts_ns":1}}`, change.Filtered, 0},
		{`{"status":"BEGIN","id":"x:1","ts_ms":1,"event_count":null,"data_collections":null}`, change.Filtered, 0},
		{`{"source":{},"ts_ms":1,"databaseName":"d","schemaName":null,"ddl":"DROP TABLE x","tableChanges":[]}`, change.Filtered, 0},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":["a.b"]}}`, change.Filtered, 0},
	} {
		got, err := decodeOne(t, Options{}, `{"id":1}`, c.value)
		if err != nil || got.Op != c.op || got.Load != c.load {
			t.Errorf("%s: %s, load %d, %v; want %s, load %d", c.value, got.Op, got.Load, err, c.op, c.load)
		}
	}
}

func snapshot(op, flag string) string {
	return `{"op":"` + op + `","after":{"id":1},"source":{"db":"d","table":"t","snapshot":` + flag + `}}`
}

func TestChange(t *testing.T) {
	value := `{"op":"u","before":{"id":1,"name":"A"},"after":{"id":2,"name":"B","big":18446744073709551615,"f":0.10,"no":null,` +
		`"deep":{"k": [1, "a b"]},"gone":"__debezium_unavailable_value","gone64":"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==","yes":true},` + src + `,"ts_ms":1657936800400}`
	c, err := decodeOne(t, Options{}, `{"id":2}`, value)
	if err != nil {
		t.Fatal(err)
	}
	want := []schema.Value{schema.IntValue(2), schema.StringValue("B"), {Kind: schema.Number, S: "18446744073709551615"}, {Kind: schema.Number, S: "0.10"},
		{}, schema.StringValue(`{"k":[1,"a b"]}`), {Kind: schema.Unavailable}, {Kind: schema.Unavailable}, schema.BoolValue(true)}
	if !slices.Equal(c.After, want) {
		t.Errorf("after %v, want %v", c.After, want)
	}
	if c.Columns.FromSchema || c.Columns.List[2] != (change.Column{Name: "big"}) {
		t.Errorf("columns %+v", c.Columns)
	}
	if !slices.Equal(c.Before, []schema.Value{schema.IntValue(1), schema.StringValue("A")}) || !slices.Equal(c.Key, []schema.Value{schema.IntValue(2)}) {
		t.Errorf("before %v, key %v", c.Before, c.Key)
	}
	if c.Server != (change.Server{Name: "s", ID: 7}) || c.Position != (change.Position{File: 7, Pos: 100, Row: 2}) || !c.HasPosition ||
		c.EventTime != 1657936800000000 || c.ProcessingTime != 1657936800400 || c.GTID != "" || c.EventTimeIsCommit {
		t.Errorf("origin %+v", c)
	}
	if c, err = decodeOne(t, Options{KeyColumns: []string{"id"}}, `{"id":2}`, value); err != nil || len(c.Before) != 1 || c.Before[0] != schema.IntValue(1) ||
		len(c.BeforeColumns.List) != 1 || c.BeforeColumns.List[0].Name != "id" || len(c.After) != 9 {
		t.Errorf("before by key %v %+v, %v", c.Before, c.BeforeColumns, err)
	}
}

func TestErrors(t *testing.T) {
	big, err := ParseColumnType("tinyint")
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Columns: map[string]ColumnSpec{"n": big}}
	after := func(row string) string { return `{"op":"c","after":` + row + `,` + src + `}` }
	for _, c := range []struct {
		key, value string
		reason     Reason
		column     string
		says       string
	}{
		{"", `{"op":"u","bef`, ReasonDecode, "", "ends early"},
		{"", ` `, ReasonDecode, "", "ends early"},
		{"", `[1]`, ReasonDecode, "", "an array, not an object"},
		{"", `"text"`, ReasonDecode, "", "a string, not an object"},
		{"", `{} x`, ReasonDecode, "", "text behind"},
		{"", `{}`, ReasonDecode, "", "flattened"},
		{"", `{"id":1,"name":"x","__deleted":"false"}`, ReasonDecode, "", "flattened"},
		{"", `{"type":"a","data":"b","id":1}`, ReasonDecode, "", "flattened"},
		{"", `{"op":"zz","source":{}}`, ReasonDecode, "", `unknown op "zz"`},
		{"", `{"op":1,"source":{}}`, ReasonDecode, "", "unknown op"},
		{"", `{"op":"c","after":{"id":1}}`, ReasonDecode, "", "no source"},
		{"", `{"op":"c","after":{"id":1},"source":null}`, ReasonDecode, "", "no source"},
		{"", `{"op":"c",` + src + `}`, ReasonDecode, "", "op c without after"},
		{"", `{"op":"u","after":"x",` + src + `}`, ReasonDecode, "", "op u without after"},
		{"", `{"op":"c","op":"d","after":{"id":1},` + src + `}`, ReasonDecode, "", "twice in the envelope"},
		{"", `{"op":"c","after":{"id":1},"payload":{"op":"d"},` + src + `}`, ReasonDecode, "", "twice in the envelope"},
		{"", `{"op":"c","after":{"id":1},"source":{"pos":1,"pos":2}}`, ReasonDecode, "", `"pos" twice`},
		{"", after(`{"id":1,"id":2}`), ReasonDecode, "", `"id" twice`},
		{"", after(`{"id":1,"\u0069d":2}`), ReasonDecode, "", `"id" twice`},
		{"", after(`{"":1}`), ReasonDecode, "", "without name"},
		{"", after(`{"n":128}`), ReasonValue, "n", "no byte: too large"},
		{"", after(`{"n":-129}`), ReasonValue, "n", "too small"},
		{"", after(`{"n":99999999999999999999}`), ReasonValue, "n", "too large"},
		{"", after(`{"n":"1"}`), ReasonValue, "n", "a string where an integer belongs"},
		{"", after(`{"n":{}}`), ReasonValue, "n", "an object where"},
		{"", after(`{"n":1.5}`), ReasonValue, "n", "more digits"},
		{"", after(`{"x":"\ud800"}`), ReasonValue, "x", "surrogate"},
		{"", `{"op":"c","after":{"id":1},"source":{"file":"b.1"}}`, ReasonDecode, "", "no pos"},
		{"", `{"op":"c","after":{"id":1},"source":{"file":"b.1","pos":"x"}}`, ReasonDecode, "", "source.pos"},
		{"", `{"op":"c","after":{"id":1},"source":{"file":"b.1","pos":1,"row":-1}}`, ReasonDecode, "", "source.row"},
		{"", `{"op":"c","after":{"id":1},"source":{"server_id":"x"}}`, ReasonDecode, "", "server_id"},
		{"", `{"op":"c","after":{"id":1},"source":{"ts_ms":9223372036854775807}}`, ReasonDecode, "", "out of range"},
		{"", `{"op":"c","after":{"id":1},"source":{"ts_ms":92233720368547758070}}`, ReasonDecode, "", "out of range"},
		{"", `{"op":"d","before":null,` + src + `}`, ReasonKey, "", "needs a key: the record has none"},
		{`"x"`, `{"op":"d","before":null,` + src + `}`, ReasonKey, "", "no JSON object"},
		{`{"n":1`, `{"op":"d","before":null,` + src + `}`, ReasonKey, "", "ends early"},
		{`{"n":300}`, `{"op":"d","before":null,` + src + `}`, ReasonKey, "", `value of column "n"`},
		{`{}`, `{"op":"d","before":null,` + src + `}`, ReasonKey, "", "no columns"},
		{"", `{"schema":{"type":"struct","fields":[{"field":"after","type":"struct","fields":[{"field":"id","type":"int99"}]}]},"payload":{"op":"c","after":{"id":1},` + src + `}}`, ReasonDecode, "", "unknown type"},
		{"", `{"schema":{"type":5},"payload":{}}`, ReasonDecode, "", "schema part"},
	} {
		got, err := decodeOne(t, opts, c.key, c.value)
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.reason || e.Column != c.column || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%+v), want %s %s %q", c.value, err, e, c.reason, c.column, c.says)
		}
		if got.After != nil || got.Key != nil || got.HasPosition {
			t.Errorf("%s: the change is not empty: %+v", c.value, got)
		}
	}
}

// TestKeys: a key that is of no use is an error only where it is needed.
func TestKeys(t *testing.T) {
	value := `{"op":"c","after":{"id":1},` + src + `}`
	for key, want := range map[string]schema.Value{
		`{"id":18446744073709551615}`:          {Kind: schema.Number, S: "18446744073709551615"},
		`{"schema":null,"payload":{"id":"a"}}`: schema.StringValue("a"),
		`{"payload":{"id":3}}`:                 schema.IntValue(3),
		`{"schema":{"type":"struct","fields":[{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"0"},"field":"id"}]},"payload":{"id":"AP//////////"}}`: decimalValue(false, uint128{0, 1<<64 - 1}, nil),
	} {
		c, err := decodeOne(t, Options{}, key, value)
		if err != nil || len(c.Key) != 1 || c.Key[0] != want || c.KeyColumns.List[0].Name != "id" {
			t.Errorf("%s: %v, %v; want %v", key, c.Key, err, want)
		}
	}
	// columns called schema and payload are no wrapper
	c, err := decodeOne(t, Options{}, `{"schema":"a","payload":"b"}`, value)
	if err != nil || len(c.Key) != 2 || c.Key[1] != schema.StringValue("b") {
		t.Errorf("%v, %v", c.Key, err)
	}
	for _, key := range []string{"", "1", "Struct{id=1}", `"a"`, `{"id":`, `{"id":1}}`, `[1]`} {
		if c, err := decodeOne(t, Options{}, key, value); err != nil || c.Key != nil || c.After[0] != schema.IntValue(1) {
			t.Errorf("key %q: %v, %v", key, c.Key, err)
		}
		if c, err := decodeOne(t, Options{Tombstones: "ignore"}, key, ""); err != nil || c.Op != change.Tombstone || c.Key != nil {
			t.Errorf("tombstone of %q: %+v, %v", key, c, err)
		}
		var e *Error
		if _, err := decodeOne(t, Options{Tombstones: "delete"}, key, ""); !errors.As(err, &e) || e.Reason != ReasonKey {
			t.Errorf("tombstone to delete of %q: %v", key, err)
		}
	}
	if c, err := decodeOne(t, Options{Tombstones: "delete"}, `{"id":1}`, "null"); err != nil || c.Op != change.Tombstone || c.Key[0] != schema.IntValue(1) {
		t.Errorf("tombstone to delete: %+v, %v", c, err)
	}
}

func TestSourceFilter(t *testing.T) {
	value := func(source string) string { return `{"op":"c","after":{"id":1},"source":` + source + `}` }
	for _, c := range []struct {
		want, source string
		op           change.Op
	}{
		{"shop.t", `{"db":"shop","table":"t"}`, change.Insert},
		{"shop.t", `{"db":"sh\u006fp","table":"t"}`, change.Insert},
		{"shop.a.b", `{"db":"shop","table":"a.b"}`, change.Insert},
		{"shop.a.b", `{"db":"shop.a","table":"b"}`, change.Insert}, // the text can't tell
		{"shop.t", `{"db":"shop","table":"tt"}`, change.Filtered},
		{"shop.t", `{"db":"shop_","table":""}`, change.Filtered},
		{"shop.t", `{"db":"shop","table":null}`, change.Filtered},
		{"shop.t", `{}`, change.Filtered},
		{"shop.t", `{"db":"other","table":"t","file":"b.1","pos":"no number","ts_ms":1e99}`, change.Filtered},
		{"", `{}`, change.Insert},
	} {
		got, err := decodeOne(t, Options{Source: c.want}, "", value(c.source))
		if err != nil || got.Op != c.op {
			t.Errorf("%s of %s: %s, %v; want %s", c.want, c.source, got.Op, err, c.op)
		}
	}
}

func TestEventTime(t *testing.T) {
	gtid := `"gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:23"`
	for _, c := range []struct {
		source string
		want   int64
		commit bool
	}{
		{`{"ts_ms":1657936800123,"ts_us":1657936800123456,"ts_ns":1657936800123456789}`, 1657936800123456, false},
		{`{"ts_ms":1657936800123,"ts_us":1657936800999456,"ts_ns":1657936800123456789}`, 1657936800123456, false},
		{`{"ts_ms":1657936800123,"ts_us":0,"ts_ns":0}`, 1657936800123000, false},
		{`{"ts_ms":1657936800123}`, 1657936800123000, false},
		{`{"ts_us":1657936800123456}`, 1657936800123456, false},
		{`{"ts_ms":-1,"ts_us":-1}`, -1, false},
		{`{"ts_ms":0}`, 0, false},
		{`{"ts_ms":null}`, 0, false},
		{`{"ts_ms":"1657936800123"}`, 0, false},
		{`{"ts_ms":1657936800.5}`, 0, false},
		{`{"ts_ms":1657933620}`, 1657933620000, false}, // seconds: left to the labels
		{`{}`, 0, false},
		{`{"ts_ms":1657936800123,` + gtid + `}`, 1657936800123000, true},
		{`{"ts_ms":1657936800000,` + gtid + `}`, 1657936800000000, false},
		{`{"ts_ms":1657936800123,"gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23"}`, 1657936800123000, true},
		{`{"ts_ms":1657936800123,"gtid":"0-184054-9"}`, 1657936800123000, false},
		{`{"ts_ms":1657936800123,"gtid":null}`, 1657936800123000, false},
		{`{"ts_ms":1657936800123,"snapshot":"true",` + gtid + `}`, 1657936800123000, false},
	} {
		got, err := decodeOne(t, Options{}, "", `{"op":"c","after":{"id":1},"source":`+c.source+`}`)
		if err != nil || got.EventTime != c.want || got.EventTimeIsCommit != c.commit {
			t.Errorf("%s: %d, commit %v, %v; want %d, %v", c.source, got.EventTime, got.EventTimeIsCommit, err, c.want, c.commit)
		}
	}
	spec := func(text string) map[string]ColumnSpec {
		s, err := ParseColumnType(text)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]ColumnSpec{"at": s}
	}
	for _, c := range []struct {
		opts Options
		row  string
		want int64
	}{
		{Options{EventTime: "kafka"}, `{}`, 1657936805000000},
		{Options{EventTime: "source"}, `{}`, 1657936800000000},
		{Options{EventTime: "column:at"}, `{"at":1657936800123}`, 1657936800123000},
		{Options{EventTime: "column:AT"}, `{"at":"2022-07-16T02:00:00.5Z"}`, 1657936800500000},
		{Options{EventTime: "column:at"}, `{"at":"2022-07-16 10:00:00+08:00"}`, 1657936800000000},
		{Options{EventTime: "column:at", Columns: spec("datetime(6)")}, `{"at":1657936800123456}`, 1657936800123456},
		{Options{EventTime: "column:at", Columns: spec("timestamp")}, `{"at":"2022-07-16T02:00:00Z"}`, 1657936800000000},
		{Options{EventTime: "column:at", Columns: spec("date")}, `{"at":19189}`, 1657929600000000},
		{Options{EventTime: "column:at"}, `{"at":null}`, 0},
		{Options{EventTime: "column:at"}, `{"x":1}`, 0},
	} {
		for _, op := range []string{`"c","after":`, `"d","before":`} {
			c.opts.KeyColumns = []string{"id"}
			got, err := decodeOne(t, c.opts, "", `{"op":`+op+c.row+`,`+src+`}`)
			if err != nil || got.EventTime != c.want {
				t.Errorf("%s of %s%s: %d, %v; want %d", c.opts.EventTime, op, c.row, got.EventTime, err, c.want)
			}
		}
	}
	var e *Error
	if _, err := decodeOne(t, Options{EventTime: "column:at"}, "", `{"op":"c","after":{"at":"soon"},`+src+`}`); !errors.As(err, &e) || e.Reason != ReasonValue || e.Column != "at" {
		t.Errorf("a text that is no time: %v", err)
	}
}

func TestPosition(t *testing.T) {
	for _, c := range []struct {
		source string
		want   change.Position
		has    bool
	}{
		{`{"file":"mysql-bin.000007","pos":23}`, change.Position{File: 7, Pos: 23}, true},
		{`{"file":"mysql-bin.1000000","pos":4,"row":null}`, change.Position{File: 1000000, Pos: 4}, true},
		{`{"file":"a.b.c.12","pos":5,"row":3}`, change.Position{File: 12, Pos: 5, Row: 3}, true},
		{`{"file":"","pos":0,"row":0}`, change.Position{}, false},
		{`{"file":null,"pos":5}`, change.Position{}, false},
		{`{"file":"binlog","pos":5}`, change.Position{}, false},
		{`{"file":"binlog.","pos":5}`, change.Position{}, false},
		{`{"file":"binlog.-1","pos":5}`, change.Position{}, false},
		{`{}`, change.Position{}, false},
	} {
		got, err := decodeOne(t, Options{}, "", `{"op":"c","after":{"id":1},"source":`+c.source+`}`)
		if err != nil || got.Position != c.want || got.HasPosition != c.has {
			t.Errorf("%s: %+v %v, %v", c.source, got.Position, got.HasPosition, err)
		}
	}
}

// TestShared: rows of one shape share their Columns, whatever lies between.
func TestShared(t *testing.T) {
	d, err := New("debezium-json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	schemaOf := func(name string) string {
		fields := `"type":"struct","fields":[{"type":"int64","field":"id"}]`
		return `{"schema":{"type":"struct","name":"` + name + `","fields":[{` + fields + `,"field":"before"},{` + fields + `,"field":"after"}]},"payload":`
	}
	decode := func(value string) *change.Change {
		c := &change.Change{}
		if err := d.Decode(&change.Record{Value: []byte(value)}, &change.Arena{}, c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	row := `{"op":"u","before":{"id":1},"after":{"id":1},` + src + `}`
	plain := decode(row)
	wide := decode(`{"op":"u","after":{"id":1,"x":2},` + src + `}`)
	schema1 := decode(schemaOf("one") + row + `}`)
	schema2 := decode(schemaOf("two") + row + `}`)
	if plain.Columns != plain.BeforeColumns || plain.Columns == wide.Columns || plain.Columns != decode(row).Columns {
		t.Error("plain rows")
	}
	if schema1.Columns == plain.Columns || schema1.Columns != schema2.Columns || schema1.Columns != schema1.BeforeColumns {
		t.Error("rows with schema")
	}
	if got := schema1.Columns.List[0].Type.String(); got != "long" || !schema1.Columns.FromSchema {
		t.Errorf("type %s", got)
	}
	for i := range 3 * maxCached { // a full cache must not matter
		name := strings.Repeat("x", i+1)
		if c := decode(schemaOf(name) + `{"op":"c","after":{"` + name + `":1},` + src + `}}`); c.Columns.List[0].Name != name {
			t.Fatalf("column %q", c.Columns.List[0].Name)
		}
		if c := decode(`{"op":"c","after":{"` + name + `":1},` + src + `}`); c.Columns.List[0].Name != name {
			t.Fatalf("column %q", c.Columns.List[0].Name)
		}
	}
}

func TestAuto(t *testing.T) {
	d, err := New(Auto, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var c change.Change
	for _, step := range []struct{ value, format, fault string }{
		{"", "", ""},
		{`{"ts_ms":1}`, "", ""},
		{`{"database":"d","table":"t","type":"insert"}`, "", fmt.Sprintf("decode: no record of a known format (set format to one of %q): ", Formats()[1:]) + `debezium-json: no envelope: op and source are missing; were the records flattened (ExtractNewRecordState: format debezium-flat)?; debezium-flat: any object could be one, and no member shows it; maxwell: the record has no data`},
		{`{"op":"c","after":{"n":"\ud800"},` + src + `}`, "debezium-json", "value of column"},
		{`{"op":"c","after":{"n":1},` + src + `}`, "debezium-json", ""},
		{`{"database":"d"}`, "debezium-json", "flattened"},
	} {
		rec := change.Record{}
		if step.value != "" {
			rec.Value = []byte(step.value)
		}
		err := d.Decode(&rec, &change.Arena{}, &c)
		if (err == nil) != (step.fault == "") || err != nil && !strings.Contains(err.Error(), step.fault) || d.Format() != step.format {
			t.Errorf("%s: format %q, %v; want %q, %q", step.value, d.Format(), err, step.format, step.fault)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		format string
		opts   Options
		fault  string
	}{
		{"canal", Options{}, fmt.Sprintf("change format %q is unknown, set one of %q", "canal", Formats())},
		{"auto", Options{EventTime: "column:"}, "event time"},
		{"auto", Options{EventTime: "broker"}, "event time"},
		{"auto", Options{Tombstones: "drop"}, "tombstones"},
		{"auto", Options{Debezium: Debezium{Decimals: "hex"}}, "decimals"},
		{"auto", Options{Debezium: Debezium{Unsigned: "wrap"}}, "unsigned"},
		{"auto", Options{Debezium: Debezium{Binary: "hex"}}, "binary"},
		{"auto", Options{Source: "orders"}, "database.table"},
		{"auto", Options{Columns: map[string]ColumnSpec{"a": {}}}, `column "a" has no type`},
	} {
		if _, err := New(c.format, c.opts); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%+v: %v, want %s", c.opts, err, c.fault)
		}
	}
}

// TestAllocations: the hot path allocates nothing but the arena's blocks.
func TestAllocations(t *testing.T) {
	for name, c := range benchCases(t) {
		d, err := New("debezium-json", c.opts)
		if err != nil {
			t.Fatal(err)
		}
		var out change.Change
		arena := &change.Arena{}
		arena.Values(1)
		arena.Bytes(1)
		if got := testing.AllocsPerRun(100, func() { // 101 runs fit the first blocks
			if err := d.Decode(&c.rec, arena, &out); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations a record", name, got)
		}
	}
}

// FuzzDecode: whatever the bytes, a Change or an *Error, the same each time.
func FuzzDecode(f *testing.F) {
	for _, c := range benchCases(f) {
		f.Add(c.rec.Key, c.rec.Value)
	}
	for _, s := range scanSeeds {
		f.Add([]byte(`{"schema":null,"payload":`+s+`}`), []byte(`{"op":"u","before":`+s+`,"after":`+s+`,`+src+`}`))
	}
	f.Add([]byte("1"), []byte(`{"op":"t","source":{"file":"x.9","pos":1}}`))
	decoders := func() (out []Decoder) {
		for _, opts := range []Options{
			{}, {KeyColumns: []string{"id"}, Source: "shop.user_dim", Tombstones: "delete"},
			{Columns: benchColumns(f), EventTime: "column:created_at"},
		} {
			d, err := New("debezium-json", opts)
			if err != nil {
				f.Fatal(err)
			}
			out = append(out, d)
		}
		return out
	}
	warm := decoders()
	f.Fuzz(func(t *testing.T, key, value []byte) {
		rec := change.Record{Key: key, Value: value, Timestamp: 1}
		for i, cold := range decoders() {
			var a, b change.Change
			err := warm[i].Decode(&rec, &change.Arena{}, &a)
			again := cold.Decode(&rec, &change.Arena{}, &b)
			if (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() || !sameChange(&a, &b) {
				t.Fatalf("a warm decoder gives %+v, %v; a cold one %+v, %v", a, err, b, again)
			}
			var e *Error
			if err != nil && !errors.As(err, &e) {
				t.Fatalf("%v is no *Error", err)
			}
			if err == nil {
				checkCells(t, a.Columns, a.After)
				checkCells(t, a.BeforeColumns, a.Before)
				checkCells(t, a.KeyColumns, a.Key)
			}
		}
	})
}

func sameChange(a, b *change.Change) bool {
	encoded := func(c *change.Change) (out []byte) {
		for _, row := range [][]schema.Value{c.Before, c.After, c.Key} {
			for _, v := range row {
				out = v.AppendEncoded(out)
			}
			out = append(out, 0xff)
		}
		return out
	}
	return a.Op == b.Op && a.EventTime == b.EventTime && a.Position == b.Position && a.Load == b.Load && bytes.Equal(encoded(a), encoded(b))
}

// checkCells: a cell has the kind that its column's type names.
func checkCells(t testing.TB, cols *change.Columns, row []schema.Value) {
	if cols == nil {
		if row != nil {
			t.Fatal("cells without columns")
		}
		return
	}
	if len(cols.List) != len(row) {
		t.Fatalf("%d columns, %d cells", len(cols.List), len(row))
	}
	for i, v := range row {
		want := schema.KindOf(cols.List[i].Type)
		if v.Kind != want && v.Kind != schema.Null && v.Kind != schema.Unavailable && want != schema.Null {
			t.Fatalf("column %+v holds kind %d", cols.List[i], v.Kind)
		}
	}
}
