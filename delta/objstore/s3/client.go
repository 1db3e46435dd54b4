package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// Client reaches one endpoint with one set of credentials. Its stores share
// connections and the memory for uploads. It is safe for concurrent use.
type Client struct {
	api  *s3.Client
	opts Options
	keys keys
	// endpoint names the storage for messages.
	endpoint string
	// slots has a place for each body that may be sent at one time.
	slots chan struct{}
}

// NewClient makes a client. It reads the AWS environment and files, and asks
// the storage nothing. The error wraps ErrOptions where an option is at fault.
func NewClient(ctx context.Context, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open S3 storage: %w", err)
	}
	cfg, err := loadConfig(ctx, o)
	if err != nil {
		return nil, err
	}
	// The SDK has put the authorities of AWS_CA_BUNDLE into a client of this type.
	built, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		return nil, fmt.Errorf("open S3 storage: the SDK made a %T", cfg.HTTPClient)
	}
	watched := attempt.Options{Timeout: o.Timeout, Transport: o.Transport}.Watch(built.GetTransport())
	c := &Client{opts: o, slots: make(chan struct{}, o.UploadMemory/o.PartSize)}
	c.keys.provider, c.keys.load = cfg.Credentials, func(ctx context.Context) (aws.CredentialsProvider, error) {
		again := o
		if o.Renew != nil {
			var err error
			if again.AccessKeyID, again.SecretAccessKey, again.SessionToken, err = o.Renew(); err != nil {
				return nil, err
			}
		}
		cfg, err := loadConfig(ctx, again)
		return cfg.Credentials, err // of the role, asked for anew
	}
	c.api = s3.NewFromConfig(cfg, func(s *s3.Options) {
		if o.Endpoint != "" {
			s.BaseEndpoint = &o.Endpoint
		}
		if s.BaseEndpoint != nil {
			s.Region = cmp.Or(s.Region, defaultRegion)
		}
		s.UsePathStyle = o.PathStyle
		s.Retryer = aws.NopRetryer{}
		// A wrong clock of this machine is a fault to mend: gscd goes by it.
		s.DisableClockSkewCorrection = true
		s.DisableLogOutputChecksumValidationSkipped = true
		s.HTTPClient = sender{attempt.NewClient(watched)}
		if cfg.Credentials != nil {
			s.Credentials = &c.keys
		}
	})
	used := c.api.Options()
	if used.Region == "" {
		return nil, fmt.Errorf("open S3 storage: %w: no region is known: set s3.region or AWS_REGION", ErrOptions)
	}
	c.endpoint = "Amazon S3 in " + used.Region
	if used.BaseEndpoint != nil {
		if err := checkEndpoint(*used.BaseEndpoint); err != nil { // it may be AWS_ENDPOINT_URL's
			return nil, fmt.Errorf("open S3 storage: %w", err)
		}
		c.endpoint = *used.BaseEndpoint
	}
	return c, nil
}

// loadConfig reads what the AWS environment and its files say beside the options.
func loadConfig(ctx context.Context, o Options) (aws.Config, error) {
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(tune)),
		// The SDK prints warnings to the standard error otherwise.
		config.WithLogger(logging.Nop{}),
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.AccessKeyID != "" {
		load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(o.AccessKeyID, o.SecretAccessKey, o.SessionToken)))
	}
	if o.CAFile != "" {
		bundle, err := readAuthorities(o.CAFile)
		if err != nil {
			return aws.Config{}, fmt.Errorf("open S3 storage: %w", err)
		}
		load = append(load, config.WithCustomCABundle(bytes.NewReader(bundle)))
	}
	if o.FIPS {
		load = append(load, config.WithUseFIPSEndpoint(aws.FIPSEndpointStateEnabled))
	}
	if o.DualStack {
		load = append(load, config.WithUseDualStackEndpoint(aws.DualStackEndpointStateEnabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("open S3 storage: read the AWS environment (AWS_PROFILE, AWS_CONFIG_FILE, AWS_CA_BUNDLE): %w", err)
	}
	if o.Role.ARN != "" {
		if cfg.Credentials, err = o.Role.assume(cfg, o); err != nil {
			return aws.Config{}, err
		}
	}
	return cfg, nil
}

// readAuthorities reads a PEM file of certificates.
func readAuthorities(path string) ([]byte, error) {
	bundle, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: s3.ca_file: %w", ErrOptions, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%w: s3.ca_file: %s has no certificate: give the PEM file of the authority that signed the storage's", ErrOptions, path)
	}
	return bundle, nil
}

// tune lets as many connections wait for use as a scan has readers, and writes
// in larger pieces than the 4 KiB of the library.
func tune(t *http.Transport) {
	t.MaxIdleConnsPerHost = 64
	t.WriteBufferSize = 64 << 10
	t.ReadBufferSize = 64 << 10
}

// credentialsError: the request was not made, for nothing could sign it.
type credentialsError = attempt.CredentialsError

// Credentials gives those that requests are signed with, renewed as they are: for other
// services of the same account.
func (c *Client) Credentials() aws.CredentialsProvider { return &c.keys }

// acquire waits for a place to send a body from. release gives it back.
func (c *Client) acquire(ctx context.Context) (release func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
