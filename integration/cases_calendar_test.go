package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// childZone tells a copy of the test binary that it runs under a TZ of its own.
const childZone = "GSCD_TEST_TZ_CHILD"

func TestCase06MidnightInTheZone(t *testing.T) {
	c := theCase(t, 6)
	c.everyWay(func(t *testing.T, r *rig) {
		r.play(c.steps("Input"), nil)
		c.checkAsOf(t, r)
		r.checkVersions(false)
	})
	r := newRig(t, newTopic(0))
	r.play(c.steps("Input"), nil)
	story := "labels:"
	for _, e := range r.labels().Entries {
		story += fmt.Sprintf(" %s=%s@%d", e.Name, e.State, e.Version)
	}
	for _, e := range r.labels().Entries {
		for _, row := range r.mustAsOf(e.Name) {
			story += "|" + e.Name + " " + row.text()
		}
	}
	if zone := os.Getenv(childZone); zone != "" {
		fmt.Printf("story %s\n", story)
	}
	c.theMust(1, func(t *testing.T) {
		if os.Getenv(childZone) != "" {
			return
		}
		for _, zone := range []string{"UTC", "Asia/Shanghai", "America/Los_Angeles"} {
			child := exec.Command(os.Args[0], "-test.run=^TestCase06MidnightInTheZone$", "-test.v")
			child.Env = append(os.Environ(), "TZ="+zone, childZone+"="+zone)
			out, err := child.CombinedOutput()
			if err != nil {
				t.Fatalf("TZ=%s: %v\n%s", zone, err, out)
			}
			if !strings.Contains(string(out), "story "+story+"\n") {
				t.Errorf("TZ=%s: not the same story:\n%s\nwant %s", zone, out, story)
			}
		}
	})
	c.theMust(2, func(t *testing.T) {
		equal(t, "ids of the 16th", fmt.Sprint(ids(r.mustAsOf("2022-07-16"))), "[1]")
		ev := r.evidence("2022-07-17")
		equal(t, "inserts of the 17th", ev.Counts.Inserts, 2)
	})
	c.leaveMust(3, "savepoints don't expire by policy yet; the one zone of the table's calendar is what labels are named by")
	c.theMust(4, func(t *testing.T) {
		equal(t, "zone of the table", r.labels().Calendar.Timezone(), "Asia/Shanghai")
		versions := len(r.log())
		r.options.Calendar = calendar(t, "day", "UTC")
		r.restart()
		err := r.work()
		if !errors.Is(err, ingest.ErrCalendar) {
			t.Errorf("another zone: %v", err)
		}
		says(t, err, "Asia/Shanghai", "UTC")
		equal(t, "versions", len(r.log()), versions)
	})
}

func TestCase07DaysOf25And23Hours(t *testing.T) {
	c := theCase(t, 7)
	berlin := func(o *ingest.Options) {
		var err error
		if o.Calendar, err = snapshotter.NewCalendar("day", "Europe/Berlin", ""); err != nil {
			t.Fatal(err)
		}
	}
	for heading, days := range map[string][]string{"short day": {"2022-03-27", "2022-03-28"}, "long day": {"2022-10-30"}} {
		c.Run(heading, func(t *testing.T) {
			c.everyWay(func(t *testing.T, r *rig) {
				r.play(c.steps("Input, "+heading), nil)
				sameList(t, "sealed", r.sealed(), days)
				for _, e := range c.expect(func(e *expectation) bool { return slices.Contains(days, e.text("as_of")) }, "as_of", "ids") {
					sameList(t, "as of "+e.text("as_of"), ids(r.mustAsOf(e.text("as_of"))), e.ids(t, "ids"))
				}
				r.checkVersions(false)
			}, berlin)
		})
	}
	long := recordsOf(c.steps("Input, long day"))
	c.theMust(1, func(t *testing.T) {
		r := newRig(t, newTopic(0), berlin)
		cal := r.options.Calendar
		day, err := cal.Parse("2022-10-30")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "hours of the day", (cal.End(day)-cal.Start(day))/3_600_000_000, 25)
		r.send(long...)
		r.workAt("2022-10-31T00:20:00+01:00")
		if !slices.Contains(ids(r.mustAsOf("2022-10-30")), "5") {
			t.Error("key 5 is not in the 30th")
		}
	})
	c.theMust(2, func(t *testing.T) {
		r := newRig(t, newTopic(0), berlin)
		r.send(long...)
		r.workAt("2022-10-30T23:59:00+01:00")
		sameList(t, "sealed", r.sealed(), nil)
		resolved, err := r.labels().Resolve("2022-10-30", false)
		if err != nil || resolved.Entry.State != savepoint.Open {
			t.Errorf("the 30th: %+v, %v", resolved, err)
		}
		r.workAt("2022-10-31T00:15:00+01:00")
		sameList(t, "sealed at 00:15", r.sealed(), []string{"2022-10-30"})
	})
	c.theMust(3, func(t *testing.T) {
		for _, zone := range []string{
			"UTC", "Asia/Shanghai", "Europe/Berlin", "America/Los_Angeles", "America/Sao_Paulo",
			"Australia/Lord_Howe", "Asia/Tehran", "Africa/Cairo", "Pacific/Apia", "Asia/Kathmandu",
		} {
			cal := calendar(t, "day", zone)
			first, last := cal.Label(instant(t, "2000-01-01T12:00:00Z").UnixMicro()), cal.Label(instant(t, "2040-12-31T12:00:00Z").UnixMicro())
			empty := 0
			for day := first; day <= last; day++ {
				start, end := cal.Start(day), cal.End(day)
				if next := cal.Start(day + 1); end != next {
					t.Fatalf("%s: %s ends at %d, the next begins at %d", zone, cal.Name(day), end, next)
				}
				if start == end {
					empty++ // a date that the clock skipped
					continue
				}
				if cal.Label(start) != day || cal.Label(end-1) != day || cal.Label(start-1) == day || cal.Label(end) == day {
					t.Fatalf("%s: the edges of %s belong to %s, %s, %s, %s", zone, cal.Name(day),
						cal.Name(cal.Label(start-1)), cal.Name(cal.Label(start)), cal.Name(cal.Label(end-1)), cal.Name(cal.Label(end)))
				}
			}
			want := 0
			if zone == "Pacific/Apia" {
				want = 1 // 2011-12-30
			}
			equal(t, zone+": skipped dates", empty, want)
		}
	})
}
