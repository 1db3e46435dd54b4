//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// realTopic is a topic of a real broker that a case is run on.
type realTopic struct {
	t      testing.TB
	broker *broker
	name   string
}

var _ caseTopic = (*realTopic)(nil)

func newRealTopic(t testing.TB, b *broker, partitions int32) *realTopic {
	t.Helper()
	c := &realTopic{t, b, fmt.Sprintf("case-%d", topics.Add(1))}
	b.createTopic(t, c.name, partitions)
	return c
}

func (c *realTopic) topic() string { return c.name }

func (c *realTopic) options() kafka.Options {
	return kafka.Options{Brokers: c.broker.seeds(), Topics: []string{c.name}, Group: "group-" + c.name, PollWait: 100 * time.Millisecond, RequestTimeout: 10 * time.Second}
}

func (c *realTopic) consumer(change ...func(*kafka.Options)) *kafka.Consumer {
	c.t.Helper()
	o := c.options()
	for _, f := range change {
		f(&o)
	}
	consumer, err := kafka.New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = consumer.Close() })
	return consumer
}

func (c *realTopic) produce(records ...*change.Record) {
	c.t.Helper()
	copies := c.copies(records)
	if err := kafka.Produce(ctx, c.options(), copies); err != nil {
		c.t.Fatal(err)
	}
	for i, r := range copies {
		equal(c.t, fmt.Sprintf("offset of a record of partition %d", r.Partition), r.Offset, records[i].Offset)
	}
}

// copies are the records as they are sent to this topic.
func (c *realTopic) copies(records []*change.Record) (out []*change.Record) {
	for _, r := range records {
		copied := *r
		copied.Topic = c.name
		out = append(out, &copied)
	}
	return out
}

func (c *realTopic) transaction(r *change.Record, commit bool) {
	c.t.Helper()
	end := c.hold(r)
	end(commit)
}

// hold writes records in a transaction that stays open until it is told how to end.
func (c *realTopic) hold(records ...*change.Record) (end func(commit bool)) {
	c.t.Helper()
	client := c.broker.client(c.t, kgo.TransactionalID(fmt.Sprintf("%s-%d", c.name, records[0].Offset)))
	if err := client.BeginTransaction(); err != nil {
		c.t.Fatal(err)
	}
	sent := kafkaRecords(c.copies(records))
	if err := client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
	for i, r := range sent {
		equal(c.t, "offset of a record in a transaction", r.Offset, records[i].Offset)
	}
	return func(commit bool) {
		c.t.Helper()
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
			c.t.Fatal(err)
		}
		c.broker.untilSettled(c.t, c.name)
	}
}

func (c *realTopic) deleteBelow(partition int32, offset int64) {
	c.t.Helper()
	var del kadm.Offsets
	del.Add(kadm.Offset{Topic: c.name, Partition: partition, At: offset, LeaderEpoch: -1})
	if done, err := c.broker.admin(c.t).DeleteRecords(ctx, del); err != nil || done.Error() != nil {
		c.t.Fatal(err, done.Error())
	}
}

func (c *realTopic) commit(offsets kadm.Offsets) {
	c.t.Helper()
	commitOffsets(c.t, c.broker.seeds(), c.options().Group, offsets)
}

// status runs `gscd status` of a table that reads the topic.
func (c *realTopic) status(r *rig, now time.Time) (s tableStatus) {
	c.t.Helper()
	return statusOf(c.t, c.broker, c.name, r.store.Store.String(), now)
}

// tableStatus is what `gscd status` says, as far as tests look at it.
type tableStatus struct {
	HeldBackBy string `json:"held_back_by"`
	Open       string
	Partitions []struct {
		Partition  int32
		Next       int64
		Lag        int64
		WaitsFor   string    `json:"waits_for"`
		HoldsSince time.Time `json:"holds_since"`
	}
}

