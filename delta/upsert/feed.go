package upsert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

const (
	// feedMemory bounds the change data that is held beside the batch.
	feedMemory = 32 << 20
	// feedRows is how many rows of a file are read at once for their pre-images, at most,
	// and feedBytes about what they have in the file: in memory they are several times that.
	feedRows, feedBytes = 16_384, 2 << 20
	// feedDense is the part of a file's rows, one in so many, from which on the file
	// is read from front to end.
	feedDense = 16
)

// update is a row that ends and the one of the batch that takes its place.
type update struct {
	ref Ref
	row int
}

// feed is the change data of a batch in the making.
type feed struct {
	files   *write.ChangeFiles
	batch   *Batch
	updates []update // by segment and row
}

// changeData stores the change data files of a batch: one change a key, whatever
// happened to it in the batch, so a key that was live before and is live behind it is
// updated. Where no row ends there are none: readers take the rows of new files as
// inserts by themselves.
func (w *Writer) changeData(ctx context.Context, b *Batch) ([]*action.CDC, error) {
	ended, err := w.ended(b)
	if err != nil || len(ended) == 0 {
		return nil, err
	}
	files, err := write.NewChangeFiles(ctx, w.store, b.Schema, &action.Metadata{PartitionColumns: b.PartitionBy}, feedMemory)
	if err != nil {
		return nil, err
	}
	f := &feed{files: files, batch: b}
	if err := w.feed(ctx, f, ended); err != nil {
		files.Abandon()
		return nil, fmt.Errorf("write change data: %w", err)
	}
	cdc, err := files.Close()
	if err != nil {
		return nil, fmt.Errorf("write change data: %w", err)
	}
	return cdc, nil
}

func (w *Writer) feed(ctx context.Context, f *feed, ended map[uint32]*dv.Bitmap) error {
	for i, key := range f.batch.Keys {
		ref := w.index.Get(key)
		if ref == 0 {
			if err := f.files.Write(scan.Insert, f.batch.Rows[i]); err != nil {
				return err
			}
			continue
		}
		ref = w.at(ref)
		if rows := ended[ref.Segment()]; rows == nil || !rows.Contains(ref.Row()) {
			return fmt.Errorf("%w: a key of the batch has a row in %s that does not end", ErrInconsistent, w.Path(ref.Segment()))
		}
		f.updates = append(f.updates, update{ref, i})
	}
	slices.SortFunc(f.updates, func(a, b update) int { return cmp.Compare(a.ref, b.ref) }) // the tag comes last
	for _, id := range slices.Sorted(maps.Keys(ended)) {
		if err := w.feedFile(ctx, f, w.segments[id], ended[id]); err != nil {
			return err
		}
	}
	return nil
}

// feedFile writes what became of the rows of a file that end.
func (w *Writer) feedFile(ctx context.Context, f *feed, s *segment, ended *dv.Bitmap) error {
	from, _ := slices.BinarySearchFunc(f.updates, s.id, func(u update, id uint32) int { return cmp.Compare(u.ref.Segment(), id) })
	updates := f.updates[from:]
	end := func(at int64, row []schema.Value) error {
		if len(updates) == 0 || updates[0].ref.Segment() != s.id || int64(updates[0].ref.Row()) != at {
			return f.files.Write(scan.Delete, row)
		}
		if err := f.files.Write(scan.UpdatePreimage, row); err != nil {
			return err
		}
		next := f.batch.Rows[updates[0].row]
		updates = updates[1:]
		return f.files.Write(scan.UpdatePostimage, next)
	}
	columns := make([]parquet.Column, len(f.batch.Schema.Fields))
	nested := false
	for i, field := range f.batch.Schema.Fields {
		columns[i] = parquet.ColumnOf(&field)
		nested = nested || !field.Type.IsLeaf()
	}
	if nested || ended.Cardinality() >= s.rows/feedDense {
		return w.scanEnded(ctx, s, columns, ended, end)
	}
	var refs []Ref
	// Rows that are read together share the pages that they are in.
	atOnce := int(min(max(feedBytes*s.rows/max(s.add.Size, 1), 64), feedRows))
	pass := func() error {
		rows, err := w.ReadRows(ctx, refs, columns)
		if err != nil {
			return err
		}
		for i, ref := range refs {
			if err := end(int64(ref.Row()), rows[i]); err != nil {
				return err
			}
		}
		refs = refs[:0]
		return nil
	}
	for row := range ended.Rows() {
		if refs = append(refs, makeRef(s.id, row, 0)); len(refs) == atOnce {
			if err := pass(); err != nil {
				return err
			}
		}
	}
	return pass()
}

// scanEnded reads a file from front to end and gives the rows that end.
func (w *Writer) scanEnded(ctx context.Context, s *segment, columns []parquet.Column, ended *dv.Bitmap, end func(at int64, row []schema.Value) error) error {
	file, err := w.open(ctx, s)
	if err != nil {
		return err
	}
	row := make([]schema.Value, len(columns))
	for b, err := range file.Scan(ctx, columns, parquet.ScanOptions{BatchRows: 1024}) {
		if err != nil {
			return fmt.Errorf("read %s: %w", s.key, err)
		}
		for i := range b.Rows {
			at := b.FirstRow + int64(i)
			if !ended.Contains(uint32(at)) {
				continue
			}
			for c := range columns {
				row[c] = b.Columns[c][i]
			}
			if err := w.fillPartition(s, columns, [][]schema.Value{row}); err != nil {
				return err
			}
			if err := end(at, row); err != nil {
				return err
			}
		}
	}
	return nil
}
