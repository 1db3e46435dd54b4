package layout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

// rewritten is a bin whose rows lie in new files.
type rewritten struct {
	bin    *bin
	inputs []*input
	writer *writer
	rows   int64 // live when they were read
}

// copyRows is the size from which a row group is taken over as it is. Smaller ones
// are put together.
const copyRows = 20_000

// rewrite writes the rows of a bin anew. It gives nothing where nothing is left to do:
// the table has moved on since the plan.
func (x *optimizer) rewrite(ctx context.Context, b *bin) (*rewritten, error) {
	r := &rewritten{bin: b}
	for _, add := range b.files {
		in, err := openInput(ctx, x.table.Store(), add)
		if err != nil {
			return nil, err
		}
		r.inputs = append(r.inputs, in)
		r.rows += in.rows - in.deadRows()
	}
	extra := x.extraOf(r.inputs[0])
	var footers []map[string]string
	for _, in := range r.inputs {
		footers = append(footers, in.file.KeyValue())
	}
	target := x.o.TargetSize
	if len(x.o.OrderBy) == 0 {
		target *= 2 // the plan has seen to the size; a small rest shall make no file of its own
	}
	var err error
	if r.writer, err = x.newWriter(b, extra, x.o.Footer(footers), target); err != nil {
		return nil, err
	}
	if len(x.o.OrderBy) > 0 {
		err = x.writeOrdered(ctx, r)
	} else {
		err = x.writeInTurn(ctx, r)
	}
	if err == nil {
		err = r.writer.end()
	}
	if err != nil {
		r.writer.close()
		return nil, err
	}
	return r, nil
}

// extraOf gives the extra columns that the outputs of an input have.
func (x *optimizer) extraOf(in *input) []parquet.Column {
	if !x.hasExtra(in) {
		return nil
	}
	return x.o.Extra
}

// hasExtra tells whether a file has any of the extra columns.
func (x *optimizer) hasExtra(in *input) bool {
	return slices.ContainsFunc(x.o.Extra, func(c parquet.Column) bool {
		_, ok := in.file.Find(c)
		return ok
	})
}

// writeInTurn writes the rows in the order of the files.
func (x *optimizer) writeInTurn(ctx context.Context, r *rewritten) error {
	for number, in := range r.inputs {
		start := int64(0)
		copyable := r.writer.canCopy(ctx, in)
		for group := range in.file.NumRowGroups() {
			n := in.file.RowGroupRows(group)
			whole := in.dead == nil || in.dead.CountRange(start, start+n) == 0
			var err error
			if copyable && whole && n >= copyRows {
				err = r.writer.copyGroup(ctx, number, in, group, start)
			} else {
				err = x.writeRows(ctx, r.writer, number, in, start, start+n)
			}
			if err != nil {
				return err
			}
			start += n
		}
		x.done += in.add.Size
		x.tell()
	}
	return nil
}

