package decode

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// TestOGGSamples: the rows that the samples' records leave, told by hand from the records.
// The products' weights are FLOAT columns of the source, written as doubles.
func TestOGGSamples(t *testing.T) {
	for _, c := range []struct {
		files []string
		keys  []string
		table string
		want  map[string]map[string]string // by id
	}{
		{[]string{"paimon/table/schemaevolution/ogg-data-1.jsonl"}, nil, "OGG.TBL_TEST", map[string]map[string]string{
			"101": {"name": "scooter", "description": "Small 2-wheel scooter", "weight": "3.14"},
			"102": {"name": "car battery", "description": "12V car battery", "weight": "8.1"},
		}},
		{[]string{"paimon/table/schemaevolution/ogg-data-1.jsonl", "paimon/table/schemaevolution/ogg-data-2.jsonl", "paimon/table/schemaevolution/ogg-data-3.jsonl"}, nil, "OGG.TBL_TEST",
			map[string]map[string]string{
				"102": {"name": "car battery", "description": "12V car battery", "weight": "8.1"},
				"103": {"name": "12-pack drill bits", "description": "12-pack of drill bits with sizes ranging from #40 to #3", "weight": "0.8", "age": "18"},
				"104": {"name": "hammer", "description": "12oz carpenter's hammer", "weight": "0.75", "age": "24"},
				"105": {"name": "hammer", "description": "14oz carpenter's hammer", "weight": "0.875", "address": "Beijing"},
				"107": {"name": "rocks", "description": "box of assorted rocks", "weight": "5.3"},
			}},
		{[]string{"paimon/table/event/event-insert.jsonl", "paimon/table/event/event-update.jsonl"}, nil, "OGG.EVENT", map[string]map[string]string{
			"101": {"name": "scooter", "description": "Small 2-wheel scooter", "weight": "3.14"},
			"102": {"name": "car battery", "description": "12V car battery", "weight": "8.1"},
			"103": {"name": "scooter", "description": "Big 2-wheel scooter ", "weight": "8.1"},
		}},
		{[]string{"paimon/table/event/event-insert.jsonl", "paimon/table/event/event-update.jsonl", "paimon/table/event/event-delete.jsonl"}, []string{"id"}, "OGG.EVENT",
			map[string]map[string]string{
				"101": {"name": "scooter", "description": "Small 2-wheel scooter", "weight": "3.14"},
				"102": {"name": "car battery", "description": "12V car battery", "weight": "8.1"},
			}},
		{[]string{"flink-seatunnel/ogg-data.jsonl"}, []string{"id"}, "OGG.TBL_TEST", map[string]map[string]string{
			"101": {"name": "scooter", "description": "Small 2-wheel scooter", "weight": "3.140000104904175"},
			"102": {"name": "car battery", "description": "12V car battery", "weight": "8.100000381469727"},
			"103": {"name": "12-pack drill bits", "description": "12-pack of drill bits with sizes ranging from #40 to #3", "weight": "0.800000011920929"},
			"104": {"name": "hammer", "description": "12oz carpenter's hammer", "weight": "0.75"},
			"105": {"name": "hammer", "description": "14oz carpenter's hammer", "weight": "0.875"},
			"106": {"name": "hammer", "description": "18oz carpenter hammer", "weight": "1"},
			"107": {"name": "rocks", "description": "box of assorted rocks", "weight": "5.099999904632568"},
			"108": {"name": "jacket", "description": "water resistent black wind breaker", "weight": "0.10000000149011612"},
			"109": {"name": "spare tire", "description": "24 inch spare tire", "weight": "22.200000762939453"},
			"110": {"name": "jacket", "description": "new water resistent white wind breaker", "weight": "0.5"},
		}},
	} {
		for _, format := range []string{OGGJSON, Auto} {
			d, err := New(format, Options{Source: c.table})
			if err != nil {
				t.Fatal(err)
			}
			table := newFold(c.keys...)
			for _, file := range c.files {
				for _, rec := range records(t, "ogg-json/"+file) {
					var got change.Change
					if err := d.Decode(&rec, &change.Arena{}, &got); err != nil {
						t.Fatalf("%s: %v", rec.Value, err)
					}
					if got.EventTime < 1589384000_000000 || got.EventTime > 1589391200_000000 || got.HasPosition || got.EventTimeIsCommit {
						t.Errorf("%s: %+v", rec.Value, got)
					}
					table.apply(t, &got)
				}
			}
			rows := map[string]map[string]string{}
			for _, row := range table.rows {
				cells := map[string]string{}
				for name, cell := range row {
					cells[name] = show(cell)
				}
				id := cells["id"]
				delete(cells, "id")
				rows[id] = cells
			}
			if !reflect.DeepEqual(rows, c.want) || d.Format() != OGGJSON {
				t.Errorf("%v as %s: %v, want %v", c.files, d.Format(), rows, c.want)
			}
		}
	}
}

