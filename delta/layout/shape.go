package layout

import (
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/stats"
)

// Shape says how the rows of a version lie in its files, as far as the log knows.
type Shape struct {
	Partitions, Files int
	// Bytes are those of the data files, LiveBytes the share of them that rows take which
	// no deletion vector hides.
	Bytes, LiveBytes int64
	// Rows are live, DeletedRows hidden; rows of files that don't say how many they have
	// are in neither.
	Rows, DeletedRows int64
	// TargetSize is the size of file that Optimize writes, and SmallFiles are those that it
	// would join with others, with SmallBytes in all.
	TargetSize int64
	SmallFiles int
	SmallBytes int64
	// Fewest is how many files of the target size the live bytes would fill, each partition
	// by itself.
	Fewest int
}

// DeletedShare is the share of rows that deletion vectors hide; 0 where there are none.
func (s Shape) DeletedShare() float64 {
	return share(float64(s.DeletedRows), float64(s.Rows+s.DeletedRows))
}

// LiveShare is the share of bytes that live rows take; 1 where there are none.
func (s Shape) LiveShare() float64 { return 1 - share(float64(s.Bytes-s.LiveBytes), float64(s.Bytes)) }

func share(part, of float64) float64 {
	if of == 0 {
		return 0
	}
	return part / of
}

// ShapeOf looks at the files of a version. target is the size of the files to write, 0 for
// that of Options.TargetSize.
func ShapeOf(s *delta.Snapshot, target int64) (Shape, error) {
	o, err := Options{TargetSize: target}.resolved(s)
	if err != nil {
		return Shape{}, err
	}
	shape := Shape{TargetSize: o.TargetSize}
	live := map[string]int64{}
	for _, add := range s.Files() {
		dead := DeadShare(add)
		bytes := int64(float64(add.Size) * (1 - dead))
		shape.Files++
		shape.Bytes += add.Size
		shape.LiveBytes += bytes
		if add.Size < o.SmallSize {
			shape.SmallFiles++
			shape.SmallBytes += add.Size
		}
		live[partitionOf(s, add).folder] += bytes
		if rows, known := stats.NumRecords(add.Stats); known {
			hidden := int64(0)
			if add.DeletionVector != nil {
				hidden = min(rows, add.DeletionVector.Cardinality)
			}
			shape.Rows += rows - hidden
			shape.DeletedRows += hidden
		}
	}
	shape.Partitions = len(live)
	for _, bytes := range live {
		shape.Fewest += int((bytes + o.TargetSize - 1) / o.TargetSize)
	}
	return shape, nil
}

// Unclustered gives the share of the bytes of a clustered table that lie in files which
// were not laid out by the columns that it is clustered by now, and these columns; none
// for a table that is not clustered.
func Unclustered(s *delta.Snapshot) (part float64, columns []string, err error) {
	o, err := Options{}.resolved(s)
	if err != nil || !o.clustered {
		return 0, nil, err
	}
	var loose, all int64
	for _, add := range s.Files() {
		all += add.Size
		if cube := add.Tags[tagCube]; cube == "" || jsonList(cubeOrder(add)...) != jsonList(o.OrderBy...) {
			loose += add.Size
		}
	}
	return share(float64(loose), float64(all)), o.OrderBy, nil
}

// DeadShare is the share of rows that a file's deletion vector hides; 1 where the number of
// rows is not known.
func DeadShare(add *action.Add) float64 { return deadShare(add) }
