package write

import (
	"hash/maphash"
	"iter"
	"strings"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

const (
	// spillWays is how many files rows are parted into by their keys: as many are open.
	spillWays = 32
	// spillLevels is how often files that are still too large are parted again. What is
	// too large then has one key, and is refused.
	spillLevels = 4
	// sourceRow is about what a row takes besides its cells: its place in the maps.
	sourceRow = 150
)

func sourceBytes(row []schema.Value) int64 {
	n := int64(sourceRow + 32*len(row))
	for i := range row {
		n += int64(len(row[i].S))
	}
	return n
}

// gather reads all rows: into memory as far as they fit, else into files that fit.
func (m *merge) gather(rows iter.Seq2[[]schema.Value, error], limit int64) error {
	var split *splitter
	held := int64(0)
	for row, err := range rows {
		if err != nil {
			return err
		}
		m.total++
		if split == nil {
			own := make([]schema.Value, len(row))
			for i, v := range row {
				v.S = strings.Clone(v.S)
				own[i] = v
			}
			m.rows = append(m.rows, own)
			if held += sourceBytes(own); held <= limit {
				continue
			}
			split = &splitter{m: m, seed: maphash.MakeSeed()}
			for _, own := range m.rows {
				if err := split.add(own); err != nil {
					return err
				}
			}
			m.rows = nil
			continue
		}
		if err := split.add(row); err != nil {
			return err
		}
	}
	if split == nil {
		return nil
	}
	return split.end(limit, 1)
}

// splitter parts rows by their keys: rows of one key go to one file.
type splitter struct {
	m     *merge
	seed  maphash.Seed
	files [spillWays]*spill.File
	sizes [spillWays]int64
	buf   []byte
}

func (s *splitter) add(row []schema.Value) (err error) {
	var whole bool
	s.buf, whole = s.m.appendKey(s.buf[:0], row)
	if !whole { // it is like no other, and may go anywhere
		s.buf = spill.AppendCells(s.buf[:0], row)
	} else {
		first := row[s.m.key[0]]
		if first.IsNull() {
			s.m.nulls = true
		} else if s.m.low.IsNull() || expr.Compare(first, s.m.low) < 0 {
			s.m.low = first
			s.m.low.S = strings.Clone(first.S)
		}
		if !first.IsNull() && (s.m.high.IsNull() || expr.Compare(first, s.m.high) > 0) {
			s.m.high = first
			s.m.high.S = strings.Clone(first.S)
		}
	}
	way := maphash.Bytes(s.seed, s.buf) % spillWays
	if s.files[way] == nil {
		if s.files[way], err = s.m.dir.Create(len(row)); err != nil {
			return err
		}
	}
	s.sizes[way] += sourceBytes(row)
	return s.files[way].Add(row)
}

// end makes chunks of the files, and parts those that do not fit.
func (s *splitter) end(limit int64, level int) error {
	for _, f := range s.files {
		if f != nil {
			if err := f.End(); err != nil {
				return err
			}
		}
	}
	for i, f := range s.files {
		if f == nil {
			continue
		}
		if s.sizes[i] <= limit || f.Rows == 1 || level == spillLevels {
			s.m.files = append(s.m.files, f)
			continue
		}
		again := &splitter{m: s.m, seed: maphash.MakeSeed()}
		for row, err := range f.All() {
			if err == nil {
				err = again.add(row)
			}
			if err != nil {
				return err
			}
		}
		f.Remove()
		if err := again.end(limit, level+1); err != nil {
			return err
		}
	}
	return nil
}

// load makes a chunk the one at hand. The error wraps ErrDuplicateKey.
func (m *merge) load(p *plan, k int) error {
	if m.files == nil {
		return nil
	}
	m.chunk = chunk{}
	for row, err := range m.files[k].All() {
		if err != nil {
			return err
		}
		own := make([]schema.Value, len(row))
		copy(own, row)
		m.rows = append(m.rows, own)
	}
	return m.index(p)
}
