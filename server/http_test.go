package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/snapshotter"
)

// A day with drift, a record that is none, and changes of the day after, which
// are past drift.wait.
const twoDays = `{"topic":"t","partition":0,"offset":0,"ts":1657965600500,"key":{"id":1},"value":{"op":"c","before":null,"after":{"id":1,"name":"ann"},"source":{"name":"s","server_id":1,"ts_ms":1657965600000,"db":"shop","table":"user_dim","file":"mysql-bin.000001","pos":100,"row":0},"ts_ms":1657965600001}}
{"topic":"t","partition":1,"offset":0,"ts":1657969200500,"key":{"id":2},"value":{"op":"c","before":null,"after":{"id":2,"name":"bob"},"source":{"name":"s","server_id":1,"ts_ms":1657969200000,"db":"shop","table":"user_dim","file":"mysql-bin.000001","pos":200,"row":0},"ts_ms":1657969200001}}
{"topic":"t","partition":1,"offset":1,"ts":1657969200500,"key":{"id":9},"raw_value":"{\"op\":"}
{"topic":"t","partition":0,"offset":1,"ts":1658016060500,"key":{"id":3},"value":{"op":"c","before":null,"after":{"id":3,"name":"cy"},"source":{"name":"s","server_id":1,"ts_ms":1658016060000,"db":"shop","table":"user_dim","file":"mysql-bin.000001","pos":400,"row":0},"ts_ms":1658016060001}}
{"topic":"t","partition":0,"offset":2,"ts":1658016061500,"key":{"id":1},"value":{"op":"u","before":{"id":1,"name":"ann"},"after":{"id":1,"name":"anna"},"source":{"name":"s","server_id":1,"ts_ms":1658015940000,"db":"shop","table":"user_dim","file":"mysql-bin.000001","pos":500,"row":0},"ts_ms":1658016061001}}
{"topic":"t","partition":0,"offset":3,"ts":1658016660500,"key":{"id":3},"value":{"op":"u","before":{"id":3,"name":"cy"},"after":{"id":3,"name":"cyd"},"source":{"name":"s","server_id":1,"ts_ms":1658016660000,"db":"shop","table":"user_dim","file":"mysql-bin.000001","pos":700,"row":0},"ts_ms":1658016660001}}
{"topic":"t","partition":1,"offset":2,"ts":1658016661500,"key":{"id":4},"value":{"op":"c","before":null,"after":{"id":4,"name":"dee"},"source":{"name":"s","server_id":1,"ts_ms":1658016661000,"db":"shop","table":"user_dim","file":"mysql-bin.000001","pos":800,"row":0},"ts_ms":1658016661001}}
`

// laneRunner is a lane over a recording, and what it reads.
type laneRunner struct {
	*ingest.Lane
	io.Closer
}

// recorded is a real table over the recording. It goes on until it is stopped.
func recorded(t *testing.T, store *mem.Store) Spec {
	t.Helper()
	file := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(file, []byte(twoDays), 0o644); err != nil {
		t.Fatal(err)
	}
	cal, err := snapshotter.NewCalendar("day", "UTC", "00:00")
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Date(2022, 7, 18, 1, 0, 0, 0, time.UTC)
	return Spec{Name: "t", Address: "mem", Idle: 5 * time.Minute, Proof: "any", Open: func(_ context.Context, with Shared) (Runner, error) {
		r, err := recording.Open([]string{file}, recording.Options{Topics: []string{"t"}})
		if err != nil {
			return nil, err
		}
		lane, err := ingest.New(ingest.Options{
			Name: "t", Store: with.Count(store), DeadLetterStore: with.Count(mem.New()), Calendar: cal, SealProof: "any",
			Now: func() time.Time { return clock }, BatchInterval: time.Millisecond, BatchMaxInterval: time.Millisecond,
			Budget: with.Budget, Gate: with.Gate, Observer: with.Observer,
		}, r)
		return laneRunner{lane, r}, err
	}}
}

