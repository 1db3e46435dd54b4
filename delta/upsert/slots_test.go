package upsert

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestShardEqualsMap plays random puts, removals and rewrites on one shard and a map,
// with hashes of a good function and with some that crowd at a few homes, in slots of
// each width.
func TestShardEqualsMap(t *testing.T) {
	for _, c := range []struct {
		keys, steps int
		crowd       uint64 // part of the keys, one in so many, that crowd
		second      bool
	}{{50, 20_000, 0, false}, {3000, 60_000, 0, true}, {3000, 30_000, 3, true}, {90_000, 220_000, 0, false}, {90_000, 120_000, 0, true}, {90_000, 110_000, 400, false}} {
		t.Run(fmt.Sprintf("keys=%d,crowd=%d,second=%v", c.keys, c.crowd, c.second), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(c.keys), c.crowd))
			type key struct{ hash, second uint64 }
			keyOf := func(n uint64) key {
				k := key{hash: mix(n) & hashMask, second: mix(n + 1<<40)}
				if c.crowd > 0 && n%c.crowd == 0 {
					k.hash = 5<<40 | n // all in some homes
				}
				if c.second && c.crowd > 0 && n%8 == 1 {
					k.hash = keyOf7(n) // told apart by the second word alone
				}
				if !c.second {
					k.second = 0
				}
				return k
			}
			tab := &table{second: c.second}
			h := &tab.shards[0]
			want := map[key]Ref{}
			narrow := false
			for i := range c.steps {
				k := keyOf(rng.Uint64N(uint64(c.keys)))
				if i < c.keys {
					k = keyOf(uint64(i))
				}
				if op := rng.IntN(10); op < 6 || i < c.keys {
					ref := Ref(rng.Uint64() | 1)
					if old := h.put(tab, item{k.hash, k.second, ref}); old != want[k] {
						t.Fatalf("step %d: put gave %x, want %x", i, old, want[k])
					}
					want[k] = ref
				} else if op < 9 {
					if old := h.remove(k.hash, k.second); old != want[k] {
						t.Fatalf("step %d: remove gave %x, want %x", i, old, want[k])
					}
					delete(want, k)
				} else if got := h.get(k.hash, k.second); got != want[k] {
					t.Fatalf("step %d: get gave %x, want %x", i, got, want[k])
				}
				narrow = narrow || h.kept == 6
				if i%(c.steps/4) == c.steps/4-1 {
					fn := func(r Ref) Ref {
						switch {
						case r%5 == 0:
							return 0
						case r%5 == 1:
							return r ^ 1<<60
						}
						return r
					}
					h.rewrite(fn)
					for k, ref := range want {
						if want[k] = fn(ref); want[k] == 0 {
							delete(want, k)
						}
					}
					checkShard(t, h)
				}
			}
			if c.keys >= 90_000 && c.crowd == 0 && !narrow {
				t.Error("no slot was narrow")
			}
			checkShard(t, h)
			if h.n != len(want) {
				t.Fatalf("%d keys, want %d", h.n, len(want))
			}
			for k, ref := range want {
				if got := h.get(k.hash, k.second); got != ref {
					t.Fatalf("key %x: %x, want %x", k, got, ref)
				}
			}
			for n := range uint64(1000) {
				if k := keyOf(uint64(c.keys) + 1 + n); want[k] == 0 && h.get(k.hash, k.second) != 0 {
					t.Fatalf("a key that was never put is there: %x", k)
				}
			}
		})
	}
}

func keyOf7(n uint64) uint64 { return 7<<50 | n/8%4 }

// checkShard checks that slots stand in order, at their home or behind it without a
// gap, and not too far where they are narrow.
func checkShard(t *testing.T, h *shard) {
	t.Helper()
	last, n := uint64(0), 0
	for i := range h.all {
		off := i * h.width
		if h.ref(off) == 0 {
			continue
		}
		n++
		hash := h.near(off, h.about(i))
		home := h.home(hash)
		if hash < last || home > i || h.kept < 7 && i-home > maxFar {
			t.Fatalf("slot %d of %d: hash %x behind %x, home %d", i, h.all, hash, last, home)
		}
		for at := home; at < i; at++ {
			if h.ref(at*h.width) == 0 {
				t.Fatalf("slot %d of home %d stands behind a gap at %d", i, home, at)
			}
		}
		last = hash
	}
	if n != h.n {
		t.Fatalf("%d slots in use, counted as %d", n, h.n)
	}
}

// TestIndexBytes holds an index that grows key by key against 20 bytes a key.
func TestIndexBytes(t *testing.T) {
	x := NewIndex(0)
	defer x.Close()
	most := 0.0
	for i := range int64(1_500_000) {
		x.put(intKeyOf(i), 1)
		if i > 200_000 && i%50_000 == 0 {
			most = max(most, float64(x.Bytes())/float64(i+1))
		}
	}
	if most > 20 {
		t.Errorf("%.2f bytes a key", most)
	}
	before := MappedBytes()
	x.Close()
	if x.Len() != 0 || x.Bytes() != 0 {
		t.Errorf("closed, it has %d keys and %d bytes", x.Len(), x.Bytes())
	}
	if x.put(intKeyOf(1), 5); x.Get(encodedInt(1)) != 5 {
		t.Error("closed, it can't be used on")
	}
	// Shards of 1.5 M keys are too small to be mapped; a large one is.
	m := newMemory(1 << 20)
	if MappedBytes() != before+1<<20 && m.mapped {
		t.Errorf("%d bytes are mapped, %d before", MappedBytes(), before)
	}
	m.bytes[1<<20-1] = 1
	m.free()
	if MappedBytes() != before {
		t.Errorf("%d bytes are mapped after free, %d before", MappedBytes(), before)
	}
}
