package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/savepoint"
)

// caseTopic is a topic of a broker that a case is run on.
type caseTopic interface {
	topic() string
	// consumer is what a new process reads with.
	consumer(change ...func(*kafka.Options)) *kafka.Consumer
	produce(records ...*change.Record)
	// transaction writes one record in a transaction of its own, and ends it.
	transaction(r *change.Record, commit bool)
	// deleteBelow does what retention does.
	deleteBelow(partition int32, offset int64)
	// commit sets the offsets of the consumers' group.
	commit(offsets kadm.Offsets)
}

// cluster is an embedded broker, over TCP, with the topic of the cases.
type cluster struct {
	*kfake.Cluster
	t testing.TB
}

func (c *cluster) topic() string { return topicName }

func (c *cluster) deleteBelow(partition int32, offset int64) {
	c.t.Helper()
	if err := c.DeleteRecords(topicName, partition, offset); err != nil {
		c.t.Fatal(err)
	}
}

func newCluster(t testing.TB, partitions int32) *cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topicName),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "100000000"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &cluster{c, t}
}

func (c *cluster) options() kafka.Options {
	return kafka.Options{Brokers: c.ListenAddrs(), Topics: []string{topicName}, Group: "gscd", PollWait: 20 * time.Millisecond, RequestTimeout: 5 * time.Second}
}

func (c *cluster) consumer(change ...func(*kafka.Options)) *kafka.Consumer {
	c.t.Helper()
	o := c.options()
	for _, f := range change {
		f(&o)
	}
	consumer, err := kafka.New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { consumer.Close() })
	return consumer
}

func (c *cluster) produce(records ...*change.Record) {
	c.t.Helper()
	var copies []*change.Record
	for _, r := range records {
		copied := *r
		copies = append(copies, &copied)
	}
	if err := kafka.Produce(ctx, c.options(), copies); err != nil {
		c.t.Fatal(err)
	}
	for i, r := range copies {
		if r.Offset != records[i].Offset {
			c.t.Fatalf("offset %d of partition %d, the case says %d", r.Offset, r.Partition, records[i].Offset)
		}
	}
}

func (c *cluster) transaction(r *change.Record, commit bool) {
	c.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID(fmt.Sprint("case-", r.Offset)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		c.t.Fatal(err)
	}
	sent := &kgo.Record{Topic: topicName, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
	if err := client.ProduceSync(ctx, sent).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
	if sent.Offset != r.Offset {
		c.t.Fatalf("offset %d, the case says %d", sent.Offset, r.Offset)
	}
	if err := client.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		c.t.Fatal(err)
	}
}

