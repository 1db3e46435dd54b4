//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCaptureTLS: a user who must come by TLS, and has the documented rights alone, captures
// rows and binlog; without the authority's certificate, or with another password, nothing is
// read, and no message has the password.
func TestCaptureTLS(t *testing.T) {
	t.Parallel()
	address, ca, root := mariaDB(t, binlogSettings...)
	m := &maria{t, address, root}
	c := newCaptured(t, startBroker(t), m, "gscd", "transactions", "users")
	m.run("CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(20))", "INSERT INTO users VALUES (1, 'a'), (2, 'b')",
		"CREATE USER gscd IDENTIFIED BY '"+mariaPassword+"' REQUIRE SSL", "GRANT SELECT ON "+c.db+".* TO gscd", "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO gscd")
	text, err := os.ReadFile(c.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.config, []byte(strings.Replace(string(text), "mysql://root@", "mysql://gscd@", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	capture := []string{"capture", "-c", c.config, "--until-end", "--log-level", "error"}
	for _, wrong := range []struct {
		environment []string
		says        string
	}{
		{[]string{"GSCD_MYSQL_PASSWORD=" + mariaPassword}, "Access denied"},
		{[]string{"GSCD_MYSQL_PASSWORD=" + mariaPassword + "x", "GSCD_MYSQL_CA_FILE=" + ca}, "Access denied"},
		{[]string{"GSCD_MYSQL_PASSWORD=" + mariaPassword, "GSCD_MYSQL_TLS=require"}, "mysql.ca_file"},
	} {
		if said, code := gscdFails(t, wrong.environment, capture...); code != 1 || !strings.Contains(said, wrong.says) || strings.Contains(said, mariaPassword) {
			t.Errorf("exit %d, want %q:\n%s", code, wrong.says, said)
		}
	}
	secure := []string{"GSCD_MYSQL_PASSWORD=" + mariaPassword, "GSCD_MYSQL_CA_FILE=" + ca}
	// Where the server asks for a certificate of ours, the password alone is not enough.
	m.run("ALTER USER gscd REQUIRE X509")
	if said, code := gscdFails(t, secure, capture...); code != 1 || !strings.Contains(said, "Access denied") {
		t.Errorf("without a certificate: exit %d:\n%s", code, said)
	}
	secure = append(secure, "GSCD_MYSQL_CERT_FILE="+ca, "GSCD_MYSQL_KEY_FILE="+filepath.Join(filepath.Dir(ca), "server.key"))
	gscdIn(t, secure, capture...)
	m.run("UPDATE users SET name = 'c' WHERE id = 2") // by the binlog
	gscdIn(t, secure, capture...)
	gscd(t, "ingest", "-c", c.config, "--until-end", "--log-level", "error")
	c.same("rows", c.lake("users", "id", ""), c.server("users", "id"))
}
