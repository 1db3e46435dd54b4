package savepoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest/marker"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/progress"
)

// The kinds of what Vacuum removes beside those of delta.Vacuum.
const (
	KindLog    = "log"
	KindHeld   = "held"
	KindMarker = "marker"
	// KindSettled is what became of dead letters.
	KindSettled = "settled"
	KindBackup  = "backup"
	// KindList is a list of the files of a version.
	KindList = "list"
	// KindChecksum is the content checksum of a version.
	KindChecksum = "checksum"
)

// VacuumOptions say what Vacuum keeps beside the savepoints.
type VacuumOptions struct {
	// Retain is how long versions without a savepoint stay readable.
	Retain time.Duration
	// Grace is the age below which nothing goes: running readers and writers.
	// Below 10 minutes it is safe only while nothing else works on the table.
	Grace time.Duration
	// RolledBack is how long a savepoint stays pinned after it was rolled back.
	RolledBack time.Duration
	// Now is the time ages are counted from.
	Now    time.Time
	DryRun bool
	// GivenUp names savepoints that a dry run takes for given up already: what their
	// deletion would free is then in its report.
	GivenUp []string
	// ByLog looks only at what the log names as removed; see delta.VacuumOptions.
	ByLog bool
	// Progress, where set, is told how far a step is that may take long.
	Progress func(what string, done, total int)
}

// VacuumReport says what Vacuum did, or in a dry run would do.
type VacuumReport struct {
	// Deleted is what goes, by kind and key.
	Deleted []delta.Garbage
	ByKind  map[string]delta.Total
	// Kept counts the objects that were looked at and stay, the log aside.
	Kept int
	// Unpinned are the rolled-back savepoints whose time is over.
	Unpinned []string
	// Islands are the savepoints that got a checkpoint of their own.
	Islands []int64
	// Tombstones is how many were left out of the newest checkpoint since they
	// protect nothing any more.
	Tombstones int
}

// Vacuum removes what neither a savepoint, nor the newest version, nor a version
// younger than Retain needs: data files, deletion vectors, change data, held
// changes, delete markers, backups and log entries. Rolled-back savepoints whose
// time is over are unpinned first, in a commit of their own. A pinned version that
// can't be read ends it before anything is removed. After an error the report
// tells what was removed.
func Vacuum(ctx context.Context, table *delta.Table, o VacuumOptions) (*VacuumReport, error) {
	report := &VacuumReport{ByKind: map[string]delta.Total{}}
	s, m, err := readNewest(ctx, table)
	if err != nil {
		return report, err
	}
	over := m.keptBefore(o.Now.Add(-o.RolledBack))
	if len(over) > 0 && !o.DryRun {
		if err := unpin(ctx, table, over); err != nil {
			return report, err
		}
		if s, m, err = readNewest(ctx, table); err != nil {
			return report, err
		}
	}
	report.Unpinned = over
	gone := over
	if o.DryRun {
		gone = slices.Concat(over, o.GivenUp)
	}
	pins := slices.DeleteFunc(PinsOf(s), func(p Pin) bool {
		return !slices.ContainsFunc(p.Names, func(name string) bool { return !slices.Contains(gone, name) })
	})
	v := &vacuum{VacuumOptions: o, table: table, newest: s, labels: m, pins: pins, report: report}
	return report, v.run(ctx)
}

func readNewest(ctx context.Context, table *delta.Table) (*delta.Snapshot, *Map, error) {
	s, err := table.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := Read(ctx, table, s)
	return s, m, err
}

// keptBefore names the rolled-back savepoints that were rolled back before a time.
func (m *Map) keptBefore(at time.Time) (names []string) {
	for _, e := range m.Entries {
		if when, err := time.Parse(time.RFC3339Nano, e.At); e.Kept && err == nil && when.Before(at) {
			names = append(names, e.Name)
		}
	}
	return names
}

