package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned is a certificate of this host and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// A process with TLS and a token answers the command that has its configuration,
// and takes another token and log level while it runs.
func TestServeSecured(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users")
	c.produce(c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"))
	cert, key := selfSigned(t)
	const first, second = "the-first-token-of-the-test", "the-second-token-of-the-test"
	config := func(level, token string) string {
		return fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\nlog: {level: %s}\nhttp:\n  address: 127.0.0.1:0\n  pprof: 127.0.0.1:0\n  token: %s\n  tls: {cert_file: %q, key_file: %q}\ntables:\n  - {location: %q, topics: [users]}\n",
			c.brokers(), level, token, c.write("cert.pem", cert), c.write("key.pem", key), filepath.Join(c.dir, "users"))
	}
	file := c.write("gscd.yaml", config("info", first))
	p := spawn(t, "ingest", "-c", file, "--now", "2022-07-16T13:00:00Z")
	url := strings.Replace(p.http, "http://", "https://", 1)
	why := func(config string) string {
		t.Helper()
		code, out, stderr := c.gscd("status", "--why", "-c", config, "--from", url, "--format", "jsonl")
		if code != 0 {
			t.Fatalf("exit %d: %s%s", code, out, stderr)
		}
		if text := out + stderr + p.log.String(); strings.Contains(text, first) || strings.Contains(text, second) {
			t.Errorf("a token is printed: %s", text)
		}
		return out
	}
	p.until("the answer of the process", func() bool { return strings.Contains(why(file), `"process":"`+url+`"`) })
	p.await(`"msg":"answering pprof"`)
	other := c.write("other.yaml", config("info", second))
	if out := why(other); !strings.Contains(out, `"rule":"no_process"`) || !strings.Contains(out, "it wants a token: set http.token, or GSCD_HTTP_TOKEN_FILE") {
		t.Errorf("with a wrong token: %s", out)
	}
	plain := c.write("plain.yaml", fmt.Sprintf("calendar: {timezone: UTC}\ntables: [{location: %q}]\n", filepath.Join(c.dir, "users")))
	if out := why(plain); !strings.Contains(out, "certificate signed by unknown authority") {
		t.Errorf("without the certificate: %s", out)
	}
	if strings.Contains(p.log.String(), `"level":"debug"`) {
		t.Errorf("debug is logged:\n%s", p.log.String())
	}

	p.hangUp(file, config("debug", second))
	p.await(`"msg":"took the new configuration"`)
	why(plain) // whose handshake fails, which is worth a line at debug
	p.await(`"level":"debug"`)
	if out := why(other); !strings.Contains(out, `"process":"`+url+`"`) {
		t.Errorf("with the new token: %s", out)
	}
	if strings.Contains(p.log.String(), "these keys have changed") {
		t.Errorf("it says that they stay:\n%s", p.log.String())
	}
}
