package parquet

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go/format"
)

const (
	// maxPageValues and maxPageBytes bound one page. Writers stay far below:
	// 20,000 rows or a few MB are usual.
	maxPageValues = 1 << 25
	maxPageBytes  = 1 << 30
	// A page may decompress to so many bytes per byte, and to freeBytes in
	// any case: a highly regular page is small and honest.
	maxRatio  = 1 << 12
	freeBytes = 64 << 20
)

// values holds what the pages of a column are made of, without the NULLs.
// Exactly one of the slices is used.
type values struct {
	// ints: INT32 and INT64 as they are, BOOLEAN as 0 and 1, the bits of FLOAT
	// and DOUBLE, INT96 as microseconds since the epoch.
	ints []int64
	// strs: BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY, in memory that is not used again.
	strs []string
}

// page is one decoded data page.
type page struct {
	n        int     // values, NULLs included
	present  int     // values that are not NULL
	rep, def []uint8 // n levels each; nil where the column has none
	byIndex  bool    // ids into the chunk's dictionary instead of values
	ids      []int32
	values
}

// chunkReader walks the pages of one column chunk. Its page is valid until the
// next call of next; the strings in it stay.
type chunkReader struct {
	leaf   *node
	codec  format.CompressionCodec
	data   []byte // from the first byte of the chunk, or of one of its pages
	left   int64  // values that are still to come
	dict   values
	hasDic bool
	pages  []placedPage // where only some pages of the chunk are read; data holds no page then
	at     int          // of the next one of them
	rows   RowRange     // of the page among them that was found last

	header   format.PageHeader
	body     []byte // compressed
	scratch  []byte
	levels   []uint8
	page     page
	intsBuf  []int64
	strsBuf  []string
	dictSize int
}

func newChunkReader(leaf *node, m *format.ColumnMetaData, data []byte) *chunkReader {
	return &chunkReader{leaf: leaf, codec: m.Codec, data: data, left: m.NumValues}
}

// next reads the header of the next data page, and a dictionary before it.
// It returns false after the last one.
func (c *chunkReader) next() (more bool, err error) {
	defer catch(&err)
	for c.left > 0 {
		placed := c.pages != nil && len(c.data) == 0
		if placed {
			if c.at == len(c.pages) {
				return false, nil
			}
			c.data, c.rows = c.pages[c.at].data, c.pages[c.at].rows
			c.at++
		}
		if err := c.readHeader(); err != nil {
			return false, err
		}
		if placed && (len(c.data) > 0 || c.header.Type != format.DataPage && c.header.Type != format.DataPageV2) {
			return false, corrupt("its offset index names a place that no data page fills")
		}
		switch c.header.Type {
		case format.DictionaryPage:
			if err := c.readDictionary(); err != nil {
				return false, err
			}
			continue
		case format.DataPage:
			if !c.header.DataPageHeader.Valid {
				return false, corrupt("a data page without its header")
			}
			c.page.n = int(c.header.DataPageHeader.V.NumValues)
		case format.DataPageV2:
			if !c.header.DataPageHeaderV2.Valid {
				return false, corrupt("a data page without its header")
			}
			c.page.n = int(c.header.DataPageHeaderV2.V.NumValues)
		default:
			continue // index pages and what later versions add
		}
		if n := c.page.n; n < 0 || int64(n) > c.left || n > maxPageValues {
			return false, corrupt("a page of %d values where %d are left", n, c.left)
		}
		if placed && c.leaf.maxRep == 0 && int64(c.page.n) != c.rows.To-c.rows.From {
			return false, corrupt("a page of %d rows, %d by the offset index", c.page.n, c.rows.To-c.rows.From)
		}
		c.left -= int64(c.page.n)
		return true, nil
	}
	return false, nil
}

// seek goes to the page with a row of the row group, where only some pages are read:
// next finds it.
func (c *chunkReader) seek(row int64) error {
	for c.at > 0 && c.pages[c.at-1].rows.To > row {
		c.at--
	}
	for c.at < len(c.pages) && c.pages[c.at].rows.To <= row {
		c.at++
	}
	if c.at == len(c.pages) || c.pages[c.at].rows.From > row {
		return corrupt("row %d is in no page that was read", row)
	}
	return nil
}

