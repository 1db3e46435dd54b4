package snapshotter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Label is one period of a calendar: a day, an hour, a week, a month or some
// minutes. It is an ordinal: the period after l is l+1. It means something only
// together with its Calendar; Calendar.Name gives the text.
type Label int64

// Calendar maps instants to labels and labels to [start, end). Every instant of
// the years 1 to 9999 has exactly one label, End(l) is Start(l+1), and labels
// never go down with time.
//
// A period starts at the first instant at which the zone's clock shows its date
// and the cutover or later: in a gap of the clock at the jump, where the clock
// shows it twice at the first. A date that the clock skipped is an empty period.
//
// A Calendar is immutable and safe for concurrent use.
type Calendar struct {
	granularity string
	timezone    string
	cutover     string

	unit    unit
	zone    *time.Location
	cut     int64 // seconds from midnight to the cutover
	hours   grid  // hour and minute labels only
	first   Label // of the year 1
	last    Label // of the year 9999
	example string
}

// unit says what a label is a period of.
type unit int

const (
	unitDay unit = iota
	unitWeek
	unitMonth
	unitHour
	unitMinutes
)

// The instants a calendar tells apart, in microseconds since 1970 UTC: the years
// 1 to 9999, less a day at each end for the zones' offsets.
var (
	firstInstant = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC).UnixMicro()
	lastInstant  = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC).UnixMicro()
)

