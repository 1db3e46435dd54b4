package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/slice"
	"github.com/gscd-io/gscd/slice/mysql"
	"github.com/gscd-io/gscd/snapshotter"
)

// labelsOfCalendar tells labels of a calendar from other texts.
func labelsOfCalendar(c *snapshotter.Calendar) slice.ParseLabel {
	return func(text string) (int64, bool) {
		l, err := c.Parse(text)
		return int64(l), err == nil
	}
}

// loadFolder loads the slices of a folder.
func (a *app) loadFolder(ctx context.Context, f *loadFlags, o ingest.Options, s ingest.Slice) error {
	fo, err := f.fileOptions(o.Columns)
	if err != nil {
		return err
	}
	folder, err := a.slicePlace(ctx, f.fromDir)
	if err != nil {
		return err
	}
	list, waiting, err := slice.Folder(folder, f.mark, labelsOfCalendar(o.Calendar), fo)
	if err != nil {
		return err
	}
	for _, path := range waiting {
		a.noticef("%s is left out: its mark %s is not there", path, f.mark)
	}
	if len(list) == 0 {
		return fmt.Errorf("%s has no slice", f.fromDir)
	}
	return a.loadAll(ctx, f, o, s, list)
}

// loadByColumn loads the rows of each label that a column has.
func (a *app) loadByColumn(ctx context.Context, f *loadFlags, o ingest.Options, s ingest.Slice, source slice.Source) error {
	var columns *schema.Schema
	at, err := delta.New(o.Store).Snapshot(ctx)
	switch {
	case err == nil:
		columns = at.Schema()
	case !errors.Is(err, delta.ErrNotATable):
		return err
	}
	dir := spill.Dir{Parent: f.tempDir}
	defer dir.Close()
	list, err := slice.Split(ctx, source, columns, f.labelColumn, labelsOfCalendar(o.Calendar), &dir)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("%w: %s has 0 rows", ingest.ErrIncompleteSlice, source.Name())
	}
	return a.loadAll(ctx, f, o, s, list)
}

// loadAll loads slices in their order, up to the first one that is refused.
func (a *app) loadAll(ctx context.Context, f *loadFlags, o ingest.Options, s ingest.Slice, list []slice.Labelled) error {
	if f.dryRun {
		list = list[:1] // the others would be compared with what it has not become
		a.noticef("only the first slice is tried: the next would be compared with what this one leaves")
	}
	var names []string
	for _, item := range loadedRecord(&ingest.Loaded{}, false) {
		names = append(names, item.Name)
	}
	w, err := a.printRecords(names...)
	if err != nil {
		return err
	}
	var fault error
	for i, l := range list {
		s.Label, s.Source, s.Open = l.Label, l.Source.Name(), l.Source.Open
		done, err := ingest.LoadSlice(ctx, o, s)
		if err != nil {
			fault = fmt.Errorf("%s: %w; %d of %d slices are loaded, and the same command goes on with this one", l.Source.Name(), err, i, len(list))
			break
		}
		var values []any
		for _, item := range loadedRecord(done, f.dryRun) {
			values = append(values, item.Value)
		}
		if err := w.Write(values...); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), fault)
}

// mysqlSource is a table of a MySQL server.
func (a *app) mysqlSource(address string) (slice.Source, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	t, err := mysql.Open(address, source.Options{
		Password: string(cfg.MySQL.Password), TLS: cfg.MySQL.TLS == "require", SkipVerify: cfg.MySQL.TLS == "skip-verify", CAFile: cfg.MySQL.CAFile,
		CertFile: cfg.MySQL.CertFile, KeyFile: cfg.MySQL.KeyFile,
	})
	if errors.Is(err, mysql.ErrAddress) {
		return nil, usagef("%w", err)
	}
	return t, err
}

// selectSource is the answer of a statement over Delta tables; it reaches nothing else.
func (a *app) selectSource(f *loadFlags) (slice.Source, error) {
	o := sql.Options{TempDir: f.tempDir, Notice: func(text string) { a.noticef("%s", text) }}
	limits := sqlFlags{memoryLimit: "2GiB", tempLimit: "20GiB"}
	if err := limits.limits(&o); err != nil {
		return nil, err
	}
	for _, text := range f.tables {
		name, address, ok := strings.Cut(text, "=")
		if !ok || name == "" || address == "" {
			return nil, usagef("--from %s: write NAME=ADDRESS", text)
		}
		ref := tableRef{Name: name, Address: address}
		o.Tables = append(o.Tables, sql.Table{Names: []string{name}, Open: func(ctx context.Context) (*sql.Source, error) {
			return a.sqlSource(ctx, ref, queryFlags{version: -1})
		}})
	}
	configured, err := a.sqlTables(queryFlags{version: -1})
	if err != nil {
		return nil, err
	}
	o.Tables = append(o.Tables, configured...)
	return &answer{statement: f.statement, o: o}, nil
}

// answer is the rows of a statement. It implements slice.Source.
type answer struct {
	statement string
	o         sql.Options
	rows      *sql.Rows // of the last Open
}

func (s *answer) Name() string { return s.statement }

func (s *answer) Open(ctx context.Context, _ *schema.Schema) (ingest.SliceRows, error) {
	s.Close()
	var err error
	s.rows, err = sql.Run(ctx, s.statement, s.o)
	var fault *sql.Error
	if errors.As(err, &fault) && fault.Rejected {
		err = &exitError{code: exitUsage, err: err}
	}
	if err != nil {
		s.rows = nil
		return ingest.SliceRows{}, err
	}
	columns := make([]schema.Field, len(s.rows.Columns()))
	for i, f := range s.rows.Columns() {
		columns[i] = schema.Field{Name: f.Name, Type: f.Type, Nullable: true}
	}
	return ingest.SliceRows{Columns: columns, Rows: s.rows.All()}, nil
}

// Close ends the last statement.
func (s *answer) Close() error {
	if s.rows != nil {
		s.rows.Close()
		s.rows = nil
	}
	return nil
}