// readHeader reads a page's header and takes its body off the data.
func (c *chunkReader) readHeader() error {
	c.header = format.PageHeader{}
	n, err := decodeThrift(c.data, &c.header)
	if err != nil {
		return err
	}
	size, full := int64(c.header.CompressedPageSize), int64(c.header.UncompressedPageSize)
	if size < 0 || size > int64(len(c.data)-n) {
		return corrupt("a page of %d bytes where %d are left", size, len(c.data)-n)
	}
	if full < 0 || full > maxPageBytes || full > max(freeBytes, size*maxRatio) {
		return corrupt("a page of %d bytes that decompresses to %d", size, full)
	}
	c.body = c.data[n : n+int(size)]
	c.data = c.data[n+int(size):]
	if c.header.CRC != 0 && crc32.ChecksumIEEE(c.body) != uint32(c.header.CRC) {
		return corrupt("a page's checksum differs")
	}
	return nil
}

// decompressed gives the page's bytes. Strings point into them, so pages of
// strings get memory of their own.
func (c *chunkReader) decompressed(src []byte, size int, owned bool) ([]byte, error) {
	if c.codec == format.Uncompressed {
		if len(src) != size {
			return nil, corrupt("an uncompressed page of %d bytes holds %d", size, len(src))
		}
		return src, nil
	}
	var dst []byte
	if owned {
		dst = make([]byte, size)
	} else {
		c.scratch = slices.Grow(c.scratch[:0], size)[:size]
		dst = c.scratch
	}
	return dst, decompress(c.codec, dst, src)
}

func (c *chunkReader) isStrings() bool { return c.leaf.physical >= format.ByteArray }

func (c *chunkReader) readDictionary() error {
	h := c.header.DictionaryPageHeader
	if !h.Valid || h.V.NumValues < 0 || h.V.NumValues > maxPageValues || c.hasDic {
		return corrupt("a dictionary page that is none")
	}
	if h.V.Encoding != format.Plain && h.V.Encoding != format.PlainDictionary {
		return corrupt("a dictionary encoded as %s", h.V.Encoding)
	}
	body, err := c.decompressed(c.body, int(c.header.UncompressedPageSize), c.isStrings())
	if err != nil {
		return err
	}
	c.hasDic, c.dictSize = true, int(h.V.NumValues)
	return c.decodePlain(&c.dict, body, c.dictSize)
}

// decode decodes the body of the page that next found.
func (c *chunkReader) decode() (err error) {
	defer catch(&err)
	var encoding format.Encoding
	var body []byte
	if c.header.Type == format.DataPage {
		encoding = c.header.DataPageHeader.V.Encoding
		body, err = c.levelsV1(encoding)
	} else {
		encoding = c.header.DataPageHeaderV2.V.Encoding
		body, err = c.levelsV2(encoding)
	}
	if err != nil {
		return err
	}
	p := &c.page
	p.present = p.n
	if c.pages != nil && p.rep != nil && (p.n > 0 && p.rep[0] != 0 || int64(count(p.rep, 0)) != c.rows.To-c.rows.From) {
		return corrupt("a page of %d rows, %d by the offset index", count(p.rep, 0), c.rows.To-c.rows.From)
	}
	if p.def != nil {
		p.present = count(p.def, c.leaf.maxDef)
	}
	p.byIndex = false
	if encoding == format.PlainDictionary || encoding == format.RLEDictionary {
		return c.decodeIndexes(body)
	}
	p.ints, p.strs = c.intsBuf, c.strsBuf
	err = c.decodeValues(&p.values, body, p.present, encoding)
	c.intsBuf, c.strsBuf = p.ints, p.strs
	return err
}

func count(levels []uint8, want uint8) int {
	n := 0
	for _, l := range levels {
		if l == want {
			n++
		}
	}
	return n
}

