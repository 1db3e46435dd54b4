package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// MaxDays is how many labels a page shows at most: the last ones. Three years of days
// and one of hours fit.
const MaxDays = 10_000

// Source is the table that a report is of. Labels must not be nil.
type Source struct {
	Name   string
	Store  objstore.Store
	Table  *delta.Table
	Newest *delta.Snapshot
	Labels *savepoint.Map
}

// Options say how much a report looks at.
type Options struct {
	// Labels is of how many of the last labels the columns are described; 0: of none.
	Labels int
	// Columns are those to describe, by name; nil: all.
	Columns []string
	// MaxRows bounds the rows whose values are read, over all labels.
	MaxRows int64
	// Check looks whether all that the savepoints depend on is there (savepoint.Check
	// without Deep).
	Check bool
	// MemoryLimit, TempLimit and TempDir are those of query/sql.
	MemoryLimit, TempLimit int64
	TempDir                string
	// Now is the time of the report.
	Now time.Time
	// Progress, where set, is told how far the check is.
	Progress func(what string, done, total int)
}

// Report is all that a page says of a table.
type Report struct {
	Name, Address string
	Made          time.Time
	Calendar      *snapshotter.Calendar
	Key           []string
	Table         query.Description
	// Days are by label; a rolled-back savepoint that is kept stands behind its label.
	Days []Day
	// LeftOut counts the labels before Days that the page does not show.
	LeftOut int
	// Named are the savepoints with a name of their own.
	Named []savepoint.Named
	// Partitions are where reading stands, for the open label.
	Partitions []Partition
	Problems   []Problem
	// Checked tells that savepoint.Check was run.
	Checked bool
	Profile *Profile
}

// Day is a label of the map with what is known of it.
type Day struct {
	savepoint.Summary
	// Reason says why it is incomplete, "" where it is not.
	Reason string
}

// Partition is how far one partition of the source is, by the table's own state.
type Partition struct {
	Topic  string
	Number int32
	Offset int64
	// Watermark is the highest event time taken; zero before the first.
	Watermark time.Time
	// Behind tells that it is not past the end of the open label while another one is.
	Behind bool
}

// Problem is something to look at.
type Problem struct {
	// Severity is error, warning or note.
	Severity string
	// Kind is incomplete, rolled back, behind, dead letters, foreign, check or unread.
	Kind string
	// Label is "" where it is of the whole table.
	Label string
	Text  string
}

// Build gathers what a page says. The error names what can't be read.
func Build(ctx context.Context, s Source, o Options) (*Report, error) {
	list, err := s.Labels.Summaries(ctx, s.Table, s.Newest)
	if err != nil {
		return nil, err
	}
	settings, err := savepoint.SettingsOf(s.Newest)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Name: s.Name, Address: s.Store.String(), Made: o.Now, Calendar: s.Labels.Calendar, Key: settings.Key,
		Table: query.Describe(s.Newest), Named: s.Labels.Named,
	}
	if r.LeftOut = max(0, len(list)-MaxDays); r.LeftOut > 0 {
		list = list[r.LeftOut:]
	}
	for _, sum := range list {
		d := Day{Summary: sum}
		if slices.Contains(sum.Attributes, "incomplete") {
			if d.Reason, err = reasonOf(ctx, s, sum.Entry); err != nil {
				return nil, err
			}
		}
		r.Days = append(r.Days, d)
	}
	r.standing(s.Labels)
	r.problemsOfDays(s.Labels.Progress)
	if o.Check {
		if err := r.check(ctx, s, o); err != nil {
			return nil, err
		}
	}
	if o.Labels > 0 {
		if err := r.profile(ctx, s, o); err != nil {
			return nil, err
		}
	}
	r.sortProblems()
	return r, nil
}

func reasonOf(ctx context.Context, s Source, e savepoint.Entry) (string, error) {
	if e.State == savepoint.Open {
		if inc := s.Labels.Progress.Incomplete; inc != nil {
			return inc.Reason, nil
		}
		return "", nil
	}
	seal, err := s.Labels.Seal(ctx, s.Table, e)
	if err != nil {
		return "", fmt.Errorf("%s: %w", e.Name, err)
	}
	return seal.Evidence.Reason, nil
}

// standing notes where the partitions are.
func (r *Report) standing(m *savepoint.Map) {
	st := &m.Progress.State
	end := m.Calendar.End(st.Open)
	past := slices.ContainsFunc(st.Partitions, func(p *snapshotter.Partition) bool { return p.Watermark >= end })
	for _, p := range st.Partitions {
		part := Partition{Topic: p.Topic, Number: p.Kafka, Offset: p.Next, Behind: past && !p.Heartbeat && p.Watermark < end}
		if p.Watermark != snapshotter.NoTime {
			part.Watermark = time.UnixMicro(p.Watermark).UTC()
		}
		r.Partitions = append(r.Partitions, part)
		if part.Behind {
			r.problem("note", "behind", m.Calendar.Name(st.Open),
				fmt.Sprintf("partition %s/%d is not past the end of the label, and others are: it holds the seal back", p.Topic, p.Kafka))
		}
	}
}

func (r *Report) problem(severity, kind, label, text string) {
	r.Problems = append(r.Problems, Problem{severity, kind, label, text})
}

// sortProblems puts the worst first, and of those the newest.
func (r *Report) sortProblems() {
	weight := map[string]int{"error": 0, "warning": 1, "note": 2}
	place := map[string]int{}
	for i := range r.Days {
		place[r.Days[i].Name] = i
	}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(weight[a.Severity], weight[b.Severity]), cmp.Compare(place[b.Label], place[a.Label]))
	})
}

// problemsOfDays tells what the map says. Dead letters of a day count those of the days
// before it too, so only where they grow is it the day's own.
func (r *Report) problemsOfDays(p *progress.Progress) {
	for i := range r.Days {
		d := &r.Days[i]
		switch {
		case d.Kept:
			r.problem("note", "rolled back", d.Name, "the savepoint was rolled back and is kept under this name")
		case d.State == savepoint.RolledBack:
			r.problem("warning", "rolled back", d.Name, "rolled back to "+d.To+" at "+d.At+"; no commit has named it again")
		}
		if slices.Contains(d.Attributes, "incomplete") {
			r.problem("warning", "incomplete", d.Name, d.Reason)
		}
		if d.Counts.Foreign > 0 {
			r.problem("note", "foreign", d.Name, fmt.Sprintf("%s of other programs changed rows", counted(d.Counts.Foreign, "commit")))
		}
		if n := p.DeadLetters[d.Name]; n > 0 && !d.Kept {
			text := counted(n, "change") + " could not be used; gscd dead-letter list shows them"
			if done := p.Resolved[d.Name]; done > 0 {
				text += fmt.Sprintf(" (%d were resolved while the label was open)", done)
			}
			r.problem("warning", "dead letters", d.Name, text)
		}
	}
}

func (r *Report) check(ctx context.Context, s Source, o Options) error {
	found, err := savepoint.Check(ctx, s.Table, savepoint.CheckOptions{Now: o.Now, Progress: o.Progress})
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	r.Checked = true
	for _, f := range found.Faults {
		parts := []string{f.Message}
		if f.File != "" {
			parts = append([]string{f.File}, parts...)
		}
		text := strings.Join(parts, ": ")
		if f.Repair != "" {
			text += "; " + f.Repair
		}
		r.problem(string(f.Severity), "check", f.Label, text)
	}
	return nil
}

func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
