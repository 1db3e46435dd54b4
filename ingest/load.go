package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/marker"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// load takes the newest version of the table as the lane's state, and reads on
// from its offsets. It leaves l.p nil where the table does not exist yet.
func (l *Lane) load() error {
	if err := l.loadState(); err != nil {
		return err
	}
	if err := l.checkCompacted(); err != nil {
		return err
	}
	begin := l.resume
	if l.p == nil {
		begin = l.checkPartitionsExist
	}
	if err := begin(); err != nil {
		return err
	}
	if l.p != nil {
		if err := l.claim(); err != nil {
			return err
		}
	}
	l.noteTransform()
	if err := l.repairLists(); err != nil {
		return err
	}
	l.showLoaded()
	return nil
}

// loadState takes the newest version of the table as the lane's state. It
// leaves l.p nil where the table does not exist yet.
func (l *Lane) loadState() error {
	if err := l.readSchemas(); err != nil {
		return err
	}
	var was *upsert.Index
	if l.writer != nil {
		was = l.writer.Index()
	}
	l.dropRewrite()
	l.savedIndex(true)
	l.p, l.base, l.judge, l.writer = nil, nil, nil, nil
	l.markers, l.batch, l.spare, l.arena = marker.NewSet(), newBatch(), nil, &change.Arena{}
	l.pinned, l.ends = nil, nil
	l.overBudget() // what was taken and not committed is gone
	l.segmentFacts, l.late = map[uint32]facts{}, nil
	l.foreign, l.highs, l.lost = nil, nil, nil
	l.recent = l.recentThen.clone() // what is dropped is taken, and counted, again
	l.keyPlaces = map[*change.Columns][]int{}
	l.committed = map[change.PartitionID]int64{}
	l.key, l.starts = l.o.Key, nil
	l.altered, l.translations = nil, nil
	if err := l.setFormat(l.o.Format); err != nil {
		return err
	}
	var err error
	if err := l.recallDeadLetters(); err != nil {
		return err
	}
	l.table, err = savepoint.OpenTable(l.ctx, l.o.Store)
	if errors.Is(err, delta.ErrNotATable) {
		l.table = nil
		l.setColumns(nil, nil)
		return nil
	}
	if err != nil {
		return fmt.Errorf("open table %s: %w", l.o.Name, err)
	}
	if l.base, err = l.table.Snapshot(l.ctx); err != nil {
		return fmt.Errorf("open table %s: %w", l.o.Name, l.explainUnreadable(err))
	}
	settings, err := savepoint.ReadSettings(l.ctx, l.table, l.base)
	if err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, l.explainLost(err))
	}
	if err := l.checkLayout(); err != nil {
		return err
	}
	if err := l.checkSettings(settings); err != nil {
		return err
	}
	if l.o.Format == decode.Auto && settings.SourceFormat != "" {
		if err := l.setFormat(settings.SourceFormat); err != nil {
			return fmt.Errorf("table %s: %w", l.o.Name, err)
		}
	}
	if l.p, err = savepoint.ProgressOf(l.ctx, l.table, l.base); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, l.explainLost(err))
	}
	if err := l.checkOwner(); err != nil {
		return err
	}
	if err := l.takeForeign(); err != nil {
		return err
	}
	if protected, err := l.protect(); err != nil {
		return err
	} else if protected {
		return errReload
	}
	if done, err := l.switchOnChangeData(); err != nil {
		return err
	} else if done {
		return errReload
	}
	if waited, err := l.waitForTurn(l.ctx); err != nil {
		return err
	} else if waited {
		return errReload
	}
	l.setColumns(l.base.Schema(), l.p.ColumnsAtOpen)
	l.judge = snapshotter.NewJudge(l.o.Calendar, &l.p.State)
	l.highs = highsOf(l.state())
	err = l.inTurn(IndexWork, func() error {
		if was, err = l.learnPartitions(was); err != nil {
			return err
		}
		l.writer, err = l.openWriter(l.base, was)
		return err
	})
	if err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, l.explainDuplicate(err))
	}
	l.foreignRows()
	txn, _ := l.base.Txn(progress.AppID)
	l.noteRewritten(l.foreign, txn.Version)
	if l.markers, err = marker.Load(l.ctx, l.o.Store, l.p.Markers); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	if err := l.recallHeld(); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	if err := l.recallLate(); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	return nil
}

// setFormat says what records are decoded as.
func (l *Lane) setFormat(format string) (err error) {
	if err := l.o.checkRows(format); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	l.queue.format = format
	l.decoder, err = newDecoder(format, &l.o)
	l.tellGaps(format)
	return err
}

