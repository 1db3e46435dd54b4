package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/address"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/scd2"
)

type scd2Flags struct {
	out, keep     string
	options       scd2.Options
	check, status bool
	to            string
	keys          int
}

func newSCD2Command(a *app) *cobra.Command {
	var f scd2Flags
	c := &cobra.Command{
		Use:     "scd2",
		GroupID: groupReading,
		Short:   "Keep a history table with valid_from and valid_to (SCD2) from the sealed days",
		Long: `Builds a Delta table with a row for each state of a key and the half-open interval
[valid_from, valid_to) in which it was the state, and brings it up to the last sealed day.
The first run takes all sealed days, each later one those sealed since. Each day is one
commit: a run that was broken off is gone on with by the next, and one that has nothing to
do writes nothing. Days that the table has rolled back, or sealed anew, are undone first.

What a history table is like is said once, when it is made: names of columns, the open
end, a hash of the row, a load time. Later runs need --out alone.

--status tells how far the history is behind. --check compares it, filtered at each day,
with the day itself, prints the keys that differ, and exits 3 where there are any.`,
		Example: `  gscd scd2 --out /data/user_dim_history
  gscd scd2 --out s3://lake/dim/user_dim_scd2 --row-hash row_hash --load-time-column dataflow_dttm
  gscd scd2 --out /data/user_dim_history --status
  gscd scd2 --out /data/user_dim_history --check --from 2022-07-01`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case f.out == "":
				return usagef("--out says where the history table is, or shall be")
			case address.Shown(f.out) != f.out || address.Shown(f.keep) != f.keep:
				return usagef("an address has a login in it, which would be printed: use s3.access_key_id and s3.secret_access_key")
			case !f.check && (f.to != "" || c.Flags().Changed("keys")):
				return usagef("--to and --keys go with --check")
			case (f.check || f.status) && f.keep != "":
				return usagef("--keep-steps is for a run that builds")
			}
			return a.scd2(c.Context(), &f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.out, "out", "", "the `address` of the history table")
	flags.StringVar(&f.options.From, "from", "", "begin with a `label`: its rows are those of the first interval (with --check: compare from it on)")
	flags.StringVar(&f.options.Granularity, "granularity", "", "an interval for the last state of each `unit`: day (default), the table's labels; or change")
	flags.StringVar(&f.options.OpenEnd, "open-end", "", "valid_to of current rows: a `date`, or null (default "+scd2.DefaultOpenEnd+")")
	flags.StringVar(&f.options.Columns.ValidFrom, "valid-from-column", "", "`name` of the column (default valid_from)")
	flags.StringVar(&f.options.Columns.ValidTo, "valid-to-column", "", "`name` of the column (default valid_to)")
	flags.StringVar(&f.options.Columns.IsCurrent, "is-current-column", "", "`name` of the column (default is_current)")
	flags.StringVar(&f.options.Columns.RowHash, "row-hash", "", "add a `column` with the SHA-256 of the row's values")
	flags.StringVar(&f.options.Columns.LoadTime, "load-time-column", "", "add a `column` with the time of the run that opened the row, such as dataflow_dttm")
	flags.StringVar(&f.keep, "keep-steps", "", "keep the rows that each label brought, as tables new, changed, closed and deleted below an `address`")
	flags.BoolVar(&f.status, "status", false, "tell how far the history is behind, and do nothing")
	flags.BoolVar(&f.check, "check", false, "compare the history at each label with the label's savepoint, and do nothing")
	flags.StringVar(&f.to, "to", "", "with --check: compare up to a `label`")
	flags.IntVar(&f.keys, "keys", 100, "with --check: print at most this `number` of keys for each label")
	c.MarkFlagsMutuallyExclusive("status", "check")
	a.addOutsideFlag(c)
	return c
}

func (a *app) scd2(ctx context.Context, f *scd2Flags) error {
	t, err := a.openTable(ctx)
	if err != nil {
		return err
	}
	if sameAddress(t.Address, f.out) {
		return usagef("--out %s is the table itself", f.out)
	}
	store, err := a.openStore(ctx, f.out)
	if err != nil {
		return err
	}
	src := &scd2.Source{Address: t.store.String(), Table: t.table, Snapshot: t.newest, Labels: t.labels}
	out := delta.New(store)
	switch {
	case f.status:
		err = a.scd2Status(ctx, src, out)
	case f.check:
		err = a.scd2Check(ctx, src, out, f)
	default:
		err = a.scd2Build(ctx, src, out, f)
	}
	if errors.Is(err, scd2.ErrSettings) && !errors.Is(err, context.Canceled) {
		return usagef("%w", err)
	}
	return err
}

