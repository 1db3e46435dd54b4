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
	bound, err := f.bind(columns)
	if err != nil {
		return nil, err
	}
	for _, b := range bound {
		if b.nested != nil {
			return nil, fmt.Errorf("%w: %q can't be read row by row", ErrNestedColumn, b.node.name)
		}
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
			for c := 0; c < len(bound); {
				whole, columns, err := f.wholeChunks(g, bound[c:], start, rows[at:to])
				if err != nil {
					return nil, err
				}
				for _, b := range bound[c : c+columns] {
					if err := ctx.Err(); err != nil {
						return nil, err
					}
					switch {
					case b.node == nil:
					case whole[b.node.index] != nil:
						err = pickFrom(b, f.chunk(g, b.node, whole), start, rows[at:to], result[at:to], c)
					default:
						err = f.pick(g, b, start, rows[at:to], result[at:to], c)
					}
					if err != nil {
						return nil, fmt.Errorf("row group %d: column %q: %w", g, b.node.name, err)
					}
					c++
				}
			}
		}
		start, at = end, to
	}
	return result, nil
}

// Bounds of chunks that are read whole, in bytes: a small one always is, for several that lie
// side by side are one request; and how much of them is in memory at once.
const (
	smallChunk    = 64 << 10
	wholeTogether = 4 << 20
)

// wholeChunks reads, of the first columns, the chunks that are read whole: those without a
// page index, small ones, and those in which the rows lie in many pages. It tells how many
// columns that are.
func (f *File) wholeChunks(group int, bound []boundColumn, start int64, rows []int64) (data map[int]*chunkData, columns int, err error) {
	var whole []boundColumn
	for together := int64(0); columns < len(bound) && together < wholeTogether; columns++ {
		b := bound[columns]
		if b.node == nil {
			continue
		}
		pages := f.usablePages(group, b.node)
		_, size := chunkRange(&f.meta.RowGroups[group].Columns[b.node.index].MetaData)
		if len(pages) == 0 || size <= smallChunk || manyPages(pages, start, rows) {
			whole = append(whole, b)
			together += size
		}
	}
	if len(whole) == 0 {
		return nil, columns, nil
	}
	data, err = f.chunks(group, whole, nil)
	return data, columns, err
}

// pick reads the cells of one column in rows of one row group, which begins at
// row start of the file, page by page.
func (f *File) pick(group int, b boundColumn, start int64, rows []int64, result [][]schema.Value, column int) error {
	chunk := &f.meta.RowGroups[group].Columns[b.node.index]
	pages := f.usablePages(group, b.node)
	dictionary, err := f.dictionary(chunk, b.node, pages[0].Offset)
	if err != nil {
		return err
	}
	c := newChunkReader(b.node, &chunk.MetaData, nil)
	c.dict, c.hasDic, c.dictSize = dictionary.dict, dictionary.hasDic, dictionary.dictSize
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
		if c.data, err = f.span(pages[p].Offset, int64(pages[p].CompressedPageSize)); err != nil {
			return err
		}
		first := start + pages[p].FirstRowIndex
		c.left = end - first
		if err := pickFrom(b, c, first, rows[i:j], result[i:j], column); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// manyPages tells that rows lie in so many pages that their chunk is read at once: a
// request a page costs more.
func manyPages(pages []format.PageLocation, start int64, rows []int64) bool {
	hit, at := 0, 0 // at: the page behind that of the last row
	for _, row := range rows {
		if at > 0 && (at == len(pages) || row-start < pages[at].FirstRowIndex) {
			continue // of the same page
		}
		hit, at = hit+1, pageOf(pages, row-start)+1
	}
	return hit > 4 && hit > len(pages)/2
}

// pickFrom reads rows out of a chunk, or the rest of one, that begins at row
// start of the file. Only pages with such rows are decoded, and only their
// cells converted.
func pickFrom(b boundColumn, c *chunkReader, start int64, rows []int64, result [][]schema.Value, column int) error {
	end := start // of the page
	var one values
	place, at := 0, start // of the next row in the page, and of its value
	for i, row := range rows {
		if i > 0 && row == rows[i-1] {
			result[i][column] = result[i-1][column]
			continue
		}
		if row >= end {
			for row >= end {
				more, err := c.next()
				if err != nil {
					return err
				}
				if !more {
					return corrupt("its rows end early")
				}
				place, at = 0, end
				end += int64(c.page.n)
			}
			if err := c.decode(); err != nil {
				return err
			}
		}
		if def := c.page.def; def != nil {
			first := end - int64(c.page.n)
			place += count(def[at-first:row-first], c.leaf.maxDef)
			at = row
			if def[row-first] != c.leaf.maxDef {
				continue
			}
		} else {
			place, at = place+int(row-at), row
		}
		source, from := &c.page.values, place
		if c.page.byIndex {
			source, from = &c.dict, int(c.page.ids[place])
		}
		if c.isStrings() {
			one.strs = source.strs[from : from+1]
		} else {
			one.ints = source.ints[from : from+1]
		}
		cell := result[i][column : column+1]
		if err := b.cells(cell, &one); err != nil {
			return err
		}
		cell[0].S = strings.Clone(cell[0].S)
	}
	return nil
}

// dictionary reads the dictionary page that lies before the first data page.
func (f *File) dictionary(chunk *format.ColumnChunk, leaf *node, firstPage int64) (c *chunkReader, err error) {
	defer catch(&err)
	start, _ := chunkRange(&chunk.MetaData)
	c = newChunkReader(leaf, &chunk.MetaData, nil)
	if start >= firstPage {
		return c, nil
	}
	if c.data, err = f.span(start, firstPage-start); err != nil {
		return nil, err
	}
	if err := c.readHeader(); err != nil {
		return nil, err
	}
	if c.header.Type == format.DictionaryPage {
		err = c.readDictionary()
	}
	return c, err
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
