package diff

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/savepoint"
)

// Differ is the savepoint.Differ of this package, for the change data of a rollback. Rows
// that differ only in columns that to does not have are left out.
func Differ(ctx context.Context, store objstore.Store, from, to *delta.Snapshot, key []string) iter.Seq2[savepoint.RowChange, error] {
	return func(yield func(savepoint.RowChange, error) bool) {
		d, err := New(store, from, to, Options{Key: append([]string{}, key...)}) // none is none, not the table's
		if err != nil {
			yield(savepoint.RowChange{}, err)
			return
		}
		columns := len(to.Schema().Fields) // come first
		cut := func(row []schema.Value) []schema.Value {
			if row == nil {
				return nil
			}
			return row[:columns]
		}
		for c, err := range d.Changes(ctx) {
			if repeated := (*DuplicateKeyError)(nil); errors.As(err, &repeated) {
				err = fmt.Errorf("%w: %w", savepoint.ErrRepeatedKey, err)
			}
			if err != nil {
				yield(savepoint.RowChange{}, err)
				return
			}
			if c.Kind == Updated && !slices.ContainsFunc(c.Changed, func(at int) bool { return at < columns }) {
				continue
			}
			if !yield(savepoint.RowChange{Old: cut(c.Old), New: cut(c.New)}, nil) {
				return
			}
		}
	}
}
