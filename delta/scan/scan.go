package scan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
)

// Options says which rows and columns of a version are read. The zero Options
// reads them all.
type Options struct {
	// Where takes the rows for which it is true; nil takes all. It must be made
	// for the schema of the snapshot, or fit it.
	Where *expr.Predicate
	// Columns are the names of the columns to give, in that order, upper and
	// lower case being one; nil gives all in schema order. A name that no column has is the
	// path of a field inside of structs (address.city, see schema.ParsePath): of the column
	// only what is asked for is read.
	Columns []string
	// OrderBy sorts the rows; rows that it does not tell apart keep the table's order.
	OrderBy []expr.Order
	// Limit is the number of rows to give at most; 0 gives all.
	Limit int64
	// Parallelism is how many files are read at once; 0: the number of
	// processors, at most 8.
	Parallelism int
	// MemoryLimit bounds the rows that a sort holds, in bytes; more go to
	// TempDir. 0: 256 MiB.
	MemoryLimit int64
	// TempDir is where a sort writes; "": that of the system.
	TempDir string
}

// defaultMemoryLimit is Options.MemoryLimit where it is 0.
const defaultMemoryLimit = 256 << 20

func (o Options) withDefaults() Options {
	if o.Parallelism <= 0 {
		o.Parallelism = min(runtime.GOMAXPROCS(0), 8)
	}
	if o.MemoryLimit <= 0 {
		o.MemoryLimit = defaultMemoryLimit
	}
	return o
}

// Batch is some rows: Columns[i][r] is the cell of the i-th column asked for in
// row r. It belongs to whoever receives it.
type Batch struct {
	Rows    int
	Columns [][]schema.Value
}

// Scan reads the rows of one version. It may be used any number of times, also
// at once.
type Scan struct {
	store    objstore.Store
	snapshot *delta.Snapshot
	options  Options
	schema   *schema.Schema

	output     []int          // places in the schema of the columns to give; behind them those of inside
	inside     []expr.Column  // fields inside of structs to give
	fields     []schema.Field // those of data, as far as they are read
	data       []int          // those to read from files
	partitions []int          // those to take from the log
	texts      []int          // those of output whose cells have texts of any length
	filtered   *schema.Schema // the columns that the filter looks at; nil without one
	files      []*action.Add  // that may have matching rows
}

// New plans to read a snapshot of the table in store. It reads nothing but
// the log's statistics. An error about a column wraps ErrColumn.
func New(store objstore.Store, snapshot *delta.Snapshot, options Options) (*Scan, error) {
	s := &Scan{store: store, snapshot: snapshot, options: options.withDefaults(), schema: snapshot.Schema()}
	if err := s.planColumns(); err != nil {
		return nil, err
	}
	return s, s.planFiles()
}

// Columns gives the columns that the rows have.
func (s *Scan) Columns() []schema.Field {
	fields := make([]schema.Field, len(s.output))
	for i, c := range s.output {
		fields[i] = s.field(c)
	}
	return fields
}

// Snapshot is the version that is read.
func (s *Scan) Snapshot() *delta.Snapshot { return s.snapshot }

// Files gives the files that will be read, in the order of Snapshot.Files; the
// others can't have a matching row.
func (s *Scan) Files() []*action.Add { return s.files }

