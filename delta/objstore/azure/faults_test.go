package azure_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
	"github.com/gscd-io/gscd/delta/objstore/azure"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

func refusing(status int, code, message string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, status, code, message)
		return true
	}
}

// A put whose answer was lost is ours, and a conflict only where it is another's.
func TestLostAnswerOfAPut(t *testing.T) {
	f := newFake(t)
	s := f.open(t, "t")
	f.Set(storetest.Once("PUT", 1, f.Lost))
	if err := s.PutIfAbsent(t.Context(), "log/0.json", []byte("ours")); err != nil {
		t.Fatalf("a lost answer: %v", err)
	}
	for key, other := range map[string]string{"log/2.json": "theirs", "log/3.json": "ours"} {
		f.Set(nil)
		if err := f.open(t, "t").Put(t.Context(), key, []byte(other)); err != nil {
			t.Fatal(err)
		}
		f.Set(storetest.Once("PUT", 1, storetest.Broken))
		// The same bytes of another writer are told apart by the token.
		if err := s.PutIfAbsent(t.Context(), key, []byte("ours")); !errors.Is(err, objstore.ErrExist) {
			t.Errorf("%s: %v, want one that is %v", key, err, objstore.ErrExist)
		}
	}
	f.Set(storetest.Broken)
	if err := s.PutIfAbsent(t.Context(), "k", nil); !errors.Is(err, objstore.ErrUnknownOutcome) || !errors.Is(err, objstore.ErrTemporary) {
		t.Errorf("nothing is answered: %v", err)
	}
	f.Set(nil)
	for key, want := range map[string]string{"log/0.json": "ours", "log/2.json": "theirs"} {
		if got, err := s.Get(t.Context(), key); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", key, got, err, want)
		}
	}
}

// The SDK makes no request again; attempt does, and what lasts ends.
func TestRetries(t *testing.T) {
	f := newFake(t)
	s := f.open(t, "t")
	if err := s.Put(t.Context(), "k", []byte("value")); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []func(http.ResponseWriter, *http.Request) bool{
		refusing(503, "ServerBusy", "The server is busy."), refusing(500, "InternalError", ""), refusing(429, "", ""),
		func(w http.ResponseWriter, _ *http.Request) bool { // it breaks off
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "x")
			return true
		},
		func(w http.ResponseWriter, _ *http.Request) bool { // it is damaged
			w.Header().Set("Content-Md5", "AAAAAAAAAAAAAAAAAAAAAA==")
			io.WriteString(w, "vblue")
			return true
		},
	} {
		f.Set(storetest.Once("GET", 1, answer))
		before := f.Requests.Load()
		if got, err := s.Get(t.Context(), "k"); err != nil || string(got) != "value" || f.Requests.Load()-before != 2 {
			t.Errorf("get = %q, %v after %d requests", got, err, f.Requests.Load()-before)
		}
	}
	f.Set(refusing(503, "ServerBusy", "The server is busy."))
	before := f.Requests.Load()
	_, err := s.Get(t.Context(), "k")
	if !errors.Is(err, objstore.ErrTemporary) || f.Requests.Load()-before != 6 || !strings.Contains(err.Error(), "503 ServerBusy, 6 times") {
		t.Errorf("%v after %d requests", err, f.Requests.Load()-before)
	}
}

func TestStalled(t *testing.T) {
	f := newFake(t)
	o := f.options()
	o.Timeout, o.Attempts = 30*time.Millisecond, 2
	s, err := azure.Open(lake, "t", o)
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
}

// Each fault is one sentence that says what to do.
func TestSentences(t *testing.T) {
	f := newFake(t)
	for name, c := range map[string]struct {
		container string
		before    func(http.ResponseWriter, *http.Request) bool
		says      string
	}{
		"no container": {"nowhere", nil, "has no container nowhere: create it, or mend the address"},
		"denied":       {lake, refusing(403, "AuthorizationPermissionMismatch", "This request is not authorized."), "allow it to read in the container lake, by the role Storage Blob Data Contributor"},
		"login":        {lake, refusing(403, "AuthenticationFailed", "Server failed to authenticate the request."), "check azure.account_key or azure.sas_token (it may have expired)"},
		"archive":      {lake, refusing(409, "BlobArchived", ""), "rehydrate it"},
		"old service":  {lake, refusing(400, "InvalidHeaderValue", "The value for one of the HTTP headers is not in the correct format."), "does not know this version of the protocol"},
		"web page": {lake, func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(404)
			io.WriteString(w, "<html>nothing here</html>")
			return true
		}, "is no Azure Blob Storage: check azure.endpoint"},
		"other": {lake, refusing(418, "Teapot", "I am one."), "refuses it with 418 Teapot (it says: I am one.), request r-1"},
	} {
		f.Set(c.before)
		s, err := azure.Open(c.container, "t", f.options())
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Get(t.Context(), "k")
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("%s: %v, want one that says %s", name, err, c.says)
		}
	}
	f.Set(func(w http.ResponseWriter, _ *http.Request) bool {
		io.WriteString(w, "<html><p>hello</p></html>")
		return true
	})
	for _, err := range f.open(t, "t").List(t.Context(), "", "") {
		if err == nil || !strings.Contains(err.Error(), "no Azure Blob Storage") {
			t.Errorf("list: %v", err)
		}
	}
}

// A signature is part of each URL, and of no message.
func TestSignatureIsNotShown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s, err := azure.Open(lake, "t", azure.Options{Account: account, Endpoint: "http://" + l.Addr().String(), SASToken: "?sv=1&sig=hush", Options: attempt.Options{FirstWait: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, err = s.Get(ctx, "k")
	if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "refuses connections: check that the storage runs, and azure.endpoint") {
		t.Errorf("error %v", err)
	}
	if strings.Contains(s.String(), "hush") {
		t.Errorf("the name is %s", s)
	}
}
