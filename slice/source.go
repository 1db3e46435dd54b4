package slice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
)

// ErrFormat: what a file is was not said, and its name does not tell.
var ErrFormat = errors.New("the format of the file is not known")

// ErrLabel: a name, or a value of a column, has no label, or several have one.
var ErrLabel = errors.New("the label is not known")

// Source is where a slice's rows are.
type Source interface {
	// Name is for messages and evidence; it has no credentials.
	Name() string
	// Open begins to read the rows. columns are those of the table, nil for one that is
	// yet to be made.
	Open(ctx context.Context, columns *schema.Schema) (ingest.SliceRows, error)
}

// Format is how a file has its rows.
type Format string

// The formats.
const (
	Auto    Format = ""
	Parquet Format = "parquet"
	CSV     Format = "csv"
	JSON    Format = "jsonl"
)

// FileOptions say how files are read.
type FileOptions struct {
	// Format is Auto where the name of the file tells it.
	Format Format
	// Declared are types of columns that the table does not have yet.
	Declared map[string]schema.Type
	// Unended takes a last line of a CSV file that no line end closes.
	Unended bool
	// Delimiter of a CSV file, 0 for a comma.
	Delimiter byte
}

// Place is a file or a folder, and what it is called in messages.
type Place struct {
	In   fs.FS
	Path string
	Name string
}

// Local is a place on this machine.
func Local(name string) (Place, error) {
	whole, err := filepath.Abs(name)
	if err != nil {
		return Place{}, err
	}
	dir, base := filepath.Split(whole)
	if base == "" {
		base = "."
	}
	return Place{os.DirFS(dir), base, name}, nil
}

// HasFolder reports whether the place is a folder with one of that name in it.
func (p Place) HasFolder(name string) bool {
	info, err := fs.Stat(p.In, p.inside(name).Path)
	return err == nil && info.IsDir()
}

// inside is a place directly below a folder.
func (p Place) inside(entry string) Place {
	return Place{p.In, path.Join(p.Path, entry), strings.TrimRight(p.Name, "/") + "/" + entry}
}

// OpenFile gives the source of a file, or of a folder of files that are one slice: those
// whose names do not begin with . or _, in the order of their names.
func OpenFile(at Place, o FileOptions) (Source, error) {
	info, err := fs.Stat(at.In, at.Path)
	if err != nil {
		return nil, at.fault(err)
	}
	if !info.IsDir() {
		return fileOf(at, o)
	}
	entries, err := fs.ReadDir(at.In, at.Path)
	if err != nil {
		return nil, at.fault(err)
	}
	var parts []Source
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") || e.IsDir() {
			continue
		}
		part, err := fileOf(at.inside(e.Name()), o)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: the folder %s has no file of rows", ingest.ErrIncompleteSlice, at.Name)
	}
	return Files(at.Name, parts...), nil
}

// fault names the place as messages call it.
func (p Place) fault(err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		return &fs.PathError{Op: inner.Op, Path: p.Name, Err: inner.Err}
	}
	return fmt.Errorf("%s: %w", p.Name, err)
}

func (p Place) open() (fs.File, error) {
	f, err := p.In.Open(p.Path)
	if err != nil {
		return nil, p.fault(err)
	}
	return f, nil
}

func fileOf(at Place, o FileOptions) (Source, error) {
	format := o.Format
	if format == Auto {
		format = FormatOf(at.Path)
	}
	switch format {
	case Parquet:
		return parquetFile{at}, nil
	case CSV:
		return &csvFile{at, o}, nil
	case JSON:
		return &jsonFile{at, o}, nil
	}
	return nil, fmt.Errorf("%w: %s; give it with --input-format parquet, csv or jsonl", ErrFormat, at.Name)
}

// FormatOf tells a format by a name, without .gz and .zst; Auto where it does not.
func FormatOf(name string) Format {
	name = strings.ToLower(name)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch filepath.Ext(name) {
	case ".parquet":
		return Parquet
	case ".csv":
		return CSV
	case ".jsonl", ".ndjson", ".json":
		return JSON
	}
	return Auto
}

// Files makes one source of several; their columns are those of all.
func Files(name string, parts ...Source) Source {
	if len(parts) == 1 {
		return parts[0]
	}
	return &several{name, parts}
}

type several struct {
	name  string
	parts []Source
}

func (s *several) Name() string { return s.name }

// Open opens each part in its turn: the columns are known from a first look at all.
func (s *several) Open(ctx context.Context, columns *schema.Schema) (ingest.SliceRows, error) {
	var out ingest.SliceRows
	at := map[string]int{}
	opened := make([]ingest.SliceRows, len(s.parts))
	for n, part := range s.parts {
		in, err := part.Open(ctx, columns)
		if err != nil {
			return out, err
		}
		opened[n] = in
		for _, f := range in.Columns {
			i, there := at[f.Name]
			switch {
			case !there:
				at[f.Name] = len(out.Columns)
				out.Columns = append(out.Columns, f)
			case out.Columns[i].Type.Primitive == schema.Void:
				out.Columns[i].Type = f.Type
			case f.Type.Primitive != schema.Void && f.Type.String() != out.Columns[i].Type.String():
				return out, fmt.Errorf("%w: the column %s is %s in %s, and %s in a file before it", ingest.ErrSlice, f.Name, f.Type, part.Name(), out.Columns[i].Type)
			}
		}
	}
	for n, in := range opened {
		if len(in.Columns) != len(out.Columns) {
			for _, f := range out.Columns {
				if !slices.ContainsFunc(in.Columns, func(g schema.Field) bool { return g.Name == f.Name }) {
					return out, fmt.Errorf("%w: the file %s lacks the column %s, which another one of the slice has", ingest.ErrSlice, s.parts[n].Name(), f.Name)
				}
			}
		}
	}
	out.Rows = func(yield func([]schema.Value, error) bool) {
		row := make([]schema.Value, len(out.Columns))
		for _, in := range opened {
			for cells, err := range in.Rows {
				if err != nil {
					yield(nil, err)
					return
				}
				for i, f := range in.Columns {
					row[at[f.Name]] = cells[i]
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
	return out, nil
}

// incomplete is an error of what is cut off.
func incomplete(name, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ingest.ErrIncompleteSlice, name, fmt.Sprintf(format, args...))
}
