package write

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// changer ends rows of files, with new rows in their place or without: by deletion
// vectors where the table takes them, else by writing the files anew.
type changer struct {
	plan    *plan
	vectors bool
	data    *fileSet
	cdc     *fileSet // nil where no change data files are due
	pack    dv.Packer
	packID  uuid.UUID
	marked  []*action.Add
}

// endRows ends the rows found, or makes by's rows of them.
func (p *plan) endRows(ctx context.Context, found []*touched, feed bool, by replace) error {
	c := p.changer(ctx, feed)
	var err error
	for _, t := range found {
		if err = c.end(ctx, t, by); err != nil {
			break
		}
	}
	return c.close(ctx, err)
}

func (p *plan) changer(ctx context.Context, feed bool) *changer {
	c := &changer{plan: p, vectors: p.vectors(), data: p.files(ctx, false, 2), packID: uuid.New()}
	if p.tracking != nil {
		c.data.tracked = p.tracking.Columns()
	}
	if feed {
		c.cdc = p.files(ctx, true, 4)
	}
	return c
}

// replace gives the row in place of an old one, nil for none.
type replace func(old []schema.Value) ([]schema.Value, error)

// end ends the rows of a file. by is nil where rows only go.
func (c *changer) end(ctx context.Context, t *touched, by replace) error {
	rewrite := !c.vectors && !t.whole()
	switch n, known := t.live(); {
	case t.done && !rewrite:
	case by != nil || c.cdc != nil || rewrite:
		if err := c.read(ctx, t, rewrite, by); err != nil {
			return err
		}
	case t.rows != nil:
		updated := t.countUpdated()
		c.plan.counts.Updated += updated
		c.plan.counts.Deleted += t.rows.Cardinality() - updated
	case known:
		c.plan.counts.Deleted += n
	default:
		c.plan.counts.DeletedUnknown = true
	}
	if rewrite || t.whole() {
		c.plan.remove(t.add)
		return nil
	}
	return c.mark(ctx, t)
}

