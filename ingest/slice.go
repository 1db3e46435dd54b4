package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/marker"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// What a slice is refused for, before anything is written.
var (
	// ErrSlice: its rows don't fit the table: columns, types, values.
	ErrSlice = errors.New("the slice does not fit the table")
	// ErrIncompleteSlice: it is cut off, or has no rows.
	ErrIncompleteSlice = errors.New("the slice is incomplete")
	// ErrTooManyDeletes: more rows would be deleted than max_delete_fraction allows.
	ErrTooManyDeletes = errors.New("too many rows would be deleted")
	// ErrSliceLabel: the label takes no slice, or no other one.
	ErrSliceLabel = errors.New("the label takes no slice")
)

// SourcePosition is a place in the binlog of a server.
type SourcePosition = progress.SourcePosition

// Slice is rows that are a label's state, or its changes.
type Slice struct {
	Label string
	// Source names them in evidence and messages, without credentials.
	Source string
	// Open begins to read the rows, from the beginning at each call. columns are those of
	// the table, nil where it is yet to be made: who reads text types it by them.
	Open func(ctx context.Context, columns *schema.Schema) (SliceRows, error)
	// Upsert: the rows are new or changed ones; else they are all that the label has.
	Upsert bool
	// Replace lets it take the place of another one of the last sealed label.
	Replace bool
	// Topics tells that the table is read from topics too, or will be: the slice then
	// fills its first label, which stays open.
	Topics bool
	// MissingAsNull takes columns of the table that the slice lacks as NULL.
	MissingAsNull bool
	// AcceptDeletes, where not nil, allows so many deletes exactly, whatever part of the
	// rows they are.
	AcceptDeletes *int64
	// At gives where in its source's log the rows stand, nil where that is not known; it is
	// asked once the rows were read. A nil At knows nothing.
	At func() *SourcePosition
	// DryRun compares, checks, and changes nothing.
	DryRun bool
	// Memory bounds, in bytes, what is held (256 MiB); TempDir is where the rest goes.
	Memory  int64
	TempDir string
}

// Loaded says what became of a slice.
type Loaded struct {
	progress.Slice
	Label string
	// Version is that of the savepoint, or of the rows where the label stays open; what
	// was there before where nothing was committed.
	Version int64
	// Known tells that the label has these rows already: nothing was committed.
	Known bool
	// Committed and Created tell what was done, Sealed whether the label is sealed now.
	Committed, Sealed, Created bool
	// Empty are the labels between that were sealed without a change.
	Empty []string
	// NewColumns are those that the table got.
	NewColumns []string
	// Keys are examples, write.MaxExamples at most.
	NewKeys, ChangedKeys, DeletedKeys []string
}

// LoadSlice makes a slice the state of its label, and seals it, in a table without
// topics; labels between are sealed empty. The rows come in one commit, the seal in the
// next: where the program ends between, the same call goes on. The error wraps one of
// the sentinels above, ErrNoKey, ErrCalendar, write.ErrDuplicateKey, or the source's or
// store's cause.
func LoadSlice(ctx context.Context, o Options, s Slice) (*Loaded, error) {
	l, err := New(o, knownStates(nil))
	if err != nil {
		return nil, err
	}
	l.ctx, l.owner = ctx, "" // a table with topics stays its ingester's
	l.queue = newQueue(l.source, &l.o)
	defer l.queue.close()
	load := &sliceLoad{l: l, s: &s}
	defer load.close()
	for range conflictTries {
		var done *Loaded
		done, err = load.run()
		if !errors.Is(err, errReload) {
			if err != nil {
				err = fmt.Errorf("table %s: load %s: %w", l.o.Name, s.Label, err)
			}
			return done, err
		}
		load.drop()
	}
	return nil, fmt.Errorf("table %s: load %s: %w", l.o.Name, s.Label, err)
}

