package delta

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
)

// The kinds of what Vacuum removes; a VacuumPrefix adds its own.
const (
	KindData           = "data"
	KindDeletionVector = "deletion_vector"
	KindChangeData     = "change_data"
)

// VacuumPrefix is a folder of the caller's that Vacuum cleans too.
type VacuumPrefix struct {
	// Prefix ends in "/" and is no folder of Delta's: "_delta_log/_gscd/held/".
	Prefix string
	// Kind names its objects in the report.
	Kind string
	// Keep says that an object is in use. Objects younger than Grace stay anyway.
	Keep func(key string) bool
}

// VacuumOptions say what Vacuum keeps.
type VacuumOptions struct {
	// Keep are the pinned snapshots.
	Keep []*Snapshot
	// KeepVersionsSince keeps what every version refers to that was the newest at
	// this time or later; the zero time keeps what Grace keeps.
	KeepVersionsSince time.Time
	// Grace is the age, by the store's time, below which an object stays: a
	// commit that refers to it may be on its way. Versions that were the newest
	// within Grace are kept whole. Default 1 h.
	Grace time.Duration
	// Now is the time ages are counted from; the zero time is the table's clock.
	Now    time.Time
	DryRun bool
	// ExtraKeep keeps further objects by key; nil keeps none.
	ExtraKeep func(key string) bool
	// Prefixes are folders of the caller's to clean too.
	Prefixes []VacuumPrefix
	// ByLog looks only at what the log says was removed, instead of listing the whole
	// table: much faster on an object store with many files. What no commit names (left
	// by interrupted writers), or only commits that are gone, stays.
	ByLog bool
}

// Garbage is an object that was removed.
type Garbage struct {
	Key, Kind string
	Size      int64
}

// Total sums up a kind.
type Total struct{ Files, Bytes int64 }

// VacuumReport says what Vacuum removed, or in a dry run would remove.
type VacuumReport struct {
	// Deleted is in order of keys.
	Deleted []Garbage
	ByKind  map[string]Total
	// Kept counts the objects that were looked at and stayed.
	Kept int

	started time.Time
	there   map[string]bool // objects that exist after the run
	live    map[string]bool // objects that the newest version refers to
}

// Obsolete reports whether a tombstone protects nothing any more: each object
// that it refers to is gone, or the newest version refers to it too. It is meant
// as CheckpointOptions.Drop, and says false of what was removed after the run
// began. After a dry run it tells of the state as it is.
func (r *VacuumReport) Obsolete(t *action.Remove) bool {
	if t.DeletionTimestamp >= r.started.UnixMilli() {
		return false
	}
	keys, err := keysOf(t.Path, t.DeletionVector)
	if err != nil {
		return false
	}
	for _, key := range keys {
		if r.there[key] && !r.live[key] {
			return false
		}
	}
	return true
}

// Vacuum removes the data files, deletion vectors and change data that no kept
// version refers to. A table with a path outside of its root is refused
// (ErrAbsolutePath, ErrPathEscapes): what such a path means can't be told here.
// After an error the report tells what was removed.
func Vacuum(ctx context.Context, t *Table, options VacuumOptions) (*VacuumReport, error) {
	report, err := vacuum(ctx, t, options)
	if err != nil {
		err = fmt.Errorf("vacuum %s: %w", t.store, err)
	}
	return report, err
}

func vacuum(ctx context.Context, t *Table, options VacuumOptions) (*VacuumReport, error) {
	if options.Now.IsZero() {
		options.Now = t.now()
	}
	if options.Grace <= 0 {
		options.Grace = minCleanAge
	}
	report := &VacuumReport{ByKind: map[string]Total{}, started: options.Now, there: map[string]bool{}, live: map[string]bool{}}
	for _, p := range options.Prefixes {
		if err := p.check(); err != nil {
			return report, err
		}
	}
	newest, err := t.Snapshot(ctx)
	if err != nil {
		return report, err
	}
	if err := t.checkMaintainable(newest); err != nil {
		return report, err
	}
	if err := refer(report.live, newest.Files()); err != nil {
		return report, err
	}
	kept, err := t.references(ctx, options)
	if err != nil {
		return report, err
	}
	for key := range report.live {
		kept[key] = true
	}
	garbage, err := t.garbage(ctx, newest, kept, report, options)
	if err != nil {
		return report, err
	}
	if options.DryRun {
		for _, g := range garbage {
			report.count(g)
		}
		return report, nil
	}
	return report, t.remove(ctx, garbage, report)
}

