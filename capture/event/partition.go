package event

import "encoding/binary"

// Partition gives the partition of a record's key among n, as Kafka's own producers
// do by default: murmur2 of the key, its sign taken away, modulo n. It stays the same
// for as long as n does.
func Partition(key []byte, n int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % n
}

func murmur2(b []byte) uint32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>24) * m
		h = h*m ^ k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
