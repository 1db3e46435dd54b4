package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	transport "google.golang.org/api/transport/http"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// ErrOptions is wrapped by errors about options, a bucket or a prefix that can't be right.
var ErrOptions = errors.New("not the settings of a Google Cloud Storage")

// Options say how the storage is reached. The zero value is Google's service
// with the application default credentials: GOOGLE_APPLICATION_CREDENTIALS, those
// of gcloud, or the service account of the machine.
type Options struct {
	// Endpoint is the URL of another place that speaks the JSON API, an emulator
	// or a private access point: https://HOST:PORT. Default: STORAGE_EMULATOR_HOST,
	// then without credentials, else Google's.
	Endpoint string
	// CredentialsFile is a JSON file: a service account's key, an authorized
	// user's credentials, a workload identity's configuration.
	CredentialsFile string
	// Anonymous sends requests without credentials.
	Anonymous bool
	attempt.Options
}

// Client reaches the service with one set of credentials. Its stores share
// connections. It is safe for concurrent use.
type Client struct {
	api     *storage.Service
	http    *http.Client // for what the SDK does not do
	service *attempt.Service
}

// NewClient makes a client. It reads the credentials, and asks the storage
// nothing. The error wraps ErrOptions where an option is at fault.
func NewClient(ctx context.Context, o Options) (*Client, error) {
	if o.Anonymous && o.CredentialsFile != "" {
		return nil, fmt.Errorf("open Google Cloud Storage: %w: gcs.anonymous and gcs.credentials_file exclude each other", ErrOptions)
	}
	if host := os.Getenv("STORAGE_EMULATOR_HOST"); o.Endpoint == "" && host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		o.Endpoint, o.Anonymous = host, o.CredentialsFile == ""
	}
	o.Options = o.Options.WithDefaults()
	c := &Client{service: newService(o.Options)}
	opts := []option.ClientOption{}
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		switch {
		case strings.Contains(o.Endpoint, "@"):
			return nil, fmt.Errorf("open Google Cloud Storage: %w: the endpoint has a login in it, which would be printed: use gcs.credentials_file", ErrOptions)
		case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
			return nil, fmt.Errorf("open Google Cloud Storage: %w: the endpoint %q is no URL: write http://HOST:PORT or https://HOST:PORT", ErrOptions, o.Endpoint)
		}
		c.service.Name = strings.TrimRight(o.Endpoint, "/")
		opts = append(opts, option.WithEndpoint(c.service.Name+"/storage/v1/"))
	}
	signed, err := authenticated(ctx, o)
	if err != nil {
		return nil, err
	}
	c.http = attempt.NewClient(signed)
	c.api, err = storage.NewService(ctx, append(opts, option.WithHTTPClient(c.http))...)
	if err != nil {
		return nil, fmt.Errorf("open Google Cloud Storage: %w", err)
	}
	return c, nil
}

// authenticated is a transport that signs requests.
func authenticated(ctx context.Context, o Options) (http.RoundTripper, error) {
	base := o.NewTransport()
	if o.Anonymous {
		return base, nil
	}
	opts := []option.ClientOption{option.WithScopes(storage.DevstorageReadWriteScope)}
	if o.CredentialsFile != "" {
		kind, err := kindOf(o.CredentialsFile)
		if err != nil {
			return nil, err
		}
		opts = append(opts, option.WithAuthCredentialsFile(kind, o.CredentialsFile))
	}
	signed, err := transport.NewTransport(ctx, &sender{base}, opts...)
	if err != nil && o.CredentialsFile != "" {
		return nil, fmt.Errorf("open Google Cloud Storage: %w: gcs.credentials_file %s: %s", ErrOptions, o.CredentialsFile, attempt.Plain(err.Error()))
	}
	if err != nil {
		return nil, fmt.Errorf("open Google Cloud Storage: %w: there are no credentials: set gcs.credentials_file or GOOGLE_APPLICATION_CREDENTIALS, run gcloud auth application-default login, give the machine a service account, or set gcs.anonymous", ErrOptions)
	}
	return &signer{signed}, nil
}

// signer tells an error of the credentials from one of the storage: the request
// did not get past it.
type signer struct{ signed http.RoundTripper }

// sentKey is the key of the mark that a request was sent, in its context.
type sentKey struct{}

// RoundTrip implements http.RoundTripper.
func (s *signer) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := new(bool)
	response, err := s.signed.RoundTrip(r.WithContext(context.WithValue(r.Context(), sentKey{}, sent)))
	if err != nil && !*sent {
		err = &attempt.CredentialsError{Err: err}
	}
	return response, err
}

// sender marks the requests that it sends.
type sender struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s *sender) RoundTrip(r *http.Request) (*http.Response, error) {
	if sent, ok := r.Context().Value(sentKey{}).(*bool); ok {
		*sent = true
	}
	return s.base.RoundTrip(r)
}

// Store makes the store of a folder of a bucket; prefix "" is the whole bucket.
func (c *Client) Store(bucket, prefix string) (*Store, error) {
	if bucket == "" || strings.ContainsAny(bucket, "@:/?# \\") {
		return nil, fmt.Errorf("open Google Cloud Storage: %w: %q is no name of a bucket: write gs://BUCKET/PATH", ErrOptions, bucket)
	}
	prefix = strings.Trim(prefix, "/")
	if prefix != "" {
		if err := objstore.CheckKey(prefix); err != nil {
			return nil, fmt.Errorf("open Google Cloud Storage: %w: the folder in the bucket: %w", ErrOptions, err)
		}
		prefix += "/"
	}
	return &Store{client: c, bucket: bucket, prefix: prefix}, nil
}

// Open makes a store of its own client. Nothing of the storage is read or created.
func Open(ctx context.Context, bucket, prefix string, o Options) (*Store, error) {
	c, err := NewClient(ctx, o)
	if err != nil {
		return nil, err
	}
	return c.Store(bucket, prefix)
}

// answerOf reads an error of the SDK.
func answerOf(err error) attempt.Answer {
	var api *googleapi.Error
	if !errors.As(err, &api) {
		return attempt.Answer{}
	}
	a := attempt.Answer{Status: api.Code, Message: api.Message, ID: api.Header.Get("X-Guploader-Uploadid")}
	reasons := api.Errors
	if a.Message == "" { // the answer to a request for content is not read by the SDK
		var body struct {
			Error struct {
				Message string                `json:"message"`
				Errors  []googleapi.ErrorItem `json:"errors"`
			} `json:"error"`
		}
		if json.Unmarshal([]byte(api.Body), &body) == nil {
			a.Message, reasons = body.Error.Message, body.Error.Errors
		} else if a.Status != http.StatusNotFound && len(api.Body) < 300 {
			a.Message = api.Body
		}
	}
	if len(reasons) > 0 {
		a.Code = reasons[0].Reason
	}
	return a
}
