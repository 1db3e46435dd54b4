package savepoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// ErrNoReplay: the topic no longer has what a rollback would read again.
var ErrNoReplay = errors.New("the topic no longer has the offsets to replay")

// RollbackOptions say how to roll back.
type RollbackOptions struct {
	// NoReplay keeps the present progress: the labels after To up to the open
	// one stay rolled back for ever.
	NoReplay bool
	DryRun   bool
	// Earliest are the oldest offsets that the topic still has, nil where they
	// are not known (a recording, no broker): then nothing is checked.
	Earliest map[change.PartitionID]int64
	Now      time.Time
	// Differ finds what the rollback changes, for the change data of a table that keeps
	// some. Without it readers take the rows of the files that come and go, in which a row
	// that was moved is deleted and inserted.
	Differ Differ
}

// Plan says what a rollback does, or did.
type Plan struct {
	To      string `json:"to"`
	Version int64  `json:"version"`
	// Nothing tells that the table stands there already.
	Nothing bool `json:"nothing,omitempty"`
	// Labels are rolled back, oldest first.
	Labels []string `json:"labels"`
	// Files are added back and removed; Rows live then and now.
	FilesAdded   int   `json:"files_added"`
	FilesRemoved int   `json:"files_removed"`
	RowsNow      int64 `json:"rows_now"`
	RowsThen     int64 `json:"rows_then"`
	// Offsets are where each partition goes on.
	Offsets map[string]int64 `json:"offsets"`
	// ChangeFiles is how many files of change data were written. NoChangeData says why
	// none were, though the table keeps some: rows that go can't be read.
	ChangeFiles  int    `json:"change_files,omitempty"`
	NoChangeData string `json:"no_change_data,omitempty"`
	// Committed is the version of the rollback, -1 for a dry run.
	Committed int64 `json:"committed"`
}

// Rollback brings the table back to a sealed label (or LABEL@VERSION) in one
// commit: rows and schema of its savepoint, and the progress of its seal with
// the next label open. A conflict with a running ingester is tried again on the
// newer version. The second rollback to one label does nothing.
func Rollback(ctx context.Context, table *delta.Table, to string, o RollbackOptions) (*Plan, error) {
	const attempts = 20
	var last *delta.Conflict
	for range attempts {
		s, err := table.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		plan, conflict, err := rollback(ctx, table, s, to, o)
		if err != nil || conflict == nil {
			return plan, err
		}
		last = conflict
	}
	return nil, fmt.Errorf("roll back to %s: %d attempts met other commits (the last: %s); stop the ingester and try again", to, attempts, last)
}