func statusOf(t testing.TB, b *broker, topic, location string, now time.Time) (s tableStatus) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gscd.yaml")
	text := fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: Asia/Shanghai}\ntables:\n  - {name: t, location: %q, topics: [%s]}\n", b.address, location, topic)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	raw := gscd(t, "status", "-c", path, "--now", now.Format(time.RFC3339), "--format", "json")
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return s
}

// TestCasesOnRealServers runs the cases about brokers and storages on a real
// Kafka and a real S3 storage.
func TestCasesOnRealServers(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	t.Run("11 b", func(t *testing.T) { case11b(t, b) })
	t.Run("15", func(t *testing.T) { case15(t, func() caseTopic { return newRealTopic(t, b, 2) }) })
	t.Run("16", func(t *testing.T) {
		case16(t, func(partitions int32) caseTopic { return newRealTopic(t, b, partitions) })
	})
	t.Run("17", func(t *testing.T) { case17(t, newRealTopic(t, b, 1)) })
	t.Run("28", func(t *testing.T) { case28(t, b) })
}

// case11b is part b of the case: a partition has records that the broker does
// not hand out, for a transaction is open. It holds the day, and the status says so.
func case11b(t *testing.T, b *broker) {
	c := theCase(t, 11)
	partB := func(e *expectation) bool { return e.text("part") == "b" }
	early, sealed := c.expect(partB, "part", "at", "snapshots")[0], c.expect(partB, "part", "at", "as_of", "ids")[0]
	first, steps := recordsOf(c.steps("Input, part a")), c.steps("Input, part b")
	c.ignore()

	topic := newRealTopic(t, b, 3)
	topic.produce(first...)
	r := localRig(t, topic.consumer())
	r.clock = instant(t, "2022-07-16T22:00:00+08:00")
	r.mustWork()
	var end func(bool)
	held := recordsOf(steps)
	for _, s := range steps {
		switch s.kind {
		case "block_fetch":
			end = topic.hold(held...)
		case "unblock_fetch":
			end(true)
		case "partition_end":
			equal(t, "the end", s.int("end_offset"), held[0].Offset+int64(len(held)))
		case "clock":
			r.workAt(s.text("now"))
		case "cli":
			equal(t, "the clock", at(r), early.text("at"))
			sameList(t, "sealed", r.sealed(), []string{})
			status := topic.status(r, r.clock)
			says(t, fmt.Errorf("%s", status.HeldBackBy), topic.name+"/2", "2 records behind", "open transaction", "since 2022-07-16T16:15:00Z (15m0s)")
			for _, p := range status.Partitions {
				if p.Partition != 2 {
					continue
				}
				equal(t, "lag of partition 2", p.Lag, 2)
				equal(t, "it holds the day since", p.HoldsSince.UTC().Format(time.RFC3339), "2022-07-16T16:15:00Z")
				says(t, fmt.Errorf("%s", p.WaitsFor), "open transaction", "2 records")
			}
		}
	}
	equal(t, "the clock", at(r), sealed.text("at"))
	sameList(t, "as of "+sealed.text("as_of"), ids(r.mustAsOf(sealed.text("as_of"))), sealed.ids(t, "ids"))
	equal(t, "late", r.progress().Counts.Late+r.evidence("2022-07-16").Counts.Late, 0)
	equal(t, "taken", r.progress().Totals.Taken, 7)
	r.checkVersions(false)
}

