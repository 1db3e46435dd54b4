package delta

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
)

// TimeNotFoundError says that the version of a time is not readable, and which
// readable ones are next to it.
type TimeNotFoundError struct {
	At time.Time
	// Below and Above are the readable versions before and after that time, -1
	// where there is none; BelowTime and AboveTime are when they were committed.
	Below, Above         int64
	BelowTime, AboveTime time.Time
}

// Error names the time and the versions next to it.
func (e *TimeNotFoundError) Error() string {
	text := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	if e.Below < 0 {
		return fmt.Sprintf("%v: nothing was committed at or before %s; the oldest readable version is %d, of %s", ErrVersionNotFound, text(e.At), e.Above, text(e.AboveTime))
	}
	return fmt.Sprintf("%v: what was there at %s is not kept; the readable versions next to it are %d, of %s, and %d, of %s",
		ErrVersionNotFound, text(e.At), e.Below, text(e.BelowTime), e.Above, text(e.AboveTime))
}

// Unwrap gives ErrVersionNotFound.
func (e *TimeNotFoundError) Unwrap() error { return ErrVersionNotFound }

// VersionAt gives the version that was the newest at a time, and when it was
// committed (see CommitTime). The error is a *TimeNotFoundError where that version
// is not readable: the log does not reach back so far, or has a hole there. (Spark
// answers with the version below the hole.)
func (t *Table) VersionAt(ctx context.Context, at time.Time) (int64, time.Time, error) {
	listing, err := deltalog.List(ctx, t.store, 0)
	if err != nil {
		return 0, time.Time{}, err
	}
	committed := make(map[int64]time.Time, len(listing.Commits))
	for i, when := range commitTimes(listing.Commits) {
		committed[listing.Commits[i].Version] = when
	}
	var versions []int64
	for _, v := range listing.Versions() {
		if _, ok := committed[v]; ok {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		return 0, time.Time{}, fmt.Errorf("open %s: %w", t.store, ErrNotATable)
	}
	times := &versionTimes{ctx: ctx, t: t, committed: committed}
	n := times.after(versions, at)
	switch {
	case times.err != nil:
		return 0, time.Time{}, times.err
	case n == 0:
		first := versions[0]
		return 0, time.Time{}, &TimeNotFoundError{At: at, Below: -1, Above: first, AboveTime: times.of(first)}
	}
	version := versions[n-1]
	if n < len(versions) && versions[n] != version+1 {
		fault := &TimeNotFoundError{At: at, Below: version, BelowTime: times.of(version), Above: versions[n], AboveTime: times.of(versions[n])}
		if times.err != nil {
			return 0, time.Time{}, times.err
		}
		if !fault.BelowTime.Equal(at) {
			return 0, time.Time{}, fault
		}
	}
	return version, times.of(version), times.err
}

// versionTimes looks up when versions were committed.
type versionTimes struct {
	ctx       context.Context
	t         *Table
	committed map[int64]time.Time // times of the files
	own       map[int64]*int64    // in-commit timestamps that were read
	err       error               // the first one
}

// after gives how many of the versions, which rise, were committed at or before a
// time. In-commit timestamps and times of files are not compared with each other: a
// copied table has new files. The former begin at one version, and where the newest
// has none, they were given up.
func (x *versionTimes) after(versions []int64, at time.Time) int {
	first := len(versions)
	if x.inCommit(versions[len(versions)-1]) != nil {
		first = sort.Search(len(versions), func(i int) bool { return x.inCommit(versions[i]) != nil })
	}
	if first < len(versions) && !x.of(versions[first]).After(at) {
		later := versions[first:]
		return first + sort.Search(len(later), func(i int) bool { return x.of(later[i]).After(at) })
	}
	return sort.Search(first, func(i int) bool { return x.committed[versions[i]].After(at) })
}

// of gives when a version was committed.
func (x *versionTimes) of(version int64) time.Time {
	if own := x.inCommit(version); own != nil {
		return time.UnixMilli(*own)
	}
	return x.committed[version]
}

func (x *versionTimes) inCommit(version int64) *int64 {
	if own, known := x.own[version]; known || x.err != nil {
		return own
	}
	c, err := deltalog.ReadCommit(x.ctx, x.t.store, version)
	if err != nil {
		x.err = err
		return nil
	}
	if x.own == nil {
		x.own = map[int64]*int64{}
	}
	x.own[version] = action.ParseInfo(c.Info).InCommitTimestamp
	return x.own[version]
}
