package integration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/scd2"
)

// isWrite tells the calls of a store that change it.
func isWrite(call string) bool { return call == "put" || call == "put if absent" || call == "delete" }

// killAfter kills the process, both stores at once, after so many writes.
func (r *rig) killAfter(writes int64) {
	var done atomic.Int64
	before := func(call, _ string) error {
		if isWrite(call) && done.Load() >= writes {
			r.store.kill()
			r.dead.kill()
			return errKilled
		}
		return nil
	}
	after := func(call, _ string) error {
		if isWrite(call) {
			done.Add(1)
		}
		return nil
	}
	r.store.hooks(before, after)
	r.dead.hooks(before, after)
}

// revive lets the stores work again and ends the process.
func (r *rig) revive() {
	r.store.hooks(nil, nil)
	r.dead.hooks(nil, nil)
	r.topic.onPublish = nil
	r.restart()
}

// killedEverywhere runs the work of a fresh rig with a kill after its first,
// second, … write, until there is none left to kill it before; each time it is
// run again by a new process and checked.
func killedEverywhere(t *testing.T, fresh func() *rig, work func(r *rig) error, check func(t *testing.T, r *rig)) (points int64) {
	t.Helper()
	for k := int64(0); ; k++ {
		r := fresh()
		r.killAfter(k)
		err := work(r)
		if err == nil {
			return k
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("killed after %d writes: %v", k, err)
		}
		r.revive()
		if err := work(r); err != nil {
			t.Fatalf("killed after %d writes, run again: %v", k, err)
		}
		if check(t, r); t.Failed() {
			t.Fatalf("killed after %d writes", k)
		}
	}
}

func TestCase14CrashBetweenCommits(t *testing.T) {
	c := theCase(t, 14)
	steps := c.steps("Input")
	until := slices.IndexFunc(steps, func(s step) bool { return s.kind == "kill" }) - 1
	if until < 0 || steps[until].kind != "clock" {
		t.Fatal("no clock before the kill")
	}
	commitNumber := func(key string) string {
		return strings.TrimLeft(strings.TrimSuffix(key[len("_delta_log/"):], ".json"), "0")
	}
	killPoints := map[string]func(r *rig){
		"after upload of data files but before the log entry": func(r *rig) {
			r.store.hooks(func(call, key string) error {
				if isWrite(call) && isCommit(key) {
					r.store.kill()
					return errKilled
				}
				return nil
			}, nil)
		},
		"after the log entry but before the group offset": func(r *rig) {
			r.topic.onPublish = func() error {
				r.store.kill()
				return errKilled
			}
		},
		"after both but before the seal of 16 is recorded": func(r *rig) {
			published := false
			r.topic.onPublish = func() error {
				published = true
				return nil
			}
			r.store.hooks(func(call, key string) error {
				if published && isWrite(call) && isCommit(key) && commitNumber(key) == "1" {
					r.store.kill()
					return errKilled
				}
				return nil
			}, nil)
		},
	}
	unkilled := newRig(t, newTopic(0))
	unkilled.send(recordsOf(steps)...)
	unkilled.workAt("2022-07-17T00:20:00+08:00")
	rows, dead := unkilled.writtenRows()

	check := func(t *testing.T, r *rig) {
		t.Helper()
		c.checkAsOf(t, r)
		c.checkVersionsOf(t, r)
		c.checkNextOffset(t, r, c.expect(nil, "next_offset")[0])
		for _, e := range c.expect(nil, "applied", "over_all_versions") {
			equal(t, "applied", r.progress().Totals.Applied, e.fieldInt("applied"))
		}
		equal(t, "totals", r.progress().Totals, progress.Totals{Taken: 4, Applied: 4})
		equal(t, "counts of the day", r.evidence("2022-07-16").Counts, unkilled.evidence("2022-07-16").Counts)
		gotRows, gotDead := r.writtenRows()
		equal(t, "rows written", gotRows, rows)
		equal(t, "rows deleted", gotDead, dead)
		r.checkHistoryRows(c)
	}
	check(t, unkilled)

	for name, arm := range killPoints {
		c.Run(name, func(t *testing.T) {
			r := newRig(t, newTopic(0))
			r.play(steps[:until], nil)
			arm(r)
			r.clock = instant(t, steps[until].text("now"))
			if err := r.work(); !errors.Is(err, errKilled) {
				t.Fatalf("not killed: %v", err)
			}
			before := r.objects()
			r.revive()
			r.play(steps[until+2:], nil)
			check(t, r)
			if strings.HasPrefix(name, "after upload") {
				orphans := 0
				for _, key := range before {
					if strings.HasSuffix(key, ".parquet") && !slices.Contains(r.referenced(), key) {
						orphans++
					}
				}
				equal(t, "data files of the failed attempt", orphans, 1)
			}
		})
	}
	fresh := func(change ...func(*ingest.Options)) func() *rig {
		return func() *rig {
			r := newRig(t, newTopic(0), change...)
			r.send(recordsOf(steps)...)
			r.clock = instant(t, "2022-07-17T00:20:00+08:00")
			return r
		}
	}
	work := func(r *rig) error { return r.work() }
	c.theMust(1, func(t *testing.T) {
		if points := killedEverywhere(t, fresh(), work, check); points < 4 {
			t.Errorf("only %d writes to be killed at", points)
		}
	})
	c.theMust(2, func(t *testing.T) {
		// Record by record there are more commits, and more to lose.
		slow := func(o *ingest.Options) { o.BatchRows, o.PollRecords = 1, 1 }
		want := fresh(slow)()
		want.mustWork()
		wantRows, wantDead := want.writtenRows()
		points := killedEverywhere(t, fresh(slow), work, func(t *testing.T, r *rig) {
			t.Helper()
			equal(t, "totals", r.progress().Totals, progress.Totals{Taken: 4, Applied: 4})
			equal(t, "counts of the day", r.evidence("2022-07-16").Counts, want.evidence("2022-07-16").Counts)
			gotRows, gotDead := r.writtenRows()
			equal(t, "rows written", gotRows, wantRows)
			equal(t, "rows deleted", gotDead, wantDead)
			c.checkAsOf(t, r)
			r.checkHistoryRows(c)
		})
		if points < 8 {
			t.Errorf("only %d writes to be killed at", points)
		}
	})
	c.theMust(3, func(t *testing.T) {
		killedEverywhere(t, fresh(), work, func(t *testing.T, r *rig) {
			t.Helper()
			there := r.objects()
			for _, key := range r.referenced() {
				if !slices.Contains(there, key) {
					t.Errorf("the log refers to %s, which is not there", key)
				}
			}
			equal(t, "files of the newest version", len(r.referenced()), len(unkilled.referenced()))
		})
	})
}

