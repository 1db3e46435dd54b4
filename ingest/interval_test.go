package ingest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// dripping is a Source that has one more record at each poll.
type dripping struct {
	growing
	paused atomic.Bool
}

func (d *dripping) Pause(...change.PartitionID)  { d.paused.Store(true) }
func (d *dripping) Resume(...change.PartitionID) { d.paused.Store(false) }

func (d *dripping) Poll(ctx context.Context, n int) ([]change.Block, error) {
	time.Sleep(2 * time.Millisecond)
	if d.paused.Load() {
		return nil, nil
	}
	d.grow(1)
	return d.growing.Poll(ctx, n)
}

// A batch closes on time, also where there is always a record more to take.
func TestBatchIntervalOfADrippingSource(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := mem.New()
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	src := &dripping{}
	src.grow(1)
	lane, err := ingest.New(ingest.Options{
		Name: "log", Store: store, DeadLetterStore: mem.New(), Calendar: cal, Key: []string{"id"}, BatchInterval: time.Millisecond,
		Now: func() time.Time { return time.Date(2022, 7, 16, 9, 0, 0, 0, time.UTC) },
	}, src)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- lane.Run(ctx) }()
	// The batch is closed by its 1024th record at the latest; that is too late.
	taken := func() int {
		src.mu.Lock()
		defer src.mu.Unlock()
		return len(src.records)
	}
	for {
		if table, err := delta.Open(ctx, store); err == nil {
			if s, err := table.Snapshot(ctx); err == nil && s.Version() >= 0 {
				break
			}
		}
		if n := taken(); n > 900 {
			t.Fatalf("no commit after %d records", n)
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
