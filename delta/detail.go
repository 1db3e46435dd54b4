package delta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
)

// Detail is what DESCRIBE DETAIL of Spark says of a version.
type Detail struct {
	Format, ID, Name, Description string
	// Location is the address of the table.
	Location string
	// Created is zero where the log does not say; Modified is the time of the version's
	// commit, zero where its file is gone.
	Created, Modified time.Time
	PartitionColumns  []string
	// ClusteringColumns of a clustered table; those inside of structs as "s.a".
	ClusteringColumns                  []string
	NumFiles                           int
	SizeInBytes                        int64
	Properties                         map[string]string
	MinReaderVersion, MinWriterVersion int32
	// TableFeatures are those in force, sorted, those of old protocol versions too.
	TableFeatures []string
}

// Detail sums up a version by the log. The error wraps ErrCorrupt, or is the store's.
func (t *Table) Detail(ctx context.Context, s *Snapshot) (Detail, error) {
	m := s.metadata
	d := Detail{
		Format: m.Format.Provider, ID: m.ID, Name: m.Name, Description: m.Description, Location: t.store.String(),
		PartitionColumns: slices.Clone(m.PartitionColumns), NumFiles: s.numFiles, Properties: maps.Clone(m.Configuration),
		MinReaderVersion: s.protocol.MinReaderVersion, MinWriterVersion: s.protocol.MinWriterVersion,
		TableFeatures: slices.Sorted(slices.Values(FeaturesOf(s.protocol))),
	}
	if m.CreatedTime != nil {
		d.Created = time.UnixMilli(*m.CreatedTime).UTC()
	}
	for _, a := range s.Files() {
		d.SizeInBytes += a.Size
	}
	paths, err := s.ClusteringColumns()
	if err != nil {
		return d, err
	}
	for _, path := range paths {
		d.ClusteringColumns = append(d.ClusteringColumns, logicalPath(s.schema.Fields, path))
	}
	switch at, err := t.CommitTime(ctx, s.version); {
	case errors.Is(err, ErrVersionNotFound): // a checkpoint whose commit is cleaned away
	case err != nil:
		return d, err
	default:
		d.Modified = at.UTC()
	}
	return d, nil
}

const domainClustering = "delta.clustering"

// ClusteringColumns gives the columns that the table is clustered by, each as the path
// of its names in files; nil for a table that is not clustered. The error wraps
// ErrCorrupt.
func (s *Snapshot) ClusteringColumns() ([][]string, error) {
	d, ok := s.domains.get(domainClustering)
	if !ok {
		return nil, nil
	}
	var by struct {
		Columns [][]string `json:"clusteringColumns"`
	}
	if err := json.Unmarshal([]byte(d.Configuration), &by); err != nil {
		return nil, fmt.Errorf("%w: domain %s: %w", ErrCorrupt, d.Domain, err)
	}
	return slices.DeleteFunc(by.Columns, func(path []string) bool { return len(path) == 0 }), nil
}

// logicalPath gives the names of a path of names in files; one that is not in the schema
// stays as it is.
func logicalPath(fields []schema.Field, path []string) string {
	names := slices.Clone(path)
	for i, stored := range path {
		at := slices.IndexFunc(fields, func(f schema.Field) bool { return f.Stored() == stored })
		if at < 0 {
			break
		}
		names[i] = fields[at].Name
		if fields[at].Type.Nested == nil {
			break
		}
		fields = fields[at].Type.Nested.Fields
	}
	return strings.Join(names, ".")
}
