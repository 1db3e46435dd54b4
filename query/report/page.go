package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/gscd-io/gscd/savepoint"
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"grouped": func(n any) string { return grouped(whole(n)) },
	"size":    func(n int64) string { return size(float64(n)) },
	"instant": instant,
	"percent": percent,
	"long":    long,
	"add":     func(a, b float64) float64 { return a + b },
}).Parse(pageText))

func whole(n any) int64 {
	if i, ok := n.(int); ok {
		return int64(i)
	}
	i, _ := n.(int64)
	return i
}

// maxProblems is how many problems a page lists.
const maxProblems = 1000

// page is what the template sees.
type page struct {
	*Report
	Style                            template.CSS
	Sealed, Troubles, Files, Vectors int
	LastSealed, OpenLabel, OpenRows  string
	CalendarText, Distinct           string
	Changes, OwnBytes                int64
	ShownProblems                    []Problem
	MoreProblems                     int
	Grid                             *grid
	Shades                           []shade
	Charts                           []*chart
	ProfileAbout, LatestLabel        string
	Latest, EveryCell                []namedCell
	DayColumns                       []dayColumn
	DayRows                          []dayRow
}

type shade struct {
	Shade int
	Text  string
}

// namedCell is a cell with the column and the label that it is of.
type namedCell struct {
	Name, Type, Label string
	Cell              Cell
}

type dayColumn struct {
	Name   string
	Number bool
	of     func(*Day) string
}

type dayRow struct {
	Name  string
	Cells []dayCell
}

type dayCell struct {
	Text   string
	Number bool
}

