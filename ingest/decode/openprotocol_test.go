package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// batchOf writes messages, key and value by turns, as TiCDC puts them on the wire.
func batchOf(parts ...string) change.Record {
	rec := change.Record{Key: binary.BigEndian.AppendUint64(nil, 1), Value: []byte{}, Timestamp: 1_700_000_000_000}
	for i := 0; i < len(parts); i += 2 {
		rec.Key = append(binary.BigEndian.AppendUint64(rec.Key, uint64(len(parts[i]))), parts[i]...)
		rec.Value = append(binary.BigEndian.AppendUint64(rec.Value, uint64(len(parts[i+1]))), parts[i+1]...)
	}
	return rec
}

// openRows decodes every message of a batch, and each again alone.
func openRows(t *testing.T, o Options, rec change.Record) ([]change.Change, error) {
	t.Helper()
	return everyRow(t, OpenProtocol, o, rec, nil)
}

const openKey = `{"ts":434614349185581056,"scm":"shop","tbl":"t","t":1}` // 2022-07-16 02:51:24.974 UTC

func TestOpenProtocolRows(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf(`"id":{"t":3,"h":true,"f":139,"v":%d}`, n) }
	got, err := openRows(t, Options{Source: "shop.t", KeyColumns: []string{"id"}}, batchOf(
		openKey, `{"u":{`+id(1)+`,"v":{"t":15,"f":64,"v":"a"}}}`,
		openKey, `{"u":{`+id(2)+`,"v":{"t":15,"f":64,"v":null}},"p":{`+id(2)+`,"v":{"t":15,"f":64,"v":"b"}}}`,
		openKey, `{"u":{`+id(4294967)+`,"v":{"t":15,"f":64,"v":"c"}},"p":{"id":{"t":3,"h":true,"f":139,"v":3}}}`,
		openKey, `{"d":{`+id(4)+`}}`,
		strings.Replace(openKey, `"t"`, `"u"`, 1), `{"d":{`+id(4)+`}}`,
		`{"ts":434614349185581056,"scm":"shop","tbl":"t","t":2}`, `{"q":"TRUNCATE TABLE t","t":11}`,
		`{"ts":434614349185581056,"scm":"shop","tbl":"t","t":2}`, `{"q":"ALTER TABLE t ADD x INT","t":5}`,
		`{"ts":434614349185581056,"t":3}`, ``,
	))
	if err != nil || len(got) != 8 {
		t.Fatalf("%d changes, %v", len(got), err)
	}
	type row = map[string]string
	at := time.UnixMilli(434614349185581056 >> 18).UnixMicro()
	for i, want := range []struct {
		op                 change.Op
		after, before, key row
	}{
		{change.Insert, row{"id": "1", "v": "a"}, nil, row{"id": "1"}},
		{change.Update, row{"id": "2", "v": show(typed{})}, row{"id": "2"}, row{"id": "2"}},
		{change.Update, row{"id": "4294967", "v": "c"}, row{"id": "3"}, row{"id": "4294967"}},
		{change.Delete, nil, row{"id": "4"}, row{"id": "4"}},
		{op: change.Filtered}, {op: change.Truncate}, {op: change.Filtered}, {op: change.Heartbeat},
	} {
		c := &got[i]
		if c.Op != want.op || !reflect.DeepEqual(cellsOf(c.Columns, c.After), want.after) ||
			!reflect.DeepEqual(cellsOf(c.BeforeColumns, c.Before), want.before) || !reflect.DeepEqual(cellsOf(c.KeyColumns, c.Key), want.key) {
			t.Errorf("change %d: %+v\nafter %v before %v key %v", i, c, cellsOf(c.Columns, c.After), cellsOf(c.BeforeColumns, c.Before), cellsOf(c.KeyColumns, c.Key))
		}
		if c.Op != change.Filtered && c.EventTime != at || c.After != nil && (!c.EventTimeIsCommit || c.Columns.List[0].Type.String() != "long") {
			t.Errorf("change %d: %+v", i, c)
		}
	}
}

