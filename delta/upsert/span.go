package upsert

import "math/bits"

// span says where the rows of a segment lie whose file was written anew: in another file,
// in the same order, those left out that were dead. So Refs, in the index and elsewhere,
// stay what they are when rows move.
type span struct {
	of    *segment
	first uint32 // of the file's rows
	kept  *rank  // nil: all rows
	rows  int64  // of the segment when it was written
}

// at gives the row of the file at which a row of the segment lies. It must be one of
// those kept.
func (s *span) at(row uint32) uint32 {
	if s.kept == nil {
		return s.first + row
	}
	return s.first + s.kept.below(row)
}

// moved gives the span after its file's rows have moved: those of kept (nil: all) lie in
// another file from first on. nothing tells that none of its rows is left.
func (s *span) moved(kept *rank, first uint32) (to span, nothing bool) {
	to = span{first: first + s.first, kept: s.kept, rows: s.rows}
	if kept == nil {
		return to, s.rows == 0
	}
	to.first = first + kept.below(s.first)
	if s.kept == nil && s.first == 0 && s.rows == kept.rows {
		to.kept = kept
		return to, kept.count() == 0
	}
	left := newRank(s.rows)
	at := s.first
	for row := range uint32(s.rows) {
		if s.kept != nil && !s.kept.has(row) {
			continue
		}
		if kept.has(at) {
			left.set(row)
		}
		at++
	}
	left.done()
	to.kept = left
	return to, left.count() == 0
}

// rank is a set of rows that tells how many of them are below a row, in a time that does
// not depend on it.
type rank struct {
	words  []uint64
	before []uint32 // of the rows of each block of words
	rows   int64
}

const rankBlock = 8 // words

// newRank makes an empty set of a file's rows; done ends the setting of rows.
func newRank(rows int64) *rank { return &rank{words: make([]uint64, (rows+63)/64), rows: rows} }

func (r *rank) set(row uint32)      { r.words[row/64] |= 1 << (row % 64) }
func (r *rank) clear(row uint32)    { r.words[row/64] &^= 1 << (row % 64) }
func (r *rank) has(row uint32) bool { return r.words[row/64]>>(row%64)&1 == 1 }

// fill sets all rows.
func (r *rank) fill() {
	for i := range r.words {
		r.words[i] = ^uint64(0)
	}
	if rest := r.rows % 64; rest > 0 {
		r.words[len(r.words)-1] = 1<<rest - 1
	}
}

func (r *rank) done() {
	r.before = make([]uint32, len(r.words)/rankBlock+1)
	n := uint32(0)
	for i, w := range r.words {
		if i%rankBlock == 0 {
			r.before[i/rankBlock] = n
		}
		n += uint32(bits.OnesCount64(w))
	}
	if len(r.words)%rankBlock == 0 {
		r.before[len(r.words)/rankBlock] = n
	}
}

// below is the number of rows in the set below a row, which may be the one behind the last.
func (r *rank) below(row uint32) uint32 {
	word := int(row / 64)
	n := r.before[word/rankBlock]
	for i := word / rankBlock * rankBlock; i < word; i++ {
		n += uint32(bits.OnesCount64(r.words[i]))
	}
	if row%64 > 0 {
		n += uint32(bits.OnesCount64(r.words[word] & (1<<(row%64) - 1)))
	}
	return n
}

func (r *rank) count() uint32 { return r.below(uint32(r.rows)) }

// at gives the Ref of the place where a row lies now. One of a place is itself.
func (w *Writer) at(ref Ref) Ref {
	if len(w.moved) == 0 {
		return ref
	}
	if s := w.moved[ref.Segment()]; s != nil {
		return makeRef(s.of.id, s.at(ref.Row()), ref.Tag())
	}
	return ref
}

// segmentOf gives the file in which rows of a segment lie, nil where it is not live.
func (w *Writer) segmentOf(id uint32) *segment {
	if s := w.moved[id]; s != nil {
		return s.of
	}
	return w.segments[id]
}

// File gives the number of the live file in which the rows of a segment lie now.
func (w *Writer) File(segment uint32) uint32 {
	if s := w.moved[segment]; s != nil {
		return s.of.id
	}
	return segment
}

// drop forgets a file that has left the table.
func (w *Writer) drop(s *segment) {
	if s == nil {
		return
	}
	delete(w.segments, s.id)
	for _, id := range s.spans {
		delete(w.moved, id)
	}
}