// scd2Build brings the history up to date, and prints a record for each label.
func (a *app) scd2Build(ctx context.Context, src *scd2.Source, out *delta.Table, f *scd2Flags) error {
	work := a.steps.work()
	f.options.Progress = func(done, total int, label string) { work("taking "+label, done, total) }
	if f.keep != "" {
		f.options.Keep = &scd2.Keep{Open: func(ctx context.Context, name string) (*delta.Table, error) {
			store, err := a.openStore(ctx, strings.TrimRight(f.keep, "/")+"/"+name)
			if err != nil {
				return nil, err
			}
			return delta.New(store), nil
		}}
	}
	r, fault := scd2.Build(ctx, src, out, f.options)
	a.steps.close()
	if len(r.Undone) > 0 {
		a.noticef("undone, for the table has rolled them back or sealed them anew: %s", strings.Join(r.Undone, ", "))
	}
	if len(r.Deleted) > 0 {
		a.noticef("the savepoints of %s are deleted: their changes count from the next label on", strings.Join(r.Deleted, ", "))
	}
	w, err := a.printRecords("label", "version", "source_version", "new", "changed", "deleted", "opened", "closed", "attributes")
	if err != nil {
		return err
	}
	for _, s := range r.Steps {
		if err := w.Write(s.Label, s.Version, s.Source, s.New, s.Changed, s.Deleted, s.Opened, s.Closed, append([]string{}, s.Attributes...)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if fault != nil {
		return fault
	}
	switch {
	case r.Last == "":
		a.noticef("%s is empty: no label that it begins with is sealed", out.Store())
	case len(r.Steps) == 0:
		a.noticef("%s is up to date: it has %s, and no later label is sealed", out.Store(), r.Last)
	default:
		a.noticef("%s is up to date with %s", out.Store(), r.Last)
	}
	return nil
}

func (a *app) scd2Status(ctx context.Context, src *scd2.Source, out *delta.Table) error {
	s, err := scd2.StatusOf(ctx, src, out)
	if err != nil {
		return err
	}
	orNone := func(n int64) any {
		if n < 0 {
			return nil
		}
		return n
	}
	list := func(names []string) []string { return append([]string{}, names...) }
	err = a.printObject(output.Record{
		{Name: "table", Value: out.Store().String()}, {Name: "source", Value: src.Address}, {Name: "built", Value: s.Built},
		{Name: "version", Value: orNone(s.Version)}, {Name: "granularity", Value: orNull(s.Granularity)},
		{Name: "first", Value: orNull(s.First)}, {Name: "last", Value: orNull(s.Last)}, {Name: "last_source_version", Value: orNone(s.LastVersion)},
		{Name: "source_version", Value: src.Snapshot.Version()}, {Name: "rollbacks_followed", Value: s.Rollbacks},
		{Name: "sealed", Value: orNull(s.Sealed)}, {Name: "up_to_date", Value: s.UpToDate()},
		{Name: "behind", Value: list(s.Behind)}, {Name: "to_undo", Value: list(s.Undo)},
		{Name: "incomplete_since", Value: orNull(s.IncompleteSince)}, {Name: "incomplete", Value: orNull(s.Incomplete)},
	})
	if err == nil && !s.UpToDate() {
		a.noticef("the history is behind by %d labels, and %d labels of it are to be undone: run gscd scd2", len(s.Behind), len(s.Undo))
	}
	return err
}

func (a *app) scd2Check(ctx context.Context, src *scd2.Source, out *delta.Table, f *scd2Flags) error {
	work := a.steps.work()
	r, err := scd2.Check(ctx, src, out, scd2.CheckOptions{
		From: f.options.From, To: f.to, Keys: f.keys, Progress: func(done, total int, label string) { work("reading "+label, done, total) },
	})
	a.steps.close()
	if err != nil {
		return err
	}
	w, err := a.printRecords("label", "problem", "key", "columns")
	if err != nil {
		return err
	}
	for _, fault := range r.Faults {
		if err := w.Write(orNull(fault.Label), fault.Problem, fault.Key, append([]string{}, fault.Columns...)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if len(r.Gone) > 0 {
		a.noticef("not compared, for their savepoints are deleted: %s", strings.Join(r.Gone, ", "))
	}
	if s, err := scd2.StatusOf(ctx, src, out); err == nil && !s.UpToDate() {
		a.noticef("the history is behind by %d labels, and %d labels of it are to be undone: run gscd scd2", len(s.Behind), len(s.Undo))
	}
	if len(r.Faults) > 0 || r.Differing > 0 {
		return nof("%d of %d labels differ in %s", r.Differing, len(r.Labels), out.Store())
	}
	compared := "no label"
	if n := len(r.Labels); n > 0 {
		compared = fmt.Sprintf("%d labels, %s to %s", n, r.Labels[0], r.Labels[n-1])
	}
	a.noticef("%s at version %d is what the days say: %s compared", out.Store(), r.Version, compared)
	return nil
}
