package decode

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

func decodeMaxwell(t *testing.T, o Options, key, value string) (change.Change, error) {
	t.Helper()
	d, err := New("maxwell", o)
	if err != nil {
		t.Fatal(err)
	}
	rec := change.Record{Value: []byte(value), Timestamp: 1_700_000_000_000}
	if key != "" {
		rec.Key = []byte(key)
	}
	if value == "" {
		rec.Value = nil
	}
	var c change.Change
	err = d.Decode(&rec, &change.Arena{}, &c)
	return c, err
}

// cellsOf prints a row's cells by column name.
func cellsOf(cols *change.Columns, row []schema.Value) map[string]string {
	if cols == nil {
		return nil
	}
	out := map[string]string{}
	for name, c := range named(cols, row) {
		out[name] = show(c)
	}
	return out
}

func TestMaxwellRow(t *testing.T) {
	c, err := decodeMaxwell(t, Options{Source: "shop.user_dim", KeyColumns: []string{"id"}},
		`{"database":"shop","table":"user_dim","pk.id":2}`,
		`{"database":"shop","table":"user_dim","type":"update","ts":1657936800,"xid":7,"xoffset":3,"position":"mysql-bin.000012:3456","gtid":"a:1","server_id":23,`+
			`"data":{"id":2,"name":"Li","city":null},"old":{"id":1,"name":"Lee"}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := change.Position{File: 12, Pos: 3456, Row: 3}
	if c.Op != change.Update || c.EventTime != 1657936800_000_000 || !c.HasPosition || c.Position != want || c.GTID != "a:1" || c.Server.ID != 23 {
		t.Errorf("%+v", c)
	}
	if got := cellsOf(c.Columns, c.After); !reflect.DeepEqual(got, map[string]string{"id": "2", "name": "Li", "city": show(typed{})}) {
		t.Errorf("after %v", got)
	}
	// The key before comes from old, where the key has changed.
	if got := cellsOf(c.BeforeColumns, c.Before); !reflect.DeepEqual(got, map[string]string{"id": "1"}) {
		t.Errorf("before %v", got)
	}
	if got := cellsOf(c.KeyColumns, c.Key); !reflect.DeepEqual(got, map[string]string{"id": "2"}) {
		t.Errorf("key %v", got)
	}
}

// TestMaxwellOrder: rows of one transaction keep their order, whatever their event's place.
func TestMaxwellOrder(t *testing.T) {
	var before change.Position
	for i, members := range []string{
		`"position":"b.000001:100","xoffset":0`,
		`"position":"b.000001:100","xoffset":1`,
		`"position":"b.000001:100","commit":true`,
		`"position":"b.000001:250","xoffset":0`,
		`"position":"b.000002:4","commit":true`,
	} {
		c, err := decodeMaxwell(t, Options{}, "", `{"database":"d","table":"t","type":"insert","ts":1,`+members+`,"data":{"id":1}}`)
		if err != nil || !c.HasPosition {
			t.Fatalf("%s: %v, position %v", members, err, c.HasPosition)
		}
		if i > 0 && before.Compare(c.Position) >= 0 {
			t.Errorf("%s: %v is not behind %v", members, c.Position, before)
		}
		before = c.Position
	}
	if before.Row != math.MaxInt32 {
		t.Errorf("the last row of a transaction is at %v", before)
	}
	for _, members := range []string{`"xid":7`, `"position":null`, `"position":"nothing"`, `"position":"relay:4"`, `"position":"log.abc:4"`} {
		c, err := decodeMaxwell(t, Options{}, "", `{"database":"d","table":"t","type":"insert","ts":1,`+members+`,"data":{"id":1}}`)
		if err != nil || c.HasPosition {
			t.Errorf("%s: %v, position %v", members, err, c.Position)
		}
	}
}

func TestMaxwellKey(t *testing.T) {
	row := `{"database":"d","table":"t","type":"delete","ts":1,"data":{"a":1,"b":"x","c":2},`
	for _, c := range []struct {
		key, value string
		want       map[string]string
	}{
		{"", row + `"primary_key_columns":["b", "a"]}`, map[string]string{"a": "1", "b": "x"}},
		{`{"database":"d","table":"t","pk.a":1,"pk.b":"x"}`, row + `"xid":1}`, map[string]string{"a": "1", "b": "x"}},
		{`{"database":"d","table":"t","_uuid":"u"}`, row + `"xid":1}`, nil},
		{`["d","t",[{"a":1}]]`, row + `"xid":1}`, nil},
		{"", row + `"primary_key_columns":[]}`, nil},
	} {
		got, err := decodeMaxwell(t, Options{}, c.key, c.value)
		if cells := cellsOf(got.KeyColumns, got.Key); err != nil || !reflect.DeepEqual(cells, c.want) {
			t.Errorf("%s %s: key %v, %v; want %v", c.key, c.value, cells, err, c.want)
		}
		if cells := cellsOf(got.BeforeColumns, got.Before); len(cells) != 3 || cells["c"] != "2" {
			t.Errorf("before %v", cells)
		}
	}
	c, err := decodeMaxwell(t, Options{Tombstones: "delete"}, `{"database":"d","table":"t","pk.id":7}`, "")
	if got := cellsOf(c.KeyColumns, c.Key); err != nil || c.Op != change.Tombstone || got["id"] != "7" {
		t.Errorf("tombstone: %v, %v %v", err, c.Op, got)
	}
	var e *Error
	if _, err = decodeMaxwell(t, Options{Tombstones: "delete"}, `{"database":"d","table":"t"}`, ""); !errors.As(err, &e) || e.Reason != ReasonKey {
		t.Errorf("a tombstone without key: %v", err)
	}
}

// TestMaxwellTypes: what Maxwell writes for each type, read as the type configured.
func TestMaxwellTypes(t *testing.T) {
	for _, c := range []struct{ typ, cell, want string }{
		{"set('a','b')", `["a","b"]`, "a,b"}, {"set('a','b')", `[ "b" ]`, "b"}, {"set('a')", `[]`, ""}, {"set('a')", `"a"`, "a"},
		{"enum('a','b')", `"b"`, "b"},
		{"json", `{"x": [1, 2.50]}`, `{"x":[1,2.50]}`}, {"json", `"text"`, `"text"`}, {"json", `17`, `17`},
		{"timestamp(6)", `"2012-01-01 22:32:34.123456"`, "2012-01-01T22:32:34.123456Z"},
		{"timestamp", `"2012-01-01T22:32:34+08:00"`, "2012-01-01T14:32:34Z"},
		{"datetime(3)", `"1950-01-01 01:00:00.999"`, "1950-01-01 01:00:00.999"},
		{"date", `"2017-12-31"`, "2017-12-31"}, {"time(6)", `"-12:23:33.123456"`, "-44613123456"}, {"year", `2012`, "2012"},
		{"bigint unsigned", `18446744073709551615`, "18446744073709551615"}, {"decimal(30,4)", `123456789012345678901234.5678`, "123456789012345678901234.5678"},
		{"decimal(6,2)", `"1.50"`, "1.50"}, {"bit(3)", `5`, "5"}, {"bit(1)", `1`, "true"}, {"tinyint(1)", `2`, "2"},
		{"float", `3.14`, "3.14"}, {"binary(4)", `"AAE="`, "0x00010000"}, {"varbinary(4)", `"AAE="`, "0x0001"},
		{"timestamp", `"0000-00-00 00:00:00"`, show(typed{})},
	} {
		spec, err := ParseColumnType(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeMaxwell(t, Options{Columns: map[string]ColumnSpec{"V": spec}}, "", `{"database":"d","table":"t","type":"insert","ts":1,"data":{"v":`+c.cell+`}}`)
		if cells := cellsOf(got.Columns, got.After); err != nil || cells["v"] != c.want {
			t.Errorf("%s %s: %v, %v; want %s", c.typ, c.cell, cells, err, c.want)
		}
	}
}

func TestMaxwellKinds(t *testing.T) {
	of := func(kind, rest string) string {
		return `{"database":"d","table":"t","type":"` + kind + `","ts":1` + rest + `}`
	}
	for _, c := range []struct {
		source, value string
		op            change.Op
		fault         string
	}{
		{"d.t", of("bootstrap-start", `,"data":{}`), change.Filtered, ""},
		{"d.t", of("bootstrap-insert", `,"data":{"id":1},"position":"b.1:4"`), change.Read, ""},
		{"d.t", of("bootstrap-complete", `,"data":{}`), change.Filtered, ""},
		{"d.t", `{"type":"table-alter","database":"d","table":"t","old":{},"def":{},"ts":1657936800123,"sql":"ALTER TABLE t ADD x INT"}`, change.Filtered, ""},
		{"d.t", `{"type":"database-drop","database":"d","ts":1657936800123,"sql":"DROP DATABASE d"}`, change.Filtered, ""},
		{"d.u", of("insert", `,"data":{"id":1}`), change.Filtered, ""},
		{"e.t", of("insert", `,"data":{"id":1}`), change.Filtered, ""},
		{"d.t", of("insert", ""), 0, "encrypt"},
		{"d.t", of("insert", `,"data":[]`), 0, "no data"},
		{"d.t", of("upsert", `,"data":{}`), 0, `unknown type "upsert"`},
		{"d.t", of("insert", `,"data":{"id":1,"id":2}`), 0, `column "id" twice`},
		{"d.t", of("insert", `,"data":{},"data":{}`), 0, "twice in the envelope"},
		{"d.t", of("insert", `,"data":{"id":1},"position":"b.1:x"`), 0, "position is"},
		{"d.t", of("insert", `,"data":{"id":1},"position":"b.1:4","xoffset":-1`), 0, "xoffset is -1"},
		{"d.t", strings.Replace(of("insert", `,"data":{"id":1}`), `"ts":1`, `"ts":1657936800123456789`, 1), 0, "out of range"},
		{"d.t", of("insert", `,"data":{"id":1}`) + "x", 0, "text behind"},
		{"d.t", `{"table":"t"}`, 0, "no record of Maxwell"},
		{"d.t", `[]`, 0, "an array, not an object"},
	} {
		got, err := decodeMaxwell(t, Options{Source: c.source}, "", c.value)
		var e *Error
		switch {
		case c.fault == "" && (err != nil || got.Op != c.op || got.HasPosition):
			t.Errorf("%s: %v, %v, position %v", c.value, got.Op, err, got.HasPosition)
		case c.fault != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v, want %q", c.value, err, c.fault)
		}
	}
	c, err := decodeMaxwell(t, Options{EventTime: "kafka"}, "", of("insert", `,"data":{"id":1}`))
	if err != nil || c.EventTime != 1_700_000_000_000_000 {
		t.Errorf("time of the broker: %v, %v", c.EventTime, err)
	}
	c, err = decodeMaxwell(t, Options{EventTime: "column:at"}, "", of("delete", `,"data":{"id":1,"at":1657936800123}`))
	if err != nil || c.EventTime != 1657936800_123_000 {
		t.Errorf("time of a column: %v, %v", c.EventTime, err)
	}
}
