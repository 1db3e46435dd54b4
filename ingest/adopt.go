package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// ErrNotAdoptable: the table can't become one of gscd's, or need not.
var ErrNotAdoptable = errors.New("the table can't be adopted")

// Adoption says how a table becomes one of gscd's as it stands.
type Adoption struct {
	// Label is the one that is open from then on.
	Label string
	// Start is where its topics are read from; nil keeps the offsets, and all else
	// that gscd knew of the table, which is possible where that can be read.
	Start  *Start
	DryRun bool
}

// Adopted says what an adoption does, or did.
type Adopted struct {
	Label string
	// First is the first label of the map: before Label where sealed ones are kept.
	First string
	// Version is the one that was taken over; Committed the one that did so, -1 for
	// a dry run.
	Version, Committed int64
	Rows               int64
	Files              int
	Key                []string
	// Kept tells that offsets and all that gscd knew stay.
	Kept    bool
	Offsets map[change.PartitionID]int64
	// Nullable are columns that took no NULL, and do from then on. Features are those
	// that the protocol gets. Properties are those that are set.
	Nullable, Features []string
	Properties         map[string]string
	// Foreign are the commits of other engines that the label begins with.
	Foreign []progress.ForeignCommit
}

// Adopt takes over a table that another engine has written, or that has parted from
// what gscd knew of it: its rows stay as they are, and are those of the open label,
// which is incomplete until a complete load. source tells where topics begin and
// end; it may be nil where Start names offsets, or is nil. Before it commits
// anything it checks keys, columns, protocol and properties. The error wraps
// ErrNotAdoptable, upsert.ErrDuplicateKey, delta.ErrUnsupportedFeature, ErrRefused or
// the store's cause.
func Adopt(ctx context.Context, o Options, source Source, a Adoption) (*Adopted, error) {
	l, err := New(o, source)
	if err != nil {
		return nil, err
	}
	l.ctx, l.owner = ctx, "" // who ingests it will own it
	l.batch, l.keyPlaces = newBatch(), map[*change.Columns][]int{}
	for range conflictTries {
		done, err := l.adopt(&a)
		if !errors.Is(err, errReload) {
			if err != nil {
				err = fmt.Errorf("table %s: %w", l.o.Name, err)
			}
			return done, err
		}
	}
	return nil, fmt.Errorf("table %s: %w: stop it for the time of the adoption", l.o.Name, ErrContended)
}

func (l *Lane) adopt(a *Adoption) (*Adopted, error) {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrNotAdoptable}, args...)...)
	}
	label, err := l.o.Calendar.Parse(a.Label)
	if err != nil {
		return nil, err
	}
	if l.table, err = savepoint.OpenTable(l.ctx, l.o.Store); err != nil {
		return nil, err
	}
	if l.base, err = l.table.Snapshot(l.ctx); err != nil {
		return nil, err
	}
	if err := l.knownState(label); err != nil {
		return nil, err
	}
	if len(l.o.Key) == 0 {
		if s, err := savepoint.SettingsOf(l.base); err == nil {
			l.o.Key = s.Key
		}
	}
	if len(l.o.Key) == 0 {
		return nil, fmt.Errorf("%w: set --key COLUMN[,COLUMN] (or key: in the configuration) to the columns that tell its rows apart", ErrNoKey)
	}
	l.key = l.o.Key
	plan := &Adopted{
		Label: a.Label, Version: l.base.Version(), Committed: -1, Key: l.key, Files: l.base.NumFiles(), Kept: a.Start == nil,
		Offsets: map[change.PartitionID]int64{},
	}
	metadata, protocol, err := l.adoptedMetadata(plan)
	if err != nil {
		return nil, err
	}
	kept := l.p
	switch {
	case kept == nil && a.Start == nil:
		return nil, refuse("gscd knows no offsets of it: say where its topics go on, with --offsets, --at-end or --start")
	case kept != nil && kept.State.Open != label:
		return nil, refuse("%s is open in what gscd knows of it, not %s: adopt it as %s, or roll back", l.o.Calendar.Name(kept.State.Open), a.Label, l.o.Calendar.Name(kept.State.Open))
	}
	if a.Start != nil {
		l.o.Start = *a.Start
		if l.p, err = l.beginAdopted(label, kept); err != nil {
			return nil, err
		}
	}
	plan.First = l.o.Calendar.Name(l.state().First)
	for _, p := range l.state().Partitions {
		plan.Offsets[p.ID()] = p.Next
	}
	plan.Foreign = l.p.Foreign

	// The keys last: it reads the most.
	writer, err := l.openWriter(l.base, nil)
	if err != nil {
		return nil, err
	}
	plan.Rows = int64(writer.Index().Len())
	if a.DryRun {
		return plan, nil
	}
	return plan, l.commitAdopted(plan, metadata, protocol)
}

