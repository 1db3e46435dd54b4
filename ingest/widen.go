package ingest

import (
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
)

// CheckWidening refuses a wider type for a column of the key where keys of the old one
// would not be found any more. The error wraps ErrRefused.
func CheckWidening(key []string, column string, from, to schema.Type) error {
	if slices.Contains(key, column) && !(from.IsInteger() && to.IsInteger()) {
		return fmt.Errorf("%w: the column %s belongs to the table's key, which is told apart by %s: a key of integers can become one of larger integers, any other asks for a new table", ErrRefused, column, from)
	}
	return nil
}

// wasWidened reports that all rows of a column were written anew in a wider type: no file
// of the version before is left.
func (l *Lane) wasWidened(was, now schema.Field, before, after *delta.Snapshot) bool {
	if !delta.Widens(was.Type, now.Type) || CheckWidening(l.key, now.Name, was.Type, now.Type) != nil {
		return false
	}
	return !slices.ContainsFunc(before.Files(), func(add *action.Add) bool {
		_, stays := after.File(add.Path)
		return stays
	})
}
