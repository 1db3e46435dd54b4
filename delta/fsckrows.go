package delta

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/stats"
)

// footersAtOnce is how many footers are asked for at the same time.
const footersAtOnce = 16

// CheckRows compares the rows of each data file of a version with its statistics, by the
// file's footer: one or two requests each. Of a file whose statistics don't say it looks
// only whether there is a footer. Faults (WrongRows, UnreadableFile) come by kind and key;
// files that are missing, or outside of what the store leads to, are passed over.
func (t *Table) CheckRows(ctx context.Context, s *Snapshot) ([]FileFault, error) {
	there := map[string]objstore.Object{}
	for object, err := range t.store.List(ctx, "", "") {
		if err != nil {
			return nil, fmt.Errorf("check the rows of version %d of %s: %w", s.version, t.store, err)
		}
		if !strings.HasPrefix(object.Key, deltalog.Dir) {
			there[object.Key] = object
		}
	}
	files := s.Files()
	var mu sync.Mutex
	var faults []FileFault
	err := objstore.InParallel(ctx, len(files), footersAtOnce, func(ctx context.Context, i int) error {
		f, ok, err := t.checkRows(ctx, files[i], there)
		if ok {
			mu.Lock()
			faults = append(faults, f)
			mu.Unlock()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check the rows of version %d of %s: %w", s.version, t.store, err)
	}
	sortFaults(faults)
	return faults, nil
}

func sortFaults(faults []FileFault) {
	slices.SortFunc(faults, func(a, b FileFault) int {
		if n := strings.Compare(string(a.Kind), string(b.Kind)); n != 0 {
			return n
		}
		return strings.Compare(a.Key, b.Key)
	})
}

func (t *Table) checkRows(ctx context.Context, add *action.Add, there map[string]objstore.Object) (f FileFault, wrong bool, err error) {
	key, size, err := t.sizeOf(ctx, add.Path, there)
	if errors.Is(err, ErrAbsolutePath) || err == nil && size < 0 {
		return f, false, nil
	}
	if err != nil {
		return f, false, err
	}
	file, err := t.openData(ctx, add.Path, size)
	switch {
	case errors.Is(err, objstore.ErrNotExist): // gone since
		return f, false, nil
	case isBroken(err):
		return FileFault{UnreadableFile, key, add.Path, size, add.Size}, true, nil
	case err != nil:
		return f, false, err
	}
	if rows, known := stats.NumRecords(add.Stats); known && rows != file.NumRows() {
		return FileFault{WrongRows, key, add.Path, file.NumRows(), rows}, true, nil
	}
	return f, false, nil
}

// openData opens a data file that has a size, whatever the log says of it.
func (t *Table) openData(ctx context.Context, path string, size int64) (*parquet.File, error) {
	store, key, err := Locate(t.store, path)
	if err != nil {
		return nil, err
	}
	return parquet.Open(objstore.NewReaderAt(ctx, store, key, size), size)
}

// isBroken tells that a file is not what it should be from trouble in reading it.
func isBroken(err error) bool {
	for _, of := range []error{parquet.ErrCorrupt, parquet.ErrUnsupported, parquet.ErrColumnType, parquet.ErrNestedColumn, io.ErrUnexpectedEOF} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// RestateFiles says anew, in a commit FSCK, how large the data files are of which the log
// says a wrong size or number of rows, where that is safe: the file is a whole Parquet file,
// every row of which can be read. Its rows then are what the file has; of its statistics
// only their number is left. A file under a deletion vector is left alone where its size is
// wrong or the vector has more rows than it, and one with row numbers (row tracking) is
// always. It gives the version, -1 where nothing was committed, and the faults that were
// mended. The error wraps ErrConflict where another commit came first: ask again.
func (t *Table) RestateFiles(ctx context.Context) (version int64, mended []FileFault, err error) {
	s, err := t.Snapshot(ctx)
	if err != nil {
		return -1, nil, err
	}
	sizes, err := t.CheckFiles(ctx, s, false)
	if err != nil {
		return -1, nil, err
	}
	rows, err := t.CheckRows(ctx, s)
	if err != nil {
		return -1, nil, err
	}
	tx := NewTransaction(t, s)
	tx.Implements(rowFeatures...)
	tx.Restates = true
	done := map[string]bool{}
	for _, f := range slices.Concat(sizes, rows) {
		add, ok := s.File(f.Path)
		if !ok || f.Kind != WrongSize && f.Kind != WrongRows || add.BaseRowID != nil {
			continue
		}
		if done[f.Path] {
			mended = append(mended, f)
			continue
		}
		again, ok, err := t.restated(ctx, add, f)
		if err != nil {
			return -1, nil, fmt.Errorf("restate files of %s: %w", t.store, err)
		}
		if ok {
			tx.Add(again)
			done[f.Path], mended = true, append(mended, f)
		}
	}
	if len(done) == 0 {
		return -1, nil, nil
	}
	tx.SetCommitInfo("FSCK", map[string]string{"dryRun": "false"}, map[string]string{"numRestatedFiles": fmt.Sprint(len(done))}, nil)
	outcome, err := tx.Commit(ctx)
	if err != nil {
		return -1, nil, err
	}
	if !outcome.Committed {
		return -1, nil, fmt.Errorf("restate files of %s: %w: %s", t.store, ErrConflict, outcome.Conflict)
	}
	return outcome.Version, mended, nil
}

// restated gives the add of a file by what the file is; ok is false where that is not safe.
func (t *Table) restated(ctx context.Context, add *action.Add, f FileFault) (again *action.Add, ok bool, err error) {
	_, size, err := t.sizeOf(ctx, add.Path, nil)
	if err != nil || size < 0 || f.Kind == WrongSize && size == add.Size { // it is the vector's
		return nil, false, err
	}
	rows, err := t.countRows(ctx, add.Path, size)
	if isBroken(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	copied := *add
	copied.Size, copied.DataChange = size, false
	copied.Stats = fmt.Sprintf(`{"numRecords":%d}`, rows)
	if d := add.DeletionVector; d != nil {
		if size != add.Size || d.Cardinality > rows {
			return nil, false, nil
		}
		copied.Stats = fmt.Sprintf(`{"numRecords":%d,"tightBounds":false}`, rows)
	}
	return &copied, true, nil
}

// countRows reads every cell of a file.
func (t *Table) countRows(ctx context.Context, path string, size int64) (rows int64, err error) {
	file, err := t.openData(ctx, path, size)
	if err != nil {
		return 0, err
	}
	fields, err := file.Fields()
	if err != nil {
		return 0, err
	}
	columns := make([]parquet.Column, len(fields))
	for i, field := range fields {
		columns[i] = parquet.Column{Name: field.Name, Type: field.Type}
	}
	for batch, err := range file.Scan(ctx, columns, parquet.ScanOptions{}) {
		if err != nil {
			return 0, err
		}
		rows += int64(batch.Rows)
	}
	if rows != file.NumRows() {
		return 0, fmt.Errorf("%w: its footer says %d rows, %d are there", parquet.ErrCorrupt, file.NumRows(), rows)
	}
	return rows, nil
}
