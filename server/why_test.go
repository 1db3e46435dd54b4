package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// facts are of a table with two partitions, 2022-07-17 open, wait 10m, idle 5m.
func facts(t *testing.T, clock string, watermarks ...string) Facts {
	t.Helper()
	cal, err := snapshotter.NewCalendar("day", "UTC", "00:00")
	if err != nil {
		t.Fatal(err)
	}
	open, err := cal.Parse("2022-07-17")
	if err != nil {
		t.Fatal(err)
	}
	p := &progress.Progress{State: snapshotter.State{First: open - 1, Open: open, Wait: (10 * time.Minute).Microseconds()}, Owner: "pod-1 process 1 (abc)"}
	f := Facts{Name: "users", Progress: p, Calendar: cal, Clock: at(clock), Idle: 5 * time.Minute, Proof: "none", Asked: true, Ends: map[change.PartitionID]int64{}, Committed: at(clock).Add(-time.Minute)}
	for i, w := range watermarks {
		part := p.State.AddPartition(change.PartitionID{Topic: "t", Partition: int32(i)}, 0)
		part.Next = 5
		if w != "" {
			part.Watermark = at(w).UnixMicro()
		}
		f.Ends[part.ID()] = 5
	}
	return f
}

// Each rule that can be missing is named, with what ends it.
func TestWhy(t *testing.T) {
	const over, idle = "2022-07-18T00:12:00Z", "2022-07-18T00:15:00Z"
	const before, past = "2022-07-17T23:00:00Z", "2022-07-18T00:10:00Z"
	for _, c := range []struct {
		what     string
		facts    Facts
		change   func(*Facts)
		process  *Process
		want     string // rules
		says     string // in the first sentence
		earliest string
	}{
		{"the label is not over", facts(t, "2022-07-17T12:00:00Z", before, before), nil, nil, "label_not_over", "ends at 2022-07-18T00:00:00Z, in 12h0m", "2022-07-18T00:10:00Z"},
		{"not over, and every partition is past it", facts(t, "2022-07-17T12:00:00Z", past, past), nil, nil, "label_not_over", "", "2022-07-18T00:00:00Z"},
		{"one is past it, one quiet", facts(t, over, past, before), nil, nil, "idle", "Partition t/1 is read to the end, and has brought no change at or after 2022-07-18T00:10:00Z yet: without one it counts as idle from 2022-07-18T00:15:00Z on, in 3m0s", over},
		{"both are past it", facts(t, over, past, past), nil, nil, "", "Nothing holds it", over},
		{"quiet for long enough", facts(t, idle, before, before), nil, nil, "", "Nothing holds it", idle},
		{"behind", facts(t, idle, past, before), func(f *Facts) { f.Ends[change.PartitionID{Topic: "t", Partition: 1}] = 6 }, nil, "behind", "t/1 is behind: 1 record is still to be read, from offset 5 to 6.", idle},
		{"behind, and paused: it has nothing more to say", facts(t, idle, past, past), func(f *Facts) { f.Ends[change.PartitionID{Topic: "t", Partition: 1}] = 6 }, nil, "", "", idle},
		{"an open transaction", facts(t, idle, past, before), func(f *Facts) {
			f.Ends[change.PartitionID{Topic: "t", Partition: 1}] = 9
			f.Settled = map[change.PartitionID]int64{{Topic: "t", Partition: 1}: 5}
		}, nil, "open_transaction", "an open transaction at offset 5: nothing behind it is read, 4 records are still", ""},
		{"a partition has gone", facts(t, idle, past, before), func(f *Facts) { delete(f.Ends, change.PartitionID{Topic: "t", Partition: 1}) }, nil, "partition_gone", "Partition t/1 of the table is not in its topic any more", ""},
		{"nobody was asked", facts(t, idle, past, before), func(f *Facts) { f.Asked, f.Ends = false, nil }, nil, "watermark", "the watermark (2022-07-17T23:00:00Z) is below", idle},
		{"nobody was asked, of a partition without a change", facts(t, idle, past, ""), func(f *Facts) { f.Asked, f.Ends = false, nil }, nil, "watermark", "the watermark (none: it has brought no change yet)", idle},
		{"no proof", facts(t, idle, before, before), func(f *Facts) { f.Proof = "heartbeat" }, nil, "proof", "seal.proof is heartbeat", ""},
		{"a proof", facts(t, idle, past, before), func(f *Facts) { f.Proof = "heartbeat" }, nil, "", "", idle},
		{"held changes are due", facts(t, idle, before, before), func(f *Facts) {
			f.Progress.Held = []drift.File{{Label: f.Progress.State.Open, Count: 7, Applied: 2}, {Label: f.Progress.State.Open + 1, Count: 100}}
		}, nil, "held", "5 changes that were held for this label", idle},
		{"a load", facts(t, idle, before, before), func(f *Facts) {
			f.Progress.State.Loads = []*snapshotter.Load{{Label: f.Progress.State.Open, Server: change.Server{Name: "shop"}, On: []int32{0, 1}}, {Label: f.Progress.State.Open - 1, Written: true}}
		}, nil, "load", "reads of shop on 2 partitions", idle},
		{"no process, and behind", facts(t, idle, past, before), func(f *Facts) {
			f.Ends[change.PartitionID{Topic: "t", Partition: 1}] = 6
			f.Committed = f.Clock.Add(-20 * time.Minute)
		}, nil, "no_process behind", "Records wait, and the last commit was made at 2022-07-17T23:55:00Z (20m0s ago): the process does not run", ""},
		{"no process, and due", facts(t, "2022-07-18T08:15:00Z", past, before), func(f *Facts) { f.Committed = at("2022-07-17T23:15:00Z") }, nil, "no_process", "could have been sealed at 2022-07-18T00:15:00Z, and the last commit was made at 2022-07-17T23:15:00Z (9h0m ago)", ""},
		{"a process that runs", facts(t, idle, past, before), func(f *Facts) { f.Committed = f.Clock.Add(-20 * time.Minute) }, &Process{State: Running}, "", "", idle},
		{"the dead-letter limit", facts(t, idle, before, before), nil, &Process{State: Failed, Since: at(before), Err: fmt.Errorf("table users: %w: 200 of the last 10,000", ingest.ErrTooManyDeadLetters)}, "error",
			"The table has stopped with an error at 2022-07-17T23:00:00Z: table users: too many dead letters: 200 of", ""},
		{"lost ownership", facts(t, idle, before, before), nil, &Process{State: Failed, Err: ingest.ErrLostOwnership}, "error", "lost ownership", ""},
		{"again and again", facts(t, idle, before, before), nil, &Process{State: Waiting, Err: errFull}, "error", "again and again, and is started again each time: write x: no space left on device.", ""},
		{"loading", facts(t, idle, before, before), nil, &Process{State: Waiting, Since: at(before)}, "loading", "loads the table's state, since 2022-07-17T23:00:00Z", idle},
		{"ended", facts(t, idle, before, before), nil, &Process{State: Ended, Since: at(before)}, "no_process", "ended its work on table users", ""},
		{"silent", facts(t, idle, before, before), nil, &Process{State: Running, Silent: 11 * time.Minute}, "silent", "Nothing was heard of the table for 11m0s", ""},
		{"its turn", facts(t, idle, before, before), nil, &Process{State: Running, Queued: true}, "queued", "waits for its turn", idle},
		{"brokers", facts(t, idle, before, before), nil, &Process{State: Running, Waits: []ingest.Wait{{For: ingest.ForSource, Since: at(before), Err: errors.New("no broker")}}}, "waits", "waits for the source, since 2022-07-17T23:00:00Z: no broker.", ""},
	} {
		if c.change != nil {
			c.change(&c.facts)
		}
		w := Stand(c.facts).Why(c.process)
		var rules []string
		for _, cause := range w.Causes {
			rules = append(rules, string(cause.Rule))
			if cause.Do == "" || !strings.HasSuffix(cause.Text, ".") {
				t.Errorf("%s: %q, to do: %q", c.what, cause.Text, cause.Do)
			}
		}
		earliest := ""
		if !w.Earliest.IsZero() {
			earliest = rfc3339(w.Earliest)
		}
		if got := strings.Join(rules, " "); got != c.want || !strings.Contains(w.Answer(), c.says) || earliest != c.earliest {
			t.Errorf("%s: rules %q, want %q\n answer %q\n want %q\n earliest %s, want %s", c.what, got, c.want, w.Answer(), c.says, earliest, c.earliest)
		}
		if got := rfc3339(w.ByClock); got != idle {
			t.Errorf("%s: by the clock at %s", c.what, got)
		}
	}
}

