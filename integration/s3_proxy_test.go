//go:build integration

package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// storeProxy stands before a gateway and makes it a storage that has faults. It
// passes on the host that a client names, for that is signed.
type storeProxy struct {
	*httptest.Server
	mu    sync.Mutex
	fault storeFault
	seen  []storeRequest
	// passing counts the requests that are on their way to the gateway.
	passing atomic.Int64
	// woken is closed, and made anew, when the fault changes: what hangs goes on.
	woken chan struct{}
}

// storeFault is asked about each request: it gives the status to answer with, 0
// to pass it on, or one of the acts below.
type storeFault func(r storeRequest) int

const (
	breakOff = -1 // close the connection instead of an answer
	hangUp   = -2 // no answer, until the fault is over
	loseIt   = -3 // pass it on, and close the connection instead of the answer
	// Of answers to GET alone; others are passed on.
	cutBody   = -4 // break the connection off in the middle of the body
	shortBody = -5 // give half of the body as if it were all
	stallBody = -6 // give half of the body, and no more until the fault is over
)

// storeRequest is a request as the proxy sees it.
type storeRequest struct {
	at     time.Time
	n      int // from 1
	method string
	key    string // in the bucket, with its query
}

func (r storeRequest) isWrite() bool {
	return r.method == http.MethodPut || r.method == http.MethodPost
}

// kind sorts requests by what gscd does with them.
func (r storeRequest) kind() string {
	key, query, _ := strings.Cut(r.key, "?")
	_, name, inLog := strings.Cut(key, "/_delta_log/")
	switch {
	case r.method == http.MethodGet && strings.Contains(query, "list-type"):
		return "list"
	case r.method == http.MethodDelete:
		return "delete"
	case !r.isWrite():
		return "read"
	case inLog && strings.HasSuffix(name, ".json") && !strings.Contains(name, "/") && !strings.HasPrefix(name, "_"):
		return "put commit"
	case inLog:
		return "put log"
	case strings.Contains(key, "__dead_letter"):
		return "put dead letter"
	case strings.HasSuffix(key, ".parquet"):
		return "put data"
	}
	return "put"
}

func startStoreProxy(t testing.TB, g *gateway) *storeProxy {
	t.Helper()
	target, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	p := &storeProxy{woken: make(chan struct{})}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
		},
		Transport:    &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := storeRequest{at: time.Now(), method: r.Method, key: strings.TrimPrefix(r.URL.RequestURI(), "/"+gatewayBucket+"/")}
		p.mu.Lock()
		request.n = len(p.seen) + 1
		p.seen = append(p.seen, request)
		fault, woken := p.fault, p.woken
		p.mu.Unlock()
		act := 0
		if fault != nil {
			act = fault(request)
		}
		switch act {
		case 0:
			p.passing.Add(1)
			defer p.passing.Add(-1)
			pass.ServeHTTP(w, r)
		case breakOff:
			panic(http.ErrAbortHandler)
		case hangUp:
			select {
			case <-woken:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		case loseIt:
			pass.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case cutBody, shortBody, stallBody:
			damage(w, r, pass, act, woken)
		default:
			_, _ = io.Copy(io.Discard, r.Body)
			code := map[int]string{http.StatusServiceUnavailable: "SlowDown", http.StatusInternalServerError: "InternalError"}[act]
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(act)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>of a test</Message></Error>", code)
		}
	}))
	t.Cleanup(func() {
		p.set(nil)
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// damage passes a request on, and gives a part of the answer's body alone.
func damage(w http.ResponseWriter, r *http.Request, pass http.Handler, act int, woken <-chan struct{}) {
	whole := httptest.NewRecorder()
	pass.ServeHTTP(whole, r)
	body, part := whole.Body.Bytes(), whole.Body.Bytes()
	if r.Method == http.MethodGet && len(body) > 1 && whole.Code < 300 {
		part = body[:len(body)/2]
	}
	for name, values := range whole.Header() {
		w.Header()[name] = values
	}
	if act == shortBody {
		w.Header().Set("Content-Length", fmt.Sprint(len(part)))
	} else if len(part) < len(body) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	}
	w.WriteHeader(whole.Code)
	_, _ = w.Write(part)
	if len(part) == len(body) || act == shortBody {
		return
	}
	_ = http.NewResponseController(w).Flush() // what was read has arrived
	if act == stallBody {
		select {
		case <-woken:
		case <-r.Context().Done():
		}
	}
	panic(http.ErrAbortHandler)
}

// set changes the fault; nil is a storage without any.
func (p *storeProxy) set(f storeFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.woken)
	p.woken = make(chan struct{})
}

// settle waits until nothing is on its way that an earlier fault let through.
func (p *storeProxy) settle() {
	for p.passing.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// requests gives the requests since a moment.
func (p *storeProxy) requests(since time.Time) []storeRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.seen {
		if !r.at.Before(since) {
			return append([]storeRequest(nil), p.seen[i:]...)
		}
	}
	return nil
}