var (
	cutoverForm = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])$`)
	minuteForm  = regexp.MustCompile(`^([1-9][0-9]?)m$`)
)

// NewCalendar makes a calendar. granularity is day, hour, week, month, or a
// divisor of 60 with an m (5m, 15m); timezone is an IANA name, looked up in the
// embedded zone data; cutover is the time HH:MM at which a day, a week (on its
// Monday) or a month (on its first day) begins, 00:00 for hours and minutes. An
// empty cutover is 00:00.
func NewCalendar(granularity, timezone, cutover string) (*Calendar, error) {
	if cutover == "" {
		cutover = "00:00"
	}
	c := &Calendar{granularity: granularity, timezone: timezone, cutover: cutover}
	period, err := c.setGranularity()
	if err != nil {
		return nil, err
	}
	at := cutoverForm.FindStringSubmatch(cutover)
	if at == nil {
		return nil, fmt.Errorf("calendar cutover %q: write a time of day from 00:00 to 23:59 as HH:MM", cutover)
	}
	hh, _ := strconv.Atoi(at[1])
	mm, _ := strconv.Atoi(at[2])
	c.cut = int64(hh*60+mm) * 60
	if period > 0 && c.cut != 0 {
		return nil, fmt.Errorf("calendar cutover %s with granularity %s: a cutover moves the start of days, weeks and months; leave it out (00:00)", cutover, granularity)
	}
	if c.zone, err = LoadZone(timezone); err != nil {
		return nil, fmt.Errorf("calendar timezone: %w", err)
	}
	if period > 0 {
		c.hours = newGrid(c.zone, period)
		c.first, c.last = c.hours.label(firstInstant), c.hours.label(lastInstant)
	} else {
		c.first = c.labelOf(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
		c.last = c.labelOf(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	}
	c.example = c.Name(c.Label(time.Date(2022, 7, 16, 5, 15, 0, 0, time.UTC).UnixMicro()))
	return c, nil
}

// setGranularity sets the unit; period is the length of hour and minute labels, else 0.
func (c *Calendar) setGranularity() (period time.Duration, err error) {
	switch c.granularity {
	case "day":
		c.unit = unitDay
		return 0, nil
	case "week":
		c.unit = unitWeek
		return 0, nil
	case "month":
		c.unit = unitMonth
		return 0, nil
	case "hour":
		c.unit = unitHour
		return time.Hour, nil
	}
	if m := minuteForm.FindStringSubmatch(c.granularity); m != nil {
		if n, _ := strconv.Atoi(m[1]); 60%n == 0 {
			c.unit = unitMinutes
			return time.Duration(n) * time.Minute, nil
		}
		return 0, fmt.Errorf("calendar granularity %s: minutes must divide the hour: 1m, 2m, 3m, 4m, 5m, 6m, 10m, 12m, 15m, 20m, 30m or 60m", c.granularity)
	}
	return 0, fmt.Errorf("calendar granularity %q: write day, hour, week, month, or minutes that divide the hour such as 5m or 15m", c.granularity)
}

// Granularity is the granularity as configured: day, hour, week, month, 15m.
func (c *Calendar) Granularity() string { return c.granularity }

// Timezone is the IANA name of the zone as configured.
func (c *Calendar) Timezone() string { return c.timezone }

// Cutover is the time of day at which a period begins, HH:MM.
func (c *Calendar) Cutover() string { return c.cutover }

// Location is the zone, from the embedded zone data.
func (c *Calendar) Location() *time.Location { return c.zone }

// DayOrCoarser tells labels of a day, a week or a month from shorter ones.
func (c *Calendar) DayOrCoarser() bool { return c.unit <= unitMonth }

// Example is the name of some label of this calendar, for messages.
func (c *Calendar) Example() string { return c.example }

// Equal reports whether both cut time alike by configuration: the same
// granularity, zone name and cutover. Two names of one zone are not equal.
func (c *Calendar) Equal(other *Calendar) bool {
	return other != nil && c.form() == other.form()
}

// Label gives the label of an instant, in microseconds since 1970 UTC. Instants
// outside the years 1 to 9999 count as the nearest one inside. In a loop, use a
// Cursor.
func (c *Calendar) Label(t int64) Label {
	t = min(max(t, firstInstant), lastInstant)
	if c.unit >= unitHour {
		return c.hours.label(t)
	}
	l := c.dateLabel(t)
	for t < c.Start(l) {
		l--
	}
	for t >= c.Start(l+1) {
		l++
	}
	return l
}

// Start is the first instant of a label, in microseconds since 1970 UTC. Labels
// outside the years 1 to 9999 count as the nearest one inside.
func (c *Calendar) Start(l Label) int64 {
	l = min(max(l, c.first), c.last+1)
	if c.unit >= unitHour {
		return c.hours.startOf(l)
	}
	return c.firstShowing(c.dateOf(l).Unix()+c.cut) * 1e6
}

// Date is the date, as a time in UTC, at which a label of a day, a week or a month begins:
// the one in its name.
func (c *Calendar) Date(l Label) time.Time { return c.dateOf(l) }

// End is the first instant behind a label: the start of the next one.
func (c *Calendar) End(l Label) int64 { return c.Start(l + 1) }

// firstShowing is the first instant at which the zone's clock shows wall or
// later. Both are in seconds since 1970, wall as if the clock were UTC.
func (c *Calendar) firstShowing(wall int64) int64 {
	// No offset and no jump of a clock is wider than a day, so what the clock
	// showed earlier than this was smaller.
	t := time.Unix(wall-36*3600, 0).In(c.zone)
	for {
		_, offset := t.Zone()
		at := max(wall-int64(offset), t.Unix())
		end, ends := offsetEnd(t)
		if !ends || at < end.Unix() {
			return at
		}
		t = end
	}
}

// dateLabel is the label of the date on the clock: the right one, or one beside
// it where the clock jumps at the cutover.
func (c *Calendar) dateLabel(t int64) Label {
	at := time.UnixMicro(t).In(c.zone)
	_, offset := at.Zone()
	wall := floorDiv(t, 1e6) + int64(offset) - c.cut
	return c.labelOf(time.Unix(wall, 0).UTC())
}

// labelOf gives the label that holds a date, which is a time in UTC; dateOf the
// date at which a label begins.
func (c *Calendar) labelOf(date time.Time) Label {
	day := floorDiv(date.Unix(), 86400)
	switch c.unit {
	case unitMonth:
		y, m, _ := date.Date()
		return Label((y-1970)*12 + int(m) - 1)
	case unitWeek:
		return Label(floorDiv(day+3, 7)) // 1969-12-29 was a Monday
	default:
		return Label(day)
	}
}

func (c *Calendar) dateOf(l Label) time.Time {
	switch c.unit {
	case unitMonth:
		return time.Date(1970, time.Month(1+l), 1, 0, 0, 0, 0, time.UTC)
	case unitWeek:
		return time.Unix((int64(l)*7-3)*86400, 0).UTC()
	default:
		return time.Unix(int64(l)*86400, 0).UTC()
	}
}

// Cursor looks up labels for one goroutine: it remembers the two periods that it
// met last, so that a lookup is a compare, also while two days overlap.
type Cursor struct {
	cal        *Calendar
	last, prev span
}

type span struct {
	start, end int64
	label      Label
}

// Cursor returns a new cursor over the calendar.
func (c *Calendar) Cursor() *Cursor { return &Cursor{cal: c} }

// Label is Calendar.Label.
func (c *Cursor) Label(t int64) Label {
	if t >= c.last.start && t < c.last.end {
		return c.last.label
	}
	c.last, c.prev = c.prev, c.last
	if t >= c.last.start && t < c.last.end {
		return c.last.label
	}
	l := c.cal.Label(t)
	c.last = span{c.cal.Start(l), c.cal.End(l), l}
	return l
}

// calendarJSON is the table property gscd.calendar.
type calendarJSON struct {
	Granularity string `json:"granularity"`
	Timezone    string `json:"timezone"`
	Cutover     string `json:"cutover"`
}

func (c *Calendar) form() calendarJSON { return calendarJSON{c.granularity, c.timezone, c.cutover} }

// MarshalJSON gives {"granularity":…,"timezone":…,"cutover":…}.
func (c *Calendar) MarshalJSON() ([]byte, error) { return json.Marshal(c.form()) }

// String is the JSON form, the value of the table property gscd.calendar.
func (c *Calendar) String() string {
	text, _ := c.MarshalJSON() // three strings: no error is possible
	return string(text)
}

// DecodeCalendar reads the JSON form that String gives. Other keys are refused:
// a later version may cut time by them.
func DecodeCalendar(text string) (*Calendar, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	var f calendarJSON
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("decode calendar %s: %w", text, err)
	}
	if d.More() {
		return nil, fmt.Errorf("decode calendar %s: more than one JSON value", text)
	}
	return NewCalendar(f.Granularity, f.Timezone, f.Cutover)
}

// floorDiv is a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
