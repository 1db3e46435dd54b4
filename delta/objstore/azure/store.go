package azure

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // Azure's checksum of a blob
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// Store keeps blobs in a container, below a prefix. It is safe for concurrent use.
type Store struct {
	service   *attempt.Service
	api       *container.Client
	container string
	// prefix is "" or ends with a slash.
	prefix, name string
	probe        attempt.Probe
}

var _ objstore.Streamer = (*Store)(nil)

// String implements objstore.Store: "abfss://container@account.dfs.core.windows.net/prefix",
// and "az://container/prefix" at an endpoint of its own.
func (s *Store) String() string { return s.name }

func (s *Store) request(op, key, right string) attempt.Request {
	return attempt.Request{Op: op, Key: key, Store: s.name, Right: right}
}

func check(r attempt.Request) error {
	if err := checkKey(r.Key); err != nil {
		return fmt.Errorf("%s: %w", r.Op, err)
	}
	return nil
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) (data []byte, err error) {
	r := s.request("get", key, "read")
	if err := check(r); err != nil {
		return nil, err
	}
	_, err = s.service.Do(ctx, r, func(ctx context.Context) error {
		response, err := s.api.NewBlobClient(s.prefix+key).DownloadStream(ctx, nil)
		if err != nil {
			return err
		}
		if data, err = attempt.ReadBody(response.Body, attempt.SizeOf(response.ContentLength)); err != nil {
			return err
		}
		if sum := md5.Sum(data); response.ContentMD5 != nil && !bytes.Equal(response.ContentMD5, sum[:]) {
			return attempt.ErrDamaged
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	r := s.request("get", key, "read")
	if err := check(r); err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 {
		return nil, fmt.Errorf("get %s in %s: range of %d bytes at %d is negative", key, s, length, offset)
	}
	if length == 0 {
		_, err := s.head(ctx, r)
		return nil, err
	}
	count := min(length, math.MaxInt64-offset)
	_, err = s.service.Do(ctx, r, func(ctx context.Context) error {
		response, err := s.api.NewBlobClient(s.prefix+key).DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: offset, Count: count}})
		if answerOf(err).Status == http.StatusRequestedRangeNotSatisfiable {
			data = nil // there is a blob, and it ends before
			return nil
		}
		if err != nil {
			return err
		}
		if response.ContentRange == nil {
			data, err = attempt.Cut(response.Body, offset, length)
			return err
		}
		data, err = attempt.ReadRange(response.Body, attempt.SizeOf(response.ContentLength), *response.ContentRange, offset, length)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (objstore.Object, error) {
	r := s.request("head", key, "read")
	if err := check(r); err != nil {
		return objstore.Object{}, err
	}
	o, err := s.head(ctx, r)
	if err != nil {
		return objstore.Object{}, err
	}
	return objstore.Object{Key: key, Size: attempt.SizeOf(o.ContentLength), Modified: value(o.LastModified)}, nil
}

func (s *Store) head(ctx context.Context, r attempt.Request) (o blob.GetPropertiesResponse, err error) {
	_, err = s.service.Do(ctx, r, func(ctx context.Context) (err error) {
		o, err = s.api.NewBlobClient(s.prefix+r.Key).GetProperties(ctx, nil)
		if err == nil && o.ContentLength == nil {
			return errNotAzure
		}
		return err
	})
	if err == nil && isFolder(o.Metadata) {
		return o, attempt.NotExist(r, nil)
	}
	return o, err
}

// isFolder tells the folders of an account with a hierarchical namespace, which
// are shown as blobs.
func isFolder(metadata map[string]*string) bool {
	for name, v := range metadata {
		if strings.EqualFold(name, "hdi_isfolder") && v != nil && *v == "true" {
			return true
		}
	}
	return false
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, key, data, false)
}

// PutIfAbsent implements objstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, key, data, true)
}

// Probe finds out whether the container keeps the condition of PutIfAbsent, once a Store:
// an emulator may not. The error wraps attempt.ErrNoConditionalPut where it does not. It
// needs the right to write, and leaves a blob behind.
func (s *Store) Probe(ctx context.Context) error { return s.probe.Run(ctx, s, "If-None-Match: *") }

// tokenName is the metadata that tells whose write a blob is. Azure wants a name
// of a variable.
const tokenName = "gscdwrite"

// maxWhole is how much one request may carry.
const maxWhole = 5000 << 20

func (s *Store) write(ctx context.Context, key string, data []byte, absent bool) error {
	r := s.request("put", key, "write")
	if err := check(r); err != nil {
		return err
	}
	if len(data) > maxWhole {
		return fmt.Errorf("put %s in %s: %d bytes are more than Azure takes in one request, 5000 MiB: write smaller files", key, s, len(data))
	}
	token, sum := rand.Text(), md5.Sum(data)
	options := &blockblob.UploadOptions{
		Metadata:                map[string]*string{tokenName: &token},
		TransactionalValidation: blob.TransferValidationTypeMD5(sum[:]),
	}
	if absent {
		options.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}
	}
	return s.service.Settle(ctx, r, absent, func(ctx context.Context) error {
		_, err := s.api.NewBlockBlobClient(s.prefix+key).Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), options)
		return err
	}, func(ctx context.Context) (attempt.Owner, error) { return s.whose(ctx, key, data, token) })
}

