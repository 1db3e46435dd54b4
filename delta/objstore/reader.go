package objstore

import (
	"context"
	"fmt"
	"io"
)

// ReaderAt reads one object by ranges. It is safe for concurrent use where the
// store is.
type ReaderAt struct {
	ctx   context.Context
	store Store
	key   string
	size  int64
}

// NewReaderAt makes a reader of an object of known size (bytes). It reads
// nothing yet. Each ReadAt is one GetRange under ctx.
func NewReaderAt(ctx context.Context, store Store, key string, size int64) *ReaderAt {
	return &ReaderAt{ctx: ctx, store: store, key: key, size: size}
}

// Size gives the size that the reader was made with.
func (r *ReaderAt) Size() int64 { return r.size }

// ReadAt reads len(p) bytes at offset, or up to the end with io.EOF. An object
// that is shorter than its size gives io.ErrUnexpectedEOF.
func (r *ReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("read %s: offset %d is negative", r.key, offset)
	}
	want := int64(len(p))
	if offset >= r.size {
		if want == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	var end error
	if offset+want > r.size {
		want, end = r.size-offset, io.EOF
	}
	if want == 0 {
		return 0, nil
	}
	data, err := r.store.GetRange(r.ctx, r.key, offset, want)
	if err != nil {
		return 0, err
	}
	n := copy(p, data)
	if int64(n) < want {
		return n, fmt.Errorf("read %s: %d bytes at %d of %d are missing: %w", r.key, want-int64(n), offset, r.size, io.ErrUnexpectedEOF)
	}
	return n, end
}
