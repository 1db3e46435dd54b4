package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// at tells the moment of an expectation: "17 00:16".
func at(r *rig) string { return r.clock.In(r.options.Calendar.Location()).Format("02 15:04") }

// checkSnapshotsNow asserts the expected line about `gscd snapshots` at this
// moment, and reports whether there is one.
func (c *given) checkSnapshotsNow(t testing.TB, r *rig) bool {
	t.Helper()
	for _, e := range c.expected {
		if e.text("at") == at(r) && e.fields["snapshots"] != nil {
			var want []string
			e.into(t, "snapshots", &want)
			sameList(t, "snapshots at "+at(r), r.sealed(), want)
			e.seen = true
			return true
		}
	}
	return false
}

func TestCase08LateInsideTheBuffer(t *testing.T) {
	c := theCase(t, 8)
	c.everyWay(func(t *testing.T, r *rig) {
		asked := 0
		r.play(c.steps("Input"), func(s step) {
			if s.kind == "cli" {
				asked++
				sameRows(t, "as of 2022-07-16 at "+at(r), r.mustAsOf("2022-07-16"), c.expect(func(e *expectation) bool {
					return e.text("as_of") == "2022-07-16"
				}, "as_of", "rows")[0].rows(t, "rows"))
			}
		})
		equal(t, "queries", asked, 1)
		c.checkAsOf(t, r)
		c.checkVersionsOf(t, r)
		equal(t, "drift", r.evidence("2022-07-16").Counts.Drift, 0) // p1 had seen nothing of the 17th
	})
	r := newRig(t, newTopic(0, 1))
	sealedAt := map[string]int{}
	r.play(c.steps("Input"), func(s step) {
		if s.kind == "clock" {
			sealedAt[at(r)] = len(r.sealed())
		}
	})
	c.theMust(1, func(t *testing.T) { r.checkVersions(false) })
	c.theMust(2, func(t *testing.T) {
		order := ""
		for _, v := range r.log() {
			if v.changesData() {
				order += v.progress.Label[8:] + " "
			}
		}
		if !strings.HasPrefix(order, "16 ") || !strings.HasSuffix(order, " 17 ") || strings.Contains(order, "17 16") {
			t.Errorf("labels of the data versions: %s", order)
		}
	})
	c.theMust(3, func(t *testing.T) {
		equal(t, "sealed at 00:03", sealedAt["17 00:03"], 0)
		equal(t, "sealed at 00:06", sealedAt["17 00:06"], 0)
		equal(t, "sealed at 00:12", sealedAt["17 00:12"], 1)
		ev := r.evidence("2022-07-16")
		for _, p := range ev.Partitions {
			if p.Rule != snapshotter.ByWatermark {
				t.Errorf("partition %d: rule %s", p.Partition, p.Rule)
			}
		}
	})
}

