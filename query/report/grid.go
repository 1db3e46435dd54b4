package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/gscd-io/gscd/savepoint"
)

// grid is the days as a calendar: pictures one behind the other.
type grid struct {
	Sheets []*sheet
	// Steps are the numbers of changes from which on the shades 1, 2, … begin.
	Steps []int64
}

// sheet is a picture: a month, a year, or some days of hours.
type sheet struct {
	Title         string
	Width, Height int
	Texts         []gridText
	Cells         []gridCell
}

type gridText struct {
	X, Y int
	Text string
	End  bool // it ends at X
}

// gridCell is a period in a sheet.
type gridCell struct {
	X, Y, W, H int
	// Class is the state, Shade how much has changed, 0 to 4.
	Class string
	Shade int
	// Mark tells that there is a problem.
	Mark bool
	// Text stands in the cell, Title says all of it.
	Text, Title string
}

// sheetsOfMonths is up to how many months of days are drawn as sheets of a month.
const sheetsOfMonths = 6

// gridOf draws the days. Kept rolled-back savepoints have no place of their own.
func gridOf(r *Report) *grid {
	var days []*Day
	var changes []int64
	marked := map[string]bool{}
	for _, p := range r.Problems {
		if p.Severity != "note" {
			marked[p.Label] = true
		}
	}
	for i := range r.Days {
		if d := &r.Days[i]; !d.Kept {
			days = append(days, d)
			if n := d.changes(); d.Known && n > 0 {
				changes = append(changes, n)
			}
		}
	}
	g := &grid{Steps: quartiles(changes)}
	draw := &drawing{grid: g, marked: marked, taken: map[[3]int]bool{}}
	if len(days) == 0 {
		return g
	}
	starts := make([]time.Time, len(days))
	for i, d := range days {
		starts[i] = r.clockOf(d)
	}
	switch granularity := r.Calendar.Granularity(); granularity {
	case "day":
		first, last := starts[0], starts[len(starts)-1]
		if months(first, last) <= sheetsOfMonths {
			draw.months(days, starts)
		} else {
			draw.years(days, starts)
		}
	case "week", "month":
		draw.rows(days, starts, granularity)
	default:
		draw.hours(days, starts, r.period())
	}
	return g
}

// clockOf is the date and time that a label names, as a time in UTC.
func (r *Report) clockOf(d *Day) time.Time {
	for _, form := range []string{time.DateOnly, "2006-01"} {
		if t, err := time.Parse(form, d.Name); err == nil {
			return t
		}
	}
	start := time.UnixMicro(r.Calendar.Start(d.Label)).In(r.Calendar.Location())
	if r.Calendar.Granularity() == "week" {
		start = start.Add(24 * time.Hour) // clear of a cutover
	}
	return time.Date(start.Year(), start.Month(), start.Day(), start.Hour(), start.Minute(), 0, 0, time.UTC)
}

// period is the length of a label of hours or minutes, in minutes.
func (r *Report) period() int {
	minutes := 60
	_, _ = fmt.Sscanf(r.Calendar.Granularity(), "%dm", &minutes)
	return minutes
}

func months(first, last time.Time) int {
	return (last.Year()-first.Year())*12 + int(last.Month()-first.Month()) + 1
}

// quartiles gives the least value and those that a quarter, half and three quarters are
// below: the steps of the shades.
func quartiles(values []int64) []int64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	var steps []int64
	for q := range 4 {
		if v := values[len(values)*q/4]; len(steps) == 0 || v > steps[len(steps)-1] {
			steps = append(steps, v)
		}
	}
	return steps
}

// drawing puts cells into sheets.
type drawing struct {
	*grid
	marked map[string]bool
	taken  map[[3]int]bool // places of the last sheet: its number, x and y
}

func (g *drawing) sheet(title string) *sheet {
	s := &sheet{Title: title}
	g.Sheets = append(g.Sheets, s)
	return s
}

// cell draws a day. A place that is taken, where the clock went back, is shared.
func (g *drawing) cell(s *sheet, d *Day, x, y, w, h int, text string) {
	c := gridCell{X: x, Y: y, W: w, H: h, Class: classOf(d), Text: text, Title: d.title(), Mark: g.marked[d.Name]}
	for c.Shade < len(g.Steps) && d.Known && d.changes() >= g.Steps[c.Shade] {
		c.Shade++
	}
	place := [3]int{len(g.Sheets), x, y}
	if g.taken[place] && w > 3 {
		c.X, c.W = x+w/2, w-w/2
	}
	g.taken[place] = true
	s.Cells = append(s.Cells, c)
	s.Width, s.Height = max(s.Width, x+w+2), max(s.Height, y+h+2)
}

// blank draws a period of the calendar without a label.
func (s *sheet) blank(x, y, w, h int, text string) {
	s.Cells = append(s.Cells, gridCell{X: x, Y: y, W: w, H: h, Class: "none", Text: text})
	s.Width, s.Height = max(s.Width, x+w+2), max(s.Height, y+h+2)
}

func (s *sheet) text(x, y int, end bool, text string) {
	s.Texts = append(s.Texts, gridText{x, y, text, end})
}

func classOf(d *Day) string {
	switch d.State {
	case savepoint.Open:
		return "open"
	case savepoint.RolledBack:
		return "back"
	case savepoint.DeletedOne:
		return "gone"
	}
	return "sealed"
}

