package ingest

import (
	"context"
	"errors"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// A row that another engine has written anew has no hidden columns. It counts as
// being at the highest position that its partition had in gscd's last commit before
// (rule 3.9): the progress keeps these positions by file. The partition of its key is
// known from the row that it stood in before: this process's index has it, and after
// a restart the files that were replaced, while they are in the store.

// maxRewrittenFiles bounds the files that the progress names; past it the oldest
// positions are those of every file that is not named.
const maxRewrittenFiles = 256

// maxRewrites bounds the commits whose replaced files are asked for partitions.
const maxRewrites = 32

// highsOf gives the highest position that each partition has taken.
func highsOf(s *snapshotter.State) []progress.HighOfLine {
	var highs []progress.HighOfLine
	for _, p := range s.Partitions {
		if p.Heartbeat {
			continue
		}
		h := progress.HighOfLine{Partition: p.Number, Line: -1, Time: p.Watermark}
		for _, line := range p.Lines {
			if line.HasHigh && line.Number >= h.Line {
				h.Line, h.Position, h.HasPosition = line.Number, line.High, true
			}
		}
		highs = append(highs, h)
	}
	return highs
}

// noteRewritten remembers where the rows of files count as being that others wrote
// since version, which was gscd's last commit.
func (l *Lane) noteRewritten(list []foreignCommit, version int64) {
	defer func() { l.lost = nil }()
	// A row that was lost before lies in yet another file: which partition its key
	// has, the files say that were replaced first.
	e := progress.Rewritten{Version: version, Highs: l.highs, Commits: l.pruneRewritten()}
	before := len(e.Commits)
	for _, f := range list {
		if f.writes && f.kind != ownCommit {
			e.Commits = append(e.Commits, f.Version)
		}
	}
	if len(e.Commits) == before {
		return
	}
	if n := len(e.Commits) - maxRewrites; n > 0 {
		e.Commits = e.Commits[n:]
	}
	known := map[string]bool{}
	for _, r := range l.p.Rewritten {
		for _, path := range r.Files {
			known[path] = true
		}
	}
	for _, path := range l.writer.Bare() {
		if !known[path] {
			e.Files = append(e.Files, path)
		}
	}
	if len(e.Files) == 0 {
		return
	}
	slices.Sort(e.Files)
	l.p.Rewritten = append(l.p.Rewritten, e)
	l.boundRewritten()
}

// pruneRewritten forgets files that have left the table; it gives the commits that
// wrote some of them.
func (l *Lane) pruneRewritten() (commits []int64) {
	var kept []progress.Rewritten
	for _, r := range l.p.Rewritten {
		live := slices.DeleteFunc(slices.Clone(r.Files), func(path string) bool { return !l.isLive(path) })
		if len(live) < len(r.Files) {
			commits = append(commits, r.Commits...)
		}
		if len(live) > 0 || len(r.Files) == 0 {
			r.Files = live
			kept = append(kept, r)
		}
	}
	l.p.Rewritten = kept
	return commits
}

func (l *Lane) isLive(path string) bool {
	_, live := l.base.File(path)
	return live
}

// boundRewritten keeps the progress small: what is too much is put together under
// the later positions, at last without naming files.
func (l *Lane) boundRewritten() {
	list := l.p.Rewritten
	files := 0
	for _, r := range list {
		files += len(r.Files)
	}
	for len(list) > 1 && (len(list) > progress.MaxRewritten || files > maxRewrittenFiles) {
		first, second := list[0], list[1]
		if files > maxRewrittenFiles || len(first.Files) == 0 {
			files -= len(first.Files) + len(second.Files)
			second.Files, second.Commits = nil, nil
		} else {
			second.Files = append(slices.Clone(first.Files), second.Files...)
			second.Commits = append(slices.Clone(first.Commits), second.Commits...)
		}
		list = append([]progress.Rewritten{second}, list[2:]...)
	}
	if len(list) == 1 && files > maxRewrittenFiles {
		list[0].Files, list[0].Commits = nil, nil
	}
	l.p.Rewritten = list
}

// carryRewritten lets files that gscd writes of others' files, with rows whose
// partition nobody knows, count as these did.
func (l *Lane) carryRewritten(from []string, written *upsert.Written) {
	newest := -1
	for _, path := range from {
		for i := range l.p.Rewritten {
			if slices.Contains(l.p.Rewritten[i].Files, path) {
				newest = max(newest, i)
			}
		}
	}
	if newest < 0 {
		return
	}
	r := &l.p.Rewritten[newest]
	r.Files = append(slices.Clone(r.Files), written.Files()...)
	l.boundRewritten()
	l.lost = nil
}

// rewritten gives what is known of a file's lost positions, nil for nothing.
func (l *Lane) rewritten(path string) *progress.Rewritten {
	if l.lost == nil {
		l.lost = map[string]*progress.Rewritten{}
		for i := range l.p.Rewritten {
			r := &l.p.Rewritten[i]
			if len(r.Files) == 0 {
				l.lost[""] = r
			}
			for _, path := range r.Files {
				l.lost[path] = r
			}
		}
	}
	if r := l.lost[path]; r != nil {
		return r
	}
	return l.lost[""]
}

// lostMeta says where a row without hidden columns counts as being, to be compared
// with by. known tells that this holds for whatever it is compared with.
func (l *Lane) lostMeta(path string, tag uint16, by snapshotter.Meta) (m snapshotter.Meta, known bool) {
	// Behind what its own partition brings, whatever the offset was: order within a
	// key is that of its partition, also for what was held.
	m = snapshotter.Meta{Partition: -1, Offset: -1, Rank: snapshotter.RankChange, Time: snapshotter.NoTime}
	if partition := tag & manyPartitions; partition != manyPartitions {
		m.Partition, known = int32(partition), true
	} else if by.Rank == snapshotter.RankChange {
		m.Partition = by.Partition // a key keeps to its partition
	}
	r := l.rewritten(path)
	if r == nil {
		return m, known
	}
	for _, h := range r.Highs {
		switch {
		case !h.HasPosition || m.Partition >= 0 && h.Partition != m.Partition:
		case m.Partition >= 0, !m.HasPosition, h.Line == by.Line && (m.Line != by.Line || h.Position.Compare(m.Position) > 0):
			m.Line, m.Position, m.HasPosition, m.Time = h.Line, h.Position, true, h.Time
		}
	}
	return m, known
}

// fillLost writes where a row counts as being into its hidden cells, where that is known.
func (l *Lane) fillLost(path string, tag uint16, hidden []schema.Value) {
	if m, known := l.lostMeta(path, tag, snapshotter.Meta{}); known {
		hiddenCells(hidden, m)
	}
}

// lostTag is that of a row without hidden columns whose partition is not known. Reads
// of partitions past the room of a tag have it too.
const lostTag = manyPartitions | readTag

// inherit gives a row without hidden columns the partition that its key had.
func inherit(tag, was uint16) uint16 {
	if tag != lostTag {
		return tag
	}
	return was & manyPartitions
}

// onlyPartition gives the number of the table's only partition.
func (l *Lane) onlyPartition() (uint16, bool) {
	only, n := int32(0), 0
	for _, p := range l.state().Partitions {
		if !p.Heartbeat {
			only, n = p.Number, n+1
		}
	}
	return uint16(only), n == 1 && only >= 0 && only < manyPartitions
}

// learnPartitions finds the partitions of the keys of rewritten rows, before the
// key index is built: was is the index of this process, nil after a restart. Where
// files are gone nothing is known of their keys.
func (l *Lane) learnPartitions(was *upsert.Index) (*upsert.Index, error) {
	writes := slices.ContainsFunc(l.foreign, func(f foreignCommit) bool { return f.writes && f.kind != ownCommit })
	if !writes && len(l.p.Rewritten) == 0 {
		return nil, nil
	}
	if _, only := l.onlyPartition(); only || was != nil {
		return was, nil
	}
	var gone []*action.Add
	for _, r := range l.p.Rewritten {
		for _, v := range r.Commits {
			c, err := l.table.Commit(l.ctx, v)
			if errors.Is(err, delta.ErrVersionNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			gone = append(gone, addsOf(l.ctx, l.o.Store, c.Removes)...)
		}
	}
	for i := range l.foreign {
		gone = append(gone, addsOf(l.ctx, l.o.Store, l.foreign[i].removes)...)
	}
	if len(gone) == 0 {
		return nil, nil
	}
	o := upsertOptions(l.key, l.o.CopyOnWrite)
	o.Inherit = inherit
	index, err := upsert.Tags(l.ctx, l.o.Store, l.base.Schema(), gone, o)
	if err != nil {
		l.o.Log.Warn("the partitions of rewritten rows can't be found out", l.fields("err", err.Error())...)
		return nil, l.ctx.Err()
	}
	return index, nil
}

// addsOf makes of removes what they removed; those whose file is gone are left out.
func addsOf(ctx context.Context, store objstore.Store, removes []*action.Remove) (adds []*action.Add) {
	for _, r := range removes {
		a := &action.Add{Path: r.Path, PartitionValues: r.PartitionValues, DeletionVector: r.DeletionVector}
		if key, err := action.Key(r.Path); err != nil {
			continue
		} else if r.Size != nil {
			a.Size = *r.Size
		} else if object, err := store.Head(ctx, key); err != nil {
			continue
		} else {
			a.Size = object.Size
		}
		adds = append(adds, a)
	}
	return adds
}
