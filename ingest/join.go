package ingest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// Small files are joined: every batch brings one, each file costs a line of
// the log in every commit that touches it, and a savepoint pins it for years.
// What a savepoint pins is left alone: joining it would store its rows twice.
const (
	smallFile     = 1 << 20
	smallFileRows = 100_000
	// joinAt small files of a partition are joined at once, joinAtSeal of them
	// before a seal pins them.
	joinAt     = 50
	joinAtSeal = 4
)

// joinSmall joins the small files that came since the last seal, in a commit
// of its own that changes no data, where there are at least so many.
func (l *Lane) joinSmall(atLeast int) error {
	if l.base == nil {
		return nil
	}
	byFolder := map[string][]upsert.FileInfo{}
	for _, f := range l.writer.Files() {
		if f.Size < smallFile && f.Rows < smallFileRows {
			byFolder[f.Folder] = append(byFolder[f.Folder], f)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		files := byFolder[folder]
		if len(files) < atLeast {
			continue
		}
		pinned, err := l.pinnedFiles()
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(f upsert.FileInfo) bool { return pinned[f.Path] })
		if len(files) < atLeast {
			continue
		}
		if err := l.join(files); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lane) join(files []upsert.FileInfo) error {
	ids := make([]uint32, len(files))
	merged := facts{}
	for i, f := range files {
		ids[i] = f.Segment
		if one := l.facts(f.Segment); i == 0 {
			merged = one
		} else {
			merged.merge(one)
		}
	}
	l.writing = time.Now()
	tx := delta.NewTransaction(l.table, l.base)
	written, err := l.writer.Join(l.ctx, ids, l.base.Schema(), l.o.PartitionBy, merged.encode(), tx)
	if err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	l.p.Kind, l.p.Late, l.p.Seals = progress.Maintenance, nil, nil
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = f.Path
	}
	l.carryRewritten(paths, written)
	switch err := l.commit(tx, "OPTIMIZE"); {
	case errors.Is(err, errConflict):
		// Another engine has moved rows at the same time, perhaps these: they are
		// joined another time.
		return l.follow(err)
	case err != nil:
		return err
	}
	if err := l.applied(written); err != nil {
		return err
	}
	clear(l.segmentFacts)
	l.o.Log.Debug("joined small files", zap.String("table", l.o.Name), zap.Int("files", len(files)))
	return nil
}

// merge takes in the facts of more rows.
func (f *facts) merge(other facts) {
	switch {
	case f.Line < 0 || other.Line != f.Line:
		*f = unknownFacts
	case other.High.Compare(f.High) > 0:
		f.High = other.High
	}
}

// pinnedFiles are the data files of the last seal, or where its savepoint was deleted of
// the one before.
func (l *Lane) pinnedFiles() (map[string]bool, error) {
	if l.pinned != nil {
		return l.pinned, nil
	}
	pinned := map[string]bool{}
	for _, p := range slices.Backward(savepoint.PinsOf(l.base)) {
		if p.Version > l.p.LastSeal {
			continue // under a name, or rolled back
		}
		s, err := l.table.SnapshotAt(l.ctx, p.Version)
		if errors.Is(err, delta.ErrVersionNotFound) {
			continue // it was deleted, and vacuumed, since
		}
		if err != nil {
			return nil, fmt.Errorf("table %s: open the savepoint %s: %w", l.o.Name, p.Names[0], err)
		}
		for _, add := range s.Files() {
			pinned[add.Path] = true
		}
		break
	}
	l.pinned = pinned
	return pinned, nil
}
