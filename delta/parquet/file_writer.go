package parquet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"maps"
	"slices"

	"github.com/gscd-io/gscd/delta/selfsum"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// createdBy follows the form that parquet-mr parses: readers built on it
// ignore the statistics of strings where they can't.
const createdBy = "gscd version 1.0.0 (build gscd)"

// maxKeptPages bounds the memory for the pages of a column that is kept for the next row group.
const maxKeptPages = 16 << 20

// fileWriter puts the chunks of column writers together into a file.
type fileWriter struct {
	to            io.Writer // nil: all goes to buf
	err           error     // the first of to
	size          int64     // of the file so far
	sum           hash.Hash // of the file so far
	buf           []byte
	meta          format.FileMetaData
	columnIndexes [][]format.ColumnIndex // a row group, a column; no pages where there is none
	offsetIndexes [][]format.OffsetIndex
}

func newFileWriter(elements []format.SchemaElement, to io.Writer) *fileWriter {
	f := &fileWriter{to: to, sum: sha256.New()}
	f.put([]byte(magic))
	f.meta = format.FileMetaData{Version: 1, Schema: elements, CreatedBy: createdBy, RowGroups: []format.RowGroup{}}
	return f
}

// put adds bytes to the file. What fails is told by err.
func (f *fileWriter) put(data []byte) {
	f.size += int64(len(data))
	f.sum.Write(data)
	if f.to == nil {
		f.buf = append(f.buf, data...)
	} else if f.err == nil && len(data) > 0 {
		_, f.err = f.to.Write(data)
	}
}

// addRowGroup ends the writers' chunks and writes them out.
func (f *fileWriter) addRowGroup(columns []*columnWriter, rows int) {
	g := format.RowGroup{NumRows: int64(rows), FileOffset: f.size, Ordinal: int16(len(f.meta.RowGroups))}
	dictionaries := make([][]byte, len(columns))
	size := 512 + 256*len(columns) // what follows is the metadata
	for i, w := range columns {
		dictionaries[i] = w.finishChunk()
		size += len(dictionaries[i]) + len(w.out)
	}
	if f.to == nil {
		f.buf = slices.Grow(f.buf, size)
	}
	columnIndexes := make([]format.ColumnIndex, len(columns))
	offsetIndexes := make([]format.OffsetIndex, len(columns))
	for i, w := range columns {
		start := f.size
		f.put(dictionaries[i])
		first := f.size
		f.put(w.out)
		if cap(w.out) > maxKeptPages {
			w.out = nil // the file has them now
		}
		m := w.metadata(first)
		if len(dictionaries[i]) > 0 {
			m.DictionaryPageOffset = start
		}
		m.TotalCompressedSize = f.size - start
		g.Columns = append(g.Columns, format.ColumnChunk{FileOffset: start, MetaData: m})
		g.TotalByteSize += m.TotalUncompressedSize
		g.TotalCompressedSize += m.TotalCompressedSize
		columnIndexes[i], offsetIndexes[i] = w.indexes(first)
	}
	f.meta.NumRows += g.NumRows
	f.meta.RowGroups = append(f.meta.RowGroups, g)
	f.columnIndexes = append(f.columnIndexes, columnIndexes)
	f.offsetIndexes = append(f.offsetIndexes, offsetIndexes)
}

// metadata describes the chunk whose data pages begin at an offset of the file.
func (w *columnWriter) metadata(first int64) format.ColumnMetaData {
	m := format.ColumnMetaData{
		Type: w.physical, Codec: w.codec.format(), PathInSchema: w.path, NumValues: w.values,
		DataPageOffset: first, TotalUncompressedSize: w.full,
		Encoding:   []format.Encoding{format.Plain, format.RLE},
		Statistics: format.Statistics{NullCount: w.chunkNulls},
	}
	var pages [format.ByteStreamSplit + 1]int32 // by encoding
	for _, p := range w.pages {
		pages[p.encoding]++
	}
	if n := pages[format.RLEDictionary]; n > 0 {
		m.EncodingStats = append(m.EncodingStats, format.PageEncodingStats{PageType: format.DictionaryPage, Encoding: format.Plain, Count: 1})
	}
	for _, encoding := range []format.Encoding{format.RLEDictionary, format.Plain, format.DeltaBinaryPacked, format.DeltaByteArray} {
		if pages[encoding] == 0 {
			continue
		}
		if encoding != format.Plain { // which is there already
			m.Encoding = append(m.Encoding, encoding)
		}
		m.EncodingStats = append(m.EncodingStats, format.PageEncodingStats{PageType: format.DataPage, Encoding: encoding, Count: pages[encoding]})
	}
	if low, high, ok := w.chunkBounds.encode(w.typ, w.physical, w.width); ok {
		m.Statistics.MinValue, m.Statistics.MaxValue = low, high
	}
	return m
}

