package s3

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// probeKey is the key of the probe.
const probeKey = attempt.ProbeKey

const probeText = "gscd wrote this object to find out whether the storage keeps If-None-Match: * on it.\n" +
	"Without that two writers could commit one version. The object may be deleted.\n"

// completion is what is known of If-None-Match on the end of an upload.
type completion int

const (
	untried completion = iota
	kept
	ignored
)

// Probe finds out whether the storage keeps conditional puts, once a Store: a
// put with If-None-Match: * on a key that is taken must be refused. The error
// wraps ErrNoConditionalPut where it is not, and says what to do in any case.
// It needs the right to write, and leaves the probe's object behind.
func (s *Store) Probe(ctx context.Context) error {
	s.probing.Lock()
	defer s.probing.Unlock()
	if s.conditional {
		return nil
	}
	r := s.request("put", probeKey, "s3:PutObject")
	// The first put may find the probe of an earlier process; if not, it is what
	// the second one must find.
	for range 2 {
		refused := false
		err := s.call(ctx, r, func(ctx context.Context) error {
			out, err := s.client.api.PutObject(ctx, &s3.PutObjectInput{
				Bucket: &s.bucket, Key: s.object(probeKey), Body: strings.NewReader(probeText), IfNoneMatch: aws.String(ifAbsent),
				ServerSideEncryption: s.client.opts.Encryption.sse(), SSEKMSKeyId: s.client.opts.Encryption.key(), BucketKeyEnabled: s.client.opts.Encryption.bucketKey(),
			})
			status, _ := answerOf(err)
			if refused = status == http.StatusPreconditionFailed; refused {
				return nil
			}
			if err == nil && out.ETag == nil {
				return errNotS3 // a web page takes a put for a form
			}
			return err
		})
		if status, code := answerOf(err); status == http.StatusNotImplemented || code == "NotImplemented" {
			return fmt.Errorf("%w (%s answers %s): use one that has If-None-Match on puts", ErrNoConditionalPut, s.client.endpoint, named(status, code))
		}
		if err != nil {
			return err
		}
		if refused {
			s.conditional = true
			return nil
		}
	}
	return fmt.Errorf("%w (%s took two puts with If-None-Match: * for one key): two writers could commit one version, use a storage that has them", ErrNoConditionalPut, s.client.endpoint)
}

// completesIfAbsent finds out whether the storage keeps the condition on the end
// of an upload, once a Store, with the probe's key. Where it doesn't, an object
// is written whole: one put may have 5 GiB.
func (s *Store) completesIfAbsent(ctx context.Context) (bool, error) {
	s.probing.Lock()
	defer s.probing.Unlock()
	if s.multipart != untried {
		return s.multipart == kept, nil
	}
	w := s.newWrite(probeKey, []byte(probeText), true)
	id, err := s.createUpload(ctx, w)
	if err != nil {
		return false, err
	}
	parts, err := s.sendParts(ctx, w, id)
	if err != nil {
		s.abortUpload(ctx, w, id)
		return false, err
	}
	refused, ended := false, false
	err = s.call(ctx, w.Request, func(ctx context.Context) error {
		err := s.completeUpload(ctx, w, id, parts)
		status, code := answerOf(err)
		refused, ended = status == http.StatusPreconditionFailed, err == nil || code == noSuchUpload
		if refused || ended {
			return nil
		}
		return err
	})
	if !ended {
		s.abortUpload(ctx, w, id)
	}
	if err != nil {
		return false, err
	}
	s.multipart = ignored
	if refused {
		s.multipart = kept
	}
	return refused, nil
}
