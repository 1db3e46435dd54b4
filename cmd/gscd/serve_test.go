package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is gscd as a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  lockedBuffer
	http string
}

// spawn starts this test binary as gscd; see TestMain.
func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "gscd")
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(name, args...)}
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.await(`"msg":"answering HTTP"`)
	p.http = "http://" + regexp.MustCompile(`"msg":"answering HTTP","address":"([^"]*)"`).FindStringSubmatch(p.log.String())[1]
	return p
}

// await waits until the log says something.
func (p *process) await(what string) {
	p.t.Helper()
	p.until(what+" in the log", func() bool { return strings.Contains(p.log.String(), what) })
}

func (p *process) until(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("still not: %s\n%s", what, p.log.String())
		}
	}
}

// get asks for a page.
func (p *process) get(page string) (code int, body string) {
	p.t.Helper()
	resp, err := http.Get(p.http + page)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// metric is the value of a line of /metrics, "" for none.
func (p *process) metric(name string) string {
	p.t.Helper()
	_, body := p.get("/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (p *process) hangUp(file, text string) {
	p.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
}

// A server is asked how it stands, takes new configurations, and stops cleanly.
func TestServe(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "users", "shops")
	c.produce(
		c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"),
		c.upsert("users", 1, 2, "bob", "2022-07-16T11:00:00Z"),
		c.upsert("users", 0, 1, "anna", "2022-07-16T12:00:00Z"),
	)
	table := func(name string, more string) string {
		return fmt.Sprintf("  - {location: %q, topics: [%s]%s}\n", filepath.Join(c.dir, name), name, more)
	}
	head := fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\nhttp: {address: \"127.0.0.1:0\"}\ndefaults: {batch: {interval: 500ms, max_interval: 1s}}\ntables:\n", c.brokers())
	file := c.write("gscd.yaml", head+table("users", "")+table("shops", ", event_time: kafka"))
	p := spawn(t, "ingest", "-c", file, "--now", "2022-07-16T13:00:00Z")

	// Nobody has sent a shop yet: its table does not exist, and that is no fault.
	p.until("ready", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
	p.until("three records in the table", func() bool { return p.metric(`gscd_records_total{fate="applied",table="users"}`) == "3" })
	if code, body := p.get("/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	for name, want := range map[string]string{
		`gscd_tables{state="running"}`:                                          "2",
		`gscd_rows{table="users"}`:                                              "2",
		`gscd_records_taken_total{table="users"}`:                               "3",
		`gscd_table_running{table="shops"}`:                                     "1",
		`gscd_table_failed{table="users"}`:                                      "0",
		`gscd_partition_next_offset{partition="0",table="users",topic="users"}`: "2",
		`gscd_partition_lag{partition="1",table="users",topic="users"}`:         "0",
		`gscd_open_label_start_timestamp_seconds{table="users"}`:                "1.6579296e+09",
		`gscd_owner_epoch{table="users"}`:                                       "1",
		`gscd_seals_total{rule="clock",table="users"}`:                          "0",
		`gscd_batch_memory_bytes`:                                               "0",
	} {
		if got := p.metric(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	var status struct {
		Tables []struct {
			Table, State, Open string
			Rows               int64
			Error              *string
			Owner              struct{ Epoch int64 }
			HeldBackBy         string `json:"held_back_by"`
			Partitions         []struct{ Next, End, Lag int64 }
		}
	}
	_, body := p.get("/status")
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	users := status.Tables[0]
	if users.Table != "users" || users.State != "running" || users.Open != "2022-07-16" || users.Rows != 2 || users.Error != nil || users.Owner.Epoch != 1 ||
		users.HeldBackBy != "the clock: the label ends at 2022-07-17T00:00:00Z" || len(users.Partitions) != 2 || users.Partitions[0].End != 2 {
		t.Errorf("status: %s", body)
	}
	if shops := status.Tables[1]; shops.Table != "shops" || shops.State != "running" || shops.Partitions != nil {
		t.Errorf("status: %s", body)
	}

	// The process is asked why, with a configuration and without one.
	code, why, _ := c.gscd("status", "--why", "-c", file, "--table", "users", "--from", p.http, "--format", "jsonl")
	if code != 0 || !strings.Contains(why, `"causes":[{"rule":"label_not_over"`) || !strings.Contains(why, `"unknown":[],"process":"`+p.http+`"`) || !strings.Contains(why, `"lag":0`) {
		t.Errorf("why: %d %s", code, why)
	}
	none := c.write("none.yaml", "calendar: {timezone: UTC}\n")
	code, why, _ = c.gscd("status", "--why", "-c", none, "--from", p.http, "--format", "csv", "--sealed")
	if code != 3 || !strings.Contains(why, "\nusers,2022-07-16,open,label_not_over,") || !strings.Contains(why, "\nshops,,no-table,,") {
		t.Errorf("why, of the process alone: %d %s", code, why)
	}

	// Faults, and keys that need a restart, change nothing.
	p.hangUp(file, head+table("users", ", late: maybe")+table("shops", ", nothing: 1"))
	p.await(`"line":6,"key":"tables[0].late","fault":"\"maybe\" is unknown: write fold, dead_letter, fail"`)
	p.await(`"line":7,"key":"tables[1].nothing","fault":"unknown key`)
	p.hangUp(file, strings.Replace(head, "UTC", "Asia/Shanghai", 1)+table("users", ""))
	p.await(`"fault":"the calendar differs from the running one`)
	p.hangUp(file, strings.Replace(head, "brokers:", "client_id: other, brokers:", 1)+table("users", "")+table("shops", ", event_time: kafka"))
	p.await(`"msg":"these keys have changed, and stay as they were until the program is started again","keys":["kafka.client_id"]`)
	p.await(`"msg":"took the new configuration","started":[],"restarted":[],"tried_again":[],"stopped":[]`)

	// One is added, one changes, and users goes on undisturbed.
	more := c.upsert("orders", 0, 7, "first", "2022-07-16T12:30:00Z")
	if _, err := c.admin().CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	c.produce(more)
	p.hangUp(file, head+table("users", "")+table("shops", "")+table("orders", ""))
	p.await(`"started":["orders"],"restarted":["shops"],"tried_again":[],"stopped":[]`)
	p.until("the order in its table", func() bool { return p.metric(`gscd_rows{table="orders"}`) == "1" })
	c.produce(c.upsert("users", 0, 3, "cy", "2022-07-16T12:40:00Z"))
	p.until("a fourth user", func() bool { return p.metric(`gscd_records_total{fate="applied",table="users"}`) == "4" })
	if got := p.metric(`gscd_owner_epoch{table="users"}`); got != "1" {
		t.Errorf("users has been started anew: its epoch is %s", got)
	}
	if got := p.metric(`gscd_config_reloads_total{result="refused"}`) + "," + p.metric(`gscd_config_reloads_total{result="taken"}`); got != "2,2" {
		t.Errorf("configurations refused, taken: %s", got)
	}

	// One leaves.
	p.hangUp(file, head+table("users", "")+table("shops", ""))
	p.await(`"msg":"the table has left the configuration and is stopped","table":"orders"`)
	if got := p.metric(`gscd_rows{table="orders"}`); got != "" {
		t.Errorf("orders has left, and has %s rows", got)
	}

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.log.String())
	}
	if got := c.ok("query", "-c", file, "--table", "users", "--columns", "id", "--order-by", "id", "--format", "csv"); got != "id\n1\n2\n3\n" {
		t.Errorf("users: %q", got)
	}
}

// A table that has failed is told of, and a hangup tries it again.
func TestServeFailed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users", "shops")
	c.produce(c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"))
	noKey := c.upsert("shops", 0, 1, "x", "2022-07-16T10:00:00Z")
	noKey.Key = nil
	c.produce(noKey)
	head := fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\ntables:\n", c.brokers())
	users := fmt.Sprintf("  - {location: %q, topics: [users]}\n", c.dir+"/users")
	shops := fmt.Sprintf("  - {location: %q, topics: [shops]}\n", c.dir+"/shops")
	file := c.write("gscd.yaml", head+users+shops)
	p := spawn(t, "ingest", "-c", file, "--now", "2022-07-16T13:00:00Z", "--http", "127.0.0.1:0")
	p.await(`"msg":"the table has stopped; the others go on","table":"shops"`)
	if got := p.metric(`gscd_table_failed{table="shops"}`) + p.metric(`gscd_table_error{table="shops"}`) + p.metric(`gscd_table_failed{table="users"}`); got != "110" {
		t.Errorf("flags %s", got)
	}
	code, body := p.get("/readyz")
	if code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "table shops: failed: table shops: topic shops partition 0 offset 0: the table has no key") {
		t.Errorf("readyz: %d %s", code, body)
	}
	if _, why, _ := c.gscd("status", "--why", "-c", file, "--table", "shops", "--from", p.http, "--format", "table"); !strings.Contains(why, "[error] The table has stopped with an error at 20") ||
		!strings.Contains(why, "the table has no key") || !strings.Contains(why, "What to do: A policy of the configuration says fail: do what the error says, and send SIGHUP.") {
		t.Errorf("why: %s", why)
	}
	if code, _ := p.get("/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d: a failed table is no reason to start the program again", code)
	}
	// A person has mended it.
	p.hangUp(file, head+users+strings.Replace(shops, "]}", "], key: [id]}", 1))
	p.until("ready", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("interrupt: %v\n%s", err, p.log.String())
	}
	// An address that is taken is said at once.
	busy := spawn(t, "ingest", "-c", file, "--http", "127.0.0.1:0")
	if code, _, stderr := c.gscd("ingest", "-c", file, "--http", strings.TrimPrefix(busy.http, "http://")); code != 1 || !strings.Contains(stderr, "address already in use") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
