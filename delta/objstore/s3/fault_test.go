package s3_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/s3"
)

// noSecrets holds an error, and all that it wraps, against the keys.
func noSecrets(t *testing.T, what string, err error) {
	t.Helper()
	var visit func(error)
	visit = func(err error) {
		if err == nil {
			return
		}
		if strings.Contains(err.Error(), secretKey) {
			t.Errorf("%s: an error has the secret in it", what)
		}
		switch w := err.(type) { //nolint:errorlint // the chain is walked step by step
		case interface{ Unwrap() []error }:
			for _, e := range w.Unwrap() {
				visit(e)
			}
		default:
			visit(errors.Unwrap(err))
		}
	}
	visit(err)
}

// What the storage refuses is said in one sentence, with what to do. A HEAD has
// no words of its own and says the same.
func TestSentences(t *testing.T) {
	hour := func(by time.Duration) string { return time.Now().Add(by).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		status        int
		code, message string
		header        []string
		says          string
	}{
		{404, "NoSuchBucket", "The specified bucket does not exist", nil, `has no bucket lake: create it, or mend the address of the table$`},
		{403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", nil, `does not know the access key: check s3.access_key_id, AWS_ACCESS_KEY_ID or the profile$`},
		{403, "SignatureDoesNotMatch", "The request signature we calculated " + secretKey, nil, `the secret key is not that of the access key: check s3.secret_access_key, AWS_SECRET_ACCESS_KEY or the profile$`},
		{403, "RequestTimeTooSkewed", "too large", []string{"Date", hour(time.Hour)}, `the clock of this machine is wrong, slow by (1h0m0s|59m5\ds): set it \(NTP\), gscd goes by it too$`},
		{403, "RequestTimeTooSkewed", "too large", []string{"Date", hour(-2 * time.Hour)}, `the clock of this machine is wrong, fast by 2h0m[0-9]s: set it \(NTP\)`},
		{403, "RequestTimeTooSkewed", "too large", nil, `the clock of this machine is wrong: set it \(NTP\)`},
		{400, "ExpiredToken", "The provided token has expired.", nil, `the session token of the credentials has expired: get a new one \(s3.session_token, AWS_SESSION_TOKEN or the profile\)$`},
		{400, "InvalidToken", "malformed", nil, `the session token does not belong to the credentials: check s3.session_token`},
		{403, "AccessDenied", "User: arn:aws:iam::1:user/u is not authorized to perform: s3:X on resource: \"r\" with an explicit deny in a resource-based policy", nil,
			`the credentials may not do this: allow s3:[A-Za-z]+( and s3:ListBucket)? on the bucket lake in the policies of user, role and bucket \(it says: User: arn:.* with an explicit deny in a resource-based policy\), request REQ1$`},
		{301, "PermanentRedirect", "must be addressed", []string{"x-amz-bucket-region", "ap-south-1"}, `the bucket is in ap-south-1, not where it was asked for \(eu-central-1\): set s3.region, or AWS_REGION$`},
		{301, "PermanentRedirect", "must be addressed", nil, `the bucket is in another region, not where it was asked for \(eu-central-1\)`},
		{400, "AuthorizationHeaderMalformed", "the region 'eu-central-1' is wrong; expecting 'us-west-2'", nil, `the bucket is in us-west-2, not where`},
		{400, "IllegalLocationConstraintException", "x", []string{"x-amz-bucket-region", "us-west-2"}, `the bucket is in us-west-2, not where`},
		{403, "InvalidObjectState", "The operation is not valid for the object's storage class", nil, `moved to an archive: restore it`},
		{400, "EntityTooLarge", "Your proposed upload exceeds the maximum", nil, `larger than http://.* takes \(it says: Your proposed`},
		{507, "XMinioStorageFull", "full", nil, `is full: free space, or raise the quota$`},
		{400, "InvalidArgument", "line one\nline two\t\x01" + strings.Repeat("x", 1000), nil, `refuses it with 400 InvalidArgument \(it says: line one line two x+…\), request REQ1$`},
		{405, "MethodNotAllowed", "no", nil, `refuses it with 405 MethodNotAllowed`},
	} {
		for _, o := range operations {
			if o.name == "head" && (c.status == 404 || c.status == 405 || c.status == 507) {
				continue // its status alone can't be told from another
			}
			isolate(t)
			s := open(t, "t", s3.Options{
				Endpoint: "http://storage.example:9000", Region: "eu-central-1", PathStyle: true, AccessKeyID: accessKey, SecretAccessKey: secretKey, Attempts: 2, FirstWait: time.Millisecond,
				Transport: func(http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						connected(r)
						answer := errorAnswer(c.status, c.code, strings.ReplaceAll(c.message, "\x01", ""), c.header...)
						if r.Method == http.MethodHead {
							answer = errorAnswer(c.status, "", "", c.header...)
						}
						return answer, nil
					})
				},
			})
			_, err := o.do(t.Context(), s)
			if err == nil || !regexp.MustCompile(c.says).MatchString(err.Error()) {
				t.Errorf("%s, %s: %v\nwant %s", o.name, c.code, err, c.says)
				continue
			}
			if strings.ContainsAny(err.Error(), "\n\t") || !strings.Contains(err.Error(), " in s3://lake/t: ") {
				t.Errorf("%s, %s: %q is no line that names the place", o.name, c.code, err)
			}
			if strings.Contains(err.Error(), secretKey) {
				t.Errorf("%s, %s: the secret is in %v", o.name, c.code, err)
			}
			for _, sentinel := range []error{objstore.ErrExist, objstore.ErrUnknownOutcome, objstore.ErrTemporary} {
				if c.code == "ExpiredToken" && sentinel == objstore.ErrTemporary {
					continue // there will be new ones
				}
				if errors.Is(err, sentinel) {
					t.Errorf("%s, %s: %v is %v", o.name, c.code, err, sentinel)
				}
			}
			// Who is not allowed to see whether it is there is told that, and not that it is not.
			if errors.Is(err, objstore.ErrNotExist) {
				t.Errorf("%s, %s: %v says that there is no object", o.name, c.code, err)
			}
		}
	}
}

