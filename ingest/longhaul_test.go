package ingest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

var haulDays = flag.Int64("longhaul.days", 3, "days of TestLongHaul, with a commit a minute: 695 are a million")

const (
	haulKeys        = 2000
	haulPerMinute   = 5
	checkpointEvery = 20  // the lane's default
	haulWindow      = 720 // commits that a mark is measured over: half a day, from its noon
)

// minutely is a topic of one partition that gets some changes every minute, for ever. It
// keeps none of them.
type minutely struct {
	start    time.Time
	next     int64
	paused   bool
	nightly  func() error // once a day, at two
	cleaned  time.Time
	stopAt   int64 // offset at which stop is called
	stop     func()
	onAssign func()
}

func (m *minutely) id() change.PartitionID { return change.PartitionID{Topic: "t"} }

func (m *minutely) end() int64 {
	return (int64(time.Since(m.start)/time.Minute) + 1) * haulPerMinute
}

func (m *minutely) Partitions(context.Context) ([]change.PartitionState, time.Time, error) {
	return []change.PartitionState{{ID: m.id(), End: m.end()}}, time.Now(), nil
}

func (m *minutely) Assign(_ context.Context, at map[change.PartitionID]int64) error {
	m.next, m.paused = at[m.id()], false
	if m.onAssign != nil {
		m.onAssign()
		m.onAssign = nil
	}
	return nil
}

func (m *minutely) Pause(...change.PartitionID)  { m.paused = true }
func (m *minutely) Resume(...change.PartitionID) { m.paused = false }

func (m *minutely) Poll(ctx context.Context, most int) ([]change.Block, error) {
	if m.stop != nil && m.next >= m.stopAt {
		m.stop()
		return nil, ctx.Err()
	}
	if now := time.Now(); now.Hour() >= 2 && now.Sub(m.cleaned) >= 12*time.Hour {
		m.cleaned = now
		if err := m.nightly(); err != nil {
			return nil, err
		}
	}
	if m.paused || m.next >= m.end() {
		select {
		case <-time.After(time.Until(m.start.Add(time.Duration(m.end()/haulPerMinute) * time.Minute))):
		case <-ctx.Done():
		}
		return nil, nil
	}
	var records []*change.Record
	for n := m.next; n < m.end() && len(records) < most; n++ {
		records = append(records, m.record(n))
	}
	m.next += int64(len(records))
	return []change.Block{{ID: m.id(), Records: records, Next: m.next}}, nil
}

// record gives the change at an offset: a function of the offset alone.
func (m *minutely) record(n int64) *change.Record {
	at := m.start.Add(time.Duration(n/haulPerMinute) * time.Minute).Add(time.Duration(n%haulPerMinute) * time.Second)
	key := n * 7919 % haulKeys
	return &change.Record{
		Topic: "t", Offset: n, Timestamp: at.UnixMilli(), Key: fmt.Appendf(nil, `{"id":%d}`, key),
		Value: fmt.Appendf(nil, `{"op":"u","before":null,"after":{"id":%d,"v":"value %d","n":%d},"source":{"name":"s","server_id":1,"ts_ms":%d,"file":"bin.000001","pos":%d,"row":0,"db":"d","table":"t"},"ts_ms":%d}`,
			key, n, n, at.UnixMilli(), 4+n*100, at.UnixMilli()),
	}
}

// haulMark is what a table costs after so many commits.
type haulMark struct {
	commits                           int64
	openCalls, commitCalls            float64
	openRead, commitWritten           int64
	openCPU, commitCPU                time.Duration
	heap                              int64
	logObjects, logBytes, checkpoint  int64
	dataBytes, savepoints, tombstones int64
	files                             int
}

func (h haulMark) String() string {
	return fmt.Sprintf("| %d | %d | %.0f, %d KiB | %.0f ms | %.1f, %.1f KiB | %.2f ms | %.1f MiB | %d, %.1f MiB | %d KiB | %d | %d | %.1f MiB |",
		h.commits, h.savepoints, h.openCalls, h.openRead>>10, h.openCPU.Seconds()*1e3, h.commitCalls, float64(h.commitWritten)/1024, h.commitCPU.Seconds()*1e3,
		float64(h.heap)/(1<<20), h.logObjects, float64(h.logBytes)/(1<<20), h.checkpoint>>10, h.files, h.tombstones, float64(h.dataBytes)/(1<<20))
}