// read hands the rows of a file to where they go: those that stay to a new file where
// it is rewritten, those that end to the change data, and what replaces them to both.
func (c *changer) read(ctx context.Context, t *touched, rewrite bool, by replace) error {
	r := c.plan.reader
	if t.dead == nil && t.add.DeletionVector != nil {
		var err error
		if t.dead, err = delta.ReadDeletionVector(ctx, r.store, t.add); err != nil {
			return scan.FileError(t.add, err)
		}
	}
	f, err := r.open(ctx, t.add)
	if err != nil {
		return err
	}
	skip := func(from, to int64, _ int) bool { return !rewrite && t.rows != nil && t.rows.CountRange(from, to) == 0 }
	columns := make([]int, len(r.layout.schema.Fields))
	for i := range columns {
		columns[i] = i
	}
	row := make([]schema.Value, len(columns))
	return r.scanWith(ctx, t.add, f, columns, c.data.tracked, skip, func(b *block) error {
		for i := range b.rows {
			at := uint32(b.first + int64(i))
			ends := t.rows == nil || t.rows.Contains(at)
			if !ends && !rewrite || t.dead != nil && t.dead.Contains(at) {
				continue
			}
			row = b.row(i, row)
			var n numbers
			if tracking := c.plan.tracking; tracking != nil {
				n = numbers{b.extra[0][i], b.extra[1][i]}
				if err := tracking.Fill(t.add, int64(at), &n.id, &n.version); err != nil {
					return err
				}
			}
			if ends && t.done {
				continue
			}
			if !ends {
				c.plan.counts.Copied++
				if err := c.data.writeNumbered(row, "", n); err != nil {
					return err
				}
				continue
			}
			if t.updated != nil && t.updated.Contains(at) {
				c.plan.counts.Updated++
				if err := c.change(row, changePreimage); err != nil {
					return err
				}
				continue
			}
			if err := c.endRow(row, n, by); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *changer) endRow(row []schema.Value, n numbers, by replace) error {
	var next []schema.Value
	if by != nil {
		var err error
		if next, err = by(row); err != nil {
			return err
		}
	}
	if next == nil {
		c.plan.counts.Deleted++
		return c.change(row, changeDelete)
	}
	c.plan.counts.Updated++
	if err := c.change(row, changePreimage); err != nil {
		return err
	}
	if err := c.change(next, changePostimage); err != nil {
		return err
	}
	// The version of the commit is not known yet: left out, it is that of the file.
	return c.data.writeNumbered(next, "", numbers{id: n.id})
}

// insert adds a row.
func (c *changer) insert(row []schema.Value) error {
	c.plan.counts.Inserted++
	if err := c.change(row, changeInsert); err != nil {
		return err
	}
	return c.data.write(row, "")
}

func (c *changer) change(row []schema.Value, kind string) error {
	if c.cdc == nil {
		return nil
	}
	return c.cdc.write(row, kind)
}

// packBytes is the size from which a file of deletion vectors is ended.
const packBytes = 16 << 20

// mark gives a file a deletion vector with its old dead rows and the new ones.
func (c *changer) mark(ctx context.Context, t *touched) error {
	dead := t.rows
	if t.dead != nil {
		dead = t.rows.Clone()
		dead.Or(t.dead)
	}
	offset, size, cardinality, err := c.pack.Append(dead)
	if err != nil {
		return fmt.Errorf("deletion vector of %s: %w", t.add.Path, err)
	}
	add := *t.add
	add.DataChange = true
	add.DeletionVector = &action.DeletionVector{
		StorageType: "u", PathOrInlineDV: dv.PathOfID(c.packID), Offset: &offset, SizeInBytes: size, Cardinality: cardinality,
	}
	if add.Stats, err = stats.Loosen(t.add.Stats, t.all); err != nil {
		return fmt.Errorf("%w: %s: %w", scan.ErrFileMismatch, t.add.Path, err)
	}
	c.plan.tx.Remove(delta.RemoveOf(t.add, c.plan.op.table.Now(), true))
	c.marked = append(c.marked, &add)
	if t.add.DeletionVector == nil {
		c.plan.counts.VectorsAdded++
	} else {
		c.plan.counts.VectorsUpdated++
	}
	if c.pack.Len() >= packBytes {
		return c.store(ctx)
	}
	return nil
}

// store ends the file of deletion vectors.
func (c *changer) store(ctx context.Context) error {
	if c.pack.Len() == 0 {
		return nil
	}
	key := dv.FileName(c.packID)
	c.plan.op.passing = append(c.plan.op.passing, key)
	if err := c.plan.op.table.Store().Put(ctx, key, c.pack.Bytes()); err != nil {
		return fmt.Errorf("write deletion vectors: %w", err)
	}
	c.pack.Reset()
	c.packID = uuid.New()
	return nil
}

// close stores what is open and makes it part of the transaction. fault is an error of
// the changes; it is given back, with nothing left under way.
func (c *changer) close(ctx context.Context, fault error) error {
	if fault == nil {
		fault = c.store(ctx)
	}
	sets := slices.DeleteFunc([]*fileSet{c.data, c.cdc}, func(s *fileSet) bool { return s == nil })
	for _, s := range sets {
		if fault == nil {
			fault = s.close()
		}
		if fault != nil {
			s.abandon()
		}
		c.plan.op.passing = append(c.plan.op.passing, s.keys...)
	}
	if fault != nil {
		return fault
	}
	for _, a := range c.marked {
		c.plan.tx.Add(a)
	}
	for _, a := range c.data.adds {
		c.plan.tx.Add(a)
		c.plan.counts.FilesAdded++
		c.plan.counts.BytesAdded += a.Size
	}
	if c.cdc != nil {
		for _, f := range c.cdc.cdc {
			c.plan.addCDC(f)
		}
	}
	return nil
}
