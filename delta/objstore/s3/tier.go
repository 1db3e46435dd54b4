package s3

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

const opSetClass = "set class of"

var _ objstore.Tierer = (*Store)(nil)

// classes are those whose objects are read like any other. Of the others S3 wants objects
// to be restored first, which takes hours.
var classes = []string{
	string(types.StorageClassStandard), string(types.StorageClassStandardIa), string(types.StorageClassOnezoneIa),
	string(types.StorageClassIntelligentTiering), string(types.StorageClassGlacierIr),
}

// Classes implements objstore.Tierer.
func (s *Store) Classes() []string { return slices.Clone(classes) }

// classOf is the class that S3 means: it says none of the usual one.
func classOf(class string) string { return cmp.Or(class, string(types.StorageClassStandard)) }

// ListClasses implements objstore.Tierer. It takes the requests of List, and no more.
func (s *Store) ListClasses(ctx context.Context, prefix string) iter.Seq2[objstore.Classed, error] {
	return s.list(ctx, prefix, "")
}

// SetClass implements objstore.Tierer: the object is copied onto itself by the storage. Its
// metadata stay. S3 takes no object of more than 5 GiB this way.
func (s *Store) SetClass(ctx context.Context, key, class string) error {
	r := s.request(opSetClass, key, "s3:PutObject")
	if !slices.Contains(classes, class) {
		return fmt.Errorf("%w: class %q of %s: use one of %q", ErrOptions, class, key, classes)
	}
	if err := s.check(ctx, r); err != nil {
		return err
	}
	// In a path some storages read a plus as a space.
	from := strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(s.bucket + "/" + *s.object(key)))
	applied, err := s.service.Do(ctx, r, func(ctx context.Context) error {
		_, err := s.client.api.CopyObject(ctx, &s3.CopyObjectInput{
			Bucket: &s.bucket, Key: s.object(key), CopySource: aws.String(from), StorageClass: types.StorageClass(class),
			MetadataDirective:    types.MetadataDirectiveCopy,
			ServerSideEncryption: s.client.opts.Encryption.sse(), SSEKMSKeyId: s.client.opts.Encryption.key(), BucketKeyEnabled: s.client.opts.Encryption.bucketKey(),
		})
		return err
	})
	if err != nil && applied {
		return attempt.Unknown(err)
	}
	return err
}
