//go:build cgo

package sql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/stats"
)

// fileReaders is how many files are copied or looked at at once.
const fileReaders = 8

// dataFile is a file of a table as DuckDB gets it.
type dataFile struct {
	of   *reading
	add  *action.Add
	key  string
	path string // on this machine: the file, an excerpt of it, or a link to it
	real string // what a link leads to

	// Of files of other stores.
	scans   []*tableScan   // that read it
	footer  *parquet.File  // what its end says
	kept    []bool         // which row groups the excerpt has; nil: all
	excerpt []parquet.Span // what is yet to be fetched
}

// deleted is a deletion vector as DuckDB gets it: a bit for each row of the file.
type deleted struct {
	file   *dataFile
	add    *action.Add // that has it
	number int
	joined bool // it is a row of a table, not a variable
	used   bool // a row is to be had from a file that it belongs to
}

func (d *deleted) variable() string { return "__gscd_dv" + strconv.Itoa(d.number) }

// files are those of all days that a statement sees, each once.
type files struct {
	dir     string // for copies and links
	data    map[fileID]*dataFile
	deleted map[fileID]*deleted
	order   []*dataFile
	vectors []*deleted
	stats   Stats
}

type fileID struct {
	of     *reading
	key    string
	vector string
}

// keyOf gives the key of a file. An absolute path must lead into the table itself:
// what is outside is not DuckDB's to open.
func keyOf(r *reading, add *action.Add) (string, error) {
	store, key, err := delta.Locate(r.Store, add.Path)
	if err == nil && store != r.Store {
		err = fmt.Errorf("%w: %q, and SQL does not leave the table", delta.ErrAbsolutePath, add.Path)
	}
	return key, err
}

// filesOf lists the files of the readings; nothing is opened.
func filesOf(readings []*reading, dir string) (*files, error) {
	f := &files{dir: dir, data: map[fileID]*dataFile{}, deleted: map[fileID]*deleted{}}
	for _, r := range readings {
		f.stats.Days += len(r.days)
		for _, d := range r.days {
			for _, add := range d.snapshot.Files() {
				key, err := keyOf(r, add)
				if err != nil {
					return nil, fmt.Errorf("table %s: version %d: %w", r.Name, d.version, err)
				}
				id := fileID{of: r, key: key}
				if f.data[id] == nil {
					f.data[id] = &dataFile{of: r, add: add, key: key}
					f.order = append(f.order, f.data[id])
				}
				if add.DeletionVector == nil {
					continue
				}
				file := f.data[id]
				id.vector = add.DeletionVector.UniqueID()
				if f.deleted[id] == nil {
					f.deleted[id] = &deleted{file: file, add: add, number: len(f.vectors)}
					f.vectors = append(f.vectors, f.deleted[id])
				}
			}
		}
	}
	return f, nil
}

// place gives every file a path that DuckDB can open. Local ones are looked at: they
// must be as the log says. What others have is fetched later; until then there is an
// empty file.
func (f *files) place(ctx context.Context) error {
	for i, file := range f.order {
		f.stats.Files++
		f.stats.Bytes += file.add.Size
		file.path = filepath.Join(f.dir, strconv.Itoa(i)+".parquet")
		if store, ok := file.of.Store.(*local.Store); ok {
			path := filepath.Join(store.String(), filepath.FromSlash(file.key))
			if strings.ContainsAny(path, "*?[") {
				file.real = path // DuckDB would take it for a pattern of names
				continue
			}
			file.path = path
		}
	}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return fmt.Errorf("make room for copies: %w", err)
	}
	return objstore.InParallel(ctx, len(f.order), fileReaders, func(ctx context.Context, i int) error {
		file := f.order[i]
		if file.of.remote() {
			return os.WriteFile(file.path, nil, 0o600)
		}
		err := file.look(ctx)
		if err == nil && file.real != "" {
			err = os.Symlink(file.real, file.path)
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", file.of.Name, file.asFault(err))
		}
		return nil
	})
}

