//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// phase is a time in which the storage has one fault.
type phase struct {
	name string
	part float64 // of the whole test
	// shut tells that nothing can be committed.
	shut  bool
	fault storeFault

	began    time.Time
	took     time.Duration
	requests []storeRequest
	memory   int64 // most bytes resident
	commits  int64
	// recovered is how long the table took to be well before.
	recovered time.Duration
}

// rate is the number of requests a second in a part of the phase, from 0 to 1.
func (p *phase) rate(from, to float64) float64 {
	n := 0
	for _, r := range p.requests {
		if at := float64(r.at.Sub(p.began)) / float64(p.took); at >= from && at < to {
			n++
		}
	}
	return float64(n) / (p.took.Seconds() * (to - from))
}

// A storage that is slow, throttles, fails and hangs costs time and nothing
// else: one process lives through it, with bounded memory and fewer requests,
// and seals the days that it would have sealed.
func testStoreFaults(t *testing.T, b *broker) {
	f := newFleet(t, b, "faults")
	proxy := startStoreProxy(t, f.gateway)
	total := soak(t, 50*time.Second)
	phases := []*phase{
		{name: "healthy", part: 0.15},
		{name: "slow", part: 0.15, fault: func(storeRequest) int {
			time.Sleep(rand.N(300 * time.Millisecond))
			return 0
		}},
		{name: "commits throttled", part: 0.15, shut: true, fault: func(r storeRequest) int {
			if r.kind() == "put commit" {
				return http.StatusServiceUnavailable
			}
			return 0
		}},
		{name: "some throttled", part: 0.1, fault: func(storeRequest) int {
			return []int{0, http.StatusServiceUnavailable}[rand.IntN(2)]
		}},
		{name: "all throttled", part: 0.25, shut: true, fault: func(storeRequest) int { return http.StatusServiceUnavailable }},
		{name: "failing", part: 0.1, fault: func(storeRequest) int {
			return []int{0, http.StatusInternalServerError, breakOff, loseIt}[rand.IntN(4)]
		}},
		{name: "hanging", part: 0.1, shut: true, fault: func(storeRequest) int { return hangUp }},
	}
	// What comes in the meantime is far more than the process may keep.
	const backlog = 320 << 20
	// The garbage between two collections follows from the memory of batches.
	f.settings = []string{"GSCD_KAFKA_FETCH_BYTES=8MiB", "GSCD_DEFAULTS_BATCH_BYTES=8MiB", "GSCD_PROCESS_BATCH_MEMORY=64MiB"}
	f.pad = make([]byte, int(backlog/(total.Seconds()*150)))
	for i := range f.pad {
		f.pad[i] = byte(rand.Uint32())
	}
	p := f.start(proxy.URL)
	f.untilOwner(p)
	f.load(150 * time.Millisecond)
	alive := func() {
		t.Helper()
		select {
		case <-p.ended:
			t.Fatalf("the process ended: %v\n%s", p.cmd.ProcessState, p.errors)
		default:
		}
	}
	// Each fault meets a table that is well.
	recover := func() (took time.Duration) {
		proxy.set(nil)
		version, healed := f.version(), time.Now()
		f.until("the table is written again", 5*time.Minute, func() bool { alive(); return f.version() > version+2 })
		return time.Since(healed)
	}
	for _, ph := range phases {
		ph.recovered = recover()
		proxy.set(ph.fault)
		proxy.settle()
		before := f.version()
		ph.began = time.Now()
		for time.Since(ph.began) < time.Duration(float64(total)*ph.part) || ph.fault == nil && f.version() < before+5 {
			alive()
			ph.memory = max(ph.memory, resident(t, p))
			time.Sleep(100 * time.Millisecond)
		}
		ph.took, ph.requests = time.Since(ph.began), proxy.requests(ph.began)
		ph.commits = f.version() - before
		if ph.shut && ph.commits != 0 {
			t.Errorf("%s: %d versions were committed", ph.name, ph.commits)
		}
	}
	back := recover()
	p.end(t, syscall.SIGTERM)
	equal(t, "exit code", p.cmd.ProcessState.ExitCode(), 0)
	rows := f.finish()

	healthy, throttled := phases[0], phases[4]
	for _, ph := range phases {
		fmt.Printf("store %s, %s (well after %s): %d commits, %.1f requests a second (%.1f, %.1f, %.1f by thirds), %d MiB resident\n",
			ph.name, ph.took.Round(time.Second), ph.recovered.Round(100*time.Millisecond), ph.commits, ph.rate(0, 1), ph.rate(0, 1./3), ph.rate(1./3, 2./3), ph.rate(2./3, 1), ph.memory>>20)
		if most := healthy.memory + backlog/2; ph.memory > most {
			t.Errorf("%s: %d MiB resident, healthy it had %d", ph.name, ph.memory>>20, healthy.memory>>20)
		}
	}
	fmt.Printf("store faults: well %s after the last fault; %d commits, %d days, %d records, %d rows compared\n",
		back.Round(time.Second), f.version(), len(f.days()), f.sent, rows)
	if n := throttled.rate(0, 1); n > healthy.rate(0, 1)/2 {
		t.Errorf("%.1f requests a second while all are answered with 503, %.1f before", n, healthy.rate(0, 1))
	}
	// A third of a short phase has room for one try of the table, or for none.
	if first, last := throttled.rate(0, 1./3), throttled.rate(2./3, 1); throttled.took > time.Minute && last > first+0.5 {
		t.Errorf("%.1f requests a second while 503 goes on, %.1f where it began", last, first)
	}
	equal(t, "changes of the owner", changes(f.owners()), 1) // the last run of all
}

// resident gives the bytes of memory that a process has.
func resident(t testing.TB, p *process) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0 // it has ended, which others look after
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(raw)
	if m == nil {
		return 0
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
