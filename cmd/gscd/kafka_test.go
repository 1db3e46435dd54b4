package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// cluster is an embedded broker, and a folder for the tables.
type cluster struct {
	*kfake.Cluster
	t   *testing.T
	dir string
	pos int64
	// environ is that of the commands.
	environ []string
}

func newCluster(t *testing.T, partitions int32, topics ...string) *cluster {
	t.Helper()
	return newClusterOf(t, kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...))
}

func newClusterOf(t *testing.T, options ...kfake.Opt) *cluster {
	t.Helper()
	k, err := kfake.NewCluster(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return &cluster{Cluster: k, t: t, dir: t.TempDir()}
}

func (c *cluster) brokers() string { return strings.Join(c.ListenAddrs(), ",") }

// write writes a text into a file of the folder.
func (c *cluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// upsert is a change of a row {id, name} at a time, which is the broker's too.
func (c *cluster) upsert(topic string, partition int32, id int, name, at string) *change.Record {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		c.t.Fatal(err)
	}
	c.pos += 100
	value := fmt.Sprintf(`{"op":"u","before":null,"after":{"id":%d,"name":%q},"source":{"name":"s","server_id":1,"ts_ms":%d,"db":"shop","table":%q,"file":"mysql-bin.000001","pos":%d,"row":0},"ts_ms":%d}`,
		id, name, t.UnixMilli(), topic, c.pos, t.UnixMilli())
	return &change.Record{Topic: topic, Partition: partition, Timestamp: t.UnixMilli(), Key: fmt.Appendf(nil, `{"id":%d}`, id), Value: []byte(value)}
}

func (c *cluster) produce(records ...*change.Record) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	if err := kafka.Produce(ctx, kafka.Options{Brokers: c.ListenAddrs()}, records); err != nil {
		c.t.Fatal(err)
	}
}

// admin is a client for what a person does to a topic.
func (c *cluster) admin() *kadm.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// lockedBuffer is a buffer that a running command writes to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// gscd runs a command to its end.
func (c *cluster) gscd(args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	var out, err lockedBuffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &err, environ: c.environ, log: zap.NewNop(), brokerPatience: time.Second}
	code = run(args, a, commands)
	return code, out.String(), err.String()
}

// ok runs a command that must succeed.
func (c *cluster) ok(args ...string) (stdout string) {
	c.t.Helper()
	code, stdout, stderr := c.gscd(args...)
	if code != 0 {
		c.t.Fatalf("gscd %v: exit %d: %s", args, code, stderr)
	}
	return stdout
}

// ingestArgs are those of one table of one topic.
func (c *cluster) ingestArgs(topic string, more ...string) []string {
	return append([]string{"ingest", "--location", filepath.Join(c.dir, topic), "--topic", topic, "--brokers", c.brokers(), "--timezone", "UTC"}, more...)
}

func (c *cluster) status(table string, more ...string) (s statusJSON) {
	c.t.Helper()
	out := c.ok(append([]string{"status", "--format", "json", "--table", table}, more...)...)
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		c.t.Fatalf("%v in %s", err, out)
	}
	return s
}

type statusJSON struct {
	Version    int64
	Open       string
	HeldBackBy string `json:"held_back_by"`
	Incomplete *struct{ Since, Reason string }
	Partitions []struct {
		Topic     string
		Partition int32
		Next      int64
		End, Lag  *int64
		Watermark string
		WaitsFor  string `json:"waits_for"`
	}
	Totals struct{ Taken, Applied, Filtered, Missing, Holes, Offsets int64 }
}

func TestKafkaUntilEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "users")
	c.produce(
		c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"),
		c.upsert("users", 1, 2, "bob", "2022-07-16T11:00:00Z"),
		c.upsert("users", 0, 3, "cy", "2022-07-17T00:01:00Z"),
		c.upsert("users", 0, 1, "anna", "2022-07-16T23:59:00Z"),
	)
	args := c.ingestArgs("users", "--until-end", "--now", "2022-07-17T00:05:00Z")
	c.ok(args...)
	table := filepath.Join(c.dir, "users")
	if s := c.status(table); s.Open != "2022-07-16" || s.Totals.Taken != 4 || s.Totals.Applied != 3 || s.Totals.Missing != 0 {
		t.Errorf("open %s, totals %+v; want 2022-07-16 with 3 of 4 applied, one held", s.Open, s.Totals)
	}

	// A later clock seals; the same command goes on at its exact offsets.
	c.produce(c.upsert("users", 1, 2, "bobby", "2022-07-17T00:20:00Z"), c.upsert("users", 0, 3, "cyd", "2022-07-17T00:21:00Z"))
	args[len(args)-1] = "2022-07-17T00:25:00Z"
	c.ok(args...)
	const day16 = `{"id":1,"name":"anna"}` + "\n" + `{"id":2,"name":"bob"}` + "\n"
	if got := c.ok("query", "--table", table, "--as-of", "2022-07-16", "--sealed", "--order-by", "id"); got != day16 {
		t.Errorf("as of the 16th:\n%swant\n%s", got, day16)
	}
	s := c.status(table)
	if s.Open != "2022-07-17" || s.Totals.Taken != 6 || s.Totals.Applied != 6 || s.Totals.Offsets != 6 {
		t.Errorf("open %s, totals %+v; want 2022-07-17 with 6 of 6 applied", s.Open, s.Totals)
	}
	before := s.Version
	c.ok(args...)
	if s = c.status(table); s.Version != before {
		t.Errorf("nothing was new, and version %d became %d", before, s.Version)
	}

	// With its brokers configured, status tells the lag.
	c.produce(c.upsert("users", 1, 4, "dee", "2022-07-17T01:00:00Z"))
	file := c.write("gscd.yaml", fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\ntables: [{location: %q, topics: [users]}]", c.brokers(), table))
	s = c.status("users", "-c", file, "--now", "2022-07-18T01:00:00Z")
	if len(s.Partitions) != 2 || s.Partitions[1].Lag == nil || *s.Partitions[1].Lag != 1 || s.Partitions[0].Lag == nil || *s.Partitions[0].Lag != 0 {
		t.Errorf("partitions %+v, want a lag of 0 and 1", s.Partitions)
	}
	if want := "partition users/1: 1 records behind, next offset 2 of 3, since 2022-07-18T00:15:00Z (45m0s)"; s.HeldBackBy != want {
		t.Errorf("held back by %q, want %q", s.HeldBackBy, want)
	}
	if code, _, stderr := c.gscd("seal", "2022-07-17", "--force", "-c", file, "--now", "2022-07-18T01:00:00Z"); code != 1 || !strings.Contains(stderr, "users/1 is 1 records behind") {
		t.Errorf("seal: exit %d: %s", code, stderr)
	}
}

// SIGINT ends at a commit boundary, exit 0, with all that was taken.
func TestKafkaStopsCleanly(t *testing.T) {
	c := newCluster(t, 1, "users")
	for i := range 50 {
		c.produce(c.upsert("users", 0, i, "n", "2022-07-16T10:00:00Z"))
	}
	// The topic is read twice: for the first label, then to be taken. The second
	// time that it is asked for what lies behind the last record, all was read.
	read, atEnd, times := make(chan struct{}), false, 0
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, topic := range req.(*kmsg.FetchRequest).Topics {
			for _, p := range topic.Partitions {
				if end := p.FetchOffset >= 50; end != atEnd {
					if atEnd = end; end {
						if times++; times == 2 {
							close(read)
						}
					}
				}
			}
		}
		return nil, nil, false
	})
	go func() {
		<-read
		time.Sleep(300 * time.Millisecond)
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
	}()
	code, _, stderr := c.gscd(c.ingestArgs("users", "--batch-interval", "10m", "--now", "2022-07-16T12:00:00Z", "--log-level", "warn")...)
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if s := c.status(filepath.Join(c.dir, "users")); s.Version != 0 || s.Totals.Applied != 50 || s.Partitions[0].Next != 50 {
		t.Errorf("version %d, %+v, next %d; want one commit of 50 records", s.Version, s.Totals, s.Partitions[0].Next)
	}
}