func TestOGG(t *testing.T) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	of := func(kind, rest string) string {
		return `{"table":"PDB.SHOP.T","op_type":"` + kind + `","op_ts":"2020-05-13 15:40:06.123456","current_ts":"2020-05-13T15:40:09.500000","pos":"00000000020000001234","primary_keys":["ID"]` + rest + `}`
	}
	keys := Options{KeyColumns: []string{"ID"}, Source: "SHOP.T"}
	for _, c := range []struct {
		name, value   string
		opts          Options
		op            change.Op
		after, before map[string]string
	}{
		{"insert", of("I", `,"after":{"ID":1,"N":"a"}`), keys, change.Insert, map[string]string{"ID": "1", "N": "a"}, nil},
		{"update", of("U", `,"before":{"ID":1,"N":"a"},"after":{"ID":1,"N":"b"}`), keys, change.Update, map[string]string{"ID": "1", "N": "b"}, map[string]string{"ID": "1"}},
		{"key change", of("U", `,"before":{"ID":1,"N":"a"},"after":{"ID":2,"N":"a"}`), keys, change.Update, map[string]string{"ID": "2", "N": "a"}, map[string]string{"ID": "1"}},
		{"compressed update", of("U", `,"before":{},"after":{"ID":1}`), keys, change.Update, map[string]string{"ID": "1"}, map[string]string{"ID": "1"}},
		{"update without before", of("U", `,"after":{"ID":1}`), keys, change.Update, map[string]string{"ID": "1"}, nil},
		{"delete", of("D", `,"before":{"ID":1,"N":"a"},"after":null`), keys, change.Delete, nil, map[string]string{"ID": "1"}},
		{"truncate", of("T", ``), keys, change.Truncate, nil, nil},
		{"with the catalog", of("I", `,"after":{"ID":1}`), Options{Source: "PDB.SHOP.T"}, change.Insert, map[string]string{"ID": "1"}, nil},
		{"another table", of("I", `,"after":{"ID":1}`), Options{Source: "HOP.T"}, change.Filtered, nil, nil},
		{"all columns as strings", of("I", `,"after":{"ID":"1","N":"1.50"}`), Options{Columns: map[string]ColumnSpec{"id": specOf(t, "bigint"), "n": specOf(t, "decimal(9,2)")}}, change.Insert,
			map[string]string{"ID": "1", "N": "1.50"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decodeAs(t, OGGJSON, c.opts, "", c.value)
			if err != nil {
				t.Fatal(err)
			}
			if after, before := cellsOf(got.Columns, got.After), cellsOf(got.BeforeColumns, got.Before); got.Op != c.op || !reflect.DeepEqual(after, c.after) || !reflect.DeepEqual(before, c.before) {
				t.Errorf("%v: after %v, before %v", got.Op, after, before)
			}
			if got.Op != change.Filtered && (got.EventTime != 1589384406_123456 || got.ProcessingTime != 1589384409_500) {
				t.Errorf("time %d, %d", got.EventTime, got.ProcessingTime)
			}
			if id := cellsOf(got.KeyColumns, got.Key)["ID"]; got.Op != change.Filtered && got.Op != change.Truncate && id != "1" && id != "2" {
				t.Errorf("key %v", got.Key)
			}
		})
	}
	got, err := decodeAs(t, OGGJSON, Options{OGG: OGG{Timezone: shanghai}}, "", of("I", `,"after":{"ID":1}`))
	if err != nil || got.EventTime != 1589384406_123456-8*3600*microsPerSecond {
		t.Errorf("in a zone: %d, %v", got.EventTime, err)
	}
	got, err = decodeAs(t, OGGJSON, Options{OGG: OGG{Timezone: shanghai}}, "", strings.Replace(of("I", `,"after":{"ID":1}`), "06.123456", "06.123456Z", 1))
	if err != nil || got.EventTime != 1589384406_123456 {
		t.Errorf("with a zone of its own: %d, %v", got.EventTime, err)
	}
	for _, c := range []struct{ value, fault string }{
		{of("X", ``), `unknown op_type "X"`}, {of("I", ``), "no row"}, {of("D", `,"after":{"ID":1}`), "no row"}, {`{"op_type":"I"}`, "table and op_type"},
		{strings.Replace(of("I", `,"after":{"ID":1}`), "2020-05-13 15", "2020-05-13 25", 1), "op_ts is"},
		{of("I", `,"after":{"ID":1},"op_ts":1`), "twice"}, {of("I", `,"after":{"ID":1,"ID":1}`), `column "ID" twice`},
	} {
		_, err := decodeAs(t, OGGJSON, Options{}, "", c.value)
		if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.value, err, c.fault)
		}
	}
}
