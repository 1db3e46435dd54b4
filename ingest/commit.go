package ingest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// flush commits the batch, and the one in flight before it, and waits for both. Only
// behind it may anything else commit the lane's progress, which has the offsets of what
// the batch holds. Nothing to say: no commit.
func (l *Lane) flush() error {
	if err := l.settleFlight(); err != nil {
		return err
	}
	if !l.batch.dirty && l.batch.records == 0 {
		return nil
	}
	f, err := l.cut(false)
	if err != nil {
		return err
	}
	l.inFlight = f
	if err := l.settleFlight(); err != nil {
		return err
	}
	if err := l.rewriteFiles(); err != nil {
		return err
	}
	return l.maybeCheckpoint()
}

// sayBatch puts into the progress what the commit of the batch says beside the files.
func (l *Lane) sayBatch() {
	open := l.state().Open
	l.p.Kind = progress.Batch
	l.p.Label = l.o.Calendar.Name(open)
	l.p.Late, l.p.Seals = l.batch.late, nil
	l.countHoles()
	named := func(r progress.RolledBack) bool { return r.Label == open && !r.ForGood }
	l.p.RolledBack = slices.DeleteFunc(l.p.RolledBack, named)
}

// applied moves the index to the version that was just committed.
func (l *Lane) applied(w *upsert.Written) error {
	if err := l.writer.Applied(w); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	l.written.add(w.Objects(), time.Now())
	if len(l.p.Rewritten) > 0 {
		l.pruneRewritten()
		l.lost = nil
	}
	return nil
}

func (l *Lane) countHoles() {
	var span int64
	for _, p := range l.state().Partitions {
		if !p.Heartbeat {
			span += p.Next - p.Start
		}
	}
	l.p.Totals.Holes = span + l.p.Totals.Rewound - (l.p.Totals.Taken - l.p.Totals.FurtherRows)
}

// transaction begins the next commit; for a table that does not exist it also
// creates it.
func (l *Lane) transaction() (*delta.Transaction, error) {
	if l.base == nil {
		l.table = savepoint.NewTable(l.o.Store)
		if err := l.addPartitionColumns(); err != nil {
			return nil, fmt.Errorf("table %s: %w", l.o.Name, err)
		}
	}
	tx := delta.NewTransaction(l.table, l.base)
	if l.base != nil && len(l.columns.list) == l.committedColumns && len(l.altered) == 0 {
		l.schema = l.base.Schema()
		return tx, nil
	}
	if l.base != nil && (len(l.altered) > 0 || isMapped(l.base)) {
		return tx, l.alter(tx)
	}
	s, err := l.columns.schema()
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	l.schema = s
	features := []string{}
	if !l.o.CopyOnWrite {
		features = append(features, delta.FeatureDeletionVectors)
	}
	if slices.ContainsFunc(s.Fields, func(f schema.Field) bool { return f.Type.Primitive == schema.TimestampNTZ }) {
		features = append(features, delta.FeatureTimestampNTZ)
	}
	if l.feeds() {
		features = append(features, delta.FeatureChangeDataFeed)
	}
	if l.base != nil {
		meta := *l.base.Metadata()
		meta.SchemaString = s.String()
		tx.SetMetadata(meta)
		if p := delta.WithFeatures(*l.base.Protocol(), features...); !slices.Equal(p.WriterFeatures, l.base.Protocol().WriterFeatures) || p.MinWriterVersion != l.base.Protocol().MinWriterVersion {
			tx.SetProtocol(p)
		}
		return tx, nil
	}
	settings := savepoint.Settings{Calendar: l.o.Calendar, Key: l.key, SourceFormat: l.queue.format}
	properties := delta.ProtectiveProperties(l.o.SavepointDays)
	if !l.o.CopyOnWrite {
		properties[delta.PropertyDeletionVectors] = "true"
	}
	maps.Copy(properties, settings.Properties())
	maps.Copy(properties, l.o.Properties)
	if l.o.Protect != "" {
		properties[savepoint.PropertyProtect] = l.o.Protect
	}
	if l.feeds() {
		properties[delta.PropertyChangeDataFeed] = "true"
	}
	tx.SetProtocol(savepoint.ProtocolOf(delta.ProtocolFor(features...), properties))
	created := time.Now().UnixMilli()
	tx.SetMetadata(action.Metadata{
		ID: uuid.NewString(), Name: l.o.Name, Format: action.Format{Provider: "parquet"}, SchemaString: s.String(),
		PartitionColumns: append([]string{}, l.o.PartitionBy...), Configuration: properties, CreatedTime: &created,
	})
	return tx, nil
}

