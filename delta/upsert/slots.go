package upsert

import (
	"encoding/binary"
	"math/bits"
)

// table is 256 shards of open addressing, told apart by the first byte of a hash.
// One grows at a time, by a ninth, so growth needs little memory beside the table.
//
// A shard is one array of slots that stand in the order of their hashes, with gaps
// between them: a hash has a home, in proportion to its value, and stands there or
// behind it, where others with smaller hashes have taken the place. So a look-up
// ends at the first larger hash, and a shard is copied, written and read in order.
//
// The place of a slot tells the upper bits of its hash, so only its low 7 bytes are
// kept, in large shards 6. Of 6 bytes the difference of two hashes is known if it is
// below 2^47 either way; that holds for all slots that a look-up meets because none
// stands more than maxFar behind its home.
type table struct {
	second bool // a slot holds a second word of the hash
	room   int  // keys that a shard is made for at its first
	shards [256]shard
}

type shard struct {
	memory
	homes int // slots that are a home; those behind them take what finds no room before
	all   int // slots
	n     int // slots in use
	width int // bytes of a slot: kept of the hash, 8 if there is a second word, 8 of the Ref
	kept  int // 6 or 7
}

// item is what a slot says.
type item struct {
	hash   uint64 // without its first byte
	second uint64
	ref    Ref
}

const (
	hashBits = 56
	hashMask = 1<<hashBits - 1
	// maxFar bounds how far behind its home a slot of 6 bytes stands.
	maxFar = 127
	// narrowFrom is the number of homes from which maxFar slots differ by less than 2^47.
	narrowFrom = (maxFar + 2) << (hashBits - 47)
	minHomes   = 8
	// A shard grows at a load of 86 parts in 100, to 77, or 74 where slots are narrow:
	// 20 bytes a key in either case. It is made for 80 where the number of keys is known.
	fullLoad, grownLoad, narrowLoad, madeLoad = 86, 77, 74, 80
)

func homesFor(keys, load int) int { return max(minHomes, (keys*100+load-1)/load) }

// make gives the shard empty slots.
func (h *shard) make(second bool, homes, spill, kept int) {
	h.homes, h.all, h.n, h.kept, h.width = homes, homes+spill, 0, kept, kept+8
	if second {
		h.width += 8
	}
	h.memory = newMemory(h.all * h.width)
}

// spillFor is the usual number of slots behind the homes.
func spillFor(homes int) int { return min(maxFar, 8+homes/32) }

func keptFor(homes int) int {
	if homes >= narrowFrom {
		return 6
	}
	return 7
}

func (h *shard) home(hash uint64) int {
	at, _ := bits.Mul64(hash<<(64-hashBits), uint64(h.homes))
	return int(at)
}

func (h *shard) ref(off int) Ref {
	return Ref(binary.LittleEndian.Uint64(h.bytes[off+h.width-8:]))
}

// window gives how to compare a hash with those of slots near its home: of two
// slots the one with the larger (word - base) & mask has the larger hash, and that
// of the hash itself is target.
func (h *shard) window(hash uint64) (base, mask, target uint64) {
	if h.kept == 7 {
		return 0, hashMask, hash
	}
	return hash - 1<<47, 1<<48 - 1, 1 << 47
}

// near gives the hash of the slot at off, by one that differs by less than 2^47.
func (h *shard) near(off int, hash uint64) uint64 {
	word := binary.LittleEndian.Uint64(h.bytes[off:])
	if h.kept == 7 {
		return word & hashMask
	}
	return hash + uint64(int64((word-hash)<<16)>>16)
}

// about is the hash of which i is the home, more or less.
func (h *shard) about(i int) uint64 { return uint64(i) * (1 << hashBits / uint64(h.homes)) }

func (h *shard) write(off int, it item) {
	b := h.bytes[off : off+h.width]
	binary.LittleEndian.PutUint64(b, it.hash) // what is not kept of it is written over
	if h.width > h.kept+8 {
		binary.LittleEndian.PutUint64(b[h.kept:], it.second)
	}
	binary.LittleEndian.PutUint64(b[h.width-8:], uint64(it.ref))
}

