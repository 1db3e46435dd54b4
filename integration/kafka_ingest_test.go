//go:build integration

package integration

import (
	"crypto/sha256"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/progress"
)

// TestKafka runs the pipeline on a real Kafka, one broker for all.
func TestKafka(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, b *broker)
	}{
		{"transactions", testTransactions},
		{"open transaction", testOpenTransaction},
		{"large record", testLargeRecord},
		{"lost offsets", testLostOffsets},
		{"recreated topic", testRecreatedTopic},
		{"killed between commits", testKilledLane},
		{"added partitions", testAddedPartitions},
		{"program killed", testProgramKilled},
		{"connections", testConnections},
		{"rights", testRights},
		{"tokens", testTokens},
		{"rotated certificate", testRotatedCertificate},
		{"rotated password", testRotatedPassword},
		{"renewed broker", testRenewedBroker},
		{"secure program", testSecureProgram},
		{"broker restarts", testBrokerRestarts},
		{"clock steps", testClockSteps},
		{"topic changes", testTopicChanges},
		{"changes into a topic", testChangesSink},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, b) })
	}
}

// Aborted records are in no day, and the offsets that they and the markers
// take hold nothing back, at the end of the log either.
func testTransactions(t *testing.T, b *broker) {
	s := newShop(t, b, 3)
	tx := s.producer()
	for n := range 4 {
		at := day(n).Add(time.Hour)
		s.transaction(tx, s.change(at, 150, true), true)
		s.transaction(tx, s.change(at, 100, false), false)
		s.transaction(tx, s.change(at.Add(3*time.Hour), 150, true), true)
		s.transaction(tx, s.change(at, 50, false), false)
	}
	r := s.rig()
	r.clock = day(4).Add(time.Hour)
	r.mustWork()
	s.check(r, "2022-07-15", "2022-07-16", "2022-07-17", "2022-07-18")
	s.checkOffsets(r)
	s.checkRecording(r)
	equal(t, "records taken", r.progress().Totals.Taken, 1200)
	if holes := r.progress().Totals.Holes; holes < 600 {
		t.Errorf("%d holes, want at least the 600 aborted records", holes)
	}
}

// A record of an open transaction may be of any day: none is sealed before it is decided.
func testOpenTransaction(t *testing.T, b *broker) {
	s := newShop(t, b, 2)
	tx := s.producer()
	s.transaction(tx, s.change(day(0).Add(time.Hour), 100, true), true)
	s.begin(tx, s.change(day(0).Add(5*time.Hour), 20, true))
	r := s.rig()
	r.clock = day(1).Add(12 * time.Hour)
	r.mustWork()
	s.check(r)
	equal(t, "records taken while the transaction is open", r.progress().Totals.Taken, 100)
	if err := tx.EndTransaction(ctx, true); err != nil {
		t.Fatal(err)
	}
	r.mustWork()
	s.check(r, "2022-07-15")
	s.checkOffsets(r)
}

func testLargeRecord(t *testing.T, b *broker) {
	s := newShop(t, b, 1)
	large := strings.Repeat("0123456789abcdef", 12<<20/16)
	s.send(s.change(day(0).Add(time.Hour), 5, true))
	s.pos++
	s.send([]*change.Record{s.record(day(0).Add(2*time.Hour), 1000, "c", "null", `{"id":1000,"amount":1,"note":"`+large+`"}`)})
	s.send(s.change(day(0).Add(3*time.Hour), 5, true))

	r := s.rig()
	r.clock = day(1).Add(time.Hour)
	r.mustWork()
	found := false
	for _, row := range r.mustAsOf("2022-07-15") {
		if note, ok := row["note"].(string); ok && len(note) == len(large) {
			found = sha256.Sum256([]byte(note)) == sha256.Sum256([]byte(large))
		}
	}
	equal(t, "the large value came through", found, true)
	equal(t, "records applied", r.progress().Totals.Applied, 11)

	// Over the limit it is a dead letter with its coordinates, and the rest goes on.
	limited := s.rig(func(o *ingest.Options) { o.MaxRecord = 1 << 20 })
	options := s.options()
	options.MaxRecord = 1 << 20
	c, err := kafka.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	limited.source, limited.clock = c, r.clock
	limited.mustWork()
	sameList(t, "sealed days", limited.sealed(), []string{"2022-07-15"})
	equal(t, "records applied beside the large one", limited.progress().Totals.Applied, 10)
	dead := limited.deadLetters()
	if len(dead) != 1 || dead[0].Reason != "oversize" || dead[0].Offset != 5 || dead[0].Length < 12<<20 || len(dead[0].Value) != change.OversizeKept {
		t.Errorf("%d dead letters, want the one of offset 5 with its length and its first MiB", len(dead))
	}
}

