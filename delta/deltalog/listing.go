package deltalog

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Commit is a commit file.
type Commit struct {
	Version int64
	objstore.Object
}

// Checkpoint is a complete checkpoint: one file, or all parts in order. The
// sidecars of a v2 checkpoint are known to its manifest only.
type Checkpoint struct {
	Version int64
	Parts   []objstore.Object
}

// File is any file of the log by its name.
type File struct {
	Name
	objstore.Object
}

// Listing is the files of the log from some version on, each slice by rising version.
type Listing struct {
	// From is the first version that was listed.
	From    int64
	Commits []Commit
	// Checkpoints are the complete ones. Of several of one version the last is
	// to be read first.
	Checkpoints []Checkpoint
	// Files are all of them: also checksums, compacted files and parts of
	// incomplete checkpoints.
	Files []File
}

// List lists the log from a version on; from 0 it lists all.
func List(ctx context.Context, store objstore.Store, from int64) (*Listing, error) {
	startAfter := ""
	if from > 0 {
		startAfter = fmt.Sprintf("%s%020d", Dir, from)
	}
	l := &Listing{From: from}
	for object, err := range store.List(ctx, Dir, startAfter) {
		if err != nil {
			return nil, fmt.Errorf("list the log of %s: %w", store, err)
		}
		base := strings.TrimPrefix(object.Key, Dir)
		if base > ":" {
			break // behind the digits come only folders and files of no version
		}
		if name := ParseName(base); name.Kind != Other {
			l.add(File{name, object})
		}
	}
	l.checkpoints()
	return l, nil
}

func (l *Listing) add(f File) {
	l.Files = append(l.Files, f)
	if f.Kind == CommitFile {
		l.Commits = append(l.Commits, Commit{f.Version, f.Object})
	}
}

// preference orders the checkpoints of one version, the best one last: parts
// are deprecated and may be mixed of two writers, one Parquet file is read
// faster than a JSON manifest, and the classic name is what every client wrote.
var preference = [...]int{CheckpointPart: 1, UUIDCheckpoint: 2, ClassicCheckpoint: 3}

// checkpoints gathers the complete checkpoints.
func (l *Listing) checkpoints() {
	files := slices.DeleteFunc(slices.Clone(l.Files), func(f File) bool {
		return f.Kind != ClassicCheckpoint && f.Kind != CheckpointPart && f.Kind != UUIDCheckpoint
	})
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(preference[a.Kind], preference[b.Kind]),
			cmp.Compare(a.Parts, b.Parts), cmp.Compare(a.Part, b.Part), strings.Compare(path.Ext(a.Key), path.Ext(b.Key)), strings.Compare(a.Key, b.Key))
	})
	for i := 0; i < len(files); {
		f, j := files[i], i+1
		for f.Kind == CheckpointPart && j < len(files) && files[j].Version == f.Version && files[j].Parts == f.Parts {
			j++
		}
		if f.Kind != CheckpointPart || int64(j-i) == f.Parts {
			parts := make([]objstore.Object, 0, j-i)
			for _, p := range files[i:j] {
				parts = append(parts, p.Object)
			}
			l.Checkpoints = append(l.Checkpoints, Checkpoint{f.Version, parts})
		}
		i = j
	}
}

// Commit finds a version's commit file.
func (l *Listing) Commit(version int64) (Commit, bool) {
	i, ok := slices.BinarySearchFunc(l.Commits, version, func(c Commit, v int64) int { return cmp.Compare(c.Version, v) })
	if !ok {
		return Commit{}, false
	}
	return l.Commits[i], true
}

// Checkpoint finds a version's complete checkpoint, the best one where it has several.
func (l *Listing) Checkpoint(version int64) (Checkpoint, bool) {
	i := l.checkpointsBelow(version + 1)
	if i == 0 || l.Checkpoints[i-1].Version != version {
		return Checkpoint{}, false
	}
	return l.Checkpoints[i-1], true
}

// checkpointsBelow counts the checkpoints of versions below one.
func (l *Listing) checkpointsBelow(version int64) int {
	i, _ := slices.BinarySearchFunc(l.Checkpoints, version, func(c Checkpoint, v int64) int { return cmp.Compare(c.Version, v) })
	return i
}

// Newest gives the newest version that a commit or a complete checkpoint names.
func (l *Listing) Newest() (version int64, ok bool) {
	version = -1
	if n := len(l.Commits); n > 0 {
		version = l.Commits[n-1].Version
	}
	if n := len(l.Checkpoints); n > 0 {
		version = max(version, l.Checkpoints[n-1].Version)
	}
	return version, version >= 0
}
