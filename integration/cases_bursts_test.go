package integration

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/maintain"
	"github.com/gscd-io/gscd/savepoint"
)

// bursts are what case 29 generates: a few records on the same keys, again and again.
type bursts struct {
	days, perDay, records int
	start                 time.Time
}

// burst gives the records of one burst: every key is changed to a value of its own.
func (b bursts) burst(t testing.TB, day, n int) (out []*change.Record) {
	t.Helper()
	at := b.start.AddDate(0, 0, day).Add(time.Duration(n) * 24 * time.Hour / time.Duration(b.perDay))
	number := day*b.perDay + n
	for i, r := range numbered(t, 0, 0, b.records, at.Format(time.RFC3339)) {
		offset := int64(number*b.records + i)
		pairs := []string{fmt.Sprintf(`"pos":%d`, 100+100*i), fmt.Sprintf(`"pos":%d`, 100+100*offset), `"level":1`, fmt.Sprintf(`"level":%d`, number)}
		if number > 0 {
			pairs = append(pairs, `"op":"c","before":null`, fmt.Sprintf(`"op":"u","before":{"id":%d,"name":"A","city":"Wuxi","level":%d}`, i, number-1))
		}
		out = append(out, edited(t, r, offset, 0, pairs...))
	}
	return out
}

// opened is what a process meets that starts on a table: what it reads, and the memory
// that the lane holds on to.
type opened struct {
	calls       int
	bytes, heap int64
}

// measureOpen starts a new process on the table, which has nothing to do, and drops it.
func (r *rig) measureOpen() opened {
	r.t.Helper()
	below := r.store.Store
	counter := counting.New(below)
	r.store.Store = counter
	heap := func() int64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	r.restart()
	before := heap()
	r.mustWork()
	o := opened{heap: heap() - before}
	log, data := counter.Log(), counter.Data()
	o.calls, o.bytes = log.Calls()+data.Calls(), log.Read+data.Read
	runtime.KeepAlive(r.lane)
	r.restart()
	r.store.Store = below
	return o
}

// startProgram starts the program on copies of a table as it was early and late, each with
// the records that come next, and gives the least processor time and the least peak of its
// resident set of some tries. It is nil without the build tag integration.
var startProgram func(t *testing.T, tables []string, next [][]*change.Record) []programCost

type programCost struct {
	cpu time.Duration
	rss int64 // bytes
}

// wholeBursts plays all of the days, which takes half a minute: with the build tag
// integration. Without it there are fewer days and bursts.
var wholeBursts bool

