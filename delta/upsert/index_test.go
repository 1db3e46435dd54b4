package upsert

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/schema"
)

func intKeyOf(i int64) rowKey { return rowKey{isInt: true, value: i} }

func encodedInt(i int64) string {
	return string(schema.IntValue(i).AppendEncoded(nil))
}

// TestIndexEqualsMap plays random puts and deletes on an index and a map.
func TestIndexEqualsMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, want := NewIndex(100), map[string]Ref{}
	key := func() string {
		n := rng.Int64N(5000)
		if n%2 == 0 {
			return encodedInt(n - 2500)
		}
		return string(schema.StringValue(fmt.Sprint("k", n)).AppendEncoded(nil))
	}
	for i := range 200_000 {
		k := key()
		switch rng.IntN(3) {
		case 0, 1:
			ref := makeRef(uint32(i%1000+1), rng.Uint32(), uint16(rng.IntN(1024)))
			if old := x.Put(k, ref); old != want[k] {
				t.Fatalf("step %d: put gave %x, want %x", i, old, want[k])
			}
			want[k] = ref
		case 2:
			if old := x.Delete(k); old != want[k] {
				t.Fatalf("step %d: delete gave %x, want %x", i, old, want[k])
			}
			delete(want, k)
		}
	}
	if x.Len() != len(want) {
		t.Fatalf("%d keys, want %d", x.Len(), len(want))
	}
	var keys []string
	for k, ref := range want {
		if got := x.Get(k); got != ref {
			t.Fatalf("key %q: %x, want %x", k, got, ref)
		}
		keys = append(keys, k)
	}
	for n := range int64(200) {
		keys = append(keys, encodedInt(n+10_000))
	}
	refs := make([]Ref, len(keys))
	x.GetMany(keys, refs)
	for i, k := range keys {
		if refs[i] != want[k] {
			t.Fatalf("key %q among many: %x, want %x", k, refs[i], want[k])
		}
	}
	x.DeleteRefs(func(r Ref) bool { return r.Segment()%2 == 0 })
	left := 0
	for k, ref := range want {
		keep := ref.Segment()%2 == 1
		if keep {
			left++
		}
		if got := x.Get(k); (got != 0) != keep {
			t.Fatalf("key %q with segment %d after DeleteRefs: %x", k, ref.Segment(), got)
		}
	}
	n := 0
	x.Refs(func(Ref) bool { n++; return true })
	if n != left || x.Len() != left {
		t.Fatalf("%d refs, length %d, want %d", n, x.Len(), left)
	}
}

func TestRefParts(t *testing.T) {
	r := makeRef(MaxSegments, 1<<32-1, 1023)
	if r.Segment() != MaxSegments || r.Row() != 1<<32-1 || r.Tag() != 1023 {
		t.Fatalf("parts of the largest ref: %d %d %d", r.Segment(), r.Row(), r.Tag())
	}
	r = makeRef(5, 7, 9)
	if r.Segment() != 5 || r.Row() != 7 || r.Tag() != 9 {
		t.Fatalf("parts: %d %d %d", r.Segment(), r.Row(), r.Tag())
	}
}

func BenchmarkIndex(b *testing.B) {
	const n = 1_000_000
	x := NewIndex(n)
	for i := range int64(n) {
		x.put(intKeyOf(i), makeRef(1, uint32(i), 0))
	}
	b.ReportMetric(float64(x.Bytes())/n, "B/key")
	keys := make([]string, 4096)
	for i := range keys {
		keys[i] = encodedInt(rand.Int64N(n))
	}
	for i := 0; b.Loop(); i++ {
		if x.Get(keys[i&4095]) == 0 {
			b.Fatal("lost a key")
		}
	}
}

