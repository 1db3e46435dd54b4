package maintain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// Options say what a pass goes by.
type Options struct {
	Thresholds Thresholds
	// Layout gives what must be kept of a table's files; its TargetSize, MemoryLimit and
	// TempDir hold too.
	Layout func(*progress.Progress) layout.Options
	// Retention says which savepoints of labels are kept.
	Retention savepoint.Policy
	// History, Grace and RolledBack are those of savepoint.VacuumOptions.
	History, Grace, RolledBack time.Duration
	// Tier moves what only old savepoints need to another storage class; nil moves nothing.
	Tier *Tier
	// Steps are done when savepoints have gone, and before the vacuum.
	Steps []Step
	// Now is the clock that ages are counted by.
	Now    time.Time
	DryRun bool
	// Progress, where set, is told how far a step is that may take long.
	Progress func(what string, done, total int)
}

// Step is one more thing that a pass does with a table.
type Step struct {
	// Name is one word, for the report.
	Name string
	// Run does it. In a dry run it tells what it would do, and writes nothing. It must be
	// fit to run beside an ingester, and to be interrupted.
	Run func(ctx context.Context, p Pass) (Outcome, error)
}

// Pass is what a step works on: the newest version at its start.
type Pass struct {
	Table    *delta.Table
	Snapshot *delta.Snapshot
	Labels   *savepoint.Map
	Now      time.Time
	DryRun   bool
	// Progress may be nil.
	Progress func(what string, done, total int)
}

// Outcome says what a step did.
type Outcome struct {
	// Did is a line for people; "" for nothing.
	Did string
	// Changed tells that the table was changed.
	Changed bool
	// Figures are for the report, by name.
	Figures map[string]int64
}

// Line is one figure of a report.
type Line struct {
	Step, What string
	// Value is an int64 or a float64.
	Value any
	Note  string
}

// Report says what a pass found and did, or in a dry run would do.
type Report struct {
	Lines []Line
	// Did has a line for people for each thing that was done; empty where nothing was.
	Did []string
	// Figures are those before the pass.
	Figures *Figures
}

func (r *Report) line(step, what string, value any, note string) {
	r.Lines = append(r.Lines, Line{step, what, value, note})
}

func (r *Report) did(format string, args ...any) { r.Did = append(r.Did, fmt.Sprintf(format, args...)) }

// Run makes a pass over a table of gscd. A step that fails does not keep the others from
// being tried; the error has all of them. The report is given with an error too.
func Run(ctx context.Context, table *delta.Table, o Options) (*Report, error) {
	p := &pass{Options: o, table: table, report: &Report{}}
	var faults []error
	for _, step := range p.steps() {
		if err := ctx.Err(); err != nil {
			return p.report, errors.Join(append(faults, err)...)
		}
		if err := step.run(ctx); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", step.name, err))
		}
	}
	return p.report, errors.Join(faults...)
}

type pass struct {
	Options
	table  *delta.Table
	report *Report
	going  []string // labels that the policy does not keep
}

type named struct {
	name string
	run  func(context.Context) error
}

func (p *pass) steps() []named {
	list := []named{{"protect", p.protect}, {"layout", p.layout}, {"retention", p.retain}}
	for _, s := range p.Steps {
		list = append(list, named{s.Name, func(ctx context.Context) error { return p.outside(ctx, s) }})
	}
	return append(list, named{"vacuum", p.vacuum}, named{"tier", p.tier})
}

// would is "would " in a dry run.
func (p *pass) would() string {
	if p.DryRun {
		return "would "
	}
	return ""
}

func (p *pass) newest(ctx context.Context) (*delta.Snapshot, *savepoint.Map, error) {
	s, err := p.table.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := savepoint.Read(ctx, p.table, s)
	return s, m, err
}

// protect sets the properties again that keep other engines away from savepoints.
func (p *pass) protect(ctx context.Context) error {
	s, err := p.table.Snapshot(ctx)
	if err != nil {
		return err
	}
	weak := savepoint.Weakened(s)
	p.report.line("protect", "properties", int64(len(weak)), strings.Join(weak, "; "))
	if len(weak) == 0 {
		return nil
	}
	if !p.DryRun {
		if _, err := savepoint.Protect(ctx, p.table, savepoint.ProtectedDays); err != nil {
			return err
		}
	}
	p.report.did("%sset the properties again that protect savepoints: %s", p.would(), strings.Join(weak, "; "))
	return nil
}

