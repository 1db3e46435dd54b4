package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/query/report"
	"github.com/gscd-io/gscd/query/sql"
)

type reportFlags struct {
	html, columns string
	tables        []string
	labels        int
	maxRows       int64
	noCheck       bool
	sql           sqlFlags
}

func newReportCommand(a *app) *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use:     "report",
		GroupID: groupReading,
		Short:   "Draw a table as a page: its days, what happened, what is wrong, what the columns hold",
		Long: `Writes one HTML file for a table, which needs no server, no script and no network: the days
as a calendar, rows and changes of each, drift and late changes, what each savepoint holds
alone, what is open, and what there is to look at: days that are incomplete or were rolled
back, partitions that are behind, dead letters, and what "gscd check" finds. Of the last
--labels labels it says for each column how many values are NULL, how many are distinct
(about), the least and the greatest.

Without --table all configured tables are drawn. Where that is more than one, --html names
a folder, and each table gets the file TABLE.html in it.`,
		Example: `  gscd report --html days.html
  gscd report --html pages/ --table user_dim --table orders
  gscd report --html days.html --labels 30 --columns id,amount --max-rows 100000000`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case f.html == "":
				return usagef("--html says which file to write")
			case f.labels < 0:
				return usagef("--labels %d: give a number of labels, 0 for none", f.labels)
			case f.maxRows < 0:
				return usagef("--max-rows %d: give a number of rows, 0 for none", f.maxRows)
			}
			return a.drawReports(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.html, "html", "", "the `file` to write, a folder where there are several tables")
	flags.StringArrayVar(&f.tables, "table", nil, "a `table`: an address or a configured name; may be given again (default: all that are configured)")
	flags.IntVar(&f.labels, "labels", 7, "describe the columns of the last `number` of labels; 0: of none")
	flags.StringVar(&f.columns, "columns", "", fmt.Sprintf("describe these `columns`: A,B (default: the first %d)", report.MaxColumns))
	flags.Int64Var(&f.maxRows, "max-rows", 20_000_000, "read the values of at most that `number` of rows, over all labels; beyond them the statistics in the log must do")
	flags.BoolVar(&f.noCheck, "no-check", false, "leave out what gscd check finds")
	f.sql.add(flags)
	_ = c.RegisterFlagCompletionFunc("table", a.completeTables) // its only error is a flag that is not there
	return c
}

func (a *app) drawReports(ctx context.Context, f reportFlags) error {
	tables := f.tables
	if len(tables) == 0 {
		var err error
		if tables, err = a.tablesToShow(); err != nil {
			return err
		}
	}
	o := report.Options{Labels: f.labels, MaxRows: f.maxRows, Check: !f.noCheck, TempDir: f.sql.tempDir}
	if f.columns != "" {
		for _, name := range strings.Split(f.columns, ",") {
			o.Columns = append(o.Columns, strings.TrimSpace(name))
		}
	}
	var limits sql.Options
	if err := f.sql.limits(&limits); err != nil {
		return err
	}
	o.MemoryLimit, o.TempLimit = limits.MemoryLimit, limits.TempLimit
	info, err := os.Stat(f.html)
	folder := len(tables) > 1 || strings.HasSuffix(f.html, "/") || err == nil && info.IsDir()
	if err == nil && !info.IsDir() && folder {
		return usagef("--html %s is a file, and there are %d tables: name a folder", f.html, len(tables))
	}
	if folder {
		if err := os.MkdirAll(f.html, 0o777); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	written := map[string]string{}
	w, err := a.printRecords("table", "file", "labels", "problems")
	if err != nil {
		return err
	}
	for _, name := range tables {
		a.flags.table = name
		t, err := a.openTable(ctx)
		if errors.Is(err, delta.ErrNotATable) && len(tables) > 1 {
			a.noticef("table %s does not exist yet: no record with a label was taken", name)
			continue
		}
		if err != nil {
			return err
		}
		path := f.html
		if folder {
			path = filepath.Join(f.html, fileNameOf(t.Name)+".html")
			if other, taken := written[path]; taken {
				return usagef("tables %s and %s would both be %s: give each a name in the configuration", other, t.Address, path)
			}
			written[path] = t.Address
		}
		r, err := a.drawReport(ctx, t, path, o)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		if err := w.Write(t.Name, path, len(r.Days), len(r.Problems)); err != nil {
			return err
		}
	}
	return w.Close()
}

func (a *app) drawReport(ctx context.Context, t *openedTable, path string, o report.Options) (*report.Report, error) {
	o.Now = time.Now()
	o.Progress = a.steps.work()
	r, err := report.Build(ctx, report.Source{Name: t.Name, Store: t.store, Table: t.table, Newest: t.newest, Labels: t.labels}, o)
	a.steps.close()
	if errors.Is(err, report.ErrNoColumn) {
		return nil, usagef("--columns: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return r, writeWhole(path, r.Write)
}

// fileNameOf makes a name of a table one of a file: no place but the folder.
func fileNameOf(table string) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, table)
	if strings.Trim(name, ".") == "" {
		return "table"
	}
	return name
}
