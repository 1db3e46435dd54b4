package savepoint_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// naiveKeeps is the policy said once more, label by label and by names.
func naiveKeeps(p savepoint.Policy, cal *snapshotter.Calendar, sealed []savepoint.Entry, e savepoint.Entry, now time.Time, newest int) bool {
	later := 0
	for _, o := range sealed {
		if o.Label > e.Label {
			later++
		}
	}
	if later < newest || p.Forever {
		return true
	}
	last := sealed[len(sealed)-1].Label
	young := func(s savepoint.Span) bool {
		if s.Unit == "label" {
			return int64(last-e.Label) < int64(s.N)
		}
		return !now.After(naiveAfter(time.UnixMicro(cal.End(e.Label)).In(cal.Location()), s))
	}
	if young(p.Keep) {
		return true
	}
	reached := false
	for _, s := range p.Then {
		reached = reached || s.Forever || young(s.Until)
		if !reached {
			continue
		}
		isLast := true
		for _, o := range sealed {
			if o.Label > e.Label && naivePeriod(cal, o, s.Ends) == naivePeriod(cal, e, s.Ends) {
				isLast = false
			}
		}
		if isLast {
			return true
		}
	}
	return false
}

// naiveAfter steps through the dates one by one.
func naiveAfter(t time.Time, s savepoint.Span) time.Time {
	if s.Unit == "hour" {
		return t.Add(time.Duration(s.N) * time.Hour)
	}
	date := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	n := s.N
	switch s.Unit {
	case "week":
		n *= 7
	case "year":
		n *= 12
	}
	for range n {
		if s.Unit == "day" || s.Unit == "week" {
			date = date.Add(24 * time.Hour)
			continue
		}
		first := time.Date(date.Year(), date.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		date = first
	}
	if s.Unit == "month" || s.Unit == "year" {
		date = date.AddDate(0, 0, t.Day()-1)
		if t.Day() != date.Day() { // into the month behind
			date = date.AddDate(0, 0, -date.Day())
		}
	}
	return time.Date(date.Year(), date.Month(), date.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())
}

// naivePeriod goes by the label's name.
func naivePeriod(cal *snapshotter.Calendar, e savepoint.Entry, ends string) string {
	name := e.Name
	var date time.Time
	var year, week int
	if n, _ := fmt.Sscanf(name, "%d-W%d", &year, &week); n == 2 {
		date = time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC) // in its first week
		for date.Weekday() != time.Sunday {
			date = date.AddDate(0, 0, 1)
		}
		date = date.AddDate(0, 0, 7*(week-1))
	} else if len(name) == len("2022-07") {
		first, _ := time.Parse("2006-01", name)
		date = first.AddDate(0, 1, -1)
	} else {
		date, _ = time.Parse("2006-01-02", name[:10])
	}
	switch ends {
	case "year":
		return date.Format("2006")
	case "quarter":
		return date.Format("2006") + []string{"a", "a", "a", "b", "b", "b", "c", "c", "c", "d", "d", "d"}[date.Month()-1]
	case "month":
		return date.Format("2006-01")
	case "week":
		for date.Weekday() != time.Monday {
			date = date.AddDate(0, 0, -1)
		}
	}
	return date.Format("2006-01-02")
}

func randomPolicy(r *rand.Rand) savepoint.Policy {
	units := []string{"hour", "day", "week", "month", "year", "label"}
	span := func() savepoint.Span { return savepoint.Span{N: 1 + r.IntN(40), Unit: units[r.IntN(len(units))]} }
	p := savepoint.Policy{Text: "random", Forever: r.IntN(30) == 0, Keep: span()}
	for range r.IntN(4) {
		p.Then = append(p.Then, savepoint.Stage{
			Ends: []string{"day", "week", "month", "quarter", "year"}[r.IntN(5)], Until: span(), Forever: r.IntN(6) == 0,
		})
	}
	return p
}

func TestPolicyAgainstNaiveModel(t *testing.T) {
	zones := []string{"UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo"}
	granularities := []string{"day", "day", "week", "month", "hour", "15m"}
	judged, gone := 0, 0
	for seed := range uint64(250) {
		r := rand.New(rand.NewPCG(seed, 8))
		granularity, cutover := granularities[r.IntN(len(granularities))], "00:00"
		if granularity != "hour" && granularity != "15m" {
			cutover = []string{"00:00", "04:00", "23:30"}[r.IntN(3)]
		}
		cal, err := snapshotter.NewCalendar(granularity, zones[r.IntN(len(zones))], cutover)
		if err != nil {
			t.Fatal(err)
		}
		first := cal.Label(time.Date(2010+r.IntN(14), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), 0, 0, 0, time.UTC).UnixMicro())
		var entries, sealed []savepoint.Entry
		for l := first; l < first+snapshotter.Label(20+r.IntN(220)); l++ {
			e := savepoint.Entry{Label: l, Name: cal.Name(l), State: savepoint.Sealed, Version: int64(l - first)}
			switch r.IntN(12) {
			case 0:
				e.State = savepoint.DeletedOne
			case 1:
				e.State = savepoint.RolledBack
			case 2: // shares the version of the one before, as empty labels do
				e.Version--
			}
			entries = append(entries, e)
			if e.State == savepoint.Sealed {
				sealed = append(sealed, e)
			}
			if r.IntN(20) == 0 {
				entries = append(entries, savepoint.Entry{Label: l, Name: e.Name + "@7", State: savepoint.RolledBack, Version: 7, Kept: true})
			}
		}
		last := first + snapshotter.Label(len(entries))
		entries = append(entries, savepoint.Entry{Label: last, Name: cal.Name(last), State: savepoint.Open})
		now := time.UnixMicro(cal.End(last)).Add(time.Duration(r.IntN(24*400)) * time.Hour)
		p, newest := randomPolicy(r), 1+r.IntN(2)
		verdicts := p.Judge(cal, entries, now, newest)
		if len(verdicts) != len(sealed) {
			t.Fatalf("seed %d: %d verdicts for %d sealed labels", seed, len(verdicts), len(sealed))
		}
		for i, v := range verdicts {
			judged++
			if v.Entry != sealed[i] || v.Why == "" {
				t.Fatalf("seed %d: verdict %+v of %+v", seed, v, sealed[i])
			}
			want := naiveKeeps(p, cal, sealed, v.Entry, now, newest)
			if v.Keep != want {
				t.Fatalf("seed %d: %s %s in %s, %+v at %s: keep %v (%s), the naive model says %v", seed, granularity, v.Name, cal.Timezone(), p, now, v.Keep, v.Why, want)
			}
			if !v.Keep {
				gone++
			}
		}
	}
	if gone < judged/10 || gone > judged*9/10 {
		t.Errorf("%d of %d savepoints go: the cases say little", gone, judged)
	}
}