// tellGaps logs, once, what the records of a format lack. Commit times and truncates
// alone, which common sources lack, are left to the evidence and to config check.
func (l *Lane) tellGaps(format string) {
	var lacks []string
	much := false
	for _, g := range decode.Gaps(format, &l.o.Decode) {
		if g.Want == decode.WantKey && l.o.Append {
			continue
		}
		lacks = append(lacks, g.String())
		much = much || g.Want != decode.WantCommitTime && g.Want != decode.WantTruncate
	}
	if much && l.toldGaps != format {
		l.toldGaps = format
		l.o.Log.Warn("records of this format lack what exactness rests on", zap.String("table", l.o.Name), zap.String("format", format), zap.Strings("lacks", lacks))
	}
}

// checkLayout refuses settings that the table can't follow any more.
func (l *Lane) checkLayout() error {
	if by := l.base.Metadata().PartitionColumns; !slices.Equal(by, l.o.PartitionBy) && len(by)+len(l.o.PartitionBy) > 0 {
		return fmt.Errorf("%w: table %s is partitioned by %v, the configuration says %v; set partition_by to what it is, or write to a new table", ErrCalendar, l.o.Name, by, l.o.PartitionBy)
	}
	if !l.o.CopyOnWrite && !slices.Contains(delta.FeaturesOf(l.base.Protocol()), delta.FeatureDeletionVectors) {
		return fmt.Errorf("%w: table %s was created with write.mode copy-on-write, and its protocol has no deletion vectors; set write.mode: copy-on-write, or write to a new table", ErrCalendar, l.o.Name)
	}
	if err := l.table.CheckWritable(l.base); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, l.explainUnreadable(err))
	}
	if _, set := l.base.Property(delta.PropertyTxnRetention); set {
		return fmt.Errorf("table %s: %w: %s is set, by which engines forget gscd's savepoints and progress: ALTER TABLE … UNSET TBLPROPERTIES ('%s') with the engine that set it",
			l.o.Name, ErrForeignCommit, delta.PropertyTxnRetention, delta.PropertyTxnRetention)
	}
	if err := checkWriteMode(l.base, l.o.CopyOnWrite); err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	return nil
}

// protect sets the properties that keep other engines' VACUUM and log cleanup
// away from savepoints again, where someone has weakened them, and makes the table's
// protection that of the configuration; protected tells that the table must be looked
// at again. A lane that is to claim the table does the latter with its claim: of two
// with other settings, only the owner's counts.
func (l *Lane) protect() (protected bool, err error) {
	if !l.claims() && l.protectAsConfigured(delta.NewTransaction(l.table, l.base)) {
		version, err := savepoint.Reprotect(l.ctx, l.table, l.o.Protect)
		if err != nil {
			return false, fmt.Errorf("table %s: protect: %s: %w", l.o.Name, l.o.Protect, err)
		}
		l.o.Log.Info("the table's protection follows the configuration", zap.String("table", l.o.Name), zap.String("protect", l.o.Protect), zap.Int64("version", version))
		return true, nil
	}
	weak := savepoint.Weakened(l.base)
	if len(weak) == 0 || l.o.SavepointDays < savepoint.ProtectedDays {
		return false, nil
	}
	version, err := savepoint.Protect(l.ctx, l.table, savepoint.ProtectedDays)
	if err != nil {
		return false, fmt.Errorf("table %s: set the protective properties again: %w", l.o.Name, err)
	}
	l.o.Log.Warn("the properties that protect savepoints were weakened by someone, and are set again", zap.String("table", l.o.Name),
		zap.Strings("weakened", weak), zap.Int64("version", version))
	return true, nil
}

// protectAsConfigured adds to a transaction what makes the table's protection that of
// the configuration, and tells whether it is another one.
func (l *Lane) protectAsConfigured(tx *delta.Transaction) bool {
	return l.o.Protect != "" && savepoint.SetProtect(tx, l.o.Protect)
}

func (l *Lane) setColumns(s *schema.Schema, atOpen []string) {
	var list []change.Column
	if s != nil {
		for _, f := range s.Fields {
			list = append(list, change.Column{Name: f.Name, Type: f.Type})
		}
	}
	l.columns = newColumns(list, atOpen)
	l.committedColumns = len(list)
	if len(l.o.Key) > 0 {
		l.key = l.o.Key
	}
	l.setKeyTypes()
}

