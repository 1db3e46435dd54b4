package slice

import (
	"context"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
)

// Table gives the source of a version of a Delta table, whoever wrote it.
func Table(store objstore.Store, at *delta.Snapshot) Source { return &table{store, at} }

type table struct {
	store objstore.Store
	at    *delta.Snapshot
}

func (t *table) Name() string { return fmt.Sprintf("%s version %d", t.store, t.at.Version()) }

func (t *table) Open(ctx context.Context, _ *schema.Schema) (ingest.SliceRows, error) {
	s, err := scan.New(t.store, t.at, scan.Options{})
	if err != nil {
		return ingest.SliceRows{}, err
	}
	columns := s.Columns()
	for i := range columns {
		columns[i] = schema.Field{Name: columns[i].Name, Type: columns[i].Type, Nullable: true}
	}
	return ingest.SliceRows{Columns: columns, Rows: s.Rows(ctx)}, nil
}
