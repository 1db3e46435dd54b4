package ingest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/marker"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// flush commits the batch: dead letters first, then files, held changes and
// markers, then the one commit that names them all. Nothing to say: no commit.
func (l *Lane) flush() error {
	b := l.batch
	if !b.dirty && b.records == 0 {
		return nil
	}
	if err := l.readSchemas(); err != nil {
		return err
	}
	l.writing = time.Now()
	if len(b.dead) > 0 {
		if l.dead == nil {
			return fmt.Errorf("table %s: there are dead letters and no store for them", l.o.Name)
		}
		if err := l.dead.Write(l.ctx, b.dead); err != nil {
			return fmt.Errorf("table %s: write dead letters: %w", l.o.Name, err)
		}
		if err := l.tellDeadLetters(b.dead); err != nil {
			return err
		}
	}
	tx, err := l.transaction()
	if err != nil {
		return err
	}
	// What is held and the delete markers are stored while the rows are written.
	var added []marker.Added
	for i := range b.entries {
		if e := &b.entries[i]; e.deleted && !e.live {
			added = append(added, marker.Added{Key: e.key, Meta: e.meta})
		}
	}
	var storing sync.WaitGroup
	var held []drift.File
	var heldFault, markerFault, settledFault error
	if b.held.Len() > 0 {
		l.p.Group++
		group := l.p.Group
		storing.Go(func() {
			heldFault = Caught(func() (err error) {
				held, err = b.held.Write(l.ctx, l.o.Store, group)
				return err
			})
		})
	}
	markers, open := l.p.Markers, l.state().Open
	storing.Go(func() {
		markerFault = Caught(func() (err error) {
			markers, err = marker.Write(l.ctx, l.o.Store, markers, open, added, l.markers)
			return err
		})
	})
	settledFiles := l.p.Settled
	storing.Go(func() {
		settledFault = Caught(func() (err error) {
			settledFiles, err = settled.Write(l.ctx, l.o.Store, l.p.Settled, b.settled)
			return err
		})
	})
	rows, written, err := l.writeRows(tx)
	storing.Wait()
	if err != nil {
		err = fmt.Errorf("write rows: %w", err)
	}
	if err := errors.Join(err, heldFault, markerFault, settledFault); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	l.p.Held = append(l.p.Held, held...)
	l.p.Markers, l.p.Settled = markers, settledFiles
	l.p.Kind = progress.Batch
	l.p.Label = l.o.Calendar.Name(l.state().Open)
	l.p.Rows = rows
	l.p.Late, l.p.Seals = b.late, nil
	l.countHoles()
	named := func(r progress.RolledBack) bool { return r.Label == l.state().Open && !r.ForGood }
	l.p.RolledBack = slices.DeleteFunc(l.p.RolledBack, named)
	operation := "WRITE"
	if b.replayed {
		operation = "REPLAY"
	}
	for {
		if err = l.commit(tx, operation); !errors.Is(err, errConflict) || b.replayed { // a replay is judged anew
			break
		}
		if err = l.follow(err); err != nil {
			break
		}
		// What was planned on rows that have moved is planned again.
		if tx, err = l.transaction(); err != nil {
			return err
		}
		if l.p.Rows, written, err = l.writeRows(tx); err != nil {
			return fmt.Errorf("table %s: write rows: %w", l.o.Name, err)
		}
	}
	if err != nil {
		return err
	}
	if err := l.applied(written); err != nil {
		return err
	}
	for _, a := range added {
		l.markers.Put(a.Key, l.state().Open, a.Meta)
	}
	l.addLate(b.late)
	l.committedColumns, l.altered = len(l.columns.list), nil
	l.batch, l.arena = l.batch.next(), &change.Arena{}
	clear(l.segmentFacts)
	l.publish()
	if err := l.rewriteFiles(); err != nil {
		return err
	}
	return l.maybeCheckpoint()
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

// writeRows writes the batch's rows and deletes into tx; it gives the number
// of live rows that the table will have.
func (l *Lane) writeRows(tx *delta.Transaction) (int64, *upsert.Written, error) {
	b, s := l.batch, l.schema
	if err := l.fillBases(s); err != nil {
		return 0, nil, err
	}
	out := &upsert.Batch{Schema: s, PartitionBy: l.o.PartitionBy, ChangeData: l.feeds()}
	live := int64(l.writer.Index().Len()) - b.killedCount
	var f facts
	for i := range b.entries {
		e := &b.entries[i]
		if !e.dirty {
			continue
		}
		if e.old != 0 {
			out.Replaced = append(out.Replaced, e.old)
			live--
		}
		if !e.live {
			if e.old != 0 {
				out.Removed = append(out.Removed, e.key)
			}
			continue
		}
		live++
		f.add(e.meta, len(out.Rows) == 0)
		out.Rows = append(out.Rows, l.fullRow(e, len(s.Fields)))
		out.Keys = append(out.Keys, e.key)
		out.Tags = append(out.Tags, tagOf(e.meta))
	}
	out.Killed = b.killed
	b.rows = l.countRows()
	if len(out.Rows) > 0 {
		out.Footer = f.encode()
	}
	written, err := l.writer.Write(l.ctx, out, tx)
	if err == nil && l.o.CopyOnWrite && len(l.p.Rewritten) > 0 {
		var from []string
		for _, ref := range out.Replaced {
			from = append(from, l.writer.Path(ref.Segment()))
		}
		for id := range out.Killed {
			from = append(from, l.writer.Path(id))
		}
		slices.Sort(from)
		l.carryRewritten(slices.Compact(from), written)
	}
	return live, written, err
}

// fullRow gives a row with its hidden cells behind.
func (l *Lane) fullRow(e *entry, columns int) []schema.Value {
	full := e.row
	if len(e.row) == columns && cap(e.row) >= columns+len(Hidden) {
		full = e.row[:columns+len(Hidden)]
	} else {
		full = l.arena.Values(columns + len(Hidden))
		copy(full, e.row)
	}
	hiddenCells(full[columns:], e.meta)
	return full
}

// fillBases reads the cells that rows keep from the rows they replace.
func (l *Lane) fillBases(s *schema.Schema) error {
	var refs []upsert.Ref
	var which []int
	for i := range l.batch.entries {
		if e := &l.batch.entries[i]; e.dirty && e.live && e.base != 0 {
			refs = append(refs, e.base)
			which = append(which, i)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	cols := make([]parquet.Column, len(s.Fields))
	for i, f := range s.Fields {
		cols[i] = parquet.ColumnOf(&f)
	}
	rows, err := l.writer.ReadRows(l.ctx, refs, cols)
	if err != nil {
		return fmt.Errorf("read the rows that partial images keep: %w", err)
	}
	for n, i := range which {
		row := l.batch.entries[i].row
		for c := range row {
			if row[c].Kind == schema.Unavailable {
				row[c] = rows[n][c]
			}
		}
	}
	return nil
}

// commit makes the transaction a version, with the lane's progress.
func (l *Lane) commit(tx *delta.Transaction, operation string) error {
	l.takeOwnership()
	raw, err := l.p.Encode()
	if err != nil {
		return fmt.Errorf("table %s: encode progress: %w", l.o.Name, err)
	}
	metrics := map[string]string{"numRecords": strconv.Itoa(l.batch.records), "numOutputRows": strconv.FormatInt(l.p.Rows, 10)}
	if l.p.Kind == progress.Batch && l.batch.rows != nil {
		l.batch.rows.metrics(metrics)
	}
	tx.SetTxn(progress.AppID, delta.OwnVersion)
	tx.SetCommitInfo(operation,
		map[string]string{"label": l.p.Label, "kind": string(l.p.Kind)}, metrics,
		map[string]any{progress.Key: raw})
	outcome, err := tx.Commit(l.ctx)
	if err != nil {
		return fmt.Errorf("table %s: commit: %w", l.o.Name, err)
	}
	if !outcome.Committed {
		return fmt.Errorf("%w: version %d was written by someone else", errConflict, outcome.Conflict.Version)
	}
	l.conflicts, l.highs = 0, highsOf(l.state())
	l.base, l.recentThen = outcome.Snapshot, l.recent.clone()
	l.owns = true
	for _, p := range l.state().Partitions {
		l.committed[p.ID()] = p.Next
	}
	l.o.Log.Info("committed", zap.String("table", l.o.Name), zap.String("label", l.p.Label), zap.Int64("version", l.base.Version()),
		zap.String("kind", string(l.p.Kind)), zap.Int("records", l.batch.records), zap.Int64("rows", l.p.Rows))
	l.showCommit()
	return nil
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
