package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// WebhookOptions say where a Webhook posts to.
type WebhookOptions struct {
	// URL is https, or http on this host.
	URL string
	// KeyID names the secret to the receiver. Secret gives it, at each attempt anew; nil:
	// nothing is signed.
	KeyID  string
	Secret func() ([]byte, error)
	// CAFile is a PEM file of the authorities that sign the receiver's certificate; "" is
	// the system's.
	CAFile string
	// Timeout bounds one attempt; default 10 s.
	Timeout time.Duration
	// UserAgent names the program: "gscd/1.2.0".
	UserAgent string
}

// SignatureHeader carries `keyid=ID,t=UNIX,v1=HEX`: HMAC-SHA256 of the time, a full stop
// and the body.
const SignatureHeader = "Gscd-Signature"

// Webhook posts events.
type Webhook struct {
	o      WebhookOptions
	host   string
	client *http.Client
}

// maxRedirects bounds how often a receiver may send a request on, on its own host.
const maxRedirects = 3

// maxAnswer is how much of an answer is read.
const maxAnswer = 4 << 10

// NewWebhook makes a Webhook. Nobody is asked yet.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("the webhook's address is no URL: write https://HOST/PATH")
	}
	if !secure(u) || u.User != nil {
		return nil, fmt.Errorf("webhook at %s: its address must be https, or http on this host, and have no login", u.Host)
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	trusted := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("webhook at %s: authorities: %w", u.Host, err)
		}
		trusted.RootCAs = x509.NewCertPool()
		if !trusted.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("webhook at %s: %s has no certificate in PEM form", u.Host, o.CAFile)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trusted
	w := &Webhook{o: o, host: u.Host}
	w.client = &http.Client{Transport: transport, Timeout: o.Timeout, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		switch {
		case next.URL.Host != u.Host || next.URL.Scheme != u.Scheme:
			return fmt.Errorf("it sends on to another host, %s, which is not followed: set url to where it is", next.URL.Host)
		case next.Method != http.MethodPost:
			return errors.New("it sends on without the body (301, 302 or 303 in place of 307 or 308): set url to where it is")
		case len(via) > maxRedirects:
			return fmt.Errorf("it sends on more than %d times", maxRedirects)
		}
		return nil
	}}
	return w, nil
}

// secure tells whether nobody else on the way can read a request.
func secure(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1")
}

// Send is Sender's. Whatever answer is not 2xx is an error.
func (w *Webhook) Send(ctx context.Context, e *Event) error {
	body, err := e.JSON()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL, bytes.NewReader(body))
	if err != nil {
		return w.fault(err)
	}
	req.Header.Set("Content-Type", ContentType)
	req.Header.Set("User-Agent", w.o.UserAgent)
	if w.o.Secret != nil {
		secret, err := w.o.Secret()
		if err != nil {
			return w.fault(fmt.Errorf("its secret: %w", err))
		}
		req.Header.Set(SignatureHeader, Sign(secret, w.o.KeyID, time.Now(), body))
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return w.fault(err)
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // so that the connection is used again
	if resp.StatusCode/100 == 2 {
		return nil
	}
	return &answerError{host: w.host, status: resp.Status, said: firstLine(said), after: retryAfter(resp.Header.Get("Retry-After"))}
}

// answerError is an answer that takes the event not.
type answerError struct {
	host, status, said string
	after              time.Duration // when it wants to be asked again, 0: it does not say
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("webhook at %s: it answers %s", e.host, e.status)
	if e.said != "" {
		text += fmt.Sprintf(": %.200q", e.said)
	}
	return text
}

// fault is an error without the address, in whose path or query a token may stand.
func (w *Webhook) fault(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("webhook at %s: %w", w.host, err)
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(line)
}

func retryAfter(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, longest)
}

// Sign gives the value of SignatureHeader for a body that is sent at a time.
func Sign(secret []byte, keyID string, at time.Time, body []byte) string {
	unix := strconv.FormatInt(at.Unix(), 10)
	return fmt.Sprintf("keyid=%s,t=%s,v1=%s", keyID, unix, hex.EncodeToString(sum(secret, unix, body)))
}

func sum(secret []byte, unix string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(unix))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}

// ErrSignature: a request was not signed with the secret, or long ago.
var ErrSignature = errors.New("the signature does not fit")

// Verify is what a receiver in Go checks before it believes a body: header was made of it
// with the secret that secretOf gives for a key id (nil: unknown), at most within before or
// after now. It takes the same time for every wrong signature.
func Verify(header string, body []byte, secretOf func(keyID string) []byte, now time.Time, within time.Duration) error {
	fields := map[string]string{}
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	unix, err := strconv.ParseInt(fields["t"], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: it has no time", ErrSignature)
	}
	if age := now.Sub(time.Unix(unix, 0)); age > within || age < -within {
		return fmt.Errorf("%w: it was made at %s", ErrSignature, time.Unix(unix, 0).UTC().Format(time.RFC3339))
	}
	given, err := hex.DecodeString(fields["v1"])
	secret := secretOf(fields["keyid"])
	if !hmac.Equal(given, sum(secret, fields["t"], body)) || err != nil || len(secret) == 0 {
		return ErrSignature
	}
	return nil
}
