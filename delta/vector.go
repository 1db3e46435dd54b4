package delta

import (
	"context"
	"fmt"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
)

// ReadDeletionVector gives the dead rows of a data file, nil where it has no
// deletion vector. Size, checksum and cardinality are checked; the error names
// the data file, and wraps ErrCorrupt or the store's.
func ReadDeletionVector(ctx context.Context, store objstore.Store, add *action.Add) (*dv.Bitmap, error) {
	d := add.DeletionVector
	if d == nil {
		return nil, nil
	}
	fault := func(err error) (*dv.Bitmap, error) {
		return nil, fmt.Errorf("deletion vector of %s: %w", add.Path, err)
	}
	var err error
	key, stored := "", true
	if d.StorageType == "p" {
		store, key, err = Locate(store, d.PathOrInlineDV)
	} else {
		key, stored, err = VectorKey(d)
	}
	if err != nil {
		return fault(err)
	}
	var b *dv.Bitmap
	if stored {
		offset := int64(0)
		if d.Offset != nil {
			offset = int64(*d.Offset)
		}
		if offset < 0 || d.SizeInBytes < 0 {
			return fault(fmt.Errorf("%w: offset %d, size %d", ErrCorrupt, offset, d.SizeInBytes))
		}
		block, err := store.GetRange(ctx, key, offset, int64(d.SizeInBytes)+8)
		if err != nil {
			return fault(err)
		}
		b, err = dv.ReadBlock(block, d.SizeInBytes)
		if err != nil {
			return fault(fmt.Errorf("%w: %s: %w", ErrCorrupt, key, err))
		}
	} else if b, err = dv.Inline(d.PathOrInlineDV, d.SizeInBytes); err != nil {
		return fault(fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	if b.Cardinality() != d.Cardinality {
		return fault(fmt.Errorf("%w: %d dead rows, the log says %d", ErrCorrupt, b.Cardinality(), d.Cardinality))
	}
	return b, nil
}
