package scan

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

// place is where a row stands in the table: rows that --order-by does not tell
// apart come out in this order, so that two runs print the same.
type place struct {
	file int
	row  int64
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.file, q.file), cmp.Compare(p.row, q.row))
}

// sortRow is a row on its way through a sort.
type sortRow struct {
	place place
	cells []schema.Value
}

// rowOrder compares rows; Column of each Order is a place in sortRow.cells.
type rowOrder []expr.Order

func (o rowOrder) compare(a, b sortRow) int {
	for _, by := range o {
		if order := by.Compare(a.cells[by.Column], b.cells[by.Column]); order != 0 {
			return order
		}
	}
	return a.place.compare(b.place)
}

// rowOverhead is what a row costs in memory beside its texts, without its cells.
const rowOverhead = 64

func memoryOf(cells []schema.Value) int64 {
	n := int64(rowOverhead + 32*len(cells))
	for i := range cells {
		n += int64(len(cells[i].S))
	}
	return n
}

// topRows keeps the first n rows by an order in a heap, the last of them on top.
type topRows struct {
	order rowOrder
	n     int
	rows  []sortRow
	bytes int64
}

func (t *topRows) Len() int           { return len(t.rows) }
func (t *topRows) Less(i, j int) bool { return t.order.compare(t.rows[i], t.rows[j]) > 0 }
func (t *topRows) Swap(i, j int)      { t.rows[i], t.rows[j] = t.rows[j], t.rows[i] }
func (t *topRows) Push(x any)         { t.rows = append(t.rows, x.(sortRow)) }
func (t *topRows) Pop() any {
	last := t.rows[len(t.rows)-1]
	t.rows = t.rows[:len(t.rows)-1]
	return last
}

// add takes a row, which it copies where it keeps it.
func (t *topRows) add(row sortRow) {
	if len(t.rows) < t.n {
		t.bytes += memoryOf(row.cells)
		heap.Push(t, sortRow{row.place, cloneCells(row.cells)})
		return
	}
	if t.n == 0 || t.order.compare(row, t.rows[0]) > 0 {
		return
	}
	t.bytes += memoryOf(row.cells) - memoryOf(t.rows[0].cells)
	t.rows[0] = sortRow{row.place, cloneCells(row.cells)}
	heap.Fix(t, 0)
}

func cloneCells(cells []schema.Value) []schema.Value {
	out := slices.Clone(cells)
	for i := range out {
		out[i].S = strings.Clone(out[i].S)
	}
	return out
}

// sorter sorts rows of any number: what does not fit into its memory goes to
// temporary files as sorted runs, which are merged at the end.
type sorter struct {
	order func(a, b sortRow) int
	width int   // cells a row
	limit int64 // bytes

	rows  []sortRow
	bytes int64
	slab  []schema.Value
	texts schema.Texts

	dir    spill.Dir
	levels [][]*run // runs by how often their rows were merged
}

func newSorter(width int, order func(a, b sortRow) int, limit int64, dir string) *sorter {
	return &sorter{order: order, width: width, limit: limit, dir: spill.Dir{Parent: dir}}
}

// fanIn is how many runs are merged at once: as many files are open a level.
const fanIn = 16

// add takes a copy of a row.
func (s *sorter) add(row sortRow) error {
	if len(s.slab) < s.width {
		s.slab = make([]schema.Value, max(1024*s.width, 1))
	}
	cells := s.slab[:s.width:s.width]
	s.slab = s.slab[s.width:]
	for i := range cells {
		cells[i] = s.texts.KeepCell(row.cells[i])
	}
	s.rows = append(s.rows, sortRow{row.place, cells})
	if s.bytes += memoryOf(cells); s.bytes < s.limit {
		return nil
	}
	return s.spill()
}

// spill writes the rows in memory to a run.
func (s *sorter) spill() error {
	slices.SortFunc(s.rows, s.order)
	out, err := s.newRun()
	if err != nil {
		return err
	}
	for i := 0; i < len(s.rows) && err == nil; i++ {
		err = out.write(s.rows[i])
	}
	if err == nil {
		err = out.rewind()
	}
	if err != nil {
		out.close()
		return err
	}
	s.rows, s.bytes, s.slab, s.texts = nil, 0, nil, schema.Texts{}
	return s.push(out, 0)
}

// push puts a run on a level; a full level becomes one run of the next.
func (s *sorter) push(r *run, level int) error {
	if level == len(s.levels) {
		s.levels = append(s.levels, nil)
	}
	s.levels[level] = append(s.levels[level], r)
	if len(s.levels[level]) < fanIn {
		return nil
	}
	merged, err := s.mergeRuns(s.levels[level])
	if err != nil {
		return err
	}
	for _, r := range s.levels[level] {
		r.close()
	}
	s.levels[level] = nil
	return s.push(merged, level+1)
}

