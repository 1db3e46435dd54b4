//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// shop is a source table on a topic of a real broker, and a model of its days:
// the rows that each day must have.
type shop struct {
	t          testing.TB
	broker     *broker
	topic      string
	partitions int32
	rng        *rand.Rand
	pos        int64
	rows       map[int64]string // live rows: amount by id
	// events are what was committed, in order: the model.
	events []shopEvent
	// late tells that there are changes of days that are sealed.
	late bool
}

type shopEvent struct {
	at     time.Time
	id     int64
	amount string // "" deletes
	op     string
}

func newShop(t testing.TB, b *broker, partitions int32) *shop {
	t.Helper()
	s := &shop{
		t: t, broker: b, topic: fmt.Sprintf("shop-%d", topics.Add(1)), partitions: partitions,
		rng: rand.New(rand.NewPCG(20220716, uint64(partitions))), rows: map[int64]string{},
	}
	b.createTopic(t, s.topic, partitions)
	return s
}

// topics numbers the topics of this run.
var topics atomic.Int64

// change makes n changes of random keys, a minute apart from the given time
// on, as records to be sent. counts tells that the model takes part.
func (s *shop) change(at time.Time, n int, counts bool) []*change.Record {
	var out []*change.Record
	for i := range n {
		out = append(out, s.one(at.Add(time.Duration(i)*time.Minute), s.rng.Int64N(200), counts))
	}
	return out
}

func (s *shop) one(at time.Time, id int64, counts bool) *change.Record {
	s.pos++
	old, live := s.rows[id]
	op, amount := "c", strconv.FormatInt(s.pos, 10)
	before, after := "null", shopRow(id, amount)
	if live {
		op, before = "u", shopRow(id, old)
		if s.rng.IntN(4) == 0 {
			op, amount, after = "d", "", "null"
		}
	}
	if counts {
		s.events = append(s.events, shopEvent{at, id, amount, op})
		if s.rows[id] = amount; amount == "" {
			delete(s.rows, id)
		}
	}
	return s.record(at, id, op, before, after)
}

func shopRow(id int64, amount string) string {
	return fmt.Sprintf(`{"id":%d,"amount":%s,"note":"n° %s"}`, id, amount, amount)
}

func (s *shop) record(at time.Time, id int64, op, before, after string) *change.Record {
	ms := at.UnixMilli()
	return &change.Record{
		Topic: s.topic, Partition: int32(id) % s.partitions, Timestamp: ms, Key: []byte(fmt.Sprintf(`{"id":%d}`, id)),
		Value: []byte(fmt.Sprintf(`{"before":%s,"after":%s,"source":{"version":"3.5.0.Final","connector":"mysql","name":"shop","ts_ms":%d,`+
			`"snapshot":"false","db":"shop","table":"orders","server_id":1,"gtid":null,"file":"mysql-bin.000001","pos":%d,"row":0},"op":"%s","ts_ms":%d}`,
			before, after, ms, 1000+100*s.pos, op, ms)),
	}
}

// send sends records outside of any transaction.
func (s *shop) send(records []*change.Record) {
	s.t.Helper()
	if err := kafka.Produce(ctx, s.options(), records); err != nil {
		s.t.Fatal(err)
	}
}

// transaction sends records in a transaction of their own and ends it. Where the
// coordinator dies with the answer, it is looked up what became of them, and what was
// given up is sent again.
func (s *shop) transaction(cl *kgo.Client, records []*change.Record, commit bool) {
	s.t.Helper()
	sent := s.begin(cl, records)
	err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
	if err == nil {
		return
	}
	for end := time.Now().Add(2 * time.Minute); cl.EndTransaction(ctx, kgo.TryAbort) != nil; time.Sleep(time.Second) {
		if time.Now().After(end) {
			s.t.Fatalf("the transaction does not end: %v", err)
		}
	}
	if commit && !s.committed(sent[0]) {
		s.transaction(cl, records, true)
	}
}

