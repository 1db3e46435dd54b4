package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// historyOf reads a recorded DDL topic.
func historyOf(t testing.TB, file string) *SchemaHistory {
	t.Helper()
	h := NewSchemaHistory("ddl", 300*microsPerSecond)
	for _, rec := range recorded(t, file) {
		if late, err := h.Add(&rec, &Options{}); err != nil || late {
			t.Fatalf("offset %d: late %v, %v", rec.Offset, late, err)
		}
	}
	h.MarkRead()
	return h
}

// TestSchemaTopicDays folds the recorded streams without schemas into the tables as
// the server had them, with the connector's DDL topic alone.
func TestSchemaTopicDays(t *testing.T) {
	for _, c := range []struct {
		csv, file string
		keys      []string
	}{
		{"orders.csv", "s1.shop.orders.jsonl", []string{"id"}},
		{"stock.csv", "s1.shop.stock.jsonl", []string{"warehouse", "sku"}},
	} {
		records, history := recorded(t, c.file), historyOf(t, "s1.jsonl")
		for _, day := range []string{"2022-07-15", "2022-07-16", "2022-07-17", "2022-07-18-partial"} {
			end, err := time.Parse("2006-01-02", day[:10])
			if err != nil {
				t.Fatal(err)
			}
			d, err := New(Auto, Options{History: history})
			if err != nil {
				t.Fatal(err)
			}
			f, arena := newFold(c.keys...), &change.Arena{}
			for _, rec := range records {
				var ch change.Change
				if err := d.Decode(&rec, arena, &ch); err != nil {
					t.Fatalf("partition %d offset %d: %v", rec.Partition, rec.Offset, err)
				}
				if ch.Op == change.Tombstone || ch.EventTime < end.AddDate(0, 0, 1).UnixMicro() {
					f.apply(t, &ch)
				}
			}
			f.check(t, day+"/"+c.csv)
		}
	}
}

// TestSchemaTopicAgainstSchemas: records of forty types, over two ALTERs, have the
// same cells by their own schemas and, without those, by the DDL topic.
func TestSchemaTopicAgainstSchemas(t *testing.T) {
	spec, err := ParseColumnType("bigint unsigned") // what a schema can't tell
	if err != nil {
		t.Fatal(err)
	}
	binary, err := ParseColumnType("binary(4)")
	if err != nil {
		t.Fatal(err)
	}
	own, err := New("debezium-json", Options{Columns: map[string]ColumnSpec{"c_ubig": spec, "c_bin": binary}})
	if err != nil {
		t.Fatal(err)
	}
	byTopic, err := New("debezium-json", Options{History: historyOf(t, "t1.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	payload := func(b []byte) []byte {
		var w struct{ Payload json.RawMessage }
		if b != nil && json.Unmarshal(b, &w) == nil && w.Payload != nil {
			return w.Payload
		}
		return b
	}
	rows, types := 0, map[string]string{}
	for _, rec := range recorded(t, "t1.zoo.alltypes.jsonl") {
		var want, got change.Change
		if err := own.Decode(&rec, &change.Arena{}, &want); err != nil {
			t.Fatal(err)
		}
		rec.Key, rec.Value = payload(rec.Key), payload(rec.Value)
		if err := byTopic.Decode(&rec, &change.Arena{}, &got); err != nil {
			t.Fatalf("offset %d: %v", rec.Offset, err)
		}
		if got.Op != want.Op || got.Op == change.Tombstone {
			if got.Op != want.Op {
				t.Errorf("offset %d: %s, want %s", rec.Offset, got.Op, want.Op)
			}
			continue
		}
		for _, pair := range [][2]map[string]string{
			{cellsOf(got.Columns, got.After), cellsOf(want.Columns, want.After)},
			{cellsOf(got.BeforeColumns, got.Before), cellsOf(want.BeforeColumns, want.Before)},
			{cellsOf(got.KeyColumns, got.Key), cellsOf(want.KeyColumns, want.Key)},
		} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				for name, w := range pair[1] {
					if g := pair[0][name]; g != w {
						t.Errorf("offset %d, column %s: %s, want %s", rec.Offset, name, g, w)
					}
				}
			}
		}
		if got.Columns == nil {
			continue
		}
		rows++
		for i, col := range got.Columns.List {
			w := want.Columns.List[i]
			if col.Type != w.Type {
				types[col.Name] = fmt.Sprintf("%s for %s", col.Type, w.Type)
			}
		}
	}
	// A schema has int16 for both.
	if want := map[string]string{"c_tiny": "byte for short", "c_bool": "byte for short"}; !reflect.DeepEqual(types, want) || rows < 10 {
		t.Errorf("%d rows, types %v, want %v", rows, types, want)
	}
}

