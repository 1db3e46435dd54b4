package parquet

import (
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/parquet-go/parquet-go/format"
)

// Stream makes one file of rows that come by and by, and of whole row groups of
// other files. The Encoder that it was made by belongs to it until Finish or the
// next Stream. Rows lie in the file in the order in which they came.
type Stream struct {
	e *Encoder
	f *fileWriter
	// Of the row group that is being filled.
	groupRows  int
	groupBytes int64

	rows   int64
	copied []ColumnStats // of the row groups that were copied, by leaf
	bare   []bool        // leaves that a copied row group has no bounds of
}

// Stream begins a file whose bytes go to a writer as its row groups end, so that no
// more than one of them is held. What the Encoder was at before is given up. The
// Encoder's KeyValue is not used: Finish is told.
func (e *Encoder) Stream(to io.Writer) *Stream {
	e.reset()
	return &Stream{
		e: e, f: newFileWriter(e.elements, to),
		copied: make([]ColumnStats, len(e.columns)), bare: make([]bool, len(e.columns)),
	}
}

// Rows gives the rows so far.
func (s *Stream) Rows() int64 { return s.rows }

// Size gives the bytes of the file so far, without its footer before Finish; the last
// pages of the columns count as they are before compression.
func (s *Stream) Size() int64 {
	n := s.f.size
	if s.groupRows > 0 {
		for _, w := range s.e.columns {
			n += int64(len(w.out) + len(w.plain) + w.dict.bytes)
		}
	}
	return n
}

// Append adds rows; see Encode for what they may be. After an error, which may be the
// writer's, the file is of no use. The cells' strings may be kept until their row group
// ends.
func (s *Stream) Append(rows [][]schema.Value) error {
	for len(rows) > 0 {
		n := min(len(rows), s.e.opts.RowGroupRows-s.groupRows)
		for i, row := range rows[:n] {
			if width := s.e.width(); len(row) != width {
				return fmt.Errorf("%w: row %d has %d cells, the file %d columns", ErrValue, s.rows+int64(i), len(row), width)
			}
			s.groupBytes += 8 * int64(len(row))
			for c := range row {
				s.groupBytes += int64(len(row[c].S))
			}
			if s.groupBytes >= s.e.opts.RowGroupBytes {
				n = i + 1
				break
			}
		}
		var err error
		if s.e.nested != nil {
			err = s.e.addNested(rows[:n], int(s.rows))
		} else {
			err = s.e.addColumns(rows[:n], int(s.rows), 0, len(s.e.columns))
		}
		if err != nil {
			return err
		}
		s.rows += int64(n)
		s.groupRows += n
		if s.groupRows >= s.e.opts.RowGroupRows || s.groupBytes >= s.e.opts.RowGroupBytes {
			s.endGroup()
		}
		rows = rows[n:]
	}
	return s.f.err
}

// AppendGroup is Append of many rows, as row groups of their own, which several
// goroutines encode.
func (s *Stream) AppendGroup(rows [][]schema.Value) error {
	s.endGroup()
	for i, row := range rows {
		if width := s.e.width(); len(row) != width {
			return fmt.Errorf("%w: row %d has %d cells, the file %d columns", ErrValue, s.rows+int64(i), len(row), width)
		}
	}
	size := s.e.groupRows(rows)
	for len(rows) > 0 {
		n := min(size, len(rows))
		if err := s.e.encodeGroup(rows[:n], int(s.rows)); err != nil {
			return err
		}
		s.groupRows = n
		s.rows += int64(n)
		s.endGroup()
		rows = rows[n:]
	}
	return s.f.err
}

// AppendBatches is AppendGroup of rows that come by columns: batches[i][c][r] is the cell
// of column c in a row r of a batch, whose columns are of one length. They are read, not
// kept.
func (s *Stream) AppendBatches(batches [][][]schema.Value) error {
	s.endGroup()
	var group [][][]schema.Value
	rows, bytes := 0, int64(0)
	end := func() error {
		if rows == 0 {
			return nil
		}
		if err := s.e.encodeBatches(group, s.rows); err != nil {
			return err
		}
		s.groupRows = rows
		s.rows += int64(rows)
		s.endGroup()
		group, rows, bytes = group[:0], 0, 0
		return nil
	}
	for _, batch := range batches {
		if len(batch) != s.e.width() {
			return fmt.Errorf("%w: a batch of %d columns, the file has %d", ErrValue, len(batch), s.e.width())
		}
		for n := len(batch[0]); n > 0; {
			take := min(n, s.e.opts.RowGroupRows-rows, batchRows)
			part := make([][]schema.Value, len(batch))
			for c := range batch {
				if len(batch[c]) != len(batch[0]) {
					return fmt.Errorf("%w: a batch of %d rows with a column of %d", ErrValue, len(batch[0]), len(batch[c]))
				}
				at := len(batch[0]) - n
				part[c] = batch[c][at : at+take]
			}
			group, rows, n = append(group, part), rows+take, n-take
			bytes += s.e.plainBytes(part)
			if rows >= s.e.opts.RowGroupRows || bytes >= s.e.opts.RowGroupBytes {
				if err := end(); err != nil {
					return err
				}
			}
		}
	}
	if err := end(); err != nil {
		return err
	}
	return s.f.err
}

func (s *Stream) endGroup() {
	if s.groupRows == 0 {
		return
	}
	s.f.addRowGroup(s.e.columns, s.groupRows)
	for _, w := range s.e.columns {
		w.startChunk()
	}
	s.groupRows, s.groupBytes = 0, 0
}

