package upsert

import "math/bits"

// sipHash is SipHash-1-3 with 128 bits of output: a keyed hash, so nobody who does
// not know the key can make two keys of a table that have one hash.
func sipHash(k0, k1 uint64, data string) (uint64, uint64) {
	v0, v1 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d^0xee
	v2, v3 := k0^0x6c7967656e657261, k1^0x7465646279746573
	last := uint64(len(data)) << 56
	for ; len(data) >= 8; data = data[8:] {
		m := littleEndian(data)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	for i := len(data) - 1; i >= 0; i-- {
		last |= uint64(data[i]) << (8 * i)
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xee
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	first := v0 ^ v1 ^ v2 ^ v3
	v1 ^= 0xdd
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return first, v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32) + v3
	v2 += v1
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}

// The compiler makes one load of these; a conversion to bytes would copy.

func littleEndian(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func bigEndian(s string) uint64 {
	_ = s[7]
	return uint64(s[7]) | uint64(s[6])<<8 | uint64(s[5])<<16 | uint64(s[4])<<24 | uint64(s[3])<<32 | uint64(s[2])<<40 | uint64(s[1])<<48 | uint64(s[0])<<56
}
