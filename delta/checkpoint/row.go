package checkpoint

import (
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/parquet"
)

// row is a row of a checkpoint: one of its fields is set. The order of fields is
// that of Spark's columns.
type row struct {
	Txn            *txnRow      `parquet:"txn"`
	Add            *addRow      `parquet:"add"`
	Remove         *removeRow   `parquet:"remove"`
	MetaData       *metadataRow `parquet:"metaData"`
	Protocol       *protocolRow `parquet:"protocol"`
	DomainMetadata *domainRow   `parquet:"domainMetadata"`
}

type txnRow struct {
	AppID       string `parquet:"appId"`
	Version     int64  `parquet:"version"`
	LastUpdated *int64 `parquet:"lastUpdated"`
}

type vectorRow struct {
	StorageType    string `parquet:"storageType,optional"`
	PathOrInlineDV string `parquet:"pathOrInlineDv,optional"`
	Offset         *int32 `parquet:"offset"`
	SizeInBytes    int32  `parquet:"sizeInBytes"`
	Cardinality    int64  `parquet:"cardinality"`
	MaxRowIndex    *int64 `parquet:"maxRowIndex"`
}

type addRow struct {
	Path                    string             `parquet:"path"`
	PartitionValues         map[string]*string `parquet:"partitionValues"`
	Size                    int64              `parquet:"size"`
	ModificationTime        int64              `parquet:"modificationTime"`
	DataChange              bool               `parquet:"dataChange"`
	Tags                    map[string]*string `parquet:"tags"`
	DeletionVector          *vectorRow         `parquet:"deletionVector"`
	BaseRowID               *int64             `parquet:"baseRowId"`
	DefaultRowCommitVersion *int64             `parquet:"defaultRowCommitVersion"`
	ClusteringProvider      *string            `parquet:"clusteringProvider"`
	Stats                   string             `parquet:"stats,optional"`
}

type removeRow struct {
	Path                    string             `parquet:"path"`
	DeletionTimestamp       *int64             `parquet:"deletionTimestamp"`
	DataChange              bool               `parquet:"dataChange"`
	ExtendedFileMetadata    bool               `parquet:"extendedFileMetadata"`
	PartitionValues         map[string]*string `parquet:"partitionValues"`
	Size                    *int64             `parquet:"size"`
	DeletionVector          *vectorRow         `parquet:"deletionVector"`
	BaseRowID               *int64             `parquet:"baseRowId"`
	DefaultRowCommitVersion *int64             `parquet:"defaultRowCommitVersion"`
}

type formatRow struct {
	Provider string             `parquet:"provider"`
	Options  map[string]*string `parquet:"options"`
}

type metadataRow struct {
	ID               string             `parquet:"id"`
	Name             string             `parquet:"name,optional"`
	Description      string             `parquet:"description,optional"`
	Format           *formatRow         `parquet:"format"`
	SchemaString     string             `parquet:"schemaString"`
	PartitionColumns []string           `parquet:"partitionColumns"`
	Configuration    map[string]*string `parquet:"configuration"`
	CreatedTime      *int64             `parquet:"createdTime"`
}

type protocolRow struct {
	MinReaderVersion int32    `parquet:"minReaderVersion"`
	MinWriterVersion int32    `parquet:"minWriterVersion"`
	ReaderFeatures   []string `parquet:"readerFeatures"`
	WriterFeatures   []string `parquet:"writerFeatures"`
}

type domainRow struct {
	Domain        string `parquet:"domain"`
	Configuration string `parquet:"configuration"`
	Removed       bool   `parquet:"removed"`
}

// readRow is row as other writers have it too: with statistics as a struct,
// which stand in for JSON statistics that were left out.
type readRow struct {
	Txn                *txnRow      `parquet:"txn"`
	Add                *readAddRow  `parquet:"add"`
	Remove             *removeRow   `parquet:"remove"`
	MetaData           *metadataRow `parquet:"metaData"`
	Protocol           *protocolRow `parquet:"protocol"`
	DomainMetadata     *domainRow   `parquet:"domainMetadata"`
	Sidecar            *sidecarRow  `parquet:"sidecar"`
	CheckpointMetadata *manifestRow `parquet:"checkpointMetadata"`
}

// sidecarRow and manifestRow stand in the manifest of a v2 checkpoint.
type sidecarRow struct {
	Path             string `parquet:"path"`
	SizeInBytes      int64  `parquet:"sizeInBytes"`
	ModificationTime int64  `parquet:"modificationTime"`
}

type manifestRow struct {
	Version *int64 `parquet:"version"`
}

type readAddRow struct {
	Path                    string             `parquet:"path"`
	PartitionValues         map[string]*string `parquet:"partitionValues"`
	Size                    int64              `parquet:"size"`
	ModificationTime        int64              `parquet:"modificationTime"`
	Tags                    map[string]*string `parquet:"tags"`
	DeletionVector          *vectorRow         `parquet:"deletionVector"`
	BaseRowID               *int64             `parquet:"baseRowId"`
	DefaultRowCommitVersion *int64             `parquet:"defaultRowCommitVersion"`
	ClusteringProvider      *string            `parquet:"clusteringProvider"`
	Stats                   string             `parquet:"stats"`
	StatsParsed             parquet.JSON       `parquet:"stats_parsed"`
}

func vectorToRow(d *action.DeletionVector) *vectorRow {
	if d == nil {
		return nil
	}
	return &vectorRow{d.StorageType, d.PathOrInlineDV, d.Offset, d.SizeInBytes, d.Cardinality, nil}
}

// vectorOf reads a descriptor; a struct of nulls, as some writers have it, is none.
func vectorOf(r *vectorRow) *action.DeletionVector {
	if r == nil || r.StorageType == "" && r.PathOrInlineDV == "" {
		return nil
	}
	return &action.DeletionVector{
		StorageType: r.StorageType, PathOrInlineDV: r.PathOrInlineDV, Offset: r.Offset, SizeInBytes: r.SizeInBytes, Cardinality: r.Cardinality,
	}
}

// toNullable makes the values of a map nullable, not nil: a checkpoint has an
// empty map where the log has none.
func toNullable(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for k, v := range m {
		out[k] = &v
	}
	return out
}

// toPlain drops null values; nil for an empty map.
func toPlain(m map[string]*string) map[string]string {
	var out map[string]string
	for k, v := range m {
		if v == nil {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(m))
		}
		out[k] = *v
	}
	return out
}

func orEmpty(m map[string]*string) map[string]*string {
	if m == nil {
		return map[string]*string{}
	}
	return m
}

func orNil(m map[string]*string) map[string]*string {
	if len(m) == 0 {
		return nil
	}
	return m
}