// look compares a local file with the log. The store resolves its path, so a
// link that leads out of the table is refused.
func (f *dataFile) look(ctx context.Context) error {
	found, err := f.of.Store.Head(ctx, f.key)
	if err != nil {
		return err
	}
	if found.Size != f.add.Size {
		return fmt.Errorf("%w: it has %d bytes, the log says %d", scan.ErrFileMismatch, found.Size, f.add.Size)
	}
	return nil
}

// asFault says of an error in reading a file what it means for the table.
func (f *dataFile) asFault(err error) error {
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		return fmt.Errorf("%w: %s: %w; run gscd check", scan.ErrFileMissing, f.add.Path, err)
	case errors.Is(err, scan.ErrFileMismatch):
		return fmt.Errorf("%s: %w; run gscd check", f.add.Path, err)
	case errors.Is(err, delta.ErrCorrupt), errors.Is(err, parquet.ErrCorrupt), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %s: %w; run gscd check", scan.ErrFileMismatch, f.add.Path, err)
	}
	return fmt.Errorf("read %s: %w", f.add.Path, err)
}

// setVectors hands the deletion vectors to an executor. Where dry, they are empty.
func (f *files) setVectors(ctx context.Context, x *executor, dry bool) error {
	var mu sync.Mutex // an engine does one thing at a time
	return objstore.InParallel(ctx, len(f.vectors), fileReaders, func(ctx context.Context, i int) error {
		d := f.vectors[i]
		if !d.used {
			return nil
		}
		bits := []byte{0}
		if !dry {
			var err error
			if bits, err = d.bits(ctx); err != nil {
				return fmt.Errorf("table %s: %w", d.file.of.Name, d.file.asFault(err))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if d.joined {
			return x.addVector(ctx, d.number, bits)
		}
		return x.setBits(ctx, d.variable(), bits)
	})
}

// setNoVectors gives the variables of deletion vectors a value, so that a plan can be
// made.
func (f *files) setNoVectors(ctx context.Context, x *executor) error {
	var set strings.Builder
	for _, d := range f.vectors {
		if d.used && !d.joined {
			set.WriteString("SET VARIABLE " + d.variable() + " = '00000000'::BIT; ")
		}
	}
	if set.Len() == 0 {
		return nil
	}
	return x.exec(ctx, set.String())
}

// bits gives a bit for each row of the file, set where the row is deleted, and
// then some more up to a whole byte.
func (d *deleted) bits(ctx context.Context) ([]byte, error) {
	vector, err := delta.ReadDeletionVector(ctx, d.file.of.Store, d.add)
	if err != nil {
		return nil, err
	}
	rows, known := stats.NumRecords(d.add.Stats)
	file := d.file.footer
	if !known && file == nil { // the log does not say, so the file does
		source, err := os.Open(d.file.path)
		if err != nil {
			return nil, err
		}
		defer source.Close()
		if file, err = parquet.Open(source, d.file.add.Size); err != nil {
			return nil, err
		}
	}
	if file != nil {
		rows = file.NumRows()
	}
	keep := []rowRange{{0, rows}}
	if d.file.kept != nil {
		keep = nil
		at := int64(0)
		for i, kept := range d.file.kept {
			n := file.RowGroupRows(i)
			if kept {
				keep = append(keep, rowRange{at, at + n})
			}
			at += n
		}
	}
	return bitsOf(vector, keep), nil
}

// rowRange is rows of a file, to excluded.
type rowRange struct{ from, to int64 }

// bitsOf sets the bits of a vector for the rows of rising ranges, one range behind
// the other; rows that are in none, as those past the end of the file, are left out.
func bitsOf(vector *dv.Bitmap, keep []rowRange) []byte {
	n := int64(0)
	for _, r := range keep {
		n += r.to - r.from
	}
	bits := make([]byte, max((n+7)/8, 1))
	before := int64(0) // rows of the ranges that are done
	for row := range vector.Rows() {
		for len(keep) > 0 && int64(row) >= keep[0].to {
			before += keep[0].to - keep[0].from
			keep = keep[1:]
		}
		if len(keep) == 0 {
			break
		}
		if at := int64(row) - keep[0].from; at >= 0 {
			at += before
			bits[at/8] |= 0x80 >> (at % 8)
		}
	}
	return bits
}
