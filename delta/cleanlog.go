package delta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/checkpoint"
	"github.com/gscd-io/gscd/delta/deltalog"
)

// minCleanAge is the default of CleanOptions.Grace. It must stay above trusted.
const minCleanAge = time.Hour

// CleanOptions say what CleanLog keeps.
type CleanOptions struct {
	// Pinned versions stay readable by number: their commit file and a checkpoint
	// of their own stay.
	Pinned []int64
	// KeepCommits names versions whose commit file stays, though the version may
	// become unreadable.
	KeepCommits []int64
	// KeepSince keeps every version that was the newest at this time or later;
	// the zero time keeps what Grace keeps.
	KeepSince time.Time
	// Grace is the age below which nothing goes: writers and readers that still
	// work on an older version need it. Default 1 h.
	Grace time.Duration
	// Now is the time ages are counted from; the zero time is the table's clock.
	Now    time.Time
	DryRun bool
	// BeforeDelete is called once with the keys that go, after everything that
	// keeps the pins readable is in place. An error ends the cleaning.
	BeforeDelete func(ctx context.Context, keys []string) error
}

// CleanReport says what CleanLog did, or in a dry run would do.
type CleanReport struct {
	// Start is the version of the checkpoint that the newest part of the log
	// begins with; -1 where there was nothing to clean.
	Start int64
	// Islands are the pinned versions that got a checkpoint of their own.
	Islands []int64
	// Deleted are the keys, oldest version first.
	Deleted []string
	Bytes   int64
}

// CleanLog deletes the log files that neither the newest part of the log nor a
// pinned version needs. What remains is the newest part (a checkpoint with its
// commit, and every commit after it), and for each pin below that its commit
// file and its checkpoint, which is written where it is missing.
//
// Files go from the oldest version on, after the hint names a checkpoint that
// stays: interrupted anywhere, the table opens as before. A pinned version that
// is not readable ends the cleaning before anything is deleted; the error is a
// *VersionNotFoundError.
func (t *Table) CleanLog(ctx context.Context, options CleanOptions) (CleanReport, error) {
	report, err := t.cleanLog(ctx, options)
	if err != nil {
		err = fmt.Errorf("clean the log of %s: %w", t.store, err)
	}
	return report, err
}

func (t *Table) cleanLog(ctx context.Context, options CleanOptions) (CleanReport, error) {
	report := CleanReport{Start: -1}
	newest, err := t.Snapshot(ctx)
	if err != nil {
		return report, err
	}
	if err := t.checkMaintainable(newest); err != nil {
		return report, err
	}
	listing, err := deltalog.List(ctx, t.store, 0)
	if err != nil {
		return report, err
	}
	now, grace := options.Now, options.Grace
	if now.IsZero() {
		now = t.now()
	}
	if grace <= 0 {
		grace = minCleanAge
	}
	start, state, err := t.tailStart(ctx, listing, oldestKept(listing.Commits, cutoff(options.KeepSince, now.Add(-grace))))
	if err != nil || start == nil {
		return report, err
	}
	victims := victims(listing, start.Version, options)
	if len(victims) == 0 {
		return report, nil
	}
	sidecars, err := t.deadSidecars(ctx, listing, victims, now.Add(-max(grace, minSidecarAge)))
	if err != nil {
		return report, err
	}
	victims = append(victims, sidecars...) // after the checkpoints that name them
	report.Start = start.Version
	if report.Islands, err = t.fortify(ctx, listing, start.Version, options); err != nil {
		return report, err
	}
	if !options.DryRun {
		if err := t.secureHint(ctx, listing, start, state); err != nil {
			return report, err
		}
		if options.BeforeDelete != nil {
			keys := make([]string, len(victims))
			for i, f := range victims {
				keys[i] = f.Key
			}
			if err := options.BeforeDelete(ctx, keys); err != nil {
				return report, err
			}
		}
	}
	for _, f := range victims {
		if !options.DryRun {
			if err := t.store.Delete(ctx, f.Key); err != nil {
				return report, err
			}
		}
		report.Deleted = append(report.Deleted, f.Key)
		report.Bytes += f.Size
	}
	return report, nil
}

// cutoff is the earlier of two times, a zero one not counted.
func cutoff(since, grace time.Time) time.Time {
	if !since.IsZero() && since.Before(grace) {
		return since
	}
	return grace
}

// oldestKept gives the version that was the newest one at the given time, -1 if
// the log begins later.
func oldestKept(commits []deltalog.Commit, at time.Time) int64 {
	version := int64(-1)
	for i, when := range commitTimes(commits) {
		if when.After(at) {
			break
		}
		version = commits[i].Version
	}
	return version
}

