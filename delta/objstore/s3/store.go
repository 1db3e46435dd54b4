package s3

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// Store keeps objects in a bucket, below a prefix. It is safe for concurrent use.
type Store struct {
	client  *Client
	service *attempt.Service
	bucket  string
	// prefix is "" or ends with a slash.
	prefix string

	// What the storage has shown so far, see probe.go.
	probing     sync.Mutex
	conditional bool
	multipart   completion
}

var _ objstore.Streamer = (*Store)(nil)

// Open makes a store of its own client. Nothing is read or created. The error
// wraps ErrOptions where bucket, prefix or options are at fault.
func Open(ctx context.Context, bucket, prefix string, o Options) (*Store, error) {
	c, err := NewClient(ctx, o)
	if err != nil {
		return nil, err
	}
	return c.Store(bucket, prefix)
}

// Store makes the store of a folder of a bucket; prefix "" is the whole bucket.
func (c *Client) Store(bucket, prefix string) (*Store, error) {
	if err := checkBucket(bucket); err != nil {
		return nil, fmt.Errorf("open S3 storage: %w", err)
	}
	prefix, err := cleanPrefix(prefix)
	if err != nil {
		return nil, fmt.Errorf("open S3 storage: %w", err)
	}
	s := &Store{client: c, bucket: bucket, prefix: prefix}
	s.service = s.newService()
	return s, nil
}

// String implements objstore.Store: "s3://bucket/prefix".
func (s *Store) String() string {
	return strings.TrimSuffix("s3://"+s.bucket+"/"+s.prefix, "/")
}

// object is the name of a key in the bucket.
func (s *Store) object(key string) *string { return aws.String(s.prefix + key) }

// check refuses a call that can't be made.
func (s *Store) check(ctx context.Context, r attempt.Request) error {
	if err := objstore.CheckKey(r.Key); err != nil {
		return fmt.Errorf("%s: %w", r.Op, err)
	}
	if r.Key == probeKey {
		return fmt.Errorf("%s: %w: %s is kept for the probe of conditional puts", r.Op, objstore.ErrKey, r.Key)
	}
	if err := ctx.Err(); err != nil {
		return s.service.Fault(r, err)
	}
	return nil
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) (data []byte, err error) {
	r := s.request("get", key, "s3:GetObject")
	if err := s.check(ctx, r); err != nil {
		return nil, err
	}
	err = s.call(ctx, r, func(ctx context.Context) error {
		out, err := s.client.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.object(key)})
		if err != nil {
			return err
		}
		data, err = attempt.ReadBody(out.Body, attempt.SizeOf(out.ContentLength))
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	r := s.request("get", key, "s3:GetObject")
	if err := s.check(ctx, r); err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 {
		return nil, fmt.Errorf("get %s in %s: range of %d bytes at %d is negative", key, s, length, offset)
	}
	if length == 0 {
		_, err := s.head(ctx, r)
		return nil, err
	}
	last := offset + min(length-1, math.MaxInt64-offset)
	err = s.call(ctx, r, func(ctx context.Context) error {
		out, err := s.client.api.GetObject(ctx, &s3.GetObjectInput{
			Bucket: &s.bucket, Key: s.object(key), Range: aws.String(fmt.Sprintf("bytes=%d-%d", offset, last)),
		}, withoutChecksum)
		if status, _ := answerOf(err); status == http.StatusRequestedRangeNotSatisfiable {
			data = nil // there is an object, and it ends before
			return nil
		}
		if err != nil {
			return err
		}
		if out.ContentRange == nil { // a storage may leave ranges out of account
			data, err = attempt.Cut(out.Body, offset, length)
			return err
		}
		data, err = attempt.ReadRange(out.Body, attempt.SizeOf(out.ContentLength), *out.ContentRange, offset, length)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// withoutChecksum asks for none with a range: there is one of the whole object
// at best, and some storages send that.
func withoutChecksum(o *s3.Options) {
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (objstore.Object, error) {
	r := s.request("head", key, "s3:GetObject")
	if err := s.check(ctx, r); err != nil {
		return objstore.Object{}, err
	}
	out, err := s.head(ctx, r)
	if err != nil {
		return objstore.Object{}, err
	}
	return objstore.Object{Key: key, Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified)}, nil
}

// head asks for an object's description. A refusal of a HEAD comes without
// words, so one is asked for with a GET.
func (s *Store) head(ctx context.Context, r attempt.Request) (out *s3.HeadObjectOutput, err error) {
	err = s.call(ctx, r, func(ctx context.Context) (err error) {
		out, err = s.client.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: s.object(r.Key)})
		switch status, _ := answerOf(err); status {
		case http.StatusMovedPermanently, http.StatusBadRequest, http.StatusForbidden:
			body, reason := s.client.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.object(r.Key), Range: aws.String("bytes=0-0")})
			if reason == nil {
				body.Body.Close()
			} else if status, _ := answerOf(reason); status != 0 && status != http.StatusRequestedRangeNotSatisfiable {
				return reason
			}
		}
		return err
	})
	return out, err
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	r := s.request("delete", key, "s3:DeleteObject")
	if err := s.check(ctx, r); err != nil {
		return err
	}
	applied, err := s.service.Do(ctx, r, func(ctx context.Context) error {
		_, err := s.client.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: s.object(key)})
		if _, code := answerOf(err); code == "NoSuchKey" { // some say so
			return nil
		}
		return err
	})
	if err != nil && applied {
		return attempt.Unknown(err)
	}
	return err
}
