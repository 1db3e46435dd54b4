package parquet

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The DELTA encodings, which other writers use. All of them check what they
// are about to build before they build it.

// decodeDelta reads DELTA_BINARY_PACKED: exactly n values, wrapping around at
// the width of the type. It returns the bytes behind them.
func decodeDelta(dst []int64, src []byte, n int, is32 bool) ([]int64, []byte, error) {
	r := deltaReader{src: src}
	blockSize, miniBlocks, total := r.uvarint(), r.uvarint(), r.uvarint()
	value := r.varint()
	if r.bad || total != uint64(n) || blockSize == 0 || blockSize > 1<<20 || blockSize%128 != 0 ||
		miniBlocks == 0 || miniBlocks > blockSize || blockSize%miniBlocks != 0 || blockSize/miniBlocks%32 != 0 {
		return nil, nil, corrupt("delta header of %d values, want %d", total, n)
	}
	perMini := int(blockSize / miniBlocks)
	dst = dst[:0]
	if n > 0 {
		dst = append(dst, wrap(value, is32))
	}
	for len(dst) < n {
		minDelta := r.varint()
		widths := r.take(int(miniBlocks))
		if r.bad {
			return nil, nil, corrupt("a delta block is cut off")
		}
		for _, w := range widths {
			if len(dst) == n {
				break
			}
			if w > 64 {
				return nil, nil, corrupt("deltas of %d bits", w)
			}
			packed := r.src
			// The last miniblock may come without its padding.
			r.src = r.src[min(perMini*int(w)/8, len(r.src)):]
			count := min(perMini, n-len(dst))
			if len(packed)*8 < count*int(w) {
				return nil, nil, corrupt("deltas are cut off")
			}
			for i := range count {
				value += minDelta + int64(bitsAt(packed, uint(i)*uint(w), uint(w)))
				dst = append(dst, wrap(value, is32))
			}
		}
	}
	return dst, r.src, nil
}

func wrap(v int64, is32 bool) int64 {
	if is32 {
		return int64(int32(v))
	}
	return v
}

// bitsAt reads width bits (0..64) at a bit offset; b must hold them.
func bitsAt(b []byte, at, width uint) uint64 {
	if width == 0 {
		return 0
	}
	first, shift := at>>3, at&7
	var word uint64
	if int(first)+8 <= len(b) {
		word = binary.LittleEndian.Uint64(b[first:])
	} else {
		for k, x := range b[first:] {
			word |= uint64(x) << (8 * k)
		}
	}
	word >>= shift
	if shift+width > 64 {
		word |= uint64(b[first+8]) << (64 - shift)
	}
	if width < 64 {
		word &= 1<<width - 1
	}
	return word
}

type deltaReader struct {
	src []byte
	bad bool
}

func (r *deltaReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.src)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *deltaReader) varint() int64 {
	v, n := binary.Varint(r.src)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *deltaReader) take(n int) []byte {
	if n > len(r.src) {
		r.bad = true
		return nil
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

// The shape of the blocks that are written, which parquet-mr's have too.
const (
	deltaBlock = 128
	deltaMini  = 32
)

// appendDelta writes 64-bit integers as DELTA_BINARY_PACKED.
func appendDelta(dst []byte, values []int64) []byte {
	dst = binary.AppendUvarint(dst, deltaBlock)
	dst = binary.AppendUvarint(dst, deltaBlock/deltaMini)
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	if len(values) == 0 {
		return binary.AppendVarint(dst, 0)
	}
	last := values[0]
	dst = binary.AppendVarint(dst, last)
	var deltas [deltaBlock]int64
	for values = values[1:]; len(values) > 0; {
		n := min(deltaBlock, len(values))
		least := int64(math.MaxInt64)
		for i, v := range values[:n] {
			deltas[i] = v - last // wraps around, as the reader does
			least = min(least, deltas[i])
			last = v
		}
		clear(deltas[n:])
		dst = binary.AppendVarint(dst, least)
		widths := len(dst)
		dst = append(dst, make([]byte, deltaBlock/deltaMini)...) // a miniblock without values has no bits
		for at := 0; at < n; at += deltaMini {
			mini := deltas[at : at+deltaMini]
			var all uint64
			for i := range mini {
				if at+i < n {
					mini[i] -= least
				}
				all |= uint64(mini[i])
			}
			width := uint(bits.Len64(all))
			dst[widths+at/deltaMini] = byte(width)
			dst = packLong(dst, mini, width)
		}
		values = values[n:]
	}
	return dst
}

// packLong appends values of width bits (0..64), lowest bits first; their number is a
// multiple of eight.
func packLong(dst []byte, values []int64, width uint) []byte {
	if width == 0 {
		return dst
	}
	var word uint64
	held := uint(0)
	for _, v := range values {
		word |= uint64(v) << held
		if held += width; held >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, word)
			held -= 64
			word = uint64(v) >> (width - held) // a shift by all 64 bits gives 0
		}
	}
	for ; held > 0; held -= 8 {
		dst = append(dst, byte(word))
		word >>= 8
	}
	return dst
}

