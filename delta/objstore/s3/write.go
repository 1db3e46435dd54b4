package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gscd-io/gscd/delta/objstore"
)

// tokenName is the metadata that tells whose write an object is.
const tokenName = "gscd-write"

// ifAbsent is the only condition that is used.
const ifAbsent = "*"

// write is an object on its way.
type write struct {
	request
	data   []byte
	token  string
	absent bool // only where the key is free
}

func newWrite(key string, data []byte, absent bool) *write {
	return &write{request{"put", key, "s3:PutObject"}, data, rand.Text(), absent}
}

func (w *write) condition() *string {
	if w.absent {
		return aws.String(ifAbsent)
	}
	return nil
}

func (w *write) metadata() map[string]string { return map[string]string{tokenName: w.token} }

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	w := newWrite(key, data, false)
	if err := s.check(ctx, w.request); err != nil {
		return err
	}
	if int64(len(data)) > s.client.opts.PartSize {
		return s.upload(ctx, w)
	}
	return s.putWhole(ctx, w)
}

// PutIfAbsent implements objstore.Store. The first one asks for the probe.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	w := newWrite(key, data, true)
	if err := s.check(ctx, w.request); err != nil {
		return err
	}
	if err := s.Probe(ctx); err != nil {
		return err
	}
	if int64(len(data)) > s.client.opts.PartSize {
		kept, err := s.completesIfAbsent(ctx)
		if err != nil {
			return err
		}
		if kept {
			return s.upload(ctx, w)
		}
	}
	return s.putWhole(ctx, w)
}

// putWhole writes an object with one request.
func (s *Store) putWhole(ctx context.Context, w *write) error {
	release, err := s.client.acquire(ctx)
	if err != nil {
		return s.fault(w.request, err)
	}
	defer release()
	return s.settle(ctx, w, func(ctx context.Context) error {
		_, err := s.client.api.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &s.bucket, Key: s.object(w.key), Body: bytes.NewReader(w.data),
			IfNoneMatch: w.condition(), Metadata: w.metadata(),
		})
		return err
	})
}

// owner says whose the object of a key is.
type owner int

const (
	nobody owner = iota // there is none
	own
	other
)

// settle makes the request that lets an object appear until its outcome is
// known. Where the answer was lost, and where the storage says that the key is
// taken or the upload gone (by an earlier attempt, or a proxy's repetition, it
// may be), the object itself tells whose it is.
func (s *Store) settle(ctx context.Context, w *write, publish func(context.Context) error) error {
	applied := false
	for n := 1; ; n++ {
		d, err := s.client.attempt(ctx, n, publish)
		if err == nil {
			return nil
		}
		applied = applied || d.applied
		status, code := answerOf(err)
		taken := w.absent && status == http.StatusPreconditionFailed
		gone := code == noSuchUpload
		if taken || gone || applied {
			who, lookErr := s.whose(ctx, w)
			switch {
			case lookErr != nil && taken && !applied:
				return s.exists(w) // the storage has said so
			case lookErr != nil:
				// Nothing is known but the error itself.
			case who == own:
				return nil
			case who == other && w.absent:
				return s.exists(w)
			case taken:
				d.again = true // it was removed in between
			}
		}
		if !s.again(ctx, w.request, n, d, err) {
			if err = s.fault(w.request, given(ctx, err)); applied {
				return unknown(err)
			}
			return err
		}
	}
}

func (s *Store) exists(w *write) error {
	return &fault{fmt.Sprintf("put %s: %v in %s", w.key, objstore.ErrExist, s), []error{objstore.ErrExist}}
}

// whose looks at the object of a write's key.
func (s *Store) whose(ctx context.Context, w *write) (owner, error) {
	r := request{"head", w.key, "s3:GetObject"}
	head, err := s.head(ctx, r)
	if isNotExist(err) {
		return nobody, nil
	}
	if err != nil {
		return nobody, err
	}
	switch token := head.Metadata[tokenName]; {
	case token == w.token:
		return own, nil
	case token != "" || aws.ToInt64(head.ContentLength) != int64(len(w.data)):
		return other, nil
	}
	data, err := s.Get(ctx, w.key)
	if isNotExist(err) {
		return nobody, nil
	}
	if err != nil {
		return nobody, err
	}
	if bytes.Equal(data, w.data) {
		return own, nil
	}
	return other, nil
}
