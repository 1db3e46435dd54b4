package parquet

import (
	"context"
	"fmt"
	"iter"

	"github.com/gscd-io/gscd/delta/schema"
)

// ScanOptions say which rows of a file are read, and how many at a time.
type ScanOptions struct {
	// BatchRows bounds a batch, default 4096. Batches end at row groups
	// and at the ends of ranges.
	BatchRows int
	// SkipRowGroup leaves out a row group; nil skips none.
	SkipRowGroup func(i int) bool
	// Rows narrows what is read of a row group to ranges of positions in the file, rising
	// and apart: only pages with such rows are decompressed, and read where more lies
	// between than a request costs. nil, and a nil result, reads all rows.
	Rows func(i int) []RowRange
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
				if ranges := s.ranges(i, start, rows); len(ranges) > 0 && !s.group(ctx, i, start, ranges, yield) {
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

// ranges gives the rows to read of a row group, by their places in it.
func (s *scan) ranges(group int, start, rows int64) []RowRange {
	from, to := max(s.opts.From-start, 0), min(s.opts.To-start, rows)
	if s.opts.Rows != nil {
		if asked := s.opts.Rows(group); asked != nil {
			var ranges []RowRange
			for _, r := range asked {
				if r = (RowRange{max(r.From-start, from), min(r.To-start, to)}); r.From < r.To {
					ranges = append(ranges, r)
					from = r.To
				}
			}
			return ranges
		}
	}
	if from >= to {
		return nil
	}
	return []RowRange{{from, to}}
}

// group reads rows of one row group, whose first row is at start. It returns false
// when the sequence is over.
func (s *scan) group(ctx context.Context, group int, start int64, ranges []RowRange, yield func(*Batch, error) bool) bool {
	fail := func(err error) bool {
		yield(nil, err)
		return false
	}
	whole := ranges[0] == RowRange{0, s.f.meta.RowGroups[group].NumRows}
	if whole {
		ranges = ranges[:1]
	}
	readers, err := s.open(group, ranges, whole)
	if err != nil {
		return fail(err)
	}
	for _, r := range ranges {
		for _, reader := range readers {
			if reader == nil {
				continue
			}
			if err := reader.seek(r.From); err != nil {
				return fail(fmt.Errorf("row group %d: column %q: %w", group, reader.name(), err))
			}
		}
		for at := r.From; at < r.To; {
			if err := ctx.Err(); err != nil {
				return fail(err)
			}
			n := int(min(int64(s.opts.BatchRows), r.To-at))
			if err := s.fill(readers, n); err != nil {
				return fail(fmt.Errorf("row group %d: %w", group, err))
			}
			s.batch.FirstRow, s.batch.Rows = start+at, n
			if !yield(s.batch, nil) {
				return false
			}
			at += int64(n)
		}
	}
	if whole {
		for _, r := range readers {
			if nested, ok := r.(*nestedCells); ok {
				if err := nested.end(); err != nil {
					return fail(fmt.Errorf("row group %d: %w", group, err))
				}
			}
		}
	}
	return true
}

// columnReader reads the cells of a column of one row group in order.
type columnReader interface {
	// seek goes on to a row, by its place in the row group.
	seek(row int64) error
	read(dst []schema.Value) error
	name() string
}

// open makes the cell readers of a row group.
func (s *scan) open(group int, ranges []RowRange, whole bool) (readers []columnReader, err error) {
	if whole {
		ranges = nil
	}
	data, err := s.f.chunks(group, s.columns, ranges)
	if err != nil {
		return nil, err
	}
	readers = make([]columnReader, len(s.columns))
	for i, c := range s.columns {
		switch {
		case c.node == nil:
		case c.nested != nil:
			readers[i] = s.f.newNestedCells(c.nested, group, data)
		default:
			readers[i] = &cells{boundColumn: c, chunk: s.f.chunk(group, c.node, data)}
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
