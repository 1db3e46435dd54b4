package s3

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Create implements objstore.Streamer: an upload in parts, which is begun with the
// first part. A part that is full waits for its place among the uploads of the client.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	w := s.newWrite(key, nil, false)
	if err := s.check(ctx, w.Request); err != nil {
		return nil, err
	}
	sending, stop := context.WithCancelCause(ctx)
	return &writer{s: s, write: w, ctx: sending, caller: ctx, stop: stop, places: make(chan struct{}, streamParts)}, nil
}

const (
	// streamParts is how many parts of an object are sent at one time.
	streamParts = 2
	// sameParts is after how many parts they grow by the size of a part, so that the
	// storage's number of parts holds far more than its largest object.
	sameParts = 500
)

// writer is an upload in the making.
type writer struct {
	s           *Store
	write       *write
	ctx, caller context.Context // ctx ends with the first part that fails
	stop        context.CancelCauseFunc
	id          string // "" before the first part
	buf         []byte
	sending     sync.WaitGroup
	places      chan struct{}
	mu          sync.Mutex
	parts       []types.CompletedPart
	ended       bool
}

// partSize is the size of the part that is being filled.
func (w *writer) partSize() int64 {
	return w.s.client.opts.PartSize * int64(1+len(w.parts)/sameParts)
}

// Write implements objstore.Writer.
func (w *writer) Write(data []byte) (int, error) {
	if w.ended {
		return 0, objstore.ErrEnded
	}
	n := 0
	for {
		w.mu.Lock()
		room := w.partSize() - int64(len(w.buf))
		w.mu.Unlock()
		take := data[n:min(len(data), n+int(room))]
		w.buf = append(w.buf, take...)
		n += len(take)
		if n == len(data) {
			return n, w.fault()
		}
		if err := w.send(); err != nil {
			return n, err
		}
	}
}

// fault is what has failed so far.
func (w *writer) fault() error {
	if err := w.caller.Err(); err != nil {
		return w.s.service.Fault(w.write.Request, err)
	}
	return context.Cause(w.ctx)
}

// send sends what is held as a part.
func (w *writer) send() error {
	if err := w.fault(); err != nil {
		return err
	}
	if w.id == "" {
		id, err := w.s.createUpload(w.ctx, w.write)
		if err != nil {
			return err
		}
		w.id = id
	}
	select {
	case w.places <- struct{}{}:
	case <-w.ctx.Done():
		return w.fault()
	}
	release, err := w.s.client.acquire(w.ctx)
	if err != nil {
		<-w.places
		return w.fault()
	}
	data := w.buf
	w.buf = nil
	w.mu.Lock()
	number := len(w.parts)
	w.parts = append(w.parts, types.CompletedPart{})
	w.mu.Unlock()
	w.sending.Go(func() {
		defer func() { release(); <-w.places }()
		part, err := w.s.sendPart(w.ctx, w.write, w.id, int32(number)+1, data)
		if err != nil {
			w.stop(err) // only the first counts: the others' are that of being stopped
			return
		}
		w.mu.Lock()
		w.parts[number] = part
		w.mu.Unlock()
	})
	return nil
}

// Commit implements objstore.Writer.
func (w *writer) Commit() error {
	if w.ended {
		return objstore.ErrEnded
	}
	if w.id == "" { // it is small
		w.ended = true
		defer w.stop(nil)
		w.write.data = w.buf
		return w.s.putWhole(w.caller, w.write)
	}
	err := w.send()
	w.sending.Wait()
	if err == nil {
		err = w.fault()
	}
	if err != nil {
		w.Abort()
		return err
	}
	w.ended = true
	defer w.stop(nil)
	err = w.s.settle(w.caller, w.write, func(ctx context.Context) error {
		return w.s.completeUpload(ctx, w.write, w.id, slices.Clone(w.parts))
	})
	if _, code := answerOf(err); code == noSuchUpload {
		err = fmt.Errorf("put %s in %s: the storage has lost the upload, write the object again: %w", w.write.Key, w.s, err)
	}
	if err != nil {
		w.s.abortUpload(w.caller, w.write, w.id)
	}
	return err
}

// Abort implements objstore.Writer.
func (w *writer) Abort() {
	if w.ended {
		return
	}
	w.ended = true
	w.stop(context.Canceled)
	w.sending.Wait()
	w.buf = nil
	if w.id != "" {
		w.s.abortUpload(w.caller, w.write, w.id)
	}
}
