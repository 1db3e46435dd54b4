package server

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
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
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

const token = "a-token-for-tests-0123456789"

// listening is a server that answers at addresses of this host, without tables.
func listening(t *testing.T, o Options) (s *Server, http, profiles string, logs *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	o.Log, o.HTTP = zap.New(core), "127.0.0.1:0"
	s = New(o)
	shutdown, err := s.serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shutdown)
	address := func(message string) string {
		for _, e := range logs.FilterMessage(message).All() {
			return fmt.Sprint(e.ContextMap()["address"])
		}
		return ""
	}
	return s, address("answering HTTP"), address("answering pprof"), logs
}

// ask sends a request as it stands, and gives the answer.
func ask(t *testing.T, address, request string) (code int, head http.Header, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, request) // refused early, it may not take all
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text)
}

func TestToken(t *testing.T) {
	t.Parallel()
	s, address, _, logs := listening(t, Options{Token: token})
	basic := "Authorization: Basic " + "YW55Ym9keTphLXRva2VuLWZvci10ZXN0cy0wMTIzNDU2Nzg5" // anybody:token
	for _, c := range []struct {
		what, page, header string
		want               int
	}{
		{"none", "/status", "", 401}, {"none", "/", "", 401}, {"none", "/metrics", "", 401}, {"none", "/nothing", "", 401}, {"none", "/openapi.yaml", "", 401},
		{"none", "/healthz", "", 200}, {"none", "/readyz", "", 200}, {"none, by another name", "/healthz/../status", "", 401}, {"none, by another name", "//healthz", "", 401},
		{"the token", "/status", "Authorization: Bearer " + token, 200}, {"in small letters", "/metrics", "authorization: bearer " + token, 200},
		{"a browser's", "/", basic, 200},
		{"a wrong one", "/status", "Authorization: Bearer " + token + "x", 401}, {"the beginning", "/status", "Authorization: Bearer a", 401}, {"empty", "/status", "Authorization: Bearer ", 401}, {"no scheme", "/status", "Authorization: " + token, 401},
		{"another scheme", "/status", "Authorization: Digest " + token, 401}, {"bytes", "/status", "Authorization: Bearer \xff\xfe", 401}, {"a very long one", "/status", "Authorization: Bearer " + strings.Repeat("x", 10_000), 401},
		{"two", "/status", "Authorization: Bearer x\r\nAuthorization: Bearer " + token, 401}, {"in the address", "/status?token=" + token, "", 401},
	} {
		header := ""
		if c.header != "" {
			header = c.header + "\r\n"
		}
		code, head, body := ask(t, address, "GET "+c.page+" HTTP/1.1\r\nHost: x\r\n"+header+"Connection: close\r\n\r\n")
		if code != c.want {
			t.Errorf("%s for %s: %d, want %d: %s", c.what, c.page, code, c.want, body)
		}
		if challenges := head.Values("WWW-Authenticate"); code == 401 && (len(challenges) != 2 || !strings.HasPrefix(challenges[0], "Bearer ")) {
			t.Errorf("%s for %s: challenges %q", c.what, c.page, challenges)
		}
		if strings.Contains(body, token) {
			t.Errorf("%s for %s: the answer has the token", c.what, c.page)
		}
	}
	// Why it is not ready is told to those who may know.
	x := &table{Spec: Spec{Name: "secret_table"}, s: s, watch: newWatch("t"), share: s.memory.share(), state: Failed, err: errors.New("no such bucket")}
	s.mu.Lock()
	s.tables = []*table{x}
	s.mu.Unlock()
	if code, _, body := ask(t, address, "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); code != 503 || strings.Contains(body, "secret_table") {
		t.Errorf("without the token: %d %s", code, body)
	}
	if code, _, body := ask(t, address, "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n"); code != 503 || body != "table secret_table: failed: no such bucket\n" {
		t.Errorf("with the token: %d %s", code, body)
	}
	// A token that rotates.
	s.SetToken("another-token-0123456789")
	if code, _, _ := ask(t, address, "GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n"); code != 401 {
		t.Errorf("the old token: %d", code)
	}
	if code, _, _ := ask(t, address, "GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer another-token-0123456789\r\n\r\n"); code != 200 {
		t.Errorf("the new token: %d", code)
	}
	for _, e := range logs.All() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, token) {
			t.Errorf("the log has the token: %s", text)
		}
	}
}

