package savepoint

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/progress"
)

// ErrName is wrapped by errors about names that no savepoint may have.
var ErrName = errors.New("not a name for a savepoint")

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,99}$`)

// maxDeleted bounds the deleted savepoints that the progress remembers.
const maxDeleted = 1000

// CreateNamed pins a version under a name. A name must not read as a label.
func CreateNamed(ctx context.Context, table *delta.Table, name string, version int64) (int64, error) {
	if !nameForm.MatchString(name) {
		return 0, fmt.Errorf("%w: %q: a letter, then letters, digits, dots, dashes or underscores, 100 at most, so that it does not read as a label", ErrName, name)
	}
	return edit(ctx, table, "create savepoint "+name, nil, func(s *delta.Snapshot, m *Map, tx *delta.Transaction, p *progress.Progress) error {
		if _, err := m.Calendar.Parse(name); err == nil {
			return fmt.Errorf("%w: %q is a label of this table's calendar", ErrName, name)
		}
		at := version
		if at < 0 {
			at = s.Version()
		}
		pinned, err := table.SnapshotAt(ctx, at)
		if err != nil {
			return fmt.Errorf("pin version %d: %w", at, err)
		}
		if err := present(ctx, table.Store(), pinned.Files(), nil); err != nil {
			return fmt.Errorf("pin version %d: %w; a vacuum has removed it", at, err)
		}
		for _, n := range m.Named {
			if n.Name == name && n.Version != at {
				return fmt.Errorf("%w: %q pins version %d already; delete it first", ErrName, name, n.Version)
			}
		}
		tx.SetTxn(NamedAppID(name), at)
		return nil
	})
}

// Delete unpins a label, a kept rolled-back savepoint or a named one. Its files go with
// the next vacuum, not now.
func Delete(ctx context.Context, table *delta.Table, name string, now time.Time) (int64, error) {
	return edit(ctx, table, "delete savepoint "+name, nil, func(_ *delta.Snapshot, m *Map, tx *delta.Transaction, p *progress.Progress) error {
		for _, n := range m.Named {
			if n.Name == name {
				tx.SetTxn(NamedAppID(name), gone(n.Version))
				return nil
			}
		}
		for _, e := range m.Entries {
			if e.Kept && e.Name == name {
				tx.SetTxn(keptAppID(m.Calendar.Name(e.Label), e.Version), gone(e.Version))
				return nil
			}
		}
		r, err := m.Resolve(name, true)
		if err != nil {
			return err
		}
		tx.SetTxn(SealAppID(r.Entry.Name), gone(r.Entry.Version))
		p.NoteDeleted(progress.Deleted{Label: r.Entry.Label, Version: r.Entry.Version, At: now.UTC().Format(time.RFC3339)}, maxDeleted)
		return nil
	})
}

// editAttempts is how often a commit of a person's is tried beside an ingester.
const editAttempts = 20

// NoteUnseen keeps in the progress of a commit by hand on s what no ingester has
// looked at: commits of other programs since gscd's last one.
func NoteUnseen(s *delta.Snapshot, p *progress.Progress) {
	if txn, ok := s.Txn(progress.AppID); ok && p.FirstUnseen == 0 && txn.Version < s.Version() {
		p.FirstUnseen = txn.Version + 1
	}
}

// edit makes a commit that changes the map or the progress alone, on whatever
// version is the newest. parameters are those of the commitInfo, which change may still
// fill; nil says what is done.
func edit(ctx context.Context, table *delta.Table, what string, parameters map[string]string, change func(*delta.Snapshot, *Map, *delta.Transaction, *progress.Progress) error) (int64, error) {
	if parameters == nil {
		parameters = map[string]string{"action": what}
	}
	for range editAttempts {
		s, err := table.Snapshot(ctx)
		if err != nil {
			return 0, err
		}
		m, err := Read(ctx, table, s)
		if err != nil {
			return 0, err
		}
		tx := delta.NewTransaction(table, s)
		p := m.Progress.Clone()
		p.Kind, p.Late, p.Seals = progress.Maintenance, nil, nil
		NoteUnseen(s, p)
		if err := change(s, m, tx, p); err != nil {
			return 0, err
		}
		version, conflict, err := Commit(ctx, tx, p, "SAVEPOINT", parameters)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
		if conflict == nil {
			return version, nil
		}
	}
	return 0, fmt.Errorf("%s: %d attempts met other commits; try again", what, editAttempts)
}
