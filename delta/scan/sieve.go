package scan

import (
	"context"
	"slices"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// sieve reads the columns of a filter ahead of the others, a row group at a time, so that
// of the others only the pages are read in which a row is left. It gives up where too many are.
type sieve struct {
	scan      *Scan
	file      *parquet.File
	wanted    func(row uint32) bool // nil: every row
	batchRows int

	evaluator *expr.Evaluator
	data      []int // places of the filter's columns that are in the file
	fields    []parquet.Column
	columns   [][]schema.Value
	kept      []int32
	dense     bool
}

const (
	// sieveGap is the number of rows between two that are left which are read along.
	sieveGap = 32
	// From sieveSample rows on it is seen whether it is worth while: not where more than one
	// row in sieveShare is left, or more than one stretch of them in about a page's rows.
	sieveSample, sieveShare, sievePage = 16 << 10, 4, 4 << 10
)

// newSieve makes the one of a file; nil where no column is left out by reading the
// filter's first.
func (s *Scan) newSieve(add *action.Add, file *parquet.File, wanted func(row uint32) bool, batchRows int) (*sieve, error) {
	if s.options.Where == nil {
		return nil, nil
	}
	v := &sieve{scan: s, file: file, wanted: wanted, batchRows: batchRows, columns: make([][]schema.Value, len(s.schema.Fields))}
	for _, c := range s.options.Where.Columns() {
		if i := slices.Index(s.data, c); i >= 0 {
			v.data = append(v.data, c)
			v.fields = append(v.fields, parquet.ColumnOf(&s.schema.Fields[c]))
		}
	}
	if len(v.data) == 0 || len(v.data) == len(s.data) {
		return nil, nil
	}
	v.evaluator = s.options.Where.NewEvaluator()
	return v, s.fillPartitions(add, v.columns)
}

// rows narrows ranges of a row group, nil being all of it, to those with rows that the
// filter takes. It gives them back as they are where that leaves out little.
func (v *sieve) rows(ctx context.Context, group int, ranges []parquet.RowRange) ([]parquet.RowRange, error) {
	if v.dense {
		return ranges, nil
	}
	narrow, read, left := []parquet.RowRange{}, 0, 0
	for batch, err := range v.file.Scan(ctx, v.fields, parquet.ScanOptions{
		BatchRows:    v.batchRows,
		SkipRowGroup: func(i int) bool { return i != group },
		Rows:         func(int) []parquet.RowRange { return ranges },
	}) {
		if err != nil {
			return nil, err
		}
		for i, c := range v.data {
			v.columns[c] = batch.Columns[i]
		}
		v.kept = v.kept[:0]
		for row := range int32(batch.Rows) {
			if v.wanted == nil || v.wanted(uint32(batch.FirstRow+int64(row))) {
				v.kept = append(v.kept, row)
			}
		}
		kept := v.evaluator.Select(v.columns, v.kept)
		for _, row := range kept {
			at := batch.FirstRow + int64(row)
			if n := len(narrow); n > 0 && at-narrow[n-1].To <= sieveGap {
				narrow[n-1].To = at + 1
			} else {
				narrow = append(narrow, parquet.RowRange{From: at, To: at + 1})
			}
		}
		read, left = read+batch.Rows, left+len(kept)
		if v.dense = read >= sieveSample && (left > read/sieveShare || len(narrow) > read/sievePage); v.dense {
			return ranges, nil
		}
	}
	return narrow, nil
}