// sliceLoad is one slice on its way.
type sliceLoad struct {
	l     *Lane
	s     *Slice
	label snapshotter.Label
	rows  *write.Gathered
	done  *Loaded
	mode  write.Mode
	added []schema.Field
	// before is the version of the label's savepoint, replaced that of one that was rolled back.
	before, replaced int64
}

func (d *sliceLoad) close() { d.drop() }

func (d *sliceLoad) drop() {
	if d.rows != nil {
		d.rows.Close()
		d.rows = nil
	}
}

// loadForSlice takes the newest version as the lane's state, without a key index.
func (l *Lane) loadForSlice() error {
	l.p, l.base, l.judge, l.writer = nil, nil, nil, nil
	l.markers, l.batch, l.arena = marker.NewSet(), newBatch(), &change.Arena{}
	l.pinned, l.foreign, l.late = nil, nil, nil
	l.keyPlaces = map[*change.Columns][]int{}
	l.committed = map[change.PartitionID]int64{}
	l.key = l.o.Key
	l.queue.format = "" // whoever reads topics first decides it
	var err error
	l.table, err = savepoint.OpenTable(l.ctx, l.o.Store)
	if errors.Is(err, delta.ErrNotATable) {
		l.table = nil
		l.setColumns(nil, nil)
		return nil
	}
	if err != nil {
		return err
	}
	if l.base, err = l.table.Snapshot(l.ctx); err != nil {
		return l.explainUnreadable(err)
	}
	settings, err := savepoint.ReadSettings(l.ctx, l.table, l.base)
	if err != nil {
		return l.explainLost(err)
	}
	l.queue.format = settings.SourceFormat
	if err := errors.Join(l.checkLayout(), l.checkSettings(settings)); err != nil {
		return err
	}
	if l.p, err = savepoint.ProgressOf(l.ctx, l.table, l.base); err != nil {
		return l.explainLost(err)
	}
	if err := l.takeForeign(); err != nil {
		return err
	}
	if protected, err := l.protect(); err != nil {
		return err
	} else if protected {
		return errReload
	}
	l.setColumns(l.base.Schema(), l.p.ColumnsAtOpen)
	l.judge = snapshotter.NewJudge(l.o.Calendar, &l.p.State)
	l.highs = highsOf(l.state())
	l.markers, err = marker.Load(l.ctx, l.o.Store, l.p.Markers)
	return err
}

// run is one try, on the newest version.
func (d *sliceLoad) run() (*Loaded, error) {
	l := d.l
	if l.o.Append {
		return nil, fmt.Errorf("%w: mode append has no key to compare rows by", ErrSlice)
	}
	if err := l.loadForSlice(); err != nil {
		return nil, err
	}
	var err error
	if d.label, err = l.o.Calendar.Parse(d.s.Label); err != nil {
		return nil, err
	}
	d.done = &Loaded{Label: d.s.Label, Slice: progress.Slice{Source: d.s.Source, Mode: progress.FullSlice}}
	d.mode = write.Full
	if d.s.Upsert {
		d.mode, d.done.Mode = write.Upsert, progress.UpsertSlice
	}
	if l.p == nil {
		if err := d.begin(); err != nil {
			return nil, err
		}
	}
	if d.s.Topics || l.hasTopics() {
		return d.fill()
	}
	open := l.state().Open
	switch {
	case l.base != nil && d.label < open-1:
		return d.older()
	case l.base != nil && d.label < open:
		return d.again()
	}
	compared, err := d.compare(l.base)
	if err != nil {
		return nil, err
	}
	return d.done, d.apply(compared)
}

// begin makes the state of a table that does not exist yet.
func (d *sliceLoad) begin() error {
	l := d.l
	if len(l.key) == 0 {
		return fmt.Errorf("%w: set --key COLUMN[,COLUMN] (or key: in the configuration) to the columns that tell its rows apart", ErrNoKey)
	}
	l.p = &progress.Progress{LastSeal: -1}
	l.p.State.First, l.p.State.Open, l.p.State.Wait = d.label, d.label, l.o.DriftWait.Microseconds()
	l.judge = snapshotter.NewJudge(l.o.Calendar, &l.p.State)
	d.done.Created = true
	return nil
}

