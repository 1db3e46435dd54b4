package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/notify"
)

// told is an event as a receiver reads it.
type toldEvent struct {
	SpecVersion, ID, Source, Type, Subject, Time string
	Data                                         struct {
		Table, Label, Digest, To string
		Version, Rows            int64
		SealedAt                 string `json:"sealed_at"`
		TableID                  string `json:"table_id"`
		LateChanges              int64  `json:"late_changes"`
		Attributes, Labels       []string
		Counts                   struct{ Updates int64 }
		Error                    string
	}
}

// receiver is whom webhooks are told.
type receiver struct {
	t      *testing.T
	secret []byte

	mu     sync.Mutex
	down   bool
	events []toldEvent
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := notify.Verify(req.Header.Get(notify.SignatureHeader), body, func(id string) []byte {
		if id == "k1" {
			return r.secret
		}
		return nil
	}, time.Now(), time.Minute); err != nil || req.Header.Get("Content-Type") != notify.ContentType {
		r.t.Errorf("a request: %v, %s", err, req.Header)
	}
	if r.down {
		http.Error(w, "out for lunch", http.StatusServiceUnavailable)
		return
	}
	var e toldEvent
	if err := json.Unmarshal(body, &e); err != nil {
		r.t.Errorf("%v: %s", err, body)
	}
	r.events = append(r.events, e)
}

// take gives what came since the last call, as type and subject.
func (r *receiver) take() (events []toldEvent, short []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, r.events = r.events, nil
	for _, e := range events {
		short = append(short, e.Type+" "+e.Subject)
	}
	return events, short
}

