//go:build integration

package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// writeCertificates writes an authority (ca.pem), and for broker and client a
// certificate (and an expired one) (NAME.pem), its key (NAME.key) and all three together (NAME.chain.pem).
func writeCertificates(t testing.TB, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, blocks ...*pem.Block) {
		t.Helper()
		var text []byte
		for _, b := range blocks {
			text = append(text, pem.EncodeToMemory(b)...)
		}
		must(os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	end := time.Now().Add(24 * time.Hour)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	must(err)
	authority := &pem.Block{Type: "CERTIFICATE", Bytes: der}
	write("ca.pem", authority)
	for i, name := range []string{"broker", "client", "expired"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name}, NotAfter: end,
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		if name == "expired" { // of the broker, or of a client: the day before yesterday's
			c.Subject.CommonName = "broker"
			c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
		}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), caKey)
		must(err)
		certificate := &pem.Block{Type: "CERTIFICATE", Bytes: der}
		der, err = x509.MarshalPKCS8PrivateKey(key)
		must(err)
		private := &pem.Block{Type: "PRIVATE KEY", Bytes: der}
		write(name+".pem", certificate)
		write(name+".key", private)
		write(name+".chain.pem", private, certificate, authority)
	}
}

// Who may read, and what who may not is told: by a broker that says why.
func testConnections(t *testing.T, b *broker) {
	s := newShop(t, b, 1)
	s.send(s.change(day(0).Add(time.Hour), 30, true))
	trusting := &kafka.TLS{CAFile: b.file("ca.pem")}
	known := &kafka.TLS{CAFile: b.file("ca.pem"), CertFile: b.file("client.pem"), KeyFile: b.file("client.key")}
	user := func(mechanism, password string) *kafka.SASL {
		return &kafka.SASL{Mechanism: mechanism, Username: brokerUser, Password: password}
	}
	for _, c := range []struct {
		name, address string
		tls           *kafka.TLS
		sasl          *kafka.SASL
		fault         string // what the error says, "" for none
		retry         bool
	}{
		{"plain", b.secure, trusting, user("plain", brokerPassword), "", false},
		{"SCRAM 256", b.secure, trusting, user("scram-sha-256", brokerPassword), "", false},
		{"SCRAM 512", b.secure, trusting, user("scram-sha-512", brokerPassword), "", false},
		{"client certificate", b.mutual, known, nil, "", false},
		{"wrong password", b.secure, trusting, user("plain", "wrong"), "SASL_AUTHENTICATION_FAILED", false},
		{"wrong password, SCRAM", b.secure, trusting, user("scram-sha-512", "wrong"), "SASL_AUTHENTICATION_FAILED", false},
		{"unknown authority", b.secure, &kafka.TLS{}, user("plain", brokerPassword), "certificate signed by unknown authority", false},
		{"no client certificate", b.mutual, trusting, nil, "certificate", false},
		{"expired client certificate", b.mutual, &kafka.TLS{CAFile: b.file("ca.pem"), CertFile: b.file("expired.pem"), KeyFile: b.file("expired.key")}, nil, "the broker refuses the TLS connection", false},
		{"expired broker certificate", b.old, trusting, nil, "the broker's certificate has expired", false},
		{"TLS to a plain port", b.address, trusting, nil, "TLS", true},
		{"no TLS to a TLS port", b.mutual, nil, nil, "TLS", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := s.options()
			o.Brokers, o.TLS, o.SASL, o.RequestTimeout = []string{c.address}, c.tls, c.sasl, 2*time.Second
			r, err := kafka.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			states, _, err := r.Partitions(ctx)
			retry, reason := kafka.Classify(err)
			switch {
			case c.fault == "":
				if err != nil || len(states) != 1 || states[0].End != 30 {
					t.Errorf("partitions %+v: %v", states, err)
				}
			case err == nil:
				t.Errorf("no error, want %q", c.fault)
			case !strings.Contains(err.Error()+reason, c.fault) || retry != c.retry || strings.Contains(err.Error(), brokerPassword):
				t.Errorf("%v (retry %v: %s), want %q and retry %v", err, retry, reason, c.fault, c.retry)
			}
		})
	}
}