// A policy that is applied each day comes to the same as one that is applied at the end:
// no stage takes away what a later one keeps.
func TestPolicyDayByDay(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		cal, err := snapshotter.NewCalendar([]string{"day", "week", "hour"}[r.IntN(3)], "Europe/Berlin", "")
		if err != nil {
			t.Fatal(err)
		}
		p := savepoint.Policy{Keep: savepoint.Span{N: 3 + r.IntN(20), Unit: "day"}, Then: []savepoint.Stage{
			{Ends: "week", Until: savepoint.Span{N: 60, Unit: "day"}},
			{Ends: "month", Until: savepoint.Span{N: 1, Unit: "year"}},
			{Ends: "year", Forever: true},
		}}
		first := cal.Label(time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
		var all, left []savepoint.Entry
		var now time.Time
		for l := first; l < first+500; l++ {
			e := savepoint.Entry{Label: l, Name: cal.Name(l), State: savepoint.Sealed, Version: int64(l)}
			all, left = append(all, e), append(left, e)
			now = time.UnixMicro(cal.End(l)).Add(10 * time.Minute)
			if r.IntN(3) > 0 {
				left = kept(p.Judge(cal, left, now, 1))
			}
		}
		left = kept(p.Judge(cal, left, now, 1))
		if once := kept(p.Judge(cal, all, now, 1)); !slices.Equal(left, once) {
			t.Fatalf("seed %d, %s: day by day %v\nat once %v", seed, cal.Granularity(), names(left), names(once))
		}
	}
}

func kept(verdicts []savepoint.Verdict) (list []savepoint.Entry) {
	for _, v := range verdicts {
		if v.Keep {
			list = append(list, v.Entry)
		}
	}
	return list
}

func names(list []savepoint.Entry) string {
	var text []string
	for _, e := range list {
		text = append(text, e.Name)
	}
	return strings.Join(text, " ")
}

// What the policy of the manual leaves, worked out by hand.
func TestPolicyByHand(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "Asia/Shanghai", "04:00")
	if err != nil {
		t.Fatal(err)
	}
	day := func(text string) snapshotter.Label {
		l, err := cal.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	var entries []savepoint.Entry
	for l := day("2021-11-20"); l <= day("2022-07-16"); l++ {
		entries = append(entries, savepoint.Entry{Label: l, Name: cal.Name(l), State: savepoint.Sealed})
	}
	p := savepoint.Policy{Text: "keep 30 days, then month ends for 6 months, then year ends for 7 years", Keep: savepoint.Span{N: 30, Unit: "day"}, Then: []savepoint.Stage{
		{Ends: "month", Until: savepoint.Span{N: 6, Unit: "month"}}, {Ends: "year", Until: savepoint.Span{N: 7, Unit: "year"}},
	}}
	// 2022-06-17 ended on the 18th at 04:00 in Shanghai; thirty days later is 2022-07-18 04:00.
	now := time.Date(2022, 7, 17, 20, 0, 0, 0, time.UTC) // 04:00 in Shanghai
	var got []string
	why := map[string]string{}
	for _, v := range p.Judge(cal, entries, now, 1) {
		why[v.Name] = v.Why
		if v.Keep && v.Label < day("2022-06-20") {
			got = append(got, v.Name)
		}
	}
	want := []string{"2021-12-31", "2022-01-31", "2022-02-28", "2022-03-31", "2022-04-30", "2022-05-31", "2022-06-17", "2022-06-18", "2022-06-19"}
	if !slices.Equal(got, want) {
		t.Errorf("kept %v\nwant %v", got, want)
	}
	for name, text := range map[string]string{
		"2021-12-31": "the last of year 2021, kept for 7 years",
		"2021-11-30": "older than 6 months, and the last of year 2021 is 2021-12-31",
		"2022-02-28": "the last of month 2022-02, kept for 6 months",
		"2022-06-16": "older than 30 days, and the last of month 2022-06 is 2022-06-30",
		"2022-06-17": "every one is kept for 30 days",
		"2022-07-16": "one of the newest, which the table can go back to",
	} {
		if why[name] != text {
			t.Errorf("%s: %q, want %q", name, why[name], text)
		}
	}
}
