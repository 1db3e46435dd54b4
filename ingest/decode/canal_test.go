package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// decodeRows decodes every row of a record, by a decoder of its own.
func decodeRows(t *testing.T, o Options, value string) ([]change.Change, error) {
	t.Helper()
	return everyRow(t, CanalJSON, o, change.Record{Value: []byte(value), Timestamp: 1_700_000_000_000}, func(alone *change.Record, n int) {
		if !json.Valid(alone.Value) || n > 1 && len(alone.Value) >= len(value) {
			t.Fatalf("alone: %s", alone.Value)
		}
	})
}

// everyRow decodes every row of a record, by a decoder of its own, and each again alone,
// which must say the same. also, if not nil, looks at each that is alone, one of n.
func everyRow(t *testing.T, format string, o Options, rec change.Record, also func(alone *change.Record, n int)) ([]change.Change, error) {
	t.Helper()
	d, err := New(format, o)
	if err != nil {
		t.Fatal(err)
	}
	n := d.Rows(&rec)
	out := make([]change.Change, n)
	for i := range out {
		row := rec
		if n > 1 {
			row.Row, row.Rows = int32(i), int32(n)
		}
		if err := d.Decode(&row, &change.Arena{}, &out[i]); err != nil {
			return out[:i], err
		}
		var again change.Change
		alone := d.Alone(&row)
		if n := d.Rows(alone); n != 1 || alone.Row != row.Row {
			t.Fatalf("%q alone has %d rows, the first %d", alone.Value, n, alone.Row)
		}
		if err := d.Decode(alone, &change.Arena{}, &again); err != nil || !sameChange(&out[i], &again) {
			t.Fatalf("%q alone: %+v, %v; want %+v", alone.Value, again, err, out[i])
		}
		if also != nil {
			also(alone, n)
		}
	}
	return out, nil
}

