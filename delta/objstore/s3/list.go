package s3

import (
	"context"
	"fmt"
	"iter"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/gscd-io/gscd/delta/objstore"
)

// List implements objstore.Store. Each page of a thousand objects is a request;
// none is made before it is needed. What has no key of ours (a folder that a
// console made: "a/") is left out, and so is the probe.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		for o, err := range s.list(ctx, prefix, startAfter) {
			if !yield(o.Object, err) {
				return
			}
		}
	}
}

func (s *Store) list(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Classed, error] {
	return func(yield func(objstore.Classed, error) bool) {
		if err := objstore.CheckPrefix(prefix); err != nil {
			yield(objstore.Classed{}, fmt.Errorf("list: %w", err))
			return
		}
		r := s.request("list", prefix, "s3:ListBucket")
		in := &s3.ListObjectsV2Input{
			Bucket: &s.bucket, Prefix: s.object(prefix),
			// XML has no way to write some of the characters that a name may have.
			EncodingType: types.EncodingTypeUrl,
		}
		if startAfter != "" {
			in.StartAfter = s.object(startAfter)
		}
		last := s.prefix + startAfter
		for {
			var page *s3.ListObjectsV2Output
			err := s.call(ctx, r, func(ctx context.Context) (err error) {
				page, err = s.client.api.ListObjectsV2(ctx, in)
				if err == nil && page.IsTruncated == nil && page.Name == nil {
					return errNotS3 // a web page reads as a list of nothing
				}
				return err
			})
			if err != nil {
				yield(objstore.Classed{}, err)
				return
			}
			for _, o := range page.Contents {
				name, err := nameIn(page, aws.ToString(o.Key))
				if err != nil {
					yield(objstore.Classed{}, fmt.Errorf("list %s in %s: %w", prefix, s, err))
					return
				}
				if name <= last && last != s.prefix {
					yield(objstore.Classed{}, fmt.Errorf("list %s in %s: %s lists %q behind %q: use a storage that lists in the order of bytes and keeps start-after", prefix, s, s.client.endpoint, name, last))
					return
				}
				last = name
				key := name[min(len(s.prefix), len(name)):]
				if objstore.CheckKey(key) != nil || key == probeKey {
					continue
				}
				object := objstore.Object{Key: key, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)}
				if !yield(objstore.Classed{Object: object, Class: classOf(string(o.StorageClass))}, nil) {
					return
				}
			}
			if !aws.ToBool(page.IsTruncated) {
				return
			}
			in.ContinuationToken = page.NextContinuationToken
			if aws.ToString(in.ContinuationToken) == "" {
				yield(objstore.Classed{}, fmt.Errorf("list %s in %s: %s says that there is more, and not how to get it", prefix, s, s.client.endpoint))
				return
			}
		}
	}
}

// nameIn is a name of a page as it is in the bucket.
func nameIn(page *s3.ListObjectsV2Output, name string) (string, error) {
	if page.EncodingType != types.EncodingTypeUrl {
		return name, nil // not every storage encodes
	}
	return url.QueryUnescape(name)
}
