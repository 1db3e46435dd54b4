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
	// Compacted are log compaction files, rising and apart from each other, each
	// of which says what a run of Commits says.
	Compacted []File
}

// Segment gives the files of a version, from the newest complete checkpoint at
// or below it. The error is a *VersionNotFoundError where the version is not
// readable; its Available knows of the listed versions only.
func (l *Listing) Segment(version int64) (*Segment, error) {
	return l.segment(version, l.checkpointsBelow(version+1))
}

// SegmentWithout is another Segment of the same version, without the checkpoint
// of s and those that are preferred to it: the way round a damaged one.
func (l *Listing) SegmentWithout(s *Segment) (*Segment, error) {
	n := l.checkpointsBelow(s.Checkpoint.Version + 1)
	for n > 0 && l.Checkpoints[n-1].Version == s.Checkpoint.Version {
		n--
		if l.Checkpoints[n].Parts[0].Key == s.Checkpoint.Parts[0].Key {
			break
		}
	}
	return l.segment(s.Version, n)
}

// segment makes a Segment of one of the first n checkpoints: the last of them
// from which the version can be reached.
func (l *Listing) segment(version int64, n int) (*Segment, error) {
	s := &Segment{Version: version}
	after := int64(-1)
	if n > 0 {
		s.Checkpoint = &l.Checkpoints[n-1]
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
	s.Compacted = l.compacted(after+1, version)
	return s, nil
}

// compacted picks compaction files within a range of versions: at each version
// the one that spares most commits.
func (l *Listing) compacted(from, to int64) []File {
	var best []File
	for _, f := range l.Files { // by version, then by the last one
		if f.Kind != Compacted || f.Version < from || f.To > to || f.To == f.Version {
			continue
		}
		if n := len(best); n > 0 && best[n-1].Version == f.Version && best[n-1].To < f.To {
			best[n-1] = f
		} else if n == 0 || f.Version > best[n-1].To {
			best = append(best, f)
		}
	}
	return best
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
