package decode

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
