package parquet

import (
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/parquet-go/parquet-go/format"
)

// PageBounds is what the page index says of one page of a column.
type PageBounds struct {
	// Rows are positions in the file.
	Rows RowRange
	stats.Bounds
}

// PageBounds gives what the page index says of the pages of a column in one row group,
// in order, for ScanOptions.Rows; or of a field inside of structs, which are named
// before it. It is empty where the file has no index of the column, or none that can be
// used: then nothing is known. What was written wrongly by others is left out, as
// RowGroupBounds does.
func (f *File) PageBounds(i int, path ...Column) []PageBounds {
	leaf, t := f.leafAt(path)
	if leaf == nil || f.distrusts(leaf) {
		return nil
	}
	conv, err := converterOf(leaf, t)
	if err != nil {
		return nil
	}
	pages := f.usablePages(i, leaf)
	if len(pages) == 0 {
		return nil
	}
	index, err := f.columnIndex(&f.meta.RowGroups[i].Columns[leaf.index], len(pages))
	if err != nil || len(index.NullPages) == 0 {
		return nil
	}
	start := f.groupStart(i)
	bounds := make([]PageBounds, len(pages))
	for p := range pages {
		b := PageBounds{Rows: f.pageRows(i, pages, p), Bounds: stats.Unknown}
		rows := b.Rows.To - b.Rows.From
		b.Rows.From, b.Rows.To = b.Rows.From+start, b.Rows.To+start
		if len(index.NullCounts) == len(pages) && index.NullCounts[p] >= 0 && index.NullCounts[p] <= rows {
			b.NullCount = index.NullCounts[p]
		}
		if index.NullPages[p] {
			b.NullCount = rows
		} else if low, high, ok := f.boundsOf(leaf, conv, index.MinValues[p], index.MaxValues[p]); ok {
			b.Min, b.Max = low, high
		}
		bounds[p] = b
	}
	return bounds
}

// Pages counts the pages of columns in one row group, and those of them with some rows,
// in ranges as ScanOptions.Rows gives them; nil means all. Columns whose pages the file
// doesn't tell of count as none.
func (f *File) Pages(group int, columns []Column, rows []RowRange) (all, read int64, err error) {
	bound, err := f.bind(columns)
	if err != nil {
		return 0, 0, err
	}
	start := f.groupStart(group)
	for i := range bound {
		for _, leaf := range bound[i].leaves() {
			pages := f.usablePages(group, leaf)
			all += int64(len(pages))
			if rows == nil {
				read += int64(len(pages))
				continue
			}
			for p := range pages {
				own := f.pageRows(group, pages, p)
				if slices.ContainsFunc(rows, func(r RowRange) bool { return r.From-start < own.To && r.To-start > own.From }) {
					read++
				}
			}
		}
	}
	return all, read, nil
}

// leafAt finds the leaf of a path through structs; nil where there is none.
func (f *File) leafAt(path []Column) (*node, schema.Type) {
	n := f.root
	for at := range path {
		if at > 0 && (n.leaf || n.repetition == format.Repeated || n.isCollection()) {
			return nil, schema.Type{}
		}
		if n = n.find(path[at].Name, path[at].FieldID); n == nil {
			return nil, schema.Type{}
		}
	}
	if n == f.root || !n.leaf {
		return nil, schema.Type{}
	}
	return n, path[len(path)-1].Type
}

// groupStart gives the position of the first row of a row group.
func (f *File) groupStart(group int) (row int64) {
	for i := range group {
		row += f.meta.RowGroups[i].NumRows
	}
	return row
}

// pageRows gives the rows of a page, by their places in the row group.
func (f *File) pageRows(group int, pages []format.PageLocation, p int) RowRange {
	r := RowRange{pages[p].FirstRowIndex, f.meta.RowGroups[group].NumRows}
	if p+1 < len(pages) {
		r.To = pages[p+1].FirstRowIndex
	}
	return r
}

