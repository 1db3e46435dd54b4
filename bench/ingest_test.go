package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/snapshotter"
)

func calendar(tb testing.TB) *snapshotter.Calendar {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		tb.Fatal(err)
	}
	return cal
}

// record writes n events of a workload on a table of rows rows to a file.
func record(tb testing.TB, dir string, rows int64, n int) string {
	name := filepath.Join(dir, fmt.Sprintf("events-%d-%d.jsonl", rows, n))
	f, err := os.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	out := recording.NewWriter(f, recording.Readable)
	w := NewWorkload(rows)
	for range n {
		if err := out.Write(w.Next()); err != nil {
			tb.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return name
}

// BenchmarkDecode is the ceiling: the same records, decoded and dropped.
func BenchmarkDecode(b *testing.B) {
	w := NewWorkload(100_000)
	records := make([]*change.Record, 20_000)
	for i := range records {
		records[i] = w.Next()
	}
	d, err := decode.New("debezium-json", decode.Options{KeyColumns: []string{"id"}})
	if err != nil {
		b.Fatal(err)
	}
	var c change.Change
	b.ReportAllocs()
	for b.Loop() {
		arena := &change.Arena{}
		for _, r := range records {
			if err := d.Decode(r, arena, &c); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(len(records)*b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkIngest is the way from a recorded topic to a Delta table on local
// disk, with fsync. Sizes are the table's rows and the batch's records.
func BenchmarkIngest(b *testing.B) {
	for _, size := range []struct {
		rows   int64
		batch  int
		events int
	}{
		{0, 10_000, 200_000}, {0, 100_000, 500_000},
		{100_000, 10_000, 200_000},
		{1_000_000, 10_000, 300_000}, {1_000_000, 100_000, 500_000},
		{10_000_000, 10_000, 300_000}, {10_000_000, 100_000, 500_000},
	} {
		b.Run(fmt.Sprintf("rows=%d/batch=%d", size.rows, size.batch), func(b *testing.B) {
			dir := b.TempDir()
			file := record(b, dir, size.rows, size.events)
			peak := uint64(0)
			for b.Loop() {
				b.StopTimer()
				// The clock starts with the first poll, when the key index stands.
				peak = max(peak, ingestInto(b, filepath.Join(dir, fmt.Sprintf("t%d", b.N)), file, size.rows, size.batch, false, b.StartTimer))
			}
			b.ReportMetric(float64(size.events*b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(peak)/(1<<20), "MiB-peak")
		})
	}
}

// ingestInto ingests a recording into a table that is made for it, of so many rows, and
// calls begin at the first poll. It gives the most memory that was held, in bytes.
func ingestInto(b *testing.B, root, file string, rows int64, batch int, changeData bool, begin func()) (peak uint64) {
	b.Helper()
	if err := os.RemoveAll(root); err != nil {
		b.Fatal(err)
	}
	store, err := local.New(root, local.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if rows > 0 {
		if err := MakeTable(context.Background(), store, calendar(b), rows); err != nil {
			b.Fatal(err)
		}
	}
	rec, err := recording.Open([]string{file}, recording.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer rec.Close()
	lane, err := ingest.New(ingest.Options{
		Name: "orders", Store: store, Calendar: calendar(b), Key: []string{"id"}, UntilEnd: true, ChangeData: changeData,
		BatchRows: batch, Decode: decode.Options{KeyColumns: []string{"id"}}, Columns: Columns(),
		Now: func() time.Time { return time.UnixMilli(start).Add(time.Hour) },
	}, &timed{Recording: rec, start: begin})
	if err != nil {
		b.Fatal(err)
	}
	debug.FreeOSMemory() // what the making of the table and the cases before took
	held := watchMemory()
	if err := lane.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	return held()
}

// BenchmarkIngestChangeData tells what change data costs: it ingests the same recording
// without and with it in turn, and gives the ratios of time and of CPU.
func BenchmarkIngestChangeData(b *testing.B) {
	for _, size := range []struct {
		rows   int64
		batch  int
		events int
	}{{100_000, 10_000, 100_000}, {1_000_000, 10_000, 200_000}, {1_000_000, 100_000, 300_000}} {
		b.Run(fmt.Sprintf("rows=%d/batch=%d", size.rows, size.batch), func(b *testing.B) {
			dir := b.TempDir()
			file := record(b, dir, size.rows, size.events)
			var took, cpu [2]time.Duration
			for b.Loop() {
				for which, on := range []bool{false, true} {
					var begun time.Time
					var used time.Duration
					ingestInto(b, filepath.Join(dir, "t"), file, size.rows, size.batch, on, func() { begun, used = time.Now(), cpuTime(b) })
					took[which] += time.Since(begun)
					cpu[which] += cpuTime(b) - used
				}
			}
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "time-ratio")
			b.ReportMetric(cpu[1].Seconds()/cpu[0].Seconds(), "cpu-ratio")
			b.ReportMetric(float64(size.events*b.N)/took[0].Seconds(), "events/s-without")
			b.ReportMetric(float64(size.events*b.N)/took[1].Seconds(), "events/s-with")
		})
	}
}

// cpuTime is what the process has used of the processors.
func cpuTime(b testing.TB) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchMemory looks at the memory that the Go runtime holds of the system's until the
// function that it gives is called, which gives the most that it saw, in bytes.
func watchMemory() (stop func() uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	quit, most := make(chan struct{}), make(chan uint64)
	go func() {
		peak := uint64(0)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(samples)
			peak = max(peak, samples[0].Value.Uint64()-samples[1].Value.Uint64())
			select {
			case <-tick.C:
			case <-quit:
				most <- peak
				return
			}
		}
	}()
	return func() uint64 {
		close(quit)
		return <-most
	}
}

// timed starts the clock at the first poll.
type timed struct {
	*recording.Recording
	start func()
	begun bool
}

func (t *timed) Poll(ctx context.Context, n int) ([]change.Block, error) {
	if !t.begun {
		t.begun = true
		t.start()
	}
	return t.Recording.Poll(ctx, n)
}
