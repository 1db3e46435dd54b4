package spill

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/gscd-io/gscd/delta/schema"
)

// Dir is a folder of temporary files, which is made with the first of them.
type Dir struct {
	// Parent is where it is made; "" is the system's folder for such files.
	Parent string
	path   string
}

// TempFile makes an empty file for a form of the caller's own, which the caller closes.
func (d *Dir) TempFile() (*os.File, error) {
	if d.path == "" {
		path, err := os.MkdirTemp(d.Parent, "gscd-spill-")
		if err != nil {
			return nil, err
		}
		d.path = path
	}
	return os.CreateTemp(d.path, "rows-")
}

// Close removes all files.
func (d *Dir) Close() error {
	if d.path == "" {
		return nil
	}
	path := d.path
	d.path = ""
	return os.RemoveAll(path)
}

const buffer = 64 << 10

// File is rows in a temporary file. It is not safe for concurrent use. Between its last
// Add and Dir.Close it keeps no file open but while it is read.
type File struct {
	path  string
	width int
	file  *os.File // while it is written
	out   *bufio.Writer
	raw   []byte
	// Rows and Bytes count what was added.
	Rows, Bytes int64
}

// Create makes a file of rows of so many cells.
func (d *Dir) Create(width int) (*File, error) {
	file, err := d.TempFile()
	if err != nil {
		return nil, fmt.Errorf("spill to disk: %w", err)
	}
	return &File{path: file.Name(), width: width, file: file, out: bufio.NewWriterSize(file, buffer)}, nil
}

// Add adds a row.
func (f *File) Add(cells []schema.Value) error {
	f.raw = AppendCells(f.raw[:0], cells)
	var size [binary.MaxVarintLen64]byte
	_, err1 := f.out.Write(size[:binary.PutUvarint(size[:], uint64(len(f.raw)))])
	_, err2 := f.out.Write(f.raw)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("spill to disk: %w", err)
	}
	f.Rows++
	f.Bytes += int64(len(f.raw))
	return nil
}

// End ends the writing.
func (f *File) End() error {
	err := errors.Join(f.out.Flush(), f.file.Close())
	f.out, f.file, f.raw = nil, nil, nil
	if err != nil {
		return fmt.Errorf("spill to disk: %w", err)
	}
	return nil
}

// All gives the rows in the order in which they were added; each is valid until the
// next one, but for its texts.
func (f *File) All() iter.Seq2[[]schema.Value, error] {
	return func(yield func([]schema.Value, error) bool) {
		file, err := os.Open(f.path)
		if err != nil {
			yield(nil, fmt.Errorf("spill to disk: %w", err))
			return
		}
		defer file.Close()
		in := bufio.NewReaderSize(file, buffer)
		cells := make([]schema.Value, f.width)
		var raw []byte
		for range f.Rows {
			n, err := binary.ReadUvarint(in)
			if err == nil && n > 1<<31 {
				err = errCutOff
			}
			if err == nil {
				raw = slices.Grow(raw[:0], int(n))[:n]
				_, err = io.ReadFull(in, raw)
			}
			if err == nil {
				err = ReadCells(raw, cells)
			}
			if err != nil {
				yield(nil, fmt.Errorf("spill to disk: read %s: %w", f.path, err))
				return
			}
			if !yield(cells, nil) {
				return
			}
		}
	}
}

// Remove removes the file before its Dir goes.
func (f *File) Remove() {
	if f.file != nil {
		_ = f.file.Close()
	}
	_ = os.Remove(f.path)
}
