package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// The savepoint of the last seal is deleted and vacuumed: what it pinned is pinned no more,
// and the ingester goes on, joins small files and seals the next day.
func TestJoinBehindADeletedSavepoint(t *testing.T) {
	ctx := context.Background()
	src := &parts{}
	src.put(0, "c", 0, "a", "16T08", 10)
	src.put(0, "c", 1, "b", "17T01", 20)
	table := newShared(t)
	table.o = func(o *ingest.Options) { o.BatchRows, o.CheckpointEvery = 1, 1 }
	table.mustRun(src, "17T01:30") // seals the 16th
	if _, err := savepoint.Delete(ctx, table.table, "2022-07-16", time.Now()); err != nil {
		t.Fatal(err)
	}
	for id := 2; id < 8; id++ {
		src.put(0, "c", id, "c", fmt.Sprintf("17T%02d", id), 20+id)
	}
	table.mustRun(src, "17T08:30")
	if _, err := savepoint.Vacuum(ctx, table.table, savepoint.VacuumOptions{Now: time.Now().Add(48 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	sealed := table.progress().LastSeal
	if _, err := table.table.SnapshotAt(ctx, sealed); err == nil {
		t.Fatalf("version %d can still be read", sealed)
	}
	for id := 8; id < 14; id++ {
		src.put(0, "c", id, "d", fmt.Sprintf("17T%02d", id), 20+id)
	}
	table.mustRun(src, "18T01:30")
	if got := table.asOf("2022-07-17"); got != "0=a 10=d 11=d 12=d 13=d 1=b 2=c 3=c 4=c 5=c 6=c 7=c 8=d 9=d" {
		t.Error(got)
	}
	if n := table.snapshot().NumFiles(); n != 1 {
		t.Errorf("%d files: the small ones were to be joined before the seal", n)
	}
}