func (p *VacuumPrefix) check() error {
	inLog, ok := strings.CutPrefix(p.Prefix, deltalog.Dir)
	if !ok || !strings.HasSuffix(inLog, "/") || !strings.HasPrefix(inLog, "_") || strings.HasPrefix(inLog, "_staged_commits/") || strings.HasPrefix(inLog, "_sidecars/") {
		return fmt.Errorf("prefix %q is no folder of the caller's below %s", p.Prefix, deltalog.Dir)
	}
	return nil
}

func (r *VacuumReport) count(g Garbage) {
	r.Deleted = append(r.Deleted, g)
	total := r.ByKind[g.Kind]
	r.ByKind[g.Kind] = Total{total.Files + 1, total.Bytes + g.Size}
}

func refer(keys map[string]bool, adds []*action.Add) error {
	for _, a := range adds {
		list, err := keysOf(a.Path, a.DeletionVector)
		if err != nil {
			return err
		}
		for _, key := range list {
			keys[key] = true
		}
	}
	return nil
}

// references gathers the keys that the pinned snapshots and the versions of the
// history window refer to. A file that was removed inside the window is in the
// version before its removal, so its age counts from there.
func (t *Table) references(ctx context.Context, options VacuumOptions) (map[string]bool, error) {
	keys := make(map[string]bool)
	for _, s := range options.Keep {
		if err := refer(keys, s.Files()); err != nil {
			return nil, fmt.Errorf("version %d: %w", s.version, err)
		}
	}
	listing, err := deltalog.List(ctx, t.store, 0)
	if err != nil {
		return nil, err
	}
	first := oldestKept(listing.Commits, cutoff(options.KeepVersionsSince, options.Now.Add(-options.Grace)))
	versions := listing.Versions()
	for i, version := range versions {
		if version < first {
			continue
		}
		// The first of a run is read whole, of those after it what they add.
		if i == 0 || versions[i-1] != version-1 || versions[i-1] < first {
			s, err := t.loadAt(ctx, listing, version)
			if err != nil {
				return nil, err
			}
			if err := refer(keys, s.Files()); err != nil {
				return nil, fmt.Errorf("version %d: %w", version, err)
			}
		}
	}
	var commits []deltalog.Commit
	for _, c := range listing.Commits {
		if c.Version >= first {
			commits = append(commits, c)
		}
	}
	for c, err := range deltalog.ReadCommits(ctx, t.store, commits) {
		if err != nil {
			return nil, err
		}
		if err := refer(keys, c.Adds); err != nil {
			return nil, err
		}
		for _, f := range c.CDC {
			list, err := keysOf(f.Path, nil)
			if err != nil {
				return nil, err
			}
			keys[list[0]] = true
		}
	}
	return keys, nil
}

// garbage looks at the objects that there are and picks what may go.
func (t *Table) garbage(ctx context.Context, newest *Snapshot, kept map[string]bool, report *VacuumReport, options VacuumOptions) ([]Garbage, error) {
	var candidates []objstore.Object
	var nested []string // folders below the root that are tables of their own
	objects := t.store.List(ctx, "", "")
	if options.ByLog {
		objects = t.removedObjects(ctx, newest, options.Prefixes)
	}
	for object, err := range objects {
		if err != nil {
			return nil, err
		}
		if i := strings.Index(object.Key, "/"+deltalog.Dir); i >= 0 {
			if folder := object.Key[:i+1]; len(nested) == 0 || nested[len(nested)-1] != folder {
				nested = append(nested, folder)
			}
			continue
		}
		report.there[object.Key] = true
		candidates = append(candidates, object)
	}
	oldest := options.Now.Add(-options.Grace)
	var list []Garbage
	for _, object := range candidates {
		kind, mayGo := kindOf(object.Key, options.Prefixes)
		if kind == "" {
			continue
		}
		if !mayGo || kept[object.Key] || !object.Modified.Before(oldest) || under(object.Key, nested) ||
			options.ExtraKeep != nil && options.ExtraKeep(object.Key) {
			report.Kept++
			continue
		}
		list = append(list, Garbage{object.Key, kind, object.Size})
	}
	return list, nil
}

