package delta

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
)

// VersionCommit is the commit of one version.
type VersionCommit struct {
	Version int64
	// Committed is as CommitTime's.
	Committed time.Time
	*action.Commit
}

// Commits gives the commits of versions from..to, both included, reading some at a
// time. The error, which ends the sequence, is a *VersionNotFoundError for the first
// one whose commit file is not there.
func (t *Table) Commits(ctx context.Context, from, to int64) iter.Seq2[VersionCommit, error] {
	return func(yield func(VersionCommit, error) bool) {
		listing, err := deltalog.List(ctx, t.store, 0)
		if err != nil {
			yield(VersionCommit{}, err)
			return
		}
		var commits []deltalog.Commit
		var times []time.Time
		next := from
		for i, at := range commitTimes(listing.Commits) {
			if c := listing.Commits[i]; c.Version == next && next <= to {
				commits, times, next = append(commits, c), append(times, at), next+1
			}
		}
		i := 0
		for c, err := range deltalog.ReadCommits(ctx, t.store, commits) {
			if err != nil {
				yield(VersionCommit{}, fmt.Errorf("commits of %s: %w", t.store, err))
				return
			}
			v := VersionCommit{Version: commits[i].Version, Committed: times[i], Commit: c}
			if own := action.ParseInfo(c.Info).InCommitTimestamp; own != nil {
				v.Committed = time.UnixMilli(*own)
			}
			i++
			if !yield(v, nil) {
				return
			}
		}
		if next <= to {
			yield(VersionCommit{}, fmt.Errorf("commits of %s: %w", t.store, &VersionNotFoundError{Version: next, Available: listing.Versions()}))
		}
	}
}