// served runs a server with the table until the test ends.
func served(t *testing.T, store *mem.Store) (s *Server, get func(page string) (int, string), stop func()) {
	t.Helper()
	s = New(Options{
		Build:   map[string]string{"version": "v1", "commit": "abc", "go": "go1.26"},
		Traffic: func() Traffic { return Traffic{Requests: map[string]int64{"Fetch": 7}, Fetched: 1234} },
		Retries: func() map[string]int64 { return map[string]int64{"put": 2} },
		Notifications: func() []Notified {
			return []Notified{{Sink: "webhook", Delivered: 3, Failed: 2, Undelivered: 1, Oldest: time.Now().Add(-time.Minute)}}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, []Spec{recorded(t, store)}) }()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	get = func(page string) (int, string) {
		t.Helper()
		resp, err := http.Get(web.URL + page)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	stop = func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return s, get, stop
}

// await waits until the 17th is open and has its rows.
func await(t *testing.T, get func(string) (int, string)) (metrics string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, metrics = get("/metrics"); strings.Contains(metrics, "gscd_rows{table=\"t\"} 4\n") {
			return metrics
		}
	}
	t.Fatalf("the table has not come to four rows:\n%s", metrics)
	return ""
}

func TestMetricsAgreeWithTheTable(t *testing.T) {
	store := mem.New()
	s, get, stop := served(t, store)
	metrics := await(t, get)
	for name, want := range map[string]string{
		`gscd_records_taken_total{table="t"}`:                                           "7",
		`gscd_records_total{fate="applied",table="t"}`:                                  "6",
		`gscd_records_total{fate="dead_letter",table="t"}`:                              "1",
		`gscd_records_total{fate="duplicate",table="t"}`:                                "0",
		`gscd_drift_records_total{table="t"}`:                                           "1",
		`gscd_late_records_total{table="t"}`:                                            "0",
		`gscd_seals_total{rule="proof",table="t"}`:                                      "1",
		`gscd_seals_total{rule="clock",table="t"}`:                                      "0",
		`gscd_commits_total{kind="seal",table="t"}`:                                     "1",
		`gscd_dead_letters{table="t"}`:                                                  "1",
		`gscd_held_records{table="t"}`:                                                  "0",
		`gscd_owner_epoch{table="t"}`:                                                   "1",
		`gscd_open_label_start_timestamp_seconds{table="t"}`:                            "1.658016e+09",
		`gscd_seal_overdue_seconds{table="t"}`:                                          "2700", // 01:00 is 45 minutes past 00:15
		`gscd_partition_next_offset{partition="1",table="t",topic="t"}`:                 "3",
		`gscd_partition_lag{partition="0",table="t",topic="t"}`:                         "0",
		`gscd_partition_paused{partition="0",table="t",topic="t"}`:                      "0",
		`gscd_partition_watermark_timestamp_seconds{partition="1",table="t",topic="t"}`: "1.658016661e+09",
		`gscd_kafka_requests_total{request="Fetch"}`:                                    "7",
		`gscd_kafka_fetched_bytes_total`:                                                "1234",
		`gscd_build_info{commit="abc",go="go1.26",version="v1"}`:                        "1",
		`gscd_batch_memory_bytes`:                                                       "0",
	} {
		if !strings.Contains(metrics, "\n"+name+" "+want+"\n") {
			t.Errorf("%s is not %s in\n%s", name, want, regexp.MustCompile(`(?m)^[^g].*\n`).ReplaceAllString(metrics, ""))
		}
	}
	// Names and help are as Prometheus wants them.
	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	var status struct {
		Version string
		Tables  []struct {
			Table, State, Open string
			LastSealed         string `json:"last_sealed"`
			HeldBackBy         string `json:"held_back_by"`
			DeadLetters        int64  `json:"dead_letters"`
			OpenSince          string `json:"open_since"`
			Owner              struct {
				Name, Since string
				Epoch       int64
			}
			Partitions []struct{ Next, End, Lag int64 }
			Totals     struct{ Taken, Missing int64 }
		}
	}
	_, body := get("/status")
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	x := status.Tables[0]
	host, _ := os.Hostname()
	if status.Version != "v1" || x.State != "running" || x.Open != "2022-07-17" || x.LastSealed != "2022-07-16" || x.DeadLetters != 1 || x.OpenSince == "" ||
		!strings.HasPrefix(x.Owner.Name, host) || x.Owner.Since == "" || x.Owner.Epoch != 1 || len(x.Partitions) != 2 || x.Totals.Taken != 7 || x.Totals.Missing != 0 ||
		x.HeldBackBy != "seal.proof: any: no partition has shown that the source lived past the label" {
		t.Errorf("status %s", body)
	}
	if n := s.gate.use().inside[ingest.SealWork]; n != 0 {
		t.Errorf("%d are still inside", n)
	}
	stop()

	// Counters are of the process, gauges of the table.
	_, get, stop = served(t, store)
	metrics = await(t, get)
	for _, want := range []string{"gscd_records_taken_total{table=\"t\"} 0\n", "gscd_dead_letters{table=\"t\"} 1\n", "gscd_heavy_tasks_running{work=\"index\"} 0\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("after the restart: no %s", want)
		}
	}
	if !regexp.MustCompile(`(?m)^gscd_last_commit_timestamp_seconds\{table="t"\} 1\.`).MatchString(metrics) {
		t.Error("after the restart the last commit has no time")
	}
	stop()
}