// whose looks at the blob of a write's key.
func (s *Store) whose(ctx context.Context, key string, data []byte, token string) (attempt.Owner, error) {
	return attempt.Whose(ctx, s, key, data, token, func(ctx context.Context) (found string, size int64, err error) {
		o, err := s.head(ctx, s.request("head", key, "read"))
		for name, v := range o.Metadata {
			if strings.EqualFold(name, tokenName) {
				found = value(v)
			}
		}
		return found, attempt.SizeOf(o.ContentLength), err
	})
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	r := s.request("delete", key, "delete")
	if err := check(r); err != nil {
		return err
	}
	applied, err := s.service.Do(ctx, r, func(ctx context.Context) error {
		_, err := s.api.NewBlobClient(s.prefix+key).Delete(ctx, nil)
		return err
	})
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		return nil
	case err != nil && applied:
		return attempt.Unknown(err)
	}
	return err
}

// List implements objstore.Store. Each page of five thousand blobs is a request;
// none is made before it is needed. Folders are left out, and what has no key of ours.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		if err := objstore.CheckPrefix(prefix); err != nil {
			yield(objstore.Object{}, fmt.Errorf("list: %w", err))
			return
		}
		r := s.request("list", prefix, "list")
		last, start := s.prefix, s.prefix+startAfter
		for marker := (*string)(nil); ; {
			var page container.ListBlobsFlatResponse
			_, err := s.service.Do(ctx, r, func(ctx context.Context) (err error) {
				pager := s.api.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: to.Ptr(s.prefix + prefix), Marker: marker})
				page, err = pager.NextPage(ctx)
				if err == nil && page.Segment == nil {
					return errNotAzure // a web page reads as a list of nothing
				}
				return err
			})
			if err != nil {
				yield(objstore.Object{}, err)
				return
			}
			for _, o := range page.Segment.BlobItems {
				name := value(o.Name)
				if name <= last && last != s.prefix {
					yield(objstore.Object{}, fmt.Errorf("list %s in %s: %s lists %q behind %q: use an account without a hierarchical namespace, or other names", prefix, s, s.service.Name, name, last))
					return
				}
				last = name
				key := strings.TrimPrefix(name, s.prefix)
				if startAfter != "" && name <= start || o.Properties == nil || checkKey(key) != nil ||
					value(o.Properties.ResourceType) == "directory" {
					continue
				}
				if !yield(objstore.Object{Key: key, Size: attempt.SizeOf(o.Properties.ContentLength), Modified: value(o.Properties.LastModified)}, nil) {
					return
				}
			}
			if marker = page.NextMarker; value(marker) == "" {
				return
			}
		}
	}
}