// case28 puts a storage that throttles before the real one.
func case28(t *testing.T, b *broker) {
	c := theCase(t, 28)
	g := startGateway(t, "--keep-alive")
	proxy := startStoreProxy(t, g)
	var mu sync.Mutex
	var retries []s3.Retry
	o := g.options()
	o.Endpoint, o.FirstWait = proxy.URL, 4*time.Millisecond
	o.Retried = func(r s3.Retry) {
		mu.Lock()
		defer mu.Unlock()
		retries = append(retries, r)
	}
	open := func(prefix string) *s3.Store {
		s, err := s3.Open(ctx, gatewayBucket, prefix, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	topic := newRealTopic(t, b, 1)
	r := rigOn(t, open("t"), open("t__dead_letter"), topic.consumer())
	versions := func() int { // past the faults
		names, err := filepath.Glob(filepath.Join(g.dir, gatewayBucket, "t", "_delta_log", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	rebalances := func() {
		groups, err := b.admin(t).DescribeGroups(ctx, topic.options().Group)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			equal(t, "members of the group", len(group.Members), 0)
		}
	}
	answers := map[string][]int{} // by kind of request, the next first
	outage, ended, perTry := false, false, []int{}
	for _, s := range c.steps("Input") {
		switch {
		case s.record != nil:
			topic.produce(s.record)
		case s.kind == "clock":
			r.clock = instant(t, s.text("now"))
			if !outage {
				r.mustWork()
				continue
			}
			// The program would start the table again and again; so does this.
			before, began := versions(), time.Now()
			for range 3 {
				n := len(proxy.requests(time.Time{}))
				err := r.work()
				says(t, err, "503 SlowDown", "6 times")
				perTry = append(perTry, len(proxy.requests(time.Time{}))-n)
			}
			ended = true
			equal(t, "versions during the outage", versions(), before)
			for _, request := range proxy.requests(began) {
				if request.kind() == "put commit" {
					t.Errorf("%s was asked for while even reading was refused", request.key)
				}
			}
		case s.text("all") == "503":
			outage = true
			proxy.set(func(storeRequest) int { return http.StatusServiceUnavailable })
		case s.text("all") == "200":
			outage = false
			proxy.set(nil)
		default:
			for kind, name := range map[string]string{"put data": "put_data", "put commit": "put_log", "list": "list"} {
				var list []int
				if err := json.Unmarshal(s.fields[name], &list); err != nil {
					t.Fatal(err)
				}
				answers[kind] = list
			}
			proxy.set(func(r storeRequest) int {
				mu.Lock()
				defer mu.Unlock()
				list := answers[r.kind()]
				if len(list) == 0 {
					return 0
				}
				answers[r.kind()] = list[1:]
				return map[bool]int{false: list[0]}[list[0] == http.StatusOK]
			})
		}
	}
	if !ended {
		t.Error("there was no outage")
	}
	for kind, left := range answers {
		equal(t, "answers that were not given to "+kind, len(left), 0)
	}
	rebalances()
	c.checkAsOf(t, r)
	for _, e := range c.expect(nil, "rebalances") {
		equal(t, "rebalances", e.fieldInt("rebalances"), 0)
	}
	c.checkVersionsOf(t, r)
	totals := r.progress().Totals
	equal(t, "records applied", totals.Applied, 3)
	equal(t, "records taken", totals.Taken, 3)
	// Each wait is a random half to the whole of a time that doubles.
	if len(retries) < 6 {
		t.Errorf("%d requests were made again", len(retries))
	}
	for _, again := range retries {
		most := 5 * o.FirstWait << (again.Attempt - 1)
		if again.Wait < most/2 || again.Wait > most {
			t.Errorf("attempt %d of %s %s waits %s, want %s to %s", again.Attempt, again.Op, again.Key, again.Wait, most/2, most)
		}
	}
	c.leaveMust(1, "measured at the process itself: TestProof/store faults")
	c.theMust(2, func(t *testing.T) {
		if slices.Max(perTry) > 6 {
			t.Errorf("%v requests in each try of the table, want at most the attempts of one", perTry)
		}
	})
	c.theMust(3, func(t *testing.T) {
		// The same topic on a storage without faults.
		onTime := localRig(t, topic.consumer())
		for _, s := range c.steps("Input") {
			if s.kind == "clock" {
				onTime.workAt(s.text("now"))
			}
		}
		for _, day := range []string{"2022-07-16", "2022-07-17"} {
			sameRows(t, day, r.mustAsOf(day), onTime.mustAsOf(day))
			equal(t, "counts of "+day, r.evidence(day).Counts, onTime.evidence(day).Counts)
		}
	})
}
