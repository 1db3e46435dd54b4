package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta/objstore/azure"
	"github.com/gscd-io/gscd/delta/objstore/dynamodb"
	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/ingest/registry"
	"github.com/gscd-io/gscd/ingest/transform"
	"github.com/gscd-io/gscd/server"
)

// TestSecretsAreNotPrinted: no way of printing a configuration, or the options that are made
// of one, shows a secret: a dump in a log or a panic has none.
func TestSecretsAreNotPrinted(t *testing.T) {
	const text = `
kafka: {brokers: ["k:9092"], sasl: {mechanism: plain, username: u, password: hush-kafka-1}}
schema_registry: {url: "https://r", username: u, password: hush-registry-2}
s3: {access_key_id: AKIA, secret_access_key: hush-s3-3, session_token: hush-session-4}
azure: {account: a, account_key: aHVzaC1henVyZS01}
mysql: {password: hush-mysql-6}
transform: {hash_secret: hush-transform-7-of-sixteen}
http: {address: "127.0.0.1:9090", token: hush-http-8-of-sixteen}
tracing: {endpoint: "http://c:4318", headers_file: /h}
notify: [{name: w, on: [seal], webhook: {url: "https://w/x", secret_file: /s}}]
calendar: {timezone: UTC}
tables: [{location: ./t, topics: [t], mask: {c: {method: hmac}}}]
`
	cfg, err := config.Load(config.Input{Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := rulesOf(&cfg.Tables[0], cfg.Transform.HashSecret)
	if err != nil {
		t.Fatal(err)
	}
	o := source.Options{Password: cfg.MySQL.Password.Reveal()}
	database, err := source.Open("mysql://u@h:3306", o)
	if err != nil {
		t.Fatal(err)
	}
	hush := []string{"hush-", "aHVzaC", hex.EncodeToString([]byte("hush-")), base64.RawStdEncoding.EncodeToString([]byte("hush-"))[:6], strings.Trim(fmt.Sprint([]byte("hush-")), "[]")}
	check := func(what, printed string) {
		t.Helper()
		for _, h := range hush {
			if strings.Contains(strings.ToLower(printed), strings.ToLower(h)) {
				t.Errorf("%s prints a secret: %s", what, printed)
			}
		}
	}
	values := map[string]any{
		"config": cfg, "config value": *cfg, "kafka": cfg.Kafka, "SASL": *cfg.Kafka.SASL, "s3": cfg.S3, "azure": cfg.Azure, "mysql": cfg.MySQL, "transform": cfg.Transform, "registry": cfg.SchemaRegistry,
		"http": cfg.HTTP, "notify": cfg.Notify, "tracing": *cfg.Tracing,
	}
	for what, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%T"} {
			check(what+" "+verb, fmt.Sprintf(verb, v))
		}
		if data, err := json.Marshal(v); err == nil {
			check(what+" as JSON", string(data))
		}
		if data, err := yaml.Marshal(v); err == nil {
			check(what+" as YAML", string(data))
		}
	}
	secret := func(s config.Secret) string { return s.Reveal() }
	for what, v := range map[string]any{
		"kafka.SASL": kafka.SASL{Mechanism: "plain", Username: "u", Password: secret(cfg.Kafka.SASL.Password)}, "source.Options": o, "source.Server": database,
		"registry.Options": registry.Options{URLs: []string{"https://r"}, Password: secret(cfg.SchemaRegistry.Password), Token: "hush-token"},
		"s3.Options":       s3.Options{SecretAccessKey: secret(cfg.S3.SecretAccessKey), SessionToken: secret(cfg.S3.SessionToken)},
		"dynamodb.Options": dynamodb.Options{SecretAccessKey: secret(cfg.S3.SecretAccessKey), SessionToken: secret(cfg.S3.SessionToken)},
		"server.Options":   server.Options{HTTP: cfg.HTTP.Address, Token: secret(cfg.HTTP.Token)},
		"azure.Options":    azure.Options{AccountKey: secret(cfg.Azure.AccountKey)},
		"transform.Rules":  rules, "transform.Settings": transform.Settings{Secret: []byte(secret(cfg.Transform.HashSecret))},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			check(what+" "+verb, fmt.Sprintf(verb, v))
		}
	}
	var shown bytes.Buffer
	if err := cfg.Show(&shown); err != nil {
		t.Fatal(err)
	}
	check("config show", shown.String())
	// What is printed is there to be found.
	if printed := fmt.Sprintf("%+v", struct{ P string }{secret(cfg.MySQL.Password)}); !strings.Contains(printed, hush[0]) {
		t.Error(printed)
	}
	// A fault of the file tells its place, not what stands there.
	for _, bad := range []string{
		"kafka:\n  sasl:\n    password: \"hush-1\n", "kafka:\n  sasl:\n    password: hush-2: x\n", "kafka:\n  sasl:\n    password: [hush-3]\n", "kafka:\n  sasl: {password: hush-4\n",
		"kafka:\n  sasl:\n    password: *hush-5\n", "kafka:\n  sasl:\n    password: {hush-6: x}\n", "kafka:\n  sasl:\n\tpassword: hush-7\n", "kafka:\n  sasl: hush-8\n", "mysql: {password: hush-9, tls: yes}\n",
		"s3: {secret_access_key: hush-10, endpoint: \"https://u:hush-11@h\"}\n", "tables: [{location: \"s3://k:hush-12@b/t\"}]\n",
	} {
		_, err := config.Load(config.Input{Data: []byte(bad)})
		if err == nil {
			t.Errorf("%q is taken", bad)
			continue
		}
		check("the fault of "+bad, err.Error())
	}
}
