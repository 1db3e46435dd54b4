package snapshotter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrNotLabel: a text names no label of the calendar. The error that wraps it
// says why and shows a label of the calendar.
var ErrNotLabel = errors.New("not a label of this calendar")

// Name is the text of a label:
//
//	day     2022-07-16
//	week    2022-W28 (ISO weeks)
//	month   2022-07
//	hour    2022-07-16T13
//	15m     2022-07-16T13:15
//
// Hours and minutes carry the offset (2022-10-30T02+0200) in zones whose offset
// changes after 1999, and in other zones where it is not the one of 2000.
func (c *Calendar) Name(l Label) string {
	switch c.unit {
	case unitDay:
		return c.dateOf(l).Format("2006-01-02")
	case unitMonth:
		return c.dateOf(l).Format("2006-01")
	case unitWeek:
		y, w := c.dateOf(l).ISOWeek()
		return fmt.Sprintf("%04d-W%02d", y, w)
	}
	start := c.Start(l)
	_, seconds := time.UnixMicro(start).In(c.zone).Zone()
	offset := int64(seconds) * 1e6
	// A period that begins at a jump is named by the clock's hour, not by the jump.
	wall := floorDiv(start+offset, c.hours.period) * c.hours.period
	form := "2006-01-02T15"
	if c.unit == unitMinutes {
		form = "2006-01-02T15:04"
	}
	name := time.UnixMicro(wall).UTC().Format(form)
	if c.hours.dated || offset != c.hours.plain {
		name += offsetName(seconds)
	}
	return name
}

// offsetName is ±hhmm, with seconds where there are any.
func offsetName(seconds int) string {
	sign := "+"
	if seconds < 0 {
		sign, seconds = "-", -seconds
	}
	name := fmt.Sprintf("%s%02d%02d", sign, seconds/3600, seconds/60%60)
	if s := seconds % 60; s != 0 {
		name += fmt.Sprintf("%02d", s)
	}
	return name
}

// Parse gives the label of a name. Only the exact text that Name gives is taken;
// else the error wraps ErrNotLabel.
func (c *Calendar) Parse(name string) (Label, error) {
	l, why := c.parse(name)
	if why == "" && c.Name(l) != name {
		why = "the calendar has no such period"
	}
	if why != "" {
		return 0, fmt.Errorf("%q is %w: %s; a label looks like %s", name, ErrNotLabel, why, c.example)
	}
	return l, nil
}

// parse reads a name; why is empty where it is the form of some label.
func (c *Calendar) parse(name string) (l Label, why string) {
	switch c.unit {
	case unitDay:
		date, why := parseDate(name)
		return c.labelOf(date), why
	case unitMonth:
		date, why := parseDate(name + "-01")
		return c.labelOf(date), why
	case unitWeek:
		return c.parseWeek(name)
	default:
		return c.parseHour(name)
	}
}

// parseDate reads YYYY-MM-DD of the years 1 to 9999.
func parseDate(text string) (date time.Time, why string) {
	if !shaped(text, "0000-00-00") {
		return date, "that is another form"
	}
	date, err := time.Parse("2006-01-02", text)
	if err != nil {
		return date, "there is no such date"
	}
	if date.Year() < 1 {
		return date, "years begin with 0001"
	}
	return date, ""
}

func (c *Calendar) parseWeek(name string) (l Label, why string) {
	if !shaped(name, "0000-W00") {
		return 0, "that is another form"
	}
	var year, week int
	if _, err := fmt.Sscanf(name, "%d-W%d", &year, &week); err != nil {
		return 0, "that is another form"
	}
	if year < 1 || week < 1 || week > 53 {
		return 0, "years begin with 0001, weeks are 01 to 53"
	}
	// 4 January is always in the first ISO week.
	return c.labelOf(time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC)) + Label(week-1), ""
}

// parseHour reads the label of an hour or some minutes.
func (c *Calendar) parseHour(name string) (l Label, why string) {
	form, layout := "0000-00-00T00", "2006-01-02T15"
	if c.unit == unitMinutes {
		form, layout = "0000-00-00T00:00", "2006-01-02T15:04"
	}
	clock, zone := name, ""
	if len(name) > len(form) {
		clock, zone = name[:len(form)], name[len(form):]
	}
	if !shaped(clock, form) || zone != "" && !shaped(zone, "+0000") && !shaped(zone, "+000000") {
		return 0, "that is another form"
	}
	wall, err := time.Parse(layout, clock)
	if err != nil {
		return 0, "there is no such time"
	}
	if wall.Year() < 1970 {
		return 0, "hours and minutes begin with 1970"
	}
	if wall.UnixMicro()%c.hours.period != 0 {
		return 0, "minutes are multiples of those in " + c.granularity
	}
	hits := c.showing(wall.UnixMicro())
	for _, l := range hits {
		if c.Name(l) == name {
			return l, ""
		}
	}
	if len(hits) == 0 {
		return 0, "the zone's clock skips that time"
	}
	var names []string
	for _, l := range hits {
		names = append(names, c.Name(l))
	}
	return 0, "that time is " + strings.Join(names, " or ")
}

// showing lists the labels of the period that the clock shows at wall, a time in
// microseconds as if the clock were UTC; wall is the period's first on the clock.
func (c *Calendar) showing(wall int64) []Label {
	var found []Label
	const day = 24 * 3600 * 1e6
	for _, around := range []int64{wall - day, wall + day} {
		_, seconds := time.UnixMicro(around).In(c.zone).Zone()
		t := wall - int64(seconds)*1e6
		// At a jump only the period's beginning, or only its end, may exist.
		for _, t := range []int64{t, t + c.hours.period - 1} {
			l := c.Label(t)
			if name := c.Name(l); !slices.Contains(found, l) && strings.HasPrefix(name, c.clockName(wall)) {
				found = append(found, l)
			}
		}
	}
	slices.Sort(found)
	return found
}

// clockName is a label's name without the offset.
func (c *Calendar) clockName(wall int64) string {
	if c.unit == unitMinutes {
		return time.UnixMicro(wall).UTC().Format("2006-01-02T15:04")
	}
	return time.UnixMicro(wall).UTC().Format("2006-01-02T15")
}

// shaped reports whether text has the form: a digit where the form has 0, a sign
// where it has +, else the same byte.
func shaped(text, form string) bool {
	if len(text) != len(form) {
		return false
	}
	for i := range len(form) {
		switch ch := text[i]; form[i] {
		case '0':
			if ch < '0' || ch > '9' {
				return false
			}
		case '+':
			if ch != '+' && ch != '-' {
				return false
			}
		default:
			if ch != form[i] {
				return false
			}
		}
	}
	return true
}
