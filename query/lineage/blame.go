package lineage

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// Row is a row of a version and the change that wrote it.
type Row struct {
	// Cells are by Blame.Columns.
	Cells []schema.Value
	// Source is the event, nil where another engine rewrote the row.
	Source *Event
	// Label is the one in which the event was applied. Version is that of its savepoint;
	// "" and -1 where they are not known, and the version -1 while the label is open.
	Label   string
	Version int64
}

// Blame reads the rows of a version with their events.
type Blame struct {
	scan    *scan.Scan
	columns int
	sources sources
	days    []day
	labels  *savepoint.Map
	store   objstore.Store
}

// day is a sealed label: where each partition stood when it was sealed.
type day struct {
	label   snapshotter.Label
	version int64
	offsets map[topicPartition]int64
	// held are the files of changes that waited for later labels then; waiting, read from
	// them when it is first needed, the labels of those that waited longer than their time asks.
	held    []drift.File
	waiting map[place]snapshotter.Label
}

// place is that of a row among the records of the topics.
type place struct {
	topicPartition
	offset int64
	row    int32
}

type topicPartition struct {
	topic     string
	partition int32
}

// NewBlame plans to read rows of a version as options say: columns, a filter, an order.
// labels is nil for a table that gscd did not write. It reads the evidence of the seals up
// to the version. The error is one of scan.New, or names the seal that can't be read.
func NewBlame(ctx context.Context, table *delta.Table, at *delta.Snapshot, labels *savepoint.Map, o scan.Options) (*Blame, error) {
	b := &Blame{labels: labels, store: table.Store()}
	var err error
	if b.scan, err = scan.NewWithHidden(table.Store(), at, hidden, o); err != nil {
		return nil, err
	}
	b.columns = len(b.scan.Columns()) - len(hidden)
	if labels == nil {
		b.sources = sourcesOf(nil)
		return b, nil
	}
	b.sources = sourcesOf(labels.Progress)
	return b, b.readDays(ctx, table, at.Version())
}

// readDays reads how far every seal up to a version had come.
func (b *Blame) readDays(ctx context.Context, table *delta.Table, version int64) error {
	for _, e := range b.labels.Entries {
		if e.State == savepoint.Sealed && !e.Kept && e.Version <= version {
			b.days = append(b.days, day{label: e.Label, version: e.Version})
		}
	}
	slices.SortFunc(b.days, func(x, y day) int { return int(x.label - y.label) })
	const readers = 8
	return objstore.InParallel(ctx, len(b.days), readers, func(ctx context.Context, i int) error {
		d := &b.days[i]
		seal, err := b.labels.Seal(ctx, table, savepoint.Entry{Label: d.label, Name: b.labels.Calendar.Name(d.label), Version: d.version})
		if err != nil {
			return err
		}
		d.offsets, d.held = offsetsOf(seal.Evidence), seal.Progress.Held
		return nil
	})
}

func offsetsOf(e *progress.Evidence) map[topicPartition]int64 {
	offsets := make(map[topicPartition]int64, len(e.Partitions))
	for _, p := range e.Partitions {
		offsets[topicPartition{p.Topic, p.Partition}] = p.Offset
	}
	return offsets
}

// Columns are those of the rows.
func (b *Blame) Columns() []schema.Field { return b.scan.Columns()[:b.columns] }

// Rows gives the rows; errors as scan.Scan's, and those of held files that can't be read.
func (b *Blame) Rows(ctx context.Context) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		for cells, err := range b.scan.Rows(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			row := &Row{Cells: slices.Clone(cells[:b.columns]), Source: b.sources.event(cells[b.columns:]), Version: -1}
			if row.Source != nil && b.labels != nil {
				if err := b.since(ctx, row); err != nil {
					yield(nil, err)
					return
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// since finds the label in which the event of a row was applied: its own, by its time, or,
// where that was sealed when the event was taken, the one that was open then, or the one
// of a held change of its key that it waited behind.
func (b *Blame) since(ctx context.Context, row *Row) error {
	e := row.Source
	label := b.labels.Progress.State.First // of the version: the one behind its last seal
	if n := len(b.days); n > 0 {
		label = b.days[n-1].label + 1
	}
	at := topicPartition{e.Topic, e.Partition}
	i := slices.IndexFunc(b.days, func(d day) bool { return d.offsets[at] > e.Offset })
	if i >= 0 {
		label = b.days[i].label
	}
	// A change that was held is of a later label than the one it was taken in; a read has
	// the label of its load, whatever its time.
	if own := b.labels.Calendar.Label(e.Time.UnixMicro()); !e.Read && own > label {
		label = own
	}
	if i >= 0 && len(b.days[i].held) > 0 {
		if err := b.readWaiting(ctx, &b.days[i]); err != nil {
			return err
		}
		label = max(label, b.days[i].waiting[place{at, e.Offset, e.Row}])
	}
	row.Label = b.labels.Calendar.Name(label)
	if i := slices.IndexFunc(b.days, func(d day) bool { return d.label == label }); i >= 0 {
		row.Version = b.days[i].version
	}
	return nil
}

// readWaiting reads which changes waited, when a day was sealed, for a later label than that of their time.
func (b *Blame) readWaiting(ctx context.Context, d *day) error {
	if d.waiting != nil {
		return nil
	}
	d.waiting = map[place]snapshotter.Label{}
	r := drift.NewReader(ctx, b.store, slices.DeleteFunc(slices.Clone(d.held), func(f drift.File) bool { return f.Load != nil }))
	defer r.Close()
	for {
		e, _, err := r.Next()
		if err != nil {
			return fmt.Errorf("the changes that waited when %s was sealed: %w", b.labels.Calendar.Name(d.label), err)
		}
		if e == nil {
			return nil
		}
		if e.Label > b.labels.Calendar.Label(e.Meta.Time) {
			d.waiting[place{topicPartition{e.Record.Topic, e.Record.Partition}, e.Meta.Offset, e.Meta.Position.Row}] = e.Label
		}
	}
}
