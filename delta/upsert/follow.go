package upsert

import (
	"context"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
)

// Follow moves the index and the files to a version that other writers have made
// of the one that the Writer stands at. Only files that are new, or have another
// deletion vector, are read. The error is as Open's; after one the Writer is of no
// use any more.
func (w *Writer) Follow(ctx context.Context, snap *delta.Snapshot) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	byPath := make(map[string]*segment, len(w.segments))
	ended := make(map[uint32]*dv.Bitmap) // rows that end, by segment; nil: all of them
	for id, s := range w.segments {
		byPath[s.add.Path] = s
		ended[id] = nil
	}
	var added []*action.Add
	for _, add := range snap.Files() {
		s := byPath[add.Path]
		if s == nil || s.add.Size != add.Size {
			added = append(added, add)
			continue
		}
		dead := s.dead
		if s.add.Key() != add.Key() {
			now, err := delta.ReadDeletionVector(ctx, w.store, add)
			if err != nil {
				return fmt.Errorf("follow the key index to version %d: %w", snap.Version(), err)
			}
			if rose(dead, now) { // rows live again whose keys nobody knows
				added = append(added, add)
				continue
			}
			if dead = now; now == nil {
				now = dv.New()
			} else if s.dead != nil {
				now = now.Clone()
				now.AndNot(s.dead)
			}
			ended[s.id] = now
		} else {
			delete(ended, s.id)
		}
		s.add, s.dead = add, dead // its statistics may be new
	}
	gone := func(r Ref) bool {
		r = w.at(r)
		rows, ok := ended[r.Segment()]
		return ok && (rows == nil || rows.Contains(r.Row()))
	}
	for _, add := range added {
		if err := w.index1(ctx, snap.Schema(), add, gone); err != nil {
			return fmt.Errorf("follow the key index to version %d: %w", snap.Version(), err)
		}
	}
	if len(ended) > 0 {
		w.index.DeleteRefs(gone)
	}
	for id, rows := range ended {
		if rows == nil {
			w.drop(w.segments[id])
		}
	}
	return nil
}

// rose reports whether a row that was dead lives.
func rose(was, now *dv.Bitmap) bool {
	if was == nil {
		return false
	}
	if now == nil {
		return !was.IsEmpty()
	}
	was = was.Clone()
	was.AndNot(now)
	return !was.IsEmpty()
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

// Path gives the path of the file of a segment's rows as the log has it, "" where it is
// not live.
func (w *Writer) Path(id uint32) string {
	if s := w.segmentOf(id); s != nil {
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
	any := func(Ref) bool { return true } // a later file's row takes the place of an earlier one's
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
