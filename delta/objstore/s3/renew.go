package s3

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// keys are the credentials of a client. The SDK renews those that say when they
// end; others are read anew once the storage refuses them, for whoever rotates them
// has written new ones into the file that they are from.
type keys struct {
	// load reads them from their source.
	load func(ctx context.Context) (aws.CredentialsProvider, error)

	mu       sync.Mutex
	provider aws.CredentialsProvider // nil for none
	used     aws.Credentials         // what it gave last
	// tried is when they were read anew last, renewed when that brought other ones.
	tried, renewed time.Time
}

const (
	// renewEvery is how often credentials are read anew at most.
	renewEvery = time.Second
	// renewWait bounds one reading.
	renewWait = 10 * time.Second
)

// Retrieve implements aws.CredentialsProvider.
func (k *keys) Retrieve(ctx context.Context) (aws.Credentials, error) {
	k.mu.Lock()
	provider := k.provider
	k.mu.Unlock()
	found, err := provider.Retrieve(ctx)
	if err != nil {
		return found, &credentialsError{Err: err}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if provider == k.provider {
		k.used = found
	}
	return found, nil
}

// renew is called when the storage has refused the credentials. It tells whether
// there are other ones to try.
func (k *keys) renew() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch now := time.Now(); {
	case now.Sub(k.renewed) < renewEvery:
		return true // what was refused may have been signed before that
	case k.provider == nil, now.Sub(k.tried) < renewEvery:
		return false
	}
	k.tried = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), renewWait)
	defer cancel()
	provider, err := k.load(ctx)
	if err != nil || provider == nil {
		return false // the refusal says what is to be done
	}
	found, err := provider.Retrieve(ctx)
	if err != nil || found.AccessKeyID == k.used.AccessKeyID && found.SecretAccessKey == k.used.SecretAccessKey && found.SessionToken == k.used.SessionToken {
		return false
	}
	k.provider, k.used, k.renewed = provider, found, time.Now()
	return true
}

// refusedKeys tells the codes by which a storage refuses credentials.
func refusedKeys(code string) bool {
	switch code {
	case "InvalidAccessKeyId", "XAdminUserNotFound", "SignatureDoesNotMatch", "InvalidToken", "InvalidTokenId", "InvalidSecurity":
		return true
	}
	return expired(code)
}

// expired tells the codes of credentials whose time is over: who gave them will
// give others.
func expired(code string) bool {
	return code == "ExpiredToken" || code == "ExpiredTokenException" || code == "TokenRefreshRequired"
}