func (l *Lane) setKeyTypes() {
	l.keyTypes = make([]schema.Type, len(l.key))
	clear(l.keyPlaces)
	for i, name := range l.key {
		if at, ok := l.columns.index[name]; ok {
			l.keyTypes[i] = l.columns.list[at].Type
		} else if t, ok := l.o.Columns[name]; ok {
			l.keyTypes[i] = t
		}
	}
}

func (l *Lane) checkSettings(s *savepoint.Settings) error {
	if !s.Calendar.Equal(l.o.Calendar) {
		return fmt.Errorf("%w: table %s was written with calendar %s, the configuration says %s: the days that are sealed would be cut anew; write to a new table instead",
			ErrCalendar, l.o.Name, s.Calendar, l.o.Calendar)
	}
	if len(l.o.Key) > 0 && !slices.Equal(s.Key, l.o.Key) {
		return fmt.Errorf("%w: table %s has the key %v, the configuration says %v; write to a new table instead", ErrCalendar, l.o.Name, s.Key, l.o.Key)
	}
	l.key = s.Key
	return nil
}

// OpenIndex builds the key index of a version, as a lane that starts does.
func OpenIndex(ctx context.Context, store objstore.Store, base *delta.Snapshot, key []string) (*upsert.Index, error) {
	w, err := upsert.Open(ctx, store, base, upsertOptions(key, false))
	if err != nil {
		return nil, err
	}
	return w.Index(), nil
}

// openWriter builds the key index of a version; was tells of which partition keys
// are whose rows have lost it, nil for nothing.
func (l *Lane) openWriter(base *delta.Snapshot, was *upsert.Index) (*upsert.Writer, error) {
	o := upsertOptions(l.key, l.o.CopyOnWrite)
	o.Inherit, o.Was, o.Fill, o.Progress = inherit, was, l.fillLost, l.o.IndexProgress
	inner := o.Tag
	o.Tag = func(cells []schema.Value) uint16 {
		tag := inner(cells)
		if tag == lostTag {
			if only, ok := l.onlyPartition(); ok {
				return only
			}
		}
		return tag
	}
	if base == nil {
		return upsert.New(l.o.Store, o), nil
	}
	o.Saved = l.indexFileName(base)
	o.SavedFault = func(err error) {
		l.o.Log.Warn("the saved key index is not used; the keys are read from the table", zap.String("table", l.o.Name), zap.Error(err))
	}
	return upsert.Open(l.ctx, l.o.Store, base, o)
}

func upsertOptions(key []string, copyOnWrite bool) upsert.Options {
	return upsert.Options{
		Key: key, Hidden: Hidden, CopyOnWrite: copyOnWrite,
		TagColumns: []string{HiddenPrefix + "partition", HiddenPrefix + "read"},
		Tag: func(cells []schema.Value) uint16 {
			if cells[0].IsNull() {
				return manyPartitions | readTag
			}
			m := snapshotter.Meta{Partition: int32(cells[0].I), Rank: snapshotter.RankChange}
			if cells[1].I == 1 {
				m.Rank = snapshotter.RankRead
			}
			return tagOf(m)
		},
	}
}

// recallHeld tells the judge which keys wait for a label.
func (l *Lane) recallHeld() error {
	var files []drift.File
	for _, f := range l.p.Held {
		if f.Load == nil && f.Label > l.state().Open {
			files = append(files, f)
		}
	}
	r := drift.NewReader(l.ctx, l.o.Store, files)
	defer r.Close()
	for {
		e, _, err := r.Next()
		if err != nil || e == nil {
			return err
		}
		if e.Kind != snapshotter.RowChange {
			continue
		}
		var c change.Change
		if l.decoder.Decode(e.Record, l.arena, &c) != nil {
			continue // a dead letter when its label opens
		}
		if old, new, rej := l.keys(&c, e.Meta.Partition, e.Meta.Offset); rej == nil {
			l.judge.Held(e.Meta.Partition, [2]string{old, new}, e.Label)
		}
	}
}

