package lineage

import (
	"context"
	"iter"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
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
	// Label is the one in which the event was applied, or, of an event that waited behind a
	// later one of its key, the one of its time. Version is that of its savepoint;
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
}

// day is a sealed label: where each partition stood when it was sealed.
type day struct {
	label   snapshotter.Label
	version int64
	offsets map[topicPartition]int64
}

type topicPartition struct {
	topic     string
	partition int32
}

// NewBlame plans to read rows of a version as options say: columns, a filter, an order.
// labels is nil for a table that gscd did not write. It reads the evidence of the seals up
// to the version. The error is one of scan.New, or names the seal that can't be read.
func NewBlame(ctx context.Context, table *delta.Table, at *delta.Snapshot, labels *savepoint.Map, o scan.Options) (*Blame, error) {
	b := &Blame{labels: labels}
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
		evidence, err := b.labels.Evidence(ctx, table, savepoint.Entry{Label: d.label, Name: b.labels.Calendar.Name(d.label), Version: d.version})
		if err != nil {
			return err
		}
		d.offsets = offsetsOf(evidence)
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

// Rows gives the rows; errors as scan.Scan's.
func (b *Blame) Rows(ctx context.Context) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		for cells, err := range b.scan.Rows(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			row := &Row{Cells: slices.Clone(cells[:b.columns]), Source: b.sources.event(cells[b.columns:]), Version: -1}
			if row.Source != nil && b.labels != nil {
				b.since(row)
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// since finds the label in which the event of a row was applied: its own, by its time, or,
// where that was sealed when the event was taken, the one that was open then.
func (b *Blame) since(row *Row) {
	e := row.Source
	label := b.labels.Progress.State.First // of the version: the one behind its last seal
	if n := len(b.days); n > 0 {
		label = b.days[n-1].label + 1
	}
	i := slices.IndexFunc(b.days, func(d day) bool { return d.offsets[topicPartition{e.Topic, e.Partition}] > e.Offset })
	if i >= 0 {
		label = b.days[i].label
	}
	// A change that was held is of a later label than the one it was taken in; a read has
	// the label of its load, whatever its time.
	if own := b.labels.Calendar.Label(e.Time.UnixMicro()); !e.Read && own > label {
		label = own
	}
	row.Label = b.labels.Calendar.Name(label)
	if i := slices.IndexFunc(b.days, func(d day) bool { return d.label == label }); i >= 0 {
		row.Version = b.days[i].version
	}
}
