package ingest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/compact"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// joinByKey writes the live rows of small files as one, row by row, in a commit of its own
// that changes no data.
func (l *Lane) joinByKey(task compact.Task) error {
	l.writing = time.Now()
	tx := delta.NewTransaction(l.table, l.base)
	written, err := l.writer.Join(l.ctx, task.Files, l.base.Schema(), l.o.PartitionBy, l.mergedFacts(task.Files), tx)
	if err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	if committed, err := l.commitLayout(tx, task.Files, written); err != nil || !committed {
		return err
	}
	l.o.Log.Debug("joined small files", zap.String("table", l.o.Name), zap.Int("files", len(task.Files)), zap.Int64("rows", task.Rows-task.Dead),
		zap.Int64("bytes_read", task.Bytes), zap.Duration("took", time.Since(l.writing)))
	return nil
}

// mergedFacts gives the footer of a file of the rows of several.
func (l *Lane) mergedFacts(files []uint32) map[string]string {
	merged := facts{}
	for i, id := range files {
		if one := l.facts(id); i == 0 {
			merged = one
		} else {
			merged.merge(one)
		}
	}
	return merged.encode()
}

// commitLayout commits what moves rows and changes none. committed is false where another
// engine has moved rows at the same time, perhaps these: the policy decides anew.
func (l *Lane) commitLayout(tx *delta.Transaction, files []uint32, written *upsert.Written) (committed bool, err error) {
	l.p.Kind, l.p.Late, l.p.Seals = progress.Maintenance, nil, nil
	paths := make([]string, len(files))
	for i, id := range files {
		paths[i] = l.writer.Path(id)
	}
	l.carryRewritten(paths, written)
	switch err := l.commit(tx, "OPTIMIZE"); {
	case errors.Is(err, errConflict):
		return false, l.follow(err)
	case err != nil:
		return false, err
	}
	if err := l.applied(written); err != nil {
		return false, err
	}
	clear(l.segmentFacts)
	return true, nil
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
