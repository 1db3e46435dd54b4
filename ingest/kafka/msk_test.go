package kafka

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const mskSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

// signature signs a presigned URL as AWS documents it (Signature Version 4), by nothing
// but hashes.
func signature(u *url.URL, region, secret string) string {
	q := u.Query()
	q.Del("X-Amz-Signature")
	q.Del("User-Agent")
	var pairs []string
	for _, k := range slices.Sorted(func(yield func(string) bool) {
		for k := range q {
			if !yield(k) {
				return
			}
		}
	}) {
		pairs = append(pairs, url.QueryEscape(k)+"="+strings.ReplaceAll(url.QueryEscape(q.Get(k)), "+", "%20"))
	}
	sum := func(text string) string { s := sha256.Sum256([]byte(text)); return hex.EncodeToString(s[:]) }
	canonical := "GET\n/\n" + strings.Join(pairs, "&") + "\nhost:" + u.Host + "\n\nhost\n" + sum("")
	day := q.Get("X-Amz-Date")[:8]
	scope := day + "/" + region + "/kafka-cluster/aws4_request"
	mac := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	key := mac(mac(mac(mac([]byte("AWS4"+secret), day), region), "kafka-cluster"), "aws4_request")
	return hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+q.Get("X-Amz-Date")+"\n"+scope+"\n"+sum(canonical)))
}

// isolateAWS leaves nothing of the machine's AWS environment.
func isolateAWS(t *testing.T) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	for k, v := range map[string]string{
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_ROLE_ARN": "",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "",
	} {
		t.Setenv(k, v)
	}
}

// mskToken logs in and gives the signed URL that is sent.
func mskToken(t *testing.T, s SASL) *url.URL {
	t.Helper()
	m, err := s.mechanism()
	if err != nil || m.Name() != "OAUTHBEARER" {
		t.Fatal(m, err)
	}
	_, first, err := m.Authenticate(t.Context(), "b-1.msk:9098")
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(string(first), "n,,\x01auth=Bearer ")
	if text, ok = strings.CutSuffix(text, "\x01\x01"); !ok {
		t.Fatalf("sent %q", first)
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestMSK: the token is a URL that is signed with the credentials of the environment at
// that time, for this region and action.
func TestMSK(t *testing.T) {
	isolateAWS(t)
	login := SASL{Mechanism: "aws-msk-iam", Region: "eu-west-1"}
	m, err := login.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Authenticate(t.Context(), "h:1"); !errors.Is(err, ErrCredentials) {
		t.Errorf("without credentials: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAMSK")
	t.Setenv("AWS_SECRET_ACCESS_KEY", mskSecret)
	t.Setenv("AWS_SESSION_TOKEN", "a token/+=")
	u := mskToken(t, login)
	q := u.Query()
	if u.Host != "kafka.eu-west-1.amazonaws.com" || q.Get("Action") != "kafka-cluster:Connect" || q.Get("X-Amz-Expires") != "900" || q.Get("X-Amz-Security-Token") != "a token/+=" {
		t.Errorf("signed %s", u)
	}
	if c := q.Get("X-Amz-Credential"); !strings.HasPrefix(c, "AKIAMSK/") || !strings.HasSuffix(c, "/eu-west-1/kafka-cluster/aws4_request") {
		t.Errorf("in the name of %s", c)
	}
	if at, err := time.Parse("20060102T150405Z", q.Get("X-Amz-Date")); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("signed at %s", q.Get("X-Amz-Date"))
	}
	if want := signature(u, "eu-west-1", mskSecret); q.Get("X-Amz-Signature") != want {
		t.Errorf("signature %s, want %s", q.Get("X-Amz-Signature"), want)
	}
	if strings.Contains(u.String(), mskSecret) {
		t.Error("the secret is in the token")
	}
}

// TestMSKRole: a role is taken once, and its keys sign.
func TestMSKRole(t *testing.T) {
	isolateAWS(t)
	asked := 0
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		r.ParseForm()
		if r.Form.Get("Action") != "AssumeRole" || r.Form.Get("RoleArn") != "arn:aws:iam::1:role/reader" || r.Form.Get("ExternalId") != "x7" {
			t.Errorf("asked with %v", r.Form)
		}
		fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>ASIAMSK</AccessKeyId>
			<SecretAccessKey>of-the-role</SecretAccessKey><SessionToken>s</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer sts.Close()
	t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAMSK")
	t.Setenv("AWS_SECRET_ACCESS_KEY", mskSecret)
	login := SASL{Mechanism: "aws-msk-iam", Region: "eu-west-1", RoleARN: "arn:aws:iam::1:role/reader", ExternalID: "x7"}
	m, err := login.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := m.Authenticate(t.Context(), "h:1"); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 {
		t.Errorf("the role was asked for %d times", asked)
	}
	u := mskToken(t, login)
	if want := signature(u, "eu-west-1", "of-the-role"); u.Query().Get("X-Amz-Signature") != want || !strings.HasPrefix(u.Query().Get("X-Amz-Credential"), "ASIAMSK/") {
		t.Errorf("signed %s, want %s", u, want)
	}
}

func TestMSKOptions(t *testing.T) {
	for want, s := range map[string]SASL{
		"region must be set":       {Mechanism: "aws-msk-iam"},
		"has no username":          {Mechanism: "aws-msk-iam", Region: "r", Username: "u"},
		"oauthbearer or aws-msk-i": {Mechanism: "kerberos"},
	} {
		if err := (Options{Brokers: []string{"h:1"}, Topics: []string{"t"}, SASL: &s}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", s, err, want)
		}
	}
}
