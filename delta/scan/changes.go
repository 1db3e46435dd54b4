package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/schema"
)

// ErrNoChanges is wrapped where the change data of a range can't be read: change data
// feed was off in a version, or the columns changed.
var ErrNoChanges = errors.New("change data is not there")

// The kinds of changes. A table may hold others, which are given as they are.
const (
	Insert          = "insert"
	Delete          = "delete"
	UpdatePreimage  = "update_preimage"
	UpdatePostimage = "update_postimage"
)

// ChangeBatch is some rows that one version changed.
type ChangeBatch struct {
	Version   int64
	Committed time.Time
	// Kinds[r] says what happened to row r of Batch.
	Kinds []string
	Batch
}

// changeColumn is what change data files call the kind of a change.
const changeColumn = "_change_type"

// Changes gives the rows that the versions from..to (both included) changed, by
// version: those of the change data files where the version has some, else the rows of
// the files that it added or removed, and those that deletion vectors took away or
// gave back. Rewrites that change no rows give none. columns names the columns to
// give, nil all of the version to.
//
// The error, which comes last, wraps ErrNoChanges where delta.enableChangeDataFeed was
// not true in every version or the columns changed, delta.ErrVersionNotFound where a
// version is not there, or is one of Scan's.
func Changes(ctx context.Context, table *delta.Table, from, to int64, columns []string) iter.Seq2[*ChangeBatch, error] {
	return func(yield func(*ChangeBatch, error) bool) {
		c, err := newChangeReader(ctx, table, from, to, columns)
		if err == nil {
			err = c.read(ctx, from, to, yield)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, fmt.Errorf("changes of %s: %w", table.Store(), err))
		}
	}
}

// changeReader reads changes through Scans of the last version.
type changeReader struct {
	table  *delta.Table
	schema *schema.Schema
	rows   *Scan // of data files
	cdc    *Scan // of change data files: the same columns and changeColumn behind them
}

func newChangeReader(ctx context.Context, table *delta.Table, from, to int64, columns []string) (*changeReader, error) {
	if from > to {
		return nil, fmt.Errorf("%w: version %d is above %d", ErrNoChanges, from, to)
	}
	last, err := table.SnapshotAt(ctx, to)
	if err != nil {
		return nil, err
	}
	first, err := table.SnapshotAt(ctx, from)
	if err != nil {
		return nil, err
	}
	c := &changeReader{table: table, schema: last.Schema()}
	for _, s := range []*delta.Snapshot{first, last} {
		if err := c.check(s.Version(), s.Metadata(), s.Schema()); err != nil {
			return nil, err
		}
	}
	if c.rows, err = New(table.Store(), last, Options{Columns: columns}); err != nil {
		return nil, err
	}
	extended, err := schema.New(append(slices.Clone(last.Schema().Fields), schema.Field{Name: changeColumn, Type: schema.Of(schema.StringType)})...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoChanges, err) // the table has such a column itself
	}
	names := columns
	if names == nil {
		names = last.Schema().Names()
	}
	c.cdc = &Scan{store: table.Store(), snapshot: last, options: Options{Columns: append(slices.Clone(names), changeColumn)}.withDefaults(), schema: extended}
	return c, c.cdc.planColumns()
}

// check refuses a version whose changes are not those of the columns.
func (c *changeReader) check(version int64, m *action.Metadata, s *schema.Schema) error {
	if m.Configuration[delta.PropertyChangeDataFeed] != "true" {
		return fmt.Errorf("%w: %s is not true in version %d", ErrNoChanges, delta.PropertyChangeDataFeed, version)
	}
	if !sameFields(s.Fields, c.schema.Fields) {
		return fmt.Errorf("%w: version %d has other columns than the last one; ask for a range without a change of them", ErrNoChanges, version)
	}
	return nil
}

// sameFields compares columns by all but their metadata.
func sameFields(a, b []schema.Field) bool {
	return slices.EqualFunc(a, b, func(x, y schema.Field) bool {
		return x.Name == y.Name && x.Nullable == y.Nullable && x.FileName == y.FileName && x.FieldID == y.FieldID && sameType(x.Type, y.Type)
	})
}

func sameType(a, b schema.Type) bool {
	if a.Nested == nil || b.Nested == nil {
		return a == b
	}
	return a.Primitive == b.Primitive && a.Nested.ContainsNull == b.Nested.ContainsNull && sameFields(a.Nested.Fields, b.Nested.Fields) &&
		sameType(a.Nested.Key, b.Nested.Key) && sameType(a.Nested.Element, b.Nested.Element)
}

func (c *changeReader) read(ctx context.Context, from, to int64, yield func(*ChangeBatch, error) bool) error {
	for v, err := range c.table.Commits(ctx, from, to) { // before a change is given away
		if err != nil {
			return err
		}
		if v.Metadata == nil || v.Version == from || v.Version == to { // the ends were looked at
			continue
		}
		s, err := c.table.SnapshotAt(ctx, v.Version)
		if err != nil {
			return err
		}
		if err := c.check(v.Version, s.Metadata(), s.Schema()); err != nil {
			return err
		}
	}
	for v, err := range c.table.Commits(ctx, from, to) {
		if err != nil {
			return err
		}
		emit := func(b *Batch, kinds []string) error {
			if !yield(&ChangeBatch{Version: v.Version, Committed: v.Committed, Kinds: kinds, Batch: *b}, nil) {
				return errEnough
			}
			return nil
		}
		if err := c.version(ctx, v, emit); err != nil {
			if errors.Is(err, errEnough) {
				return err
			}
			return fmt.Errorf("version %d: %w", v.Version, err)
		}
	}
	return nil
}