// TestBuilderEqualsPuts collects keys on several goroutines, of both kinds, and holds
// the index that comes of it against one made key by key.
func TestBuilderEqualsPuts(t *testing.T) {
	const n, goroutines = 300_000, 4
	x, want := NewIndex(n/2), map[string]Ref{}
	b := &builder{x: x}
	keyOf := func(i int64) rowKey {
		if i%3 == 0 {
			return rowKey{bytes: schema.StringValue(fmt.Sprint("k", i)).AppendEncoded(nil)}
		}
		return rowKey{isInt: true, value: i, bytes: []byte(encodedInt(i))}
	}
	refOf := func(i int64) Ref { return makeRef(uint32(i%7+1), uint32(i), uint16(i%1000)) }
	for i := range int64(n) {
		want[string(keyOf(i).bytes)] = refOf(i)
	}
	err := parallel(t.Context(), goroutines, goroutines, func() func(context.Context, int) error {
		return func(_ context.Context, part int) error {
			st := &stage{b: b, kind: part % 2}
			for i := int64(part); i < n; i += goroutines {
				kind, hash, second := x.hashOf(keyOf(i))
				st.add(kind, hash, item{hash & hashMask, second, refOf(i)})
			}
			st.flush()
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &filler{b: b}
	for i := range 2 * 256 {
		f.fill(i/256, i%256, func(d duplicate) { t.Errorf("a key came twice: %x", d) })
	}
	if x.Len() != n {
		t.Fatalf("%d keys, want %d", x.Len(), n)
	}
	for k, ref := range want {
		if got := x.Get(k); got != ref {
			t.Fatalf("key %q: %x, want %x", k, got, ref)
		}
	}
	x.each(func(_ *table, h *shard) bool {
		checkShard(t, h)
		return true
	})
}

// TestMany: many keys at once are put and deleted as they would be in turn, the later of two
// of one key last, and every change is told.
func TestMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		many, turn := NewIndex(0), NewIndex(0)
		defer many.Close()
		defer turn.Close()
		next := uint32(0)
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			var keys []string
			for range rapid.IntRange(1, 300).Draw(t, "keys") {
				key := encodedInt(int64(rapid.IntRange(0, 400).Draw(t, "key")))
				if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
					key = "text" + key
				}
				keys = append(keys, key)
			}
			before := many.Changes()
			if rapid.Bool().Draw(t, "put") {
				first := next
				many.PutMany(keys, func(i int) Ref { return makeRef(7, first+uint32(i), 3) })
				for i, key := range keys {
					turn.Put(key, makeRef(7, first+uint32(i), 3))
				}
				next += uint32(len(keys))
			} else {
				many.DeleteMany(keys)
				for _, key := range keys {
					turn.Delete(key)
				}
			}
			if many.Changes() == before {
				t.Fatal("the change is not told")
			}
			refs := make([]Ref, len(keys))
			many.GetMany(keys, refs)
			for i, key := range keys {
				if want := turn.Get(key); refs[i] != want || many.Get(key) != want {
					t.Fatalf("key %q: %x and %x, want %x", key, refs[i], many.Get(key), want)
				}
			}
			if many.Len() != turn.Len() {
				t.Fatalf("%d keys, want %d", many.Len(), turn.Len())
			}
		}
	})
}

// BenchmarkLookUp asks an index that no cache holds for the keys of a chunk, one after the
// other and together.
func BenchmarkLookUp(b *testing.B) {
	const n, chunk = 8_000_000, 512
	x := NewIndex(n)
	defer x.Close()
	for i := range int64(n) {
		x.Put(encodedInt(i), makeRef(1, uint32(i), 0))
	}
	r := rand.New(rand.NewPCG(1, 2))
	keys, refs := make([]string, 1<<18), make([]Ref, chunk)
	for i := range keys {
		keys[i] = encodedInt(r.Int64N(n + n/10))
	}
	for _, many := range []bool{false, true} {
		b.Run(map[bool]string{false: "Get", true: "GetMany"}[many], func(b *testing.B) {
			at := 0
			for b.Loop() {
				of := keys[at : at+chunk]
				if at += chunk; at == len(keys) {
					at = 0
				}
				if many {
					x.GetMany(of, refs)
					continue
				}
				for i, key := range of {
					refs[i] = x.Get(key)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunk, "ns/key")
		})
	}
}

// Hashes that crowd find their places too, and a key that comes twice is told, of both kinds.
func TestBuilderCrowdedAndTwice(t *testing.T) {
	for name, step := range map[string]uint64{"spread": 1 << 42, "crowded": 1, "half crowded": 1 << 20} {
		for kind := range 2 {
			x := NewIndex(0)
			b := &builder{x: x}
			const n = 5000
			for i := range uint64(n) {
				hash := (i * 7919 % n) * step & hashMask
				b.add(kind, 3, []item{{hash, hash * uint64(kind), makeRef(1, uint32(i), 0)}})
			}
			(&filler{b: b}).fill(kind, 3, func(d duplicate) { t.Errorf("%s: a key came twice: %x", name, d) })
			h := &b.table(kind).shards[3]
			for i := range uint64(n) {
				hash := (i * 7919 % n) * step & hashMask
				if got := h.get(hash, hash*uint64(kind)); got != makeRef(1, uint32(i), 0) {
					t.Fatalf("%s, kind %d: hash %x has %x", name, kind, hash, got)
				}
			}
			if x.Len() != n {
				t.Errorf("%s: %d keys", name, x.Len())
			}
			checkShard(t, h)
			x.Close()

			x = NewIndex(0)
			b = &builder{x: x}
			for i := range uint64(n) {
				hash := i * step & hashMask
				b.add(kind, 3, []item{{hash, 0, makeRef(1, uint32(i), 0)}})
			}
			b.add(kind, 3, []item{{17 * step & hashMask, 0, makeRef(2, 5, 0)}})
			var twice []duplicate
			(&filler{b: b}).fill(kind, 3, func(d duplicate) { twice = append(twice, d) })
			if len(twice) != 1 || twice[0] != (duplicate{makeRef(1, 17, 0), makeRef(2, 5, 0)}) {
				t.Errorf("%s, kind %d: keys that came twice: %x", name, kind, twice)
			}
			x.Close()
		}
	}
}
