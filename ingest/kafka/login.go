package kafka

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/zap"
)

// login is what a Cluster knows of its credentials. Those in files are read
// for each new connection, so that a rotation needs no restart. After a refusal
// nothing is asked for a while, unless a file has changed: one clear error, and
// no lock-out by a hundred tries.
type login struct {
	tls  *TLS
	sasl *SASL
	log  *zap.Logger

	mu sync.Mutex
	// passed: the brokers have accepted it once, so a refusal may be a rotation.
	passed bool
	refuse error
	files  [sha256.Size]byte // as they were refused
	hold   time.Time
	wait   time.Duration
	config *tls.Config // the last one whose files could be read
}

const (
	firstHold = time.Second
	lastHold  = 15 * time.Second
)

func newLogin(o *Options) *login { return &login{tls: o.TLS, sasl: o.SASL, log: o.Logger} }

// ErrCredentials: a file of credentials can't be read.
var ErrCredentials = errors.New("the credentials can't be read")

// isLogin tells that an error is about who we are, or who the broker is.
func isLogin(err error) bool {
	var (
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		alert   *net.OpError
	)
	return errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism) || errors.Is(err, kerr.IllegalSaslState) ||
		errors.Is(err, ErrCredentials) || errors.As(err, &verify) || errors.As(err, &unknown) || errors.As(err, &alert) && alert.Op == "remote error"
}

// judge takes note of how a request ended, and gives the error to show.
func (l *login) judge(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.passed, l.refuse, l.wait = true, nil, 0
		return nil
	}
	if !isLogin(err) {
		return err
	}
	l.wait = min(max(2*l.wait, firstHold), lastHold)
	l.hold, l.files = time.Now().Add(l.wait), l.fingerprint()
	if l.passed {
		err = fmt.Errorf("the login at the brokers is no longer accepted: renew what kafka.sasl and kafka.tls name; it is tried again, with files read anew: %w", err)
	}
	l.refuse = err
	return err
}

// held gives the error of the last try while it is too early for the next.
func (l *login) held() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse == nil || time.Now().After(l.hold) || l.fingerprint() != l.files {
		return nil
	}
	return l.refuse
}

// passes tells whether the brokers have accepted the login once.
func (l *login) passes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passed
}

// fingerprint stands for the content of all files of credentials.
func (l *login) fingerprint() (sum [sha256.Size]byte) {
	h := sha256.New()
	var names []string
	if l.tls != nil {
		names = append(names, l.tls.CAFile, l.tls.CertFile, l.tls.KeyFile)
	}
	if l.sasl != nil {
		names = append(names, l.sasl.PasswordFile, l.sasl.TokenFile)
	}
	for _, name := range names {
		if name != "" {
			data, _ := os.ReadFile(name)
			fmt.Fprintf(h, "%d:", len(data))
			h.Write(data)
		}
	}
	h.Sum(sum[:0])
	return sum
}

// dial connects with the certificates that are in the files now.
func (l *login) dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	config, err := l.tlsConfig()
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("broker address %s: %w", address, err)
		}
		config = config.Clone()
		config.ServerName = host
	}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
}

// tlsConfig reads the files. Where that fails, as in the middle of a rotation,
// the last ones that could be read are good for one more try.
func (l *login) tlsConfig() (*tls.Config, error) {
	config, err := l.tls.config()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.config = config
	case l.config == nil:
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	default:
		l.log.Warn("the TLS files can't be read, so the ones read before are used", zap.Error(err))
	}
	return l.config, nil
}

func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("kafka.tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("kafka.tls.ca_file: %s holds no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("kafka.tls.cert_file, key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// mechanism gives the library what asks for the credentials at each login.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	switch strings.ToLower(s.Mechanism) {
	case "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := s.password()
			return plain.Auth{User: s.Username, Pass: password}, err
		}), nil
	case "scram-sha-256":
		return scram.Sha256(s.scram), nil
	case "scram-sha-512":
		return scram.Sha512(s.scram), nil
	case "oauthbearer":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := secretFile("kafka.sasl.token_file", s.TokenFile)
			return oauth.Auth{Token: token, Extensions: s.Extensions}, err
		}), nil
	case mskIAM:
		return s.msk(), nil
	}
	return nil, fmt.Errorf("kafka.sasl.mechanism: %q is not known: plain, scram-sha-256, scram-sha-512, oauthbearer or aws-msk-iam", s.Mechanism)
}

func (s SASL) scram(context.Context) (scram.Auth, error) {
	password, err := s.password()
	return scram.Auth{User: s.Username, Pass: password}, err
}

func (s SASL) password() (string, error) {
	if s.PasswordFile == "" {
		return s.Password, nil
	}
	return secretFile("kafka.sasl.password_file", s.PasswordFile)
}

// secretFile reads the one line of a file.
func secretFile(key, name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrCredentials, key, err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%w: %s: %s is empty", ErrCredentials, key, name)
	}
	return text, nil
}
