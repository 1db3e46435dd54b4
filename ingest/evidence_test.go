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
	"github.com/gscd-io/gscd/progress"
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
	at := time.Date(2022, 7, 16, 8, 0, 0, 250e6, time.UTC).UnixMilli()
	const gtid = `"gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:7",`
	for _, c := range []struct {
		name, gtid, file      string
		commit, withoutPlaces bool
	}{
		{"statement times and positions", "", `"b.000001"`, false, false},
		{"commit times and positions", gtid, `"b.000001"`, true, false},
		{"no positions", "", `""`, false, true},
	} {
		store := mem.New()
		src := &fixed{records: []*change.Record{{
			Topic: "log", Timestamp: at + 1000, Key: []byte(`{"id":1}`),
			Value: fmt.Appendf(nil, `{"op":"c","before":null,"after":{"id":1},"source":{"connector":"mysql","name":"s","server_id":1,%s"file":%s,"pos":4,"row":0,"ts_ms":%d,"db":"d","table":"log"},"ts_ms":%d}`, c.gtid, c.file, at, at),
		}}}
		lane, err := ingest.New(ingest.Options{
			Name: "log", Store: store, DeadLetterStore: mem.New(), Calendar: cal, Key: []string{"id"}, UntilEnd: true,
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
		want := progress.PartitionEvidence{
			Topic: "log", Offset: 1, Watermark: at * 1000, Rule: snapshotter.ByClock,
			EventTimeIsCommit: c.commit, NoPositions: c.withoutPlaces,
		}
		if got := seal.Evidence.Partitions; len(got) != 1 || got[0] != want {
			t.Errorf("%s: evidence %+v, want %+v", c.name, got, want)
		}
	}
}
