package savepoint

import (
	"fmt"
	"time"

	"github.com/gscd-io/gscd/snapshotter"
)

// Policy says how long the savepoints of labels are kept: all of them for a while, then
// only the last one of each period.
type Policy struct {
	// Text is the policy as a person reads it: it is what a deleted label is said to be
	// deleted by.
	Text string
	// Forever keeps all; the rest is then not looked at.
	Forever bool
	// Keep is the age up to which every savepoint is kept.
	Keep Span
	// Then are the stages behind it; ages grow from one to the next.
	Then []Stage
}

// Stage keeps the last savepoint of each period up to an age.
type Stage struct {
	// Ends is day, week, month, quarter or year.
	Ends string
	// Until is the age up to which they are kept; without meaning where Forever is set.
	Until   Span
	Forever bool
}

// Span is an age: N labels back from the newest sealed one, or time since the label's end,
// in units of the calendar's zone (a month is a month, a day may have 23 hours).
type Span struct {
	N int
	// Unit is label, hour, day, week, month or year.
	Unit string
}

// String reads "90 days".
func (s Span) String() string {
	if s.N == 1 {
		return "1 " + s.Unit
	}
	return fmt.Sprintf("%d %ss", s.N, s.Unit)
}

// Verdict says whether a policy keeps a savepoint, and why.
type Verdict struct {
	Entry
	Keep bool
	// Why is a clause for people: "the last of month 2022-06, kept for 7 years".
	Why string
}

// Judge tells of each sealed label among entries, which rise, whether the policy keeps its
// savepoint at a moment. The newest ones stay whatever the policy says: at least one, from
// which the table goes on.
//
// A label is as old as the time since its end. It is judged by the first stage whose age it
// has not passed, and stays where it is the last sealed label of a period of that stage or
// of a later one: a later stage can only keep what the stages before have left.
func (p Policy) Judge(calendar *snapshotter.Calendar, entries []Entry, now time.Time, newest int) []Verdict {
	var sealed []Entry
	for _, e := range entries {
		if e.State == Sealed && !e.Kept {
			sealed = append(sealed, e)
		}
	}
	j := judge{Policy: p, calendar: calendar, now: now, ends: map[string]Entry{}}
	for _, e := range sealed {
		for _, s := range p.Then {
			j.ends[s.Ends+j.period(e.Label, s.Ends)] = e // the last one stays
		}
	}
	if len(sealed) > 0 {
		j.newest = sealed[len(sealed)-1].Label
	}
	verdicts := make([]Verdict, len(sealed))
	for i, e := range sealed {
		verdicts[i].Entry = e
		if !p.Forever && i >= len(sealed)-max(newest, 1) {
			verdicts[i].Keep, verdicts[i].Why = true, "one of the newest, which the table can go back to"
			continue
		}
		verdicts[i].Keep, verdicts[i].Why = j.one(e)
	}
	return verdicts
}

type judge struct {
	Policy
	calendar *snapshotter.Calendar
	now      time.Time
	newest   snapshotter.Label
	ends     map[string]Entry // by kind and name of a period its last sealed label
}

func (j *judge) one(e Entry) (keep bool, why string) {
	if j.Forever || j.within(e.Label, j.Keep) {
		return true, "every one is kept for " + j.Keep.orForever(j.Forever)
	}
	passed := j.Keep
	for i, s := range j.Then {
		if !s.Forever && !j.within(e.Label, s.Until) {
			passed = s.Until
			continue
		}
		for _, later := range j.Then[i:] {
			period := j.period(e.Label, later.Ends)
			if last := j.ends[later.Ends+period]; last.Label == e.Label {
				return true, fmt.Sprintf("the last of %s %s, kept for %s", later.Ends, period, later.Until.orForever(later.Forever))
			}
		}
		period := j.period(e.Label, s.Ends)
		return false, fmt.Sprintf("older than %s, and the last of %s %s is %s", passed, s.Ends, period, j.ends[s.Ends+period].Name)
	}
	return false, "older than " + passed.String()
}

func (s Span) orForever(forever bool) string {
	if forever {
		return "ever"
	}
	return s.String()
}

// within tells that a label is no older than a span.
func (j *judge) within(l snapshotter.Label, s Span) bool {
	if s.Unit == "label" {
		return j.newest-l < snapshotter.Label(s.N)
	}
	end := time.UnixMicro(j.calendar.End(l)).In(j.calendar.Location())
	return !j.now.After(s.after(end))
}

// after is the moment at which something is as old as the span.
func (s Span) after(t time.Time) time.Time {
	months := 0
	switch s.Unit {
	case "hour":
		return t.Add(time.Duration(s.N) * time.Hour)
	case "day":
		return t.AddDate(0, 0, s.N)
	case "week":
		return t.AddDate(0, 0, 7*s.N)
	case "month":
		months = s.N
	case "year":
		months = 12 * s.N
	}
	// A month after the 31st is the last day of the next month, not one behind it.
	then := t.AddDate(0, months, 0)
	if then.Day() != t.Day() {
		then = then.AddDate(0, 0, -then.Day())
	}
	return then
}

// period names the period that a label belongs to: that of its date, of a week or a month
// that of its last day.
func (j *judge) period(l snapshotter.Label, ends string) string {
	var date time.Time
	if j.calendar.DayOrCoarser() {
		date = j.calendar.Date(l+1).AddDate(0, 0, -1)
	} else {
		date = time.UnixMicro(j.calendar.Start(l)).In(j.calendar.Location())
	}
	switch ends {
	case "week":
		year, week := date.ISOWeek()
		return fmt.Sprintf("%04d-W%02d", year, week)
	case "month":
		return date.Format("2006-01")
	case "quarter":
		return fmt.Sprintf("%04d-Q%d", date.Year(), (int(date.Month())+2)/3)
	case "year":
		return date.Format("2006")
	}
	return date.Format("2006-01-02")
}
