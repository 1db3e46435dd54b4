package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/format"
)

const magic = "PAR1"

// FooterGuess is how many bytes of a file's end are read first: one read gets most
// footers whole.
const FooterGuess = 64 << 10

// readFooter reads and checks the metadata at the end of a file: every offset
// and count in what it returns lies within the file. guess is how many bytes are
// read first; tail is the end of the file as far as it was read.
func readFooter(r io.ReaderAt, size, guess int64) (meta *format.FileMetaData, root *node, tail []byte, err error) {
	if size < 12 {
		return nil, nil, nil, corrupt("%d bytes are too few", size)
	}
	tail = make([]byte, min(size, max(guess, 8)))
	if err := readFull(r, tail, size-int64(len(tail))); err != nil {
		return nil, nil, nil, fmt.Errorf("read the footer: %w", err)
	}
	end := tail[len(tail)-8:]
	if string(end[4:]) == "PARE" {
		return nil, nil, nil, fmt.Errorf("%w: its footer is encrypted", ErrUnsupported)
	}
	if string(end[4:]) != magic {
		return nil, nil, nil, corrupt("it does not end in %s", magic)
	}
	length := int64(binary.LittleEndian.Uint32(end))
	if length > size-12 {
		return nil, nil, nil, corrupt("a footer of %d bytes in a file of %d", length, size)
	}
	if length+8 > int64(len(tail)) {
		tail = make([]byte, length+8)
		if err := readFull(r, tail, size-length-8); err != nil {
			return nil, nil, nil, fmt.Errorf("read the footer: %w", err)
		}
	}
	meta = new(format.FileMetaData)
	if _, err := decodeThrift(tail[int64(len(tail))-8-length:len(tail)-8], meta); err != nil {
		return nil, nil, nil, err
	}
	root, leaves, err := buildTree(meta.Schema)
	if err != nil {
		return nil, nil, nil, err
	}
	return meta, root, tail, checkFooter(meta, leaves, size)
}

// maxDensity is how many rows a byte of a file can stand for. Columns of one value
// come to some thousands; a file that says more would keep its reader busy for ever.
const maxDensity = 1 << 17

func checkFooter(meta *format.FileMetaData, leaves []*node, size int64) error {
	var rows int64
	for i := range meta.RowGroups {
		g := &meta.RowGroups[i]
		if g.NumRows < 0 || rows+g.NumRows < rows {
			return corrupt("row group %d of %d rows", i, g.NumRows)
		}
		rows += g.NumRows
		if len(g.Columns) != len(leaves) {
			return corrupt("row group %d has %d columns, the schema %d", i, len(g.Columns), len(leaves))
		}
		for c, leaf := range leaves {
			chunk := &g.Columns[c]
			if chunk.FilePath != "" {
				return fmt.Errorf("%w: column %q lies in another file", ErrUnsupported, leaf.name)
			}
			if err := checkChunk(&chunk.MetaData, leaf, g.NumRows, size); err != nil {
				return fmt.Errorf("row group %d column %q: %w", i, leaf.name, err)
			}
			dropIndexes(chunk, size)
		}
	}
	if rows != meta.NumRows {
		return corrupt("%d rows in all, %d in its row groups", meta.NumRows, rows)
	}
	if rows/maxDensity > size {
		return corrupt("%d rows in %d bytes", rows, size)
	}
	return nil
}

// dropIndexes forgets page indexes that lie outside of the file: one can read without.
func dropIndexes(chunk *format.ColumnChunk, size int64) {
	if o, n := chunk.ColumnIndexOffset, int64(chunk.ColumnIndexLength); o < 0 || n < 0 || o > size-n {
		chunk.ColumnIndexOffset, chunk.ColumnIndexLength = 0, 0
	}
	if o, n := chunk.OffsetIndexOffset, int64(chunk.OffsetIndexLength); o < 0 || n < 0 || o > size-n {
		chunk.OffsetIndexOffset, chunk.OffsetIndexLength = 0, 0
	}
}

func checkChunk(m *format.ColumnMetaData, leaf *node, rows, size int64) error {
	if m.Type != leaf.physical {
		return corrupt("data is %s, the schema says %s", m.Type, leaf.physical)
	}
	if m.NumValues < rows && leaf.maxRep == 0 || m.NumValues < 0 || leaf.maxRep == 0 && m.NumValues != rows {
		return corrupt("%d values in %d rows", m.NumValues, rows)
	}
	start, length := chunkRange(m)
	if start < 0 || length < 0 || start > size-length {
		return corrupt("%d bytes at %d in a file of %d", length, start, size)
	}
	return nil
}

// chunkRange gives where a column chunk lies. Old writers gave a dictionary
// offset of 0 or one behind the data for "none".
func chunkRange(m *format.ColumnMetaData) (start, length int64) {
	start = m.DataPageOffset
	if d := m.DictionaryPageOffset; d > 0 && d < start {
		start = d
	}
	return start, m.TotalCompressedSize
}

func readFull(r io.ReaderAt, p []byte, offset int64) error {
	n, err := r.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