// Nothing is heard of a table: the program has to be started again.
func TestHealth(t *testing.T) {
	s := New(Options{})
	w := newWatch("t")
	x := &table{Spec: Spec{Name: "t"}, s: s, watch: w, share: s.memory.share(), state: Running}
	s.tables = []*table{x}
	later := time.Now().Add(stalledAfter + time.Minute)
	if wrong := s.unhealthy(later); wrong != nil {
		t.Errorf("between two starts: %q", wrong)
	}
	x.working.Store(true)
	if wrong := s.unhealthy(later); len(wrong) != 1 || wrong[0] != "table t: nothing was heard of it for 11m0s" {
		t.Errorf("at work: %q", wrong)
	}
	x.inQueue.Store(true)
	if wrong := s.unhealthy(later); wrong != nil {
		t.Errorf("waiting for its turn: %q", wrong)
	}
	x.inQueue.Store(false)
	s.beat.Store(1)
	if wrong := s.unhealthy(time.Now()); len(wrong) != 1 || wrong[0] != "the loop that starts and stops tables stands still" {
		t.Errorf("the loop: %q", wrong)
	}
}

// A table is ready where it is open and its brokers answer; a restart of theirs is borne.
func TestReady(t *testing.T) {
	s := New(Options{})
	w := newWatch("t")
	x := &table{Spec: Spec{Name: "t"}, s: s, watch: w, share: s.memory.share(), state: Waiting}
	s.tables = []*table{x}
	now := time.Now()
	if wrong := s.unready(now); len(wrong) != 1 || wrong[0] != "table t: its state is not loaded yet" {
		t.Errorf("loading: %q", wrong)
	}
	x.working.Store(true)
	w.Loaded(ingest.View{Version: -1})
	if wrong := s.unready(now); wrong != nil {
		t.Errorf("open: %q", wrong)
	}
	since := now.Add(-outageFor)
	w.Took(ingest.View{Waits: []ingest.Wait{{For: ingest.ForSource, Since: since, Err: errors.New("no broker")}}})
	if wrong := s.unready(now); wrong != nil {
		t.Errorf("brokers away for a moment: %q", wrong)
	}
	if wrong := s.unready(now.Add(time.Second)); len(wrong) != 1 || wrong[0] != "table t: the brokers have not answered since "+rfc3339(since)+": no broker" {
		t.Errorf("brokers away: %q", wrong)
	}
	w.Took(ingest.View{})
	if wrong := s.unready(now.Add(time.Second)); wrong != nil {
		t.Errorf("they are back: %q", wrong)
	}
}

// slowStore answers no Head before it is told to.
type slowStore struct {
	*mem.Store
	asked, answer chan bool
}

func (s slowStore) Head(ctx context.Context, key string) (objstore.Object, error) {
	s.asked <- true
	<-s.answer
	return s.Store.Head(ctx, key)
}

// What a table waits for is told while it waits.
func TestWaits(t *testing.T) {
	s := New(Options{})
	w := newWatch("t")
	x := &table{Spec: Spec{Name: "t", Address: "s3://lake/t"}, s: s, watch: w, share: s.memory.share(), state: Running}
	x.working.Store(true)
	s.tables = []*table{x}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	told := func(now time.Time) any { return waitsFor(x.waits(now)) }
	if got := told(at); got != nil {
		t.Errorf("it waits for %v", got)
	}
	w.Took(ingest.View{Waits: []ingest.Wait{{For: ingest.ForSource, Since: at, Err: errors.New("no broker")}, {For: ingest.ForTurn, Since: at}}})
	if got := told(at); got != "the source, since 2026-01-02T03:04:05Z: no broker; its turn, since 2026-01-02T03:04:05Z" {
		t.Errorf("it waits for %v", got)
	}
	families, err := s.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "gscd_table_waiting_seconds" {
				continue
			}
			what := m.GetLabel()[0].GetValue()
			if waits := m.GetGauge().GetValue() > 0; waits != (what == "source" || what == "turn") {
				t.Errorf("%s: %v", what, m)
			}
		}
	}
	w.unload()
	if got := told(at); got != nil {
		t.Errorf("stopped, it waits for %v", got)
	}

	slow := slowStore{mem.New(), make(chan bool), make(chan bool)}
	done := make(chan bool)
	go func() {
		defer close(done)
		_, _ = x.shared().Count(slow).Head(t.Context(), "part-1") // there is none
	}()
	<-slow.asked
	now := time.Now()
	if got := told(now.Add(slowCall - time.Second)); got != nil {
		t.Errorf("after a short time it waits for %v", got)
	}
	if got, ok := told(now.Add(slowCall + time.Second)).(string); !ok || !strings.HasPrefix(got, "the storage, since ") || !strings.HasSuffix(got, ": head part-1 in s3://lake/t is not answered") {
		t.Errorf("it waits for %v", got)
	}
	slow.answer <- true
	<-done
	if got := told(now.Add(time.Hour)); got != nil {
		t.Errorf("answered, it waits for %v", got)
	}
}

// Other methods and pages are refused.
func TestPages(t *testing.T) {
	h := New(Options{}).Handler()
	for request, want := range map[string]int{"POST /status": 405, "GET /": 200, "GET /nothing": 404, "GET /tables/none": 404, "PUT /loglevel": 403, "HEAD /healthz": 200, "DELETE /metrics": 405} {
		method, page, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, page, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", request, w.Code, want)
		}
	}
}
