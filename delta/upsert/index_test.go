package upsert

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
)

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
		x.putInt(i, makeRef(1, uint32(i), 0))
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
