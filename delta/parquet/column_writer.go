package parquet

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A page is cut at the first of these, if not told otherwise. Larger pages compress no better, and a
// single row costs the decoding of its pages.
const (
	pageRows  = 4096
	pageBytes = 512 << 10
)

// columnWriter makes the pages of one leaf column, a row group at a time. It
// is reused over row groups and files.
type columnWriter struct {
	typ            schema.Type
	element        *format.SchemaElement
	path           []string
	physical       format.Type
	width          int // bytes of a value; 0 for byte arrays and booleans
	maxRep, maxDef uint8
	wantBounds     bool
	codec          Codec
	pageRows       int
	byDelta        bool // 64-bit integers that a dictionary does not pay for are DELTA_BINARY_PACKED
	tries          bool // of the first page without a dictionary it is tried whether differences are smaller

	// The page being filled. def stays empty while no value is NULL; then it
	// has one level a value.
	n, rows, nulls int
	rep, def       []uint8
	plain          []byte
	deltas         []int64 // in the place of plain
	strings        deltaStrings
	ids            []int32
	bits           int // booleans in plain
	byIndex        bool
	pageBounds     bounds

	// The chunk.
	dict        dictionary
	out         []byte // data pages, headers included
	pages       []writtenPage
	values      int64
	full        int64 // uncompressed bytes of the pages, headers included
	chunkNulls  int64
	chunkBounds bounds
	doneRows    int64
	retire      bool // the dictionary is full: the page is the last by index
	form        form // of the pages without a dictionary
	body        []byte
	packed      []byte

	// The file.
	fileNulls  int64
	fileBounds bounds
}

// form says how pages without a dictionary are written.
type form uint8

const (
	untried form = iota
	plainForm
	deltaForm // DELTA_BINARY_PACKED or DELTA_BYTE_ARRAY
)

type writtenPage struct {
	offset, size int // in out, header included
	firstRow     int64
	nulls        int64
	allNull      bool
	encoding     format.Encoding
	bounds       bool // low and high are known
	low, high    []byte
}

func newColumnWriter(e *format.SchemaElement, t schema.Type, path []string, maxRep, maxDef uint8, opts EncoderOptions, wantBounds bool) *columnWriter {
	w := &columnWriter{typ: t, element: e, path: path, physical: e.Type.V, maxRep: maxRep, maxDef: maxDef, codec: opts.Codec, pageRows: opts.PageRows, wantBounds: wantBounds}
	switch w.physical {
	case format.Int32, format.Float:
		w.width = 4
	case format.Int64, format.Double:
		w.width = 8
	case format.FixedLenByteArray:
		w.width = int(e.TypeLength.V)
	}
	w.byDelta = w.physical == format.Int64 && len(path) == 1 && slices.Contains(opts.DeltaColumns, path[0])
	w.tries = opts.TryDelta && !w.byDelta && (w.physical == format.Int64 || w.physical == format.ByteArray)
	return w
}

// startFile and startChunk begin anew.
func (w *columnWriter) startFile() {
	w.fileNulls, w.fileBounds = 0, bounds{}
	w.startChunk()
}

func (w *columnWriter) startChunk() {
	w.startPage()
	w.out, w.pages = w.out[:0], w.pages[:0]
	w.values, w.full, w.chunkNulls, w.chunkBounds = 0, 0, 0, bounds{}
	w.doneRows, w.retire, w.form = 0, false, plainForm
	if w.tries {
		w.form = untried
	}
	// Booleans are bits already, and wide decimals seldom repeat.
	w.byIndex = w.physical != format.Boolean && w.physical != format.FixedLenByteArray
	w.dict.reset()
}

func (w *columnWriter) startPage() {
	w.n, w.rows, w.nulls, w.bits = 0, 0, 0, 0
	w.rep, w.def, w.plain, w.deltas, w.ids = w.rep[:0], w.def[:0], w.plain[:0], w.deltas[:0], w.ids[:0]
	w.pageBounds = bounds{}
}

