package s3

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/gscd-io/gscd/delta/objstore"
)

// noSuchUpload is the code of an upload that was completed or aborted.
const noSuchUpload = "NoSuchUpload"

// uploads is how often an upload that the storage has lost is begun anew.
const uploads = 3

// upload writes an object in parts, several at a time.
func (s *Store) upload(ctx context.Context, w *write) error {
	for n := 1; ; n++ {
		id, err := s.createUpload(ctx, w)
		if err != nil {
			return err
		}
		parts, err := s.sendParts(ctx, w, id)
		if err == nil {
			err = s.settle(ctx, w, func(ctx context.Context) error { return s.completeUpload(ctx, w, id, parts) })
		}
		if err == nil {
			return nil
		}
		s.abortUpload(ctx, w, id)
		if _, code := answerOf(err); code != noSuchUpload || n == uploads || errors.Is(err, objstore.ErrUnknownOutcome) {
			return s.service.Fault(w.Request, err)
		}
	}
}

// checksum is that of parts: said at the beginning as well, or the storage takes
// the parts' for none of its own. A storage that knows none is used with
// AWS_REQUEST_CHECKSUM_CALCULATION=when_required.
func (c *Client) checksum() types.ChecksumAlgorithm {
	if c.api.Options().RequestChecksumCalculation == aws.RequestChecksumCalculationWhenRequired {
		return ""
	}
	return types.ChecksumAlgorithmCrc32
}

func (s *Store) createUpload(ctx context.Context, w *write) (id string, err error) {
	err = s.call(ctx, w.Request, func(ctx context.Context) error {
		out, err := s.client.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
			Bucket: &s.bucket, Key: s.object(w.Key), Metadata: w.metadata(), ChecksumAlgorithm: s.client.checksum(),
			ServerSideEncryption: s.client.opts.Encryption.sse(), SSEKMSKeyId: s.client.opts.Encryption.key(), BucketKeyEnabled: s.client.opts.Encryption.bucketKey(),
		})
		if err == nil {
			id = aws.ToString(out.UploadId)
		}
		return err
	})
	return id, err
}

// sendParts sends all parts. It gives them in order.
func (s *Store) sendParts(ctx context.Context, w *write, id string) ([]types.CompletedPart, error) {
	size := max(s.client.opts.PartSize, (int64(len(w.data))+maxParts-1)/maxParts)
	count := (int64(len(w.data)) + size - 1) / size
	parts := make([]types.CompletedPart, count)
	caller := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var sending sync.WaitGroup
	for i := range count {
		// Not a goroutine for each part, but for each that has a place.
		release, err := s.client.acquire(ctx)
		if err != nil {
			break
		}
		sending.Go(func() {
			defer release()
			data := w.data[i*size : min((i+1)*size, int64(len(w.data)))]
			part, err := s.sendPart(ctx, w, id, int32(i)+1, data)
			if parts[i] = part; err != nil {
				stop(err) // only the first counts: the others' are that of being stopped
			}
		})
	}
	sending.Wait()
	if err := caller.Err(); err != nil {
		return nil, s.service.Fault(w.Request, err)
	}
	return parts, context.Cause(ctx)
}

func (s *Store) sendPart(ctx context.Context, w *write, id string, number int32, data []byte) (part types.CompletedPart, err error) {
	err = s.call(ctx, w.Request, func(ctx context.Context) error {
		out, err := s.client.api.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &s.bucket, Key: s.object(w.Key), UploadId: &id, PartNumber: &number,
			Body: bytes.NewReader(data), ChecksumAlgorithm: s.client.checksum(),
		})
		if err == nil {
			part = types.CompletedPart{ETag: out.ETag, PartNumber: &number, ChecksumCRC32: out.ChecksumCRC32}
		}
		return err
	})
	return part, err
}

func (s *Store) completeUpload(ctx context.Context, w *write, id string, parts []types.CompletedPart) error {
	_, err := s.client.api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &s.bucket, Key: s.object(w.Key), UploadId: &id, IfNoneMatch: w.condition(),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

// abortUpload frees what the parts take. It is best effort, also for a caller
// who has given up: a lifecycle rule of the bucket removes what stays.
func (s *Store) abortUpload(ctx context.Context, w *write, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, _ = s.client.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: s.object(w.Key), UploadId: &id})
}
