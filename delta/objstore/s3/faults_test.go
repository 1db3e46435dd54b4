package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"

	"github.com/gscd-io/gscd/delta/objstore/s3"
)

// fate is what befalls a request. send passes it on to the storage.
type fate func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)

// faults stands between the SDK and the network. script decides on the n-th
// request, from 1; a nil fate lets it pass.
type faults struct {
	script func(n int, r *http.Request) fate

	mu       sync.Mutex
	n        int
	requests []string
}

// wrap is for Options.Transport.
func (f *faults) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		f.mu.Lock()
		f.n++
		f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
		var what fate
		if f.script != nil {
			what = f.script(f.n, r)
		}
		f.mu.Unlock()
		if what == nil {
			return next.RoundTrip(r)
		}
		return what(r, func() (*http.Response, error) { return next.RoundTrip(r) })
	})
}

func (f *faults) reset(script func(n int, r *http.Request) fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script, f.n, f.requests = script, 0, nil
}

func (f *faults) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.requests...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// nth gives the n-th request a fate.
func nth(at int, what fate) func(int, *http.Request) fate {
	return func(n int, _ *http.Request) fate {
		if n == at {
			return what
		}
		return nil
	}
}

func always(what fate) func(int, *http.Request) fate {
	return func(int, *http.Request) fate { return what }
}

// onPuts gives the first n puts of objects a fate.
func onPuts(count int, what fate) func(int, *http.Request) fate {
	return func(_ int, r *http.Request) fate {
		if r.Method != http.MethodPut || count == 0 {
			return nil
		}
		count--
		return what
	}
}

func connected(r *http.Request) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
}

func errorAnswer(status int, code, message string, header ...string) *http.Response {
	body := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message><RequestId>REQ1</RequestId></Error>`, code, message)
	if code == "" {
		body = ""
	}
	h := http.Header{"Content-Type": {"application/xml"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// answers is an error of the storage, without effect.
func answers(status int, code string) fate {
	return func(r *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		connected(r)
		if r.Body != nil {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		return errorAnswer(status, code, "as the test wants"), nil
	}
}

// Fates of the network.
var (
	// refused: nobody listens.
	refused fate = func(*http.Request, func() (*http.Response, error)) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	// broken: the connection breaks in the middle of the request.
	broken fate = func(r *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		connected(r)
		if r.Body != nil {
			io.CopyN(io.Discard, r.Body, 3)
			r.Body.Close()
		}
		return nil, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	// lost: the request had its effect, its answer is lost.
	lost fate = func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		answer, err := send()
		if err != nil {
			return nil, err
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	// failedAfter: the request had its effect, and the answer is that of a
	// proxy that had no patience.
	failedAfter fate = func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		answer, err := send()
		if err != nil {
			return nil, err
		}
		answer.Body.Close()
		return errorAnswer(http.StatusGatewayTimeout, "", ""), nil
	}
	// silent: a half-open connection. Nothing comes back, ever.
	silent fate = func(r *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		connected(r)
		if r.Body != nil {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	// cutOff: the answer breaks off in the middle of its body.
	cutOff fate = func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		answer, err := send()
		if err == nil && answer.ContentLength > 1 {
			answer.Body = &cut{answer.Body, answer.ContentLength / 2, io.ErrUnexpectedEOF, nil}
		}
		return answer, err
	}
	// stuck: the answer stops in the middle of its body, and the connection stays.
	stuck fate = func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		answer, err := send()
		if err == nil && answer.ContentLength > 1 {
			answer.Body = &cut{answer.Body, answer.ContentLength / 2, nil, r.Context()}
		}
		return answer, err
	}
)

// cut is a body of which only so many bytes come.
type cut struct {
	io.ReadCloser
	left int64
	err  error
	wait context.Context
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		if c.wait == nil {
			return 0, c.err
		}
		<-c.wait.Done()
		return 0, c.wait.Err()
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// passing are the faults after which the same request succeeds.
var passing = map[string]fate{
	"slow down":           answers(503, "SlowDown"),
	"unavailable":         answers(503, "ServiceUnavailable"),
	"503 of a proxy":      answers(503, ""),
	"internal error":      answers(500, "InternalError"),
	"502":                 answers(502, ""),
	"too many requests":   answers(429, "TooManyRequests"),
	"request timeout":     answers(400, "RequestTimeout"),
	"408":                 answers(408, ""),
	"conflict":            answers(409, "OperationAborted"),
	"damaged on its way":  answers(400, "BadDigest"),
	"connection refused":  refused,
	"broken in between":   broken,
	"answer lost":         lost,
	"gateway timeout":     failedAfter,
	"half-open":           silent,
	"answer cut off":      cutOff,
	"answer stops coming": stuck,
}

// retries collects what Options.Retried is told.
type retries struct {
	mu   sync.Mutex
	list []s3.Retry
}

func (r *retries) add(x s3.Retry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, x)
}

func (r *retries) take() []s3.Retry {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

var errIsNil = errors.New("there is no error")