func (l *Lane) commitAdopted(plan *Adopted, metadata *action.Metadata, protocol *action.Protocol) error {
	l.p.Kind, l.p.Label, l.p.Rows = progress.Create, plan.Label, plan.Rows
	l.p.Late, l.p.Seals, l.p.FirstUnseen = nil, nil, 0
	l.p.ColumnsAtOpen = nil
	for _, f := range l.base.Schema().Fields {
		l.p.ColumnsAtOpen = append(l.p.ColumnsAtOpen, f.Name)
	}
	l.markIncomplete(fmt.Sprintf("the rows of version %d, which gscd has not written, were adopted", plan.Version))
	tx := delta.NewTransaction(l.table, l.base)
	tx.SetMetadata(*metadata)
	if protocol != nil {
		tx.SetProtocol(*protocol)
	}
	version, conflict, err := savepoint.Commit(l.ctx, tx, l.p, "ADOPT", map[string]string{"label": plan.Label})
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if conflict != nil {
		return fmt.Errorf("%w: %s", errConflict, conflict)
	}
	plan.Committed = version
	return nil
}

// knownState takes what gscd knows of the table, with the commits of others that
// have come since as the open label's; l.p stays nil where it knows nothing.
func (l *Lane) knownState(label snapshotter.Label) error {
	l.p, l.foreign = nil, nil
	txn, ours := l.base.Txn(progress.AppID)
	if !ours {
		return l.unsealed(label)
	}
	p, err := savepoint.ProgressOf(l.ctx, l.table, l.base)
	if err != nil {
		if isLost(err) {
			return l.unsealed(label)
		}
		return err
	}
	from := txn.Version + 1
	if p.FirstUnseen > 0 {
		from = min(from, p.FirstUnseen)
	}
	before, err := l.table.SnapshotAt(l.ctx, from-1)
	if err != nil {
		before = nil // what others did is then told without numbers of rows
	}
	list, err := l.readForeign(from, l.base.Version(), before)
	if err != nil {
		return err
	}
	settings, err := savepoint.ReadSettings(l.ctx, l.table, l.base)
	if err == nil {
		if err := l.checkSettings(settings); err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(f foreignCommit) bool { return f.kind > propertiesOnly }) {
			return fmt.Errorf("%w: it is gscd's, with %s open, and no other engine has changed it since version %d: `gscd ingest` goes on, `gscd offsets set` changes offsets",
				ErrNotAdoptable, l.o.Calendar.Name(p.State.Open), txn.Version)
		}
	} else if !errors.Is(err, savepoint.ErrForeign) {
		return err
	}
	l.p = p
	for i := range list {
		if list[i].kind >= dataChanged {
			l.listForeign(&list[i])
		}
	}
	return nil
}

func isLost(err error) bool {
	return errors.Is(err, savepoint.ErrForeign) || errors.Is(err, delta.ErrVersionNotFound) || errors.Is(err, delta.ErrCorrupt)
}

