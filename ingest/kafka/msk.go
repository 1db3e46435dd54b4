package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// mskIAM is the login of Amazon MSK by IAM: OAUTHBEARER with a signed URL as token.
const mskIAM = "aws-msk-iam"

// msk gives the mechanism. A token is signed for each login, good for 15 minutes; the
// credentials behind it are renewed by the SDK before they end.
func (s SASL) msk() sasl.Mechanism {
	var mu sync.Mutex
	var provider aws.CredentialsProvider
	credentials := func(ctx context.Context) (aws.CredentialsProvider, error) {
		mu.Lock()
		defer mu.Unlock()
		if provider != nil {
			return provider, nil
		}
		cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(s.Region), config.WithLogger(logging.Nop{}))
		if err != nil {
			return nil, err
		}
		provider = cfg.Credentials
		if s.RoleARN != "" {
			provider = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), s.RoleARN, func(o *stscreds.AssumeRoleOptions) {
				o.RoleSessionName = "gscd"
				if s.ExternalID != "" {
					o.ExternalID = &s.ExternalID
				}
			}))
		}
		return provider, nil
	}
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		from, err := credentials(ctx)
		if err != nil {
			return oauth.Auth{}, fmt.Errorf("%w: the AWS environment: %w", ErrCredentials, err)
		}
		token, _, err := signer.GenerateAuthTokenFromCredentialsProvider(ctx, s.Region, from)
		if err != nil {
			return oauth.Auth{}, fmt.Errorf("%w: those of AWS that sign the login at MSK: %w", ErrCredentials, err)
		}
		return oauth.Auth{Token: token}, nil
	})
}
