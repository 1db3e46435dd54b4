package parquet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/format"
)

// Rows reads single rows: rows[i] are positions in the file in ascending
// order, and result[i][c] is the cell of column c in row rows[i]. Only the
// pages that hold them are read, where the file has a page index; else the
// column chunks. The cells are the caller's. See Scan for columns and errors.
func (f *File) Rows(ctx context.Context, columns []Column, rows []int64) ([][]schema.Value, error) {
	if !slices.IsSorted(rows) {
		return nil, fmt.Errorf("parquet: rows to read are not in order")
	}
	if len(rows) > 0 && (rows[0] < 0 || rows[len(rows)-1] >= f.meta.NumRows) {
		return nil, fmt.Errorf("parquet: rows %d to %d of a file of %d", rows[0], rows[len(rows)-1], f.meta.NumRows)
	}
	bound, err := f.bind(columns, false)
	if err != nil {
		return nil, err
	}
	cellsOf := make([]schema.Value, len(rows)*len(columns))
	result := make([][]schema.Value, len(rows))
	for i := range result {
		result[i], cellsOf = cellsOf[:len(columns):len(columns)], cellsOf[len(columns):]
	}
	start, at := int64(0), 0
	for g := range f.meta.RowGroups {
		end := start + f.meta.RowGroups[g].NumRows
		to := at
		for to < len(rows) && rows[to] < end {
			to++
		}
		if to > at {
			for c, b := range bound {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if b.node == nil {
					continue
				}
				if err := f.pick(g, b, start, rows[at:to], result[at:to], c); err != nil {
					return nil, fmt.Errorf("row group %d: column %q: %w", g, b.node.name, err)
				}
			}
		}
		start, at = end, to
	}
	return result, nil
}

// pick reads the cells of one column in rows of one row group, which begins at
// row start of the file.
func (f *File) pick(group int, b boundColumn, start int64, rows []int64, result [][]schema.Value, column int) error {
	chunk := &f.meta.RowGroups[group].Columns[b.node.index]
	pages, err := f.pageLocations(chunk, f.meta.RowGroups[group].NumRows)
	if err != nil {
		return err
	}
	if pages == nil {
		readers, err := f.chunks(group, []boundColumn{b})
		if err != nil {
			return err
		}
		return pickFrom(&cells{boundColumn: b, chunk: readers[0]}, start, rows, result, column)
	}
	var dictionary *cells
	for i := 0; i < len(rows); {
		p := pageOf(pages, rows[i]-start)
		end := start + f.meta.RowGroups[group].NumRows
		if p+1 < len(pages) {
			end = start + pages[p+1].FirstRowIndex
		}
		j := i
		for j < len(rows) && rows[j] < end {
			j++
		}
		data, err := f.span(pages[p].Offset, int64(pages[p].CompressedPageSize))
		if err != nil {
			return err
		}
		c := &cells{boundColumn: b, chunk: newChunkReader(b.node, &chunk.MetaData, data)}
		first := start + pages[p].FirstRowIndex
		c.chunk.left = end - first
		if dictionary == nil {
			if dictionary, err = f.dictionary(chunk, b, pages[0].Offset); err != nil {
				return err
			}
		}
		c.chunk.dict, c.chunk.hasDic, c.chunk.dictSize = dictionary.chunk.dict, dictionary.chunk.hasDic, dictionary.chunk.dictSize
		c.dict = dictionary.dict
		if err := pickFrom(c, first, rows[i:j], result[i:j], column); err != nil {
			return err
		}
		if c.dict != nil {
			dictionary.dict = c.dict // converted once
		}
		i = j
	}
	return nil
}

// pickFrom reads rows out of a reader whose first row is at start. Strings are copied.
func pickFrom(c *cells, start int64, rows []int64, result [][]schema.Value, column int) error {
	at := start
	for i, row := range rows {
		if i > 0 && row == rows[i-1] {
			result[i][column] = result[i-1][column]
			continue
		}
		if err := c.skip(row - at); err != nil {
			return err
		}
		if err := c.read(result[i][column : column+1]); err != nil {
			return err
		}
		at = row + 1
	}
	for i := range rows {
		result[i][column].S = strings.Clone(result[i][column].S)
	}
	return nil
}

// dictionary reads the dictionary page that lies before the first data page;
// a reader without one where the chunk has none.
func (f *File) dictionary(chunk *format.ColumnChunk, b boundColumn, firstPage int64) (*cells, error) {
	c := &cells{boundColumn: b, chunk: newChunkReader(b.node, &chunk.MetaData, nil)}
	start, _ := chunkRange(&chunk.MetaData)
	if start >= firstPage {
		return c, nil
	}
	data, err := f.span(start, firstPage-start)
	if err != nil {
		return nil, err
	}
	c.chunk.data = data
	err = func() (err error) {
		defer catch(&err)
		if err := c.chunk.readHeader(); err != nil {
			return err
		}
		if c.chunk.header.Type != format.DictionaryPage {
			return nil // a page that the index does not list: never by index
		}
		return c.chunk.readDictionary()
	}()
	return c, err
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
	data, err := f.span(chunk.OffsetIndexOffset, int64(chunk.OffsetIndexLength))
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

// pageOf finds the page of a row.
func pageOf(pages []format.PageLocation, row int64) int {
	i, found := slices.BinarySearchFunc(pages, row, func(p format.PageLocation, row int64) int {
		switch {
		case p.FirstRowIndex < row:
			return -1
		case p.FirstRowIndex > row:
			return 1
		}
		return 0
	})
	if found {
		return i
	}
	return i - 1
}
