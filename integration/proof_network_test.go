//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// standing is what /status says of a table.
type standing struct {
	State    string
	Error    string
	WaitsFor string `json:"waits_for"`
}

// standingAt asks a running process, "" before it answers.
func standingAt(t testing.TB, address string) (s standing, raw string) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get("http://" + address + "/status")
	if err != nil {
		return s, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return s, ""
	}
	var page struct{ Tables []standing }
	if err := json.Unmarshal(text, &page); err != nil || len(page.Tables) != 1 {
		t.Fatalf("/status: %v: %s", err, text)
	}
	return page.Tables[0], string(text)
}

// The network goes away without a word, and comes back: the connections of before
// hear nothing for ever. The process finds that out by itself, says meanwhile what
// it waits for, and goes on. So it does when it was itself stopped in that time,
// and when every connection is broken off again and again.
func testNetwork(t *testing.T, b *broker) {
	f := newFleet(t, b, "network")
	toKafka := startCable(t, b.front, b.behind)
	toStore := startCable(t, "", strings.TrimPrefix(f.gateway.url, "http://"))
	address := freePorts(t, 1)[0]
	f.brokers, f.settings = toKafka.address, []string{"GSCD_HTTP_ADDRESS=" + address}
	f.load(200 * time.Millisecond)
	p := f.start("http://" + toStore.address)
	f.untilOwner(p)
	alive := func() {
		t.Helper()
		select {
		case <-p.ended:
			t.Fatalf("the process ended: %v\n%s", p.cmd.ProcessState, p.errors)
		default:
		}
	}
	goesOn := func() time.Duration {
		t.Helper()
		version, sealed, began := f.version(), len(f.rig.sealed()), time.Now()
		f.until("the table is written and a day sealed", 2*time.Minute, func() bool {
			alive()
			return f.version() > version+2 && len(f.rig.sealed()) > sealed
		})
		return time.Since(began)
	}
	goesOn()
	for _, c := range []struct {
		name   string
		cables []*cable
		// stopped is for how long the process is stopped meanwhile.
		stopped time.Duration
		says    []string
	}{
		{"Kafka", []*cable{toKafka}, 0, []string{"the source, since ", b.front}},
		// It wakes up with connections that are dead, and gets no new ones either.
		{"both, while it is stopped", []*cable{toKafka, toStore}, soak(t, 3*time.Second), []string{"the storage, since ", "s3://" + gatewayBucket + "/network"}},
	} {
		for _, w := range c.cables {
			w.cut()
		}
		began := time.Now()
		if c.stopped > 0 {
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.stopped)
			if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second) // what was on its way arrives
		before := f.version()
		said := standing{}
		f.until("/status says that "+c.name+" is cut off", 90*time.Second, func() bool {
			alive()
			said, _ = standingAt(t, address)
			for _, word := range c.says {
				if !strings.Contains(said.WaitsFor, word) {
					return false
				}
			}
			return true
		})
		told := time.Since(began)
		// What is written meanwhile is what was read before.
		if n := f.version() - before; n > 1 || n > 0 && len(c.cables) > 1 {
			t.Errorf("%s cut: %d versions were committed", c.name, n)
		}
		for _, w := range c.cables {
			w.heal()
		}
		fmt.Printf("%s cut: /status says so after %s (%s); a day is sealed %s after the end of it\n",
			c.name, told.Round(time.Second), said.WaitsFor, goesOn().Round(100*time.Millisecond))
	}
	if said, raw := standingAt(t, address); said.WaitsFor != "" {
		t.Errorf("all answer again, and /status says %s", raw)
	}
	broken := 0
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(70 * time.Millisecond) {
		broken += toKafka.reset() + toStore.reset()
	}
	alive()
	fmt.Printf("%d ends of connections broken off: a day is sealed %s after that\n", broken, goesOn().Round(100*time.Millisecond))
	p.end(t, syscall.SIGTERM)
	equal(t, "exit code", p.cmd.ProcessState.ExitCode(), 0)
	f.brokers = b.address
	rows := f.finish()
	owners := f.owners()
	equal(t, "changes of the owner", changes(owners), 1) // the last run of all
	fmt.Printf("network: %d commits, %d days, %d records, %d rows compared\n", len(owners), len(f.days()), f.sent, rows)
}
