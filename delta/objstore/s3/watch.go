package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// watched sends requests and gives those up that make no progress. A deadline
// would have to know how large a body is and how slow a line may be.
type watched struct {
	client  *http.Client
	timeout time.Duration
}

func newWatched(transport http.RoundTripper, timeout time.Duration) *watched {
	return &watched{timeout: timeout, client: &http.Client{
		Transport: transport,
		// A redirect names another region; what to do about it is for a person.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do implements the SDK's HTTPClient.
func (w *watched) Do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	p := &progress{ctx: ctx, cancel: cancel, timeout: w.timeout}
	p.timer = time.AfterFunc(w.timeout, func() { cancel(errStalled) })
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &watchedBody{r.Body, p, false}
	}
	response, err := w.client.Do(r)
	if err != nil {
		err = p.explain(err)
		p.end()
		return response, err
	}
	p.moved()
	if wantsTLS(r, response) {
		response.Body.Close()
		p.end()
		return nil, errWantsTLS
	}
	response.Body = &watchedBody{response.Body, p, true}
	return response, nil
}

// errWantsTLS is the error of a plain request to a port that speaks TLS.
var errWantsTLS = errors.New("a plain HTTP request was sent to an HTTPS port")

// wantsTLS tells the answer of a port that speaks TLS: it is a sentence, and no
// answer of S3's.
func wantsTLS(r *http.Request, response *http.Response) bool {
	if r.URL.Scheme != "http" || response.StatusCode != http.StatusBadRequest || strings.Contains(response.Header.Get("Content-Type"), "xml") {
		return false
	}
	start := make([]byte, 512)
	n, _ := io.ReadFull(response.Body, start) // what fails here fails again for who reads on
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start[:n]), response.Body), response.Body}
	text := strings.ToLower(string(start[:n]))
	return strings.Contains(text, "http request") && strings.Contains(text, "https")
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
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(p.ctx), errStalled) {
		return errStalled
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