func TestCase09LateAfterTheBuffer(t *testing.T) {
	c := theCase(t, 9)
	folded := func(e *expectation) bool { return e.text("mode") == "late: fold" }
	for _, mode := range []string{ingest.Fold, ingest.DeadLetter} {
		c.Run("late "+mode, func(t *testing.T) {
			c.everyWay(func(t *testing.T, r *rig) {
				var answers [][]row
				r.play(c.steps("Input"), func(s step) {
					if s.kind == "cli" {
						answers = append(answers, r.mustAsOf("2022-07-16"))
					}
				})
				if len(answers) != 2 {
					t.Fatalf("%d queries", len(answers))
				}
				sameRows(t, "as of 2022-07-16, asked again", answers[1], answers[0])
				sameRows(t, "as of 2022-07-16 at the end", r.mustAsOf("2022-07-16"), answers[0])
				for _, e := range c.expect(func(e *expectation) bool { return e.text("mode") == "late: "+mode }, "mode", "as_of", "rows") {
					sameRows(t, mode+" as of "+e.text("as_of"), r.mustAsOf(e.text("as_of")), e.rows(t, "rows"))
				}
				r.checkVersions(true)
			}, func(o *ingest.Options) { o.Late = mode })
		})
	}
	play := func(t *testing.T, late string) *rig {
		r := newRig(t, newTopic(0), func(o *ingest.Options) { o.Late = late })
		r.play(c.steps("Input"), func(step) {})
		return r
	}
	c.Run("late fail", func(t *testing.T) {
		e := c.expect(func(e *expectation) bool { return e.text("mode") == "late: fail" }, "mode", "exit", "says")[0]
		r := newRig(t, newTopic(0), func(o *ingest.Options) { o.Late = ingest.Fail })
		steps := c.steps("Input")
		r.play(steps[:4], func(step) {})
		before := r.mustAsOf("2022-07-16")
		r.send(recordsOf(steps)[2:]...)
		r.clock = instant(t, steps[6].text("now"))
		err := r.work()
		if !errors.Is(err, ingest.ErrLate) {
			t.Fatalf("late: fail: %v", err)
		}
		says(t, err, e.strings(t, "says")...)
		// The same again in the next life: it stops before the record, whose
		// watermark is not taken.
		r.restart()
		says(t, r.work(), e.strings(t, "says")...)
		equal(t, "next offset", r.next(0), 2)
		sameRows(t, "as of 2022-07-16", r.mustAsOf("2022-07-16"), before)
	})
	for _, e := range c.expect(nil, "late") {
		var want []struct {
			ID          int64
			Label, Fate string
		}
		e.into(t, "late", &want)
		r := play(t, ingest.Fold)
		got := r.evidence("2022-07-17").Late
		equal(t, "late changes", len(got), len(want))
		for i := range got {
			equal(t, "key", got[i].Key, fmt.Sprintf(`{"id":%d}`, want[i].ID))
			equal(t, "label", r.options.Calendar.Name(got[i].Label), want[i].Label)
			equal(t, "fate", got[i].Fate, want[i].Fate)
		}
	}
	c.theMust(1, func(t *testing.T) {
		want := c.expect(folded, "mode", "as_of", "rows")[0]
		equal(t, "label", want.text("as_of"), "2022-07-16")
		for _, mode := range []string{ingest.Fold, ingest.DeadLetter} {
			sameRows(t, mode, play(t, mode).mustAsOf("2022-07-16"), want.rows(t, "rows"))
		}
	})
	c.theMust(2, func(t *testing.T) {
		for mode, fate := range map[string]string{ingest.Fold: "folded", ingest.DeadLetter: "dead_letter"} {
			r := play(t, mode)
			ev := r.evidence("2022-07-17")
			equal(t, "counter of late changes", ev.Counts.Late, 2)
			equal(t, "late changes of the 16th", r.evidence("2022-07-16").Counts.Late, 0)
			if len(ev.Late) != 2 {
				t.Fatalf("%+v", ev.Late)
			}
			day, err := r.options.Calendar.Parse("2022-07-16")
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "the second late change", ev.Late[1], progress.LateChange{
				Topic: topicName, Partition: 0, Offset: 3, Key: `{"id":3}`, Label: day, Fate: fate,
			})
			dead := r.deadLetters()
			if mode == ingest.Fold {
				equal(t, "dead letters", len(dead), 0)
				continue
			}
			if len(dead) != 2 || dead[0].Offset != 2 || dead[1].Offset != 3 || dead[0].Reason != "late" || dead[0].Label != "2022-07-16" {
				t.Errorf("dead letters %+v", dead)
			}
		}
	})
	c.theMust(3, func(t *testing.T) {
		// The late half comes on another partition: there its position is the highest.
		r := newRig(t, newTopic(0, 1))
		records := recordsOf(c.steps("Input"))
		newer := edited(t, records[2], 1, 0, `"ts_ms":1657990900000`, `"ts_ms":1657986600400`, `"pos":300`, `"pos":350`)
		r.send(records[0], newer)
		r.workAt("2022-07-17T00:31:00+08:00")
		sameList(t, "sealed", r.sealed(), []string{"2022-07-16"})
		older := *edited(t, records[2], 0, 0, `"level":2`, `"level":7`)
		older.Partition = 1
		r.send(&older)
		r.workAt("2022-07-18T00:20:00+08:00")
		sameRows(t, "as of 2022-07-17", r.mustAsOf("2022-07-17"), r.mustAsOf("2022-07-16"))
		ev := r.evidence("2022-07-17")
		equal(t, "superseded", ev.Counts.Superseded, 1)
		if len(ev.Late) != 1 || ev.Late[0].Fate != "superseded" {
			t.Errorf("late %+v", ev.Late)
		}
	})
	c.theMust(4, func(t *testing.T) {
		r, history := newRig(t, newTopic(0)), mem.New()
		r.play(c.steps("Input"), nil)
		r.history(history)
		sameList(t, "history of key 1", intervals(t, history, "id = 1"), []interval{{1, 1, "2022-07-16", "2022-07-17"}, {1, 2, "2022-07-17", ""}})
	})
}

