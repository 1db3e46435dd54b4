package decode

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// The same update of the ten columns of benchRow, as each format writes it.
const (
	// benchPlain has the cells as Maxwell, DMS and GoldenGate write them.
	benchPlain = `{"id":1234567,"customer_id":3140818834,"status":"paid","amount":1234567.8901,"note":"second order of the week",` +
		`"paid":1,"created_at":"2022-07-15 06:33:01.328542","updated_at":"2022-07-15 06:33:02.325","score":1.5,"city":"Hangzhou"}`
	// benchTexts has them as Canal does.
	benchTexts = `{"id":"1234567","customer_id":"3140818834","status":"2","amount":"1234567.8901","note":"second order of the week",` +
		`"paid":"1","created_at":"2022-07-15 06:33:01.328542","updated_at":"2022-07-15 06:33:02.325","score":"1.5","city":"Hangzhou"}`
	benchTypes = `{"id":"bigint","customer_id":"int unsigned","status":"enum('new','paid')","amount":"decimal(18,4)","note":"text","paid":"tinyint(1)",` +
		`"created_at":"datetime(6)","updated_at":"timestamp(3)","score":"double","city":"varchar(20)"}`
	benchCells = `[1234567,3140818834,"paid","1234567.8901","second order of the week",1,"2022-07-15 06:33:01.328542","2022-07-15 06:33:02.325",1.5,"Hangzhou"]`
)

func benchCanal(rows int) string {
	list := func(row string) string { return "[" + strings.TrimSuffix(strings.Repeat(row+",", rows), ",") + "]" }
	return `{"data":` + list(benchTexts) + `,"database":"shop","es":1657843200000,"gtid":"","id":7,"isDdl":false,"mysqlType":` + benchTypes +
		`,"old":` + list(`{"note":"first","status":"1"}`) + `,"pkNames":["id"],"sql":"","sqlType":{"id":-5,"customer_id":4,"status":4,"amount":3,"note":2005,"paid":-6,` +
		`"created_at":93,"updated_at":93,"score":8,"city":12},"table":"orders","ts":1657843200100,"type":"UPDATE"}`
}

type formatBench struct {
	name, format string
	key, value   string
	opts         Options
	// least is how much faster than encoding/json it is to be.
	least float64
}

func formatBenches(tb testing.TB) []formatBench {
	columns := benchColumns(tb)
	for name, text := range map[string]string{"updated_at": "timestamp(3)"} {
		columns[name] = specOf(tb, text)
	}
	keys, key := []string{"id"}, `{"id":1234567}`
	plain := Options{KeyColumns: keys}
	typed := Options{KeyColumns: keys, Columns: columns, Canal: Canal{Timezone: time.UTC}, Tombstones: "delete"}
	encoded := Options{KeyColumns: keys, Columns: columns, Debezium: Debezium{Decimals: "base64"}, Tombstones: "delete"}
	full := benchSchemaRecord()
	flatRow := strings.TrimSuffix(benchRow, "}") + `,"__op":"u","__deleted":"false","__db":"shop","__table":"orders","__name":"shop1","__server_id":184054,` +
		`"__file":"mysql-bin.000017","__pos":4451,"__row":0,"__gtid":"3E11FA47-71CA-11E1-9E33-C80AA9429562:23","__source_ts_ms":1657843200123}`
	flatSchema := `{"schema":{"type":"struct","fields":` + strings.TrimSuffix(benchSchemaFields, "]") +
		strings.Repeat(`,{"type":"string","optional":true,"field":"__op"}`, 11) + `],"optional":false,"name":"s.Value"},"payload":` + flatRow + `}`
	zoned := strings.NewReplacer(`06:33:02.325"`, `06:33:02.325Z"`).Replace(benchPlain)
	return []formatBench{
		{"debezium-json", "debezium-json", key, string(benchRecord().Value), encoded, 8},
		{"debezium-json, untyped", "debezium-json", key, string(benchRecord().Value), plain, 8},
		{"debezium-json, schema", "debezium-json", string(full.Key), string(full.Value), plain, 8},
		{"debezium-flat", DebeziumFlat, key, flatRow, encoded, 8},
		{"debezium-flat, schema", DebeziumFlat, string(full.Key), flatSchema, plain, 8},
		{"gscd-json", GSCDJSON, `{"table":"shop.orders","key":{"id":1234567}}`, `{"v":1,"op":"u","name":"app","db":"shop","table":"orders",` +
			`"columns":["id","customer_id","status","amount","note","paid","created_at","updated_at","score","city"],` +
			`"types":["bigint","int unsigned","enum('new','paid')","decimal(18,4)","text","tinyint(1)","datetime(6)","timestamp(3)","double","varchar(20)"],"key":[0],` +
			`"before":` + benchCells + `,"after":` + benchCells + `,"server":184054,"file":"mysql-bin.000017","pos":4451,"row":0,` +
			`"gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:23","ts_us":1657843200123456,"commit":true,"last":true}`, plain, 8},
		{"maxwell", "maxwell", `{"database":"shop","table":"orders","pk.id":1234567}`, `{"database":"shop","table":"orders","type":"update","ts":1657843200,"xid":940786,"xoffset":3,` +
			`"position":"mysql-bin.000017:4451","server_id":184054,"primary_key_columns":["id"],"data":` + benchPlain + `,"old":{"note":"first","status":"new"}}`, typed, 8},
		{"canal-json, one row", CanalJSON, "", benchCanal(1), typed, 8},
		{"canal-json, 20 rows", CanalJSON, "", benchCanal(20), typed, 8},
		{"aws-dms", AWSDMS, "shop.orders.1234567", `{"data":` + zoned + `,"before-image":` + zoned + `,"metadata":{"timestamp":"2022-07-15T06:33:02.895275Z","record-type":"data",` +
			`"operation":"update","partition-key-type":"schema-table","schema-name":"shop","table-name":"orders","transaction-id":1140,` +
			`"transaction-record-id":1,"commit-timestamp":"2022-07-15T06:33:02.886717Z","stream-position":"7"}}`, typed, 8},
		{"ogg-json", OGGJSON, "", `{"table":"SHOP.ORDERS","op_type":"U","op_ts":"2022-07-15 06:33:02.000000","current_ts":"2022-07-15T06:33:03.766000",` +
			`"pos":"00000000020000001234","primary_keys":["id"],"before":` + zoned + `,"after":` + zoned + `}`, typed, 8},
	}
}