func (s *sorter) mergeRuns(runs []*run) (*run, error) {
	sources := make([]source, len(runs))
	for i, r := range runs {
		sources[i] = r
	}
	out, err := s.newRun()
	if err != nil {
		return nil, err
	}
	for row, err := range merge(s.order, sources) {
		if err == nil {
			err = out.write(row)
		}
		if err != nil {
			out.close()
			return nil, err
		}
	}
	if err := out.rewind(); err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

// sorted gives all rows in order, once.
func (s *sorter) sorted() iter.Seq2[sortRow, error] {
	slices.SortFunc(s.rows, s.order)
	sources := []source{&memoryRows{rows: s.rows}}
	for _, level := range s.levels {
		for _, r := range level {
			sources = append(sources, r)
		}
	}
	return merge(s.order, sources)
}

// close removes the temporary files.
func (s *sorter) close() error {
	for _, level := range s.levels {
		for _, r := range level {
			r.close()
		}
	}
	return s.dir.Close()
}

func (s *sorter) newRun() (*run, error) {
	file, err := s.dir.TempFile()
	if err != nil {
		return nil, fmt.Errorf("sort on disk: %w", err)
	}
	return &run{file: file, out: bufio.NewWriterSize(file, runBuffer), width: s.width}, nil
}

// source gives sorted rows one by one; ok is false at the end.
type source interface {
	next() (row sortRow, ok bool, err error)
}

type memoryRows struct{ rows []sortRow }

func (m *memoryRows) next() (sortRow, bool, error) {
	if len(m.rows) == 0 {
		return sortRow{}, false, nil
	}
	row := m.rows[0]
	m.rows = m.rows[1:]
	return row, true, nil
}

// merging is a heap of sources by their current rows.
type merging struct {
	order   func(a, b sortRow) int
	sources []source
	rows    []sortRow
}

func (m *merging) Len() int           { return len(m.rows) }
func (m *merging) Less(i, j int) bool { return m.order(m.rows[i], m.rows[j]) < 0 }
func (m *merging) Swap(i, j int) {
	m.rows[i], m.rows[j] = m.rows[j], m.rows[i]
	m.sources[i], m.sources[j] = m.sources[j], m.sources[i]
}
func (m *merging) Push(any) {}
func (m *merging) Pop() any {
	n := len(m.rows) - 1
	m.rows, m.sources = m.rows[:n], m.sources[:n]
	return nil
}

// merge gives the rows of sorted sources in order.
func merge(order func(a, b sortRow) int, sources []source) iter.Seq2[sortRow, error] {
	return func(yield func(sortRow, error) bool) {
		m := &merging{order: order}
		for _, s := range sources {
			row, ok, err := s.next()
			if err != nil {
				yield(sortRow{}, err)
				return
			}
			if ok {
				m.sources, m.rows = append(m.sources, s), append(m.rows, row)
			}
		}
		heap.Init(m)
		for len(m.rows) > 0 {
			if !yield(m.rows[0], nil) {
				return
			}
			row, ok, err := m.sources[0].next()
			if err != nil {
				yield(sortRow{}, err)
				return
			}
			if ok {
				m.rows[0] = row
				heap.Fix(m, 0)
			} else {
				heap.Pop(m)
			}
		}
	}
}

// run is sorted rows in a temporary file: written, rewound, read once.
type run struct {
	file  *os.File
	width int
	out   *bufio.Writer
	in    *bufio.Reader
	buf   []byte
}

const runBuffer = 64 << 10

func (r *run) write(row sortRow) error {
	r.buf = appendRow(r.buf[:0], row)
	var size [binary.MaxVarintLen64]byte
	_, err1 := r.out.Write(size[:binary.PutUvarint(size[:], uint64(len(r.buf)))])
	_, err2 := r.out.Write(r.buf)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("sort on disk: %w", err)
	}
	return nil
}

func (r *run) rewind() error {
	err := r.out.Flush()
	if err == nil {
		_, err = r.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("sort on disk: %w", err)
	}
	r.out, r.in = nil, bufio.NewReaderSize(r.file, runBuffer)
	return nil
}

func (r *run) next() (sortRow, bool, error) {
	row := sortRow{cells: make([]schema.Value, r.width)}
	var err error
	r.buf, err = readRow(r.in, r.buf, &row)
	if errors.Is(err, io.EOF) {
		return row, false, nil
	}
	if err != nil {
		return row, false, fmt.Errorf("sort on disk: read %s: %w", r.file.Name(), err)
	}
	return row, true, nil
}

// close closes and removes the file; sorter.close removes what stays behind.
func (r *run) close() {
	_ = r.file.Close()
	_ = os.Remove(r.file.Name())
}
