package upsert

import (
	"context"
	"fmt"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// stage is where a goroutine collects items before it gives them to the builder:
// of one kind, as the keys of a table nearly always are.
type stage struct {
	b     *builder
	kind  int
	n     [256]uint8
	items [256][stageItems]item
}

const stageItems = 32

func (s *stage) add(kind int, hash uint64, it item) {
	number := hash >> hashBits
	if kind != s.kind {
		s.b.add(kind, number, []item{it})
		return
	}
	n := s.n[number] % stageItems
	s.items[number][n] = it
	if n++; n == stageItems {
		s.b.add(kind, number, s.items[number][:])
		n = 0
	}
	s.n[number] = n
}

func (s *stage) flush() {
	for number, n := range s.n {
		if n > 0 {
			s.b.add(s.kind, uint64(number), s.items[number][:n])
		}
	}
	s.n = [256]uint8{}
}

// begin says of which kind most keys are.
func (s *stage) begin(kind int) {
	if kind != s.kind {
		s.flush()
		s.kind = kind
	}
}

// stageKeys collects the keys of the live rows of a segment that is open.
func (w *Writer) stageKeys(ctx context.Context, columnsOf *schema.Schema, seg *segment, st *stage) error {
	first := true
	err := w.scanKeys(ctx, columnsOf, seg, false, func(row uint32, key rowKey) error {
		kind, hash, second := w.index.hashOf(key)
		if first {
			first = false
			st.begin(kind)
		}
		st.add(kind, hash, item{hash & hashMask, second, makeRef(seg.id, row, w.inherit(key, nil))})
		return nil
	})
	return err
}

// stageInts is stageKeys where the key is one column of integers, and the tag is of integers
// too: their numbers are read without cells. It reports false where they are not.
func (w *Writer) stageInts(ctx context.Context, columnsOf *schema.Schema, seg *segment, st *stage) (done bool, err error) {
	columns, fixed, err := w.keyColumns(columnsOf, seg)
	if err != nil || len(columns) != 1 || fixed[0] != nil || schema.KindOf(columns[0].Type) != schema.Int || w.o.Inherit != nil && w.o.Was != nil {
		return false, err
	}
	columns = w.withTagColumns(columns)
	f, err := w.keptOpen(ctx, seg)
	if err != nil {
		return false, err
	}
	batches, ok := f.ScanInts(ctx, columns)
	if !ok {
		return false, nil
	}
	var dead *rank // faster than the bitmap where all rows are asked for
	if seg.dead != nil {
		dead = newRank(seg.rows)
		for row := range seg.dead.Rows() {
			if int64(row) >= seg.rows {
				break
			}
			dead.set(row)
		}
	}
	cells := make([]schema.Value, len(columns)-1)
	tag := w.tag(cells)
	st.begin(0)
	for b, err := range batches {
		if err != nil {
			return true, fmt.Errorf("read %s: %w", seg.key, err)
		}
		same := true // the tag of all rows
		for c := range cells {
			same = same && b.Nulls[c+1] == nil && alike(b.Columns[c+1])
		}
		tag = w.tagOf(columns[1:], b, 0, cells, tag)
		nulls := b.Nulls[0]
		for i, key := range b.Columns[0] {
			row := uint32(b.FirstRow) + uint32(i)
			if dead != nil && dead.has(row) {
				continue
			}
			if !same {
				tag = w.tagOf(columns[1:], b, i, cells, tag)
			}
			if nulls != nil && nulls[i] {
				kind, hash, second := w.index.hashOf(rowKey{bytes: schema.Value{}.AppendEncoded(nil)})
				st.add(kind, hash, item{hash & hashMask, second, makeRef(seg.id, row, tag)})
				continue
			}
			hash := w.index.hashInt(key)
			st.add(0, hash, item{hash & hashMask, 0, makeRef(seg.id, row, tag)})
		}
	}
	return true, nil
}

// alike reports that all numbers are the first one.
func alike(list []int64) bool {
	for _, n := range list {
		if n != list[0] {
			return false
		}
	}
	return true
}

// tagOf gives the tag of a row of a batch whose columns from the second on are those that
// it is made of. cells are those of the row before, and tag is its tag.
func (w *Writer) tagOf(columns []parquet.Column, b *parquet.IntBatch, row int, cells []schema.Value, tag uint16) uint16 {
	other := false
	for c := range cells {
		v := schema.Value{}
		if nulls := b.Nulls[c+1]; nulls == nil || !nulls[row] {
			v = schema.Value{Kind: schema.KindOf(columns[c].Type), I: b.Columns[c+1][row]}
		}
		if v != cells[c] {
			cells[c], other = v, true
		}
	}
	if !other {
		return tag
	}
	return w.tag(cells)
}
