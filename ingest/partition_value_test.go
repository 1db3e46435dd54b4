package ingest_test

import (
	"errors"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/deadletter"
)

// An empty text in a partition column can't be told from NULL by any reader, so
// it is a value that does not fit: never a row with another value than the source's.
func TestEmptyPartitionValue(t *testing.T) {
	const records = `{"topic":"t","partition":0,"offset":0,"ts":1657958400000,"key":{"id":1},"value":{"op":"c","after":{"id":1,"city":"","note":""},"source":{"ts_ms":1657958400000}}}
{"topic":"t","partition":0,"offset":1,"ts":1657958401000,"key":{"id":2},"value":{"op":"c","after":{"id":2,"city":"Wuhan","note":""},"source":{"ts_ms":1657958401000}}}
{"topic":"t","partition":0,"offset":2,"ts":1657958402000,"key":{"id":3},"value":{"op":"c","after":{"id":3,"city":null,"note":""},"source":{"ts_ms":1657958402000}}}
`
	null := schema.Value{}
	for _, c := range []struct {
		policy string
		cities map[int64]schema.Value
		dead   int
		err    error
	}{
		{ingest.DeadLetter, map[int64]schema.Value{2: schema.StringValue("Wuhan"), 3: null}, 1, nil},
		{ingest.AsNull, map[int64]schema.Value{1: null, 2: schema.StringValue("Wuhan"), 3: null}, 0, nil},
		{ingest.Fail, nil, 0, ingest.ErrRefused},
	} {
		store, dead := mem.New(), mem.New()
		err := runRecording(t, records, ingest.Options{
			Store: store, DeadLetterStore: dead, PartitionBy: []string{"city"}, BadValue: c.policy, DeadLetterFloor: 10,
			Columns: map[string]schema.Type{"city": schema.Of(schema.StringType)},
		})
		if !errors.Is(err, c.err) {
			t.Fatalf("bad_value %s: %v, want %v", c.policy, err, c.err)
		}
		if c.err != nil {
			continue
		}
		table, err := delta.Open(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		s, err := table.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reading, err := scan.New(store, s, scan.Options{Columns: []string{"id", "city", "note"}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for row, err := range reading.Rows(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if want, ok := c.cities[row[0].I]; !ok || row[1] != want || row[2] != schema.StringValue("") {
				t.Errorf("bad_value %s: row %v, want the city %v", c.policy, row, want)
			}
		}
		letters := 0
		err = deadletter.Open(dead).Each(t.Context(), func(e deadletter.Entry) error {
			letters++
			if e.Offset != 0 || e.Reason != "value" || e.Column != "city" {
				t.Errorf("dead letter %+v", e)
			}
			return nil
		})
		if err != nil || letters != c.dead || n != len(c.cities) {
			t.Errorf("bad_value %s: %d rows, %d dead letters, want %d and %d (%v)", c.policy, n, letters, len(c.cities), c.dead, err)
		}
	}
}
