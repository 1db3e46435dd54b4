package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/maintain"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

type maintainFlags struct {
	once, dryRun  bool
	retain, grace string
}

// maintainSettings are flags that stand for a key of the configuration.
var maintainSettings = []settingFlag{
	{"interval", "process.maintain_interval", "duration", "`duration` from one round to the next, without --once (default 1h)"},
}

func newMaintainCommand(a *app) *cobra.Command {
	var f maintainFlags
	c := &cobra.Command{
		Use:         "maintain",
		GroupID:     groupChanging,
		Annotations: map[string]string{stopsCleanly: "yes"},
		Short:       "Keep tables small and savepoints as the policy says: measure, and act on the figures",
		Long: `Makes a round over the configured tables, or the one of --table, and then one every
--interval until it is stopped; with --once a single one. It works beside a running
ingester. For each table it

  sets the properties again that keep other engines away from savepoints,
  measures how the rows lie in files, and writes files anew where a figure passes its
    threshold (maintain.extra_files, maintain.dead_share, maintain.unclustered_share);
    files that savepoints need are left where they would be stored twice for little,
  deletes the savepoints that retention.savepoints does not keep, in a commit that names them,
  records the content checksum of each savepoint that has none, for gscd check --deep
    (maintain.checksums),
  removes what neither a savepoint nor retention.history needs, and cleans the log,
  moves files that only old savepoints need to another storage class (retention.tier).

Prints each figure, and what was done. --dry-run makes one round that writes nothing and
prints what one would do: also what each savepoint holds alone (the value in bytes), and
why it stays or goes.`,
		Example: `  gscd maintain --dry-run
  gscd maintain -c gscd.yaml --once
  gscd maintain -c gscd.yaml --interval 30m`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.config(settings(c.Flags(), maintainSettings)...)
			if err != nil {
				return err
			}
			m := &maintenance{app: a, retain: -1, grace: defaultGrace, dryRun: f.dryRun}
			for _, d := range []struct {
				name, text string
				into       *time.Duration
			}{{"retain", f.retain, &m.retain}, {"grace", f.grace, &m.grace}} {
				if !c.Flags().Changed(d.name) {
					continue
				}
				if *d.into, err = config.ParseDuration(d.text); err != nil {
					return usagef("--%s: %w", d.name, err)
				}
			}
			if m.tables, err = a.tablesToMaintain(cfg); err != nil {
				return err
			}
			if f.once || f.dryRun {
				return m.round(c.Context())
			}
			return m.rounds(c.Context(), cfg.Process.MaintainInterval)
		},
	}
	flags := c.Flags()
	addSettingFlags(flags, maintainSettings)
	flags.BoolVar(&f.once, "once", false, "make one round, and end")
	flags.BoolVar(&f.dryRun, "dry-run", false, "make one round that writes nothing, and print what it would do")
	flags.StringVar(&f.retain, "retain", "", "keep every version younger than this `duration` (default retention.history, 24h)")
	flags.StringVar(&f.grace, "grace", "", "keep every file younger than this `duration` (default 1h)")
	return c
}

// tablesToMaintain are all configured tables, or the one that --table names.
func (a *app) tablesToMaintain(cfg *config.Config) (refs []tableRef, err error) {
	if a.flags.table == "" && len(cfg.Tables) > 0 {
		for i := range cfg.Tables {
			refs = append(refs, configured(&cfg.Tables[i]))
		}
		return refs, nil
	}
	ref, err := resolveTable(cfg, a.flags.table)
	return []tableRef{ref}, err
}

// maintenance is the run of the command.
type maintenance struct {
	*app
	tables        []tableRef
	retain, grace time.Duration // retain below 0: as configured
	dryRun        bool
}

// jitter is the share of the interval by which rounds of several processes are kept apart.
const jitter = 0.1

// rounds makes one after the other. What fails in one is tried again in the next.
func (m *maintenance) rounds(ctx context.Context, every time.Duration) error {
	for {
		next := time.Now().Add(every + time.Duration(jitter*rand.Float64()*float64(every)))
		if err := m.round(ctx); err != nil && ctx.Err() == nil {
			m.log.Error("maintenance failed; it is tried again in the next round", zap.Time("at", next), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next)):
		}
	}
}

