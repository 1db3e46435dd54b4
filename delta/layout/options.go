package layout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// What callers decide on.
var (
	// ErrColumn: a column is not there, or is none that can be asked for here.
	ErrColumn = errors.New("not a column for this")
	// ErrContended: other writers moved the same rows at every attempt.
	ErrContended = errors.New("other writers move the same rows again and again")
)

// Options say what Optimize does. The zero Options join small files and purge deleted
// rows of the whole table.
type Options struct {
	// Where takes the partitions for which it is true; it may name partition columns
	// only. nil takes all.
	Where *expr.Predicate
	// TargetSize is the size of the files to write, in bytes. 0: the table's property
	// delta.targetFileSize, else an 80th of the table, at least 64 MiB and at most 256.
	TargetSize int64
	// SmallSize is the size below which a file is joined with others; 0: three
	// quarters of TargetSize.
	SmallSize int64
	// PurgeShare is the share of deleted rows above which a file is written anew
	// whatever its size; 0: 5 %. Below 0 none is for that reason.
	PurgeShare float64
	// PurgeOnly writes anew only files with deleted rows (above PurgeShare; here 0
	// means any), whatever their size.
	PurgeOnly bool
	// OrderBy names the columns by which rows shall lie together, at most
	// MaxOrderColumns. All files of the partitions are then written anew. A clustered table
	// has its own: files that are not laid out by them yet are, along the Hilbert curve.
	OrderBy []string
	// Curve says how columns are put into one order; "": ZOrder.
	Curve Curve
	// Leave says of a live file that it stays as it is: rows of a file that an old
	// version keeps would be stored twice. nil leaves none.
	Leave func(add *action.Add) bool
	// Extra are columns of data files that are not in the table's schema and are kept.
	Extra []parquet.Column
	// Footer makes the footer entries of a file of those of the files its rows came
	// from; nil makes none.
	Footer func(inputs []map[string]string) map[string]string
	// BatchBytes is how many bytes of files are replaced by a commit, at least; 0: 1 GiB.
	BatchBytes int64
	// MemoryLimit bounds the rows that are sorted in memory, in bytes; more go to
	// TempDir ("": that of the system). 0: 256 MiB. The row group that is written takes
	// up to half as much besides.
	MemoryLimit int64
	TempDir     string
	// DryRun plans, and tells in the Report what would be replaced.
	DryRun bool
	// Progress, where set, is told how many bytes of the files to replace are done.
	Progress func(done, total int64)

	clustered bool // OrderBy is the table's
}

// MaxOrderColumns is how many columns rows are laid out by at most: with more of them
// files tell values of none apart any more.
const MaxOrderColumns = 8

const (
	propertyTargetSize = "delta.targetFileSize"
	smallestTarget     = 64 << 20
	largestTarget      = 256 << 20
	targetShare        = 80
	defaultBatch       = 1 << 30
	defaultMemory      = 256 << 20
	defaultPurgeShare  = 0.05
)

// resolved gives the options with what the table says in the places of zeros.
func (o Options) resolved(s *delta.Snapshot) (Options, error) {
	if err := o.clusterBy(s); err != nil {
		return o, err
	}
	if o.TargetSize <= 0 {
		var err error
		if o.TargetSize, err = targetOf(s); err != nil {
			return o, err
		}
	}
	if o.SmallSize <= 0 {
		o.SmallSize = o.TargetSize / 4 * 3
	}
	if o.PurgeShare == 0 && !o.PurgeOnly {
		o.PurgeShare = defaultPurgeShare
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = defaultBatch
	}
	if o.MemoryLimit <= 0 {
		o.MemoryLimit = defaultMemory
	}
	if o.Curve == "" {
		o.Curve = ZOrder
	}
	if o.Leave == nil {
		o.Leave = func(*action.Add) bool { return false }
	}
	if o.Footer == nil {
		o.Footer = func([]map[string]string) map[string]string { return nil }
	}
	return o, o.check(s)
}

