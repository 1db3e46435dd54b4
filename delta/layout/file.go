package layout

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/stats"
)

// ErrInconsistent: the log and a data file disagree; `gscd check` says more.
var ErrInconsistent = errors.New("log and data file disagree")

// input is a file whose rows are written anew.
type input struct {
	add  *action.Add
	dead *dv.Bitmap // rows that its deletion vector hides; nil for none
	rows int64      // physical
	file *parquet.File
	// gone: another writer has removed it since.
	gone bool
}

func (in *input) isDead(row int64) bool { return in.dead != nil && in.dead.Contains(uint32(row)) }

func (in *input) deadRows() int64 {
	if in.dead == nil {
		return 0
	}
	return in.dead.Cardinality()
}

// readWhole is the size up to which a file is read by one request.
const readWhole = 4 << 20

// openInput reads the footer and the deletion vector of a live file.
func openInput(ctx context.Context, store objstore.Store, add *action.Add) (*input, error) {
	dead, err := delta.ReadDeletionVector(ctx, store, add)
	if err != nil {
		return nil, err
	}
	where, key, err := delta.Locate(store, add.Path)
	if err != nil {
		return nil, err
	}
	in := &input{add: add, dead: dead}
	if add.Size > readWhole {
		in.file, err = parquet.Open(objstore.NewReaderAt(ctx, where, key, add.Size), add.Size)
	} else {
		var data []byte
		if data, err = where.Get(ctx, key); err != nil {
			return nil, fmt.Errorf("open %s: %w", add.Path, err)
		}
		if int64(len(data)) != add.Size {
			return nil, fmt.Errorf("%w: %s has %d bytes, the log says %d", ErrInconsistent, add.Path, len(data), add.Size)
		}
		in.file, err = parquet.Open(bytes.NewReader(data), add.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", add.Path, err)
	}
	in.rows = in.file.NumRows()
	if want, known := stats.NumRecords(add.Stats); known && want != in.rows {
		return nil, fmt.Errorf("%w: %s has %d rows, its statistics say %d", ErrInconsistent, add.Path, in.rows, want)
	}
	if in.rows >= 1<<32 {
		return nil, fmt.Errorf("%w: %s has %d rows, more than a file may have", ErrInconsistent, add.Path, in.rows)
	}
	return in, nil
}

// rowsAtOnce gives how many rows of a file to decode at once, so that they take some
// megabytes however long they are.
func rowsAtOnce(bytes, rows int64) int {
	const most, target = 4096, 2 << 20
	if bytes <= 0 || rows <= 0 {
		return most
	}
	return int(min(max(target*rows/bytes, 16), most))
}