// What a user may not do is told with the right that is missing, and a group
// that may not be written to stops nothing.
func testRights(t *testing.T, b *broker) {
	s := newShop(t, b, 2)
	s.send(s.change(day(0).Add(time.Hour), 60, true))
	b.createTopic(t, s.topic+"-dead", 1)
	admin := b.admin(t)
	const narrow = "narrow"
	upsert := kadm.UpsertSCRAM{User: narrow, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: brokerPassword}
	if done, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{upsert}); err != nil || done.Error() != nil {
		t.Fatal(err, done.Error())
	}
	grant := func(user string, build func(*kadm.ACLBuilder) *kadm.ACLBuilder) {
		t.Helper()
		acl := build(kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:" + user).AllowHosts("*"))
		if done, err := admin.CreateACLs(ctx, acl); err != nil || len(done) == 0 || done[0].Err != nil {
			t.Fatalf("grant: %v %+v", err, done)
		}
	}
	on := func(topic string, operations ...kadm.ACLOperation) func(*kadm.ACLBuilder) *kadm.ACLBuilder {
		return func(a *kadm.ACLBuilder) *kadm.ACLBuilder { return a.Topics(topic).Operations(operations...) }
	}
	grant(brokerUser, on(s.topic, kadm.OpRead))
	grant(brokerUser, on(s.topic+"-dead", kadm.OpWrite))
	grant(brokerUser, func(a *kadm.ACLBuilder) *kadm.ACLBuilder { return a.Groups(s.topic).Operations(kadm.OpRead) })

	r := s.rig()
	r.clock = day(1).Add(time.Hour)
	config := filepath.Join(t.TempDir(), "gscd.yaml")
	text := fmt.Sprintf(`
kafka:
  brokers: [%q]
  group: %s
  tls: {ca_file: %q}
  sasl: {mechanism: scram-sha-512, username: %s, password: %q}
calendar: {timezone: Asia/Shanghai}
tables:
  - {name: orders, location: %q, topics: [%s]DEAD}
`, b.secure, s.topic, b.file("ca.pem"), narrow, brokerPassword, r.store.Store.String(), s.topic)
	ingest := func(deadLetter string) (string, error) {
		t.Helper()
		if err := os.WriteFile(config, []byte(strings.Replace(text, "DEAD", deadLetter, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := program(t, "ingest", "--until-end", "--now", r.clock.Format(time.RFC3339), "-c", config).CombinedOutput()
		if strings.Contains(string(out), brokerPassword) {
			t.Errorf("the password is printed:\n%s", out)
		}
		return string(out), err
	}
	refused := func(what, deadLetter string, words ...string) {
		t.Helper()
		out, err := ingest(deadLetter)
		for _, w := range words {
			if err == nil || r.exists() || !strings.Contains(out, w) {
				t.Errorf("%s: %v, want %q:\n%s", what, err, w, out)
			}
		}
	}
	refused("no right at all", "", s.topic, "the right READ on the topic is missing", "TOPIC_AUTHORIZATION_FAILED")
	grant(narrow, on(s.topic, kadm.OpDescribe))
	refused("described, not read", "", s.topic, "the right READ on the topic is missing", "TOPIC_AUTHORIZATION_FAILED")
	grant(narrow, on(s.topic, kadm.OpRead))
	refused("no right to write dead letters", ", dead_letter: {to: topic:"+s.topic+"-dead}", s.topic+"-dead", "the right WRITE on the topic is missing")
	out, err := ingest("")
	for _, w := range []string{"the right READ on the group is missing", "the right DESCRIBE_CONFIGS on the topic is missing"} {
		if err != nil || !strings.Contains(out, w) {
			t.Errorf("neither of the rights that can be done without: %v, want %q\n%s", err, w, out)
		}
	}
	s.check(r, "2022-07-15")
	grant(narrow, on(s.topic, kadm.OpDescribeConfigs))
	grant(narrow, on(s.topic+"-dead", kadm.OpWrite, kadm.OpDescribe))
	grant(narrow, func(a *kadm.ACLBuilder) *kadm.ACLBuilder { return a.Groups(s.topic).Operations(kadm.OpRead) })
	s.send(s.change(day(1).Add(2*time.Hour), 40, true))
	r.clock = day(2).Add(time.Hour)
	if out, err := ingest(", dead_letter: {to: topic:" + s.topic + "-dead}"); err != nil || strings.Contains(out, "is missing") {
		t.Errorf("with every right: %v\n%s", err, out)
	}
	s.check(r, "2022-07-15", "2022-07-16")
}

// jwt makes an unsecured token, which the test broker believes until its end.
func jwt(end time.Time) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, brokerUser, time.Now().Add(-time.Minute).Unix(), end.Unix())) + "."
}

// follow reads until so many records have come, and gives the error that comes instead.
func follow(t *testing.T, c *kafka.Consumer, records int) error {
	t.Helper()
	for end := time.Now().Add(time.Minute); records > 0; {
		if time.Now().After(end) {
			t.Fatalf("%d records have not come", records)
		}
		blocks, err := c.Poll(ctx, 0)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			records -= len(b.Records)
		}
	}
	return nil
}