// Each table of a configuration runs for itself; one that fails does not stop
// the others, and the exit code tells.
func TestKafkaSeveralTables(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users", "shop")
	c.produce(c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"))
	bad := c.upsert("shop", 0, 1, "x", "2022-07-16T10:00:00Z")
	bad.Key = nil
	c.produce(bad, c.upsert("shop", 0, 2, "y", "2022-07-16T11:00:00Z"))
	file := c.write("gscd.yaml", fmt.Sprintf(`
kafka: {brokers: [%q]}
calendar: {timezone: UTC}
tables:
  - {location: %q, topics: [users]}
  - {location: %q, topics: [nothing]}
  - {location: %q, topics: [shop], source: shop.shop}
  - {location: %q, topics: [shop], source: shop.users, key: [id]}
`, c.brokers(), c.dir+"/users", c.dir+"/gone", c.dir+"/nokey", c.dir+"/bykey"))
	code, _, stderr := c.gscd("ingest", "-c", file, "--until-end", "--now", "2022-07-16T12:00:00Z")
	if code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	for _, want := range []string{
		"gscd: 2 of 4 tables stopped:",
		"\n  table gone: topic nothing: the topic does not exist: create it, or correct the table's topics",
		"\n  table nokey: topic shop partition 0 offset 0: the table has no key",
		`"msg":"the table has stopped; the others go on","table":"gone"`,
		`"msg":"committed","table":"users"`,
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("standard error lacks %q:\n%s", want, stderr)
		}
	}
	if got := c.ok("query", "-c", file, "--table", "users"); got != `{"id":1,"name":"ann"}`+"\n" {
		t.Errorf("users: %s", got)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// running is an ingester that was started.
type running struct {
	t    *testing.T
	log  lockedBuffer
	stop context.CancelFunc
	done chan error
}

// start runs an ingester until stop. It does not listen to signals.
func (c *cluster) start(args ...string) *running {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	r := &running{t: c.t, stop: stop, done: make(chan error, 1)}
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &r.log, brokerPatience: time.Second}
	root := newRootCommand(a, commands)
	root.SetArgs(args)
	go func() { r.done <- root.ExecuteContext(ctx) }()
	return r
}

// await waits for n lines of the log that say something.
func (r *running) await(n int, what string) {
	r.t.Helper()
	for end := time.Now().Add(15 * time.Second); strings.Count(r.log.String(), what) < n; {
		if time.Now().After(end) {
			r.t.Fatalf("no %d times %q in:\n%s", n, what, r.log.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// end stops it, which must be a clean end.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := <-r.done; err != nil {
		r.t.Errorf("the run ended with %v", err)
	}
}

// A table that runs waits for brokers that went away: it takes up where it was.
func TestKafkaOutage(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users")
	c.produce(c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"))
	var away atomic.Bool
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Count: -1, When: func(kmsg.Request) bool { return away.Load() }})
	r := c.start(c.ingestArgs("users", "--batch-interval", "50ms", "--now", "2022-07-17T00:05:00Z")...)
	r.await(1, `"msg":"committed"`)
	away.Store(true)
	r.await(1, "the source does not answer; waiting for it")
	c.produce(c.upsert("users", 0, 2, "bob", "2022-07-16T11:00:00Z"))
	away.Store(false)
	r.await(1, "the source answers again")
	r.await(2, `"msg":"committed"`)
	r.end()
	if strings.Contains(r.log.String(), "started again") {
		t.Errorf("the table was started again:\n%s", r.log.String())
	}
}

// A person seals beside a running ingester, which goes on from there; and a
// partition that is added is read from its start.
func TestKafkaSealBesideIngest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users")
	table := filepath.Join(c.dir, "users")
	file := c.write("gscd.yaml", fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\ndefaults: {batch: {interval: 50ms}}\ntables: [{location: %q, topics: [users]}]", c.brokers(), table))
	r := c.start("ingest", "-c", file, "--now", "2022-07-17T00:05:00Z")
	// A partition that comes before the first record.
	time.Sleep(100 * time.Millisecond)
	if _, err := c.admin().CreatePartitions(t.Context(), 1, "users"); err != nil {
		t.Fatal(err)
	}
	c.produce(c.upsert("users", 1, 1, "ann", "2022-07-16T10:00:00Z"))
	r.await(1, `"msg":"committed"`)
	c.ok("seal", "2022-07-16", "--force", "-c", file, "--now", "2022-07-17T00:05:00Z")
	c.produce(c.upsert("users", 0, 2, "bob", "2022-07-17T00:01:00Z"))
	r.await(1, "taking up the newest version")
	r.await(1, `"label":"2022-07-17","version":2,"kind":"batch"`)
	r.end()
	if got := c.ok("query", "--table", table, "--as-of", "2022-07-16"); got != `{"id":1,"name":"ann"}`+"\n" {
		t.Errorf("as of the 16th: %s", got)
	}
	if s := c.status(table); s.Totals.Taken != 2 || s.Totals.Missing != 0 || s.Incomplete == nil {
		t.Errorf("totals %+v, incomplete %+v", s.Totals, s.Incomplete)
	}
}

// A new table may begin at a time, or at the end.
func TestKafkaStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "users")
	c.produce(
		c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"),
		c.upsert("users", 0, 2, "bob", "2022-07-16T11:00:00Z"),
		c.upsert("users", 1, 3, "cy", "2022-07-16T09:00:00Z"),
	)
	c.ok(c.ingestArgs("users", "--until-end", "--now", "2022-07-16T12:00:00Z", "--start", "2022-07-16T10:30:00Z")...)
	s := c.status(filepath.Join(c.dir, "users"))
	if s.Totals.Taken != 1 || s.Partitions[0].Next != 2 || s.Partitions[1].Next != 1 || s.Incomplete == nil {
		t.Errorf("totals %+v, partitions %+v, incomplete %+v; want one record, from 10:30 on", s.Totals, s.Partitions, s.Incomplete)
	}
	latest := filepath.Join(c.dir, "latest")
	c.ok(c.ingestArgs("users", "--location", latest, "--until-end", "--start", "latest")...)
	if _, err := os.Stat(latest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a table was made of nothing: %v", err)
	}
}