// deltaStrings is memory to write one page after the other in.
type deltaStrings struct {
	prefixes, lengths []int64
	suffixes          []byte
}

// append writes strings, given as PLAIN has them, as DELTA_BYTE_ARRAY.
func (d *deltaStrings) append(dst, plain []byte) []byte {
	d.prefixes, d.lengths, d.suffixes = d.prefixes[:0], d.lengths[:0], d.suffixes[:0]
	var last []byte
	for len(plain) > 0 {
		n := binary.LittleEndian.Uint32(plain)
		s := plain[4 : 4+n]
		plain = plain[4+n:]
		same := 0
		for same < len(s) && same < len(last) && s[same] == last[same] {
			same++
		}
		d.prefixes, d.lengths = append(d.prefixes, int64(same)), append(d.lengths, int64(len(s)-same))
		d.suffixes = append(d.suffixes, s[same:]...)
		last = s
	}
	return append(appendDelta(appendDelta(dst, d.prefixes), d.lengths), d.suffixes...)
}

// decodeDeltaLength reads DELTA_LENGTH_BYTE_ARRAY. The strings share src.
func decodeDeltaLength(dst []string, src []byte, n int) ([]string, error) {
	lengths, rest, err := decodeDelta(nil, src, n, true)
	if err != nil {
		return nil, err
	}
	dst = dst[:0]
	for _, l := range lengths {
		if l < 0 || l > int64(len(rest)) {
			return nil, corrupt("a string of %d bytes in %d", l, len(rest))
		}
		dst = append(dst, view(rest[:l]))
		rest = rest[l:]
	}
	return dst, nil
}

// decodeDeltaStrings reads DELTA_BYTE_ARRAY. The strings are in memory of
// their own; all together may not be larger than the largest page.
func decodeDeltaStrings(dst []string, src []byte, n int) ([]string, error) {
	prefixes, rest, err := decodeDelta(nil, src, n, true)
	if err != nil {
		return nil, err
	}
	suffixes, err := decodeDeltaLength(nil, rest, n)
	if err != nil {
		return nil, err
	}
	total, last := int64(0), int64(0)
	for i, p := range prefixes {
		if p < 0 || p > last {
			return nil, corrupt("a prefix of %d bytes of a string of %d", p, last)
		}
		last = p + int64(len(suffixes[i]))
		if total += last; total > maxPageBytes {
			return nil, corrupt("a page of more than %d bytes of strings", int64(maxPageBytes))
		}
	}
	buf := make([]byte, 0, total)
	dst = dst[:0]
	from := 0
	for i, p := range prefixes {
		at := len(buf)
		buf = append(append(buf, buf[from:from+int(p)]...), suffixes[i]...)
		dst = append(dst, view(buf[at:]))
		from = at
	}
	return dst, nil
}
