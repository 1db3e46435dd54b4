package maintain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/compact"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/savepoint"
)

// Figures are what is measured of a table's newest version.
type Figures struct {
	layout.Shape
	Version int64
	// VectorBytes are those of the live deletion vectors' parts of their files.
	VectorBytes int64
	// PinnedFiles are live files that savepoints need too, PinnedBytes their size, and
	// PinnedSmallBytes that of the small ones among them.
	PinnedFiles                   int
	PinnedBytes, PinnedSmallBytes int64
	// Clustering is of the columns that the table is clustered by, and UnclusteredShare the
	// share of bytes that were not laid out by them.
	Clustering       []layout.Clustering
	UnclusteredShare float64
	// Savepoints is how many versions are pinned.
	Savepoints int
	// LogFiles are those directly below _delta_log, Checkpoint the size of the newest
	// complete one, and CommitsBehind how many commits came after it.
	LogFiles             int
	LogBytes, Checkpoint int64
	CommitsBehind        int64
}

// measure looks at a version. pinned are the files that savepoints need.
func measure(ctx context.Context, table *delta.Table, s *delta.Snapshot, pinned savepoint.PinnedFiles, target int64) (*Figures, error) {
	shape, err := layout.ShapeOf(s, target)
	if err != nil {
		return nil, err
	}
	f := &Figures{Shape: shape, Version: s.Version()}
	for _, add := range s.Files() {
		if add.DeletionVector != nil {
			f.VectorBytes += int64(add.DeletionVector.SizeInBytes)
		}
		if pinned.Has(add) {
			f.PinnedFiles++
			f.PinnedBytes += add.Size
			if small(add, shape) {
				f.PinnedSmallBytes += add.Size
			}
		}
	}
	part, columns, err := layout.Unclustered(s)
	if err != nil {
		return nil, err
	}
	if f.UnclusteredShare = part; len(columns) > 0 {
		if f.Clustering, err = layout.Measure(s, columns...); err != nil {
			return nil, err
		}
	}
	pins := savepoint.PinsOf(s)
	f.Savepoints = len(pins)
	return f, f.measureLog(ctx, table)
}

func (f *Figures) measureLog(ctx context.Context, table *delta.Table) error {
	listing, err := deltalog.List(ctx, table.Store(), 0)
	if err != nil {
		return err
	}
	f.LogFiles = len(listing.Files)
	newest := int64(-1)
	if n := len(listing.Checkpoints); n > 0 {
		newest = listing.Checkpoints[n-1].Version
	}
	for _, file := range listing.Files {
		f.LogBytes += file.Size
		if file.Version == newest && file.Kind != deltalog.CommitFile && file.Kind != deltalog.Checksum {
			f.Checkpoint += file.Size
		}
	}
	f.CommitsBehind = f.Version - newest
	return nil
}

// small tells a file that Optimize would join with others.
func small(add *action.Add, shape layout.Shape) bool { return add.Size < shape.TargetSize/4*3 }

// lines are the figures as a person reads them.
func (f *Figures) lines() []Line {
	mean := int64(0)
	if f.Files > 0 {
		mean = f.Bytes / int64(f.Files)
	}
	list := []Line{
		{"measure", "version", f.Version, ""},
		{"measure", "rows", f.Rows, ""},
		{"measure", "deleted_share", rounded(f.DeletedShare()), "of the rows, hidden by deletion vectors"},
		{"measure", "files", int64(f.Files), fmt.Sprintf("%d partitions; the live bytes fill %d files of the target size", f.Partitions, f.Fewest)},
		{"measure", "bytes", f.Bytes, "data files"},
		{"measure", "live_share", rounded(f.LiveShare()), "of the bytes, taken by live rows"},
		{"measure", "deletion_vector_bytes", f.VectorBytes, ""},
		{"measure", "mean_file_bytes", mean, ""},
		{"measure", "target_file_bytes", f.TargetSize, ""},
		{"measure", "small_files", int64(f.SmallFiles), "smaller than three quarters of the target"},
		{"measure", "small_file_bytes", f.SmallBytes, ""},
		{"measure", "pinned_files", int64(f.PinnedFiles), "live files that savepoints need too"},
		{"measure", "pinned_bytes", f.PinnedBytes, ""},
	}
	for _, c := range f.Clustering {
		list = append(list, Line{"measure", "depth of " + c.Column, rounded(c.Depth), "files of a partition that a lookup of one value opens"})
	}
	if len(f.Clustering) > 0 {
		list = append(list, Line{"measure", "unclustered_share", rounded(f.UnclusteredShare), "of the bytes, not laid out by the clustering columns"})
	}
	return append(list,
		Line{"measure", "savepoints", int64(f.Savepoints), "pinned versions"},
		Line{"measure", "log_files", int64(f.LogFiles), ""},
		Line{"measure", "log_bytes", f.LogBytes, ""},
		Line{"measure", "checkpoint_bytes", f.Checkpoint, fmt.Sprintf("the newest; %d commits behind it", f.CommitsBehind)},
	)
}

