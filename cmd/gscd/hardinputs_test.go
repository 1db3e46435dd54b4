package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/recording"
)

var (
	hardLong = flag.Bool("hard.long", false, "hard inputs in full size: some minutes, and gigabytes of memory where a bound does not hold")
	hardOnly = flag.String("hard.only", "", "only the hard input of this name")
)

// hardMemory is what a process of gscd may use in TestHardInputs. Its setting, GOMEMLIMIT,
// is three quarters of that: the pages of the program and of the key index are not in Go's count.
const hardMemory = 512 << 20

// TestHardInputs takes inputs that are hard on memory through the whole program, as a
// process of its own, and holds its largest resident size against what it may use.
// -hard.long -v gives the figures of docs/benchmarks.md.
func TestHardInputs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the largest resident size is read from /proc")
	}
	long := *hardLong
	size := func(short, full int) int {
		if long {
			return full
		}
		return short
	}
	small := []string{"id", "v"}
	skewed, hot, wide, large := size(60_000, 1_000_000), size(60_000, 1_000_000), size(300, 20_000), size(60, 600)
	files, values := size(100, 1000), size(300, 10_000)
	for _, c := range []hardInput{
		{
			// One of 32 partitions has nearly all records, and runs days ahead of the others in the file.
			name: "skewed", columns: small, rows: skewed + 31,
			make: func(w *hardWriter) {
				for i := range skewed {
					w.write(0, 'c', int64(i), 5*24*time.Hour*time.Duration(i)/time.Duration(skewed), `"v":"`+filler(i, 60)+`"`)
				}
				for p := range 31 {
					w.write(p+1, 'c', int64(skewed+p), 5*24*time.Hour, `"v":"x"`)
				}
			},
		},
		{
			// One key, as often as the batch will hold.
			name: "one-key", columns: small, rows: 1, settings: "batch: {rows: 10000000, bytes: 4GiB}",
			make: func(w *hardWriter) {
				for i := range hot {
					w.write(0, 'u', 7, time.Duration(i)*time.Millisecond, `"v":"`+filler(i, 60)+`"`)
				}
			},
		},
		{
			name: "rows-of-1-MiB", columns: small, rows: large,
			make: func(w *hardWriter) {
				for i := range 2 * large { // each key twice
					w.write(0, 'u', int64(i%large), time.Duration(i)*time.Second, `"v":"`+filler(i, 1<<20)+`"`)
				}
			},
		},
		{
			name: "columns-2000", columns: wideColumns(2000), rows: wide,
			make: func(w *hardWriter) {
				for i := range wide {
					w.write(0, 'c', int64(i), time.Duration(i)*time.Millisecond, wideCells(i, 1999))
				}
			},
		},
		{
			// Of 2,000 columns each record but the first has three: the others are NULL.
			name: "sparse-2000", columns: wideColumns(2000), rows: 10 * wide,
			make: func(w *hardWriter) {
				w.write(0, 'c', 0, 0, wideCells(0, 1999))
				for i := 1; i < 10*wide; i++ {
					w.write(0, 'c', int64(i), time.Duration(i)*time.Millisecond, fmt.Sprintf(`"c0":%d,"c1":2,"c2":3`, i))
				}
			},
		},
		{
			// Each file of the table loses a row to each of the batches.
			name: "every-file", columns: []string{"id", "v", "p"}, rows: files * 200, settings: "partition_by: [p], batch: {rows: " + strconv.Itoa(files*200) + "}",
			make: func(w *hardWriter) {
				for i := range files * 200 {
					w.write(0, 'c', int64(i), time.Duration(i)*time.Millisecond, fmt.Sprintf(`"v":"%s","p":%d`, filler(i, 60), i%files))
				}
				for i := range 5 * files {
					w.write(0, 'u', int64(i), time.Hour+time.Duration(i)*time.Millisecond, fmt.Sprintf(`"v":"again","p":%d`, i%files))
				}
			},
		},
		{
			name: "partition-values", columns: []string{"id", "v", "p"}, rows: values * 20, settings: "partition_by: [p]",
			make: func(w *hardWriter) {
				for i := range values * 20 {
					w.write(0, 'c', int64(i), time.Duration(i)*time.Millisecond, fmt.Sprintf(`"v":"%s","p":%d`, filler(i, 60), i%values))
				}
			},
		},
	} {
		if *hardOnly != "" && *hardOnly != c.name {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if !long {
				t.Parallel()
			}
			c.run(t)
		})
	}
}

// hardInput is a recorded topic, and the table that it is ingested into.
type hardInput struct {
	name     string
	columns  []string
	settings string // of the table, a YAML flow map without its braces
	rows     int    // that the table has at the end
	make     func(*hardWriter)
}