// Offsets that retention has taken are never left out in silence.
func testLostOffsets(t *testing.T, b *broker) {
	s := newShop(t, b, 2)
	s.send(s.change(day(0).Add(time.Hour), 100, true))
	r := s.rig()
	r.clock = day(0).Add(12 * time.Hour)
	r.mustWork()
	s.send(s.change(day(1).Add(time.Hour), 100, false))

	lost := change.PartitionID{Topic: s.topic, Partition: 1}
	next := r.next(1)
	var del kadm.Offsets
	del.Add(kadm.Offset{Topic: s.topic, Partition: 1, At: next + 7, LeaderEpoch: -1})
	if done, err := b.admin(t).DeleteRecords(ctx, del); err != nil || done.Error() != nil {
		t.Fatal(err, done.Error())
	}
	s.fresh(r)
	before := len(r.everyVersion())
	err := r.work()
	found := change.LostOffsets(err)
	if len(found) != 1 || found[0].ID != lost || found[0].Wanted != next || found[0].Earliest != next+7 {
		t.Errorf("the error is %v (%+v), want the loss of offsets %d to %d of %s", err, found, next, next+6, lost)
	}
	says(t, err, "2022-07-15", "on_lost_offsets")
	equal(t, "versions after the refusal", len(r.everyVersion()), before)

	r.options.OnLostOffsets = ingest.Continue
	s.fresh(r)
	r.clock = day(3)
	r.mustWork()
	sameList(t, "days marked incomplete", incomplete(r), []string{"2022-07-15", "2022-07-16", "2022-07-17"})
	equal(t, "holes", r.progress().Totals.Holes, 7)
}

func testRecreatedTopic(t *testing.T, b *broker) {
	s := newShop(t, b, 1)
	s.send(s.change(day(0).Add(time.Hour), 50, true))
	r := s.rig()
	r.clock = day(0).Add(12 * time.Hour)
	r.mustWork()
	before := len(r.everyVersion())

	if _, err := b.admin(t).DeleteTopic(ctx, s.topic); err != nil {
		t.Fatal(err)
	}
	b.createTopic(t, s.topic, 1)
	s.send(s.change(day(0).Add(3*time.Hour), 80, false)) // more than there were: only the id tells

	err := r.work()
	if !errors.Is(err, kafka.ErrTopicRecreated) && !errors.Is(err, ingest.ErrRecreated) {
		t.Errorf("the process that read the old topic: %v", err)
	}
	s.fresh(r)
	if err := r.work(); !errors.Is(err, ingest.ErrRecreated) {
		t.Errorf("a new process: %v", err)
	} else {
		says(t, err, s.topic, "2022-07-15", "on_lost_offsets")
	}
	equal(t, "versions after the refusals", len(r.everyVersion()), before)
}

