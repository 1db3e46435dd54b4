package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Role is a role whose temporary credentials are used in place of those that are
// configured or found. The zero value is none.
type Role struct {
	// ARN names the role: arn:aws:iam::ACCOUNT:role/NAME.
	ARN string
	// ExternalID is what the role's trust policy may ask for.
	ExternalID string
	// SessionName stands in the logs of AWS; default gscd.
	SessionName string
	// Duration is how long credentials are asked for, 15m to 12h; default 1h.
	Duration time.Duration
	// WebIdentityTokenFile is a file with an OpenID Connect token, with which the role is
	// taken without other credentials. It is read at each renewal.
	WebIdentityTokenFile string
	// Endpoint is the URL of an STS that is not Amazon's.
	Endpoint string
}

const (
	// renewBefore is how long before their end credentials of a role are renewed.
	renewBefore = 5 * time.Minute
	// renewAgain is the wait after a renewal that failed while the old ones are good.
	renewAgain = 10 * time.Second
	minSession = 15 * time.Minute
	maxSession = 12 * time.Hour
)

func (r Role) check() error {
	switch {
	case r.ARN == "" && r != (Role{}):
		return fmt.Errorf("%w: s3.role has no arn: write arn:aws:iam::ACCOUNT:role/NAME", ErrOptions)
	case r.ARN == "":
		return nil
	case !strings.HasPrefix(r.ARN, "arn:"):
		return fmt.Errorf("%w: s3.role.arn %q is no ARN: write arn:aws:iam::ACCOUNT:role/NAME", ErrOptions, r.ARN)
	case r.WebIdentityTokenFile != "" && r.ExternalID != "":
		return fmt.Errorf("%w: s3.role.external_id does not go with a web_identity_token_file", ErrOptions)
	case r.Duration != 0 && (r.Duration < minSession || r.Duration > maxSession):
		return fmt.Errorf("%w: s3.role.duration %s: STS gives credentials for 15m to 12h", ErrOptions, r.Duration)
	case r.Endpoint != "":
		return checkEndpoint(r.Endpoint)
	}
	return nil
}

// assume puts the role's credentials into cfg in place of those that are there, with
// which they are asked for.
func (r Role) assume(cfg aws.Config, o Options) (aws.CredentialsProvider, error) {
	client, err := stsTransport(o)
	if err != nil {
		return nil, err
	}
	api := sts.NewFromConfig(cfg, func(s *sts.Options) {
		s.HTTPClient = client
		if r.Endpoint != "" {
			s.BaseEndpoint = &r.Endpoint
		}
		s.Region = cmp.Or(s.Region, defaultRegion)
	})
	session, duration := cmp.Or(r.SessionName, "gscd"), cmp.Or(r.Duration, time.Hour)
	var provider aws.CredentialsProvider
	if r.WebIdentityTokenFile != "" {
		provider = stscreds.NewWebIdentityRoleProvider(api, r.ARN, stscreds.IdentityTokenFile(r.WebIdentityTokenFile), func(w *stscreds.WebIdentityRoleOptions) {
			w.RoleSessionName, w.Duration = session, duration
		})
	} else {
		provider = stscreds.NewAssumeRoleProvider(api, r.ARN, func(a *stscreds.AssumeRoleOptions) {
			a.RoleSessionName, a.Duration = session, duration
			if r.ExternalID != "" {
				a.ExternalID = &r.ExternalID
			}
		})
	}
	return aws.NewCredentialsCache(&lasting{CredentialsProvider: provider}, func(c *aws.CredentialsCacheOptions) { c.ExpiryWindow = renewBefore }), nil
}

// stsTransport trusts the system's authorities beside those of CAFile: STS and storage
// may have certificates of two authorities.
func stsTransport(o Options) (*awshttp.BuildableClient, error) {
	client := awshttp.NewBuildableClient()
	if o.CAFile == "" {
		return client, nil
	}
	bundle, err := readAuthorities(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("open S3 storage: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(bundle)
	return client.WithTransportOptions(func(t *http.Transport) {
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.TLSClientConfig.RootCAs = pool
	}), nil
}

// lasting keeps credentials until their true end where they can't be renewed before:
// an STS that is down for a minute stops nothing.
type lasting struct {
	aws.CredentialsProvider
	mu  sync.Mutex
	end time.Time
}

// Retrieve implements aws.CredentialsProvider.
func (l *lasting) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := l.CredentialsProvider.Retrieve(ctx)
	if err == nil {
		l.mu.Lock()
		l.end = found.Expires
		l.mu.Unlock()
	}
	return found, err
}

// HandleFailToRefresh implements aws.HandleFailRefreshCredentialsCacheStrategy.
func (l *lasting) HandleFailToRefresh(ctx context.Context, previous aws.Credentials, err error) (aws.Credentials, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !previous.HasKeys() || !now.Before(l.end) || errors.Is(err, context.Canceled) {
		return aws.Credentials{}, err
	}
	previous.CanExpire, previous.Expires = true, now.Add(renewAgain)
	if previous.Expires.After(l.end) {
		previous.Expires = l.end
	}
	return previous, nil
}

// AdjustExpiresBy implements aws.AdjustExpiresByCredentialsCacheStrategy: credentials
// that do not last for twice the window are renewed halfway.
func (l *lasting) AdjustExpiresBy(found aws.Credentials, by time.Duration) (aws.Credentials, error) {
	if left := time.Until(found.Expires); left+by < -by {
		by = -left / 2
	}
	found.Expires = found.Expires.Add(by)
	return found, nil
}
