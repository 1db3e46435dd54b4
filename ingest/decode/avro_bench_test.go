package decode

import (
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

const benchAvroFields = `{"name":"id","type":"long"},{"name":"customer_id","type":"long"},` +
	`{"name":"status","type":{"type":"string","connect.version":1,"connect.parameters":{"allowed":"new,paid"},"connect.name":"io.debezium.data.Enum"}},` +
	`{"name":"amount","type":["null",{"type":"bytes","scale":4,"precision":18,"connect.parameters":{"scale":"4","connect.decimal.precision":"18"},"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}]},` +
	`{"name":"note","type":["null","string"]},{"name":"paid","type":{"type":"int","connect.type":"int16"}},` +
	`{"name":"created_at","type":["null",{"type":"long","connect.name":"io.debezium.time.MicroTimestamp"}]},` +
	`{"name":"updated_at","type":["null",{"type":"string","connect.name":"io.debezium.time.ZonedTimestamp"}]},{"name":"score","type":["null","double"]},{"name":"city","type":["null","string"]}`

// benchAvro is the record of benchRecord in Avro, and a decoder for it.
func benchAvro(tb testing.TB, o Options) (Decoder, change.Record) {
	tb.Helper()
	text, key := avroEnvelope(benchAvroFields), `{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}`
	row := map[string]any{
		"id": 1234567, "customer_id": 3140818834, "status": "paid", "amount": []byte{0xf2, 0x1f, 0x49, 0x4c, 0x58, 0x9c, 0, 1}, "note": "second order of the week", "paid": 1,
		"created_at": 1657866781328542, "updated_at": "2022-07-15T06:33:02.325Z", "score": 1.5, "city": "Hangzhou",
	}
	ch := avroChange("u", row, row)
	ch["source"].(map[string]any)["gtid"] = "3E11FA47-71CA-11E1-9E33-C80AA9429562:23"
	o.Schemas = schemasOf{{ContentID, 1}: {text}, {ContentID, 2}: {key}}
	d, err := New(DebeziumAvro, o)
	if err != nil {
		tb.Fatal(err)
	}
	return d, change.Record{
		Key:   confluentFrame(2, appendAvro(nil, parsedAvro(tb, key), map[string]any{"id": 1234567})),
		Value: confluentFrame(1, appendAvro(nil, parsedAvro(tb, text), ch)),
	}
}

// BenchmarkAvro is beside BenchmarkDecode: the same change, by the same settings.
func BenchmarkAvro(b *testing.B) {
	for name, o := range map[string]Options{"keys": {KeyColumns: []string{"id"}}, "full": {}} {
		b.Run(name, func(b *testing.B) {
			d, rec := benchAvro(b, o)
			arena, out := &change.Arena{}, change.Change{}
			b.SetBytes(int64(len(rec.Value)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%20000 == 0 {
					arena = &change.Arena{}
				}
				if err := d.Decode(&rec, arena, &out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
