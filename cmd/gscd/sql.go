package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/savepoint"
)

// sqlFlags bound what a statement may use.
type sqlFlags struct {
	memoryLimit, tempLimit, tempDir string
	// views are NAME=QUERY, inits files of CREATE VIEW; made are those of a session.
	views, inits []string
	made         []sql.View
}

func (f *sqlFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.memoryLimit, "memory-limit", "2GiB", "with SQL: `size` of the memory for joins, groups and sorts; more goes to disk")
	flags.StringVar(&f.tempLimit, "temp-limit", "20GiB", "with SQL: `size` that may go to disk, and that may be fetched from S3")
	flags.StringVar(&f.tempDir, "temp-dir", "", "with SQL: `folder` for what goes to disk (default: that of the system)")
}

func (f *sqlFlags) addViews(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.views, "view", nil, "with SQL: a query under a name, `NAME=SELECT …`; may be given again")
	flags.StringArrayVar(&f.inits, "init", nil, "with SQL: a `file` of statements CREATE VIEW name AS SELECT …; may be given again")
}

// limits sets those of a statement.
func (f *sqlFlags) limits(o *sql.Options) error {
	for _, limit := range []struct {
		flag, text string
		into       *int64
	}{{"memory-limit", f.memoryLimit, &o.MemoryLimit}, {"temp-limit", f.tempLimit, &o.TempLimit}} {
		var size config.Size
		if err := size.UnmarshalText([]byte(limit.text)); err != nil {
			return usagef("--%s: %w", limit.flag, err)
		}
		if size <= 0 {
			return usagef("--%s 0: give a size, such as 1GiB", limit.flag)
		}
		*limit.into = int64(size)
	}
	return nil
}

// answer prints the answer to a statement.
func (a *app) answer(ctx context.Context, statement string, f queryFlags) error {
	if statement == "-" {
		raw, err := io.ReadAll(a.stdin)
		if err != nil {
			return fmt.Errorf("read the statement: %w", err)
		}
		statement = string(raw)
	}
	o := sql.Options{Sealed: f.sealed, TempDir: f.sql.tempDir, Notice: func(text string) { a.noticef("%s", text) }}
	if err := f.sql.limits(&o); err != nil {
		return err
	}
	var err error
	if o.Views, err = f.sql.allViews(); err != nil {
		return err
	}
	var opened []*openedTable
	if o.Tables, err = a.sqlTables(f, func(t *openedTable) { opened = append(opened, t) }); err != nil {
		return err
	}
	// Without this the program would be gone as soon as the reader of its output is
	// (… | head), and its temporary files would stay.
	signal.Ignore(syscall.SIGPIPE)
	err = withReadable(ctx, opened, a.printAnswer(ctx, statement, f, o))
	var fault *sql.Error
	switch {
	case errors.Is(err, syscall.EPIPE):
		return silently(exitPipe, err)
	case errors.As(err, &fault) && fault.Rejected:
		return &exitError{code: exitUsage, err: err}
	case f.sealed && notSealed(err):
		return &exitError{code: exitNo, err: err}
	}
	return err
}

// withReadable adds to the error of a file that is gone which days can be read still.
func withReadable(ctx context.Context, opened []*openedTable, err error) error {
	if !errors.Is(err, scan.ErrFileMissing) && !errors.Is(err, scan.ErrFileMismatch) {
		return err
	}
	for _, t := range opened {
		if len(opened) > 1 && !strings.Contains(err.Error(), "table "+t.Name+":") {
			continue
		}
		if list := t.stillReadable(ctx); list != "" {
			return fmt.Errorf("%w; %s", err, list)
		}
	}
	return err
}

func (a *app) printAnswer(ctx context.Context, statement string, f queryFlags, o sql.Options) error {
	switch f.explain {
	case "files":
		return a.explainStatement(ctx, statement, o)
	case "plan":
		statement = "EXPLAIN " + statement
	}
	rows, err := sql.Run(ctx, statement, o)
	if err != nil {
		return err
	}
	defer rows.Close()
	opened := rows.Stats()
	a.log.Debug("opened", zap.Int("labels", opened.Days), zap.Int("files", opened.Files), zap.Int64("bytes", opened.Bytes), zap.Int64("fetched", opened.Fetched))
	if rows.IsPlan() && a.flags.format == "" && f.output == "" {
		for row, err := range rows.All() {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(a.stdout, row[0].S); err != nil {
				return err
			}
		}
		return nil
	}
	return a.printRows(f.output, rows.Columns(), rows.All())
}

// sqlTables are the tables that a statement may name: the one that --table names,
// and all that are configured. opening is told of each that is opened.
func (a *app) sqlTables(f queryFlags, opening ...func(*openedTable)) ([]sql.Table, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	var refs []tableRef
	if a.flags.table != "" {
		ref, err := a.resolveTable(a.flags.table)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	for i := range cfg.Tables {
		if t := &cfg.Tables[i]; len(refs) == 0 || refs[0].Config != t {
			refs = append(refs, configured(t))
		}
	}
	opened := 0
	var tables []sql.Table
	for i, ref := range refs {
		names := []string{ref.Name}
		if i == 0 && (a.flags.table != "" || len(refs) == 1) {
			names = append(names, "t")
		}
		tables = append(tables, sql.Table{Names: names, Open: func(ctx context.Context) (*sql.Source, error) {
			if opened++; opened > 1 && f.version >= 0 {
				return nil, usagef("--version is of one table, and the statement names several: use --as-of, or dt in the statement")
			}
			return a.sqlSource(ctx, ref, f, opening...)
		}})
	}
	return tables, nil
}

// sqlSource opens a table for a statement, at the version that the flags fix.
func (a *app) sqlSource(ctx context.Context, ref tableRef, f queryFlags, opening ...func(*openedTable)) (*sql.Source, error) {
	t, err := a.openRef(ctx, ref)
	if err != nil {
		return nil, err
	}
	for _, told := range opening {
		told(t)
	}
	s := &sql.Source{Name: t.Name, Store: t.store, Table: t.table, Newest: t.newest, Labels: t.labels}
	if f.asOf == "" && f.timestamp == "" && f.version < 0 {
		return s, nil
	}
	if s.Fixed, err = a.pointInTime(ctx, t, f); err != nil {
		return nil, err
	}
	s.FixedLabel, err = t.labelOf(ctx, s.Fixed, f.asOf)
	return s, err
}

// labelOf is the label of a version: the one that was asked for, else the last
// that it is the savepoint of, else the one that was open then; "" in a table
// without labels.
func (t *openedTable) labelOf(ctx context.Context, at *delta.Snapshot, asked string) (string, error) {
	if t.labels == nil {
		return "", nil
	}
	if asked != "" {
		r, err := t.labels.Resolve(asked, false)
		return r.Entry.Name, err
	}
	for _, e := range slices.Backward(t.labels.Entries) {
		if e.State == savepoint.Sealed && e.Version == at.Version() {
			return e.Name, nil
		}
	}
	p, err := savepoint.ProgressOf(ctx, t.table, at)
	if err != nil {
		return "", fmt.Errorf("table %s: version %d: %w", t.Name, at.Version(), err)
	}
	return t.labels.Calendar.Name(p.State.Open), nil
}
