package layout

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

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

// sortedRow is a row on its way through a sort: its place on the curve, where it came
// from, and its cells.
type sortedRow struct {
	key   uint64
	input int
	row   int64
	cells []schema.Value
}

// sorter sorts rows of any number by key; rows of one key keep their order. Rows are
// kept as bytes, so that their number costs the garbage collector nothing. What does
// not fit into its memory goes to sorted runs in temporary files.
type sorter struct {
	width int   // cells a row
	limit int64 // bytes
	dir   spill.Dir

	blocks  [][]byte
	index   []place
	scratch []byte
	bytes   int64
	levels  [][]*run // runs by how often their rows were merged
}

// place says where a row lies in the blocks.
type place struct {
	key       uint64
	block, at uint32
	end       uint32
}

const (
	blockBytes = 1 << 20
	placeBytes = 24
	// fanIn is how many runs are merged at once: as many files are open a level.
	fanIn     = 32
	runBuffer = 128 << 10
)

// add takes a copy of a row.
func (s *sorter) add(r *sortedRow) error {
	s.scratch = appendSorted(s.scratch[:0], r)
	last := len(s.blocks) - 1
	if last < 0 || len(s.blocks[last])+len(s.scratch) > cap(s.blocks[last]) {
		size := max(int(min(blockBytes, s.limit/16)), len(s.scratch)) // a small limit has small blocks
		s.blocks = append(s.blocks, make([]byte, 0, size))
		s.bytes += int64(size)
		last++
	}
	at := len(s.blocks[last])
	s.blocks[last] = append(s.blocks[last], s.scratch...)
	s.index = append(s.index, place{r.key, uint32(last), uint32(at), uint32(len(s.blocks[last]))})
	s.bytes += placeBytes
	if s.bytes < s.limit {
		return nil
	}
	return s.spill()
}

func (s *sorter) sortIndex() {
	slices.SortStableFunc(s.index, func(a, b place) int { return cmp.Compare(a.key, b.key) })
}

// spill writes the rows in memory to a run.
func (s *sorter) spill() error {
	s.sortIndex()
	out, err := s.newRun()
	if err != nil {
		return err
	}
	for _, p := range s.index {
		if err = out.write(p.key, s.blocks[p.block][p.at:p.end]); err != nil {
			break
		}
	}
	if err = errors.Join(err, out.rewind()); err != nil {
		return err
	}
	s.blocks, s.index, s.bytes = nil, s.index[:0], 0
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
	out, err := s.newRun()
	if err != nil {
		return err
	}
	sources := make([]source, len(s.levels[level]))
	for i, r := range s.levels[level] {
		sources[i] = r
	}
	for head, err := range merge(sources) {
		if err == nil {
			err = out.write(head.key, head.raw)
		}
		if err != nil {
			return err
		}
	}
	if err := out.rewind(); err != nil {
		return err
	}
	for _, r := range s.levels[level] {
		r.close()
	}
	s.levels[level] = nil
	return s.push(out, level+1)
}