// TestOpenProtocolTypes: what TiCDC writes for each type.
func TestOpenProtocolTypes(t *testing.T) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ column, configured, want, fault string }{
		{column: `{"t":1,"f":0,"v":-7}`, want: "-7"}, {column: `{"t":1,"f":128,"v":255}`, want: "255"},
		{column: `{"t":2,"f":0,"v":-32768}`, want: "-32768"}, {column: `{"t":3,"f":128,"v":4294967295}`, want: "4294967295"},
		{column: `{"t":8,"f":128,"v":18446744073709551615}`, want: "18446744073709551615"}, {column: `{"t":8,"f":0,"v":9223372036854775808}`, fault: "too large"},
		{column: `{"t":9,"f":0,"v":8388607}`, want: "8388607"},
		{column: `{"t":4,"f":0,"v":153.125}`, want: "153.125"}, {column: `{"t":5,"f":0,"v":1.5e300}`, want: "1.5e+300"},
		{column: `{"t":6,"f":0,"v":null}`, want: show(typed{})}, {column: `{"t":3,"f":0}`, want: show(typed{})},
		{column: `{"t":7,"f":0,"v":"2022-07-16 08:00:00"}`, want: "2022-07-16T00:00:00Z"},
		{column: `{"t":10,"f":0,"v":"2000-01-01"}`, want: "2000-01-01"}, {column: `{"t":12,"f":0,"v":"2015-12-20 23:58:58.123456"}`, want: "2015-12-20 23:58:58.123456"},
		{column: `{"t":11,"f":0,"v":"-23:59:59"}`, want: "-86399000000"}, {column: `{"t":13,"f":0,"v":1970}`, want: "1970"},
		{column: `{"t":15,"f":64,"v":"ü\"\\"}`, want: `ü"\`}, {column: `{"t":254,"f":0,"v":"x"}`, want: "x"},
		{column: `{"t":253,"f":65,"v":"\\x89PNG\\r\\n\\x1a\\nä\\\"\\u200b"}`, want: fmt.Sprintf("0x%x", "\x89PNG\r\n\x1a\nä\"\u200b")},
		{column: `{"t":254,"f":65,"v":"\\xzz"}`, fault: "escapes"}, {column: `{"t":254,"f":65,"v":"\\x61"}`, configured: "binary(3)", want: "0x610000"},
		{column: `{"t":16,"f":64,"v":81}`, want: "81"}, {column: `{"t":16,"f":64,"v":1}`, configured: "bit(1)", want: "true"},
		{column: `{"t":16,"f":64,"v":18446744073709551615}`, fault: "too large"}, {column: `{"t":16,"f":64,"v":18446744073709551615}`, configured: "bit(64)", want: "18446744073709551615"},
		{column: `{"t":245,"f":64,"v":"{\"a\": 1}"}`, want: `{"a": 1}`},
		{column: `{"t":246,"f":64,"v":"129012.1230000"}`, want: "129012.1230000"}, {column: `{"t":246,"f":64,"v":"129012.1230000"}`, configured: "decimal(12,4)", want: "129012.1230"},
		{column: `{"t":247,"f":64,"v":2}`, want: "2"}, {column: `{"t":247,"f":64,"v":2}`, configured: "enum('a','b')", want: "b"},
		{column: `{"t":248,"f":64,"v":3}`, configured: "set('a','b')", want: "a,b"},
		{column: `{"t":252,"f":64,"v":"5rWL6K+VdGV4dA=="}`, want: "测试text"}, {column: `{"t":252,"f":65,"v":"iVBORw0KGgo="}`, want: "0x89504e470d0a1a0a"},
		{column: `{"t":252,"f":64,"v":"/w=="}`, fault: "not UTF-8"}, {column: `{"t":252,"f":64,"v":"x"}`, fault: "not base64"},
		{column: `{"t":15,"v":"YWE="}`, want: "aa"}, {column: `{"t":15,"v":"YWE="}`, configured: "varbinary(9)", want: "0x6161"}, // before there were flags
		{column: `{"t":225,"f":0,"v":"[1,2]"}`, want: "[1,2]"},
		{column: `{"t":15,"f":64,"v":1}`, configured: "int", want: "1"}, {column: `7`, fault: "no object"}, {column: `{"t":3,"t":3,"v":1}`, fault: "twice"},
		{column: `{"t":"3","v":1}`, fault: "an integer"},
	} {
		o := Options{Canal: Canal{Timezone: shanghai}}
		if c.configured != "" {
			spec, err := ParseColumnType(c.configured)
			if err != nil {
				t.Fatal(err)
			}
			o.Columns = map[string]ColumnSpec{"V": spec}
		}
		got, err := openRows(t, o, batchOf(openKey, `{"u":{"v":`+c.column+`}}`))
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.column, err, c.fault)
			}
		case err != nil || cellsOf(got[0].Columns, got[0].After)["v"] != c.want:
			t.Errorf("%s: %+v, %v; want %s", c.column, got, err, c.want)
		}
	}
}

func TestOpenProtocolFaults(t *testing.T) {
	insert := `{"u":{"id":{"t":3,"f":0,"v":1}}}`
	good := batchOf(openKey, insert)
	with := func(change func(rec *change.Record)) change.Record {
		rec := good
		rec.Key, rec.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
		change(&rec)
		return rec
	}
	for _, c := range []struct {
		name, fault string
		rec         change.Record
	}{
		{"no key", "no version 1", with(func(r *change.Record) { r.Key = nil })},
		{"version 2", "no version 1", with(func(r *change.Record) { r.Key[7] = 2 })},
		{"a gigabyte of key", "longer than the batch", with(func(r *change.Record) { binary.BigEndian.PutUint64(r.Key[8:], 1<<30) })},
		{"a gigabyte of value", "longer than the batch", with(func(r *change.Record) { binary.BigEndian.PutUint64(r.Value, 1<<30) })},
		{"a length of 64 bits", "longer than the batch", with(func(r *change.Record) { binary.BigEndian.PutUint64(r.Value, math.MaxUint64) })},
		{"no value", "longer than the batch", with(func(r *change.Record) { r.Value = nil })},
		{"more values than keys", "more values", with(func(r *change.Record) { r.Value = append(r.Value, 0) })},
		{"kind 9", "unknown kind 9", batchOf(`{"ts":1,"t":9}`, insert)},
		{"no kind", "unknown kind 0", batchOf(`{"ts":1}`, insert)},
		{"ts twice", "twice", batchOf(`{"ts":1,"ts":1,"t":1}`, insert)},
		{"neither row nor delete", "neither", batchOf(openKey, `{"p":{}}`)},
		{"both", "neither", batchOf(openKey, `{"u":{},"d":{}}`)},
		{"the key alone", "its key alone", batchOf(strings.Replace(openKey, `"t":1`, `"t":1,"ohk":true`, 1), insert)},
		{"a file", "its key alone", batchOf(strings.Replace(openKey, `"t":1`, `"t":1,"ccl":"/x"`, 1), insert)},
		{"an array", "no object", batchOf(openKey, `[]`)},
		{"deep", "nested too deep", batchOf(openKey, `{"u":`+strings.Repeat(`{"a":`, 200)+`1`+strings.Repeat(`}`, 201))},
		{"text behind", "text behind", batchOf(openKey, insert+`1`)},
		{"a time out of range", "out of range", batchOf(`{"ts":-9000000000000000000,"t":3}`, ``)},
	} {
		_, err := openRows(t, Options{}, c.rec)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
	resolved := batchOf(`{"ts":434614349185581056,"t":3}`, ``)
	for _, value := range [][]byte{nil, {}, resolved.Value} {
		resolved.Value = value
		got, err := openRows(t, Options{Source: "shop.t"}, resolved)
		if err != nil || len(got) != 1 || got[0].Op != change.Heartbeat {
			t.Errorf("resolved with value %x: %+v, %v", value, got, err)
		}
	}
}

// openSample gives the records of TiCDC's documentation as it puts them on the wire.
func openSample(t testing.TB) (out []change.Record) {
	t.Helper()
	for i, line := range lines(t, cdcFile(t, "ticdc/open-protocol/docs-stream.jsonl")) {
		var m struct {
			Partition  int32
			Key, Value json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		value := string(m.Value)
		if value == "null" {
			value = ""
		}
		rec := batchOf(string(m.Key), value)
		rec.Partition, rec.Offset = m.Partition, int64(i)
		out = append(out, rec)
	}
	return out
}

// TestOpenProtocolExpected folds the stream of TiCDC's documentation.
func TestOpenProtocolExpected(t *testing.T) {
	d, err := New(Auto, Options{Source: "test.t1"})
	if err != nil {
		t.Fatal(err)
	}
	table, ops := newFold(), map[change.Op]int{}
	for _, rec := range openSample(t) {
		var c change.Change
		if err := d.Decode(&rec, &change.Arena{}, &c); err != nil {
			t.Fatalf("line %d: %v", rec.Offset+1, err)
		}
		ops[c.Op]++
		table.apply(t, &c)
	}
	if want := map[change.Op]int{change.Insert: 6, change.Delete: 2, change.Filtered: 2, change.Heartbeat: 4}; !reflect.DeepEqual(ops, want) || d.Format() != OpenProtocol {
		t.Errorf("%v of format %q, want %v", ops, d.Format(), want)
	}
	got := map[string]string{}
	for _, row := range table.rows {
		got[show(row["id"])] = show(row["val"])
	}
	if want := map[string]string{"3": "dd", "4": "ee"}; !reflect.DeepEqual(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
}

// TestOpenProtocolDamaged: every record cut at every byte, and with a bit of every
// byte turned, is a Change or an *Error.
func TestOpenProtocolDamaged(t *testing.T) {
	d, err := New(OpenProtocol, Options{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(rec change.Record, cut bool) {
		rec.Rows = int32(d.Rows(&rec))
		var c change.Change
		var e *Error
		if err := d.Decode(&rec, &change.Arena{}, &c); err != nil && !errors.As(err, &e) || cut && err == nil {
			t.Fatalf("%q %q: %v", rec.Key, rec.Value, err)
		}
	}
	samples := append(openSample(t), batchOf(openKey, `{"u":{"id":{"t":3,"h":true,"f":139,"v":1},"v":{"t":253,"f":65,"v":"\\x89"}},"p":{"v":{"t":252,"f":65,"v":"iVBORw0KGgo="}}}`,
		openKey, `{"d":{"id":{"t":3,"h":true,"f":139,"v":1}}}`))
	for _, rec := range samples {
		check(rec, false)
		for _, part := range []*[]byte{&rec.Key, &rec.Value} {
			whole := *part
			for i := range whole {
				*part = bytes.Clone(whole[:i])
				check(rec, !(part == &rec.Value && i == 0 && bytes.Contains(rec.Key, []byte(`"t": 3`))))
				*part = bytes.Clone(whole)
				(*part)[i] ^= 1 << (i % 8)
				check(rec, false)
			}
			*part = whole
		}
	}
}

// FuzzOpenProtocol: whatever the bytes, a Change or an *Error for each row, its cells
// are of their columns' types, and a row alone says what it says among others.
func FuzzOpenProtocol(f *testing.F) {
	rec := batchOf(openKey, `{"u":{"id":{"t":3,"h":true,"f":139,"v":1},"v":{"t":253,"f":65,"v":"\\x89"}},"p":{"v":{"t":252,"f":65,"v":"iVBORw0KGgo="}}}`,
		openKey, `{"d":{"id":{"t":3,"h":true,"f":139,"v":1},"w":{"t":15,"v":"YWE="}}}`)
	f.Add(rec.Key, rec.Value)
	rec = batchOf(`{"ts":434614349185581056,"t":3}`, ``)
	f.Add(rec.Key, rec.Value)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		d, err := New(OpenProtocol, Options{KeyColumns: []string{"id"}, Canal: Canal{Timezone: time.UTC}})
		if err != nil {
			t.Fatal(err)
		}
		rec := change.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)}
		rec.Rows = int32(d.Rows(&rec))
		for ; rec.Row < rec.Rows; rec.Row++ {
			var c, again change.Change
			var e *Error
			if err := d.Decode(&rec, &change.Arena{}, &c); err != nil {
				if !errors.As(err, &e) {
					t.Fatalf("%v is no *Error", err)
				}
				continue
			}
			checkCells(t, c.Columns, c.After)
			checkCells(t, c.BeforeColumns, c.Before)
			checkCells(t, c.KeyColumns, c.Key)
			if err := d.Decode(d.Alone(&rec), &change.Arena{}, &again); err != nil || !sameChange(&c, &again) {
				t.Fatalf("alone: %+v, %v; want %+v", again, err, c)
			}
		}
	})
}