func (l *Lane) hasTopics() bool {
	for _, p := range l.state().Partitions {
		if !p.Heartbeat {
			return true
		}
	}
	return false
}

// gather reads the slice for a table with a schema, nil for one without.
func (d *sliceLoad) gather(metadata *action.Metadata, columns *schema.Schema) error {
	l := d.l
	d.drop()
	in, err := d.s.Open(l.ctx, columns)
	if err != nil {
		return err
	}
	fit, err := fitSlice(columns, l.o.Columns, l.key, d.s.MissingAsNull, in)
	if err != nil {
		return err
	}
	d.added = fit.added
	next := action.Metadata{Configuration: map[string]string{}}
	var fields []schema.Field
	if metadata != nil {
		next, fields = *metadata, append(fields, columns.Fields...)
	}
	if len(fit.added) > 0 {
		if mode := next.Configuration[delta.PropertyColumnMapping]; mode == "name" || mode == "id" {
			return fmt.Errorf("%w: the columns %s are new, and the table has %s = %s: add them with ALTER TABLE first", ErrSlice,
				strings.Join(namesOf(&schema.Schema{Fields: fit.added}), ", "), delta.PropertyColumnMapping, mode)
		}
		s, err := schema.New(append(fields, fit.added...)...)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrSlice, err)
		}
		next.SchemaString = s.String()
	}
	if next.SchemaString == "" {
		return fmt.Errorf("%w: it has no columns with a value", ErrSlice)
	}
	next.PartitionColumns = l.o.PartitionBy
	options := []write.Option{write.WithTempDir(d.s.TempDir)}
	if d.s.Memory > 0 {
		options = append(options, write.WithMemory(d.s.Memory))
	}
	d.rows, err = write.Gather(l.ctx, savepoint.NewTable(l.o.Store), &next, l.key, write.Rows(fit.rows, fit.columns...), options...)
	if err != nil {
		return err
	}
	d.done.Rows, d.done.Digest = d.rows.Rows, d.rows.Digest
	return nil
}

// compare reads the slice and compares it with a version, nil for none; then it checks it.
func (d *sliceLoad) compare(with *delta.Snapshot) (*write.Comparison, error) {
	var err error
	if with == nil {
		err = d.gather(nil, nil)
	} else {
		err = d.gather(with.Metadata(), with.Schema())
	}
	if err != nil {
		return nil, err
	}
	compared, err := d.rows.Compare(d.l.ctx, with, d.mode)
	if err != nil {
		return nil, err
	}
	d.count(compared)
	return compared, d.check(compared)
}

func (d *sliceLoad) count(c *write.Comparison) {
	d.done.New, d.done.Changed, d.done.Deleted, d.done.Unchanged = c.New, c.Changed, c.Deleted, c.Unchanged
	d.done.NewKeys, d.done.ChangedKeys, d.done.DeletedKeys = c.NewKeys, c.ChangedKeys, c.DeletedKeys
}

// check refuses what is likely to be a mistake of whoever made the slice.
func (d *sliceLoad) check(c *write.Comparison) error {
	examples := ""
	if len(c.DeletedKeys) > 0 {
		examples = fmt.Sprintf(": %s %s", strings.Join(d.l.key, ","), strings.Join(c.DeletedKeys, ", "))
		if c.Deleted > int64(len(c.DeletedKeys)) {
			examples += ", ..."
		}
	}
	accepted := d.s.AcceptDeletes
	switch {
	case accepted != nil && *accepted != c.Deleted:
		return fmt.Errorf("%w: %d of %d rows would be deleted, and --accept-deletes allows %d, no more and no less%s", ErrTooManyDeletes, c.Deleted, c.Table, *accepted, examples)
	case accepted != nil:
		return nil
	case d.rows.Rows == 0:
		return fmt.Errorf("%w: it has 0 rows, and the table %d; where that is right, say --accept-deletes %d", ErrIncompleteSlice, c.Table, c.Deleted)
	case float64(c.Deleted) > d.l.o.MaxDeleteFraction*float64(c.Table):
		return fmt.Errorf("%w: %d of %d rows would be deleted, more than %.4g%% (max_delete_fraction)%s; where that is right, say --accept-deletes %d",
			ErrTooManyDeletes, c.Deleted, c.Table, 100*d.l.o.MaxDeleteFraction, examples, c.Deleted)
	}
	return nil
}

