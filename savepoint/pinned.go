package savepoint

import (
	"context"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/compact"
	"github.com/gscd-io/gscd/delta/stats"
)

// PinnedFiles are the data files that savepoints need, by path. What is written anew of
// them is stored twice for as long as the savepoint is kept.
type PinnedFiles map[string]bool

// ReadPinnedFiles reads which data files the savepoints of a snapshot need. The error
// says which of them can't be read.
func ReadPinnedFiles(ctx context.Context, table *delta.Table, s *delta.Snapshot) (PinnedFiles, error) {
	pinned := PinnedFiles{}
	err := table.EachFileSet(ctx, versionsOf(PinsOf(s)), func(version int64, files []*action.Add, err error) error {
		if err != nil {
			return fmt.Errorf("the savepoint at version %d can't be read, `gscd check` says more: %w", version, err)
		}
		for _, add := range files {
			pinned[add.Path] = true
		}
		return nil
	})
	return pinned, err
}

// Has tells that a savepoint needs a file.
func (p PinnedFiles) Has(add *action.Add) bool { return p[add.Path] }

// Leave tells of a live file that it is better left as it is: a savepoint needs it, and
// not so many of its rows are deleted that an ingester would write it anew.
func (p PinnedFiles) Leave(add *action.Add) bool {
	if !p[add.Path] || add.DeletionVector == nil {
		return p[add.Path]
	}
	rows, known := stats.NumRecords(add.Stats)
	return !known || float64(add.DeletionVector.Cardinality) <= compact.PinnedShare*float64(rows)
}
