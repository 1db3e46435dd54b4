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
	// ErrUnavailable is wrapped by errors about a storage that this build can't open.
	ErrUnavailable = errors.New("storage is not available in this build")
)

// Open opens the store that an address names: a path ("/data/orders",
// "./orders"), "file:///data/orders" (percent-encoded), or a URL of an object
// storage ("s3://bucket/orders"). Nothing is read or created. The error wraps
// ErrAddress or ErrUnavailable where the address itself is at fault.
func Open(ctx context.Context, address string) (objstore.Store, error) {
	if address == "" {
		return nil, fmt.Errorf("%w: it is empty, give a path or a URL", ErrAddress)
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
		return nil, fmt.Errorf("%w: %s://, use a path on a file system", ErrUnavailable, scheme)
	}
	return nil, fmt.Errorf("%w: %q has the unknown scheme %q, use a path or file://", ErrAddress, address, scheme)
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
