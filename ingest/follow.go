package ingest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// errConflict: the version that a commit was to become is taken. It is an
// errReload, unless follow finds that nothing has changed but where rows lie.
var errConflict = fmt.Errorf("%w: a commit came first", errReload)

// ErrContended: others commit so often that no commit of gscd's gets through.
var ErrContended = errors.New("every commit meets one of another writer")

const (
	// conflictsInARow is how many commits in a row may meet another's.
	conflictsInARow = 30
	shortestBackOff = 5 * time.Millisecond
	longestBackOff  = 3 * time.Second
)

// backOff waits after a conflict, the longer the more came in a row.
func (l *Lane) backOff() error {
	if l.conflicts == 0 {
		return nil
	}
	if l.conflicts > conflictsInARow {
		return fmt.Errorf("table %s: %w: %d in a row; let the other writer commit less often, or stop it", l.o.Name, ErrContended, conflictsInARow)
	}
	wait := min(longestBackOff, shortestBackOff<<min(l.conflicts-1, 20))
	wait = wait/2 + rand.N(wait/2+1)
	select {
	case <-time.After(wait):
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// follow takes up the newest version of the table where all that came between
// leaves rows, columns and gscd's own state alone, as OPTIMIZE and comments do: the
// key index goes along with the rows that moved, and the batch stays. cause is the
// conflict; it comes back where the table must be loaded anew.
func (l *Lane) follow(cause error) error {
	l.conflicts++
	l.conflictsMet++
	if err := l.backOff(); err != nil {
		return err
	}
	// Rows that nobody has named can't be followed; a load of a slice has no index to follow with.
	killed := func(b *batch) bool { return len(b.killed) > 0 }
	if l.base == nil || l.writer == nil || slices.ContainsFunc(l.batches(), killed) {
		return cause
	}
	newer, err := l.table.Update(l.ctx, l.base)
	if err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	list, err := l.readForeign(l.base.Version()+1, newer.Version(), l.base)
	if err != nil {
		return fmt.Errorf("table %s: read what others have committed: %w", l.o.Name, err)
	}
	if len(list) == 0 || !l.onlyMoves(list, newer) {
		return cause
	}
	places := l.keysOfRefs()
	rows := l.writer.Index().Len()
	err = l.writer.Follow(l.ctx, newer)
	moved := err == nil && l.writer.Index().Len() == rows && l.moveRefs(places)
	if !moved {
		l.writer = nil // half moved
		if err != nil && l.ctx.Err() != nil {
			return err
		}
		return cause // loading it anew tells what is wrong
	}
	l.base = newer
	clear(l.segmentFacts)
	l.pinned = nil
	txn, _ := newer.Txn(progress.AppID)
	l.noteRewritten(list, txn.Version)
	l.o.Log.Info("others have committed, and changed no row; the batch goes on", zap.String("table", l.o.Name),
		zap.Int64("version", newer.Version()), zap.String("operation", list[len(list)-1].Operation))
	return nil
}

// lookForNewer takes up what others have committed while there was nothing to commit,
// once every askAgain: a rollback is to be read again, and a process that has lost the
// table is to end, though no record comes.
func (l *Lane) lookForNewer() error {
	if l.o.UntilEnd || l.base == nil || l.batch.dirty || l.batch.records > 0 || time.Since(l.lookedAt) < askAgain {
		return nil
	}
	l.lookedAt = time.Now()
	newer, err := l.table.Update(l.ctx, l.base)
	if err != nil || newer.Version() == l.base.Version() {
		return nil // what fails here fails at the next commit too
	}
	return l.takeUp()
}

// takeUp follows commits that are known to be there, where none of gscd's has met them.
func (l *Lane) takeUp() error {
	conflicts := l.conflicts
	err := l.follow(errConflict)
	l.conflicts = conflicts
	return err
}

// onlyMoves reports that commits of others leave alone what the batch rests on:
// offsets, rows, columns, and what gscd keeps with the table.
func (l *Lane) onlyMoves(list []foreignCommit, newer *delta.Snapshot) bool {
	for _, f := range list {
		if f.kind > layoutOnly {
			return false // commits by hand that change the progress are told by it, below
		}
	}
	then, _ := l.base.Txn(progress.AppID)
	now, ok := newer.Txn(progress.AppID)
	if !ok || now.Version != then.Version || newer.Metadata().SchemaString != l.base.Metadata().SchemaString {
		return false
	}
	if _, err := savepoint.SettingsOf(newer); err != nil || checkWriteMode(newer, l.o.CopyOnWrite) != nil {
		return false
	}
	if _, set := newer.Property(delta.PropertyTxnRetention); set {
		return false
	}
	return len(savepoint.Weakened(newer)) == 0 || l.o.SavepointDays < savepoint.ProtectedDays
}

// keysOfRefs gives the keys of the rows of the table that the batches refer to.
func (l *Lane) keysOfRefs() map[upsert.Ref]string {
	places := map[upsert.Ref]string{}
	for _, b := range l.batches() {
		for i := range b.entries {
			if e := &b.entries[i]; e.old != 0 {
				places[e.old] = e.key
			}
		}
	}
	return places
}

// moveRefs points the batches at where their rows lie now. Nothing is being stored of
// the one in flight.
func (l *Lane) moveRefs(places map[upsert.Ref]string) bool {
	index := l.writer.Index()
	for _, b := range l.batches() {
		for i := range b.entries {
			e := &b.entries[i]
			for _, ref := range [...]*upsert.Ref{&e.old, &e.base} {
				if _, pending := ref.Pending(); *ref == 0 || pending {
					continue
				}
				key, ok := places[*ref]
				if !ok {
					return false
				}
				if *ref = index.Get(key); *ref == 0 {
					return false
				}
			}
		}
	}
	return true
}