// rowsIn decodes every row of the record.
func rowsIn(tb testing.TB, d Decoder, rec *change.Record, arena *change.Arena, c *change.Change) (rows int) {
	rec.Row, rec.Rows = 0, int32(d.Rows(rec))
	for ; rec.Row == 0 || rec.Row < rec.Rows; rec.Row++ {
		if err := d.Decode(rec, arena, c); err != nil {
			tb.Fatalf("%.80s: %v", rec.Value, err)
		}
		if c.Op != change.Update || len(c.After) != 10 {
			tb.Fatalf("%.80s: %+v", rec.Value, *c)
		}
		rows++
	}
	return rows
}

// BenchmarkFormats decodes a record of each format, and unmarshals its bytes with
// encoding/json beside it: x is how many times as long that takes. Both are medians of
// short stretches in turn, so that other work on the machine matters little.
func BenchmarkFormats(b *testing.B) {
	for _, c := range formatBenches(b) {
		b.Run(c.name, func(b *testing.B) {
			d, err := New(c.format, c.opts)
			if err != nil {
				b.Fatal(err)
			}
			// Two copies, decoded in turn: no decoder knows what comes.
			recs := [2]change.Record{{Value: []byte(c.value)}, {Value: bytes.Clone([]byte(c.value))}}
			if c.key != "" {
				recs[0].Key, recs[1].Key = []byte(c.key), []byte(c.key)
			}
			var out change.Change
			var own, other []time.Duration
			arena, rows := &change.Arena{}, 0
			const many = 8
			b.SetBytes(many * int64(len(c.value)))
			b.ReportAllocs()
			for b.Loop() {
				if arena.Size() > 16<<20 {
					arena = &change.Arena{}
				}
				begun := time.Now()
				for i := range many {
					rows = rowsIn(b, d, &recs[i%2], arena, &out)
				}
				own = append(own, time.Since(begun))
				if len(own)%4 == 0 {
					b.StopTimer()
					begun = time.Now()
					var v map[string]any
					if err := json.Unmarshal(recs[0].Value, &v); err != nil {
						b.Fatal(err)
					}
					other = append(other, time.Since(begun))
					b.StartTimer()
				}
			}
			record := median(own) / many
			b.ReportMetric(median(other)/record, "x")
			b.ReportMetric(1/record, "records/s")
			b.ReportMetric(float64(rows)/record, "rows/s")
		})
	}
}

// median gives that of the durations in seconds.
func median(of []time.Duration) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2].Seconds()
}

// TestFormatAllocations: a record of any format costs no allocation but the arena's blocks.
func TestFormatAllocations(t *testing.T) {
	for _, c := range formatBenches(t) {
		d, err := New(c.format, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		recs := [2]change.Record{{Value: []byte(c.value)}, {Value: []byte(c.value)}}
		if c.key != "" {
			recs[0].Key, recs[1].Key = []byte(c.key), []byte(c.key)
		}
		var out change.Change
		arena, i := &change.Arena{}, 0
		arena.Values(1)
		arena.Bytes(1)
		if got := testing.AllocsPerRun(20, func() { // fits the first blocks
			rowsIn(t, d, &recs[i%2], arena, &out)
			i++
		}); got != 0 {
			t.Errorf("%s: %v allocations a record", c.name, got)
		}
	}
}