// objects lists the keys of the table's store.
func (r *rig) objects() []string {
	r.t.Helper()
	var out []string
	for o, err := range r.store.Store.List(ctx, "", "") {
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, o.Key)
	}
	return out
}

// referenced lists the data files that any version of the log added.
func (r *rig) referenced() []string {
	r.t.Helper()
	keys := map[string]bool{}
	for _, v := range r.log() {
		for _, a := range v.Adds {
			keys[a.Path] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// orphans lists the data files that no version of the log refers to.
func (r *rig) orphans() (out []string) {
	r.t.Helper()
	referenced := r.referenced()
	for _, key := range r.objects() {
		if strings.HasSuffix(key, ".parquet") && !strings.Contains(key, "_delta_log/") && !slices.Contains(referenced, key) {
			out = append(out, key)
		}
	}
	return out
}

// heldRecords lists the coordinates and labels of what is held.
func (r *rig) heldRecords() []string {
	r.t.Helper()
	reader := drift.NewReader(ctx, r.store.Store, r.progress().Held)
	defer reader.Close()
	out := []string{}
	for {
		e, _, err := reader.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		if e == nil {
			return out
		}
		out = append(out, fmt.Sprintf("%d/%d %s", e.Record.Partition, e.Record.Offset, r.options.Calendar.Name(e.Label)))
	}
}

func TestCase21RollbackTakesOffsetsBack(t *testing.T) {
	c := theCase(t, 21)
	steps := c.steps("Input")
	afterRollback := func(t *testing.T, r *rig) {
		t.Helper()
		for _, e := range c.expect(nil, "after_rollback") {
			var want struct {
				AsOf   string           `json:"as_of"`
				Exit   string           `json:"exit"`
				Says   string           `json:"says"`
				Offset map[string]int64 `json:"next_offset"`
				Held   []struct {
					Partition int32
					Offset    int64
					Label     string
				}
			}
			e.into(t, "after_rollback", &want)
			if want.AsOf != "" {
				_, _, err := r.asOf(want.AsOf)
				if !errors.Is(err, savepoint.ErrRolledBack) {
					t.Errorf("as of %s: %v", want.AsOf, err)
				}
				says(t, err, want.Says)
				continue
			}
			equal(t, "next offset", r.next(0), want.Offset["0"])
			held := []string{}
			for _, h := range want.Held {
				held = append(held, fmt.Sprintf("%d/%d %s", h.Partition, h.Offset, h.Label))
			}
			sameList(t, "held", r.heldRecords(), held)
		}
	}
	c.everyWay(func(t *testing.T, r *rig) {
		var plans []*savepoint.Plan
		old := map[string]int64{}
		r.play(steps, func(s step) {
			switch {
			case s.kind == "stop":
				for _, e := range r.labels().Entries {
					old[e.Name] = e.Version
				}
			case s.kind == "restart":
				r.topic.published = map[change.PartitionID]int64{{Topic: topicName}: 3}
			case strings.HasPrefix(s.text("cmd"), "gscd rollback --to "):
				plans = append(plans, r.rollback(strings.TrimPrefix(s.text("cmd"), "gscd rollback --to ")))
				afterRollback(t, r)
			case s.text("cmd") == "gscd query --as-of 2022-07-16":
				if _, _, err := r.asOf("2022-07-16"); !errors.Is(err, savepoint.ErrRolledBack) {
					t.Errorf("as of 2022-07-16: %v", err)
				}
			case s.text("cmd") == "gscd snapshots":
				// The ingester has worked before this command, not before the ones above.
				sameList(t, "sealed", r.sealed(), []string{"2022-07-15", "2022-07-16", "2022-07-17"})
			}
		})
		if len(plans) != 2 || plans[0].Nothing || !plans[1].Nothing {
			t.Fatalf("plans %+v", plans)
		}
		c.checkAsOf(t, r)
		for range c.expect(nil, "versions") {
			restores, newest := 0, int64(-1)
			for _, v := range r.log() {
				if v.progress.Kind == progress.Rollback {
					restores++
				}
			}
			equal(t, "restore commits", restores, 1)
			for _, e := range r.labels().Entries {
				if e.State == savepoint.Sealed && e.Name > "2022-07-15" {
					if e.Version <= plans[0].Committed || e.Version <= newest {
						t.Errorf("%s has version %d, the rollback %d", e.Name, e.Version, plans[0].Committed)
					}
					newest = e.Version
					sameRows(t, "the old version of "+e.Name, must(r.rowsAt(old[e.Name])), r.mustAsOf(e.Name))
					sameRows(t, "the kept savepoint of "+e.Name, r.mustAsOf(fmt.Sprintf("%s@%d", e.Name, old[e.Name])), r.mustAsOf(e.Name))
				}
			}
		}
		r.checkVersions(false)
	})
	ready := func(t *testing.T) *rig {
		r := newRig(t, newTopic(0))
		r.send(recordsOf(steps)...)
		r.workAt("2022-07-18T00:20:00+08:00")
		return r
	}
	c.theMust(1, func(t *testing.T) {
		whole := ready(t)
		sixteenth, fifteenth := whole.mustAsOf("2022-07-16"), whole.mustAsOf("2022-07-15")
		versions := len(whole.log())
		ends := map[string]int{}
		for k := int64(0); ; k++ {
			r := rigOn(t, whole.store.Store.(*mem.Store).Clone(), mem.New(), whole.topic)
			r.clock = whole.clock
			r.killAfter(k)
			table, err := delta.Open(ctx, r.store)
			if err != nil {
				t.Fatal(err)
			}
			_, err = savepoint.Rollback(ctx, table, "2022-07-15", savepoint.RollbackOptions{Now: r.clock})
			r.store.hooks(nil, nil)
			switch rows, _, asOfErr := r.asOf("2022-07-16"); {
			case asOfErr == nil:
				ends["before"]++
				sameRows(t, "as of 2022-07-16", rows, sixteenth)
				equal(t, "versions", len(r.log()), versions)
			case errors.Is(asOfErr, savepoint.ErrRolledBack):
				ends["behind"]++
				afterRollback(t, r)
				sameRows(t, "rows", r.current(), fifteenth)
				equal(t, "versions", len(r.log()), versions+1)
			default:
				t.Fatal(asOfErr)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		if ends["before"] == 0 || ends["behind"] != 1 {
			t.Errorf("ends %v", ends)
		}
		// A history follows: what it made of the days that are gone is undone.
		r, history := ready(t), mem.New()
		r.history(history)
		r.rollback("2022-07-15")
		r.workAt("2022-07-18T00:40:00+08:00")
		r.history(history)
		report, err := scd2.Check(ctx, r.historySource(), delta.New(history), scd2.CheckOptions{})
		if err != nil || len(report.Faults) > 0 || len(report.Labels) != 3 {
			t.Errorf("the history behind a rollback: %+v, %v", report, err)
		}
	})
	c.theMust(2, func(t *testing.T) {
		r := ready(t)
		r.rollback("2022-07-15")
		versions := len(r.log())
		if plan := r.rollback("2022-07-15"); !plan.Nothing {
			t.Errorf("plan %+v", plan)
		}
		equal(t, "versions", len(r.log()), versions)
	})
	c.theMust(3, func(t *testing.T) {
		r := ready(t)
		records := recordsOf(steps)
		r.send(edited(t, records[2], 3, instant(t, "2022-07-18T10:00:00+08:00").UnixMilli(),
			`"ts_ms":1658023200000`, `"ts_ms":1658109600000`, `"pos":300`, `"pos":400`, `"level":3`, `"level":4`))
		// The rollback comes between the batch of offset 3 and its commit.
		var plan *savepoint.Plan
		var built int64
		r.store.hooks(func(call, key string) error {
			if plan == nil && isWrite(call) && isCommit(key) {
				built = int64(len(r.log()))
				plan = r.rollback("2022-07-15")
			}
			return nil
		}, nil)
		r.clock = instant(t, "2022-07-18T10:01:00+08:00")
		r.mustWork()
		if plan == nil {
			t.Fatal("the ingester had nothing to commit")
		}
		equal(t, "version of the rollback", plan.Committed, built)
		sameList(t, "sealed", r.sealed(), []string{"2022-07-15", "2022-07-16", "2022-07-17"})
		c.checkAsOf(t, r)
		equal(t, "level", fmt.Sprint(r.current()[0]["level"]), "4")
		equal(t, "next offset", r.next(0), 4)
		after := r.log()[plan.Committed+1:]
		equal(t, "the label after the rollback", after[0].progress.Label, "2022-07-16")
		for _, v := range after {
			if v.progress.State.Partitions[0].Next == 4 && v.progress.Label < "2022-07-17" {
				t.Errorf("version %d of %s was built before the rollback", v.version, v.progress.Label)
			}
		}
		r.checkVersions(false)
	})
	c.theMust(4, func(t *testing.T) {
		r := ready(t)
		versions := map[string]int64{}
		for _, e := range r.labels().Entries {
			versions[e.Name] = e.Version
		}
		seventeenth := r.mustAsOf("2022-07-17")
		r.rollback("2022-07-15")
		pinned := r.labels().Pinned()
		for _, day := range []string{"2022-07-15", "2022-07-16", "2022-07-17"} {
			if !slices.Contains(pinned, versions[day]) {
				t.Errorf("%s (version %d) is not pinned: %v", day, versions[day], pinned)
			}
		}
		r.rollback(fmt.Sprintf("2022-07-17@%d", versions["2022-07-17"]))
		sameRows(t, "the rollback undone", r.mustAsOf("2022-07-17"), seventeenth)
		r.workAt("2022-07-18T00:40:00+08:00")
		sameList(t, "sealed", r.sealed(), []string{"2022-07-15", "2022-07-16", "2022-07-17"})
		equal(t, "next offset", r.next(0), 3)
	})
}

// must gives rows where reading them must succeed.
func must(rows []row, err error) []row {
	if err != nil {
		return []row{{"error": err.Error()}}
	}
	return rows
}
