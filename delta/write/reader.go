package write

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// reader reads the files of a version for an operation that changes it.
type reader struct {
	store    objstore.Store
	snapshot *delta.Snapshot
	layout   *layout
	parallel int
}

// block is some rows of a file: columns by place in the schema, nil where not asked for.
type block struct {
	first   int64
	rows    int
	columns [][]schema.Value
	extra   [][]schema.Value // columns beside the schema, as asked for
}

// row gives the cells of one row; they share memory with the block.
func (b *block) row(i int, into []schema.Value) []schema.Value {
	for c := range into {
		if b.columns[c] != nil {
			into[c] = b.columns[c][i]
		} else {
			into[c] = schema.Value{}
		}
	}
	return into
}

// batchRows is how many rows of a file are decoded at once.
const batchRows = 4096

// open opens a data file.
func (r *reader) open(ctx context.Context, add *action.Add) (*parquet.File, error) {
	f, err := scan.OpenFile(ctx, r.store, add)
	if err == nil && f.NumRows() > 1<<32-1 {
		return nil, fmt.Errorf("%w: %s has %d rows, more than a deletion vector reaches", scan.ErrFileMismatch, add.Path, f.NumRows())
	}
	return f, err
}

// scan hands the rows of columns of a file to each, block by block, partition values
// filled in. skip leaves out row groups; nil none.
func (r *reader) scan(ctx context.Context, add *action.Add, f *parquet.File, columns []int, skip func(from, to int64, group int) bool, each func(*block) error) error {
	return r.scanWith(ctx, add, f, columns, nil, skip, each)
}

// scanWith is scan with columns of the file that are not in the schema.
func (r *reader) scanWith(ctx context.Context, add *action.Add, f *parquet.File, columns []int, extra []parquet.Column, skip func(from, to int64, group int) bool, each func(*block) error) error {
	b := &block{columns: make([][]schema.Value, len(r.layout.schema.Fields))}
	var data []int
	var physical []parquet.Column
	for _, c := range columns {
		if !slices.Contains(r.layout.partitions, c) {
			data = append(data, c)
			physical = append(physical, parquet.ColumnOf(&r.layout.schema.Fields[c]))
			continue
		}
		v, err := r.partition(add, c)
		if err != nil {
			return err
		}
		b.columns[c] = slices.Repeat([]schema.Value{v}, batchRows)
	}
	physical = append(physical, extra...)
	if len(physical) == 0 {
		for ; b.first < f.NumRows(); b.first += batchRows {
			b.rows = int(min(batchRows, f.NumRows()-b.first))
			if err := errors.Join(ctx.Err(), each(b)); err != nil {
				return err
			}
		}
		return nil
	}
	options := parquet.ScanOptions{BatchRows: batchRows}
	if size, rows := add.Size, f.NumRows(); rows > 0 && size/rows > 512 { // long rows: a few megabytes of the file at once
		options.BatchRows = int(max(16, min(batchRows, 2<<20*rows/size)))
	}
	if skip != nil {
		starts := make([]int64, f.NumRowGroups()+1)
		for g := range f.NumRowGroups() {
			starts[g+1] = starts[g] + f.RowGroupRows(g)
		}
		options.SkipRowGroup = func(g int) bool { return skip(starts[g], starts[g+1], g) }
	}
	for batch, err := range f.Scan(ctx, physical, options) {
		if err != nil {
			return scan.FileError(add, err)
		}
		b.first, b.rows = batch.FirstRow, batch.Rows
		for i, c := range data {
			b.columns[c] = batch.Columns[i]
		}
		b.extra = batch.Columns[len(data):]
		if err := each(b); err != nil {
			return err
		}
	}
	return nil
}

// partition gives the value that every row of a file has in a partition column.
func (r *reader) partition(add *action.Add, column int) (schema.Value, error) {
	return scan.PartitionValue(add, r.layout.schema.Fields[column])
}

// bounds gives what is known of some columns in a file, before it is read.
func (r *reader) bounds(columns []int) func(*action.Add) func(expr.Column) expr.Bounds {
	var fields []schema.Field
	for _, c := range columns {
		fields = append(fields, r.layout.schema.Fields[c])
	}
	asked, err := schema.New(fields...)
	if err != nil {
		asked = new(schema.Schema) // can't be: they are columns of a schema
	}
	return func(add *action.Add) func(expr.Column) expr.Bounds {
		known, err := stats.Parse(add.Stats, asked)
		if err != nil {
			known = &stats.FileStatistics{NumRecords: -1}
		}
		return func(c expr.Column) expr.Bounds {
			if slices.Contains(r.layout.partitions, c.Place) {
				if v, err := r.partition(add, c.Place); err == nil {
					return expr.Value(v)
				}
				return expr.Bounds{} // whoever reads it gets the error
			}
			return boundsOf(known.Bounds(c.Names(r.layout.schema)...), known.NumRecords)
		}
	}
}

