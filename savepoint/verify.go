package savepoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/gscd-io/gscd/progress"
)

// Verify compares a version with what its own commit says of it: the number of
// rows and, for a savepoint, the digest. A commit that lost its last lines, or a
// checkpoint of other files, reads like a sound one and has other rows; this
// tells. Nothing is read but the commit. The error wraps delta.ErrCorrupt. A
// version that another program committed has nothing to compare with.
func Verify(ctx context.Context, table *delta.Table, s *delta.Snapshot) error {
	p, err := progressAt(ctx, table, s.Version())
	switch {
	case errors.Is(err, ErrForeign), errors.Is(err, delta.ErrVersionNotFound):
		return nil
	case err != nil:
		return err
	}
	return verify(s, p)
}

// verify compares a version with the progress of its commit.
func verify(s *delta.Snapshot, p *progress.Progress) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%w: version %d: %s: a part of %s, or of the log before it, is lost", delta.ErrCorrupt, s.Version(),
			fmt.Sprintf(format, args...), deltalog.CommitKey(s.Version()))
	}
	if txn, ok := s.Txn(progress.AppID); !ok || txn.Version != s.Version() {
		return fault("it was read as a version whose last commit by gscd is %d", txn.Version)
	}
	if rows, known := rowsOf(s); known && rows != p.Rows {
		return fault("its files have %d rows, its commit says %d", rows, p.Rows)
	}
	for i := range p.Seals {
		if want := p.Seals[i].Digest; want != "" {
			if got := Digest(s); got != want {
				return fault("its files and deletion vectors are not those that were sealed: their digest is %.12s…, the evidence says %.12s…", got, want)
			}
			break // all labels of a commit have the same
		}
	}
	return nil
}

// rowsOf gives the live rows of a version by its statistics; known is false where
// a file's don't say.
func rowsOf(s *delta.Snapshot) (rows int64, known bool) {
	for _, add := range s.Files() {
		physical, known := stats.NumRecords(add.Stats)
		if !known {
			return 0, false
		}
		rows += physical
		if add.DeletionVector != nil {
			rows -= add.DeletionVector.Cardinality
		}
	}
	return rows, true
}