// older is a slice of a label before the last sealed one.
func (d *sliceLoad) older() (*Loaded, error) {
	l := d.l
	m, err := savepoint.Read(l.ctx, l.table, l.base)
	if err != nil {
		return nil, err
	}
	st := l.state()
	if d.label < st.First {
		return nil, fmt.Errorf("%w: it lies before the table's first snapshot, %s; a table that begins earlier is a new one", ErrSliceLabel, l.o.Calendar.Name(st.First))
	}
	if known, err := d.isKnown(m); known || err != nil {
		return d.done, err
	}
	way := fmt.Sprintf("gscd rollback --table %s --to %s --yes", l.o.Store, l.o.Calendar.Name(d.label-1))
	if d.label == st.First {
		return nil, fmt.Errorf("%w: %s and later labels are sealed, and it is the first: load all into a new table", ErrSliceLabel, l.o.Calendar.Name(st.Open-1))
	}
	return nil, fmt.Errorf("%w: later labels up to %s are sealed on top of it; go back first, then load %s and the labels behind it: %s",
		ErrSliceLabel, l.o.Calendar.Name(st.Open-1), d.s.Label, way)
}

// isKnown reads the slice and reports whether its label was loaded from the same rows.
func (d *sliceLoad) isKnown(m *savepoint.Map) (bool, error) {
	l := d.l
	r, err := m.Resolve(d.s.Label, true)
	if err != nil {
		return false, err
	}
	at, err := l.table.SnapshotAt(l.ctx, r.Entry.Version)
	if err != nil {
		return false, fmt.Errorf("open the savepoint of %s: %w", d.s.Label, err)
	}
	e, err := m.Evidence(l.ctx, l.table, r.Entry)
	if err != nil {
		return false, err
	}
	if err := d.gather(at.Metadata(), at.Schema()); err != nil {
		return false, err
	}
	d.before = r.Entry.Version
	known := e.Slice != nil && e.Slice.Digest == d.rows.Digest && e.Slice.Mode == d.done.Mode
	if !known {
		// The same rows in another file, or what another way brought: nothing would change.
		c, err := d.rows.Compare(l.ctx, at, d.mode)
		if err != nil {
			return false, err
		}
		d.count(c)
		known = !c.Differs()
	}
	if known {
		d.done.Known, d.done.Sealed, d.done.Version = true, true, r.Entry.Version
		d.done.New, d.done.Changed, d.done.Deleted, d.done.Unchanged = 0, 0, 0, d.rows.Rows
	}
	return known, nil
}

