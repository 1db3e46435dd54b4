package write

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
)

// Restore makes the newest version what an older one was: rows, columns and properties.
// The protocol keeps what came since. The error wraps delta.ErrVersionNotFound where that
// version can't be read, scan.ErrFileMissing where one of its files is gone.
func Restore(ctx context.Context, table *delta.Table, version int64, options ...Option) (Result, error) {
	return newOperation(table, options).run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		target, err := table.SnapshotAt(ctx, version)
		if err != nil {
			return false, fmt.Errorf("restore: %w", err)
		}
		adds, removes := delta.DiffForRestore(p.snapshot, target, table.Now())
		if err := p.present(ctx, adds); err != nil {
			return false, fmt.Errorf("restore version %d of %s: %w", version, table.Store(), err)
		}
		var restored, removed int64
		for _, r := range removes {
			p.tx.Remove(r)
			p.counts.FilesRemoved++
			removed += *r.Size
		}
		for _, a := range adds {
			p.tx.Add(a)
			p.counts.FilesAdded++
			restored += a.Size
		}
		p.counts.BytesAdded, p.counts.BytesRemoved = restored, removed
		changed, err := p.restoreMetadata(target)
		if err != nil {
			return false, err
		}
		p.tx.SetReads(delta.Reads{All: true})
		size := int64(0)
		for _, a := range target.Files() {
			size += a.Size
		}
		p.info("RESTORE", map[string]string{"version": strconv.FormatInt(version, 10)}, map[string]int64{
			"numRestoredFiles": p.counts.FilesAdded, "restoredFilesSize": restored, "numRemovedFiles": p.counts.FilesRemoved, "removedFilesSize": removed,
			"numOfFilesAfterRestore": int64(target.NumFiles()), "tableSizeAfterRestore": size,
		})
		return changed || len(adds)+len(removes) > 0, nil
	})
}

// restoreMetadata gives the table the metadata of an older version; ids of columns and
// numbers of identity columns never come again.
func (p *plan) restoreMetadata(target *delta.Snapshot) (changed bool, err error) {
	now, then := p.snapshot.Metadata(), *target.Metadata()
	if then.SchemaString, err = keepMarks(then.SchemaString, now.SchemaString); err != nil {
		return false, err
	}
	if highest := maxColumnID(now); highest > maxColumnID(&then) {
		then.Configuration = maps.Clone(then.Configuration)
		if then.Configuration == nil {
			then.Configuration = map[string]string{}
		}
		then.Configuration[delta.PropertyMaxColumnID] = strconv.Itoa(int(highest))
	}
	if now.SchemaString != then.SchemaString || now.Name != then.Name || now.Description != then.Description ||
		!slices.Equal(now.PartitionColumns, then.PartitionColumns) || !maps.Equal(now.Configuration, then.Configuration) {
		p.tx.SetMetadata(then)
		changed = true
	}
	protocol := delta.WithFeatures(*p.snapshot.Protocol(), delta.FeaturesOf(target.Protocol())...)
	if !sameProtocol(&protocol, p.snapshot.Protocol()) {
		p.tx.SetProtocol(protocol)
		changed = true
	}
	return changed, nil
}

// present makes sure that files and their deletion vectors are there.
func (p *plan) present(ctx context.Context, adds []*action.Add) error {
	store := p.op.table.Store()
	head := func(store objstore.Store, key string) error {
		_, err := store.Head(ctx, key)
		if errors.Is(err, objstore.ErrNotExist) {
			return fmt.Errorf("%w: %w", scan.ErrFileMissing, err)
		}
		return err
	}
	return objstore.InParallel(ctx, len(adds), p.op.o.parallel, func(ctx context.Context, i int) error {
		at, key, err := delta.Locate(store, adds[i].Path)
		if err == nil {
			err = head(at, key)
		}
		if err != nil || adds[i].DeletionVector == nil || adds[i].DeletionVector.StorageType == "p" {
			return err
		}
		key, stored, err := delta.VectorKey(adds[i].DeletionVector)
		if err != nil || !stored {
			return err
		}
		return head(store, key)
	})
}
