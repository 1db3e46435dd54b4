package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestPasswordFile: the password is read at each login, so a consumer that was
// refused works as soon as the file is right. Nothing of it is printed.
func TestPasswordFile(t *testing.T) {
	const secret, wrong = "s3cr3t-do-not-tell", "wr0ng-do-not-tell"
	b := newBroker(t, 1, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", secret), kfake.Superuser("SCRAM-SHA-256", "u", secret))
	for _, mechanism := range []string{"plain", "scram-sha-256"} {
		t.Run(mechanism, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "password")
			core, logs := observer.New(zapcore.DebugLevel)
			var texts []string
			c, err := New(Options{
				Brokers: b.ListenAddrs(), Topics: []string{"t"}, RequestTimeout: 300 * time.Millisecond, Logger: zap.New(core),
				SASL: &SASL{Mechanism: mechanism, Username: "u", PasswordFile: file},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _, err = c.Partitions(ctx(t))
			if !errors.Is(err, ErrCredentials) || !strings.Contains(err.Error(), "kafka.sasl.password_file") || c.Retryable(err) {
				t.Errorf("without a file: %v", err)
			}
			texts = append(texts, fmt.Sprint(err))
			for _, content := range []string{"", wrong + "\n"} {
				os.WriteFile(file, []byte(content), 0o600)
				_, _, err = c.Partitions(ctx(t))
				if err == nil {
					t.Errorf("with %q: no error", content)
				}
				texts = append(texts, fmt.Sprint(err))
			}
			os.WriteFile(file, []byte(secret+"\n"), 0o600)
			if _, _, err := c.Partitions(ctx(t)); err != nil {
				t.Errorf("with the right password: %v", err)
			}
			for _, l := range logs.All() {
				texts = append(texts, fmt.Sprint(l.Message, l.ContextMap()))
			}
			for _, text := range texts {
				if strings.Contains(text, secret) || strings.Contains(text, wrong) {
					t.Errorf("a password is told: %s", text)
				}
			}
		})
	}
}

// TestToken: the token and its extensions are those in the file at the time.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	m, err := SASL{Mechanism: "OAUTHBEARER", TokenFile: file, Extensions: map[string]string{"logicalCluster": "lkc-1"}}.mechanism()
	if err != nil || m.Name() != "OAUTHBEARER" {
		t.Fatal(m, err)
	}
	if _, _, err := m.Authenticate(context.Background(), "h:1"); !errors.Is(err, ErrCredentials) {
		t.Errorf("without a file: %v", err)
	}
	for _, token := range []string{"one", "two"} {
		os.WriteFile(file, []byte(token+"\n"), 0o600)
		_, first, err := m.Authenticate(context.Background(), "h:1")
		if want := "n,,\x01auth=Bearer " + token + "\x01logicalCluster=lkc-1\x01\x01"; err != nil || string(first) != want {
			t.Errorf("got %q, %v, want %q", first, err, want)
		}
	}
}

// TestRenewedCertificates: authority and client certificate are those in the
// files at the time of the connection.
func TestRenewedCertificates(t *testing.T) {
	theirs, ours := certificates(t), certificates(t)
	file := func(dir, name string) string { return filepath.Join(dir, name) }
	pair, err := tls.LoadX509KeyPair(file(theirs, "server.pem"), file(theirs, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, _ := os.ReadFile(file(theirs, "ca.pem"))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	b := newBroker(t, 1, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}))
	o := b.options()
	o.TLS = &TLS{CAFile: file(ours, "ca.pem"), CertFile: file(ours, "client.pem"), KeyFile: file(ours, "client.key")}
	core, logs := observer.New(zapcore.WarnLevel)
	o.RequestTimeout, o.Logger = 400*time.Millisecond, zap.New(core)
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	renew := func(names ...string) {
		for _, name := range names {
			data, err := os.ReadFile(file(theirs, name))
			if err != nil {
				t.Fatal(err)
			}
			os.WriteFile(file(ours, name), data, 0o600)
		}
	}
	if _, _, err := c.Partitions(ctx(t)); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("another authority: %v", err)
	}
	renew("ca.pem")
	if _, _, err := c.Partitions(ctx(t)); err == nil || !isLogin(err) {
		t.Errorf("another client certificate: %v", err)
	}
	renew("client.pem") // and its key not yet
	if _, _, err := c.Partitions(ctx(t)); err == nil {
		t.Error("a certificate without its key is accepted")
	}
	if logs.FilterMessageSnippet("can't be read").Len() == 0 {
		t.Error("nobody is told that the files don't fit together")
	}
	renew("client.key")
	if _, _, err := c.Partitions(ctx(t)); err != nil {
		t.Errorf("renewed: %v", err)
	}
}

// TestRefusedLogin: a refusal is remembered for a while, or until a file
// changes; after a login that passed it may be tried again.
func TestRefusedLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	os.WriteFile(file, []byte("one"), 0o600)
	l := newLogin(&Options{SASL: &SASL{Mechanism: "plain", Username: "u", PasswordFile: file}, Logger: zap.NewNop()})
	refused := fmt.Errorf("ask: %w", kerr.SaslAuthenticationFailed)
	if err := l.judge(kerr.NotLeaderForPartition); err != kerr.NotLeaderForPartition || l.held() != nil || l.passes() {
		t.Errorf("got %v, %v", err, l.held())
	}
	if err := l.judge(refused); err != refused || l.held() != refused {
		t.Errorf("at the start: %v, held %v", err, l.held())
	}
	os.WriteFile(file, []byte("two"), 0o600)
	if err := l.held(); err != nil {
		t.Errorf("after a change: %v", err)
	}
	if err := l.judge(nil); err != nil || !l.passes() {
		t.Errorf("got %v", err)
	}
	err := l.judge(refused)
	if !errors.Is(err, kerr.SaslAuthenticationFailed) || !strings.Contains(err.Error(), "no longer accepted") || l.held() != err {
		t.Errorf("after it passed: %v", err)
	}
	for range 10 {
		l.judge(refused)
	}
	if l.wait != lastHold {
		t.Errorf("the wait grew to %v", l.wait)
	}
	l.hold = time.Now().Add(-time.Second)
	if err := l.held(); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

// TestRotatedWhileReading: the broker refuses a consumer that reads, once told
// and tried again, and takes it back when its password is right again.
func TestRotatedWhileReading(t *testing.T) {
	b := newBroker(t, 1)
	b.produce(0, 0, 3)
	c := b.consumer()
	r := newReader(t, c, from(0))
	r.until(from(3))
	c.cluster.mu.Lock()
	c.reading[id(0)].failed(c.cluster, c.cluster.login.judge(kerr.SaslAuthenticationFailed))
	c.cluster.mu.Unlock()
	err := r.failure()
	if !c.Retryable(err) || !strings.Contains(err.Error(), "no longer accepted") {
		t.Fatalf("got %v", err)
	}
	b.produce(0, 3, 2)
	r.patient(from(5))
	equal(t, "p0", r.values[id(0)], numbers(0, 5))
}

func TestSASLPrints(t *testing.T) {
	s := SASL{Mechanism: "plain", Username: "u", Password: "pw-hush", PasswordFile: "f"}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q", s, &s, s, s, s)
	if strings.Contains(out.String(), "hush") {
		t.Error(out.String())
	}
}