// What the rule of the seal says, and what we say of it, agree: nothing is named
// exactly where the judge would seal.
func TestWhyAgreesWithTheJudge(t *testing.T) {
	times := []string{"", "2022-07-17T23:00:00Z", "2022-07-18T00:05:00Z", "2022-07-18T00:10:00Z"}
	for _, clock := range []string{"2022-07-17T23:59:59Z", "2022-07-18T00:00:00Z", "2022-07-18T00:14:59Z", "2022-07-18T00:15:00Z"} {
		for _, first := range times {
			for _, second := range times {
				for lag := range int64(2) {
					for _, proof := range []string{"none", "any"} {
						f := facts(t, clock, first, second)
						f.Proof = proof
						f.Ends[change.PartitionID{Topic: "t", Partition: 1}] += lag
						var ends []snapshotter.End
						for _, p := range f.Progress.State.Partitions {
							ends = append(ends, snapshotter.End{Partition: p, Offset: f.Ends[p.ID()]})
						}
						d := snapshotter.NewJudge(f.Calendar, &f.Progress.State).MaySeal(ends, f.Clock.UnixMicro(), f.Idle.Microseconds())
						proven := proof == "none" || slices.ContainsFunc(ends, func(e snapshotter.End) bool { return e.Partition.Watermark >= f.Calendar.End(f.Progress.State.Open) })
						w := Stand(f).Why(nil)
						if may := d.Seal && proven; may != (len(w.Causes) == 0) {
							t.Errorf("at %s with %q %q lag %d proof %s: seal %v, and %q", clock, first, second, lag, proof, may, w.Answer())
						}
						if held := Stand(f).Holds; (held == "") != (len(w.Causes) == 0) {
							t.Errorf("held_back_by %q, and %q", held, w.Answer())
						}
					}
				}
			}
		}
	}
}

// A topic of many partitions is told in a few sentences.
func TestWhyOfManyPartitions(t *testing.T) {
	f := facts(t, "2022-07-18T00:12:00Z", slices.Repeat([]string{"2022-07-17T23:00:00Z"}, 1000)...)
	for i := range int32(500) {
		f.Ends[change.PartitionID{Topic: "t", Partition: i}] += int64(i) + 1
	}
	w := Stand(f).Why(nil)
	if n := len(w.Causes); n != 12 {
		t.Fatalf("%d causes", n)
	}
	if text := w.Causes[0].Text; !strings.HasPrefix(text, "Partition t/499 is behind: 500 records") {
		t.Errorf("first: %s", text)
	}
	if text := w.Causes[10].Text; text != "490 more partitions are behind, by 120295 records together." {
		t.Errorf("the rest: %s", text)
	}
	if text := w.Causes[11].Text; !strings.Contains(text, "t/509 and 490 more are read to the end") {
		t.Errorf("idle: %s", text)
	}
}
