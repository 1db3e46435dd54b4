package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
)

// DuplicateKeyError says that a version has several rows of one key, so that there is no
// telling which became which.
type DuplicateKeyError struct {
	Version int64
	// Key is the key as text: id=7.
	Key string
}

func (e *DuplicateKeyError) Error() string {
	return fmt.Sprintf("version %d has several rows with the key %s, which is none then: name columns that tell its rows apart", e.Version, e.Key)
}

// most bounds the rows of one key that are looked at: more are no key's.
const most = 1000

// merger makes changes of rows that come in the order of the key.
type merger struct {
	d     *Diff
	yield func(*Change, error) bool

	last      []schema.Value // of the group
	rows      [2][][]schema.Value
	counts    [2]int64 // of a multiset
	evaluator *expr.Evaluator
}

// take adds a row; false ends the sequence.
func (m *merger) take(row []schema.Value) bool {
	if m.last != nil && m.d.compare(m.last, row) != 0 && !m.end() {
		return false
	}
	m.last = row
	which := row[0].I
	m.counts[which]++
	if m.d.HasKey() && m.counts[which] <= most {
		m.rows[which] = append(m.rows[which], row[1:])
	}
	return true
}

// end gives what the rows of the group say; false ends the sequence.
func (m *merger) end() bool {
	if m.last == nil {
		return true
	}
	defer func() { m.last, m.counts, m.rows = nil, [2]int64{}, [2][][]schema.Value{m.rows[0][:0], m.rows[1][:0]} }()
	if !m.d.HasKey() {
		return m.difference(m.counts[after] - m.counts[before])
	}
	olds, news := m.rows[before], m.rows[after]
	if len(olds) > 1 || len(news) > 1 {
		olds, news = m.d.cancel(olds, news)
	}
	for which, left := range [][][]schema.Value{olds, news} {
		if len(left) > 1 || m.counts[which] > most {
			version := m.d.from.Version()
			if side(which) == after {
				version = m.d.to.Version()
			}
			m.yield(nil, &DuplicateKeyError{version, m.d.keyText(m.last[1:])})
			return false
		}
	}
	c := &Change{Kind: Updated}
	if len(olds) > 0 {
		c.Old = olds[0]
	}
	if len(news) > 0 {
		c.New = news[0]
	}
	switch {
	case c.Old == nil && c.New == nil:
		return true
	case c.Old == nil:
		c.Kind = Inserted
	case c.New == nil:
		c.Kind = Deleted
	default:
		if c.Changed = m.d.changed(c.Old, c.New); len(c.Changed) == 0 {
			return true
		}
	}
	return m.give(c)
}

// difference gives a row of a multiset so many times as it came, or, below 0, went.
func (m *merger) difference(n int64) bool {
	for ; n != 0; n -= sign(n) {
		c := &Change{Kind: Inserted, New: slices.Clone(m.last[1:])}
		if n < 0 {
			c = &Change{Kind: Deleted, Old: slices.Clone(m.last[1:])}
		}
		if !m.give(c) {
			return false
		}
	}
	return true
}

func sign(n int64) int64 {
	if n < 0 {
		return -1
	}
	return 1
}

// give hands a change on, if its old or new row passes the filter.
func (m *merger) give(c *Change) bool {
	if m.d.where != nil && !m.passes(c.Old) && !m.passes(c.New) {
		return true
	}
	if c.Old != nil {
		c.Old = c.Old[:m.d.given:m.d.given]
	}
	if c.New != nil {
		c.New = c.New[:m.d.given:m.d.given]
	}
	return m.yield(c, nil)
}

func (m *merger) passes(row []schema.Value) bool {
	if row == nil {
		return false
	}
	if m.evaluator == nil {
		m.evaluator = m.d.where.NewEvaluator()
	}
	columns := make([][]schema.Value, len(m.d.wide))
	for i, at := range m.d.wide {
		if at >= 0 {
			columns[i] = row[at : at+1]
		}
	}
	return len(m.evaluator.Select(columns, []int32{0})) > 0
}

// changed gives the places of the given columns in which two rows differ.
func (d *Diff) changed(a, b []schema.Value) (places []int) {
	for i, c := range d.columns[:d.given] {
		if !c.Gone && !Equal(c.Type, a[i], b[i]) {
			places = append(places, i)
		}
	}
	return places
}

// cancel leaves out the pairs of rows that are equal.
func (d *Diff) cancel(olds, news [][]schema.Value) (left, right [][]schema.Value) {
	right = slices.Clone(news)
	for _, row := range olds {
		if i := slices.IndexFunc(right, func(o []schema.Value) bool { return len(d.changed(row, o)) == 0 }); i >= 0 {
			right = slices.Delete(right, i, i+1)
		} else {
			left = append(left, row)
		}
	}
	return left, right
}

// keyText gives the key of a row for messages.
func (d *Diff) keyText(row []schema.Value) string {
	parts := make([]string, len(d.key))
	for i, c := range d.key {
		text := "NULL"
		if !row[c].IsNull() {
			text = string(schema.AppendText(nil, d.columns[c].Type, row[c]))
		}
		parts[i] = d.columns[c].Name + "=" + text
	}
	return strings.Join(parts, ",")
}
