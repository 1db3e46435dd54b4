package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// growing is a Source of one partition that gets records while it is read.
type growing struct {
	mu sync.Mutex
	fixed
}

func (g *growing) grow(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range n {
		o := int64(len(g.records))
		at := time.Date(2022, 7, 16, 8, 0, 0, 0, time.UTC).UnixMilli() + o*1000
		g.records = append(g.records, &change.Record{
			Topic: "log", Offset: o, Timestamp: at, Key: fmt.Appendf(nil, `{"id":%d}`, o),
			Value: fmt.Appendf(nil, `{"op":"c","before":null,"after":{"id":%d},"source":{"name":"s","server_id":1,"file":"b.000001","pos":%d,"row":0,"ts_ms":%d,"db":"d","table":"log"},"ts_ms":%d}`, o, o+1, at, at),
		})
	}
}

func (g *growing) Partitions(ctx context.Context) ([]change.PartitionState, time.Time, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fixed.Partitions(ctx)
}

func (g *growing) Poll(ctx context.Context, n int) ([]change.Block, error) {
	g.mu.Lock()
	blocks, err := g.fixed.Poll(ctx, n)
	g.mu.Unlock()
	if len(blocks) == 0 {
		time.Sleep(time.Millisecond)
	}
	return blocks, err
}

// TestLostOwnership lets a second ingester take a table from a running one:
// the first stops at its next commit and adds nothing, the second goes on.
func TestLostOwnership(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := mem.New()
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	start := func(src *growing) chan error {
		lane, err := ingest.New(ingest.Options{
			Name: "log", Store: store, DeadLetterStore: mem.New(), Calendar: cal, Key: []string{"id"},
			BatchInterval: time.Millisecond, Now: func() time.Time { return time.Date(2022, 7, 16, 9, 0, 0, 0, time.UTC) },
		}, src)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- lane.Run(ctx) }()
		return done
	}
	rows := func() int64 {
		table, err := delta.Open(ctx, store)
		if errors.Is(err, delta.ErrNotATable) {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		snap, err := table.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		p, err := savepoint.ProgressOf(ctx, table, snap)
		if err != nil {
			t.Fatal(err)
		}
		return p.Rows
	}
	waitFor := func(want int64) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); rows() != want; time.Sleep(2 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d rows, want %d", rows(), want)
			}
		}
	}
	first, second := &growing{}, &growing{}
	first.grow(3)
	firstDone := start(first)
	waitFor(3)
	second.grow(5)
	secondDone := start(second)
	waitFor(5)
	first.grow(4) // the same two records, and two that the second has not seen
	select {
	case err := <-firstDone:
		if !errors.Is(err, ingest.ErrLostOwnership) {
			t.Fatalf("the first ingester ended with %v, want lost ownership", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the first ingester goes on")
	}
	if got := rows(); got != 5 {
		t.Fatalf("%d rows after the first stopped, want 5", got)
	}
	second.grow(1)
	waitFor(6)
	cancel()
	if err := <-secondDone; err != nil {
		t.Fatalf("the second ingester ended with %v", err)
	}
}