func TestCase10FutureEvent(t *testing.T) {
	c := theCase(t, 10)
	c.everyWay(func(t *testing.T, r *rig) {
		asked := false
		r.play(c.steps("Input"), func(s step) {
			if s.kind == "cli" {
				asked = c.checkSnapshotsNow(t, r)
			}
		})
		if !asked {
			t.Error("gscd snapshots was not asked")
		}
		c.checkAsOf(t, r)
		for _, e := range c.expect(nil, "late") {
			equal(t, "late", string(e.fields["late"]), "[]")
			for _, day := range r.sealed() {
				equal(t, "late of "+day, r.evidence(day).Counts.Late, 0)
			}
		}
		for _, e := range c.expect(nil, "dead_letter") {
			c.checkDeadLetters(t, r, e)
		}
		r.checkVersions(false)
	})
	steps := c.steps("Input")
	records := recordsOf(steps)
	c.theMust(1, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records[:2]...)
		r.workAt("2022-07-16T10:02:00+08:00")
		equal(t, "watermark", r.progress().State.Partitions[0].Watermark, int64(1657936800000_000))
	})
	c.theMust(2, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records[:3]...)
		r.workAt("2022-07-16T10:03:00+08:00")
		r.restart()
		r.mustWork()
		equal(t, "watermark", r.progress().State.Partitions[0].Watermark, int64(1657936920000_000))
		equal(t, "open label", r.progress().Label, "2022-07-16")
	})
	c.theMust(3, func(t *testing.T) {
		r := newRig(t, newTopic(0), func(o *ingest.Options) { o.Future = ingest.Clamp })
		r.play(steps, func(s step) {
			if s.kind == "cli" {
				sameList(t, "sealed", r.sealed(), nil)
			}
		})
		sameList(t, "as of 2022-07-16", ids(r.mustAsOf("2022-07-16")), []string{"1", "2", "3"})
		sameList(t, "as of 2022-07-17", ids(r.mustAsOf("2022-07-17")), []string{"1", "2", "3", "4"})
		equal(t, "dead letters", len(r.deadLetters()), 0)
		equal(t, "replaced times", r.evidence("2022-07-16").Counts.Replaced, 1)
	})
	c.theMust(4, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records[0])
		broker := instant(t, "2022-07-16T23:58:00+08:00").UnixMilli()
		r.send(edited(t, records[1], 1, broker, `"ts_ms":1658109600000`, fmt.Sprintf(`"ts_ms":%d`, broker+4*60_000)))
		r.workAt("2022-07-16T23:58:01+08:00")
		equal(t, "dead letters", len(r.deadLetters()), 0)
		equal(t, "held", r.progress().Totals.Held, 1)
		sameList(t, "ids of the open day", ids(r.current()), []string{"1"})
		r.workAt("2022-07-18T00:15:00+08:00")
		sameList(t, "as of 2022-07-16", ids(r.mustAsOf("2022-07-16")), []string{"1"})
		sameList(t, "as of 2022-07-17", ids(r.mustAsOf("2022-07-17")), []string{"1", "2"})
	})
	c.theMust(5, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		r := newRig(t, newTopic(0), func(o *ingest.Options) { o.Log = zap.New(core) })
		r.send(records[:2]...)
		r.workAt("2022-07-16T10:02:00+08:00")
		equal(t, "counter", r.progress().Totals.DeadLetters, 1)
		equal(t, "counter of the day", r.progress().DeadLetters["2022-07-16"], 1)
		lines := logs.All()
		if len(lines) != 1 {
			t.Fatalf("log lines %v", lines)
		}
		fields := lines[0].ContextMap()
		equal(t, "logged", fmt.Sprint(fields["topic"], fields["partition"], fields["offset"], fields["reason"]), fmt.Sprint(topicName, 0, 1, "future"))
	})
}

// checkDeadLetters asserts a list of dead letters by coordinates and reason.
func (c *given) checkDeadLetters(t testing.TB, r *rig, e *expectation) {
	t.Helper()
	var want []struct {
		Partition int32
		Offset    int64
		Reason    string
	}
	e.into(t, "dead_letter", &want)
	got := r.deadLetters()
	if len(got) != len(want) {
		t.Fatalf("%d dead letters, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.Topic != topicName || g.Partition != w.Partition || g.Offset != w.Offset || w.Reason != "" && g.Reason != w.Reason {
			t.Errorf("dead letter %+v, want %+v", g, w)
		}
	}
}

