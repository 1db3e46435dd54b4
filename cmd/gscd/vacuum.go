package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/savepoint"
)

// The retention of a table that no configuration names.
const (
	defaultHistory    = 24 * time.Hour
	defaultRolledBack = 30 * 24 * time.Hour
	defaultGrace      = time.Hour
)

func newVacuumCommand(a *app) *cobra.Command {
	var retain, grace string
	var dryRun, byLog bool
	c := &cobra.Command{
		Use:     "vacuum",
		GroupID: groupChanging,
		Short:   "Remove the files that no savepoint and no recent version needs",
		Long: `Removes data files, deletion vectors, held changes, delete markers, backups and log
entries that neither a savepoint, nor the newest version, nor a version younger than
--retain needs. Savepoints stay as they are. Rolled-back savepoints older than
retention.rolled_back are unpinned first.

--grace protects running readers and writers: below 10m it is safe only while nothing
else works on the table. --dry-run lists exactly what would be removed.
--by-log asks for what the log names as removed instead of listing the whole table; what
interrupted writers left is not found that way.`,
		Example: `  gscd vacuum --dry-run
  gscd vacuum --retain 7d --grace 2h`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o := savepoint.VacuumOptions{Retain: -1, Grace: defaultGrace, DryRun: dryRun, ByLog: byLog}
			for _, f := range []struct {
				name, text string
				into       *time.Duration
			}{{"retain", retain, &o.Retain}, {"grace", grace, &o.Grace}} {
				if !c.Flags().Changed(f.name) {
					continue
				}
				d, err := config.ParseDuration(f.text)
				if err != nil {
					return usagef("--%s: %w", f.name, err)
				}
				*f.into = d
			}
			return a.vacuum(c.Context(), o)
		},
	}
	c.Flags().StringVar(&retain, "retain", "", "keep every version younger than this `duration` (default retention.history, 24h)")
	c.Flags().StringVar(&grace, "grace", "", "keep every file younger than this `duration` (default 1h)")
	c.Flags().BoolVar(&byLog, "by-log", false, "look only at what the log names as removed, without listing the table")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "list what would be removed, and remove nothing")
	return c
}

func (a *app) vacuum(ctx context.Context, o savepoint.VacuumOptions) error {
	t, err := a.openTable(ctx)
	if err != nil {
		return err
	}
	history := defaultHistory
	o.RolledBack = defaultRolledBack
	if t.Config != nil {
		history, o.RolledBack = t.Config.Retention.History, t.Config.Retention.RolledBack
	}
	if o.Retain < 0 {
		o.Retain = history
	}
	o.Now = time.Now()
	o.Progress = a.steps.work()
	report, err := savepoint.Vacuum(ctx, t.table, o)
	a.steps.close()
	if err != nil {
		return fmt.Errorf("vacuum table %s: %w", t.Name, err)
	}
	if o.DryRun {
		err = a.printGarbage(report)
	} else {
		err = a.printTotals(report)
	}
	if err != nil {
		return err
	}
	a.noticef("%s", vacuumSummary(t.Name, report, o.DryRun))
	return nil
}

// printGarbage prints a record for each object that would be removed.
func (a *app) printGarbage(r *savepoint.VacuumReport) error {
	w, err := a.printRecords("kind", "file", "bytes")
	if err != nil {
		return err
	}
	for _, g := range r.Deleted {
		if err := w.Write(g.Kind, g.Key, g.Size); err != nil {
			return err
		}
	}
	return w.Close()
}

// printTotals prints a record for each kind of what was removed.
func (a *app) printTotals(r *savepoint.VacuumReport) error {
	w, err := a.printRecords("kind", "files", "bytes")
	if err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(r.ByKind)) {
		if err := w.Write(kind, r.ByKind[kind].Files, r.ByKind[kind].Bytes); err != nil {
			return err
		}
	}
	return w.Close()
}

func vacuumSummary(table string, r *savepoint.VacuumReport, dryRun bool) string {
	var bytes int64
	for _, total := range r.ByKind {
		bytes += total.Bytes
	}
	removed, unpinned := "removed", "were unpinned"
	if dryRun {
		removed, unpinned = "would remove", "would be unpinned"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %d files, %s; %d stay", table, removed, len(r.Deleted), byteSize(bytes), r.Kept)
	if len(r.Unpinned) > 0 {
		fmt.Fprintf(&b, "\nrolled-back savepoints that %s: %s", unpinned, strings.Join(r.Unpinned, ", "))
	}
	if r.Tombstones > 0 {
		fmt.Fprintf(&b, "\n%d tombstones that protect nothing any more were left out of a new checkpoint", r.Tombstones)
	}
	return b.String()
}

// byteSize writes a size for people: 512 B, 1.5 MiB.
func byteSize(n int64) string {
	size, unit := float64(n), ""
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	if unit == "" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}