// ownsBody tells whether values of an encoding point into the page's bytes.
func (c *chunkReader) ownsBody(encoding format.Encoding) bool {
	return c.isStrings() && encoding != format.PlainDictionary && encoding != format.RLEDictionary && encoding != format.DeltaByteArray
}

func (c *chunkReader) levelsV1(encoding format.Encoding) ([]byte, error) {
	h := &c.header.DataPageHeader.V
	body, err := c.decompressed(c.body, int(c.header.UncompressedPageSize), c.ownsBody(encoding))
	if err != nil {
		return nil, err
	}
	c.startLevels()
	take := func(maxLevel uint8, encoding format.Encoding) ([]byte, error) {
		if maxLevel == 0 {
			return nil, nil
		}
		if encoding != format.RLE {
			return nil, corrupt("levels encoded as %s", encoding)
		}
		if len(body) < 4 {
			return nil, corrupt("levels are cut off")
		}
		size := int64(binary.LittleEndian.Uint32(body))
		if size > int64(len(body)-4) {
			return nil, corrupt("levels of %d bytes in %d", size, len(body)-4)
		}
		src := body[4 : 4+size]
		body = body[4+size:]
		return src, nil
	}
	rep, err := take(c.leaf.maxRep, h.RepetitionLevelEncoding)
	if err != nil {
		return nil, err
	}
	def, err := take(c.leaf.maxDef, h.DefinitionLevelEncoding)
	if err != nil {
		return nil, err
	}
	return body, c.setLevels(rep, def)
}

func (c *chunkReader) levelsV2(encoding format.Encoding) ([]byte, error) {
	h := &c.header.DataPageHeaderV2.V
	rep, def := int64(h.RepetitionLevelsByteLength), int64(h.DefinitionLevelsByteLength)
	if rep < 0 || def < 0 || rep+def > int64(len(c.body)) {
		return nil, corrupt("levels of %d bytes in %d", rep+def, len(c.body))
	}
	c.startLevels()
	if err := c.setLevels(c.body[:rep], c.body[rep:rep+def]); err != nil {
		return nil, err
	}
	body, size := c.body[rep+def:], int(int64(c.header.UncompressedPageSize)-rep-def)
	if size < 0 {
		return nil, corrupt("levels of %d bytes in a page of %d", rep+def, c.header.UncompressedPageSize)
	}
	if h.IsCompressed.Valid && !h.IsCompressed.V || len(body) == 0 {
		return body, nil
	}
	return c.decompressed(body, size, c.ownsBody(encoding))
}

func (c *chunkReader) startLevels() {
	c.levels = slices.Grow(c.levels[:0], 2*c.page.n)
}

// setLevels decodes the levels of a page. Where every value is there, as one run says,
// the levels of definition say nothing and are left out.
func (c *chunkReader) setLevels(rep, def []byte) (err error) {
	c.page.rep, c.page.def = nil, nil
	if c.leaf.maxRep > 0 {
		if c.page.rep, err = c.decodeLevels(rep, c.leaf.maxRep); err != nil {
			return err
		}
	}
	if c.leaf.maxDef > 0 && !isOneRun(def, c.page.n, c.leaf.maxDef) {
		c.page.def, err = c.decodeLevels(def, c.leaf.maxDef)
	}
	return err
}

// isOneRun tells that so many levels are written as one run of the same one.
func isOneRun(src []byte, n int, level uint8) bool {
	header, size := binary.Uvarint(src)
	return size > 0 && header&1 == 0 && header>>1 >= uint64(n) && len(src) > size && src[size] == level
}

func (c *chunkReader) decodeLevels(src []byte, maxLevel uint8) ([]uint8, error) {
	at := len(c.levels)
	c.levels = c.levels[:at+c.page.n]
	levels := c.levels[at:]
	if err := decodeHybrid(levels, src, uint(bits.Len8(maxLevel))); err != nil {
		return nil, err
	}
	for _, l := range levels {
		if l > maxLevel {
			return nil, corrupt("level %d of %d", l, maxLevel)
		}
	}
	return levels, nil
}
