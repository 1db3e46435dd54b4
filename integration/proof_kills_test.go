//go:build integration

package integration

import (
	"bufio"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gscd-io/gscd/progress"
)

// killsWanted is how often the program is killed: GSCD_KILLS, else 50.
func killsWanted(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("GSCD_KILLS"), "50"))
	if err != nil || n < 10 {
		t.Fatalf("GSCD_KILLS: %v, want a number from 10 on", os.Getenv("GSCD_KILLS"))
	}
	return n
}

// The program takes many days from a real Kafka into a real S3 storage, and is
// killed again and again: at a moment of the clock, before one of its requests
// reaches the storage, and before the answer to one reaches it. Half of the runs
// are those of the minutes around midnight, which hold changes of the next day
// and seal. Each day is what it would have been.
func testKills(t *testing.T, b *broker) {
	kills := killsWanted(t)
	seed := randomSeed(t)
	rng := rand.New(rand.NewPCG(seed, 2))
	g := startGateway(t, "--keep-alive")
	proxy := startStoreProxy(t, g)
	f := newTraffic(t, b, 4, seed)
	const table = "dim/orders"
	address := "s3://" + gatewayBucket + "/" + table
	program := func(now time.Time) *process {
		t.Helper()
		return startProcessIn(t, g.variables(t, proxy.URL), binary(t), "ingest", "--name", "orders", "--location", address,
			"--brokers", b.address, "--topic", f.topic, "--timezone", "Asia/Shanghai", "--batch-rows", "40",
			"--until-end", "--now", now.Format(time.RFC3339), "--log-level", "warn")
	}
	commits := func() int {
		names, err := filepath.Glob(filepath.Join(g.dir, gatewayBucket, table, "_delta_log", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}

	// Runs that end by themselves tell how long one takes, and how much it writes.
	usual, writes := time.Second, map[bool]int{true: 10, false: 10}
	stages, at := map[string]int{}, []int{}
	killed, ended, midnights := 0, 0, 0
	var starts []start
	for killed < kills {
		if ended > kills {
			t.Fatalf("%d runs ended before they were killed, %d were killed", ended, killed)
		}
		midnight := rng.IntN(2) == 0
		if midnight {
			f.pass(f.toMidnight()+f.driftWait+2*time.Minute, 60)
		} else {
			f.pass(5*time.Hour, 100)
		}
		began := time.Now()
		var last atomic.Pointer[storeRequest]
		var written atomic.Int64
		die := make(chan struct{})
		how, any, target := rng.IntN(3), rng.IntN(5) == 0, 1+rng.Int64N(int64(writes[midnight]))
		if killed+ended == 0 {
			target = 1 << 30 // the first run is one to measure
		}
		proxy.set(func(r storeRequest) int {
			last.Store(&r)
			if !any && !r.isWrite() || written.Add(1) != target || how == 0 {
				return 0
			}
			defer close(die)
			if how == 1 {
				return hangUp
			}
			return loseIt
		})
		starts = append(starts, start{at: time.Now(), midnight: midnight})
		p := program(f.now)
		var moment <-chan time.Time
		if how == 0 && target < 1<<30 {
			moment = time.After(usual/4 + time.Duration(rng.Int64N(int64(usual))))
		}
		select {
		case <-p.ended:
		case <-moment:
		case <-die:
		}
		select {
		case <-p.ended:
			if code := p.cmd.ProcessState.ExitCode(); code != 0 {
				t.Fatalf("a run ended with code %d:\n%s", code, p.errors)
			}
			ended++
			usual = time.Since(began)
			if !any {
				writes[midnight] = max(1, int(written.Load()))
			}
		default:
			p.end(t, syscall.SIGKILL)
			killed++
			starts[len(starts)-1].killed = true
			if midnight {
				midnights++
			}
			at = append(at, commits())
			stage := "before the first request"
			if r := last.Load(); r != nil {
				stage = []string{"some time after ", "before ", "during "}[how] + r.kind()
			}
			stages[stage]++
		}
		proxy.set(nil)
	}
	b.untilSettled(t, f.topic)
	starts = append(starts, start{at: time.Now(), midnight: true})
	if p := program(f.end()); !p.wait(2*time.Minute) || p.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("the last run: %v\n%s", p.cmd.ProcessState, p.errors)
	}

	r := rigOn(t, g.open(t, table), g.open(t, table+"__dead_letter"), nil)
	f.checkAll(r)
	rs := g.deltaRS(t)
	rows := f.checkEngine(r, rs)

	// The kills have hit what they were meant to.
	orphans := len(r.orphans())
	distinct := len(slices.Compact(slices.Clone(at)))
	kinds := func(word string) (n int) {
		for s, count := range stages {
			if strings.HasSuffix(s, word) {
				n += count
			}
		}
		return n
	}
	fmt.Printf("killed %d times, %d of them around midnight, at %d numbers of commits (%d to %d), %d runs ended; %d files of nobody; %d days, %d records, %d rows compared with delta-rs\n%v\n",
		killed, midnights, distinct, at[0], at[len(at)-1], ended, orphans, len(f.days()), f.sent, rows, stages)
	printRecovery(r, filepath.Join(g.dir, gatewayBucket, table, "_delta_log"), starts)
	if midnights < kills/4 {
		t.Errorf("%d kills around midnight", midnights)
	}
	if distinct < kills/3 || orphans == 0 || kinds("put commit") == 0 || kinds("put data") == 0 || len(stages) < 6 {
		t.Errorf("the kills are no test: %d numbers of commits, %d files of nobody, stages %v", distinct, orphans, stages)
	}
	gscdIn(t, g.variables(t, g.url), "vacuum", "--table", address, "--retain", "0s", "--grace", "0s")
	if out := gscdIn(t, g.variables(t, g.url), "check", "--table", address, "--deep"); len(out) > 0 {
		t.Errorf("check behind a vacuum: %s", out)
	}
	f.checkRows(r)
}

// start is one start of the program.
type start struct {
	at               time.Time
	midnight, killed bool
}

// printRecovery tells how long after the kill of a run around midnight the next one
// had its first commit, and its first seal, by the time stamps of the log's files.
func printRecovery(r *rig, log string, starts []start) {
	r.t.Helper()
	var first, seal []time.Duration
	versions := r.log()
	for i, s := range starts {
		if i == 0 || !starts[i-1].killed || !starts[i-1].midnight {
			continue
		}
		committed := false
		for _, c := range versions {
			info, err := os.Stat(filepath.Join(log, fmt.Sprintf("%020d.json", c.version)))
			if err != nil {
				r.t.Fatal(err)
			}
			after := info.ModTime().Sub(s.at)
			if after < 0 || i+1 < len(starts) && !info.ModTime().Before(starts[i+1].at) {
				continue
			}
			if !committed {
				committed, first = true, append(first, after)
			}
			if c.progress.Kind == progress.SealKind {
				seal = append(seal, after)
				break
			}
		}
	}
	if len(first) == 0 || len(seal) == 0 {
		r.t.Errorf("no start after a kill around midnight came to a commit (%d), or a seal (%d)", len(first), len(seal))
		return
	}
	slices.Sort(first)
	slices.Sort(seal)
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	fmt.Printf("after a kill around midnight: start to first commit %s (median of %d), %s at most; start to first seal %s (median of %d), %s at most\n",
		ms(first[len(first)/2]), len(first), ms(first[len(first)-1]), ms(seal[len(seal)/2]), len(seal), ms(seal[len(seal)-1]))
}

// deltaRS starts delta-rs with what it needs to reach the gateway.
func (g *gateway) deltaRS(t testing.TB) *engine {
	t.Helper()
	python := filepath.Join(component(t, "python"), "bin", "python")
	rs := &engine{name: "delta-rs", process: startProcessIn(t, g.variables(t, g.url), python, engineFile(t, "rows.py"), "delta-rs")}
	rs.answers = bufio.NewReader(rs.process.stdout)
	return rs
}