// ddlRecord makes a record of a DDL topic.
func ddlRecord(offset int64, server, file, pos, at int64, changes string) *change.Record {
	return &change.Record{Offset: offset, Value: fmt.Appendf(nil,
		`{"source":{"name":"c","server_id":%d,"file":"b.%06d","pos":%d,"ts_ms":%d},"databaseName":"d","ddl":"x","tableChanges":[%s]}`, server, file, pos, at*1000, changes)}
}

func defined(typ string) string {
	return `{"type":"ALTER","id":"\"d\".\"t\"","table":{"columns":[{"name":"id","typeName":"INT","length":11},{"name":"v","typeName":"` + typ + `","length":10,"scale":2}]}}`
}

const dropped = `{"type":"DROP","id":"\"d\".\"t\"","table":null}`

func TestSchemaTopicPlaces(t *testing.T) {
	const day = int64(1657958400)
	h := NewSchemaHistory("c", 300*microsPerSecond)
	for i, rec := range []*change.Record{
		ddlRecord(0, 0, 1, 100, day, defined("INT")), // a snapshot: no server
		ddlRecord(1, 7, 1, 500, day+10, defined("DECIMAL")),
		ddlRecord(2, 7, 1, 900, day+1000, dropped),
		ddlRecord(3, 7, 2, 4, day+1010, defined("VARCHAR")),
		ddlRecord(4, 8, 1, 300, day+20000, defined("DATE")), // another server
	} {
		if late, err := h.Add(rec, &Options{}); err != nil || late {
			t.Fatalf("%d: %v, %v", i, late, err)
		}
	}
	d, err := New("debezium-json", Options{History: h})
	if err != nil {
		t.Fatal(err)
	}
	row := func(connector string, server, file, pos, at int64, cells string) *change.Record {
		return &change.Record{Key: []byte(`{"id":1}`), Value: fmt.Appendf(nil,
			`{"op":"c","after":{"id":1,%s},"source":{"name":%q,"server_id":%d,"file":"b.%06d","pos":%d,"ts_ms":%d,"db":"d","table":"t"}}`, cells, connector, server, file, pos, at*1000)}
	}
	decode := func(rec *change.Record) (string, error) {
		var c change.Change
		if err := d.Decode(rec, &change.Arena{}, &c); err != nil {
			return "", err
		}
		cell := named(c.Columns, c.After)["v"]
		return cell.t.String() + " " + show(cell), nil
	}
	if _, err := decode(row("c", 7, 1, 100, day, `"v":1`)); err == nil || !strings.Contains(err.Error(), "was not read") {
		t.Errorf("before it is read: %v", err)
	}
	h.MarkRead()
	for _, c := range []struct {
		what, want, fault string
		rec               *change.Record
	}{
		{"a read of the snapshot", "integer 5", "", row("c", 0, 1, 100, day, `"v":5`)},
		{"behind the snapshot", "integer 5", "", row("c", 7, 1, 499, day, `"v":5`)},
		{"behind the ALTER", "decimal(10,2) 5.00", "", row("c", 7, 1, 501, day+10, `"v":"AfQ="`)},
		{"behind the DROP", "", "dropped", row("c", 7, 1, 901, day+1000, `"v":1`)},
		{"in the next file", "string 5", "", row("c", 7, 2, 9, day+1010, `"v":"5"`)},
		{"on another server, behind its ALTER", "date 1970-01-02", "", row("c", 8, 1, 301, day+20000, `"v":1`)},
		{"on it in front of its ALTER, long behind the last one of the first", "string 5", "", row("c", 8, 1, 200, day+10000, `"v":"5"`)},
		{"on it near the last one of the first", "", "which came first", row("c", 8, 1, 200, day+1100, `"v":"5"`)},
		{"before everything", "", "no definition", row("c", 7, 1, 99, day, `"v":5`)},
		{"of another connector", "", "no definition", row("x", 7, 1, 499, day, `"v":5`)},
		{"a column that is not defined", "", `column "w" is not in the definition`, row("c", 7, 1, 499, day, `"v":5,"w":1`)},
		{"without a position", "", "no position", row("c", 7, 1, 499, day, `"v":5`)},
	} {
		if c.what == "without a position" {
			c.rec.Value = bytes.Replace(c.rec.Value, []byte(`"b.000001"`), []byte(`""`), 1)
		}
		got, err := decode(c.rec)
		switch {
		case c.fault == "" && (err != nil || got != c.want):
			t.Errorf("%s: %s, %v, want %s", c.what, got, err, c.want)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %s, %v, want %q", c.what, got, err, c.fault)
		}
		if waits := c.fault == "dropped" || c.fault == "no definition" || strings.HasPrefix(c.fault, "column"); errors.Is(err, ErrUndefined) != waits {
			t.Errorf("%s: %v is ErrUndefined: %v", c.what, err, !waits)
		}
	}
	// A statement that comes late, in front of a row that was given an older type.
	h.Clear()
	if _, err := h.Add(ddlRecord(3, 7, 2, 4, day+1010, defined("VARCHAR")), &Options{}); err != nil {
		t.Fatal(err)
	}
	h.MarkRead()
	if got, err := decode(row("c", 7, 2, 9, day+1010, `"v":"5"`)); err != nil || got != "string 5" {
		t.Fatalf("%s, %v", got, err)
	}
	if late, err := h.Add(ddlRecord(5, 7, 2, 8, day+1010, defined("INT")), &Options{}); err != nil || !late {
		t.Errorf("a statement in front of a row: late %v, %v", late, err)
	}
	if got, err := decode(row("c", 7, 2, 9, day+1010, `"v":5`)); err != nil || got != "integer 5" {
		t.Errorf("read again: %s, %v", got, err)
	}
	if late, err := h.Add(ddlRecord(6, 7, 2, 10, day+1010, defined("INT")), &Options{}); err != nil || late {
		t.Errorf("a statement behind the rows: late %v, %v", late, err)
	}
}