// committed tells whether the transaction of a record, which has ended, was committed.
func (s *shop) committed(r *kgo.Record) bool {
	s.t.Helper()
	from := map[string]map[int32]kgo.Offset{r.Topic: {r.Partition: kgo.NewOffset().At(r.Offset)}}
	cl := s.broker.client(s.t, kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	for {
		for next := range cl.PollRecords(ctx, 1).RecordsAll() {
			return next.Offset == r.Offset // else that of the control record behind it
		}
	}
}

// begin sends records in a transaction that stays open.
func (s *shop) begin(cl *kgo.Client, records []*change.Record) []*kgo.Record {
	s.t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		s.t.Fatal(err)
	}
	list := make([]*kgo.Record, len(records))
	for i, r := range records {
		list[i] = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
	}
	if err := cl.ProduceSync(ctx, list...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	return list
}

// producer gives a client with transactions.
func (s *shop) producer() *kgo.Client {
	return s.broker.client(s.t, kgo.TransactionalID(s.topic), kgo.ProducerBatchMaxBytes(16<<20))
}

func (s *shop) options() kafka.Options {
	return kafka.Options{Brokers: s.broker.seeds(), Topics: []string{s.topic}, Group: "group-" + s.topic, RequestTimeout: 10 * time.Second}
}

// consumer gives a new reader of the topic, as a new process has it.
func (s *shop) consumer() *kafka.Consumer {
	s.t.Helper()
	c, err := kafka.New(s.options())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// rig makes a local table that reads the topic.
func (s *shop) rig(change ...func(*ingest.Options)) *rig {
	s.t.Helper()
	return localRig(s.t, s.consumer(), append([]func(*ingest.Options){func(o *ingest.Options) {
		o.BatchRows, o.CheckpointEvery, o.PollRecords = 100, 5, 70
	}}, change...)...)
}

// fresh puts a new process in place of the rig's.
func (s *shop) fresh(r *rig) {
	s.t.Helper()
	if err := r.source.(*kafka.Consumer).Close(); err != nil {
		s.t.Fatal(err)
	}
	r.source = s.consumer()
	r.restart()
}

// asOf gives the model's rows at the end of a day: amount by id.
func (s *shop) asOf(c *snapshotter.Calendar, label string) map[int64]string {
	s.t.Helper()
	day, err := c.Parse(label)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[int64]string{}
	for _, e := range s.events {
		if c.Label(e.at.UnixMicro()) > day {
			continue
		}
		if out[e.id] = e.amount; e.amount == "" {
			delete(out, e.id)
		}
	}
	return out
}

// check holds every sealed day against the model, and the log against P2 and P3.
func (s *shop) check(r *rig, sealed ...string) {
	s.t.Helper()
	sameList(s.t, "sealed days", r.sealed(), sealed)
	s.checkRows(r)
	r.checkVersions(s.late)
	if d := r.progress().Totals.DeadLetters; d != 0 {
		s.t.Errorf("%d dead letters", d)
	}
}

// checkRows holds every sealed day against the model; it gives the rows compared.
func (s *shop) checkRows(r *rig) (rows int) {
	s.t.Helper()
	for _, label := range r.sealed() {
		got := map[int64]string{}
		for _, row := range r.mustAsOf(label) {
			id, err := strconv.ParseInt(fmt.Sprint(row["id"]), 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			if _, twice := got[id]; twice {
				s.t.Errorf("%s has the key %d twice", label, id)
			}
			if got[id] = fmt.Sprint(row["amount"]); row["note"] != "n° "+got[id] {
				s.t.Errorf("%s: row %v", label, row)
			}
		}
		want := s.asOf(r.options.Calendar, label)
		if !maps.Equal(got, want) {
			s.t.Errorf("%s has %d rows, want %d:\n%v\n%v", label, len(got), len(want), got, want)
		}
		if len(want) == 0 {
			s.t.Errorf("%s is empty: no test", label)
		}
		rows += len(got)
	}
	return rows
}

// checkRecording dumps the topic into a recording and holds a table made of
// that against one made of the topic: same days, rows and counts.
func (s *shop) checkRecording(r *rig) {
	s.t.Helper()
	var buf bytes.Buffer
	w := recording.NewWriter(&buf, recording.Readable)
	if _, err := kafka.Record(ctx, s.options(), w); err != nil {
		s.t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "topic.jsonl")
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	topic, err := recording.Open([]string{path}, recording.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer topic.Close()
	replay := localRig(s.t, topic)
	replay.clock = r.clock
	replay.mustWork()
	sameList(s.t, "sealed days of the recording", replay.sealed(), r.sealed())
	for _, label := range r.sealed() {
		sameRows(s.t, label+" of the topic against the recording", r.mustAsOf(label), replay.mustAsOf(label))
		equal(s.t, "counts of "+label, r.evidence(label).Counts, replay.evidence(label).Counts)
	}
	got, want := r.progress().Totals, replay.progress().Totals
	// Markers behind the last record are holes of the topic, and not in a recording.
	got.Holes, want.Holes = 0, 0
	equal(s.t, "totals", got, want)
}

// checkOffsets holds the offsets that the table goes on from against the ends
// of the topic, and against those that were published for lag tools.
func (s *shop) checkOffsets(r *rig) {
	s.t.Helper()
	s.checkEnds(r)
	group, err := s.broker.admin(s.t).FetchOffsets(ctx, s.options().Group)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range r.progress().State.Partitions {
		published, ok := group.Lookup(p.Topic, p.Kafka)
		if !ok {
			s.t.Errorf("no offset of %s is published", p.ID())
		}
		equal(s.t, fmt.Sprintf("published offset of %s", p.ID()), published.At, p.Next)
	}
}

// checkEnds holds the offsets that the table goes on from against the ends of the topic.
func (s *shop) checkEnds(r *rig) {
	s.t.Helper()
	ends, err := s.broker.admin(s.t).ListEndOffsets(ctx, s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range r.progress().State.Partitions {
		end, _ := ends.Lookup(p.Topic, p.Kafka)
		equal(s.t, fmt.Sprintf("next offset of %s and the end of its log", p.ID()), p.Next, end.Offset)
	}
	equal(s.t, "partitions", len(r.progress().State.Partitions), len(ends[s.topic]))
}

// checkSpans holds the offsets of each partition against those of the commit
// before: none goes back.
func (s *shop) checkSpans(r *rig) {
	s.t.Helper()
	next := map[change.PartitionID]int64{}
	for _, c := range r.log() {
		for _, p := range c.progress.State.Partitions {
			if p.Next < next[p.ID()] {
				s.t.Errorf("version %d goes on at %d of %s, after %d", c.version, p.Next, p.ID(), next[p.ID()])
			}
			next[p.ID()] = p.Next
		}
	}
}

// running is a table that is read until it is told to end, with a clock of the test's.
type running struct {
	*rig
	clock atomic.Int64 // microseconds
	stop  context.CancelFunc
	ended chan error
}

// runLane starts to read, as `gscd ingest` does: what the broker's absence ends
// begins again.
func runLane(r *rig, clock time.Time) *running {
	r.t.Helper()
	within, stop := context.WithCancel(ctx)
	run := &running{rig: r, stop: stop, ended: make(chan error, 1)}
	run.at(clock)
	o := r.options
	o.UntilEnd, o.BatchInterval = false, 200*time.Millisecond
	o.Now = func() time.Time { return time.UnixMicro(run.clock.Load()) }
	lane, err := ingest.New(o, r.source)
	if err != nil {
		r.t.Fatal(err)
	}
	go func() {
		for {
			err := lane.Run(within)
			var source *ingest.SourceError
			if errors.As(err, &source) && source.Retryable && within.Err() == nil {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			run.ended <- err
			return
		}
	}()
	r.t.Cleanup(stop)
	return run
}

// at sets the clock.
func (run *running) at(t time.Time) { run.clock.Store(t.UnixMicro()) }

// until waits for a state of the table.
func (run *running) until(what string, reached func(*progress.Progress) bool) {
	run.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		if run.exists() {
			p := run.progress()
			if reached(p) {
				return
			}
			if time.Now().After(deadline) {
				run.t.Fatalf("not within a minute: %s; label %s, totals %+v", what, p.Label, p.Totals)
			}
		}
		select {
		case err := <-run.ended:
			run.t.Fatalf("the table stopped before this: %s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// end stops the reading at a commit boundary.
func (run *running) end() {
	run.t.Helper()
	run.stop()
	if err := <-run.ended; err != nil {
		run.t.Fatalf("stop: %v", err)
	}
}

// incomplete lists the labels that the map calls incomplete.
func incomplete(r *rig) []string {
	r.t.Helper()
	var out []string
	m := r.labels()
	for _, e := range m.Entries {
		if e.State != savepoint.Sealed {
			continue
		}
		if ev := r.evidence(e.Name); slices.Contains(ev.Attributes, "incomplete") {
			out = append(out, e.Name)
		}
	}
	return out
}
