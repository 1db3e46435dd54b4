package checkpoint

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
)

// DefaultSidecarActions is how many file actions a sidecar holds.
const DefaultSidecarActions = 50_000

// topRow is a row of the manifest of a v2 checkpoint: what stands in no sidecar.
type topRow struct {
	Txn                *txnRow      `parquet:"txn"`
	Add                *addRow      `parquet:"add"`
	Remove             *removeRow   `parquet:"remove"`
	MetaData           *metadataRow `parquet:"metaData"`
	Protocol           *protocolRow `parquet:"protocol"`
	DomainMetadata     *domainRow   `parquet:"domainMetadata"`
	CheckpointMetadata *manifestRow `parquet:"checkpointMetadata"`
	Sidecar            *sidecarRow  `parquet:"sidecar"`
}

// fileActionRow is a row of a sidecar.
type fileActionRow struct {
	Add    *addRow    `parquet:"add"`
	Remove *removeRow `parquet:"remove"`
}

// chunks cuts the file actions of a state into states of at most n of them.
func chunks(state *action.Commit, n int) (list []*action.Commit) {
	adds, removes := state.Adds, state.Removes
	for len(adds)+len(removes) > 0 {
		c := &action.Commit{}
		c.Adds, adds = adds[:min(n, len(adds))], adds[min(n, len(adds)):]
		room := min(n-len(c.Adds), len(removes))
		c.Removes, removes = removes[:room], removes[room:]
		list = append(list, c)
	}
	return list
}

// withoutFiles is a state without its file actions.
func withoutFiles(state *action.Commit) *action.Commit {
	top := *state
	top.Adds, top.Removes = nil, nil
	return &top
}

// WriteV2 writes a state as a v2 checkpoint: sidecars of so many file actions each (0:
// DefaultSidecarActions), then the manifest, in Parquet, of that key. It reads all of it
// back and compares. What an interrupted one leaves is sidecars that nobody names.
func WriteV2(ctx context.Context, store objstore.Store, key string, version int64, state *action.Commit, sidecarActions int, now time.Time) (Written, error) {
	if sidecarActions <= 0 {
		sidecarActions = DefaultSidecarActions
	}
	w := Written{Actions: int64(Actions(state)), Adds: int64(len(state.Adds))}
	top := []topRow{{CheckpointMetadata: &manifestRow{Version: &version}}}
	for _, c := range chunks(state, sidecarActions) {
		var rows []fileActionRow
		for _, r := range rowsOf(c) {
			rows = append(rows, fileActionRow{r.Add, r.Remove})
		}
		data, err := parquet.EncodeStructs(rows, parquet.StructOptions{Codec: parquet.Snappy})
		if err != nil {
			return w, fmt.Errorf("encode a sidecar: %w", err)
		}
		name := uuid.NewString() + ".parquet"
		if err := store.Put(ctx, sidecarDir+name, data); err != nil {
			return w, fmt.Errorf("write a sidecar: %w", err)
		}
		w.Bytes += int64(len(data))
		w.Actions++ // the row that names it
		top = append(top, topRow{Sidecar: &sidecarRow{Path: name, SizeInBytes: int64(len(data)), ModificationTime: now.UnixMilli()}})
	}
	w.Actions++ // checkpointMetadata
	for _, r := range rowsOf(withoutFiles(state)) {
		top = append(top, topRow{Txn: r.Txn, MetaData: r.MetaData, Protocol: r.Protocol, DomainMetadata: r.DomainMetadata})
	}
	data, err := parquet.EncodeStructs(top, parquet.StructOptions{Codec: parquet.Snappy})
	if err != nil {
		return w, fmt.Errorf("encode checkpoint: %w", err)
	}
	w.Bytes += int64(len(data))
	return w, writeAll(ctx, store, state, []string{key}, [][]byte{data})
}

// WriteParts writes a state as a checkpoint of several files under the keys, in order:
// the file actions in equal shares, all else in the first. It reads them back and
// compares.
func WriteParts(ctx context.Context, store objstore.Store, keys []string, state *action.Commit) (Written, error) {
	w := Written{Actions: int64(Actions(state)), Adds: int64(len(state.Adds))}
	share := (len(state.Adds)+len(state.Removes))/len(keys) + 1
	files := chunks(state, share)
	parts := make([][]byte, len(keys))
	for i := range keys {
		part := &action.Commit{}
		if i == 0 {
			part = withoutFiles(state)
		}
		if i < len(files) {
			part.Adds, part.Removes = files[i].Adds, files[i].Removes
		}
		data, err := Encode(part)
		if err != nil {
			return w, err
		}
		parts[i] = data
		w.Bytes += int64(len(data))
	}
	return w, writeAll(ctx, store, state, keys, parts)
}

// writeAll stores the files of a checkpoint and reads them back.
func writeAll(ctx context.Context, store objstore.Store, state *action.Commit, keys []string, data [][]byte) error {
	for i, key := range keys {
		if err := store.Put(ctx, key, data[i]); err != nil {
			return fmt.Errorf("write checkpoint: %w", err)
		}
	}
	back, err := Read(ctx, store, keys...)
	if err != nil {
		return fmt.Errorf("read checkpoint back: %w", err)
	}
	if err := Same(state, back); err != nil {
		return fmt.Errorf("read checkpoint back: %s: %w", keys[0], err)
	}
	return nil
}

// Sidecars gives the keys of the sidecars that a file of a checkpoint names; none for a
// classic one. The error wraps ErrCorrupt and names the file, or is the store's.
func Sidecars(ctx context.Context, store objstore.Store, key string) ([]string, error) {
	files, err := readAll(ctx, store, []string{key}, func(key string, data []byte) ([]action.Sidecar, error) {
		if strings.HasSuffix(key, ".json") {
			c, err := action.Decode(data)
			if err != nil {
				return nil, err
			}
			return c.Sidecars, nil
		}
		rows, err := parquet.DecodeStructs[struct {
			Sidecar *sidecarRow `parquet:"sidecar"`
		}](data)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		var list []action.Sidecar
		for _, r := range rows {
			if r.Sidecar != nil {
				list = append(list, action.Sidecar{Path: r.Sidecar.Path})
			}
		}
		return list, nil
	})
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, s := range files[0] {
		k, err := SidecarKey(s.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// SidecarFolder is where all sidecars lie.
const SidecarFolder = sidecarDir
