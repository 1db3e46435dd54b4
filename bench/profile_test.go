package bench

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/server"
)

var (
	profileRows   = flag.Int64("profile.rows", 0, "rows of the table that TestProfile ingests into")
	profileBatch  = flag.Int("profile.batch", 10_000, "records a batch of TestProfile")
	profileEvents = flag.Int("profile.events", 20_000, "events of TestProfile")
	profileDir    = flag.String("profile.dir", "", "where TestProfile writes cpu.pprof and allocs.pprof; empty: nowhere")
	profileGC     = flag.Int64("profile.gc", 256, "MiB by which the heap may grow between two collections, as with process.batch_memory: 1GiB; 0: GOGC")
	profileTimes  = flag.Int("profile.times", 1, "how often TestProfile ingests")
)

// TestProfile ingests recorded events that lie in memory beside the heap, as a broker's would,
// and tells what an event costs: nothing else is in the profiles that it writes.
func TestProfile(t *testing.T) {
	taped := newTape(t, *profileRows, *profileEvents)
	for range *profileTimes {
		profileIngest(t, taped)
	}
}

func profileIngest(t *testing.T, taped *tape) {
	root := t.TempDir()
	store, err := local.New(root, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if *profileRows > 0 {
		if err := MakeTable(context.Background(), store, calendar(t), *profileRows); err != nil {
			t.Fatal(err)
		}
	}
	debug.FreeOSMemory()
	defer server.PaceGC(*profileGC << 20)() // as the process of gscd ingest has it
	var cpu *os.File
	var began time.Time
	var used time.Duration
	var before, after runtime.MemStats
	taped.begin = func() {
		if *profileDir != "" && cpu == nil { // the lane of a new table assigns its offsets twice
			if cpu, err = os.Create(filepath.Join(*profileDir, "cpu.pprof")); err != nil {
				t.Fatal(err)
			}
			if err := pprof.StartCPUProfile(cpu); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&before)
		began, used = time.Now(), cpuTime(t)
	}
	lane, err := ingest.New(ingest.Options{
		Name: "orders", Store: store, Calendar: calendar(t), Key: []string{"id"}, UntilEnd: true,
		BatchRows: *profileBatch, Decode: decode.Options{KeyColumns: []string{"id"}}, Columns: Columns(),
		Now: func() time.Time { return time.UnixMilli(start).Add(time.Hour) },
	}, taped)
	if err != nil {
		t.Fatal(err)
	}
	if err := lane.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	took, cpuUsed := time.Since(began), cpuTime(t)-used
	runtime.ReadMemStats(&after)
	if cpu != nil {
		pprof.StopCPUProfile()
		if err := cpu.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(*profileDir, "allocs.pprof"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
			t.Fatal(err)
		}
	}
	n := float64(*profileEvents)
	t.Logf("an event: %.2f us of the processors, %.2f us passed, %.0f bytes in %.2f allocations; %d collections",
		cpuUsed.Seconds()*1e6/n, took.Seconds()*1e6/n, float64(after.TotalAlloc-before.TotalAlloc)/n,
		float64(after.Mallocs-before.Mallocs)/n, after.NumGC-before.NumGC)
}

// tape is a source of recorded events in memory that is not the heap's: there it would
// set the pace of the garbage collector.
type tape struct {
	Stream
	bytes []byte
	ends  []int32 // of key and value of each record
	begin func()
	begun bool
}

func newTape(t testing.TB, rows int64, n int) *tape {
	const most = 1 << 10 // bytes of an event of ten columns
	memory, err := syscall.Mmap(-1, 0, n*most, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(memory) })
	tp := &tape{bytes: memory[:0]}
	w := NewWorkload(rows)
	for range n {
		r := w.Next()
		for _, b := range [][]byte{r.Key, r.Value} {
			tp.bytes = append(tp.bytes, b...)
			tp.ends = append(tp.ends, int32(len(tp.bytes)))
		}
	}
	tp.N = int64(n)
	return tp
}

// Assign starts at an offset.
func (tp *tape) Assign(ctx context.Context, offsets map[change.PartitionID]int64) error {
	tp.begun = false
	return tp.Stream.Assign(ctx, offsets)
}

// Poll makes records of what is recorded.
func (tp *tape) Poll(_ context.Context, limit int) ([]change.Block, error) {
	if !tp.begun {
		tp.begun = true
		tp.begin()
	}
	n := min(int64(limit), tp.N-tp.at)
	if n <= 0 || tp.off {
		return nil, nil
	}
	records := make([]change.Record, n)
	b := change.Block{ID: streamID, Records: make([]*change.Record, n)}
	for i := range b.Records {
		at, from := 2*tp.at, int32(0)
		if at > 0 {
			from = tp.ends[at-1]
		}
		key, value := tp.ends[at], tp.ends[at+1]
		records[i] = change.Record{
			Topic: Topic, Offset: tp.at, Timestamp: start + tp.at/10 + 200,
			Key: tp.bytes[from:key:key], Value: tp.bytes[key:value:value],
		}
		b.Records[i] = &records[i]
		tp.at++
	}
	b.Next = tp.at
	return []change.Block{b}, nil
}
