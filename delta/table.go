package delta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/checkpoint"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
)

// Table is a Delta table at the root of a store. It holds no state of the
// table and may be used from many goroutines.
type Table struct {
	store       objstore.Store
	now         func() time.Time
	engine      string
	implemented []string
}

// Option changes what New and Open make.
type Option func(*Table)

// WithClock replaces the system clock, for tests and replays.
func WithClock(now func() time.Time) Option { return func(t *Table) { t.now = now } }

// WithEngineInfo names the writer in commitInfo: "gscd/1.2.0".
func WithEngineInfo(name string) Option { return func(t *Table) { t.engine = name } }

// WithWriterFeatures names writer features that the caller implements itself,
// so that tables listing them may be written.
func WithWriterFeatures(names ...string) Option {
	return func(t *Table) { t.implemented = append(t.implemented, names...) }
}

// New is a table that may not exist yet; a Transaction without base creates it.
func New(store objstore.Store, options ...Option) *Table {
	t := &Table{store: store, now: time.Now, engine: "gscd/dev"}
	for _, o := range options {
		o(t)
	}
	return t
}

// Open is New for a table that must exist. The error wraps ErrNotATable where
// there is no log.
func Open(ctx context.Context, store objstore.Store, options ...Option) (*Table, error) {
	for object, err := range store.List(ctx, deltalog.Dir, "") {
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", store, err)
		}
		switch deltalog.ParseName(object.Key[len(deltalog.Dir):]).Kind {
		case deltalog.CommitFile, deltalog.ClassicCheckpoint, deltalog.CheckpointPart, deltalog.UUIDCheckpoint:
			return New(store, options...), nil
		}
	}
	return nil, fmt.Errorf("open: %w: %s", ErrNotATable, store)
}

// Store gives the store under the table.
func (t *Table) Store() objstore.Store { return t.store }

// Now is the table's clock.
func (t *Table) Now() time.Time { return t.now() }

// reloads is how often a read starts anew when a file it had listed is gone:
// a log cleanup ran at the same time.
const reloads = 3

