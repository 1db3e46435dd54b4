package parquet

import (
	"errors"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The bodies of pages, past the checksum that guards them in a file.
func FuzzPage(f *testing.F) {
	add := func(physical, encoding int, n int, nested bool, dict, body []byte) {
		f.Add(byte(physical), byte(encoding), uint16(n), nested, dict, body)
	}
	levels := []byte{2, 0, 0, 0, 6, 1}
	strs := []byte{1, 0, 0, 0, 'a', 2, 0, 0, 0, 'b', 'c', 0, 0, 0, 0}
	add(int(format.ByteArray), int(format.Plain), 3, false, nil, append(levels, strs...))
	add(int(format.ByteArray), int(format.RLEDictionary), 3, false, strs, append(levels, 2, 3, 0b00_10_01_00, 0))
	add(int(format.ByteArray), int(format.DeltaByteArray), 3, false, nil, append(levels, 0x80, 1, 4, 3, 0, 0, 0, 0, 0, 0))
	add(int(format.Int64), int(format.DeltaBinaryPacked), 3, false, nil, append(levels, 0x80, 1, 4, 3, 2, 2, 1, 0, 0, 0, 2, 0, 0, 0))
	add(int(format.Int32), int(format.ByteStreamSplit), 3, true, nil, append(append(levels, levels...), make([]byte, 12)...))
	add(int(format.Boolean), int(format.RLE), 3, false, nil, append(levels, 2, 0, 0, 0, 6, 1))
	add(int(format.FixedLenByteArray), int(format.Plain), 3, false, nil, append(levels, make([]byte, 15)...))
	add(int(format.Int96), int(format.Plain), 1, false, nil, append([]byte{2, 0, 0, 0, 2, 1}, make([]byte, 12)...))
	f.Fuzz(func(t *testing.T, physical, encoding byte, n uint16, nested bool, dict, body []byte) {
		leaf := &node{name: "c", leaf: true, physical: format.Type(physical & 7), width: 5, maxDef: 1, element: &format.SchemaElement{}}
		if nested {
			leaf.maxRep, leaf.maxDef = 2, 5
		}
		c := newChunkReader(leaf, &format.ColumnMetaData{NumValues: int64(n)}, nil)
		page := func(h format.PageHeader, body []byte) {
			h.UncompressedPageSize, h.CompressedPageSize = int32(len(body)), int32(len(body))
			c.data = append(appendThrift(c.data, &h), body...)
		}
		if dict != nil {
			page(format.PageHeader{Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: int32(n), Encoding: format.Plain})}, dict)
		}
		page(format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: int32(n), Encoding: format.Encoding(encoding % 10), DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
		})}, body)
		more, err := c.next()
		if err == nil && more {
			err = c.decode()
		}
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		p := &c.page
		if !p.byIndex && len(p.ints) != p.present && len(p.strs) != p.present && p.present > 0 || p.byIndex && len(p.ids) != p.present {
			t.Fatalf("%d ints, %d strings, %d indexes of %d values", len(p.ints), len(p.strs), len(p.ids), p.present)
		}
	})
}

// A small page must not decode to much more memory than its kind needs.
func TestBombs(t *testing.T) {
	for name, b := range map[string]struct {
		leaf node
		h    format.PageHeader
		body []byte
	}{
		"page larger than the chunk": {node{physical: format.Int32}, format.PageHeader{Type: format.DataPage, CompressedPageSize: 1 << 30, UncompressedPageSize: 1 << 30}, nil},
		"page that decompresses to a gigabyte": {node{physical: format.Int32}, format.PageHeader{
			Type: format.DataPage, UncompressedPageSize: 1<<31 - 1, DataPageHeader: thrift.New(format.DataPageHeader{NumValues: 1})}, []byte("x")},
		"more values than are left": {node{physical: format.Int32}, format.PageHeader{
			Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{NumValues: 1<<31 - 1})}, nil},
		"strings that repeat their prefix": {node{physical: format.ByteArray}, format.PageHeader{
			Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{NumValues: 1000, Encoding: format.DeltaByteArray})}, prefixBomb()},
	} {
		b.leaf.leaf, b.leaf.element = true, &format.SchemaElement{}
		if b.h.UncompressedPageSize == 0 {
			b.h.UncompressedPageSize, b.h.CompressedPageSize = int32(len(b.body)), int32(len(b.body))
		} else if b.h.CompressedPageSize == 0 {
			b.h.CompressedPageSize = int32(len(b.body))
		}
		c := newChunkReader(&b.leaf, &format.ColumnMetaData{NumValues: 1000}, append(appendThrift(nil, &b.h), b.body...))
		more, err := c.next()
		if err == nil && more {
			err = c.decode()
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A list of 2^31-1 structs in a footer of 20 bytes.
	var meta format.FileMetaData
	if _, err := decodeThrift([]byte{0x15, 2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0, 0, 0, 0}, &meta); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a list that is longer than its bytes: %v", err)
	}
}

// prefixBomb is 1000 strings, each 2 MB: the first, then its whole as a prefix.
func prefixBomb() []byte {
	const size = 2 << 20
	prefixes := make([]int64, 1000)
	suffixes := make([]int64, 1000)
	for i := 1; i < 1000; i++ {
		prefixes[i] = size
	}
	suffixes[0] = size
	return append(append(appendWideDelta(nil, prefixes), appendWideDelta(nil, suffixes)...), make([]byte, size)...)
}

// appendWideDelta writes DELTA_BINARY_PACKED with deltas of 64 bits.
func appendWideDelta(dst []byte, values []int64) []byte {
	varint := func(v uint64) {
		for ; v >= 0x80; v >>= 7 {
			dst = append(dst, byte(v)|0x80)
		}
		dst = append(dst, byte(v))
	}
	varint(128)
	varint(4)
	varint(uint64(len(values)))
	varint(uint64(values[0]<<1) ^ uint64(values[0]>>63))
	for i := 1; i < len(values); {
		varint(0)
		dst = append(dst, 64, 64, 64, 64)
		for slot := range 128 {
			if slot%32 == 0 && i == len(values) {
				break // miniblocks that are not needed have a width, and no body
			}
			d := int64(0)
			if i < len(values) {
				d = values[i] - values[i-1]
				i++
			}
			for b := range 8 {
				dst = append(dst, byte(uint64(d)>>(8*b)))
			}
		}
	}
	return dst
}
