//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	changedata "github.com/gscd-io/gscd/query/changes"
)

// feedRig is a table with change data that a process writes to a topic.
type feedRig struct {
	t      *testing.T
	b      *broker
	table  *delta.Table
	dir    string
	topic  string
	config string
	rng    *rand.Rand
}

func newFeedRig(t *testing.T, b *broker) *feedRig {
	t.Helper()
	g := &feedRig{t: t, b: b, dir: t.TempDir(), topic: "changes." + fmt.Sprint(time.Now().UnixNano()), rng: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))}
	b.createTopic(t, g.topic, 3)
	store, err := local.New(filepath.Join(g.dir, "users"), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.table = delta.New(store)
	if _, err := write.Create(ctx, g.table, write.Definition{
		Columns:    []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("city", schema.Of(schema.StringType)), write.Column("amount", schema.Decimal(12, 2))},
		Properties: map[string]string{delta.PropertyChangeDataFeed: "true", delta.PropertyDeletionVectors: "true"},
	}, write.Source{}); err != nil {
		t.Fatal(err)
	}
	// Over TLS, with a password.
	g.config = filepath.Join(g.dir, "gscd.yaml")
	text := fmt.Sprintf(`
kafka:
  brokers: [%q]
  tls: {ca_file: %q}
  sasl: {mechanism: scram-sha-512, username: %s, password: %q}
tables:
  - {name: users, location: %q}
calendar: {timezone: UTC}
`, b.secure, b.file("ca.pem"), brokerUser, brokerPassword, filepath.Join(g.dir, "users"))
	if err := os.WriteFile(g.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

// commit makes one version of many changes: long enough for a kill to meet its transaction.
func (g *feedRig) commit() {
	g.t.Helper()
	if g.rng.IntN(6) == 0 {
		if _, err := write.Delete(ctx, g.table, fmt.Sprintf("id > %d", 3000+g.rng.IntN(3000))); err != nil {
			g.t.Fatal(err)
		}
		return
	}
	var rows [][]any
	for id := range 6000 {
		if g.rng.IntN(2) == 0 {
			rows = append(rows, []any{id, strings.Repeat("Hangzhou ", g.rng.IntN(20)), fmt.Sprintf("%d.%02d", g.rng.IntN(1e6), g.rng.IntN(100))})
		}
	}
	if _, err := write.Merge(ctx, g.table, write.MergeInto{Key: []string{"id"}}, write.Values(rows)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *feedRig) args(more ...string) []string {
	return append([]string{"changes", "-c", g.config, "--key", "id", "--to-topic", g.topic, "--poll", "10ms"}, more...)
}

// read counts the topic's records, and gives each change of them by its place.
func (g *feedRig) read(isolation kgo.IsolationLevel) (records int, ops map[string]string) {
	g.t.Helper()
	ops = map[string]string{}
	ends, err := g.b.admin(g.t).ListEndOffsets(ctx, g.topic)
	if err != nil {
		g.t.Fatal(err)
	}
	cl := g.b.client(g.t, kgo.ConsumeTopics(g.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	left := map[int32]int64{}
	for _, e := range ends[g.topic] {
		if e.Offset > 0 {
			left[e.Partition] = e.Offset
		}
	}
	partition, last := map[string]int32{}, map[string]int64{}
	for end := time.Now().Add(time.Minute); len(left) > 0; {
		if time.Now().After(end) {
			g.t.Fatalf("not read: %v", left)
		}
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			g.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			records++
			if isolation == kgo.ReadUncommitted() {
				return
			}
			var value struct {
				Payload struct {
					Op     string
					Source struct{ Pos, Row int64 }
				}
			}
			if err := json.Unmarshal(r.Value, &value); err != nil {
				g.t.Fatal(err)
			}
			at := value.Payload.Source
			place := fmt.Sprintf("%d/%d", at.Pos, at.Row)
			if ops[place] != "" {
				g.t.Fatalf("%s is there twice", place)
			}
			ops[place] = value.Payload.Op
			key := string(r.Key)
			if p, ok := partition[key]; ok && (p != r.Partition || at.Pos <= last[key]) {
				g.t.Fatalf("%s: version %d on partition %d, behind %d on %d", key, at.Pos, r.Partition, last[key], p)
			}
			partition[key], last[key] = r.Partition, at.Pos
		})
	}
	return records, ops
}

// want are the table's own changes.
func (g *feedRig) want() map[string]string {
	g.t.Helper()
	s, err := g.table.Snapshot(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	feed, err := changedata.Open(g.table, s, nil, changedata.Options{Key: []string{"id"}})
	if err != nil {
		g.t.Fatal(err)
	}
	out := map[string]string{}
	for u, err := range feed.NetVersions(ctx, 0, s.Version()) {
		if err != nil {
			g.t.Fatal(err)
		}
		n := 0
		for k, err := range u.Keys {
			if err != nil {
				g.t.Fatal(err)
			}
			op := "u"
			if k.Before == nil {
				op = "c"
			} else if k.After == nil {
				op = "d"
			}
			out[fmt.Sprintf("%d/%d", u.Version, n)] = op
			n++
		}
	}
	return out
}

// Whatever is killed, paused or restarted, a reader of committed records sees the change
// data of the table, each change once, and ingest makes the same table of it.
func testChangesSink(t *testing.T, b *broker) {
	g := newFeedRig(t, b)
	g.commit()
	// Kills within transactions: the process has written to the topic and not committed.
	for range 6 {
		g.commit()
		p := startProcess(t, binary(t), g.args("--follow", "--log-level", "error")...)
		g.grown(p)
		time.Sleep(time.Duration(g.rng.IntN(60)) * time.Millisecond)
		p.end(t, syscall.SIGKILL)
	}
	// The broker restarts under one that follows, which goes on by itself.
	follower := startProcess(t, binary(t), g.args("--follow", "--log-level", "error")...)
	g.commit()
	g.grown(follower)
	b.kill()
	b.start()
	g.commit()
	g.grown(follower)
	// A process that was paused wakes up after another one has taken over: it is fenced.
	if err := follower.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g.commit()
	gscd(t, g.args()...)
	g.commit()
	if err := follower.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-follower.ended:
		if code := follower.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(follower.errors.String(), "another process has taken over the writing") {
			t.Errorf("the one that was paused: exit %d: %s", code, follower.errors)
		}
	case <-time.After(time.Minute):
		t.Fatal("the one that was paused goes on")
	}
	gscd(t, g.args()...)

	written, _ := g.read(kgo.ReadUncommitted())
	committed, got := g.read(kgo.ReadCommitted())
	if want := g.want(); !maps.Equal(got, want) || committed != len(want) {
		t.Fatalf("%d changes in %d records, want %d", len(got), committed, len(want))
	}
	if written == committed {
		t.Error("no transaction was broken off: no test")
	}
	t.Logf("records written: %d, committed: %d", written, committed)

	gscd(t, "ingest", "--location", filepath.Join(g.dir, "copy"), "--topic", g.topic, "--brokers", b.address, "--timezone", "UTC", "--until-end", "--log-level", "error")
	print := func(name string) []string {
		lines := strings.Split(strings.TrimSpace(string(gscd(t, "query", "--table", filepath.Join(g.dir, name), "--order-by", "id", "--format", "csv"))), "\n")
		return lines
	}
	if got, want := print("copy"), print("users"); !slices.Equal(got, want) || len(want) < 100 {
		t.Errorf("%d lines come back, want %d", len(got), len(want))
	}
}

// grown waits until a process has written to the topic.
func (g *feedRig) grown(p *process) {
	g.t.Helper()
	size := func() (n int64) {
		ends, err := g.b.admin(g.t).ListEndOffsets(ctx, g.topic)
		if err != nil {
			return -1
		}
		for _, e := range ends[g.topic] {
			n += e.Offset
		}
		return n
	}
	before := size()
	for end := time.Now().Add(time.Minute); size() <= before; time.Sleep(2 * time.Millisecond) {
		select {
		case <-p.ended:
			g.t.Fatalf("it ended by itself:\n%s", p.errors)
		default:
		}
		if time.Now().After(end) {
			g.t.Fatalf("nothing is written:\n%s", p.errors)
		}
	}
}
