package integration

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/scd2"
)

var (
	agreeRuns = flag.Int("agree.runs", 20, "random tables of TestReadersAgree")
	agreeSeed = flag.Uint64("agree.seed", 0, "seed of the first table of TestReadersAgree; 0: a random one")
)

// Every way to read a table through time says the same of it, and that is what its topic
// says: on tables that the ingester makes of random topics, each sealed label by scan and
// by SQL, the diffs of labels, their changes, the history of each key, the events of rows
// and the history table are held against the newest change of each key.
func TestReadersAgree(t *testing.T) {
	t.Parallel()
	seed := *agreeSeed
	if seed == 0 {
		seed = rand.Uint64() >> 16
	}
	seen := &agreeSeen{}
	t.Run("tables", func(t *testing.T) {
		for i := range *agreeRuns {
			s := seed + uint64(i)
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("again with: go test ./integration -run TestReadersAgree -agree.seed=%d -agree.runs=1", s)
					}
				})
				newAgreement(t, s, seen).run()
			})
		}
	})
	t.Logf("seed %d: %v", seed, seen.counts)
	if *agreeRuns >= 20 && !t.Failed() {
		for _, what := range agreeKinds {
			if seen.counts[what] == 0 {
				t.Errorf("no table had: %s", what)
			}
		}
	}
}

// agreement is a random topic, the table made of it, and the history table made of that.
type agreement struct {
	*agreeTopic
	*rig
	random  *rand.Rand
	seen    *agreeSeen
	out     *mem.Store // of the history table
	history scd2.Options
	log     []string
}

func newAgreement(t *testing.T, seed uint64, seen *agreeSeen) *agreement {
	random := rand.New(rand.NewPCG(seed, 30))
	topic := newTopic(0, 1, 2)
	a := &agreement{random: random, seen: seen, out: mem.New()}
	a.rig = newRig(t, topic, func(o *ingest.Options) {
		o.Key = []string{"id", "region"}
		o.BatchRows = 1 + random.IntN(9)
		o.CopyOnWrite = random.IntN(2) == 0
		o.ChangeData = random.IntN(2) == 0
		o.CheckpointEvery = int64(1 + random.IntN(8))
		if random.IntN(3) == 0 {
			o.PartitionBy = []string{"a"}
		}
		if random.IntN(4) == 0 {
			o.Late = ingest.DeadLetter
		}
	})
	a.history.Memory = []int64{1 << 10, 64 << 20}[random.IntN(2)]
	a.history.Columns.RowHash = []string{"", "row_hash"}[random.IntN(2)]
	a.agreeTopic = newAgreeTopic(random, topic, seen)
	return a
}

func (a *agreement) run() {
	days := 5 + a.random.IntN(5)
	widened := 1 + a.random.IntN(days)
	for day := range days {
		a.wide = day >= widened
		a.writeDay(day, func(now time.Time) {
			a.clock = now
			a.did("work at %s", now.Format("02 15:04:05"))
			a.mustWork()
		})
		a.between()
	}
	a.check()
}

