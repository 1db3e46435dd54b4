//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// Fifty tables of four partitions each, in one process: what it takes while
// nothing happens, and how long midnight is. The figures of docs/benchmarks.md.
const (
	manyTables     = 50
	partitionsEach = 4
	loadedEach     = 1000 // records a partition
	midnightEach   = 25   // records a partition before midnight, and as many behind it
)

func TestManyTables(t *testing.T) {
	t.Parallel() // it mostly waits for its midnight
	b := startBroker(t)
	if os.Getenv("GSCD_SOAK") != "" { // for the figures; what is asserted is the same in S3
		t.Run("disk", func(t *testing.T) { manyTablesOn(t, b, "disk", t.TempDir(), nil) })
	}
	t.Run("s3", func(t *testing.T) {
		g := startGateway(t, "--keep-alive")
		manyTablesOn(t, b, "s3", "s3://"+gatewayBucket+"/many", g.variables(t, g.url))
	})
}

func manyTablesOn(t *testing.T, b *broker, name, root string, environment []string) {
	// Business midnight is four minutes from now, and the clock is the real one.
	midnight := time.Now().UTC().Truncate(time.Minute).Add(5 * time.Minute)
	m := &many{t: t, broker: b, name: name}
	var text strings.Builder
	fmt.Fprintf(&text, "kafka: {brokers: [%q]}\ncalendar: {timezone: UTC, cutover: %q}\n"+
		"defaults: {batch: {interval: 5s, max_interval: 5s}, drift: {wait: 10s, idle: 5m}, max_clock_skew: 5s}\ntables:\n", b.address, midnight.Format("15:04"))
	for i := range manyTables {
		b.createTopic(t, m.topic(i), partitionsEach)
		fmt.Fprintf(&text, "  - {name: %s, location: %q, topics: [%s]}\n", m.topic(i), root+"/"+m.topic(i), m.topic(i))
	}
	m.awaitTopics()
	file := filepath.Join(t.TempDir(), "gscd.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	m.send(midnight.Add(-time.Hour), loadedEach)
	m.http = "http://" + freePorts(t, 1)[0]
	began := time.Now()
	p := startProcessIn(t, environment, binary(t), "ingest", "-c", file, "--http", strings.TrimPrefix(m.http, "http://"), "--log-format", "json")
	go io.Copy(io.Discard, p.stdout)
	m.p = p
	taken := manyTables * partitionsEach * loadedEach
	m.until("all records in the tables", func(s samples) bool { return s.sum("gscd_records_total", `fate="applied"`) == float64(taken) })
	t.Logf("%s: %d records of %d tables were taken %s after the start, RSS %s", name, taken, manyTables, time.Since(began).Round(100*time.Millisecond), m.rss())
	m.ready()

	// Nothing happens.
	time.Sleep(10 * time.Second) // what was begun is done
	before := m.metrics()
	idle := 30 * time.Second
	if os.Getenv("GSCD_SOAK") != "" {
		idle = time.Minute
	}
	time.Sleep(idle)
	after := m.metrics()
	perMinute := func(metric, label string) string {
		out := map[string]float64{}
		for key, v := range after {
			if d := v - before[key]; strings.HasPrefix(key, metric+"{") && d != 0 {
				out[regexp.MustCompile(label + `="([^"]*)"`).FindStringSubmatch(key)[1]] += d / idle.Minutes()
			}
		}
		text, _ := json.Marshal(out) // numbers have a text
		return string(text)
	}
	t.Logf("%s: idle, a minute: requests to Kafka %s, calls of the storage %s; RSS %s, %.0f goroutines", name,
		perMinute("gscd_kafka_requests_total", "request"), perMinute("gscd_store_requests_total", "op"), m.rss(), after["go_goroutines"])
	if n := after.sum("gscd_store_requests_total", "") - before.sum("gscd_store_requests_total", ""); n > manyTables*max(1, idle.Minutes()) {
		t.Errorf("the storage was called %v times while nothing happened: a table looks once a minute whether others have committed", n)
	}
	if n := (after[`gscd_kafka_requests_total{request="Metadata"}`] - before[`gscd_kafka_requests_total{request="Metadata"}`]) / idle.Minutes(); n > 5 {
		t.Errorf("metadata was asked for %v times a minute by %d tables", n, manyTables)
	}

	// Midnight comes to all at once.
	if late := time.Since(midnight); late > 0 {
		t.Fatalf("midnight was %s ago: this machine is too slow for the test", late)
	}
	time.Sleep(time.Until(midnight.Add(-20 * time.Second)))
	m.send(midnight.Add(-time.Minute), midnightEach)
	time.Sleep(time.Until(midnight.Add(time.Second)))
	most := struct{ inside, waiting, rss float64 }{}
	sending := time.Now()
	m.send(midnight.Add(10*time.Second), midnightEach)
	began = time.Now()
	var first time.Duration
	m.until("fifty seals", func(s samples) bool {
		most.inside = max(most.inside, s.sum("gscd_heavy_tasks_running", ""))
		most.waiting = max(most.waiting, s["gscd_heavy_tasks_waiting"])
		most.rss = max(most.rss, s["process_resident_memory_bytes"])
		sealed := s.sum("gscd_seals_total", `rule="proof"`)
		if sealed > 0 && first == 0 {
			first = time.Since(began)
		}
		return sealed == manyTables
	})
	t.Logf("%s: the day of %d tables was sealed between %s and %s after midnight's records were sent; at most %.0f at once, %.0f waiting, RSS %.0f MiB",
		name, manyTables, first.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond), most.inside, most.waiting, most.rss/(1<<20))
	t.Logf("%s: sending them took %s; that and the sealing went on side by side", name, began.Sub(sending).Round(100*time.Millisecond))
	if limit := m.metrics()["gscd_heavy_tasks_limit"]; most.inside > limit {
		t.Errorf("%v heavy tasks at once, the limit is %v", most.inside, limit)
	}
	all := taken + 2*manyTables*partitionsEach*midnightEach
	m.until("the day after in the tables", func(s samples) bool { return s.sum("gscd_records_total", `fate="applied"`) == float64(all) })
	m.ready()

	stopped := time.Now()
	p.end(t, syscall.SIGTERM)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d: %s", code, p.errors)
	}
	t.Logf("%s: stopped in %s", name, time.Since(stopped).Round(10*time.Millisecond))
	label := midnight.AddDate(0, 0, -1).Format(time.DateOnly)
	for _, i := range []int{0, manyTables - 1} {
		rows := strings.Count(string(gscdIn(t, environment, "query", "-c", file, "--table", m.topic(i), "--as-of", label, "--sealed", "--columns", "id", "--format", "jsonl")), "\n")
		if want := partitionsEach * (loadedEach + midnightEach); rows != want {
			t.Errorf("%s has %d rows as of %s, want %d", m.topic(i), rows, label, want)
		}
	}
}

