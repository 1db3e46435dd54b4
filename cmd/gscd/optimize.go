package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

type optimizeFlags struct {
	zorder, hilbert, measure string
	where, targetSize        string
	pinned, purge, dryRun    bool
}

func newOptimizeCommand(a *app) *cobra.Command {
	var f optimizeFlags
	c := &cobra.Command{
		Use:     "optimize",
		GroupID: groupChanging,
		Short:   "Write rows into fewer files, in an order that queries can skip by",
		Long: `Joins small files, takes deleted rows out of files that have many, and with --zorder
or --hilbert writes rows so that those with near values of some columns lie together. No
row changes, and every version before stays as it is. It works beside a running ingester:
rows that are changed meanwhile are followed.

Files that a savepoint needs are left alone unless more than 64 % of their rows are
deleted: they would be stored twice for as long as the savepoint is kept. --pinned takes
them too.

Prints what was replaced by what. --measure prints, without changing anything, how many
files a lookup of one value of a column opens on average (depth; 1 is best), and with how
many others a file shares values (overlaps).`,
		Example: `  gscd optimize
  gscd optimize --zorder user_id,city --where "dt = '2022-07-16'"
  gscd optimize --purge --dry-run
  gscd optimize --measure user_id,city`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.zorder != "" && f.hilbert != "" {
				return usagef("--zorder and --hilbert are two orders: give one")
			}
			if f.measure != "" {
				return a.measure(c.Context(), splitNames(f.measure))
			}
			return a.optimize(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.zorder, "zorder", "", "order rows by these `columns` at once, on a Z-order curve")
	flags.StringVar(&f.hilbert, "hilbert", "", "order rows by these `columns` at once, on a Hilbert curve")
	flags.StringVar(&f.where, "where", "", "only partitions for which an `expression` is true")
	flags.StringVar(&f.targetSize, "target-size", "", "`size` of the files to write (default delta.targetFileSize, else an 80th of the table, 64MiB to 256MiB)")
	flags.BoolVar(&f.pinned, "pinned", false, "take files that savepoints need too: their rows are then stored twice")
	flags.BoolVar(&f.purge, "purge", false, "only write files with deleted rows anew, however few these are")
	flags.BoolVar(&f.dryRun, "dry-run", false, "tell what would be replaced, and change nothing")
	flags.StringVar(&f.measure, "measure", "", "print how well files tell values of these `columns` apart, and change nothing")
	return c
}

// splitNames reads names with commas between them.
func splitNames(text string) []string {
	names := strings.Split(text, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

func (a *app) optimize(ctx context.Context, f optimizeFlags) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	o, err := a.optimizeOptions(ctx, t, f)
	if err != nil {
		return err
	}
	bar := a.steps.begin(t.Name+" optimize", "bytes")
	o.Progress = bar.set
	report, err := layout.Optimize(ctx, t.table, o)
	a.steps.close()
	if err != nil {
		if len(report.Versions) > 0 {
			a.noticef("%s: versions %v were committed before", t.Name, report.Versions)
		}
		if errors.Is(err, layout.ErrColumn) {
			return usagef("%w", err)
		}
		return err
	}
	if err := a.printObject(optimizeRecord(report)); err != nil {
		return err
	}
	a.noticef("%s", optimizeSummary(t.Name, report, f.dryRun))
	return nil
}

func (a *app) optimizeOptions(ctx context.Context, t *openedTable, f optimizeFlags) (layout.Options, error) {
	var p *progress.Progress
	if t.labels != nil {
		p = t.labels.Progress
	}
	o := ingest.Layout(p)
	o.PurgeOnly, o.DryRun = f.purge, f.dryRun
	o.OrderBy, o.Curve = splitNames(f.zorder), layout.ZOrder
	if f.hilbert != "" {
		o.OrderBy, o.Curve = splitNames(f.hilbert), layout.Hilbert
	}
	var err error
	if f.where != "" {
		if o.Where, err = expr.Parse(f.where, t.newest.Schema()); err != nil {
			return o, usagef("--where: %w", err)
		}
	}
	if f.targetSize != "" {
		var size config.Size
		if err := size.UnmarshalText([]byte(f.targetSize)); err != nil || size <= 0 {
			return o, usagef("--target-size: %q is no size of a file: write 64KiB, 128MiB or 1GiB", f.targetSize)
		}
		o.TargetSize = int64(size)
	}
	if f.pinned {
		return o, nil
	}
	pinned, err := savepoint.ReadPinnedFiles(ctx, t.table, t.newest)
	if err != nil {
		return o, fmt.Errorf("table %s: %w", t.Name, err)
	}
	lost := o.Leave
	o.Leave = func(add *action.Add) bool { return pinned.Leave(add) || lost != nil && lost(add) }
	return o, nil
}

func optimizeRecord(r *layout.Report) output.Record {
	return output.Record{
		{Name: "versions", Value: r.Versions},
		{Name: "files_removed", Value: r.FilesRemoved},
		{Name: "bytes_removed", Value: r.BytesRemoved},
		{Name: "files_added", Value: r.FilesAdded},
		{Name: "bytes_added", Value: r.BytesAdded},
		{Name: "deletion_vectors_removed", Value: r.VectorsRemoved},
		{Name: "rows_purged", Value: r.RowsPurged},
		{Name: "rows_written", Value: r.Rows},
		{Name: "rows_followed", Value: r.RowsFollowed},
		{Name: "files_left", Value: r.Left},
		{Name: "bytes_left", Value: r.LeftBytes},
	}
}

func optimizeSummary(table string, r *layout.Report, dryRun bool) string {
	text := fmt.Sprintf("%s: %d files, %s, became %d, %s", table, r.FilesRemoved, byteSize(r.BytesRemoved), r.FilesAdded, byteSize(r.BytesAdded))
	switch {
	case dryRun:
		text = fmt.Sprintf("%s: would write %d files, %s, anew", table, r.FilesRemoved, byteSize(r.BytesRemoved))
	case len(r.Versions) == 0:
		text = table + ": nothing to do"
	}
	if r.Left > 0 {
		text += fmt.Sprintf("\n%d files, %s, stay because savepoints need them; --pinned takes them too", r.Left, byteSize(r.LeftBytes))
	}
	return text
}

// measure prints how well the files of the newest version tell values apart.
func (a *app) measure(ctx context.Context, columns []string) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	list, err := layout.Measure(t.newest, columns...)
	if err != nil {
		return usagef("--measure: %w", err)
	}
	w, err := a.printRecords("column", "files", "unknown", "depth", "overlaps")
	if err != nil {
		return err
	}
	for _, c := range list {
		if err := w.Write(c.Column, c.Files, c.Unknown, c.Depth, c.Overlaps); err != nil {
			return err
		}
	}
	return w.Close()
}
