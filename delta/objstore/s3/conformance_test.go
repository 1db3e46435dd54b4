package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

func TestMain(m *testing.M) {
	// The connections of clients that are gone wait for their idle time to pass.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// The keys of all tests: what must be in no error.
const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"
)

// isolate keeps what the machine has set for AWS away.
func isolate(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_STS", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
		"AWS_CA_BUNDLE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// fake is an S3 in memory with the bucket "lake".
type fake struct {
	*httptest.Server
	backend *s3mem.Backend
	// requests counts the requests that arrived.
	requests atomic.Int64
	// before sees each of them first; true: it has answered.
	before func(w http.ResponseWriter, r *http.Request) bool
}

const bucket = "lake"

func newFake(t *testing.T) *fake {
	t.Helper()
	isolate(t)
	f := &fake{backend: s3mem.New()}
	if err := f.backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	inside := f.inside()
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		if f.before != nil && f.before(w, r) {
			return
		}
		inside.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// inside answers what nobody has answered before.
func (f *fake) inside() http.Handler {
	return gofakes3.New(f.backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
}

func (f *fake) options() s3.Options {
	return s3.Options{
		Endpoint: f.URL, PathStyle: true, AccessKeyID: accessKey, SecretAccessKey: secretKey,
		FirstWait: time.Millisecond, PartSize: 5 << 20,
	}
}

func open(t *testing.T, prefix string, o s3.Options) *s3.Store {
	t.Helper()
	s, err := s3.Open(t.Context(), bucket, prefix, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	f := newFake(t)
	n := 0
	storetest.Run(t, func(t *testing.T) objstore.Store {
		n++
		return open(t, fmt.Sprintf("/tables/t%d/", n), f.options())
	})
}

// The root of a bucket is a store as well.
func TestConformanceOfAWholeBucket(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objstore.Store { return open(t, "", newFake(t).options()) })
}

func TestName(t *testing.T) {
	isolate(t)
	for prefix, want := range map[string]string{"": "s3://lake", "/": "s3://lake", "t": "s3://lake/t", "/dim/t/": "s3://lake/dim/t"} {
		s := open(t, prefix, s3.Options{Endpoint: "http://localhost:9000"})
		if s.String() != want {
			t.Errorf("prefix %q: %s, want %s", prefix, s, want)
		}
	}
}

func TestRefusedSettings(t *testing.T) {
	isolate(t)
	region := s3.Options{Region: "eu-central-1"}
	for name, c := range map[string]struct {
		bucket, prefix string
		o              s3.Options
		says           string
	}{
		"no bucket":           {"", "t", region, "s3://BUCKET/PATH"},
		"login in the bucket": {"key:" + secretKey + "@lake", "t", region, "login"},
		"directory bucket":    {"lake--usw2-az1--x-s3", "t", region, "general purpose"},
		"no name":             {"la:ke", "t", region, "no name of a bucket"},
		"dots in the prefix":  {bucket, "a/../b", region, `".."`},
		"empty part":          {bucket, "a//b", region, "empty part"},
		"no region":           {bucket, "t", s3.Options{}, "s3.region or AWS_REGION"},
		"half a key":          {bucket, "t", s3.Options{Region: "x", AccessKeyID: "a"}, "go together"},
		"token alone":         {bucket, "t", s3.Options{Region: "x", SessionToken: "a"}, "belongs to"},
		"no URL":              {bucket, "t", s3.Options{Endpoint: "localhost:9000"}, "http://HOST:PORT"},
		"login in the URL":    {bucket, "t", s3.Options{Endpoint: "http://me:" + secretKey + "@host:9000"}, "login"},
		"tiny parts":          {bucket, "t", s3.Options{Region: "x", PartSize: 1 << 20}, "5 MiB"},
	} {
		_, err := s3.Open(t.Context(), c.bucket, c.prefix, c.o)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one that says %s", name, err, c.says)
		}
		noSecrets(t, name, err)
	}
}

// The address of a login must not come back from the environment either.
func TestRefusedEnvironment(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://me:"+secretKey+"@host:9000")
	_, err := s3.Open(t.Context(), bucket, "t", s3.Options{})
	if err == nil || !strings.Contains(err.Error(), "login") {
		t.Errorf("error %v", err)
	}
	noSecrets(t, "endpoint", err)
}

func TestOptionsPrintNoSecrets(t *testing.T) {
	o := s3.Options{Endpoint: "http://host", AccessKeyID: accessKey, SecretAccessKey: secretKey, SessionToken: secretKey}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, o); strings.Contains(text, secretKey) || !strings.Contains(text, "http://host") {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

// What is in the folder and is none of ours does not disturb a listing.
func TestListLeavesOutWhatIsNoKey(t *testing.T) {
	f := newFake(t)
	s := open(t, "t", f.options())
	if err := s.PutIfAbsent(t.Context(), "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t/", "t/a/", "t/a//c", "t2/other", "t"} {
		if _, err := f.backend.PutObject(bucket, name, nil, strings.NewReader(""), 0, nil); err != nil {
			t.Fatal(err)
		}
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
	// The probe is there, and no key.
	if _, err := f.backend.HeadObject(bucket, "t/.gscd-conditional-put"); err != nil {
		t.Errorf("no probe: %v", err)
	}
	if _, err := s.Get(t.Context(), ".gscd-conditional-put"); err == nil {
		t.Error("the probe can be read")
	}
}

// Listings of more than a page.
func TestListPages(t *testing.T) {
	f := newFake(t)
	s := open(t, "t", f.options())
	for i := range 2100 {
		name := fmt.Sprintf("t/d/%05d", i)
		if _, err := f.backend.PutObject(bucket, name, nil, strings.NewReader("x"), 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		after string
		first string
		count int
	}{{"", "d/00000", 2100}, {"d/00049", "d/00050", 2050}, {"d/02098", "d/02099", 1}} {
		n, first := 0, ""
		for o, err := range s.List(t.Context(), "d/", c.after) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 1 {
				first = o.Key
			}
		}
		if n != c.count || first != c.first {
			t.Errorf("after %q: %d from %s, want %d from %s", c.after, n, first, c.count, c.first)
		}
	}
	// A caller that has enough costs no further page.
	before := f.requests.Load()
	for range s.List(t.Context(), "d/", "") {
		break
	}
	if n := f.requests.Load() - before; n != 1 {
		t.Errorf("%d requests for one object", n)
	}
}
