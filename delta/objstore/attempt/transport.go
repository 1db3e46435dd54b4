package attempt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// ErrStalled is the cause of a request that was given up because nothing moved.
var ErrStalled = errors.New("no byte was sent or received in time")

// NewTransport is a connection pool for a storage, inside what gives up requests
// that make no progress for the timeout. A deadline would have to know how large
// a body is and how slow a line may be.
func (o Options) NewTransport() http.RoundTripper {
	return o.Watch(&http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DialContext:       (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2: true,
		// As many connections wait for use as a scan has readers.
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		WriteBufferSize:     64 << 10,
		ReadBufferSize:      64 << 10,
	})
}

// Watch puts Options.Transport and the watch over progress around a connection pool.
func (o Options) Watch(base http.RoundTripper) http.RoundTripper {
	if o.Transport != nil {
		base = o.Transport(base)
	}
	return &watched{base, o.WithDefaults().Timeout}
}

// NewClient is an HTTP client on a transport. A redirect names another place;
// what to do about it is for a person.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type watched struct {
	base    http.RoundTripper
	timeout time.Duration
}

// RoundTrip implements http.RoundTripper.
func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	p := &progress{ctx: ctx, cancel: cancel, timeout: w.timeout}
	p.timer = time.AfterFunc(w.timeout, func() { cancel(ErrStalled) })
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &watchedBody{r.Body, p, false}
	}
	response, err := w.base.RoundTrip(r)
	if err != nil {
		err = p.explain(err)
		p.end()
		return response, err
	}
	p.moved()
	response.Body = &watchedBody{response.Body, p, true}
	return response, nil
}

// progress gives a request up when nothing moved for the timeout.
type progress struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	timeout time.Duration
	ended   atomic.Bool
}

func (p *progress) moved() {
	if !p.ended.Load() {
		p.timer.Reset(p.timeout)
	}
}

func (p *progress) end() {
	p.ended.Store(true)
	p.timer.Stop()
	p.cancel(nil)
}

// explain names the true cause of an error of a request that was given up: the
// library calls it cancelled, as if the caller had done that.
func (p *progress) explain(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(p.ctx), ErrStalled) {
		return ErrStalled
	}
	return err
}

// watchedBody tells progress of each read: of a request's body by the
// connection, of a response's by the SDK or the store.
type watchedBody struct {
	io.ReadCloser
	p    *progress
	last bool // its end is that of the request
}

func (b *watchedBody) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	if n > 0 {
		b.p.moved()
	}
	if err != nil && b.last {
		err = b.p.explain(err)
		b.p.end()
	}
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close() // first: a request that was cancelled costs its connection
	if b.last {
		b.p.end()
	}
	return err
}

// ReadBody reads a body to its end and closes it. size is what it is said to
// have, -1 where nothing is said; a body of another size is an error.
func ReadBody(body io.ReadCloser, size int64) ([]byte, error) {
	data, err := read(body, size)
	if err == nil && size >= 0 && int64(len(data)) != size {
		return nil, io.ErrUnexpectedEOF
	}
	return data, err
}

// SizeOf is the size for ReadBody of a length that may not be said.
func SizeOf(length *int64) int64 {
	if length == nil {
		return -1
	}
	return *length
}

// ReadRange is ReadBody for the answer to a request for length bytes at offset.
// contentRange is the header that says what came, which is held against what was
// asked for and against what is there: a length that something on the way has set
// says nothing about that. "" where it is not known.
func ReadRange(body io.ReadCloser, size int64, contentRange string, offset, length int64) ([]byte, error) {
	data, err := read(body, min(size, length))
	if err != nil {
		return nil, err
	}
	var first, last, whole int64
	said := false
	if n, _ := fmt.Sscanf(contentRange, "bytes %d-%d/%d", &first, &last, &whole); n >= 2 {
		said = true
		if n < 3 { // "*": the whole is not known
			whole = last + 1
		}
	}
	switch n := int64(len(data)); {
	case size >= 0 && n != size, said && n != last-first+1:
		return nil, io.ErrUnexpectedEOF
	case n > length, said && first != offset:
		return nil, fmt.Errorf("%d bytes at %d came for a range of %d at %d", n, first, length, offset)
	case said && n < min(length, whole-offset):
		return nil, io.ErrUnexpectedEOF
	}
	return data, nil
}

// read reads a body to its end and closes it. size is what is expected, or -1.
func read(body io.ReadCloser, size int64) ([]byte, error) {
	defer body.Close()
	// A size is only what somebody says: more than this is not set aside for it.
	const trusted = 256 << 20
	buf := bytes.NewBuffer(make([]byte, 0, min(max(size, 0), trusted)+bytes.MinRead))
	if _, err := buf.ReadFrom(body); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// Cut reads a range of a whole body, which a service that leaves ranges out of
// account sends, and closes it.
func Cut(body io.ReadCloser, offset, length int64) ([]byte, error) {
	defer body.Close()
	if _, err := io.CopyN(io.Discard, body, offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil // it ends before
		}
		return nil, err
	}
	return io.ReadAll(io.LimitReader(body, length))
}