// tailStart picks the checkpoint, at or below a version, that the newest part of
// the log shall begin with: with its commit file, and proved readable. One that is
// damaged is passed over, and less of the log goes. nil where there is none.
func (t *Table) tailStart(ctx context.Context, l *deltalog.Listing, version int64) (*deltalog.Checkpoint, checkpoint.Written, error) {
	for _, c := range slices.Backward(l.Checkpoints) {
		if c.Version > version {
			continue
		}
		if _, ok := l.Commit(c.Version); !ok {
			continue
		}
		state, err := t.readCheckpoint(ctx, &c)
		if errors.Is(err, ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, checkpoint.Written{}, err
		}
		w := checkpoint.Written{Actions: int64(checkpoint.Actions(state)), Adds: int64(len(state.Adds))}
		for _, p := range c.Parts {
			w.Bytes += p.Size
		}
		return &c, w, nil
	}
	return nil, checkpoint.Written{}, nil
}

// victims are the files below start that nobody needs, oldest version first.
func victims(l *deltalog.Listing, start int64, options CleanOptions) []deltalog.File {
	var list []deltalog.File
	for _, f := range l.Files {
		if f.Version >= start || slices.Contains(options.Pinned, f.Version) {
			continue
		}
		switch f.Kind {
		case deltalog.CommitFile:
			if slices.Contains(options.KeepCommits, f.Version) {
				continue
			}
		case deltalog.ClassicCheckpoint, deltalog.CheckpointPart, deltalog.UUIDCheckpoint, deltalog.Checksum, deltalog.Compacted:
		default:
			continue
		}
		list = append(list, f)
	}
	return list
}

// minSidecarAge is the age below which a sidecar stays: the manifest that names it may be
// on its way ("Metadata Cleanup").
const minSidecarAge = 24 * time.Hour

// deadSidecars are the sidecars, last written before a time, that no checkpoint names
// which stays.
func (t *Table) deadSidecars(ctx context.Context, l *deltalog.Listing, victims []deltalog.File, before time.Time) (dead []deltalog.File, err error) {
	for object, err := range t.store.List(ctx, checkpoint.SidecarFolder, "") {
		if err != nil {
			return nil, err
		}
		if object.Modified.Before(before) && strings.HasSuffix(object.Key, ".parquet") {
			dead = append(dead, deltalog.File{Object: object})
		}
	}
	if len(dead) == 0 {
		return nil, nil
	}
	goes := make(map[string]bool, len(victims))
	for _, f := range victims {
		goes[f.Key] = true
	}
	named := map[string]bool{}
	for _, f := range l.Files {
		if f.Kind != deltalog.ClassicCheckpoint && f.Kind != deltalog.UUIDCheckpoint || goes[f.Key] {
			continue
		}
		keys, err := checkpoint.Sidecars(ctx, t.store, f.Key)
		if err != nil {
			return nil, err // what it names can't be told: nothing may go
		}
		for _, key := range keys {
			named[key] = true
		}
	}
	return slices.DeleteFunc(dead, func(f deltalog.File) bool { return named[f.Key] }), nil
}

// standsAlone tells that a version needs no commit before it. Its checkpoint is read, once:
// as long as the commit before it is still there, which else would go with a torn one.
func (t *Table) standsAlone(ctx context.Context, l *deltalog.Listing, version int64) (bool, error) {
	c, ok := l.Checkpoint(version)
	if !ok {
		return false, nil
	}
	if _, before := l.Commit(version - 1); !before {
		return true, nil
	}
	_, err := t.readCheckpoint(ctx, &c)
	if errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}

// fortify makes every pinned version below start readable by itself.
func (t *Table) fortify(ctx context.Context, l *deltalog.Listing, start int64, options CleanOptions) ([]int64, error) {
	pinned := slices.Clone(options.Pinned)
	slices.Sort(pinned)
	var islands []int64
	for _, version := range slices.Compact(pinned) {
		if version >= start {
			continue
		}
		if _, err := l.Segment(version); err != nil {
			return islands, fmt.Errorf("pinned: %w", err)
		}
		if sound, err := t.standsAlone(ctx, l, version); err != nil {
			return islands, err
		} else if sound {
			continue
		}
		islands = append(islands, version)
		if options.DryRun {
			continue
		}
		s, err := t.loadAt(ctx, l, version)
		if err != nil {
			return islands, fmt.Errorf("pinned version %d: %w", version, err)
		}
		if _, err := t.Checkpoint(ctx, s, CheckpointOptions{Island: true}); err != nil {
			return islands, err
		}
	}
	return islands, nil
}

// secureHint makes sure that _last_checkpoint names a checkpoint that stays:
// Trino finds no table without it.
func (t *Table) secureHint(ctx context.Context, l *deltalog.Listing, start *deltalog.Checkpoint, w checkpoint.Written) error {
	hint, ok, err := deltalog.ReadHint(ctx, t.store)
	if err != nil {
		return err
	}
	if ok && hint.Version >= start.Version {
		if _, there := l.Checkpoint(hint.Version); there {
			return nil
		}
	}
	h := deltalog.Hint{Version: start.Version, Size: w.Actions, SizeInBytes: w.Bytes, NumOfAddFiles: w.Adds}
	if len(start.Parts) > 1 {
		h.Parts = int64(len(start.Parts))
	}
	return deltalog.WriteHint(ctx, t.store, h)
}