func TestCase29ManySmallBatches(t *testing.T) {
	c := theCase(t, 29)
	var b bursts
	var end string
	for _, s := range c.steps("Input") {
		switch s.kind {
		case "generate":
			b = bursts{int(s.int("days")), int(s.int("bursts_per_day")), int(s.int("records_per_burst")), instant(t, s.text("start")+"T00:00:00+08:00")}
			equal(t, "ids", s.text("ids"), fmt.Sprintf("1..%d", b.records))
		case "clock":
			end = s.text("now")
		}
	}
	days := daysBetween(t, b.start.Format("2006-01-02"), b.start.AddDate(0, 0, b.days-1).Format("2006-01-02"))
	if !wholeBursts {
		b.days, b.perDay = 6, 48
		days = days[:b.days]
		end = b.start.AddDate(0, 0, b.days).Add(20 * time.Minute).Format(time.RFC3339)
	}
	store, err := local.New(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	r := rigOn(t, store, mem.New(), newTopic(0))
	// What gscd maintain does, a day later: all that the day left has then had its time.
	maintained := func() *maintain.Report {
		t.Helper()
		report, err := maintain.Run(ctx, r.table(), maintain.Options{
			Layout: ingest.Layout, Retention: savepoint.Policy{Forever: true}, History: 24 * time.Hour, Grace: time.Hour,
			RolledBack: 30 * 24 * time.Hour, Now: time.Now().Add(25 * time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	var versions []int64 // the newest, at the end of each day
	newest := func() int64 {
		t.Helper()
		s, err := r.table().Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s.Version()
	}
	var early, late opened
	var copies []string // of the table, as it was then
	var next [][]*change.Record
	var earlyPoint, latePoint int64
	for day := range b.days {
		for n := range b.perDay {
			r.send(b.burst(t, day, n)...)
			r.mustWork()
			if day == 1 && n == 5 { // minutes in which nothing comes
				was := newest()
				for range 9 {
					r.clock = r.clock.Add(time.Minute)
					r.mustWork()
				}
				equal(t, "the version after empty minutes", newest(), was)
			}
		}
		if day == b.days-1 {
			r.workAt(end)
		}
		versions = append(versions, newest())
		maintained()
		switch day {
		case 2:
			early, earlyPoint = r.measureOpen(), r.checkpointBytes()
		case b.days - 1:
			late, latePoint = r.measureOpen(), r.checkpointBytes()
		default:
			continue
		}
		if startProgram != nil {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(store.String())); err != nil {
				t.Fatal(err)
			}
			copies, next = append(copies, copied), append(next, b.burst(t, day+1, 0))
		}
	}
	t.Logf("%d versions; opening: day 3 %+v, the last day %+v; checkpoint %d, then %d bytes", newest(), early, late, earlyPoint, latePoint)

	for range c.expect(nil, "commits_per_day_max") {
		last := int64(-1)
		for day, v := range versions {
			// A commit for each burst, the seal of the day before, and the optimize. The last
			// day is sealed too.
			most := int64(b.perDay + 2)
			if day == b.days-1 {
				most++
			}
			if n := v - last; n > most {
				t.Errorf("%d commits on day %d, at most %d", n, day+1, most)
			}
			last = v
		}
	}
	for range c.expect(nil, "live_files_after_maintenance") {
		s, err := r.table().Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		shape, err := layout.ShapeOf(s, 0)
		if err != nil {
			t.Fatal(err)
		}
		// ceil(live bytes / target size) is 1 here, and a table without partitions has one.
		if most := int((shape.LiveBytes+shape.TargetSize-1)/shape.TargetSize) + 1; shape.Files > most || most != 2 {
			t.Errorf("%d live files after maintenance, at most %d", shape.Files, most)
		}
		if again := maintained(); len(again.Did) != 0 && again.Figures.Version != s.Version() {
			t.Errorf("a second pass did %q", again.Did)
		}
	}
	var costs []programCost
	if startProgram != nil {
		costs = startProgram(t, copies, next)
		t.Logf("the program: day 3 %+v, the last day %+v", costs[0], costs[1])
	}
	for range c.expect(nil, "cold_open") {
		if costs != nil && 10*costs[1].cpu > 15*costs[0].cpu {
			t.Errorf("the program's start took %v on day 3, %v on the last day", costs[0].cpu, costs[1].cpu)
		}
		if late.calls*2 > early.calls*3 || late.bytes*2 > early.bytes*3 {
			t.Errorf("opening took %+v on day 3, %+v on the last day", early, late)
		}
	}
	const process = 16 << 20 // what the resident set of the program has without any table
	for range c.expect(nil, "rss") {
		if costs != nil && 10*costs[1].rss > 12*costs[0].rss {
			t.Errorf("the program's resident set was %d on day 3, %d on the last day", costs[0].rss, costs[1].rss)
		}
		if 10*(process+late.heap) > 12*(process+early.heap) {
			t.Errorf("memory: %+v on day 3, %+v on the last day", early, late)
		}
	}
	asOf := func(r *rig, day int) []row {
		rows := r.mustAsOf(days[day])
		want := fmt.Sprint((day+1)*b.perDay - 1)
		for _, row := range rows {
			if fmt.Sprint(row["level"]) != want {
				t.Errorf("as of %s: %v, want level %s", days[day], row, want)
			}
		}
		equal(t, "rows as of "+days[day], len(rows), b.records)
		return rows
	}
	for _, e := range c.expect(nil, "as_of", "readable") {
		equal(t, "readable", e.text("readable"), "true")
		sameList(t, "sealed", r.sealed(), days)
		for day := range days {
			asOf(r, day)
		}
		equal(t, "faults", len(r.checkFaults()), 0)
	}
	c.theMust(1, func(t *testing.T) {
		// Beside the live file each savepoint's own files are named as removed, and each has
		// a line in the map.
		if most := earlyPoint + int64(b.days)*400; latePoint > most {
			t.Errorf("a checkpoint of %d bytes after three days, of %d after %d", earlyPoint, latePoint, b.days)
		}
	})
	c.theMust(2, func(t *testing.T) {
		// The lane that has made every commit of two days holds no more than one that
		// has just begun.
		from := b.days
		for day := from; day < from+2; day++ {
			for n := range b.perDay {
				r.send(b.burst(t, day, n)...)
				r.mustWork()
			}
		}
		ran := r.lane
		held := func() int64 {
			var m runtime.MemStats
			for range 3 {
				runtime.GC()
			}
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		with := held()
		runtime.KeepAlive(ran)
		ran = nil
		r.restart()
		kept := with - held()
		fresh := r.measureOpen().heap
		if perCommit := (kept - fresh) / int64(2*b.perDay); perCommit > 4096 {
			t.Errorf("a lane of %d commits holds %d bytes, a new one %d", 2*b.perDay, kept, fresh)
		}
		t.Logf("a lane of %d commits holds %d bytes, a new one %d", 2*b.perDay, kept, fresh)
	})
	c.theMust(3, func(t *testing.T) {
		// The hour's records are taken at once.
		hourly := newRig(t, newTopic(0))
		for day := range b.days {
			for n := range b.perDay {
				hourly.send(b.burst(t, day, n)...)
				if (n+1)%(b.perDay/24) == 0 {
					hourly.mustWork()
				}
			}
		}
		hourly.workAt(end)
		for day := range days {
			sameRows(t, "as of "+days[day], asOf(hourly, day), asOf(r, day))
		}
		// A commit an hour, the seal, and the small files that are joined at it.
		if n, most := len(hourly.log()), b.days*(24+2); n > most || int64(n) >= versions[b.days-1] {
			t.Errorf("%d commits of an hour each, at most %d; %d of bursts", n, most, versions[b.days-1])
		}
	})
}

// checkpointBytes writes a checkpoint of the newest version, and gives its size.
func (r *rig) checkpointBytes() int64 {
	r.t.Helper()
	table := r.table()
	s, err := table.Snapshot(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	result, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return result.Bytes
}
