package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/lineage"
	"github.com/gscd-io/gscd/query/output"
)

func newBlameCommand(a *app) *cobra.Command {
	var f queryFlags
	c := &cobra.Command{
		Use:     "blame",
		GroupID: groupReading,
		Short:   "Print the rows of a day, each with the change of the source that wrote it",
		Long: `Prints rows as gscd query does, and with each the event that wrote it last (topic,
partition, offset, event time, binlog file and position), the label in which that event was
applied, and the version of its savepoint (null while the label is open). --as-of takes a
label, the name of a savepoint, or a version as @12; without it the rows are those of now.

A row that another engine rewrote has no event any more. An update that changed no value
counts: gscd history --key says since when the values are what they are.`,
		Example: `  gscd blame --as-of 2022-07-16 --where "city = 'Wuhan'"
  gscd blame --as-of 2022-07-16 --columns id,amount --order-by 'amount desc' --limit 10 --format csv`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("limit") && f.limit <= 0 {
				return usagef("--limit %d: give a number of rows, 1 or more", f.limit)
			}
			if f.output != "" {
				if _, err := a.rowFormat(f.output); err != nil {
					return err
				}
			}
			return a.blame(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.asOf, "as-of", "", "the `label` of the snapshot: 2022-07-16")
	flags.StringVar(&f.where, "where", "", "print the rows for which an `expression` is true")
	flags.StringVar(&f.columns, "columns", "", "print these `columns`: A,B")
	flags.StringVar(&f.orderBy, "order-by", "", "sort by `columns`: A desc,B")
	flags.Int64Var(&f.limit, "limit", 0, "print at most that `number` of rows")
	flags.StringVar(&f.output, "output", "", "write the rows to a `file`, which appears when it is whole: .parquet, .arrow, .csv, .json, .jsonl")
	a.addOutsideFlag(c)
	return c
}

func (a *app) blame(ctx context.Context, f queryFlags) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	at := point{name: "the newest version", snapshot: t.newest}
	if f.asOf != "" {
		if at, err = a.pointNamed(ctx, t, f.asOf); err != nil {
			return err
		}
	} else if t.labels != nil {
		a.noticef("%s", t.labels.OpenNotice())
	}
	options, err := f.options(at.snapshot.Schema())
	if err != nil {
		return err
	}
	b, err := lineage.NewBlame(ctx, t.table, at.snapshot, t.labels, options)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	format, err := output.Resolve(a.flags.format, a.stdout)
	if f.output != "" {
		format, err = a.rowFormat(f.output)
	}
	if err != nil {
		return err
	}
	type row = *lineage.Row
	var columns, values shownColumns[row]
	for i, c := range b.Columns() {
		values = append(values, shownColumn[row]{c.Name, c.Type, func(r row) schema.Value { return r.Cells[i] }})
	}
	since := shownColumns[row]{
		{"label", schema.Of(schema.StringType), func(r row) schema.Value { return textOrNull(r.Label) }},
		{"version", schema.Of(schema.Long), func(r row) schema.Value {
			if r.Version < 0 {
				return schema.Value{}
			}
			return schema.IntValue(r.Version)
		}},
	}
	source := eventColumns(func(r row) *lineage.Event { return r.Source })
	switch format {
	case output.Table:
		columns = append(append(values, since...), eventTexts(func(r row) *lineage.Event { return r.Source })...)
	case output.CSV:
		columns = append(append(values, since...), source...)
	default:
		columns = append(shownColumns[row]{values.nested("row", func(row) bool { return false })}, since...)
		columns = append(columns, source.nested("source", func(r row) bool { return r.Source == nil }))
	}
	lost := 0
	err = a.printRows(f.output, columns.fields(), func(yield func([]schema.Value, error) bool) {
		for r, err := range b.Rows(ctx) {
			if err != nil {
				if errors.Is(err, scan.ErrFileMissing) || errors.Is(err, scan.ErrFileMismatch) {
					err = t.goneFiles(ctx, at.name, err)
				}
				yield(nil, err)
				return
			}
			if r.Source == nil {
				lost++
			}
			if !yield(columns.row(r), nil) {
				return
			}
		}
	})
	if err == nil && lost > 0 {
		a.noticef("rows without an event: %d, which another engine has written", lost)
	}
	return err
}