// find gives the place of a hash, or where it would stand.
func (h *shard) find(hash, second uint64) (off int, found bool) {
	base, mask, target := h.window(hash)
	off = h.home(hash) * h.width
	if h.width == 15 { // as below, with constants
		for b := h.bytes; off < len(b); off += 15 {
			s := b[off : off+15 : off+15]
			at := (binary.LittleEndian.Uint64(s) - base) & mask
			if binary.LittleEndian.Uint64(s[7:]) == 0 || at >= target {
				return off, at == target && binary.LittleEndian.Uint64(s[7:]) != 0
			}
		}
		return off, false
	}
	b, width, tail := h.bytes, h.width, h.width-8
	for ; off < len(b); off += width {
		s := b[off : off+width]
		if binary.LittleEndian.Uint64(s[tail:]) == 0 {
			return off, false
		}
		if at := (binary.LittleEndian.Uint64(s) - base) & mask; at >= target {
			if at > target {
				return off, false
			}
			if tail == h.kept || binary.LittleEndian.Uint64(s[h.kept:]) == second {
				return off, true
			}
		}
	}
	return off, false
}

func (h *shard) get(hash, second uint64) Ref {
	if h.n == 0 {
		return 0
	}
	if off, found := h.find(hash, second); found {
		return h.ref(off)
	}
	return 0
}

// put sets the Ref of a hash and gives the one that it had.
func (h *shard) put(t *table, it item) (old Ref) {
	if h.n*100 >= h.homes*fullLoad {
		if h.homes == 0 {
			homes := homesFor(t.room, madeLoad)
			h.make(t.second, homes, spillFor(homes), keptFor(homes))
		} else {
			homes := homesFor(h.n+1, grownLoad)
			if h.kept < 7 {
				homes = homesFor(h.n+1, narrowLoad)
			}
			h.remake(t.second, homes, spillFor(homes), keptFor(homes))
		}
	}
	for {
		off, found := h.find(it.hash, it.second)
		if found {
			old := h.ref(off)
			binary.LittleEndian.PutUint64(h.bytes[off+h.width-8:], uint64(it.ref))
			return old
		}
		if h.insert(off, it) {
			h.n++
			return 0
		}
		h.relax(t.second)
	}
}

// insert makes room at off. It reports false where there is none within the rules.
func (h *shard) insert(off int, it item) bool {
	end := off
	for end < len(h.bytes) && h.ref(end) != 0 {
		end += h.width
	}
	if end >= len(h.bytes) {
		return false
	}
	if h.kept < 7 && end/h.width-h.home(it.hash) > maxFar && !h.mayMove(off, end, it.hash) {
		return false
	}
	if end > off {
		copy(h.bytes[off+h.width:end+h.width], h.bytes[off:end])
	}
	h.write(off, it)
	return true
}

// mayMove reports whether the slots from off to end may stand one further, and
// hash at off.
func (h *shard) mayMove(off, end int, hash uint64) bool {
	if off/h.width-h.home(hash) > maxFar {
		return false
	}
	for ; off < end; off += h.width {
		at := off / h.width
		if at+1-h.home(h.near(off, h.about(at))) > maxFar {
			return false
		}
	}
	return true
}

// relax makes room where hashes crowd more than those of a good function do.
func (h *shard) relax(second bool) {
	spill := h.all - h.homes
	if h.kept == 7 {
		spill *= 2
	}
	h.remake(second, h.homes, spill, 7)
}

// remake moves the slots to new memory of another form.
func (h *shard) remake(second bool, homes, spill, kept int) {
	for {
		var to shard
		to.make(second, homes, spill, kept)
		if to.take(h) {
			h.free()
			*h = to
			return
		}
		to.free()
		if kept == 7 {
			spill *= 2
		}
		kept = 7
	}
}

