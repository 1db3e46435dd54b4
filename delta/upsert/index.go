package upsert

import (
	"crypto/rand"
	"encoding/binary"
	"runtime"
	"unsafe"

	"github.com/gscd-io/gscd/delta/schema"
)

// Index maps encoded keys (schema.Value.AppendEncoded of the key columns, one
// behind the other) to Refs. A key that is one integer is kept exactly: its hash is
// a bijection. Others are kept as 128-bit SipHashes under a random key. A key takes
// 16 to 20 bytes, or 26 to 30, also while the index grows; past some 10,000 keys they
// lie outside the Go heap.
//
// Get, GetMany, Refs, Len and Changes may be called by several goroutines at once, the others
// by one alone.
type Index struct {
	ints   table
	hashes table
	key    [2]uint64
	// changes counts what may have changed Refs.
	changes int64
}

// NewIndex makes an empty index with room for about so many keys; 0 is fine.
func NewIndex(keys int64) *Index {
	var key [16]byte
	_, _ = rand.Read(key[:]) // it never fails
	return newIndex(keys, [2]uint64{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])})
}

func newIndex(keys int64, key [2]uint64) *Index {
	x := &Index{key: key}
	// A shard is made at its first key: the kind of keys that a table does not
	// have takes no room.
	x.ints.room, x.hashes.room, x.hashes.second = int(keys/256), int(keys/256), true
	// Memory outside the heap is given back at the latest with the index.
	runtime.SetFinalizer(x, (*Index).Close)
	return x
}

// Close gives the memory back. The index is empty then, and may be used on.
func (x *Index) Close() {
	x.changes++
	for _, t := range []*table{&x.ints, &x.hashes} {
		for i := range t.shards {
			t.shards[i].free()
			t.shards[i] = shard{}
		}
	}
}

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
	return int64(bigEndian(key[1:])), true
}

// hashInt is a bijection that nobody knows who does not know the index's key.
func (x *Index) hashInt(key int64) uint64 { return mix(uint64(key) ^ x.key[0]) }

// place gives the table and the shard of a key, and the key's hash.
func (x *Index) place(key string) (t *table, h *shard, hash, second uint64) {
	if i, ok := intKey(key); ok {
		t, hash = &x.ints, x.hashInt(i)
	} else {
		t = &x.hashes
		hash, second = sipHash(x.key[0], x.key[1], key)
	}
	return t, &t.shards[hash>>hashBits], hash & hashMask, second
}

// Get gives the Ref of a key, 0 where it has none.
func (x *Index) Get(key string) Ref {
	_, h, hash, second := x.place(key)
	ref := h.get(hash, second)
	runtime.KeepAlive(x) // the memory goes with it
	return ref
}

// GetMany gives the Refs of keys, 0 for those that have none, in refs, which is as
// long as keys. It is faster than Get: the waits for memory overlap.
func (x *Index) GetMany(keys []string, refs []Ref) {
	x.probe(keys, func(i int, p *probe) { refs[i] = p.shard.get(p.hash, p.second) })
}

// PutMany sets the Refs of keys, ref(i) for the i-th, as Put does in turn.
func (x *Index) PutMany(keys []string, ref func(i int) Ref) {
	x.changes++
	x.probe(keys, func(i int, p *probe) { p.shard.put(p.table, item{p.hash, p.second, ref(i)}) })
}

// DeleteMany forgets keys.
func (x *Index) DeleteMany(keys []string) {
	x.changes++
	x.probe(keys, func(_ int, p *probe) { p.shard.remove(p.hash, p.second) })
}

// Changes is a number that rises whenever a Ref may have changed: what Get and GetMany gave
// holds while it stays.
func (x *Index) Changes() int64 { return x.changes }

// probe is where a key is looked for.
type probe struct {
	table        *table
	shard        *shard
	hash, second uint64
}

