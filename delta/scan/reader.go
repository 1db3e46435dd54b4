package scan

import (
	"context"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// Reader reads single data files of a version as columns of the caller's choice, which
// need not be those of the version: it compares versions with different columns, and
// reads columns of data files that are in no schema. It may be used from many
// goroutines.
type Reader struct{ scan *Scan }

// NewReader makes a Reader of files that snapshot, or one with the same partition
// columns, refers to. A field is found in files, and among partition columns, by what it
// is Stored as; where it is not, it is NULL. where takes the rows for which it is true
// and must fit the fields; nil takes all. The error wraps ErrColumn or schema.ErrSchema.
func NewReader(store objstore.Store, snapshot *delta.Snapshot, fields []schema.Field, where *expr.Predicate) (*Reader, error) {
	s, err := schema.New(fields...)
	if err != nil {
		return nil, err
	}
	r := &Reader{&Scan{store: store, snapshot: snapshot, options: Options{Where: where}.withDefaults(), schema: s}}
	return r, r.scan.planColumns()
}

// NewWithHidden is New with columns of data files behind those asked for that are not in
// the schema; they are NULL in files without them.
func NewWithHidden(store objstore.Store, snapshot *delta.Snapshot, hidden []schema.Field, options Options) (*Scan, error) {
	extended, err := schema.New(slices.Concat(snapshot.Schema().Fields, hidden)...)
	if err != nil {
		return nil, err
	}
	if options.Columns == nil {
		options.Columns = snapshot.Schema().Names()
	}
	options.Columns = slices.Clone(options.Columns)
	for _, f := range hidden {
		options.Columns = append(options.Columns, f.Name)
	}
	s := &Scan{store: store, snapshot: snapshot, options: options.withDefaults(), schema: extended}
	if err := s.planColumns(); err != nil {
		return nil, err
	}
	return s, s.planFiles()
}

// CanSkip tells, by partition values and statistics, that no row of a file passes the
// filter.
func (r *Reader) CanSkip(add *action.Add) (bool, error) {
	if r.scan.options.Where == nil {
		return false, nil
	}
	return r.scan.canSkip(add)
}

// Find gives the places of the live rows of a file that pass the filter. Errors are Read's.
func (r *Reader) Find(ctx context.Context, add *action.Add) (*dv.Bitmap, error) {
	places := dv.New()
	return places, r.scan.readFile(ctx, add, func(s *selection) error {
		for _, row := range s.kept {
			places.Add(uint32(s.first + int64(row)))
		}
		return nil
	})
}

// Read hands rows of a file to emit, in batches that belong to it, in the order of the
// file: the rows at the places of a bitmap, whether or not they are deleted; nil stands
// for all that the file's deletion vector leaves. Few rows of many cost the pages that
// they are in. The error names the file, wraps ErrFileMissing or ErrFileMismatch where
// it is not as the log says, or is emit's.
func (r *Reader) Read(ctx context.Context, add *action.Add, rows *dv.Bitmap, emit func(*Batch) error) error {
	out := func(s *selection) error {
		for len(s.kept) > 0 {
			if err := emit(r.scan.copyOut(s)); err != nil {
				return err
			}
		}
		return nil
	}
	if rows == nil {
		return r.scan.readFile(ctx, add, out)
	}
	if rows.IsEmpty() {
		return nil
	}
	if r.picks(add, rows) {
		return r.pick(ctx, add, rows, emit)
	}
	return r.scan.readRows(ctx, add, rows.Contains, out)
}

// pickShare is the share of a file's rows, one in so many, below which they are read one
// by one rather than with all between them.
const pickShare = 4

func (r *Reader) picks(add *action.Add, rows *dv.Bitmap) bool {
	if last, _ := rows.Max(); rows.Cardinality() > int64(last)/pickShare {
		return false
	}
	return len(r.scan.data) > 0 && !slices.ContainsFunc(r.scan.data, func(c int) bool { return !r.scan.schema.Fields[c].Type.IsLeaf() })
}

// pickedAtOnce bounds the rows that pick has in memory.
const pickedAtOnce = 16 << 10

// pick reads rows of a file by their places.
func (r *Reader) pick(ctx context.Context, add *action.Add, rows *dv.Bitmap, emit func(*Batch) error) error {
	s := r.scan
	file, err := OpenFile(ctx, s.store, add)
	if err != nil {
		return err
	}
	columns := make([]parquet.Column, len(s.data))
	for i, c := range s.data {
		columns[i] = parquet.ColumnOf(&s.schema.Fields[c])
	}
	partitions := make(map[int]schema.Value, len(s.partitions))
	for _, c := range s.partitions {
		if partitions[c], err = PartitionValue(add, s.schema.Fields[c]); err != nil {
			return err
		}
	}
	wide := make([][]schema.Value, len(s.schema.Fields))
	filter := func(sel []int32) []int32 { return sel }
	if s.options.Where != nil {
		evaluator := s.options.Where.NewEvaluator()
		filter = func(sel []int32) []int32 { return evaluator.Select(wide, sel) }
	}
	flush := func(places []int64) error {
		cells, err := file.Rows(ctx, columns, places)
		if err != nil {
			return FileError(add, err)
		}
		for i, c := range s.data {
			wide[c] = make([]schema.Value, len(cells))
			for n, row := range cells {
				wide[c][n] = row[i]
			}
		}
		for c, v := range partitions {
			wide[c] = slices.Repeat([]schema.Value{v}, len(cells))
		}
		kept := make([]int32, len(cells))
		for i := range kept {
			kept[i] = int32(i)
		}
		kept = filter(kept)
		if len(kept) == 0 {
			return nil
		}
		b := &Batch{Rows: len(kept), Columns: make([][]schema.Value, len(s.output))}
		for i, c := range s.output {
			b.Columns[i] = wide[c] // its own, as are the texts in it
			if len(kept) < len(cells) {
				b.Columns[i] = make([]schema.Value, len(kept))
				for n, row := range kept {
					b.Columns[i][n] = wide[c][row]
				}
			}
		}
		return emit(b)
	}
	var places []int64
	group, end := 0, int64(0) // a batch stays in its row group, whose columns are read for it
	for row := range rows.Rows() {
		place := int64(row)
		if place >= file.NumRows() {
			break // a vector may go on behind the end of the file
		}
		if place >= end || len(places) == pickedAtOnce {
			if len(places) > 0 {
				if err := flush(places); err != nil {
					return err
				}
				places = places[:0]
			}
			for place >= end {
				end += file.RowGroupRows(group)
				group++
			}
		}
		places = append(places, place)
	}
	if len(places) == 0 {
		return nil
	}
	return flush(places)
}

// Sorter sorts rows of cells of any number: what does not fit into its memory goes to
// temporary files. It is not safe for concurrent use.
type Sorter struct {
	sorter *sorter
	added  int64
}

// NewSorter makes a Sorter of rows of so many cells. compare orders rows; of those that it
// does not tell apart the one that was added first comes first. memory bounds the rows
// held, in bytes (0: 256 MiB); dir is where more go ("": the system's folder).
func NewSorter(width int, compare func(a, b []schema.Value) int, memory int64, dir string) *Sorter {
	if memory <= 0 {
		memory = defaultMemoryLimit
	}
	return &Sorter{sorter: newSorter(width, func(a, b sortRow) int {
		if order := compare(a.cells, b.cells); order != 0 {
			return order
		}
		return a.place.compare(b.place)
	}, memory, dir)}
}

// Add takes a copy of a row.
func (s *Sorter) Add(cells []schema.Value) error {
	if len(cells) != s.sorter.width {
		return fmt.Errorf("sort: a row of %d cells among rows of %d", len(cells), s.sorter.width)
	}
	s.added++
	return s.sorter.add(sortRow{place{0, s.added}, cells})
}

// Sorted gives all rows in order, once. They are the caller's.
func (s *Sorter) Sorted(yield func([]schema.Value, error) bool) {
	for row, err := range s.sorter.sorted() {
		if !yield(row.cells, err) || err != nil {
			return
		}
	}
}

// Close removes the temporary files.
func (s *Sorter) Close() error { return s.sorter.close() }
