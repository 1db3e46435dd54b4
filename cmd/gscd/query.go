package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/savepoint"
)

// queryFlags say which rows of which version.
type queryFlags struct {
	asOf, timestamp         string
	version                 int64
	where, columns, orderBy string
	limit                   int64
	sealed                  bool
	explain, output         string
	sql                     sqlFlags
}

func newQueryCommand(a *app) *cobra.Command {
	var f queryFlags
	c := &cobra.Command{
		Use:     "query [SQL]",
		GroupID: groupReading,
		Short:   "Print the rows of a day, of a version, or as they are now; answer SQL",
		Long: `Prints the rows of the table as of a label, of a version or of a time; without any of
them those of the newest version. What the rows lack, or that the day is not sealed
yet, is said on standard error. Rows come in no order but that of --order-by.

With SQL it prints the answer to one SELECT, in the dialect of DuckDB ("-" reads it from
standard input). Tables go by their configured name; the one that --table names, or the
only one, is t too. Each has a column dt, its label: a statement that uses dt sees every
sealed day and the open one, and opens those that its conditions on dt leave over; one
that does not sees the newest version. With --as-of every table is as of that label.
--view and --init give queries names that the statement uses as tables.`,
		Example: `  gscd query --as-of 2022-07-16
  gscd query --as-of 2022-07-16 --sealed --where "region = 'EU' AND amount >= 10" --columns id,amount
  gscd query --version 42 --order-by 'amount desc, id' --limit 10 --format csv
  gscd query --timestamp 2022-07-17T00:10:00+08:00
  gscd query "SELECT city, count(*) FROM user_dim WHERE dt = '2022-07-16' GROUP BY city"
  gscd query --as-of 2022-07-16 --output day16.parquet
  gscd query --explain "SELECT count(*) FROM user_dim WHERE dt >= '2022-07-15' AND city = 'Wuhan'"
  gscd query "SELECT dt, sum(amount) FROM orders WHERE dt BETWEEN '2022-07-10' AND '2022-07-16' GROUP BY dt"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("SQL is one argument: put it in quotes")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("limit") && f.limit <= 0 {
				return usagef("--limit %d: give a number of rows, 1 or more", f.limit)
			}
			if c.Flags().Changed("version") && f.version < 0 {
				return usagef("--version %d: versions begin at 0", f.version)
			}
			if !c.Flags().Changed("version") {
				f.version = -1
			}
			switch f.explain {
			case "", "files", "plan":
			default:
				return usagef("--explain=%s: write --explain for the days and files, or --explain=plan for the plan of DuckDB", f.explain)
			}
			if f.output != "" {
				if f.explain != "" {
					return usagef("--output is for rows, and --explain prints none")
				}
				if _, err := a.rowFormat(f.output); err != nil {
					return err
				}
			}
			if len(args) == 0 && len(f.sql.views)+len(f.sql.inits) > 0 {
				return usagef("--view and --init go with SQL")
			}
			if len(args) == 0 {
				return a.query(c.Context(), f)
			}
			if len(a.flags.outside) > 0 {
				return usagef("--%s goes without SQL: a statement does not leave its tables", outsideFlag)
			}
			for _, name := range []string{"where", "columns", "order-by", "limit"} {
				if c.Flags().Changed(name) {
					return usagef("--%s goes without SQL: say it in the statement", name)
				}
			}
			return a.answer(c.Context(), args[0], f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.asOf, "as-of", "", "the `label` of the snapshot: 2022-07-16")
	flags.Int64Var(&f.version, "version", 0, "the `number` of the Delta version")
	flags.StringVar(&f.timestamp, "timestamp", "", "the newest version at a `time`: RFC 3339, without offset in the table's zone")
	flags.StringVar(&f.where, "where", "", "print the rows for which an `expression` is true")
	flags.StringVar(&f.columns, "columns", "", "print these `columns`, or fields inside of them: A,B.c")
	flags.StringVar(&f.orderBy, "order-by", "", "sort by `columns`: A desc,B")
	flags.Int64Var(&f.limit, "limit", 0, "print at most that `number` of rows")
	flags.BoolVar(&f.sealed, "sealed", false, "exit 3, without rows, where the answer is not a sealed day")
	flags.StringVar(&f.output, "output", "", "write the rows to a `file`, which appears when it is whole: .parquet, .arrow, .csv, .json, .jsonl, or as --format says")
	flags.StringVar(&f.explain, "explain", "", "print the days and files that would be opened, and no rows; `what`=plan: the plan of DuckDB")
	flags.Lookup("explain").NoOptDefVal = "files"
	f.sql.add(flags)
	f.sql.addViews(flags)
	c.MarkFlagsMutuallyExclusive("as-of", "version", "timestamp")
	a.addOutsideFlag(c)
	return c
}

func (a *app) query(ctx context.Context, f queryFlags) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	at, err := a.pointInTime(ctx, t, f)
	if err != nil {
		return err
	}
	// Fewer rows than were committed must be an error, also where a limit or a
	// filter would hide it.
	if err := savepoint.Verify(ctx, t.table, at); err != nil {
		return fmt.Errorf("table %s: %w; run gscd check", t.Name, err)
	}
	options, err := f.options(at.Schema())
	if err != nil {
		return err
	}
	reading, err := scan.New(t.store, at, options)
	if err != nil {
		return fmt.Errorf("version %d: %w", at.Version(), err)
	}
	switch f.explain {
	case "plan":
		return usagef("--explain=plan is of SQL: without SQL no plan is made, and --explain says which files are read")
	case "files":
		return a.explainScan(ctx, t, f, reading)
	}
	return a.printRows(f.output, reading.Columns(), func(yield func([]schema.Value, error) bool) {
		for row, err := range reading.Rows(ctx) {
			if err != nil {
				err = t.goneFiles(ctx, cmp.Or(f.asOf, fmt.Sprintf("version %d", at.Version())), err)
			}
			if !yield(row, err) {
				return
			}
		}
	})
}

// options are the flags for the schema of the version that was asked for.
func (f *queryFlags) options(s *schema.Schema) (o scan.Options, err error) {
	o.Limit = f.limit
	if f.where != "" {
		if o.Where, err = expr.Parse(f.where, s); err != nil {
			return o, usagef("--where: %w", err)
		}
	}
	if f.columns != "" {
		columns, err := expr.ParsePaths(f.columns, s)
		if err != nil {
			return o, usagef("--columns: %w", err)
		}
		o.Columns = append(o.Columns, columns...)
	}
	if f.orderBy != "" {
		if o.OrderBy, err = expr.ParseOrderBy(f.orderBy, s); err != nil {
			return o, usagef("--order-by: %w", err)
		}
	}
	return o, nil
}

// pointInTime finds the version that was asked for, and says on standard error
// what there is to know about it.
func (a *app) pointInTime(ctx context.Context, t *openedTable, f queryFlags) (*delta.Snapshot, error) {
	switch {
	case f.asOf != "":
		return a.asOf(ctx, t, f.asOf, f.sealed)
	case f.timestamp != "":
		at, err := parseTime(f.timestamp, t.zone())
		if err != nil {
			return nil, usagef("--timestamp: %w", err)
		}
		version, committed, err := t.table.VersionAt(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		a.noticef("version %d, committed at %s", version, committed.UTC().Format(time.RFC3339Nano))
		return t.versionAt(ctx, version, f.sealed)
	case f.version >= 0:
		return t.versionAt(ctx, f.version, f.sealed)
	}
	if t.labels != nil {
		open := t.labels.Calendar.Name(t.labels.Progress.State.Open)
		if f.sealed {
			return nil, nof("%s is not sealed: it is the open label; give --as-of with a label", open)
		}
		a.noticef("%s", t.labels.OpenNotice())
		return t.newest, nil
	}
	return t.versionAt(ctx, t.newest.Version(), f.sealed)
}

// asOf opens the version of a label.
func (a *app) asOf(ctx context.Context, t *openedTable, label string, sealed bool) (*delta.Snapshot, error) {
	if t.labels == nil {
		return nil, fmt.Errorf("table %s: %w: it has no labels, use --version or --timestamp", t.Name, savepoint.ErrForeign)
	}
	r, err := t.labels.Resolve(label, sealed)
	if err != nil {
		if sealed && notSealed(err) {
			return nil, nof("table %s: %w", t.Name, err)
		}
		return nil, fmt.Errorf("table %s: %w", t.Name, err)
	}
	if r.Notice != "" {
		a.noticef("%s", r.Notice)
	}
	if r.Entry.State == savepoint.Open {
		return t.newest, nil
	}
	// The evidence says it also where a later load has completed the days after.
	if seal, err := t.labels.Seal(ctx, t.table, r.Entry); err == nil && seal.Evidence.Reason != "" && r.Notice == "" {
		a.noticef("%s is incomplete: %s", label, seal.Evidence.Reason)
	}
	s, err := t.table.SnapshotAt(ctx, r.Entry.Version)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; `gscd check` says more", label, err)
	}
	return s, nil
}

// notSealed tells the answers that mean "not yet", or "not any more", under --sealed.
func notSealed(err error) bool {
	return errors.Is(err, savepoint.ErrNotSealed) || errors.Is(err, savepoint.ErrAfter) || errors.Is(err, savepoint.ErrRolledBack)
}

// versionAt opens a version by number; sealed wants it to be that of a sealed label.
func (t *openedTable) versionAt(ctx context.Context, version int64, sealed bool) (*delta.Snapshot, error) {
	if sealed && !t.isSavepoint(version) {
		return nil, nof("table %s: version %d is not that of a sealed label", t.Name, version)
	}
	if version == t.newest.Version() {
		return t.newest, nil
	}
	return t.table.SnapshotAt(ctx, version)
}

func (t *openedTable) isSavepoint(version int64) bool {
	if t.labels == nil {
		return false
	}
	for _, e := range t.labels.Entries {
		if e.State == savepoint.Sealed && e.Version == version {
			return true
		}
	}
	return false
}

// zone is the table's, UTC where it has none.
func (t *openedTable) zone() *time.Location {
	if t.labels == nil {
		return time.UTC
	}
	return t.labels.Calendar.Location()
}

// parseTime reads RFC 3339; without offset, and also without seconds or time of
// day, it is the zone's clock.
func parseTime(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, form := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: write 2022-07-16T08:00:00+08:00, or 2022-07-16T08:00:00 for the clock of %s", text, zone)
}
