package s3

import (
	"bytes"
	"context"
	"crypto/rand"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// tokenName is the metadata that tells whose write an object is.
const tokenName = "gscd-write"

// ifAbsent is the only condition that is used.
const ifAbsent = "*"

// write is an object on its way.
type write struct {
	attempt.Request
	data   []byte
	token  string
	absent bool // only where the key is free
}

func (s *Store) newWrite(key string, data []byte, absent bool) *write {
	return &write{s.request("put", key, "s3:PutObject"), data, rand.Text(), absent}
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
	w := s.newWrite(key, data, false)
	if err := s.check(ctx, w.Request); err != nil {
		return err
	}
	if int64(len(data)) > s.client.opts.PartSize {
		return s.upload(ctx, w)
	}
	return s.putWhole(ctx, w)
}

// PutIfAbsent implements objstore.Store. The first one asks for the probe.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	w := s.newWrite(key, data, true)
	if err := s.check(ctx, w.Request); err != nil {
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
		return s.service.Fault(w.Request, err)
	}
	defer release()
	return s.settle(ctx, w, func(ctx context.Context) error {
		_, err := s.client.api.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &s.bucket, Key: s.object(w.Key), Body: bytes.NewReader(w.data),
			IfNoneMatch: w.condition(), Metadata: w.metadata(),
			ServerSideEncryption: s.client.opts.Encryption.sse(), SSEKMSKeyId: s.client.opts.Encryption.key(), BucketKeyEnabled: s.client.opts.Encryption.bucketKey(),
		})
		return err
	})
}

// settle makes the request that lets an object appear until its outcome is known.
func (s *Store) settle(ctx context.Context, w *write, publish func(context.Context) error) error {
	return s.service.Settle(ctx, w.Request, w.absent, publish, func(ctx context.Context) (attempt.Owner, error) {
		return attempt.Whose(ctx, s, w.Key, w.data, w.token, func(ctx context.Context) (string, int64, error) {
			head, err := s.head(ctx, s.request("head", w.Key, "s3:GetObject"))
			if err != nil {
				return "", 0, err
			}
			return head.Metadata[tokenName], aws.ToInt64(head.ContentLength), nil
		})
	})
}