// indexes gives the page index. The column index is left out (no pages) where
// the bounds of any page are not known: a reader believes what stands in it.
func (w *columnWriter) indexes(first int64) (c format.ColumnIndex, o format.OffsetIndex) {
	complete := w.wantBounds
	for _, p := range w.pages {
		o.PageLocations = append(o.PageLocations, format.PageLocation{
			Offset: first + int64(p.offset), CompressedPageSize: int32(p.size), FirstRowIndex: p.firstRow,
		})
		complete = complete && (p.bounds || p.allNull)
	}
	if !complete {
		return c, o
	}
	for _, p := range w.pages {
		c.NullPages = append(c.NullPages, p.allNull)
		c.MinValues = append(c.MinValues, p.low)
		c.MaxValues = append(c.MaxValues, p.high)
		c.NullCounts = append(c.NullCounts, p.nulls)
	}
	return c, o
}

// finish writes the indexes and the footer, with entries of its own. Without a writer to
// go to, the bytes of the file are in buf then.
func (f *fileWriter) finish(keyValue map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(keyValue)) {
		if k != selfsum.ParquetKey {
			f.meta.KeyValueMetadata = append(f.meta.KeyValueMetadata, format.KeyValue{Key: k, Value: keyValue[k]})
		}
	}
	f.meta.KeyValueMetadata = append(f.meta.KeyValueMetadata, format.KeyValue{Key: selfsum.ParquetKey, Value: selfsum.Zeros})
	var tail []byte
	add := func(v any) (offset int64, length int32) {
		at := len(tail)
		tail = appendThrift(tail, v)
		return f.size + int64(at), int32(len(tail) - at)
	}
	for g := range f.columnIndexes {
		for i := range f.columnIndexes[g] {
			if x := &f.columnIndexes[g][i]; len(x.NullPages) > 0 {
				chunk := &f.meta.RowGroups[g].Columns[i]
				chunk.ColumnIndexOffset, chunk.ColumnIndexLength = add(x)
			}
		}
	}
	for g := range f.offsetIndexes {
		for i := range f.offsetIndexes[g] {
			if x := &f.offsetIndexes[g][i]; len(x.PageLocations) > 0 {
				chunk := &f.meta.RowGroups[g].Columns[i]
				chunk.OffsetIndexOffset, chunk.OffsetIndexLength = add(x)
			}
		}
	}
	for _, e := range f.meta.Schema {
		if e.Type.Valid {
			f.meta.ColumnOrders = append(f.meta.ColumnOrders, format.ColumnOrder{Value: &format.TypeDefinedOrder{}})
		}
	}
	_, n := add(&f.meta)
	tail = append(tail, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	tail = append(tail, magic...)
	f.sum.Write(tail)
	hex.Encode(tail[selfsum.Parquet.Place(tail):], f.sum.Sum(nil))
	f.put(tail)
	return f.err
}

// appendThrift appends a struct of the format in the compact protocol.
func appendThrift(dst []byte, v any) []byte {
	var protocol thrift.CompactProtocol
	buf := bytes.NewBuffer(dst)
	if err := thrift.NewEncoder(protocol.NewWriter(buf)).Encode(v); err != nil {
		panic("parquet: " + err.Error()) // a buffer takes all, and the types are the format's own
	}
	return buf.Bytes()
}
