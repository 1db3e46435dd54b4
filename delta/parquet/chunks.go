package parquet

import (
	"cmp"
	"fmt"
	"slices"
)

// RowRange is rows by their positions, To excluded.
type RowRange struct{ From, To int64 }

// chunkData is what was read of a column chunk: all of it, or its dictionary and some
// of its pages.
type chunkData struct {
	data  []byte       // the chunk; with pages, what lies before the first of them
	pages []placedPage // nil: all of the chunk is in data
}

// placedPage is a page with its rows, by their places in the row group.
type placedPage struct {
	rows RowRange
	data []byte
}

// spanGap is the hole between two parts of a file that is rather read than
// skipped: on an object store a request costs more than so many bytes.
const spanGap = 256 << 10

// wanted is bytes of the file, and where they go.
type wanted struct {
	from, to int64
	into     *[]byte
}

// read reads parts of the file. Neighbours come with one read.
func (f *File) read(parts []wanted) error {
	slices.SortStableFunc(parts, func(a, b wanted) int { return cmp.Compare(a.from, b.from) })
	for i := 0; i < len(parts); {
		from, to := parts[i].from, parts[i].to
		j := i + 1
		for ; j < len(parts); j++ {
			p := parts[j]
			if p.from < to || p.from-to > spanGap {
				break // chunks of an odd file may overlap; those cost more reads
			}
			to = p.to
		}
		buf, err := f.span(from, to-from)
		if err != nil {
			return err
		}
		for ; i < j; i++ {
			*parts[i].into = buf[parts[i].from-from : parts[i].to-from]
		}
	}
	return nil
}

// chunks reads the column chunks of one row group that some columns need, by leaf: the
// pages with some rows alone, by their places in the row group, where the file tells
// which they are. Without rows it reads them whole.
func (f *File) chunks(group int, columns []boundColumn, rows []RowRange) (map[int]*chunkData, error) {
	g := &f.meta.RowGroups[group]
	data := map[int]*chunkData{}
	var parts []wanted
	var partly []*node
	whole := func(leaf int) {
		start, length := chunkRange(&g.Columns[leaf].MetaData)
		data[leaf] = &chunkData{}
		parts = append(parts, wanted{start, start + length, &data[leaf].data})
	}
	for i := range columns {
		for _, leaf := range columns[i].leaves() {
			if data[leaf.index] != nil {
				continue
			}
			if rows == nil {
				whole(leaf.index)
				continue
			}
			d, pages := f.pagesWith(group, leaf, rows)
			if d == nil {
				whole(leaf.index)
				continue
			}
			data[leaf.index] = d
			parts = append(parts, pages...)
			partly = append(partly, leaf)
		}
	}
	if err := f.read(parts); err != nil {
		return nil, fmt.Errorf("read row group %d: %w", group, err)
	}
	parts = parts[:0]
	for _, leaf := range partly {
		if !data[leaf.index].plausible(leaf) {
			whole(leaf.index)
		}
	}
	if err := f.read(parts); err != nil {
		return nil, fmt.Errorf("read row group %d: %w", group, err)
	}
	return data, nil
}

// pagesWith finds the pages of a chunk with some rows, and what is to be read for them;
// nil where the file doesn't tell.
func (f *File) pagesWith(group int, leaf *node, rows []RowRange) (*chunkData, []wanted) {
	pages := f.usablePages(group, leaf)
	if len(pages) == 0 {
		return nil, nil
	}
	d := &chunkData{pages: []placedPage{}}
	at := 0
	var which []int
	for p := range pages {
		r := f.pageRows(group, pages, p)
		for at < len(rows) && rows[at].To <= r.From {
			at++
		}
		if at < len(rows) && rows[at].From < r.To {
			d.pages = append(d.pages, placedPage{rows: r})
			which = append(which, p)
		}
	}
	var parts []wanted
	if start, _ := chunkRange(&f.meta.RowGroups[group].Columns[leaf.index].MetaData); start < pages[0].Offset {
		parts = append(parts, wanted{start, pages[0].Offset, &d.data})
	}
	for i, p := range which {
		parts = append(parts, wanted{pages[p].Offset, pages[p].Offset + int64(pages[p].CompressedPageSize), &d.pages[i].data})
	}
	return d, parts
}

// plausible tells whether pages begin with the header of a page, which has as many values
// as the index says rows. Where values repeat only decoding tells.
func (d *chunkData) plausible(leaf *node) bool {
	if leaf.maxRep > 0 {
		return true
	}
	for _, p := range d.pages {
		c := chunkReader{leaf: leaf, data: p.data, left: p.rows.To - p.rows.From}
		if more, err := c.next(); err != nil || !more || c.left != 0 || len(c.data) != 0 {
			return false
		}
	}
	return true
}

// chunk opens a column chunk of what chunks gave.
func (f *File) chunk(group int, leaf *node, data map[int]*chunkData) *chunkReader {
	d := data[leaf.index]
	c := newChunkReader(leaf, &f.meta.RowGroups[group].Columns[leaf.index].MetaData, d.data)
	c.pages = d.pages
	return c
}
