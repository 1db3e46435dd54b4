package objstore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"
)

// FS gives a store as a file system to read: objects are files, and what their keys have
// before a "/" are folders. Files are io.ReaderAt too, and read ahead where they are read from
// the front. ctx is that of all calls. Errors of the store are wrapped as *fs.PathError; one
// that is ErrNotExist is fs.ErrNotExist as well.
func FS(ctx context.Context, store Store) fs.FS { return &fileSystem{ctx, store} }

type fileSystem struct {
	ctx   context.Context
	store Store
}

var (
	_ fs.StatFS    = (*fileSystem)(nil)
	_ fs.ReadDirFS = (*fileSystem)(nil)
)

func (f *fileSystem) fault(op, name string, err error) error {
	if errors.Is(err, ErrNotExist) {
		err = errors.Join(fs.ErrNotExist, err)
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements fs.FS for files; folders are read by ReadDir.
func (f *fileSystem) Open(name string) (fs.File, error) {
	info, err := f.stat("open", name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, f.fault("open", name, errors.New("it is a folder"))
	}
	r := NewReaderAt(f.ctx, f.store, name, info.Size())
	return &file{ReaderAt: r, info: info, front: io.NewSectionReader(r, 0, info.Size())}, nil
}

// Stat implements fs.StatFS.
func (f *fileSystem) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name) }

func (f *fileSystem) stat(op, name string) (*fileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, f.fault(op, name, fs.ErrInvalid)
	}
	if name != "." {
		o, err := f.store.Head(f.ctx, name)
		if err == nil {
			return &fileInfo{name: base(name), size: o.Size, modified: o.Modified}, nil
		}
		if !errors.Is(err, ErrNotExist) {
			return nil, f.fault(op, name, err)
		}
	}
	for _, err := range f.store.List(f.ctx, below(name), "") {
		if err != nil {
			return nil, f.fault(op, name, err)
		}
		return &fileInfo{name: base(name), folder: true}, nil
	}
	return nil, f.fault(op, name, ErrNotExist)
}

// ReadDir implements fs.ReadDirFS. It lists the objects of all levels below.
func (f *fileSystem) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, f.fault("read", name, fs.ErrInvalid)
	}
	var list []fs.DirEntry
	prefix, last := below(name), ""
	for o, err := range f.store.List(f.ctx, prefix, "") {
		if err != nil {
			return nil, f.fault("read", name, err)
		}
		entry, _, inside := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
		if entry == "" || entry == last {
			continue
		}
		last = entry
		info := &fileInfo{name: entry, folder: true}
		if !inside {
			info = &fileInfo{name: entry, size: o.Size, modified: o.Modified}
		}
		list = append(list, fs.FileInfoToDirEntry(info))
	}
	if len(list) == 0 {
		return nil, f.fault("read", name, ErrNotExist)
	}
	return list, nil
}

// below is what the keys in a folder begin with.
func below(name string) string {
	if name == "." {
		return ""
	}
	return name + "/"
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// readAhead is how much of a file is fetched at once where it is read from the front: 4 MiB.
const readAhead = 4 << 20

type file struct {
	*ReaderAt
	info   *fileInfo
	front  *io.SectionReader
	buffer []byte // of what was fetched, the part that is not read yet
	spare  []byte
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

func (f *file) Read(p []byte) (int, error) {
	if len(f.buffer) == 0 && len(p) > 0 {
		if f.spare == nil {
			f.spare = make([]byte, min(readAhead, f.info.size))
		}
		n, err := io.ReadFull(f.front, f.spare)
		if n == 0 {
			if err == nil {
				err = io.EOF
			}
			return 0, err
		}
		f.buffer = f.spare[:n]
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
	}
	n := copy(p, f.buffer)
	f.buffer = f.buffer[n:]
	return n, nil
}

// fileInfo implements fs.FileInfo.
type fileInfo struct {
	name     string
	size     int64
	modified time.Time
	folder   bool
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.size }
func (i *fileInfo) ModTime() time.Time { return i.modified }
func (i *fileInfo) IsDir() bool        { return i.folder }
func (i *fileInfo) Sys() any           { return nil }

func (i *fileInfo) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
