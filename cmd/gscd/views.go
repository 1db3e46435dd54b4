package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/query/views"
	"github.com/gscd-io/gscd/savepoint"
)

type viewsFlags struct {
	dialect, name, source, from, to string
	days                            int
	open                            bool
}

func newViewsCommand(a *app) *cobra.Command {
	var f viewsFlags
	c := &cobra.Command{
		Use:     "views",
		GroupID: groupReading,
		Short:   "Print a view that gives another engine the days of the table as a column dt",
		Long: `Prints CREATE OR REPLACE VIEW for Spark, Trino or DuckDB: the sealed days, each from its
version, with its label as dt. Old queries with WHERE dt = '2022-07-16' work on it, and
read that version alone. Run it again after a seal: the same days give the same text.

The columns are those of the newest version; a day that lacks one has NULL there.`,
		Example: `  gscd views --dialect spark --name dim.user_dim_days
  gscd views --dialect trino --source delta.dim.user_dim --days 90
  gscd views --dialect duckdb --from 2022-07-01 --to 2022-07-31 | duckdb lake.db`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case f.dialect == "":
				return usagef("--dialect says for which engine: %s", strings.Join(views.Dialects(), ", "))
			case !slices.Contains(views.Dialects(), f.dialect):
				return usagef("--dialect %s is unknown: use %s", f.dialect, strings.Join(views.Dialects(), ", "))
			case c.Flags().Changed("days") && f.days <= 0:
				return usagef("--days %d: give a number of labels, 1 or more", f.days)
			}
			return a.views(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.dialect, "dialect", "", "the `engine`: "+strings.Join(views.Dialects(), ", "))
	flags.StringVar(&f.name, "name", "", "`name` of the view, with dots before it where it has a schema (default: the table's, and _days)")
	flags.StringVar(&f.source, "source", "", "where the table is for the engine: an `address`, for Trino a name (default: the table's)")
	flags.StringVar(&f.from, "from", "", "the first `label`")
	flags.StringVar(&f.to, "to", "", "the last `label`")
	flags.IntVar(&f.days, "days", 0, "only the last `number` of labels")
	flags.BoolVar(&f.open, "open", false, "the open label too, as it is now")
	return c
}

func (a *app) views(ctx context.Context, f viewsFlags) error {
	t, err := a.openTable(ctx)
	if err != nil {
		return err
	}
	for _, label := range []string{f.from, f.to} {
		if label == "" {
			continue
		}
		if _, err := t.labels.Resolve(label, false); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	v := views.View{Name: cmp.Or(f.name, t.Name+"_days"), Source: cmp.Or(f.source, t.store.String()), LabelColumn: "dt"}
	if f.dialect == string(views.Trino) {
		v.Source = cmp.Or(f.source, t.Name)
	}
	v.Columns = t.newest.Schema().Fields
	if t.newest.Schema().IndexFold(v.LabelColumn) >= 0 {
		v.LabelColumn = "gscd_dt"
	}
	inside := f.from == ""
	var versions []int64
	for _, e := range t.labels.Entries {
		if e.Kept {
			continue
		}
		inside = inside || e.Name == f.from
		switch {
		case !inside:
		case e.State == savepoint.Sealed:
			v.Days = append(v.Days, views.Day{Label: e.Name, Version: e.Version})
			versions = append(versions, e.Version)
		case e.State == savepoint.Open && f.open:
			v.Days = append(v.Days, views.Day{Label: e.Name, Version: t.newest.Version()})
			versions = append(versions, t.newest.Version())
		}
		if e.Name == f.to {
			break
		}
	}
	if f.days > 0 && len(v.Days) > f.days {
		v.Days = v.Days[len(v.Days)-f.days:]
		versions = versions[len(versions)-f.days:]
	}
	slices.Sort(versions)
	err = t.table.EachSnapshot(ctx, slices.Compact(versions), func(version int64, s *delta.Snapshot, err error) error {
		if err != nil {
			return fmt.Errorf("table %s: version %d: %w; `gscd check` says more", t.Name, version, err)
		}
		for i := range v.Days {
			if v.Days[i].Version == version {
				v.Days[i].Schema = s.Schema()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	statement, err := views.Dialect(f.dialect).Statement(v)
	if err != nil {
		return fmt.Errorf("table %s: %w: no label is sealed between --from and --to", t.Name, err)
	}
	_, err = io.WriteString(a.stdout, statement)
	return err
}
