package gcs_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
	"github.com/gscd-io/gscd/delta/objstore/gcs"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

func unavailable(w http.ResponseWriter, _ *http.Request) bool {
	refuse(w, http.StatusServiceUnavailable, "backendError", "Backend Error")
	return true
}

// A put whose answer was lost is ours, and a conflict only where it is another's.
func TestLostAnswerOfAPut(t *testing.T) {
	f := newFake(t)
	s := f.open(t, "t")
	f.Set(storetest.Once("POST", 1, f.Lost))
	if err := s.PutIfAbsent(t.Context(), "log/0.json", []byte("ours")); err != nil {
		t.Fatalf("a lost answer: %v", err)
	}
	f.Set(storetest.Once("POST", 1, func(w http.ResponseWriter, r *http.Request) bool {
		refuse(w, 503, "backendError", "the answer of a proxy that had passed it on")
		f.serve(httptest.NewRecorder(), r)
		return true
	}))
	if err := s.PutIfAbsent(t.Context(), "log/1.json", []byte("ours")); err != nil {
		t.Fatalf("a 503 after the effect: %v", err)
	}
	for key, other := range map[string]string{"log/2.json": "theirs", "log/3.json": "ours"} {
		f.Set(nil)
		if err := f.open(t, "t").Put(t.Context(), key, []byte(other)); err != nil {
			t.Fatal(err)
		}
		f.Set(storetest.Once("POST", 1, storetest.Broken))
		// The same bytes of another writer are told apart by the token.
		if err := s.PutIfAbsent(t.Context(), key, []byte("ours")); !errors.Is(err, objstore.ErrExist) {
			t.Errorf("%s: %v, want one that is %v", key, err, objstore.ErrExist)
		}
	}
	f.Set(nil)
	for key, want := range map[string]string{"log/0.json": "ours", "log/1.json": "ours", "log/2.json": "theirs"} {
		if got, err := s.Get(t.Context(), key); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", key, got, err, want)
		}
	}
}

// A put that can't be looked up has an unknown outcome, and says so.
func TestUnknownOutcome(t *testing.T) {
	f := newFake(t)
	o := f.options()
	o.Attempts = 2
	s, err := gcs.Open(t.Context(), bucket, "t", o)
	if err != nil {
		t.Fatal(err)
	}
	f.Set(storetest.Broken)
	err = s.PutIfAbsent(t.Context(), "k", []byte("x"))
	if !errors.Is(err, objstore.ErrUnknownOutcome) || !errors.Is(err, objstore.ErrTemporary) {
		t.Errorf("error %v", err)
	}
	if err := s.Delete(t.Context(), "k"); !errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Errorf("delete: %v", err)
	}
}

func TestRetries(t *testing.T) {
	f := newFake(t)
	var told atomic.Int64
	o := f.options()
	o.Retried = func(r attempt.Retry) {
		told.Add(1)
		if r.Store != "gs://lake/t" || r.Key != "k" || r.Wait <= 0 || r.Err == nil {
			t.Errorf("told of %+v", r)
		}
	}
	s, err := gcs.Open(t.Context(), bucket, "t", o)
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []func(http.ResponseWriter, *http.Request) bool{
		unavailable,
		func(w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, http.StatusTooManyRequests, "rateLimitExceeded", "slow down")
			return true
		},
		func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusBadGateway)
			return true
		},
		func(w http.ResponseWriter, r *http.Request) bool { // it breaks off
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "x")
			return true
		},
	} {
		f.Set(nil)
		if err := s.Put(t.Context(), "k", []byte("value")); err != nil {
			t.Fatal(err)
		}
		before := told.Load()
		f.Set(storetest.Once("GET", 1, answer))
		if got, err := s.Get(t.Context(), "k"); err != nil || string(got) != "value" {
			t.Errorf("get = %q, %v", got, err)
		}
		if n := told.Load() - before; n != 1 {
			t.Errorf("told of %d retries, want 1", n)
		}
	}
}

// Content that is damaged on its way is asked for again.
func TestChecksum(t *testing.T) {
	f := newFake(t)
	s := f.open(t, "t")
	if err := s.Put(t.Context(), "k", []byte("value")); err != nil {
		t.Fatal(err)
	}
	f.objects["t/k"].data = []byte("vblue")
	if got, err := s.Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "another checksum") || !errors.Is(err, objstore.ErrTemporary) {
		t.Errorf("get = %q, %v", got, err)
	}
	if f.Requests.Load() != 7 {
		t.Errorf("%d requests, want the put and six gets", f.Requests.Load())
	}
}

