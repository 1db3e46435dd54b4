package main

import (
	"context"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/query/sql"
)

// explained are the names of what --explain prints: a line for each day of each table.
var explained = []string{"table", "label", "version", "files", "opened", "skipped", "row_groups", "row_groups_read", "pages", "pages_read", "bytes", "fetch"}

// explainStatement prints which days and files a statement would open.
func (a *app) explainStatement(ctx context.Context, statement string, o sql.Options) error {
	e, err := sql.Explain(ctx, statement, o)
	if err != nil {
		return err
	}
	w, err := a.printRecords(explained...)
	if err != nil {
		return err
	}
	for _, t := range e.Tables {
		for _, d := range t.Days {
			var label any
			if d.Label != "" {
				label = d.Label
			}
			// DuckDB reads row groups whole.
			err := w.Write(t.Name, label, d.Version, d.Files, d.Opened, d.Files-d.Opened, d.RowGroups, d.ReadGroups, nil, nil, d.Bytes, d.Fetch)
			if err != nil {
				return err
			}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	for _, t := range e.Tables {
		if t.Labels > 0 {
			a.noticef("%s: %d of %d labels", t.Name, len(t.Days), t.Labels)
		}
	}
	a.noticef("files opened: %d, of %d bytes; bytes fetched: %d", e.Files, e.Bytes, e.Fetched)
	return nil
}

// explainScan prints which files a read without SQL would open.
func (a *app) explainScan(ctx context.Context, t *openedTable, f queryFlags, reading *scan.Scan) error {
	at := reading.Snapshot()
	label, err := t.labelOf(ctx, at, f.asOf)
	if err != nil {
		return err
	}
	var shown any
	if label != "" {
		shown = label
	}
	much, err := reading.Reading(ctx)
	if err != nil {
		return err
	}
	bytes := int64(0)
	for _, add := range reading.Files() {
		bytes += add.Size
	}
	w, err := a.printRecords(explained...)
	if err != nil {
		return err
	}
	opened := len(reading.Files())
	// How much of a file is fetched without SQL depends on its columns, read as they come.
	if err := w.Write(t.Name, shown, at.Version(), at.NumFiles(), opened, at.NumFiles()-opened, much.RowGroups, much.RowGroupsRead, much.Pages, much.PagesRead, bytes, nil); err != nil {
		return err
	}
	return w.Close()
}
