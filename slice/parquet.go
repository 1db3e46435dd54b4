package slice

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
)

// parquetFile is a Parquet file.
type parquetFile struct{ at Place }

func (p parquetFile) Name() string { return p.at.Name }

func (p parquetFile) Open(ctx context.Context, _ *schema.Schema) (ingest.SliceRows, error) {
	var out ingest.SliceRows
	file, err := p.at.open()
	if err != nil {
		return out, err
	}
	defer file.Close()
	f, err := p.read(file)
	if err != nil {
		return out, err
	}
	if out.Columns, err = f.Fields(); err != nil {
		return out, fmt.Errorf("%w: %s: %w", ingest.ErrSlice, p.at.Name, err)
	}
	out.Rows = func(yield func([]schema.Value, error) bool) {
		file, err := p.at.open()
		if err != nil {
			yield(nil, err)
			return
		}
		defer file.Close()
		f, err := p.read(file)
		if err != nil {
			yield(nil, err)
			return
		}
		columns := make([]parquet.Column, len(out.Columns))
		for i := range out.Columns {
			columns[i] = parquet.ColumnOf(&out.Columns[i])
		}
		row := make([]schema.Value, len(columns))
		n := int64(0)
		for b, err := range f.Scan(ctx, columns, parquet.ScanOptions{}) {
			if err != nil {
				yield(nil, fmt.Errorf("read %s, behind row %d: %w", p.at.Name, n, err))
				return
			}
			for i := range b.Rows {
				for c := range row {
					row[c] = b.Columns[c][i]
				}
				if n++; !yield(row, nil) {
					return
				}
			}
		}
		if n != f.NumRows() {
			yield(nil, incomplete(p.at.Name, "its footer says %d rows, and %d are there", f.NumRows(), n))
		}
	}
	return out, nil
}

// read reads the footer: a file that is cut off has none, or one that points past its end.
func (p parquetFile) read(file fs.File) (*parquet.File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	from, ok := file.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("%s can't be read at any place, as a Parquet file must", p.at.Name)
	}
	f, err := parquet.Open(from, info.Size())
	if err != nil {
		return nil, incomplete(p.at.Name, "its footer can't be read, so it is cut off, damaged or no Parquet file: %s", err)
	}
	return f, nil
}
