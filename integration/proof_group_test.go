//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The group: three processes and six tables.
const (
	groupProcesses = 3
	groupTables    = 6
)

// pods are the processes of a group, and the traffic of its tables.
type pods struct {
	t      *testing.T
	file   string
	fleets []*fleet
	ports  []string
	list   []*process
}

// places is who has which table, as the process at an address tells: only of tables
// that run.
func (p *pods) places(at int) map[string]string {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + p.ports[at] + "/status")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var status struct {
		Group struct {
			Members []struct {
				Member string
				Tables []struct {
					Table string
					State *string
				}
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		p.t.Errorf("/status: %v", err)
		return nil
	}
	out := map[string]string{}
	for _, m := range status.Group.Members {
		for _, table := range m.Tables {
			if table.State != nil && *table.State == "running" {
				out[table.Table] = m.Member
			}
		}
	}
	return out
}

func member(i int) string { return fmt.Sprint("gscd-", i) }

func (p *pods) start(i int) {
	p.t.Helper()
	p.list[i] = startProcess(p.t, binary(p.t), "ingest", "-c", p.file, "--scale-out-member", member(i), "--http", p.ports[i], "--log-level", "warn")
	go io.Copy(io.Discard, p.list[i].stdout)
}

func (p *pods) until(what string, reached func() bool) {
	p.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !reached(); time.Sleep(100 * time.Millisecond) {
		for i, one := range p.list {
			if one == nil {
				continue
			}
			select {
			case <-one.ended:
				p.t.Fatalf("process %d ended: %v\n%s", i, one.cmd.ProcessState, one.errors)
			default:
			}
		}
		if time.Now().After(end) {
			p.t.Fatalf("not within two minutes: %s; the first process tells of %v", what, p.places(0))
		}
	}
}

// even tells that all tables run, as many on each process that is there.
func (p *pods) even(at, processes int) bool {
	counts := map[string]int{}
	places := p.places(at)
	for _, member := range places {
		counts[member]++
	}
	for _, n := range counts {
		if n != groupTables/processes {
			return false
		}
	}
	return len(places) == groupTables && len(counts) == processes
}

// Three processes share six tables of a shop at work. One is killed and comes
// back, each is restarted; at the end every day of every table is the model's, and
// no table was ever written by two.
func testGroup(t *testing.T, b *broker) {
	dir := t.TempDir()
	p := &pods{t: t, file: filepath.Join(dir, "gscd.yaml"), ports: freePorts(t, groupProcesses), list: make([]*process, groupProcesses)}
	var tables strings.Builder
	for i := range groupTables {
		f := newLocalFleet(t, b, filepath.Join(dir, fmt.Sprint("orders", i)))
		fmt.Fprintf(&tables, "  - {name: orders%d, location: %q, topics: [%s]}\n", i, f.location, f.topic)
		p.fleets = append(p.fleets, f)
	}
	settings := func(group, idle string) string {
		return fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: Asia/Shanghai}\n%sdefaults: {batch: {interval: 300ms, max_interval: 300ms}, drift: {wait: 10m, idle: %s}}\ntables:\n%s",
			b.address, group, idle, &tables)
	}
	// Days are over by what their records say alone.
	name := fmt.Sprint("lake-", time.Now().UnixNano())
	writeFile(t, p.file, settings(fmt.Sprintf("scale_out: {group: %s, session_timeout: 3s}\n", name), "100000h"))
	for i := range groupProcesses {
		p.start(i)
	}
	for _, f := range p.fleets {
		f.load(300 * time.Millisecond)
	}
	began := time.Now()
	p.until("two tables each", func() bool { return p.even(0, 3) })
	fmt.Printf("group: %d tables run on %d processes %s after their start\n", groupTables, groupProcesses, time.Since(began).Round(100*time.Millisecond))

	// One dies. The others take what it had when its session is over.
	before := p.places(0)
	victim := p.list[2]
	var moved []*fleet
	for i, f := range p.fleets {
		if before[fmt.Sprint("orders", i)] == member(2) {
			moved = append(moved, f)
			p.until("its tables are written by their process", func() bool { return owns(f.owner(), victim) })
		}
	}
	p.list[2] = nil
	killed := time.Now()
	victim.end(t, syscall.SIGKILL)
	for _, f := range moved {
		p.until("the dead one's tables have other owners", func() bool { return !owns(f.owner(), victim) })
	}
	fmt.Printf("group: %d tables were handed over within %s of kill -9, with a session of 3s\n", len(moved), time.Since(killed).Round(100*time.Millisecond))
	p.until("three tables each", func() bool { return p.even(1, 2) })
	for table, at := range p.places(0) {
		if was := before[table]; was != member(2) && was != at {
			t.Errorf("%s has moved from %s to %s", table, was, at)
		}
	}
	// The status of the dead one is not asked for any more; the command tells the same.
	var rows []struct{ Member, Table string }
	for line := range strings.Lines(string(gscdIn(t, nil, "status", "--group", "-c", p.file, "--format", "json"))) {
		var g struct {
			Members []struct {
				Member string
				Tables []struct{ Table string }
			}
		}
		if err := json.Unmarshal([]byte(line), &g); err != nil {
			t.Fatal(err)
		}
		for _, m := range g.Members {
			for _, one := range m.Tables {
				rows = append(rows, struct{ Member, Table string }{m.Member, one.Table})
			}
		}
	}
	equal(t, "tables that gscd status --group tells of", len(rows), groupTables)

	// It comes back, and then each is restarted: nothing moves, for each is back in time.
	p.start(2)
	p.until("two tables each again", func() bool { return p.even(0, 3) })
	before = p.places(0)
	rolling := time.Now()
	for i := range groupProcesses {
		p.list[i].end(t, syscall.SIGTERM)
		equal(t, "exit code", p.list[i].cmd.ProcessState.ExitCode(), 0)
		p.start(i)
		p.until("all tables run", func() bool { return p.even(i, 3) })
	}
	if after := p.places(0); !reflect.DeepEqual(after, before) {
		t.Errorf("a rolling restart has moved tables: %v, before %v", after, before)
	}
	fmt.Printf("group: a rolling restart of %d processes took %s\n", groupProcesses, time.Since(rolling).Round(100*time.Millisecond))

	for _, f := range p.fleets {
		close(f.unload)
		<-f.loaded
		f.pass(24*time.Hour, 40) // a midnight at least
		b.untilSettled(t, f.topic)
	}
	for i := range groupProcesses {
		p.list[i].end(t, syscall.SIGTERM)
		equal(t, "exit code", p.list[i].cmd.ProcessState.ExitCode(), 0)
	}
	alone := filepath.Join(dir, "alone.yaml")
	writeFile(t, alone, settings("", "5m"))
	var work sync.WaitGroup
	for i, f := range p.fleets {
		work.Go(func() {
			gscdIn(t, nil, "ingest", "-c", alone, "--table", fmt.Sprint("orders", i), "--until-end", "--now", f.end().Format(time.RFC3339), "--log-level", "warn")
		})
	}
	work.Wait()
	fmt.Printf("group: all was done %s after the start\n", time.Since(began).Round(100*time.Millisecond))
	days, compared, owners := 0, 0, 0
	for _, f := range p.fleets {
		f.checkAll(f.rig)
		compared += f.checkRows(f.rig)
		days += len(f.days())
		owners += oneOwnerAtATime(t, f.rig)
	}
	fmt.Printf("group: %d days of %d tables equal the model, %d rows compared, %d owners one after the other\n", days, groupTables, compared, owners)
}

// oneOwnerAtATime holds a table's history against having two owners: epochs rise,
// each is one process's, and none comes back. It gives the number of owners.
func oneOwnerAtATime(t *testing.T, r *rig) int {
	t.Helper()
	epoch, owner := int64(0), ""
	seen := map[string]bool{}
	for _, c := range r.log() {
		switch p := c.progress; {
		case p.OwnerEpoch < epoch:
			t.Errorf("version %d has the owner epoch %d, behind %d", c.version, p.OwnerEpoch, epoch)
		case p.OwnerEpoch == epoch && p.Owner != owner:
			t.Errorf("version %d is by %s, epoch %d is of %s", c.version, p.Owner, epoch, owner)
		case p.OwnerEpoch > epoch && seen[p.Owner]:
			t.Errorf("version %d is by %s again, which had lost the table", c.version, p.Owner)
		default:
			epoch, owner = p.OwnerEpoch, p.Owner
			seen[owner] = true
		}
	}
	return len(seen)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