// lag is what a partition still has to read.
func (r *rig) lag(partition int32) int64 {
	r.t.Helper()
	states, _, err := r.source.Partitions(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, st := range states {
		if st.ID.Partition == partition {
			return st.End - r.next(partition)
		}
	}
	r.t.Fatalf("no partition %d", partition)
	return 0
}

// numbered makes n creates of ids from…, a second apart, offsets as the ids.
func numbered(t testing.TB, partition int32, from, n int, start string) []*change.Record {
	t.Helper()
	var out []*change.Record
	at := instant(t, start).UnixMilli()
	for i := range n {
		id, ts := from+i, at+int64(i)*1000
		out = append(out, &change.Record{
			Topic: topicName, Partition: partition, Offset: int64(id), Timestamp: ts + 400,
			Key: fmt.Appendf(nil, `{"id":%d}`, int(partition)*1000+id),
			Value: fmt.Appendf(nil, `{"op":"c","before":null,"after":{"id":%d,"name":"A","city":"Wuxi","level":1},"source":{"ts_ms":%d,"file":"mysql-bin.000007","pos":%d,"db":"shop","table":"user_dim"},"ts_ms":%d}`,
				int(partition)*1000+id, ts, 100+100*id, ts+400),
		})
	}
	return out
}

func TestCase16OffsetDeletedByRetention(t *testing.T) {
	case16(t, func(partitions int32) caseTopic { return newCluster(t, partitions) })
}

func case16(t *testing.T, fresh func(partitions int32) caseTopic) {
	c := theCase(t, 16)
	var state, broker step
	for _, s := range c.steps("Input") {
		switch s.kind {
		case "table_state":
			state = s
		case "broker":
			broker = s
		}
	}
	earliest, end := broker.int("earliest"), broker.int("end")
	var next map[string]int64
	(&expectation{fields: state.fields}).into(t, "next_offset", &next)
	at, lastSealed := next["0"], state.text("last_sealed")

	// prepare gives a table that stands where the case says, on a topic that has lost what comes next.
	prepare := func(t *testing.T, partitions int32) (caseTopic, *rig) {
		broker := fresh(partitions)
		r := newRig(t, broker.consumer())
		for p := range partitions {
			broker.produce(numbered(t, p, 0, int(at), lastSealed+"T10:00:00+08:00")...)
		}
		r.workAt("2022-07-17T00:20:00+08:00")
		sameList(t, "sealed", r.sealed(), []string{lastSealed})
		for p := range partitions {
			equal(t, "next offset", r.next(p), at)
			broker.produce(numbered(t, p, int(at), int(end-at), "2022-07-17T09:00:00+08:00")...)
			broker.deleteBelow(p, earliest)
		}
		r.clock = instant(t, "2022-07-17T12:00:00+08:00")
		r.source = broker.consumer()
		r.restart()
		return broker, r
	}
	broker1, r := prepare(t, 1)
	versions := len(r.log())
	err := r.work()
	for _, e := range c.expect(nil, "exit", "says") {
		says(t, err, e.strings(t, "says")...)
	}
	for _, e := range c.expect(nil, "new_versions") {
		equal(t, "new versions", int64(len(r.log())-versions), e.fieldInt("new_versions"))
	}
	c.theMust(1, func(t *testing.T) {
		lost := change.LostOffsets(err)
		if len(lost) != 1 || *lost[0] != (change.LostOffsetsError{ID: change.PartitionID{Topic: broker1.topic()}, Wanted: at, Earliest: earliest, End: end}) {
			t.Errorf("error %v", err)
		}
		equal(t, "next offset", r.next(0), at)
		// Nor in the other direction: a topic that ends below what was read, or
		// that is another one.
		if broker1.topic() == topicName {
			short, another := newTopic(0), newCluster(t, 1)
			for _, rec := range numbered(t, 0, 0, 40, "2022-07-16T10:00:00+08:00") {
				short.send(rec)
				another.produce(rec)
			}
			other := rigOn(t, r.store.Store, r.dead.Store, short)
			other.clock = r.clock
			says(t, other.work(), "partition 0", "100", "40")
			other = rigOn(t, r.store.Store, r.dead.Store, another.consumer())
			other.clock = r.clock
			says(t, other.work(), topicName, "created again")
		}
		equal(t, "versions", len(r.log()), versions)
	})
	c.theMust(2, func(t *testing.T) {
		_, r := prepare(t, 2)
		versions := len(r.log())
		err := r.work()
		equal(t, "partitions named", len(change.LostOffsets(err)), 2)
		says(t, err, "partition 0", "partition 1")
		equal(t, "versions", len(r.log()), versions)
	})
	for _, e := range c.expect(nil, "after_accept") {
		var want struct {
			Note string `json:"map_note_on"`
		}
		e.into(t, "after_accept", &want)
		equal(t, "the note", want.Note, "days touched by the gap and all later ones")
	}
	r.options.OnLostOffsets = ingest.Continue
	r.source = broker1.consumer()
	r.restart()
	r.workAt("2022-07-19T00:20:00+08:00")
	c.theMust(3, func(t *testing.T) {
		s, err := r.table().Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		summaries, err := r.labels().Summaries(ctx, r.table(), s)
		if err != nil {
			t.Fatal(err)
		}
		marked := map[string]bool{}
		for _, sum := range summaries {
			marked[sum.Name] = slices.Contains(sum.Attributes, "incomplete")
		}
		equal(t, "incomplete", fmt.Sprint(marked), fmt.Sprint(map[string]bool{"2022-07-16": false, "2022-07-17": true, "2022-07-18": true, "2022-07-19": true}))
		says(t, errors.New(r.evidence("2022-07-17").Reason), "100", "249", broker1.topic()+"/0")
		resolved, err := r.labels().Resolve("2022-07-17", false)
		if err != nil {
			t.Fatal(err)
		}
		says(t, errors.New(resolved.Notice), "incomplete", "249")
		equal(t, "rows of the 16th", len(r.mustAsOf("2022-07-16")), int(at))
		equal(t, "rows of the 17th", len(r.mustAsOf("2022-07-17")), int(at+end-earliest))
		equal(t, "holes", r.progress().Totals.Holes, earliest-at)
		equal(t, "missing fates", r.progress().Totals.Missing(), 0)
	})
	c.theChoice(1, func(t *testing.T) {
		fresh := newRig(t, broker1.consumer())
		fresh.workAt("2022-07-17T12:00:00+08:00")
		equal(t, "rows", len(fresh.current()), int(end-earliest))
		if fresh.progress().Incomplete != nil {
			t.Errorf("a first start at the earliest offset is incomplete: %+v", fresh.progress().Incomplete)
		}
	})
}

func TestCase17TransactionMarkers(t *testing.T) { case17(t, newCluster(t, 1)) }

func case17(t *testing.T, broker caseTopic) {
	c := theCase(t, 17)
	r := newRig(t, broker.consumer())
	var aborted []*change.Record
	steps := c.steps("Input")
	for i, s := range steps {
		switch {
		case s.record != nil:
			broker.transaction(s.record, steps[i+1].text("kind") == "commit")
		case s.kind == "aborted":
			aborted = append(aborted, parseStep(t, string(s.fields["record"])).record)
			broker.transaction(aborted[0], steps[i+1].text("kind") == "commit")
		case s.kind == "control": // written with its record
		case s.kind == "clock":
			r.workAt(s.text("now"))
		case s.kind == "restart":
			r.source = broker.consumer()
			r.restart()
		}
	}
	c.checkAsOf(t, r)
	c.checkVersionsOf(t, r)
	for _, e := range c.expect(nil, "lag") {
		equal(t, "lag", r.lag(0), e.fieldInt("lag"))
	}
	c.theMust(1, func(t *testing.T) {
		sameList(t, "ids", ids(r.current()), []string{"1", "3"})
		equal(t, "aborted records", len(aborted), 1)
		equal(t, "taken", r.progress().Totals.Taken, 2)
	})
	c.theMust(2, func(t *testing.T) {
		equal(t, "next offset", r.next(0), 6) // behind the last marker
		sameList(t, "sealed", r.sealed(), []string{"2022-07-16"})
		if ev := r.evidence("2022-07-16"); ev.Partitions[0].Offset != 6 {
			t.Errorf("the seal records offset %d", ev.Partitions[0].Offset)
		}
	})
	c.theMust(3, func(t *testing.T) {
		for i := range 5 {
			again := *aborted[0]
			again.Offset = int64(6 + 2*i)
			broker.transaction(&again, false)
		}
		r.workAt("2022-07-18T00:16:00+08:00")
		equal(t, "lag", r.lag(0), 0)
		equal(t, "next offset", r.next(0), 16)
		sameList(t, "sealed", r.sealed(), []string{"2022-07-16", "2022-07-17"})
	})
	c.theMust(4, func(t *testing.T) {
		p := r.progress()
		equal(t, "holes", p.Totals.Holes, 14)
		equal(t, "missing fates", p.Totals.Missing(), 0)
		if p.Incomplete != nil {
			t.Errorf("incomplete: %+v", p.Incomplete)
		}
		for _, e := range r.labels().Entries {
			if e.State == savepoint.Sealed && slices.Contains(r.evidence(e.Name).Attributes, "incomplete") {
				t.Errorf("%s is incomplete", e.Name)
			}
		}
	})
}

// TestCase18OverTheWire reads the records of case 18 from a broker in fetches
// of 1 MiB; the large one is twelve times that.
func TestCase18OverTheWire(t *testing.T) {
	records := recordsOf(theCase(t, 18).ignore().steps("Input"))
	fillLarge(records)
	broker := newCluster(t, 1)
	broker.produce(records...)
	for limit, want := range map[int64][]string{20 << 20: {"1", "3", "4"}, 8 << 20: {"1", "3"}} {
		r := newRig(t, broker.consumer(func(o *kafka.Options) { o.FetchBytes, o.MaxRecord = 1<<20, limit }), func(o *ingest.Options) { o.MaxRecord = limit })
		r.workAt("2022-07-17T00:20:00+08:00")
		sameList(t, fmt.Sprint("records up to ", limit), ids(r.mustAsOf("2022-07-16")), want)
		equal(t, "dead letters", len(r.deadLetters()), 5-len(want))
		equal(t, "next offset", r.next(0), 5)
	}
}
