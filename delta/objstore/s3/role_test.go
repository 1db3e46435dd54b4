package s3_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/s3"
)

const roleARN = "arn:aws:iam::123456789012:role/lake-writer"

// fakeSTS gives keys ASIA1, ASIA2, … that last for a time, and remembers what it was asked.
type fakeSTS struct {
	t    *testing.T
	life time.Duration

	mu     sync.Mutex
	asked  []url.Values
	signed []string // Authorization of each
	down   bool
}

func (f *fakeSTS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := r.ParseForm(); err != nil {
		f.t.Error(err)
	}
	if f.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	f.asked, f.signed = append(f.asked, r.Form), append(f.signed, r.Header.Get("Authorization"))
	action := r.Form.Get("Action")
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials>
		<AccessKeyId>ASIA%[2]d</AccessKeyId><SecretAccessKey>%[3]s</SecretAccessKey><SessionToken>session-%[2]d</SessionToken><Expiration>%[4]s</Expiration>
		</Credentials></%[1]sResult></%[1]sResponse>`, action, len(f.asked), secretKey, time.Now().Add(f.life).UTC().Format("2006-01-02T15:04:05.000Z"))
}

func (f *fakeSTS) given() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

func (f *fakeSTS) stop(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// serve starts the fake, or one behind TLS.
func (f *fakeSTS) serve(t *testing.T, tls bool) *httptest.Server {
	t.Helper()
	f.t = t
	server := httptest.NewUnstartedServer(f)
	server.Config.ErrorLog = discardLog()
	if tls {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// signatures records by whose key and with which session each request to the storage is signed.
func signatures(o *s3.Options) func() []string {
	var mu sync.Mutex
	var seen []string
	o.Transport = func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			connected(r)
			_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
			key, _, _ := strings.Cut(credential, "/")
			mu.Lock()
			seen = append(seen, key+" "+r.Header.Get("X-Amz-Security-Token"))
			mu.Unlock()
			return errorAnswer(404, "NoSuchKey", "none"), nil
		})
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

func getsNothing(t *testing.T, s *s3.Store) {
	t.Helper()
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, objstore.ErrNotExist) {
		t.Fatalf("get: %v", err)
	}
}

// A role is taken with the configured keys; requests are signed with the newest ones of
// the role, which are had anew before they end.
func TestRole(t *testing.T) {
	isolate(t)
	roles := &fakeSTS{life: 2 * time.Second}
	o := s3.Options{
		Region: "eu-central-1", AccessKeyID: accessKey, SecretAccessKey: secretKey,
		Role: s3.Role{ARN: roleARN, ExternalID: "shop 7", SessionName: "gscd-test", Duration: 30 * time.Minute, Endpoint: roles.serve(t, false).URL},
	}
	seen := signatures(&o)
	s, err := s3.Open(t.Context(), bucket, "t", o)
	if err != nil {
		t.Fatal(err)
	}
	getsNothing(t, s)
	getsNothing(t, s)
	if got := seen(); len(got) != 2 || got[0] != "ASIA1 session-1" || got[1] != got[0] || roles.given() != 1 {
		t.Fatalf("signed with %q, %d sets of keys were asked for", got, roles.given())
	}
	form := roles.asked[0]
	for k, want := range map[string]string{"Action": "AssumeRole", "RoleArn": roleARN, "ExternalId": "shop 7", "RoleSessionName": "gscd-test", "DurationSeconds": "1800"} {
		if form.Get(k) != want {
			t.Errorf("%s is %q, want %q", k, form.Get(k), want)
		}
	}
	if auth := roles.signed[0]; !strings.Contains(auth, "Credential="+accessKey+"/") || !strings.Contains(auth, "/eu-central-1/sts/") {
		t.Errorf("asked in the name of %s", auth)
	}
	// Keys of two seconds are renewed after one.
	time.Sleep(1100 * time.Millisecond)
	getsNothing(t, s)
	if got := seen(); got[2] != "ASIA2 session-2" {
		t.Errorf("later signed with %q", got[2])
	}
	// STS is down when they are to be renewed again: the old ones are good to their end.
	roles.stop(true)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	time.Sleep(1100 * time.Millisecond)
	getsNothing(t, s)
	if got := seen(); got[3] != "ASIA2 session-2" {
		t.Errorf("with STS down signed with %q", got[3])
	}
	if text := fmt.Sprintf("%v %+v %#v", o, o, o); strings.Contains(text, secretKey) {
		t.Errorf("options print their secret: %s", text)
	}
}

// With a token file no other keys are needed, and the file is read at each renewal. STS
// is trusted by the same ca_file.
func TestRoleByWebIdentity(t *testing.T) {
	isolate(t)
	roles := &fakeSTS{life: time.Second}
	server := roles.serve(t, true)
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.pem")
	write := func(path string, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token, []byte("identity-1"))
	write(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	o := s3.Options{Region: "eu-central-1", CAFile: ca, Role: s3.Role{ARN: roleARN, WebIdentityTokenFile: token, Endpoint: server.URL}}
	seen := signatures(&o)
	s, err := s3.Open(t.Context(), bucket, "t", o)
	if err != nil {
		t.Fatal(err)
	}
	getsNothing(t, s)
	write(token, []byte("identity-2"))
	time.Sleep(600 * time.Millisecond)
	getsNothing(t, s)
	if got := seen(); strings.Join(got, ", ") != "ASIA1 session-1, ASIA2 session-2" {
		t.Errorf("signed with %q", got)
	}
	for i, want := range []string{"identity-1", "identity-2"} {
		if form := roles.asked[i]; form.Get("Action") != "AssumeRoleWithWebIdentity" || form.Get("WebIdentityToken") != want || form.Get("RoleSessionName") != "gscd" {
			t.Errorf("asked with %v, want the token %s", form, want)
		}
		if roles.signed[i] != "" {
			t.Errorf("a request that needs no signature has %s", roles.signed[i])
		}
	}
}

// Each request that begins an object asks for its encryption; parts and reads ask for none.
func TestEncryption(t *testing.T) {
	isolate(t)
	for _, c := range []struct {
		e    s3.Encryption
		want string
	}{
		{s3.Encryption{}, "  "},
		{s3.Encryption{Type: "AES256"}, "AES256  "},
		{s3.Encryption{Type: "aws:kms", KeyID: "arn:aws:kms:eu-central-1:1:key/k", BucketKey: true}, "aws:kms arn:aws:kms:eu-central-1:1:key/k true"},
		{s3.Encryption{Type: "aws:kms:dsse", KeyID: "alias/lake"}, "aws:kms:dsse alias/lake "},
	} {
		backend := s3mem.New()
		if err := backend.CreateBucket(bucket); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		headers := map[string]string{}
		fake := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			what := r.Method
			switch {
			case q.Has("uploads"):
				what = "begin"
			case q.Has("uploadId"):
				what += " of upload"
			case r.Header.Get("X-Amz-Copy-Source") != "":
				what = "copy"
			case r.Header.Get("If-None-Match") != "":
				what = "put if absent"
			}
			mu.Lock()
			headers[what] = r.Header.Get("X-Amz-Server-Side-Encryption") + " " + r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") + " " + r.Header.Get("X-Amz-Server-Side-Encryption-Bucket-Key-Enabled")
			mu.Unlock()
			fake.ServeHTTP(w, r)
		}))
		s, err := s3.Open(t.Context(), bucket, "t", s3.Options{
			Endpoint: server.URL, PathStyle: true, AccessKeyID: accessKey, SecretAccessKey: secretKey, PartSize: 5 << 20, Encryption: c.e,
		})
		if err != nil {
			t.Fatal(err)
		}
		large := bytes.Repeat([]byte("x"), 6<<20)
		for what, err := range map[string]error{
			"put": s.Put(t.Context(), "put", []byte("a")), "put if absent": s.PutIfAbsent(t.Context(), "absent", []byte("b")),
			"large": s.Put(t.Context(), "large", large), "class": s.SetClass(t.Context(), "put", "STANDARD_IA"),
			"stream": stream(t, s, large),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := s.Get(t.Context(), "put"); err != nil {
			t.Error(err)
		}
		server.Close()
		for _, what := range []string{"PUT", "put if absent", "begin", "copy"} {
			if headers[what] != c.want {
				t.Errorf("%+v: %s asks for %q, want %q", c.e, what, headers[what], c.want)
			}
		}
		for _, what := range []string{"PUT of upload", "POST of upload", "GET"} {
			if got, there := headers[what]; !there || got != "  " {
				t.Errorf("%+v: %s asks for %q", c.e, what, got)
			}
		}
	}
}

// stream writes an object that is longer than is known.
func stream(t *testing.T, s *s3.Store, data []byte) error {
	w, err := s.Create(t.Context(), "streamed")
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, bytes.NewReader(data)); err != nil {
		return err
	}
	return w.Commit()
}

// Settings that can't be right are refused before anything is asked.
func TestRoleAndEncryptionOptions(t *testing.T) {
	isolate(t)
	for want, o := range map[string]s3.Options{
		"s3.role has no arn":            {Role: s3.Role{ExternalID: "x"}},
		"is no ARN":                     {Role: s3.Role{ARN: "lake"}},
		"15m to 12h":                    {Role: s3.Role{ARN: roleARN, Duration: time.Minute}},
		"does not go with":              {Role: s3.Role{ARN: roleARN, ExternalID: "x", WebIdentityTokenFile: "f"}},
		"type \"kms\" is unknown":       {Encryption: s3.Encryption{Type: "kms"}},
		"key_id belongs to":             {Encryption: s3.Encryption{Type: "AES256", KeyID: "k"}},
		"bucket_key belongs to":         {Encryption: s3.Encryption{Type: "aws:kms:dsse", BucketKey: true}},
		"choose among Amazon's":         {Endpoint: "http://minio:9000", FIPS: true},
		"the endpoint has a login":      {Role: s3.Role{ARN: roleARN, Endpoint: "http://a:b@sts"}},
		"s3.ca_file: open /none/ca.pem": {CAFile: "/none/ca.pem"},
	} {
		o.Region = "eu-central-1"
		if _, err := s3.Open(t.Context(), bucket, "t", o); !errors.Is(err, s3.ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	for want, o := range map[string]s3.Options{
		"https://lake.s3-fips.us-east-1.amazonaws.com/t/k":           {FIPS: true},
		"https://lake.s3.dualstack.us-east-1.amazonaws.com/t/k":      {DualStack: true},
		"https://lake.s3-fips.dualstack.us-east-1.amazonaws.com/t/k": {FIPS: true, DualStack: true},
	} {
		o.Region, o.AccessKeyID, o.SecretAccessKey = "us-east-1", accessKey, secretKey
		r := asked(t, bucket, o)
		if r.URL.RawQuery = ""; r.URL.String() != want {
			t.Errorf("asked %s, want %s", r.URL, want)
		}
	}
}
