package checkpoint

import (
	"context"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
)

// fileRow is the part of a row that says which objects a version refers to.
type fileRow struct {
	Add *struct {
		Path           string     `parquet:"path"`
		Size           int64      `parquet:"size"`
		DeletionVector *vectorRow `parquet:"deletionVector"`
	} `parquet:"add"`
	Sidecar *sidecarRow `parquet:"sidecar"`
}

// ReadFiles reads the live files of one checkpoint, path, size and deletion
// vector alone: a fraction of the work of Read. Errors as Read's.
func ReadFiles(ctx context.Context, store objstore.Store, keys ...string) ([]*action.Add, error) {
	manifests, err := readAll(ctx, store, keys, decodeFiles)
	if err != nil {
		return nil, err
	}
	var adds []*action.Add
	var sidecars []action.Sidecar
	for _, m := range manifests {
		adds, sidecars = append(adds, m.Adds...), append(sidecars, m.Sidecars...)
	}
	files, err := readSidecars(ctx, store, sidecars, decodeFiles)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		adds = append(adds, f.Adds...)
	}
	return adds, nil
}

// decodeFiles reads the adds and sidecars of a file.
func decodeFiles(key string, data []byte) (*action.Commit, error) {
	if strings.HasSuffix(key, ".json") {
		return action.Decode(data)
	}
	rows, err := parquet.DecodeStructs[fileRow](data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	c := &action.Commit{}
	for i, r := range rows {
		if s := r.Sidecar; s != nil {
			c.Sidecars = append(c.Sidecars, action.Sidecar{Path: s.Path, SizeInBytes: s.SizeInBytes, ModificationTime: s.ModificationTime})
		}
		if r.Add == nil {
			continue
		}
		if r.Add.Path == "" {
			return nil, fmt.Errorf("%w: row %d: %w", ErrCorrupt, i, errNoPath)
		}
		c.Adds = append(c.Adds, &action.Add{Path: r.Add.Path, Size: r.Add.Size, DeletionVector: vectorOf(r.Add.DeletionVector)})
	}
	return c, nil
}
