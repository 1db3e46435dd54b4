package drift

import (
	"context"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Reader gives the entries of some files in the order in which they were
// taken: group by group, inside a group by sequence. It skips what is applied.
type Reader struct {
	ctx   context.Context
	store objstore.Store
	files []File
	// open are the scanners of the group that is being read, with their heads.
	open []*head
}

type head struct {
	scan  *scanner
	entry *Entry
}

// NewReader reads the given files; their order does not matter.
func NewReader(ctx context.Context, store objstore.Store, files []File) *Reader {
	sorted := slices.Clone(files)
	slices.SortStableFunc(sorted, func(a, b File) int { return int(min(1, max(-1, a.Group-b.Group))) })
	return &Reader{ctx: ctx, store: store, files: sorted}
}

// Next gives the next entry and the key of its file, nil behind the last one.
// The error names the file, and wraps ErrCorrupt or objstore.ErrNotExist.
func (r *Reader) Next() (*Entry, string, error) {
	for {
		var first *head
		for _, h := range r.open {
			if h.entry != nil && (first == nil || h.entry.Sequence < first.entry.Sequence) {
				first = h
			}
		}
		if first != nil {
			e, key := first.entry, first.scan.file.Key
			var err error
			if first.entry, err = first.scan.next(); err != nil {
				return nil, "", err
			}
			return e, key, nil
		}
		r.closeGroup()
		if len(r.files) == 0 {
			return nil, "", nil
		}
		if err := r.openGroup(); err != nil {
			return nil, "", err
		}
	}
}

func (r *Reader) openGroup() error {
	group := r.files[0].Group
	for len(r.files) > 0 && r.files[0].Group == group {
		f := r.files[0]
		r.files = r.files[1:]
		data, err := r.store.Get(r.ctx, f.Key)
		if err != nil {
			return fmt.Errorf("read held changes: %w", err)
		}
		s, err := newScanner(f, data)
		if err != nil {
			return err
		}
		h := &head{scan: s}
		r.open = append(r.open, h)
		for skip := f.Applied; ; skip-- {
			if h.entry, err = s.next(); err != nil {
				return err
			}
			if skip == 0 || h.entry == nil {
				break
			}
		}
	}
	return nil
}

func (r *Reader) closeGroup() {
	for _, h := range r.open {
		h.scan.close()
	}
	r.open = nil
}

// Close frees what the Reader holds.
func (r *Reader) Close() { r.closeGroup(); r.files = nil }
