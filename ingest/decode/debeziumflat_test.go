package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// flatMeta is what add.fields=op,db,table,name,server_id,file,pos,row,gtid,source.ts_ms,ts_ms,
// source.snapshot gives.
const flatMeta = `"__db":"shop","__table":"user_dim","__name":"app","__server_id":23,"__file":"mysql-bin.000012","__pos":3456,"__row":2,` +
	`"__gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:23","__source_ts_ms":1657936800123,"__ts_ms":1657936801000`

func TestDebeziumFlat(t *testing.T) {
	typed := `{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},` +
		`{"type":"int64","optional":true,"name":"io.debezium.time.MicroTimestamp","version":1,"field":"at"},` +
		`{"type":"string","optional":true,"field":"__op"},{"type":"string","optional":true,"field":"__deleted"}],"optional":false,"name":"s.Value"}`
	at := change.Position{File: 12, Pos: 3456, Row: 2}
	for _, c := range []struct {
		name, key, value string
		opts             Options
		op               change.Op
		after, before    map[string]string
		time             int64
		position         bool
	}{
		{"created", `{"id":1}`, `{"id":1,"n":"a","__op":"c","__deleted":"false",` + flatMeta + `}`, Options{Source: "shop.user_dim"},
			change.Insert, map[string]string{"id": "1", "n": "a"}, nil, 1657936800123000, true},
		{"updated, bool", `{"id":1}`, `{"id":1,"n":"b","__deleted":false,"__op":"u",` + flatMeta + `}`, Options{}, change.Update, map[string]string{"id": "1", "n": "b"}, nil, 1657936800123000, true},
		{"rewritten delete", `{"id":1}`, `{"id":1,"n":"b","__deleted":"true","__op":"d",` + flatMeta + `}`, Options{KeyColumns: []string{"ID"}},
			change.Delete, nil, map[string]string{"id": "1"}, 1657936800123000, true},
		{"delete by __deleted alone", "", `{"id":1,"__deleted":"true"}`, Options{}, change.Delete, nil, map[string]string{"id": "1"}, 0, false},
		{"read", `{"id":1}`, `{"id":1,"__op":"r","__deleted":"false","__snapshot":"true"}`, Options{}, change.Read, map[string]string{"id": "1"}, nil, 0, false},
		{"read by source.snapshot", `{"id":1}`, `{"id":1,"__deleted":"false","__source_snapshot":"last"}`, Options{}, change.Read, map[string]string{"id": "1"}, nil, 0, false},
		{"source. in the names", `{"id":1}`, `{"id":1,"__op":"u","__deleted":"false","__source_file":"b.000012","__source_pos":3456,"__source_row":2,"__source_ts_ms":5000}`, Options{},
			change.Update, map[string]string{"id": "1"}, nil, 5000000, true},
		{"a file is no place", `{"id":1}`, `{"id":1,"__deleted":"false","__file":"b.000012"}`, Options{}, change.Insert, map[string]string{"id": "1"}, nil, 0, false},
		{"the envelope's time is none", `{"id":1}`, `{"id":1,"__deleted":"false","__ts_ms":5000}`, Options{}, change.Insert, map[string]string{"id": "1"}, nil, 0, false},
		{"nothing but the row", `{"id":1}`, `{"id":1,"payload":{"x":1},"schema":"s"}`, Options{Tombstones: "delete"}, change.Insert,
			map[string]string{"id": "1", "payload": `{"x":1}`, "schema": "s"}, nil, 0, false},
		{"no schema", `{"id":1}`, `{"schema":null,"payload":{"id":1,"__deleted":"false"}}`, Options{}, change.Insert, map[string]string{"id": "1"}, nil, 0, false},
		{"schema", `{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"}]},"payload":{"id":1}}`,
			`{"schema":` + typed + `,"payload":{"id":1,"at":1657936800123456,"__op":"c","__deleted":"false"}}`, Options{}, change.Insert,
			map[string]string{"id": "1", "at": "2022-07-16 02:00:00.123456"}, nil, 0, false},
		{"columns of such a name", `{"id":1}`, `{"id":1,"__op":"x","__v":2,"__w":3,"__deleted":"false"}`,
			Options{Columns: map[string]ColumnSpec{"__op": specOf(t, "text"), "__V": specOf(t, "int")}}, change.Insert,
			map[string]string{"id": "1", "__op": "x", "__v": "2"}, nil, 0, false},
		{"the broker's time", `{"id":1}`, `{"id":1,"__deleted":"false"}`, Options{EventTime: "kafka"}, change.Insert, map[string]string{"id": "1"}, nil, 1_700_000_000_000_000, false},
		{"a column's time", `{"id":1}`, `{"id":1,"at":"2022-07-16 10:00:00+08:00","__deleted":"true"}`, Options{EventTime: "column:at", KeyColumns: []string{"id"}}, change.Delete, nil, map[string]string{"id": "1"}, 1657936800000000, false},
		{"another table", `{"id":1}`, `{"id":1,"__deleted":"false","__db":"shop","__table":"orders"}`, Options{Source: "shop.user_dim"}, change.Filtered, nil, nil, 0, false},
		{"truncate", "", `{"__op":"t","__deleted":"false","__file":"b.000012","__pos":3456,"__row":2}`, Options{}, change.Truncate, nil, nil, 0, true},
		{"tombstone", `{"id":1}`, ``, Options{}, change.Tombstone, nil, nil, 0, false},
		{"tombstone with schema", `{"id":1}`, `{"schema":null,"payload":null}`, Options{Tombstones: "delete"}, change.Tombstone, nil, nil, 0, false},
		{"null", `{"id":1}`, `null`, Options{}, change.Tombstone, nil, nil, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decodeAs(t, DebeziumFlat, c.opts, c.key, c.value)
			if err != nil {
				t.Fatal(err)
			}
			if after, before := cellsOf(got.Columns, got.After), cellsOf(got.BeforeColumns, got.Before); got.Op != c.op || got.EventTime != c.time ||
				!reflect.DeepEqual(after, c.after) || !reflect.DeepEqual(before, c.before) || got.HasPosition != c.position || c.position && got.Position != at {
				t.Errorf("%v at %d %v: after %v, before %v", got.Op, got.EventTime, got.Position, after, before)
			}
			if c.key != "" && got.Op != change.Filtered && cellsOf(got.KeyColumns, got.Key)["id"] != "1" {
				t.Errorf("key %v", got.Key)
			}
		})
	}
	got, err := decodeAs(t, DebeziumFlat, Options{}, "", `{"id":1,"__op":"c","__deleted":"false",`+flatMeta+`}`)
	if err != nil || got.Server != (change.Server{Name: "app", ID: 23}) || got.GTID == "" || !got.EventTimeIsCommit || got.ProcessingTime != 1657936801000 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Where deletes are tombstones, which have no position, no change has one: a stretch that
