package maintain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// Tier moves what only old savepoints need to a cheaper storage class, in place: keys, bytes
// and the log stay as they are.
type Tier struct {
	// After is how long ago the label of every savepoint that needs a file must have ended.
	After time.Duration
	// Class is the storage's word for it, such as STANDARD_IA.
	Class string
}

// ErrClass: the storage has no such class, or none at all.
var ErrClass = errors.New("not a storage class to move files to")

// leastTiered is below what size a file stays where it is: storages charge for so much in
// their cheaper classes at least.
const leastTiered = 128 << 10

// mostTiered is above what size it stays: no storage copies a larger object by one request.
const mostTiered = 5 << 30

func (p *pass) tier(ctx context.Context) error {
	if p.Tier == nil {
		return nil
	}
	store, ok := p.table.Store().(objstore.Tierer)
	if !ok {
		return fmt.Errorf("%w: %s has none; leave retention.tier out", ErrClass, p.table.Store())
	}
	if !slices.Contains(store.Classes(), p.Tier.Class) {
		return fmt.Errorf("%w: %s; the storage of %s has %s", ErrClass, p.Tier.Class, store, strings.Join(store.Classes(), ", "))
	}
	s, m, err := p.newest(ctx)
	if err != nil {
		return err
	}
	old, err := oldObjects(ctx, p.table, s, m, p.Now.Add(-p.Tier.After), p.going)
	if err != nil {
		return err
	}
	var move []objstore.Classed
	var bytes, there int64
	for o, err := range store.ListClasses(ctx, "") {
		switch {
		case err != nil:
			return err
		case !old[o.Key]:
		case o.Class == p.Tier.Class:
			there += o.Size
		case o.Size >= leastTiered && o.Size <= mostTiered:
			move = append(move, o)
			bytes += o.Size
		}
	}
	moved := 0
	for _, o := range move {
		if p.DryRun {
			break
		}
		tell(p.Progress, "moving files to "+p.Tier.Class, moved, len(move))
		// A vacuum of another process may have taken it.
		if err = store.SetClass(ctx, o.Key, p.Tier.Class); err != nil && !errors.Is(err, objstore.ErrNotExist) {
			break
		}
		err = nil
		moved++
	}
	p.report.line("tier", "files", int64(len(move)), fmt.Sprintf("to %s: only savepoints older than %s need them", p.Tier.Class, p.Tier.After))
	p.report.line("tier", "bytes", bytes, "")
	p.report.line("tier", "bytes_there", there, "moved before")
	if len(move) > 0 {
		p.report.did("%smove %d files, %d bytes, to %s", p.would(), len(move), bytes, p.Tier.Class)
	}
	if err != nil {
		return fmt.Errorf("%d of %d files moved to %s: %w", moved, len(move), p.Tier.Class, err)
	}
	return nil
}

func tell(progress func(what string, done, total int), what string, done, total int) {
	if progress != nil {
		progress(what, done, total)
	}
}

// oldObjects gives the keys of what savepoints of labels that ended before a moment need, and
// neither a younger one, nor a named one, nor the newest version. Savepoints in going count
// as gone.
func oldObjects(ctx context.Context, table *delta.Table, s *delta.Snapshot, m *savepoint.Map, before time.Time, going []string) (map[string]bool, error) {
	isOld := map[int64]bool{}
	var versions []int64
	for _, pin := range savepoint.PinsOf(s) {
		names := slices.DeleteFunc(slices.Clone(pin.Names), func(name string) bool { return slices.Contains(going, name) })
		if len(names) == 0 {
			continue
		}
		versions = append(versions, pin.Version)
		isOld[pin.Version] = !slices.ContainsFunc(names, func(name string) bool {
			label, _, _ := strings.Cut(name, "@")
			l, err := m.Calendar.Parse(label)
			return err != nil || !endedBefore(m.Calendar, l, before)
		})
	}
	old, young := map[string]bool{}, map[string]bool{}
	note := func(into map[string]bool, files []*action.Add) error {
		for _, add := range files {
			key, err := action.Key(add.Path)
			if err != nil {
				return err
			}
			into[key] = true
			if add.DeletionVector == nil {
				continue
			}
			key, stored, err := delta.VectorKey(add.DeletionVector)
			if err != nil {
				return err
			}
			if stored {
				into[key] = true
			}
		}
		return nil
	}
	if err := note(young, s.Files()); err != nil {
		return nil, err
	}
	err := table.EachFileSet(ctx, versions, func(version int64, files []*action.Add, err error) error {
		if err != nil {
			return fmt.Errorf("the savepoint at version %d can't be read, `gscd check` says more: %w", version, err)
		}
		if isOld[version] {
			return note(old, files)
		}
		return note(young, files)
	})
	for key := range young {
		delete(old, key)
	}
	return old, err
}

func endedBefore(calendar *snapshotter.Calendar, l snapshotter.Label, at time.Time) bool {
	return time.UnixMicro(calendar.End(l)).Before(at)
}