// benchmarkRows decodes all rows of a record again and again.
func benchmarkRows(b *testing.B, format string, value []byte) {
	b.Helper()
	d, err := New(format, Options{KeyColumns: []string{"id"}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		rec := change.Record{Value: bytes.Clone(value)} // or it is known
		arena := &change.Arena{}
		rec.Rows = int32(d.Rows(&rec))
		var c change.Change
		for ; rec.Row < rec.Rows; rec.Row++ {
			if err := d.Decode(&rec, arena, &c); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func canalOf(kind, rest string) string {
	return `{"database":"shop","table":"t","type":"` + kind + `","isDdl":false,"es":1657936800123,"ts":1657936801000,"pkNames":["id"],` +
		`"mysqlType":{"id":"int(11) unsigned","v":"varchar(20)"},"gtid":"",` + rest + `}`
}

func TestCanalRows(t *testing.T) {
	got, err := decodeRows(t, Options{Source: "shop.t", KeyColumns: []string{"id"}},
		canalOf("UPDATE", `"data":[{"id":"1","v":"a"},{"id":"7","v":null}], "old":[{"v":"b"},{"id":"2"}]`))
	if err != nil || len(got) != 2 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	for i, want := range []struct{ after, before, key map[string]string }{
		{map[string]string{"id": "1", "v": "a"}, map[string]string{"id": "1"}, map[string]string{"id": "1"}},
		{map[string]string{"id": "7", "v": show(typed{})}, map[string]string{"id": "2"}, map[string]string{"id": "7"}},
	} {
		c := &got[i]
		if a := cellsOf(c.Columns, c.After); !reflect.DeepEqual(a, want.after) {
			t.Errorf("row %d: after %v", i, a)
		}
		if b := cellsOf(c.BeforeColumns, c.Before); !reflect.DeepEqual(b, want.before) {
			t.Errorf("row %d: before %v", i, b)
		}
		if k := cellsOf(c.KeyColumns, c.Key); !reflect.DeepEqual(k, want.key) {
			t.Errorf("row %d: key %v", i, k)
		}
		if c.Op != change.Update || c.EventTime != 1657936800_123_000 || c.ProcessingTime != 1657936801000 || c.HasPosition || c.Position.Row != int32(i) {
			t.Errorf("row %d: %+v", i, c)
		}
		if id := c.Columns.List[0]; id.Type.String() != "long" || !c.Columns.FromSchema {
			t.Errorf("row %d: %s of type %s", i, id.Name, id.Type)
		}
	}
	// Flink CDC had deleted rows in old.
	got, err = decodeRows(t, Options{}, `{"old":[{"id":8},{"id":9}],"data":null,"type":"DELETE","database":"d","table":"t","pkNames":["id"]}`)
	if err != nil || len(got) != 2 || cellsOf(got[1].BeforeColumns, got[1].Before)["id"] != "9" || got[1].Op != change.Delete {
		t.Errorf("rows in old: %+v, %v", got, err)
	}
}

// TestCanalTypes: what Canal writes for each type, read as the type that it names.
func TestCanalTypes(t *testing.T) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ typ, cell, want, fault string }{
		{typ: "tinyint(1)", cell: `"2"`, want: "2"}, {typ: "boolean", cell: `"1"`, want: "1"}, {typ: "INT(10) UNSIGNED", cell: `"4294967295"`, want: "4294967295"},
		{typ: "int(11)", cell: `"-7"`, want: "-7"}, {typ: "int(11)", cell: `7`, want: "7"}, {typ: "int", cell: `"x"`, fault: "a string where an integer belongs"},
		{typ: "smallint", cell: `"40000"`, fault: "too large"},
		{typ: "bigint(20) unsigned", cell: `"18446744073709551615"`, want: "18446744073709551615"},
		{typ: "decimal(10,2)", cell: `"1.5"`, want: "1.50"}, {typ: "decimal(65,30)", cell: `"1.5"`, want: "1.500000000000000000000000000000"},
		{typ: "decimal", cell: `"1.5"`, want: "1.5"}, // TiCDC names no digits
		{typ: "float", cell: `"9.9"`, want: "9.9"}, {typ: "double", cell: `"1.0E10"`, want: "1e+10"},
		{typ: "bit(1)", cell: `"1"`, want: "true"}, {typ: "bit(10)", cell: `"513"`, want: "513"},
		{typ: "date", cell: `"2022-07-16"`, want: "2022-07-16"}, {typ: "date", cell: `"0000-00-00"`, want: show(typed{})},
		{typ: "datetime(6)", cell: `"2022-07-16 08:00:00.123456"`, want: "2022-07-16 08:00:00.123456"},
		{typ: "timestamp", cell: `"2022-07-16 08:00:00"`, want: "2022-07-16T00:00:00Z"},
		{typ: "time(3)", cell: `"-00:00:01.500"`, want: "-1500000"}, {typ: "year(4)", cell: `"2022"`, want: "2022"},
		{typ: "char(3)", cell: `"\u00fc"`, want: "ü"}, {typ: "json", cell: `"{\"a\": 1}"`, want: `{"a": 1}`},
		{typ: "blob", cell: `"\u0000ÿ\u0080"`, want: "0x00ff80"}, {typ: "binary(4)", cell: `"a"`, want: "0x61000000"}, {typ: "blob", cell: `"中"`, fault: "no byte"},
		{typ: "binary(1)", cell: `"ab"`, fault: "too large"},
		{typ: "point", cell: `"\u0000\u0000\u0000\u0000\u0001\u0001\u0000\u0000\u0000"`, want: "0x0101000000"}, {typ: "point", cell: `"\u0000"`, fault: "too short"},
		{typ: "enum('a','b''c','x,y')", cell: `"2"`, want: "b'c"}, {typ: "enum('a','X,y')", cell: `"2"`, want: "X,y"}, {typ: "enum('a')", cell: `"0"`, want: ""},
		{typ: "enum('a')", cell: `"a"`, want: "a"}, {typ: "enum('a')", cell: `"2"`, fault: "no label"}, {typ: "enum('a')", cell: `"z"`, fault: "no label"},
		{typ: "set('a','b','c')", cell: `"5"`, want: "a,c"}, {typ: "set('a','b')", cell: `"a,b"`, want: "a,b"}, {typ: "set('a')", cell: `"0"`, want: ""},
		{typ: "set('a')", cell: `"2"`, fault: "no label"}, {typ: "set('a')", cell: `"a,z"`, fault: "no label"},
		{typ: "vector(3)", cell: `"text"`, want: "text"}, // not known: as it came
	} {
		typ, err := json.Marshal(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		value := `{"database":"d","table":"t","type":"INSERT","es":1,"mysqlType":{"v":` + string(typ) + `},"data":[{"v":` + c.cell + `}]}`
		got, err := decodeRows(t, Options{Canal: Canal{Timezone: shanghai}}, value)
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s %s: %v, want %q", c.typ, c.cell, err, c.fault)
			}
		case err != nil || cellsOf(got[0].Columns, got[0].After)["v"] != c.want:
			t.Errorf("%s %s: %+v, %v; want %s", c.typ, c.cell, got, err, c.want)
		}
		if c.fault != "" || !strings.Contains(c.typ, "(") {
			continue
		}
		// The configuration says the same where messages have no types.
		spec, err := ParseColumnType(c.typ)
		if err != nil {
			continue
		}
		value = `{"database":"d","table":"t","type":"INSERT","es":1,"data":[{"v":` + c.cell + `}]}`
		got, err = decodeRows(t, Options{Canal: Canal{Timezone: shanghai}, Columns: map[string]ColumnSpec{"v": spec}}, value)
		if err != nil || cellsOf(got[0].Columns, got[0].After)["v"] != c.want {
			t.Errorf("%s %s, configured: %+v, %v; want %s", c.typ, c.cell, got, err, c.want)
		}
	}
	_, err = decodeRows(t, Options{}, `{"database":"d","table":"t","type":"INSERT","es":1,"mysqlType":{"v":"timestamp"},"data":[{"v":"2022-07-16 08:00:00"}]}`)
	if err == nil || !strings.Contains(err.Error(), "needs a zone") {
		t.Errorf("a timestamp without a known zone: %v", err)
	}
}

func TestCanalKinds(t *testing.T) {
	for _, c := range []struct {
		value string
		op    change.Op
		fault string
	}{
		{`{"database":"shop","table":"t","type":"ALTER","isDdl":true,"es":1,"data":null,"sql":"ALTER TABLE t ADD x INT"}`, change.Filtered, ""},
		{`{"database":"shop","table":"","type":"QUERY","isDdl":true,"es":1,"data":null,"sql":"CREATE DATABASE shop"}`, change.Filtered, ""},
		{`{"database":"shop","table":"t","type":"TIDB_WATERMARK","isDdl":false,"es":1,"data":null,"_tidb":{"watermarkTs":434614349185581056}}`, change.Heartbeat, ""},
		{`{"database":"","table":"","type":"TIDB_WATERMARK","isDdl":false,"es":1,"data":null,"_tidb":{"watermarkTs":-1}}`, 0, "out of range"},
		{`{"database":"","table":"","type":"TIDB_WATERMARK","isDdl":false,"es":1,"data":null}`, 0, "without watermarkTs"},
		{canalOf("INSERT", `"data":[{"id":"1"}],"_tidb":{"commitTs":434614349185581056,"onlyHandleKey":true}`), 0, "its key alone"},
		{canalOf("DELETE", `"data":[{"id":"1"}],"_tidb":{"commitTs":434614349185581056,"onlyHandleKey":true}`), change.Delete, ""},
		{`{"database":"shop","table":"t","type":"TRUNCATE","isDdl":true,"es":1,"data":null,"sql":"TRUNCATE TABLE t"}`, change.Truncate, ""},
		{`{"database":"shop","table":"u","type":"TRUNCATE","isDdl":true,"es":1,"data":null,"sql":"TRUNCATE TABLE u"}`, change.Filtered, ""},
		{strings.Replace(canalOf("INSERT", `"data":[{"id":"1"}]`), `"shop"`, `"other"`, 1), change.Filtered, ""},
		{canalOf("ROW", `"data":[{"id":"1"}]`), change.Insert, ""},
		{`{"database":"shop","table":"t","type":"QUERY","isDdl":false,"es":1,"data":null,"sql":"UPDATE t SET v = 1"}`, 0, "binlog_format"},
		{`{"database":"shop","table":"t","type":"UPDATE","isDdl":false,"es":1,"data":null,"sql":"UPDATE t SET v = 1"}`, 0, "binlog_format"},
		{canalOf("INSERT", `"data":[]`), 0, "no rows"},
		{canalOf("INSERT", `"data":null`), 0, "no rows"},
		{canalOf("MERGE", `"data":[{"id":"1"}]`), 0, `unknown type "MERGE"`},
		{canalOf("INSERT", `"data":[1]`), 0, "no row"},
		{canalOf("INSERT", `"data":[{"id":"1"} {"id":"2"}]`), 0, "no comma between rows"},
		{canalOf("INSERT", `"data":[{"id":"1"}],"data":[]`), 0, "twice in the envelope"},
		{strings.Replace(canalOf("INSERT", `"data":[{"id":"1"}]`), "1657936800123", "9223372036854775807", 1), 0, "out of range"},
		{`{"type":"INSERT"}`, 0, "no message of Canal"},
	} {
		got, err := decodeRows(t, Options{Source: "shop.t"}, c.value)
		var e *Error
		switch {
		case c.fault == "" && (err != nil || got[0].Op != c.op):
			t.Errorf("%s: %+v, %v", c.value, got, err)
		case c.fault != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v, want %q", c.value, err, c.fault)
		}
	}
}

func BenchmarkCanal(b *testing.B) {
	var rows []string
	for range 20 {
		rows = append(rows, `{"id":"1234567","customer_id":"3140818834","status":"2","amount":"1234567.8901","note":"second order of the week","paid":"1","city":"Hangzhou"}`)
	}
	value := []byte(`{"database":"shop","table":"orders","type":"INSERT","isDdl":false,"es":1657936800000,"ts":1657936800100,"pkNames":["id"],"old":null,"sql":"",` +
		`"mysqlType":{"id":"bigint","customer_id":"int unsigned","status":"enum('new','paid')","amount":"decimal(18,4)","note":"text","paid":"tinyint(1)","city":"varchar(20)"},` +
		`"data":[` + strings.Join(rows, ",") + `]}`)
	benchmarkRows(b, CanalJSON, value)
}

// BenchmarkCanalStandardLibrary reads the same bytes with encoding/json.
func BenchmarkCanalStandardLibrary(b *testing.B) {
	value := []byte(`{"database":"shop","table":"orders","type":"INSERT","data":[` + strings.Repeat(`{"id":"1234567","customer_id":"3140818834","status":"2","amount":"1234567.8901","note":"second order of the week","paid":"1","city":"Hangzhou"},`, 19) +
		`{"id":"1"}]}`)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		var m map[string]any
		if err := json.Unmarshal(value, &m); err != nil {
			b.Fatal(err)
		}
	}
}
