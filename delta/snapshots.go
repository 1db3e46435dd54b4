package delta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/checkpoint"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
)

// snapshotReaders is how many versions EachSnapshot reads at a time at most.
const snapshotReaders = 8

// EachSnapshot reads versions side by side with one listing of the log, and
// calls fn with each or with the error of SnapshotAt: in any order, one call at a
// time. An error of fn ends it.
func (t *Table) EachSnapshot(ctx context.Context, versions []int64, fn func(version int64, s *Snapshot, err error) error) error {
	return eachVersion(ctx, t, versions, t.loadAt, fn)
}

// EachFileSet is EachSnapshot for the live files alone, which costs a part of
// it: of each add there are path, size and deletion vector. They come in no order.
func (t *Table) EachFileSet(ctx context.Context, versions []int64, fn func(version int64, files []*action.Add, err error) error) error {
	return eachVersion(ctx, t, versions, t.filesAt, fn)
}

// eachVersion loads versions side by side.
func eachVersion[T any](ctx context.Context, t *Table, versions []int64, load func(context.Context, *deltalog.Listing, int64) (T, error), fn func(int64, T, error) error) error {
	listing, err := deltalog.List(ctx, t.store, 0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	return objstore.InParallel(ctx, len(versions), min(snapshotReaders, 2*runtime.GOMAXPROCS(0)), func(ctx context.Context, i int) error {
		loaded, err := load(ctx, listing, versions[i])
		if errors.Is(err, objstore.ErrNotExist) { // cleaned meanwhile: a new listing tells
			var newer *deltalog.Listing
			if newer, err = deltalog.List(ctx, t.store, 0); err == nil {
				loaded, err = load(ctx, newer, versions[i])
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return nil
		}
		if err := fn(versions[i], loaded, err); err != nil {
			cancel(err) // before the next one may call fn
			return err
		}
		return nil
	})
}

// filesAt gives the live files of a version without the rest of it.
func (t *Table) filesAt(ctx context.Context, listing *deltalog.Listing, version int64) ([]*action.Add, error) {
	segment, err := listing.Segment(version)
	if err != nil {
		return nil, err
	}
	live := map[action.FileKey]*action.Add{}
	if c := segment.Checkpoint; c != nil {
		keys := make([]string, len(c.Parts))
		for i, p := range c.Parts {
			keys[i] = p.Key
		}
		adds, err := checkpoint.ReadFiles(ctx, t.store, keys...)
		if errors.Is(err, ErrCorrupt) { // there may be a way round it
			s, err := t.loadAt(ctx, listing, version)
			if err != nil {
				return nil, err
			}
			return s.Files(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("open checkpoint of version %d: %w", c.Version, err)
		}
		for _, a := range adds {
			live[a.Key()] = a
		}
	}
	for c, err := range segment.Read(ctx, t.store) {
		if err != nil {
			return nil, err
		}
		for _, r := range c.Removes {
			delete(live, r.Key())
		}
		for _, a := range c.Adds {
			live[a.Key()] = a
		}
	}
	return slices.Collect(maps.Values(live)), nil
}

// CommittedVersion is a readable version and what its commit says of itself.
type CommittedVersion struct {
	Version int64
	// Committed is as CommitTime's; Info is the commitInfo, nil where there is
	// none. Both are zero for a checkpoint whose commit file is gone.
	Committed time.Time
	Info      json.RawMessage
}

// History gives the readable versions, rising, reading some commits at a time.
// The sequence ends with the first error.
func (t *Table) History(ctx context.Context) iter.Seq2[CommittedVersion, error] {
	return func(yield func(CommittedVersion, error) bool) {
		listing, err := deltalog.List(ctx, t.store, 0)
		if err != nil {
			yield(CommittedVersion{}, err)
			return
		}
		versions := listing.Versions()
		times := commitTimes(listing.Commits)
		var commits []deltalog.Commit
		var at []time.Time
		for i, c := range listing.Commits {
			if _, readable := slices.BinarySearch(versions, c.Version); readable {
				commits, at = append(commits, c), append(at, times[i])
			}
		}
		i := 0
		for c, err := range deltalog.ReadCommits(ctx, t.store, commits) {
			if err != nil {
				yield(CommittedVersion{}, err)
				return
			}
			v := CommittedVersion{Version: commits[i].Version, Committed: at[i], Info: c.Info}
			if own := action.ParseInfo(c.Info).InCommitTimestamp; own != nil {
				v.Committed = time.UnixMilli(*own)
			}
			if !yield(v, nil) {
				return
			}
			i++
		}
		if len(versions) > len(commits) { // a lone checkpoint
			yield(CommittedVersion{Version: versions[len(versions)-1]}, nil)
		}
	}
}