func boundsOf(b stats.Bounds, rows int64) expr.Bounds {
	return expr.Bounds{Min: b.Min, Max: b.Max, NoNulls: b.NullCount == 0, AllNulls: b.NullCount >= 0 && b.NullCount == rows}
}

// groupBounds gives the same of a row group.
func (r *reader) groupBounds(add *action.Add, f *parquet.File, group int) func(expr.Column) expr.Bounds {
	return func(c expr.Column) expr.Bounds {
		if slices.Contains(r.layout.partitions, c.Place) {
			if v, err := r.partition(add, c.Place); err == nil {
				return expr.Value(v)
			}
			return expr.Bounds{}
		}
		return scan.GroupBounds(f, group, c.Path(r.layout.schema))
	}
}

// touched is a file with the rows of it that an operation ends.
type touched struct {
	add  *action.Add
	dead *dv.Bitmap // rows that were dead before, nil for none
	rows *dv.Bitmap // rows that end; nil: every row that lives
	all  int64      // physical rows, -1 where not known
	done bool       // what becomes of the rows is written
	// updated are those of rows in whose place new ones come, which are written apart;
	// nil: none.
	updated *dv.Bitmap
}

// whole reports whether no row of the file is left.
func (t *touched) whole() bool {
	if t.rows == nil {
		return true
	}
	dead := int64(0)
	if t.dead != nil {
		dead = t.dead.Cardinality()
	}
	return dead+t.rows.Cardinality() >= t.all
}

func (t *touched) countUpdated() int64 {
	if t.updated == nil {
		return 0
	}
	return t.updated.Cardinality()
}

// live counts the rows that the file had; known is false where the log does not tell.
func (t *touched) live() (n int64, known bool) {
	if n = t.all; n < 0 {
		if n, known = stats.NumRecords(t.add.Stats); !known {
			return 0, false
		}
	}
	if t.add.DeletionVector != nil {
		n -= t.add.DeletionVector.Cardinality
	}
	return n, true
}

// matching finds the live rows for which a filter is true. Files of which partition
// values alone tell are not opened. read gives the files that were looked into.
func (r *reader) matching(ctx context.Context, where *expr.Predicate) (found []*touched, read []action.FileKey, err error) {
	var candidates []*action.Add
	bounds := r.bounds(where.Columns())
	for _, add := range r.snapshot.Files() {
		if !where.CanSkip(bounds(add)) {
			candidates = append(candidates, add)
			read = append(read, add.Key())
		}
	}
	byPartition := !slices.ContainsFunc(where.Columns(), func(c int) bool { return !slices.Contains(r.layout.partitions, c) })
	results := make([]*touched, len(candidates))
	err = objstore.InParallel(ctx, len(candidates), r.parallel, func(ctx context.Context, i int) error {
		add := candidates[i]
		evaluator := where.NewEvaluator()
		if byPartition {
			columns := make([][]schema.Value, len(r.layout.schema.Fields))
			for _, c := range where.Columns() {
				v, err := r.partition(add, c)
				if err != nil {
					return err
				}
				columns[c] = []schema.Value{v}
			}
			if len(evaluator.Select(columns, []int32{0})) == 1 {
				results[i] = &touched{add: add, all: -1}
			}
			return nil
		}
		var err error
		results[i], err = r.touch(ctx, add, where.Columns(), func(f *parquet.File, group int) bool {
			return where.CanSkip(r.groupBounds(add, f, group))
		}, func(b *block, sel []int32) []int32 { return evaluator.Select(b.columns, sel) })
		return err
	})
	return slices.DeleteFunc(results, func(t *touched) bool { return t == nil }), read, err
}

// touch finds the rows of a file that take keeps of those that live; nil where it keeps
// none.
func (r *reader) touch(ctx context.Context, add *action.Add, columns []int, skip func(f *parquet.File, group int) bool, take func(*block, []int32) []int32) (*touched, error) {
	dead, err := delta.ReadDeletionVector(ctx, r.store, add)
	if err != nil {
		return nil, scan.FileError(add, err)
	}
	f, err := r.open(ctx, add)
	if err != nil {
		return nil, err
	}
	t := &touched{add: add, dead: dead, rows: dv.New(), all: f.NumRows()}
	sel := make([]int32, 0, batchRows)
	var rows []uint32
	err = r.scan(ctx, add, f, columns, func(_, _ int64, group int) bool { return skip(f, group) }, func(b *block) error {
		sel, rows = sel[:0], rows[:0]
		for i := range int32(b.rows) {
			if dead == nil || !dead.Contains(uint32(b.first+int64(i))) {
				sel = append(sel, i)
			}
		}
		for _, i := range take(b, sel) {
			rows = append(rows, uint32(b.first+int64(i)))
		}
		t.rows.AddMany(rows)
		return nil
	})
	if err != nil || t.rows.IsEmpty() {
		return nil, err
	}
	return t, nil
}