// removedObjects gives what is still there of what tombstones and commits name as
// removed, and the caller's folders.
func (t *Table) removedObjects(ctx context.Context, newest *Snapshot, prefixes []VacuumPrefix) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		keys, err := t.removedKeys(ctx, newest)
		if err != nil {
			yield(objstore.Object{}, err)
			return
		}
		found := make([]objstore.Object, len(keys))
		errs := make([]error, len(keys))
		slots := make(chan struct{}, deleters)
		var running sync.WaitGroup
		for i, key := range keys {
			slots <- struct{}{}
			running.Go(func() {
				found[i], errs[i] = t.store.Head(ctx, key)
				<-slots
			})
		}
		running.Wait()
		for i, object := range found {
			if errors.Is(errs[i], objstore.ErrNotExist) {
				continue
			}
			if !yield(object, errs[i]) || errs[i] != nil {
				return
			}
		}
		for _, p := range prefixes {
			for object, err := range t.store.List(ctx, p.Prefix, "") {
				if !yield(object, err) || err != nil {
					return
				}
			}
		}
	}
}

// removedKeys are the keys of all that the log names as removed, in order.
func (t *Table) removedKeys(ctx context.Context, newest *Snapshot) ([]string, error) {
	named := map[string]bool{}
	note := func(path string, d *action.DeletionVector) error {
		keys, err := keysOf(path, d)
		for _, key := range keys {
			named[key] = true
		}
		return err
	}
	for _, r := range newest.Tombstones() {
		if err := note(r.Path, r.DeletionVector); err != nil {
			return nil, err
		}
	}
	listing, err := deltalog.List(ctx, t.store, 0)
	if err != nil {
		return nil, err
	}
	for c, err := range deltalog.ReadCommits(ctx, t.store, listing.Commits) {
		if err != nil {
			return nil, err
		}
		for _, r := range c.Removes {
			if err := note(r.Path, r.DeletionVector); err != nil {
				return nil, err
			}
		}
		for _, f := range c.CDC {
			if err := note(f.Path, nil); err != nil {
				return nil, err
			}
		}
	}
	return slices.Sorted(maps.Keys(named)), nil
}

func under(key string, folders []string) bool {
	for _, f := range folders {
		if strings.HasPrefix(key, f) {
			return true
		}
	}
	return false
}

// kindOf says what an object is; "" for what Vacuum does not look at. mayGo is
// false for an object that its prefix keeps.
func kindOf(key string, prefixes []VacuumPrefix) (kind string, mayGo bool) {
	for _, p := range prefixes {
		if strings.HasPrefix(key, p.Prefix) {
			return p.Kind, p.Keep == nil || !p.Keep(key)
		}
	}
	folders, name := path.Split(key)
	if strings.HasPrefix(key, "_change_data/") {
		if strings.HasSuffix(name, ".parquet") {
			return KindChangeData, true
		}
		return "", false
	}
	// Other tools keep things under hidden names; a partition folder may begin
	// with them though ("_p=1/").
	for part := range strings.SplitSeq(strings.TrimSuffix(folders, "/"), "/") {
		if hidden(part) && !strings.Contains(part, "=") {
			return "", false
		}
	}
	switch {
	case hidden(name):
		return "", false
	case strings.HasPrefix(name, "deletion_vector_") && strings.HasSuffix(name, ".bin"):
		return KindDeletionVector, true
	case strings.HasSuffix(name, ".parquet"):
		return KindData, true
	}
	return "", false
}

func hidden(name string) bool { return strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") }

// deleters is how many deletions run at a time.
const deleters = 8

// remove deletes side by side. The report lists what is gone, in order of keys,
// also where a deletion failed.
func (t *Table) remove(ctx context.Context, garbage []Garbage, report *VacuumReport) error {
	gone := make([]bool, len(garbage))
	err := objstore.InParallel(ctx, len(garbage), deleters, func(ctx context.Context, i int) error {
		err := t.store.Delete(ctx, garbage[i].Key)
		gone[i] = err == nil
		return err
	})
	for i, g := range garbage {
		if gone[i] {
			report.count(g)
			delete(report.there, g.Key)
		}
	}
	return err
}
