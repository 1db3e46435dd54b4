package main

import (
	"cmp"
	"io"
	"iter"
	"path/filepath"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/output"
)

// rowFormat is the format of a file of rows: that of --format, else what its name ends in.
func (a *app) rowFormat(path string) (string, error) {
	ending := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
	switch ending {
	case "ndjson":
		ending = output.JSONL
	case "feather":
		ending = output.Arrow
	}
	switch format := cmp.Or(a.flags.format, ending); format {
	case output.Parquet, output.Arrow, output.CSV, output.JSON, output.JSONL, output.Table:
		return format, nil
	case "":
		return "", usagef("--output %s: the name has no ending that says the format: give --format parquet, arrow, csv, json or jsonl", path)
	default:
		return "", usagef("--output %s: %q is no format for a file: use parquet, arrow, csv, json or jsonl", path, format)
	}
}

// printRows prints rows to standard output, or writes them to a file, which appears when
// it is whole and replaces what was there. After an error there is no file.
func (a *app) printRows(path string, columns []schema.Field, rows iter.Seq2[[]schema.Value, error]) error {
	if path == "" {
		w, err := output.NewWriter(a.flags.format, a.stdout, columns)
		if err != nil {
			return err
		}
		_, err = copyRows(w, rows)
		return err
	}
	format, err := a.rowFormat(path)
	if err != nil {
		return err
	}
	var n int64
	err = writeWhole(path, func(file io.Writer) error {
		w, err := newFileWriter(format, file, columns)
		if err == nil {
			n, err = copyRows(w, rows)
		}
		return err
	})
	if err != nil {
		return err
	}
	a.noticef("%s: rows written: %d", path, n)
	return nil
}

func newFileWriter(format string, w io.Writer, columns []schema.Field) (output.Writer, error) {
	switch format {
	case output.Parquet:
		return output.NewParquetWriter(w, columns)
	case output.Arrow:
		return output.NewArrowWriter(w, columns)
	}
	return output.NewWriter(format, w, columns)
}

func copyRows(w output.Writer, rows iter.Seq2[[]schema.Value, error]) (n int64, err error) {
	for row, err := range rows {
		if err != nil {
			return n, err
		}
		if err := w.Write(row); err != nil {
			return n, err
		}
		n++
	}
	return n, w.Close()
}