// again is a slice of the last sealed label.
func (d *sliceLoad) again() (*Loaded, error) {
	l := d.l
	m, err := savepoint.Read(l.ctx, l.table, l.base)
	if err != nil {
		return nil, err
	}
	known, err := d.isKnown(m)
	if known {
		return d.done, err
	}
	var unfit error
	if err != nil {
		if !d.s.Replace || !errors.Is(err, ErrSlice) {
			return nil, err
		}
		unfit = err // it may fit the table as it was before
	}
	if !d.s.Replace {
		return nil, fmt.Errorf("%w: it is sealed (version %d) with other rows: the slice has %d new, %d changed and %d that are gone; --replace goes back to the label before and loads it",
			ErrSliceLabel, d.before, d.done.New, d.done.Changed, d.done.Deleted)
	}
	if l.p.Slice != nil {
		return nil, fmt.Errorf("%w: a slice of %s was begun behind it: load that again first", ErrSliceLabel, l.o.Calendar.Name(l.state().Open))
	}
	if d.label == l.state().First {
		return nil, errors.Join(fmt.Errorf("%w: it is the table's first label, and there is none before to go back to: load it into a new table", ErrSliceLabel), unfit)
	}
	// All checks come before the rollback, against the day before.
	before := l.o.Calendar.Name(d.label - 1)
	r, err := m.Resolve(before, true)
	if err != nil {
		return nil, err
	}
	at, err := l.table.SnapshotAt(l.ctx, r.Entry.Version)
	if err != nil {
		return nil, fmt.Errorf("open the savepoint of %s: %w", before, err)
	}
	if _, err := d.compare(at); err != nil || d.s.DryRun {
		d.done.Replaced = d.before
		return d.done, err
	}
	if _, err := savepoint.Rollback(l.ctx, l.table, before, savepoint.RollbackOptions{Now: time.Now()}); err != nil {
		return nil, err
	}
	d.replaced = d.before
	d.s.Replace = false // from here on it is a load of the open label
	done, err := d.run()
	if err != nil {
		return nil, fmt.Errorf("%s was rolled back to %s, and the slice is not loaded yet; load it again without --replace: %w", d.s.Label, before, err)
	}
	return done, nil
}

// apply commits what differs, and seals.
func (d *sliceLoad) apply(c *write.Comparison) error {
	l := d.l
	resumed := l.p.Slice
	if l.state().Open != d.label {
		resumed = nil // of a label before, whose seal comes first
	}
	if resumed != nil && resumed.Digest != d.rows.Digest {
		return fmt.Errorf("%w: the rows of another slice, %s, are in it, and its seal is to come: load that one again first", ErrSliceLabel, resumed.Source)
	}
	if d.s.DryRun {
		return nil
	}
	if err := d.sealUpTo(); err != nil {
		return err
	}
	if resumed == nil {
		if err := d.commitRows(c); err != nil {
			return err
		}
	} else {
		d.done.Slice = *resumed
	}
	e := l.evidence(nil, snapshotter.Decision{Seal: true}, l.o.Now())
	l.openNext()
	if err := l.commitSeals([]progress.Evidence{e}); err != nil {
		return err
	}
	d.done.Committed, d.done.Sealed, d.done.Version = true, true, l.p.LastSeal
	return nil
}

// sealUpTo seals the labels before the slice's, empty but for one whose slice is applied.
func (d *sliceLoad) sealUpTo() error {
	l := d.l
	for l.state().Open < d.label {
		var seals []progress.Evidence
		for l.state().Open < d.label && len(seals) < maxSealsInOneCommit {
			if l.p.Slice == nil {
				d.done.Empty = append(d.done.Empty, l.o.Calendar.Name(l.state().Open))
			}
			seals = append(seals, l.evidence(nil, snapshotter.Decision{Seal: true}, l.o.Now()))
			l.openNext()
		}
		if err := l.commitSeals(seals); err != nil {
			return err
		}
	}
	return nil
}

