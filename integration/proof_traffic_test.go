//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// traffic is a shop at work for many business days: changes in the order of its
// binlog, with drift around midnight, changes that come when their day is
// sealed, records that are sent twice, and transactions that are given up. Its
// model is naive: each change has one label, by what its partition has seen.
type traffic struct {
	*shop
	calendar  *snapshotter.Calendar
	driftWait time.Duration
	// now is the source's clock.
	now time.Time
	// seen is the newest event time of each partition, label that of the last
	// change of each key, recent some of what was sent, by partition.
	seen   map[int32]time.Time
	label  map[int64]snapshotter.Label
	recent map[int32][]*change.Record

	plain, tx *kgo.Client
	// What was sent, as the table has to count it.
	sent, duplicates, lates, aborted int64
	counts                           map[snapshotter.Label]*progress.Counts
	// pad are bytes that each record carries in a header.
	pad []byte
}

func newTraffic(t testing.TB, b *broker, partitions int32, seed uint64) *traffic {
	t.Helper()
	f := &traffic{
		shop: newShop(t, b, partitions), calendar: calendar(t, "day", "Asia/Shanghai"), driftWait: 10 * time.Minute,
		now: day(0), seen: map[int32]time.Time{}, label: map[int64]snapshotter.Label{}, recent: map[int32][]*change.Record{},
		counts: map[snapshotter.Label]*progress.Counts{},
	}
	f.rng, f.late = rand.New(rand.NewPCG(seed, 1)), true
	f.plain, f.tx = b.client(t), f.producer()
	// The first label is that of the first records of the partitions: all of day 0.
	for p := range partitions {
		f.emit([]*change.Record{f.next(f.now, int64(p))})
	}
	return f
}

// open gives the label that a partition has not spoken its last word about.
func (f *traffic) open(p int32) snapshotter.Label {
	seen, ok := f.seen[p]
	if !ok {
		return f.calendar.Label(day(0).UnixMicro())
	}
	return f.calendar.Label(seen.Add(-f.driftWait).UnixMicro())
}

// next makes the next change of a key, and notes the label that it counts in:
// its own, but not one that its partition is past, nor one below that of the
// key's change before it.
func (f *traffic) next(at time.Time, id int64) *change.Record {
	p := int32(id) % f.partitions
	own, open := f.calendar.Label(at.UnixMicro()), f.open(p)
	r := f.one(at, id, true)
	label := max(own, open)
	if last, ok := f.label[id]; ok {
		label = max(label, last)
	}
	e := &f.events[len(f.events)-1]
	if label > own {
		e.at = time.UnixMicro(f.calendar.Start(label))
	}
	c := f.counts[label]
	if c == nil {
		c = &progress.Counts{}
		f.counts[label] = c
	}
	switch e.op {
	case "c":
		c.Inserts++
	case "u":
		c.Updates++
	default:
		c.Deletes++
	}
	if own < open {
		c.Late++
		f.lates++
	}
	f.label[id] = label
	if at.After(f.seen[p]) {
		f.seen[p] = at
	}
	return f.keep(r)
}

// keep remembers a record to be sent again.
func (f *traffic) keep(r *change.Record) *change.Record {
	f.sent++
	list := append(f.recent[r.Partition], r)
	f.recent[r.Partition] = list[max(0, len(list)-40):]
	if f.pad != nil {
		r.Headers = []change.Header{{Key: "pad", Value: f.pad}}
	}
	return r
}

// again is a record that was sent before.
func (f *traffic) again() []*change.Record {
	list := f.recent[f.rng.Int32N(f.partitions)]
	r := *list[f.rng.IntN(len(list))]
	f.sent++
	f.duplicates++
	return []*change.Record{&r}
}

