package notify

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// readMap reads the newest map of a table.
func readMap(ctx context.Context, store objstore.Store) (*savepoint.Map, *delta.Table, error) {
	table, err := savepoint.OpenTable(ctx, store)
	if err != nil {
		return nil, nil, gone(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		return nil, nil, gone(err)
	}
	m, err := savepoint.Read(ctx, table, s)
	return m, table, gone(err)
}

// tableID gives the id of a table's metadata.
func tableID(ctx context.Context, store objstore.Store) (string, error) {
	table, err := savepoint.OpenTable(ctx, store)
	if err != nil {
		return "", gone(err)
	}
	// The first commit has it, as long as the log was not cleaned.
	if first, err := table.Commit(ctx, 0); err == nil && first.Metadata != nil {
		return first.Metadata.ID, nil
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		return "", gone(err)
	}
	return s.Metadata().ID, nil
}

func gone(err error) error {
	if errors.Is(err, delta.ErrNotATable) || errors.Is(err, savepoint.ErrForeign) {
		return errors.Join(errGone, err)
	}
	return err
}

func isSeal(e savepoint.Entry) bool { return e.State == savepoint.Sealed && !e.Kept }

// sortPlaces sorts by version, then by label.
func sortPlaces[T any](list []T, of func(T) (int64, snapshotter.Label)) {
	slices.SortFunc(list, func(a, b T) int {
		v, l := of(a)
		w, m := of(b)
		return cmp.Or(cmp.Compare(v, w), cmp.Compare(l, m))
	})
}
