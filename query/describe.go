package query

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/gscd-io/gscd/query/output"
)

// Description is what `gscd describe` says of a version.
type Description struct {
	Version     int64
	ID          string
	Name        string
	Description string
	Created     time.Time // zero where the log does not say

	MinReaderVersion int32
	MinWriterVersion int32
	ReaderFeatures   []string
	WriterFeatures   []string

	Columns          []schema.Field
	PartitionColumns []string
	// Properties of the table; values that may be secrets are masked.
	Properties map[string]string

	Files int
	Bytes int64
	// Rows are the live rows and DeletedRows those that deletion vectors hide.
	// Rows is -1 where a file's statistics don't say how many it has.
	Rows            int64
	DeletedRows     int64
	DeletionVectors int
}

// Describe sums up a snapshot from the log alone; no file is opened.
func Describe(snapshot *delta.Snapshot) Description {
	m, p := snapshot.Metadata(), snapshot.Protocol()
	d := Description{
		Version: snapshot.Version(), ID: m.ID, Name: m.Name, Description: m.Description,
		MinReaderVersion: p.MinReaderVersion, MinWriterVersion: p.MinWriterVersion,
		ReaderFeatures: p.ReaderFeatures, WriterFeatures: p.WriterFeatures,
		Columns: snapshot.Schema().Fields, PartitionColumns: m.PartitionColumns,
		Properties: maskSecrets(m.Configuration), Files: snapshot.NumFiles(),
	}
	if m.CreatedTime != nil {
		d.Created = time.UnixMilli(*m.CreatedTime).UTC()
	}
	for _, add := range snapshot.Files() {
		d.Bytes += add.Size
		if add.DeletionVector != nil {
			d.DeletionVectors++
			d.DeletedRows += add.DeletionVector.Cardinality
		}
		if rows, known := stats.NumRecords(add.Stats); !known {
			d.Rows = -1
		} else if d.Rows >= 0 {
			d.Rows += rows
		}
	}
	if d.Rows >= 0 {
		d.Rows -= d.DeletedRows
	}
	return d
}

// Record gives the description for printing, with stable names.
func (d Description) Record() output.Record {
	columns := make([]output.Record, len(d.Columns))
	for i, f := range d.Columns {
		columns[i] = output.Record{
			{Name: "name", Value: f.Name},
			{Name: "type", Value: f.Type.String()},
			{Name: "nullable", Value: f.Nullable},
			{Name: "partition", Value: slices.Contains(d.PartitionColumns, f.Name)},
		}
	}
	var properties output.Record
	for _, key := range slices.Sorted(maps.Keys(d.Properties)) {
		properties = append(properties, output.Item{Name: key, Value: d.Properties[key]})
	}
	var rows any
	if d.Rows >= 0 {
		rows = d.Rows
	}
	return output.Record{
		{Name: "version", Value: d.Version},
		{Name: "id", Value: d.ID},
		{Name: "name", Value: orNull(d.Name)},
		{Name: "description", Value: orNull(d.Description)},
		{Name: "created", Value: d.Created},
		{Name: "files", Value: d.Files},
		{Name: "bytes", Value: d.Bytes},
		{Name: "rows", Value: rows},
		{Name: "deleted_rows", Value: d.DeletedRows},
		{Name: "deletion_vectors", Value: d.DeletionVectors},
		{Name: "partition_columns", Value: d.PartitionColumns},
		{Name: "min_reader_version", Value: int64(d.MinReaderVersion)},
		{Name: "min_writer_version", Value: int64(d.MinWriterVersion)},
		{Name: "reader_features", Value: d.ReaderFeatures},
		{Name: "writer_features", Value: d.WriterFeatures},
		{Name: "columns", Value: columns},
		{Name: "properties", Value: properties},
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// secretWords in a property's name make its value one that is not shown.
var secretWords = []string{"secret", "token", "password", "passwd", "credential", "access.key", "accesskey", "account.key", "private"}

// masked stands for a value that is not shown.
const masked = "***"

func maskSecrets(properties map[string]string) map[string]string {
	out := maps.Clone(properties)
	for key, value := range out {
		lower := strings.ToLower(key)
		if slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(lower, word) }) {
			out[key] = masked
			continue
		}
		if u, err := url.Parse(value); err == nil && u.User != nil {
			u.User = url.User(masked)
			out[key] = u.String()
		}
	}
	return out
}
