package action

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// ErrCorrupt marks bytes of the log (a commit, a checkpoint) that can't be what
// the protocol says. It is attached where the damage is found.
var ErrCorrupt = errors.New("corrupt Delta log")

// DeletionVector says which rows of a data file are deleted ("Deletion Vector
// Descriptor Schema").
type DeletionVector struct {
	// StorageType is "u" (a file below the root, named by a UUID), "p" (absolute
	// URI) or "i" (inline).
	StorageType    string
	PathOrInlineDV string
	// Offset of the vector in its file; nil for inline ones.
	Offset      *int32
	SizeInBytes int32
	Cardinality int64
}

// UniqueID names the vector as the protocol does: storage type, path, and
// "@offset" where there is one. Empty for a nil descriptor.
func (d *DeletionVector) UniqueID() string {
	if d == nil {
		return ""
	}
	id := d.StorageType + d.PathOrInlineDV
	if d.Offset != nil {
		id += "@" + strconv.FormatInt(int64(*d.Offset), 10)
	}
	return id
}

// FileKey identifies a logical file: two file actions reconcile with each other
// iff their keys are equal. Path is as the log has it, but for local files: /x and
// file:/x are one, as they are for Spark, and a remove of one ends the other.
type FileKey struct {
	Path    string
	Storage string
	DV      string
	Offset  int64 // -1 without one
}

func keyOf(path string, d *DeletionVector) FileKey {
	k := FileKey{Path: canonical(path), Offset: -1}
	if d != nil {
		k.Storage, k.DV = d.StorageType, d.PathOrInlineDV
		if d.Offset != nil {
			k.Offset = int64(*d.Offset)
		}
	}
	return k
}

// Add makes a data file part of the table.
type Add struct {
	// Path is relative to the root and URI-encoded, or an absolute URI.
	Path string
	// PartitionValues holds every partition column; a nil value is NULL.
	PartitionValues map[string]*string
	// Size is the exact size of the object in bytes.
	Size int64
	// ModificationTime is in milliseconds since 1970.
	ModificationTime int64
	// DataChange is false where the rows are as before, only laid out anew.
	DataChange bool
	// Stats is a JSON object, or empty where there are none.
	Stats                   string
	Tags                    map[string]string
	DeletionVector          *DeletionVector
	BaseRowID               *int64
	DefaultRowCommitVersion *int64
	ClusteringProvider      *string
}

// Key gives the identity of the file.
func (a *Add) Key() FileKey { return keyOf(a.Path, a.DeletionVector) }

// Remove ends the life of a logical file; until it expires it is a tombstone
// that keeps the objects from VACUUM.
type Remove struct {
	Path string
	// DeletionTimestamp is in milliseconds since 1970; 0 where the log has none.
	DeletionTimestamp int64
	DataChange        bool
	// ExtendedFileMetadata says that PartitionValues and Size are set.
	ExtendedFileMetadata    bool
	PartitionValues         map[string]*string
	Size                    *int64
	Stats                   string
	Tags                    map[string]string
	DeletionVector          *DeletionVector
	BaseRowID               *int64
	DefaultRowCommitVersion *int64
}

// Key gives the identity of the file.
func (r *Remove) Key() FileKey { return keyOf(r.Path, r.DeletionVector) }

// CDC names a file of change data.
type CDC struct {
	Path            string
	PartitionValues map[string]*string
	Size            int64
	DataChange      bool
	Tags            map[string]string
}

// Txn records how far an application came. The newest of an AppID counts, even
// where its Version is lower.
type Txn struct {
	AppID   string
	Version int64
	// LastUpdated is in milliseconds since 1970; nil where the log has none.
	LastUpdated *int64
}

// Format is the file format of the data, always "parquet".
type Format struct {
	Provider string
	Options  map[string]string
}

// Metadata describes the table.
type Metadata struct {
	ID               string
	Name             string
	Description      string
	Format           Format
	SchemaString     string
	PartitionColumns []string
	Configuration    map[string]string
	// CreatedTime is in milliseconds since 1970; nil where the log has none.
	CreatedTime *int64
}

// Protocol says what a client must understand. The lists are nil, not empty,
// where the version has none.
type Protocol struct {
	MinReaderVersion int32
	MinWriterVersion int32
	ReaderFeatures   []string
	WriterFeatures   []string
}

