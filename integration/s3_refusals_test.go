//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

// What a user gets wrong about a bucket is said once, in one line, by each command
// that comes upon it: what is wrong, and what to do.
func TestS3Refusals(t *testing.T) {
	stream := recordedStreams(t)[2]
	iam := t.TempDir()
	g := startGateway(t, "--keep-alive", "--iam-dir", iam)
	g.environment(t)
	const address = "s3://" + gatewayBucket + "/stock"
	ingest := func(address string) []string {
		args := []string{
			"ingest", "--location", address, "--topic", "s3.shop.stock", "--timezone", "UTC", "--key", strings.Join(stream.key, ","),
			"--now", "2026-01-01T00:00:00Z", "--log-level", "warn",
		}
		for _, path := range stream.paths(t) {
			args = append(args, "--input", path)
		}
		return args
	}
	gscd(t, ingest(address)...)

	commands := map[string]func(address string) []string{
		"query":  func(address string) []string { return []string{"query", "--table", address, "--limit", "1"} },
		"SQL":    func(address string) []string { return []string{"query", "--table", address, "SELECT count(*) FROM t"} },
		"status": func(address string) []string { return []string{"status", "--table", address} },
		"ingest": ingest,
	}
	refused := func(t *testing.T, args, environment []string, code int, says ...string) {
		t.Helper()
		c := program(t, args...)
		c.Env = append(os.Environ(), environment...)
		out := &tail{}
		c.Stdout, c.Stderr = out, out
		_ = c.Run() // it is the code that counts
		text := out.String()
		t.Logf("%s: exit %d\n%s", args[0], c.ProcessState.ExitCode(), text)
		equal(t, strings.Join(args[:1], " ")+": exit", c.ProcessState.ExitCode(), code)
		for _, s := range says {
			if !strings.Contains(text, s) {
				t.Errorf("%s does not say %q:\n%s", args[0], s, text)
			}
		}
		if n := strings.Count(text, says[0]); n != 1 {
			t.Errorf("%s says it %d times:\n%s", args[0], n, text)
		}
		if strings.Contains(text, gatewaySecret) {
			t.Errorf("%s prints the secret:\n%s", args[0], text)
		}
	}

	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><html><head><title>Console</title></head><body>Log in</body></html>")
	}))
	t.Cleanup(page.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(other, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, address string
		environment   []string
		code          int
		says          string
	}{
		{"bucket", "s3://nowhere/stock", nil, 1, g.url + " has no bucket nowhere: create it, or mend the address of the table"},
		{"region", address, []string{"GSCD_S3_REGION=us-west-2"}, 1, "the bucket is in eu-central-1, not where it was asked for (us-west-2): set s3.region, or AWS_REGION"},
		{"access key", address, []string{"GSCD_S3_ACCESS_KEY_ID=AKIDOTHER"}, 1, "does not know the access key: check s3.access_key_id"},
		{"secret", address, []string{"GSCD_S3_SECRET_ACCESS_KEY_FILE=" + other}, 1, "the secret key is not that of the access key: check s3.secret_access_key"},
		{"no credentials", address, []string{
			"GSCD_S3_ACCESS_KEY_ID=", "GSCD_S3_SECRET_ACCESS_KEY_FILE=", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=",
			"AWS_EC2_METADATA_DISABLED=true", "AWS_SHARED_CREDENTIALS_FILE=/nonexistent", "AWS_CONFIG_FILE=/nonexistent",
		}, 1, "there are no credentials: set s3.access_key_id and s3.secret_access_key"},
		{"a web page", address, []string{"GSCD_S3_ENDPOINT=" + page.URL}, 1, "what answers at " + page.URL + " is no S3 storage: check s3.endpoint"},
		{"https to http", address, []string{"GSCD_S3_ENDPOINT=https" + strings.TrimPrefix(g.url, "http")}, 1, "speaks no TLS: write http:// in s3.endpoint"},
		{"http to https", address, []string{"GSCD_S3_ENDPOINT=http" + strings.TrimPrefix(secure.URL, "https")}, 1, "speaks TLS: write https:// in s3.endpoint"},
		{"authority", address, []string{"GSCD_S3_ENDPOINT=" + secure.URL}, 1, "the certificate of " + secure.URL + " is not to be trusted: have s3.ca_file"},
		{"no authority", address, []string{"GSCD_S3_ENDPOINT=" + secure.URL, "GSCD_S3_CA_FILE=" + ca}, 1, "s3.ca_file: " + ca + " has no certificate"},
		{"no file of it", address, []string{"GSCD_S3_ENDPOINT=" + secure.URL, "GSCD_S3_CA_FILE=/nonexistent/ca.pem"}, 1, "s3.ca_file: open /nonexistent/ca.pem: no such file"},
	} {
		for command, args := range commands {
			t.Run(c.name+", "+command, func(t *testing.T) { refused(t, args(c.address), c.environment, c.code, c.says) })
		}
	}

	// A policy of the bucket that denies one call, to a user of the gateway's.
	user, secret := "AKIDANALYST", "a-secret-of-an-analyst"
	admin := exec.Command(filepath.Join(component(t, "versitygw"), "versitygw"), "admin", "--access", gatewayKey, "--secret", gatewaySecret,
		"--region", gatewayRegion, "--endpoint-url", g.url, "create-user", "--access", user, "--secret", secret, "--role", "user")
	if out, err := admin.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	asUser := []string{"GSCD_S3_ACCESS_KEY_ID=" + user, "GSCD_S3_SECRET_ACCESS_KEY_FILE=" + file}
	allow := func(t *testing.T, denied string) {
		t.Helper()
		type statement struct {
			Effect    string
			Principal map[string]string
			Action    []string
			Resource  []string
		}
		who := map[string]string{"AWS": user}
		statements := []statement{
			{"Allow", who, []string{"s3:ListBucket"}, []string{"arn:aws:s3:::" + gatewayBucket}},
			{"Allow", who, []string{"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}, []string{"arn:aws:s3:::" + gatewayBucket + "/*"}},
		}
		switch denied {
		case "":
		case "s3:ListBucket":
			statements = append(statements, statement{"Deny", who, []string{denied}, []string{"arn:aws:s3:::" + gatewayBucket}})
		default:
			statements = append(statements, statement{"Deny", who, []string{denied}, []string{"arn:aws:s3:::" + gatewayBucket + "/*"}})
		}
		raw, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": statements})
		if err != nil {
			t.Fatal(err)
		}
		client := awss3.New(awss3.Options{
			BaseEndpoint: &g.url, Region: gatewayRegion, UsePathStyle: true,
			Credentials: credentials.NewStaticCredentialsProvider(gatewayKey, gatewaySecret, ""),
		})
		if _, err := client.PutBucketPolicy(t.Context(), &awss3.PutBucketPolicyInput{Bucket: aws.String(gatewayBucket), Policy: aws.String(string(raw))}); err != nil {
			t.Fatal(err)
		}
	}
	vacuum := func(address string) []string {
		return []string{"vacuum", "--table", address, "--retain", "0s", "--grace", "0s"}
	}
	t.Run("nothing denied", func(t *testing.T) {
		allow(t, "")
		for _, args := range [][]string{commands["query"](address), commands["SQL"](address), ingest(address)} {
			gscdIn(t, asUser, args...)
		}
	})
	for _, c := range []struct {
		action  string
		command func(address string) []string
		address string
	}{
		{"s3:ListBucket", commands["query"], address},
		{"s3:ListBucket", commands["SQL"], address},
		{"s3:ListBucket", commands["status"], address},
		{"s3:ListBucket", ingest, address},
		{"s3:GetObject", commands["query"], address},
		{"s3:GetObject", commands["SQL"], address},
		{"s3:GetObject", commands["status"], address},
		{"s3:PutObject", ingest, "s3://" + gatewayBucket + "/stock2"},
		{"s3:DeleteObject", vacuum, address},
	} {
		t.Run(c.action+" denied, "+c.command(address)[0], func(t *testing.T) {
			allow(t, c.action)
			if c.action == "s3:DeleteObject" { // something has to be there that can go
				gscd(t, "rollback", "--table", address, "--to", recordedDays[0], "--yes")
			}
			refused(t, c.command(c.address), asUser, 1, "the credentials may not do this: allow "+c.action, " in s3://"+gatewayBucket+"/")
		})
	}
}