// planColumns finds what to give and what to read for it.
func (s *Scan) planColumns() error {
	if s.options.Columns == nil {
		for i := range s.schema.Fields {
			s.output = append(s.output, i)
		}
	}
	for _, name := range s.options.Columns {
		c, err := s.find(name)
		if err != nil {
			return err
		}
		s.give(c)
	}
	for _, i := range s.output {
		switch schema.KindOf(s.field(i).Type) {
		case schema.String, schema.Binary, schema.Compound:
			s.texts = append(s.texts, i)
		}
	}
	if w := s.options.Where; w != nil && !w.Fits(s.schema) {
		return fmt.Errorf("%w: the filter was made for another schema than that of version %d", ErrColumn, s.snapshot.Version())
	}
	var needed []int
	for _, i := range s.output {
		if i < len(s.schema.Fields) {
			needed = append(needed, i)
		}
	}
	for _, c := range s.inside {
		needed = append(needed, c.Place)
	}
	if w := s.options.Where; w != nil {
		needed = append(needed, w.Columns()...)
		fields := make([]schema.Field, 0, len(w.Columns()))
		for _, c := range w.Columns() {
			fields = append(fields, s.schema.Fields[c])
		}
		var err error
		if s.filtered, err = schema.New(fields...); err != nil {
			return err
		}
	}
	for _, by := range s.options.OrderBy {
		if by.Column < 0 || by.Column >= len(s.schema.Fields) {
			return fmt.Errorf("%w: the order names column %d of %d", ErrColumn, by.Column, len(s.schema.Fields))
		}
		needed = append(needed, by.Column)
	}
	partitions := storedPartitions(s.snapshot)
	slices.Sort(needed)
	for _, i := range slices.Compact(needed) {
		if slices.Contains(partitions, s.schema.Fields[i].Stored()) {
			s.partitions = append(s.partitions, i)
		} else {
			s.data = append(s.data, i)
		}
	}
	s.planFields()
	return nil
}

// storedPartitions gives what the partition columns of a version are stored as.
func storedPartitions(snapshot *delta.Snapshot) []string {
	var names []string
	for _, name := range snapshot.Metadata().PartitionColumns {
		if i := snapshot.Schema().IndexFold(name); i >= 0 {
			names = append(names, snapshot.Schema().Fields[i].Stored())
		}
	}
	return names
}

