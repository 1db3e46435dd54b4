package write

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// layout is how rows of a table lie in its files.
type layout struct {
	schema     *schema.Schema
	metadata   *action.Metadata
	partitions []int // places of the partition columns, in their order
	data       []int // places of the others that files have
	columns    []parquet.Column
	// leaves are the columns, and fields inside of structs, that files have, by place in
	// columns; indexed are those of them that get statistics.
	leaves, indexed []stats.Leaf
}

// layoutOf gives the layout of a version whose schema has column mapping applied.
func layoutOf(s *schema.Schema, m *action.Metadata) (*layout, error) {
	l, err := changeLayoutOf(s, m)
	if err == nil && len(l.columns) == 0 {
		return nil, fmt.Errorf("%w: every column is a partition column, or void", ErrColumn)
	}
	return l, err
}

// changeLayoutOf is layoutOf for change data files, which have a column of their own.
func changeLayoutOf(s *schema.Schema, m *action.Metadata) (*layout, error) {
	l := &layout{schema: s, metadata: m}
	for _, name := range m.PartitionColumns {
		i := s.Index(name)
		if i < 0 {
			return nil, fmt.Errorf("%w: partition column %q is not in the schema", delta.ErrCorrupt, name)
		}
		if !s.Fields[i].Type.IsLeaf() {
			return nil, fmt.Errorf("%w: partition column %q is %s", ErrColumn, name, s.Fields[i].Type)
		}
		l.partitions = append(l.partitions, i)
	}
	var fields []schema.Field
	for i := range s.Fields {
		if !slices.Contains(l.partitions, i) && s.Fields[i].Type.Primitive != schema.Void { // that is in no file
			fields = append(fields, s.Fields[i])
			l.data = append(l.data, i)
			l.columns = append(l.columns, columnOf(&s.Fields[i]))
		}
	}
	l.leaves = stats.Leaves(fields)
	l.indexed = stats.Indexed(m.Configuration, l.leaves)
	return l, nil
}

// columnOf is a column as it is written: under column mapping, of either mode, with its id.
func columnOf(f *schema.Field) parquet.Column {
	own := withIDs(*f)
	return parquet.ColumnOf(&own)
}

// withIDs gives a field the id that its metadata tells, where column mapping is in force,
// and those in it.
func withIDs(f schema.Field) schema.Field {
	if f.FileName == "" {
		return f
	}
	if raw, ok := f.Metadata[metadataFieldID]; ok {
		_ = json.Unmarshal(raw, &f.FieldID) // what is no number stays 0: no id
	}
	f.Type = idsInside(f.Type)
	return f
}

func idsInside(t schema.Type) schema.Type {
	if t.Nested == nil {
		return t
	}
	n := *t.Nested
	n.Fields = make([]schema.Field, len(t.Nested.Fields))
	for i, f := range t.Nested.Fields {
		n.Fields[i] = withIDs(f)
	}
	n.Key, n.Element = idsInside(n.Key), idsInside(n.Element)
	t.Nested = &n
	return t
}

// cluster gives the columns that the table is clustered by statistics too, as the
// feature asks.
func (l *layout) cluster(s *delta.Snapshot) error {
	paths, err := s.ClusteringColumns()
	if err != nil {
		return err
	}
	for _, leaf := range l.leaves {
		at, found := slices.BinarySearchFunc(l.indexed, leaf, func(a, b stats.Leaf) int { return slices.Compare(a.Place, b.Place) })
		if !found && leaf.Type.IsLeaf() && slices.ContainsFunc(paths, func(path []string) bool { return slices.Equal(path, leaf.Stored) }) {
			l.indexed = slices.Insert(l.indexed, at, leaf)
		}
	}
	return nil
}

const domainClustering = "delta.clustering"

// encode gives add.stats of a file. st may have more columns than the layout.
func (l *layout) encode(st parquet.FileStats) string {
	return stats.Encode(l.indexed, st, nil)
}

// partitionOf gives the folder of a row's partition and its values as the log has them.
func (l *layout) partitionOf(row []schema.Value) (folder string, values map[string]*string) {
	values = make(map[string]*string, len(l.partitions))
	var b strings.Builder
	for _, c := range l.partitions {
		f := &l.schema.Fields[c]
		text := action.FormatPartitionValue(row[c], f.Type)
		values[f.Stored()] = text
		b.WriteString(action.PartitionFolder(f.Stored(), text))
		b.WriteByte('/')
	}
	return b.String(), values
}

// sameRows reports whether rows that were written for one layout fit another one.
func (l *layout) sameRows(o *layout) bool {
	return l.metadata.SchemaString == o.metadata.SchemaString && slices.Equal(l.metadata.PartitionColumns, o.metadata.PartitionColumns) &&
		l.metadata.Configuration[delta.PropertyColumnMapping] == o.metadata.Configuration[delta.PropertyColumnMapping] &&
		slices.Equal(constraintsOf(l.metadata), constraintsOf(o.metadata))
}

const (
	metadataFieldID  = "delta.columnMapping.id"
	metadataFileName = "delta.columnMapping.physicalName"
)
