package gcs_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/gcs"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

func TestMain(m *testing.M) {
	// The connections of clients that are gone wait for their idle time to pass.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func TestConformance(t *testing.T) {
	f := newFake(t)
	n := 0
	storetest.Run(t, func(t *testing.T) objstore.Store {
		n++
		return f.open(t, fmt.Sprintf("/tables/t%d/", n))
	})
}

// The root of a bucket is a store as well, and pages end anywhere.
func TestConformanceOfAWholeBucket(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objstore.Store {
		f := newFake(t)
		f.page = 3
		return f.open(t, "")
	})
}

func TestName(t *testing.T) {
	f := newFake(t)
	for prefix, want := range map[string]string{"": "gs://lake", "/": "gs://lake", "t": "gs://lake/t", "/dim/t/": "gs://lake/dim/t"} {
		if s := f.open(t, prefix); s.String() != want {
			t.Errorf("prefix %q: %s, want %s", prefix, s, want)
		}
	}
}

// What is in the folder and is none of ours does not disturb a listing.
func TestListLeavesOutWhatIsNoKey(t *testing.T) {
	f := newFake(t)
	whole, s := f.open(t, ""), f.open(t, "t")
	for _, name := range []string{"t/a/b", "t2/other", "t"} {
		if err := whole.Put(t.Context(), name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"t/", "t/a/", "t/a//c"} {
		f.objects[name] = &object{Name: name, Size: "0", Updated: f.objects["t"].Updated}
	}
	var got []string
	for o, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.Key)
	}
	if strings.Join(got, " ") != "a/b" {
		t.Errorf("listed %q", got)
	}
}

// A caller that has enough costs no further page.
func TestListIsLazy(t *testing.T) {
	f := newFake(t)
	f.page = 2
	s := f.open(t, "t")
	for i := range 5 {
		if err := s.Put(t.Context(), fmt.Sprintf("k%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	before := f.Requests.Load()
	for range s.List(t.Context(), "", "k0") {
		break
	}
	if n := f.Requests.Load() - before; n != 1 {
		t.Errorf("%d requests for one object", n)
	}
}

func TestRefusedSettings(t *testing.T) {
	f := newFake(t)
	for name, c := range map[string]struct {
		bucket, prefix string
		o              gcs.Options
		says           string
	}{
		"no bucket":        {"", "t", f.options(), "gs://BUCKET/PATH"},
		"login":            {"me:hush@lake", "t", f.options(), "gs://BUCKET/PATH"},
		"dots":             {bucket, "a/../b", f.options(), `".."`},
		"no URL":           {bucket, "t", gcs.Options{Endpoint: "localhost:4443"}, "http://HOST:PORT"},
		"login in the URL": {bucket, "t", gcs.Options{Endpoint: "http://me:hush@host"}, "has a login in it"},
		"both":             {bucket, "t", gcs.Options{Anonymous: true, CredentialsFile: "/x"}, "exclude each other"},
		"no file":          {bucket, "t", gcs.Options{CredentialsFile: "/no/such/file"}, "gcs.credentials_file"},
		"no credentials":   {bucket, "t", gcs.Options{CredentialsFile: "conformance_test.go"}, "has no credentials of Google in it"},
	} {
		_, err := gcs.Open(t.Context(), c.bucket, c.prefix, c.o)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one that says %s", name, err, c.says)
		}
		if err != nil && name == "login in the URL" && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: prints a secret: %v", name, err)
		}
	}
}