// Each action that a policy may deny is named where it is needed.
func TestDeniedActions(t *testing.T) {
	s, plain, f, _ := rigged(t)
	for _, o := range operations {
		o.prepare(t, plain)
		f.reset(always(answers(403, "AccessDenied")))
		_, err := o.do(t.Context(), s)
		want := map[string]string{
			"get": "allow s3:GetObject and s3:ListBucket", "range": "allow s3:GetObject and s3:ListBucket", "head": "allow s3:GetObject and s3:ListBucket",
			"list": "allow s3:ListBucket on", "put": "allow s3:PutObject on", "put if absent": "allow s3:PutObject on", "delete": "allow s3:DeleteObject on",
		}[o.name]
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", o.name, err, want)
		}
	}
}

// What answers is no S3 at all.
func TestNotAStorage(t *testing.T) {
	isolate(t)
	for name, handler := range map[string]http.HandlerFunc{
		"a page":     func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html><body>Welcome</body></html>") },
		"404":        func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"404, blank": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
	} {
		server := httptest.NewServer(handler)
		s := open(t, "t", s3.Options{Endpoint: server.URL, PathStyle: true, AccessKeyID: accessKey, SecretAccessKey: secretKey, Attempts: 2, FirstWait: time.Millisecond})
		var err error
		for _, err = range s.List(t.Context(), "", "") {
		}
		_, getErr := s.Get(t.Context(), "k")
		if name == "a page" {
			getErr = s.Probe(t.Context()) // it reads as an object
		}
		for _, err := range []error{err, getErr} {
			if err == nil || !strings.Contains(err.Error(), "what answers at "+server.URL+" is no S3 storage") {
				t.Errorf("%s: %v", name, err)
			}
		}
		server.Close()
	}
}

func TestUnreachable(t *testing.T) {
	isolate(t)
	dial := func(err error) fate {
		return func(*http.Request, func() (*http.Response, error)) (*http.Response, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		endpoint  string
		pathStyle bool
		what      fate
		says      string
		temporary bool
	}{
		"bucket in the host": {"http://localhost:9000", false, dial(&net.DNSError{Err: "no such host", Name: "lake.localhost", IsNotFound: true}), "the host lake.localhost is not known: set s3.path_style", true},
		"host":               {"http://nowhere.example", true, dial(&net.DNSError{Err: "no such host", Name: "nowhere.example", IsNotFound: true}), "the host nowhere.example can't be looked up: check s3.endpoint, s3.region and the network", true},
		"no way":             {"http://10.0.0.1:9", true, dial(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}), "http://10.0.0.1:9 can't be reached: check s3.endpoint and the network", true},
		"TLS":                {"https://host", true, dial(http.ErrSchemeMismatch), "https://host speaks no TLS: write http:// in s3.endpoint", false},
	} {
		f := &faults{script: always(c.what)}
		s := open(t, "t", s3.Options{Endpoint: c.endpoint, PathStyle: c.pathStyle, AccessKeyID: accessKey, SecretAccessKey: secretKey, Attempts: 2, FirstWait: time.Millisecond, Transport: f.wrap})
		_, err := s.Get(t.Context(), "k")
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, objstore.ErrTemporary) != c.temporary {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
		if n := len(f.seen()); n != map[bool]int{true: 2, false: 1}[c.temporary] {
			t.Errorf("%s: %d attempts", name, n)
		}
	}
}

