package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gscd-io/gscd/ingest/decode"
)

// The waits between two rounds of asking all addresses.
const (
	firstWait = 100 * time.Millisecond
	longWait  = 2 * time.Second
)

// get asks the addresses in turn until one has an answer that decides.
func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	var before error
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		body, err := c.round(ctx, path)
		var failed *decode.SchemaError
		if !errors.As(err, &failed) || !failed.Retryable {
			return body, err
		}
		if before != nil && ctx.Err() != nil {
			return nil, before // that the time was up in the last round says nothing
		}
		before = err
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait - wait/10 + rand.N(wait/5+1)):
		}
	}
}

// round asks each address once. One that fails decides nothing while another one
// answers, and one that has no such schema nothing before all others say so too:
// a follower may not have heard of it yet.
func (c *Client) round(ctx context.Context, path string) (body []byte, err error) {
	c.mu.Lock()
	first := c.last
	c.mu.Unlock()
	var none, failed, refused error
	for i := range c.urls {
		at := (first + i) % len(c.urls)
		body, err := c.ask(ctx, at, path)
		var wait *decode.SchemaError
		switch {
		case err == nil:
			c.mu.Lock()
			c.last = at
			c.mu.Unlock()
			return body, nil
		case errors.As(err, &wait) && wait.Retryable:
			failed = err
		case errors.As(err, &wait):
			refused = err
		default:
			none = err
		}
	}
	switch {
	case failed != nil:
		c.mu.Lock()
		c.last = (first + 1) % len(c.urls) // one that hangs is not to take all the time again
		c.mu.Unlock()
		return nil, failed
	case refused != nil:
		return nil, refused
	}
	return nil, none
}

// ask sends one request and judges the answer.
func (c *Client) ask(ctx context.Context, at int, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	address := c.urls[at].String() + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, &decode.SchemaError{Err: fmt.Errorf("schema registry: %w", err)}
	}
	req.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json, */*")
	switch {
	case c.o.Token != "":
		req.Header.Set("Authorization", "Bearer "+c.o.Token)
	case c.o.Username != "":
		req.SetBasicAuth(c.o.Username, c.o.Password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &decode.SchemaError{Retryable: mayPass(err), Err: fmt.Errorf("schema registry: %w", err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 2*maxSchema))
	switch {
	case err != nil:
		return nil, &decode.SchemaError{Retryable: true, Err: fmt.Errorf("schema registry: GET %s: read the answer: %w", address, err)}
	case resp.StatusCode == http.StatusOK && len(body) >= 2*maxSchema:
		return nil, fmt.Errorf("%w that can be read: the answer is larger than %d bytes", decode.ErrNoSchema, 2*maxSchema)
	case resp.StatusCode == http.StatusOK:
		return body, nil
	}
	return nil, c.judge(address, resp.StatusCode, body)
}

// mayPass tells whether a request that got no answer may get one later: a
// certificate that is not trusted stays so.
func mayPass(err error) bool {
	var verify *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var alert *net.OpError
	return !errors.As(err, &verify) && !errors.As(err, &unknown) && !(errors.As(err, &alert) && alert.Op == "remote error")
}

// fault is what the APIs say of an error.
type fault struct {
	Code    int    `json:"error_code"`
	Message string `json:"message"`
	Title   string `json:"title"` // Apicurio's version 3 has it in place of a message
	Name    string `json:"name"`
}

// unknown tells the answer that there is no such schema from that there is no such
// path, which Apicurio calls a plain NotFoundException.
func (f *fault) unknown() bool {
	return f.Code >= 40401 && f.Code <= 40403 || strings.HasSuffix(f.Name, "NotFoundException") && f.Name != "NotFoundException"
}

// judge makes an error of an answer that is none.
func (c *Client) judge(address string, status int, body []byte) error {
	var f fault
	_ = json.Unmarshal(body, &f) // an answer without it has come from something between
	message := c.clean(cmp.Or(f.Message, f.Title))
	err := fmt.Errorf("schema registry: GET %s: %d %s", address, status, http.StatusText(status))
	if message != "" {
		err = fmt.Errorf("%w: %s", err, message)
	}
	switch {
	case status == http.StatusNotFound && f.unknown():
		return fmt.Errorf("%w: %s", decode.ErrNoSchema, message)
	case status == http.StatusNotFound:
		return &decode.SchemaError{Err: fmt.Errorf("%w: this is not what a registry says of an id that it does not know; is schema_registry.url right?", err)}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return &decode.SchemaError{Err: fmt.Errorf("%w: the login of schema_registry does not suffice", err)}
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500:
		return &decode.SchemaError{Retryable: true, Err: err}
	}
	return &decode.SchemaError{Err: err}
}

// clean shortens a message, and takes out what no one may read.
func (c *Client) clean(message string) string {
	for _, secret := range []string{c.o.Password, c.o.Token} {
		if secret != "" {
			message = strings.ReplaceAll(message, secret, "***")
		}
	}
	if len(message) > 200 {
		message = strings.ToValidUTF8(message[:200], "") + "…"
	}
	return message
}
