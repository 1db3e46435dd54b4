//go:build integration

package integration

import (
	"flag"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	captureRows     = flag.Int("capture.rows", 0, "rows of the measure of gscd capture; 0: it is left out. The figures of docs/benchmarks.md are of 1000000")
	captureForm     = flag.String("capture.form", "gscd", "form of its records")
	captureDebezium = flag.Bool("capture.debezium", true, "measure Debezium's connector beside it")
)

// TestMeasureCapture measures the load and the binlog, of gscd capture and of Debezium's
// connector one behind the other on the same server and broker. A rate is of the records'
// own times, from the first to the last, so that starting counts for neither.
func TestMeasureCapture(t *testing.T) {
	if *captureRows == 0 {
		t.Skip("-args -capture.rows 1000000 measures")
	}
	b := startBroker(t)
	m := startMaria(t, "--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0")
	c := newCaptured(t, b, m, *captureForm, "transactions")
	rows := *captureRows
	m.run("CREATE TABLE wide (id BIGINT PRIMARY KEY, a INT, b BIGINT UNSIGNED, c DECIMAL(12,2), d VARCHAR(40), e VARCHAR(60), f DATETIME(3), g TIMESTAMP(6) NULL, h DOUBLE, i TINYINT)")
	const values = "seq % 1000, seq * 7, seq / 100, CONCAT('customer ', seq % 10000), CONCAT('a text of some length ', seq), '2022-07-16 08:00:00.123', '2022-07-16 08:00:00.123456', seq / 3, seq % 100"
	for from := 0; from < rows; from += 100_000 {
		m.run(fmt.Sprintf("INSERT INTO wide SELECT seq, %s FROM seq_%d_to_%d", values, from+1, min(from+100_000, rows)))
	}
	topic := c.db + "." + c.db + ".wide"
	until := func(what string) {
		p := startProcess(t, binary(t), "capture", "-c", c.config, "--until-end", "--log-level", "error")
		if !p.wait(30 * time.Minute) {
			t.Fatal("it does not come to the end")
		}
		u := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
		t.Logf("capture, %s: %d MiB of memory at most, %.1f s of CPU", what, u.Maxrss>>10, float64(u.Utime.Sec+u.Stime.Sec)+float64(u.Utime.Usec+u.Stime.Usec)/1e6)
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, p.errors)
		}
	}
	until("load")
	load := rate(t, b, topic, nil)
	t.Logf("capture, load: %s", load)
	if !*captureDebezium {
		return
	}
	// Without schemas, which are seven eighths of its records' bytes.
	d := startDebezium(t, b, m, c.db, "key.converter.schemas.enable=false", "value.converter.schemas.enable=false")
	d.until("dbz."+c.db+".wide", fmt.Sprintf("a text of some length %d\"", rows))
	theirs := rate(t, b, "dbz."+c.db+".wide", nil)
	t.Logf("Debezium, load: %s; %d MiB of memory", theirs, rss(t, d.p.cmd.Process.Pid))
	t.Logf("load: %.1f times Debezium", load.perSecond()/theirs.perSecond())

	// The binlog: written while neither reads.
	d.p.end(t, syscall.SIGTERM)
	ends, theirEnds := ended(t, b, topic), ended(t, b, "dbz."+c.db+".wide")
	for from := 0; from < rows; from += 10_000 {
		m.run(fmt.Sprintf("UPDATE wide SET a = a + 1, e = CONCAT('another text ', id) WHERE id > %d AND id <= %d", from, from+10_000))
	}
	until("binlog")
	ours := rate(t, b, topic, ends)
	t.Logf("capture, binlog: %s", ours)
	d.start()
	d.until("dbz."+c.db+".wide", fmt.Sprintf("another text %d\"", rows))
	theirs = rate(t, b, "dbz."+c.db+".wide", theirEnds)
	t.Logf("Debezium, binlog: %s; %d MiB of memory", theirs, rss(t, d.p.cmd.Process.Pid))
	t.Logf("binlog: %.1f times Debezium", ours.perSecond()/theirs.perSecond())
}

// speed is records over a time.
type speed struct {
	records     int
	bytes       int64
	first, last time.Time
}

func (s speed) perSecond() float64 { return float64(s.records) / s.last.Sub(s.first).Seconds() }

func (s speed) String() string {
	return fmt.Sprintf("%d records in %.1f s, %.0f a second, %d bytes each", s.records, s.last.Sub(s.first).Seconds(), s.perSecond(), s.bytes/int64(max(1, s.records)))
}

// ended gives the end of each partition.
func ended(t testing.TB, b *broker, topic string) map[int32]int64 {
	t.Helper()
	for range 100 { // the marks of a transaction come some time behind its end
		committed, err := b.admin(t).ListCommittedOffsets(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		all, err := b.admin(t).ListEndOffsets(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		out := map[int32]int64{}
		for _, o := range committed[topic] {
			if o.Offset == all[topic][o.Partition].Offset {
				out[o.Partition] = o.Offset
			}
		}
		if len(out) == len(all[topic]) {
			return out
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("topic %s has transactions that do not end", topic)
	return nil
}

// rate reads a topic from offsets to its end.
func rate(t testing.TB, b *broker, topic string, from map[int32]int64) (s speed) {
	left, start := ended(t, b, topic), map[int32]kgo.Offset{}
	for p, end := range left {
		if start[p] = kgo.NewOffset().At(from[p]); end <= from[p] {
			delete(left, p)
			delete(start, p)
		}
	}
	cl := b.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer cl.Close()
	for len(left) > 0 {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() || r.Value == nil {
				return
			}
			s.records++
			s.bytes += int64(len(r.Key) + len(r.Value))
			if s.first.IsZero() || r.Timestamp.Before(s.first) {
				s.first = r.Timestamp
			}
			if r.Timestamp.After(s.last) {
				s.last = r.Timestamp
			}
		})
	}
	return s
}

// rss is a process's memory in MiB.
func rss(t testing.TB, pid int) (mib int) {
	for _, line := range strings.Split(string(readFile(t, fmt.Sprintf("/proc/%d/status", pid))), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Sscan(rest, &mib)
		}
	}
	return mib >> 10
}
