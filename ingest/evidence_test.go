package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// The evidence says what event times were, and by what the changes were ordered.
func TestEvidenceOfTimesAndOrder(t *testing.T) {
	ctx := context.Background()
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2022, 7, 16, 8, 0, 0, 250e6, time.UTC).UnixMilli() // commit_ts>>18 below
	const gtid = `"gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:7",`
	debezium := func(gtid, file string, ms int64) string {
		return fmt.Sprintf(`{"op":"c","before":null,"after":{"id":1,"at":"2022-07-16T08:00:00Z"},"source":{"connector":"mysql","name":"s","server_id":1,%s"file":%s,"pos":4,"row":0,"ts_ms":%d,"db":"d","table":"log"},"ts_ms":%d}`, gtid, file, ms, ms)
	}
	for _, c := range []struct {
		name, eventTime string
		values          []string
		format          string
		want            snapshotter.Origins
		replaced        int64
	}{
		{"statement times and positions", "", []string{debezium("", `"b.000001"`, at)}, "debezium-json", snapshotter.Origins{StatementTimes: true, Positions: true}, 0},
		{"commit times and positions", "", []string{debezium(gtid, `"b.000001"`, at)}, "debezium-json", snapshotter.Origins{CommitTimes: true, Positions: true}, 0},
		{"no positions", "", []string{debezium("", `""`, at)}, "debezium-json", snapshotter.Origins{StatementTimes: true, NoPositions: true}, 0},
		{"some positions, some times", "", []string{debezium(gtid, `"b.000001"`, at), debezium("", `""`, 0)}, "debezium-json",
			snapshotter.Origins{CommitTimes: true, BrokerTimes: true, Positions: true, NoPositions: true}, 1},
		{"the broker's times", "kafka", []string{debezium(gtid, `"b.000001"`, at)}, "debezium-json", snapshotter.Origins{BrokerTimes: true, Positions: true}, 0},
		{"a column's times", "column:at", []string{debezium(gtid, `"b.000001"`, at)}, "debezium-json", snapshotter.Origins{ColumnTimes: true, Positions: true}, 0},
		{"debezium-json of a Flink CDC pipeline", "", []string{`{"before":null,"after":{"id":1},"op":"c","source":{"db":"d","table":"log"}}`}, "debezium-json",
			snapshotter.Origins{BrokerTimes: true, NoPositions: true}, 1},
		{"debezium-json of TiCDC", "", []string{debezium(`"commit_ts":434623846875136000,"cluster_id":"c","gtid":null,`, `""`, at)}, "debezium-json",
			snapshotter.Origins{CommitTimes: true, NoPositions: true}, 0},
		{"canal-json of a Flink CDC pipeline", "", []string{`{"old":null,"data":[{"id":"1"}],"type":"INSERT","database":"d","table":"log","pkNames":["id"],"ts":0}`}, "canal-json",
			snapshotter.Origins{BrokerTimes: true, NoPositions: true}, 1},
		{"canal-json of TiCDC", "", []string{fmt.Sprintf(`{"data":[{"id":"1"}],"type":"INSERT","database":"d","table":"log","pkNames":["id"],"es":%d,"_tidb":{"commitTs":434623846875136000}}`, at)}, "canal-json",
			snapshotter.Origins{CommitTimes: true, NoPositions: true}, 0},
		{"aws-dms", "", []string{`{"data":{"id":1},"metadata":{"record-type":"data","operation":"insert","schema-name":"d","table-name":"log","commit-timestamp":"2022-07-16T08:00:00.250000Z"}}`}, "aws-dms",
			snapshotter.Origins{CommitTimes: true, NoPositions: true}, 0},
	} {
		store := mem.New()
		src := &fixed{}
		for i, value := range c.values {
			src.records = append(src.records, &change.Record{Topic: "log", Offset: int64(i), Timestamp: at + 1000, Key: []byte(`{"id":1}`), Value: []byte(value)})
		}
		lane, err := ingest.New(ingest.Options{
			Name: "log", Store: store, DeadLetterStore: mem.New(), Calendar: cal, Key: []string{"id"}, UntilEnd: true,
			Format: decode.Auto, Decode: decode.Options{EventTime: c.eventTime},
			Now: func() time.Time { return time.Date(2022, 7, 17, 12, 0, 0, 0, time.UTC) },
		}, src)
		if err != nil {
			t.Fatal(err)
		}
		if err := lane.Run(ctx); err != nil {
			t.Fatal(err)
		}
		table, err := delta.Open(ctx, store)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := table.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m, err := savepoint.Read(ctx, table, snap)
		if err != nil {
			t.Fatal(err)
		}
		seal, err := m.Seal(ctx, table, m.Entries[0])
		if err != nil {
			t.Fatal(err)
		}
		e := seal.Evidence
		if len(e.Partitions) != 1 || e.Partitions[0].Origins != c.want || e.Partitions[0].Rule != snapshotter.ByClock || e.Partitions[0].Offset != int64(len(c.values)) {
			t.Errorf("%s: evidence %+v, want %+v", c.name, e.Partitions, c.want)
		}
		if e.Format != c.format || e.Counts.Replaced != c.replaced || e.Name != "2022-07-16" {
			t.Errorf("%s: format %q, %d times replaced, label %s", c.name, e.Format, e.Counts.Replaced, e.Name)
		}
	}
}