// commitRows makes the rows a version of the open label.
func (d *sliceLoad) commitRows(c *write.Comparison) error {
	l := d.l
	for _, f := range d.added {
		l.columns.add(change.Column{Name: f.Name, Type: f.Type})
		d.done.NewColumns = append(d.done.NewColumns, f.Name)
	}
	tx, err := l.transaction()
	if err != nil {
		return err
	}
	if _, err := c.Write(l.ctx, tx); err != nil {
		return err
	}
	d.count(c)
	l.p.Counts.Inserts += c.New
	l.p.Counts.Updates += c.Changed
	l.p.Counts.Deletes += c.Deleted
	l.p.Counts.Touched += c.New + c.Changed + c.Deleted
	d.done.Replaced = d.replaced
	slice := d.done.Slice
	l.p.Slice = &slice
	l.p.Slices++
	l.p.Kind, l.p.Label, l.p.Rows = progress.Batch, l.o.Calendar.Name(l.state().Open), c.Table+c.New-c.Deleted
	l.p.Late, l.p.Seals = nil, nil
	l.p.RolledBack = withoutOpen(l.p.RolledBack, l.state().Open)
	if !c.Differs() && l.base != nil && len(d.added) == 0 {
		return nil // the seal alone says it
	}
	if err := l.commit(tx, "LOAD"); err != nil {
		return err
	}
	d.done.Committed, d.done.Version = true, l.base.Version()
	l.committedColumns = len(l.columns.list)
	l.o.Log.Info("a slice is in the table", zap.String("table", l.o.Name), zap.String("label", d.s.Label), zap.String("source", d.s.Source),
		zap.Int64("new", c.New), zap.Int64("changed", c.Changed), zap.Int64("deleted", c.Deleted), zap.Int64("unchanged", c.Unchanged))
	return nil
}

// withoutOpen leaves out the entry of the open label that a commit names again.
func withoutOpen(list []progress.RolledBack, open snapshotter.Label) (out []progress.RolledBack) {
	for _, r := range list {
		if r.Label != open || r.ForGood {
			out = append(out, r)
		}
	}
	return out
}

// fill gives the first label of a table with topics the rows that it lacks.
func (d *sliceLoad) fill() (*Loaded, error) {
	l := d.l
	st := l.state()
	switch {
	case d.s.Replace:
		return nil, fmt.Errorf("%w: the table is read from topics, of which --replace would take changes away", ErrSliceLabel)
	case l.base != nil && (d.label != st.First || st.Open != st.First):
		return nil, fmt.Errorf("%w: the table is read from topics, which take a slice only for their first label, %s, before it is sealed; %s is open", ErrSliceLabel,
			l.o.Calendar.Name(st.First), l.o.Calendar.Name(st.Open))
	}
	if l.base != nil {
		d.mode = write.Fill // what the topics brought is newer
	}
	d.done.Mode = progress.FillSlice
	compared, err := d.compare(l.base)
	if err != nil || d.s.DryRun {
		return d.done, err
	}
	if s := l.p.Slice; s != nil && s.Digest == d.rows.Digest && !compared.Differs() {
		d.done.Known, d.done.Version = true, l.base.Version()
		return d.done, nil
	}
	compared.Skip = d.deleted()
	l.p.Incomplete = nil
	d.begunAt()
	return d.done, d.commitRows(compared)
}

// begunAt makes the topics go on where the slice stands in its source's log. Once they
// have brought changes it is too late: some may be of before, and were taken as newer.
func (d *sliceLoad) begunAt() {
	l := d.l
	if d.s.At == nil {
		return
	}
	at := d.s.At()
	switch {
	case at == nil:
	case l.p.Totals.Taken > 0:
		l.o.Log.Warn("the topics have brought changes before the load: its position in the log is not used, and the rows that they brought are kept; load a table before its topics are read",
			zap.String("table", l.o.Name), zap.Int64("server_id", at.ServerID), zap.Int64("file", at.Position.File), zap.Int64("pos", at.Position.Pos))
	default:
		d.done.At = at
		l.state().LoadedFromOutside(at.ServerID, at.Position, at.Time)
	}
}

// deleted tells of a row whether the topics have brought its delete.
func (d *sliceLoad) deleted() func([]schema.Value) bool {
	l := d.l
	var places []int
	for _, name := range l.key {
		at := -1
		if l.base != nil {
			at = l.base.Schema().Index(name)
		}
		places = append(places, at)
	}
	var buf []byte
	return func(row []schema.Value) bool {
		if l.base == nil {
			return false
		}
		buf = buf[:0]
		for _, at := range places {
			buf = row[at].AppendEncoded(buf)
		}
		_, gone := l.markers.Get(string(buf), l.state().Open)
		return gone
	}
}