// CanCopy tells whether the row groups of a file can be taken over as they are: it
// was written by this package, with the same columns in the same order. Bounds of columns
// that StatsColumns leaves out are not taken over.
func (s *Stream) CanCopy(f *File) bool {
	if f.meta.CreatedBy != createdBy || len(f.meta.Schema) != len(s.e.elements) {
		return false
	}
	for i := range f.meta.Schema[1:] {
		if !reflect.DeepEqual(f.meta.Schema[i+1], s.e.elements[i+1]) {
			return false
		}
	}
	return true
}

// CopyGroup adds a row group of a file that CanCopy, without decoding it: the rows
// before it end their own row group. The error is the reader's, or wraps ErrCorrupt.
func (s *Stream) CopyGroup(f *File, group int) error {
	s.endGroup()
	from := &f.meta.RowGroups[group]
	bound := f.root.leaves(nil)
	g := format.RowGroup{
		NumRows: from.NumRows, FileOffset: s.f.size, Ordinal: int16(len(s.f.meta.RowGroups)),
		TotalByteSize: from.TotalByteSize, TotalCompressedSize: from.TotalCompressedSize,
	}
	columnIndexes := make([]format.ColumnIndex, len(bound))
	offsetIndexes := make([]format.OffsetIndex, len(bound))
	var data map[int]*chunkData
	read := 0 // chunks that were read
	for i := range bound {
		chunk := &from.Columns[i]
		if i == read {
			for size := int64(0); read < len(bound) && (read == i || size < copyBytes); read++ {
				_, length := chunkRange(&from.Columns[read].MetaData)
				size += length
			}
			var err error
			if data, err = f.chunks(group, bound[i:read], nil); err != nil {
				return err
			}
		}
		start, _ := chunkRange(&chunk.MetaData)
		moved := s.f.size - start
		s.f.put(data[i].data)
		delete(data, i)
		m := chunk.MetaData
		m.DataPageOffset += moved
		if m.DictionaryPageOffset > 0 {
			m.DictionaryPageOffset += moved
		}
		wanted := s.e.columns[i].wantBounds
		if !wanted {
			m.Statistics.MinValue, m.Statistics.MaxValue = nil, nil
		}
		g.Columns = append(g.Columns, format.ColumnChunk{FileOffset: start + moved, MetaData: m})
		pages, err := f.pageLocations(chunk, from.NumRows)
		if err != nil {
			return err
		}
		for _, p := range pages {
			p.Offset += moved
			offsetIndexes[i].PageLocations = append(offsetIndexes[i].PageLocations, p)
		}
		if wanted {
			if columnIndexes[i], err = f.columnIndex(chunk, len(pages)); err != nil {
				return err
			}
		}
		s.takeBounds(f, group, i, bound[i].node)
	}
	s.f.meta.NumRows += g.NumRows
	s.f.meta.RowGroups = append(s.f.meta.RowGroups, g)
	s.f.columnIndexes = append(s.f.columnIndexes, columnIndexes)
	s.f.offsetIndexes = append(s.f.offsetIndexes, offsetIndexes)
	s.rows += g.NumRows
	return s.f.err
}

// copyBytes is about how much of a row group is held while it is copied, if its columns
// are not larger each.
const copyBytes = 16 << 20

// leaves gives all leaves below a node in order.
func (n *node) leaves(list []boundColumn) []boundColumn {
	if n.leaf {
		return append(list, boundColumn{node: n})
	}
	for _, c := range n.children {
		list = c.leaves(list)
	}
	return list
}

// takeBounds adds what is known of a copied column to the statistics of the file.
func (s *Stream) takeBounds(f *File, group, column int, leaf *node) {
	w := s.e.columns[column]
	if w.maxRep > 0 { // inside of an array or a map
		return
	}
	b := f.leafBounds(group, leaf, w.typ)
	if b.NullCount < 0 {
		b.NullCount = 0 // this package writes it always
	}
	c := &s.copied[column]
	c.NullCount += b.NullCount
	if b.NullCount < f.meta.RowGroups[group].NumRows && b.Min.IsNull() {
		s.bare[column] = true
	}
	widen(c, b)
}

// widen makes bounds hold others too.
func widen(c *ColumnStats, b stats.Bounds) {
	if b.Min.IsNull() || b.Max.IsNull() {
		return
	}
	if c.Min.IsNull() || schema.Compare(b.Min, c.Min) < 0 {
		c.Min = b.Min
	}
	if c.Max.IsNull() || schema.Compare(b.Max, c.Max) > 0 {
		c.Max = b.Max
	}
}

// Finish ends the file, with entries for its footer. The strings in the statistics are
// the caller's. The error is the writer's.
func (s *Stream) Finish(keyValue map[string]string) (FileStats, error) {
	s.endGroup()
	st := FileStats{NumRows: s.rows, Columns: s.e.stats(func(w *columnWriter) ColumnStats {
		return s.leafStats(slices.Index(s.e.columns, w), w)
	})}
	s.e.reset() // lets go of the rows' strings
	return st, s.f.finish(keyValue)
}

// leafStats are the statistics of a column: of its own rows, and of those copied.
func (s *Stream) leafStats(leaf int, w *columnWriter) ColumnStats {
	own, got := w.stats(), s.copied[leaf]
	widen(&got, stats.Bounds{Min: own.Min, Max: own.Max})
	got.NullCount += own.NullCount
	// Rows with values and without bounds: nothing is known of the file's.
	if s.bare[leaf] || w.fileBounds.nan || own.Min.IsNull() && w.fileBounds.has || !w.wantBounds {
		got.Min, got.Max = schema.Value{}, schema.Value{}
	}
	return got
}
