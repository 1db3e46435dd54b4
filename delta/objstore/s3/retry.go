package s3

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// newService is how the storage is asked by a store.
func (s *Store) newService() *attempt.Service {
	o := s.client.opts
	return &attempt.Service{
		Options: attempt.Options{Attempts: o.Attempts, FirstWait: o.FirstWait, Timeout: o.Timeout, Retried: o.Retried},
		Name:    s.client.endpoint, Endpoint: "s3.endpoint",
		Answer: func(err error) (a attempt.Answer) {
			a.Status, a.Code = answerOf(err)
			return a
		},
		Verdict: func(a attempt.Answer, err error) attempt.Verdict {
			if refusedKeys(a.Code) && s.client.keys.renew() {
				return attempt.Again
			}
			return verdict(a, err)
		},
		Taken: func(a attempt.Answer) bool { return a.Status == http.StatusPreconditionFailed },
		Gone:  func(a attempt.Answer) bool { return a.Code == noSuchUpload },
		Word:  s.word,
	}
}

// verdict is what the codes of S3, and errors that are not the network's, say
// about making a request again.
func verdict(a attempt.Answer, err error) attempt.Verdict {
	var credentials *credentialsError
	switch {
	case errors.Is(err, errNotS3), errors.Is(err, errWantsTLS):
		return attempt.Refused
	case errors.As(err, &credentials):
		return ofCredentials(credentials.Err)
	}
	return ofCode(a.Code)
}

func ofCode(code string) attempt.Verdict {
	switch code {
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "ServerBusy", "TooManyRequests", "TooManyRequestsException",
		"Throttling", "ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded":
		return attempt.Slower
	case "RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch":
		return attempt.Again // the body came late, short or damaged
	case "ConditionalRequestConflict", "OperationAborted":
		// Another write of the key was under way; who won shows at the next attempt.
		return attempt.Again
	case "InternalError", "ServiceUnavailable":
		return attempt.Lost
	}
	return attempt.Open
}

// ofCredentials is what the error of who gives credentials says.
func ofCredentials(err error) attempt.Verdict {
	status, code := answerOf(err)
	for _, v := range []attempt.Verdict{ofCode(code), attempt.OfStatus(status)} {
		if v != attempt.Open {
			return v
		}
	}
	if !passing(err) {
		return attempt.Refused
	}
	return attempt.Again
}

// passing tells whether who gives credentials may give them at another time.
func passing(err error) bool {
	// A machine without a role has nobody at the address of its metadata.
	var operation *smithy.OperationError
	if errors.As(err, &operation) && operation.Service() == "ec2imds" {
		return false
	}
	if status, code := answerOf(err); status != 0 || code != "" {
		return status >= 500 || status == http.StatusTooManyRequests
	}
	return attempt.Passing(err)
}

// answerOf gives the status and the code of an error that the storage answered
// with; 0 and "" where none came.
func answerOf(err error) (status int, code string) {
	var credentials *credentialsError
	if errors.As(err, &credentials) {
		return 0, "" // another service's
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil && response.Response.Response != nil {
		status = response.HTTPStatusCode()
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	return status, code
}

// request names what is asked of the storage; right is what a policy must allow.
func (s *Store) request(op, key, right string) attempt.Request {
	return attempt.Request{Op: op, Key: key, Store: s.String(), Right: right}
}

// call makes a request whose repetition does no harm, until it is answered.
func (s *Store) call(ctx context.Context, r attempt.Request, send func(context.Context) error) error {
	_, err := s.service.Do(ctx, r, send)
	return err
}
