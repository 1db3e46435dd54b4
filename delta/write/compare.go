package write

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// Comparison is how gathered rows differ from those of one version of a table. Nothing
// of it is written before Write.
type Comparison struct {
	// Table counts the rows of the version. New, Changed and Unchanged count gathered
	// rows: those whose key the table lacks, has with other values, has so. Deleted counts
	// rows of the table whose key is not among the gathered ones; 0 unless the mode is Full.
	Table, New, Changed, Unchanged, Deleted int64
	// Skip, where it is set before Write, leaves out new rows for which it is true; they
	// are no longer counted as New.
	Skip func(row []schema.Value) bool
	// DeletedKeys are examples, MaxExamples at most, NewKeys and ChangedKeys as well; these
	// two are there after Write.
	DeletedKeys, NewKeys, ChangedKeys []string

	g        *Gathered
	snapshot *delta.Snapshot
	found    []*touched // files with rows that end
	fates    []fate     // by gathered row
}

// Differs reports whether anything is to be written.
func (c *Comparison) Differs() bool { return c.New+c.Changed+c.Deleted > 0 }

// Mode says what gathered rows are to a table.
type Mode uint8

const (
	// Full: all rows that it shall have. Upsert: rows that are new or changed. Fill: rows
	// that it may lack; what it has under their keys stays, and counts as unchanged.
	Full Mode = iota
	Upsert
	Fill
)

// fate is what becomes of a gathered row.
type fate uint8

const (
	isNew fate = iota
	isUnchanged
	isChanged
)

// Compare compares the rows with a version of the table, nil for one that is yet to be
// made. A key that the table has twice is an error that wraps ErrDuplicateKey.
func (g *Gathered) Compare(ctx context.Context, snapshot *delta.Snapshot, mode Mode) (*Comparison, error) {
	c := &Comparison{g: g, snapshot: snapshot, fates: make([]fate, g.Rows)}
	if snapshot == nil {
		c.New = g.Rows
		return c, nil
	}
	m := &matching{c: c, mode: mode, files: snapshot.Files()}
	m.reader = &reader{store: g.store.Store(), snapshot: snapshot, layout: g.layout, parallel: g.o.parallel}
	m.found = make([]*touched, len(m.files))
	err := m.match(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare with version %d: %w", snapshot.Version(), err)
	}
	for i, t := range m.found {
		if t == nil || t.rows.IsEmpty() {
			continue
		}
		c.found = append(c.found, t)
		if room := MaxExamples - len(c.DeletedKeys); room > 0 {
			keys, err := m.deletedKeys(ctx, i, room)
			if err != nil {
				return nil, err
			}
			c.DeletedKeys = append(c.DeletedKeys, keys...)
		}
	}
	c.New = g.Rows - c.Changed - c.Unchanged
	return c, nil
}

// matching finds the gathered row of each row of a version.
type matching struct {
	c      *Comparison
	reader *reader
	mode   Mode
	files  []*action.Add
	found  []*touched

	mu     sync.Mutex
	prints fingerprints // of the table's rows, where the gathered ones don't fit into memory
}

