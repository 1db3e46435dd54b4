package decode

import (
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// benchRow has ten columns of common kinds.
const benchRow = `{"id":1234567,"customer_id":3140818834,"status":"paid","amount":"8h9JTFicAAE=","note":"second order of the week",` +
	`"paid":1,"created_at":1657866781328542,"updated_at":"2022-07-15T06:33:02.325Z","score":1.5,"city":"Hangzhou"}`

const benchSource = `{"version":"3.5.0.Final","connector":"mysql","name":"shop1","ts_ms":1657843200123,"snapshot":"false","db":"shop",` +
	`"sequence":null,"ts_us":1657843200123456,"ts_ns":1657843200123456000,"table":"orders","server_id":184054,` +
	`"gtid":"3E11FA47-71CA-11E1-9E33-C80AA9429562:23","file":"mysql-bin.000017","pos":4451,"row":0,"thread":null,"query":null}`

const benchTail = `"transaction":null,"op":"u","ts_ms":1795982329537,"ts_us":1795982329537512,"ts_ns":1795982329537512205}`

func benchRecord() change.Record {
	return change.Record{
		Key:   []byte(`{"id":1234567}`),
		Value: []byte(`{"before":` + benchRow + `,"after":` + benchRow + `,"source":` + benchSource + "," + benchTail),
	}
}

const benchSchemaFields = `[{"type":"int64","optional":false,"field":"id"},{"type":"int64","optional":false,"field":"customer_id"},` +
	`{"type":"string","optional":false,"name":"io.debezium.data.Enum","version":1,"parameters":{"allowed":"new,paid"},"field":"status"},` +
	`{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"4","connect.decimal.precision":"18"},"field":"amount"},` +
	`{"type":"string","optional":true,"field":"note"},{"type":"int16","optional":false,"field":"paid"},` +
	`{"type":"int64","optional":true,"name":"io.debezium.time.MicroTimestamp","version":1,"field":"created_at"},` +
	`{"type":"string","optional":true,"name":"io.debezium.time.ZonedTimestamp","version":1,"field":"updated_at"},` +
	`{"type":"double","optional":true,"field":"score"},{"type":"string","optional":true,"field":"city"}]`

func benchSchemaRecord() change.Record {
	plain := benchRecord()
	row := `{"type":"struct","fields":` + benchSchemaFields + `,"optional":true,"name":"s.Value","field":"`
	schema := `{"type":"struct","fields":[` + row + `before"},` + row + `after"},` + strings.Repeat(`{"type":"string","optional":true,"field":"padding"},`, 40) +
		`{"type":"string","optional":false,"field":"op"}],"optional":false,"name":"s.Envelope"}`
	return change.Record{
		Key:   []byte(`{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"}],"optional":false,"name":"s.Key"},"payload":{"id":1234567}}`),
		Value: []byte(`{"schema":` + schema + `,"payload":` + string(plain.Value) + `}`),
	}
}

func benchColumns(tb testing.TB) map[string]ColumnSpec {
	out := map[string]ColumnSpec{}
	for name, text := range map[string]string{
		"id": "bigint", "customer_id": "int unsigned", "status": "enum('new','paid')", "amount": "decimal(18,4)", "note": "text",
		"paid": "tinyint(1)", "created_at": "datetime(6)", "updated_at": "timestamp(3)", "score": "double", "city": "varchar(20)",
	} {
		spec, err := ParseColumnType(text)
		if err != nil {
			tb.Fatal(err)
		}
		out[name] = spec
	}
	return out
}

// benchCases are the ways a stream comes; the second tells whether the
// decoder may look at the key columns of before alone.
func benchCases(tb testing.TB) map[string]struct {
	rec  change.Record
	opts Options
} {
	type c = struct {
		rec  change.Record
		opts Options
	}
	keys := []string{"id"}
	return map[string]c{
		"plain":      {benchRecord(), Options{KeyColumns: keys}},
		"plain-full": {benchRecord(), Options{}},
		"columns":    {benchRecord(), Options{KeyColumns: keys, Columns: benchColumns(tb), Debezium: Debezium{Decimals: "base64"}}},
		"schema":     {benchSchemaRecord(), Options{KeyColumns: keys}},
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, c := range benchCases(b) {
		b.Run(name, func(b *testing.B) {
			d, err := New("debezium-json", c.opts)
			if err != nil {
				b.Fatal(err)
			}
			arena, out := &change.Arena{}, change.Change{}
			b.SetBytes(int64(len(c.rec.Value)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%20000 == 0 {
					arena = &change.Arena{}
				}
				if err := d.Decode(&c.rec, arena, &out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