// unpin gives up kept rolled-back savepoints in one commit.
func unpin(ctx context.Context, table *delta.Table, names []string) error {
	_, err := edit(ctx, table, "unpin rolled-back "+strings.Join(names, ", "), nil, func(_ *delta.Snapshot, m *Map, tx *delta.Transaction, _ *progress.Progress) error {
		for _, e := range m.Entries {
			if e.Kept && slices.Contains(names, e.Name) {
				tx.SetTxn(SealAppID(e.Name), gone(e.Version))
			}
		}
		return nil
	})
	return err
}

// vacuum is one run.
type vacuum struct {
	VacuumOptions
	table  *delta.Table
	newest *delta.Snapshot
	labels *Map
	pins   []Pin
	report *VacuumReport

	objects map[string]bool // data files and deletion vectors of the pins
	side    map[string]bool // held changes, markers and settled dead letters that a progress names
	commits []int64         // versions whose commit says what is still needed
	unseen  map[int64]bool  // of these, those that others may have made: they have no progress
}

func (v *vacuum) run(ctx context.Context) error {
	if err := v.gather(ctx); err != nil {
		return err
	}
	grace := max(v.Grace, 1) // 0 would be the default
	data, err := delta.Vacuum(ctx, v.table, delta.VacuumOptions{
		KeepVersionsSince: v.Now.Add(-v.Retain), Grace: grace, Now: v.Now, DryRun: v.DryRun, ByLog: v.ByLog,
		ExtraKeep: func(key string) bool { return v.objects[key] },
		Prefixes: []delta.VacuumPrefix{
			{Prefix: drift.Folder, Kind: KindHeld, Keep: func(key string) bool { return v.side[key] }},
			{Prefix: marker.Folder, Kind: KindMarker, Keep: func(key string) bool { return v.side[key] }},
			{Prefix: settled.Folder, Kind: KindSettled, Keep: func(key string) bool { return v.side[key] }},
			{Prefix: BackupFolder, Kind: KindBackup, Keep: v.keepsBackup},
			{Prefix: FileListFolder, Kind: KindList, Keep: v.keepsFileList},
			{Prefix: ChecksumFolder, Kind: KindChecksum, Keep: v.keepsChecksum},
		},
	})
	v.report.Deleted, v.report.Kept = data.Deleted, data.Kept
	maps.Copy(v.report.ByKind, data.ByKind)
	if err != nil {
		return err
	}
	if err := v.cleanLog(ctx, grace); err != nil {
		return err
	}
	slices.SortStableFunc(v.report.Deleted, func(a, b delta.Garbage) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key))
	})
	return v.dropTombstones(ctx, data)
}

// gather finds what the pinned versions and the progress in force refer to.
func (v *vacuum) gather(ctx context.Context) error {
	v.objects, v.side = map[string]bool{}, map[string]bool{}
	keep := func(version int64, files []*action.Add) error {
		if err := referencesOf(files, func(key string, _ int64) { v.objects[key] = true }); err != nil {
			return fmt.Errorf("version %d: %w", version, err)
		}
		return nil
	}
	if err := keep(v.newest.Version(), v.newest.Files()); err != nil {
		return err
	}
	versions, opened := versionsOf(v.pins), 0
	err := v.table.EachFileSet(ctx, versions, func(version int64, files []*action.Add, err error) error {
		opened++
		tell(v.Progress, "reading savepoints", opened, len(versions))
		if err != nil {
			return unreadable(version, err)
		}
		return keep(version, files)
	})
	if err != nil {
		return err
	}
	if err := v.gatherCommits(ctx); err != nil {
		return err
	}
	// A writer that starts may still take what a version of a moment ago held.
	recent, err := v.recent(ctx)
	if err != nil {
		return err
	}
	read, faults := readProgress(ctx, v.table, slices.Concat(v.commits, recent))
	for version, err := range faults {
		others := errors.Is(err, ErrForeign) || errors.Is(err, delta.ErrVersionNotFound) // of another program, or just cleaned
		if slices.Contains(v.commits, version) && !(v.unseen[version] && errors.Is(err, ErrForeign)) || !others {
			return fmt.Errorf("vacuum: %w", err)
		}
	}
	for _, p := range read {
		for _, f := range p.Held {
			v.side[f.Key] = true
		}
		for _, f := range p.Markers {
			v.side[f.Key] = true
		}
		for _, f := range p.Settled {
			v.side[f.Key] = true
		}
	}
	if v.labels.Progress.Counts.Late > 0 { // the next seal lists what these commits list
		for version := v.labels.Progress.LastSeal + 1; version <= v.newest.Version(); version++ {
			v.commits = append(v.commits, version)
		}
	}
	return nil
}