// round makes a pass over each table.
func (m *maintenance) round(ctx context.Context) error {
	w, err := m.printRecords("table", "step", "what", "value", "note")
	if err != nil {
		return err
	}
	var faults []error
	var notices []string // behind the figures, which come at the end
	for _, ref := range m.tables {
		if ctx.Err() != nil {
			break
		}
		report, err := m.pass(ctx, ref)
		if err != nil {
			faults = append(faults, fmt.Errorf("maintain table %s: %w", ref.Name, err))
		}
		if report == nil {
			continue
		}
		if err := printLines(w, ref.Name, report); err != nil {
			return err
		}
		did := "nothing to do"
		if len(report.Did) > 0 {
			did = strings.Join(report.Did, "; ")
		}
		notices = append(notices, ref.Name+": "+did)
	}
	faults = append(faults, ctx.Err(), w.Close())
	for _, notice := range notices {
		m.noticef("%s", notice)
	}
	return errors.Join(faults...)
}

func printLines(w *output.RecordWriter, table string, r *maintain.Report) error {
	for _, l := range r.Lines {
		if err := w.Write(table, l.Step, l.What, l.Value, l.Note); err != nil {
			return err
		}
	}
	return nil
}

// pass looks after one table. The report may be there with an error.
func (m *maintenance) pass(ctx context.Context, ref tableRef) (*maintain.Report, error) {
	t, err := m.openRef(ctx, ref)
	if err != nil {
		return nil, err
	}
	if t.labels == nil {
		return nil, fmt.Errorf("%w: gscd optimize and gscd vacuum work on any table", savepoint.ErrForeign)
	}
	o := maintainOptions(ref.Config)
	if m.retain >= 0 {
		o.History = m.retain
	}
	o.Grace, o.DryRun, o.Now = m.grace, m.dryRun, time.Now()
	o.Layout, o.Steps = ingest.Layout, m.maintainSteps(t)
	o.Progress = m.steps.work()
	started := time.Now()
	report, err := maintain.Run(ctx, t.table, o)
	m.steps.close()
	m.log.Debug("a pass of maintenance ended", zap.String("table", ref.Name), zap.Duration("took", time.Since(started)), zap.Strings("did", report.Did))
	return report, err
}

// maintainSteps are done with a table beside what maintain knows itself.
func (a *app) maintainSteps(t *openedTable) (steps []maintain.Step) {
	if t.Config == nil || t.Config.Maintain.Checksums {
		steps = append(steps, maintain.Step{Name: "checksums", Run: recordChecksums})
	}
	return steps
}

// recordChecksums is the step that records the content checksums of savepoints that have none.
func recordChecksums(ctx context.Context, p maintain.Pass) (maintain.Outcome, error) {
	done, err := savepoint.RecordChecksums(ctx, p.Table, savepoint.ChecksumOptions{DryRun: p.DryRun, Progress: p.Progress})
	out := maintain.Outcome{Changed: len(done) > 0 && !p.DryRun, Figures: map[string]int64{"recorded": int64(len(done))}}
	switch {
	case len(done) > 0 && p.DryRun:
		out.Did = fmt.Sprintf("would record the content checksums of %d savepoints", len(done))
	case len(done) > 0:
		out.Did = fmt.Sprintf("recorded the content checksums of %d savepoints", len(done))
	}
	return out, err
}

// maintainOptions are what the settings of a table say; nil stands for a table that is not
// configured.
func maintainOptions(t *config.Table) maintain.Options {
	if t == nil {
		return maintain.Options{History: defaultHistory, RolledBack: defaultRolledBack, Retention: savepoint.Policy{Text: "forever", Forever: true}}
	}
	o := maintain.Options{
		History: t.Retention.History, RolledBack: t.Retention.RolledBack, Retention: policyOf(t.Retention.Savepoints),
		Thresholds: maintain.Thresholds{
			ExtraFiles: t.Maintain.ExtraFiles, DeadShare: literal(float64(t.Maintain.DeadShare)),
			PinnedBytes: int64(literal(float64(t.Maintain.PinnedBytes))), UnclusteredShare: literal(float64(t.Maintain.UnclusteredShare)),
		},
	}
	if tier := t.Retention.Tier; tier.Class != "" {
		o.Tier = &maintain.Tier{After: tier.After, Class: tier.Class}
	}
	return o
}

// policyOf is a configured policy in the words of savepoint.
func policyOf(p config.Policy) savepoint.Policy {
	out := savepoint.Policy{Text: p.String(), Forever: p.Forever, Keep: savepoint.Span(p.Keep)}
	for _, s := range p.Then {
		out.Then = append(out.Then, savepoint.Stage{Ends: s.Ends, Until: savepoint.Span(s.Until), Forever: s.Forever})
	}
	return out
}