func rollback(ctx context.Context, table *delta.Table, s *delta.Snapshot, to string, o RollbackOptions) (*Plan, *delta.Conflict, error) {
	m, err := Read(ctx, table, s)
	if err != nil {
		return nil, nil, err
	}
	r, err := m.Resolve(to, true)
	if err != nil {
		return nil, nil, err
	}
	target, err := table.SnapshotAt(ctx, r.Entry.Version)
	if err != nil {
		return nil, nil, fmt.Errorf("open the savepoint of %s: %w", to, err)
	}
	then, err := progressAt(ctx, table, r.Entry.Version)
	if err != nil {
		return nil, nil, err
	}
	restore(then, r.Entry.Label)

	plan := &Plan{To: r.Entry.Name, Version: r.Entry.Version, RowsNow: m.Progress.Rows, RowsThen: then.Rows, Committed: -1}
	next := then
	if o.NoReplay {
		next = m.Progress.Clone()
		next.Held, next.Rows = m.Progress.Held, then.Rows
		next.Rewritten = then.Rewritten
	}
	if from := r.Entry.Version + 1; !o.NoReplay && from <= s.Version() {
		next.Undone = append(next.Undone, progress.Span{From: from, To: s.Version()})
	}
	plan.Offsets = offsetsOf(next, m.Progress)
	adds, removes := delta.DiffForRestore(s, target, o.Now)
	plan.FilesAdded, plan.FilesRemoved = len(adds), len(removes)
	tx := delta.NewTransaction(table, s)
	for _, e := range m.Entries {
		if e.Kept || e.Label <= r.Entry.Label {
			continue
		}
		plan.Labels = append(plan.Labels, e.Name)
		if e.State == Sealed {
			tx.SetTxn(SealAppID(e.Name), gone(e.Version))
			tx.SetTxn(keptAppID(e.Name, e.Version), e.Version)
		}
	}
	if !r.Entry.Kept && m.standsAt(r.Entry.Label) && len(adds)+len(removes) == 0 && sameColumns(s.Schema(), target.Schema()) {
		plan.Nothing, plan.Labels = true, nil
		return plan, nil, nil
	}
	if !o.NoReplay {
		if err := checkReplay(then, o.Earliest); err != nil {
			return nil, nil, fmt.Errorf("roll back to %s: %w", to, err)
		}
	}
	if err := present(ctx, table.Store(), adds, next); err != nil {
		return nil, nil, fmt.Errorf("roll back to %s: %w; `gscd check` says more", to, err)
	}
	if o.DryRun {
		return plan, nil, nil
	}
	m.mark(next, r.Entry.Label, o)
	for _, a := range adds {
		tx.Add(a)
	}
	for _, rm := range removes {
		tx.Remove(rm)
	}
	if meta := *target.Metadata(); meta.SchemaString != s.Metadata().SchemaString {
		now, err := write.Remap(s.Metadata(), &meta)
		if err != nil {
			return nil, nil, fmt.Errorf("roll back to %s: its columns: %w", to, err)
		}
		now.Configuration = maps.Clone(now.Configuration)
		tx.SetMetadata(now)
	}
	next.Kind, next.Label = progress.Rollback, m.Calendar.Name(next.State.Open)
	next.Late, next.Seals, next.Slice = nil, nil, nil
	next.FirstUnseen = 0 // what others did is undone
	m.resealAsOf(r.Entry.Label, target, s, tx)
	if err := feedRollback(ctx, tx, table.Store(), s, target, adds, removes, o, plan); err != nil {
		return nil, nil, fmt.Errorf("roll back to %s: %w", to, err)
	}
	version, conflict, err := Commit(ctx, tx, next, "RESTORE", map[string]string{"to": plan.To})
	if err != nil {
		return nil, nil, fmt.Errorf("roll back to %s: %w", to, err)
	}
	plan.Committed = version
	return plan, conflict, nil
}

// sameColumns reports that two schemas have the same columns, their ids aside.
func sameColumns(a, b *schema.Schema) bool {
	return slices.EqualFunc(a.Fields, b.Fields, func(x, y schema.Field) bool {
		return x.Name == y.Name && x.Type.String() == y.Type.String() && x.Nullable == y.Nullable
	})
}

// resealAsOf gives the labels up to one the versions that they had at the target, or
// tells that such a version is deleted. Only the way to a kept rolled-back savepoint
// changes any: its label, and those before it that were sealed anew since.
func (m *Map) resealAsOf(to snapshotter.Label, target, now *delta.Snapshot, tx *delta.Transaction) {
	for then := range target.Txns() {
		name, ok := strings.CutPrefix(then.AppID, sealPrefix)
		if !ok {
			continue
		}
		label, err := m.Calendar.Parse(name)
		if err != nil || label > to { // kept ones, and others of a seal of several
			continue
		}
		version := sealedAt(then.Version)
		current, mapped := now.Txn(then.AppID)
		if mapped && current.Version == then.Version {
			continue // as it is
		}
		kept, isKept := now.Txn(keptAppID(name, version))
		switch {
		case isKept && kept.Version >= 0:
			tx.SetTxn(then.AppID, version)
			tx.SetTxn(kept.AppID, gone(version))
		case mapped && sealedAt(current.Version) > target.Version(): // sealed anew since
			tx.SetTxn(then.AppID, gone(version))
		default:
			continue
		}
		if mapped && current.Version >= 0 {
			tx.SetTxn(keptAppID(name, current.Version), current.Version)
		}
	}
}

