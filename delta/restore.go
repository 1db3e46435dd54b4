package delta

import (
	"time"

	"github.com/gscd-io/gscd/delta/action"
)

// RemoveOf makes the remove that ends an add: path byte for byte, deletion
// vector, partition values and size.
func RemoveOf(add *action.Add, now time.Time, dataChange bool) *action.Remove {
	size := add.Size
	return &action.Remove{
		Path: add.Path, DeletionTimestamp: now.UnixMilli(), DataChange: dataChange,
		ExtendedFileMetadata: true, PartitionValues: add.PartitionValues, Size: &size, Tags: add.Tags,
		DeletionVector: add.DeletionVector, BaseRowID: add.BaseRowID, DefaultRowCommitVersion: add.DefaultRowCommitVersion,
	}
}

// DiffForRestore gives the actions that bring the files of current back to those
// of target: the logical files (path and deletion vector) that are missing, as
// the target has them, and removes of those that are too many. All change data.
// Metadata, protocol and the existence of the objects are the caller's matter.
func DiffForRestore(current, target *Snapshot, now time.Time) (adds []*action.Add, removes []*action.Remove) {
	for _, a := range current.Files() {
		if !target.has(a.Key()) {
			removes = append(removes, RemoveOf(a, now, true))
		}
	}
	for _, a := range target.Files() {
		if !current.has(a.Key()) {
			again := *a
			again.DataChange = true
			adds = append(adds, &again)
		}
	}
	return adds, removes
}
