package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// batchRows is how many rows of a file are decoded at once, fewer where they are long.
const batchRows = 4096

// rowsAtOnce gives how many rows to decode at once, so that they take some
// megabytes however long they are.
func rowsAtOnce(bytes, rows int64) int {
	const target = 2 << 20 // of the file: several times that in memory
	if bytes <= 0 || rows <= 0 {
		return batchRows
	}
	return int(min(max(target*rows/bytes, 16), batchRows))
}

// selection is what a filter took of a batch of one file. It is valid until the
// call that got it returns.
type selection struct {
	columns [][]schema.Value // by place in the schema, then Scan.inside; those not asked for are nil
	kept    []int32          // rising
	first   int64            // place in the file of row 0
}

// scanFile reads one file and hands every selection that is not empty to emit,
// in order. errEnough from emit ends it without an error.
func (s *Scan) scanFile(ctx context.Context, index int, emit func(*selection) error) error {
	add := s.files[index]
	err := s.readFile(ctx, add, emit)
	if err == nil || errors.Is(err, errEnough) {
		return nil
	}
	return fmt.Errorf("version %d of %s: %w", s.snapshot.Version(), s.store, err)
}

func (s *Scan) readFile(ctx context.Context, add *action.Add, emit func(*selection) error) error {
	// Rows of the vector past the end of the file hide nothing, as in other engines.
	deleted, err := delta.ReadDeletionVector(ctx, s.store, add)
	if err != nil {
		return FileError(add, err)
	}
	var live func(row uint32) bool
	if deleted != nil {
		live = func(row uint32) bool { return !deleted.Contains(row) }
	}
	return s.readRows(ctx, add, live, emit)
}

// readRows is readFile of the rows of the file, by their places, that are wanted; nil
// wants all.
func (s *Scan) readRows(ctx context.Context, add *action.Add, wanted func(row uint32) bool, emit func(*selection) error) error {
	file, err := OpenFile(ctx, s.store, add)
	if err != nil {
		return err
	}
	rows := &selection{columns: make([][]schema.Value, len(s.schema.Fields)+len(s.inside)), kept: make([]int32, 0, batchRows)}
	if err := s.fillPartitions(add, rows.columns); err != nil {
		return err
	}
	filter := func(sel []int32) []int32 { return sel }
	if s.options.Where != nil {
		evaluator := s.options.Where.NewEvaluator()
		filter = func(sel []int32) []int32 { return evaluator.Select(rows.columns, sel) }
	}
	all := rows.kept
	take := func(first int64, n int) error {
		rows.first, rows.kept = first, all[:0]
		for row := range int32(n) {
			if wanted == nil || wanted(uint32(first+int64(row))) {
				rows.kept = append(rows.kept, row)
			}
		}
		if rows.kept = filter(rows.kept); len(rows.kept) == 0 {
			return nil
		}
		s.fillInside(rows)
		return emit(rows)
	}
	if len(s.data) == 0 { // partition columns alone: the file says only how many rows there are
		for first := int64(0); first < file.NumRows(); first += batchRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := take(first, int(min(batchRows, file.NumRows()-first))); err != nil {
				return err
			}
		}
		return nil
	}
	skip, err := s.skipper(add, file)
	if err != nil {
		return err
	}
	seen := int64(0) // rows that were read or skipped
	options := parquet.ScanOptions{BatchRows: rowsAtOnce(add.Size, file.NumRows())}
	var failed error // in reading the filter's columns
	if skip != nil {
		options.SkipRowGroup = func(group int) bool {
			if !skip.group(group) {
				return false
			}
			seen += file.RowGroupRows(group)
			return true
		}
		first, err := s.newSieve(add, file, wanted, options.BatchRows)
		if err != nil {
			return err
		}
		options.Rows = func(group int) []parquet.RowRange {
			ranges := skip.rows(group)
			if first != nil && failed == nil {
				ranges, failed = first.rows(ctx, group, ranges)
			}
			if ranges != nil {
				seen += file.RowGroupRows(group)
			}
			for _, r := range ranges {
				seen -= r.To - r.From
			}
			return ranges
		}
	}
	columns := s.columns()
	for batch, err := range file.Scan(ctx, columns, options) {
		if err != nil {
			return FileError(add, err)
		}
		if failed != nil {
			break
		}
		for i, c := range s.data {
			rows.columns[c] = batch.Columns[i]
		}
		seen += int64(batch.Rows)
		if err := take(batch.FirstRow, batch.Rows); err != nil {
			return err
		}
	}
	if failed != nil {
		return FileError(add, failed)
	}
	if seen != file.NumRows() {
		return fmt.Errorf("%w: %s gave %d rows of %d", ErrFileMismatch, add.Path, seen, file.NumRows())
	}
	return nil
}