// Wrong turns: one clear sentence, at once.
func TestKafkaWrongTurns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users")
	for name, w := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no broker": {[]string{"--brokers", "127.0.0.1:1,127.0.0.1:2"}, 1, "no broker answers at 127.0.0.1:1, 127.0.0.1:2 (the network): start it, or correct kafka.brokers"},
		"no topic":  {[]string{"--topic", "usrs"}, 1, "table users: topic usrs: the topic does not exist: create it, or correct the table's topics"},
		"offsets":   {[]string{"--start", "0=7"}, 1, "start names offset 7 for partition users/0, which has 0 to 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			code, _, stderr := c.gscd(append(c.ingestArgs("users", "--until-end"), w.args...)...)
			if code != w.code || !strings.Contains(stderr, w.says) {
				t.Errorf("exit %d, want %d: %s\nwant %s", code, w.code, stderr, w.says)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// The login comes from the file, its password from the environment.
func TestKafkaLogin(t *testing.T) {
	t.Parallel()
	c := newClusterOf(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "users"), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "gscd", "hush"))
	file := c.write("gscd.yaml", fmt.Sprintf(`
kafka: {brokers: [%q], sasl: {mechanism: scram-sha-512, username: gscd, password: guess}}
calendar: {timezone: UTC}
tables: [{location: %q, topics: [users]}]
`, c.brokers(), c.dir+"/users"))
	code, _, stderr := c.gscd("ingest", "-c", file, "--until-end")
	// The embedded broker hangs up where a real one says that the login is wrong.
	if code != 1 || !strings.Contains(stderr, "correct kafka.brokers (--brokers), kafka.tls and kafka.sasl") || strings.Contains(stderr, "guess") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	c.environ = []string{"GSCD_KAFKA_SASL_PASSWORD=hush"}
	c.ok("ingest", "-c", file, "--until-end")
}

func TestKafkaCompacted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	policy := "compact"
	if _, err := c.admin().CreateTopics(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy}, "users"); err != nil {
		t.Fatal(err)
	}
	c.produce(c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"))
	args := c.ingestArgs("users", "--until-end", "--now", "2022-07-17T00:20:00Z")
	code, _, stderr := c.gscd(args...)
	if code != 1 || !strings.Contains(stderr, "topic users is compacted (cleanup.policy), so Kafka removes changes that a day needs") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	c.ok(append(args, "--compacted", "allow")...)
	if got := c.ok("snapshots", "--table", filepath.Join(c.dir, "users")); !strings.Contains(got, `"attributes":["no load","by clock","compacted"]`) {
		t.Errorf("snapshots: %s", got)
	}
}

