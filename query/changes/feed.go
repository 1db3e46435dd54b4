package changes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// What a caller decides on.
var (
	// ErrNoChanges: the table has no change data of the range. See scan.ErrNoChanges.
	ErrNoChanges = scan.ErrNoChanges
	// ErrNoKey: net changes need a key, and the table has none.
	ErrNoKey = errors.New("the table has no key")
	// ErrDuplicateKey: a version changed one key more than once, so it is no key.
	ErrDuplicateKey = errors.New("key occurs twice")
	// ErrRange: the range of labels or versions is none.
	ErrRange = errors.New("not a range of changes")
)

// Options say how changes are read. The zero Options read all columns.
type Options struct {
	// Key names the key columns; nil takes the table's own, of tables of gscd.
	Key []string
	// Memory bounds the changes that are held to be put in order, in bytes; more go to
	// TempDir. 0: 64 MiB.
	Memory int64
	// TempDir is where they go; "": that of the system.
	TempDir string
	// Notice, where set, is told what a reader should know: that changes of a label come
	// by comparing its savepoints.
	Notice func(string)
}

const defaultMemory = 64 << 20

// Change is one row change.
type Change struct {
	// Kind is scan.Insert, Delete, UpdatePreimage or UpdatePostimage.
	Kind    string
	Version int64
	// Committed is when the version was committed.
	Committed time.Time
	// Label is the one that the version belongs to, "" where the table has none.
	Label string
	// Row has a cell for each of Columns. It is valid until the next Change.
	Row []schema.Value
}

// gone tells a change that takes a row away from one that brings it.
func (c *Change) gone() bool { return c.Kind == scan.Delete || c.Kind == scan.UpdatePreimage }

// Feed is the change data of a table up to one snapshot of it. It may be used any
// number of times, also at once.
type Feed struct {
	table  *delta.Table
	newest *delta.Snapshot
	labels *savepoint.Map // nil for tables without labels
	opts   Options
	key    []int // places of the key columns
}

// Open makes the Feed of a table as it is at newest; labels are its map there, nil for a
// table that gscd did not write. An error about Options.Key wraps scan.ErrColumn.
func Open(table *delta.Table, newest *delta.Snapshot, labels *savepoint.Map, o Options) (*Feed, error) {
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	f := &Feed{table: table, newest: newest, labels: labels, opts: o}
	key := o.Key
	if key == nil && labels != nil {
		settings, err := savepoint.SettingsOf(newest)
		if err != nil {
			return nil, err
		}
		key = settings.Key
	}
	for _, name := range key {
		i := newest.Schema().IndexFold(name)
		if i < 0 {
			return nil, fmt.Errorf("%w: key column %q; the table has %q", scan.ErrColumn, name, newest.Schema().Names())
		}
		f.key = append(f.key, i)
	}
	return f, nil
}

// Columns gives the columns of the rows: those of the newest version.
func (f *Feed) Columns() []schema.Field { return f.newest.Schema().Fields }

// Key gives the places of the key columns in Columns, none where the table has no key.
func (f *Feed) Key() []int { return slices.Clone(f.key) }

// Newest is the last version.
func (f *Feed) Newest() int64 { return f.newest.Version() }

// Versions gives the changes of the versions from..to, both included, by version. Of one
// version they come in no order, but the two images of an update follow one another
// where the writer put them so.
//
// The error, which ends the sequence, wraps ErrNoChanges where change data was not
// written in all of them, *delta.VersionNotFoundError where a commit is gone, and
// scan.ErrFileMissing where a file is; it says from which version on changes can be read.
func (f *Feed) Versions(ctx context.Context, from, to int64) iter.Seq2[*Change, error] {
	return f.changes(ctx, from, to, nil, "")
}

// changes gives the changes of versions that are in none of the spans. label is that of
// versions before the first commit of gscd in the range; "" looks it up.
func (f *Feed) changes(ctx context.Context, from, to int64, without []progress.Span, label string) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		p, err := f.plan(ctx, from, to, without, label)
		if err != nil {
			yield(nil, err)
			return
		}
		f.planned(ctx, p, from, to)(yield)
	}
}

