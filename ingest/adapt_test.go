package ingest

import (
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// A batch behind which another one waits stays open, up to the longest interval.
func TestBatchesAreLongerBehind(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	id, other := change.PartitionID{Topic: "t"}, change.PartitionID{Topic: "t", Partition: 1}
	p := &progress.Progress{}
	p.State.Partitions = []*snapshotter.Partition{
		{Topic: "t", Next: 1000, Watermark: snapshotter.NoTime},
		{Number: 1, Topic: "t", Kafka: 1, Next: 500, Watermark: snapshotter.NoTime},
	}
	l := &Lane{o: Options{BatchRows: 100, BatchInterval: time.Minute, BatchMaxInterval: 10 * time.Minute}, p: p,
		judge: snapshotter.NewJudge(cal, &p.State), batch: newBatch(), writer: upsert.New(mem.New(), upsert.Options{})}
	for _, c := range []struct {
		end, otherEnd int64
		open          time.Duration
		want          bool
	}{
		{1099, 500, 59 * time.Second, false},
		{1099, 500, time.Minute, true},
		{1100, 500, time.Minute, false},
		{1050, 550, time.Minute, false},
		{1050, 550, 9 * time.Minute, false},
		{1050, 550, 10 * time.Minute, true},
		{900, 599, time.Minute, true}, // an end that is older than what was taken
	} {
		l.since, l.ends = time.Now().Add(-c.open), map[change.PartitionID]int64{id: c.end, other: c.otherEnd}
		if got := l.timeIsUp(); got != c.want {
			t.Errorf("ends %d and %d, open for %s: %v, want %v", c.end, c.otherEnd, c.open, got, c.want)
		}
	}
}