func isMapped(s *delta.Snapshot) bool {
	mode, _ := s.Property(delta.PropertyColumnMapping)
	return mode == "name" || mode == "id"
}

// alter puts the changes of columns into a commit of a table with column mapping, or
// that needs it now.
func (l *Lane) alter(tx *delta.Transaction) (err error) {
	changes := slices.Clone(l.altered)
	for _, col := range l.columns.list[l.committedColumns:] {
		changes = append(changes, write.AddColumn(schema.Field{Name: col.Name, Type: col.Type, Nullable: true}, write.Place{}))
	}
	if l.schema, err = write.AlterIn(l.ctx, l.table, l.base, tx, changes); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	return nil
}

// addPartitionColumns gives a new table the columns that it is partitioned by,
// also where no record has brought a value of them yet: they can't come later.
func (l *Lane) addPartitionColumns() error {
	for _, name := range l.o.PartitionBy {
		if _, ok := l.columns.index[name]; ok {
			continue
		}
		t, declared := l.o.Columns[name]
		if !declared {
			return fmt.Errorf("%w: partition_by names the column %s, and no record has brought a value of it yet: set its type under columns", ErrRefused, name)
		}
		l.columns.add(change.Column{Name: name, Type: t})
	}
	return nil
}

func (c *columns) schema() (*schema.Schema, error) {
	fields := make([]schema.Field, len(c.list))
	for i, col := range c.list {
		fields[i] = schema.Field{Name: col.Name, Type: col.Type, Nullable: true}
	}
	return schema.New(fields...)
}

// commit makes the transaction a version, with the lane's progress. Nothing is in flight.
func (l *Lane) commit(tx *delta.Transaction, operation string) error {
	l.takeOwnership()
	made, err := commitProgress(l.ctx, l.o.Name, tx, operation, l.p, l.batch)
	if err != nil {
		return err
	}
	l.made(made, l.p, l.recent.clone(), Commit{Kind: l.p.Kind, Version: made.Version(), Took: time.Since(l.writing)})
	return nil
}

// commitProgress makes a transaction a version that carries a progress. The error is
// errConflict where another commit came first.
func commitProgress(ctx context.Context, table string, tx *delta.Transaction, operation string, p *progress.Progress, b *batch) (*delta.Snapshot, error) {
	raw, err := p.Encode()
	if err != nil {
		return nil, fmt.Errorf("table %s: encode progress: %w", table, err)
	}
	metrics := map[string]string{"numRecords": strconv.Itoa(b.records), "numOutputRows": strconv.FormatInt(p.Rows, 10)}
	if p.Kind == progress.Batch && b.rows != nil {
		b.rows.metrics(metrics)
	}
	tx.SetTxn(progress.AppID, delta.OwnVersion)
	tx.SetCommitInfo(operation,
		map[string]string{"label": p.Label, "kind": string(p.Kind)}, metrics,
		map[string]any{progress.Key: raw})
	outcome, err := tx.Commit(ctx)
	if err != nil {
		return nil, fmt.Errorf("table %s: commit: %w", table, err)
	}
	if !outcome.Committed {
		return nil, fmt.Errorf("%w: version %d was written by someone else", errConflict, outcome.Conflict.Version)
	}
	return outcome.Snapshot, nil
}

// made takes a commit of the lane over: p is what it says, recent the dead letters of late
// as of its offsets.
func (l *Lane) made(s *delta.Snapshot, p *progress.Progress, recent recentDeadLetters, c Commit) {
	l.conflicts, l.highs = 0, highsOf(&p.State)
	l.base, l.recentThen = s, recent
	l.owns = true
	for _, p := range p.State.Partitions {
		l.committed[p.ID()] = p.Next
	}
	l.o.Log.Info("committed", zap.String("table", l.o.Name), zap.String("label", p.Label), zap.Int64("version", l.base.Version()),
		zap.String("kind", string(p.Kind)), zap.Int("records", c.Records), zap.Int64("rows", p.Rows))
	l.showCommit(c, p)
}

// publish tells lag tools how far the table is; that they don't hear it is no fault of the table.
func (l *Lane) publish() {
	if src, ok := l.source.(offsetPublisher); ok {
		l.queue.land()
		if err := src.PublishOffsets(l.ctx, l.committed); err != nil {
			l.o.Log.Warn("group offsets were not published", l.fields("err", err.Error())...)
		}
	}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
