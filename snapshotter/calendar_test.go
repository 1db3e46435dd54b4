package snapshotter

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/alloctest"
)

func calendar(t testing.TB, granularity, zone, cutover string) *Calendar {
	t.Helper()
	c, err := NewCalendar(granularity, zone, cutover)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func micros(t testing.TB, rfc3339 string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

func parse(t testing.TB, c *Calendar, name string) Label {
	t.Helper()
	l, err := c.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func utc(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339) }

// Every day of 2000 to 2040 in ten zones: the days touch, none overlap, and each
// begins at the first instant at which the clock shows its date and the cutover.
func TestEveryDayOfFortyYears(t *testing.T) {
	zones := []string{
		"UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata",
		"Pacific/Apia", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca",
	}
	for i, zone := range zones {
		cutover := []string{"00:00", "04:00", "02:30"}[i%3]
		c := calendar(t, "day", zone, cutover)
		first, last := parse(t, c, "2000-01-01"), parse(t, c, "2040-12-31")
		start := c.Start(first)
		for l := first; l <= last; l++ {
			end := c.End(l)
			if next := c.Start(l + 1); end != next {
				t.Fatalf("%s: end(%s) = %s, start of the next day is %s", zone, c.Name(l), utc(end), utc(next))
			}
			wall := c.dateOf(l).Add(time.Duration(c.cut) * time.Second)
			if shown(c, start).Before(wall) || !shown(c, start-1).Before(wall) {
				t.Fatalf("%s: %s begins at %s", zone, c.Name(l), utc(start))
			}
			switch {
			case end < start:
				t.Fatalf("%s: %s ends before it begins", zone, c.Name(l))
			case end > start:
				if a, b := c.Label(start), c.Label(end-1); a != l || b != l {
					t.Fatalf("%s: %s: its first instant is of %s, its last of %s", zone, c.Name(l), c.Name(a), c.Name(b))
				}
			}
			if got := parse(t, c, c.Name(l)); got != l {
				t.Fatalf("%s: %s parses as %d, want %d", zone, c.Name(l), got, l)
			}
			start = end
		}
	}
}

// shown is what the zone's clock shows, as a time in UTC.
func shown(c *Calendar, t int64) time.Time {
	at := time.UnixMicro(t).In(c.zone)
	_, offset := at.Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// Every hour and quarter of three years, in zones with every kind of jump.
func TestEveryHour(t *testing.T) {
	zones := []string{
		"UTC", "Asia/Shanghai", "Asia/Kolkata", "Europe/Berlin", "America/St_Johns",
		"Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Apia", "Asia/Gaza",
	}
	for _, zone := range zones {
		for _, granularity := range []string{"hour", "15m"} {
			c := calendar(t, granularity, zone, "")
			names := map[string]bool{}
			last := c.Label(micros(t, "2012-01-05T00:00:00Z"))
			for l := c.Label(micros(t, "2010-03-01T00:00:00Z")); l < last; l++ {
				start, end, name := c.Start(l), c.End(l), c.Name(l)
				if end <= start || end-start > c.hours.period {
					t.Fatalf("%s: %s is [%s, %s)", zone, name, utc(start), utc(end))
				}
				if a, b := c.Label(start), c.Label(end-1); a != l || b != l || end != c.Start(l+1) {
					t.Fatalf("%s: %s: its first instant is of %s, its last of %s", zone, name, c.Name(a), c.Name(b))
				}
				// One clock hour and one offset inside a label.
				_, o1 := time.UnixMicro(start).In(c.zone).Zone()
				_, o2 := time.UnixMicro(end - 1).In(c.zone).Zone()
				d := time.Duration(c.hours.period) * time.Microsecond
				if o1 != o2 || !shown(c, start).Truncate(d).Equal(shown(c, end-1).Truncate(d)) {
					t.Fatalf("%s: %s holds %s and %s", zone, name, shown(c, start), shown(c, end-1))
				}
				if names[name] {
					t.Fatalf("%s: two labels are named %s", zone, name)
				}
				names[name] = true
				if got := parse(t, c, name); got != l {
					t.Fatalf("%s: %s parses as %s", zone, name, c.Name(got))
				}
			}
		}
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct{ granularity, zone, cutover, name, start, end string }{
		{"day", "Asia/Shanghai", "00:00", "2022-07-16", "2022-07-15T16:00:00Z", "2022-07-16T16:00:00Z"},
		{"day", "Asia/Shanghai", "04:00", "2022-07-16", "2022-07-15T20:00:00Z", "2022-07-16T20:00:00Z"},
		// Days of 23 and 25 hours.
		{"day", "Europe/Berlin", "00:00", "2022-03-27", "2022-03-26T23:00:00Z", "2022-03-27T22:00:00Z"},
		{"day", "Europe/Berlin", "00:00", "2022-10-30", "2022-10-29T22:00:00Z", "2022-10-30T23:00:00Z"},
		// The cutover in the hour that is skipped, and in the one that comes twice.
		{"day", "Europe/Berlin", "02:30", "2022-03-27", "2022-03-27T01:00:00Z", "2022-03-28T00:30:00Z"},
		{"day", "Europe/Berlin", "02:30", "2022-10-30", "2022-10-30T00:30:00Z", "2022-10-31T01:30:00Z"},
		// Midnight is skipped, or comes twice.
		{"day", "America/Sao_Paulo", "00:00", "2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"day", "America/Havana", "00:00", "2022-11-06", "2022-11-06T04:00:00Z", "2022-11-07T05:00:00Z"},
		// One minute past midnight back to 23:01: the new day has begun.
		{"day", "America/St_Johns", "00:00", "2010-11-07", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		// A date that the clock never showed.
		{"day", "Pacific/Apia", "00:00", "2011-12-29", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"day", "Pacific/Apia", "00:00", "2011-12-30", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"day", "Pacific/Apia", "00:00", "2011-12-31", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		// The last day of a leap year under a zone's rule for the future.
		{"day", "Europe/Berlin", "00:00", "2040-12-31", "2040-12-30T23:00:00Z", "2040-12-31T23:00:00Z"},
		{"week", "Asia/Shanghai", "00:00", "2022-W28", "2022-07-10T16:00:00Z", "2022-07-17T16:00:00Z"},
		{"week", "Europe/Berlin", "04:00", "2020-W53", "2020-12-28T03:00:00Z", "2021-01-04T03:00:00Z"},
		{"month", "Asia/Shanghai", "04:00", "2022-02", "2022-01-31T20:00:00Z", "2022-02-28T20:00:00Z"},
		{"month", "Europe/Berlin", "00:00", "2022-03", "2022-02-28T23:00:00Z", "2022-03-31T22:00:00Z"},
		{"hour", "Asia/Shanghai", "", "2022-07-16T13", "2022-07-16T05:00:00Z", "2022-07-16T06:00:00Z"},
		{"hour", "Asia/Kolkata", "", "2022-07-16T13", "2022-07-16T07:30:00Z", "2022-07-16T08:30:00Z"},
		{"hour", "Europe/Berlin", "", "2022-10-30T02+0200", "2022-10-30T00:00:00Z", "2022-10-30T01:00:00Z"},
		{"hour", "Europe/Berlin", "", "2022-10-30T02+0100", "2022-10-30T01:00:00Z", "2022-10-30T02:00:00Z"},
		{"hour", "Europe/Berlin", "", "2022-03-27T03+0200", "2022-03-27T01:00:00Z", "2022-03-27T02:00:00Z"},
		// Half an hour forward at 02:00, back at 02:00.
		{"hour", "Australia/Lord_Howe", "", "2022-10-02T02+1100", "2022-10-01T15:30:00Z", "2022-10-01T16:00:00Z"},
		{"hour", "Australia/Lord_Howe", "", "2022-04-03T01+1030", "2022-04-02T15:00:00Z", "2022-04-02T15:30:00Z"},
		{"hour", "America/St_Johns", "", "2010-03-14T00-0330", "2010-03-14T03:30:00Z", "2010-03-14T03:31:00Z"},
		{"hour", "America/St_Johns", "", "2010-03-14T01-0230", "2010-03-14T03:31:00Z", "2010-03-14T04:30:00Z"},
		{"15m", "Asia/Shanghai", "", "2022-07-16T13:15", "2022-07-16T05:15:00Z", "2022-07-16T05:30:00Z"},
		{"30m", "America/New_York", "", "2022-11-06T01:30-0400", "2022-11-06T05:30:00Z", "2022-11-06T06:00:00Z"},
		{"30m", "America/New_York", "", "2022-11-06T01:30-0500", "2022-11-06T06:30:00Z", "2022-11-06T07:00:00Z"},
		// The clock changed in 1991 for the last time: that hour alone needs the offset.
		{"hour", "Asia/Shanghai", "", "1991-09-15T01+0900", "1991-09-14T16:00:00Z", "1991-09-14T17:00:00Z"},
		{"hour", "Asia/Shanghai", "", "1991-09-15T01", "1991-09-14T17:00:00Z", "1991-09-14T18:00:00Z"},
	} {
		cal := calendar(t, c.granularity, c.zone, c.cutover)
		l := parse(t, cal, c.name)
		if start, end := utc(cal.Start(l)), utc(cal.End(l)); start != c.start || end != c.end {
			t.Errorf("%s %s %s: %s is [%s, %s), want [%s, %s)", c.granularity, c.zone, c.cutover, c.name, start, end, c.start, c.end)
		}
		if got := cal.Name(l); got != c.name {
			t.Errorf("%s %s: name %s, want %s", c.granularity, c.zone, got, c.name)
		}
	}
}

// The records of two cases from practice: midnight in the zone, the long day.
func TestLabelsOfRecords(t *testing.T) {
	shanghai, berlin := calendar(t, "day", "Asia/Shanghai", "00:00"), calendar(t, "day", "Europe/Berlin", "00:00")
	for _, c := range []struct {
		cal  *Calendar
		ms   int64
		want string
	}{
		{shanghai, 1657987199000, "2022-07-16"},
		{shanghai, 1657987200000, "2022-07-17"},
		{shanghai, 1658015999000, "2022-07-17"},
		{berlin, 1648416600000, "2022-03-27"},
		{berlin, 1648420200000, "2022-03-28"},
		{berlin, 1667089800000, "2022-10-30"},
		{berlin, 1667093400000, "2022-10-30"},
		{berlin, 1667169000000, "2022-10-30"},
		{berlin, 1667171100000, "2022-10-31"},
	} {
		if got := c.cal.Name(c.cal.Label(c.ms * 1000)); got != c.want {
			t.Errorf("%d in %s: %s, want %s", c.ms, c.cal.Timezone(), got, c.want)
		}
	}
}

// No setting of the host reaches a calendar: the test runs itself under other
// zones, and with a ZONEINFO whose Asia/Shanghai is UTC.
func TestHostHasNoSay(t *testing.T) {
	const ask = "GSCD_TEST_PRINT_LABELS"
	if os.Getenv(ask) != "" {
		c := calendar(t, "day", "Asia/Shanghai", "00:00")
		for _, ms := range []int64{1657987199000, 1657987200000, 1658015999000} {
			_, _ = os.Stdout.WriteString("label " + c.Name(c.Label(ms*1000)) + "\n")
		}
		return
	}
	lies := t.TempDir()
	if err := os.Mkdir(filepath.Join(lies, "Asia"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lies, "Asia", "Shanghai"), zoneBytes(t, "UTC"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, env := range []string{
		"TZ=UTC", "TZ=Asia/Shanghai", "TZ=America/Los_Angeles", "TZ=nonsense",
		"ZONEINFO=" + lies, "ZONEINFO=/nowhere", "ZONEINFO=" + os.Args[0],
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHostHasNoSay$")
		cmd.Env = append(os.Environ(), ask+"=1", env)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", env, err, out)
		}
		want := "label 2022-07-16\nlabel 2022-07-17\nlabel 2022-07-17\n"
		if !strings.HasPrefix(string(out), want) {
			t.Errorf("%s:\n%swant\n%s", env, out, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ granularity, zone, name, says string }{
		{"day", "Asia/Shanghai", "2022-07-32", "there is no such date; a label looks like 2022-07-16"},
		{"day", "Asia/Shanghai", "2022-02-29", "there is no such date"},
		{"day", "Asia/Shanghai", "0000-01-01", "years begin with 0001"},
		{"day", "Asia/Shanghai", "2022-7-16", "another form"},
		{"day", "Asia/Shanghai", "2022-07-16 ", "another form"},
		{"day", "Asia/Shanghai", "20220716", "another form"},
		{"day", "Asia/Shanghai", "12022-07-16", "another form"},
		{"day", "Asia/Shanghai", "2022-07-16T13", "another form"},
		{"day", "Asia/Shanghai", "", "another form"},
		{"day", "Asia/Shanghai", "２022-07-16", "another form"},
		{"week", "Asia/Shanghai", "2022-W53", "the calendar has no such period; a label looks like 2022-W28"},
		{"week", "Asia/Shanghai", "2022-W00", "weeks are 01 to 53"},
		{"week", "Asia/Shanghai", "2022-w28", "another form"},
		{"month", "Asia/Shanghai", "2022-13", "there is no such date; a label looks like 2022-07"},
		{"month", "Asia/Shanghai", "2022-07-16", "another form"},
		{"hour", "Asia/Shanghai", "2022-07-16T24", "there is no such time; a label looks like 2022-07-16T13"},
		{"hour", "Asia/Shanghai", "2022-07-16T13+0800", "that time is 2022-07-16T13"},
		{"hour", "Asia/Shanghai", "1969-07-16T13", "begin with 1970"},
		{"hour", "Europe/Berlin", "2022-10-30T02", "that time is 2022-10-30T02+0200 or 2022-10-30T02+0100"},
		{"hour", "Europe/Berlin", "2022-07-16T13+0100", "that time is 2022-07-16T13+0200"},
		{"hour", "Europe/Berlin", "2022-03-27T02+0100", "the zone's clock skips that time"},
		{"hour", "Europe/Berlin", "2022-07-16T13 0200", "another form"},
		{"15m", "Asia/Shanghai", "2022-07-16T13:20", "multiples of those in 15m; a label looks like 2022-07-16T13:15"},
		{"15m", "Asia/Shanghai", "2022-07-16T13", "another form"},
	} {
		cal := calendar(t, c.granularity, c.zone, "")
		_, err := cal.Parse(c.name)
		if !errors.Is(err, ErrNotLabel) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: Parse(%q): %v, want %q", c.granularity, c.zone, c.name, err, c.says)
		}
	}
}

func TestNewCalendarRefuses(t *testing.T) {
	for _, c := range []struct{ granularity, zone, cutover, says string }{
		{"", "UTC", "", `granularity "": write day, hour, week, month`},
		{"daily", "UTC", "", `granularity "daily"`},
		{"7m", "UTC", "", "minutes must divide the hour"},
		{"0m", "UTC", "", "write day"},
		{"05m", "UTC", "", "write day"},
		{"90m", "UTC", "", "minutes must divide the hour"},
		{"day", "UTC", "4:00", "HH:MM"},
		{"day", "UTC", "24:00", "HH:MM"},
		{"day", "UTC", "04:60", "HH:MM"},
		{"hour", "UTC", "04:00", "leave it out"},
		{"15m", "UTC", "00:15", "leave it out"},
		{"day", "", "", "no time zone: name the IANA zone"},
		{"day", "Local", "", "depends on the host"},
		{"day", "asia/shanghai", "", "did you mean Asia/Shanghai?"},
		{"day", "Europe/Tokyo", "", "did you mean Asia/Tokyo?"},
		{"day", "+08:00", "", "write a name such as"},
		{"day", "../Asia/Shanghai", "", "did you mean Asia/Shanghai?"},
		{"day", "Asia", "", "not in the IANA database"},
	} {
		_, err := NewCalendar(c.granularity, c.zone, c.cutover)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("NewCalendar(%q, %q, %q): %v, want %q", c.granularity, c.zone, c.cutover, err, c.says)
		}
	}
}

func TestCalendarJSON(t *testing.T) {
	c := calendar(t, "day", "Asia/Shanghai", "04:00")
	const want = `{"granularity":"day","timezone":"Asia/Shanghai","cutover":"04:00"}`
	if got := c.String(); got != want {
		t.Fatalf("String() = %s, want %s", got, want)
	}
	back, err := DecodeCalendar(want)
	if err != nil {
		t.Fatal(err)
	}
	if !back.Equal(c) || back.Granularity() != "day" || back.Timezone() != "Asia/Shanghai" || back.Cutover() != "04:00" {
		t.Errorf("decoded %s", back)
	}
	for _, other := range []*Calendar{nil, calendar(t, "day", "Asia/Shanghai", ""), calendar(t, "week", "Asia/Shanghai", "04:00"), calendar(t, "day", "PRC", "04:00")} {
		if c.Equal(other) {
			t.Errorf("%s equals %s", c, other)
		}
	}
	for text, says := range map[string]string{
		"":          "decode calendar",
		"{}":        "granularity",
		want + want: "more than one JSON value",
		`{"granularity":"day","timezone":"UTC","cutover":"00:00","weekday":1}`: "weekday",
		`{"granularity":"day","timezone":"Mars/Base","cutover":"00:00"}`:       "Mars/Base",
	} {
		if _, err := DecodeCalendar(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("DecodeCalendar(%s): %v, want %q", text, err, says)
		}
	}
}

func TestDayOrCoarser(t *testing.T) {
	for granularity, want := range map[string]bool{"day": true, "week": true, "month": true, "hour": false, "5m": false, "60m": false} {
		if got := calendar(t, granularity, "UTC", "").DayOrCoarser(); got != want {
			t.Errorf("%s: %v, want %v", granularity, got, want)
		}
	}
}

// Instants beyond what a calendar tells apart have labels, and bounds that are
// in order.
func TestLabelIsTotal(t *testing.T) {
	for _, granularity := range []string{"day", "week", "month", "hour", "15m"} {
		c := calendar(t, granularity, "Australia/Lord_Howe", "")
		low, high := c.Label(math.MinInt64), c.Label(math.MaxInt64)
		if low != c.Label(firstInstant) || high != c.Label(lastInstant) {
			t.Errorf("%s: labels %d to %d", granularity, low, high)
		}
		if a, b := c.Start(math.MinInt64), c.Start(math.MaxInt64); a > c.Start(low) || b < c.Start(high) {
			t.Errorf("%s: starts %s and %s", granularity, utc(a), utc(b))
		}
		_ = c.Name(math.MinInt64)
	}
}

// A cursor gives what its calendar gives, however the instants jump.
func TestCursor(t *testing.T) {
	cals := []*Calendar{
		calendar(t, "day", "America/Sao_Paulo", "04:00"), calendar(t, "month", "Pacific/Apia", ""),
		calendar(t, "week", "Asia/Gaza", "23:30"), calendar(t, "hour", "Australia/Lord_Howe", ""), calendar(t, "5m", "UTC", ""),
	}
	rapid.Check(t, func(rt *rapid.T) {
		c := rapid.SampledFrom(cals).Draw(rt, "calendar")
		cursor := c.Cursor()
		at := rapid.Int64Range(micros(t, "1969-01-01T00:00:00Z"), micros(t, "2100-01-01T00:00:00Z")).Draw(rt, "from")
		for range 50 {
			at += rapid.Int64Range(-3*86400e6, 3*86400e6).Draw(rt, "step")
			l := cursor.Label(at)
			if want := c.Label(at); l != want {
				rt.Fatalf("%s at %s: %s, want %s", c, utc(at), c.Name(l), c.Name(want))
			}
			if at < c.Start(l) || at >= c.End(l) {
				rt.Fatalf("%s: %s is not in [%s, %s)", c, utc(at), utc(c.Start(l)), utc(c.End(l)))
			}
		}
	})
}

func TestISOWeeks(t *testing.T) {
	c := calendar(t, "week", "UTC", "")
	for at := time.Date(1985, 1, 1, 12, 0, 0, 0, time.UTC); at.Year() < 2045; at = at.AddDate(0, 0, 1) {
		y, w := at.ISOWeek()
		l := c.Label(at.UnixMicro())
		gy, gw := time.UnixMicro(c.Start(l)).UTC().ISOWeek()
		if y != gy || w != gw || time.UnixMicro(c.Start(l)).UTC().Weekday() != time.Monday || parse(t, c, c.Name(l)) != l {
			t.Fatalf("%s is of week %d-%d, got %s", at, y, w, c.Name(l))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"2022-07-16", "2022-W28", "2022-07", "2022-07-16T13", "2022-10-30T02+0200", "2022-07-16T13:15", "1970-01-01T00-001730"} {
		f.Add(seed)
	}
	var cals []*Calendar
	for _, granularity := range []string{"day", "week", "month", "hour", "15m"} {
		for _, zone := range []string{"Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe"} {
			cals = append(cals, calendar(f, granularity, zone, ""))
		}
	}
	f.Fuzz(func(t *testing.T, name string) {
		alloctest.Within(t, len(name), 256, 1<<20, func() {
			for _, c := range cals {
				_, _ = c.Parse(name)
			}
		})
		for _, c := range cals {
			l, err := c.Parse(name)
			if err == nil && c.Name(l) != name {
				t.Errorf("%s: %q parses as %s", c, name, c.Name(l))
			}
			if err != nil && !strings.Contains(err.Error(), c.Example()) {
				t.Errorf("%s: %v: shows no label", c, err)
			}
		}
	})
}

func BenchmarkCursor(b *testing.B) {
	c := calendar(b, "day", "America/New_York", "04:00")
	cursor, at := c.Cursor(), micros(b, "2022-07-16T00:00:00Z")
	for b.Loop() {
		at += 1e6
		cursor.Label(at)
	}
}