// A token that ends while a table is read is one clear error; with a new one in
// the file reading goes on where it stopped.
func testTokens(t *testing.T, b *broker) {
	s := newShop(t, b, 1)
	s.send(s.change(day(0).Add(time.Hour), 30, true))
	file := filepath.Join(t.TempDir(), "token")
	secrets := []string{}
	write := func(end time.Time) {
		t.Helper()
		secrets = append(secrets, jwt(end))
		if err := os.WriteFile(file, []byte(jwt(end)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	core, logs := observer.New(zapcore.DebugLevel)
	open := func() *kafka.Consumer {
		t.Helper()
		o := s.options()
		o.Brokers, o.RequestTimeout, o.Logger = []string{b.tokens}, 3*time.Second, zap.New(core)
		o.TLS = &kafka.TLS{CAFile: b.file("ca.pem")}
		o.SASL = &kafka.SASL{Mechanism: "oauthbearer", TokenFile: file}
		c, err := kafka.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	write(time.Now().Add(-time.Hour))
	c := open()
	_, _, err := c.Partitions(ctx)
	if retry, _ := kafka.Classify(err); err == nil || retry || c.Retryable(err) || !strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") {
		t.Fatalf("with an old token: %v", err)
	}
	write(time.Now().Add(8 * time.Second))
	states, _, err := c.Partitions(ctx)
	if err != nil {
		t.Fatalf("with a new token: %v", err)
	}
	if err := c.Assign(ctx, map[change.PartitionID]int64{states[0].ID: 0}); err != nil {
		t.Fatal(err)
	}
	if err := follow(t, c, 30); err != nil {
		t.Fatal(err)
	}
	if err = follow(t, c, 1); err == nil || !c.Retryable(err) || !strings.Contains(err.Error(), "no longer accepted") {
		t.Fatalf("after the token's end: %v", err)
	}
	s.send(s.change(day(0).Add(2*time.Hour), 20, true))
	write(time.Now().Add(time.Hour))
	began := time.Now()
	for err != nil && time.Since(began) < 30*time.Second {
		err = follow(t, c, 20)
	}
	if err != nil {
		t.Errorf("with a new token again: %v", err)
	}
	for _, secret := range secrets {
		for _, entry := range logs.All() {
			if strings.Contains(fmt.Sprint(entry.Message, entry.ContextMap()), secret) {
				t.Errorf("a token is in the log: %s", entry.Message)
			}
		}
	}
}

// A password that is changed at the brokers while a table is read is one clear error; with
// the new one in the file reading goes on where it stopped, without a restart.
func testRotatedPassword(t *testing.T, b *broker) {
	s := newShop(t, b, 1)
	s.send(s.change(day(0).Add(time.Hour), 30, true))
	const user = "rotated"
	passwords := []string{"f1rst-do-not-tell", "s3cond-do-not-tell"}
	file := filepath.Join(t.TempDir(), "password")
	set := func(password string) {
		t.Helper()
		upsert := kadm.UpsertSCRAM{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}
		if done, err := b.admin(t).AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{upsert}); err != nil || done.Error() != nil {
			t.Fatal(err, done.Error())
		}
	}
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set(passwords[0])
	write(passwords[0])
	core, logs := observer.New(zapcore.DebugLevel)
	o := s.options()
	o.Brokers, o.RequestTimeout, o.Logger = []string{b.secure}, 3*time.Second, zap.New(core)
	o.TLS = &kafka.TLS{CAFile: b.file("ca.pem")}
	o.SASL = &kafka.SASL{Mechanism: "scram-sha-512", Username: user, PasswordFile: file}
	c, err := kafka.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var states []change.PartitionState
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(200 * time.Millisecond) { // until the broker knows the user
		if states, _, err = c.Partitions(ctx); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Assign(ctx, map[change.PartitionID]int64{states[0].ID: 0}); err != nil {
		t.Fatal(err)
	}
	if err := follow(t, c, 30); err != nil {
		t.Fatal(err)
	}
	set(passwords[1]) // the broker asks for the login again within 4 s
	if err = follow(t, c, 1); err == nil || !c.Retryable(err) || !strings.Contains(err.Error(), "no longer accepted") {
		t.Fatalf("after the change: %v", err)
	}
	s.send(s.change(day(0).Add(2*time.Hour), 20, true))
	write(passwords[1])
	for began := time.Now(); err != nil && time.Since(began) < 30*time.Second; {
		err = follow(t, c, 20)
	}
	if err != nil {
		t.Errorf("with the new password: %v", err)
	}
	for _, entry := range logs.All() {
		for _, password := range passwords {
			if strings.Contains(fmt.Sprint(entry.Message, entry.ContextMap()), password) {
				t.Errorf("a password is in the log: %s", entry.Message)
			}
		}
	}
}

// A broker's certificate that has expired is refused until the broker has a new one.
func testRenewedBroker(t *testing.T, b *broker) {
	s := newShop(t, b, 1)
	s.send(s.change(day(0).Add(time.Hour), 30, true))
	o := s.options()
	o.Brokers, o.RequestTimeout = []string{b.old}, 3*time.Second
	o.TLS = &kafka.TLS{CAFile: b.file("ca.pem")}
	c, err := kafka.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _, err = c.Partitions(ctx)
	if retry, reason := kafka.Classify(err); err == nil || retry || !strings.Contains(reason, "has expired") || !strings.Contains(err.Error(), "expired") {
		t.Fatalf("an expired certificate: %v (retry %v: %s)", err, retry, reason)
	}
	name, chain := "listener.name.old.ssl.keystore.location", b.file("broker.chain.pem")
	if done, err := b.admin(t).AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: name, Value: &chain}}, 1); err != nil || done[0].Err != nil {
		t.Fatal(err, done)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(300 * time.Millisecond) {
		if _, _, err = c.Partitions(ctx); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		t.Errorf("with a new certificate: %v", err)
	}
}

// A client certificate that is renewed in place is used for the next connection.
func testRotatedCertificate(t *testing.T, b *broker) {
	s := newShop(t, b, 1)
	dir := t.TempDir()
	copies := func(from string) {
		t.Helper()
		for _, end := range []string{".pem", ".key"} {
			data, err := os.ReadFile(filepath.Join(from, "client"+end))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "client"+end), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	foreign := t.TempDir()
	writeCertificates(t, foreign)
	copies(foreign)
	o := s.options()
	o.Brokers, o.RequestTimeout = []string{b.mutual}, 3*time.Second
	o.TLS = &kafka.TLS{CAFile: b.file("ca.pem"), CertFile: filepath.Join(dir, "client.pem"), KeyFile: filepath.Join(dir, "client.key")}
	c, err := kafka.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Partitions(ctx); err == nil {
		t.Fatal("a certificate of another authority is accepted")
	}
	copies(b.dir)
	if _, _, err := c.Partitions(ctx); err != nil {
		t.Errorf("with the renewed certificate: %v", err)
	}
}

// The program reads its credentials from the configuration, and tells nobody.
func testSecureProgram(t *testing.T, b *broker) {
	s := newShop(t, b, 2)
	s.send(s.change(day(0).Add(time.Hour), 100, true))
	r := s.rig()
	r.clock = day(1).Add(time.Hour)
	configure := func(password string) string {
		path := filepath.Join(t.TempDir(), "gscd.yaml")
		text := fmt.Sprintf(`
kafka:
  brokers: [%q]
  tls: {ca_file: %q}
  sasl: {mechanism: scram-sha-512, username: %s, password: %q}
calendar: {timezone: Asia/Shanghai}
tables:
  - {name: orders, location: %q, topics: [%s]}
`, b.secure, b.file("ca.pem"), brokerUser, password, r.store.Store.String(), s.topic)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := []string{"ingest", "--until-end", "--now", r.clock.Format(time.RFC3339), "--log-level", "debug", "-c"}
	out, err := program(t, append(slices.Clone(args), configure("wrong"))...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "SASL_AUTHENTICATION_FAILED") || r.exists() {
		t.Errorf("with a wrong password: %v\n%s", err, out)
	}
	out, err = program(t, append(args, configure(brokerPassword))...).CombinedOutput()
	if err != nil || strings.Contains(string(out), brokerPassword) {
		t.Errorf("with the right password: %v\n%s", err, out)
	}
	s.check(r, "2022-07-15")

	// Nothing that the program serves, dumps or stores has the password either.
	config := configure(brokerPassword)
	var all watcher
	for _, command := range []string{"show", "check"} {
		out, err := program(t, "config", command, "-c", config).CombinedOutput()
		if err != nil {
			t.Errorf("config %s: %v\n%s", command, err, out)
		}
		all.Write(out)
	}
	address := freePorts(t, 1)[0]
	p := startProcess(t, binary(t), "ingest", "-c", config, "--http", address, "--log-level", "debug")
	go io.Copy(io.Discard, p.stdout)
	pages := map[string]string{}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && len(pages) < 5; time.Sleep(100 * time.Millisecond) {
		for _, page := range []string{"healthz", "readyz", "metrics", "status", "none"} {
			answer, err := http.Get("http://" + address + "/" + page)
			if err != nil {
				continue
			}
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err == nil && (answer.StatusCode == 200 || page == "none") {
				pages[page] = fmt.Sprint(answer.Header, string(body))
			}
		}
	}
	if len(pages) < 5 || !strings.Contains(pages["metrics"], "gscd_") || !strings.Contains(pages["status"], "orders") {
		t.Errorf("pages: %v", pages)
	}
	for _, text := range pages {
		all.Write([]byte(text))
	}
	p.end(t, syscall.SIGQUIT) // every goroutine is dumped; the process's own check reads that
	all.Write(filesBelow(t, strings.TrimPrefix(r.store.Store.String(), "file://")))
	all.check(t, []string{"ingest", "-c", config}, nil)
}
