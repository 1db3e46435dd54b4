package parquet

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/format"
)

// File is an open Parquet file: its footer is read and checked, nothing else.
// It is safe for concurrent use where its reader is.
type File struct {
	r    io.ReaderAt
	data []byte // the whole file, where it was opened from bytes
	size int64
	meta *format.FileMetaData
	root *node

	mu      sync.Mutex
	tail    []byte // the end of the file, as far as it was read; nothing where data is
	offsets map[*format.ColumnChunk][]format.PageLocation
}

// FileColumn describes a top-level column of a file.
type FileColumn struct {
	Name string
	// FieldID is 0 where the file gives none.
	FieldID int32
	// Nested is set for structs, lists and maps.
	Nested bool
	// Physical describes how a leaf is stored: "INT32 DECIMAL(9,2)".
	Physical string
}

// Open reads the footer of a file of a size (bytes) with one or two reads. The
// error wraps ErrCorrupt or ErrUnsupported, or is the reader's.
func Open(r io.ReaderAt, size int64) (*File, error) { return OpenTail(r, size, FooterGuess) }

// OpenTail is Open whose first read is of the last bytes of the file, as many as
// tail says.
func OpenTail(r io.ReaderAt, size, tail int64) (*File, error) {
	meta, root, end, err := readFooter(r, size, tail)
	if err != nil {
		return nil, err
	}
	return &File{r: r, size: size, meta: meta, root: root, tail: end, offsets: map[*format.ColumnChunk][]format.PageLocation{}}, nil
}

// OpenBytes opens a file in memory. The bytes must not change while the file
// or values read from it are in use.
func OpenBytes(data []byte) (*File, error) {
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	f.data, f.tail = data, nil
	return f, nil
}

// NumRows gives the rows of the file.
func (f *File) NumRows() int64 { return f.meta.NumRows }

// Columns gives the top-level columns in order.
func (f *File) Columns() []FileColumn {
	columns := make([]FileColumn, len(f.root.children))
	for i, n := range f.root.children {
		columns[i] = n.describe()
	}
	return columns
}

func (n *node) describe() FileColumn {
	return FileColumn{Name: n.name, FieldID: n.element.FieldID, Nested: !n.leaf || n.repetition == format.Repeated, Physical: n.String()}
}

// KeyValue gives the footer's key-value pairs; of keys that repeat, the last.
func (f *File) KeyValue() map[string]string {
	kv := make(map[string]string, len(f.meta.KeyValueMetadata))
	for _, p := range f.meta.KeyValueMetadata {
		kv[p.Key] = p.Value
	}
	return kv
}

// NumRowGroups gives the number of row groups.
func (f *File) NumRowGroups() int { return len(f.meta.RowGroups) }

// RowGroupRows gives the rows of one row group.
func (f *File) RowGroupRows(i int) int64 { return f.meta.RowGroups[i].NumRows }

// RowGroupBytes gives the bytes of one row group: as it is stored, and before compression.
func (f *File) RowGroupBytes(i int) (stored, plain int64) {
	g := &f.meta.RowGroups[i]
	for c := range g.Columns {
		stored += g.Columns[c].MetaData.TotalCompressedSize
		plain += g.Columns[c].MetaData.TotalUncompressedSize
	}
	return stored, plain
}

// Find finds the column of the file that a column asked for is read from.
func (f *File) Find(c Column) (FileColumn, bool) {
	n := f.root.find(c.Name, c.FieldID)
	if n == nil {
		return FileColumn{}, false
	}
	return n.describe(), true
}

// bind finds the columns asked for and how to read them.
func (f *File) bind(columns []Column) ([]boundColumn, error) {
	bound := make([]boundColumn, len(columns))
	for i, c := range columns {
		n := f.root.find(c.Name, c.FieldID)
		if n == nil && c.FieldID != 0 && !f.root.hasIDs() {
			return nil, fmt.Errorf("%w: its columns have no field ids, and %q is asked for by id %d", ErrUnsupported, c.Name, c.FieldID)
		}
		if n == nil || c.Type.Primitive == schema.Void || n.firstLeaf() == nil {
			continue
		}
		var err error
		if bound[i].node = n; c.Type.Nested != nil || c.Type.Primitive == schema.Variant {
			bound[i].nested, err = planNested(n, c.Type)
		} else {
			bound[i].converter, err = converterOf(n, c.Type)
		}
		if err != nil {
			return nil, err
		}
	}
	return bound, nil
}

// boundColumn is a column asked for; node is nil where the file has none. A
// nested one has a plan instead of a converter.
type boundColumn struct {
	node   *node
	nested *nestedPlan
	converter
}

// leaves gives the leaves that the column is read from.
func (b *boundColumn) leaves() []*node {
	switch {
	case b.node == nil:
		return nil
	case b.nested != nil:
		return b.nested.leaves
	}
	return []*node{b.node}
}

// span reads bytes of the file that the footer vouched for.
func (f *File) span(offset, length int64) ([]byte, error) {
	if f.data != nil {
		return f.data[offset : offset+length : offset+length], nil
	}
	buf := make([]byte, length)
	if err := readFull(f.r, buf, offset); err != nil {
		return nil, err
	}
	return buf, nil
}
