package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
)

// tempPrefix begins the name of a file that is not yet an object. The leading
// dot hides it from other engines as well.
const tempPrefix = ".gscd-tmp-"

func isTemp(key string) bool {
	return strings.HasPrefix(key[strings.LastIndexByte(key, '/')+1:], tempPrefix)
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, key, data, (*os.Root).Rename)
}

// PutIfAbsent implements objstore.Store. It needs a file system with hard links.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, key, data, (*os.Root).Link)
}

// Create implements objstore.Streamer: the bytes go to a temporary file.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	w, err := s.create(ctx, key)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// write puts data into a temporary file beside the key and publishes it.
func (s *Store) write(ctx context.Context, key string, data []byte, publish publish) error {
	w, err := s.create(ctx, key)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.publish(publish)
}

// publish gives a temporary file its name: by rename (replaces) or link (fails where
// the name is taken).
type publish func(r *os.Root, from, to string) error

// writer is an object in the making, in a temporary file beside its key.
type writer struct {
	ctx          context.Context
	s            *Store
	root         *os.Root
	file         *os.File // nil once ended
	key          string
	folder, temp string
}

func (s *Store) create(ctx context.Context, key string) (*writer, error) {
	if err := check(ctx, "put", key); err != nil {
		return nil, err
	}
	root, err := s.enterOrMake(key)
	if err != nil {
		return nil, err
	}
	w := &writer{ctx: ctx, s: s, root: root, key: key, folder: parent(key), temp: tempPrefix + rand.Text()}
	if w.folder != "." {
		w.temp = w.folder + "/" + w.temp
	}
	w.file, err = root.OpenFile(w.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.makeFolder(root, key, w.folder); err != nil {
			root.Close()
			return nil, err
		}
		w.file, err = root.OpenFile(w.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	}
	if err != nil {
		root.Close()
		return nil, s.fault("put", key, err)
	}
	s.removeStale(root, w.folder)
	return w, nil
}

// Write implements objstore.Writer.
func (w *writer) Write(data []byte) (int, error) {
	if w.file == nil {
		return 0, objstore.ErrEnded
	}
	if err := w.ctx.Err(); err != nil {
		return 0, fmt.Errorf("put %s: %w", w.key, err)
	}
	n, err := w.file.Write(data)
	if err != nil {
		return n, w.s.fault("put", w.key, err)
	}
	return n, nil
}

// Commit implements objstore.Writer.
func (w *writer) Commit() error { return w.publish((*os.Root).Rename) }

// Abort implements objstore.Writer.
func (w *writer) Abort() {
	if w.file != nil {
		_ = w.file.Close()
		w.end()
	}
}

// end lets go of what is left. After a rename there is nothing under the name, and that
// is fine.
func (w *writer) end() {
	_ = w.root.Remove(w.temp)
	_ = w.root.Close()
	w.file = nil
}

func (w *writer) publish(publish publish) error {
	if w.file == nil {
		return objstore.ErrEnded
	}
	defer w.end()
	err := w.ctx.Err()
	if err == nil && !w.s.opts.NoSync {
		err = w.file.Sync()
	}
	if closing := w.file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return w.s.fault("put", w.key, err)
	}
	switch err = publish(w.root, w.temp, w.key); {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("put %s: %w in %s", w.key, objstore.ErrExist, w.s.root)
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EMLINK):
		return fmt.Errorf("put %s: the file system of %s refuses a hard link, by which a version is committed, put the table on one that has them: %w", w.key, w.s.root, err)
	case err != nil:
		return w.s.fault("put", w.key, err)
	}
	return w.s.syncDir(w.root, "put", w.key, w.folder)
}

func (s *Store) enterOrMake(key string) (*os.Root, error) {
	root, err := os.OpenRoot(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.makeRoot(); err != nil {
			return nil, fmt.Errorf("put %s: create the directory %s: %w", key, s.root, err)
		}
		root, err = os.OpenRoot(s.root)
	}
	if err != nil {
		return nil, s.fault("put", key, err)
	}
	return root, nil
}

// makeRoot makes the root and what leads to it, and syncs the folders that got
// a new name in them.
func (s *Store) makeRoot() error {
	there := filepath.Dir(s.root)
	for there != filepath.Dir(there) {
		if _, err := os.Stat(there); err == nil {
			break
		}
		there = filepath.Dir(there)
	}
	if err := os.MkdirAll(s.root, 0o755); err != nil || s.opts.NoSync {
		return err
	}
	for dir := s.root; dir != there; {
		dir = filepath.Dir(dir)
		f, err := os.Open(dir)
		if err == nil {
			err = f.Sync()
			f.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeFolder makes the folders that lead to a key and syncs each one's parent,
// so that the path survives a power cut with the object.
func (s *Store) makeFolder(root *os.Root, key, folder string) error {
	if err := root.MkdirAll(folder, 0o755); err != nil {
		return s.fault("put", key, err)
	}
	for folder != "." {
		folder = parent(folder)
		if err := s.syncDir(root, "put", key, folder); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes a change of names in a folder durable. Where that fails the
// change is visible but may not last, which no caller may take for either.
func (s *Store) syncDir(root *os.Root, op, key, folder string) error {
	if s.opts.NoSync {
		return nil
	}
	dir, err := root.Open(folder)
	if err == nil {
		err = dir.Sync()
		dir.Close()
	}
	if err != nil {
		return fmt.Errorf("%s %s in %s: sync the folder: %w: %w", op, key, s.root, objstore.ErrUnknownOutcome, err)
	}
	return nil
}

// removeStale removes what crashed writers left in a folder, once per folder
// and Store. It is best effort: a file that stays does no harm.
func (s *Store) removeStale(root *os.Root, folder string) {
	if _, done := s.cleaned.LoadOrStore(folder, true); done {
		return
	}
	dir, err := root.Open(folder)
	if err != nil {
		return
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(-1)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > s.opts.StaleTemp {
			root.Remove(folder + "/" + e.Name())
		}
	}
}
