package write

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
)

// AlterIn puts changes of columns into a transaction that does other things too, and
// gives the columns that the table will have, with their names in files. It is Alter
// without a commit of its own; tx must be one on base.
func AlterIn(ctx context.Context, table *delta.Table, base *delta.Snapshot, tx *delta.Transaction, changes []Change) (*schema.Schema, error) {
	p := &plan{op: newOperation(table, nil), snapshot: base, tx: tx}
	tx.Implements(implemented...)
	a := &alteration{ctx: ctx, plan: p, metadata: *base.Metadata(), fields: ownFields(base.Schema().Fields)}
	a.metadata.Configuration = maps.Clone(base.Metadata().Configuration)
	if a.metadata.Configuration == nil {
		a.metadata.Configuration = map[string]string{}
	}
	a.metadata.PartitionColumns = append([]string{}, base.Metadata().PartitionColumns...)
	for _, change := range changes {
		if err := change(a); err != nil {
			return nil, fmt.Errorf("alter %s: %w", table.Store(), err)
		}
	}
	if _, err := a.finish(); err != nil {
		return nil, fmt.Errorf("alter %s: %w", table.Store(), err)
	}
	return mappedSchema(&a.metadata)
}

// Remap gives the metadata of a table with the columns of an older version of it. Where
// column mapping was turned on since, the older columns get the ids that they have been
// given then, or, where they were dropped before the newer version, new ones.
func Remap(now, then *action.Metadata) (action.Metadata, error) {
	out := *now
	out.SchemaString = then.SchemaString
	mode := now.Configuration[delta.PropertyColumnMapping]
	if mode != "name" && mode != "id" {
		return out, nil
	}
	if m := then.Configuration[delta.PropertyColumnMapping]; m == "name" || m == "id" {
		return out, nil
	}
	older, err := schema.Parse(then.SchemaString)
	if err != nil {
		return out, err
	}
	newer, err := mappedSchema(now)
	if err != nil {
		return out, err
	}
	fields := ownFields(older.Fields)
	for i := range fields {
		for _, f := range newer.Fields {
			if f.FileName == fields[i].Name && f.MappedID() != 0 {
				fields[i].Metadata = withMetadata(fields[i].Metadata, metadataFieldID, f.MappedID())
				fields[i].Metadata = withMetadata(fields[i].Metadata, metadataFileName, f.FileName)
				fields[i].FileName = f.FileName
				if f.Type.Nested != nil {
					fields[i].Type = f.Type
				}
			}
		}
	}
	maxID := maxColumnID(now)
	fields = assignIDs(fields, &maxID, false)
	for _, f := range fields {
		if f.FileName != f.Name {
			return out, errors.New("a column has a name that files can't have")
		}
	}
	s, err := schema.New(fields...)
	if err != nil {
		return out, err
	}
	out.SchemaString = s.String()
	out.Configuration = maps.Clone(now.Configuration)
	out.Configuration[delta.PropertyMaxColumnID] = strconv.Itoa(int(maxID))
	return out, nil
}