// writeRows decodes rows of an input and writes those that live.
func (x *optimizer) writeRows(ctx context.Context, w *writer, number int, in *input, from, to int64) error {
	if from == to {
		return nil
	}
	return x.eachBatch(ctx, in, w.reads, from, to, func(first int64, rows [][]schema.Value, places []int64) error {
		if err := w.number(in, rows, places); err != nil {
			return err
		}
		return w.append(ctx, rows, func(t *trail) error {
			for _, row := range places {
				if err := t.add(number, row); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// eachBatch reads the live rows of an input, with where they lie in it. What fn is
// given is valid until it returns, but for the texts.
func (x *optimizer) eachBatch(ctx context.Context, in *input, columns []parquet.Column, from, to int64, fn func(first int64, rows [][]schema.Value, places []int64) error) error {
	batchRows := rowsAtOnce(in.add.Size, in.rows)
	cells := make([]schema.Value, batchRows*len(columns))
	rows := make([][]schema.Value, 0, batchRows)
	places := make([]int64, 0, batchRows)
	seen := from
	for b, err := range in.file.Scan(ctx, columns, parquet.ScanOptions{BatchRows: batchRows, From: from, To: to}) {
		if err != nil {
			return fmt.Errorf("read %s: %w", in.add.Path, err)
		}
		rows, places = rows[:0], places[:0]
		for i := range b.Rows {
			at := b.FirstRow + int64(i)
			if in.isDead(at) {
				continue
			}
			row := cells[len(rows)*len(columns) : (len(rows)+1)*len(columns) : (len(rows)+1)*len(columns)]
			for c := range columns {
				row[c] = b.Columns[c][i]
			}
			rows, places = append(rows, row), append(places, at)
		}
		seen += int64(b.Rows)
		if len(rows) == 0 {
			continue
		}
		if err := fn(b.FirstRow, rows, places); err != nil {
			return err
		}
	}
	if seen != to {
		return fmt.Errorf("%w: %s gave %d rows of %d", ErrInconsistent, in.add.Path, seen-from, to-from)
	}
	return nil
}

// sampleRows is how many rows the ranks of values are taken from.
const sampleRows = 1 << 16

// writeOrdered writes the rows in the order of the curve.
func (x *optimizer) writeOrdered(ctx context.Context, r *rewritten) error {
	var order []parquet.Column
	var at []int // of the columns to order by in a row
	for _, name := range x.o.OrderBy {
		f := &x.fields[x.base.Schema().IndexFold(name)]
		order = append(order, parquet.ColumnOf(f))
		at = append(at, slices.IndexFunc(r.writer.columns, func(c parquet.Column) bool { return c.Name == f.Stored() }))
	}
	ranks, err := x.sample(ctx, r, order)
	if err != nil {
		return err
	}
	s := &sorter{width: len(r.writer.columns), limit: x.o.MemoryLimit, dir: spill.Dir{Parent: x.o.TempDir}}
	defer s.close()
	point := make([]uint32, len(order))
	bitsEach := rankBits(len(order))
	for number, in := range r.inputs {
		if in.rows == 0 {
			continue
		}
		err := x.eachBatch(ctx, in, r.writer.reads, 0, in.rows, func(_ int64, rows [][]schema.Value, places []int64) error {
			if err := r.writer.number(in, rows, places); err != nil {
				return err
			}
			for i, row := range rows {
				for c := range order {
					point[c] = ranks[c].of(row[at[c]])
				}
				if err := s.add(&sortedRow{x.o.Curve.key(point, bitsEach), number, places[i], row}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		x.done += in.add.Size / 2
		x.tell()
	}
	if err := x.writeSorted(ctx, r, s); err != nil {
		return err
	}
	for _, in := range r.inputs {
		x.done += in.add.Size - in.add.Size/2
	}
	x.tell()
	return nil
}

// sample takes rows at random, each with the same chance, and makes ranks of them.
func (x *optimizer) sample(ctx context.Context, r *rewritten, order []parquet.Column) ([]*ranks, error) {
	random := rand.New(rand.NewPCG(1, 2)) // the same rows give the same files
	taken := make([][]schema.Value, 0, min(sampleRows, r.rows))
	seen := int64(0)
	for _, in := range r.inputs {
		if in.rows == 0 {
			continue
		}
		err := x.eachBatch(ctx, in, order, 0, in.rows, func(_ int64, rows [][]schema.Value, _ []int64) error {
			for _, row := range rows {
				seen++
				at := len(taken)
				if at < sampleRows {
					taken = append(taken, nil)
				} else if n := random.Int64N(seen); n < sampleRows {
					at = int(n)
				} else {
					continue
				}
				kept := slices.Clone(row)
				for c := range kept {
					kept[c].S = strings.Clone(kept[c].S[:min(len(kept[c].S), samplePrefix)])
				}
				taken[at] = kept
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	out := make([]*ranks, len(order))
	for c := range order {
		values := make([]schema.Value, 0, len(taken))
		for _, row := range taken {
			if !row[c].IsNull() {
				values = append(values, row[c])
			}
		}
		out[c] = newRanks(values, rankBits(len(order)))
	}
	return out, nil
}

// samplePrefix is how much of a text a sample keeps: decimals have 16 bytes, and
// statistics tell no more of a text.
const samplePrefix = 64

// writeSorted writes the rows as they come out of the sort.
func (x *optimizer) writeSorted(ctx context.Context, r *rewritten, s *sorter) error {
	const batchRows, batchBytes = 1024, 1 << 20
	cells := make([]schema.Value, batchRows*s.width)
	rows := make([][]schema.Value, 0, batchRows)
	from := make([]sortedRow, 0, batchRows)
	size := 0
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		err := r.writer.append(ctx, rows, func(t *trail) error {
			for _, f := range from {
				if err := t.add(f.input, f.row); err != nil {
					return err
				}
			}
			return nil
		})
		rows, from, size = rows[:0], from[:0], 0
		return err
	}
	for row, err := range s.sorted() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		kept := cells[len(rows)*s.width : (len(rows)+1)*s.width : (len(rows)+1)*s.width]
		copy(kept, row.cells)
		for c := range kept {
			size += len(kept[c].S)
		}
		rows = append(rows, kept)
		from = append(from, sortedRow{input: row.input, row: row.row})
		if len(rows) == batchRows || size > batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
