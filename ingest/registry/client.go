package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gscd-io/gscd/ingest/decode"
)

// Options says where a registry is and how to log in.
type Options struct {
	// URLs are addresses of one registry, asked in this order, beginning with the
	// one that answered last. A path of Apicurio's own API (/apis/registry/v2 or
	// v3) has that API spoken, all else Confluent's.
	URLs []string
	// Username and Password, or Token, a bearer token; all empty: no login.
	Username, Password, Token string
	// CAFile has the authorities in PEM form (the system's); CertFile and KeyFile
	// are the client's certificate, read at each connection.
	CAFile, CertFile, KeyFile string
	// Timeout bounds one request (3 s), Patience all of one call (8 s).
	Timeout, Patience time.Duration
}

// String leaves out password and token.
func (o Options) String() string { return fmt.Sprintf("registry %q of %q", o.URLs, o.Username) }

// GoString is String.
func (o Options) GoString() string { return o.String() }

// Client asks a schema registry. It is safe for concurrent use.
type Client struct {
	o    Options
	urls []*url.URL
	http *http.Client

	mu    sync.Mutex
	last  int // of urls, which answered last
	known map[decode.SchemaID]*entry
	bytes int // of the texts in known
}

// entry is what is known about a schema, when ready is closed.
type entry struct {
	ready chan struct{}
	texts []string
	err   error
	until time.Time // of an error
}

// Limits of what is kept, and of one schema with all that it refers to.
const (
	maxKept       = 1000
	maxKeptBytes  = 64 << 20
	maxSchema     = 4 << 20
	maxReferences = 100
)

// How long an error is believed.
const (
	noneFor   = 10 * time.Second
	failedFor = time.Second
)

// New makes a client; it connects to nothing yet.
func New(o Options) (*Client, error) {
	if len(o.URLs) == 0 {
		return nil, errors.New("schema registry: no url")
	}
	if (o.Username != "" || o.Password != "") && o.Token != "" {
		return nil, errors.New("schema registry: username and token exclude each other")
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 8 * time.Second
	}
	c := &Client{o: o, known: map[decode.SchemaID]*entry{}}
	for _, text := range o.URLs {
		u, err := url.Parse(strings.TrimRight(text, "/"))
		if err != nil || u.Host == "" {
			return nil, errors.New("schema registry: a url is none: write http://HOST:PORT or https://HOST:PORT")
		}
		if u.User != nil {
			return nil, errors.New("schema registry: a login in a url would be printed: give username and password")
		}
		c.urls = append(c.urls, u)
	}
	config, err := o.tls()
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	transport.MaxIdleConnsPerHost = 2
	c.http = &http.Client{Transport: transport}
	return c, nil
}

func (o *Options) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM form", o.CAFile)
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("cert_file and key_file go together")
	}
	if o.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("cert_file, key_file: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}

// Close gives up idle connections; a later call makes new ones.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Schema implements decode.Schemas.
func (c *Client) Schema(id decode.SchemaID) ([]string, error) {
	c.mu.Lock()
	e := c.known[id]
	if e != nil {
		c.mu.Unlock()
		<-e.ready
		if e.err == nil || time.Now().Before(e.until) {
			return e.texts, e.err
		}
		c.mu.Lock()
	}
	if now := c.known[id]; now != e { // another one has begun to ask in the meantime
		c.mu.Unlock()
		return c.Schema(id)
	}
	e = &entry{ready: make(chan struct{})}
	if len(c.known) >= maxKept || c.bytes > maxKeptBytes {
		c.known, c.bytes = map[decode.SchemaID]*entry{}, 0
	}
	c.known[id] = e
	c.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), c.o.Patience)
	defer cancel()
	e.texts, e.err = c.fetch(ctx, id)
	switch {
	case e.err == nil:
	case errors.Is(e.err, decode.ErrNoSchema):
		e.until = time.Now().Add(noneFor)
	default:
		e.until = time.Now().Add(failedFor)
	}
	c.mu.Lock()
	for _, text := range e.texts {
		c.bytes += len(text)
	}
	c.mu.Unlock()
	close(e.ready)
	return e.texts, e.err
}
