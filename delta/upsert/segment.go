package upsert

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// segment is one live data file.
type segment struct {
	id   uint32
	add  *action.Add
	key  string // of the object
	rows int64
	dead *dv.Bitmap // nil where every row lives
	bare bool       // another writer's file, without hidden columns
	file *parquet.File
	// foreign: no Ref names the file itself; spans are the segments whose rows it has.
	foreign bool
	spans   []uint32
}

// readWhole is the size up to which a file is read at once: one request
// instead of several, and the pages are wanted anyway.
const readWhole = 8 << 20

// open gives the segment's file. Its footer is read once, or twice where two ask for it
// at the same time.
func (w *Writer) open(ctx context.Context, s *segment) (*parquet.File, error) {
	w.openedMu.Lock()
	known := s.file
	w.openedMu.Unlock()
	if known != nil {
		return known, nil
	}
	f, err := openFile(ctx, w.store, s.key, s.add.Size)
	if err != nil {
		return nil, err
	}
	if f.NumRows() != s.rows && s.rows >= 0 {
		return nil, fmt.Errorf("%w: %s has %d rows, the log says %d", ErrInconsistent, s.key, f.NumRows(), s.rows)
	}
	w.remember(s, f)
	return f, nil
}

// maxOpen bounds the files whose footers are kept.
const maxOpen = 64

func (w *Writer) remember(s *segment, f *parquet.File) {
	w.openedMu.Lock()
	defer w.openedMu.Unlock()
	if s.file != nil {
		return
	}
	s.file = f
	w.opened = append(w.opened, s)
	if len(w.opened) > maxOpen {
		w.opened[0].file = nil
		w.opened = w.opened[1:]
	}
}

func openFile(ctx context.Context, store objstore.Store, key string, size int64) (*parquet.File, error) {
	if size > readWhole {
		f, err := parquet.Open(objstore.NewReaderAt(ctx, store, key, size), size)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", key, err)
		}
		return f, nil
	}
	data, err := store.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	if int64(len(data)) != size {
		return nil, fmt.Errorf("%w: %s has %d bytes, the log says %d", ErrInconsistent, key, len(data), size)
	}
	f, err := parquet.Open(bytes.NewReader(data), size)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	return f, nil
}

// newSegment registers a live file.
func (w *Writer) newSegment(add *action.Add, rows int64, dead *dv.Bitmap) (*segment, error) {
	key, err := action.Key(add.Path)
	if err != nil {
		return nil, err
	}
	for {
		w.last++
		if w.last > MaxSegments {
			w.last = 1
		}
		if w.segments[w.last] == nil && w.moved[w.last] == nil {
			break
		}
		if len(w.segments)+len(w.moved) >= MaxSegments {
			return nil, fmt.Errorf("the table has more than %d data files: run `gscd optimize`", MaxSegments)
		}
	}
	s := &segment{id: w.last, add: add, key: key, rows: rows, dead: dead}
	w.segments[s.id] = s
	return s, nil
}

// ReadRows reads cells of rows, in the order of refs; their strings are the
// caller's. Columns that a file lacks read as NULL.
func (w *Writer) ReadRows(ctx context.Context, refs []Ref, columns []parquet.Column) ([][]schema.Value, error) {
	out := make([][]schema.Value, len(refs))
	bySegment := map[uint32][]int{}
	if len(w.moved) > 0 {
		refs = slices.Clone(refs)
		for i := range refs {
			refs[i] = w.at(refs[i])
		}
	}
	for i, r := range refs {
		bySegment[r.Segment()] = append(bySegment[r.Segment()], i)
	}
	for id, which := range bySegment {
		s := w.segments[id]
		if s == nil {
			return nil, fmt.Errorf("%w: the index points at segment %d, which is not live", ErrInconsistent, id)
		}
		f, err := w.open(ctx, s)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(which, func(a, b int) int { return int(int64(refs[a].Row()) - int64(refs[b].Row())) })
		rows := make([]int64, 0, len(which))
		for _, i := range which {
			if r := int64(refs[i].Row()); len(rows) == 0 || rows[len(rows)-1] != r {
				rows = append(rows, r)
			}
		}
		cells, err := f.Rows(ctx, columns, rows)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.key, err)
		}
		if err := w.fillPartition(s, columns, cells); err != nil {
			return nil, err
		}
		at := 0
		for _, i := range which {
			for rows[at] != int64(refs[i].Row()) {
				at++
			}
			out[i] = cells[at]
		}
	}
	return out, nil
}

// fillPartition sets the cells of partition columns, whose values are in the log alone.
func (w *Writer) fillPartition(s *segment, columns []parquet.Column, cells [][]schema.Value) error {
	for c, col := range columns {
		text, ok := s.add.PartitionValues[col.Name]
		if !ok {
			continue
		}
		v, err := action.ParsePartitionValue(text, col.Type)
		if err != nil {
			return fmt.Errorf("partition value of %s: %w", s.key, err)
		}
		for _, row := range cells {
			row[c] = v
		}
	}
	return nil
}