// Snapshot reads the newest version. The error wraps ErrNotATable,
// ErrUnsupportedFeature or ErrCorrupt.
func (t *Table) Snapshot(ctx context.Context) (*Snapshot, error) {
	var err error
	for range reloads {
		confirmed := t.now()
		var segment *deltalog.Segment
		var listing *deltalog.Listing
		if segment, listing, err = deltalog.Find(ctx, t.store); err != nil {
			return nil, fmt.Errorf("open %s: %w", t.store, err)
		}
		var s *Snapshot
		if s, err = t.load(ctx, listing, segment, confirmed); err == nil {
			return s, nil
		}
		if !errors.Is(err, objstore.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("open %s: %w", t.store, err)
}

// SnapshotAt reads one version. The error is a *VersionNotFoundError where that
// version is not readable, else as Snapshot's.
func (t *Table) SnapshotAt(ctx context.Context, version int64) (*Snapshot, error) {
	var err error
	for range reloads {
		var listing *deltalog.Listing
		if listing, err = deltalog.List(ctx, t.store, 0); err != nil {
			return nil, err
		}
		if _, ok := listing.Newest(); !ok {
			return nil, fmt.Errorf("open %s: %w", t.store, ErrNotATable)
		}
		var s *Snapshot
		if s, err = t.loadAt(ctx, listing, version); err == nil {
			return s, nil
		}
		if !errors.Is(err, objstore.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("open %s: %w", t.store, err)
}

func (t *Table) loadAt(ctx context.Context, listing *deltalog.Listing, version int64) (*Snapshot, error) {
	segment, err := listing.Segment(version)
	if err != nil {
		return nil, err
	}
	return t.load(ctx, listing, segment, time.Time{})
}

// load reads a segment. A damaged checkpoint is gone round by another one, or
// by the commits, where they are still there.
func (t *Table) load(ctx context.Context, l *deltalog.Listing, s *deltalog.Segment, confirmed time.Time) (*Snapshot, error) {
	r := newReplay(nil)
	if s.Checkpoint != nil {
		state, err := t.readCheckpoint(ctx, s.Checkpoint)
		if errors.Is(err, ErrCorrupt) {
			return t.loadBelow(ctx, l, s, confirmed, err)
		}
		if err != nil {
			return nil, err
		}
		r.apply(state)
	}
	for c, err := range s.Read(ctx, t.store) {
		if err != nil {
			return nil, err
		}
		r.apply(c)
	}
	return r.snapshot(s.Version, confirmed)
}

func (t *Table) loadBelow(ctx context.Context, l *deltalog.Listing, s *deltalog.Segment, confirmed time.Time, damage error) (*Snapshot, error) {
	other, err := l.SegmentWithout(s)
	if err != nil && l.From > 0 { // what is needed may lie below what was listed
		if l, err = deltalog.List(ctx, t.store, 0); err != nil {
			return nil, err
		}
		other, err = l.SegmentWithout(s)
	}
	if err != nil {
		return nil, damage
	}
	return t.load(ctx, l, other, confirmed)
}

func (t *Table) readCheckpoint(ctx context.Context, c *deltalog.Checkpoint) (*action.Commit, error) {
	keys := make([]string, len(c.Parts))
	for i, p := range c.Parts {
		keys[i] = p.Key
	}
	state, err := checkpoint.Read(ctx, t.store, keys...)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint of version %d: %w", c.Version, err)
	}
	return state, nil
}

// trusted is how long a snapshot is believed to be the newest one unless its
// successor's commit file is there. After that the log could have been cleaned
// past it, which only a listing shows. CleanLog never touches what is younger
// than minCleanAge.
const trusted = 10 * time.Minute

// Update reads the commits after prev and gives the newest version, prev itself
// if there are none. It costs one read where nothing is new.
func (t *Table) Update(ctx context.Context, prev *Snapshot) (*Snapshot, error) {
	confirmed := t.now()
	first, err := deltalog.ReadCommit(ctx, t.store, prev.version+1)
	if errors.Is(err, objstore.ErrNotExist) {
		if confirmed.Sub(prev.confirmed) < trusted {
			return prev, nil
		}
		return t.updateByListing(ctx, prev, confirmed)
	}
	if err != nil {
		return nil, fmt.Errorf("update %s: %w", t.store, err)
	}
	listing, err := deltalog.List(ctx, t.store, prev.version+2)
	if err != nil {
		return nil, err
	}
	commits := contiguous(listing.Commits, prev.version+2)
	if len(commits) < len(listing.Commits) {
		return t.Snapshot(ctx) // a hole: cleaned past, or damaged; Snapshot tells
	}
	r := newReplay(prev)
	r.apply(first)
	r.note(prev.version+1, first)
	version := prev.version + 1
	for c, err := range deltalog.ReadCommits(ctx, t.store, commits) {
		if errors.Is(err, objstore.ErrNotExist) {
			return t.Snapshot(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("update %s: %w", t.store, err)
		}
		version++
		r.apply(c)
		r.note(version, c)
	}
	s, err := r.snapshot(version, confirmed)
	if err != nil {
		return nil, fmt.Errorf("update %s: %w", t.store, err)
	}
	return s, nil
}

func (t *Table) updateByListing(ctx context.Context, prev *Snapshot, confirmed time.Time) (*Snapshot, error) {
	listing, err := deltalog.List(ctx, t.store, prev.version)
	if err != nil {
		return nil, err
	}
	if newest, ok := listing.Newest(); !ok || newest != prev.version {
		return t.Snapshot(ctx)
	}
	return prev.confirmedAt(confirmed), nil
}

// confirmedAt is the snapshot, known to be the newest at another time.
func (s *Snapshot) confirmedAt(at time.Time) *Snapshot {
	return &Snapshot{
		version: s.version, protocol: s.protocol, metadata: s.metadata, schema: s.schema,
		files: s.files, numFiles: s.numFiles, nextSeq: s.nextSeq, txns: s.txns, domains: s.domains,
		removed: s.removed, recent: s.recent, confirmed: at,
	}
}

// contiguous cuts commits to those that follow each other from version on.
func contiguous(commits []deltalog.Commit, version int64) []deltalog.Commit {
	for i, c := range commits {
		if c.Version != version+int64(i) {
			return commits[:i]
		}
	}
	return commits
}

// Versions gives the readable versions, rising.
func (t *Table) Versions(ctx context.Context) ([]int64, error) {
	listing, err := deltalog.List(ctx, t.store, 0)
	if err != nil {
		return nil, err
	}
	if _, ok := listing.Newest(); !ok {
		return nil, fmt.Errorf("versions of %s: %w", t.store, ErrNotATable)
	}
	return listing.Versions(), nil
}

// Commit reads the actions of one version's commit file, which may be there
// though the version is not readable any more. The error is a
// *VersionNotFoundError where it is not there.
func (t *Table) Commit(ctx context.Context, version int64) (*action.Commit, error) {
	c, err := deltalog.ReadCommit(ctx, t.store, version)
	if errors.Is(err, objstore.ErrNotExist) {
		available, listErr := t.Versions(ctx)
		if listErr != nil {
			return nil, listErr
		}
		return nil, &VersionNotFoundError{Version: version, Available: available}
	}
	return c, err
}

// CommitInfo gives the commitInfo object of a version as it stands in its
// commit file, nil where that has none. Errors as Commit's.
func (t *Table) CommitInfo(ctx context.Context, version int64) (json.RawMessage, error) {
	c, err := t.Commit(ctx, version)
	if err != nil {
		return nil, err
	}
	if c.Info != nil && !json.Valid(c.Info) {
		return nil, fmt.Errorf("%w: %s: commitInfo is no JSON", ErrCorrupt, deltalog.CommitKey(version))
	}
	return c.Info, nil
}

// CommitTime says when a version was committed: its in-commit timestamp, else
// the time of its commit file, at least 1 ms after that of the version before.
// The error is a *VersionNotFoundError where the commit file is not there.
func (t *Table) CommitTime(ctx context.Context, version int64) (time.Time, error) {
	info, err := t.CommitInfo(ctx, version)
	if err != nil {
		return time.Time{}, err
	}
	if at := action.ParseInfo(info).InCommitTimestamp; at != nil {
		return time.UnixMilli(*at), nil
	}
	listing, err := deltalog.List(ctx, t.store, 0)
	if err != nil {
		return time.Time{}, err
	}
	for i, at := range commitTimes(listing.Commits) {
		if listing.Commits[i].Version == version {
			return at, nil
		}
	}
	return time.Time{}, &VersionNotFoundError{Version: version, Available: listing.Versions()}
}

// commitTimes gives the times of commit files, made strictly rising.
func commitTimes(commits []deltalog.Commit) []time.Time {
	times := make([]time.Time, len(commits))
	for i, c := range commits {
		times[i] = c.Modified.Truncate(time.Millisecond)
		if i > 0 && !times[i].After(times[i-1]) {
			times[i] = times[i-1].Add(time.Millisecond)
		}
	}
	return times
}
