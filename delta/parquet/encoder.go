package parquet

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// ErrValue is wrapped by errors about a cell that its column can't hold.
var ErrValue = errors.New("value does not fit its column")

// Column is a column of a file, written or asked for.
// Name is the physical name under column mapping. FieldID is 0 where there is
// none; one that is asked for is found by it alone.
type Column struct {
	Name    string
	Type    schema.Type
	FieldID int32
}

// ColumnOf gives the column of a data file that holds a column of a table.
func ColumnOf(f *schema.Field) Column {
	return Column{Name: f.Stored(), Type: f.Type, FieldID: f.FieldID}
}

// What a writer knows of its file: the statistics of the package that turns
// them into JSON.
type (
	FileStats   = stats.File
	ColumnStats = stats.Column
)

// EncoderOptions say how an Encoder writes. The zero value is right for data files.
type EncoderOptions struct {
	// Codec compresses the pages; default Zstd.
	Codec Codec
	// RowGroupRows cuts row groups, default 128 Ki. Row groups are also cut near
	// RowGroupBytes of values, default 128 MiB: a Stream holds one of them at a time.
	RowGroupRows  int
	RowGroupBytes int64
	// PageRows cuts pages, default 4096. They are also cut near 512 KiB of values.
	PageRows int
	// KeyValue is put into the footer.
	KeyValue map[string]string
	// StatsColumns names the columns that get a minimum and a maximum, in the
	// file and in FileStats; nil means all. NULLs are counted for every column.
	StatsColumns []string
	// DeltaColumns names columns of 64-bit integers that go up from row to row, more or
	// less: they take a byte or two a value as DELTA_BINARY_PACKED, which older readers
	// than the others' pages do not know. Other columns' names say nothing.
	DeltaColumns []string
	// TryDelta writes 64-bit integers and texts as DELTA_BINARY_PACKED and DELTA_BYTE_ARRAY
	// where the first page of a column that a dictionary does not pay for is a tenth smaller
	// so. Readers that know deletion vectors know both.
	TryDelta bool
	// Goroutines that encode columns of large batches; default 2, at most
	// GOMAXPROCS.
	Goroutines int
}

const (
	// blockRows rows are encoded column by column before the next ones, so
	// that their cells are read from cache.
	blockRows = 512
	// parallelCells is the batch from which a second goroutine pays.
	parallelCells = 20_000
	// columnsPerTask keeps neighbouring cells, which share cache lines, together.
	columnsPerTask = 4
	maxValueBytes  = 512 << 20
	// batchRows bounds the rows of a column that are encoded before a row group's size is
	// looked at again.
	batchRows = 8192
)

// Encoder makes Parquet files of rows. It is reused for many files and is not
// safe for concurrent use.
type Encoder struct {
	opts     EncoderOptions
	elements []format.SchemaElement
	columns  []*columnWriter // leaves
	nested   []*nestedWriter // the columns asked for, where one of them is no leaf; else nil
}

// NewEncoder makes an encoder of files with these columns in this order. The
// error names the column that has a type which is not written (void, variant and
// unknown), the name of another, or that StatsColumns names and is not there. Of structs
// there are statistics of their fields; arrays and maps have none.
func NewEncoder(columns []Column, opts EncoderOptions) (*Encoder, error) {
	if opts.RowGroupRows <= 0 {
		opts.RowGroupRows = 128 << 10
	}
	if opts.RowGroupBytes <= 0 {
		opts.RowGroupBytes = 128 << 20
	}
	if opts.PageRows <= 0 {
		opts.PageRows = pageRows
	}
	if opts.Goroutines <= 0 {
		opts.Goroutines = 2
	}
	e := &Encoder{opts: opts}
	e.elements = append(e.elements, format.SchemaElement{Name: "spark_schema", NumChildren: thrift.New(int32(len(columns)))})
	seen := map[string]bool{}
	for _, c := range columns {
		if c.Name == "" || seen[c.Name] {
			return nil, fmt.Errorf("parquet: column name %q is empty or not the only one", c.Name)
		}
		seen[c.Name] = true
		if !c.Type.IsLeaf() {
			return newNestedEncoder(e, columns)
		}
		element, err := elementOf(c.Name, c.Type, c.FieldID)
		if err != nil {
			return nil, err
		}
		e.elements = append(e.elements, element)
		want := opts.StatsColumns == nil || slices.Contains(opts.StatsColumns, c.Name)
		e.columns = append(e.columns, newColumnWriter(&element, c.Type, []string{c.Name}, 0, 1, opts, want))
	}
	for _, name := range opts.StatsColumns {
		if !seen[name] {
			return nil, fmt.Errorf("parquet: no column %q to keep statistics of", name)
		}
	}
	if len(columns) == 0 {
		return nil, errors.New("parquet: a file needs a column")
	}
	return e, nil
}