// A process may die at any commit: before it, or after it and without knowing.
func testKilledLane(t *testing.T, b *broker) {
	s := newShop(t, b, 3)
	for n := range 3 {
		s.send(s.change(day(n).Add(time.Hour), 300, true))
	}
	r := s.rig(func(o *ingest.Options) { o.BatchRows = 60 })
	r.clock = day(3).Add(time.Hour)
	kills := 0
	for {
		commits := 0
		kill := func(_, key string) error {
			if !isCommit(key) {
				return nil
			}
			if commits++; commits <= kills%3 {
				return nil
			}
			r.store.kill()
			return errKilled
		}
		only := func(call string, hook func(string, string) error) func(string, string) error {
			return func(c, key string) error {
				if c != call {
					return nil
				}
				return hook(c, key)
			}
		}
		if kills%2 == 0 {
			r.store.hooks(only("put if absent", kill), nil)
		} else {
			r.store.hooks(nil, only("put if absent", kill))
		}
		err := r.work()
		if err == nil {
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		kills++
		s.fresh(r)
		if kills > 100 {
			t.Fatal("a hundred deaths and no end")
		}
	}
	if kills < 5 {
		t.Errorf("killed %d times only", kills)
	}
	r.store.hooks(nil, nil)
	s.check(r, "2022-07-15", "2022-07-16", "2022-07-17")
	s.checkSpans(r)
	s.checkOffsets(r)
	s.checkRecording(r)
	equal(t, "records taken", r.progress().Totals.Taken, 900)
}

// Partitions that are added while the table is read are read from their start,
// and hold the seal like the others.
func testAddedPartitions(t *testing.T, b *broker) {
	s := newShop(t, b, 2)
	r := s.rig()
	run := runLane(r, day(0).Add(12*time.Hour))
	s.send(s.change(day(0).Add(time.Hour), 100, true))
	run.until("the first records are taken", func(p *progress.Progress) bool { return p.Totals.Taken == 100 })
	if _, err := b.admin(t).CreatePartitions(ctx, 2, s.topic); err != nil {
		t.Fatal(err)
	}
	for { // until the broker has heard of it from its controller
		list, err := b.admin(t).ListTopics(ctx, s.topic)
		if err != nil {
			t.Fatal(err)
		}
		if len(list[s.topic].Partitions) == 4 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.partitions = 4
	// Keys move with the number of partitions: the newer change is on the new one.
	s.send(s.change(day(0).Add(4*time.Hour), 200, true))
	run.at(day(1).Add(time.Hour))
	run.until("the day is sealed", func(p *progress.Progress) bool { return p.LastSeal >= 0 })
	run.end()
	r.clock = day(1).Add(time.Hour)
	s.check(r, "2022-07-15")
	s.checkOffsets(r)
	s.checkRecording(r)
	for _, p := range r.evidence("2022-07-15").Partitions {
		if p.Offset == 0 {
			t.Errorf("the seal counts nothing of partition %d", p.Partition)
		}
	}
}

// A broker that stops, or is killed, and comes back is no loss and no repetition.
func testBrokerRestarts(t *testing.T, b *broker) {
	s := newShop(t, b, 3)
	r := s.rig()
	s.send(s.change(day(0).Add(time.Hour), 200, true))
	run := runLane(r, day(0).Add(12*time.Hour))
	run.until("the first records are taken", func(p *progress.Progress) bool { return p.Totals.Taken == 200 })
	for i, end := range []func(){b.stop, b.kill} {
		end()
		// The clock is past the day: only the broker that is away holds its seal.
		run.at(day(1 + i).Add(time.Hour))
		time.Sleep(time.Second)
		b.start()
		s.send(s.change(day(1+i).Add(2*time.Hour), 200, true))
		want := int64(400 + 200*i)
		run.until("the records after the restart are taken", func(p *progress.Progress) bool { return p.Totals.Taken == want })
	}
	run.at(day(3).Add(time.Hour))
	run.until("the last day is sealed", func(p *progress.Progress) bool { return p.Label == "2022-07-18" })
	run.end()
	r.clock = day(3).Add(time.Hour)
	s.check(r, "2022-07-15", "2022-07-16", "2022-07-17")
	s.checkSpans(r)
	s.checkOffsets(r)
	s.checkRecording(r)
}

// The program itself, killed at any moment, goes on where its table stands.
func testProgramKilled(t *testing.T, b *broker) {
	s := newShop(t, b, 3)
	for n := range 3 {
		s.send(s.change(day(n).Add(time.Hour), 300, true))
	}
	r := s.rig()
	r.clock = day(3).Add(time.Hour)
	location := r.store.Store.String()
	args := []string{
		"ingest", "--name", "orders", "--location", location, "--brokers", b.address, "--topic", s.topic, "--timezone", "Asia/Shanghai",
		"--batch-rows", "30", "--now", r.clock.Format(time.RFC3339), "--log-level", "error",
	}
	versions := func() int {
		if !r.exists() {
			return 0
		}
		return len(r.everyVersion())
	}
	until := func(p *process, n int) {
		t.Helper()
		for versions() <= n {
			select {
			case <-p.ended:
				t.Fatalf("it ended by itself:\n%s", p.errors)
			case <-time.After(time.Millisecond):
			}
		}
	}
	// One that runs for ever and is asked to stop does so in good order.
	p := startProcess(t, binary(t), args...)
	until(p, 2)
	p.end(t, syscall.SIGTERM)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, p.errors)
	}
	// Only a run with an end takes a table at once that was taken often of late.
	args = append(args, "--until-end")
	for kills := range 5 {
		before := versions()
		p := startProcess(t, binary(t), args...)
		until(p, before+kills)
		p.end(t, syscall.SIGKILL)
	}
	if sealed := r.sealed(); len(sealed) == 3 {
		t.Errorf("all was done before the last kill: no test")
	}
	gscd(t, args...)
	s.check(r, "2022-07-15", "2022-07-16", "2022-07-17")
	s.checkSpans(r)
	s.checkRecording(r)
	equal(t, "records taken", r.progress().Totals.Taken, 900)
	gscd(t, "check", "--table", location, "--deep")
}
