//go:build integration

package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/savepoint"
)

// fleet is one table in a bucket, or in a folder, that several processes take the
// same traffic into.
type fleet struct {
	*traffic
	t        *testing.T
	gateway  *gateway // nil where it is in a folder
	location string
	rig      *rig
	// brokers is where the processes ask for Kafka, settings are more variables of
	// their environment.
	brokers  string
	settings []string
	loaded   chan struct{} // closed where load has ended
	unload   chan struct{}
}

func newFleet(t *testing.T, b *broker, table string) *fleet {
	t.Helper()
	g := startGateway(t, "--keep-alive")
	return &fleet{
		traffic: newTraffic(t, b, 3, randomSeed(t)), t: t, gateway: g, location: "s3://" + gatewayBucket + "/" + table, brokers: b.address,
		rig: rigOn(t, g.open(t, table), g.open(t, table+"__dead_letter"), nil),
	}
}

// newLocalFleet is a fleet whose table is in a folder.
func newLocalFleet(t *testing.T, b *broker, folder string) *fleet {
	t.Helper()
	return &fleet{
		traffic: newTraffic(t, b, 3, randomSeed(t)), t: t, location: folder, brokers: b.address,
		rig: rigOn(t, localStore(t, folder), localStore(t, folder+"__dead_letter"), nil),
	}
}

// environment is that of a process that reaches the table at an address, which
// counts for one in a bucket alone.
func (f *fleet) environment(url string) []string {
	f.t.Helper()
	if f.gateway == nil {
		return f.settings
	}
	return append(f.gateway.variables(f.t, url), f.settings...)
}

// arguments are those of a process that reads for ever. Days are over by what
// their records say alone: a clock would have to run as fast as the traffic.
func (f *fleet) arguments() []string {
	return []string{
		"ingest", "--name", "orders", "--location", f.location,
		"--brokers", f.brokers, "--topic", f.topic, "--timezone", "Asia/Shanghai", "--batch-interval", "300ms", "--log-level", "warn",
	}
}

func (f *fleet) start(url string) *process {
	f.t.Helper()
	return startProcessIn(f.t, f.environment(url), binary(f.t), append(f.arguments(), "--drift-idle", "100000h")...)
}

// load lets the source live on, two hours each time.
func (f *fleet) load(pause time.Duration) {
	f.loaded, f.unload = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(f.loaded)
		for {
			f.pass(2*time.Hour, 40)
			select {
			case <-f.unload:
				return
			case <-time.After(pause):
			}
		}
	}()
}

// finish ends the load, lets one more process do what is left, and checks the table.
func (f *fleet) finish() (rows int) {
	f.t.Helper()
	close(f.unload)
	<-f.loaded
	f.broker.untilSettled(f.t, f.topic)
	url := ""
	if f.gateway != nil {
		url = f.gateway.url
	}
	gscdIn(f.t, f.environment(url), append(f.arguments(), "--until-end", "--now", f.end().Format(time.RFC3339))...)
	f.checkAll(f.rig)
	return f.checkRows(f.rig)
}

