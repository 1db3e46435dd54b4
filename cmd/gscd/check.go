package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/savepoint"
)

func newCheckCommand(a *app) *cobra.Command {
	var o savepoint.CheckOptions
	var files, forget, checksums bool
	c := &cobra.Command{
		Use:     "check",
		GroupID: groupChecking,
		Short:   "Open every savepoint and look at all that it depends on",
		Long: `Opens every savepoint and the newest version, and looks whether each file that they
need is there with its size, whether map and log agree, and whether what protects the
savepoints from other engines still stands. --deep reads every row as well.

Prints a record for each fault and exits 3 where one is left, 0 where none is. --repair
puts right what can be: protective properties, checkpoints, and log files of which there
is a backup.

--checksums computes the content checksum of each savepoint that has none yet, and records
them in a commit that changes no data, as gscd maintain does; --deep compares the rows with
them from then on, and gscd snapshots LABEL shows it.

--files looks at the newest version of any Delta table instead: files that are missing, of
another size, no Parquet, or with more or fewer rows than their statistics say (by their
footers: a request or two for each), and objects that nobody needs. --repair then says
size and rows of files anew that are whole: every cell of theirs is read, and of their
statistics the number of rows is left. --forget-missing takes data files that are
missing out of the table: what is left can be read again, and their rows are lost.`,
		Example: `  gscd check
  gscd check --table /data/user_dim --deep
  gscd check --repair --format jsonl
  gscd check --checksums
  gscd check --files --table /data/orders`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if forget && !files {
				return usagef("--forget-missing goes with --files")
			}
			if checksums {
				if files || o.Deep || o.Repair {
					return usagef("--checksums goes alone: --deep compares with them")
				}
				return a.recordMissing(c.Context())
			}
			if files {
				return a.checkFiles(c.Context(), forget, o.Repair)
			}
			o.Now = time.Now()
			return a.check(c.Context(), o)
		},
	}
	c.Flags().BoolVar(&o.Deep, "deep", false, "read every row, held change and backup, and compare the counts with the evidence")
	c.Flags().BoolVar(&o.Repair, "repair", false, "put right what can be put right")
	c.Flags().BoolVar(&checksums, "checksums", false, "compute and record the content checksum of savepoints that have none")
	c.Flags().BoolVar(&files, "files", false, "compare the files of the newest version of any Delta table with its log")
	c.Flags().BoolVar(&forget, "forget-missing", false, "with --files: take data files that are missing out of the table, and lose their rows")
	a.addOutsideFlag(c)
	return c
}

// recordMissing records the content checksums that are missing, and prints them.
func (a *app) recordMissing(ctx context.Context) error {
	t, err := a.openTable(ctx)
	if err != nil {
		return err
	}
	done, fault := savepoint.RecordChecksums(ctx, t.table, savepoint.ChecksumOptions{Progress: a.steps.work()})
	a.steps.close()
	w, err := a.printRecords("label", "version", "rows", "checksum", "made_from", "files_read")
	if err != nil {
		return err
	}
	for _, d := range done {
		var from any
		if d.From >= 0 {
			from = d.From
		}
		if err := w.Write(strings.Join(d.Names, " "), d.Version, d.Rows, d.Text(), from, int64(d.Read)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if fault != nil {
		return fmt.Errorf("table %s: %w", t.Name, fault)
	}
	a.noticef("%s: %d checksums recorded", t.Name, len(done))
	return nil
}

// checkFiles compares the files of the newest version with what is there. Orphans are
// told, and are no fault.
func (a *app) checkFiles(ctx context.Context, forget, repair bool) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	if repair && t.labels != nil {
		return usagef("--files --repair is for tables that gscd does not ingest into: of %s leave out --files, or roll back to a savepoint that is whole", t.Name)
	}
	faults, err := t.table.CheckFiles(ctx, t.newest, true)
	if err != nil {
		return err
	}
	rows, err := t.table.CheckRows(ctx, t.newest)
	if err != nil {
		return err
	}
	faults = append(faults, rows...)
	version, mended := int64(-1), []delta.FileFault{}
	if repair {
		if version, mended, err = t.table.RestateFiles(ctx); err != nil {
			return err
		}
	}
	w, err := a.printRecords("kind", "file", "found", "expected")
	if err != nil {
		return err
	}
	orNone := func(n int64) any {
		if n < 0 {
			return nil
		}
		return n
	}
	left, orphans := 0, 0
	for _, f := range faults {
		if f.Kind == delta.OrphanFile {
			orphans++
		} else if (f.Kind != delta.MissingFile || !forget) && !slices.Contains(mended, f) {
			left++
		}
		if err := w.Write(string(f.Kind), f.Key, orNone(f.Size), orNone(f.Want)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if len(mended) > 0 {
		a.noticef("%s: %d faults of whole files mended in version %d", t.Name, len(mended), version)
	}
	if forget {
		version, lost, err := t.table.ForgetMissing(ctx)
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			a.noticef("%s: %d missing files left the table in version %d", t.Name, len(lost), version)
		}
	}
	a.noticef("%s: %d files, %d faults, %d objects that nobody needs (gscd vacuum)", t.Name, t.newest.NumFiles(), left, orphans)
	if left > 0 {
		return silently(exitNo, fmt.Errorf("%d faults", left))
	}
	return nil
}

func (a *app) check(ctx context.Context, o savepoint.CheckOptions) error {
	ref, err := a.resolveTable(a.flags.table)
	if err != nil {
		return err
	}
	store, err := a.openStore(ctx, ref.Address)
	if err != nil {
		return err
	}
	table, err := savepoint.OpenTable(ctx, store)
	if err != nil {
		return err
	}
	o.Progress = a.steps.work()
	report, err := savepoint.Check(ctx, table, o)
	a.steps.close()
	if err != nil {
		return fmt.Errorf("check table %s: %w", ref.Name, err)
	}
	w, err := a.printRecords("check", "severity", "label", "version", "file", "message", "repair")
	if err != nil {
		return err
	}
	for _, f := range report.Faults {
		var version any
		if f.Version >= 0 {
			version = f.Version
		}
		if err := w.Write(f.Check, string(f.Severity), orNull(f.Label), version, orNull(f.File), f.Message, orNull(f.Repair)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	a.noticef("%s", checkSummary(ref.Name, report, o))
	if n := report.Open(); n > 0 {
		return silently(exitNo, fmt.Errorf("%d faults", n))
	}
	return nil
}

func checkSummary(table string, r *savepoint.CheckReport, o savepoint.CheckOptions) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d savepoints, %d objects", table, r.Savepoints, r.Objects)
	if o.Deep {
		fmt.Fprintf(&b, ", %d rows read", r.Rows)
	}
	switch open := r.Open(); {
	case len(r.Faults) == 0:
		b.WriteString(": no fault")
	case open == 0:
		fmt.Fprintf(&b, ": %d faults, all repaired", len(r.Faults))
	case open < len(r.Faults):
		fmt.Fprintf(&b, ": %d faults, %d of them repaired", len(r.Faults), len(r.Faults)-open)
	default:
		fmt.Fprintf(&b, ": %d faults", open)
	}
	if n := len(r.Unfortified); n > 0 {
		fmt.Fprintf(&b, "\n%d savepoints have no checkpoint of their own yet: --repair or the next vacuum writes them", n)
	}
	if n := len(r.NotBackedUp); n > 0 {
		fmt.Fprintf(&b, "\n%d savepoints have no backup yet: --repair writes them", n)
	}
	return b.String()
}
