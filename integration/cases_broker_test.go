package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest"
)

// One partition of three answers every fetch with an error for a while: the
// others are taken and committed, the day waits for it, and nothing is late.
func TestPartitionFetchedWithErrors(t *testing.T) {
	for _, fault := range []*kerr.Error{kerr.UnknownServerError, kerr.KafkaStorageError, kerr.NotLeaderForPartition, kerr.OffsetNotAvailable, kerr.CorruptMessage} {
		t.Run(fault.Message, func(t *testing.T) {
			t.Parallel()
			broker := newCluster(t, 3)
			r := newRig(t, broker.consumer())
			for p := range int32(3) {
				broker.produce(numbered(t, p, 0, 20, "2022-07-16T10:00:00+08:00")...)
			}
			broken := broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topicName, Partitions: []int32{1}, Err: fault, Count: -1})

			o := r.options
			o.UntilEnd, o.BatchInterval = false, time.Millisecond
			clock := instant(t, "2022-07-17T02:00:00+08:00")
			o.Now = func() time.Time { return clock }
			source := broker.consumer()
			within, stop := context.WithCancel(ctx)
			defer stop()
			done := make(chan error, 1)
			go func() {
				for {
					lane, err := ingest.New(o, source)
					if err == nil {
						err = lane.Run(within)
					}
					var failed *ingest.SourceError
					if errors.As(err, &failed) && failed.Retryable {
						continue // as the program does
					}
					done <- err
					return
				}
			}()
			wait := func(what string, reached func() bool) {
				t.Helper()
				for end := time.Now().Add(time.Minute); !reached(); time.Sleep(5 * time.Millisecond) {
					select {
					case err := <-done:
						t.Fatalf("%s: it ended with %v", what, err)
					default:
					}
					if time.Now().After(end) {
						t.Fatalf("not within a minute: %s", what)
					}
				}
			}
			// A new table waits for the first record of every partition: its label may be smaller.
			wait("the fault is met", func() bool { return broken.Hits() > 2 })
			equal(t, "the table is there", r.exists(), false)
			broken.Remove()
			wait("all is taken", func() bool { return r.exists() && r.progress().Totals.Taken == 60 })
			wait("the day is sealed", func() bool { return len(r.sealed()) == 1 })

			// The same on a table that is there.
			again := broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topicName, Partitions: []int32{1}, Err: fault, Count: -1})
			for p := range int32(3) {
				broker.produce(numbered(t, p, 20, 10, "2022-07-17T01:00:00+08:00")...)
			}
			wait("the others are taken", func() bool { return r.next(0) == 30 && r.next(2) == 30 })
			wait("the fault is met again", func() bool { return again.Hits() > 2 })
			again.Remove()
			wait("the rest is taken", func() bool { return r.next(1) == 30 })
			stop()
			if err := <-done; err != nil {
				t.Errorf("it ended with %v", err)
			}
			sameList(t, "sealed", r.sealed(), []string{"2022-07-16"})
			equal(t, "rows of the 16th", len(r.mustAsOf("2022-07-16")), 60)
			equal(t, "rows", len(r.current()), 90)
			equal(t, "late", r.progress().Counts.Late, 0)
			totals := r.progress().Totals
			equal(t, "fates", fmt.Sprint(totals.Taken, totals.Applied, totals.Holes, totals.Missing()), "90 90 0 0")
			r.checkVersions(false)
		})
	}
}