// null adds a value that is not there, at a definition level.
func (w *columnWriter) null(level uint8) {
	if w.nulls == 0 {
		w.fillLevels()
	}
	w.def = append(w.def, level)
	w.n++
	w.nulls++
}

// fillLevels writes out the levels of the values so far, none of them NULL.
func (w *columnWriter) fillLevels() {
	for len(w.def) < w.n {
		w.def = append(w.def, w.maxDef)
	}
}

func (w *columnWriter) present() {
	if w.nulls > 0 {
		w.def = append(w.def, w.maxDef)
	}
	w.n++
}

// int adds an INT32, INT64, FLOAT or DOUBLE value; key is what orders it.
func (w *columnWriter) int(v, key int64) {
	w.present()
	if w.byIndex {
		id := w.dict.int(v, w.width)
		w.ids = append(w.ids, id)
		if w.wantBounds && w.dict.page[id] != int32(len(w.pages)) {
			w.dict.page[id] = int32(len(w.pages))
			w.pageBounds.addInt(key)
		}
		w.reconsider()
		return
	}
	if w.wantBounds {
		w.pageBounds.addInt(key)
	}
	switch {
	case w.byDelta:
		w.deltas = append(w.deltas, v)
	case w.width == 4:
		w.plain = binary.LittleEndian.AppendUint32(w.plain, uint32(v))
	default:
		w.plain = binary.LittleEndian.AppendUint64(w.plain, uint64(v))
	}
}

func (w *columnWriter) bool(v int64) {
	w.present()
	if w.bits&7 == 0 {
		w.plain = append(w.plain, 0)
	}
	w.plain[w.bits>>3] |= byte(v&1) << (w.bits & 7)
	w.bits++
	if w.wantBounds {
		w.pageBounds.addInt(v)
	}
}

// text adds a string, checked as a value of a text column or of a binary one.
func (w *columnWriter) text(s string, text bool) error {
	if w.byIndex {
		if id, _ := w.dict.find(s); id >= 0 { // it was checked when it came in
			w.present()
			w.strID(id, s)
			return nil
		}
	}
	if err := checkString(s, text); err != nil {
		return err
	}
	w.str(s)
	return nil
}

func (w *columnWriter) strID(id int32, s string) {
	w.ids = append(w.ids, id)
	if w.wantBounds && w.dict.page[id] != int32(len(w.pages)) {
		w.dict.page[id] = int32(len(w.pages))
		w.pageBounds.addString(s)
	}
	w.reconsider()
}

// str adds a string that was checked.
func (w *columnWriter) str(s string) {
	w.present()
	if w.byIndex {
		id, at := w.dict.find(s)
		if id < 0 {
			id = w.dict.add(s, at)
		}
		w.strID(id, s)
		return
	}
	if w.wantBounds {
		w.pageBounds.addString(s)
	}
	w.plain = binary.LittleEndian.AppendUint32(w.plain, uint32(len(s)))
	w.plain = append(w.plain, s...)
}

func (w *columnWriter) wideDecimal(v schema.Value) {
	w.present()
	w.plain = appendPlain(w.plain, v, w.physical, w.width)
	if w.wantBounds {
		key := decimalKey(v)
		if b := &w.pageBounds; !b.has || string(key[:]) < b.minS || string(key[:]) > b.maxS {
			b.addString(string(key[:]))
		}
	}
}

// put adds a value of any type that fits the column.
func (w *columnWriter) put(v schema.Value) {
	switch w.physical {
	case format.Boolean:
		w.bool(v.I)
	case format.ByteArray:
		w.str(v.S)
	case format.FixedLenByteArray:
		w.wideDecimal(v)
	case format.Float:
		if v.Float32() != v.Float32() {
			w.pageBounds.nan = true
		}
		w.int(v.I, floatKey(int64(int32(v.I))))
	case format.Double:
		if v.Float64() != v.Float64() {
			w.pageBounds.nan = true
		}
		w.int(v.I, floatKey(v.I))
	default:
		i := v.I
		if v.S != "" { // a small decimal in its long form
			_, lo := v.Unscaled128()
			i = int64(lo)
		}
		w.int(i, i)
	}
}