// unsealed refuses a label that was sealed already.
func (l *Lane) unsealed(label snapshotter.Label) error {
	last, version, any := l.lastSealed()
	if any && last >= label {
		return fmt.Errorf("%w: %s is sealed by version %d: open a label behind it, %s or later", ErrNotAdoptable,
			l.o.Calendar.Name(last), version, l.o.Calendar.Name(last+1))
	}
	return nil
}

// lastSealed finds the newest label that the map has a savepoint of.
func (l *Lane) lastSealed() (label snapshotter.Label, version int64, any bool) {
	for txn := range l.base.Txns() {
		name, ok := strings.CutPrefix(txn.AppID, savepoint.SealAppID(""))
		if !ok || txn.Version < 0 {
			continue
		}
		if at, err := l.o.Calendar.Parse(name); err == nil && (!any || at > label) {
			label, version, any = at, txn.Version, true
		}
	}
	return label, version, any
}

// beginAdopted makes the state of a table whose topics are read from new offsets.
// Of what was known of it the labels stay.
func (l *Lane) beginAdopted(label snapshotter.Label, kept *progress.Progress) (*progress.Progress, error) {
	offsets, ids, err := l.adoptedOffsets()
	if err != nil {
		return nil, err
	}
	p := &progress.Progress{LastSeal: -1}
	p.State.First, p.State.Open, p.State.Wait = label, label, l.o.DriftWait.Microseconds()
	if last, version, any := l.lastSealed(); any && last == label-1 {
		p.LastSeal = version
		for first := last; ; first-- {
			if _, ok := l.base.Txn(savepoint.SealAppID(l.o.Calendar.Name(first))); !ok {
				break
			}
			p.State.First = first
		}
	}
	if kept != nil {
		// The map stays, and what the rows refer to. All else would make duplicates of
		// what is read again.
		lines, floors := kept.State.Lines, kept.State.Floors
		p.State.First, p.State.Lines, p.State.Floors = kept.State.First, lines, floors
		p.LastSeal, p.RolledBack, p.Incomplete = kept.LastSeal, kept.RolledBack, kept.Incomplete
		p.Deleted, p.Policies = kept.Deleted, kept.Policies
		p.Foreign, p.Counts.Foreign, p.Rewritten, p.Group = kept.Foreign, kept.Counts.Foreign, kept.Rewritten, kept.Group
		p.OwnerEpoch, p.Owner, p.Raised = kept.OwnerEpoch, kept.Owner, kept.Raised
	}
	for _, id := range slices.SortedFunc(maps.Keys(offsets), change.PartitionID.Compare) {
		if p.State.Find(id) == nil {
			part := p.State.AddPartition(id, offsets[id])
			part.Heartbeat = l.isHeartbeat(id)
		}
	}
	p.TopicIDs = ids
	return p, nil
}

// adoptedOffsets are those of Start; without a source they are taken as they are.
func (l *Lane) adoptedOffsets() (offsets map[change.PartitionID]int64, ids map[string]string, err error) {
	if l.source == nil {
		if l.o.Start.At != AtOffsets {
			return nil, nil, fmt.Errorf("%w: there is no topic to ask where %s is: configure the brokers, or give --offsets", ErrNotAdoptable, l.o.Start)
		}
		return l.o.Start.Offsets, nil, nil
	}
	if src, ok := l.source.(topicIdentifier); ok {
		src.ExpectTopicIDs(nil)
	}
	states, _, err := l.source.Partitions(l.ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("ask for partitions: %w", sourceError(l.source, err))
	}
	if offsets, err = l.begin(states); err != nil {
		return nil, nil, err
	}
	if src, ok := l.source.(topicIdentifier); ok {
		ids = src.TopicIDs()
	}
	return offsets, ids, nil
}