func (r *receiver) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// Whatever was sealed, rolled back or late is told each sink, in order, also where it did
// not answer or the program ended before; what was told is not told again.
func TestNotify(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users", "events")
	const secret, path = "hush-hush-hush", "/in/token-in-path"
	r := &receiver{t: t, secret: []byte(secret)}
	web := httptest.NewTLSServer(r)
	defer web.Close()
	ca := c.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	heard := filepath.Join(c.dir, "heard")
	hook := c.write("hook.sh", "#!/bin/sh\necho \"$GSCD_EVENT $GSCD_TABLE $GSCD_LABEL $GSCD_VERSION $GSCD_S3_SECRET_ACCESS_KEY $(cat | wc -c)\" >> \"$1\"\n")
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(c.dir, "users")
	file := c.write("gscd.yaml", fmt.Sprintf(`
kafka: {brokers: [%q]}
calendar: {timezone: UTC}
tables: [{location: %q, topics: [users]}]
notify:
  - webhook: {url_file: %q, secret_file: %q, key_id: k1, ca_file: %q}
  - name: events
    on: [seal]
    topic: {name: events}
  - on: [seal, rolled_back]
    exec: {command: [%q, %q]}
`, c.brokers(), table, c.write("url", web.URL+path), c.write("secret", secret+"\n"), ca, hook, heard))
	ingest := func(now string) string {
		t.Helper()
		code, _, stderr := c.gscd("ingest", "-c", file, "--until-end", "--now", now)
		if code != 0 {
			t.Fatalf("ingest: exit %d: %s", code, stderr)
		}
		return stderr
	}
	for day := 16; day <= 18; day++ {
		c.produce(c.upsert("users", 0, day, "n", fmt.Sprintf("2022-07-%dT10:00:00Z", day)))
	}
	r.set(true)
	said := ingest("2022-07-18T12:00:00Z")
	if _, short := r.take(); short != nil || !strings.Contains(said, "503 Service Unavailable") || !strings.Contains(said, "out for lunch") {
		t.Errorf("a receiver that is down was told %q: %s", short, said)
	}
	if strings.Contains(said, secret) || strings.Contains(said, "token-in-path") {
		t.Errorf("a secret was logged: %s", said)
	}
	r.set(false)
	ingest("2022-07-18T12:00:00Z")
	events, short := r.take()
	if !slices.Equal(short, []string{"io.gscd.seal users/2022-07-16", "io.gscd.seal users/2022-07-17"}) {
		t.Fatalf("the webhook was told %q", short)
	}
	e := events[1]
	var entry struct {
		Version, Rows int64
		Digest        string
		SealedAt      string `json:"sealed_at"`
	}
	if err := json.Unmarshal([]byte(c.ok("snapshots", "2022-07-17", "--table", table, "--format", "json")), &entry); err != nil {
		t.Fatal(err)
	}
	if e.SpecVersion != "1.0" || e.Data.Version != entry.Version || e.Data.Rows != 2 || e.Data.Digest != entry.Digest || e.Data.Counts.Updates != 1 ||
		!strings.HasPrefix(entry.SealedAt, e.Time[:19]) || e.Source != table || e.ID != fmt.Sprintf("%s/seal/2022-07-17/%d", e.Data.TableID, entry.Version) || len(e.Data.TableID) != 36 {
		t.Errorf("a seal: %+v, the map has %+v", e, entry)
	}
	ingest("2022-07-18T12:00:00Z")
	if _, short := r.take(); short != nil {
		t.Errorf("told again: %q", short)
	}

	// A rollback, the labels that come again, and a late change.
	c.ok("rollback", "-c", file, "--to", "2022-07-16", "--yes")
	c.produce(c.upsert("users", 0, 30, "late", "2022-07-16T11:00:00Z"))
	ingest("2022-07-18T12:00:00Z")
	events, short = r.take()
	if !slices.Equal(short, []string{"io.gscd.rolled_back users", "io.gscd.seal users/2022-07-17", "io.gscd.late users/2022-07-18"}) {
		t.Fatalf("behind the rollback: %q", short)
	}
	if events[0].Data.To != "2022-07-16" && len(events[0].Data.Labels) > 0 || events[1].Data.Version <= entry.Version || events[2].Data.LateChanges != 1 {
		t.Errorf("behind the rollback: %+v", events)
	}

	// A table that fails, and what another command has sealed.
	c.ok("seal", "2022-07-18", "--force", "-c", file)
	if out := c.ok("notify", "send", "-c", file, "--format", "csv"); out != "sink,delivered,failed,undelivered\nwebhook,1,0,0\nevents,1,0,0\nexec,1,0,0\n" {
		t.Errorf("notify send: %s", out)
	}
	if _, short = r.take(); !slices.Equal(short, []string{"io.gscd.seal users/2022-07-18"}) {
		t.Errorf("notify send: %q", short)
	}
	code, _, stderr := c.gscd("ingest", "-c", c.write("fails.yaml", strings.ReplaceAll(read(t, file), "topics: [users]", "topics: [users], key: [nothing]")), "--until-end")
	if events, short = r.take(); code == 0 || !slices.Equal(short, []string{"io.gscd.failed users"}) || events[0].Data.Error == "" {
		t.Errorf("a table that fails: exit %d, %q: %s", code, short, stderr)
	}
	if out := c.ok("notify", "test", "-c", file, "--format", "jsonl"); strings.Count(out, `"result":"delivered"`) != 3 {
		t.Errorf("notify test: %s", out)
	}
	if _, short = r.take(); !slices.Equal(short, []string{"io.gscd.test test"}) {
		t.Errorf("notify test: %q", short)
	}
	r.set(true)
	if code, out, stderr := c.gscd("notify", "test", "-c", file, "--sink", "webhook"); code != 1 || !strings.Contains(out, "503") || !strings.Contains(stderr, "1 of 1 sinks did not take") {
		t.Errorf("notify test: exit %d: %s%s", code, out, stderr)
	}

	lines := strings.Split(strings.TrimSpace(read(t, heard)), "\n")
	var seen []string
	for _, l := range lines {
		f := strings.Fields(l)
		seen = append(seen, strings.Join(f[:len(f)-2], " "))
	}
	if want := []string{"seal users 2022-07-16", "seal users 2022-07-17", "rolled_back users", "seal users 2022-07-17", "seal users 2022-07-18", "test"}; !slices.Equal(seen, want) {
		t.Errorf("the hook heard %q", lines)
	}
	if values := c.values("events"); len(values) != 5 || values[0].ID == values[2].ID || values[1].Subject != "users/2022-07-17" {
		t.Errorf("the topic has %d events: %+v", len(values), values)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// values are the events of a topic.
func (c *cluster) values(topic string) (events []toldEvent) {
	c.t.Helper()
	k, err := kafka.New(kafka.Options{Brokers: c.ListenAddrs(), Topics: []string{topic}})
	if err != nil {
		c.t.Fatal(err)
	}
	defer k.Close()
	if err := k.Assign(c.t.Context(), map[change.PartitionID]int64{{Topic: topic}: 0}); err != nil {
		c.t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); len(events) < 5 && time.Now().Before(end); {
		blocks, err := k.Poll(c.t.Context(), 100)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, b := range blocks {
			for _, r := range b.Records {
				var e toldEvent
				if err := json.Unmarshal(r.Value, &e); err != nil {
					c.t.Fatal(err)
				}
				if string(r.Key) != e.Data.Table {
					c.t.Errorf("a key: %s of %+v", r.Key, e)
				}
				events = append(events, e)
			}
		}
	}
	return events
}
