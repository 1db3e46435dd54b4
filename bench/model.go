package bench

import (
	"context"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// Model is what a table must hold after the first events of a workload. It is made by
// replaying them, without anything of gscd, and takes four bytes a key.
type Model struct {
	columns int
	// last is the version of each key's row, gone where it has none.
	last []uint32
	live int64
}

const gone = ^uint32(0)

// NewModel replays the first events of a workload.
func NewModel(p Params, events int64) (*Model, error) {
	g, err := NewGenerator(p)
	if err != nil {
		return nil, err
	}
	m := &Model{columns: p.Columns, last: make([]uint32, p.Rows+1, p.Rows+events/3+2), live: p.Rows}
	m.last[0] = gone
	for range events {
		switch e := g.Next(); e.Op {
		case 'c':
			m.last = append(m.last, uint32(e.Version()))
		case 'u':
			m.last[e.ID] = uint32(e.Version())
		default:
			m.last[e.ID] = gone
		}
	}
	m.live = g.Live()
	return m, nil
}

// Live is how many rows the table must have.
func (m *Model) Live() int64 { return m.live }

// Version gives the version of a key's row, see Row; ok is false where there is none.
func (m *Model) Version(id int64) (version int64, ok bool) {
	if id < 1 || id >= int64(len(m.last)) || m.last[id] == gone {
		return 0, false
	}
	return int64(m.last[id]), true
}

// Diff counts the keys that only a later model has, that have another row there, and that
// it has no more.
func (m *Model) Diff(later *Model) (inserted, updated, deleted int64) {
	for id := range later.last {
		before, was := m.Version(int64(id))
		after, is := later.Version(int64(id))
		switch {
		case was && !is:
			deleted++
		case !was && is:
			inserted++
		case was && before != after:
			updated++
		}
	}
	return inserted, updated, deleted
}

// Checked is what Check has found equal.
type Checked struct {
	Rows int64
	// Sum is the sum of id*31 + customer*3 + amount*7 + quantity over all rows, which any
	// engine can compute.
	Sum int64
}

// Check reads a version of the table and compares every cell of every row with the
// model's. The error names the first row that is wrong, is there twice, or is missing.
func (m *Model) Check(ctx context.Context, store objstore.Store, at *delta.Snapshot) (c Checked, err error) {
	names := ColumnNames(m.columns)
	var there []string
	place := make([]int, len(names)) // of each column in what is read, -1 for none: it is NULL then
	for i, name := range names {
		place[i] = -1
		if at.Schema().IndexFold(name) >= 0 {
			place[i] = len(there)
			there = append(there, name)
		}
	}
	if place[0] < 0 {
		return c, fmt.Errorf("the table has no column %s", names[0])
	}
	reading, err := scan.New(store, at, scan.Options{Columns: there})
	if err != nil {
		return c, err
	}
	seen := make([]uint64, len(m.last)/64+1)
	rows := newRenderer(m.columns)
	want := make([]schema.Value, 0, m.columns)
	for batch, err := range reading.Batches(ctx) {
		if err != nil {
			return c, err
		}
		for r := range batch.Rows {
			id := batch.Columns[place[0]][r].I
			if id < 1 || id >= int64(len(m.last)) || m.last[id] == gone {
				return c, fmt.Errorf("the table has a row of the key %d, which it must not have", id)
			}
			if seen[id>>6]>>(id&63)&1 == 1 {
				return c, fmt.Errorf("the key %d is in the table twice", id)
			}
			seen[id>>6] |= 1 << (id & 63)
			want = appendCells(want[:0], rows, m.columns, id, int64(m.last[id]))
			for i := range want {
				var got schema.Value
				if place[i] >= 0 {
					got = batch.Columns[place[i]][r]
				}
				if got != want[i] {
					return c, fmt.Errorf("the row of the key %d has %s %v, not %v of event %d", id, names[i], got, want[i], m.last[id])
				}
			}
			c.Rows++
			c.Sum += id*31 + want[1].I*3 + want[4].I*7 + want[8].I
		}
	}
	if c.Rows != m.live {
		for id := range m.last {
			if m.last[id] != gone && seen[id>>6]>>(id&63)&1 == 0 {
				return c, fmt.Errorf("the table has %d rows, not %d: the first key that is missing is %d", c.Rows, m.live, id)
			}
		}
	}
	return c, nil
}
