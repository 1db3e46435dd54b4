package upsert

import (
	"context"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
)

// Follow moves the index and the files to a version that other writers have made
// of the one that the Writer stands at. Only files that are new, or have another
// deletion vector, are read. The error is as Open's; after one the Writer is of no
// use any more.
func (w *Writer) Follow(ctx context.Context, snap *delta.Snapshot) error {
	live := make(map[action.FileKey]uint32, len(w.segments))
	gone := make(map[uint32]bool)
	for id, s := range w.segments {
		live[s.add.Key()] = id
		gone[id] = true
	}
	var added []*action.Add
	for _, add := range snap.Files() {
		if id, ok := live[add.Key()]; ok {
			delete(gone, id)
			w.segments[id].add = add // its statistics may be new
			continue
		}
		added = append(added, add)
	}
	for _, add := range added {
		if err := w.index1(ctx, snap.Schema(), add, gone); err != nil {
			return fmt.Errorf("follow the key index to version %d: %w", snap.Version(), err)
		}
	}
	if len(gone) > 0 {
		w.index.DeleteRefs(func(r Ref) bool { return gone[r.Segment()] })
	}
	for id := range gone {
		delete(w.segments, id)
	}
	return nil
}

// Bare gives the paths of the live files that other writers wrote: they have no
// hidden columns.
func (w *Writer) Bare() (paths []string) {
	for _, s := range w.segments {
		if s.bare {
			paths = append(paths, s.add.Path)
		}
	}
	return paths
}

// Path gives the path of a segment as the log has it, "" where it is not live.
func (w *Writer) Path(id uint32) string {
	if s := w.segments[id]; s != nil {
		return s.add.Path
	}
	return ""
}

// Tags gives an index that is good for the tags of keys alone, of files that may
// have left the table, in the order in which they came: a later row's tag inherits
// from an earlier one's. What is no longer in the store is left out.
func Tags(ctx context.Context, store objstore.Store, s *schema.Schema, files []*action.Add, o Options) (*Index, error) {
	o.Was = nil
	w := New(store, o)
	any := anySegment(len(files))
	for _, add := range files {
		err := w.index1(ctx, s, add, any)
		if errors.Is(err, objstore.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the keys of replaced files: %w", err)
		}
	}
	return w.index, nil
}

// anySegment lets a later file's row take the place of an earlier one's.
func anySegment(files int) map[uint32]bool {
	any := make(map[uint32]bool, files)
	for id := range files {
		any[uint32(id)+1] = true
	}
	return any
}
