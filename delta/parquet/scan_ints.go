package parquet

import (
	"context"
	"fmt"
	"iter"

	"github.com/gscd-io/gscd/delta/schema"
)

// IntBatch holds some rows of columns of integers. It is valid until the next iteration.
type IntBatch struct {
	// FirstRow is the position of the first row in the file.
	FirstRow int64
	Rows     int
	// Columns[c][i] is the number of column c in row FirstRow+i, a boolean's 0 or 1.
	Columns [][]int64
	// Nulls[c] says which of them are NULL; nil where none is.
	Nulls [][]bool
}

// ScanInts is Scan of columns that hold integers, dates, timestamps or booleans as they are
// asked for: without cells, which take a third of the time of reading. ok is false where the
// file lacks one of the columns, or has it in another form; then Scan reads them.
func (f *File) ScanInts(ctx context.Context, columns []Column) (batches iter.Seq2[*IntBatch, error], ok bool) {
	bound, err := f.bind(columns)
	if err != nil {
		return nil, false // Scan says why
	}
	for i := range bound {
		c := &bound[i]
		if c.node == nil || c.nested != nil || c.ints != nil || c.strs != nil || c.kind != schema.Int && c.kind != schema.Bool {
			return nil, false
		}
	}
	return func(yield func(*IntBatch, error) bool) {
		s := scan{f: f, columns: bound, opts: ScanOptions{BatchRows: pageRows}}
		b := &IntBatch{Columns: make([][]int64, len(columns)), Nulls: make([][]bool, len(columns))}
		for group := range f.meta.RowGroups {
			if !s.ints(ctx, group, b, yield) {
				return
			}
		}
	}, true
}

// ints gives the rows of a row group; b.FirstRow and b.Rows are of the batch before.
func (s *scan) ints(ctx context.Context, group int, b *IntBatch, yield func(*IntBatch, error) bool) bool {
	rows := s.f.meta.RowGroups[group].NumRows
	readers, err := s.open(group, []RowRange{{0, rows}}, true)
	for at := int64(0); err == nil && at < rows; at += int64(b.Rows) {
		if err = ctx.Err(); err != nil {
			break
		}
		b.FirstRow += int64(b.Rows)
		b.Rows = int(min(int64(s.opts.BatchRows), rows-at))
		for i, r := range readers {
			if cap(b.Columns[i]) < b.Rows {
				b.Columns[i] = make([]int64, s.opts.BatchRows)
			}
			b.Columns[i] = b.Columns[i][:b.Rows]
			c := r.(*cells)
			if b.Nulls[i], err = c.readInts(b.Columns[i], b.Nulls[i][:0]); err != nil {
				err = fmt.Errorf("row group %d: column %q: %w", group, c.name(), err)
				break
			}
		}
		if err == nil && !yield(b, nil) {
			return false
		}
	}
	if err != nil {
		yield(nil, err)
		return false
	}
	return true
}

// readInts fills dst with the next rows, and gives which of them are NULL in nulls, nil
// where none is.
func (c *cells) readInts(dst []int64, nulls []bool) ([]bool, error) {
	all := len(dst)
	for done := 0; done < all; {
		if !c.more || c.at == c.chunk.page.n {
			if err := c.nextPage(); err != nil {
				return nil, err
			}
		}
		p := &c.chunk.page
		if !c.ready {
			if err := c.chunk.decode(); err != nil {
				return nil, err
			}
			if c.ready = true; p.byIndex {
				c.numbers = c.numbers[:0]
				for _, id := range p.ids {
					c.numbers = append(c.numbers, c.chunk.dict.ints[id])
				}
			}
		}
		values := p.ints
		if p.byIndex {
			values = c.numbers
		}
		n := min(all-done, p.n-c.at)
		to := dst[done : done+n]
		if p.def == nil || p.present == p.n {
			copy(to, values[c.next:])
			c.next += n
			if len(nulls) > 0 {
				nulls = append(nulls, make([]bool, n)...)
			}
		} else {
			for len(nulls) < done {
				nulls = append(nulls, false)
			}
			for i, d := range p.def[c.at : c.at+n] {
				there := d == c.chunk.leaf.maxDef
				if to[i] = 0; there {
					to[i] = values[c.next]
					c.next++
				}
				nulls = append(nulls, !there)
			}
		}
		c.at += n
		done += n
	}
	c.row += int64(all)
	if len(nulls) == 0 {
		nulls = nil
	}
	return nulls, nil
}