func tell(progress func(what string, done, total int), what string, done, total int) {
	if progress != nil {
		progress(what, done, total)
	}
}

func unreadable(version int64, err error) error {
	return fmt.Errorf("vacuum: the savepoint at version %d can't be read, `gscd check` says more: %w", version, err)
}

// gatherCommits finds the commits that hold the progress of the newest version
// and of every pin.
func (v *vacuum) gatherCommits(ctx context.Context) error {
	needed := map[int64]bool{}
	v.unseen = map[int64]bool{}
	if txn, ok := v.newest.Txn(progress.AppID); ok {
		needed[txn.Version] = true
		// An ingester will ask what others have committed since.
		first := txn.Version + 1
		if unseen := v.labels.Progress.FirstUnseen; unseen > 0 {
			first = min(first, unseen)
		}
		for version := first; version <= v.newest.Version(); version++ {
			needed[version], v.unseen[version] = true, version != txn.Version
		}
	}
	for _, p := range v.pins {
		if p.Sealed { // by a commit of gscd
			needed[p.Version] = true
			continue
		}
		s, err := v.table.SnapshotAt(ctx, p.Version)
		if err != nil {
			return unreadable(p.Version, err)
		}
		if txn, ok := s.Txn(progress.AppID); ok {
			needed[txn.Version] = true
		}
	}
	v.commits = slices.Sorted(maps.Keys(needed))
	return nil
}

// recent gives the versions whose commit is younger than the grace period.
func (v *vacuum) recent(ctx context.Context) ([]int64, error) {
	listing, err := deltalog.List(ctx, v.table.Store(), 0)
	if err != nil {
		return nil, err
	}
	var versions []int64
	for _, c := range listing.Commits {
		if c.Modified.After(v.Now.Add(-v.Grace)) {
			versions = append(versions, c.Version)
		}
	}
	return versions, nil
}

// keepsBackup keeps the copies of pinned versions, and of one that was sealed since.
func (v *vacuum) keepsBackup(key string) bool {
	_, version, ok := backedUp(key)
	return !ok || version > v.newest.Version() || slices.Contains(versionsOf(v.pins), version)
}

func (v *vacuum) cleanLog(ctx context.Context, grace time.Duration) error {
	listing, err := deltalog.List(ctx, v.table.Store(), 0)
	if err != nil {
		return err
	}
	sizes := make(map[string]int64, len(listing.Files))
	for _, f := range listing.Files {
		sizes[f.Key] = f.Size
	}
	done, err := v.table.CleanLog(ctx, delta.CleanOptions{
		Pinned: versionsOf(v.pins), KeepCommits: v.commits, KeepSince: v.Now.Add(-v.Retain), Grace: grace, Now: v.Now, DryRun: v.DryRun,
	})
	v.report.Islands = done.Islands
	for _, key := range done.Deleted {
		v.report.Deleted = append(v.report.Deleted, delta.Garbage{Key: key, Kind: KindLog, Size: sizes[key]})
	}
	if len(done.Deleted) > 0 {
		v.report.ByKind[KindLog] = delta.Total{Files: int64(len(done.Deleted)), Bytes: done.Bytes}
	}
	return err
}

// dropTombstones writes a checkpoint without the tombstones that protect nothing
// any more: with protective properties of years they would stay in every one.
func (v *vacuum) dropTombstones(ctx context.Context, data *delta.VacuumReport) error {
	if v.DryRun {
		return nil
	}
	newest, err := v.table.Update(ctx, v.newest)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(newest.Tombstones(), data.Obsolete) {
		return nil
	}
	done, err := v.table.Checkpoint(ctx, newest, delta.CheckpointOptions{Drop: data.Obsolete})
	if err != nil {
		return err
	}
	v.report.Tombstones = done.Dropped
	return nil
}