func (m *matching) match(ctx context.Context) error {
	g := m.c.g
	if g.prints.files == nil {
		list, err := g.prints.share(0, false) // sorted already
		if err != nil {
			return err
		}
		table := newKeyTable(list, 0)
		return m.scan(ctx, func(file int, rows []fingerprint) error {
			return m.settle(table, file, rows)
		})
	}
	m.prints = fingerprints{dir: &g.dir, most: g.prints.most}
	defer func() { _ = m.prints.close() }()
	if err := m.prints.spill(); err != nil {
		return err
	}
	err := m.scan(ctx, func(file int, rows []fingerprint) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i := range rows {
			rows[i].at |= uint64(file) << 32
			if err := m.prints.write(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	for i := 0; err == nil && i < shares; i++ {
		err = m.matchShare(ctx, i)
	}
	return err
}

// matchShare matches one share of the keys of both sides.
func (m *matching) matchShare(ctx context.Context, share int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ours, err := m.c.g.prints.share(share, true)
	if err != nil {
		return err
	}
	theirs, err := m.prints.share(share, false)
	if err != nil {
		return err
	}
	table := newKeyTable(ours, shareBits)
	for len(theirs) > 0 { // runs of one file
		file := theirs[0].at >> 32
		n := 1
		for n < len(theirs) && theirs[n].at>>32 == file {
			n++
		}
		run := theirs[:n]
		for i := range run {
			run[i].at &= 1<<32 - 1
		}
		if err := m.settle(table, int(file), run); err != nil {
			return err
		}
		theirs = theirs[n:]
	}
	return nil
}

// settle decides what becomes of rows of a file.
func (m *matching) settle(table *keyTable, file int, rows []fingerprint) error {
	hits := make([]*fingerprint, len(rows))
	for i := range rows {
		hits[i] = table.find(&rows[i].key)
	}
	var ends, updated []uint32
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.c
	c.Table += int64(len(rows))
	for i, hit := range hits {
		at := uint32(rows[i].at)
		if hit == nil {
			if m.mode == Full {
				c.Deleted++
				ends = append(ends, at)
			}
			continue
		}
		if c.fates[hit.at] != isNew {
			return fmt.Errorf("%w in the table: that of row %d to be written, the second time in %s, row %d: delete one of the two rows",
				ErrDuplicateKey, hit.at+1, m.files[file].Path, at)
		}
		if hit.rest == rows[i].rest || m.mode == Fill {
			c.fates[hit.at] = isUnchanged
			c.Unchanged++
			continue
		}
		c.fates[hit.at] = isChanged
		c.Changed++
		ends = append(ends, at)
		updated = append(updated, at)
	}
	m.found[file].rows.AddMany(ends)
	m.found[file].updated.AddMany(updated)
	return nil
}

// scan makes fingerprints of all rows of the version.
func (m *matching) scan(ctx context.Context, each func(file int, rows []fingerprint) error) error {
	columns := make([]int, len(m.reader.layout.schema.Fields))
	for i := range columns {
		columns[i] = i
	}
	return objstore.InParallel(ctx, len(m.files), m.reader.parallel, func(ctx context.Context, i int) error {
		add := m.files[i]
		dead, err := delta.ReadDeletionVector(ctx, m.reader.store, add)
		if err != nil {
			return scan.FileError(add, err)
		}
		f, err := m.reader.open(ctx, add)
		if err != nil {
			return err
		}
		m.found[i] = &touched{add: add, dead: dead, rows: dv.New(), updated: dv.New(), all: f.NumRows()}
		p := m.c.g.printer()
		row := make([]schema.Value, len(columns))
		prints := make([]fingerprint, 0, batchRows)
		return m.reader.scan(ctx, add, f, columns, nil, func(b *block) error {
			prints = prints[:0]
			for r := range b.rows {
				at := uint32(b.first + int64(r))
				if dead == nil || !dead.Contains(at) {
					row = b.row(r, row)
					prints = append(prints, p.print(row, uint64(at)))
				}
			}
			return each(i, prints)
		})
	})
}

// deletedKeys reads some keys of a file that are gone.
func (m *matching) deletedKeys(ctx context.Context, file, most int) (keys []string, err error) {
	t := m.found[file]
	gone := t.rows.Clone()
	gone.AndNot(t.updated)
	if gone.IsEmpty() {
		return nil, nil
	}
	f, err := m.reader.open(ctx, t.add)
	if err != nil {
		return nil, err
	}
	row := make([]schema.Value, len(m.reader.layout.schema.Fields))
	skip := func(from, to int64, _ int) bool { return len(keys) >= most || gone.CountRange(from, to) == 0 }
	err = m.reader.scan(ctx, t.add, f, m.c.g.key, skip, func(b *block) error {
		for r := 0; r < b.rows && len(keys) < most; r++ {
			if gone.Contains(uint32(b.first + int64(r))) {
				keys = append(keys, m.c.g.keyText(b.row(r, row)))
			}
		}
		return nil
	})
	return keys, err
}

// Write stores what differs and makes it part of a transaction on the version that was
// compared, or on one with the same files. Rows that are unchanged are not written. Where
// the caller does not commit it, what was stored is left to vacuum.
func (c *Comparison) Write(ctx context.Context, tx *delta.Transaction) (Counts, error) {
	g := c.g
	op := &operation{table: g.store, o: g.o}
	p := &plan{op: op, snapshot: c.snapshot, layout: g.layout, rules: g.rules, tx: tx, began: time.Now()}
	p.reader = &reader{store: g.store.Store(), snapshot: c.snapshot, layout: g.layout, parallel: g.o.parallel}
	feed := false
	if c.snapshot != nil {
		var err error
		if p.tracking, err = c.snapshot.RowTracking(); err != nil {
			return p.counts, err
		}
		// Inserts and deletes show by themselves, unless a file is written anew.
		partly := slices.ContainsFunc(c.found, func(t *touched) bool { return !t.whole() })
		feed = p.feed() && (c.Changed > 0 || partly && !p.vectors())
	}
	ch := p.changer(ctx, feed)
	err := c.write(ctx, ch)
	if err := ch.close(ctx, err); err != nil {
		return p.counts, fmt.Errorf("write %s: %w", g.store.Store(), err)
	}
	p.counts.Source = g.Rows
	return p.counts, nil
}

func (c *Comparison) write(ctx context.Context, ch *changer) error {
	for _, t := range c.found {
		if err := ch.end(ctx, t, nil); err != nil {
			return err
		}
	}
	n := 0
	c.NewKeys, c.ChangedKeys, c.New = nil, nil, c.g.Rows-c.Changed-c.Unchanged
	for row, err := range c.g.rows.All() {
		if err != nil {
			return err
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch c.fates[n] {
		case isNew:
			if c.Skip != nil && c.Skip(row) {
				c.New--
				break
			}
			if len(c.NewKeys) < MaxExamples {
				c.NewKeys = append(c.NewKeys, c.g.keyText(row))
			}
			err = ch.insert(row)
		case isChanged:
			if len(c.ChangedKeys) < MaxExamples {
				c.ChangedKeys = append(c.ChangedKeys, c.g.keyText(row))
			}
			if err = ch.change(row, changePostimage); err == nil {
				err = ch.data.write(row, "")
			}
		}
		if err != nil {
			return err
		}
		n++
	}
	return nil
}