// Lost offsets stop a table for good, or are passed over.
func TestKafkaLostOffsets(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users")
	c.produce(c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"))
	args := c.ingestArgs("users", "--until-end", "--now", "2022-07-16T12:00:00Z")
	c.ok(args...)
	for i := range 3 {
		c.produce(c.upsert("users", 0, 2+i, "n", "2022-07-16T11:00:00Z"))
	}
	var cut kadm.Offsets
	cut.Add(kadm.Offset{Topic: "users", At: 3})
	if _, err := c.admin().DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := c.gscd(args...)
	if code != 1 || !strings.Contains(stderr, "label 2022-07-16 and all later ones would be incomplete: topic users partition 0: needs offset 1, the oldest there is 3: 2 offsets (1-2) are lost") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	c.ok(append(args, "--on-lost-offsets", "continue")...)
	table := filepath.Join(c.dir, "users")
	if s := c.status(table); s.Incomplete == nil || s.Incomplete.Reason != "offsets 1 to 2 of users/0 were lost" || s.Totals.Taken != 2 || s.Totals.Holes != 2 {
		t.Errorf("incomplete %+v, totals %+v", s.Incomplete, s.Totals)
	}

	// A topic made anew has other offsets.
	if _, err := c.admin().DeleteTopics(t.Context(), "users"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.admin().CreateTopics(t.Context(), 1, 1, nil, "users"); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		c.produce(c.upsert("users", 0, 10+i, "n", "2022-07-16T11:30:00Z"))
	}
	code, _, stderr = c.gscd(args...)
	if code != 1 || !strings.Contains(stderr, "the topic was deleted and created again") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	c.ok(append(args, "--on-lost-offsets", "continue")...)
	if s := c.status(table); s.Totals.Taken != 8 || s.Totals.Holes != 2 || s.Totals.Offsets != 10 || s.Totals.Missing != 0 || s.Partitions[0].Next != 6 {
		t.Errorf("totals %+v, next %d; want 8 records taken and 2 holes, next 6", s.Totals, s.Partitions[0].Next)
	}
}

// A heartbeat proves that the source lives while the table is silent.
func TestKafkaHeartbeat(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users", "beats")
	c.produce(c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"))
	table := filepath.Join(c.dir, "users")
	file := c.write("gscd.yaml", fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\ntables: [{location: %q, topics: [users], seal: {proof: heartbeat, topic: beats}}]", c.brokers(), table))
	run := []string{"ingest", "-c", file, "--until-end", "--now", "2022-07-17T08:00:00Z"}
	c.ok(run...)
	s := c.status("users", "-c", file, "--now", "2022-07-17T08:00:00Z")
	if s.Open != "2022-07-16" || s.HeldBackBy != "seal.proof: heartbeat: no partition has shown that the source lived past the label" {
		t.Errorf("open %s, held back by %q", s.Open, s.HeldBackBy)
	}
	beat := func(at string) *change.Record {
		ts, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		return &change.Record{Topic: "beats", Timestamp: ts.UnixMilli(), Key: []byte(`{"serverName":"s"}`), Value: fmt.Appendf(nil, `{"ts_ms":%d}`, ts.UnixMilli())}
	}
	c.produce(beat("2022-07-16T23:00:00Z"), beat("2022-07-17T00:00:00Z"), beat("2022-07-17T00:11:00Z"), beat("2022-07-17T07:00:00Z"))
	c.ok(run...)
	s = c.status("users", "-c", file, "--now", "2022-07-17T08:00:00Z")
	if s.Open != "2022-07-17" || s.Totals.Taken != 1 || s.Totals.Offsets != 1 || len(s.Partitions) != 2 {
		t.Errorf("open %s, totals %+v, partitions %+v; want the 17th, and heartbeats not counted", s.Open, s.Totals, s.Partitions)
	}
	// The pause is exact: the seal has the offset behind the heartbeat that agreed.
	if got := c.ok("snapshots", "2022-07-16", "--table", table); !strings.Contains(got, `"topic":"beats","partition":0,"offset":3,"watermark":"2022-07-17T00:11:00Z","rule":"watermark"`) {
		t.Errorf("evidence: %s", got)
	}
	// Without the heartbeat again its partition is forgotten.
	plain := c.write("plain.yaml", strings.Replace(readFile(t, file), ", seal: {proof: heartbeat, topic: beats}", "", 1))
	c.produce(c.upsert("users", 0, 1, "anna", "2022-07-17T09:00:00Z"))
	c.ok("ingest", "-c", plain, "--until-end", "--now", "2022-07-17T10:00:00Z")
	if s = c.status(table); len(s.Partitions) != 1 || s.Totals.Missing != 0 || s.Totals.Offsets != 2 {
		t.Errorf("partitions %+v, totals %+v", s.Partitions, s.Totals)
	}
}

// What a topic held is recorded, and replayed to the same rows.
func TestRecord(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "users")
	c.produce(c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"), c.upsert("users", 1, 2, "bob", "2022-07-16T11:00:00Z"))
	for _, form := range []string{"", "--kcat"} {
		args := []string{"record", "users", "--brokers", c.brokers()}
		if form != "" {
			args = append(args, form)
		}
		file := c.write("users.jsonl", c.ok(args...))
		location := filepath.Join(c.dir, "replay"+form)
		c.ok("ingest", "--location", location, "--topic", "users", "--timezone", "UTC", "--input", file)
		if got := c.ok("query", "--table", location, "--order-by", "id"); got != `{"id":1,"name":"ann"}`+"\n"+`{"id":2,"name":"bob"}`+"\n" {
			t.Errorf("replayed: %s", got)
		}
	}
	if code, _, stderr := c.gscd("record", "usrs", "--brokers", c.brokers()); code != 1 || !strings.Contains(stderr, "topic usrs: the topic does not exist") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := c.gscd("record", "users"); code != 2 || !strings.Contains(stderr, "no broker is configured") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