// take copies the slots of another shard into an empty one. It reports false where
// one finds no place within the rules.
func (h *shard) take(from *shard) bool {
	step, about, next, far := from.about(1), uint64(0), 0, len(h.bytes)
	if h.kept < 7 {
		far = maxFar
	}
	shift := 64 - 8*uint(from.kept)
	if from.kept == 7 {
		step = 0 // the word alone tells the hash
	}
	b, old, all, homes, width, kept := h.bytes, from.bytes, h.all, uint64(h.homes), h.width, h.kept
	for was := from.width; len(old) >= was; old = old[was:] {
		s := old[:was:was]
		ref := binary.LittleEndian.Uint64(s[len(s)-8:])
		hash := (about + uint64(int64((binary.LittleEndian.Uint64(s)-about)<<shift)>>shift)) & hashMask
		about += step
		hi, _ := bits.Mul64(hash<<(64-hashBits), homes)
		home := int(hi)
		at := max(next, home)
		if at >= all || at-home > far {
			if ref == 0 {
				continue
			}
			return false
		}
		// An empty slot is copied too, to where it does no harm: that costs less than
		// the branch that nobody can foresee.
		to := b[at*width : at*width+width]
		binary.LittleEndian.PutUint64(to, hash)
		if len(to) > kept+8 {
			binary.LittleEndian.PutUint64(to[kept:], binary.LittleEndian.Uint64(s[from.kept:]))
		}
		binary.LittleEndian.PutUint64(to[len(to)-8:], ref)
		if ref != 0 {
			next = at + 1
		}
	}
	h.n = from.n
	return true
}

// fill appends items that come in the order of their hashes. It reports false where
// one finds no place within the rules.
func (h *shard) fill(items func(yield func(item) bool)) (ok bool) {
	next := 0
	ok = true
	items(func(it item) bool {
		home := h.home(it.hash)
		at := max(next, home)
		if ok = at < h.all && (h.kept == 7 || at-home <= maxFar); !ok {
			return false
		}
		h.write(at*h.width, it)
		h.n++
		next = at + 1
		return true
	})
	return ok
}

// each gives the items in the order of their hashes.
func (h *shard) each(yield func(item) bool) {
	if h.n == 0 {
		return
	}
	step := h.about(1)
	about := uint64(0)
	for off := 0; off < len(h.bytes); off += h.width {
		if ref := h.ref(off); ref != 0 {
			it := item{hash: h.near(off, about), ref: ref}
			if h.width > h.kept+8 {
				it.second = binary.LittleEndian.Uint64(h.bytes[off+h.kept:])
			}
			if !yield(it) {
				return
			}
		}
		about += step
	}
}

// remove forgets a hash: those behind it that don't stand at home move up.
func (h *shard) remove(hash, second uint64) Ref {
	if h.n == 0 {
		return 0
	}
	off, found := h.find(hash, second)
	if !found {
		return 0
	}
	old := h.ref(off)
	end := off + h.width
	for end < len(h.bytes) && h.ref(end) != 0 && h.home(h.near(end, hash)) < end/h.width {
		end += h.width
	}
	copy(h.bytes[off:], h.bytes[off+h.width:end])
	clear(h.bytes[end-h.width : end])
	h.n--
	return old
}

// rewrite gives every Ref what fn makes of it; 0 forgets the key.
func (h *shard) rewrite(fn func(Ref) Ref) {
	next, gap := 0, false // gap: those that follow may move up
	for i := range h.all {
		off := i * h.width
		ref := h.ref(off)
		if ref == 0 {
			gap = false
			continue
		}
		now := fn(ref)
		if now == 0 {
			if !gap {
				next, gap = i, true
			}
			clear(h.bytes[off : off+h.width])
			h.n--
			continue
		}
		if gap {
			if at := max(next, h.home(h.near(off, h.about(i)))); at < i {
				to := at * h.width
				copy(h.bytes[to:to+h.width], h.bytes[off:off+h.width])
				clear(h.bytes[off : off+h.width])
				next, off = at+1, to
			} else {
				gap = false
			}
		}
		if now != ref {
			binary.LittleEndian.PutUint64(h.bytes[off+h.width-8:], uint64(now))
		}
	}
}