// Rows gives the rows one by one; see Batches. A row is valid until the next one.
func (s *Scan) Rows(ctx context.Context) iter.Seq2[[]schema.Value, error] {
	return func(yield func([]schema.Value, error) bool) {
		row := make([]schema.Value, len(s.output))
		for batch, err := range s.Batches(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			for r := range batch.Rows {
				for c := range row {
					row[c] = batch.Columns[c][r]
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// Batches gives the rows by batches that are not empty. An error, also that of
// ctx, comes last: what came before it is not the whole. It wraps ErrFileMissing
// or ErrFileMismatch where a file is not as the log says. Leaving early stops
// all reading before the loop goes on.
func (s *Scan) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	if len(s.options.OrderBy) > 0 {
		return s.sortedBatches(ctx)
	}
	return s.plainBatches(ctx)
}

// plainBatches gives the rows in the table's order.
func (s *Scan) plainBatches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		left := s.options.Limit
		stopped := false
		err := inOrder(ctx, len(s.files), s.options.Parallelism,
			func(ctx context.Context, i int, send func(*Batch) error) error {
				left := s.options.Limit
				return s.scanFile(ctx, i, func(rows *selection) error {
					if s.options.Limit > 0 && left < int64(len(rows.kept)) {
						rows.kept = rows.kept[:left]
					}
					left -= int64(len(rows.kept))
					for len(rows.kept) > 0 {
						if err := send(s.copyOut(rows)); err != nil {
							return err
						}
					}
					if s.options.Limit > 0 && left == 0 {
						return errEnough
					}
					return nil
				})
			},
			func(b *Batch) bool {
				if s.options.Limit > 0 && int64(b.Rows) > left {
					b.cut(int(left))
				}
				left -= int64(b.Rows)
				stopped = !yield(b, nil)
				return !stopped && (s.options.Limit <= 0 || left > 0)
			})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// errEnough ends the scan of a file early.
var errEnough = errors.New("enough rows")

func (b *Batch) cut(n int) {
	b.Rows = n
	for i := range b.Columns {
		b.Columns[i] = b.Columns[i][:n]
	}
}

// batchBytes is how many bytes of texts a batch has before it is cut.
const batchBytes = 4 << 20

// copyOut takes selected rows off the front as a batch that owns all it holds:
// all of them, unless their texts are long.
func (s *Scan) copyOut(rows *selection) *Batch {
	n, size := 0, 0
	for ; n < len(rows.kept) && size < batchBytes; n++ {
		for _, c := range s.texts {
			size += len(rows.columns[c][rows.kept[n]].S)
		}
	}
	b := &Batch{Rows: n, Columns: make([][]schema.Value, len(s.output))}
	cells := make([]schema.Value, n*len(s.output))
	var texts schema.Texts
	for i, c := range s.output {
		out := cells[i*n : (i+1)*n : (i+1)*n]
		in := rows.columns[c]
		for r, row := range rows.kept[:n] {
			out[r] = texts.KeepCell(in[row])
		}
		b.Columns[i] = out
	}
	rows.kept = rows.kept[n:]
	return b
}

// sortedBatches gives the rows by OrderBy.
func (s *Scan) sortedBatches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		sink := s.newSortSink()
		defer sink.close()
		err := objstore.InParallel(ctx, len(s.files), s.options.Parallelism, func(ctx context.Context, i int) error {
			return s.scanFile(ctx, i, func(rows *selection) error { return sink.add(i, rows) })
		})
		if err != nil {
			yield(nil, err)
			return
		}
		left := s.options.Limit
		b := &Batch{Columns: make([][]schema.Value, len(s.output))}
		for row, err := range sink.sorted() {
			if err == nil && b.Rows%1024 == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range s.output {
				b.Columns[i] = append(b.Columns[i], row.cells[i])
			}
			b.Rows++
			if left--; left == 0 {
				break
			}
			if b.Rows == 1024 {
				if !yield(b, nil) {
					return
				}
				b = &Batch{Columns: make([][]schema.Value, len(s.output))}
			}
		}
		if b.Rows > 0 {
			yield(b, nil)
		}
	}
}

// sortSink takes selected rows from many goroutines and sorts them: the first
// rows only, in a heap, while there is a limit and they fit; else all.
type sortSink struct {
	layout []int // places in the schema of the cells of a sortRow: output, then what else OrderBy needs
	limit  int64

	mu     sync.Mutex
	top    *topRows
	sorter *sorter
	row    []schema.Value
}

func (s *Scan) newSortSink() *sortSink {
	sink := &sortSink{layout: slices.Clone(s.output), limit: s.options.MemoryLimit}
	order := make(rowOrder, len(s.options.OrderBy))
	for i, by := range s.options.OrderBy {
		at := slices.Index(sink.layout, by.Column)
		if at < 0 {
			at = len(sink.layout)
			sink.layout = append(sink.layout, by.Column)
		}
		order[i] = expr.Order{Column: at, Desc: by.Desc}
	}
	sink.row = make([]schema.Value, len(sink.layout))
	sink.sorter = newSorter(len(sink.layout), order.compare, s.options.MemoryLimit, s.options.TempDir)
	if n := s.options.Limit; n > 0 && n < 1<<31 {
		sink.top = &topRows{order: order, n: int(n)}
	}
	return sink
}

func (k *sortSink) add(file int, rows *selection) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range rows.kept {
		for i, c := range k.layout {
			k.row[i] = rows.columns[c][r]
		}
		row := sortRow{place{file, rows.first + int64(r)}, k.row}
		if k.top == nil {
			if err := k.sorter.add(row); err != nil {
				return err
			}
			continue
		}
		k.top.add(row)
		if k.top.bytes > k.limit {
			// What the heap let go of has at least Limit rows before it, so the rest is enough.
			for _, row := range k.top.rows {
				if err := k.sorter.add(row); err != nil {
					return err
				}
			}
			k.top = nil
		}
	}
	return nil
}

func (k *sortSink) sorted() iter.Seq2[sortRow, error] {
	if k.top == nil {
		return k.sorter.sorted()
	}
	slices.SortFunc(k.top.rows, k.top.order.compare)
	return func(yield func(sortRow, error) bool) {
		for _, row := range k.top.rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (k *sortSink) close() { _ = k.sorter.close() } // temporary files; the rows are out
