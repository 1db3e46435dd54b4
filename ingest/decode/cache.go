package decode

import "strings"

// A cache holds what was found for texts of records. A stream whose every
// record has another shape or schema must not fill the memory: a cache that is
// full is emptied, which costs the work again and nothing else.
const (
	maxCached      = 256
	maxCachedBytes = 16 << 20
)

type cache[V any] struct {
	known map[string]V
	bytes int // of the keys
}

func (c *cache[V]) get(key []byte) (V, bool) {
	v, ok := c.known[string(key)]
	return v, ok
}

func (c *cache[V]) put(key string, v V) {
	if c.known == nil || len(c.known) >= maxCached || c.bytes+len(key) > maxCachedBytes {
		c.known, c.bytes = map[string]V{}, 0
	}
	c.known[key] = v
	c.bytes += len(key)
}

// names keeps the names that records repeat.
type names struct {
	known cache[string]
	last  string
}

// intern gives a name as a string that outlives the record.
func (n *names) intern(name string) string {
	if name == n.last {
		return n.last
	}
	kept, ok := n.known.known[name]
	if !ok {
		kept = strings.Clone(name)
		n.known.put(kept, kept)
	}
	n.last = kept
	return kept
}
