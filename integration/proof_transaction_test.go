//go:build integration

package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/progress"
)

// A producer begins a transaction and is never heard of again. What it wrote may
// be of any day, so none is sealed, and the status says why; when the broker has
// aborted the transaction at its timeout, the table goes on by itself.
func testHangingTransaction(t *testing.T, b *broker) {
	// On a slow machine the first timeouts may be over before all was looked at.
	for _, timeout := range []time.Duration{20 * time.Second, time.Minute, 4 * time.Minute} {
		if hangingTransaction(t, b, timeout) {
			return
		}
		t.Logf("a timeout of %s was too short", timeout)
	}
	t.Error("no timeout was long enough")
}

func hangingTransaction(t *testing.T, b *broker, timeout time.Duration) (inTime bool) {
	s := newShop(t, b, 2)
	s.send(s.change(day(0).Add(time.Hour), 100, true))
	tx := b.client(t, kgo.TransactionalID(s.topic), kgo.TransactionTimeout(timeout))
	lost := s.change(day(0).Add(5*time.Hour), 20, false)
	for _, r := range lost {
		r.Partition = 1
	}
	s.begin(tx, lost)
	behind := s.change(day(0).Add(6*time.Hour), 50, true)
	s.send(behind)
	onP1 := 0
	for _, r := range behind {
		if r.Partition == 1 {
			onP1++
		}
	}
	r := s.rig()
	now := day(1).Add(12 * time.Hour)
	run := runLane(r, now)
	run.until("what can be read is taken", func(p *progress.Progress) bool { return p.Totals.Taken == int64(150-onP1) })

	status := statusOf(t, b, s.topic, r.store.Store.String(), now)
	sealed := len(r.sealed())
	if b.unsettled(t, s.topic) == 0 {
		run.end()
		return false
	}
	equal(t, "sealed days while the transaction is open", sealed, 0)
	says(t, errors.New(status.HeldBackBy), s.topic+"/1", "in an open transaction", "since ")
	for _, p := range status.Partitions {
		if p.Partition == 1 {
			equal(t, "lag of partition 1", p.Lag, int64(20+onP1))
			says(t, errors.New(p.WaitsFor), "open transaction")
		}
	}
	b.untilSettled(t, s.topic)
	run.until("the day is sealed", func(p *progress.Progress) bool { return p.LastSeal >= 0 })
	run.end()
	r.clock = now
	s.check(r, "2022-07-15")
	s.checkOffsets(r)
	equal(t, "records taken", r.progress().Totals.Taken, 150)
	if holes := r.progress().Totals.Holes; holes < 20 {
		t.Errorf("%d holes, want the 20 records that were aborted", holes)
	}
	return true
}