// Nothing holds a caller up for longer than the timeout, and the caller's own
// end comes first.
func TestStalled(t *testing.T) {
	f := newFake(t)
	o := f.options()
	o.Timeout, o.Attempts = 30*time.Millisecond, 2
	s, err := gcs.Open(t.Context(), bucket, "t", o)
	if err != nil {
		t.Fatal(err)
	}
	f.Set(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, objstore.ErrTemporary) || !strings.Contains(err.Error(), "answered nothing for 30ms") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, objstore.ErrTemporary) {
		t.Errorf("error %v", err)
	}
}

// Each fault is one sentence that says what to do.
func TestSentences(t *testing.T) {
	f := newFake(t)
	answer := func(status int, reason, message string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, status, reason, message)
			return true
		}
	}
	for name, c := range map[string]struct {
		bucket string
		before func(http.ResponseWriter, *http.Request) bool
		says   string
	}{
		"no bucket": {"nowhere", nil, "has no bucket nowhere: create it, or mend the address"},
		"denied":    {bucket, answer(403, "forbidden", "me@x does not have storage.objects.get access"), "grant storage.objects.get on the bucket lake, for example by the role Storage Object User (it says: me@x does not have"},
		"login":     {bucket, answer(401, "authError", "Invalid Credentials"), "does not take the credentials: check gcs.credentials_file"},
		"billing":   {bucket, answer(403, "accountDisabled", ""), "billing account"},
		"web page": {bucket, func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(404)
			io.WriteString(w, "<html>nothing here</html>")
			return true
		}, "is no Google Cloud Storage: check gcs.endpoint"},
		"redirect": {bucket, func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/login", http.StatusFound)
			return true
		}, "is no Google Cloud Storage: check gcs.endpoint"},
		"down": {bucket, unavailable, "answers 503 backendError, 2 times: look after the storage, or try again later"},
	} {
		f.Set(c.before)
		o := f.options()
		o.Attempts = 2
		s, err := gcs.Open(t.Context(), c.bucket, "t", o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Get(t.Context(), "k")
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one that says %s", name, err, c.says)
		}
		if errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("%s: is taken for the want of an object", name)
		}
	}
	f.Set(func(w http.ResponseWriter, _ *http.Request) bool {
		io.WriteString(w, "{}")
		return true
	})
	for _, err := range f.open(t, "t").List(t.Context(), "", "") {
		if err == nil || !strings.Contains(err.Error(), "is no Google Cloud Storage") {
			t.Errorf("list: %v", err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	newFake(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s, err := gcs.Open(t.Context(), bucket, "t", gcs.Options{Endpoint: "http://" + l.Addr().String(), Anonymous: true, Options: attempt.Options{FirstWait: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	err = s.PutIfAbsent(t.Context(), "k", nil)
	if !errors.Is(err, objstore.ErrTemporary) || errors.Is(err, objstore.ErrUnknownOutcome) || !strings.Contains(err.Error(), "refuses connections: check that the storage runs, and gcs.endpoint") {
		t.Errorf("error %v", err)
	}
}

// A key file is read, its token asked for where it says, and sent along.
func TestCredentialsFile(t *testing.T) {
	f := newFake(t)
	var tokens atomic.Int64
	var deny atomic.Bool
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if deny.Load() || r.FormValue("assertion") == "" {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":"invalid_grant","error_description":"Invalid grant: account not found"}`)
			return
		}
		io.WriteString(w, `{"access_token":"hush-hush","token_type":"Bearer","expires_in":3600}`)
	}))
	t.Cleanup(issuer.Close)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	content, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "gscd@lake.iam.gserviceaccount.com", "private_key_id": "1",
		"private_key": key, "token_uri": issuer.URL, "project_id": "lake",
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *gcs.Store {
		s, err := gcs.Open(t.Context(), bucket, "t", gcs.Options{Endpoint: f.URL, CredentialsFile: file, Options: attempt.Options{FirstWait: time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	f.Set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer hush-hush" {
			return false
		}
		refuse(w, 401, "authError", "Invalid Credentials")
		return true
	})
	s := open()
	for range 2 {
		if err := s.Put(t.Context(), "k", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if tokens.Load() != 1 {
		t.Errorf("%d tokens were asked for", tokens.Load())
	}
	deny.Store(true)
	before := f.Requests.Load()
	_, err = open().Get(t.Context(), "k")
	if err == nil || !strings.Contains(err.Error(), "check gcs.credentials_file") || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "PRIVATE") {
		t.Errorf("an account that is gone: %v", err)
	}
	if f.Requests.Load() != before {
		t.Error("the storage was asked without a token")
	}
}
