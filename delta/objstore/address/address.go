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

// AccountOpener opens a folder of a container of an Azure account; account is ""
// where the address names none.
type AccountOpener func(ctx context.Context, account, container, folder string) (objstore.Store, error)

type options struct {
	s3, google Opener
	azure      AccountOpener
	whole      bool
}

// S3 opens s3:// and s3a:// addresses. The opener is handed in, so that a
// program without that storage is built without its SDK.
func S3(open Opener) Option { return func(o *options) { o.s3 = open } }

// Google opens gs:// addresses.
func Google(open Opener) Option { return func(o *options) { o.google = open } }

// Azure opens az:// and abfss:// addresses.
func Azure(open AccountOpener) Option { return func(o *options) { o.azure = open } }

// WholeBuckets takes a whole bucket too: what is opened is no table, and nothing lies beside it.
func WholeBuckets() Option { return func(o *options) { o.whole = true } }

// Open opens the store that an address names: a path ("/data/orders",
// "./orders"), "file:///data/orders" (percent-encoded), or a folder of a bucket,
// "s3://bucket/orders" or "s3a://bucket/orders", "gs://bucket/orders",
// "az://container/orders" or "abfss://container@account.dfs.core.windows.net/orders",
// taken as it is written. Nothing is read or created. The error wraps ErrAddress or ErrUnavailable where the
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
	case "s3", "s3a", "gs", "az", "abfs", "abfss":
		store, err := openBucket(ctx, o, scheme, rest)
		if errors.Is(err, ErrAddress) {
			return nil, fmt.Errorf("%w: %q: %s", ErrAddress, Shown(address), strings.TrimPrefix(err.Error(), ErrAddress.Error()+": "))
		}
		return store, err
	}
	return nil, fmt.Errorf("%w: %q has the unknown scheme %q, use a path, file://, s3://, gs://, az:// or abfss://", ErrAddress, Shown(address), scheme)
}

// openBucket opens a folder of a bucket. What is wrong with the address itself
// wraps ErrAddress.
func openBucket(ctx context.Context, o options, scheme, rest string) (objstore.Store, error) {
	p, err := placeOf(scheme, rest)
	if err == nil && p.folder == "" && !o.whole {
		text, _, _ := form(scheme)
		err = fmt.Errorf("it names a whole bucket: write %s", text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	switch {
	case (scheme == "s3" || scheme == "s3a") && o.s3 != nil:
		return o.s3(ctx, p.bucket, p.folder)
	case scheme == "gs" && o.google != nil:
		return o.google(ctx, p.bucket, p.folder)
	case scheme[0] == 'a' && o.azure != nil:
		return o.azure(ctx, p.account, p.bucket, p.folder)
	}
	return nil, fmt.Errorf("%w: %s://, use a path on a file system", ErrUnavailable, scheme)
}

// Shown is an address as it may be printed: without the login that a URL may have.
func Shown(address string) string {
	scheme, rest, isURL := splitScheme(address)
	if !isURL || !strings.HasPrefix(rest, "//") {
		return address
	}
	host, path, _ := strings.Cut(rest[2:], "/")
	at := strings.LastIndexByte(host, '@')
	if at >= 0 && namesAccount(scheme) && !strings.ContainsAny(host[:at], ":@") {
		return address
	}
	if at >= 0 {
		return scheme + "://***" + host[at:] + strings.TrimSuffix("/"+path, "/")
	}
	return address
}

// place is where a table lies in a storage of buckets.
type place struct{ account, bucket, folder string }

// form is how addresses of a scheme are written, login the settings that a login
// belongs into, setting that of the endpoint.
func form(scheme string) (text, login, setting string) {
	switch scheme {
	case "gs":
		return "gs://BUCKET/PATH", "gcs.credentials_file", "gcs.endpoint"
	case "az":
		return "az://CONTAINER/PATH", "azure.account_key or azure.sas_token", "azure.endpoint"
	case "abfs", "abfss":
		return "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH", "azure.account_key or azure.sas_token", "azure.endpoint"
	}
	return "s3://BUCKET/PATH", "s3.access_key_id and s3.secret_access_key", "s3.endpoint"
}

// placeOf takes what stands behind the scheme apart. The folder is empty where it is a
// whole bucket, which no table is: beside it lies its dead-letter table.
func placeOf(scheme, rest string) (p place, err error) {
	text, login, setting := form(scheme)
	bucket, folder, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	p = place{bucket: bucket, folder: strings.Trim(folder, "/")}
	if namesAccount(scheme) {
		container, host, _ := strings.Cut(bucket, "@")
		account, domain, _ := strings.Cut(host, ".")
		if container == "" || strings.Contains(container, ":") || account == "" || domain != "dfs.core.windows.net" && domain != "blob.core.windows.net" {
			return p, fmt.Errorf("it names no container and account: write %s; another endpoint is set by azure.endpoint, for az:// addresses", text)
		}
		p.account, p.bucket = account, container
	}
	switch {
	case strings.Contains(p.bucket, "@"):
		return p, fmt.Errorf("it has a login in it, which would be printed: use %s", login)
	case p.bucket == "":
		return p, fmt.Errorf("it names no bucket: write %s", text)
	case strings.ContainsAny(p.bucket+p.folder, "?#"):
		return p, fmt.Errorf("it has a query or fragment: settings of the storage belong into the configuration, %s and so on", setting)
	}
	return p, nil
}

// namesAccount: what stands before the @ is no login but a container.
func namesAccount(scheme string) bool { return scheme == "abfs" || scheme == "abfss" }

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
