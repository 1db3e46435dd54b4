//go:build integration

package integration

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

// A gateway is a real S3 server, versitygw, on a folder of the test.
type gateway struct {
	*process
	url, dir string
	args     []string
}

const (
	gatewayBucket = "lake"
	gatewayKey    = "AKIDINTEGRATION"
	gatewaySecret = "not-much-of-a-secret"
	gatewayRegion = "eu-central-1"
)

func startGateway(t testing.TB, args ...string) *gateway {
	t.Helper()
	g := &gateway{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(g.dir, gatewayBucket), 0o755); err != nil {
		t.Fatal(err)
	}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	g.url = "http://" + address
	if slices.Contains(args, "--cert") {
		g.url = "https://" + address
	}
	args = append([]string{"--port", address, "--access", gatewayKey, "--secret", gatewaySecret, "--region", gatewayRegion, "--quiet"}, args...)
	g.args = append(args, "posix", g.dir)
	g.start(t)
	return g
}

// start starts the server, and again after its end: with the same address and data.
func (g *gateway) start(t testing.TB) {
	t.Helper()
	g.process = startProcess(t, filepath.Join(component(t, "versitygw"), "versitygw"), g.args...)
	go io.Copy(io.Discard, g.stdout)
	for range 200 {
		select {
		case <-g.ended:
			t.Fatalf("versitygw has ended: %s", g.errors)
		case <-time.After(50 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", g.args[1]); err == nil {
			c.Close()
			return
		}
	}
	t.Fatalf("versitygw does not answer: %s", g.errors)
}

func (g *gateway) options() s3.Options {
	return s3.Options{
		Endpoint: g.url, Region: gatewayRegion, PathStyle: true, AccessKeyID: gatewayKey, SecretAccessKey: gatewaySecret,
		PartSize: 5 << 20, UploadMemory: 15 << 20, FirstWait: 20 * time.Millisecond,
	}
}

// open makes a store of a client of its own: another process, as it were.
func (g *gateway) open(t testing.TB, prefix string) *s3.Store {
	t.Helper()
	s, err := s3.Open(ctx, gatewayBucket, prefix, g.options())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// certificate makes a certificate of this machine, and has the SDK trust it.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gscd integration"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CA_BUNDLE", cert)
	return cert, key
}

func TestS3Conformance(t *testing.T) {
	run := func(t *testing.T, args ...string) {
		g, n := startGateway(t, args...), 0
		storetest.Run(t, func(t *testing.T) objstore.Store {
			n++
			return g.open(t, fmt.Sprintf("t%d", n))
		})
		multipart(t, g)
	}
	t.Run("connections kept", func(t *testing.T) { run(t, "--keep-alive") })
	t.Run("connections closed", func(t *testing.T) { run(t) })
	// Over TLS bodies go in chunks, with their checksum behind them.
	t.Run("TLS", func(t *testing.T) {
		cert, key := certificate(t)
		run(t, "--keep-alive", "--cert", cert, "--key", key)
	})
	t.Run("without checksums", func(t *testing.T) {
		t.Setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
		run(t, "--keep-alive")
	})
}

// race lets writers put one key at the same moment, and wants one winner, whose
// bytes are the object. It gives the number of uploads that were to be completed
// only if the key was free.
func race(t *testing.T, g *gateway, rounds, writers, size int) (conditional int64) {
	t.Helper()
	var completed atomic.Int64
	o := g.options()
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && r.Header.Get("If-None-Match") == "*" && !strings.Contains(r.URL.Path, ".gscd") {
				completed.Add(1)
			}
			return next.RoundTrip(r)
		})
	}
	stores := make([]*s3.Store, writers)
	for w := range stores {
		var err error
		if stores[w], err = s3.Open(ctx, gatewayBucket, "race", o); err != nil {
			t.Fatal(err)
		}
		if err := stores[w].Probe(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		key := fmt.Sprintf("%d/%020d.json", size, round)
		errs, bodies := make([]error, writers), make([][]byte, writers)
		var ready, done sync.WaitGroup
		ready.Add(writers)
		for w := range writers {
			bodies[w] = bytes.Repeat([]byte{byte('a' + w)}, size)
			done.Go(func() {
				ready.Done()
				ready.Wait()
				errs[w] = stores[w].PutIfAbsent(ctx, key, bodies[w])
			})
		}
		done.Wait()
		winner := -1
		for w, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("round %d: %d and %d won both", round, winner, w)
			case err == nil:
				winner = w
			case !errors.Is(err, objstore.ErrExist):
				t.Errorf("round %d: a loser's error is %v", round, err)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won", round)
		}
		if got, err := stores[0].Get(ctx, key); err != nil || !bytes.Equal(got, bodies[winner]) {
			t.Fatalf("round %d: the object is not the winner's: %d bytes, %v", round, len(got), err)
		}
	}
	return completed.Load()
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestS3OneWinner(t *testing.T) {
	g := startGateway(t)
	t.Run("commits", func(t *testing.T) { race(t, g, 40, 16, 900) })
	// A loser of this size often finds its connection broken instead of an answer.
	t.Run("large", func(t *testing.T) { race(t, g, 4, 16, 3<<20) })
	// The condition stands on the completion of an upload in parts.
	t.Run("in parts", func(t *testing.T) {
		if n := race(t, g, 3, 6, 11<<20); n != 18 {
			t.Errorf("%d conditional completions, want 18", n)
		}
	})
}

