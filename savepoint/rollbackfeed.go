package savepoint

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// RowChange is a row of two versions, by the columns of the second; nil where a version
// does not have it.
type RowChange struct{ Old, New []schema.Value }

// Differ gives the rows that differ between two versions of a table: one entry a key, or,
// with no key, each row that only one version has. The error, which comes last, wraps
// ErrRepeatedKey where a key is live twice.
type Differ func(ctx context.Context, store objstore.Store, from, to *delta.Snapshot, key []string) iter.Seq2[RowChange, error]

// ErrRepeatedKey: a version has several rows of a key.
var ErrRepeatedKey = errors.New("a key is live twice")

// changeMemory bounds the change data of a rollback that is held, in bytes.
const changeMemory = 64 << 20

// changeFiles writes what a rollback changes as change data: what readers make of the
// files that come and go would have each row that a join or OPTIMIZE has moved since.
func changeFiles(ctx context.Context, store objstore.Store, now, target *delta.Snapshot, differ Differ) ([]*action.CDC, error) {
	var key []string
	settings, err := SettingsOf(now)
	if err != nil {
		return nil, err
	}
	for _, name := range settings.Key {
		if now.Schema().Index(name) < 0 || target.Schema().Index(name) < 0 {
			key = nil // of hidden columns, or younger than the target: whole rows then
			break
		}
		key = append(key, name)
	}
	files, err := writeChanges(ctx, store, now, target, key, differ)
	if errors.Is(err, ErrRepeatedKey) { // another engine's doing, which the rollback may be to undo
		files, err = writeChanges(ctx, store, now, target, nil, differ)
	}
	return files, err
}

func writeChanges(ctx context.Context, store objstore.Store, now, target *delta.Snapshot, key []string, differ Differ) ([]*action.CDC, error) {
	files, err := write.NewChangeFiles(ctx, store, target.Schema(), target.Metadata(), changeMemory)
	if err != nil {
		return nil, err
	}
	take := func(c RowChange) error {
		switch {
		case c.New == nil:
			return files.Write(scan.Delete, c.Old)
		case c.Old == nil:
			return files.Write(scan.Insert, c.New)
		}
		if err := files.Write(scan.UpdatePreimage, c.Old); err != nil {
			return err
		}
		return files.Write(scan.UpdatePostimage, c.New)
	}
	for c, err := range differ(ctx, store, now, target, key) {
		if err == nil {
			err = take(c)
		}
		if err != nil {
			files.Abandon()
			return nil, fmt.Errorf("change data: %w", err)
		}
	}
	return files.Close()
}

// feedRollback puts the change data of a rollback into its transaction, which has the adds
// and removes. Where rows that go can't be read there is none, and the plan says so: a
// rollback is what repairs them.
func feedRollback(ctx context.Context, tx *delta.Transaction, store objstore.Store, now, target *delta.Snapshot, adds []*action.Add, removes []*action.Remove, o RollbackOptions, plan *Plan) error {
	if on, _ := now.Property(delta.PropertyChangeDataFeed); on != "true" || o.Differ == nil {
		return nil
	}
	files, err := changeFiles(ctx, store, now, target, o.Differ)
	switch {
	case err == nil:
	case errors.Is(err, scan.ErrFileMissing), errors.Is(err, scan.ErrFileMismatch):
		plan.NoChangeData = err.Error()
		return nil
	default:
		return err
	}
	for _, f := range files {
		tx.AddCDC(f)
	}
	plan.ChangeFiles = len(files)
	if len(files) == 0 { // rows have moved since, and that is all
		for _, a := range adds {
			a.DataChange = false
		}
		for _, r := range removes {
			r.DataChange = false
		}
	}
	return nil
}
