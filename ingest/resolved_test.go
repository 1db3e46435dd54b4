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
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// TestResolvedTime: a watermark of TiCDC on the table's own partition moves it past
// the end of a day of which no more changes come, so that the day is sealed by it and
// not by the clock. It is no record of the table's.
func TestResolvedTime(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	midnight := time.Date(2022, 7, 17, 0, 0, 0, 0, time.UTC)
	watermark := func(offset int64, at time.Time) *change.Record {
		return &change.Record{Topic: "log", Offset: offset, Timestamp: at.UnixMilli() + 500, Value: fmt.Appendf(nil,
			`{"database":"","table":"","type":"TIDB_WATERMARK","isDdl":false,"es":0,"data":null,"_tidb":{"watermarkTs":%d}}`, at.UnixMilli()<<18)}
	}
	records := []*change.Record{
		canalRecord(0, []canalRow{{kind: "INSERT", at: midnight.Add(-time.Hour).UnixMilli(), data: `{"id":"1","v":"7"}`}}),
		watermark(1, midnight.Add(-time.Minute)),
		watermark(2, midnight.Add(9*time.Minute)),
	}
	store, dead := mem.New(), mem.New()
	run := func() string {
		lane, err := ingest.New(ingest.Options{
			Name: "t", Store: store, DeadLetterStore: dead, Calendar: cal, UntilEnd: true, Format: "auto",
			DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, MaxClockSkew: 5 * time.Minute,
			Now: func() time.Time { return midnight.Add(12 * time.Minute) },
		}, &fixed{records: records})
		if err != nil {
			t.Fatal(err)
		}
		if err := lane.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		table, err := delta.Open(ctx, store)
		if err != nil {
			t.Fatal(err)
		}
		newest, err := table.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		p, err := savepoint.ProgressOf(ctx, table, newest)
		if err != nil {
			t.Fatal(err)
		}
		at := p.State.Partitions[0]
		text := fmt.Sprintf("open %s, next %d, taken %d, filtered %d", cal.Name(p.State.Open), at.Next, p.Totals.Taken, p.Totals.Filtered)
		if len(p.Seals) > 0 {
			text += fmt.Sprintf(", sealed by %s", p.Seals[0].Partitions[0].Rule)
		}
		return text
	}
	if got := run(); got != "open 2022-07-16, next 3, taken 1, filtered 0" {
		t.Fatalf("before the wait was over: %s", got)
	}
	records = append(records, watermark(3, midnight.Add(10*time.Minute)))
	if got := run(); got != "open 2022-07-17, next 4, taken 1, filtered 0, sealed by watermark" {
		t.Fatal(got)
	}
}