// is sent twice has to be taken twice, all of it.
func TestDebeziumFlatTombstonesHaveNoPlace(t *testing.T) {
	for choice, want := range map[string]bool{"": true, "ignore": true, "delete": false} {
		got, err := decodeAs(t, DebeziumFlat, Options{Tombstones: choice}, "", `{"id":1,"__op":"c","__deleted":"false",`+flatMeta+`}`)
		if err != nil || got.HasPosition != want || (got.GTID != "") != want || !got.EventTimeIsCommit || got.EventTime != 1657936800123000 {
			t.Errorf("tombstones %q: %+v, %v", choice, got, err)
		}
	}
}

func specOf(t testing.TB, text string) ColumnSpec {
	t.Helper()
	spec, err := ParseColumnType(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// decodeAs decodes one record; an empty text is none.
func decodeAs(t *testing.T, format string, o Options, key, value string) (change.Change, error) {
	t.Helper()
	d, err := New(format, o)
	if err != nil {
		t.Fatal(err)
	}
	rec := change.Record{Timestamp: 1_700_000_000_000}
	if key != "" {
		rec.Key = []byte(key)
	}
	if value != "" {
		rec.Value = []byte(value)
	}
	var c change.Change
	err = d.Decode(&rec, &change.Arena{}, &c)
	return c, err
}

func TestDebeziumFlatFaults(t *testing.T) {
	for _, c := range []struct {
		opts         Options
		value, fault string
	}{
		{Options{}, `{"id":1,"__op":"c"}`, "set tombstones: delete, or ignore"},
		{Options{}, `{"id":1,"__deleted":"false","__op":"x"}`, `unknown __op "x"`},
		{Options{}, `{"id":1,"__deleted":"false","__deleted":"true"}`, "twice in the envelope"},
		{Options{}, `{"id":1,"__deleted":"false","__pos":1,"__source_pos":1}`, "twice in the envelope"},
		{Options{}, `{"id":1,"id":2,"__deleted":"false"}`, `column "id" twice`},
		{Options{}, `{"__deleted":"false"}`, "no columns"},
		{Options{}, `{"id":1,"__deleted":"false"}x`, "text behind"},
		{Options{}, `[1]`, "an array, not an object"},
		{Options{Source: "shop.t"}, `{"id":1,"__deleted":"false","__table":"t"}`, "op,db,table"},
		{Options{}, `{"op":"c","after":{"id":1},` + src + `}`, "set format to debezium-json"},
		{Options{}, `{"id":1,"__deleted":"false","__file":"b.1","__pos":"x"}`, "source.pos"},
		{Options{Tombstones: "delete"}, ``, "needs a key"},
	} {
		_, err := decodeAs(t, DebeziumFlat, c.opts, "", c.value)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.value, err, c.fault)
		}
	}
	// The choice is needed where deletes come as tombstones, and there alone.
	for _, format := range []string{DebeziumFlat, Auto} {
		if _, err := decodeAs(t, format, Options{}, "", `{"id":1,"__op":"c"}`); !errors.Is(err, ErrTombstones) {
			t.Errorf("%s: no choice: %v", format, err)
		}
		for _, o := range []Options{{Tombstones: "ignore"}, {Tombstones: "delete"}} {
			if _, err := decodeAs(t, format, o, "", `{"id":1,"__op":"c"}`); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
		if _, err := decodeAs(t, format, Options{}, "", `{"id":1,"__op":"c","__deleted":"false"}`); err != nil {
			t.Errorf("%s: rewritten deletes: %v", format, err)
		}
	}
	if _, err := decodeAs(t, Auto, Options{}, "", `{"id":1}`); err == nil || errors.Is(err, ErrTombstones) || !strings.Contains(err.Error(), "debezium-flat: any object could be one") {
		t.Errorf("a row that shows nothing: %v", err)
	}
	// A row with columns of another record's names is a row.
	for _, row := range []string{`{"id":1,"status":"END"`, `{"ts_ms":1`, `{"ddl":"x","databaseName":"y"`, `{"type":"log","data":1`} {
		got, err := decodeAs(t, Auto, Options{}, "", row+`,"__op":"c","__deleted":"false"}`)
		if err != nil || got.Op != change.Insert {
			t.Errorf("%s: %v, %v", row, got.Op, err)
		}
	}
}

// flattened does to a record what ExtractNewRecordState does with
// delete.tombstone.handling.mode=rewrite and
// add.fields=op,source.db,table,name,server_id,file,pos,row,gtid,snapshot,source.ts_ms,source.ts_us,ts_ms.
func flattened(t *testing.T, rec change.Record) change.Record {
	t.Helper()
	if rec.Value == nil {
		return rec
	}
	type envelope struct {
		Op            string
		Before, After json.RawMessage
		Source        map[string]json.RawMessage
		TsMs          json.RawMessage `json:"ts_ms"`
	}
	var e envelope
	var wrapped struct {
		Schema struct {
			Fields []struct {
				Field  string
				Fields json.RawMessage
			}
		}
		Payload json.RawMessage
	}
	if err := json.Unmarshal(rec.Value, &wrapped); err != nil {
		t.Fatal(err)
	}
	payload := wrapped.Payload
	if payload == nil {
		payload = rec.Value
	}
	if err := json.Unmarshal(payload, &e); err != nil {
		t.Fatal(err)
	}
	row := e.After
	if e.Op == "d" {
		row = e.Before
	}
	if string(row) == "null" || row == nil {
		row = json.RawMessage("{}")
	}
	out := string(row[:len(row)-1])
	if out != "{" {
		out += ","
	}
	out += fmt.Sprintf(`"__op":%q,"__deleted":"%t","__ts_ms":%s`, e.Op, e.Op == "d", e.TsMs)
	for _, name := range []string{"db", "ts_ms", "ts_us"} {
		if v := e.Source[name]; v != nil {
			out += `,"__source_` + name + `":` + string(v)
		}
	}
	for _, name := range []string{"table", "name", "server_id", "file", "pos", "row", "gtid", "snapshot"} {
		if v := e.Source[name]; v != nil {
			out += `,"__` + name + `":` + string(v)
		}
	}
	out += "}"
	if wrapped.Payload != nil {
		fields := json.RawMessage("[]")
		for _, f := range wrapped.Schema.Fields {
			if f.Field == "after" {
				fields = f.Fields
			}
		}
		out = `{"schema":{"type":"struct","fields":` + strings.TrimSuffix(string(fields), "]") + `,{"type":"string","optional":true,"field":"__op"}]},"payload":` + out + "}"
	}
	rec.Value = []byte(out)
	return rec
}

// TestDebeziumFlatBesideEnvelopes: recorded streams, flattened, say what they said before.
func TestDebeziumFlatBesideEnvelopes(t *testing.T) {
	for _, file := range []string{"s1.shop.orders.jsonl", "s1.shop.stock.jsonl", "s3.shop.stock.p0.jsonl", "t1.zoo.alltypes.jsonl"} {
		whole, err := New("debezium-json", Options{})
		if err != nil {
			t.Fatal(err)
		}
		flat, err := New(Auto, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ops := map[change.Op]int{}
		for _, rec := range recorded(t, file) {
			var want, got change.Change
			arena := &change.Arena{}
			if err := whole.Decode(&rec, arena, &want); err != nil {
				t.Fatal(err)
			}
			row := flattened(t, rec)
			if err := flat.Decode(&row, arena, &got); err != nil {
				t.Fatalf("%s: %v", row.Value, err)
			}
			ops[got.Op]++
			if want.Op == change.Update { // flattened records do not say what was
				want.Before, want.BeforeColumns = nil, nil
			}
			for _, part := range []struct{ got, want map[string]string }{
				{cellsOf(got.Columns, got.After), cellsOf(want.Columns, want.After)},
				{cellsOf(got.BeforeColumns, got.Before), cellsOf(want.BeforeColumns, want.Before)},
				{cellsOf(got.KeyColumns, got.Key), cellsOf(want.KeyColumns, want.Key)},
			} {
				if !reflect.DeepEqual(part.got, part.want) {
					t.Errorf("%s offset %d: %v, want %v", file, rec.Offset, part.got, part.want)
				}
			}
			if !sameChange(&got, &want) || got.GTID != want.GTID || got.Server != want.Server || got.EventTimeIsCommit != want.EventTimeIsCommit ||
				got.ProcessingTime != want.ProcessingTime || got.OldKeyHeader != want.OldKeyHeader || got.NewKeyHeader != want.NewKeyHeader {
				t.Errorf("%s offset %d: %+v, want %+v", file, rec.Offset, got, want)
			}
		}
		if flat.Format() != DebeziumFlat || ops[change.Insert] == 0 || ops[change.Update] == 0 || ops[change.Delete] == 0 {
			t.Errorf("%s: format %q, %v", file, flat.Format(), ops)
		}
	}
}
