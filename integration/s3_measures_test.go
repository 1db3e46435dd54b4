//go:build integration

package integration

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

var (
	s3Events  = flag.Int64("s3.events", 60_000, "records of the measure of ingest into S3; the figures of docs/benchmarks.md are of 600000")
	s3Batch   = flag.Int("s3.batch", 10_000, "records a commit")
	s3Repeats = flag.Int("s3.repeats", 1, "how often both are measured, in turn")
	s3Profile = flag.String("s3.profile", "", "file for a profile of the CPU while S3 is written to")
)

// wire counts requests by what they are for.
type wire struct {
	mu     sync.Mutex
	counts map[string]int
	busy   time.Duration // of all requests, one behind the other
}

func (c *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		began := time.Now()
		answer, err := next.RoundTrip(r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counts[kindOf(r)]++
		c.busy += time.Since(began)
		return answer, err
	})
}

// kindOf names a request by its method and object.
func kindOf(r *http.Request) string {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/wide/")
	what := "data file"
	switch dir, name := filepath.Split(key); {
	case r.URL.Query().Has("list-type"):
		return "LIST"
	case strings.HasPrefix(filepath.Base(key), ".gscd"):
		what = "probe"
	case strings.Contains(name, "checkpoint"):
		what = "checkpoint"
	case dir == "_delta_log/" && strings.HasSuffix(name, ".json"):
		what = "commit"
	case strings.HasPrefix(dir, "_delta_log/"):
		what = strings.TrimPrefix(dir, "_delta_log/") + "…"
	case strings.Contains(name, "deletion_vector"):
		what = "deletion vector"
	}
	return r.Method + " " + what
}

func (c *wire) String() string {
	var kinds []string
	for k := range c.counts {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "\n  %6d %s", c.counts[k], k)
	}
	return b.String()
}

// took is what an ingest cost: time, and time of this process on a processor, which
// other processes of the machine disturb less.
type took struct{ wall, cpu time.Duration }

func (t took) String() string {
	return fmt.Sprintf("%s (%s of CPU)", t.wall.Round(time.Millisecond), t.cpu.Round(time.Millisecond))
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ingestWorkload takes n records into an empty table and gives what it cost.
func ingestWorkload(t *testing.T, store objstore.Store, n int64) took {
	t.Helper()
	w := bench.NewWorkload(0)
	records := make([]*change.Record, n) // making them is not what is measured
	for i := range records {
		records[i] = w.Next()
	}
	source := &bench.Stream{N: n, Make: func(offset int64) *change.Record { return records[offset] }}
	lane, err := ingest.New(ingest.Options{
		Name: "wide", Store: store, Calendar: calendar(t, "day", "UTC"), Key: []string{"id"}, UntilEnd: true,
		BatchRows: *s3Batch, Decode: decode.Options{KeyColumns: []string{"id"}}, Columns: bench.Columns(),
		Now: func() time.Time { return time.UnixMilli(records[0].Timestamp).Add(time.Hour) },
	}, source)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	began, spent := time.Now(), cpuTime(t)
	if err := lane.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return took{time.Since(began), cpuTime(t) - spent}
}

// Ingest into a bucket beside ingest into a folder, in one run, and the requests that
// a commit costs. That there are no more of them than are needed is a test; how fast it
// is, is printed.
func TestS3Measures(t *testing.T) {
	g := startGateway(t, "--keep-alive")
	c := &wire{counts: map[string]int{}}
	o := g.options()
	o.Transport, o.PartSize, o.UploadMemory = c.wrap, 0, 0
	var onDisk, inBucket []took
	var versions int64
	for n := range *s3Repeats {
		disk, err := local.New(filepath.Join(t.TempDir(), "wide"), local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		onDisk = append(onDisk, ingestWorkload(t, disk, *s3Events))
		bucket, err := s3.Open(ctx, gatewayBucket, fmt.Sprintf("%d/wide", n), o)
		if err != nil {
			t.Fatal(err)
		}
		profile := io.Discard
		if *s3Profile != "" && n == *s3Repeats-1 {
			f, err := os.Create(*s3Profile)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			profile = f
			if err := pprof.StartCPUProfile(profile); err != nil {
				t.Fatal(err)
			}
			defer pprof.StopCPUProfile()
		}
		inBucket = append(inBucket, ingestWorkload(t, bucket, *s3Events))
		versions = snapshotOf(t, g.open(t, fmt.Sprintf("%d/wide", n))).Version() + 1
		t.Logf("run %d: disk %s, S3 %s", n, onDisk[n], inBucket[n])
	}
	rate := func(d time.Duration) float64 { return float64(*s3Events) / d.Seconds() / 1000 }
	quicker := func(a, b took) int { return int(a.wall - b.wall) }
	best, bestS3 := slices.MinFunc(onDisk, quicker).wall, slices.MinFunc(inBucket, quicker).wall
	runs := int64(*s3Repeats)
	t.Logf("%d records, %d versions: disk %.0f k/s, S3 %.0f k/s, ratio %.2f; requests of %d runs, busy for %s:%s",
		*s3Events, versions, rate(best), rate(bestS3), best.Seconds()/bestS3.Seconds(), runs, c.busy.Round(time.Millisecond), c)

	// A commit: one put of each thing, none looked for before, and no listing. Files that
	// are joined before a day is sealed are read; now and then a vector goes with others.
	commits := runs * versions
	checkpoints := commits/20 + runs
	for kind, most := range map[string]int64{
		"PUT commit": commits, "PUT data file": commits, "PUT deletion vector": commits + commits/5, "GET data file": commits, "GET commit": 0,
		"GET checkpoint": 3 * checkpoints, "PUT checkpoint": 2 * checkpoints,
		"HEAD commit": 0, "HEAD data file": 0, "HEAD checkpoint": checkpoints, "LIST": 2 * runs, "PUT probe": 2 * runs,
	} {
		if int64(c.counts[kind]) > most {
			t.Errorf("%d %s, at most %d are needed", c.counts[kind], kind, most)
		}
	}
}