// weekday counts from Monday.
func weekday(t time.Time) int { return (int(t.Weekday()) + 6) % 7 }

// months draws a sheet for each month, a row a week.
func (g *drawing) months(days []*Day, starts []time.Time) {
	const w, h, gap, top = 36, 32, 3, 18
	var s *sheet
	shown := map[string]bool{}
	for i, d := range days {
		at := starts[i]
		first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		if title := at.Format("January 2006"); !shown[title] {
			shown[title] = true
			s = g.sheet(title)
			for n, name := range []string{"Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"} {
				s.text(n*(w+gap)+w/2-7, top-6, false, name)
			}
			for day := first; day.Month() == first.Month(); day = day.AddDate(0, 0, 1) {
				if day.Before(starts[0]) || day.After(starts[len(starts)-1]) {
					x, y := weekday(day)*(w+gap), top+(day.Day()-1+weekday(first))/7*(h+gap)
					s.blank(x+1, y+1, w, h, fmt.Sprint(day.Day()))
				}
			}
		}
		x, y := weekday(at)*(w+gap), top+(at.Day()-1+weekday(first))/7*(h+gap)
		g.cell(s, d, x+1, y+1, w, h, fmt.Sprint(at.Day()))
	}
}

// years draws a sheet for each year, a column a week.
func (g *drawing) years(days []*Day, starts []time.Time) {
	const side, gap, left, top = 13, 3, 30, 16
	var s *sheet
	year := 0
	for i, d := range days {
		at := starts[i]
		first := time.Date(at.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
		if at.Year() != year {
			year = at.Year()
			s = g.sheet(fmt.Sprint(year))
			for _, n := range []int{0, 2, 4, 6} {
				s.text(0, top+n*(side+gap)+11, false, []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}[n])
			}
			for m := range 12 {
				day := first.AddDate(0, m, 0)
				s.text(left+(day.YearDay()-1+weekday(first))/7*(side+gap), top-5, false, day.Format("Jan"))
			}
			for day := first; day.Year() == year; day = day.AddDate(0, 0, 1) {
				if day.Before(starts[0]) || day.After(starts[len(starts)-1]) {
					s.blank(left+(day.YearDay()-1+weekday(first))/7*(side+gap)+1, top+weekday(day)*(side+gap)+1, side, side, "")
				}
			}
		}
		g.cell(s, d, left+(at.YearDay()-1+weekday(first))/7*(side+gap)+1, top+weekday(at)*(side+gap)+1, side, side, "")
	}
}

// rows draws weeks or months: a row a year.
func (g *drawing) rows(days []*Day, starts []time.Time, granularity string) {
	const h, gap, left, top = 18, 3, 42, 16
	w := 13
	if granularity == "month" {
		w = 44
	}
	s := g.sheet("")
	firstYear, shown := 0, map[int]bool{}
	for i, d := range days {
		year, n := starts[i].Year(), int(starts[i].Month())-1
		if granularity == "week" {
			year, n = starts[i].ISOWeek()
			n--
		}
		if i == 0 {
			firstYear = year
			for c := range pick(granularity == "month", 12, 53) {
				switch {
				case granularity == "month":
					s.text(left+c*(w+gap)+10, top-5, false, time.Month(c + 1).String()[:3])
				case c%4 == 0:
					s.text(left+c*(w+gap), top-5, false, fmt.Sprintf("W%02d", c+1))
				}
			}
		}
		y := top + (year-firstYear)*(h+gap)
		if !shown[year] {
			shown[year] = true
			s.text(left-6, y+13, true, fmt.Sprint(year))
		}
		g.cell(s, d, left+n*(w+gap)+1, y+1, w, h, "")
	}
}

// hours draws labels of hours or minutes: a row a day, or a row an hour where a day has
// too many; a sheet for at most rowsOfSheet rows.
func (g *drawing) hours(days []*Day, starts []time.Time, minutes int) {
	const h, gap, left, top, rowsOfSheet = 13, 2, 96, 16, 62
	unit, form := 24*60, time.DateOnly
	if unit/minutes > 96 {
		unit, form = 60, "2006-01-02 15h"
	}
	columns := unit / minutes
	w := max(5, min(26, 760/columns-gap))
	var s *sheet
	row, rows := time.Time{}, 0
	for i, d := range days {
		at := starts[i]
		of := at.Truncate(time.Duration(unit) * time.Minute)
		if s == nil || !of.Equal(row) {
			if rows++; s == nil || rows > rowsOfSheet {
				s, rows = g.sheet(""), 1
				for c := 0; c < columns; c += max(1, columns/8) {
					text := fmt.Sprintf("%02d", c*minutes/60)
					if unit == 60 {
						text = fmt.Sprintf(":%02d", c*minutes)
					}
					s.text(left+c*(w+gap), top-5, false, text)
				}
			}
			row = of
			s.text(left-8, top+(rows-1)*(h+gap)+11, true, of.Format(form))
		}
		c := int(at.Sub(of).Minutes()) / minutes
		g.cell(s, d, left+c*(w+gap)+1, top+(rows-1)*(h+gap)+1, w, h, "")
	}
	// All sheets are as wide as a full row.
	for _, s := range g.Sheets {
		s.Width = left + columns*(w+gap) + 2
	}
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
