package s3

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// ErrNoConditionalPut is wrapped where the storage does not keep If-None-Match:
// two writers could commit the same version there.
var ErrNoConditionalPut = attempt.ErrNoConditionalPut

// ErrOptions is wrapped by errors about options, a bucket or a prefix that can't be right.
var ErrOptions = errors.New("not the settings of an S3 storage")

// Options say how a storage is reached. The zero value is Amazon S3 with what
// the AWS environment says: AWS_REGION, AWS_PROFILE, AWS_ACCESS_KEY_ID,
// AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ENDPOINT_URL_S3, AWS_CA_BUNDLE, roles of
// the machine or container.
type Options struct {
	// Endpoint is the URL of a storage that is not Amazon's: https://HOST:PORT.
	Endpoint string
	// Region of the bucket. Default: the environment's, else us-east-1 where
	// the endpoint is set.
	Region string
	// PathStyle puts the bucket into the path, not into the host name.
	PathStyle bool
	// AccessKeyID and SecretAccessKey go before the environment's credentials.
	// SessionToken belongs to temporary ones.
	AccessKeyID     string
	SecretAccessKey string `json:"-"`
	SessionToken    string `json:"-"`
	// Renew, where it is set, gives these three anew. It is asked when the storage
	// refuses the credentials, as are the AWS environment's files; the request is
	// made again where there are other ones. nil: they are always the same.
	Renew func() (accessKeyID, secretAccessKey, sessionToken string, err error) `json:"-"`

	// Role, where it is set, is what these credentials, or the environment's, are
	// exchanged for.
	Role Role
	// Encryption is asked for with every object that is written.
	Encryption Encryption
	// FIPS and DualStack choose among Amazon's endpoints: those with validated
	// cryptography, those of IPv6 and IPv4.
	FIPS, DualStack bool

	// CAFile is a PEM file of the authorities that sign the storage's certificate.
	// Default: AWS_CA_BUNDLE's, else those of the system.
	CAFile string

	// PartSize is the size in bytes from which an object is sent in parts, and
	// that of a part. Default 16 MiB, at least 5 MiB.
	PartSize int64
	// UploadMemory bounds the bytes of all bodies that are sent at one time by
	// the stores of a client. Default 64 MiB, at least PartSize.
	UploadMemory int64

	// Attempts is how often a request is made in all. Default 6.
	Attempts int
	// FirstWait is the wait before the second attempt; each later one is twice as
	// long, up to a hundred times. Default 100 ms, and five times that where the
	// storage asks for fewer requests.
	FirstWait time.Duration
	// Timeout is how long a request may go without a byte sent or received.
	// Default 30 s.
	Timeout time.Duration

	// Retried is told of each request that is made again. It may be called
	// from several goroutines.
	Retried func(Retry)
	// Transport wraps what sends requests to the storage: for tests and tracing.
	Transport func(http.RoundTripper) http.RoundTripper
}

// Retry describes a request that failed and will be made again.
type Retry = attempt.Retry

// String leaves out the secrets.
func (o Options) String() string {
	return fmt.Sprintf("endpoint %q, region %q, path style %t", o.Endpoint, o.Region, o.PathStyle)
}

// GoString is String: %#v must not print secrets either.
func (o Options) GoString() string { return o.String() }

const (
	defaultRegion = "us-east-1"
	minPartSize   = 5 << 20
	// maxParts is S3's limit on the parts of an upload.
	maxParts = 10_000
)

// withDefaults fills in what is not set, and says what can't be.
func (o Options) withDefaults() (Options, error) {
	o.PartSize = cmp.Or(o.PartSize, 16<<20)
	o.UploadMemory = max(cmp.Or(o.UploadMemory, 64<<20), o.PartSize)
	o.Attempts = max(cmp.Or(o.Attempts, 6), 1)
	o.FirstWait = cmp.Or(o.FirstWait, 100*time.Millisecond)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	if o.PartSize < minPartSize {
		return o, fmt.Errorf("%w: parts of %d bytes are too small, S3 wants 5 MiB at least", ErrOptions, o.PartSize)
	}
	if (o.AccessKeyID == "") != (o.SecretAccessKey == "") {
		return o, fmt.Errorf("%w: s3.access_key_id and s3.secret_access_key go together", ErrOptions)
	}
	if o.SessionToken != "" && o.AccessKeyID == "" {
		return o, fmt.Errorf("%w: s3.session_token belongs to an s3.access_key_id", ErrOptions)
	}
	if err := o.Role.check(); err != nil {
		return o, err
	}
	if err := o.Encryption.check(); err != nil {
		return o, err
	}
	if o.Endpoint != "" {
		if o.FIPS || o.DualStack {
			return o, fmt.Errorf("%w: s3.fips and s3.dualstack choose among Amazon's endpoints, and s3.endpoint is set", ErrOptions)
		}
		return o, checkEndpoint(o.Endpoint)
	}
	return o, nil
}

// checkEndpoint refuses what is no URL of a host. It prints none of a text that
// may have a login in it.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err == nil && u.User != nil, strings.Contains(endpoint, "@"):
		return fmt.Errorf("%w: the endpoint has a login in it, which would be printed: use s3.access_key_id and s3.secret_access_key", ErrOptions)
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return fmt.Errorf("%w: the endpoint %q is no URL: write http://HOST:PORT or https://HOST:PORT", ErrOptions, endpoint)
	}
	return nil
}

// checkBucket refuses what no bucket is called, and buckets that a table can't
// be kept in.
func checkBucket(bucket string) error {
	switch {
	case bucket == "":
		return fmt.Errorf("%w: no bucket is named: write s3://BUCKET/PATH", ErrOptions)
	case strings.Contains(bucket, "@"):
		return fmt.Errorf("%w: the address has a login in it, which would be printed: use s3.access_key_id and s3.secret_access_key", ErrOptions)
	case strings.HasSuffix(bucket, "--x-s3"):
		return fmt.Errorf("%w: %s is a directory bucket, which lists in no order: use a general purpose bucket", ErrOptions, bucket)
	case strings.ContainsAny(bucket, ":/?# \\"):
		return fmt.Errorf("%w: %q is no name of a bucket: write s3://BUCKET/PATH", ErrOptions, bucket)
	}
	return nil
}

// cleanPrefix gives the prefix with one slash behind it, "" for the whole bucket.
func cleanPrefix(prefix string) (string, error) {
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return "", nil
	}
	if err := objstore.CheckKey(prefix); err != nil {
		return "", fmt.Errorf("%w: the folder in the bucket: %w", ErrOptions, err)
	}
	return prefix + "/", nil
}
