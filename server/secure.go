package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// TLSFiles names files in PEM form. They are read again when they change.
type TLSFiles struct {
	CertFile, KeyFile string
	// ClientCAFile, where it is set, has the authorities of the clients: all but
	// /healthz and /readyz is for those alone who show a certificate of them.
	ClientCAFile string
}

// lookAgain is how often the files are looked at, at most: at a handshake.
const lookAgain = time.Second

// certificates are what the files held when they were read last.
type certificates struct {
	files TLSFiles
	log   *zap.Logger

	mu     sync.Mutex
	looked time.Time
	stamps [3]stamp
	config *tls.Config
}

// stamp tells one content of a file from the next.
type stamp struct {
	at   time.Time
	size int64
}

func loadCertificates(files TLSFiles, log *zap.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log, looked: time.Now(), stamps: files.stamps()}
	var err error
	c.config, err = files.read()
	return c, err
}

func (f TLSFiles) names() [3]string { return [3]string{f.CertFile, f.KeyFile, f.ClientCAFile} }

func (f TLSFiles) stamps() (s [3]stamp) {
	for i, name := range f.names() {
		if info, err := os.Stat(name); err == nil { // through links: a mounted secret is one
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}

// read makes the settings of a handshake of what the files hold.
func (f TLSFiles) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("http.tls.cert_file %s with key_file %s: %w", f.CertFile, f.KeyFile, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if f.ClientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("http.tls.client_ca_file: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("http.tls.client_ca_file %s: has no certificate in PEM form", f.ClientCAFile)
	}
	return c, nil
}

// forHello gives the newest settings. Files that can't be read, half written
// ones too, leave the old ones in force.
func (c *certificates) forHello(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookAgain {
		return c.config, nil
	}
	c.looked = time.Now()
	stamps := c.files.stamps()
	if stamps == c.stamps {
		return c.config, nil
	}
	c.stamps = stamps
	config, err := c.files.read()
	if err != nil {
		c.log.Warn("the new certificate of HTTP is not taken; the old one stays", zap.Error(err))
		return c.config, nil
	}
	c.config = config
	c.log.Info("took the new certificate of HTTP")
	return config, nil
}

// open are the pages that need neither token nor certificate: what starts the
// program again must not need a secret.
var open = map[string]bool{"/healthz": true, "/readyz": true}

// maxBody bounds what a request may bring.
const maxBody = 4 << 10

// guarded puts what every answer needs around the pages: headers for browsers,
// bounds, and who may ask.
func (s *Server) guarded(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if !open[r.URL.Path] && !s.may(r) {
			s.refuse(w)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// may tells whether a request shows what the configuration wants: the token as
// a bearer, or as the password of a browser's login; and a client's certificate.
func (s *Server) may(r *http.Request) bool {
	if s.o.TLS.ClientCAFile != "" && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		return false
	}
	token := s.token.Load()
	if token == nil {
		return true
	}
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return false
	}
	_, text, isBasic := r.BasicAuth()
	if !isBasic {
		scheme, bearer, _ := strings.Cut(given[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		text = bearer
	}
	sum := sha256.Sum256([]byte(text)) // of equal length, so that the comparison takes as long for all
	return subtle.ConstantTimeCompare(sum[:], token[:]) == 1
}

func (s *Server) refuse(w http.ResponseWriter) {
	if s.token.Load() == nil {
		http.Error(w, "a client's certificate is needed", http.StatusForbidden)
		return
	}
	w.Header().Add("WWW-Authenticate", `Bearer realm="gscd"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="gscd: any name, and the token as password", charset="UTF-8"`)
	http.Error(w, "the token is needed", http.StatusUnauthorized)
}

// SetToken changes the token that HTTP asks for, "" for none.
func (s *Server) SetToken(token string) {
	if token == "" {
		s.token.Store(nil)
		return
	}
	sum := sha256.Sum256([]byte(token))
	s.token.Store(&sum)
}

// maxConnections bounds the connections at once. Past it the one that has been
// idle longest makes room, so that nobody who only sits there keeps others out.
const maxConnections = 128

// connections are those of a listener, by http.Server's ConnState.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]connection
}

type connection struct {
	idle  bool
	since time.Time
}

// state is http.Server.ConnState.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
		return
	}
	if c.open == nil {
		c.open = map[net.Conn]connection{}
	}
	c.open[conn] = connection{state != http.StateActive, time.Now()}
	for len(c.open) > maxConnections {
		var oldest net.Conn
		for other, is := range c.open {
			if was := c.open[oldest]; other != conn && (oldest == nil || is.idle && !was.idle || is.idle == was.idle && is.since.Before(was.since)) {
				oldest = other
			}
		}
		delete(c.open, oldest)
		raw := oldest
		if t, ok := oldest.(*tls.Conn); ok {
			raw = t.NetConn() // without a farewell, which could block
		}
		_ = raw.Close()
	}
}

// serveOn answers a listener until shutdown is called.
func (s *Server) serveOn(listener net.Listener, server *http.Server) {
	log, _ := zap.NewStdLogAt(s.o.Log, zap.DebugLevel) // the level is one that there is
	server.ErrorLog = log
	server.ReadHeaderTimeout, server.ReadTimeout, server.IdleTimeout, server.MaxHeaderBytes = headerTimeout, readTimeout, idleTimeout, maxHeader
	server.ConnState = (&connections{}).state
	server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // HTTP/1.1 alone
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.o.Log.Error("HTTP has stopped", zap.Stringer("address", listener.Addr()), zap.Error(err))
		}
	}()
}
