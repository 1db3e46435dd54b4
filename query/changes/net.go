package changes

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// KeyChange is what became of one key: Before nil is an insert, After nil a delete, both
// an update, which may be of the key's text in another case but never of the key. The rows
// have a cell for each of Columns and are valid until the next KeyChange.
type KeyChange struct {
	Before, After []schema.Value
}

// Changes gives it as entries of change data.
func (k *KeyChange) Changes(u *Unit) []Change {
	c := Change{Version: u.Version, Committed: u.Committed, Label: u.Label}
	before, after := c, c
	before.Row, after.Row = k.Before, k.After
	switch {
	case k.Before == nil:
		after.Kind = scan.Insert
		return []Change{after}
	case k.After == nil:
		before.Kind = scan.Delete
		return []Change{before}
	}
	before.Kind, after.Kind = scan.UpdatePreimage, scan.UpdatePostimage
	return []Change{before, after}
}

// Unit is the net changes of a version, or of all versions of a label.
type Unit struct {
	// Version is the last one, Committed when that was committed.
	Version   int64
	Committed time.Time
	// Label is the one that the version belongs to, "" where the table has none.
	Label string
	// Keys gives the net changes by key, once, before the next Unit is asked for.
	Keys iter.Seq2[*KeyChange, error]
}

// Changes gives the entries of the net changes, in the order of Keys and in its place.
func (u *Unit) Changes() iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for k, err := range u.Keys {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, c := range k.Changes(u) {
				if !yield(&c, nil) {
					return
				}
			}
		}
	}
}

// NetVersions gives the net changes of each version from..to that changed rows, in order.
// Besides the errors of Versions there are ErrNoKey and ErrDuplicateKey.
func (f *Feed) NetVersions(ctx context.Context, from, to int64) iter.Seq2[*Unit, error] {
	return func(yield func(*Unit, error) bool) {
		var n *netting
		defer func() { n.close() }()
		give := func() bool {
			if n == nil {
				return true
			}
			ok := yield(&Unit{n.last.Version, n.last.Committed, n.last.Label, n.keys()}, nil)
			n.close()
			n = nil
			return ok
		}
		for c, err := range f.Versions(ctx, from, to) {
			if err == nil && n != nil && c.Version != n.last.Version && !give() {
				return
			}
			if err == nil && n == nil {
				n, err = f.netting()
			}
			if err == nil {
				err = n.add(c)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		give()
	}
}

// NetRange gives the net changes of all versions from..to as one Unit, of the label of the
// last version. The caller calls end when it is done with it.
func (f *Feed) NetRange(ctx context.Context, from, to int64) (u *Unit, end func(), err error) {
	return f.net(ctx, labelSpan{after: from - 1, upTo: to})
}

// net nets the versions of a span.
func (f *Feed) net(ctx context.Context, s labelSpan) (u *Unit, end func(), err error) {
	n, err := f.netting()
	if err != nil {
		return nil, nil, err
	}
	p, err := f.plan(ctx, s.after+1, s.upTo, s.without, s.label)
	if err == nil {
		for c, err1 := range f.planned(ctx, p, s.after+1, s.upTo) {
			if err = err1; err == nil {
				err = n.add(c)
			}
			if err != nil {
				break
			}
		}
	}
	if err != nil {
		n.close()
		return nil, nil, err
	}
	u = &Unit{Version: s.upTo, Committed: p.committed, Label: s.label, Keys: n.keys()}
	if u.Label == "" {
		u.Label = p.label(s.upTo)
	}
	return u, n.close, nil
}

// netting makes net changes of changes.
type netting struct {
	feed *Feed
	sorter
	key  []byte
	last Change // without its row
}

func (f *Feed) netting() (*netting, error) {
	if len(f.key) == 0 {
		return nil, fmt.Errorf("net changes: %w: name its columns", ErrNoKey)
	}
	return &netting{feed: f, sorter: newSorter(len(f.Columns()), f.opts)}, nil
}

func (n *netting) close() {
	if n != nil {
		_ = n.Close()
	}
}

func (n *netting) add(c *Change) error {
	n.key = n.key[:0]
	for _, i := range n.feed.key {
		n.key = c.Row[i].AppendEncoded(n.key)
	}
	n.last = *c
	n.last.Row = nil
	return n.sorter.add(n.key, c)
}

// keys gives the net changes, once.
func (n *netting) keys() iter.Seq2[*KeyChange, error] {
	return func(yield func(*KeyChange, error) bool) {
		var k keyState
		for row, err := range n.Sorted {
			if err == nil && row[cellKey].S != k.key {
				if change := k.end(); change != nil && !yield(change, nil) {
					return
				}
				k = keyState{key: strings.Clone(row[cellKey].S)}
			}
			if err == nil {
				err = k.take(row, n.feed)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		if change := k.end(); change != nil {
			yield(change, nil)
		}
	}
}

// keyState follows one key through its changes.
type keyState struct {
	key           string
	before, after []schema.Value
	seen          bool
	version, rank int64
}

// take goes one change further.
func (k *keyState) take(row []schema.Value, f *Feed) error {
	version, rank, cells := row[cellVersion].I, row[cellRank].I, row[cellsBefore:]
	if k.seen && version == k.version && rank == k.rank {
		return fmt.Errorf("version %d changed the key %s twice: %w", version, f.keyText(cells), ErrDuplicateKey)
	}
	if rank == 0 {
		if !k.seen {
			k.before = slices.Clone(cells)
		}
		k.after = nil
	} else {
		k.after = slices.Clone(cells)
	}
	k.seen, k.version, k.rank = true, version, rank
	return nil
}

// end gives the net change, nil where there is none.
func (k *keyState) end() *KeyChange {
	if k.before == nil && k.after == nil || k.before != nil && k.after != nil && slices.Equal(k.before, k.after) {
		return nil
	}
	return &KeyChange{k.before, k.after}
}

// keyText gives a key for a message.
func (f *Feed) keyText(row []schema.Value) string {
	var out []byte
	for n, i := range f.key {
		if n > 0 {
			out = append(out, ',')
		}
		c := f.Columns()[i]
		out = append(append(out, c.Name...), '=')
		out = schema.AppendText(out, c.Type, row[i])
	}
	return string(out)
}