func (c *changeReader) version(ctx context.Context, v delta.VersionCommit, emit func(*Batch, []string) error) error {
	if len(v.CDC) > 0 {
		for _, f := range v.CDC {
			if err := c.changeFile(ctx, f, emit); err != nil {
				return err
			}
		}
		return nil
	}
	removed := map[string]*action.Remove{}
	for _, r := range v.Removes {
		if r.DataChange {
			removed[r.Key().Path] = r
		}
	}
	for _, add := range v.Adds {
		if !add.DataChange {
			continue
		}
		before := removed[add.Key().Path]
		delete(removed, add.Key().Path)
		if err := c.file(ctx, add, before, emit); err != nil {
			return err
		}
	}
	for _, r := range v.Removes {
		if removed[r.Key().Path] != r {
			continue
		}
		gone, err := c.asAdd(ctx, v.Version, r)
		if err != nil {
			return err
		}
		err = c.rows.readFile(ctx, gone, c.emitter(Delete, emit))
		if err != nil {
			return err
		}
	}
	return nil
}

// file gives the changes of a file that was added: all of its rows, or those that its
// deletion vector tells from that of the same file before.
func (c *changeReader) file(ctx context.Context, add *action.Add, before *action.Remove, emit func(*Batch, []string) error) error {
	if before == nil {
		return c.rows.readFile(ctx, add, c.emitter(Insert, emit))
	}
	store := c.table.Store()
	was, err := delta.ReadDeletionVector(ctx, store, &action.Add{Path: add.Path, DeletionVector: before.DeletionVector})
	if err != nil {
		return FileError(add, err)
	}
	is, err := delta.ReadDeletionVector(ctx, store, add)
	if err != nil {
		return FileError(add, err)
	}
	for _, change := range []struct {
		kind          string
		rows, without *dv.Bitmap
	}{{Delete, is, was}, {Insert, was, is}} {
		if change.rows == nil {
			continue
		}
		rows := change.rows.Clone()
		if change.without != nil {
			rows.AndNot(change.without)
		}
		if rows.IsEmpty() {
			continue
		}
		if err := c.rows.readRows(ctx, add, rows.Contains, c.emitter(change.kind, emit)); err != nil {
			return err
		}
	}
	return nil
}

// emitter hands selected rows on as changes of one kind.
func (c *changeReader) emitter(kind string, emit func(*Batch, []string) error) func(*selection) error {
	return func(rows *selection) error {
		for len(rows.kept) > 0 {
			b := c.rows.copyOut(rows)
			if err := emit(b, slices.Repeat([]string{kind}, b.Rows)); err != nil {
				return err
			}
		}
		return nil
	}
}

// changeFile gives the rows of a file of change data, which says itself what they are.
func (c *changeReader) changeFile(ctx context.Context, f *action.CDC, emit func(*Batch, []string) error) error {
	add := &action.Add{Path: f.Path, PartitionValues: f.PartitionValues, Size: f.Size}
	return c.cdc.readFile(ctx, add, func(rows *selection) error {
		for len(rows.kept) > 0 {
			b := c.cdc.copyOut(rows)
			last := len(b.Columns) - 1
			kinds := make([]string, b.Rows)
			for i, v := range b.Columns[last] {
				if v.Kind != schema.String || v.S == "" {
					return fmt.Errorf("%w: %s: row %d has no %s", ErrFileMismatch, f.Path, i, changeColumn)
				}
				kinds[i] = v.S
			}
			b.Columns = b.Columns[:last]
			if err := emit(b, kinds); err != nil {
				return err
			}
		}
		return nil
	})
}

// asAdd gives a removed file as it was: what the remove leaves out is looked up in the
// version before, or in the store.
func (c *changeReader) asAdd(ctx context.Context, version int64, r *action.Remove) (*action.Add, error) {
	add := &action.Add{Path: r.Path, PartitionValues: r.PartitionValues, DeletionVector: r.DeletionVector}
	if r.Size != nil && (r.PartitionValues != nil || len(c.rows.snapshot.Metadata().PartitionColumns) == 0) {
		add.Size = *r.Size
		return add, nil
	}
	before, err := c.table.SnapshotAt(ctx, version-1)
	if err != nil {
		return nil, fmt.Errorf("the remove of %s leaves out what the file is: %w", r.Path, err)
	}
	was, ok := before.File(r.Path)
	if !ok {
		return nil, fmt.Errorf("%w: the remove of %s leaves out what the file is, and version %d does not have it", delta.ErrCorrupt, r.Path, version-1)
	}
	add.PartitionValues, add.Size = was.PartitionValues, cmp.Or(was.Size, add.Size)
	return add, nil
}
