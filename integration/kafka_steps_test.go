//go:build integration

package integration

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
)

// The clock of the machine steps by hours, forth and back, around two seals. No
// label is sealed before its end, or while a partition has records behind it, and
// none gets changes of another one.
func testClockSteps(t *testing.T, b *broker) {
	s := newShop(t, b, 2)
	r := s.rig()
	run := runLane(r, business(0).Add(12*time.Hour))
	s.send(s.change(business(0).Add(time.Hour), 100, true))
	taken := int64(100)
	untilTaken := func() {
		t.Helper()
		run.until("all is taken", func(p *progress.Progress) bool { return p.Totals.Taken == taken })
	}
	untilTaken()
	// notSealed looks for a time in which a label that is due would be sealed.
	notSealed := func(why string, at time.Time, sealed int) {
		t.Helper()
		run.at(at)
		time.Sleep(1500 * time.Millisecond)
		equal(t, "sealed days, "+why, len(r.sealed()), sealed)
	}
	tx := s.producer()
	held := s.change(business(0).Add(20*time.Hour), 20, true)
	s.begin(tx, held)
	notSealed("a minute before drift.wait and drift.idle are over", business(1).Add(14*time.Minute), 0)
	notSealed("forth by hours, while records of the day can't be read", business(1).Add(9*time.Hour), 0)
	notSealed("back by ten hours", business(0).Add(23*time.Hour), 0)
	if err := tx.EndTransaction(ctx, true); err != nil {
		t.Fatal(err)
	}
	taken += 20
	untilTaken()
	notSealed("before midnight again", business(0).Add(23*time.Hour+59*time.Minute), 0)
	run.at(business(1).Add(16 * time.Minute))
	run.until("the first day is sealed", func(p *progress.Progress) bool { return p.LastSeal >= 0 })

	// Back before the midnight that is sealed: what comes is of its own label all the same.
	run.at(business(0).Add(14 * time.Hour))
	s.send(s.change(business(1).Add(2*time.Hour), 100, true))
	taken += 100
	untilTaken()
	equal(t, "the open label", run.progress().Label, "2022-07-16")
	// Every partition is past the second day, and the clock is not.
	s.send(s.change(business(2).Add(11*time.Minute), 40, true))
	for p := range int64(2) {
		s.send([]*change.Record{s.one(business(2).Add(time.Hour), p, true)})
	}
	notSealed("the sources are past the day, the clock is hours before its end", business(1).Add(18*time.Hour), 1)
	run.at(business(2).Add(time.Second))
	run.until("the second day is sealed", func(p *progress.Progress) bool { return p.Label == "2022-07-17" })
	taken += 42
	untilTaken()
	run.end()
	r.clock = business(2).Add(time.Second)
	s.check(r, "2022-07-15", "2022-07-16")
	equal(t, "late changes", r.progress().Counts.Late+r.evidence("2022-07-16").Counts.Late, 0)

	// The program, started with a clock of long ago, and with one of days later.
	args := []string{
		"ingest", "--name", "orders", "--location", r.store.Store.String(), "--brokers", b.address, "--topic", s.topic,
		"--timezone", "Asia/Shanghai", "--until-end", "--log-level", "error", "--now",
	}
	gscd(t, append(args, business(0).Format(time.RFC3339))...)
	s.check(r, "2022-07-15", "2022-07-16")
	gscd(t, append(args, business(3).Add(16*time.Minute).Format(time.RFC3339))...)
	r.clock = business(3).Add(16 * time.Minute)
	s.check(r, "2022-07-15", "2022-07-16", "2022-07-17")
	s.checkRecording(r)
}

// business is the start of the n-th business day in Shanghai, from 2022-07-15 on.
func business(n int) time.Time { return day(n).Add(-8 * time.Hour) }

