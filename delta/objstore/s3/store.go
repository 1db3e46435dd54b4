package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Store keeps objects in a bucket, below a prefix. It is safe for concurrent use.
type Store struct {
	client *Client
	bucket string
	// prefix is "" or ends with a slash.
	prefix string

	// What the storage has shown so far, see probe.go.
	probing     sync.Mutex
	conditional bool
	multipart   completion
}

var _ objstore.Store = (*Store)(nil)

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
	return &Store{client: c, bucket: bucket, prefix: prefix}, nil
}

// String implements objstore.Store: "s3://bucket/prefix".
func (s *Store) String() string {
	return strings.TrimSuffix("s3://"+s.bucket+"/"+s.prefix, "/")
}

// object is the name of a key in the bucket.
func (s *Store) object(key string) *string { return aws.String(s.prefix + key) }

// check refuses a call that can't be made.
func (s *Store) check(ctx context.Context, r request) error {
	if err := objstore.CheckKey(r.key); err != nil {
		return fmt.Errorf("%s: %w", r.op, err)
	}
	if r.key == probeKey {
		return fmt.Errorf("%s: %w: %s is kept for the probe of conditional puts", r.op, objstore.ErrKey, r.key)
	}
	if err := ctx.Err(); err != nil {
		return s.fault(r, err)
	}
	return nil
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) (data []byte, err error) {
	r := request{"get", key, "s3:GetObject"}
	if err := s.check(ctx, r); err != nil {
		return nil, err
	}
	err = s.call(ctx, r, func(ctx context.Context) error {
		out, err := s.client.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.object(key)})
		if err != nil {
			return err
		}
		data, err = readAll(out.Body, aws.ToInt64(out.ContentLength))
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	r := request{"get", key, "s3:GetObject"}
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
			data, err = cut(out.Body, offset, length)
			return err
		}
		data, err = readAll(out.Body, min(length, aws.ToInt64(out.ContentLength)))
		if err == nil && int64(len(data)) > length {
			return fmt.Errorf("%d bytes came for a range of %d", len(data), length)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// readAll reads a body to its end, where the SDK compares its checksum, and closes it.
func readAll(body io.ReadCloser, size int64) ([]byte, error) {
	defer body.Close()
	// A size is only what somebody says: more than this is not set aside for it.
	const trusted = 256 << 20
	buf := bytes.NewBuffer(make([]byte, 0, min(max(size, 0), trusted)+bytes.MinRead))
	if _, err := buf.ReadFrom(body); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// withoutChecksum asks for none with a range: there is one of the whole object
// at best, and some storages send that.
func withoutChecksum(o *s3.Options) {
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
}

// cut reads a range of a whole body, and closes it.
func cut(body io.ReadCloser, offset, length int64) ([]byte, error) {
	defer body.Close()
	if _, err := io.CopyN(io.Discard, body, offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil // it ends before
		}
		return nil, err
	}
	return io.ReadAll(io.LimitReader(body, length))
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (objstore.Object, error) {
	r := request{"head", key, "s3:GetObject"}
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
func (s *Store) head(ctx context.Context, r request) (out *s3.HeadObjectOutput, err error) {
	err = s.call(ctx, r, func(ctx context.Context) (err error) {
		out, err = s.client.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: s.object(r.key)})
		switch status, _ := answerOf(err); status {
		case http.StatusMovedPermanently, http.StatusBadRequest, http.StatusForbidden:
			body, reason := s.client.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.object(r.key), Range: aws.String("bytes=0-0")})
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
	r := request{"delete", key, "s3:DeleteObject"}
	if err := s.check(ctx, r); err != nil {
		return err
	}
	applied, err := s.try(ctx, r, func(ctx context.Context) error {
		_, err := s.client.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: s.object(key)})
		if _, code := answerOf(err); code == "NoSuchKey" { // some say so
			return nil
		}
		return err
	})
	if err != nil && applied {
		return unknown(err)
	}
	return err
}

// unknown marks the error of a write that may have had its effect.
func unknown(err error) error {
	return &fault{err.Error() + "; " + objstore.ErrUnknownOutcome.Error(), []error{objstore.ErrUnknownOutcome, err}}
}
