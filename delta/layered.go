package delta

import "maps"

// layered is a map that is cheap to change a little: a base that is never
// touched again, and over it the keys that differ. The zero value is empty.
// A commit touches few of many keys, and every snapshot stays as it is.
type layered[V any] struct {
	base map[string]V
	over map[string]*V // nil: not there
	size int
}

// get finds a key.
func (m layered[V]) get(key string) (v V, ok bool) {
	if p, changed := m.over[key]; changed {
		if p == nil {
			return v, false
		}
		return *p, true
	}
	v, ok = m.base[key]
	return v, ok
}

// all calls f for every entry, in no order.
func (m layered[V]) all(f func(key string, v V)) {
	for key, v := range m.base {
		if _, changed := m.over[key]; !changed {
			f(key, v)
		}
	}
	for key, p := range m.over {
		if p != nil {
			f(key, *p)
		}
	}
}

// with gives the map with some keys set, or removed where the value is nil. It
// keeps changes, which the caller must not touch any more. The layers become
// one once the upper one has a quarter of the keys, so that the copying stays a
// small part of the work per change.
func (m layered[V]) with(changes map[string]*V) layered[V] {
	if len(changes) == 0 {
		return m
	}
	size := m.size
	for key, p := range changes {
		if _, had := m.get(key); had {
			size--
		}
		if p != nil {
			size++
		}
	}
	over := changes
	if len(m.over) > 0 {
		over = maps.Clone(m.over)
		maps.Copy(over, changes)
	}
	next := layered[V]{base: m.base, over: over, size: size}
	if len(over) > 16+len(m.base)/4 {
		base := make(map[string]V, size)
		next.all(func(key string, v V) { base[key] = v })
		next = layered[V]{base: base, size: size}
	}
	return next
}