// columns are those to read from files.
func (s *Scan) columns() []parquet.Column {
	columns := make([]parquet.Column, len(s.data))
	for i := range s.data {
		columns[i] = parquet.ColumnOf(&s.fields[i])
	}
	return columns
}

// wholeFile is the size in bytes up to which a file is read by one request.
const wholeFile = 1 << 20

// OpenFile opens a data file of a table and checks that it has the rows that its
// statistics say. A large one is read by ranges: its footer, then the columns that are
// needed, a row group at a time. The error names the file, and wraps ErrFileMissing or
// ErrFileMismatch where it is not as the log says.
func OpenFile(ctx context.Context, store objstore.Store, add *action.Add) (*parquet.File, error) {
	file, err := openFile(ctx, store, add)
	if err != nil {
		return nil, FileError(add, err)
	}
	return file, CheckRows(add, file.NumRows())
}

func openFile(ctx context.Context, store objstore.Store, add *action.Add) (*parquet.File, error) {
	store, key, err := delta.Locate(store, add.Path)
	if err != nil {
		return nil, err
	}
	if add.Size > wholeFile {
		return parquet.Open(objstore.NewReaderAt(ctx, store, key, add.Size), add.Size)
	}
	data, err := store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != add.Size {
		return nil, fmt.Errorf("%w: it has %d bytes, the log says %d", ErrFileMismatch, len(data), add.Size)
	}
	return parquet.OpenBytes(data)
}

// FileError says of an error in reading a file what it means for the table: it wraps
// ErrFileMissing or ErrFileMismatch where the file, or its deletion vector, is not as the
// log says.
func FileError(add *action.Add, err error) error {
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		return fmt.Errorf("%w: %s: %w", ErrFileMissing, add.Path, err)
	case errors.Is(err, ErrFileMismatch):
		return fmt.Errorf("%s: %w", add.Path, err)
	case errors.Is(err, parquet.ErrCorrupt), errors.Is(err, delta.ErrCorrupt), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %s: %w", ErrFileMismatch, add.Path, err)
	}
	return fmt.Errorf("read %s: %w", add.Path, err)
}

// CheckRows compares the rows of a file with its statistics. The error wraps
// ErrFileMismatch.
func CheckRows(add *action.Add, rows int64) error {
	if want, known := stats.NumRecords(add.Stats); known && want != rows {
		return fmt.Errorf("%w: %s has %d rows, its statistics say %d", ErrFileMismatch, add.Path, rows, want)
	}
	return nil
}

// fillPartitions sets the partition columns to the file's values.
func (s *Scan) fillPartitions(add *action.Add, columns [][]schema.Value) error {
	for _, c := range s.partitions {
		v, err := PartitionValue(add, s.schema.Fields[c])
		if err != nil {
			return err
		}
		columns[c] = slices.Repeat([]schema.Value{v}, batchRows)
	}
	return nil
}

// PartitionValue gives the value that every row of a file has in a partition column.
// The error wraps ErrFileMismatch.
func PartitionValue(add *action.Add, column schema.Field) (schema.Value, error) {
	written, ok := add.PartitionValues[column.Stored()]
	if !ok {
		return schema.Value{}, fmt.Errorf("%w: %s has no value of partition column %s", ErrFileMismatch, add.Path, column.Name)
	}
	v, err := action.ParsePartitionValue(written, column.Type)
	if err != nil {
		return v, fmt.Errorf("%w: %s, partition column %s: %w", ErrFileMismatch, add.Path, column.Name, err)
	}
	return v, nil
}
