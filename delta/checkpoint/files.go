package checkpoint

import (
	"context"
	"fmt"

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
}

// ReadFiles reads the live files of one checkpoint, path, size and deletion
// vector alone: a fraction of the work of Read. Errors as Read's.
func ReadFiles(ctx context.Context, store objstore.Store, keys ...string) ([]*action.Add, error) {
	var adds []*action.Add
	for _, key := range keys {
		data, err := store.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		rows, err := parquet.DecodeStructs[fileRow](data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", key, ErrCorrupt, err)
		}
		for i, r := range rows {
			if r.Add == nil {
				continue
			}
			if r.Add.Path == "" {
				return nil, fmt.Errorf("%s: %w: row %d: %w", key, ErrCorrupt, i, errNoPath)
			}
			adds = append(adds, &action.Add{Path: r.Add.Path, Size: r.Add.Size, DeletionVector: vectorOf(r.Add.DeletionVector)})
		}
	}
	return adds, nil
}
