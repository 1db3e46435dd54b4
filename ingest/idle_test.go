package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/savepoint"
)

// silent is a topic that brings nothing new, and takes time for it.
type silent struct{ *parts }

func (s silent) Poll(ctx context.Context, most int) ([]change.Block, error) {
	blocks, err := s.parts.Poll(ctx, most)
	if len(blocks) == 0 {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return blocks, err
}

// A rollback beside an ingester whose source is silent is read again within minutes, not
// at the next record; an OPTIMIZE is followed, and no commit is made for any of it.
func TestIdleIngesterSeesOthers(t *testing.T) {
	src := &parts{}
	src.put(0, "c", 1, "a", "16T08", 10)
	src.put(0, "c", 2, "b", "17T08", 20)
	src.put(0, "u", 1, "aa", "17T09", 30)
	src.put(0, "c", 3, "c", "18T09", 40)
	table := newShared(t)
	table.mustRun(src, "18T09:30") // seals the 16th and the 17th
	if got := table.rows(-1); got != "1=aa 2=b 3=c" {
		t.Fatal(got)
	}
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		when := time.Date(2022, 7, 18, 9, 30, 0, 0, time.UTC)
		lane, err := ingest.New(ingest.Options{
			Name: "t", Store: table.store, DeadLetterStore: table.store, Calendar: table.cal, Key: []string{"id"}, Log: zap.New(core), Now: func() time.Time { return when },
		}, silent{src})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- lane.Run(ctx) }()
		time.Sleep(time.Minute)
		table.optimize()
		if _, err := savepoint.RecordChecksums(ctx, delta.New(table.store), savepoint.ChecksumOptions{}); err != nil {
			t.Fatal(err)
		}
		before := table.snapshot().Version()
		time.Sleep(5 * time.Minute)
		if n := logs.FilterMessageSnippet("taking up the newest version").Len(); n != 0 {
			t.Errorf("the table was loaded anew %d times for commits that changed no row", n)
		}
		if v := table.snapshot().Version(); v != before {
			t.Errorf("version %d behind %d: nothing was to be committed", v, before)
		}
		if _, err := savepoint.Rollback(ctx, delta.New(table.store), "2022-07-16", savepoint.RollbackOptions{Now: when}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if got := table.rows(-1); got != "1=aa 2=b 3=c" {
			t.Errorf("five minutes behind the rollback: %s", got)
		}
		if got := table.asOf("2022-07-17"); got != "1=aa 2=b" {
			t.Errorf("2022-07-17: %s", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// With seal.checksum each day has its checksum behind the seal, made of the day before, and
// the ingester goes on over the commit without loading the table anew.
func TestSealChecksum(t *testing.T) {
	src := &parts{}
	for day := 16; day < 20; day++ {
		for id := range 5 {
			src.put(0, "u", id, fmt.Sprint(day, id), fmt.Sprintf("%dT%02d", day, 8+id), day*100+id)
		}
	}
	core, logs := observer.New(zap.InfoLevel)
	table := newShared(t)
	table.o = func(o *ingest.Options) { o.SealChecksum, o.Log = true, zap.New(core) }
	table.mustRun(src, "19T13:30")
	if n := logs.FilterMessageSnippet("taking up the newest version").Len(); n != 0 {
		t.Errorf("the table was loaded anew %d times", n)
	}
	newest := table.snapshot()
	for _, label := range []string{"2022-07-16", "2022-07-17", "2022-07-18"} {
		labels, err := savepoint.Read(context.Background(), table.table, newest)
		if err != nil {
			t.Fatal(err)
		}
		r, err := labels.Resolve(label, true)
		if err != nil {
			t.Fatal(err)
		}
		at, err := table.table.SnapshotAt(context.Background(), r.Entry.Version)
		if err != nil {
			t.Fatal(err)
		}
		want, err := savepoint.ContentOf(context.Background(), table.store, at)
		if err != nil {
			t.Fatal(err)
		}
		if sum, ok, err := savepoint.ReadChecksum(context.Background(), table.store, newest, r.Entry.Version); err != nil || !ok || sum.Content != want || sum.Rows != 5 {
			t.Errorf("%s: %+v %t %v, want %+v", label, sum, ok, err, want)
		}
	}
	if got := table.asOf("2022-07-18"); got != "0=18 0 1=18 1 2=18 2 3=18 3 4=18 4" {
		t.Error(got)
	}
}