// Encode makes a file of rows; rows[i][c] is the cell of column c. A cell
// whose kind or size does not fit its column gives an error that wraps
// ErrValue and names column and row. The bytes, and the strings in the
// statistics, are the caller's; rows are not kept.
func (e *Encoder) Encode(rows [][]schema.Value) ([]byte, FileStats, error) {
	return e.EncodeWith(rows, e.opts.KeyValue)
}

// EncodeWith is Encode with other entries in the footer.
func (e *Encoder) EncodeWith(rows [][]schema.Value, keyValue map[string]string) ([]byte, FileStats, error) {
	defer e.reset() // lets go of the rows' strings
	s := e.Stream(nil)
	if err := s.AppendGroup(rows); err != nil {
		return nil, FileStats{}, err
	}
	st, err := s.Finish(keyValue)
	return s.f.buf, st, err
}

// reset forgets the file before.
func (e *Encoder) reset() {
	for _, w := range e.columns {
		w.startFile()
	}
}

// stats puts together what is known of the columns; of gives that of a leaf.
func (e *Encoder) stats(of func(*columnWriter) ColumnStats) []ColumnStats {
	list := make([]ColumnStats, e.width())
	for c := range list {
		if e.nested == nil {
			list[c] = of(e.columns[c])
		} else {
			list[c] = e.nested[c].stats(of)
		}
	}
	return list
}

func (w *columnWriter) stats() ColumnStats {
	s := ColumnStats{NullCount: w.fileNulls}
	if low, high, ok := w.fileBounds.values(w.typ); ok {
		low.S, high.S = strings.Clone(low.S), strings.Clone(high.S)
		s.Min, s.Max = low, high
	}
	return s
}

// groupRows sizes row groups by what a sample of the rows holds.
func (e *Encoder) groupRows(rows [][]schema.Value) int {
	const sample = 1000
	step := max(1, len(rows)/sample)
	size, n := 0, 0
	for i := 0; i < len(rows); i += step {
		size += 8 * len(rows[i])
		for _, v := range rows[i] {
			size += len(v.S)
		}
		n++
	}
	if n == 0 {
		return 1
	}
	return min(e.opts.RowGroupRows, max(1, int(e.opts.RowGroupBytes)/max(1, size/n)))
}

// plainBytes is about what a batch takes as it stands.
func (e *Encoder) plainBytes(batch [][]schema.Value) (n int64) {
	for _, column := range batch {
		n += 8 * int64(len(column))
		if len(column) == 0 || column[0].Kind == schema.Int || column[0].Kind == schema.Double {
			continue // the cells of such columns have no texts
		}
		for i := range column {
			n += int64(len(column[i].S))
		}
	}
	return n
}

// encodeGroup encodes the rows of one row group; base is the first one's
// number in the file.
func (e *Encoder) encodeGroup(rows [][]schema.Value, base int) error {
	if e.nested != nil {
		return e.encodeNested(rows, base)
	}
	tasks := (len(e.columns) + columnsPerTask - 1) / columnsPerTask
	if len(rows)*len(e.columns) < parallelCells {
		tasks = 1
	}
	return e.inParallel(tasks, func(task int) error {
		from, to := task*columnsPerTask, min((task+1)*columnsPerTask, len(e.columns))
		if tasks == 1 {
			to = len(e.columns)
		}
		return e.encodeColumns(rows, base, from, to)
	})
}