// What happens to a topic while the program reads it: partitions are added, records
// are deleted under it, and at last another topic has its name.
func testTopicChanges(t *testing.T, b *broker) {
	s := newShop(t, b, 2)
	r := s.rig()
	s.send(s.change(day(0).Add(time.Hour), 100, true))
	args := []string{
		"ingest", "--name", "orders", "--location", r.store.Store.String(), "--brokers", b.address, "--topic", s.topic,
		"--timezone", "Asia/Shanghai", "--batch-interval", "200ms", "--drift-idle", "100000h", "--log-level", "warn",
	}
	taken := func() int64 {
		if !r.exists() {
			return 0
		}
		return r.progress().Totals.Taken
	}
	until := func(p *process, what string, reached func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !reached(); time.Sleep(50 * time.Millisecond) {
			select {
			case <-p.ended:
				t.Fatalf("%s: the process ended: %v\n%s", what, p.cmd.ProcessState, p.errors)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("not within a minute: %s\n%s", what, p.errors)
			}
		}
	}
	stops := func(p *process, words ...string) {
		t.Helper()
		if !p.wait(time.Minute) {
			t.Fatalf("it goes on:\n%s", p.errors)
		}
		equal(t, "exit code", p.cmd.ProcessState.ExitCode(), 1)
		says(t, errors.New(p.errors.String()), append(words, s.topic, "on_lost_offsets")...)
	}
	p := startProcess(t, binary(t), args...)
	until(p, "the first records are taken", func() bool { return taken() == 100 })

	if _, err := b.admin(t).CreatePartitions(ctx, 1, s.topic); err != nil {
		t.Fatal(err)
	}
	s.partitions = 3
	time.Sleep(time.Second)                              // until the broker leads it
	s.send(s.change(day(0).Add(4*time.Hour), 150, true)) // keys move to it
	until(p, "the partition that was added is read", func() bool { return taken() == 250 && len(r.progress().State.Partitions) == 3 })

	// Retention overtakes a process that sleeps. What comes first answers the
	// request that is under way.
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.send(s.change(day(0).Add(7*time.Hour), 30, false))
	time.Sleep(300 * time.Millisecond)
	s.send(s.change(day(0).Add(8*time.Hour), 90, false))
	ends, err := b.admin(t).ListEndOffsets(ctx, s.topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(s.topic, 1)
	var del kadm.Offsets
	del.Add(kadm.Offset{Topic: s.topic, Partition: 1, At: end.Offset - 3, LeaderEpoch: -1})
	if done, err := b.admin(t).DeleteRecords(ctx, del); err != nil || done.Error() != nil {
		t.Fatal(err, done.Error())
	}
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	stops(p, "2022-07-15", fmt.Sprint(end.Offset-4))
	before := taken()
	p = startProcess(t, binary(t), args...)
	stops(p, "2022-07-15", fmt.Sprint(end.Offset-4))
	equal(t, "records taken behind the loss", taken(), before)

	p = startProcessIn(t, []string{"GSCD_DEFAULTS_ON_LOST_OFFSETS=continue"}, binary(t), args...)
	until(p, "the rest is taken", func() bool { return r.next(1) == end.Offset })
	for id := range int64(3) {
		s.send([]*change.Record{s.one(day(1).Add(time.Hour), id, false)})
	}
	until(p, "the day is sealed", func() bool { return len(r.sealed()) == 1 })
	sameList(t, "days marked incomplete", incomplete(r), []string{"2022-07-15"})
	says(t, errors.New(r.evidence("2022-07-15").Reason), s.topic+"/1", fmt.Sprint(end.Offset-4))
	equal(t, "records without a fate", r.progress().Totals.Missing(), 0)

	// Another topic of the name, with more records than there were: only its id tells.
	p.end(t, syscall.SIGTERM)
	p = startProcess(t, binary(t), append(args, "--until-end")...)
	if !p.wait(time.Minute) || p.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("a run with an end: %v\n%s", p.cmd.ProcessState, p.errors)
	}
	if _, err := b.admin(t).DeleteTopic(ctx, s.topic); err != nil {
		t.Fatal(err)
	}
	b.createTopic(t, s.topic, 3)
	s.send(s.change(day(1).Add(3*time.Hour), 700, false))
	before = taken()
	p = startProcess(t, binary(t), append(args, "--until-end")...)
	stops(p, "created again")
	equal(t, "records taken of another topic", taken(), before)
}