// haul is one table through the years, in simulated time.
type haul struct {
	t     *testing.T
	store *mem.Store
	src   *minutely
	o     ingest.Options
}

// TestLongHaul: a commit a minute for as long as it takes, every day sealed and kept, a
// vacuum every night. What it costs to open the table and to commit stays what it was
// after the first days: in calls, in bytes and in memory. Times are printed, not judged.
func TestLongHaul(t *testing.T) {
	if underRace {
		t.Skip("one goroutine, and long")
	}
	synctest.Test(t, func(t *testing.T) {
		cal, err := snapshotter.NewCalendar("day", "UTC", "")
		if err != nil {
			t.Fatal(err)
		}
		h := &haul{t: t, store: mem.New(), src: &minutely{start: time.Now()}}
		h.src.nightly = h.vacuum
		h.o = ingest.Options{Name: "t", DeadLetterStore: mem.New(), Calendar: cal, Key: []string{"id"}, BatchInterval: 50 * time.Second, BatchMaxInterval: 50 * time.Second}
		t.Log("| commits | savepoints | open: calls, bytes of the log | open: CPU | commit: calls, bytes | commit: CPU | memory of the lane | log: objects, bytes | checkpoint | live files | tombstones | data |")
		var list []haulMark
		var week haulMark
		for _, days := range []int64{1, 7, 21, 70, 210, 350, 520, 695} {
			if last := days >= *haulDays; last || days == 1 || days == 7 || days > 14 {
				h.run(min(days, *haulDays)*1440 - 720)
				list = append(list, h.measure(min(days, *haulDays)*1440-720))
				t.Log(list[len(list)-1])
				if days == 7 {
					week = list[len(list)-1]
				}
				if last {
					break
				}
			}
		}
		h.check()
		if week.commits == 0 {
			return // too short to compare
		}
		first, last := week, list[len(list)-1]
		// Each savepoint adds its entry and the tombstones of its files to every checkpoint,
		// and that is all that may grow.
		const ofSavepoint = 300
		pinned := float64(last.savepoints-first.savepoints) * ofSavepoint
		for _, c := range []struct {
			what               string
			first, last, above float64
		}{
			{"calls to open", first.openCalls, last.openCalls, 0},
			{"bytes of the log to open", float64(first.openRead), float64(last.openRead), pinned},
			{"calls of a commit", first.commitCalls, last.commitCalls, 0},
			{"bytes of a commit", float64(first.commitWritten), float64(last.commitWritten), pinned / checkpointEvery},
			{"memory", float64(first.heap), float64(last.heap), pinned},
		} {
			if c.last > 1.5*c.first+c.above {
				t.Errorf("%s: %.0f after %d commits, %.0f after %d: more than 1.5 times, and %.0f for savepoints", c.what, c.last, last.commits, c.first, first.commits, c.above)
			}
		}
	})
}

// run goes on until the topic has had so many minutes.
func (h *haul) run(commits int64) {
	h.t.Helper()
	h.lane(h.store, commits*haulPerMinute, nil, nil)
}

// lane runs the ingester until the topic's offset; before is called when it has loaded
// the table, and after right before it is stopped.
func (h *haul) lane(store objstore.Store, upto int64, loaded, after func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := h.o
	o.Store = store
	lane, err := ingest.New(o, h.src)
	if err != nil {
		h.t.Fatal(err)
	}
	h.src.onAssign, h.src.stopAt = loaded, upto
	h.src.stop = func() {
		if after != nil {
			after()
		}
		cancel()
	}
	if err := lane.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		h.t.Fatal(err)
	}
	runtime.KeepAlive(lane)
}