func TestSchemaTopicTombstones(t *testing.T) {
	h := NewSchemaHistory("c", 0)
	for i, typ := range []string{"INT", "DECIMAL"} {
		table := strings.Replace(defined(typ), `"INT"`, `"BIGINT UNSIGNED"`, 1)
		if _, err := h.Add(ddlRecord(int64(i), 7, 1, int64(i+1)*100, 1, table), &Options{}); err != nil {
			t.Fatal(err)
		}
	}
	h.MarkRead()
	if _, err := New("debezium-json", Options{History: h, Tombstones: "delete"}); err == nil || !strings.Contains(err.Error(), "source") {
		t.Errorf("tombstones of any table: %v", err)
	}
	d, err := New("debezium-json", Options{History: h, Tombstones: "delete", Source: "d.t"})
	if err != nil {
		t.Fatal(err)
	}
	var c change.Change
	if err := d.Decode(&change.Record{Key: []byte(`{"id":-1}`)}, &change.Arena{}, &c); err != nil || cellsOf(c.KeyColumns, c.Key)["id"] != "18446744073709551615" {
		t.Errorf("%v, %v", cellsOf(c.KeyColumns, c.Key), err)
	}
	if err := d.Decode(&change.Record{Key: []byte(`{"v":1}`)}, &change.Arena{}, &c); err == nil || !strings.Contains(err.Error(), "two types") {
		t.Errorf("a column that had two types: %v", err)
	}
	if _, err := New("maxwell", Options{History: h}); err == nil || !strings.Contains(err.Error(), "no schema topic") {
		t.Errorf("another format: %v", err)
	}
}

