package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/savepoint"
)

// openedTable is a table as a command found it.
type openedTable struct {
	tableRef
	store  objstore.Store
	table  *delta.Table
	newest *delta.Snapshot
	// labels is nil for a table that gscd did not write.
	labels *savepoint.Map
}

// openDelta opens the table that --table names, whoever wrote it.
func (a *app) openDelta(ctx context.Context) (*openedTable, error) {
	ref, err := a.resolveTable(a.flags.table)
	if err != nil {
		return nil, err
	}
	return a.openRef(ctx, ref)
}

// openRef opens a table, whoever wrote it.
func (a *app) openRef(ctx context.Context, ref tableRef) (*openedTable, error) {
	t := &openedTable{tableRef: ref}
	var err error
	if t.store, err = a.openToRead(ctx, ref.Address); err != nil {
		return nil, err
	}
	if t.table, err = savepoint.OpenTable(ctx, t.store); err != nil {
		return nil, err
	}
	if t.newest, err = t.table.Snapshot(ctx); err != nil {
		return nil, err
	}
	t.labels, err = savepoint.Read(ctx, t.table, t.newest)
	if err != nil && !errors.Is(err, savepoint.ErrForeign) {
		return nil, fmt.Errorf("table %s: %w", ref.Name, err)
	}
	return t, nil
}

// openTable opens the table that --table names, which must be one of gscd.
func (a *app) openTable(ctx context.Context) (*openedTable, error) {
	t, err := a.openDelta(ctx)
	if err != nil {
		return nil, err
	}
	if t.labels == nil {
		return nil, fmt.Errorf("table %s: %w: it has versions, and no snapshots by label", t.Name, savepoint.ErrForeign)
	}
	return t, nil
}
