package s3_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/s3"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// asked gives the first request of a Get, which is answered with "no such key".
func asked(t *testing.T, bucket string, o s3.Options) *http.Request {
	t.Helper()
	var first *http.Request
	o.Transport = func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			connected(r)
			if first == nil {
				first = r
			}
			return errorAnswer(404, "NoSuchKey", "none"), nil
		})
	}
	s, err := s3.Open(t.Context(), bucket, "t", o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, objstore.ErrNotExist) {
		t.Fatalf("get: %v", err)
	}
	return first
}

// Where requests go, and in whose name.
func TestAddressing(t *testing.T) {
	for name, c := range map[string]struct {
		bucket      string
		o           s3.Options
		environment map[string]string
		url, scope  string
	}{
		"Amazon":            {bucket, s3.Options{Region: "eu-central-1"}, nil, "https://lake.s3.eu-central-1.amazonaws.com/t/k", "/eu-central-1/s3/"},
		"Amazon, by path":   {bucket, s3.Options{Region: "eu-central-1", PathStyle: true}, nil, "https://s3.eu-central-1.amazonaws.com/lake/t/k", "/eu-central-1/s3/"},
		"dots in the name":  {"my.lake", s3.Options{Region: "eu-central-1"}, nil, "https://s3.eu-central-1.amazonaws.com/my.lake/t/k", "/eu-central-1/s3/"},
		"China":             {bucket, s3.Options{Region: "cn-north-1"}, nil, "https://lake.s3.cn-north-1.amazonaws.com.cn/t/k", "/cn-north-1/s3/"},
		"region of the env": {bucket, s3.Options{}, map[string]string{"AWS_REGION": "us-west-2"}, "https://lake.s3.us-west-2.amazonaws.com/t/k", "/us-west-2/s3/"},
		"own before env":    {bucket, s3.Options{Region: "eu-west-1"}, map[string]string{"AWS_REGION": "us-west-2"}, "https://lake.s3.eu-west-1.amazonaws.com/t/k", "/eu-west-1/s3/"},
		"endpoint":          {bucket, s3.Options{Endpoint: "http://minio:9000", PathStyle: true}, nil, "http://minio:9000/lake/t/k", "/us-east-1/s3/"},
		"endpoint, by host": {bucket, s3.Options{Endpoint: "https://s3.example.com", Region: "nl-1"}, nil, "https://lake.s3.example.com/t/k", "/nl-1/s3/"},
		"endpoint of env":   {bucket, s3.Options{PathStyle: true}, map[string]string{"AWS_ENDPOINT_URL_S3": "http://env:9000"}, "http://env:9000/lake/t/k", "/us-east-1/s3/"},
	} {
		isolate(t)
		t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
		t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
		for k, v := range c.environment {
			t.Setenv(k, v)
		}
		r := asked(t, c.bucket, c.o)
		r.URL.RawQuery = ""
		if r.URL.String() != c.url {
			t.Errorf("%s: asked %s, want %s", name, r.URL, c.url)
		}
		if auth := r.Header.Get("Authorization"); !strings.Contains(auth, "Credential="+accessKey+"/") || !strings.Contains(auth, c.scope) {
			t.Errorf("%s: in the name of %s, want %s", name, auth, c.scope)
		}
	}
}