// reconsider gives the dictionary up where most values differ, or it is full.
func (w *columnWriter) reconsider() {
	switch {
	case len(w.pages) == 0 && (len(w.ids) == dictionaryTrial && w.dict.len() > dictionaryTrial/2 || w.dict.full()):
		w.undoIndexes()
	case w.dict.full():
		w.retire = true // pages by index are out already
	}
}

// undoIndexes turns the page's indexes into plain values.
func (w *columnWriter) undoIndexes() {
	w.byIndex = false
	for _, id := range w.ids {
		switch {
		case w.physical == format.ByteArray:
			s := w.dict.strs[id]
			w.plain = binary.LittleEndian.AppendUint32(w.plain, uint32(len(s)))
			w.plain = append(w.plain, s...)
		case w.byDelta:
			w.deltas = append(w.deltas, w.dict.ints[id])
		case w.width == 4:
			w.plain = binary.LittleEndian.AppendUint32(w.plain, uint32(w.dict.ints[id]))
		default:
			w.plain = binary.LittleEndian.AppendUint64(w.plain, uint64(w.dict.ints[id]))
		}
	}
	w.ids = w.ids[:0]
}

// indexesPay compares the first page by index with plain.
func (w *columnWriter) indexesPay() bool {
	plain := len(w.ids) * w.width
	if w.physical == format.ByteArray {
		for _, id := range w.ids {
			plain += 4 + len(w.dict.strs[id])
		}
	}
	return w.dict.bytes+len(w.ids)*int(bitWidth(w.dict.len()-1))/8 < plain*3/4
}

// endRow counts a row and cuts the page where it is large enough.
func (w *columnWriter) endRow() {
	w.rows++
	if w.rows >= w.pageRows || len(w.plain) >= pageBytes || w.retire {
		w.flushPage()
	}
}

// flushPage writes the page out. Pages end at rows.
func (w *columnWriter) flushPage() {
	if w.n == 0 {
		return
	}
	if w.byIndex && len(w.pages) == 0 && !w.indexesPay() {
		w.undoIndexes()
	}
	encoding := format.Plain
	body := w.appendLevels(w.body[:0])
	levels := len(body)
	switch {
	case w.byIndex:
		encoding = format.RLEDictionary
		width := bitWidth(w.dict.len() - 1)
		body = append(body, byte(width))
		body = appendHybrid(body, w.ids, width)
	case w.byDelta:
		encoding = format.DeltaBinaryPacked
		body = appendDelta(body, w.deltas)
	case w.form == plainForm:
		body = append(body, w.plain...)
	default:
		if body = w.appendDifferences(body); w.form == untried && w.n > w.nulls {
			w.form = deltaForm
			if packed := w.compressedSize(body); w.compressedSize(w.plain)*deltaPays < packed*100 {
				w.form = plainForm
			}
		}
		if w.form == deltaForm {
			encoding = w.deltaEncoding()
		} else {
			body = append(body[:levels], w.plain...)
		}
	}
	w.body = body
	page := writtenPage{
		offset: len(w.out), firstRow: w.doneRows, encoding: encoding,
		nulls: int64(w.nulls), allNull: w.nulls == w.n,
	}
	if w.wantBounds {
		page.low, page.high, page.bounds = w.pageBounds.encode(w.typ, w.physical, w.width)
	}
	w.out = w.appendPage(w.out, body, format.PageHeader{
		Type: format.DataPage,
		DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: int32(w.n), Encoding: encoding,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
			Statistics: format.Statistics{NullCount: int64(w.nulls)}, // the encoder would write 0
		}),
	})
	page.size = len(w.out) - page.offset
	w.pages = append(w.pages, page)
	w.values += int64(w.n)
	w.doneRows += int64(w.rows)
	w.chunkNulls += int64(w.nulls)
	w.chunkBounds.merge(&w.pageBounds)
	if w.retire {
		w.byIndex, w.retire = false, false
	}
	w.startPage()
}

