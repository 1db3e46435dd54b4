package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/output"
)

// ErrExists: there is something where the rows are to go.
var ErrExists = errors.New("there is something already")

// Success is the object that says that a folder is whole.
const Success = "_SUCCESS"

// Formats are those that files are written in, by their endings.
func Formats() []string { return []string{output.Parquet, output.CSV, output.JSONL} }

// FormatOf is the format that a name of a file ends in, "" where it is none.
func FormatOf(name string) string {
	at := strings.LastIndexByte(name, '.')
	ending := strings.ToLower(name[at+1:])
	switch {
	case at < 0:
		return ""
	case ending == "ndjson":
		return output.JSONL
	case slices.Contains(Formats(), ending):
		return ending
	}
	return ""
}

// Options say what is written where.
type Options struct {
	// Format is one of Formats.
	Format string
	// File is the key of the one file to write; "": parts of a folder, which is the store.
	File string
	// PartBytes is the size from which on a new part is begun, bytes; 0: one part.
	// Parts are larger by up to a row group.
	PartBytes int64
}

// Report says what was written.
type Report struct {
	Files       int
	Rows, Bytes int64
}

// Write writes rows with the columns of a table. The error wraps ErrExists, what rows
// gave or what the store says; then nothing of the run is left, as far as the store lets.
func Write(ctx context.Context, to objstore.Store, o Options, columns []schema.Field, rows iter.Seq2[[]schema.Value, error]) (*Report, error) {
	w := &writing{ctx: ctx, store: to, Options: o, columns: columns, run: uuid.NewString()[:8], report: &Report{}}
	if err := w.checkFree(); err != nil {
		return nil, err
	}
	if err := w.write(rows); err != nil {
		w.undo()
		return nil, err
	}
	return w.report, nil
}

// writing is one run.
type writing struct {
	Options
	ctx     context.Context
	store   objstore.Store
	columns []schema.Field
	run     string
	report  *Report
	done    []string // keys of whole files
	said    bool     // Success may be there

	// Of the file that is being written, nil between two.
	key  string
	file *counting
	rows output.Writer
}

// counting is an object in the making and its bytes so far.
type counting struct {
	objstore.Writer
	bytes int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes += int64(n)
	return n, err
}

var _ io.Writer = (*counting)(nil)

func (w *writing) checkFree() error {
	if w.File != "" {
		switch _, err := w.store.Head(w.ctx, w.File); {
		case errors.Is(err, objstore.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("look at %s in %s: %w", w.File, w.store, err)
		}
		return fmt.Errorf("%w: %s in %s; give another address, or remove it", ErrExists, w.File, w.store)
	}
	for object, err := range w.store.List(w.ctx, "", "") {
		if err != nil {
			return fmt.Errorf("look at %s: %w", w.store, err)
		}
		if isPart.MatchString(object.Key) {
			switch _, err := w.store.Head(w.ctx, Success); {
			case errors.Is(err, objstore.ErrNotExist):
				return fmt.Errorf("%w in %s: %s, of an export that did not come to its end, or still runs: there is no %s; remove it, or give another address", ErrExists, w.store, object.Key, Success)
			case err != nil:
				return fmt.Errorf("look at %s in %s: %w", Success, w.store, err)
			}
		}
		return fmt.Errorf("%w in %s: %s; give an address with nothing below it", ErrExists, w.store, object.Key)
	}
	return nil
}

// isPart matches the names that begin gives.
var isPart = regexp.MustCompile(`^part-\d{5}-[0-9a-f]{8}\.[a-z]+$`)

func (w *writing) write(rows iter.Seq2[[]schema.Value, error]) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		if w.rows != nil && w.PartBytes > 0 && w.File == "" && w.file.bytes >= w.PartBytes {
			if err := w.end(); err != nil {
				return err
			}
		}
		if w.rows == nil {
			if err := w.begin(); err != nil {
				return err
			}
		}
		if err := w.rows.Write(row); err != nil {
			return fmt.Errorf("write %s in %s: %w", w.key, w.store, err)
		}
		w.report.Rows++
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	// No rows are a file too: it has the columns.
	if w.rows == nil && w.report.Files == 0 {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if w.rows != nil {
		if err := w.end(); err != nil {
			return err
		}
	}
	if w.File != "" {
		return nil
	}
	w.said = true
	if err := w.store.Put(w.ctx, Success, nil); err != nil {
		return fmt.Errorf("write %s in %s: %w", Success, w.store, err)
	}
	return nil
}

func (w *writing) begin() error {
	w.key = w.File
	if w.key == "" {
		w.key = fmt.Sprintf("part-%05d-%s.%s", w.report.Files, w.run, w.Format)
	}
	w.file = &counting{Writer: objstore.Create(w.ctx, w.store, w.key)}
	var err error
	if w.Format == output.Parquet {
		w.rows, err = output.NewParquetWriter(w.file, w.columns)
	} else {
		w.rows, err = output.NewWriter(w.Format, w.file, w.columns)
	}
	return err
}

func (w *writing) end() error {
	err := w.rows.Close()
	if err == nil {
		err = w.file.Commit()
	}
	if err != nil {
		return fmt.Errorf("write %s in %s: %w", w.key, w.store, err)
	}
	w.done = append(w.done, w.key)
	w.report.Files++
	w.report.Bytes += w.file.bytes
	w.file, w.rows = nil, nil
	return nil
}

// undo removes what the run has written; what can't be removed has no _SUCCESS beside it.
func (w *writing) undo() {
	if w.file != nil {
		w.file.Abort()
	}
	ctx := context.WithoutCancel(w.ctx)
	// Its answer may have been lost: a folder must not say that it is whole, and lack its parts.
	if w.said && w.store.Delete(ctx, Success) != nil {
		return
	}
	for _, key := range w.done {
		_ = w.store.Delete(ctx, key)
	}
}