// emit sends records in order, now and then in a transaction, or with another
// one before them that is given up.
func (f *traffic) emit(records []*change.Record) {
	switch {
	case f.rng.IntN(4) == 0:
		var lost []*change.Record
		for range 1 + f.rng.IntN(5) {
			lost = append(lost, f.one(f.now, f.rng.Int64N(200), false))
		}
		f.aborted += int64(len(lost))
		f.transaction(f.tx, lost, false)
		f.transaction(f.tx, records, true)
	case f.rng.IntN(3) == 0:
		f.transaction(f.tx, records, true)
	default:
		if err := f.plain.ProduceSync(ctx, kafkaRecords(records)...).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// pass lets the source's clock go on for a while and sends n changes of that
// time; midnights between are lived through with all that belongs to them.
func (f *traffic) pass(d time.Duration, n int) {
	f.t.Helper()
	until := f.now.Add(d)
	for {
		end := time.UnixMicro(f.calendar.End(f.calendar.Label(f.now.UnixMicro())))
		if end.Add(f.driftWait).After(until) {
			if !end.After(until) {
				until = end.Add(-time.Second) // the next time is that of the midnight
			}
			break
		}
		part := max(1, int(int64(n)*int64(end.Sub(f.now))/int64(d)))
		f.changes(end.Add(-time.Second), part)
		f.midnight(end)
	}
	f.changes(until, n)
}

func (f *traffic) changes(until time.Time, n int) {
	step := until.Sub(f.now) / time.Duration(n)
	for n > 0 {
		var list []*change.Record
		for range min(n, 5+f.rng.IntN(40)) {
			n--
			f.now = f.now.Add(step)
			list = append(list, f.next(f.now, f.rng.Int64N(200)))
			if f.rng.IntN(25) == 0 {
				list = append(list, f.again()...)
			}
		}
		f.emit(list)
	}
	f.now = until
}

// midnight sends changes of both days in turns, then something of the new day on
// every partition, and at last changes that come when their day is over.
func (f *traffic) midnight(end time.Time) {
	f.now = end
	var list []*change.Record
	for i := range 40 {
		f.now = end.Add(f.driftWait * time.Duration(i) / 50)
		at := f.now
		if f.rng.IntN(2) == 0 {
			at = end.Add(-time.Duration(1+f.rng.Int64N(3600)) * time.Second)
		}
		list = append(list, f.next(at, f.rng.Int64N(200)))
	}
	f.emit(list)
	f.now = end.Add(f.driftWait + time.Minute)
	list = nil
	for p := range f.partitions {
		list = append(list, f.next(f.now, int64(p)+int64(f.partitions)*f.rng.Int64N(200/int64(f.partitions))))
	}
	f.emit(list)
	list = nil
	for range 3 {
		list = append(list, f.next(end.Add(-time.Duration(1+f.rng.Int64N(7200))*time.Second), f.rng.Int64N(200)))
	}
	f.emit(list)
}

func kafkaRecords(records []*change.Record) []*kgo.Record {
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			out[i].Headers = append(out[i].Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	return out
}

// toMidnight is how long the source's clock has to go to the end of its day.
func (f *traffic) toMidnight() time.Duration {
	return time.UnixMicro(f.calendar.End(f.calendar.Label(f.now.UnixMicro()))).Sub(f.now)
}

// end is a clock by which every day of the traffic is sealed.
func (f *traffic) end() time.Time {
	return time.UnixMicro(f.calendar.End(f.calendar.Label(f.now.UnixMicro()))).Add(time.Hour)
}

// days are the names of all days of the traffic.
func (f *traffic) days() (out []string) {
	for l := f.calendar.Label(day(0).UnixMicro()); l <= f.calendar.Label(f.now.UnixMicro()); l++ {
		out = append(out, f.calendar.Name(l))
	}
	return out
}

// checkAll holds a table to which nothing is left to do against the model: the
// rows and the counts of every day, the fate of every record, and the log.
func (f *traffic) checkAll(r *rig) {
	f.t.Helper()
	f.check(r, f.days()...)
	f.checkSpans(r)
	f.checkEnds(r)
	for l := f.calendar.Label(day(0).UnixMicro()); l <= f.calendar.Label(f.now.UnixMicro()); l++ {
		got, want := r.evidence(f.calendar.Name(l)).Counts, progress.Counts{}
		if c := f.counts[l]; c != nil {
			want = *c
		}
		name := "counts of " + f.calendar.Name(l)
		equal(f.t, name, [4]int64{got.Inserts, got.Updates, got.Deletes, got.Late}, [4]int64{want.Inserts, want.Updates, want.Deletes, want.Late})
	}
	totals := r.progress().Totals
	equal(f.t, "records without a fate", totals.Missing(), 0)
	equal(f.t, "records taken", totals.Taken, f.sent)
	equal(f.t, "records applied", totals.Applied, f.sent-f.duplicates)
	equal(f.t, "duplicates", totals.Duplicates, f.duplicates)
	if totals.Holes < f.aborted || f.aborted == 0 || f.duplicates == 0 || f.lates == 0 {
		f.t.Errorf("%d holes, %d aborted, %d duplicates, %d late: the traffic is no test", totals.Holes, f.aborted, f.duplicates, f.lates)
	}
}

// checkEngine has delta-rs read every sealed day, and gives the rows compared.
func (f *traffic) checkEngine(r *rig, rs *engine) (rows int) {
	f.t.Helper()
	for _, e := range r.labels().Entries {
		if e.State != savepoint.Sealed {
			continue
		}
		snapshot, err := r.table().SnapshotAt(ctx, e.Version)
		if err != nil {
			f.t.Fatal(err)
		}
		own := ownContent(f.t, r.store.Store, snapshot, nil)
		got, err := rs.read(f.t, r.store.Store.String(), e.Version, "true", own)
		if err != nil {
			f.t.Errorf("%s: %v", e.Name, err)
			continue
		}
		if d := got.differs(own); d != "" {
			f.t.Errorf("delta-rs, %s: %s", e.Name, d)
		}
		rows += len(got.Rows)
	}
	return rows
}

// soak is how long a test of endurance goes on: GSCD_SOAK, else the given time.
func soak(t testing.TB, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("GSCD_SOAK")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("GSCD_SOAK: %v", err)
	}
	return d
}

// randomSeed is that of GSCD_SEED, else one of its own; it is printed.
func randomSeed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("GSCD_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("GSCD_SEED: %v", err)
		}
	}
	fmt.Printf("%s: GSCD_SEED=%d\n", t.Name(), seed)
	return seed
}
