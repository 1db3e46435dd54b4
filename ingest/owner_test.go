package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
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
// the first stops at its next commit and adds nothing, the second goes on. They differ
// in how the table is to be protected: the owner's setting counts, and no other.
func TestLostOwnership(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := mem.New()
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	start := func(src *growing, protect string) chan error {
		lane, err := ingest.New(ingest.Options{
			Name: "log", Store: store, DeadLetterStore: mem.New(), Calendar: cal, Key: []string{"id"}, Protect: protect,
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
	firstDone := start(first, savepoint.ProtectBackup)
	waitFor(3)
	second.grow(5)
	secondDone := start(second, savepoint.ProtectLock)
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
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	if snap, err := table.Snapshot(ctx); err != nil || !savepoint.Locked(snap) {
		t.Errorf("the new owner's protect: lock does not stand: %v", err)
	}
	settings := 0
	for version := range int64(1000) {
		commit, err := table.Commit(ctx, version)
		if err != nil {
			break
		}
		if commit.Metadata != nil {
			settings++
		}
	}
	if settings != 2 { // as the first has made it, and the second's claim
		t.Errorf("%d commits with metadata", settings)
	}
	cancel()
	if err := <-secondDone; err != nil {
		t.Fatalf("the second ingester ended with %v", err)
	}
}

// reading is a store that tells of each read of a data file.
type reading struct {
	objstore.Store
	onRead func()
}

func (r *reading) Get(ctx context.Context, key string) ([]byte, error) {
	r.tell(key)
	return r.Store.Get(ctx, key)
}

func (r *reading) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	r.tell(key)
	return r.Store.GetRange(ctx, key, offset, length)
}

func (r *reading) tell(key string) {
	if strings.HasSuffix(key, ".parquet") && !strings.HasPrefix(key, "_delta_log/") {
		r.onRead()
	}
}

// TestClaim lets the owner commit each time that a starter has begun to load the
// table: the starter never gets a batch through, and takes the table all the same.
func TestClaim(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := mem.New()
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	start := func(src ingest.Source, store objstore.Store) chan error {
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
	newest := func() (version int64, p *progress.Progress) {
		table, err := delta.Open(ctx, store)
		if errors.Is(err, delta.ErrNotATable) {
			return -1, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := table.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = savepoint.ProgressOf(ctx, table, s); err != nil {
			t.Fatal(err)
		}
		return s.Version(), p
	}
	until := func(what string, reached func() bool) {
		t.Helper()
		for !reached() {
			if ctx.Err() != nil {
				t.Fatalf("not within a minute: %s", what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	first, second := &growing{}, &growing{}
	first.grow(3)
	second.grow(2000)
	firstDone := start(first, store)
	until("the first has committed", func() bool { v, _ := newest(); return v >= 0 })
	_, p := newest()
	owner := p.Owner
	meetings := 0
	secondDone := start(second, &reading{store, func() {
		// As the owner of a busy table does while a large one is loaded.
		version, p := newest()
		if p.Owner != owner || ctx.Err() != nil {
			return
		}
		meetings++
		first.grow(1)
		until("the owner commits", func() bool { v, p := newest(); return v > version || p.Owner != owner })
	}})
	until("the second takes the table", func() bool { _, p := newest(); return p.Owner != owner })
	first.grow(1)
	select {
	case err := <-firstDone:
		if !errors.Is(err, ingest.ErrLostOwnership) {
			t.Fatalf("the first ingester ended with %v, want lost ownership", err)
		}
	case <-ctx.Done():
		t.Fatal("the first ingester goes on")
	}
	until("the second goes on", func() bool { _, p := newest(); return p.Totals.Taken == 2000 })
	if _, p := newest(); p.OwnerEpoch != 2 || p.Rows != 2000 || p.Totals.Missing() != 0 || p.Totals.Holes != 0 {
		t.Errorf("epoch %d, %d rows, %+v", p.OwnerEpoch, p.Rows, p.Totals)
	}
	if meetings == 0 || meetings > 20 {
		t.Errorf("the two met %d times: the claim must not load the table again and again", meetings)
	}
	cancel()
	if err := <-secondDone; err != nil {
		t.Fatalf("the second ingester ended with %v", err)
	}
}