// layout measures, and works on the files where a figure passes its threshold.
func (p *pass) layout(ctx context.Context) error {
	s, m, err := p.newest(ctx)
	if err != nil {
		return err
	}
	pinned, err := savepoint.ReadPinnedFiles(ctx, p.table, s)
	if err != nil {
		return err
	}
	base := p.Layout(m.Progress)
	f, err := measure(ctx, p.table, s, pinned, base.TargetSize)
	if err != nil {
		return err
	}
	p.report.Figures = f
	p.report.Lines = append(p.report.Lines, f.lines()...)
	d := decide(s, f, pinned, p.Thresholds, base)
	if d.why == "" {
		p.report.line("layout", "files_removed", int64(0), "the figures are within the thresholds")
		return nil
	}
	d.options.DryRun = p.DryRun
	if p.Progress != nil {
		d.options.Progress = func(done, total int64) { p.Progress("writing files anew", int(done>>10), int(total>>10)) }
	}
	r, err := layout.Optimize(ctx, p.table, d.options)
	p.report.line("layout", "files_removed", int64(r.FilesRemoved), d.why)
	p.report.line("layout", "bytes_removed", r.BytesRemoved, "")
	p.report.line("layout", "files_added", int64(r.FilesAdded), "")
	p.report.line("layout", "bytes_added", r.BytesAdded, "")
	p.report.line("layout", "rows_purged", r.RowsPurged, "")
	p.report.line("layout", "files_left", int64(r.Left), "savepoints need them: they would be stored twice")
	switch {
	case r.FilesRemoved > 0 && p.DryRun:
		p.report.did("would write %d files, %d bytes, anew: %s", r.FilesRemoved, r.BytesRemoved, d.why)
	case len(r.Versions) > 0:
		p.report.did("wrote %d files, %d bytes, into %d, %d bytes: %s", r.FilesRemoved, r.BytesRemoved, r.FilesAdded, r.BytesAdded, d.why)
	}
	return err
}

// outside does a step of the caller's.
func (p *pass) outside(ctx context.Context, step Step) error {
	s, m, err := p.newest(ctx)
	if err != nil {
		return err
	}
	out, err := step.Run(ctx, Pass{Table: p.table, Snapshot: s, Labels: m, Now: p.Now, DryRun: p.DryRun, Progress: p.Progress})
	for _, name := range slices.Sorted(maps.Keys(out.Figures)) {
		p.report.line(step.Name, name, out.Figures[name], "")
	}
	if out.Did != "" {
		p.report.did("%s", out.Did)
	}
	return err
}

// retain applies the policy. A dry run tells of every savepoint what it costs and what
// becomes of it.
func (p *pass) retain(ctx context.Context) error {
	s, m, err := p.newest(ctx)
	if err != nil {
		return err
	}
	if p.Retention.Forever && !p.DryRun {
		p.report.line("retention", "deleted", int64(0), "every savepoint is kept for ever")
		return nil
	}
	verdicts := m.Judge(p.Retention, p.Now)
	for _, v := range verdicts {
		if !v.Keep {
			p.going = append(p.going, v.Name)
		}
	}
	if p.DryRun || len(p.going) > 0 {
		own, err := m.OwnBytes(ctx, p.table, s)
		if err != nil {
			return err
		}
		p.costs(m, verdicts, own)
	}
	p.report.line("retention", "deleted", int64(len(p.going)), p.Retention.Text)
	if len(p.going) == 0 {
		return nil
	}
	if !p.DryRun {
		deleted, _, err := savepoint.ApplyPolicy(ctx, p.table, p.Retention, p.Now)
		if err != nil {
			return err
		}
		p.going = nil
		for _, v := range deleted {
			p.going = append(p.going, v.Name)
		}
	}
	p.report.did("%sdelete the savepoints of %d labels by the policy %q: %s", p.would(), len(p.going), p.Retention.Text, listed(p.going))
	return nil
}

// costs tells of the savepoints what they hold alone: in a dry run of all, else of those
// that go.
func (p *pass) costs(m *savepoint.Map, verdicts []savepoint.Verdict, own map[int64]int64) {
	for _, v := range verdicts {
		switch {
		case !v.Keep:
			p.report.line("retention", v.Name, own[v.Version], "goes: "+v.Why)
		case p.DryRun:
			p.report.line("retention", v.Name, own[v.Version], "stays: "+v.Why)
		}
	}
	if !p.DryRun {
		return
	}
	for _, e := range m.Entries {
		if e.Kept {
			p.report.line("retention", e.Name, own[e.Version], "stays: rolled back, it has a time of its own")
		}
	}
	for _, n := range m.Named {
		p.report.line("retention", n.Name, own[n.Version], "stays: it has a name")
	}
}

// listed names a few of many.
func listed(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, … %s", strings.Join(names[:most-1], ", "), names[len(names)-1])
}

// vacuum removes what nothing needs any more, and cleans the log.
func (p *pass) vacuum(ctx context.Context) error {
	r, err := savepoint.Vacuum(ctx, p.table, savepoint.VacuumOptions{
		Retain: p.History, Grace: p.Grace, RolledBack: p.RolledBack, Now: p.Now, DryRun: p.DryRun, GivenUp: p.going, Progress: p.Progress,
	})
	var files, bytes int64
	for _, kind := range slices.Sorted(maps.Keys(r.ByKind)) {
		total := r.ByKind[kind]
		p.report.line("vacuum", kind, total.Bytes, fmt.Sprintf("%d files", total.Files))
		files, bytes = files+total.Files, bytes+total.Bytes
	}
	p.report.line("vacuum", "bytes", bytes, fmt.Sprintf("%d files; %d stay", files, r.Kept))
	if len(r.Unpinned) > 0 {
		p.report.line("vacuum", "unpinned", int64(len(r.Unpinned)), strings.Join(r.Unpinned, ", "))
		p.report.did("%sunpin rolled-back savepoints: %s", p.would(), listed(r.Unpinned))
	}
	if r.Tombstones > 0 {
		p.report.line("vacuum", "tombstones", int64(r.Tombstones), "left out of a new checkpoint")
	}
	if files > 0 {
		p.report.did("%sremove %d files, %d bytes", p.would(), files, bytes)
	}
	return err
}