func (c *hardInput) run(t *testing.T) {
	dir := t.TempDir()
	input := filepath.Join(dir, "input.jsonl")
	f, err := os.Create(input)
	if err != nil {
		t.Fatal(err)
	}
	w := &hardWriter{t: t, out: recording.NewWriter(f, recording.Readable), next: map[int]int64{}}
	c.make(w)
	if err := w.out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, name := range c.columns {
		kind := "bigint"
		if name == "v" {
			kind = "string"
		}
		types = append(types, name+": "+kind)
	}
	table := filepath.Join(dir, "table")
	configure := func(settings string) string {
		name := filepath.Join(dir, "gscd.yaml")
		if settings != "" {
			settings = ", " + settings
		}
		text := fmt.Sprintf("calendar: {timezone: UTC}\ntables:\n  - {location: %q, name: t, topics: [t], key: [id], columns: {%s}%s}\n", table, strings.Join(types, ", "), settings)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	began := time.Now()
	peak, cpu := c.ingest(t, "ingest", "-c", configure(c.settings), "--input", input, "--until-end")
	took := time.Since(began)
	if peak > hardMemory {
		t.Errorf("%s: %d MiB resident at most, more than the %d MiB that it may use", c.name, peak>>20, hardMemory>>20)
	}
	got := countRows(t, table)
	if got != c.rows {
		t.Errorf("%s: %d rows, want %d", c.name, got, c.rows)
	}
	t.Logf("| %s | %d | %d MB | %d MiB | %d MiB | %.0f k/s | %.1f s | %d MB |", c.name, w.records, w.bytes/1_000_000, hardMemory>>20, peak>>20,
		float64(w.records)/took.Seconds()/1000, cpu.Seconds(), bytesBelow(t, table)/1_000_000)
}

// ingest runs gscd and gives its largest resident size in bytes, and its time of the processors.
func (c *hardInput) ingest(t *testing.T, args ...string) (peak int64, cpu time.Duration) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "gscd") // as TestMain tells the program by its name
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	var log bytes.Buffer
	cmd.Stderr, cmd.Stdout = &log, &log
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", hardMemory/4*3))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	// The kernel's own ru_maxrss would have the size of this process in it, of which the child began as a copy.
	for {
		peak = max(peak, residentPeak(cmd.Process.Pid))
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%s: %v\n%s", c.name, err, log.String())
			}
			return peak, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// residentPeak is the largest resident size of a process so far; 0 where it has ended.
func residentPeak(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, found := bytes.Cut(text, []byte("VmHWM:"))
	if !found {
		return 0
	}
	kib, _ := strconv.ParseInt(string(bytes.Fields(after)[0]), 10, 64)
	return kib << 10
}

// hardWriter writes the changes of a hard input.
type hardWriter struct {
	t       *testing.T
	out     *recording.Writer
	next    map[int]int64
	records int
	bytes   int64
}

// write writes a change of a key at a time behind the begin of the input; cells are members of the row.
func (w *hardWriter) write(partition int, op byte, id int64, at time.Duration, cells string) {
	ms := time.Date(2022, 7, 16, 1, 0, 0, 0, time.UTC).Add(at).UnixMilli()
	row := fmt.Sprintf(`{"id":%d,%s}`, id, cells)
	value := fmt.Sprintf(`{"before":null,"after":%s,"source":{"version":"3.0.0.Final","connector":"mysql","name":"shop","ts_ms":%d,"snapshot":"false","db":"shop","table":"t","server_id":1,"gtid":null,"file":"mysql-bin.000007","pos":%d,"row":0},"op":"%c","ts_ms":%d}`,
		row, ms, 1000+int64(w.records)*300, op, ms+10)
	r := &change.Record{Topic: "t", Partition: int32(partition), Offset: w.next[partition], Timestamp: ms + 20, Key: fmt.Appendf(nil, `{"id":%d}`, id), Value: []byte(value)}
	w.next[partition]++
	w.records++
	w.bytes += int64(len(value))
	if err := w.out.Write(r); err != nil {
		w.t.Fatal(err)
	}
}

func wideColumns(n int) []string {
	out := []string{"id"}
	for c := range n - 1 {
		out = append(out, "c"+strconv.Itoa(c))
	}
	return out
}

// wideCells are n members of a row.
func wideCells(i, n int) string {
	var b []byte
	for c := range n {
		b = fmt.Appendf(b, `,"c%d":%d`, c, (i*c)%100_003)
	}
	return string(b[1:])
}

// filler is text of n bytes that does not compress to nothing.
func filler(i, n int) string {
	b := make([]byte, 0, n+16)
	x := uint64(i)*0x9e3779b97f4a7c15 + 1
	for len(b) < n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b = strconv.AppendUint(b, x, 36)
	}
	return string(b[:n])
}

// countRows counts the rows of a table's newest version.
func countRows(t *testing.T, dir string) (n int) {
	t.Helper()
	store, err := local.New(dir, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	table, err := delta.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reading, err := scan.New(store, snap, scan.Options{Columns: []string{"id"}})
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range reading.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n += b.Rows
	}
	return n
}

func bytesBelow(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
