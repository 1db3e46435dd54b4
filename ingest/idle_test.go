package ingest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
		when := time.Date(2022, 7, 18, 9, 30, 0, 0, time.UTC)
		lane, err := ingest.New(ingest.Options{
			Name: "t", Store: table.store, DeadLetterStore: table.store, Calendar: table.cal, Key: []string{"id"}, Now: func() time.Time { return when },
		}, silent{src})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- lane.Run(ctx) }()
		time.Sleep(time.Minute)
		table.optimize()
		before := table.snapshot().Version()
		time.Sleep(5 * time.Minute)
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