// probe calls fn with the place of each key, some at a time, whose memory it has asked for
// together.
func (x *Index) probe(keys []string, fn func(i int, p *probe)) {
	var probes [64]probe
	touched := byte(0)
	for first := 0; first < len(keys); first += len(probes) {
		n := min(len(keys)-first, len(probes))
		for i, key := range keys[first : first+n] {
			t, h, hash, second := x.place(key)
			probes[i] = probe{t, h, hash, second}
		}
		for i := range n { // a loop of its own: the more of these a core has in sight, the more it asks for at once
			if p := &probes[i]; p.shard.n > 0 {
				touched |= p.shard.bytes[p.shard.home(p.hash)*p.shard.width]
			}
		}
		for i := range n {
			fn(first+i, &probes[i])
		}
	}
	runtime.KeepAlive(touched)
	runtime.KeepAlive(x) // the memory goes with it
}

// Put sets the Ref of a key and gives the one it had, 0 if none.
func (x *Index) Put(key string, ref Ref) (old Ref) {
	x.changes++
	t, h, hash, second := x.place(key)
	old = h.put(t, item{hash, second, ref})
	runtime.KeepAlive(x)
	return old
}

// Delete forgets a key and gives the Ref it had, 0 if none.
func (x *Index) Delete(key string) (old Ref) {
	x.changes++
	_, h, hash, second := x.place(key)
	old = h.remove(hash, second)
	runtime.KeepAlive(x)
	return old
}

// Len is the number of keys.
func (x *Index) Len() (n int) {
	for i := range x.ints.shards {
		n += x.ints.shards[i].n + x.hashes.shards[i].n
	}
	return n
}

// shards gives all shards, with their tables.
func (x *Index) each(fn func(t *table, h *shard) bool) {
	for _, t := range []*table{&x.ints, &x.hashes} {
		for i := range t.shards {
			if !fn(t, &t.shards[i]) {
				return
			}
		}
	}
}

// Refs calls fn with every Ref, in no order, until it says false.
func (x *Index) Refs(fn func(Ref) bool) {
	x.each(func(_ *table, h *shard) bool {
		for off := 0; off < len(h.bytes); off += h.width {
			if ref := h.ref(off); ref != 0 && !fn(ref) {
				return false
			}
		}
		return true
	})
	runtime.KeepAlive(x)
}

// MapRefs gives every key the Ref that fn makes of the one it has; where that is 0
// the key is forgotten. It goes through the whole index once, in order.
func (x *Index) MapRefs(fn func(Ref) Ref) {
	x.changes++
	x.each(func(_ *table, h *shard) bool {
		h.rewrite(fn)
		return true
	})
	runtime.KeepAlive(x)
}

// DeleteRefs forgets every key whose Ref dead reports.
func (x *Index) DeleteRefs(dead func(Ref) bool) {
	x.MapRefs(func(r Ref) Ref {
		if dead(r) {
			return 0
		}
		return r
	})
}

// Bytes is the memory of the index.
func (x *Index) Bytes() (n int64) {
	x.each(func(_ *table, h *shard) bool {
		n += int64(len(h.bytes))
		return true
	})
	return n
}

// hashOf gives the kind of a row's key, 0 for one integer, 1 for others, and its hash.
func (x *Index) hashOf(key rowKey) (kind int, hash, second uint64) {
	if key.isInt {
		return 0, x.hashInt(key.value), 0
	}
	hash, second = sipHash(x.key[0], x.key[1], unsafe.String(unsafe.SliceData(key.bytes), len(key.bytes))) // it keeps none of them
	return 1, hash, second
}

// put is Put for the key of a row.
func (x *Index) put(key rowKey, ref Ref) (old Ref) {
	x.changes++
	kind, hash, second := x.hashOf(key)
	t := &x.ints
	if kind == 1 {
		t = &x.hashes
	}
	old = t.shards[hash>>hashBits].put(t, item{hash & hashMask, second, ref})
	runtime.KeepAlive(x)
	return old
}
