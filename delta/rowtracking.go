package delta

import (
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// PropertyRowTracking turns on stable numbers of rows: delta.enableRowTracking.
const PropertyRowTracking = "delta.enableRowTracking"

// The properties that name the columns of files with numbers of rows that have moved.
const (
	PropertyRowIDColumn      = "delta.rowTracking.materializedRowIdColumnName"
	PropertyRowVersionColumn = "delta.rowTracking.materializedRowCommitVersionColumnName"
)

// RowTracking says where the numbers of rows are in a table that keeps them when rows
// move ("Row Tracking"): in two columns of the file, and where these have NULL or are not
// there, in the add of the file.
type RowTracking struct {
	// IDColumn and VersionColumn are names in files; the columns are not in the schema.
	IDColumn, VersionColumn string
}

// RowTracking tells how the table keeps the numbers of rows; nil where it does not. The
// error wraps ErrCorrupt.
func (s *Snapshot) RowTracking() (*RowTracking, error) {
	c := s.metadata.Configuration
	if c[PropertyRowTracking] != "true" || !slices.Contains(FeaturesOf(s.protocol), FeatureRowTracking) {
		return nil, nil
	}
	r := &RowTracking{IDColumn: c[PropertyRowIDColumn], VersionColumn: c[PropertyRowVersionColumn]}
	if r.IDColumn == "" || r.VersionColumn == "" {
		return nil, fmt.Errorf("%w: %s is true, but %s or %s is not set", ErrCorrupt, PropertyRowTracking, PropertyRowIDColumn, PropertyRowVersionColumn)
	}
	return r, nil
}

// Columns are those of files with the id of a row and the version that wrote it last.
func (r *RowTracking) Columns() []parquet.Column {
	long := schema.Of(schema.Long)
	return []parquet.Column{{Name: r.IDColumn, Type: long}, {Name: r.VersionColumn, Type: long}}
}

// Fill gives the row at a place of a file the numbers that its columns leave to the add.
// The error wraps ErrCorrupt.
func (r *RowTracking) Fill(add *action.Add, place int64, id, version *schema.Value) error {
	if id.IsNull() {
		if add.BaseRowID == nil {
			return fmt.Errorf("%w: add of %q without baseRowId, though %s is true", ErrCorrupt, add.Path, PropertyRowTracking)
		}
		*id = schema.IntValue(*add.BaseRowID + place)
	}
	if version.IsNull() {
		if add.DefaultRowCommitVersion == nil {
			return fmt.Errorf("%w: add of %q without defaultRowCommitVersion, though %s is true", ErrCorrupt, add.Path, PropertyRowTracking)
		}
		*version = schema.IntValue(*add.DefaultRowCommitVersion)
	}
	return nil
}
