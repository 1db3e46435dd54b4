package parquet

import (
	"context"
	"fmt"
	"iter"

	"github.com/gscd-io/gscd/delta/schema"
)

// ScanOptions say which rows of a file are read, and how many at a time.
type ScanOptions struct {
	// BatchRows bounds a batch, default 4096. Batches end at row groups.
	BatchRows int
	// SkipRowGroup leaves out a row group; nil skips none.
	SkipRowGroup func(i int) bool
	// From and To bound the rows, To excluded; To 0 means to the end.
	From, To int64
}

// Batch holds the cells of some rows. It is valid until the next iteration.
// The strings in its values stay valid, but hold their whole page in memory
// (and share memory with the bytes given to OpenBytes): who keeps one copies it.
type Batch struct {
	// FirstRow is the position of the first row in the file.
	FirstRow int64
	Rows     int
	// Columns[c][i] is the cell of column c, as asked for, in row FirstRow+i.
	Columns [][]schema.Value
}

// Scan reads columns of the file in order of rows. A column is found by its
// FieldID where it has one, else by name, exact or, where one only differs in
// case, that one; a column that the file does not have is NULL in every row. Types
// of the file that widen to the type asked for are read as that type. Cells of
// structs, arrays and maps are of Kind Compound.
//
// Errors wrap ErrCorrupt, ErrUnsupported, ErrColumnType or ErrNestedColumn, or
// are the context's or the reader's; one ends the sequence. It may be ranged
// over several times.
func (f *File) Scan(ctx context.Context, columns []Column, opts ScanOptions) iter.Seq2[*Batch, error] {
	if opts.BatchRows <= 0 {
		opts.BatchRows = 4096
	}
	if opts.To <= 0 || opts.To > f.meta.NumRows {
		opts.To = f.meta.NumRows
	}
	return func(yield func(*Batch, error) bool) {
		bound, err := f.bind(columns)
		if err != nil {
			yield(nil, err)
			return
		}
		s := scan{f: f, columns: bound, opts: opts, batch: &Batch{Columns: make([][]schema.Value, len(columns))}}
		s.cells = make([][]schema.Value, len(columns))
		start := int64(0)
		for i := range f.meta.RowGroups {
			rows := f.meta.RowGroups[i].NumRows
			if start+rows > opts.From && start < opts.To && (opts.SkipRowGroup == nil || !opts.SkipRowGroup(i)) {
				if !s.group(ctx, i, start, yield) {
					return
				}
			}
			start += rows
		}
	}
}

type scan struct {
	f       *File
	columns []boundColumn
	opts    ScanOptions
	batch   *Batch
	cells   [][]schema.Value // backing of the batch
}

// group reads one row group, whose first row is at start. It returns false
// when the sequence is over.
func (s *scan) group(ctx context.Context, group int, start int64, yield func(*Batch, error) bool) bool {
	from, to := max(s.opts.From, start), min(s.opts.To, start+s.f.meta.RowGroups[group].NumRows)
	readers, err := s.open(group, from-start)
	if err != nil {
		yield(nil, err)
		return false
	}
	for from < to {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return false
		}
		n := int(min(int64(s.opts.BatchRows), to-from))
		if err := s.fill(readers, n); err != nil {
			yield(nil, fmt.Errorf("row group %d: %w", group, err))
			return false
		}
		s.batch.FirstRow, s.batch.Rows = from, n
		if !yield(s.batch, nil) {
			return false
		}
		from += int64(n)
	}
	if to == start+s.f.meta.RowGroups[group].NumRows {
		for _, r := range readers {
			if nested, ok := r.(*nestedCells); ok {
				if err := nested.end(); err != nil {
					yield(nil, fmt.Errorf("row group %d: %w", group, err))
					return false
				}
			}
		}
	}
	return true
}

// columnReader reads the cells of a column of one row group in order.
type columnReader interface {
	skip(rows int64) error
	read(dst []schema.Value) error
	name() string
}

// open makes the cell readers of a row group and passes over rows.
func (s *scan) open(group int, skip int64) (readers []columnReader, err error) {
	data, err := s.f.chunks(group, s.columns)
	if err != nil {
		return nil, err
	}
	readers = make([]columnReader, len(s.columns))
	for i, c := range s.columns {
		switch {
		case c.node == nil:
			continue
		case c.nested != nil:
			readers[i] = newNestedCells(c.nested, &s.f.meta.RowGroups[group], data)
		default:
			readers[i] = &cells{boundColumn: c, chunk: s.f.chunk(group, c.node, data)}
		}
		if err := readers[i].skip(skip); err != nil {
			return nil, fmt.Errorf("row group %d: column %q: %w", group, readers[i].name(), err)
		}
	}
	return readers, nil
}

func (s *scan) fill(readers []columnReader, n int) error {
	for i, r := range readers {
		if cap(s.cells[i]) < n {
			s.cells[i] = make([]schema.Value, n)
		}
		s.batch.Columns[i] = s.cells[i][:n]
		if r == nil {
			continue // zero cells are NULL, and nothing else was ever written to them
		}
		if err := r.read(s.batch.Columns[i]); err != nil {
			return fmt.Errorf("column %q: %w", r.name(), err)
		}
	}
	return nil
}
