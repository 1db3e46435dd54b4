package address

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
)

var (
	// ErrAddress is wrapped by errors about text that is no address of a store.
	ErrAddress = errors.New("not the address of a table")
	// ErrUnavailable is wrapped by errors about a storage that the caller has no
	// opener for.
	ErrUnavailable = errors.New("storage is not available in this program")
)

// Opener opens a folder of a bucket.
type Opener func(ctx context.Context, bucket, folder string) (objstore.Store, error)

// Option says how storage other than files is opened.
type Option func(*options)

type options struct{ s3 Opener }

// S3 opens s3:// and s3a:// addresses. The opener is handed in, so that a
// program without that storage is built without its SDK.
func S3(open Opener) Option { return func(o *options) { o.s3 = open } }

// Open opens the store that an address names: a path ("/data/orders",
// "./orders"), "file:///data/orders" (percent-encoded), or a folder of a bucket,
// "s3://bucket/orders" or "s3a://bucket/orders", taken as it is written. Nothing
// is read or created. The error wraps ErrAddress or ErrUnavailable where the
// address itself is at fault, and does not show a login that it has in it.
func Open(ctx context.Context, address string, opts ...Option) (objstore.Store, error) {
	if address == "" {
		return nil, fmt.Errorf("%w: it is empty, give a path or a URL", ErrAddress)
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	scheme, rest, isURL := splitScheme(address)
	if !isURL {
		return local.New(address, local.Options{})
	}
	switch scheme {
	case "file":
		path, err := filePath(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrAddress, address, err)
		}
		return local.New(path, local.Options{})
	case "s3", "s3a":
		bucket, folder, err := bucketPath(rest)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %q: %w", ErrAddress, Shown(address), err)
		case o.s3 == nil:
			return nil, fmt.Errorf("%w: %s://, use a path on a file system", ErrUnavailable, scheme)
		}
		return o.s3(ctx, bucket, folder)
	}
	return nil, fmt.Errorf("%w: %q has the unknown scheme %q, use a path, file:// or s3://", ErrAddress, Shown(address), scheme)
}

// Shown is an address as it may be printed: without the login that a URL may have.
func Shown(address string) string {
	scheme, rest, isURL := splitScheme(address)
	if !isURL || !strings.HasPrefix(rest, "//") {
		return address
	}
	host, path, _ := strings.Cut(rest[2:], "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		return scheme + "://***" + host[at:] + strings.TrimSuffix("/"+path, "/")
	}
	return address
}

// bucketPath takes what stands behind "s3:" apart. A table is a folder, not a
// bucket: beside it lies its dead-letter table.
func bucketPath(rest string) (bucket, folder string, err error) {
	bucket, folder, _ = strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	folder = strings.Trim(folder, "/")
	switch {
	case strings.Contains(bucket, "@"):
		return "", "", errors.New("it has a login in it, which would be printed: use s3.access_key_id and s3.secret_access_key")
	case bucket == "":
		return "", "", errors.New("it names no bucket: write s3://BUCKET/PATH")
	case strings.ContainsAny(bucket+folder, "?#"):
		return "", "", errors.New("it has a query or fragment: settings of the storage belong into the configuration, s3.endpoint and so on")
	case folder == "":
		return "", "", errors.New("it names a whole bucket: write s3://BUCKET/PATH")
	}
	return bucket, folder, nil
}

// splitScheme tells a URL from a path. "file:/p" is one too; other schemes
// need "//", since a path may have a colon.
func splitScheme(address string) (scheme, rest string, isURL bool) {
	scheme, rest, found := strings.Cut(address, ":")
	if !found || strings.ContainsAny(scheme, "/.") || scheme == "" {
		return "", "", false
	}
	scheme = strings.ToLower(scheme)
	return scheme, rest, strings.HasPrefix(rest, "//") || scheme == "file" && strings.HasPrefix(rest, "/")
}

func filePath(rest string) (string, error) {
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		host, path, _ := strings.Cut(after, "/")
		if host != "" && host != "localhost" {
			return "", fmt.Errorf("it names the host %q, write file:///path", host)
		}
		rest = "/" + path
	}
	if strings.ContainsAny(rest, "?#") {
		return "", errors.New("it has a query or fragment, write %3F for ? and %23 for #")
	}
	return url.PathUnescape(rest)
}