func TestCertificates(t *testing.T) {
	server := newFake(t)
	secure := httptest.NewUnstartedServer(server.Config.Handler)
	secure.Config.ErrorLog = discardLog()
	secure.StartTLS()
	defer secure.Close()
	o := server.options()
	o.Endpoint = secure.URL
	_, err := open(t, "t", o).Get(t.Context(), "k")
	if err == nil || !strings.Contains(err.Error(), "is not to be trusted: have s3.ca_file, or AWS_CA_BUNDLE, name the PEM file of its authority") || errors.Is(err, objstore.ErrTemporary) {
		t.Errorf("error %v", err)
	}
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(bundle, text, 0o644); err != nil {
		t.Fatal(err)
	}
	o.CAFile = bundle
	if _, err := open(t, "t", o).Get(t.Context(), "k"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("with s3.ca_file: %v", err)
	}
	for file, says := range map[string]string{
		"fault_test.go": "s3.ca_file: fault_test.go has no certificate: give the PEM file of the authority", "nowhere.pem": "s3.ca_file: open nowhere.pem: no such file",
	} {
		other := o
		other.CAFile = file
		if _, err := s3.NewClient(t.Context(), other); !errors.Is(err, s3.ErrOptions) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", file, err)
		}
	}
	o.CAFile = ""
	t.Setenv("AWS_CA_BUNDLE", bundle)
	// Over TLS bodies go in chunks with a checksum behind them, which gofakes3 does
	// not take apart.
	t.Setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
	s := open(t, "t", o)
	if err := s.PutIfAbsent(t.Context(), "k", []byte("x")); err != nil {
		t.Error(err)
	}
	if data, err := s.Get(t.Context(), "k"); err != nil || string(data) != "x" {
		t.Errorf("got %q, %v", data, err)
	}
	o.Endpoint = strings.Replace(secure.URL, "127.0.0.1", "localhost", 1)
	if _, err := open(t, "t", o).Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "is for another name: check s3.endpoint") {
		t.Errorf("another name: %v", err)
	}
	o.Endpoint = strings.Replace(secure.URL, "https:", "http:", 1)
	if _, err := open(t, "t", o).Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "speaks TLS: write https:// in s3.endpoint") || errors.Is(err, objstore.ErrTemporary) {
		t.Errorf("TLS: %v", err)
	}
	o.Endpoint = strings.Replace(server.URL, "http:", "https:", 1)
	if _, err := open(t, "t", o).Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "speaks no TLS: write http:// in s3.endpoint") {
		t.Errorf("no TLS: %v", err)
	}
}

// A peer that vanished: connections that are accepted, and from which nothing comes.
func TestHalfOpen(t *testing.T) {
	server := newFake(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for n := 1; ; n++ {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			if n <= 2 { // a dead one
				defer c.Close()
				continue
			}
			go func() {
				defer c.Close()
				to, err := net.Dial("tcp", server.Listener.Addr().String())
				if err != nil {
					return
				}
				defer to.Close()
				go io.Copy(to, c)
				io.Copy(c, to)
			}()
		}
	}()
	o := server.options()
	o.Endpoint, o.Timeout = "http://"+listener.Addr().String(), 100*time.Millisecond
	s := open(t, "t", o)
	began := time.Now()
	if err := s.Put(t.Context(), "k", large(3<<20)); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 200*time.Millisecond || took > 5*time.Second {
		t.Errorf("it took %s, want two timeouts and a little", took)
	}
	if got, err := s.Get(t.Context(), "k"); err != nil || len(got) != 3<<20 {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

// A body that comes slowly, but comes, is waited for.
func TestSlowIsNotHalfOpen(t *testing.T) {
	isolate(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "8")
		for i := range 8 {
			fmt.Fprint(w, i)
			w.(http.Flusher).Flush()
			time.Sleep(40 * time.Millisecond)
		}
	}))
	defer server.Close()
	s := open(t, "t", s3.Options{Endpoint: server.URL, PathStyle: true, AccessKeyID: accessKey, SecretAccessKey: secretKey, Timeout: 150 * time.Millisecond, Attempts: 1})
	if data, err := s.Get(t.Context(), "k"); err != nil || string(data) != "01234567" {
		t.Errorf("got %q, %v", data, err)
	}
}

// A storage that leaves ranges out of account.
func TestRangesThatAreIgnored(t *testing.T) {
	server := newFake(t)
	server.before = func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		return false
	}
	s := open(t, "t", server.options())
	if err := s.Put(t.Context(), "k", []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, 3, "012"}, {4, 3, "456"}, {7, 100, "789"}, {10, 5, ""}, {50, 5, ""}} {
		if got, err := s.GetRange(t.Context(), "k", c.offset, c.length); err != nil || string(got) != c.want {
			t.Errorf("range %d+%d = %q, %v; want %q", c.offset, c.length, got, err, c.want)
		}
	}
}

// A storage that does not list in order would have commits overlooked.
func TestListingsOutOfOrder(t *testing.T) {
	isolate(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<ListBucketResult><IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>
			<Contents><Key>t/a%2Bb%20c+d</Key><Size>1</Size></Contents><Contents><Key>t/a</Key><Size>1</Size></Contents></ListBucketResult>`)
	}))
	defer server.Close()
	s := open(t, "t", s3.Options{Endpoint: server.URL, PathStyle: true, AccessKeyID: accessKey, SecretAccessKey: secretKey})
	var keys []string
	var last error
	for o, err := range s.List(t.Context(), "", "") {
		if last = err; err == nil {
			keys = append(keys, o.Key)
		}
	}
	if len(keys) != 1 || keys[0] != "a+b c d" { // names are encoded as in a form
		t.Errorf("listed %q", keys)
	}
	if last == nil || !strings.Contains(last.Error(), "use a storage that lists in the order of bytes") {
		t.Errorf("error %v", last)
	}
}
