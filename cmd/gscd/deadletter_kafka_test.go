package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

// consume gives n records of a topic as text: key, value, headers.
func (c *cluster) consume(topic string, n int) []string {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	var out []string
	for len(out) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			c.t.Fatalf("%d of %d records: %v", len(out), n, err)
		}
		for _, r := range fetches.Records() {
			text := fmt.Sprintf("%s|%s", r.Key, r.Value)
			for _, h := range r.Headers {
				text += fmt.Sprintf("|%s=%s", h.Key, h.Value)
			}
			out = append(out, text)
		}
	}
	return out
}

func broken(topic string, at time.Time, headers ...change.Header) *change.Record {
	return &change.Record{Topic: topic, Timestamp: at.UnixMilli(), Key: []byte(`{"id":9}`), Value: []byte("not an envelope"), Headers: headers}
}

func TestDeadLettersGoToATopicToo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users", "users.dead")
	at := time.Date(2022, 7, 16, 10, 0, 0, 0, time.UTC)
	c.produce(
		c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"),
		broken("users", at, change.Header{Key: "trace", Value: []byte("7")}),
		c.upsert("users", 0, 1, "anna", "2022-07-16T10:00:02Z"),
	)
	file := c.write("gscd.yaml", fmt.Sprintf(`kafka: {brokers: [%q]}
calendar: {timezone: UTC}
tables: [{name: users, location: %s, topics: [users], dead_letter: {to: "topic:users.dead"}}]
`, c.brokers(), filepath.Join(c.dir, "users")))
	c.ok("ingest", "-c", file, "--until-end")
	got := c.consume("users.dead", 1)
	want := `{"id":9}|not an envelope|trace=7|gscd-topic=users|gscd-partition=0|gscd-offset=1|gscd-reason=decode|gscd-detail=decode: json at byte 0: no value|gscd-column=|gscd-label=2022-07-16`
	if got[0] != want {
		t.Errorf("the topic was told\n%s\nwant\n%s", got[0], want)
	}
	if list := c.ok("dead-letter", "list", "-c", file); !strings.Contains(list, `"offset":1`) || !strings.Contains(list, `"state":"active"`) {
		t.Errorf("the table has %s", list)
	}
	// The same command again has nothing to tell.
	c.ok("ingest", "-c", file, "--until-end")
	if ends, err := c.admin().ListEndOffsets(t.Context(), "users.dead"); err != nil {
		t.Fatal(err)
	} else if end, _ := ends.Lookup("users.dead", 0); end.Offset != 1 {
		t.Errorf("the topic ends at %d, want 1", end.Offset)
	}

	for to, says := range map[string]string{
		"topic:nowhere": "table users: dead letters: topic nowhere: the topic to write to does not exist: create it, or correct its name",
		"topic:users":   "dead_letter.to: users is read by tables[0]: dead letters would come in as changes",
	} {
		bad := c.write("bad.yaml", fmt.Sprintf(`kafka: {brokers: [%q]}
calendar: {timezone: UTC}
tables: [{name: users, location: %s, topics: [users], dead_letter: {to: %q}}]
`, c.brokers(), filepath.Join(c.dir, "users"), to))
		if code, _, stderr := c.gscd("ingest", "-c", bad, "--until-end"); code == 0 || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d: %s", to, code, stderr)
		}
	}
}

// A record of which only the first MiB was kept is read again by its place.
func TestReplayReadsLargeRecordsAgain(t *testing.T) {
	t.Parallel()
	c := newClusterOf(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "users"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "100000000"}))
	small := c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z")
	large := c.upsert("users", 0, 2, strings.Repeat("x", 1_500_000), "2022-07-16T10:00:01Z")
	c.produce(small, large, c.upsert("users", 0, 3, "cy", "2022-07-16T10:00:02Z"))
	config := func(limit string) string {
		return c.write("gscd.yaml", fmt.Sprintf(`kafka: {brokers: [%q]}
calendar: {timezone: UTC}
tables: [{name: users, location: %s, topics: [users], key: [id], max_record: %s}]
`, c.brokers(), filepath.Join(c.dir, "users"), limit))
	}
	file := config("64KiB")
	c.ok("ingest", "-c", file, "--until-end")
	code, _, stderr := c.gscd("dead-letter", "replay", "-c", file, "--all")
	if code != 1 || !strings.Contains(stderr, "set max_record to more") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	file = config("64MiB")
	if out := c.ok("dead-letter", "replay", "-c", file, "--all", "--format", "csv"); !strings.Contains(out, "users,0,1,2022-07-16,replayed,") {
		t.Fatal(out)
	}
	if got := c.ok("query", "-c", file, "--where", "id = 2"); len(got) < 1_500_000 {
		t.Errorf("the row has %d bytes", len(got))
	}
}

// A replay takes its turn with an ingester that runs: that one goes on from the new version.
func TestReplayBesideAnIngester(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users")
	at := time.Date(2022, 7, 16, 10, 0, 0, 0, time.UTC)
	partial := c.upsert("users", 0, 1, "__debezium_unavailable_value", "2022-07-16T10:00:01Z")
	c.produce(c.upsert("users", 0, 2, "bob", "2022-07-16T10:00:00Z"), partial, broken("users", at))
	table := filepath.Join(c.dir, "users")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var out, logs lockedBuffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &logs, brokerPatience: time.Second}
		root := newRootCommand(a, commands)
		root.SetArgs(c.ingestArgs("users", "--batch-interval", "100ms", "--key", "id"))
		err := root.ExecuteContext(ctx)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, logs.String())
		}
		done <- err
	}()
	wait := func(what string, ready func() bool) {
		t.Helper()
		for end := time.Now().Add(15 * time.Second); !ready(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no ", what)
			}
		}
	}
	taken := func(n int64) func() bool {
		return func() bool {
			code, out, _ := c.gscd("status", "--table", table, "--format", "json")
			return code == 0 && strings.Contains(out, fmt.Sprintf(`"taken":%d`, n))
		}
	}
	wait("first commit", taken(3))
	code, out, stderr := c.gscd("dead-letter", "replay", "--table", table, "--all", "--format", "csv")
	if code != 1 || !strings.Contains(stderr, "2 of 2 dead letters could not be replayed") {
		t.Fatalf("exit %d: %s%s", code, out, stderr)
	}
	if out := c.ok("dead-letter", "dismiss", "--table", table, "--reason", "decode", "--note", "a test"); !strings.Contains(out, `"state":"dismissed"`) {
		t.Fatal(out)
	}
	c.produce(c.upsert("users", 0, 3, "cy", "2022-07-16T10:01:00Z"))
	wait("commit behind the dismissal", taken(4))
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if out := c.ok("dead-letter", "list", "--table", table, "--format", "csv"); !strings.Contains(out, ",dismissed,0\n") || !strings.Contains(out, ",active,0\n") {
		t.Errorf("the states are gone: %s", out)
	}
	if s := c.status(table); s.Totals.Missing != 0 || s.Totals.Taken != 4 {
		t.Errorf("totals %+v", s.Totals)
	}
}