// sealedAt gives the version of a label's entry, whether or not it is gone.
func sealedAt(version int64) int64 { return max(version, gone(version)) }

// standsAt reports whether the table is already where a rollback to a label
// leaves it: the label behind it is open, rolled back, and nothing has come since.
func (m *Map) standsAt(to snapshotter.Label) bool {
	return m.Progress.Kind == progress.Rollback && m.Progress.State.Open == to+1
}

// restore makes of a seal's progress that of the seal of one label of it:
// consecutive empty labels share a commit.
func restore(p *progress.Progress, label snapshotter.Label) {
	if p.State.Open != label+1 {
		p.State.Open = label + 1
		p.Counts = progress.Counts{}
	}
}

func offsetsOf(p, now *progress.Progress) map[string]int64 {
	out := map[string]int64{}
	for _, part := range now.State.Partitions {
		out[part.ID().String()] = part.Start
	}
	for _, part := range p.State.Partitions {
		out[part.ID().String()] = part.Next
	}
	return out
}

// checkReplay refuses where the topic no longer has the offsets to read again.
func checkReplay(p *progress.Progress, earliest map[change.PartitionID]int64) error {
	var faults []error
	for _, part := range p.State.Partitions {
		if oldest, ok := earliest[part.ID()]; ok && oldest > part.Next {
			faults = append(faults, fmt.Errorf("%w: partition %d of topic %s would go on at offset %d, the oldest there is %d; replay is possible to a label whose offset there is %d or more, or roll back with --no-replay",
				ErrNoReplay, part.Kafka, part.Topic, part.Next, oldest, oldest))
		}
	}
	return errors.Join(faults...)
}

// mark lists the rolled-back labels in the new progress.
func (m *Map) mark(next *progress.Progress, to snapshotter.Label, o RollbackOptions) {
	open := m.Progress.State.Open
	at := o.Now.UTC().Format(time.RFC3339)
	rolled := slices.DeleteFunc(slices.Clone(m.Progress.RolledBack), func(r progress.RolledBack) bool { return r.Label <= to })
	has := func(l snapshotter.Label) bool {
		return slices.ContainsFunc(rolled, func(r progress.RolledBack) bool { return r.Label == l })
	}
	for _, e := range m.Entries {
		if e.Kept || e.Label <= to || has(e.Label) || o.NoReplay && e.Label == open {
			continue
		}
		r := progress.RolledBack{Label: e.Label, Version: e.Version, At: at, To: to, ForGood: o.NoReplay}
		if e.State == Open || e.State == DeletedOne {
			r.Version = -1
		}
		rolled = append(rolled, r)
	}
	next.RolledBack = rolled
	next.Deleted, next.Policies = m.Progress.Deleted, m.Progress.Policies
	next.OwnerEpoch, next.Owner, next.Raised = m.Progress.OwnerEpoch, m.Progress.Owner, m.Progress.Raised
	next.Group = max(next.Group, m.Progress.Group)
	if o.NoReplay {
		next.Incomplete = &progress.Incomplete{Since: open, Reason: fmt.Sprintf("rolled back to %s without replay", m.Calendar.Name(to))}
	}
}

// Commit commits a transaction with a progress of kind rollback or maintenance.
// A conflict is a value: the caller reads the newer version and tries again.
func Commit(ctx context.Context, tx *delta.Transaction, p *progress.Progress, operation string, parameters map[string]string) (int64, *delta.Conflict, error) {
	raw, err := p.Encode()
	if err != nil {
		return 0, nil, fmt.Errorf("encode progress: %w", err)
	}
	tx.SetTxn(progress.AppID, delta.OwnVersion)
	tx.SetCommitInfo(operation, parameters, nil, map[string]any{progress.Key: raw})
	outcome, err := tx.Commit(ctx)
	if err != nil {
		return 0, nil, err
	}
	return outcome.Version, outcome.Conflict, nil
}