// owner names the process of the last commit, "" before there is one.
func (f *fleet) owner() string {
	f.t.Helper()
	table, err := delta.Open(ctx, f.rig.store.Store)
	if errors.Is(err, delta.ErrNotATable) {
		return ""
	}
	if err != nil {
		f.t.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := savepoint.ProgressOf(ctx, table, s)
	if err != nil {
		f.t.Fatal(err)
	}
	return p.Owner
}

func owns(owner string, p *process) bool {
	return strings.Contains(owner, fmt.Sprintf(" process %d ", p.cmd.Process.Pid))
}

// until waits for something to become true, however slow the machine is.
func (f *fleet) until(what string, within time.Duration, reached func() bool) {
	f.t.Helper()
	for end := time.Now().Add(within); !reached(); time.Sleep(150 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func (f *fleet) untilOwner(p *process) {
	f.t.Helper()
	f.until("the new process has taken the table", 12*time.Minute, func() bool {
		select {
		case <-p.ended:
			f.t.Fatalf("a process ended: %v\n%s", p.cmd.ProcessState, p.errors)
		default:
		}
		return owns(f.owner(), p)
	})
}

// version gives the newest version.
func (f *fleet) version() int64 {
	f.t.Helper()
	s, err := f.rig.table().Snapshot(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	return s.Version()
}

// owners gives the owner of each version.
func (f *fleet) owners() (list []string) {
	f.t.Helper()
	for _, c := range f.rig.log() {
		list = append(list, c.progress.Owner)
	}
	return list
}

// changes counts how often the table has got another owner.
func changes(owners []string) int { return len(slices.Compact(slices.Clone(owners))) - 1 }

// lostOwnership checks how a process ends that another one has followed.
func (f *fleet) lostOwnership(p *process, within time.Duration) {
	f.t.Helper()
	if !p.wait(within) {
		f.t.Fatalf("a process that has lost its table goes on:\n%s", p.errors)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.errors.String(), "lost ownership to ") {
		f.t.Errorf("a process that has lost its table ends with %v:\n%s", p.cmd.ProcessState, p.errors)
	}
}

// The next process is started before the one at work is told to end, again and again.
func testRollingRestart(t *testing.T, b *broker) {
	f := newFleet(t, b, "rolling")
	f.load(150 * time.Millisecond)
	began, restarts, lost := time.Now(), 0, 0
	old := f.start(f.gateway.url)
	f.untilOwner(old)
	// The first ones are quick, the later ones wait for their turn.
	for restarts < 2 || time.Since(began) < soak(t, 0) {
		next := f.start(f.gateway.url)
		f.untilOwner(next)
		time.Sleep(rand.N(600 * time.Millisecond))
		old.end(t, syscall.SIGTERM)
		// It may have found out before it was told.
		if code := old.cmd.ProcessState.ExitCode(); code != 0 {
			f.lostOwnership(old, 0)
			lost++
		}
		old = next
		restarts++
	}
	old.end(t, syscall.SIGTERM)
	equal(t, "exit code", old.cmd.ProcessState.ExitCode(), 0)
	rows := f.finish()
	owners := f.owners()
	// Each has its turn once, and the last run of all has one too.
	equal(t, "changes of the owner", changes(owners), restarts+1)
	fmt.Printf("rolling restart, %s: %d restarts (%d had lost their table before they were told to end), %d commits, %d days, %d records, %d rows compared\n",
		time.Since(began).Round(time.Second), restarts, lost, len(owners), len(f.days()), f.sent, rows)
}

// Two processes, each started again at once when it ends, get into each other's
// way a few times, and then one of them waits.
func testTwoOwners(t *testing.T, b *broker) {
	f := newFleet(t, b, "two")
	f.load(150 * time.Millisecond)
	began := time.Now()
	stop := make(chan struct{})
	starts, faults := make([]int, 2), make([][]string, 2)
	var supervisors sync.WaitGroup
	for i := range 2 {
		supervisors.Go(func() {
			for {
				p := f.start(f.gateway.url)
				starts[i]++
				select {
				case <-stop:
					p.end(t, syscall.SIGTERM)
					return
				case <-p.ended:
					if !strings.Contains(p.errors.String(), "lost ownership to ") {
						faults[i] = append(faults[i], p.errors.String())
					}
				}
			}
		})
	}
	time.Sleep(soak(t, 75*time.Second))
	close(stop)
	supervisors.Wait()
	elapsed := time.Since(began)
	for _, list := range faults {
		for _, text := range list {
			t.Errorf("a process ended:\n%s", text)
		}
	}
	owners := f.owners()
	n, most := changes(owners)+1, turns(elapsed)
	rows := f.finish()
	fmt.Printf("two owners, %s: %d turns (at most %d), %d starts, %d commits, %d days, %d records, %d rows compared\n",
		elapsed.Round(time.Second), n, most, starts[0]+starts[1], len(owners), len(f.days()), f.sent, rows)
	if n < 2 || n > most {
		t.Errorf("the table had %d turns of its owners in %s, want 2 to %d", n, elapsed, most)
	}
	if s := starts[0] + starts[1]; s > n+2 {
		t.Errorf("%d starts for %d turns: a process that waits for its turn must not end", s, n)
	}
}

// turns is how many turns two processes may take in a time: three at once, then
// one after a minute, and after twice as long each time, up to ten minutes.
func turns(elapsed time.Duration) int {
	n := 3
	for wait := time.Minute; elapsed >= wait; n++ {
		elapsed -= wait
		wait = min(2*wait, 10*time.Minute)
	}
	return n
}

// A process that was stopped like a paused machine finds the table taken when it
// wakes up. It adds nothing, and ends.
func testPausedProcess(t *testing.T, b *broker) {
	f := newFleet(t, b, "paused")
	f.load(100 * time.Millisecond)
	old := f.start(f.gateway.url)
	f.untilOwner(old)
	for round := range 2 {
		time.Sleep(rand.N(1500 * time.Millisecond))
		if err := old.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(soak(t, 0))
		next := f.start(f.gateway.url)
		f.untilOwner(next)
		version := f.version()
		f.until("the new owner goes on", time.Minute, func() bool { return f.version() > version+2 })
		if err := old.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		f.lostOwnership(old, 2*time.Minute)
		owners := f.owners()
		equal(t, fmt.Sprintf("round %d: changes of the owner", round), changes(owners), round+1)
		old = next
	}
	old.end(t, syscall.SIGTERM)
	f.finish()
}