func (o *Options) check(s *delta.Snapshot) error {
	partitions := s.Metadata().PartitionColumns
	if o.Where != nil {
		if !o.Where.Fits(s.Schema()) {
			return fmt.Errorf("%w: the filter was made for another schema", ErrColumn)
		}
		for _, c := range o.Where.Columns() {
			if name := s.Schema().Fields[c].Name; !slices.Contains(partitions, name) {
				return fmt.Errorf("%w: %q is no partition column, and files hold rows of all its values; the table is partitioned by %q", ErrColumn, name, partitions)
			}
		}
	}
	if len(o.OrderBy) > MaxOrderColumns {
		return fmt.Errorf("%w: %d columns, at most %d bring anything", ErrColumn, len(o.OrderBy), MaxOrderColumns)
	}
	if o.PurgeOnly && len(o.OrderBy) > 0 {
		return fmt.Errorf("%w: a purge alone keeps the order of rows", ErrColumn)
	}
	if o.Curve != ZOrder && o.Curve != Hilbert {
		return fmt.Errorf("%w: no curve %q, use %s or %s", ErrColumn, o.Curve, ZOrder, Hilbert)
	}
	for i, name := range o.OrderBy {
		at := s.Schema().IndexFold(name)
		switch {
		case at < 0:
			return fmt.Errorf("%w: %q; the table has %q", ErrColumn, name, s.Schema().Names())
		case slices.Contains(partitions, s.Schema().Fields[at].Name):
			return fmt.Errorf("%w: every row of a file has the same %s already, it is a partition column", ErrColumn, name)
		case slices.ContainsFunc(o.OrderBy[:i], func(other string) bool { return strings.EqualFold(name, other) }):
			return fmt.Errorf("%w: %q is named twice", ErrColumn, name)
		}
		switch t := s.Schema().Fields[at].Type; {
		case t.Nested != nil, t.Primitive == schema.BinaryType, t.Primitive == schema.Boolean, t.Primitive == schema.Void, t.Primitive == schema.Variant:
			return fmt.Errorf("%w: files have no bounds of %s, which is of type %s", ErrColumn, name, t)
		}
	}
	return nil
}

// targetOf is the file size that fits a table.
func targetOf(s *delta.Snapshot) (int64, error) {
	if text, ok := s.Property(propertyTargetSize); ok {
		n, err := parseSize(text)
		if err != nil || n <= 0 {
			return 0, fmt.Errorf("property %s: %q is no size, write it like 128mb", propertyTargetSize, text)
		}
		return n, nil
	}
	var bytes int64
	for _, add := range s.Files() {
		bytes += add.Size
	}
	return min(max(bytes/targetShare, smallestTarget), largestTarget), nil
}

// parseSize reads a size of a table property: bytes, or with kb, mb, gb (of 1024).
func parseSize(text string) (int64, error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	unit := int64(1)
	for suffix, n := range map[string]int64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30} {
		for _, end := range []string{suffix + "ib", suffix + "b", suffix} {
			if rest, ok := strings.CutSuffix(lower, end); ok && unit == 1 {
				lower, unit = strings.TrimSpace(rest), n
			}
		}
	}
	if unit == 1 {
		lower = strings.TrimSuffix(lower, "b")
	}
	n, err := strconv.ParseInt(lower, 10, 64)
	if err == nil && n > (1<<62)/unit {
		return 0, fmt.Errorf("size %q is too large", text)
	}
	return n * unit, err
}

// Report says what Optimize did, or in a dry run would do.
type Report struct {
	// Versions are those that it committed, rising; none where nothing was to be done.
	Versions []int64
	// Snapshot is the newest version after it.
	Snapshot *delta.Snapshot
	// The files that were replaced and those that replaced them (0 in a dry run).
	FilesRemoved, FilesAdded int
	BytesRemoved, BytesAdded int64
	// VectorsRemoved are the replaced files that had a deletion vector, and RowsPurged
	// the deleted rows that are in no file any more.
	VectorsRemoved int
	RowsPurged     int64
	// Rows were written; RowsCopied of them without decoding.
	Rows, RowsCopied int64
	// RowsFollowed are rows that other writers deleted meanwhile, and that were deleted
	// in the outputs too.
	RowsFollowed int64
	// Conflicts is how often another writer's commit came first, and Replanned how
	// many bins had to be planned anew for that.
	Conflicts, Replanned int
	// Left are the files that would have been replaced but for Options.Leave.
	Left      int
	LeftBytes int64
}