// Requests that are none, or mean harm, are refused, and the next one is answered.
func TestAbuse(t *testing.T) {
	t.Parallel()
	_, address, _, _ := listening(t, Options{})
	const end = "Host: x\r\nConnection: close\r\n\r\n"
	for _, c := range []struct {
		what, request string
		codes         []int
	}{
		{"a method", "POST /status HTTP/1.1\r\nContent-Length: 0\r\n" + end, []int{405}},
		{"a method", "TRACE / HTTP/1.1\r\n" + end, []int{405}},
		{"a method", "CONNECT /status HTTP/1.1\r\n" + end, []int{405, 400}},
		{"none", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03 a hello of TLS\r\n\r\n", []int{400, 0}},
		{"no host", "GET /status HTTP/1.1\r\nConnection: close\r\n\r\n", []int{400}},
		{"two hosts", "GET /status HTTP/1.1\r\nHost: a\r\n" + end, []int{400}},
		{"a huge header", "GET /status HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n" + end, []int{431, 0}},
		{"a thousand headers", "GET /status HTTP/1.1\r\n" + strings.Repeat("X: y-y-y-y-y-y-y-y-y-y-y\r\n", 2000) + end, []int{431, 0}},
		{"a huge address", "GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\n" + end, []int{431, 400, 0}},
		{"a path out", "GET /../../../etc/passwd HTTP/1.1\r\n" + end, []int{404, 301, 307}},
		{"a path out", "GET /tables/..%2f..%2fetc%2fpasswd HTTP/1.1\r\n" + end, []int{404}},
		{"a path out", "GET /style.css/%00 HTTP/1.1\r\n" + end, []int{404}},
		{"script in a name", "GET /tables/%3Cscript%3Ealert(1)%3C%2Fscript%3E HTTP/1.1\r\n" + end, []int{404}},
		{"two lengths", "GET /status HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n" + end + "hello", []int{400}},
		{"a length below 0", "GET /status HTTP/1.1\r\nContent-Length: -1\r\n" + end, []int{400}},
		{"length and chunks", "GET /status HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n" + end + "0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", []int{400, 200}},
		{"an encoding", "GET /status HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n" + end, []int{501, 400}},
		{"an encoding, twice", "GET /status HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n" + end, []int{501, 400}},
		{"space before the colon", "GET /status HTTP/1.1\r\nContent-Length : 3\r\n" + end + "abc", []int{400}},
		{"a folded line", "GET /status HTTP/1.1\r\n X: y\r\n" + end, []int{400}},
		{"a bare CR", "GET /status HTTP/1.1\rX: y\r\n" + end, []int{400}},
		{"a body on GET", "GET /status HTTP/1.1\r\nContent-Length: 5\r\n" + end + "hello", []int{200}},
		{"a large body on PUT", "PUT /loglevel HTTP/1.1\r\nContent-Length: 100000\r\n" + end + strings.Repeat("x", 100_000), []int{403}},
		{"another version", "GET /status HTTP/3.0\r\n" + end, []int{505, 400}},
		{"an older one", "GET /status HTTP/1.0\r\n\r\n", []int{200}},
	} {
		code, head, body := ask(t, address, c.request)
		ok := false
		for _, want := range c.codes {
			ok = ok || code == want
		}
		if !ok || strings.Contains(body, "root:") || strings.Contains(body, "<script") {
			t.Errorf("%s: %d, want one of %d: %.200s", c.what, code, c.codes, body)
		}
		if code == 200 && (head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Cache-Control") != "no-store" || !strings.HasPrefix(head.Get("Content-Security-Policy"), "default-src 'none'; style-src 'self'")) {
			t.Errorf("%s: header %v", c.what, head)
		}
	}
	// Of two requests in the bytes of a chunked one the second is not taken for one.
	if _, _, body := ask(t, address, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX"); strings.Contains(body, "# HELP") {
		t.Errorf("smuggled: %s", body)
	}
}

// A thousand connections that say nothing, and as many that never end a line,
// keep nobody out, and take little memory.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	_, address, _, _ := listening(t, Options{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 1000 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
		if i%2 == 1 { // slow loris
			_, _ = io.WriteString(conn, "GET /status HTTP/1.1\r\nHost: x\r\nX-")
		}
	}
	began := time.Now()
	if code, _, body := ask(t, address, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); code != 200 || !strings.Contains(body, "gscd_build_info") {
		t.Errorf("metrics: %d", code)
	}
	if took := time.Since(began); took > headerTimeout {
		t.Errorf("metrics took %s", took)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse); grown > 32<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
}

