package changes

import (
	"context"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
)

// lost reports whether an error says that change data is not there, or not any more.
func lost(err error) bool {
	var version *delta.VersionNotFoundError
	return errors.Is(err, ErrNoChanges) || errors.Is(err, scan.ErrFileMissing) || errors.As(err, &version)
}

// Lost reports whether an error of a Feed says that change data is not there, or not any
// more. What lies between two versions that can be read still comes by NetBetween.
func Lost(err error) bool { return err != nil && lost(err) }

// readable says, behind an error about change data that is not there, what still can be
// read of a range.
func (f *Feed) readable(ctx context.Context, err error, from, to int64) string {
	if !lost(err) {
		return ""
	}
	first, known := f.firstReadable(ctx, from, to)
	switch {
	case !known:
		return ""
	case first > to:
		return fmt.Sprintf("; there is no change data of versions up to %d", to)
	}
	return fmt.Sprintf("; change data can be read from version %d on", first)
}

// firstReadable finds the first version from which on, up to the last, commits and files
// of changes are there; last+1 where those of the last are not.
func (f *Feed) firstReadable(ctx context.Context, from, last int64) (first int64, known bool) {
	versions, err := f.table.Versions(ctx)
	if err != nil {
		return 0, false
	}
	commits := map[int64]bool{}
	for _, v := range versions {
		commits[v] = true
	}
	first = last + 1
	for first > from && commits[first-1] {
		first--
	}
	if first > last {
		return first, true
	}
	s, err := f.table.SnapshotAt(ctx, first)
	if err != nil {
		return 0, false
	}
	on := s.Metadata().Configuration[delta.PropertyChangeDataFeed] == "true"
	for v, err := range f.table.Commits(ctx, first, last) {
		if err != nil {
			return 0, false
		}
		if v.Metadata != nil {
			on = v.Metadata.Configuration[delta.PropertyChangeDataFeed] == "true"
		}
		there, err := f.present(ctx, v)
		if err != nil {
			return 0, false
		}
		if !on || !there {
			first = v.Version + 1
		}
	}
	return first, true
}

// present reports whether the files that tell a version's changes are there.
func (f *Feed) present(ctx context.Context, v delta.VersionCommit) (bool, error) {
	var paths []string
	for _, c := range v.CDC {
		paths = append(paths, c.Path)
	}
	if len(v.CDC) == 0 {
		for _, a := range v.Adds {
			if a.DataChange {
				paths = append(paths, a.Path)
			}
		}
		for _, r := range v.Removes {
			if r.DataChange {
				paths = append(paths, r.Path)
			}
		}
	}
	for _, path := range paths {
		key, err := action.Key(path)
		if errors.Is(err, action.ErrAbsolutePath) {
			continue // of another table: not looked at
		}
		if err != nil {
			return false, err
		}
		switch _, err := f.table.Store().Head(ctx, key); {
		case errors.Is(err, objstore.ErrNotExist):
			return false, nil
		case err != nil:
			return false, err
		}
	}
	return true, nil
}
