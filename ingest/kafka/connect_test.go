package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/ingest/change"
)

// certificates makes a CA, and a server's and a client's certificate by it, as PEM files.
func certificates(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	caKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	write := func(name string, der []byte, key *ecdsa.PrivateKey) {
		b, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
		os.WriteFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b}), 0o600)
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	write("ca", der, caKey)
	for i, name := range []string{"server", "client"} {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), caKey)
		if err != nil {
			t.Fatal(err)
		}
		write(name, der, key)
	}
	return dir
}

func TestConnections(t *testing.T) {
	dir := certificates(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	pair, err := tls.LoadX509KeyPair(file("server.pem"), file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, _ := os.ReadFile(file("ca.pem"))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	secret := "s3cr3t-do-not-tell"
	b := newBroker(t, 1, kfake.EnableSASL(), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}),
		kfake.Superuser("PLAIN", "p", secret), kfake.Superuser("SCRAM-SHA-256", "s2", secret), kfake.Superuser("SCRAM-SHA-512", "s5", secret))
	good := &TLS{CAFile: file("ca.pem"), CertFile: file("client.pem"), KeyFile: file("client.key")}
	for _, c := range []struct {
		name string
		tls  *TLS
		sasl *SASL
		text string // of the error, "" for none
	}{
		{"plain", good, &SASL{Mechanism: "plain", Username: "p", Password: secret}, ""},
		{"scram 256", good, &SASL{Mechanism: "SCRAM-SHA-256", Username: "s2", Password: secret}, ""},
		{"scram 512", good, &SASL{Mechanism: "scram-sha-512", Username: "s5", Password: secret}, ""},
		{"wrong password", good, &SASL{Mechanism: "scram-sha-512", Username: "s5", Password: secret + "x"}, "ask for the topics"},
		{"unknown user", good, &SASL{Mechanism: "plain", Username: "nobody", Password: secret}, "ask for the topics"},
		{"no authority", &TLS{CertFile: good.CertFile, KeyFile: good.KeyFile}, &SASL{Mechanism: "plain", Username: "p", Password: secret}, "certificate signed by unknown authority"},
		{"wrong name", &TLS{CAFile: good.CAFile, CertFile: good.CertFile, KeyFile: good.KeyFile, ServerName: "elsewhere"}, &SASL{Mechanism: "plain", Username: "p", Password: secret}, "wanted to match elsewhere"},
		{"no client certificate", &TLS{CAFile: good.CAFile}, &SASL{Mechanism: "plain", Username: "p", Password: secret}, "certificate required"},
		{"no TLS", nil, &SASL{Mechanism: "plain", Username: "p", Password: secret}, "TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			core, logs := observer.New(zapcore.DebugLevel)
			o := b.options()
			o.TLS, o.SASL, o.RequestTimeout, o.Logger = c.tls, c.sasl, 400*time.Millisecond, zap.New(core)
			consumer, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer consumer.Close()
			_, _, err = consumer.Partitions(ctx(t))
			if c.text == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v", err)
			}
			// The fake broker closes the connection where a real one would say
			// SASL_AUTHENTICATION_FAILED, which TestClassify has.
			if retry, reason := Classify(err); retry && strings.Contains(c.text, "certificate") {
				t.Errorf("%v: to be retried (%s)", err, reason)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the password is in the error: %v", err)
			}
			for _, l := range logs.All() {
				if strings.Contains(fmt.Sprint(l.Message, l.ContextMap()), secret) {
					t.Errorf("the password is in the log: %v", l)
				}
			}
		})
	}
}

func TestOptions(t *testing.T) {
	dir := certificates(t)
	ok := Options{Brokers: []string{"h:1"}, Topics: []string{"t"}}
	for _, c := range []struct {
		name string
		edit func(*Options)
		want []string
	}{
		{"all at once", func(o *Options) {
			*o = Options{TLS: &TLS{CertFile: "c"}, SASL: &SASL{Mechanism: "kerberos"}, Topics: []string{"a", "a"}}
		}, []string{"kafka.brokers", "cert_file and key_file", `"kerberos" is not known`, "username and one of password", `"a" is empty or named twice`}},
		{"no topic", func(o *Options) { o.Topics = nil }, []string{"no topic"}},
		{"no file", func(o *Options) { o.TLS = &TLS{CAFile: filepath.Join(dir, "none")} }, []string{"kafka.tls.ca_file", "none"}},
		{"no certificate", func(o *Options) { o.TLS = &TLS{CAFile: filepath.Join(dir, "ca.key")} }, []string{"holds no certificate"}},
		{"not a pair", func(o *Options) {
			o.TLS = &TLS{CertFile: filepath.Join(dir, "client.pem"), KeyFile: filepath.Join(dir, "server.key")}
		}, []string{"kafka.tls.cert_file"}},
	} {
		o := ok
		c.edit(&o)
		consumer, err := New(o)
		if err == nil {
			consumer.Close()
			t.Errorf("%s: accepted", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v lacks %q", c.name, err, want)
			}
		}
	}
	if err := Produce(ctx(t), Options{}, []*change.Record{{}}); err == nil {
		t.Error("produced to nowhere")
	}
	if s := fmt.Sprintf("%v %+v %#v", SASL{Mechanism: "plain", Username: "u", Password: "pw"}, &SASL{Mechanism: "plain", Username: "u", Password: "pw"}, SASL{Mechanism: "plain", Username: "u", Password: "pw"}); strings.Contains(s, "pw") {
		t.Error(s)
	}
}
