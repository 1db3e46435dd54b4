package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"iter"
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
)

// ErrKey is wrapped where a side lacks a column of the key.
var ErrKey = errors.New("no such key column")

// Side is rows to be compared.
type Side struct {
	// Name is for messages; it has no credentials.
	Name    string
	Columns []schema.Field
	// Rows have a cell for each column; one is valid until the next.
	Rows iter.Seq2[[]schema.Value, error]
}

// Options say how rows are compared.
type Options struct {
	// Key names the columns of the key. Without one whole rows are compared, and a changed
	// row is one that is missing and one that is extra.
	Key []string
	// Columns, where set, are compared beside the key; else all that a side has.
	Columns []string
	// RangeRows is how many keys a Range has; default 10,000.
	RangeRows int
	// Memory bounds what is held of the rows of a side while they are sorted, in bytes (default 128 MiB); more
	// goes to files below TempDir ("": the system's).
	Memory  int64
	TempDir string
	// Keep is how many Differences of a Range are handed over; all are counted.
	Keep int
}

// Kind says how the rows of a key differ.
type Kind string

// The kinds.
const (
	// Missing: only the second side has the key.
	Missing Kind = "missing"
	// Extra: only the first side has it.
	Extra Kind = "extra"
	// Different: both have it, with other values.
	Different Kind = "different"
	// Repeated: a side has it more than once, and the rows of the two are not the same.
	Repeated Kind = "repeated"
)

// Difference is a key whose rows differ.
type Difference struct {
	Kind Kind
	// Key has a cell for each column of the key, as the side has it that has the key; nil
	// without a key.
	Key []schema.Value
	// Columns are those that differ, of Different.
	Columns []string
}

// Range is some neighbouring keys.
type Range struct {
	// From and To are its first and last key, nil without a key.
	From, To []schema.Value
	// Rows and Hash are of the two sides. Hashes are SHA-256 of the rows' hashes in order
	// of their keys.
	Rows [2]int64
	Hash [2][sha256.Size]byte
	// Differing counts keys; Differences are the first Options.Keep of them.
	Differing   int64
	Differences []Difference
}

// Equal tells that the two sides have the same rows.
func (r *Range) Equal() bool { return r.Hash[0] == r.Hash[1] && r.Rows[0] == r.Rows[1] }

// Result counts what Compare saw.
type Result struct {
	Rows   [2]int64
	Ranges int
	ByKind map[Kind]int64
	// Notes say what columns can hardly be equal, or are on one side alone.
	Notes []string
}

// Differing counts keys that differ.
func (r *Result) Differing() (n int64) {
	for _, k := range r.ByKind {
		n += k
	}
	return n
}

// Compare sorts the rows of both sides and hands ranges over in order of their keys; a
// range is valid until the next. The error wraps ErrKey, or is a side's, or emit's.
func Compare(ctx context.Context, left, right Side, o Options, emit func(*Range) error) (*Result, error) {
	if o.RangeRows <= 0 {
		o.RangeRows = 10_000
	}
	if o.Memory <= 0 {
		o.Memory = 128 << 20
	}
	c, err := newComparison(left, right, o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for i, side := range []Side{left, right} {
		if err := c.take(ctx, i, side); err != nil {
			return c.result, fmt.Errorf("%s: %w", side.Name, err)
		}
	}
	return c.result, c.merge(ctx, emit)
}

// group is the rows of one key on one side.
type group struct {
	key  string
	rows []record // by rising hash
}

// ranging builds ranges.
type ranging struct {
	c      *comparison
	now    *Range
	keys   int
	hashes [2]hash.Hash
	emit   func(*Range) error
}

func (c *comparison) merge(ctx context.Context, emit func(*Range) error) error {
	var next [2]func() (group, bool, error)
	var heads [2]group
	var have [2]bool
	for i := range next {
		pull, stop := iter.Pull2(c.groups(i))
		defer stop()
		next[i] = func() (group, bool, error) {
			g, err, ok := pull()
			return g, ok, err
		}
		var err error
		if heads[i], have[i], err = next[i](); err != nil {
			return err
		}
	}
	r := &ranging{c: c, emit: emit}
	for have[0] || have[1] {
		if err := ctx.Err(); err != nil {
			return err
		}
		var pair [2]*group
		switch {
		case !have[1] || have[0] && heads[0].key < heads[1].key:
			pair[0] = &heads[0]
		case !have[0] || heads[1].key < heads[0].key:
			pair[1] = &heads[1]
		default:
			pair = [2]*group{&heads[0], &heads[1]}
		}
		if err := r.add(pair); err != nil {
			return err
		}
		for i := range pair {
			if pair[i] == nil {
				continue
			}
			var err error
			if heads[i], have[i], err = next[i](); err != nil {
				return err
			}
		}
	}
	return r.end()
}

// add takes the rows of one key.
func (r *ranging) add(pair [2]*group) error {
	some := pair[0]
	if some == nil {
		some = pair[1]
	}
	key, err := r.c.keyOf(some.rows[0])
	if err != nil {
		return err
	}
	if r.now == nil {
		r.now, r.keys = &Range{From: key}, 0
		r.hashes = [2]hash.Hash{sha256.New(), sha256.New()}
	}
	r.now.To = key
	for i, g := range pair {
		if g == nil {
			continue
		}
		r.now.Rows[i] += int64(len(g.rows))
		r.c.result.Rows[i] += int64(len(g.rows))
		for _, row := range g.rows {
			r.hashes[i].Write(row.sum[:])
		}
	}
	if kind, columns := r.c.differ(pair); kind != "" {
		r.now.Differing++
		r.c.result.ByKind[kind]++
		if len(r.now.Differences) < r.c.o.Keep {
			r.now.Differences = append(r.now.Differences, Difference{kind, key, columns})
		}
	}
	if r.keys++; r.keys >= r.c.o.RangeRows {
		return r.end()
	}
	return nil
}

func (r *ranging) end() error {
	if r.now == nil {
		return nil
	}
	for i, h := range r.hashes {
		h.Sum(r.now.Hash[i][:0])
	}
	done := r.now
	r.now = nil
	r.c.result.Ranges++
	return r.emit(done)
}

// differ tells how the rows of a key differ, "" for not.
func (c *comparison) differ(pair [2]*group) (Kind, []string) {
	switch {
	case pair[1] == nil:
		return Extra, nil
	case pair[0] == nil:
		return Missing, nil
	case slices.EqualFunc(pair[0].rows, pair[1].rows, func(a, b record) bool { return a.sum == b.sum }):
		return "", nil
	case len(pair[0].rows) != 1 || len(pair[1].rows) != 1:
		return Repeated, nil
	}
	var columns []string
	a, b := pair[0].rows[0], pair[1].rows[0]
	for i, name := range c.names {
		if a.columns[i*columnHash:(i+1)*columnHash] != b.columns[i*columnHash:(i+1)*columnHash] {
			columns = append(columns, name)
		}
	}
	return Different, columns
}
