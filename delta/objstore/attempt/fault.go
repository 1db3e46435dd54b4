package attempt

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
)

// fault is an error in words of ours. It wraps what callers decide by, and the
// SDK's error, whose text is not shown.
type fault struct {
	text  string
	wraps []error
}

func (f *fault) Error() string { return f.text }

func (f *fault) Unwrap() []error { return f.wraps }

// Worded is an error with its words: Fault returns it as it is. It wraps what
// callers decide by, and the SDK's error, whose text is not shown.
func Worded(text string, wraps ...error) error { return &fault{text, wraps} }

// CredentialsError marks the error of a request that was not made, for nothing
// could sign it.
type CredentialsError struct{ Err error }

func (e *CredentialsError) Error() string { return e.Err.Error() }

func (e *CredentialsError) Unwrap() error { return e.Err }

func isCredentials(err error) bool {
	var c *CredentialsError
	return errors.As(err, &c)
}

// Fault words the error of a request: what was asked for, where, and what to do.
// An error that has its words already is returned as it is.
func (s *Service) Fault(r Request, err error) error {
	var done *fault
	if errors.As(err, &done) {
		return err
	}
	if s.Word != nil {
		return s.Word(r, err)
	}
	a := s.answer(err)
	if r.Op != "put" && r.Op != "list" && s.is(s.Missing, a) {
		return NotExist(r, err)
	}
	f := &fault{text: fmt.Sprintf("%s in %s: %s", r, r.Store, s.sentence(r, a, err)), wraps: []error{err}}
	if s.mayPass(err) {
		f.wraps = append(f.wraps, objstore.ErrTemporary)
	}
	return f
}

// String is the call and its key.
func (r Request) String() string { return strings.TrimSuffix(r.Op+" "+r.Key, " ") }

// NotExist is the error of a request for an object that is not there. cause may be nil.
func NotExist(r Request, cause error) error {
	f := &fault{fmt.Sprintf("%s: %v in %s", r, objstore.ErrNotExist, r.Store), []error{objstore.ErrNotExist}}
	if cause != nil {
		f.wraps = append(f.wraps, cause)
	}
	return f
}

// Exists is the error of a write whose key is taken.
func Exists(r Request) error {
	return &fault{fmt.Sprintf("%s: %v in %s", r, objstore.ErrExist, r.Store), []error{objstore.ErrExist}}
}

// Unknown marks the error of a write that may have had its effect.
func Unknown(err error) error {
	return &fault{err.Error() + "; " + objstore.ErrUnknownOutcome.Error(), []error{objstore.ErrUnknownOutcome, err}}
}

// mayPass asks decide whether the same request may succeed at another time.
func (s *Service) mayPass(err error) bool {
	if GivenUp(err) {
		return false
	}
	return s.decide(err, 1, !isCredentials(err) && s.answer(err).Status == 0 && BrokeOff(err)).again
}

// GivenUp: the caller's context ended. An error of the network may say the
// same of itself, wrapped.
func GivenUp(err error) bool {
	return err == context.Canceled || err == context.DeadlineExceeded //nolint:errorlint // a wrapped one is another's
}

// sentence says what happened and what to do about it.
func (s *Service) sentence(r Request, a Answer, err error) string {
	if GivenUp(err) {
		return err.Error()
	}
	if text := s.Sentence(r, a, err); text != "" {
		return text
	}
	switch {
	case isCredentials(err):
		return "the credentials can't be had: mend what gives them: " + Plain(err.Error())
	case a.Status == 0 || a.Status < 300 && BrokeOff(err):
		return s.unanswered(err)
	case s.mayPass(err) && s.Options.Attempts > 1:
		return fmt.Sprintf("%s answers %s, %d times: look after the storage, or try again later%s", s.Name, Named(a), s.Options.Attempts, Reference(a))
	}
	return fmt.Sprintf("%s refuses it with %s%s%s", s.Name, Named(a), Saying(a), Reference(a))
}

// unanswered words the want of an answer.
func (s *Service) unanswered(err error) string {
	var name *net.DNSError
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &name):
		return fmt.Sprintf("the host %s can't be looked up: check %s and the network", name.Name, s.Endpoint)
	case errors.As(err, &host):
		return fmt.Sprintf("the certificate of %s is for another name: check %s", s.Name, s.Endpoint)
	case errors.As(err, &certificate), errors.As(err, &authority):
		return fmt.Sprintf("the certificate of %s is not to be trusted: have SSL_CERT_FILE name the PEM file of its authority", s.Name)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Sprintf("%s speaks no TLS: write http:// in %s", s.Name, s.Endpoint)
	case errors.Is(err, ErrStalled):
		return fmt.Sprintf("%s answered nothing for %s: check the storage and the network", s.Name, s.Options.Timeout.Round(time.Millisecond))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("%s refuses connections: check that the storage runs, and %s", s.Name, s.Endpoint)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Sprintf("%s can't be reached: check %s and the network", s.Name, s.Endpoint)
	case errors.Is(err, ErrDamaged):
		return "what came has another checksum than what was stored: check what lies between this machine and the storage"
	case BrokeOff(err):
		return fmt.Sprintf("the connection to %s broke off: check the storage and the network", s.Name)
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // the URL may have a signature in it
	}
	return "the request could not be made: " + Plain(err.Error())
}

// ErrDamaged is the error of a body whose checksum is not the one that was sent along.
var ErrDamaged = errors.New("the checksum does not match")

// Passing tells a fault of the network, which may pass, from one that stays:
// a URL that can't be, a certificate that nobody vouches for.
func Passing(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	if errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &host) || errors.Is(err, http.ErrSchemeMismatch) {
		return false
	}
	return BrokeOff(err)
}

// BrokeOff: the network failed, before or in the middle of an answer.
func BrokeOff(err error) bool {
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &network) || errors.As(err, &name) || errors.Is(err, ErrStalled) || errors.Is(err, ErrDamaged) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Named is a status and its code.
func Named(a Answer) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, cmp.Or(a.Code, http.StatusText(a.Status))))
}

// Saying quotes the service: its words tell which policy it was.
func Saying(a Answer) string {
	if a.Message == "" {
		return ""
	}
	return fmt.Sprintf(" (it says: %s)", Plain(a.Message))
}

// Reference is the number by which the service knows the request.
func Reference(a Answer) string {
	if a.ID == "" {
		return ""
	}
	return ", request " + Plain(a.ID)
}

// Plain is a foreign text as part of one line, of 300 bytes at most.
func Plain(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
