package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// decision says what to do after a failed attempt.
type decision struct {
	// again: the same request may succeed after wait.
	again bool
	wait  time.Duration
	// applied: a write may have had its effect.
	applied bool
}

// decide is the one place that decides on a failed attempt, the n-th from 1.
// reached tells that a connection was there to send on.
func (c *Client) decide(err error, n int, reached bool) decision {
	status, code := answerOf(err)
	d := decision{wait: backoff(c.opts.FirstWait, n)}
	if errors.Is(err, errNotS3) || errors.Is(err, errWantsTLS) {
		return d
	}
	switch code {
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "ServerBusy", "TooManyRequests", "TooManyRequestsException",
		"Throttling", "ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded":
		// Turned away before anything was done. It wants fewer requests, so later ones.
		d.again, d.wait = true, backoff(5*c.opts.FirstWait, n)
	case "RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch":
		// The body came late, short or damaged: nothing was stored.
		d.again = true
	case "ConditionalRequestConflict", "OperationAborted":
		// Another write of the key was under way; who won shows at the next attempt.
		d.again = true
	case "InternalError", "ServiceUnavailable":
		d.again, d.applied = true, true
	default:
		switch {
		case status == http.StatusTooManyRequests:
			d.again, d.wait = true, backoff(5*c.opts.FirstWait, n)
		case status == http.StatusRequestTimeout:
			d.again = true
		case status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported, status == http.StatusInsufficientStorage:
			// An answer that stays the same.
		case status >= 500:
			// It may come from a proxy that had passed the request on.
			d.again, d.applied = true, true
		case status >= 300:
			// Refused.
		case reached:
			// No answer, or one that broke off. The request may have arrived.
			d.again, d.applied = true, true
		default:
			d.again = passing(err)
		}
	}
	return d
}

// backoff is the wait before attempt n+1: the first one doubled each time, up to
// a hundred times, of which a random half is left out, for many clients fail in
// the same moment.
func backoff(first time.Duration, n int) time.Duration {
	d := min(first<<min(n-1, 10), 100*first)
	return d/2 + rand.N(d/2+1)
}

// passing tells a fault of the network, which may pass, from one that stays:
// a URL that can't be, a certificate that nobody vouches for.
func passing(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	if errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &host) || errors.Is(err, http.ErrSchemeMismatch) {
		return false
	}
	// A machine without a role has nobody at the address of its metadata.
	var operation *smithy.OperationError
	if errors.As(err, &operation) && operation.Service() == "ec2imds" {
		return false
	}
	if status, code := answerOf(err); status != 0 || code != "" { // of who gives credentials
		return status >= 500 || status == http.StatusTooManyRequests
	}
	return brokeOff(err)
}

// brokeOff: the network failed, before or in the middle of an answer.
func brokeOff(err error) bool {
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &network) || errors.As(err, &name) || errors.Is(err, errStalled) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
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

// attempt makes a request once, and decides on its error.
func (c *Client) attempt(ctx context.Context, n int, send func(context.Context) error) (decision, error) {
	var reached atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	})
	err := send(traced)
	if err == nil {
		return decision{}, nil
	}
	var credentials *credentialsError
	if errors.As(err, &credentials) {
		d := c.decide(credentials.err, n, false)
		d.applied = false // it was never sent
		return d, err
	}
	return c.decide(err, n, reached.Load()), err
}

// request names what is asked of the storage, for messages.
type request struct {
	op  string // of objstore.Store
	key string
	// action is what a policy must allow.
	action string
}

// call makes a request whose repetition does no harm, until it is answered. The
// error has its sentence.
func (s *Store) call(ctx context.Context, r request, send func(context.Context) error) error {
	_, err := s.try(ctx, r, send)
	return err
}

// try is call that says whether any of the attempts may have had its effect.
func (s *Store) try(ctx context.Context, r request, send func(context.Context) error) (applied bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, s.fault(r, err)
	}
	for n := 1; ; n++ {
		d, err := s.client.attempt(ctx, n, send)
		if err == nil {
			return true, nil
		}
		applied = applied || d.applied
		if !s.again(ctx, r, n, d, err) {
			return applied, s.fault(r, given(ctx, err))
		}
	}
}

// again waits for the next attempt; false where there is to be none.
func (s *Store) again(ctx context.Context, r request, n int, d decision, err error) bool {
	if !d.again || n >= s.client.opts.Attempts || ctx.Err() != nil {
		return false
	}
	if s.client.opts.Retried != nil {
		s.client.opts.Retried(Retry{Store: s.String(), Op: r.op, Key: r.key, Attempt: n, Wait: d.wait, Err: s.fault(r, err)})
	}
	t := time.NewTimer(d.wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// given puts the caller's giving up before what it brought about in the SDK. An
// answer goes before both.
func given(ctx context.Context, err error) error {
	if status, _ := answerOf(err); status == 0 && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
