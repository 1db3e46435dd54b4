package ingest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// fixed is a Source of one partition whose records are all there.
type fixed struct {
	records []*change.Record
	next    int64
}

var fixedID = change.PartitionID{Topic: "log"}

func (f *fixed) Partitions(context.Context) ([]change.PartitionState, time.Time, error) {
	return []change.PartitionState{{ID: fixedID, End: int64(len(f.records))}}, time.Now(), nil
}

func (f *fixed) Assign(_ context.Context, at map[change.PartitionID]int64) error {
	f.next = at[fixedID]
	return nil
}

func (f *fixed) Poll(context.Context, int) ([]change.Block, error) {
	if f.next >= int64(len(f.records)) {
		return nil, nil
	}
	b := change.Block{ID: fixedID, Records: f.records[f.next:], Next: int64(len(f.records))}
	f.next = b.Next
	return []change.Block{b}, nil
}

func (f *fixed) Pause(...change.PartitionID)  {}
func (f *fixed) Resume(...change.PartitionID) {}

// TestAppend keeps a table without a key: like rows stay apart, a redelivered
// one does not come twice, and an update, whose row nobody can find, is a dead letter.
func TestAppend(t *testing.T) {
	ctx := context.Background()
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	base := time.Date(2022, 7, 16, 8, 0, 0, 0, time.UTC).UnixMilli()
	var records []*change.Record
	add := func(op, image string, pos int) {
		before, after := "null", image
		if op == "d" {
			before, after = image, "null"
		}
		at := base + int64(pos)*1000
		records = append(records, &change.Record{
			Topic: "log", Offset: int64(len(records)), Timestamp: base + int64(len(records))*1000 + 100_000,
			Value: fmt.Appendf(nil, `{"op":%q,"before":%s,"after":%s,"source":{"name":"s","server_id":1,"file":"b.000001","pos":%d,"row":0,"ts_ms":%d,"db":"d","table":"log"},"ts_ms":%d}`,
				op, before, after, pos, at, at),
		})
	}
	add("c", `{"host":"a","line":"x"}`, 10)
	add("c", `{"host":"a","line":"x"}`, 20)
	add("c", `{"host":"b","line":"y"}`, 30)
	add("c", `{"host":"b","line":"y"}`, 30) // sent again
	add("c", `{"host":"a","line":"x"}`, 20) // sent again
	add("u", `{"host":"b","line":"z"}`, 40)
	add("d", `{"host":"b","line":"y"}`, 50)
	add("c", `{"host":"c","line":"z"}`, 60)

	for _, copyOnWrite := range []bool{false, true} {
		store := mem.New()
		for n := 3; n <= len(records); n += 5 { // two processes, one after the other
			lane, err := ingest.New(ingest.Options{
				Name: "log", Store: store, DeadLetterStore: mem.New(), Calendar: cal, Append: true, UntilEnd: true,
				CopyOnWrite: copyOnWrite, Now: func() time.Time { return time.UnixMilli(base).Add(time.Hour) },
			}, &fixed{records: records[:n]})
			if err != nil {
				t.Fatal(err)
			}
			if err := lane.Run(ctx); err != nil {
				t.Fatal(err)
			}
		}
		table, snap, cells := newestRows(t, store)
		var got []string
		for _, row := range cells {
			got = append(got, row[0].S+row[1].S)
		}
		slices.Sort(got)
		if want := []string{"ax", "ax", "by", "cz"}; !slices.Equal(got, want) {
			t.Errorf("copy on write %v: rows %v, want %v", copyOnWrite, got, want)
		}
		p, err := savepoint.ProgressOf(ctx, table, snap)
		if err != nil {
			t.Fatal(err)
		}
		want := progress.Totals{Taken: 8, Applied: 4, Duplicates: 2, DeadLetters: 2}
		if p.Totals != want {
			t.Errorf("copy on write %v: totals %+v, want %+v", copyOnWrite, p.Totals, want)
		}
	}
}

// A key and mode append exclude each other.
func TestAppendWithKey(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.New(ingest.Options{Store: mem.New(), Calendar: cal, Append: true, Key: []string{"id"}}, &fixed{}); err == nil {
		t.Fatal("a key was taken in mode append")
	}
}