// deltaPays is what differences may take of the plain values' compressed size, in percent,
// to be taken in their place: they cost a reader more.
const deltaPays = 90

func (w *columnWriter) deltaEncoding() format.Encoding {
	if w.physical == format.Int64 {
		return format.DeltaBinaryPacked
	}
	return format.DeltaByteArray
}

// appendDifferences writes the plain values of the page by how they differ from those before.
func (w *columnWriter) appendDifferences(dst []byte) []byte {
	if w.physical == format.ByteArray {
		return w.strings.append(dst, w.plain)
	}
	w.deltas = w.deltas[:0]
	for at := 0; at < len(w.plain); at += 8 {
		w.deltas = append(w.deltas, int64(binary.LittleEndian.Uint64(w.plain[at:])))
	}
	return appendDelta(dst, w.deltas)
}

func (w *columnWriter) compressedSize(body []byte) int {
	w.packed = w.codec.compress(w.packed[:0], body)
	return len(w.packed)
}

// appendLevels appends the levels as data pages of version 1 have them.
func (w *columnWriter) appendLevels(dst []byte) []byte {
	section := func(levels []uint8, largest uint8) {
		at := len(dst)
		dst = appendHybrid(append(dst, 0, 0, 0, 0), levels, uint(bits.Len8(largest)))
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	if w.maxRep > 0 {
		section(w.rep, w.maxRep)
	}
	switch {
	case w.maxDef == 0:
	case w.nulls > 0:
		section(w.def, w.maxDef)
	default: // one run
		at := len(dst)
		dst = binary.AppendUvarint(append(dst, 0, 0, 0, 0), uint64(w.n)<<1)
		dst = append(dst, w.maxDef)
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	return dst
}

// appendPage compresses a page and appends its header and itself.
func (w *columnWriter) appendPage(dst, body []byte, h format.PageHeader) []byte {
	w.packed = w.codec.compress(w.packed[:0], body)
	h.UncompressedPageSize, h.CompressedPageSize = int32(len(body)), int32(len(w.packed))
	h.CRC = int32(crc32.ChecksumIEEE(w.packed))
	at := len(dst)
	dst = appendThrift(dst, &h)
	w.full += int64(len(dst) - at + len(body))
	return append(dst, w.packed...)
}

// dictionaryPage gives the chunk's dictionary page; nil where no page uses it.
func (w *columnWriter) dictionaryPage() []byte {
	if len(w.pages) == 0 || w.pages[0].encoding != format.RLEDictionary {
		return nil
	}
	body := w.body[:0]
	for _, s := range w.dict.strs {
		body = binary.LittleEndian.AppendUint32(body, uint32(len(s)))
		body = append(body, s...)
	}
	for _, v := range w.dict.ints {
		if w.width == 4 {
			body = binary.LittleEndian.AppendUint32(body, uint32(v))
		} else {
			body = binary.LittleEndian.AppendUint64(body, uint64(v))
		}
	}
	w.body = body
	return w.appendPage(nil, body, format.PageHeader{
		Type:                 format.DictionaryPage,
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: int32(w.dict.len()), Encoding: format.Plain}),
	})
}

// finishChunk ends the chunk: its dictionary page, to be written before w.out.
func (w *columnWriter) finishChunk() []byte {
	w.flushPage()
	w.fileNulls += w.chunkNulls
	w.fileBounds.merge(&w.chunkBounds)
	return w.dictionaryPage()
}
