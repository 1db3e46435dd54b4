package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/query/rowkey"
)

type diffFlags struct {
	key            []string
	columns, where string
	summary        bool
	output         string
	memory, temp   string
}

func newDiffCommand(a *app) *cobra.Command {
	var f diffFlags
	c := &cobra.Command{
		Use:     "diff FROM TO",
		GroupID: groupReading,
		Short:   "Print what changed between two days: rows inserted, updated and deleted",
		Long: `Compares the rows of two days by key, in the order of the key: rows that only TO has are
inserted, rows that only FROM has deleted, and of an updated row the columns are named that
differ, with their old and new values. Only files that the two days do not share are read.
The days may be given in either order: the later one first gives the way back.

FROM and TO are labels, names of savepoints, or versions as @12. The open label is compared
as it is now, and a notice says so.

The key is the table's own. --key NAME,NAME names its columns where the table has none, as
one that gscd did not write; without a key a changed row is one deleted and one inserted.
--key NAME=VALUE,... leaves the rows with that key. A value in quotes may have commas in it.

As JSON each change is an object with change, key, changed, old and new; as CSV old and new
values are columns of their own. A column that the later day no longer has is printed and
not compared; one that it added is NULL before.`,
		Example: `  gscd diff 2022-07-15 2022-07-16
  gscd diff 2022-07-15 2022-07-16 --summary
  gscd diff 2022-07-15 2022-07-16 --columns city --where "city = 'Wuhan'" --format jsonl
  gscd diff 2022-07-01 2022-07-16 --key id=7
  gscd diff @3 @5 --table s3://lake/orders --key order_id`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("name two days: gscd diff 2022-07-15 2022-07-16")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.summary && f.output != "" {
				return usagef("--output is for rows, and --summary prints none")
			}
			if f.output != "" {
				if _, err := a.rowFormat(f.output); err != nil {
					return err
				}
			}
			return a.diff(c.Context(), args[0], args[1], f)
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.key, "key", nil, "the columns of the key, `A,B`, or the value of one key: A=1,B=x")
	flags.StringVar(&f.columns, "columns", "", "compare and print these `columns` beside the key: A,B")
	flags.StringVar(&f.where, "where", "", "print the changes for whose old or new row an `expression` is true")
	flags.BoolVar(&f.summary, "summary", false, "print how many rows were inserted, updated and deleted, and in which columns")
	flags.StringVar(&f.output, "output", "", "write the changes to a `file`, which appears when it is whole: .parquet, .arrow, .csv, .json, .jsonl")
	flags.StringVar(&f.memory, "memory-limit", "256MiB", "`size` of the changed rows that are sorted in memory; more go to disk")
	flags.StringVar(&f.temp, "temp-dir", "", "`folder` for what goes to disk (default: that of the system)")
	a.addOutsideFlag(c)
	return c
}

func (a *app) diff(ctx context.Context, from, to string, f diffFlags) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	before, err := a.pointNamed(ctx, t, from)
	if err != nil {
		return err
	}
	after := before
	if to != from {
		if after, err = a.pointNamed(ctx, t, to); err != nil {
			return err
		}
	}
	o, err := f.options(before, after)
	if err != nil {
		return err
	}
	d, err := diff.New(t.store, before.snapshot, after.snapshot, o)
	var syntax *expr.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return usagef("--where: %w", err)
	case errors.Is(err, rowkey.ErrKey), errors.Is(err, diff.ErrKey) && len(f.key) > 0:
		return usagef("--key: %w", err)
	case errors.Is(err, diff.ErrColumn):
		return usagef("--columns: %w", err)
	case err != nil:
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	if !d.HasKey() {
		a.noticef("the table has no key: an updated row is a deleted and an inserted one; --key names the columns of one")
	}
	if gone := d.Gone(); len(gone) > 0 {
		a.noticef("not compared, since one of the days lacks them: %s", strings.Join(gone, ", "))
	}
	changes := func(yield func(*diff.Change, error) bool) {
		for c, err := range d.Changes(ctx) {
			var read *diff.ReadError
			if errors.As(err, &read) {
				name := before.name
				if read.Version == after.snapshot.Version() {
					name = after.name
				}
				err = t.goneFiles(ctx, name, err)
			} else if err != nil {
				err = fmt.Errorf("table %s: %w", t.Name, err)
			}
			if !yield(c, err) {
				return
			}
		}
	}
	if f.summary {
		return a.printDiffSummary(before, after, d, changes)
	}
	format, err := output.Resolve(a.flags.format, a.stdout)
	if f.output != "" {
		format, err = a.rowFormat(f.output)
	}
	if err != nil {
		return err
	}
	shape := shapeOf(format, d.Columns())
	return a.printRows(f.output, shape.fields, func(yield func([]schema.Value, error) bool) {
		for c, err := range changes {
			var row []schema.Value
			if err == nil {
				row = shape.row(c)
			}
			if !yield(row, err) {
				return
			}
		}
	})
}

// options are the flags for the two versions.
func (f *diffFlags) options(before, after point) (o diff.Options, err error) {
	var memory config.Size
	if err := memory.UnmarshalText([]byte(f.memory)); err != nil || memory <= 0 {
		return o, usagef("--memory-limit %s: give a size, such as 1GiB", f.memory)
	}
	o.Where, o.MemoryLimit, o.TempDir = f.where, int64(memory), f.temp
	for _, text := range f.key {
		if strings.Contains(text, "=") {
			cells, err := rowkey.Parse(text)
			if err != nil {
				return o, usagef("--key: %w", err)
			}
			o.Only = append(o.Only, cells...)
			continue
		}
		for name := range strings.SplitSeq(text, ",") {
			o.Key = append(o.Key, strings.TrimSpace(name))
		}
	}
	// The table of another engine has no key but the one that --key speaks of.
	if o.Key == nil && len(o.Only) > 0 && diff.KeyOf(before.snapshot) == nil && diff.KeyOf(after.snapshot) == nil {
		for _, c := range o.Only {
			o.Key = append(o.Key, c.Column)
		}
	}
	if f.columns != "" {
		columns, err := expr.ParseColumns(f.columns, after.snapshot.Schema())
		if err != nil {
			older, olderErr := expr.ParseColumns(f.columns, before.snapshot.Schema())
			if olderErr != nil {
				return o, usagef("--columns: %w", err)
			}
			columns = older
		}
		o.Columns = columns
	}
	return o, nil
}

// printDiffSummary counts what happened, and in which columns.
func (a *app) printDiffSummary(before, after point, d *diff.Diff, changes func(func(*diff.Change, error) bool)) error {
	var counts [3]int64
	columns := make([]int64, len(d.Columns()))
	for c, err := range changes {
		if err != nil {
			return err
		}
		counts[c.Kind]++
		for _, i := range c.Changed {
			columns[i]++
		}
	}
	updated := output.Record{}
	for i, c := range d.Columns() {
		if !c.Key && !c.Gone {
			updated = append(updated, output.Item{Name: c.Name, Value: columns[i]})
		}
	}
	return a.printObject(output.Record{
		{Name: "from", Value: before.label}, {Name: "to", Value: after.label},
		{Name: "from_version", Value: before.snapshot.Version()}, {Name: "to_version", Value: after.snapshot.Version()},
		{Name: "inserted", Value: counts[diff.Inserted]}, {Name: "updated", Value: counts[diff.Updated]}, {Name: "deleted", Value: counts[diff.Deleted]},
		{Name: "updated_columns", Value: updated},
		{Name: "files_read", Value: d.Files()}, {Name: "rows_read", Value: d.RowsRead()},
	})
}
