package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/server"
)

// asked is what a running ingester has said, or why it has not.
type asked struct {
	// url is whom it was asked of, "" where there is nobody to ask.
	url string
	// named tells that a person has named it, not the configuration.
	named  bool
	status *server.Status
	err    error
}

const (
	askWait = 5 * time.Second
	maxPage = 64 << 20
)

// askProcess asks the process that --from names, else the one at http.address,
// for its status.
func (a *app) askProcess(ctx context.Context, cfg *config.Config, from string) (asked, error) {
	q := asked{named: from != ""}
	var err error
	if q.url, err = processURL(cfg, from); err != nil || q.url == "" {
		return q, err
	}
	client, err := a.processClient(cfg)
	if err != nil {
		return q, err
	}
	q.status, q.err = getStatus(ctx, client, q.url)
	return q, ctx.Err()
}

// processURL is where the process answers: --from, else http.address.
func processURL(cfg *config.Config, from string) (string, error) {
	if from == "" {
		if cfg.HTTP.Address == "" {
			return "", nil
		}
		host, port, err := net.SplitHostPort(cfg.HTTP.Address)
		if err != nil || port == "0" {
			return "", nil
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		return processScheme(cfg) + "://" + net.JoinHostPort(host, port), nil
	}
	u, err := url.Parse(from)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", usagef("--from is no URL: write http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		return "", usagef("--from has a login in it, which would be printed: set http.token instead")
	}
	return strings.TrimRight((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/status")}).String(), "/"), nil
}

// processClient asks processes of this configuration: it shows their token, and
// trusts their certificate beside the system's authorities. It follows no redirect.
func (a *app) processClient(cfg *config.Config) (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: askWait, DisableKeepAlives: true}
	if t := cfg.HTTP.TLS; t != nil {
		pem, err := os.ReadFile(t.CertFile)
		if err != nil {
			return nil, usagef("http.tls.cert_file: %w", err)
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		roots.AppendCertsFromPEM(pem)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		if t.ClientCAFile != "" { // the process's own certificate is the one that we have
			if pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err == nil {
				transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
			}
		}
	}
	return &http.Client{
		Timeout: askWait, Transport: withToken{transport, cfg.HTTP.Token.Reveal()},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// withToken shows a token with each request.
type withToken struct {
	http.RoundTripper
	token string
}

// RoundTrip is http.RoundTripper's.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	return w.RoundTripper.RoundTrip(r)
}

// processScheme is the scheme of the processes of this configuration.
func processScheme(cfg *config.Config) string {
	if cfg.HTTP.TLS != nil {
		return "https"
	}
	return "http"
}

// getStatus asks for /status.
func getStatus(ctx context.Context, client *http.Client, base string) (*server.Status, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(request)
	if err != nil {
		var asked *url.Error
		if errors.As(err, &asked) {
			err = asked.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, errors.New("it wants a token: set http.token, or GSCD_HTTP_TOKEN_FILE")
	case resp.StatusCode == http.StatusForbidden:
		return nil, errors.New("it wants a client's certificate: set http.tls with one of its http.tls.client_ca_file")
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers %s: is it gscd ingest?", resp.Status)
	}
	status := &server.Status{}
	if err := json.Unmarshal(body, status); err != nil {
		return nil, fmt.Errorf("its answer is no status: %w", err)
	}
	return status, nil
}

// table is what the process said of a table, nil where it has not.
func (q *asked) table(name string) *server.TableStatus {
	if q.status == nil {
		return nil
	}
	for i := range q.status.Tables {
		if q.status.Tables[i].Table == name {
			return &q.status.Tables[i]
		}
	}
	return nil
}

// tables names the tables of the process.
func (q *asked) tables() string {
	var names []string
	for i := range q.status.Tables {
		names = append(names, q.status.Tables[i].Table)
	}
	return strings.Join(names, ", ")
}