func TestSessionToken(t *testing.T) {
	isolate(t)
	o := s3.Options{Region: "eu-central-1", AccessKeyID: accessKey, SecretAccessKey: secretKey, SessionToken: "token of the options"}
	if got := asked(t, bucket, o).Header.Get("X-Amz-Security-Token"); got != "token of the options" {
		t.Errorf("token %q", got)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	t.Setenv("AWS_SESSION_TOKEN", "token of the environment")
	if got := asked(t, bucket, s3.Options{Region: "eu-central-1"}).Header.Get("X-Amz-Security-Token"); got != "token of the environment" {
		t.Errorf("token %q", got)
	}
	// Keys of the options have nothing to do with a token of the environment.
	o.SessionToken = ""
	if got := asked(t, bucket, o).Header.Get("X-Amz-Security-Token"); got != "" {
		t.Errorf("token %q", got)
	}
}

func TestProfile(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("AWS_CONFIG_FILE", write("config", "[profile lake]\nregion = ap-south-1\n"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", write("credentials", "[lake]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = "+secretKey+"\n"))
	t.Setenv("AWS_PROFILE", "lake")
	if auth := asked(t, bucket, s3.Options{}).Header.Get("Authorization"); !strings.Contains(auth, "AKIDPROFILE/") || !strings.Contains(auth, "/ap-south-1/") {
		t.Errorf("in the name of %s", auth)
	}
	t.Setenv("AWS_PROFILE", "sea")
	_, err := s3.Open(t.Context(), bucket, "t", s3.Options{})
	if err == nil || !strings.Contains(err.Error(), "AWS_PROFILE") || !strings.Contains(err.Error(), "sea") {
		t.Errorf("an unknown profile: %v", err)
	}
	noSecrets(t, "profile", err)
}

// sts answers requests for the keys of a role.
func sts(t *testing.T, answer func(form url.Values) (int, string)) (tokenFile string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		status, text := answer(r.Form)
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(status)
		io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	tokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("identity-1-"+secretKey), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", tokenFile)
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/gscd")
	t.Setenv("AWS_REGION", "eu-central-1")
	return tokenFile
}

// A pod with a web identity token gets the keys of its role.
func TestWebIdentity(t *testing.T) {
	isolate(t)
	asks := 0
	sts(t, func(form url.Values) (int, string) {
		asks++
		if form.Get("Action") != "AssumeRoleWithWebIdentity" || form.Get("WebIdentityToken") != "identity-1-"+secretKey || form.Get("RoleArn") != "arn:aws:iam::123456789012:role/gscd" {
			t.Errorf("asked with %v", form)
		}
		return 200, fmt.Sprintf(`<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
			<AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>of the role</SessionToken><Expiration>%s</Expiration>
			</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, secretKey, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	})
	r := asked(t, bucket, s3.Options{})
	if !strings.Contains(r.Header.Get("Authorization"), "Credential=ASIAROLE/") || r.Header.Get("X-Amz-Security-Token") != "of the role" {
		t.Errorf("asked with %v", r.Header)
	}
	if asks != 1 {
		t.Errorf("STS was asked %d times", asks)
	}
}

// Keys that are refused are read anew from where they came from: who rotates them has
// written others there.
func TestRotatedKeys(t *testing.T) {
	for name, c := range map[string]struct {
		code   string
		status int
		// rotate puts other keys into the place of the first; nil: there are none.
		rotate bool
		file   bool // they are in a file of the AWS environment, else in the options
		// temporary tells that the error may pass.
		temporary bool
	}{
		"options":         {"InvalidAccessKeyId", 403, true, false, false},
		"file":            {"InvalidAccessKeyId", 403, true, true, false},
		"expired":         {"ExpiredToken", 400, true, true, false},
		"another secret":  {"SignatureDoesNotMatch", 403, true, false, false},
		"none, unknown":   {"InvalidAccessKeyId", 403, false, true, false},
		"none, expired":   {"ExpiredToken", 400, false, false, true},
		"none in the end": {"InvalidToken", 400, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t)
			credentials := filepath.Join(t.TempDir(), "credentials")
			write := func(id string) {
				text := "[default]\naws_access_key_id = " + id + "\naws_secret_access_key = " + secretKey + "\n"
				if err := os.WriteFile(credentials, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			asked, renewed := 0, 0
			o := s3.Options{Region: "eu-central-1", Attempts: 3, FirstWait: time.Millisecond}
			o.Transport = func(http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					connected(r)
					asked++
					if strings.Contains(r.Header.Get("Authorization"), "Credential=AKIDOLD/") {
						return errorAnswer(c.status, c.code, "refused"), nil
					}
					return errorAnswer(404, "NoSuchKey", "none"), nil
				})
			}
			if c.file {
				write("AKIDOLD")
				t.Setenv("AWS_SHARED_CREDENTIALS_FILE", credentials)
			} else {
				o.AccessKeyID, o.SecretAccessKey = "AKIDOLD", secretKey
				o.Renew = func() (string, string, string, error) {
					renewed++
					if c.rotate {
						return "AKIDNEW", secretKey, "", nil
					}
					return "AKIDOLD", secretKey, "", nil
				}
			}
			s, err := s3.Open(t.Context(), bucket, "t", o)
			if err != nil {
				t.Fatal(err)
			}
			if c.file && c.rotate {
				write("AKIDNEW")
			}
			_, err = s.Get(t.Context(), "k")
			noSecrets(t, name, err)
			switch {
			case c.rotate && (!errors.Is(err, objstore.ErrNotExist) || asked != 2):
				t.Errorf("asked %d times: %v", asked, err)
			case !c.rotate && (asked != 1 || errors.Is(err, objstore.ErrTemporary) != c.temporary):
				t.Errorf("asked %d times: %v", asked, err)
			}
			// They are not read again at every refusal.
			for range 20 {
				_, _ = s.Get(t.Context(), "k")
			}
			if renewed > 2 {
				t.Errorf("the keys were read %d times", renewed)
			}
		})
	}
}

// What is wrong with credentials is said, too.
func TestCredentialsThatCannotBeHad(t *testing.T) {
	get := func(t *testing.T) error {
		t.Helper()
		s, err := s3.Open(t.Context(), bucket, "t", s3.Options{Region: "eu-central-1", Attempts: 2, FirstWait: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		// A write, so that it shows that it was not made.
		err = s.Put(t.Context(), "k", nil)
		noSecrets(t, "credentials", err)
		if errors.Is(err, objstore.ErrUnknownOutcome) {
			t.Errorf("nothing was sent, and %v", err)
		}
		return err
	}
	failing := func(status int, code string) func(url.Values) (int, string) {
		return func(url.Values) (int, string) {
			return status, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>` + code + `</Code><Message>as the test wants</Message></Error></ErrorResponse>`
		}
	}
	for name, c := range map[string]struct {
		set       func(t *testing.T)
		says      string
		temporary bool
	}{
		"none": {func(*testing.T) {}, "there are no credentials: set s3.access_key_id and s3.secret_access_key, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a role", false},
		"expired identity": {func(t *testing.T) { sts(t, failing(400, "ExpiredTokenException")) },
			"the web identity token has expired: have it written anew (AWS_WEB_IDENTITY_TOKEN_FILE)", false},
		"denied identity": {func(t *testing.T) { sts(t, failing(403, "AccessDenied")) }, "the credentials can't be had: mend what gives them:", false},
		"no token file": {func(t *testing.T) {
			if err := os.Remove(sts(t, failing(500, "InternalFailure"))); err != nil {
				t.Fatal(err)
			}
		}, "no such file", false},
		"STS is down": {func(t *testing.T) {
			sts(t, failing(503, "ServiceUnavailable"))
			t.Setenv("AWS_MAX_ATTEMPTS", "1")
		}, "the credentials can't be had", true},
		"credentials of a program": {func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(config, []byte("[default]\ncredential_process = false "+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("AWS_CONFIG_FILE", config)
		}, "the credentials can't be had: mend what gives them:", false},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t)
			c.set(t)
			err := get(t)
			if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, objstore.ErrTemporary) != c.temporary {
				t.Errorf("error %v, want one that says %s", err, c.says)
			}
		})
	}
}