// inParallel does tasks by the Encoder's goroutines, until one fails.
func (e *Encoder) inParallel(tasks int, do func(task int) error) error {
	workers := min(e.opts.Goroutines, runtime.GOMAXPROCS(0), tasks)
	if workers < 2 {
		for task := range tasks {
			if err := do(task); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		wg.Go(func() {
			for errs[i] == nil {
				task := int(next.Add(1)) - 1
				if task >= tasks {
					return
				}
				errs[i] = do(task)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// encodeBatches is encodeGroup of batches of columns.
func (e *Encoder) encodeBatches(batches [][][]schema.Value, base int64) error {
	return e.inParallel(e.width(), func(c int) error {
		row := base
		for _, batch := range batches {
			i, err := e.addCells(c, batch[c])
			if err != nil {
				return fmt.Errorf("column %q row %d: %w", e.nameOf(c), row+int64(i), err)
			}
			row += int64(len(batch[c]))
		}
		for _, leaf := range e.leavesOf(c) {
			leaf.flushPage() // compresses here, not where all columns are put together
		}
		return nil
	})
}

// nameOf and leavesOf tell of a column asked for.
func (e *Encoder) nameOf(c int) string {
	if e.nested != nil {
		return e.nested[c].name
	}
	return e.columns[c].path[0]
}

func (e *Encoder) leavesOf(c int) []*columnWriter {
	if e.nested != nil {
		return e.nested[c].leaves(nil)
	}
	return e.columns[c : c+1]
}

// addCells adds cells to a column; on error it names the one.
func (e *Encoder) addCells(c int, cells []schema.Value) (int, error) {
	if e.nested == nil {
		return e.columns[c].addCells(cells)
	}
	w, leaves := e.nested[c], e.leavesOf(c)
	if w.leaf != nil {
		return w.leaf.addCells(cells)
	}
	for i := range cells {
		if err := w.write(cells[i], levels{}); err != nil {
			return i, err
		}
		for _, leaf := range leaves {
			leaf.endRow()
		}
	}
	return 0, nil
}

func (e *Encoder) encodeColumns(rows [][]schema.Value, base, from, to int) error {
	if err := e.addColumns(rows, base, from, to); err != nil {
		return err
	}
	for c := from; c < to; c++ {
		e.columns[c].flushPage() // compresses here, not where all columns are put together
	}
	return nil
}

// addColumns adds rows to some columns. Their last pages stay open.
func (e *Encoder) addColumns(rows [][]schema.Value, base, from, to int) error {
	for at := 0; at < len(rows); at += blockRows {
		block := rows[at:min(at+blockRows, len(rows))]
		for c := from; c < to; c++ {
			if i, err := e.columns[c].addRows(block, c); err != nil {
				return fmt.Errorf("column %q row %d: %w", e.columns[c].path[0], base+at+i, err)
			}
		}
	}
	return nil
}

// addRows adds a column's cells of some rows; on error it names the row.
func (w *columnWriter) addRows(rows [][]schema.Value, c int) (int, error) {
	a := w.adder()
	for i, row := range rows {
		if err := a.add(&row[c]); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// addCells adds cells; on error it names the one.
func (w *columnWriter) addCells(cells []schema.Value) (int, error) {
	a := w.adder()
	for i := range cells {
		if err := a.add(&cells[i]); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// adder adds cells to a leaf that is no part of a column.
type adder struct {
	w         *columnWriter
	kind      schema.Kind
	low, high int64
}

func (w *columnWriter) adder() adder {
	a := adder{w: w, kind: schema.KindOf(w.typ)}
	a.low, a.high = intRange(w.typ)
	return a
}

// add adds a cell. The error wraps ErrValue.
func (a *adder) add(v *schema.Value) error {
	w := a.w
	switch {
	case v.Kind == schema.Null:
		w.null(0)
	case v.Kind != a.kind:
		return fmt.Errorf("%w: a %s in a column of type %s", ErrValue, kindName(v.Kind), w.typ)
	case a.kind == schema.Int:
		if v.I < a.low || v.I > a.high {
			return fmt.Errorf("%w: %d in a column of type %s", ErrValue, v.I, w.typ)
		}
		w.int(v.I, v.I)
	case a.kind == schema.String || a.kind == schema.Binary:
		if err := w.text(v.S, a.kind == schema.String); err != nil {
			return err
		}
	default:
		if a.kind == schema.Dec && !fitsDecimal(*v, w.typ.Precision) {
			return fmt.Errorf("%w: %s in a column of type %s", ErrValue, v.DecimalText(w.typ.Scale), w.typ)
		}
		w.put(*v)
	}
	w.endRow()
	return nil
}
