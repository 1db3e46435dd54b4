package scan

import (
	"slices"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// planFiles leaves out the files that can't have a matching row by partition
// values and statistics. Statistics that can't be read say nothing.
func (s *Scan) planFiles() error {
	s.files = s.snapshot.Files()
	if s.options.Where == nil {
		return nil
	}
	all := s.files
	s.files = nil
	for _, add := range all {
		skip, err := s.canSkip(add)
		if err != nil {
			return err
		}
		if !skip {
			s.files = append(s.files, add)
		}
	}
	return nil
}

// canSkip tells that a file can't have a row that passes the filter.
func (s *Scan) canSkip(add *action.Add) (bool, error) {
	partitions, err := s.partitionBounds(add)
	if err != nil {
		return false, err
	}
	known := fileBounds(add, s.filtered)
	return s.options.Where.CanSkip(func(c expr.Column) expr.Bounds {
		if b, ok := partitions[c.Place]; ok {
			return b
		}
		return known(c.Names(s.schema)...)
	}), nil
}

// fileBounds gives what the statistics of a file say of columns, and of fields in them.
func fileBounds(add *action.Add, columns *schema.Schema) func(path ...string) expr.Bounds {
	known, err := stats.Parse(add.Stats, columns)
	if err != nil {
		known = &stats.FileStatistics{NumRecords: -1}
	}
	return func(path ...string) expr.Bounds {
		b := known.Bounds(path...)
		return boundsOf(b.Min, b.Max, b.NullCount, known.NumRecords)
	}
}

// CanSkipFile tells, by a file's statistics in the log, that no row of it passes a
// filter on the columns of a schema, none of which is a partition column. Statistics
// that can't be read say nothing.
func CanSkipFile(add *action.Add, s *schema.Schema, where *expr.Predicate) bool {
	known := fileBounds(add, s)
	return where.CanSkip(func(c expr.Column) expr.Bounds { return known(c.Names(s)...) })
}

// CanSkipRowGroup tells the same of a row group, by the statistics in the file.
func CanSkipRowGroup(file *parquet.File, group int, s *schema.Schema, where *expr.Predicate) bool {
	return where.CanSkip(func(c expr.Column) expr.Bounds { return GroupBounds(file, group, c.Path(s)) })
}

// GroupBounds gives what is known of a column in a row group, or of a field of the
// structs before it in the path.
func GroupBounds(file *parquet.File, group int, path []schema.Field) expr.Bounds {
	b := file.RowGroupBounds(group, physical(path)...)
	return boundsOf(b.Min, b.Max, b.NullCount, file.RowGroupRows(group))
}

// partitionBounds gives what is known of the partition columns that are needed.
func (s *Scan) partitionBounds(add *action.Add) (map[int]expr.Bounds, error) {
	if len(s.partitions) == 0 {
		return nil, nil
	}
	bounds := make(map[int]expr.Bounds, len(s.partitions))
	for _, c := range s.partitions {
		v, err := PartitionValue(add, s.schema.Fields[c])
		if err != nil {
			return nil, err
		}
		bounds[c] = expr.Value(v)
	}
	return bounds, nil
}

// boundsOf puts bounds together; nulls and rows are -1 where they are not known.
func boundsOf(low, high schema.Value, nulls, rows int64) expr.Bounds {
	return expr.Bounds{Min: low, Max: high, NoNulls: nulls == 0, AllNulls: nulls >= 0 && nulls == rows}
}

// skipper tells what of a file can't have a matching row.
type skipper struct {
	scan       *Scan
	file       *parquet.File
	partitions map[int]expr.Bounds
}

// skipper makes the one of a file; nil where there is no filter.
func (s *Scan) skipper(add *action.Add, file *parquet.File) (*skipper, error) {
	if s.options.Where == nil {
		return nil, nil
	}
	partitions, err := s.partitionBounds(add)
	return &skipper{s, file, partitions}, err
}

// known gives what is known of a column that is not read from the file.
func (k *skipper) known(c expr.Column) (expr.Bounds, bool) {
	if b, ok := k.partitions[c.Place]; ok {
		return b, true
	}
	return expr.Bounds{}, !slices.Contains(k.scan.data, c.Place)
}

// group tells by the statistics in the file that a row group has no matching row. Of a
// file with one row group its statistics in the log have said as much.
func (k *skipper) group(group int) bool {
	return k != nil && k.file.NumRowGroups() > 1 && k.scan.options.Where.CanSkip(func(c expr.Column) expr.Bounds {
		if b, ok := k.known(c); ok {
			return b
		}
		return GroupBounds(k.file, group, c.Path(k.scan.schema))
	})
}

// rows is MatchingRows of a row group.
func (k *skipper) rows(group int) []parquet.RowRange {
	if k == nil {
		return nil
	}
	return MatchingRows(k.file, group, k.scan.schema, k.scan.options.Where, k.known)
}