func TestCase11SilentPartition(t *testing.T) {
	c := theCase(t, 11)
	partA := c.steps("Input, part a")
	c.everyWay(func(t *testing.T, r *rig) {
		r.play(partA, nil)
		for _, e := range c.expect(func(e *expectation) bool { return e.text("part") == "a" }, "part", "at", "as_of", "rows") {
			equal(t, "the clock", at(r), e.text("at"))
			sameRows(t, "as of "+e.text("as_of"), r.mustAsOf(e.text("as_of")), e.rows(t, "rows"))
		}
		sameList(t, "sealed", r.sealed(), []string{"2022-07-16"})
		r.checkVersions(false)
	})
	partB := func(t *testing.T, r *rig) {
		r.send(recordsOf(partA)...)
		r.mustWork()
		r.play(c.steps("Input, part b"), func(s step) {
			silent := r.topic.partition(int32(s.int("partition")))
			switch s.kind {
			case "partition_end":
				silent.end = s.int("end_offset")
			case "block_fetch":
				silent.blocked = true
			case "unblock_fetch":
				silent.blocked = false
			case "cli":
				if !c.checkSnapshotsNow(t, r) {
					t.Errorf("nothing is expected at %s", at(r))
				}
			}
		})
	}
	c.everyWay(func(t *testing.T, r *rig) {
		partB(t, r)
		for _, e := range c.expect(func(e *expectation) bool { return e.text("part") == "b" }, "part", "at", "as_of", "ids") {
			equal(t, "the clock", at(r), e.text("at"))
			sameList(t, "as of "+e.text("as_of"), ids(r.mustAsOf(e.text("as_of"))), e.ids(t, "ids"))
		}
		equal(t, "late", r.progress().Counts.Late, 0)
		r.checkVersions(false)
	})
	c.theMust(1, func(t *testing.T) {
		r := newRig(t, newTopic(0, 1, 2))
		r.play(partA, nil)
		for _, p := range r.evidence("2022-07-16").Partitions {
			want := snapshotter.ByWatermark
			if p.Partition == 2 {
				want = snapshotter.ByClock
				equal(t, "offset of p2", p.Offset, 1)
			}
			equal(t, fmt.Sprint("rule of p", p.Partition), p.Rule, want)
		}
	})
	c.theMust(2, func(t *testing.T) {
		r := newRig(t, newTopic(0, 1, 2))
		r.send(recordsOf(partA)...)
		r.mustWork()
		silent := r.topic.partition(2)
		silent.end, silent.blocked = 3, true
		r.workAt("2022-07-17T00:30:00+08:00")
		// What a status asks of the state that is in the table.
		state := r.progress().State
		states, _, err := r.topic.Partitions(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var ends []snapshotter.End
		for _, st := range states {
			ends = append(ends, snapshotter.End{Partition: state.Find(st.ID), Offset: st.End})
		}
		d := snapshotter.NewJudge(r.options.Calendar, &state).MaySeal(ends, r.clock.UnixMicro(), r.options.DriftIdle.Microseconds())
		if d.Seal || len(d.Waiting) != 1 || d.Waiting[0] != 2 {
			t.Errorf("decision %+v, want that it waits for p2 alone", d)
		}
		equal(t, "lag of p2", ends[2].Offset-ends[2].Partition.Next, 2)
		equal(t, "late", r.progress().Counts.Late, 0)
		t.Log("left out: how `gscd status` prints lag and since when it waits")
	})
	c.theMust(3, func(t *testing.T) {
		r := newRig(t, newTopic(0, 1, 2, 3)) // p3 never has a record
		r.play(partA, nil)
		sameList(t, "sealed", r.sealed(), []string{"2022-07-16"})
		equal(t, "partitions in the evidence", len(r.evidence("2022-07-16").Partitions), 4)
	})
}

func TestCase12DayWithoutEvents(t *testing.T) {
	c := theCase(t, 12)
	c.everyWay(func(t *testing.T, r *rig) {
		asked := 0
		r.play(c.steps("Input"), func(s step) {
			if s.kind == "cli" && strings.HasPrefix(s.text("cmd"), "gscd snapshots") && c.checkSnapshotsNow(t, r) {
				asked++
			}
		})
		equal(t, "snapshots asked", asked, 2)
		c.checkAsOf(t, r)
		r.checkVersions(false)
	})
	r := newRig(t, newTopic(0))
	r.play(c.steps("Input"), func(step) {})
	c.theMust(1, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(recordsOf(c.steps("Input"))[0])
		r.workAt("2022-07-17T00:16:00+08:00")
		equal(t, "attributes", fmt.Sprint(r.evidence("2022-07-16").Attributes), "[no load by clock]")
		// A long silence: each day has its entry, and the empty ones share a version.
		r.workAt("2022-08-01T00:15:00+08:00")
		equal(t, "sealed days", len(r.sealed()), 16)
		versions := map[int64]int{}
		for _, e := range r.labels().Entries {
			if e.State == savepoint.Sealed {
				versions[e.Version]++
			}
		}
		equal(t, "versions of the sealed days", len(versions), 2)
		equal(t, "attributes", fmt.Sprint(r.evidence("2022-07-31").Attributes), "[no load by clock empty]")
	})
	c.theMust(2, func(t *testing.T) {
		sameRows(t, "as of 17 and 16", r.mustAsOf("2022-07-17"), r.mustAsOf("2022-07-16"))
	})
	c.theMust(3, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.play(c.steps("Input"), func(step) {})
		seventeenth, eighteenth := r.mustAsOf("2022-07-17"), r.mustAsOf("2022-07-18")
		plan := r.rollback("2022-07-17")
		sameList(t, "rolled back", plan.Labels, []string{"2022-07-18", "2022-07-19"})
		sameRows(t, "newest rows", r.current(), seventeenth)
		r.restart()
		r.mustWork()
		sameRows(t, "as of 2022-07-18", r.mustAsOf("2022-07-18"), eighteenth)
	})
	c.theChoice(1, func(t *testing.T) {
		// The 17th was sealed a day later than the 16th, so it has a version of its own.
		m := r.labels()
		if m.Entries[0].Version >= m.Entries[1].Version {
			t.Errorf("versions %d and %d", m.Entries[0].Version, m.Entries[1].Version)
		}
	})
}

