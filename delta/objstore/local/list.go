package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/gscd-io/gscd/delta/objstore"
)

// List implements objstore.Store. Files that vanish while it runs are left out.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		if err := objstore.CheckPrefix(prefix); err != nil {
			yield(objstore.Object{}, fmt.Errorf("list: %w", err))
			return
		}
		root, err := os.OpenRoot(s.root)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(objstore.Object{}, s.fault("list", prefix, err))
			return
		}
		defer root.Close()
		w := walk{ctx: ctx, root: root, prefix: prefix, startAfter: startAfter, yield: yield}
		// The folder part of the prefix is entered at once.
		if _, err := w.folder(prefix[:strings.LastIndexByte(prefix, '/')+1]); err != nil {
			yield(objstore.Object{}, s.fault("list", prefix, err))
		}
	}
}

type walk struct {
	ctx                context.Context
	root               *os.Root
	prefix, startAfter string
	yield              func(objstore.Object, error) bool
}

// folder lists what is below path, which is "" or ends in "/". It returns
// false when the consumer has enough.
func (w *walk) folder(path string) (more bool, err error) {
	if err := w.ctx.Err(); err != nil {
		return false, err
	}
	dir, err := w.root.Open(cmp.Or(strings.TrimSuffix(path, "/"), "."))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	entries, err := dir.ReadDir(-1)
	dir.Close()
	if errors.Is(err, syscall.ENOTDIR) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	keys := make([]string, 0, len(entries))
	for _, e := range entries {
		key := path + e.Name()
		// "a/" sorts where the keys below a do: after "a-b", before "a0".
		if e.IsDir() {
			key += "/"
		}
		if w.wanted(key, e.IsDir()) && !isTemp(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if strings.HasSuffix(key, "/") {
			more, err = w.folder(key)
		} else {
			more, err = w.file(key)
		}
		if !more || err != nil {
			return more, err
		}
	}
	return true, nil
}

// wanted tells whether a key, or any key below a folder, is in the list.
func (w *walk) wanted(key string, folder bool) bool {
	if folder {
		return (strings.HasPrefix(key, w.prefix) || strings.HasPrefix(w.prefix, key)) &&
			(key > w.startAfter || strings.HasPrefix(w.startAfter, key))
	}
	return strings.HasPrefix(key, w.prefix) && key > w.startAfter
}

func (w *walk) file(key string) (more bool, err error) {
	info, err := w.root.Stat(key)
	if err != nil || !info.Mode().IsRegular() {
		return true, nil // vanished, a link that leads nowhere or out, or no file
	}
	return w.yield(describe(key, info), nil), nil
}