// planned gives the changes of what plan found.
func (f *Feed) planned(ctx context.Context, p *plan, from, to int64) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for i := range p.stretches {
			err := f.read(ctx, &p.stretches[i], p, yield)
			switch {
			case errors.Is(err, errEnough):
				return
			case err != nil:
				yield(nil, f.explain(ctx, err, from, to))
				return
			}
		}
	}
}

// explain says of which range an error is, and what can be read instead.
func (f *Feed) explain(ctx context.Context, err error, from, to int64) error {
	return fmt.Errorf("changes of versions %d to %d: %w%s", from, to, err, f.readable(ctx, err, from, to))
}

var errEnough = errors.New("enough")

// stretch is versions in a row with the same columns; from..to, both included.
type stretch struct {
	from, to int64
	// source[i] is the place of the i-th of Columns in the stretch's, -1 where it has none.
	source []int
	// compared tells that the one version is compared with that before it: it brought
	// other columns, and rows went that may have cells of columns that went with them.
	compared  bool
	committed time.Time
}

// plan is what is known of a range before its changes are read.
type plan struct {
	stretches []stretch
	labels    []labelled
	committed time.Time // of the last version
}

// labelled says from which version on changes belong to a label.
type labelled struct {
	from  int64
	label string
}

func (p *plan) label(version int64) string {
	i, exact := slices.BinarySearchFunc(p.labels, version, func(l labelled, v int64) int { return int(min(max(l.from-v, -1), 1)) })
	if !exact {
		i--
	}
	if i < 0 {
		return ""
	}
	return p.labels[i].label
}

// plan goes through the commits of a range, and refuses what has no change data.
func (f *Feed) plan(ctx context.Context, from, to int64, without []progress.Span, label string) (*plan, error) {
	p, err := f.survey(ctx, from, to, without, label)
	if err != nil {
		return nil, f.explain(ctx, err, from, to)
	}
	return p, nil
}