// recallLate collects the late changes of the open label that earlier commits listed.
func (l *Lane) recallLate() error {
	if l.p.Counts.Late == 0 {
		return nil
	}
	for v := l.p.LastSeal + 1; v <= l.base.Version(); v++ {
		info, err := l.table.CommitInfo(l.ctx, v)
		if errors.Is(err, delta.ErrVersionNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		p, err := progress.Decode(info)
		if err != nil {
			return err
		}
		switch {
		case p == nil:
		case p.Kind == progress.Batch:
			l.addLate(p.Late)
		case p.Kind == progress.Rollback:
			l.late = nil // what came before it is undone
		}
	}
	return nil
}

func (l *Lane) addLate(list []progress.LateChange) {
	if room := progress.MaxLate - len(l.late); room > 0 {
		l.late = append(l.late, list[:min(room, len(list))]...)
	}
}

// resume starts reading at the offsets of the progress.
func (l *Lane) resume() error {
	if src, ok := l.source.(topicIdentifier); ok && l.o.OnLostOffsets == Continue {
		src.ExpectTopicIDs(nil) // a topic that was made anew is noticed here, and accepted
	}
	states, err := l.queue.partitions(l.ctx)
	if err != nil {
		return fmt.Errorf("table %s: ask for partitions: %w", l.o.Name, err)
	}
	l.forgetHeartbeats()
	recreated, err := l.checkTopicIDs()
	if err != nil {
		return err
	}
	if err := l.checkOffsets(states, recreated); err != nil {
		return err
	}
	offsets := map[change.PartitionID]int64{}
	for _, st := range states {
		p := l.state().Find(st.ID)
		if p == nil {
			// A partition added since: nothing of it was taken, so it starts at its earliest.
			p = l.addPartition(st.ID, st.Earliest)
			l.o.Log.Info("a new partition", zap.String("table", l.o.Name), zap.Stringer("partition", st.ID))
		}
		offsets[st.ID] = p.Next
	}
	l.startEnds = map[change.PartitionID]int64{}
	if err := l.noteEnds(states); err != nil {
		return err
	}
	return l.queue.reset(l.ctx, offsets)
}

// noteEnds notes the ends of partitions that have none yet.
func (l *Lane) noteEnds(states []change.PartitionState) error {
	l.hearEnds(states)
	src, ok := l.source.(settledEnder)
	l.exactEnds = ok && l.o.UntilEnd
	var settled map[change.PartitionID]int64
	if l.exactEnds {
		var err error
		if settled, err = src.SettledEnds(l.ctx); err != nil {
			return fmt.Errorf("table %s: ask for offsets: %w", l.o.Name, sourceError(l.source, err))
		}
	}
	for _, st := range states {
		if _, noted := l.startEnds[st.ID]; noted {
			continue
		}
		l.startEnds[st.ID] = st.End
		if end, ok := settled[st.ID]; ok {
			l.startEnds[st.ID] = min(end, st.End)
		}
	}
	return nil
}

// readToEnd reports that nothing of what this life reads is still to come, but
// for what is paused.
func (l *Lane) readToEnd() bool {
	if !l.exactEnds {
		return true // the last Poll brought nothing
	}
	for id, end := range l.startEnds {
		if p := l.state().Find(id); p != nil && p.Next < end && !l.judge.Paused(p) {
			return false
		}
	}
	return true
}

func (l *Lane) checkPartitionsExist() error {
	states, err := l.queue.partitions(l.ctx)
	if err != nil {
		return fmt.Errorf("table %s: ask for partitions: %w", l.o.Name, err)
	}
	offsets, err := l.begin(states)
	if err != nil {
		return err
	}
	for i := range states {
		states[i].Earliest = offsets[states[i].ID]
	}
	l.startEnds = map[change.PartitionID]int64{}
	if err := l.noteEnds(states); err != nil {
		return err
	}
	l.starts = states
	return l.queue.reset(l.ctx, offsets)
}

// findFirstLabel looks at the first labelled record of every partition and
// makes the state of a table that does not exist yet. It commits nothing. ready
// is false where no labelled record was found.
func (l *Lane) findFirstLabel() (ready bool, err error) {
	seen, labelled := map[change.PartitionID]bool{}, map[change.PartitionID]bool{}
	at := map[change.PartitionID]int64{}
	first, found := snapshotter.Label(0), false
	cursor := l.o.Calendar.Cursor()
	format := l.queue.format
	for {
		// A source that is asked after the end fails in a way that may look like an outage.
		if err := l.ctx.Err(); err != nil {
			return false, err
		}
		l.alive()
		id, block, err := l.queue.next(l.ctx, func(id change.PartitionID) bool { return !seen[id] })
		if err != nil {
			return false, err
		}
		if block == nil {
			states, err := l.queue.partitions(l.ctx)
			if err != nil {
				if err := l.queue.outage.ride(err); err != nil {
					return false, fmt.Errorf("table %s: ask for partitions: %w", l.o.Name, err)
				}
				continue
			}
			if len(states) > len(l.starts) {
				return false, fmt.Errorf("%w: a partition was added", errReload)
			}
			all, settled := true, l.exactEnds
			for _, st := range states {
				known := seen[st.ID] || l.isHeartbeat(st.ID)
				at := max(at[st.ID], l.startOf(st.ID))
				all = all && (known || at >= st.End)
				settled = settled && (known || at >= l.startEnds[st.ID])
			}
			if all && found {
				break
			}
			if (all || settled) && l.o.UntilEnd {
				return false, nil
			}
			continue
		}
		if l.isHeartbeat(id) {
			seen[id] = true // it has no label
			l.queue.pause(id)
			continue
		}
		for !block.done() && !seen[id] {
			r, c, decodeErr := block.peek()
			if decodeErr, err = l.awaitDefinition(r, c, decodeErr); err != nil {
				return false, err
			}
			label, ok, err := l.firstLabelOf(cursor, r, c, decodeErr)
			if err != nil {
				return false, l.describe(r, err)
			}
			block.advance()
			if ok && !labelled[id] {
				labelled[id] = true
				if !found || label < first {
					first, found = label, true
				}
				if block.format != "" {
					format = block.format
				}
			}
			// A TRUNCATE has a label and no key: the records behind it may name one.
			if labelled[id] && len(l.key) > 0 {
				seen[id] = true
				l.queue.pause(id)
			}
		}
		at[id] = block.next
		if block.done() {
			block.finish()
		}
	}
	if len(l.key) == 0 {
		return false, fmt.Errorf("table %s: %w: all records so far are TRUNCATEs, which name none; set --key COLUMN[,COLUMN] (or key: in the configuration) to the columns that tell rows apart", l.o.Name, ErrNoKey)
	}
	p := &progress.Progress{LastSeal: -1, Transform: l.o.Transform.Fingerprint()}
	p.State.First, p.State.Open = first, first
	p.State.Wait = l.o.DriftWait.Microseconds()
	l.p = p
	if err := l.setFormat(format); err != nil {
		return false, err
	}
	offsets := map[change.PartitionID]int64{}
	// The table's own topics come first: the numbers of their partitions don't
	// depend on whether there is a heartbeat.
	for _, heartbeats := range []bool{false, true} {
		for _, st := range l.starts {
			if l.isHeartbeat(st.ID) == heartbeats {
				offsets[st.ID] = l.addPartition(st.ID, st.Earliest).Next
			}
		}
	}
	l.markStart()
	if src, ok := l.source.(topicIdentifier); ok {
		p.TopicIDs = src.TopicIDs()
	}
	l.judge = snapshotter.NewJudge(l.o.Calendar, &p.State)
	if l.writer, err = l.openWriter(nil, nil); err != nil {
		return false, err
	}
	return true, l.queue.reset(l.ctx, offsets)
}

// startOf is where a partition was begun to be read.
func (l *Lane) startOf(id change.PartitionID) int64 {
	for _, st := range l.starts {
		if st.ID == id {
			return st.Earliest
		}
	}
	return 0
}

// firstLabelOf gives the label of a record that has one; it finds the key too.
func (l *Lane) firstLabelOf(cursor *snapshotter.Cursor, r *change.Record, c *change.Change, decodeErr error) (label snapshotter.Label, ok bool, err error) {
	if err := undecided(decodeErr); err != nil {
		return 0, false, err
	}
	if l.rejected(r, decodeErr) != nil || c.Op == change.Filtered || c.Op == change.Heartbeat || c.Op == change.Tombstone || c.Op == change.Schema {
		return 0, false, nil
	}
	if len(l.key) == 0 && c.Op != change.Truncate {
		if c.KeyColumns == nil || len(c.KeyColumns.List) == 0 {
			return 0, false, fmt.Errorf("%w: the record has no key; set --key COLUMN[,COLUMN] (or key: in the configuration) to the columns that tell rows apart, or mode: append where nothing does", ErrNoKey)
		}
		for _, col := range c.KeyColumns.List {
			l.key = append(l.key, col.Name)
		}
		l.setKeyTypes()
	}
	if _, _, rej := l.keys(c, 0, r.Offset); rej != nil {
		return 0, false, nil
	}
	t, _, rej := l.o.eventTime(r, c)
	if rej != nil {
		return 0, false, nil
	}
	return cursor.Label(t), true, nil
}

// keyText gives an encoded key as JSON: {"id":1}.
func (l *Lane) keyText(key string) string {
	out := map[string]any{}
	for i, name := range l.key {
		n, null := schema.EncodedLen(key)
		if n <= 0 || n > len(key) {
			break
		}
		if null {
			out[name] = nil
		} else {
			out[name] = schema.DecodeKeyCell(key[:n], l.keyTypes[i])
		}
		key = key[n:]
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return fmt.Sprintf("%q", key)
	}
	return string(raw)
}
