package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/selfsum"
)

// ErrCorrupt marks a file that is no checkpoint.
var ErrCorrupt = action.ErrCorrupt

// Written says what Write wrote.
type Written struct {
	// Bytes is the size of the file, Actions its rows, Adds the live files among them.
	Bytes, Actions, Adds int64
}

// Encode gives the file of a state.
func Encode(state *action.Commit) ([]byte, error) {
	data, err := parquet.EncodeStructs(rowsOf(state), parquet.StructOptions{Codec: parquet.Snappy})
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	return data, nil
}

// rowsOf gives the rows of a state.
func rowsOf(state *action.Commit) []row {
	rows := make([]row, 0, Actions(state))
	for _, t := range state.Txns {
		rows = append(rows, row{Txn: &txnRow{t.AppID, t.Version, t.LastUpdated}})
	}
	for _, a := range state.Adds {
		r := &addRow{
			Path: a.Path, PartitionValues: orEmpty(a.PartitionValues), Size: a.Size, ModificationTime: a.ModificationTime,
			DeletionVector: vectorToRow(a.DeletionVector), BaseRowID: a.BaseRowID,
			DefaultRowCommitVersion: a.DefaultRowCommitVersion, ClusteringProvider: a.ClusteringProvider, Stats: a.Stats,
		}
		if a.Tags != nil {
			r.Tags = toNullable(a.Tags)
		}
		rows = append(rows, row{Add: r})
	}
	for _, d := range state.Removes {
		r := &removeRow{
			Path: d.Path, ExtendedFileMetadata: d.ExtendedFileMetadata, PartitionValues: d.PartitionValues, Size: d.Size,
			DeletionVector: vectorToRow(d.DeletionVector), BaseRowID: d.BaseRowID, DefaultRowCommitVersion: d.DefaultRowCommitVersion,
		}
		if d.DeletionTimestamp != 0 {
			r.DeletionTimestamp = &d.DeletionTimestamp
		}
		if d.ExtendedFileMetadata {
			r.PartitionValues = orEmpty(d.PartitionValues)
		}
		rows = append(rows, row{Remove: r})
	}
	if m := state.Metadata; m != nil {
		rows = append(rows, row{MetaData: &metadataRow{
			ID: m.ID, Name: m.Name, Description: m.Description, Format: &formatRow{m.Format.Provider, toNullable(m.Format.Options)},
			SchemaString: m.SchemaString, PartitionColumns: append([]string{}, m.PartitionColumns...),
			Configuration: toNullable(m.Configuration), CreatedTime: m.CreatedTime,
		}})
	}
	if p := state.Protocol; p != nil {
		rows = append(rows, row{Protocol: &protocolRow{p.MinReaderVersion, p.MinWriterVersion, p.ReaderFeatures, p.WriterFeatures}})
	}
	for _, d := range state.Domains {
		rows = append(rows, row{DomainMetadata: &domainRow{d.Domain, d.Configuration, d.Removed}})
	}
	return rows
}

// Actions counts the rows that a state makes.
func Actions(state *action.Commit) int {
	n := len(state.Txns) + len(state.Adds) + len(state.Removes) + len(state.Domains)
	if state.Metadata != nil {
		n++
	}
	if state.Protocol != nil {
		n++
	}
	return n
}