func (f *Feed) survey(ctx context.Context, from, to int64, without []progress.Span, label string) (*plan, error) {
	if from < 0 || from > to || to > f.newest.Version() {
		return nil, fmt.Errorf("%w: versions %d to %d of a table whose newest is %d", ErrRange, from, to, f.newest.Version())
	}
	p := &plan{}
	first, err := f.table.SnapshotAt(ctx, from)
	if err != nil {
		return nil, err
	}
	on := first.Metadata().Configuration[delta.PropertyChangeDataFeed] == "true"
	fresh := true // the next version that is read begins a stretch
	for v, err := range f.table.Commits(ctx, from, to) {
		if err != nil {
			return nil, err
		}
		p.committed = v.Committed
		if v.Metadata != nil {
			on, fresh = v.Metadata.Configuration[delta.PropertyChangeDataFeed] == "true", true
		}
		if f.labels != nil {
			if err := p.note(ctx, f, v, from, label); err != nil {
				return nil, err
			}
		}
		if within(without, v.Version) {
			fresh = true
			continue
		}
		if !on {
			return nil, fmt.Errorf("%w: %s is not true in version %d", ErrNoChanges, delta.PropertyChangeDataFeed, v.Version)
		}
		compared := v.Metadata != nil && v.Version > 0 && len(f.key) > 0 && len(v.CDC) == 0 && len(v.Removes) > 0
		if fresh || compared {
			p.stretches = append(p.stretches, stretch{from: v.Version, compared: compared, committed: v.Committed})
		}
		fresh = compared
		p.stretches[len(p.stretches)-1].to = v.Version
	}
	for i := range p.stretches {
		if err := f.match(ctx, &p.stretches[i]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// note keeps the label that a version belongs to: what its commit says, or, of another
// program's, that of the commit of gscd before it.
func (p *plan) note(ctx context.Context, f *Feed, v delta.VersionCommit, from int64, label string) error {
	var own *progress.Progress
	var err error
	if len(v.Info) > 0 {
		if own, err = progress.Decode(v.Info); err != nil {
			return fmt.Errorf("version %d: %w", v.Version, err)
		}
	}
	switch {
	case own != nil:
		label = own.Label
	case v.Version > from:
		return nil
	case label == "" && from > 0:
		before, err := f.table.SnapshotAt(ctx, from)
		if err != nil {
			return err
		}
		switch then, err := savepoint.ProgressOf(ctx, f.table, before); {
		case err == nil:
			label = then.Label
		case !errors.Is(err, savepoint.ErrForeign):
			return err
		}
	}
	if n := len(p.labels); n == 0 || p.labels[n-1].label != label {
		p.labels = append(p.labels, labelled{v.Version, label})
	}
	return nil
}

func within(spans []progress.Span, version int64) bool {
	for _, s := range spans {
		// The rollback itself is the commit behind what it took back.
		if s.From <= version && version <= s.To+1 {
			return true
		}
	}
	return false
}

// match finds the newest version's columns among those of a stretch.
func (f *Feed) match(ctx context.Context, s *stretch) error {
	if s.compared {
		return nil
	}
	then := f.newest
	if s.to < then.Version() {
		var err error
		if then, err = f.table.SnapshotAt(ctx, s.to); err != nil {
			return err
		}
	}
	old := then.Schema().Fields
	for _, c := range f.Columns() {
		at := slices.IndexFunc(old, func(o schema.Field) bool { return strings.EqualFold(o.Stored(), c.Stored()) })
		if at >= 0 && !fits(old[at].Type, c.Type) {
			return fmt.Errorf("%w: column %s was %s in version %d and is %s now; ask for versions before or after the change",
				ErrNoChanges, c.Name, old[at].Type, s.to, c.Type)
		}
		s.source = append(s.source, at)
	}
	return nil
}

// fits reports whether cells of a type can stand in a column of another: the same, or one
// that was widened without another form of its cells.
func fits(from, to schema.Type) bool {
	switch {
	case from.String() == to.String():
		return true
	case schema.KindOf(from) != schema.KindOf(to) || schema.KindOf(from) == schema.Compound:
		return false
	case from.Primitive == schema.DecimalType:
		return from.Scale == to.Scale
	}
	return true
}

// read gives the changes of a stretch.
func (f *Feed) read(ctx context.Context, s *stretch, p *plan, yield func(*Change, error) bool) error {
	if s.compared {
		return f.readCompared(ctx, s, p, yield)
	}
	c := Change{Row: make([]schema.Value, len(s.source))}
	for b, err := range scan.Changes(ctx, f.table, s.from, s.to, nil) {
		if err != nil {
			return err
		}
		c.Version, c.Committed, c.Label = b.Version, b.Committed, p.label(b.Version)
		for r := range b.Rows {
			c.Kind = b.Kinds[r]
			for i, at := range s.source {
				c.Row[i] = schema.Value{}
				if at >= 0 {
					c.Row[i] = b.Columns[at][r]
				}
			}
			if !yield(&c, nil) {
				return errEnough
			}
		}
	}
	return nil
}

// readCompared gives the changes of one version by comparing it with that before it.
func (f *Feed) readCompared(ctx context.Context, s *stretch, p *plan, yield func(*Change, error) bool) error {
	before, err := f.at(ctx, s.from-1)
	if err != nil {
		return err
	}
	now, err := f.at(ctx, s.from)
	if err != nil {
		return err
	}
	keys, err := f.difference(ctx, before, now)
	if err != nil {
		return err
	}
	u := &Unit{Version: s.from, Committed: s.committed, Label: p.label(s.from)}
	for k, err := range keys {
		if err != nil {
			return err
		}
		for _, c := range k.Changes(u) {
			if !yield(&c, nil) {
				return errEnough
			}
		}
	}
	return nil
}