// vacuum is what a nightly job does.
func (h *haul) vacuum() error {
	_, err := savepoint.Vacuum(context.Background(), delta.New(h.store), savepoint.VacuumOptions{
		Retain: 24 * time.Hour, Grace: time.Hour, RolledBack: 30 * 24 * time.Hour, Now: time.Now(), ByLog: true,
	})
	return err
}

// measure opens the table anew, and lets it commit for a while.
func (h *haul) measure(commits int64) haulMark {
	h.t.Helper()
	m := haulMark{commits: commits}
	counted := counting.New(h.store)
	var then counting.Counts
	var thenCPU time.Duration
	total := func() (c counting.Counts) {
		l, d := counted.Log(), counted.Data()
		c.Gets, c.Heads, c.Puts, c.ConditionalPuts, c.Lists = l.Gets+d.Gets, l.Heads+d.Heads, l.Puts+d.Puts, l.ConditionalPuts+d.ConditionalPuts, l.Lists+d.Lists
		c.Read, c.Written = l.Read+d.Read, l.Written+d.Written
		return c
	}
	began := cpu()
	var with int64
	h.lane(counted, (commits+haulWindow)*haulPerMinute, func() {
		then, thenCPU = total(), cpu()
		log := counted.Log() // how many small files there are is a matter of the hour
		m.openCalls, m.openRead, m.openCPU = float64(log.Calls()), log.Read, thenCPU-began
	}, func() {
		now := total()
		m.commitCalls = float64(now.Calls()-then.Calls()) / haulWindow
		m.commitWritten = (now.Written - then.Written) / haulWindow
		m.commitCPU = (cpu() - thenCPU) / haulWindow
		with = heap()
	})
	m.heap = with - heap()
	ctx := context.Background()
	s, err := delta.New(h.store).Snapshot(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	m.files, m.tombstones = s.NumFiles(), int64(len(s.Tombstones()))
	m.savepoints = int64(len(savepoint.PinsOf(s)))
	for o, err := range h.store.List(ctx, "", "") {
		if err != nil {
			h.t.Fatal(err)
		}
		if !strings.HasPrefix(o.Key, deltalog.Dir) {
			m.dataBytes += o.Size
			continue
		}
		m.logObjects, m.logBytes = m.logObjects+1, m.logBytes+o.Size
		if name := deltalog.ParseName(strings.TrimPrefix(o.Key, deltalog.Dir)); name.Kind == deltalog.ClassicCheckpoint {
			m.checkpoint = o.Size
		}
	}
	return m
}

// check reads a day in the middle, and the first and the last ones, against what the topic says.
func (h *haul) check() {
	h.t.Helper()
	ctx := context.Background()
	table := delta.New(h.store)
	s, err := table.Snapshot(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	labels, err := savepoint.Read(ctx, table, s)
	if err != nil {
		h.t.Fatal(err)
	}
	days := int(h.src.next / haulPerMinute / 1440)
	for _, day := range []int{0, 1, days / 2, days - 2} { // the last one is sealed after its end
		label := h.src.start.AddDate(0, 0, day).Format(time.DateOnly)
		r, err := labels.Resolve(label, true)
		if err != nil {
			h.t.Fatal(err)
		}
		at, err := table.SnapshotAt(ctx, r.Entry.Version)
		if err != nil {
			h.t.Fatal(err)
		}
		want := map[string]bool{}
		end := int64(day+1) * 1440 * haulPerMinute
		for n := max(0, end-haulKeys); n < end; n++ { // 7919 and 2000 have no common divisor: each key once
			want[rowText(map[string]string{"id": fmt.Sprint(n * 7919 % haulKeys), "v": fmt.Sprintf("%q", fmt.Sprint("value ", n)), "n": fmt.Sprint(n)})] = true
		}
		rows, err := rowsOf(h.store, at, "id", "v", "n")
		if err != nil {
			h.t.Fatal(err)
		}
		wrong := 0
		for _, row := range rows {
			if !want[row] {
				wrong++
			}
		}
		if len(rows) != len(want) || wrong > 0 {
			h.t.Errorf("%s: %d rows, %d of them wrong, want %d", label, len(rows), wrong, len(want))
		}
	}
}

func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// cpu is the time that the process has had of the processors: the clock is simulated.
func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
