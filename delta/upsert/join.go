package upsert

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/schema"
)

// FileInfo describes a live file to who decides what is joined.
type FileInfo struct {
	Segment uint32
	Path    string
	// Size in bytes; Rows are physical, Dead of them are deleted.
	Size, Rows, Dead int64
	// Folder is the partition, "" where the table has none.
	Folder string
	// Bare: another writer's, without hidden columns.
	Bare bool
	// Moved: by a Move, no batch's.
	Moved bool
}

// Files gives the live files in the order in which they came.
func (w *Writer) Files() []FileInfo {
	out := make([]FileInfo, 0, len(w.segments))
	for _, id := range slices.Sorted(maps.Keys(w.segments)) {
		s := w.segments[id]
		f := FileInfo{Segment: s.id, Path: s.add.Path, Size: s.add.Size, Rows: s.rows, Folder: folderOf(s.key), Bare: s.bare, Moved: s.foreign}
		if s.dead != nil {
			f.Dead = s.dead.Cardinality()
		}
		out = append(out, f)
	}
	return out
}

// Join writes the live rows of some files of one partition as one file, as a
// change of layout alone (dataChange false). footer goes into the new file.
// Nothing of the Writer changes before Applied.
func (w *Writer) Join(ctx context.Context, ids []uint32, s *schema.Schema, partitionBy []string, footer map[string]string, tx *delta.Transaction) (*Written, error) {
	out := &Written{}
	now := w.now()
	joined := &part{}
	for _, id := range ids {
		seg := w.segments[id]
		if seg == nil {
			return nil, fmt.Errorf("%w: segment %d is not live", ErrInconsistent, id)
		}
		dead := seg.dead
		if dead == nil {
			dead = dv.New()
		}
		p, err := w.survivors(ctx, s, seg, dead)
		if err != nil {
			return nil, fmt.Errorf("join files: %w", err)
		}
		joined.values, joined.folder = p.values, p.folder
		joined.rows = append(joined.rows, p.rows...)
		joined.keys = append(joined.keys, p.keys...)
		joined.tags = append(joined.tags, p.tags...)
		remove := delta.RemoveOf(seg.add, now, false)
		tx.Remove(remove)
		out.replaced = append(out.replaced, segmentChange{id: id})
	}
	if len(joined.rows) == 0 {
		return out, nil
	}
	add, err := w.writeFile(ctx, s, partitionBy, joined, footer)
	if err != nil {
		return nil, fmt.Errorf("join files: %w", err)
	}
	add.DataChange = false
	tx.Add(add)
	out.added = append(out.added, addedFile{add, int64(len(joined.rows)), joined.keys, joined.tags})
	return out, nil
}