// usablePages gives where the pages of a chunk lie, for a reader of some of them: nil
// where the file doesn't say, or says what can't be. A reader reads the whole chunk then.
func (f *File) usablePages(group int, leaf *node) []format.PageLocation {
	chunk := &f.meta.RowGroups[group].Columns[leaf.index]
	pages, err := f.pageLocations(chunk, f.meta.RowGroups[group].NumRows)
	if err != nil {
		return nil
	}
	// Pages lie one behind the other in all files known: a hole tells of a wrong number.
	for i := 1; i < len(pages); i++ {
		if pages[i].Offset != pages[i-1].Offset+int64(pages[i-1].CompressedPageSize) {
			return nil
		}
	}
	if start, length := chunkRange(&chunk.MetaData); len(pages) > 0 {
		if last := pages[len(pages)-1]; last.Offset+int64(last.CompressedPageSize) != start+length {
			return nil
		}
	}
	return pages
}

// pageLocations reads a chunk's offset index once; nil where there is none.
// What it returns lies within the chunk and begins at row 0.
func (f *File) pageLocations(chunk *format.ColumnChunk, rows int64) ([]format.PageLocation, error) {
	if chunk.OffsetIndexLength == 0 || chunk.OffsetIndexOffset == 0 {
		return nil, nil
	}
	f.mu.Lock()
	pages, known := f.offsets[chunk]
	f.mu.Unlock()
	if known {
		return pages, nil
	}
	data, err := f.indexBytes(chunk.OffsetIndexOffset, int64(chunk.OffsetIndexLength))
	if err != nil {
		return nil, err
	}
	var index format.OffsetIndex
	if _, err := decodeThrift(data, &index); err != nil {
		return nil, err
	}
	pages = index.PageLocations
	start, length := chunkRange(&chunk.MetaData)
	last, row := start, int64(-1)
	for _, p := range pages {
		size := int64(p.CompressedPageSize)
		if size < 0 || p.Offset < last || p.Offset > start+length-size || p.FirstRowIndex <= row || p.FirstRowIndex >= rows {
			return nil, corrupt("its offset index")
		}
		last, row = p.Offset+size, p.FirstRowIndex
	}
	if len(pages) == 0 || pages[0].FirstRowIndex != 0 {
		return nil, corrupt("its offset index")
	}
	f.mu.Lock()
	f.offsets[chunk] = pages
	f.mu.Unlock()
	return pages, nil
}

// columnIndex reads a chunk's bounds by page; empty where there are none, or not of
// as many pages.
func (f *File) columnIndex(chunk *format.ColumnChunk, pages int) (index format.ColumnIndex, err error) {
	if chunk.ColumnIndexLength <= 0 || chunk.ColumnIndexOffset <= 0 {
		return index, nil
	}
	data, err := f.indexBytes(chunk.ColumnIndexOffset, int64(chunk.ColumnIndexLength))
	if err != nil {
		return index, err
	}
	if _, err := decodeThrift(data, &index); err != nil {
		return index, err
	}
	if len(index.NullPages) != pages || len(index.MinValues) != pages || len(index.MaxValues) != pages {
		return format.ColumnIndex{}, nil
	}
	return index, nil
}

// maxTail bounds the end of a file that is held for its page indexes, in bytes.
const maxTail = 4 << 20

// indexBytes reads a part of the page index. All parts lie together before the footer,
// so that one read gets all that come behind the first.
func (f *File) indexBytes(offset, length int64) ([]byte, error) {
	if f.data != nil {
		return f.span(offset, length)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	from := f.size - int64(len(f.tail))
	if offset < from && f.size-offset <= maxTail {
		more, err := f.span(offset, from-offset)
		if err != nil {
			return nil, err
		}
		f.tail, from = append(slices.Clip(more), f.tail...), offset
	}
	if offset < from {
		return f.span(offset, length)
	}
	return f.tail[offset-from : offset-from+length : offset-from+length], nil
}