// Those that are still open are bounded, and the ones that wait longest go first.
func TestConnections(t *testing.T) {
	var c connections
	var ends []net.Conn
	for i := range maxConnections + 10 {
		here, there := net.Pipe()
		defer there.Close()
		ends = append(ends, there)
		c.state(here, http.StateNew)
		if i < 5 {
			c.state(here, http.StateActive) // at work: the last to go
		}
	}
	if len(c.open) != maxConnections {
		t.Errorf("%d are open", len(c.open))
	}
	closed := 0
	for i, end := range ends {
		_ = end.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := end.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			closed++
			if i < 5 || i >= 15 {
				t.Errorf("connection %d was closed", i)
			}
		}
	}
	if closed != 10 {
		t.Errorf("%d were closed", closed)
	}
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key, a.pem, _ = a.make("authority", nil)
	return a
}

func (a *authority) make(name string, by *authority) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: by == nil, BasicConstraintsValid: true,
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, _, cert, key := a.make("first", a)
	files := TLSFiles{CertFile: file("cert.pem", cert), KeyFile: file("key.pem", key), ClientCAFile: file("ca.pem", a.pem)}
	s, address, _, logs := listening(t, Options{TLS: files})
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	get := func(page string, c *tls.Config) (int, string, error) {
		client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
		resp, err := client.Get("https://" + address + page)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Proto + " " + resp.TLS.PeerCertificates[0].Subject.CommonName, nil
	}
	_, _, clientCert, clientKey := a.make("client", a)
	client, err := tls.X509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	stranger := newAuthority(t)
	_, _, strangeCert, strangeKey := stranger.make("stranger", stranger)
	strange, err := tls.X509KeyPair(strangeCert, strangeKey)
	if err != nil {
		t.Fatal(err)
	}
	// A probe shows no certificate, all others must.
	for _, c := range []struct {
		page string
		with []tls.Certificate
		want int
	}{{"/healthz", nil, 200}, {"/status", nil, 403}, {"/status", []tls.Certificate{client}, 200}, {"/", []tls.Certificate{client}, 200}} {
		if code, proto, err := get(c.page, &tls.Config{RootCAs: roots, Certificates: c.with}); code != c.want || proto != "HTTP/1.1 first" {
			t.Errorf("%s: %d %s %v, want %d", c.page, code, proto, err, c.want)
		}
	}
	forced := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &strange, nil }
	if code, _, err := get("/healthz", &tls.Config{RootCAs: roots, GetClientCertificate: forced}); err == nil {
		t.Errorf("a stranger's certificate: %d", code)
	}
	if _, _, err := get("/healthz", &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 is taken")
	}
	if code, _, body := ask(t, address, "GET /status HTTP/1.1\r\nHost: x\r\n\r\n"); code == 200 {
		t.Errorf("without TLS: %d %s", code, body)
	}
	// Half of a new pair: the old one stays. The whole: it is taken.
	_, _, cert, key = a.make("second", a)
	later := time.Now().Add(time.Minute)
	look := func() { // at the next handshake
		s.certificates.mu.Lock()
		defer s.certificates.mu.Unlock()
		s.certificates.looked = time.Time{}
	}
	file("cert.pem", cert)
	_ = os.Chtimes(files.CertFile, later, later)
	look()
	if _, proto, err := get("/healthz", &tls.Config{RootCAs: roots}); proto != "HTTP/1.1 first" {
		t.Errorf("half of a pair: %s %v", proto, err)
	}
	file("key.pem", key)
	_ = os.Chtimes(files.KeyFile, later, later)
	look()
	if _, proto, err := get("/healthz", &tls.Config{RootCAs: roots}); proto != "HTTP/1.1 second" {
		t.Errorf("the new pair: %s %v", proto, err)
	}
	if logs.FilterMessage("took the new certificate of HTTP").Len() != 1 || logs.FilterMessage("the new certificate of HTTP is not taken; the old one stays").Len() != 1 {
		t.Errorf("log: %v", logs.All())
	}
	// Files that are not there stop the start, by name.
	for _, wrong := range []TLSFiles{{CertFile: "nothing.pem", KeyFile: files.KeyFile}, {CertFile: files.CertFile, KeyFile: files.CertFile}, {CertFile: files.CertFile, KeyFile: files.KeyFile, ClientCAFile: files.KeyFile}} {
		if _, err := New(Options{HTTP: "127.0.0.1:0", TLS: wrong}).serve(); err == nil || !strings.HasPrefix(err.Error(), "http.tls.c") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

func TestPprof(t *testing.T) {
	t.Parallel()
	if _, _, profiles, _ := listening(t, Options{}); profiles != "" {
		t.Errorf("profiles at %s, and nobody wanted them", profiles)
	}
	_, address, profiles, _ := listening(t, Options{Pprof: "127.0.0.1:0", Token: token})
	with := "Host: x\r\nConnection: close\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	if code, _, _ := ask(t, profiles, "GET /debug/pprof/heap HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); code != 401 {
		t.Errorf("without the token: %d", code)
	}
	if code, _, body := ask(t, profiles, "GET /debug/pprof/heap HTTP/1.1\r\n"+with); code != 200 || !strings.HasPrefix(body, "\x1f\x8b") {
		t.Errorf("heap: %d", code)
	}
	if code, _, body := ask(t, profiles, "GET /debug/pprof/goroutine?debug=1 HTTP/1.1\r\n"+with); code != 200 || !strings.HasPrefix(body, "goroutine profile: total ") {
		t.Errorf("goroutines: %d %.100s", code, body)
	}
	if code, _, _ := ask(t, profiles, "GET /debug/pprof/cmdline HTTP/1.1\r\n"+with); code != 404 {
		t.Errorf("the command line: %d", code)
	}
	if code, _, _ := ask(t, address, "GET /debug/pprof/heap HTTP/1.1\r\n"+with); code != 404 {
		t.Errorf("at the other port: %d", code)
	}
	if code, _, _ := ask(t, profiles, "GET /status HTTP/1.1\r\n"+with); code != 404 {
		t.Errorf("the status, at the port of profiles: %d", code)
	}
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	level := zap.NewAtomicLevelAt(zapcore.InfoLevel)
	s, address, _, _ := listening(t, Options{Token: token, LogLevel: level})
	put := func(body string) (int, string) {
		code, _, text := ask(t, address, fmt.Sprintf("PUT /loglevel HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", token, len(body), body))
		return code, text
	}
	for _, body := range []string{"", "debug", `{"level":"loud"}`, `{"level":"debug","for":"-1m"}`, `{"level":"debug","for":"25h"}`, `{"level":"debug","more":1}`, `{"level":"debug"}{}`, `{"level":"debug","x":"` + strings.Repeat("x", 5000) + `"}`} {
		if code, text := put(body); code != 400 || level.Level() != zapcore.InfoLevel {
			t.Errorf("%.40s: %d %s", body, code, text)
		}
	}
	if code, text := put(`{"level":"debug","for":"10m"}`); code != 200 || level.Level() != zapcore.DebugLevel || !regexp.MustCompile(`^{"level":"debug","usual":"info","until":"20[^"]*Z"}\n$`).MatchString(text) {
		t.Errorf("%d %s", code, text)
	}
	// What the configuration says ends it.
	s.SetLogLevel(zapcore.WarnLevel)
	if code, _, text := ask(t, address, "GET /loglevel HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n"); code != 200 || text != "{\"level\":\"warn\",\"usual\":\"warn\",\"until\":null}\n" {
		t.Errorf("%d %s", code, text)
	}
	// A temporary one ends by itself.
	if code, _ := put(`{"level":"debug","for":"20ms"}`); code != 200 {
		t.Errorf("%d", code)
	}
	for end := time.Now().Add(5 * time.Second); level.Level() != zapcore.WarnLevel; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the level has not come back")
		}
	}
	// Where no token is set nobody is known.
	_, address, _, _ = listening(t, Options{LogLevel: level})
	if code, _, text := ask(t, address, "PUT /loglevel HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 17\r\n\r\n{\"level\":\"debug\"}"); code != 403 || level.Level() != zapcore.WarnLevel {
		t.Errorf("without a token: %d %s", code, text)
	}
}
