package parquet

import (
	"encoding/binary"
	"math/bits"
)

// The hybrid of run lengths and bit packing in which levels, dictionary
// indexes and booleans are written ("RLE" in the format's Encodings).

// decodeHybrid fills dst from runs of values of width bits (0..32). It
// allocates nothing, so no run can declare more than the caller asked for.
func decodeHybrid[T uint8 | int32](dst []T, src []byte, width uint) error {
	for len(dst) > 0 {
		header, n := binary.Uvarint(src)
		if n <= 0 {
			return corrupt("runs end %d values early", len(dst))
		}
		src = src[n:]
		if header&1 == 0 {
			size := int(width+7) / 8
			if len(src) < size {
				return corrupt("a run is cut off")
			}
			var value uint32
			for i := range size {
				value |= uint32(src[i]) << (8 * i)
			}
			src = src[size:]
			run := dst[:min(header>>1, uint64(len(dst)))]
			for i := range run {
				run[i] = T(value)
			}
			dst = dst[len(run):]
			continue
		}
		groups := min(header>>1, uint64(len(dst)+7)/8) // groups past the last value are padding
		run := dst[:min(int(groups)*8, len(dst))]
		if len(src)*8 < len(run)*int(width) {
			return corrupt("a packed run is cut off")
		}
		unpack(run, src, width)
		dst = dst[len(run):]
		src = src[min(int(groups)*int(width), len(src)):]
	}
	return nil
}

// unpack reads len(dst) values of width bits, lowest bits first. src must hold them.
func unpack[T uint8 | int32](dst []T, src []byte, width uint) {
	if width == 1 {
		for i := range dst {
			dst[i] = T(src[i>>3]>>(i&7)) & 1
		}
		return
	}
	mask := uint64(1)<<width - 1
	at := uint(0)
	for i := range dst {
		b := src[at>>3:]
		var word uint64
		if len(b) >= 8 {
			word = binary.LittleEndian.Uint64(b)
		} else {
			for k, x := range b {
				word |= uint64(x) << (8 * k)
			}
		}
		dst[i] = T(word >> (at & 7) & mask)
		at += width
	}
}

// appendHybrid writes values of width bits (1..32) as runs.
func appendHybrid[T uint8 | int32](dst []byte, src []T, width uint) []byte {
	// A run pays where it is as long as two packed groups.
	const pays = 16
	for i := 0; i < len(src); {
		if n := runLength(src[i:], len(src)); n >= pays || n == len(src)-i {
			dst = binary.AppendUvarint(dst, uint64(n)<<1)
			for b := uint(0); b < width; b += 8 {
				dst = append(dst, byte(uint32(src[i])>>b))
			}
			i += n
			continue
		}
		j := i
		for j < len(src) && (j == i || runLength(src[j:], pays) < pays) {
			j += 8
		}
		dst = binary.AppendUvarint(dst, uint64((j-i)/8)<<1|1)
		dst = pack(dst, src[i:min(j, len(src))], width)
		i = j
	}
	return dst
}

// runLength counts the values equal to the first, up to a limit.
func runLength[T uint8 | int32](src []T, limit int) int {
	n := 1
	for n < min(len(src), limit) && src[n] == src[0] {
		n++
	}
	return n
}

// pack appends values of width bits in groups of eight, the last one padded.
func pack[T uint8 | int32](dst []byte, src []T, width uint) []byte {
	var word uint64
	var held uint
	for i := range (len(src) + 7) &^ 7 {
		if i < len(src) {
			word |= uint64(uint32(src[i])) << held
		}
		for held += width; held >= 8; held -= 8 {
			dst = append(dst, byte(word))
			word >>= 8
		}
	}
	return dst
}

// bitWidth gives the bits that hold values up to the largest, at least one:
// some readers stumble over indexes of no bits.
func bitWidth(largest int) uint { return uint(max(1, bits.Len(uint(largest)))) }