// many is the process with its tables.
type many struct {
	t      *testing.T
	broker *broker
	name   string
	sent   int // records a partition
	http   string
	p      *process
}

func (m *many) topic(i int) string { return fmt.Sprintf("%s.table%02d", m.name, i) }

// awaitTopics waits until the broker serves all partitions of the new topics.
func (m *many) awaitTopics() {
	m.t.Helper()
	admin := m.broker.admin(m.t)
	for range 100 {
		served := 0
		offsets, err := admin.ListEndOffsets(ctx)
		if err != nil {
			m.t.Fatal(err)
		}
		offsets.Each(func(o kadm.ListedOffset) {
			if o.Err == nil && strings.HasPrefix(o.Topic, m.name+".") {
				served++
			}
		})
		if served == manyTables*partitionsEach {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.t.Fatal("the broker does not serve the new topics")
}

// send sends n inserts to each partition of each table, a second apart.
func (m *many) send(from time.Time, n int) {
	m.t.Helper()
	var all sync.WaitGroup
	faults := make([]error, manyTables)
	slots := make(chan struct{}, 4)
	for i := range manyTables {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var list []*change.Record
			for k := range n {
				for p := range partitionsEach {
					id, ms := (m.sent+k)*partitionsEach+p, from.Add(time.Duration(k)*time.Second).UnixMilli()
					list = append(list, &change.Record{
						Topic: m.topic(i), Partition: int32(p), Timestamp: ms, Key: fmt.Appendf(nil, `{"id":%d}`, id),
						Value: fmt.Appendf(nil, `{"before":null,"after":{"id":%d,"name":"customer %d","city":"Hangzhou","amount":%d},"source":{"connector":"mysql","name":"shop","ts_ms":%d,`+
							`"db":"shop","table":"t","server_id":1,"file":"mysql-bin.000001","pos":%d,"row":0},"op":"c","ts_ms":%d}`, id, id, id*7, ms, 1000+100*id, ms),
					})
				}
			}
			faults[i] = kafka.Produce(ctx, kafka.Options{Brokers: m.broker.seeds(), Topics: []string{m.topic(i)}, RequestTimeout: 30 * time.Second}, list)
		})
	}
	all.Wait()
	for _, err := range faults {
		if err != nil {
			m.t.Fatal(err)
		}
	}
	m.sent += n
}

// samples are the values of /metrics by name and labels as they are printed.
type samples map[string]float64

func (s samples) sum(metric, label string) (total float64) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if (key == metric || strings.HasPrefix(key, metric+"{")) && strings.Contains(key, label) {
			total += s[key]
		}
	}
	return total
}

func (m *many) get(page string) (code int, body string, err error) {
	resp, err := http.Get(m.http + page)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (m *many) metrics() samples {
	out := samples{}
	_, body, err := m.get("/metrics")
	if err != nil {
		return out // it is not up yet
	}
	for line := range strings.Lines(body) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil && name != "#" {
			out[name] = n
		}
	}
	return out
}

func (m *many) until(what string, reached func(samples) bool) {
	m.t.Helper()
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if reached(m.metrics()) {
			return
		}
		select {
		case <-m.p.ended:
			m.t.Fatalf("the program has ended: %s", m.p.errors)
		default:
		}
		if time.Now().After(end) {
			_, status, _ := m.get("/status")
			m.t.Fatalf("still not: %s\n%s\n%s", what, status, m.p.errors)
		}
	}
}

// ready wants all tables to run, in good health.
func (m *many) ready() {
	m.t.Helper()
	for _, page := range []string{"/readyz", "/healthz"} {
		if code, body, err := m.get(page); code != http.StatusOK {
			m.t.Errorf("%s: %d %s %v", page, code, body, err)
		}
	}
}

func (m *many) rss() string {
	return fmt.Sprintf("%.0f MiB", m.metrics()["process_resident_memory_bytes"]/(1<<20))
}
