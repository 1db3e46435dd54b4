package delta

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestLayeredIsAMap: a layered map shows what a plain one does, and every older
// one what it did.
func TestLayeredIsAMap(t *testing.T) {
	type version struct {
		m    layered[int]
		want map[string]int
	}
	rapid.Check(t, func(t *rapid.T) {
		versions := []version{{want: map[string]int{}}}
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			last := versions[len(versions)-1]
			want := maps.Clone(last.want)
			changes := map[string]*int{}
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				k := key.Draw(t, "key")
				if rapid.Bool().Draw(t, "delete") {
					changes[k] = nil
					delete(want, k)
				} else {
					v := rapid.Int().Draw(t, "value")
					changes[k] = &v
					want[k] = v
				}
			}
			versions = append(versions, version{last.m.with(changes), want})
		}
		for i, v := range versions {
			got := map[string]int{}
			v.m.all(func(key string, value int) { got[key] = value })
			if !maps.Equal(got, v.want) || v.m.size != len(v.want) {
				t.Fatalf("version %d: %v of size %d, want %v", i, got, v.m.size, v.want)
			}
			for k, value := range v.want {
				if g, ok := v.m.get(k); !ok || g != value {
					t.Fatalf("version %d: %s is %d", i, k, g)
				}
			}
		}
	})
}
