package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest"
)

// TestCase15PartitionsMove is the case with the whole table changing hands, for
// one ingester owns it: A is in the middle of a batch when B takes the table.
func TestCase15PartitionsMove(t *testing.T) {
	case15(t, func() caseTopic { return newCluster(t, 2) })
}

func case15(t *testing.T, fresh func() caseTopic) {
	c := theCase(t, 15)
	var records []step
	for _, s := range c.steps("Input") {
		if s.record != nil || s.kind == "clock" {
			records = append(records, s)
		}
	}
	last := len(records) - 2 // comes when the table has moved
	if len(records) != 6 || records[len(records)-1].kind != "clock" {
		t.Fatalf("the input has %d records", len(records)-1)
	}

	// handover lets B take the table while A commits its batch, and gives how A
	// ended. revoke tells A to stop, as a rolling restart does; else it finds out.
	handover := func(t *testing.T, revoke bool) (r *rig, ended error) {
		broker := fresh()
		r = newRig(t, broker.consumer())
		r.clock = instant(t, "2022-07-16T12:00:00+08:00")

		// A's commits wait in its store, once it is told so.
		held, begun, release := make(chan bool), make(chan bool, 1), make(chan bool)
		slow := &gate{Store: r.store.Store}
		slow.hooks(func(call, key string) error {
			select {
			case <-held:
				if call == "put if absent" && isCommit(key) {
					select {
					case begun <- true:
					default:
					}
					<-release
				}
			default:
			}
			return nil
		}, nil)
		o := r.options
		o.Store, o.UntilEnd, o.BatchInterval = slow, false, time.Millisecond
		a, err := ingest.New(o, broker.consumer())
		if err != nil {
			t.Fatal(err)
		}
		within, stop := context.WithCancel(ctx)
		defer stop()
		done := make(chan error, 1)
		go func() { done <- a.Run(within) }()
		wait := func(what string, ready func() bool) {
			t.Helper()
			for end := time.Now().Add(time.Minute); !ready(); time.Sleep(5 * time.Millisecond) {
				select {
				case err := <-done:
					t.Fatalf("A ended before this: %s: %v", what, err)
				default:
				}
				if time.Now().After(end) {
					t.Fatalf("not within a minute: %s", what)
				}
			}
		}
		broker.produce(records[0].record)
		wait("A owns the table", r.exists)
		close(held)
		for _, s := range records[1:last] {
			broker.produce(s.record)
		}
		wait("A commits its batch", func() bool { return len(begun) > 0 })

		// Lag tools may say what they like: nobody reads a group's offsets.
		wrong := kadm.Offsets{}
		wrong.Add(kadm.Offset{Topic: broker.topic(), Partition: 0, At: 0})
		wrong.Add(kadm.Offset{Topic: broker.topic(), Partition: 1, At: 2})
		broker.commit(wrong)

		r.mustWork() // B
		before := r.log()
		broker.produce(records[last].record)
		if revoke {
			stop()
		}
		close(release)
		select {
		case ended = <-done:
		case <-time.After(time.Minute):
			t.Fatal("A goes on")
		}
		r.mustWork()
		r.workAt(records[last+1].text("now"))

		first := before[0].progress.Owner
		for _, v := range r.log()[1:] {
			if v.progress.Owner == first || v.progress.OwnerEpoch != 2 {
				t.Errorf("version %d is of %q, epoch %d", v.version, v.progress.Owner, v.progress.OwnerEpoch)
			}
		}
		return r, ended
	}
	check := func(t *testing.T, r *rig) {
		t.Helper()
		c.checkAsOf(t, r)
		c.checkVersionsOf(t, r)
		c.checkNextOffset(t, r, c.expect(nil, "next_offset")[0])
		totals := r.progress().Totals
		equal(t, "applied", totals.Applied, 5)
		equal(t, "taken", totals.Taken, 5)
		equal(t, "missing fates", totals.Missing(), 0)
	}
	revoked, err := handover(t, true)
	if err != nil {
		t.Errorf("A was told to stop and ended with %v", err)
	}
	check(t, revoked)
	lost, err := handover(t, false)
	check(t, lost)

	c.theMust(1, func(t *testing.T) {
		// A had written its files already; they are in no version.
		for _, r := range []*rig{revoked, lost} {
			if len(r.orphans()) == 0 {
				t.Error("A has written nothing: it was not in the middle of its batch")
			}
		}
	})
	c.theMust(2, func(t *testing.T) {
		for _, r := range []*rig{revoked, lost} {
			equal(t, "duplicates", r.progress().Totals.Duplicates, 0)
			equal(t, "holes", r.progress().Totals.Holes, 0)
		}
	})
	c.theMust(3, func(t *testing.T) {
		sameList(t, "sealed", lost.sealed(), []string{"2022-07-16"})
		parts := ""
		for _, p := range lost.evidence("2022-07-16").Partitions {
			parts += fmt.Sprintf("%d:%d ", p.Partition, p.Offset)
		}
		equal(t, "offsets of the seal", parts, "0:2 1:3 ")
	})
	c.theMust(4, func(t *testing.T) {
		if !errors.Is(err, ingest.ErrLostOwnership) {
			t.Errorf("A ended with %v", err)
		}
		says(t, err, lost.progress().Owner)
	})
	c.theChoice(1, func(t *testing.T) {
		equal(t, "epoch", lost.progress().OwnerEpoch, 2)
	})
}

func (c *cluster) commit(offsets kadm.Offsets) {
	c.t.Helper()
	commitOffsets(c.t, c.ListenAddrs(), "gscd", offsets)
}

// commitOffsets sets the offsets of a group.
func commitOffsets(t testing.TB, brokers []string, group string, offsets kadm.Offsets) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	done, err := kadm.NewClient(client).CommitOffsets(ctx, group, offsets)
	if err != nil || done.Error() != nil {
		t.Fatal(err, done.Error())
	}
}
