//go:build cgo

package sql

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/gscd-io/gscd/query"
)

// fileReaders is how many files are copied or looked at at once.
const fileReaders = 8

// copyPart is how much of a file is fetched by one request, in bytes.
const copyPart = 8 << 20

// dataFile is a file of a table as DuckDB gets it.
type dataFile struct {
	of   *reading
	add  *action.Add
	key  string
	path string // on this machine: the file, a copy of it, or a link to it
	real string // what a link leads to
}

// deleted is a deletion vector as DuckDB gets it: a bit for each row of the file.
type deleted struct {
	file   *dataFile
	add    *action.Add // that has it
	number int
	joined bool // it is a row of a table, not a variable
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

// filesOf lists the files of the readings; nothing is opened.
func filesOf(readings []*reading, dir string) (*files, error) {
	f := &files{dir: dir, data: map[fileID]*dataFile{}, deleted: map[fileID]*deleted{}}
	for _, r := range readings {
		f.stats.Days += len(r.days)
		for _, d := range r.days {
			for _, add := range d.snapshot.Files() {
				key, err := action.Key(add.Path)
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

// fetch makes every file one that DuckDB can open: it looks whether it is as the
// log says, and copies it where the store is not local, at most limit bytes in
// all. Where dry, nothing is copied: the copies are empty.
func (f *files) fetch(ctx context.Context, limit int64, dry bool) error {
	for i, file := range f.order {
		f.stats.Files++
		f.stats.Bytes += file.add.Size
		if store, ok := file.of.Store.(*local.Store); ok {
			file.path = filepath.Join(store.String(), filepath.FromSlash(file.key))
			if !strings.ContainsAny(file.path, "*?[") {
				continue
			}
			file.real = file.path // DuckDB would take it for a pattern of names
		} else if !dry {
			f.stats.Copied += file.add.Size
		}
		file.path = filepath.Join(f.dir, strconv.Itoa(i)+".parquet")
	}
	if f.stats.Copied > limit {
		return fmt.Errorf("%w: %d bytes of %d files, and the limit is %d: ask for fewer days, or raise --temp-limit",
			ErrTempLimit, f.stats.Copied, len(f.order), limit)
	}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return fmt.Errorf("make room for copies: %w", err)
	}
	return inParallel(ctx, len(f.order), func(ctx context.Context, i int) error {
		file := f.order[i]
		var err error
		switch _, isLocal := file.of.Store.(*local.Store); {
		case isLocal:
			if err = file.look(ctx); err == nil && file.real != "" {
				err = os.Symlink(file.real, file.path)
			}
		case dry:
			err = os.WriteFile(file.path, nil, 0o600)
		default:
			err = file.copy(ctx)
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
		return fmt.Errorf("%w: it has %d bytes, the log says %d", query.ErrFileMismatch, found.Size, f.add.Size)
	}
	return nil
}

// copy fetches a file part by part.
func (f *dataFile) copy(ctx context.Context) (err error) {
	out, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closing := out.Close(); err == nil {
			err = closing
		}
	}()
	for at := int64(0); at < f.add.Size; {
		part, err := f.of.Store.GetRange(ctx, f.key, at, min(copyPart, f.add.Size-at))
		if err != nil {
			return err
		}
		if len(part) == 0 {
			return fmt.Errorf("%w: it has %d bytes, the log says %d", query.ErrFileMismatch, at, f.add.Size)
		}
		if _, err := out.Write(part); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return nil
}

// asFault says of an error in reading a file what it means for the table.
func (f *dataFile) asFault(err error) error {
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		return fmt.Errorf("%w: %s: %w; run gscd check", query.ErrFileMissing, f.add.Path, err)
	case errors.Is(err, query.ErrFileMismatch), errors.Is(err, delta.ErrCorrupt), errors.Is(err, parquet.ErrCorrupt):
		return fmt.Errorf("%s: %w; run gscd check", f.add.Path, err)
	}
	return fmt.Errorf("read %s: %w", f.add.Path, err)
}

// setVectors hands the deletion vectors to an executor. Where dry, they are empty.
func (f *files) setVectors(ctx context.Context, x *executor, dry bool) error {
	var mu sync.Mutex // an engine does one thing at a time
	return inParallel(ctx, len(f.vectors), func(ctx context.Context, i int) error {
		d := f.vectors[i]
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

// bits gives a bit for each row of the file, set where the row is deleted, and
// then some more up to a whole byte.
func (d *deleted) bits(ctx context.Context) ([]byte, error) {
	vector, err := delta.ReadDeletionVector(ctx, d.file.of.Store, d.add)
	if err != nil {
		return nil, err
	}
	rows, known := stats.NumRecords(d.add.Stats)
	if !known { // the log does not say, so the file does
		source, err := os.Open(d.file.path)
		if err != nil {
			return nil, err
		}
		defer source.Close()
		file, err := parquet.Open(source, d.file.add.Size)
		if err != nil {
			return nil, err
		}
		rows = file.NumRows()
	}
	return bitsOf(vector, rows), nil
}

// bitsOf sets the bits of a vector; rows past the end of the file are left out.
func bitsOf(vector *dv.Bitmap, rows int64) []byte {
	bits := make([]byte, max((rows+7)/8, 1))
	for row := range vector.Rows() {
		if int64(row) >= rows {
			break
		}
		bits[row/8] |= 0x80 >> (row % 8)
	}
	return bits
}

// inParallel runs do for 0..n-1, some at once, and gives the first error after
// all that were begun have ended.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var running sync.WaitGroup
	for range min(n, fileReaders) {
		running.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	running.Wait()
	return context.Cause(ctx)
}