// DomainMetadata is the configuration of a named domain; Removed is its end.
type DomainMetadata struct {
	Domain        string
	Configuration string
	Removed       bool
}

// Sidecar names a file of a v2 checkpoint that holds file actions.
type Sidecar struct {
	// Path is the name of a file in _delta_log/_sidecars, URI-encoded.
	Path string
	// SizeInBytes is the exact size of the object.
	SizeInBytes int64
	// ModificationTime is in milliseconds since 1970.
	ModificationTime int64
}

// Commit is the actions of one version. The protocol gives them no order among
// kinds; within a kind they stand as in the file.
type Commit struct {
	// Info is the commitInfo object as it stands in the file, nil without one.
	// Decode checks its syntax only where it could be cut off.
	Info     json.RawMessage
	Protocol *Protocol
	Metadata *Metadata
	Txns     []Txn
	Domains  []DomainMetadata
	Removes  []*Remove
	Adds     []*Add
	CDC      []*CDC
	// Sidecars and CheckpointVersion (checkpointMetadata) stand in the manifest
	// of a v2 checkpoint only.
	Sidecars          []Sidecar
	CheckpointVersion *int64
}

// Info is what gscd reads of a commitInfo, which is free JSON.
type Info struct {
	Timestamp         int64  `json:"timestamp"`
	InCommitTimestamp *int64 `json:"inCommitTimestamp"`
	Operation         string `json:"operation"`
	TxnID             string `json:"txnId"`
	IsBlindAppend     bool   `json:"isBlindAppend"`
	// EngineInfo names the writer: "gscd/1.2.0", "Apache-Spark/4.1.2 Delta-Lake/4.4.0"; of
	// Trino it is the clusterId, where that names itself: "trino-476-<node>".
	EngineInfo string `json:"engineInfo"`
	// Mode is operationParameters.mode of a WRITE: "Append", "Overwrite".
	Mode string `json:"mode"`
	// ReadVersion is the version that the commit was planned on, nil where not told.
	ReadVersion    *int64 `json:"readVersion"`
	IsolationLevel string `json:"isolationLevel"`
	// Parameters and Metrics are operationParameters and operationMetrics as they stand.
	Parameters json.RawMessage `json:"operationParameters"`
	Metrics    json.RawMessage `json:"operationMetrics"`
}

// ParseInfo reads a commitInfo object. Fields of another type than gscd expects
// read as empty: foreign writers are free in them.
func ParseInfo(raw json.RawMessage) Info {
	var fields struct {
		Timestamp         json.RawMessage `json:"timestamp"`
		InCommitTimestamp json.RawMessage `json:"inCommitTimestamp"`
		Operation         json.RawMessage `json:"operation"`
		TxnID             json.RawMessage `json:"txnId"`
		IsBlindAppend     json.RawMessage `json:"isBlindAppend"`
		EngineInfo        json.RawMessage `json:"engineInfo"`
		ClusterID         json.RawMessage `json:"clusterId"`
		Parameters        json.RawMessage `json:"operationParameters"`
		Metrics           json.RawMessage `json:"operationMetrics"`
		ReadVersion       json.RawMessage `json:"readVersion"`
		IsolationLevel    json.RawMessage `json:"isolationLevel"`
	}
	var info Info
	if json.Unmarshal(raw, &fields) != nil {
		return info
	}
	read := func(raw json.RawMessage, into any) {
		if raw != nil {
			_ = json.Unmarshal(raw, into) // another type: stays empty
		}
	}
	read(fields.Timestamp, &info.Timestamp)
	read(fields.InCommitTimestamp, &info.InCommitTimestamp)
	read(fields.Operation, &info.Operation)
	read(fields.TxnID, &info.TxnID)
	read(fields.EngineInfo, &info.EngineInfo)
	if info.EngineInfo == "" {
		if read(fields.ClusterID, &info.EngineInfo); !strings.HasPrefix(info.EngineInfo, "trino-") {
			info.EngineInfo = ""
		}
	}
	var parameters struct {
		Mode json.RawMessage `json:"mode"`
	}
	read(fields.Parameters, &parameters)
	read(parameters.Mode, &info.Mode)
	read(fields.IsBlindAppend, &info.IsBlindAppend)
	read(fields.ReadVersion, &info.ReadVersion)
	read(fields.IsolationLevel, &info.IsolationLevel)
	info.Parameters, info.Metrics = fields.Parameters, fields.Metrics
	return info
}
