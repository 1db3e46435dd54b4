package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// bin is files of one partition whose rows are written anew together.
type bin struct {
	partition partition
	files     []*action.Add
	// uniform: all files have extra columns, or none has.
	uniform bool
}

// partition is the values that the rows of a file share.
type partition struct {
	folder string // with its slash, "" where the table has none
	values map[string]*string
}

func (b *bin) bytes() (n int64) {
	for _, add := range b.files {
		n += add.Size
	}
	return n
}

// partitionOf gives the partition of a file. Values are taken from the log alone.
func partitionOf(s *delta.Snapshot, add *action.Add) partition {
	p := partition{values: add.PartitionValues}
	if p.values == nil {
		p.values = map[string]*string{}
	}
	var folder strings.Builder
	for _, name := range s.Metadata().PartitionColumns {
		stored := name
		if at := s.Schema().Index(name); at >= 0 {
			stored = s.Schema().Fields[at].Stored()
		}
		folder.WriteString(action.PartitionFolder(stored, p.values[stored]))
		folder.WriteByte('/')
	}
	p.folder = folder.String()
	return p
}

// plan picks the files to write anew. only, where it is not nil, names the folders of
// the partitions to look at.
func (o *Options) plan(s *delta.Snapshot, only map[string]bool, report *Report) ([]*bin, error) {
	byFolder := map[string]*bin{}
	takes, err := o.partitionFilter(s)
	if err != nil {
		return nil, err
	}
	for _, add := range s.Files() {
		p := partitionOf(s, add)
		if only != nil && !only[p.folder] {
			continue
		}
		ok, err := takes(add)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		b := byFolder[p.folder]
		if b == nil {
			b = &bin{partition: p}
			byFolder[p.folder] = b
		}
		b.files = append(b.files, add)
	}
	folders := make([]string, 0, len(byFolder))
	for folder := range byFolder {
		folders = append(folders, folder)
	}
	slices.Sort(folders)
	var bins []*bin
	for _, folder := range folders {
		bins = append(bins, o.planPartition(byFolder[folder], report)...)
	}
	return bins, nil
}

// partitionFilter gives what tells of a file that Where takes its partition.
func (o *Options) partitionFilter(s *delta.Snapshot) (func(*action.Add) (bool, error), error) {
	if o.Where == nil {
		return func(*action.Add) (bool, error) { return true, nil }, nil
	}
	evaluator := o.Where.NewEvaluator()
	columns := make([][]schema.Value, len(s.Schema().Fields))
	return func(add *action.Add) (bool, error) {
		for _, c := range o.Where.Columns() {
			f := &s.Schema().Fields[c]
			v, err := action.ParsePartitionValue(add.PartitionValues[f.Stored()], f.Type)
			if err != nil {
				return false, fmt.Errorf("%s, partition column %s: %w", add.Path, f.Name, err)
			}
			columns[c] = []schema.Value{v}
		}
		return len(evaluator.Select(columns, []int32{0})) == 1, nil
	}, nil
}

// planPartition makes the bins of a partition.
func (o *Options) planPartition(all *bin, report *Report) []*bin {
	leave := func(add *action.Add) bool {
		if !o.Leave(add) {
			return false
		}
		report.Left++
		report.LeftBytes += add.Size
		return true
	}
	if len(o.OrderBy) > 0 {
		files := slices.DeleteFunc(slices.Clone(all.files), leave)
		if o.clustered {
			files = o.unclustered(files)
		}
		if len(files) == 0 {
			return nil
		}
		return []*bin{{partition: all.partition, files: files}}
	}
	var bins []*bin
	open := &bin{partition: all.partition}
	var filled int64
	end := func() {
		if o.worthWhile(open) {
			bins = append(bins, open)
		}
		open, filled = &bin{partition: all.partition}, 0
	}
	for _, add := range all.files {
		purge := o.purges(add)
		if !purge && (o.PurgeOnly || add.Size >= o.SmallSize) || leave(add) {
			continue
		}
		live := int64(float64(add.Size) * (1 - deadShare(add)))
		if len(open.files) > 0 && filled+live > o.TargetSize {
			end()
		}
		open.files = append(open.files, add)
		filled += live
	}
	end()
	return bins
}

// lopsided is how many times larger a file may be than all that is joined with it:
// past that, its rows would be written anew for the sake of a few.
const lopsided = 4

// worthWhile drops from a bin what is not worth being written anew, and tells whether
// anything is left.
func (o *Options) worthWhile(b *bin) bool {
	largest := -1
	for i, add := range b.files {
		if !o.purges(add) && (largest < 0 || add.Size > b.files[largest].Size) {
			largest = i
		}
	}
	if largest >= 0 && b.files[largest].Size > lopsided*(b.bytes()-b.files[largest].Size) {
		b.files = slices.Delete(b.files, largest, largest+1)
	}
	return len(b.files) > 1 || len(b.files) == 1 && o.purges(b.files[0])
}

// purges tells that the deleted rows of a file are reason enough.
func (o *Options) purges(add *action.Add) bool {
	return add.DeletionVector != nil && o.PurgeShare >= 0 && deadShare(add) > o.PurgeShare
}

// deadShare is the share of rows that a file's deletion vector hides; 1 where the
// number of rows is not known.
func deadShare(add *action.Add) float64 {
	if add.DeletionVector == nil {
		return 0
	}
	rows, known := stats.NumRecords(add.Stats)
	if !known || rows <= 0 {
		return 1
	}
	return min(1, float64(add.DeletionVector.Cardinality)/float64(rows))
}