// sorted gives all rows in order, once. A row is valid until the next one; its texts
// stay.
func (s *sorter) sorted() iter.Seq2[*sortedRow, error] {
	return func(yield func(*sortedRow, error) bool) {
		s.sortIndex()
		// Rows that came first lie in the highest levels, and there in order: ties
		// among sources go to the earlier one.
		var sources []source
		for _, level := range slices.Backward(s.levels) {
			for _, r := range level {
				sources = append(sources, r)
			}
		}
		sources = append(sources, &memoryRows{s: s})
		row := &sortedRow{cells: make([]schema.Value, s.width)}
		for head, err := range merge(sources) {
			if err == nil {
				row.key = head.key
				err = readSorted(head.raw, row)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// close removes the temporary files.
func (s *sorter) close() {
	for _, level := range s.levels {
		for _, r := range level {
			r.close()
		}
	}
	_ = s.dir.Close()
}

// head is the next row of a source, as bytes that are valid until the next call.
type head struct {
	key uint64
	raw []byte
}

// source gives sorted rows one by one; ok is false at the end.
type source interface {
	next() (h head, ok bool, err error)
}

type memoryRows struct {
	s  *sorter
	at int
}

func (m *memoryRows) next() (head, bool, error) {
	if m.at == len(m.s.index) {
		return head{}, false, nil
	}
	p := m.s.index[m.at]
	m.at++
	return head{p.key, m.s.blocks[p.block][p.at:p.end]}, true, nil
}

// merging is a heap of sources by their current rows.
type merging struct {
	sources []source
	heads   []head
	heap    []int
}

func (m *merging) Len() int { return len(m.heap) }
func (m *merging) Less(i, j int) bool {
	a, b := m.heap[i], m.heap[j]
	return cmp.Or(cmp.Compare(m.heads[a].key, m.heads[b].key), cmp.Compare(a, b)) < 0
}
func (m *merging) Swap(i, j int) { m.heap[i], m.heap[j] = m.heap[j], m.heap[i] }
func (m *merging) Push(x any)    { m.heap = append(m.heap, x.(int)) }
func (m *merging) Pop() any {
	last := m.heap[len(m.heap)-1]
	m.heap = m.heap[:len(m.heap)-1]
	return last
}

// merge gives the rows of sorted sources in order.
func merge(sources []source) iter.Seq2[head, error] {
	return func(yield func(head, error) bool) {
		m := &merging{sources: sources, heads: make([]head, len(sources))}
		advance := func(i int) (ok bool, err error) {
			m.heads[i], ok, err = sources[i].next()
			return ok, err
		}
		for i := range sources {
			ok, err := advance(i)
			if err != nil {
				yield(head{}, err)
				return
			}
			if ok {
				m.heap = append(m.heap, i)
			}
		}
		heap.Init(m)
		for len(m.heap) > 0 {
			i := m.heap[0]
			if !yield(m.heads[i], nil) {
				return
			}
			switch ok, err := advance(i); {
			case err != nil:
				yield(head{}, err)
				return
			case ok:
				heap.Fix(m, 0)
			default:
				heap.Pop(m)
			}
		}
	}
}

// run is a temporary file of sorted rows: key (8 bytes), length (uvarint), bytes.
type run struct {
	file *os.File
	out  *bufio.Writer
	in   *bufio.Reader
	raw  []byte
}

func (s *sorter) newRun() (*run, error) {
	file, err := s.dir.TempFile()
	if err != nil {
		return nil, fmt.Errorf("sort on disk: %w", err)
	}
	return &run{file: file, out: bufio.NewWriterSize(file, runBuffer)}, nil
}

func (r *run) write(key uint64, raw []byte) error {
	var b [2 * binary.MaxVarintLen64]byte
	binary.LittleEndian.PutUint64(b[:], key)
	n := 8 + binary.PutUvarint(b[8:], uint64(len(raw)))
	_, err1 := r.out.Write(b[:n])
	_, err2 := r.out.Write(raw)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("sort on disk: %w", err)
	}
	return nil
}

// rewind ends the writing and begins the reading.
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

func (r *run) next() (head, bool, error) {
	var b [8]byte
	if _, err := io.ReadFull(r.in, b[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return head{}, false, nil
		}
		return head{}, false, fmt.Errorf("sort on disk: %w", err)
	}
	n, err := binary.ReadUvarint(r.in)
	if err == nil && n > 1<<31 {
		err = fmt.Errorf("a row of %d bytes: the file was changed", n)
	}
	if err == nil {
		r.raw = slices.Grow(r.raw[:0], int(n))[:n]
		_, err = io.ReadFull(r.in, r.raw)
	}
	if err != nil {
		return head{}, false, fmt.Errorf("sort on disk: read %s: %w", r.file.Name(), err)
	}
	return head{binary.LittleEndian.Uint64(b[:]), r.raw}, true, nil
}

func (r *run) close() {
	_ = r.file.Close()
	_ = os.Remove(r.file.Name())
}

// appendSorted appends a row without its key: input and row (uvarints), then its cells.
func appendSorted(dst []byte, r *sortedRow) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.input))
	dst = binary.AppendUvarint(dst, uint64(r.row))
	return spill.AppendCells(dst, r.cells)
}

// readSorted reads what appendSorted wrote.
func readSorted(raw []byte, r *sortedRow) error {
	input, n := binary.Uvarint(raw)
	row, m := binary.Uvarint(raw[max(n, 0):])
	if n <= 0 || m <= 0 {
		return errors.New("sort on disk: a row is cut off: the file was changed")
	}
	r.input, r.row = int(input), int64(row)
	return spill.ReadCells(raw[n+m:], r.cells)
}
