package registry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/decode"
)

// answers is a registry that has fixed answers by path, and counts the requests.
type answers struct {
	byPath map[string]func(http.ResponseWriter, *http.Request)
	asked  atomic.Int64
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	if f := a.byPath[r.URL.Path]; f != nil {
		f(w, r)
		return
	}
	status(404, `{"error_code":40403,"message":"Schema not found"}`)(w, r)
}

func text(body string) func(http.ResponseWriter, *http.Request) { return status(200, body) }

func status(code int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func serve(t *testing.T, byPath map[string]func(http.ResponseWriter, *http.Request)) (*answers, string) {
	t.Helper()
	a := &answers{byPath: byPath}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, s.URL
}

// client makes one that is not patient.
func client(t *testing.T, o Options) *Client {
	t.Helper()
	if o.Patience == 0 {
		o.Patience = 500 * time.Millisecond
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func content(id int64) decode.SchemaID { return decode.SchemaID{Kind: decode.ContentID, ID: id} }
func global(id int64) decode.SchemaID  { return decode.SchemaID{Kind: decode.GlobalID, ID: id} }

func TestSchema(t *testing.T) {
	a, url := serve(t, map[string]func(http.ResponseWriter, *http.Request){
		"/base/schemas/ids/1":               text(`{"schema":"\"string\""}`),
		"/base/schemas/ids/2":               text(`{"schema":"root","schemaType":"AVRO","references":[{"name":"b","subject":"b/x","version":3},{"name":"c","subject":"c","version":1}]}`),
		"/base/subjects/b/x/versions/3":     text(`{"schema":"b","references":[{"name":"c","subject":"c","version":1}]}`),
		"/base/subjects/c/versions/1":       text(`{"schema":"c"}`),
		"/base/schemas/ids/3":               text(`{"schema":"syntax","schemaType":"PROTOBUF"}`),
		"/base/schemas/ids/4":               text(`{"schema":"x","references":[{"name":"z","subject":"z","version":9}]}`),
		"/base/schemas/ids/5":               text(`{"schema":"` + strings.Repeat("x", maxSchema+1) + `"}`),
		"/base/schemas/ids/6":               text(strings.Repeat("x", 2*maxSchema)),
		"/base/subjects/circle/versions/1":  text(`{"schema":"circle","references":[{"name":"c","subject":"circle","version":1}]}`),
		"/base/schemas/ids/7":               text(`{"schema":"x","references":[{"name":"c","subject":"circle","version":1}]}`),
		"/base/subjects/missing/versions/1": status(404, `{"error_code":40401,"message":"Subject 'missing' not found."}`),
	})
	c := client(t, Options{URLs: []string{url + "/base/"}})
	for range 3 {
		if got, err := c.Schema(content(1)); err != nil || !slices.Equal(got, []string{`"string"`}) {
			t.Fatal(got, err)
		}
	}
	if n := a.asked.Load(); n != 1 {
		t.Errorf("%d requests for one schema", n)
	}
	if got, err := c.Schema(content(2)); err != nil || !slices.Equal(got, []string{"c", "b", "root"}) {
		t.Errorf("with references: %q, %v", got, err)
	}
	if got, err := c.Schema(content(7)); err != nil || !slices.Equal(got, []string{"circle", "x"}) {
		t.Errorf("a circle: %q, %v", got, err)
	}
	for id, want := range map[int64]string{3: "PROTOBUF", 4: `version 9 of "z"`, 5: "larger than", 6: "larger than", 99: "Schema not found"} {
		_, err := c.Schema(content(id))
		var wait *decode.SchemaError
		if !errors.Is(err, decode.ErrNoSchema) || errors.As(err, &wait) || !strings.Contains(err.Error(), want) {
			t.Errorf("id %d: %v", id, err)
		}
	}
	var wait *decode.SchemaError
	if _, err := c.Schema(global(1)); !errors.As(err, &wait) || wait.Retryable || !strings.Contains(err.Error(), "/apis/registry/v3") {
		t.Errorf("a global id: %v", err)
	}
}

// Apicurio's own API knows both kinds of ids.
func TestApicurio(t *testing.T) {
	_, url := serve(t, map[string]func(http.ResponseWriter, *http.Request){
		"/apis/registry/v3/ids/globalIds/7":                                        text("seven"),
		"/apis/registry/v3/ids/globalIds/7/references":                             text(`[{"artifactId":"a.Value","version":"1","name":"a.Value"},{"groupId":"g","artifactId":"b","version":"2"}]`),
		"/apis/registry/v3/ids/contentIds/7":                                       text("content seven"),
		"/apis/registry/v3/ids/contentIds/7/references":                            text(`[]`),
		"/apis/registry/v3/groups/default/artifacts/a.Value/versions/1/content":    text("value"),
		"/apis/registry/v3/groups/default/artifacts/a.Value/versions/1/references": text(`[]`),
		"/apis/registry/v3/groups/g/artifacts/b/versions/2/content":                text("b"),
		"/apis/registry/v3/groups/g/artifacts/b/versions/2/references":             text(`[]`),
		"/apis/registry/v2/ids/contentIds/7":                                       text("seven"),
		"/apis/registry/v2/ids/contentIds/7/references":                            text(`[{"artifactId":"a","version":"1"}]`),
		"/apis/registry/v2/groups/default/artifacts/a/versions/1":                  text("a"),
		"/apis/registry/v2/groups/default/artifacts/a/versions/1/references":       text(`[]`),
		"/apis/registry/v3/ids/globalIds/8":                                        status(404, `{"title":"No version with global ID '8' found.","status":404,"name":"VersionNotFoundException"}`),
	})
	status404 := `{"title":"RESTEASY003210: Could not find resource","status":404,"name":"NotFoundException"}`
	_, wrong := serve(t, map[string]func(http.ResponseWriter, *http.Request){"/apis/registry/v4/ids/globalIds/8": status(404, status404)})
	var wait *decode.SchemaError
	if _, err := client(t, Options{URLs: []string{wrong + "/apis/registry/v4"}}).Schema(global(8)); !errors.As(err, &wait) || wait.Retryable {
		t.Errorf("a wrong path: %v", err)
	}
	c := client(t, Options{URLs: []string{url + "/apis/registry/v3"}})
	if got, err := c.Schema(global(7)); err != nil || !slices.Equal(got, []string{"value", "b", "seven"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := client(t, Options{URLs: []string{url + "/apis/registry/v2"}}).Schema(content(7)); err != nil || !slices.Equal(got, []string{"a", "seven"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.Schema(content(7)); err != nil || got[0] != "content seven" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.Schema(global(8)); !errors.Is(err, decode.ErrNoSchema) || !strings.Contains(err.Error(), "global ID '8'") {
		t.Error(err)
	}
}

// What may pass is asked again; what must not be taken for an unknown id is not.
func TestFaults(t *testing.T) {
	var calls atomic.Int64
	_, url := serve(t, map[string]func(http.ResponseWriter, *http.Request){
		"/schemas/ids/1": func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) < 3 {
				status(503, `{"error_code":50003,"message":"Forwarding failed"}`)(w, r)
				return
			}
			text(`{"schema":"late"}`)(w, r)
		},
		"/schemas/ids/2": status(500, `<html>`),
		"/schemas/ids/3": status(401, `{"error_code":401,"message":"no s3cret please"}`),
		"/schemas/ids/4": status(404, `<html>nginx`),
		"/schemas/ids/5": status(429, ``),
		"/schemas/ids/6": status(400, `{"error_code":400,"message":"bad"}`),
		"/schemas/ids/8": text(`<html>log in here`),
		"/schemas/ids/9": status(404, `{"error_code":404,"message":"HTTP 404 Not Found"}`),
	})
	c := client(t, Options{URLs: []string{url}, Username: "gscd", Password: "s3cret", Patience: time.Second})
	if got, err := c.Schema(content(1)); err != nil || got[0] != "late" || calls.Load() != 3 {
		t.Errorf("%q, %v after %d calls", got, err, calls.Load())
	}
	gone := client(t, Options{URLs: []string{"http://127.0.0.1:1"}, Token: "s3cret", Patience: time.Second})
	for _, f := range []struct {
		c     *Client
		id    int64
		retry bool
		want  string
	}{
		{c, 2, true, "500 Internal Server Error"}, {c, 3, false, "no *** please: the login of schema_registry does not suffice"},
		{c, 4, false, "is schema_registry.url right?"}, {c, 5, true, "429"}, {c, 6, false, "400 Bad Request: bad"},
		{c, 8, true, "no JSON"}, {c, 9, false, "is schema_registry.url right?"},
		{gone, 1, true, "connection refused"},
	} {
		_, err := f.c.Schema(content(f.id))
		var wait *decode.SchemaError
		if !errors.As(err, &wait) || wait.Retryable != f.retry || errors.Is(err, decode.ErrNoSchema) ||
			!strings.Contains(err.Error(), f.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("id %d: %v, want %q, retryable %v", f.id, err, f.want, f.retry)
		}
	}
}

// With several addresses one that is away decides nothing.
func TestSeveralAddresses(t *testing.T) {
	_, has := serve(t, map[string]func(http.ResponseWriter, *http.Request){"/schemas/ids/1": text(`{"schema":"x"}`)})
	_, empty := serve(t, nil)
	away := "http://127.0.0.1:1"
	for _, urls := range [][]string{{away, has}, {has, away}, {empty, has}, {empty, away, has}} {
		if got, err := client(t, Options{URLs: urls}).Schema(content(1)); err != nil || got[0] != "x" {
			t.Errorf("%v: %q, %v", urls, got, err)
		}
	}
	if _, err := client(t, Options{URLs: []string{empty, has}}).Schema(content(2)); !errors.Is(err, decode.ErrNoSchema) {
		t.Errorf("both say there is none: %v", err)
	}
	var wait *decode.SchemaError
	if _, err := client(t, Options{URLs: []string{empty, away}}).Schema(content(2)); !errors.As(err, &wait) || !wait.Retryable {
		t.Errorf("one of two says there is none: %v", err)
	}
}

// Decoders that need one schema at the same time have it fetched once.
func TestTogether(t *testing.T) {
	a, url := serve(t, map[string]func(http.ResponseWriter, *http.Request){
		"/schemas/ids/1": func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(50 * time.Millisecond)
			text(`{"schema":"x"}`)(w, r)
		},
	})
	c := client(t, Options{URLs: []string{url}})
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			if got, err := c.Schema(content(1)); err != nil || got[0] != "x" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wait.Wait()
	if n := a.asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// What is kept is bounded, whatever ids records name.
func TestKept(t *testing.T) {
	_, url := serve(t, nil)
	c := client(t, Options{URLs: []string{url}})
	for id := range int64(2*maxKept + 5) {
		if _, err := c.Schema(content(id)); !errors.Is(err, decode.ErrNoSchema) {
			t.Fatal(err)
		}
		if len(c.known) > maxKept {
			t.Fatalf("%d entries", len(c.known))
		}
	}
}

func TestLogin(t *testing.T) {
	check := func(want string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != want {
				status(401, ``)(w, r)
				return
			}
			text(`{"schema":"x"}`)(w, r)
		}
	}
	_, basic := serve(t, map[string]func(http.ResponseWriter, *http.Request){"/schemas/ids/1": check("Basic Z3NjZDpwdw==")})
	_, bearer := serve(t, map[string]func(http.ResponseWriter, *http.Request){"/schemas/ids/1": check("Bearer abc")})
	for _, o := range []Options{{URLs: []string{basic}, Username: "gscd", Password: "pw"}, {URLs: []string{bearer}, Token: "abc"}} {
		if _, err := client(t, o).Schema(content(1)); err != nil {
			t.Error(err)
		}
	}
	var wait *decode.SchemaError
	if _, err := client(t, Options{URLs: []string{bearer}, Token: "other"}).Schema(content(1)); !errors.As(err, &wait) || wait.Retryable {
		t.Error(err)
	}
}

// TestTLS: a certificate of an own authority, and one of the client.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	authority, key := authorityOf(t)
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ca, private := file("ca.pem", "CERTIFICATE", authority.Raw), file("key.pem", "PRIVATE KEY", keyDER)
	s := httptest.NewUnstartedServer(http.HandlerFunc(text(`{"schema":"x"}`)))
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, Certificates: []tls.Certificate{{Certificate: [][]byte{authority.Raw}, PrivateKey: key}}}
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	if got, err := client(t, Options{URLs: []string{s.URL}, CAFile: ca, CertFile: ca, KeyFile: private}).Schema(content(1)); err != nil || got[0] != "x" {
		t.Errorf("%q, %v", got, err)
	}
	var wait *decode.SchemaError
	for name, o := range map[string]Options{"no authority": {URLs: []string{s.URL}}, "no certificate": {URLs: []string{s.URL}, CAFile: ca}} {
		if _, err := client(t, o).Schema(content(1)); !errors.As(err, &wait) || wait.Retryable {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []Options{{CAFile: dir + "/none"}, {CAFile: private}, {CertFile: ca}, {CertFile: ca, KeyFile: ca}, {Username: "u", Token: "t"}} {
		o.URLs = []string{s.URL}
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for _, url := range []string{"http://u:pw@host", "host:80", "::"} {
		if _, err := New(Options{URLs: []string{url}}); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func authorityOf(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, DNSNames: []string{"example.com"},
		IPAddresses: nil, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	template.IPAddresses = append(template.IPAddresses, []byte{127, 0, 0, 1})
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}