// adoptedMetadata checks that gscd can write the table, and gives its metadata with
// what gscd needs; protocol is nil where it is enough.
func (l *Lane) adoptedMetadata(plan *Adopted) (*action.Metadata, *action.Protocol, error) {
	refuse := func(format string, args ...any) (*action.Metadata, *action.Protocol, error) {
		return nil, nil, fmt.Errorf("%w: "+format, append([]any{ErrNotAdoptable}, args...)...)
	}
	s := l.base.Schema()
	for _, name := range l.o.Key {
		if s.Index(name) < 0 {
			return refuse("it has no column %s, which the key names; it has %s", name, strings.Join(namesOf(s), ", "))
		}
	}
	fields := slices.Clone(s.Fields)
	for i := range fields {
		if !fields[i].Nullable {
			plan.Nullable = append(plan.Nullable, fields[i].Name)
			fields[i].Nullable = true
		}
		if err := checkColumn(fields[i]); err != nil {
			return refuse("%w", err)
		}
	}
	by := l.base.Metadata().PartitionColumns
	switch {
	case len(l.o.PartitionBy) == 0:
		l.o.PartitionBy = by
	case !slices.Equal(by, l.o.PartitionBy):
		return refuse("it is partitioned by %v, the configuration says %v", by, l.o.PartitionBy)
	}
	if on, _ := l.base.Property(delta.PropertyAppendOnly); on == "true" {
		return refuse("%s is true, and gscd updates and deletes: unset it first", delta.PropertyAppendOnly)
	}
	if _, set := l.base.Property(delta.PropertyTxnRetention); set {
		return refuse("%s is set, by which engines forget gscd's savepoints: unset it first", delta.PropertyTxnRetention)
	}
	if err := l.table.CheckWritable(l.base); err != nil {
		return nil, nil, err
	}
	plan.Properties = delta.ProtectiveProperties(cmp.Or(l.o.SavepointDays, savepoint.ProtectedDays))
	if !l.o.CopyOnWrite {
		plan.Properties[delta.PropertyDeletionVectors] = "true"
		if protocol := l.base.Protocol(); !slices.Contains(delta.FeaturesOf(protocol), delta.FeatureDeletionVectors) {
			plan.Features = append(plan.Features, delta.FeatureDeletionVectors)
		}
	}
	if l.o.ChangeData {
		if at := slices.IndexFunc(fields, func(f schema.Field) bool { return reserved(f.Name) }); at >= 0 {
			return refuse("its column %s has a name that change data gives to a column of its own: leave change_data out", fields[at].Name)
		}
		plan.Properties[delta.PropertyChangeDataFeed] = "true"
		if !slices.Contains(delta.FeaturesOf(l.base.Protocol()), delta.FeatureChangeDataFeed) {
			plan.Features = append(plan.Features, delta.FeatureChangeDataFeed)
		}
	}
	settings := savepoint.Settings{Calendar: l.o.Calendar, Key: l.key}
	maps.Copy(plan.Properties, settings.Properties())
	maps.Copy(plan.Properties, l.o.Properties)
	if l.o.Protect != "" {
		plan.Properties[savepoint.PropertyProtect] = l.o.Protect
	}
	metadata := *l.base.Metadata()
	metadata.Configuration = maps.Clone(metadata.Configuration)
	if metadata.Configuration == nil {
		metadata.Configuration = map[string]string{}
	}
	maps.Copy(metadata.Configuration, plan.Properties)
	if len(plan.Nullable) > 0 {
		columns, err := schema.New(fields...)
		if err != nil {
			return nil, nil, err
		}
		metadata.SchemaString = columns.String()
	}
	if protect := metadata.Configuration[savepoint.PropertyProtect]; protect == savepoint.ProtectLock && !savepoint.Locked(l.base) {
		plan.Features = append(plan.Features, savepoint.FeatureLock)
	} else if len(plan.Features) == 0 && savepoint.Locked(l.base) == (protect == savepoint.ProtectLock) {
		return &metadata, nil, nil
	}
	protocol := savepoint.ProtocolOf(delta.WithFeatures(*l.base.Protocol(), plan.Features...), metadata.Configuration)
	return &metadata, &protocol, nil
}

func namesOf(s *schema.Schema) []string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return names
}
