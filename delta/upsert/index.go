package upsert

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"

	"github.com/gscd-io/gscd/delta/schema"
)

// Index maps encoded keys (schema.Value.AppendEncoded of the key columns, one
// behind the other) to Refs. Keys that are one integer are kept exactly, 16
// bytes a slot; others as 128-bit hashes under seeds of this process, 24 bytes
// a slot. It holds no pointers, so the garbage collector does not walk it. Not
// safe for concurrent use.
type Index struct {
	ints   table[intSlot]
	hashes table[hashSlot]
	seeds  [2]maphash.Seed
}

// NewIndex makes an empty index with room for about so many keys; 0 is fine.
func NewIndex(keys int64) *Index {
	x := &Index{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	// A shard is made at its first key: the kind of keys that a table does not
	// have takes no room.
	x.ints.room, x.hashes.room = int(keys/256*10/7), int(keys/256*10/7)
	return x
}

type intSlot struct {
	key int64
	ref Ref
}

type hashSlot struct {
	hi, lo uint64
	ref    Ref
}

func (s intSlot) home() uint64  { return mix(uint64(s.key)) }
func (s hashSlot) home() uint64 { return s.hi }
func (s intSlot) at() Ref       { return s.ref }
func (s hashSlot) at() Ref      { return s.ref }

func (s intSlot) same(o intSlot) bool   { return s.key == o.key }
func (s hashSlot) same(o hashSlot) bool { return s.hi == o.hi && s.lo == o.lo }

// mix is the finalizer of splitmix64: a bijection that spreads neighbours.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// intKey gives the integer of an encoded key that is one non-NULL integer.
func intKey(key string) (int64, bool) {
	if len(key) != 9 || schema.Kind(key[0]) != schema.Int {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64([]byte(key[1:]))), true
}

func (x *Index) hash(key string) hashSlot {
	return hashSlot{hi: maphash.String(x.seeds[0], key), lo: maphash.String(x.seeds[1], key)}
}

// Get gives the Ref of a key, 0 where it has none.
func (x *Index) Get(key string) Ref {
	if i, ok := intKey(key); ok {
		return x.ints.get(intSlot{key: i})
	}
	return x.hashes.get(x.hash(key))
}

// Put sets the Ref of a key and gives the one it had, 0 if none.
func (x *Index) Put(key string, ref Ref) (old Ref) {
	if i, ok := intKey(key); ok {
		return x.ints.put(intSlot{i, ref})
	}
	s := x.hash(key)
	s.ref = ref
	return x.hashes.put(s)
}

// putInt is Put for a key that is one integer.
func (x *Index) putInt(key int64, ref Ref) (old Ref) { return x.ints.put(intSlot{key, ref}) }

// Delete forgets a key and gives the Ref it had, 0 if none.
func (x *Index) Delete(key string) (old Ref) {
	if i, ok := intKey(key); ok {
		return x.ints.remove(intSlot{key: i})
	}
	return x.hashes.remove(x.hash(key))
}

// Len is the number of keys.
func (x *Index) Len() int { return x.ints.n + x.hashes.n }

// Refs calls fn with every Ref, in no order, until it says false.
func (x *Index) Refs(fn func(Ref) bool) {
	if x.ints.refs(fn) {
		x.hashes.refs(fn)
	}
}

// DeleteRefs forgets every key whose Ref dead reports.
func (x *Index) DeleteRefs(dead func(Ref) bool) {
	x.ints.removeIf(dead)
	x.hashes.removeIf(dead)
}

// Bytes is the memory of the index.
func (x *Index) Bytes() int64 { return x.ints.size()*16 + x.hashes.size()*24 }

// slot is one entry of a table; its zero Ref means empty.
type slot[S any] interface {
	comparable
	home() uint64
	at() Ref
	same(S) bool
}

// table is 256 open-addressing shards with linear probing: one grows at a
// time, so growth needs little memory beside the table.
type table[S slot[S]] struct {
	shards [256]shard[S]
	n      int
	room   int // slots of a shard at its first key
}

type shard[S slot[S]] struct {
	slots []S
	n     int
}

const minShard = 16

func (t *table[S]) shard(s S) *shard[S] { return &t.shards[s.home()>>56] }

func (h *shard[S]) start(s S) int {
	// The shard took the top byte; the slot comes from the bits below it, by
	// multiplication, so that sizes need not be powers of two.
	hi, _ := bits.Mul64(s.home()<<8, uint64(len(h.slots)))
	return int(hi)
}

func (t *table[S]) get(s S) Ref {
	h := t.shard(s)
	if h.n == 0 {
		return 0
	}
	for i := h.start(s); ; {
		c := &h.slots[i]
		if (*c).at() == 0 || (*c).same(s) {
			return (*c).at()
		}
		if i++; i == len(h.slots) {
			i = 0
		}
	}
}

func (t *table[S]) put(s S) Ref {
	h := t.shard(s)
	if (h.n+1)*4 > len(h.slots)*3 {
		h.grow(t.room)
	}
	for i := h.start(s); ; {
		c := &h.slots[i]
		if (*c).at() == 0 {
			*c = s
			h.n++
			t.n++
			return 0
		}
		if (*c).same(s) {
			old := (*c).at()
			*c = s
			return old
		}
		if i++; i == len(h.slots) {
			i = 0
		}
	}
}

func (h *shard[S]) grow(room int) {
	old := h.slots
	h.slots = make([]S, max(minShard, room, len(old)+len(old)/2))
	for _, s := range old {
		if s.at() == 0 {
			continue
		}
		i := h.start(s)
		for h.slots[i].at() != 0 {
			if i++; i == len(h.slots) {
				i = 0
			}
		}
		h.slots[i] = s
	}
}

func (t *table[S]) remove(s S) Ref {
	h := t.shard(s)
	if h.n == 0 {
		return 0
	}
	for i := h.start(s); ; {
		c := h.slots[i]
		if c.at() == 0 {
			return 0
		}
		if c.same(s) {
			h.shift(i)
			h.n--
			t.n--
			return c.at()
		}
		if i++; i == len(h.slots) {
			i = 0
		}
	}
}

// shift closes the gap at i: entries behind it that probed past it move back.
func (h *shard[S]) shift(i int) {
	var zero S
	n := len(h.slots)
	for j := i; ; {
		if j++; j == n {
			j = 0
		}
		c := h.slots[j]
		if c.at() == 0 {
			break
		}
		home := h.start(c)
		// c may move to i unless its home lies in (i, j], going round.
		if i <= j && (home <= i || home > j) || i > j && home <= i && home > j {
			h.slots[i] = c
			i = j
		}
	}
	h.slots[i] = zero
}

func (t *table[S]) refs(fn func(Ref) bool) bool {
	for i := range t.shards {
		for _, s := range t.shards[i].slots {
			if ref := s.at(); ref != 0 && !fn(ref) {
				return false
			}
		}
	}
	return true
}

func (t *table[S]) removeIf(dead func(Ref) bool) {
	for i := range t.shards {
		h := &t.shards[i]
		var gone []S
		for _, s := range h.slots {
			if ref := s.at(); ref != 0 && dead(ref) {
				gone = append(gone, s)
			}
		}
		for _, s := range gone {
			t.remove(s)
		}
	}
}

func (t *table[S]) size() (slots int64) {
	for i := range t.shards {
		slots += int64(len(t.shards[i].slots))
	}
	return slots
}