func TestCase13EdgesOfAsOf(t *testing.T) {
	c := theCase(t, 13)
	dir := t.TempDir()
	store := func(name string) objstore.Store {
		s, err := local.New(filepath.Join(dir, name), local.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	r := rigOn(t, store("table"), mem.New(), newTopic(0))
	answered := 0
	r.play(c.steps("Input"), func(s step) {
		cmd := s.text("cmd")
		if s.kind != "cli" {
			return
		}
		answered++
		if rest, ok := strings.CutPrefix(cmd, "gscd query --as-of "); ok {
			label, flag, _ := strings.Cut(rest, " ")
			c.checkEdge(t, r, label, flag)
			return
		}
		if !strings.HasPrefix(cmd, "cp -r table copy") {
			t.Fatalf("unknown command %s", cmd)
		}
		if err := os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(filepath.Join(dir, "table"))); err != nil {
			t.Fatal(err)
		}
		now := time.Now().Add(time.Hour)
		err := filepath.Walk(filepath.Join(dir, "copy"), func(path string, _ os.FileInfo, err error) error {
			return errors.Join(err, os.Chtimes(path, now, now))
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.expect(nil, "copy_as_of", "same_rows") {
			copied := rigOn(t, store("copy"), mem.New(), newTopic(0))
			sameRows(t, "the copy", copied.mustAsOf(e.text("copy_as_of")), r.mustAsOf(e.text("copy_as_of")))
		}
	})
	equal(t, "commands", answered, 7)
	c.theMust(1, func(t *testing.T) {
		for label, sentinel := range map[string]error{
			"2022-07-15": savepoint.ErrBefore, "2099-01-01": savepoint.ErrAfter, "2022-07-32": savepoint.ErrNoLabel, "": savepoint.ErrNoLabel, "16": savepoint.ErrNoLabel,
		} {
			if rows, _, err := r.asOf(label); !errors.Is(err, sentinel) || rows != nil {
				t.Errorf("as of %q: %d rows, %v", label, len(rows), err)
			}
		}
		// The same of the program: exit code, and nothing but rows on standard output.
		gscd := theProgram(t)
		for _, q := range []struct {
			args   []string
			code   int
			rows   int
			stderr string
		}{
			{[]string{"--as-of", "2022-07-15"}, 1, 0, "first snapshot is 2022-07-16"},
			{[]string{"--as-of", "2022-07-16"}, 0, 2, ""},
			{[]string{"--as-of", "2022-07-17"}, 0, 2, "not sealed"},
			{[]string{"--as-of", "2022-07-17", "--sealed"}, 3, 0, "not sealed"},
			{[]string{"--as-of", "2099-01-01"}, 1, 0, "2022-07-17"},
			{[]string{"--as-of", "2022-07-32"}, 1, 0, r.options.Calendar.Example()},
		} {
			stdout, stderr, code := gscd(append([]string{"query", "--table", filepath.Join(dir, "table"), "--format", "jsonl"}, q.args...)...)
			equal(t, fmt.Sprint(q.args, " exits with"), code, q.code)
			equal(t, fmt.Sprint(q.args, " rows"), strings.Count(stdout, "\n"), q.rows)
			if !strings.Contains(stderr, q.stderr) || q.stderr == "" && stderr != "" {
				t.Errorf("%v says %q, want %q in it", q.args, stderr, q.stderr)
			}
			for _, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
				if q.rows > 0 {
					parseRow(t, []byte(line))
				}
			}
		}
	})
	c.theMust(2, func(t *testing.T) {
		s, err := r.table().Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		txn, ok := s.Txn(savepoint.SealAppID("2022-07-16"))
		if !ok {
			t.Fatal("the log has no entry of the map")
		}
		entry := r.labels().Entries[0]
		equal(t, "version", txn.Version, entry.Version)
	})
	c.theMust(3, func(t *testing.T) {
		// The log without the entry of the 16th, and without a checkpoint that has it.
		broken := mem.New()
		for o, err := range r.store.Store.List(ctx, "", "") {
			if err != nil {
				t.Fatal(err)
			}
			data, err := r.store.Store.Get(ctx, o.Key)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(o.Key, "checkpoint") {
				continue
			}
			if isCommit(o.Key) {
				var kept []string
				for _, line := range strings.Split(string(data), "\n") {
					if !strings.Contains(line, `"appId":"`+savepoint.SealAppID("2022-07-16")+`"`) {
						kept = append(kept, line)
					}
				}
				// Another program that wrote it would give it no sum.
				data = []byte(strings.ReplaceAll(strings.Join(kept, "\n"), `,"sha256":"`, `,"other":"`))
			}
			if err := broken.Put(ctx, o.Key, data); err != nil {
				t.Fatal(err)
			}
		}
		b := rigOn(t, broken, mem.New(), newTopic(0))
		s, err := b.table().Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = savepoint.Read(ctx, b.table(), s)
		if !errors.Is(err, savepoint.ErrGap) {
			t.Errorf("a gap: %v", err)
		}
		says(t, err, "2022-07-16")
	})
}

// checkEdge asserts what `gscd query --as-of LABEL [--sealed]` answers.
func (c *given) checkEdge(t testing.TB, r *rig, label, flag string) {
	t.Helper()
	for _, e := range c.expected {
		if e.text("as_of") != label || e.text("flag") != flag && flag != "" || flag == "" && e.fields["flag"] != nil {
			continue
		}
		e.seen = true
		resolved, err := r.labels().Resolve(label, flag == "--sealed")
		switch {
		case flag == "--sealed":
			if !errors.Is(err, savepoint.ErrNotSealed) {
				t.Errorf("as of %s %s: %v", label, flag, err)
			}
		case e.text("exit") == "non-zero":
			want := e.strings(t, "says")
			if want[0] == "an example label" {
				want = []string{r.options.Calendar.Example()}
			}
			says(t, err, want...)
		case e.fields["rows"] != nil:
			sameRows(t, "as of "+label, r.mustAsOf(label), e.rows(t, "rows"))
			equal(t, "notice", resolved.Notice, "")
		default:
			if err != nil {
				t.Fatalf("as of %s: %v", label, err)
			}
			equal(t, "open", resolved.Entry.State, savepoint.Open)
			if !strings.Contains(resolved.Notice, e.text("notice")) {
				t.Errorf("the notice %q does not say %q", resolved.Notice, e.text("notice"))
			}
			sameRows(t, "the open day", r.mustAsOf(label), e.rows(t, "current"))
		}
		return
	}
	t.Errorf("nothing is expected of --as-of %s %s", label, flag)
}
