package ingest

import (
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/ingest/change"
)

// The index of a large table is memory that takes long to reach: a chunk's keys are looked up
// together before its changes are taken one by one, so that the waits overlap.

// lookAheadFrom is from how many keys on an index no longer lies in a core's cache.
const lookAheadFrom = 1 << 16

// ahead is what is known of a chunk's changes before they are taken.
type ahead struct {
	changes []lookedUp // one a change
	// The Refs hold while it is this index, and as many changes were made to it.
	index *upsert.Index
	made  int64
}

// lookedUp is what is known of a change.
type lookedUp struct {
	known    bool // the keys are those that Lane.keys gives
	old, new string
	refs     [2]upsert.Ref // of old and new
}

// lookAhead finds the keys of a chunk's row changes, and what the index has of them. Whatever
// says more than that, such as that a key is bad, is left to be found in turn.
func (l *Lane) lookAhead(c *chunk) {
	index := l.writer.Index()
	if c.ahead.changes = c.ahead.changes[:0]; index.Len() < l.o.lookAheadFrom || l.o.Append || !l.keysAreTyped() {
		return
	}
	keys := l.keysAhead[:0]
	for i := range c.records {
		var f lookedUp
		if i >= c.at && c.errs[i] == nil && c.records[i].Oversize == 0 {
			if old, new, ok := l.rowKeys(&c.changes[i]); ok {
				f = lookedUp{known: true, old: old, new: new}
			}
		}
		for _, key := range [...]string{f.old, f.new} {
			if key != "" {
				keys = append(keys, key)
			}
		}
		c.ahead.changes = append(c.ahead.changes, f)
	}
	refs := append(l.refsAhead[:0], make([]upsert.Ref, len(keys))...)
	index.GetMany(keys, refs)
	c.ahead.index, c.ahead.made = index, index.Changes()
	l.keysAhead, l.refsAhead = keys, refs
	for i := range c.ahead.changes {
		f := &c.ahead.changes[i]
		for n, key := range [...]string{f.old, f.new} {
			if key != "" {
				f.refs[n], refs = refs[0], refs[1:]
			}
		}
	}
	clear(keys)
}

// keysAreTyped reports whether the types of the key's columns are settled: by the first change
// that has a value of each.
func (l *Lane) keysAreTyped() bool {
	unknown := func(t schema.Type) bool { return t.Primitive == schema.Unknown }
	return len(l.key) > 0 && !slices.ContainsFunc(l.keyTypes, unknown)
}

// rowKeys is keys, of a change that is looked at ahead: not ok where it is none of a row, or its
// keys are bad.
func (l *Lane) rowKeys(c *change.Change) (old, new string, ok bool) {
	switch c.Op {
	case change.Insert, change.Update, change.Delete, change.Read:
		old, new, rej := l.keys(c, 0, 0) // only the keys of append mode have partition and offset
		return old, new, rej == nil
	}
	return "", "", false
}

// keysOf is keys, for the change that is being taken.
func (l *Lane) keysOf(c *change.Change, partition int32, offset int64) (old, new string, _ *rejection) {
	if f := l.taking; f != nil && f.known {
		return f.old, f.new, nil
	}
	return l.keys(c, partition, offset)
}

// indexed gives the Ref that the index has of a key.
func (l *Lane) indexed(key string) upsert.Ref {
	index := l.writer.Index()
	if f := l.taking; f != nil && f.known && l.takingOf.index == index && l.takingOf.made == index.Changes() {
		switch key {
		case f.new:
			return f.refs[1]
		case f.old:
			return f.refs[0]
		}
	}
	return index.Get(key)
}

// of gives what is known of the i-th change; nil where nothing is.
func (a *ahead) of(i int) *lookedUp {
	if i >= len(a.changes) {
		return nil
	}
	return &a.changes[i]
}
