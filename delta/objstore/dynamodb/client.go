package dynamodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// ErrOptions is wrapped by errors about options that can't be right.
var ErrOptions = errors.New("not the settings of a DynamoDB log store")

// Options say how DynamoDB is reached. The zero value is Amazon's with what the
// AWS environment says.
type Options struct {
	// Table is the DynamoDB table. Default: delta_log, as Spark has it.
	Table string
	// Endpoint is the URL of a DynamoDB that is not Amazon's.
	Endpoint string
	// Region of the DynamoDB table. Default: the environment's, else us-east-1
	// where the endpoint is set.
	Region string
	// AccessKeyID and SecretAccessKey go before the environment's credentials.
	// SessionToken belongs to temporary ones.
	AccessKeyID     string
	SecretAccessKey string `json:"-"`
	SessionToken    string `json:"-"`
	// Credentials, where they are set, are used in place of all those: a role's.
	Credentials aws.CredentialsProvider `json:"-"`
	attempt.Options
}

// String leaves out the secrets.
func (o Options) String() string {
	return fmt.Sprintf("table %q, endpoint %q, region %q", o.Table, o.Endpoint, o.Region)
}

// GoString is String: %#v must not print secrets either.
func (o Options) GoString() string { return o.String() }

// Client reaches one DynamoDB table. It is safe for concurrent use.
type Client struct {
	api     *dynamodb.Client
	table   string
	service *attempt.Service
}

// NewClient makes a client. It reads the AWS environment and files, and asks
// DynamoDB nothing. The error wraps ErrOptions where an option is at fault.
func NewClient(ctx context.Context, o Options) (*Client, error) {
	c, err := newClient(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open the DynamoDB log store: %w", err)
	}
	return c, nil
}

func newClient(ctx context.Context, o Options) (*Client, error) {
	o.Options = o.Options.WithDefaults()
	o.Table = cmp.Or(o.Table, "delta_log")
	if (o.AccessKeyID == "") != (o.SecretAccessKey == "") {
		return nil, fmt.Errorf("%w: s3.access_key_id and s3.secret_access_key go together", ErrOptions)
	}
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient()),
		config.WithLogger(logging.Nop{}), // the SDK prints warnings to the standard error otherwise
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.AccessKeyID != "" {
		load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(o.AccessKeyID, o.SecretAccessKey, o.SessionToken)))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("read the AWS environment (AWS_PROFILE, AWS_CONFIG_FILE, AWS_CA_BUNDLE): %w", err)
	}
	// The SDK has put the authorities of AWS_CA_BUNDLE into a client of this type.
	built, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		return nil, fmt.Errorf("the SDK made a %T", cfg.HTTPClient)
	}
	provider := cfg.Credentials
	if o.Credentials != nil {
		provider = o.Credentials
	}
	api := dynamodb.NewFromConfig(cfg, func(d *dynamodb.Options) {
		if o.Endpoint != "" {
			d.BaseEndpoint = &o.Endpoint
		}
		if d.BaseEndpoint != nil {
			d.Region = cmp.Or(d.Region, "us-east-1")
		}
		d.Retryer = aws.NopRetryer{}
		d.HTTPClient = attempt.NewClient(o.Watch(built.GetTransport()))
		if provider != nil {
			d.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
				found, err := provider.Retrieve(ctx)
				if err != nil {
					err = &attempt.CredentialsError{Err: err}
				}
				return found, err
			})
		}
	})
	used := api.Options()
	if used.Region == "" {
		return nil, fmt.Errorf("%w: no region is known: set s3.dynamodb_region, s3.region or AWS_REGION", ErrOptions)
	}
	name := "DynamoDB in " + used.Region
	if used.BaseEndpoint != nil {
		if err := checkEndpoint(*used.BaseEndpoint); err != nil { // it may be AWS_ENDPOINT_URL's
			return nil, err
		}
		name = *used.BaseEndpoint
	}
	return &Client{api, o.Table, newService(o.Options, name, o.Table)}, nil
}

// checkEndpoint refuses what is no URL of a host. It prints none of a text that
// may have a login in it.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case strings.Contains(endpoint, "@"):
		return fmt.Errorf("%w: the endpoint has a login in it, which would be printed: use s3.access_key_id and s3.secret_access_key", ErrOptions)
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return fmt.Errorf("%w: the endpoint %q is no URL: write http://HOST:PORT or https://HOST:PORT", ErrOptions, endpoint)
	}
	return nil
}
