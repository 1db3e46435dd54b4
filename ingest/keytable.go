package ingest

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"

	"github.com/gscd-io/gscd/delta/schema"
)

// keyTable finds the entry of a key in a batch: open addressing over numbers of
// entries, with whom alone the keys lie. It has no pointers, so that the garbage
// collector passes it by, and keeps its memory from batch to batch.
type keyTable struct {
	slots []keySlot // none, or a power of two
	n     int
	seed  maphash.Seed
	ints  uint64 // the seed of keys that are one integer
}

// keySlot has the number of an entry plus one, 0 for none, and the upper half of its
// key's hash, which tells most other keys apart without a look at the entry.
type keySlot struct {
	entry uint32
	hash  uint32
}

const minKeySlots = 1024

func newKeyTable() keyTable {
	seed := maphash.MakeSeed()
	return keyTable{seed: seed, ints: maphash.String(seed, "")}
}

// find gives the number of a key's entry. Where there is none, found is false and the
// key gets the number of the next one, which the caller appends.
func (t *keyTable) find(key string, entries []entry) (at int, found bool) {
	if 2*t.n >= len(t.slots) {
		t.grow(entries)
	}
	hash := t.hash(key)
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := t.slots[i]
		if s.entry == 0 {
			t.n++
			t.slots[i] = keySlot{uint32(len(entries)) + 1, uint32(hash >> 32)}
			return len(entries), false
		}
		if s.hash == uint32(hash>>32) && entries[s.entry-1].key == key {
			return int(s.entry - 1), true
		}
	}
}

// look is find for a key that gets no number where it has none.
func (t *keyTable) look(key string, entries []entry) (at int, found bool) {
	if t.n == 0 {
		return 0, false
	}
	hash := t.hash(key)
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := t.slots[i]
		if s.entry == 0 {
			return 0, false
		}
		if s.hash == uint32(hash>>32) && entries[s.entry-1].key == key {
			return int(s.entry - 1), true
		}
	}
}

// hash is cheap where the key is one integer.
func (t *keyTable) hash(key string) uint64 {
	if len(key) == 9 && schema.Kind(key[0]) == schema.Int {
		hi, lo := bits.Mul64(binary.BigEndian.Uint64([]byte(key[1:]))^t.ints, 0xd6e8feb86659fd93)
		return hi ^ lo
	}
	return maphash.String(t.seed, key)
}

func (t *keyTable) grow(entries []entry) {
	t.slots = make([]keySlot, max(minKeySlots, 2*len(t.slots)))
	mask := uint64(len(t.slots) - 1)
	for e := range entries {
		hash := t.hash(entries[e].key)
		i := hash & mask
		for t.slots[i].entry != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = keySlot{uint32(e) + 1, uint32(hash >> 32)}
	}
}

// clear forgets all keys.
func (t *keyTable) clear() {
	clear(t.slots)
	t.n = 0
}
