package query

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/query/output"
)

// HistoryColumns name the cells that HistoryCells gives.
func HistoryColumns() []string {
	return []string{"version", "timestamp", "operation", "parameters", "metrics", "read_version", "isolation_level", "is_blind_append", "engine"}
}

// HistoryCells give a version as DESCRIBE HISTORY has it, from its commitInfo; what that
// does not say is nil. Values of parameters that may be secrets are masked.
func HistoryCells(v delta.CommittedVersion) []any {
	info := action.ParseInfo(v.Info)
	var read, blind any
	if info.ReadVersion != nil {
		read = *info.ReadVersion
	}
	if v.Info != nil {
		blind = info.IsBlindAppend
	}
	return []any{
		v.Version, v.Committed, orNull(info.Operation), maskedParameters(info.Parameters), info.Metrics,
		read, orNull(info.IsolationLevel), blind, orNull(info.EngineInfo),
	}
}

// maskedParameters masks the properties that a CREATE or ALTER has in its parameters: an
// object in the text of JSON.
func maskedParameters(raw json.RawMessage) json.RawMessage {
	var parameters map[string]json.RawMessage
	if json.Unmarshal(raw, &parameters) != nil {
		return raw
	}
	var text string
	var properties map[string]string
	if json.Unmarshal(parameters["properties"], &text) != nil || json.Unmarshal([]byte(text), &properties) != nil {
		return raw
	}
	hidden := maskSecrets(properties)
	if maps.Equal(hidden, properties) {
		return raw
	}
	inner, err := json.Marshal(hidden)
	if err == nil {
		inner, err = json.Marshal(string(inner))
	}
	if err == nil {
		parameters["properties"] = inner
		inner, err = json.Marshal(parameters)
	}
	if err != nil {
		return nil // rather nothing than what may be a secret; texts can't fail
	}
	return inner
}

// DetailRecord gives a delta.Detail for printing, with stable names; values that may be
// secrets are masked.
func DetailRecord(d delta.Detail) output.Record {
	var properties output.Record
	hidden := maskSecrets(d.Properties)
	for _, key := range slices.Sorted(maps.Keys(hidden)) {
		properties = append(properties, output.Item{Name: key, Value: hidden[key]})
	}
	return output.Record{
		{Name: "format", Value: "delta"},
		{Name: "id", Value: d.ID},
		{Name: "name", Value: orNull(d.Name)},
		{Name: "description", Value: orNull(d.Description)},
		{Name: "location", Value: d.Location},
		{Name: "created_at", Value: d.Created},
		{Name: "last_modified", Value: d.Modified},
		{Name: "partition_columns", Value: append([]string{}, d.PartitionColumns...)},
		{Name: "clustering_columns", Value: append([]string{}, d.ClusteringColumns...)},
		{Name: "num_files", Value: d.NumFiles},
		{Name: "size_in_bytes", Value: d.SizeInBytes},
		{Name: "properties", Value: properties},
		{Name: "min_reader_version", Value: int64(d.MinReaderVersion)},
		{Name: "min_writer_version", Value: int64(d.MinWriterVersion)},
		{Name: "table_features", Value: append([]string{}, d.TableFeatures...)},
	}
}