// Decode reads one Parquet file of a checkpoint: all of it, a part, a manifest or
// a sidecar. The error wraps ErrCorrupt.
func Decode(data []byte) (*action.Commit, error) {
	if _, err := selfsum.Parquet.Check(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	rows, err := parquet.DecodeStructs[readRow](data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	c := &action.Commit{}
	for i := range rows {
		if err := decodeRow(&rows[i], c); err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", ErrCorrupt, i, err)
		}
	}
	return c, nil
}

var errNoPath = errors.New("a file action without a path")

func decodeRow(r *readRow, c *action.Commit) error {
	if t := r.Txn; t != nil {
		c.Txns = append(c.Txns, action.Txn{AppID: t.AppID, Version: t.Version, LastUpdated: t.LastUpdated})
	}
	if a := r.Add; a != nil {
		if a.Path == "" {
			return errNoPath
		}
		stats := a.Stats
		if stats == "" {
			stats = string(a.StatsParsed)
		}
		c.Adds = append(c.Adds, &action.Add{
			Path: a.Path, PartitionValues: orNil(a.PartitionValues), Size: a.Size, ModificationTime: a.ModificationTime,
			Stats: stats, Tags: toPlain(a.Tags), DeletionVector: vectorOf(a.DeletionVector), BaseRowID: a.BaseRowID,
			DefaultRowCommitVersion: a.DefaultRowCommitVersion, ClusteringProvider: a.ClusteringProvider,
		})
	}
	if d := r.Remove; d != nil {
		if d.Path == "" {
			return errNoPath
		}
		remove := &action.Remove{
			Path: d.Path, ExtendedFileMetadata: d.ExtendedFileMetadata, PartitionValues: orNil(d.PartitionValues), Size: d.Size,
			DeletionVector: vectorOf(d.DeletionVector), BaseRowID: d.BaseRowID, DefaultRowCommitVersion: d.DefaultRowCommitVersion,
		}
		if d.DeletionTimestamp != nil {
			remove.DeletionTimestamp = *d.DeletionTimestamp
		}
		c.Removes = append(c.Removes, remove)
	}
	if m := r.MetaData; m != nil {
		c.Metadata = &action.Metadata{
			ID: m.ID, Name: m.Name, Description: m.Description, SchemaString: m.SchemaString,
			PartitionColumns: append([]string{}, m.PartitionColumns...), Configuration: toPlain(m.Configuration), CreatedTime: m.CreatedTime,
		}
		if m.Format != nil {
			c.Metadata.Format = action.Format{Provider: m.Format.Provider, Options: toPlain(m.Format.Options)}
		}
	}
	if p := r.Protocol; p != nil {
		c.Protocol = &action.Protocol{MinReaderVersion: p.MinReaderVersion, MinWriterVersion: p.MinWriterVersion}
		if p.MinReaderVersion >= 3 {
			c.Protocol.ReaderFeatures = append([]string{}, p.ReaderFeatures...)
		}
		if p.MinWriterVersion >= 7 {
			c.Protocol.WriterFeatures = append([]string{}, p.WriterFeatures...)
		}
	}
	if d := r.DomainMetadata; d != nil && !d.Removed {
		c.Domains = append(c.Domains, action.DomainMetadata{Domain: d.Domain, Configuration: d.Configuration})
	}
	if s := r.Sidecar; s != nil {
		if s.Path == "" {
			return errNoPath
		}
		c.Sidecars = append(c.Sidecars, action.Sidecar{Path: s.Path, SizeInBytes: s.SizeInBytes, ModificationTime: s.ModificationTime})
	}
	if m := r.CheckpointMetadata; m != nil {
		c.CheckpointVersion = m.Version
	}
	return nil
}

// Write writes a state, reads it back from the store and compares. An object of
// that key is replaced.
func Write(ctx context.Context, store objstore.Store, key string, state *action.Commit) (Written, error) {
	data, err := Encode(state)
	if err != nil {
		return Written{}, err
	}
	if err := store.Put(ctx, key, data); err != nil {
		return Written{}, fmt.Errorf("write checkpoint: %w", err)
	}
	back, err := Read(ctx, store, key)
	if err != nil {
		return Written{}, fmt.Errorf("read checkpoint back: %w", err)
	}
	if err := Same(state, back); err != nil {
		return Written{}, fmt.Errorf("read checkpoint back: %s: %w", key, err)
	}
	return Written{Bytes: int64(len(data)), Actions: int64(Actions(state)), Adds: int64(len(state.Adds))}, nil
}

// Same compares two states by what a reader would miss first: every live file
// in its place with size and deletion vector, every txn, the number of the
// rest. The error wraps ErrCorrupt.
func Same(want, got *action.Commit) error {
	differ := func(what string, want, got any) error {
		return fmt.Errorf("%w: %s: %v, not %v", ErrCorrupt, what, got, want)
	}
	if got.Metadata == nil || want.Metadata == nil || got.Metadata.ID != want.Metadata.ID || got.Metadata.SchemaString != want.Metadata.SchemaString {
		return fmt.Errorf("%w: the metadata differs", ErrCorrupt)
	}
	if got.Protocol == nil || want.Protocol == nil || got.Protocol.MinReaderVersion != want.Protocol.MinReaderVersion ||
		len(got.Protocol.WriterFeatures) != len(want.Protocol.WriterFeatures) {
		return fmt.Errorf("%w: the protocol differs", ErrCorrupt)
	}
	if len(got.Adds) != len(want.Adds) {
		return differ("live files", len(want.Adds), len(got.Adds))
	}
	for i, a := range want.Adds {
		if b := got.Adds[i]; a.Key() != b.Key() || a.Size != b.Size || a.Stats != b.Stats {
			return differ("live file", a.Path, b.Path)
		}
	}
	if len(got.Txns) != len(want.Txns) {
		return differ("txns", len(want.Txns), len(got.Txns))
	}
	for i, t := range want.Txns {
		if g := got.Txns[i]; g.AppID != t.AppID || g.Version != t.Version {
			return differ("txn "+t.AppID, t.Version, g.Version)
		}
	}
	if len(got.Removes) != len(want.Removes) {
		return differ("removes", len(want.Removes), len(got.Removes))
	}
	if len(got.Domains) != len(want.Domains) {
		return differ("domains", len(want.Domains), len(got.Domains))
	}
	return nil
}