// TestSchemaTopicDamaged: a record of the topic cut or damaged is an error or a
// definition, and rows are errors or have cells of their types.
func TestSchemaTopicDamaged(t *testing.T) {
	rec := ddlRecord(0, 7, 1, 100, 1, defined("DECIMAL"))
	whole := rec.Value
	for i := range whole {
		for _, value := range [][]byte{whole[:i], append(append(bytes.Clone(whole[:i]), whole[i]^(1<<(i%8))), whole[i+1:]...)} {
			h := NewSchemaHistory("c", 0)
			if _, err := h.Add(&change.Record{Value: value}, &Options{}); err != nil {
				continue
			}
			if len(value) == i {
				t.Fatalf("%s: taken", value)
			}
			h.MarkRead()
			d, err := New("debezium-json", Options{History: h})
			if err != nil {
				t.Fatal(err)
			}
			var c change.Change
			row := []byte(`{"op":"c","after":{"id":1,"v":"AfQ="},"source":{"name":"c","server_id":7,"file":"b.000001","pos":100,"ts_ms":1000,"db":"d","table":"t"}}`)
			if d.Decode(&change.Record{Value: row}, &change.Arena{}, &c) == nil {
				checkCells(t, c.Columns, c.After)
			}
		}
	}
	for _, value := range []string{"", "null", "{}", `{"source":{},"ddl":"x","tableChanges":[{"id":"d.t"}]}`, `{"source":{},"ddl":"x","tableChanges":[{"id":"\"d\""}]}`, strings.Repeat("[", 100000)} {
		if _, err := NewSchemaHistory("c", 0).Add(&change.Record{Value: []byte(value)}, &Options{}); err == nil {
			t.Errorf("%.60s: taken", value)
		}
	}
	if name, err := parseTableID(`"d""b"."t.x"`); err != nil || name != (tableName{`d"b`, "t.x"}) {
		t.Errorf("%+v, %v", name, err)
	}
}

func TestSchemaTopicTypes(t *testing.T) {
	n := func(v int) *int { return &v }
	for _, c := range []struct {
		column tableColumn
		want   string
	}{
		{tableColumn{Type: "DECIMAL UNSIGNED", Length: n(10), Scale: n(2)}, "decimal(10,2) unsigned"}, {tableColumn{Type: "FLOAT", Length: n(7), Scale: n(4)}, "float(7,4)"},
		{tableColumn{Type: "INT UNSIGNED ZEROFILL", Length: n(10)}, "int(10) unsigned zerofill"}, {tableColumn{Type: "ENUM", Length: n(1)}, "varchar"},
		{tableColumn{Type: "DOUBLE PRECISION"}, "double precision"}, {tableColumn{Type: "TEXT"}, "text"}, {tableColumn{Type: "GEOMETRY", Length: n(1)}, "geometry"},
		{tableColumn{Type: "INT8", Length: n(20)}, "bigint(20)"}, {tableColumn{Type: "TIMESTAMP", Length: n(3)}, "timestamp(3)"}, {tableColumn{Type: "BIT", Length: n(12)}, "bit(12)"},
	} {
		got := c.column.sqlType()
		if _, err := ParseColumnType(got); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", c.column.Type, got, err, c.want)
		}
	}
}

// FuzzSchemaTopic: whatever is in the topic, it is an error or a history by which rows
// are errors or have cells of their columns' types.
func FuzzSchemaTopic(f *testing.F) {
	f.Add(ddlRecord(0, 7, 1, 100, 1, defined("DECIMAL")).Value, []byte(`{"id":1,"v":"AfQ="}`))
	f.Add(ddlRecord(0, 0, 1, 100, 1, dropped).Value, []byte(`{"id":1}`))
	f.Fuzz(func(t *testing.T, value, row []byte) {
		h := NewSchemaHistory("c", 0)
		if _, err := h.Add(&change.Record{Value: value}, &Options{}); err != nil {
			return
		}
		h.MarkRead()
		d, err := New("debezium-json", Options{History: h})
		if err != nil {
			t.Fatal(err)
		}
		var c change.Change
		var e *Error
		rec := &change.Record{Value: fmt.Appendf(nil, `{"op":"c","after":%s,"source":{"name":"c","server_id":7,"file":"b.000001","pos":100,"ts_ms":1000,"db":"d","table":"t"}}`, row)}
		if err := d.Decode(rec, &change.Arena{}, &c); err == nil {
			checkCells(t, c.Columns, c.After)
		} else if !errors.As(err, &e) {
			t.Fatalf("%v is no *Error", err)
		}
	})
}
