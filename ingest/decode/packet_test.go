package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gscd-io/gscd/ingest/change"
)

// What a test writes as packets, with the encoder of protobuf's own library.

type packetColumn struct {
	name, value, mysqlType string
	key, null              bool
}

type packetRow struct{ before, after []packetColumn }

type packetEntry struct {
	schema, table, file, gtid string
	offset, server, at        int64
	kind, event               int // 0: left out
	ddl                       bool
	sql                       string
	rows                      []packetRow
	props                     map[string]string
}

func (c packetColumn) encode() (b []byte) {
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	b = protowire.AppendVarint(b, 12)
	b = appendString(b, 3, c.name)
	b = appendFlag(b, 4, c.key)
	b = appendFlag(b, 5, true)
	b = appendFlag(b, 6, c.null)
	if !c.null && c.value != "" {
		b = appendString(b, 8, c.value)
	}
	return appendString(b, 10, c.mysqlType)
}

func appendString(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func appendNumber(b []byte, n protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
}

func appendFlag(b []byte, n protowire.Number, set bool) []byte {
	return appendNumber(b, n, int64(protowire.EncodeBool(set)))
}

func (e packetEntry) encode() []byte {
	header := appendNumber(nil, 1, 1)
	header = appendString(header, 2, e.file)
	header = appendNumber(header, 3, e.offset)
	header = appendNumber(header, 4, e.server)
	header = appendString(header, 5, "UTF-8")
	header = appendNumber(header, 6, e.at)
	header = appendNumber(header, 7, 2)
	header = appendString(header, 8, e.schema)
	header = appendString(header, 9, e.table)
	for _, key := range slices.Sorted(maps.Keys(e.props)) {
		pair := appendString(appendString(nil, 1, key), 2, e.props[key])
		header = appendString(header, 12, string(pair))
	}
	if e.gtid != "" {
		header = appendString(header, 13, e.gtid)
	}
	content := appendNumber(nil, 1, 77)
	if e.event != 0 {
		header = appendNumber(header, 11, int64(e.event))
		content = appendNumber(content, 2, int64(e.event))
	}
	content = appendFlag(content, 10, e.ddl)
	content = appendString(content, 11, e.sql)
	for _, row := range e.rows {
		var b []byte
		for _, c := range row.before {
			b = appendString(b, 1, string(c.encode()))
		}
		for _, c := range row.after {
			b = appendString(b, 2, string(c.encode()))
		}
		content = appendString(content, 12, string(b))
	}
	out := appendString(nil, 1, string(header))
	if e.kind != 0 {
		out = appendNumber(out, 2, int64(e.kind))
	}
	return appendString(out, 3, string(content))
}

func packetOf(entries ...packetEntry) []byte {
	messages := appendNumber(nil, 1, 5)
	for _, e := range entries {
		messages = appendString(messages, 2, string(e.encode()))
	}
	return appendString(appendNumber(nil, 3, 7), 5, string(messages))
}

// packetRows decodes every change of a packet, and each again alone.
func packetRows(t *testing.T, o Options, value []byte) ([]change.Change, error) {
	t.Helper()
	return everyRow(t, CanalProtobuf, o, change.Record{Value: value, Timestamp: 1_700_000_000_000}, nil)
}

func col(name, mysqlType, value string) packetColumn {
	return packetColumn{name: name, mysqlType: mysqlType, value: value}
}

func keyCol(name, mysqlType, value string) packetColumn {
	return packetColumn{name: name, mysqlType: mysqlType, value: value, key: true}
}

func TestPacketRows(t *testing.T) {
	begin := packetEntry{kind: 1, file: "mysql-bin.000042", offset: 400, at: 1657936800000}
	update := packetEntry{
		schema: "shop", table: "t", file: "mysql-bin.000042", offset: 468, server: 7, at: 1657936800000, kind: 2, event: 2,
		gtid: "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-57", props: map[string]string{"rowsCount": "2", "curtGtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:57"},
		rows: []packetRow{
			{[]packetColumn{keyCol("id", "int unsigned", "1"), col("v", "varchar(9)", "b")}, []packetColumn{keyCol("id", "int unsigned", "1"), col("v", "varchar(9)", "")}},
			{[]packetColumn{keyCol("id", "int unsigned", "2"), col("v", "varchar(9)", "b")}, []packetColumn{keyCol("id", "int unsigned", "4294967295"), {name: "v", mysqlType: "varchar(9)", null: true}}},
		},
	}
	other := update
	other.table, other.offset = "u", 600
	gone := update
	gone.event, gone.offset = 3, 700
	gone.rows = []packetRow{{before: update.rows[0].before}}
	bare := update // what a writer leaves out: rows, and an update
	bare.kind, bare.event, bare.offset, bare.rows = 0, 0, 800, update.rows[:1]
	emptied := packetEntry{schema: "shop", table: "t", file: "mysql-bin.000042", offset: 900, server: 7, at: 1657936801000, kind: 2, event: 8, ddl: true, sql: "TRUNCATE TABLE t"}

	got, err := packetRows(t, Options{Source: "shop.t", KeyColumns: []string{"id"}}, packetOf(begin, update, other, gone, bare, emptied, packetEntry{kind: 3}))
	if err != nil || len(got) != 7 {
		t.Fatalf("%d changes, %v", len(got), err)
	}
	type row = map[string]string
	for i, want := range []struct {
		op                 change.Op
		pos                change.Position
		after, before, key row
	}{
		{change.Update, change.Position{File: 42, Pos: 468}, row{"id": "1", "v": ""}, row{"id": "1"}, row{"id": "1"}},
		{change.Update, change.Position{File: 42, Pos: 468, Row: 1}, row{"id": "4294967295", "v": show(typed{})}, row{"id": "2"}, row{"id": "4294967295"}},
		{op: change.Filtered}, {op: change.Filtered},
		{change.Delete, change.Position{File: 42, Pos: 700}, nil, row{"id": "1"}, row{"id": "1"}},
		{change.Update, change.Position{File: 42, Pos: 800}, row{"id": "1", "v": ""}, row{"id": "1"}, row{"id": "1"}},
		{op: change.Truncate, pos: change.Position{File: 42, Pos: 900}},
	} {
		c := &got[i]
		if c.Op != want.op || c.Position != want.pos || !reflect.DeepEqual(cellsOf(c.Columns, c.After), want.after) ||
			!reflect.DeepEqual(cellsOf(c.BeforeColumns, c.Before), want.before) || !reflect.DeepEqual(cellsOf(c.KeyColumns, c.Key), want.key) {
			t.Errorf("change %d: %+v\nafter %v before %v key %v", i, c, cellsOf(c.Columns, c.After), cellsOf(c.BeforeColumns, c.Before), cellsOf(c.KeyColumns, c.Key))
		}
	}
	c := &got[1]
	if c.EventTime != 1657936800_000_000 || c.Server.ID != 7 || !c.HasPosition || c.GTID != "3e11fa47-71ca-11e1-9e33-c80aa9429562:57" || c.Columns.List[0].Type.String() != "long" {
		t.Errorf("%+v", c)
	}
	// TiCDC names no file: the order of rows is that of the record.
	update.file, update.offset, update.props, update.gtid = "", 0, nil, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-57"
	got, err = packetRows(t, Options{}, packetOf(update))
	if err != nil || len(got) != 2 || got[1].HasPosition || got[1].Position.Row != 1 || got[1].GTID != "" {
		t.Errorf("without a file: %+v, %v", got, err)
	}
}

func TestPacketKinds(t *testing.T) {
	row := packetRow{after: []packetColumn{keyCol("id", "int", "1")}}
	insert := packetEntry{schema: "shop", table: "t", kind: 2, event: 1, at: 1, rows: []packetRow{row}}
	with := func(change func(e *packetEntry)) packetEntry {
		e := insert
		change(&e)
		return e
	}
	packet := func(kind, compression int64, body string) []byte {
		return appendString(appendNumber(appendNumber(nil, 3, kind), 4, compression), 5, body)
	}
	body := func(e packetEntry) string { return string(appendString(nil, 2, string(e.encode()))) }
	for _, c := range []struct {
		name  string
		value []byte
		op    change.Op
		fault string
	}{
		{"insert", packetOf(insert), change.Insert, ""},
		{"no entries", packetOf(), change.Filtered, ""},
		{"marks", packetOf(packetEntry{kind: 1}, packetEntry{kind: 3}, packetEntry{kind: 4}, packetEntry{kind: 5}), change.Filtered, ""},
		{"heartbeat", appendNumber(nil, 3, 11), change.Filtered, ""},
		{"DDL", packetOf(with(func(e *packetEntry) { e.event, e.ddl, e.sql, e.rows = 5, true, "ALTER TABLE t ADD x INT", nil })), change.Filtered, ""},
		{"a statement beside its rows", packetOf(with(func(e *packetEntry) { e.event, e.sql, e.rows = 7, "UPDATE t SET v = 1", nil })), change.Filtered, ""},
		{"a statement in their place", packetOf(with(func(e *packetEntry) { e.event, e.sql, e.rows = 2, "UPDATE t SET v = 1", nil })), 0, "binlog_format"},
		{"no rows", packetOf(with(func(e *packetEntry) { e.rows = nil })), 0, "no rows"},
		{"an empty row", packetOf(with(func(e *packetEntry) { e.rows = []packetRow{{}} })), 0, "no rows"},
		{"rows of DDL", packetOf(with(func(e *packetEntry) { e.event = 5 })), 0, "rows in an event of type 5"},
		{"an unknown entry", packetOf(with(func(e *packetEntry) { e.kind = 9 })), 0, "unknown type 9"},
		{"no name", packetOf(with(func(e *packetEntry) { e.rows = []packetRow{{after: []packetColumn{{}}}} })), 0, "without name"},
		{"a byte 0", packetOf(with(func(e *packetEntry) { e.rows = []packetRow{{after: []packetColumn{{name: "a\x00b"}}}} })), 0, "byte 0"},
		{"a column twice", packetOf(with(func(e *packetEntry) {
			e.rows = []packetRow{{after: []packetColumn{col("a", "", "1"), col("a", "", "2")}}}
		})), 0, "twice"},
		{"not UTF-8", packetOf(with(func(e *packetEntry) { e.rows = []packetRow{{after: []packetColumn{col("a", "", "\xff")}}} })), 0, "not UTF-8"},
		{"a time out of range", packetOf(with(func(e *packetEntry) { e.at = 1 << 62 })), 0, "out of range"},
		{"compressed", packet(7, 3, body(insert)), 0, "compressed"},
		{"not compressed", packet(7, 1, body(insert)), change.Insert, ""},
		{"another packet", packet(3, 0, ""), 0, "its type is 3"},
		{"a field twice", append(packetOf(insert), packetOf(insert)...), 0, "field 3 twice"},
		{"an event that contradicts itself", bytes.Replace(packetOf(insert), []byte{11 << 3, 1}, []byte{11 << 3, 3}, 1), 0, "the header says event 3"},
		{"a gigabyte", appendNumber(nil, 3, 7)[:2:2], 0, ""},
		{"json", []byte(`{"type":"INSERT"}`), 0, "no packet of Canal"},
	} {
		if c.name == "a gigabyte" {
			c.value, c.fault = protowire.AppendVarint(protowire.AppendTag(c.value, 5, protowire.BytesType), 1<<30), "longer than what it is in"
		}
		got, err := packetRows(t, Options{Source: "shop.t"}, c.value)
		var e *Error
		switch {
		case c.fault == "" && (err != nil || got[0].Op != c.op):
			t.Errorf("%s: %+v, %v", c.name, got, err)
		case c.fault != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
}

// flatSample is a flat message of which every cell is text, and the packet that
// says the same; nil where it is no change of rows.
func flatSample(t *testing.T, sample []byte) (flat, packet []byte) {
	t.Helper()
	var m map[string]any
	exact := json.NewDecoder(bytes.NewReader(sample))
	exact.UseNumber()
	if err := exact.Decode(&m); err != nil {
		t.Fatalf("%s: %v", sample, err)
	}
	events := map[string]int{"INSERT": 1, "ROW": 1, "UPDATE": 2, "DELETE": 3}
	kind, _ := m["type"].(string)
	data, _ := m["data"].([]any)
	if events[kind] == 0 || len(data) == 0 {
		return nil, nil
	}
	old, _ := m["old"].([]any)
	for _, list := range [][]any{data, old} {
		for _, row := range list {
			cells, _ := row.(map[string]any)
			for name, cell := range cells {
				if _, ok := cell.(string); !ok && cell != nil {
					cells[name] = fmt.Sprint(cell)
				}
			}
		}
	}
	types, _ := m["mysqlType"].(map[string]any)
	keys, _ := m["pkNames"].([]any)
	e := packetEntry{kind: 2, event: events[kind]}
	e.schema, _ = m["database"].(string)
	e.table, _ = m["table"].(string)
	if at, ok := m["es"].(json.Number); ok {
		e.at, _ = at.Int64()
	}
	columns := func(cells map[string]any) (out []packetColumn) {
		for _, name := range slices.Sorted(maps.Keys(cells)) {
			c := packetColumn{name: name, key: slices.Contains(keys, any(name)), null: cells[name] == nil}
			c.value, _ = cells[name].(string)
			c.mysqlType, _ = types[name].(string)
			out = append(out, c)
		}
		return out
	}
	for i, cells := range data {
		now := cells.(map[string]any)
		row := packetRow{after: columns(now)}
		if kind == "DELETE" {
			row = packetRow{before: row.after}
		}
		if kind == "UPDATE" && i < len(old) {
			was := maps.Clone(now)
			changed, _ := old[i].(map[string]any)
			maps.Copy(was, changed)
			row.before = columns(was)
		}
		e.rows = append(e.rows, row)
	}
	flat, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return flat, packetOf(e)
}

// flatSamples calls f with every flat message of the shared data.
func flatSamples(t *testing.T, f func(flat, packet []byte)) {
	t.Helper()
	for _, dir := range []string{"canal-json", "ticdc/canal-json", "flink-cdc"} {
		err := filepath.WalkDir(cdcFile(t, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".jsonl") || strings.Contains(path, "debezium") {
				return err
			}
			for _, sample := range lines(t, path) {
				if flat, packet := flatSample(t, sample); flat != nil {
					f(flat, packet)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPacketsAndFlatMessages: both forms of one message give the same rows.
func TestPacketsAndFlatMessages(t *testing.T) {
	samples, rows := 0, 0
	flatSamples(t, func(flat, packet []byte) {
		samples++
		o := Options{Canal: Canal{Timezone: time.UTC}}
		want, wantErr := decodeRows(t, o, string(flat))
		got, err := packetRows(t, o, packet)
		if (err == nil) != (wantErr == nil) || len(got) != len(want) {
			t.Fatalf("%s:\n%d rows, %v; flat %d, %v", flat, len(got), err, len(want), wantErr)
		}
		for i := range got {
			rows++
			g, w := &got[i], &want[i]
			for _, pair := range [][2]any{
				{g.Op, w.Op},
				{g.EventTime, w.EventTime},
				{named(g.Columns, g.After), named(w.Columns, w.After)},
				{named(g.BeforeColumns, g.Before), named(w.BeforeColumns, w.Before)},
				{named(g.KeyColumns, g.Key), named(w.KeyColumns, w.Key)},
			} {
				if !reflect.DeepEqual(pair[0], pair[1]) {
					t.Fatalf("%s row %d:\n%+v\nflat %+v", flat, i, pair[0], pair[1])
				}
			}
		}
	})
	if samples < 100 || rows < 120 {
		t.Errorf("%d samples, %d rows", samples, rows)
	}
}

// TestPacketsDamaged: every sample cut at every byte, and with a bit of every byte
// turned, is a Change or an *Error.
func TestPacketsDamaged(t *testing.T) {
	d, err := New(CanalProtobuf, Options{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(value []byte, cut bool) {
		rec := change.Record{Value: value}
		rec.Rows = int32(d.Rows(&rec))
		var c change.Change
		var e *Error
		if err := d.Decode(&rec, &change.Arena{}, &c); err != nil && !errors.As(err, &e) || cut && err == nil {
			t.Fatalf("%x: %v", value, err)
		}
	}
	flatSamples(t, func(_, packet []byte) {
		check(packet, false)
		for i := range packet {
			check(bytes.Clone(packet[:i]), true)
			damaged := bytes.Clone(packet)
			damaged[i] ^= 1 << (i % 8)
			check(damaged, false)
		}
	})
}

// TestPacketAuto: a packet decides the format, what it is not does not.
func TestPacketAuto(t *testing.T) {
	d, err := New(Auto, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var c change.Change
	for _, value := range [][]byte{{0, 0, 0, 0, 7, 1, 2}, []byte("x"), {}, {0x18, 3}} {
		if err := d.Decode(&change.Record{Value: value}, &change.Arena{}, &c); err == nil || d.Format() != "" {
			t.Errorf("%x: %v, format %q", value, err, d.Format())
		}
	}
	rows := []packetRow{{after: []packetColumn{keyCol("id", "int", "1")}}, {after: []packetColumn{keyCol("id", "int", "2")}}}
	rec := &change.Record{Value: packetOf(packetEntry{schema: "s", table: "t", kind: 2, event: 1, rows: rows})}
	if n := d.Rows(rec); n != 2 || d.Format() != CanalProtobuf {
		t.Errorf("%d rows, format %q", n, d.Format())
	}
}

// FuzzPackets: whatever the bytes, a Change or an *Error for each row, its cells are
// of their columns' types, and a row alone says what it says among others.
func FuzzPackets(f *testing.F) {
	rows := []packetRow{
		{[]packetColumn{keyCol("id", "int", "1")}, []packetColumn{keyCol("id", "int", "2"), col("v", "set('a','b')", "3"), {name: "n", null: true}}},
		{[]packetColumn{keyCol("id", "int", "7")}, []packetColumn{keyCol("id", "int", "8"), col("w", "binary(3)", "ÿ"), col("x", "timestamp", "2022-07-16 08:00:00")}},
	}
	e := packetEntry{schema: "s", table: "t", file: "b.000001", offset: 4, kind: 2, event: 2, at: 1, rows: rows, props: map[string]string{"curtGtid": "1-2-3"}}
	f.Add(packetOf(e))
	f.Add(packetOf(packetEntry{kind: 1}, e, packetEntry{kind: 2, event: 8, ddl: true, sql: "TRUNCATE t"}, packetEntry{kind: 3}))
	f.Fuzz(func(t *testing.T, value []byte) {
		d, err := New(CanalProtobuf, Options{KeyColumns: []string{"id"}, Canal: Canal{Timezone: time.UTC}})
		if err != nil {
			t.Fatal(err)
		}
		rec := change.Record{Value: bytes.Clone(value)}
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

func BenchmarkPackets(b *testing.B) {
	e := packetEntry{schema: "shop", table: "orders", file: "mysql-bin.000042", offset: 4, server: 1, at: 1657936800000, kind: 2, event: 1}
	for range 20 {
		e.rows = append(e.rows, packetRow{after: []packetColumn{
			keyCol("id", "bigint", "1234567"), col("customer_id", "int unsigned", "3140818834"), col("status", "enum('new','paid')", "2"),
			col("amount", "decimal(18,4)", "1234567.8901"), col("note", "text", "second order of the week"), col("paid", "tinyint(1)", "1"), col("city", "varchar(20)", "Hangzhou"),
		}})
	}
	benchmarkRows(b, CanalProtobuf, packetOf(e))
}