func (a *agreement) did(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

// between does what may be done to a table between two days.
func (a *agreement) between() {
	if a.random.IntN(3) == 0 {
		a.restart()
	}
	if a.random.IntN(3) == 0 {
		a.seen.add("optimized")
		o := ingest.Layout(a.progress())
		o.SmallSize, o.TargetSize, o.PurgeShare = 1<<20, 1<<20, 0.001
		if _, err := layout.Optimize(ctx, a.table(), o); err != nil {
			a.t.Fatal(err)
		}
		a.did("optimized")
	}
	if a.random.IntN(3) == 0 {
		a.buildHistory()
	}
	if sealed := a.sealed(); len(sealed) > 1 && a.random.IntN(4) == 0 {
		a.seen.add("rolled back")
		to := sealed[a.random.IntN(len(sealed)-1)]
		a.rollback(to)
		a.did("rolled back to %s", to)
		switch a.random.IntN(3) {
		case 0:
			a.check()
		case 1:
			a.buildHistory()
		}
		a.mustWork()
		a.did("replayed")
	}
}

func (a *agreement) buildHistory() {
	if len(a.sealed()) == 0 {
		return
	}
	a.did("history table")
	if _, err := scd2.Build(ctx, a.historySource(), delta.New(a.out), a.history); err != nil {
		a.t.Fatal(err)
	}
}

// fail ends the test with what was done to the table.
func (a *agreement) fail(format string, args ...any) {
	a.t.Helper()
	o := a.options
	a.t.Fatalf("%s\nof a table with batches of %d, copy-on-write %v, change data %v, partitioned by %v, late %q:\n%s\nthe topic:\n%s",
		fmt.Sprintf(format, args...), o.BatchRows, o.CopyOnWrite, o.ChangeData, o.PartitionBy, o.Late, strings.Join(a.log, "\n"), a.text())
}

// day is a label: its version, and the newest change of each key that has a row.
type agreeDay struct {
	savepoint.Entry
	rows map[string]*agreeRecord
}

// days gives the sealed labels and the open one, as the topic has them below the offsets
// of the seals.
func (a *agreement) days() (days []agreeDay, labels *savepoint.Map) {
	labels = a.labels()
	var ends []agreeEnd
	for _, e := range labels.Entries {
		if e.Kept || e.State != savepoint.Sealed {
			continue
		}
		end := agreeEnd{e.Label, map[int32]int64{}}
		for _, p := range a.evidence(e.Name).Partitions {
			end.offsets[p.Partition] = p.Offset
		}
		ends = append(ends, end)
		days = append(days, agreeDay{Entry: e})
	}
	state := labels.Progress.State
	end := agreeEnd{state.Open, map[int32]int64{}}
	for _, p := range state.Partitions {
		end.offsets[p.Kafka] = p.Next
	}
	ends = append(ends, end)
	newest, err := a.table().Snapshot(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	days = append(days, agreeDay{Entry: savepoint.Entry{Label: state.Open, Name: labels.Calendar.Name(state.Open), State: savepoint.Open, Version: newest.Version()}})
	a.judge(labels.Calendar, state.First, ends, a.options.Late == ingest.DeadLetter)
	isOpen := func(e savepoint.Entry) bool { return e.State == savepoint.Open }
	if !slices.ContainsFunc(labels.Entries, isOpen) { // it was rolled back, and no commit has named it since
		days = days[:len(days)-1]
	}
	for i := range days {
		days[i].rows = a.rowsOf(ends[i])
	}
	return days, labels
}

// check holds all ways to read against the topic.
func (a *agreement) check() {
	days, labels := a.days()
	a.checkScan(days)
	a.checkSQL(days, labels)
	a.checkDiff(days)
	a.checkChanges(days, labels)
	a.checkKeys(days, labels)
	a.checkBlame(days, labels)
	a.checkHistoryTable(slices.DeleteFunc(slices.Clone(days), func(d agreeDay) bool { return d.State == savepoint.Open }))
	a.seen.add("labels", len(days))
}

// texts gives the rows of a day by key.
func (d agreeDay) texts() map[string]string {
	out := map[string]string{}
	for key, r := range d.rows {
		out[key] = r.row
	}
	return out
}

// same compares rows by key, or what became of keys.
func (a *agreement) same(what string, got, want map[string]string) {
	a.t.Helper()
	if maps.Equal(got, want) {
		return
	}
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(agreeUnion(got, want))) {
		if got[k] != want[k] {
			lines = append(lines, fmt.Sprintf("%s: got %q, want %q", k, got[k], want[k]))
		}
	}
	a.fail("%s:\n%s", what, strings.Join(lines, "\n"))
}

func agreeUnion(x, y map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, x)
	maps.Copy(out, y)
	return out
}