func multipart(t *testing.T, g *gateway) {
	t.Helper()
	s := g.open(t, "multipart")
	data := make([]byte, 23<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	if err := s.Put(ctx, "large", data); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(ctx, "large")
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes came back, %v", len(got), err)
	}
	part, err := s.GetRange(ctx, "large", 5<<20-3, 6)
	if err != nil || !bytes.Equal(part, data[5<<20-3:5<<20+3]) {
		t.Errorf("a range over two parts: %v, %v", part, err)
	}
	if err := s.PutIfAbsent(ctx, "large", data[1:]); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("a taken key: %v", err)
	}
	if err := s.PutIfAbsent(ctx, "large 2", data[1:]); err != nil {
		t.Error(err)
	}
	if head, err := s.Head(ctx, "large 2"); err != nil || head.Size != int64(len(data))-1 {
		t.Errorf("head %+v, %v", head, err)
	}
}

// What is wrong is said in a sentence, by a server that was not made for it.
func TestS3BadInput(t *testing.T) {
	g := startGateway(t)
	for name, c := range map[string]struct {
		bucket string
		change func(*s3.Options)
		says   []string
	}{
		"bucket":     {"nowhere", func(*s3.Options) {}, []string{g.url, "has no bucket nowhere: create it"}},
		"region":     {gatewayBucket, func(o *s3.Options) { o.Region = "us-west-2" }, []string{"the bucket is in eu-central-1, not where it was asked for (us-west-2): set s3.region"}},
		"access key": {gatewayBucket, func(o *s3.Options) { o.AccessKeyID = "AKIDOTHER" }, []string{"does not know the access key: check s3.access_key_id"}},
		"secret":     {gatewayBucket, func(o *s3.Options) { o.SecretAccessKey += "x" }, []string{"the secret key is not that of the access key: check s3.secret_access_key"}},
		"endpoint":   {gatewayBucket, func(o *s3.Options) { o.Endpoint, o.Attempts = "http://127.0.0.1:1", 2 }, []string{"http://127.0.0.1:1 refuses connections: check that the storage runs, and s3.endpoint"}},
		"scheme":     {gatewayBucket, func(o *s3.Options) { o.Endpoint = "https" + o.Endpoint[len("http"):] }, []string{"speaks no TLS: write http:// in s3.endpoint"}},
	} {
		o := g.options()
		c.change(&o)
		s, err := s3.Open(ctx, c.bucket, "t", o)
		if err != nil {
			t.Fatal(err)
		}
		calls := map[string]func() error{
			"get":           func() error { _, err := s.Get(ctx, "k"); return err },
			"put":           func() error { return s.Put(ctx, "k", nil) },
			"put if absent": func() error { return s.PutIfAbsent(ctx, "k", nil) },
			"list": func() (err error) {
				for _, err = range s.List(ctx, "", "") {
				}
				return err
			},
		}
		// A HEAD has no words, and this server answers 404 in both cases.
		if name != "bucket" && name != "access key" {
			calls["head"] = func() error { _, err := s.Head(ctx, "k"); return err }
		}
		for call, do := range calls {
			err := do()
			t.Logf("%s, %s: %v", name, call, err)
			says(t, err, append(c.says, "s3://"+c.bucket+"/t")...)
			if err != nil && bytes.Contains([]byte(err.Error()), []byte(gatewaySecret)) {
				t.Errorf("%s, %s: the secret is in the error", name, call)
			}
		}
	}
}
