package deltalog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Segment is what has to be read for one version: the checkpoint (nil: from
// version 0 on) and every commit after it, in order.
type Segment struct {
	Version    int64
	Checkpoint *Checkpoint
	Commits    []Commit
}

// Segment gives the files of a version, from the newest complete checkpoint at
// or below it. The error is a *VersionNotFoundError where the version is not
// readable; its Available knows of the listed versions only.
func (l *Listing) Segment(version int64) (*Segment, error) {
	return l.SegmentBelow(version, version+1)
}

// SegmentBelow is Segment without the checkpoints of version below and later:
// the way round a damaged one.
func (l *Listing) SegmentBelow(version, below int64) (*Segment, error) {
	s := &Segment{Version: version}
	after := int64(-1)
	limit := min(version+1, below)
	i, _ := slices.BinarySearchFunc(l.Checkpoints, limit, func(c Checkpoint, v int64) int { return cmp.Compare(c.Version, v) })
	if i > 0 {
		s.Checkpoint = &l.Checkpoints[i-1]
		after = s.Checkpoint.Version
	}
	first, _ := slices.BinarySearchFunc(l.Commits, after+1, func(c Commit, v int64) int { return cmp.Compare(c.Version, v) })
	last, found := slices.BinarySearchFunc(l.Commits, version, func(c Commit, v int64) int { return cmp.Compare(c.Version, v) })
	if !found {
		if newest, _ := l.Newest(); version == after && version == newest {
			return s, nil // a lone checkpoint
		}
		return nil, &VersionNotFoundError{version, l.Versions()}
	}
	if int64(last-first+1) != version-after {
		return nil, &VersionNotFoundError{version, l.Versions()}
	}
	s.Commits = l.Commits[first : last+1]
	return s, nil
}

// SegmentNewest gives the files of the newest version. The error wraps
// ErrNotATable where nothing is listed, and ErrCorrupt where a commit that it
// needs is missing.
func (l *Listing) SegmentNewest(store objstore.Store) (*Segment, error) {
	newest, ok := l.Newest()
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNotATable, store)
	}
	s, err := l.Segment(newest)
	if err == nil {
		return s, nil
	}
	// Name the hole: the first commit missing below the newest run.
	missing := newest
	for {
		if _, ok := l.Commit(missing); !ok {
			break
		}
		missing--
	}
	return nil, fmt.Errorf("%w: %s: version %d needs %s, which is missing", ErrCorrupt, store, newest, CommitKey(missing))
}

// Versions gives the readable versions, rising.
func (l *Listing) Versions() []int64 {
	var versions []int64
	next := int64(0) // the version to which a chain leads, if its commit is there
	points := l.Checkpoints
	for _, c := range l.Commits {
		for len(points) > 0 && points[0].Version <= c.Version {
			next = max(next, points[0].Version+1)
			if points[0].Version == c.Version {
				next = c.Version
			}
			points = points[1:]
		}
		if c.Version == next {
			versions = append(versions, c.Version)
			next++
		}
	}
	if newest, ok := l.Newest(); ok && len(points) > 0 && points[len(points)-1].Version == newest {
		versions = append(versions, newest) // a lone checkpoint
	}
	return versions
}
