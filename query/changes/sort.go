package changes

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

// The cells that stand before those of the row in the form that is sorted.
const (
	cellKey     = iota // the key, as AppendEncoded has it
	cellVersion        // of the change
	cellRank           // 0 takes the row away, 1 brings it
	cellsBefore
)

// sorter puts changes in the order of key, version and rank. What does not fit into its
// memory goes to sorted runs in temporary files.
type sorter struct {
	width int // cells of a change: cellsBefore and the row's
	limit int64
	dir   spill.Dir

	rows  [][]schema.Value
	bytes int64
	runs  []*spill.File
}

// fanIn is how many runs are merged at once.
const fanIn = 64

func compareCells(a, b []schema.Value) int {
	return cmp.Or(strings.Compare(a[cellKey].S, b[cellKey].S), cmp.Compare(a[cellVersion].I, b[cellVersion].I), cmp.Compare(a[cellRank].I, b[cellRank].I))
}

// add takes a copy of a change.
func (s *sorter) add(key []byte, c *Change) error {
	row := make([]schema.Value, s.width)
	row[cellKey], row[cellVersion], row[cellRank] = schema.BinaryValue(string(key)), schema.IntValue(c.Version), schema.IntValue(1)
	if c.gone() {
		row[cellRank].I = 0
	}
	copy(row[cellsBefore:], c.Row)
	s.rows = append(s.rows, row)
	s.bytes += int64(64 + 32*len(row) + len(key))
	for i := range c.Row {
		row[cellsBefore+i].S = strings.Clone(c.Row[i].S)
		s.bytes += int64(len(c.Row[i].S))
	}
	if s.bytes < s.limit {
		return nil
	}
	return s.spill()
}

// spill writes the changes in memory to a run.
func (s *sorter) spill() error {
	slices.SortStableFunc(s.rows, compareCells)
	run, err := s.write(func(yield func([]schema.Value, error) bool) {
		for _, row := range s.rows {
			if !yield(row, nil) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	s.rows, s.bytes = nil, 0
	s.runs = append(s.runs, run)
	if len(s.runs) < fanIn {
		return nil
	}
	merged, err := s.write(s.merge(s.runs, nil))
	if err != nil {
		return err
	}
	for _, r := range s.runs {
		r.Remove()
	}
	s.runs = []*spill.File{merged}
	return nil
}

func (s *sorter) write(rows iter.Seq2[[]schema.Value, error]) (*spill.File, error) {
	out, err := s.dir.Create(s.width)
	if err != nil {
		return nil, err
	}
	for row, err := range rows {
		if err == nil {
			err = out.Add(row)
		}
		if err != nil {
			out.Remove()
			return nil, err
		}
	}
	return out, out.End()
}

// sorted gives all changes in order, once; each is valid until the next.
func (s *sorter) sorted() iter.Seq2[[]schema.Value, error] {
	slices.SortStableFunc(s.rows, compareCells)
	return s.merge(s.runs, s.rows)
}

// close removes the temporary files.
func (s *sorter) close() { _ = s.dir.Close() }

// head is the next change of a run.
type head struct {
	row  []schema.Value
	run  int // the earlier one first, where changes are alike
	next func() ([]schema.Value, error, bool)
}

type heads []head

func (h heads) Len() int { return len(h) }
func (h heads) Less(i, j int) bool {
	return cmp.Or(compareCells(h[i].row, h[j].row), h[i].run-h[j].run) < 0
}
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)   { *h = append(*h, x.(head)) }
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// merge gives the changes of sorted runs, and of those in memory, in order.
func (s *sorter) merge(runs []*spill.File, rows [][]schema.Value) iter.Seq2[[]schema.Value, error] {
	return func(yield func([]schema.Value, error) bool) {
		var queue heads
		for i, r := range runs {
			next, stop := iter.Pull2(r.All())
			defer stop()
			row, err, ok := next()
			if err != nil {
				yield(nil, err)
				return
			}
			if ok {
				queue = append(queue, head{row, i, next})
			}
		}
		if len(rows) > 0 {
			at := 0
			queue = append(queue, head{rows[0], len(runs), func() ([]schema.Value, error, bool) {
				if at++; at == len(rows) {
					return nil, nil, false
				}
				return rows[at], nil, true
			}})
		}
		heap.Init(&queue)
		for len(queue) > 0 {
			if !yield(queue[0].row, nil) {
				return
			}
			row, err, ok := queue[0].next()
			switch {
			case err != nil:
				yield(nil, fmt.Errorf("sort changes: %w", err))
				return
			case ok:
				queue[0].row = row
				heap.Fix(&queue, 0)
			default:
				heap.Pop(&queue)
			}
		}
	}
}