// Write writes the page.
func (r *Report) Write(w io.Writer) error {
	p := &page{Report: r, Style: template.CSS(styleText), Files: r.Table.Files, Vectors: r.Table.DeletionVectors, Grid: gridOf(r)} //nolint:gosec // the style is ours
	p.CalendarText = pick(strings.HasSuffix(r.Calendar.Granularity(), "m"), r.Calendar.Granularity(), r.Calendar.Granularity()+"s") + " of " + r.Calendar.Timezone()
	if cut := r.Calendar.Cutover(); cut != "00:00" {
		p.CalendarText += ", from " + cut
	}
	p.Distinct = pick(r.Profile != nil && r.Profile.Exact, "Distinct", "Distinct, about")
	p.ShownProblems = r.Problems[:min(len(r.Problems), maxProblems)]
	p.MoreProblems = len(r.Problems) - len(p.ShownProblems)
	for _, problem := range r.Problems {
		if problem.Severity != "note" {
			p.Troubles++
		}
	}
	var days []*Day
	for i := range r.Days {
		d := &r.Days[i]
		p.OwnBytes += pick(d.Known, d.OwnBytes, 0)
		if d.Kept {
			continue
		}
		switch d.State {
		case savepoint.Sealed:
			p.Sealed++
			p.LastSealed = d.Name
		case savepoint.Open:
			p.OpenLabel, p.OpenRows = d.Name, grouped(d.Rows)
		}
		p.Changes += d.changes()
		days = append(days, d)
	}
	for i, from := range p.Grid.Steps {
		text := grouped(from) + " or more changes"
		if i+1 < len(p.Grid.Steps) {
			text = grouped(from) + " to " + grouped(p.Grid.Steps[i+1]-1)
			if p.Grid.Steps[i+1]-1 == from {
				text = grouped(from)
			}
			text += " changes"
		}
		p.Shades = append(p.Shades, shade{i + 1, text})
	}
	p.Charts = chartsOf(days)
	p.describe()
	p.tabulate()
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func chartsOf(days []*Day) []*chart {
	return []*chart{
		chartOf("rows", "Rows", "Rows of the table at the end of each label.", days, true, false,
			series{Name: "rows", of: func(d *Day) int64 { return d.Rows }}),
		chartOf("changes", "Changes", "What was applied in each label.", days, false, false,
			series{Name: "inserted", of: func(d *Day) int64 { return d.Counts.Inserts }},
			series{Name: "updated", of: func(d *Day) int64 { return d.Counts.Updates }},
			series{Name: "deleted", of: func(d *Day) int64 { return d.Counts.Deletes }}),
		chartOf("drift", "Drift, late, duplicates", "Changes that came after one of the next label and were still in time; that came when their label was sealed; that came again.", days, false, false,
			series{Name: "drift", of: func(d *Day) int64 { return d.Counts.Drift }},
			series{Name: "late", of: func(d *Day) int64 { return d.Counts.Late }},
			series{Name: "duplicates", of: func(d *Day) int64 { return d.Counts.Duplicates }}),
		chartOf("storage", "Storage of each savepoint alone", "Bytes that only this savepoint holds, and that deleting it would free.", days, false, true,
			series{Name: "bytes", of: func(d *Day) int64 { return d.OwnBytes }}),
	}
}

// describe puts the profile into rows.
func (p *page) describe() {
	f := p.Profile
	if f == nil {
		return
	}
	last := len(f.Labels) - 1
	for _, c := range f.Columns {
		for i := range f.Labels {
			cell := namedCell{Name: cut(c.Name), Type: cut(c.Type), Label: f.Labels[i], Cell: c.Cells[i]}
			p.EveryCell = append(p.EveryCell, cell)
			if i == last {
				p.Latest = append(p.Latest, cell)
			}
		}
	}
	if last >= 0 {
		p.LatestLabel = f.Labels[last]
	}
	about := fmt.Sprintf("The last %d of %d labels.", len(f.Labels), f.Of)
	how := pick(f.Exact, "distinct values are counted", "distinct values are estimates (HyperLogLog, mostly within 15 %)")
	switch unread := len(f.Labels) - len(f.Read); {
	case unread == 0:
		about += fmt.Sprintf(" All %s rows of them were read; %s.", grouped(f.Rows), how)
	case len(f.Read) == 0:
		about += " No rows were read (" + f.Why + "): what is said is from the statistics in the log, and ≤ and ≥ stand where these may be wider than the truth."
	default:
		about += fmt.Sprintf(" The %s rows of the last %d were read; %s. Of the %d before no rows were read (%s): what is said of them is from the statistics in the log, and ≤ and ≥ stand where these may be wider than the truth.",
			grouped(f.Rows), len(f.Read), how, unread, f.Why)
	}
	if f.Skipped > 0 {
		about += fmt.Sprintf(" %d more columns are not described.", f.Skipped)
	}
	p.ProfileAbout = about
}

// tabulate puts the days into rows: the columns of gscd snapshots.
func (p *page) tabulate() {
	number := func(name string, of func(*Day) int64) dayColumn {
		return dayColumn{name, true, func(d *Day) string {
			if !d.Known {
				return ""
			}
			return grouped(of(d))
		}}
	}
	columns := []dayColumn{
		{"version", true, func(d *Day) string {
			if d.Version < 0 {
				return ""
			}
			return grouped(d.Version)
		}},
		{"state", false, func(d *Day) string { return string(d.State) }},
		{"sealed_at", false, func(d *Day) string { return instantText(d.SealedAt) }},
		number("rows", func(d *Day) int64 { return d.Rows }),
		{"attributes", false, func(d *Day) string { return strings.Join(d.Attributes, ", ") }},
		number("inserts", func(d *Day) int64 { return d.Counts.Inserts }),
		number("updates", func(d *Day) int64 { return d.Counts.Updates }),
		number("deletes", func(d *Day) int64 { return d.Counts.Deletes }),
		number("drift", func(d *Day) int64 { return d.Counts.Drift }),
		number("late", func(d *Day) int64 { return d.Counts.Late }),
		number("duplicates", func(d *Day) int64 { return d.Counts.Duplicates }),
		number("dead_letter", func(d *Day) int64 { return d.DeadLetters }),
		number("own_bytes", func(d *Day) int64 { return d.OwnBytes }),
	}
	p.DayColumns = append([]dayColumn{{Name: "label"}}, columns...)
	for i := range p.Days {
		d := &p.Days[i]
		row := dayRow{Name: d.Name}
		for _, c := range columns {
			row.Cells = append(row.Cells, dayCell{c.of(d), c.Number})
		}
		p.DayRows = append(p.DayRows, row)
	}
}

// Places in a cell.
func (c gridCell) MiddleX() int  { return c.X + c.W/2 }
func (c gridCell) MiddleY() int  { return c.Y + c.H/2 + 4 }
func (c gridCell) MarkX() int    { return c.X + c.W - 3 }
func (c gridCell) MarkY() int    { return c.Y + 3 }
func (c gridCell) Cross() string { return fmt.Sprintf("M%d %dL%d %d", c.X, c.Y+c.H, c.X+c.W, c.Y) }
