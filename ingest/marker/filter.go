package marker

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// filter tells most keys that a set does not have without a look at it, whose markers are large
// and lie apart: nearly every change asks for a key that was never deleted. It is a Bloom filter
// with two bits a key, both in one word. Its zero value is full, and has no key.
type filter struct {
	words []uint64 // none, or a power of two
	room  int      // for so many keys more
}

const minFilter = 1 << 10 // keys

var filterSeed = maphash.MakeSeed()

// newFilter makes one for so many keys and some more.
func newFilter(keys int) filter {
	n := max(minFilter, 1<<bits.Len(uint(keys))) // a power of two
	return filter{make([]uint64, n/4), n}
}

// add takes a key in; false where there is no more room.
func (f *filter) add(key string) bool {
	if f.room == 0 {
		return false
	}
	f.room--
	at, mask := f.place(key)
	f.words[at] |= mask
	return true
}

// mayHave is true for every key that was taken in, and few others.
func (f *filter) mayHave(key string) bool {
	if len(f.words) == 0 {
		return false
	}
	at, mask := f.place(key)
	return f.words[at]&mask == mask
}

// place gives a key's word, and its bits there.
func (f *filter) place(key string) (at, mask uint64) {
	var hash uint64
	if len(key) == 9 { // one integer, mostly
		hi, lo := bits.Mul64(binary.BigEndian.Uint64([]byte(key[1:]))^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
		hash = hi ^ lo
	} else {
		hash = maphash.String(filterSeed, key)
	}
	return hash >> 12 & uint64(len(f.words)-1), 1<<(hash&63) | 1<<(hash>>6&63)
}
