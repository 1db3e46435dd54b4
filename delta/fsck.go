package delta

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
)

// FileFault is something that the files and the log of a version disagree on.
type FileFault struct {
	Kind FileFaultKind
	// Key is the object's, and Path that of the add that needs it, "" for an orphan.
	Key, Path string
	// Size is that of the object, -1 where it is missing; Want what the log says, -1
	// where it says nothing.
	Size, Want int64
}

// FileFaultKind says what is wrong.
type FileFaultKind string

// The kinds of FileFault.
const (
	// MissingFile: a data file is not there.
	MissingFile FileFaultKind = "missing"
	// MissingVector: a deletion vector is not there, and nobody knows which rows are dead.
	MissingVector FileFaultKind = "missing_vector"
	// WrongSize: the object has another size than the log says, or is shorter than the
	// deletion vectors in it.
	WrongSize FileFaultKind = "wrong_size"
	// WrongRows: a data file has another number of rows than its statistics say. Size and
	// Want are rows.
	WrongRows FileFaultKind = "wrong_rows"
	// UnreadableFile: a data file is no Parquet file with a footer that can be read.
	UnreadableFile FileFaultKind = "unreadable"
	// OrphanFile: no version that is readable refers to the object. Vacuum removes it
	// once it is old enough.
	OrphanFile FileFaultKind = "orphan"
)

// CheckFiles compares the files of a version with the objects that are there: each file
// and deletion vector that it needs, and, where orphans is set, each object that no
// readable version needs and that is older than Vacuum's default grace. Faults come by
// kind and key. A file outside of the root is asked for where the store leads there; where
// it does not, the error wraps ErrAbsolutePath. Of a table with such files orphans are not
// told.
func (t *Table) CheckFiles(ctx context.Context, s *Snapshot, orphans bool) ([]FileFault, error) {
	faults, err := t.checkFiles(ctx, s, orphans)
	if err != nil {
		return nil, fmt.Errorf("check the files of version %d of %s: %w", s.version, t.store, err)
	}
	sortFaults(faults)
	return faults, nil
}

func (t *Table) checkFiles(ctx context.Context, s *Snapshot, orphans bool) (faults []FileFault, err error) {
	there := map[string]objstore.Object{}
	for object, err := range t.store.List(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(object.Key, deltalog.Dir) {
			there[object.Key] = object
		}
	}
	for _, add := range s.Files() {
		key, size, err := t.sizeOf(ctx, add.Path, there)
		switch {
		case err != nil:
			return nil, err
		case size < 0:
			faults = append(faults, FileFault{MissingFile, key, add.Path, -1, add.Size})
		case size != add.Size:
			faults = append(faults, FileFault{WrongSize, key, add.Path, size, add.Size})
		}
		d := add.DeletionVector
		if d == nil || d.StorageType == "i" {
			continue
		}
		path := d.PathOrInlineDV
		if d.StorageType == "u" {
			if key, _, err = VectorKey(d); err != nil {
				return nil, err
			}
			path = action.EncodePath(key)
		}
		end := int64(d.SizeInBytes) + 8
		if d.Offset != nil {
			end += int64(*d.Offset)
		}
		key, size, err = t.sizeOf(ctx, path, there)
		switch {
		case err != nil:
			return nil, err
		case size < 0:
			faults = append(faults, FileFault{MissingVector, key, add.Path, -1, end})
		case size < end:
			faults = append(faults, FileFault{WrongSize, key, add.Path, size, end})
		}
	}
	if !orphans {
		return faults, nil
	}
	report, err := Vacuum(ctx, t, VacuumOptions{DryRun: true, KeepVersionsSince: time.Unix(0, 0)})
	if errors.Is(err, ErrAbsolutePath) {
		return faults, nil
	}
	if err != nil {
		return nil, err
	}
	for _, g := range report.Deleted {
		faults = append(faults, FileFault{OrphanFile, g.Key, "", g.Size, -1})
	}
	return faults, nil
}

// sizeOf gives the size of the object of a path, -1 where it is missing. there are the
// objects of the table, nil: they are asked for one by one.
func (t *Table) sizeOf(ctx context.Context, path string, there map[string]objstore.Object) (key string, size int64, err error) {
	store, key, err := Locate(t.store, path)
	if err != nil {
		return path, 0, err
	}
	if store == t.store && there != nil {
		if object, ok := there[key]; ok {
			return key, object.Size, nil
		}
		return key, -1, nil
	}
	object, err := store.Head(ctx, key)
	if errors.Is(err, objstore.ErrNotExist) {
		return path, -1, nil
	}
	return path, object.Size, err
}

// ForgetMissing takes data files that are missing out of the newest version, in a commit
// FSCK: what is left can be read again. Their rows are lost, and older versions that need
// them stay unreadable. It gives the version, and the files; without any it commits
// nothing, and the version is -1. The error wraps ErrConflict where another commit came
// first: ask again.
func (t *Table) ForgetMissing(ctx context.Context) (version int64, lost []FileFault, err error) {
	s, err := t.Snapshot(ctx)
	if err != nil {
		return -1, nil, err
	}
	faults, err := t.CheckFiles(ctx, s, false)
	if err != nil {
		return -1, nil, err
	}
	tx := NewTransaction(t, s)
	tx.Implements(rowFeatures...)
	for _, f := range faults {
		if f.Kind != MissingFile {
			continue
		}
		if _, err := t.store.Head(ctx, f.Key); err == nil { // a listing that lags behind
			continue
		}
		add, ok := s.File(f.Path)
		if !ok {
			continue
		}
		tx.Remove(RemoveOf(add, t.now(), true))
		lost = append(lost, f)
	}
	if len(lost) == 0 {
		return -1, nil, nil
	}
	tx.SetCommitInfo("FSCK", map[string]string{"dryRun": "false"}, map[string]string{"numMissingFiles": fmt.Sprint(len(lost))}, nil)
	outcome, err := tx.Commit(ctx)
	if err != nil {
		return -1, nil, err
	}
	if !outcome.Committed {
		return -1, nil, fmt.Errorf("forget missing files of %s: %w: %s", t.store, ErrConflict, outcome.Conflict)
	}
	return outcome.Version, lost, nil
}
