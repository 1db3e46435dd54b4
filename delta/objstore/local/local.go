package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Options of a Store. The zero value is right for production.
type Options struct {
	// NoSync leaves out every fsync. For tests and the demo: a power cut may
	// then lose or tear what was written.
	NoSync bool
	// StaleTemp is the age from which a temporary file counts as left behind
	// by a crash. Default 24 h, far above the longest single write.
	StaleTemp time.Duration
	// Outside are folders that absolute paths in the log may lead to, besides the
	// root: the tables that a shallow clone is one of. None by default.
	Outside []string
}

// Store keeps each object in a file below its root. It is safe for concurrent
// use, also by several processes.
type Store struct {
	root    string
	opts    Options
	cleaned sync.Map // folders whose stale temporary files were looked for
}

var (
	_ objstore.Streamer  = (*Store)(nil)
	_ objstore.Elsewhere = (*Store)(nil)
)

// ErrOutside: an absolute path leads to no folder of Options.Outside.
var ErrOutside = errors.New("path leads outside of the table, and it is not allowed to")

// Absolute implements objstore.Elsewhere for the folders of Options.Outside.
func (s *Store) Absolute(path string) (objstore.Store, string, error) {
	for _, folder := range s.opts.Outside {
		abs, err := filepath.Abs(folder)
		if err != nil {
			return nil, "", fmt.Errorf("open %s: %w", folder, err)
		}
		if key, ok := strings.CutPrefix(path, strings.TrimSuffix(abs, "/")+"/"); ok && key != "" {
			return &Store{root: abs, opts: s.opts}, key, nil
		}
	}
	return nil, "", fmt.Errorf("%w: %s", ErrOutside, path)
}

// New makes a store of the directory root, which need not exist yet. The error
// says that the path can't be one: empty, or the path of a file.
func New(root string, opts Options) (*Store, error) {
	if root == "" {
		return nil, errors.New("open local store: the path is empty")
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open local store %s: %w", root, err)
	}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("open local store %s: it is a file, give the directory of the table", abs)
	}
	if opts.StaleTemp <= 0 {
		opts.StaleTemp = 24 * time.Hour
	}
	return &Store{root: abs, opts: opts}, nil
}

// String implements objstore.Store: the absolute path of the root.
func (s *Store) String() string { return s.root }

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	var data []byte
	err := s.read(ctx, "get", key, func(f *os.File, size int64) error {
		data = make([]byte, size)
		_, err := io.ReadFull(f, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	var data []byte
	err := s.read(ctx, "get", key, func(f *os.File, size int64) error {
		if offset < 0 || length < 0 {
			return fmt.Errorf("range of %d bytes at %d is negative", length, offset)
		}
		data = make([]byte, min(length, max(size-offset, 0)))
		_, err := f.ReadAt(data, offset)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (objstore.Object, error) {
	root, err := s.enter(ctx, "head", key)
	if err != nil {
		return objstore.Object{}, err
	}
	defer root.Close()
	info, err := root.Stat(key)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return objstore.Object{}, s.fault("head", key, err)
	}
	return describe(key, info), nil
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	root, err := s.enter(ctx, "delete", key)
	if errors.Is(err, objstore.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	// Remove would take an empty folder too, and a folder is no object.
	if info, err := root.Lstat(key); err == nil && info.IsDir() {
		return nil
	}
	if err := root.Remove(key); err != nil {
		if err = s.fault("delete", key, err); errors.Is(err, objstore.ErrNotExist) {
			return nil
		}
		return err
	}
	return s.syncDir(root, "delete", key, parent(key))
}

// enter checks the call and opens the root. Each call opens it anew, so a
// directory that was removed and made again meanwhile is no trouble.
func (s *Store) enter(ctx context.Context, op, key string) (*os.Root, error) {
	if err := check(ctx, op, key); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return nil, s.fault(op, key, err)
	}
	return root, nil
}

func check(ctx context.Context, op, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if isTemp(key) {
		return fmt.Errorf("%s: %w: names that begin with %s are kept for unfinished writes: %q", op, objstore.ErrKey, tempPrefix, key)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", op, key, err)
	}
	return nil
}

func (s *Store) read(ctx context.Context, op, key string, use func(f *os.File, size int64) error) error {
	root, err := s.enter(ctx, op, key)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.Open(key)
	if err != nil {
		return s.fault(op, key, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = use(f, info.Size())
	}
	if err != nil {
		return s.fault(op, key, err)
	}
	return nil
}

// fault words an error of the file system. A path through a file
// ("a.parquet/b") is an object that does not exist.
func (s *Store) fault(op, key string, err error) error {
	path := filepath.Join(s.root, filepath.FromSlash(key))
	switch {
	case errors.Is(err, fs.ErrNotExist), op != "put" && errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s %s: %w in %s", op, key, objstore.ErrNotExist, s.root)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s %s: the user of this process (uid %d) may not access %s, change its owner or mode: %w", op, key, os.Getuid(), path, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s %s: %s is mounted read-only, mount it writable: %w", op, key, s.root, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s %s: the disk or quota of %s is full, free space: %w", op, key, s.root, err)
	}
	return fmt.Errorf("%s %s in %s: %w", op, key, s.root, err)
}

func describe(key string, info fs.FileInfo) objstore.Object {
	return objstore.Object{Key: key, Size: info.Size(), Modified: info.ModTime()}
}

// parent gives the folder of a key, "." for the root.
func parent(key string) string {
	if i := strings.LastIndexByte(key, '/'); i >= 0 {
		return key[:i]
	}
	return "."
}