// rounded keeps four places.
func rounded(x float64) float64 { return float64(int64(x*1e4+0.5)) / 1e4 }

// Thresholds say from which figures on the layout is worked on. What is 0 is the default,
// what is below it stands for 0.
type Thresholds struct {
	// ExtraFiles is how many files a table may have more than its live bytes fill, and than
	// it has partitions. Default 0.
	ExtraFiles int
	// DeadShare is the share of deleted rows of the whole table past which the deadest files
	// are written anew. Default 0.35; at least 0.5 where the data files are smaller than
	// 256 MiB in all, whose rewriting frees little.
	DeadShare float64
	// PinnedBytes is up to how many bytes of small files that savepoints need are joined
	// like others, although they are then stored twice. Default 4 MiB.
	PinnedBytes int64
	// UnclusteredShare is the share of bytes past which a clustered table is laid out anew.
	// Default 0.2.
	UnclusteredShare float64
}

const (
	// What is borne is what a running ingester bears.
	defaultDeadShare   = compact.DeadShare
	smallTable         = compact.SmallTable
	smallTableShare    = compact.DeadShareSmall
	defaultPinned      = 4 << 20
	defaultUnclustered = 0.2
	// manySmall is from how many small files on pinned ones are joined too: each costs more
	// than a kilobyte of log at each commit that touches it.
	manySmall = 50
	// deadest is how near to the worst file's share of deleted rows others must be to be
	// rewritten with it.
	deadest = compact.WorstShare
)

func (t Thresholds) withDefaults(bytes int64) Thresholds {
	t.DeadShare = cmp.Or(t.DeadShare, defaultDeadShare)
	if bytes < smallTable && t.DeadShare >= 0 {
		t.DeadShare = max(t.DeadShare, smallTableShare)
	}
	t.PinnedBytes = cmp.Or(t.PinnedBytes, defaultPinned)
	t.UnclusteredShare = cmp.Or(t.UnclusteredShare, defaultUnclustered)
	t.DeadShare, t.PinnedBytes, t.UnclusteredShare = max(t.DeadShare, 0), max(t.PinnedBytes, 0), max(t.UnclusteredShare, 0)
	return t
}

// decision is what the figures ask for.
type decision struct {
	// why is "" where nothing is to be done.
	why     string
	options layout.Options
}

// decide weighs the figures. base has what must be kept of the table.
func decide(s *delta.Snapshot, f *Figures, pinned savepoint.PinnedFiles, t Thresholds, base layout.Options) decision {
	t = t.withDefaults(f.Bytes)
	lost := base.Leave
	joinsPinned := f.PinnedSmallBytes <= t.PinnedBytes || f.SmallFiles > manySmall
	base.Leave = func(add *action.Add) bool {
		if lost != nil && lost(add) {
			return true
		}
		return pinned.Leave(add) && !(joinsPinned && small(add, f.Shape))
	}
	base.PurgeShare = purgeAbove(s, f.Shape, t.DeadShare, base.Leave)
	clustered := len(f.Clustering) > 0
	dead := base.PurgeShare >= 0
	switch extra := f.Files - f.Fewest - f.Partitions; {
	case clustered && f.UnclusteredShare > t.UnclusteredShare:
		return decision{fmt.Sprintf("%.0f %% of the bytes are not laid out by the clustering columns", 100*f.UnclusteredShare), base}
	case !clustered && extra > t.ExtraFiles:
		return decision{fmt.Sprintf("%d files, where the live bytes fill %d; partitions: %d", f.Files, f.Fewest, f.Partitions), base}
	case dead:
		base.PurgeOnly = true
		return decision{fmt.Sprintf("%.0f %% of the rows are deleted", 100*f.DeletedShare()), base}
	}
	return decision{}
}

// purgeAbove gives the share of deleted rows from which files are to be rewritten so that
// the table has no more than limit: the deadest ones together. -1 where it has not now, or
// where no file that may be rewritten is worth it.
func purgeAbove(s *delta.Snapshot, shape layout.Shape, limit float64, leave func(*action.Add) bool) float64 {
	if shape.DeletedShare() <= limit {
		return -1
	}
	var files []*action.Add
	for _, add := range s.Files() {
		if add.DeletionVector != nil && !leave(add) {
			files = append(files, add)
		}
	}
	slices.SortFunc(files, func(a, b *action.Add) int { return cmp.Compare(layout.DeadShare(b), layout.DeadShare(a)) })
	least, above := limit/2, -1.0
	dead, rows := float64(shape.DeletedRows), float64(shape.Rows+shape.DeletedRows)
	for _, add := range files {
		part := layout.DeadShare(add)
		if part < least || dead <= limit*rows && part < above {
			break
		}
		if above < 0 || part < above {
			above = max(part*deadest, least)
		}
		dead -= float64(add.DeletionVector.Cardinality)
		rows -= float64(add.DeletionVector.Cardinality)
	}
	return above
}
